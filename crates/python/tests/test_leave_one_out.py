"""Errors on examples left out, by steps that are really taken without them."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.leave_one_out import LeaveOneOut

from .prompts import close, guises, prompt


def literal(features, residuals, query, rho, horizons):
    """Errors on the left-out examples and corrections at the query, by gradient steps."""
    examples = len(residuals)
    left, moved = np.zeros((len(horizons), examples)), np.zeros((len(horizons), examples))
    for example in range(examples):
        kept = np.arange(examples) != example
        rows, targets = features[kept], residuals[kept]
        for index, horizon in enumerate(horizons):
            theta = np.zeros(features.shape[1])
            for _ in range(horizon):
                theta = theta + rho * rows.T @ (targets - rows @ theta)
            left[index, example] = residuals[example] - features[example] @ theta
            moved[index, example] = query @ theta
    return left, moved


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("horizons", [[0, 1, 8], [0, 70, 5]])
def test_everything_follows_from_steps_without_each_example(seed, horizons):
    features, residuals, query = prompt(seed)
    kernel, coupling = features @ features.T, features @ query
    step = fewstep.StepSize.fraction(0.3, fewstep.Spectrum(kernel))
    left_out = LeaveOneOut(kernel, residuals, step, horizons, coupling)
    left, moved = literal(features, residuals, query, float(step), horizons)
    size = float(np.abs(residuals).max())
    assert left_out.candidates == horizons
    assert close(left_out.errors, left, size, 1e3)
    squares = np.sort(left**2, axis=1)
    assert close(left_out.risk("plain"), squares.mean(axis=1), many=1e3)
    assert close(left_out.risk("trimmed"), squares[:, 1:-1].mean(axis=1), many=1e3)
    assert close(left_out.risk("median"), np.median(squares, axis=1), many=1e3)
    balanced = np.sqrt(squares.mean(axis=1) * np.median(squares, axis=1))
    assert close(left_out.risk("balanced"), balanced, many=1e3)
    weights = coupling**2 / np.diag(kernel)
    weighted = (left**2) @ weights / weights.sum()
    assert close(left_out.risk("query-weighted"), weighted, many=1e3)
    risk = squares.mean(axis=1)
    choice = left_out.choose("plain", 0.0)
    assert choice.horizon == horizons[int(np.argmin(risk))]
    assert left_out.choose("plain", 1e6).horizon == 0
    prior = np.array([4.0 * 2, 1.0, 1.0])
    posterior = prior * risk ** (-0.5 * 6)
    assert close(left_out.posterior("plain", 0.5, 4.0), posterior / posterior.sum(), many=1e4)
    # ⌈0.6 · 7⌉ = 5: the second smallest lower end and the fifth smallest upper end.
    interval = left_out.interval(1, 0.6)
    lower = np.sort(moved[1] - np.abs(left[1]))[1]
    upper = np.sort(moved[1] + np.abs(left[1]))[4]
    assert close([interval.lower, interval.upper], [lower, upper], size, 1e3)
    shares = np.array([0.2, 0.5, 0.3])
    interval = left_out.interval_of_average(shares, 0.6)
    lower = np.sort(shares @ moved - np.abs(shares @ left))[1]
    upper = np.sort(shares @ moved + np.abs(shares @ left))[4]
    assert close([interval.lower, interval.upper], [lower, upper], size, 1e3)


def test_too_few_examples_have_no_finite_interval():
    step = fewstep.StepSize.fraction(0.1, fewstep.Spectrum(np.eye(2)))
    interval = LeaveOneOut(np.eye(2), [1.0, 2.0], step, [0], [0.0, 0.0]).interval(0, 0.9)
    assert (interval.lower, interval.upper) == (-np.inf, np.inf)
    assert interval.to_dict() == {"lower": -np.inf, "upper": np.inf}


def test_arrays_in_every_guise_are_the_same():
    kernel = np.array([[2.0, 0.5], [0.5, 1.25]])
    vector = np.array([0.5, -1.0])
    step = fewstep.StepSize.fraction(0.25, fewstep.Spectrum(kernel))
    expected = LeaveOneOut(kernel, vector, step, [0, 3], vector)
    for rows, other in zip(guises(kernel), guises(vector)):
        assert LeaveOneOut(rows, other, step, [0, 3], other) == expected


def test_what_does_not_fit_is_refused():
    step = fewstep.StepSize.fraction(0.5, fewstep.Spectrum(np.eye(2)))
    left_out = LeaveOneOut(np.eye(2), [1.0, 2.0], step, range(3))
    with pytest.raises(errors.NoQuery, match="a risk weighted by the query needs a query"):
        left_out.risk("query-weighted")
    with pytest.raises(errors.NoQuery, match="jackknife"):
        left_out.interval(0, 0.8)
    allowed = "use plain, trimmed, median, balanced or query-weighted"
    with pytest.raises(errors.UnknownName, match=allowed):
        left_out.risk("mean")
    with pytest.raises(errors.OutOfRange, match="gate is -1"):
        left_out.choose("plain", -1.0)
    with pytest.raises(errors.OutOfRange, match="odds is 0"):
        left_out.posterior("plain", 1.0, 0.0)
    with_query = LeaveOneOut(np.eye(2), [1.0, 2.0], step, range(3), [0.5, 0.5])
    with pytest.raises(errors.OutOfRange, match="position of the candidate is 3"):
        with_query.interval(3, 0.8)
    with pytest.raises(errors.StepTooLarge):
        LeaveOneOut(4 * np.eye(2), [1.0, 2.0], step, range(3))
    with pytest.raises(errors.Empty):
        LeaveOneOut(np.eye(2), [1.0, 2.0], step, [])
    with pytest.raises(errors.OutOfRange, match="make over 50000000 errors"):
        LeaveOneOut(np.eye(100), np.ones(100), step, range(600_000))

"""Errors on examples left out, by steps that are really taken without them."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import Answers, errors
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


def test_errors_may_be_found_otherwise():
    rows = np.array([[1.0, 3.0], [0.0, 2.0]])
    left_out = LeaveOneOut.from_errors([0, 8], rows)
    assert (left_out.candidates, left_out.errors.tolist()) == ([0, 8], rows.tolist())
    assert left_out.risk("plain").tolist() == [5.0, 2.0]
    assert left_out.choose("plain", 0.0).horizon == 8
    for other in guises(rows):
        assert LeaveOneOut.from_errors(range(0, 9, 8), other) == left_out
    with pytest.raises(errors.Empty, match="candidate horizons is empty"):
        LeaveOneOut.from_errors([], np.zeros((0, 2)))
    with pytest.raises(errors.SizeMismatch, match="rows of leave-one-out errors has size 2, but 1 is"):
        LeaveOneOut.from_errors([0], rows)
    with pytest.raises(errors.NotFinite, match="has the entry NaN at position 0"):
        LeaveOneOut.from_errors([0], [[np.nan]])
    with pytest.raises(errors.NoQuery):
        left_out.interval(0, 0.5)


def copies(candidates) -> LeaveOneOut:
    """Three copies of one example, predicted as 1/2, with the labels 1, 1 and 0."""
    kernel = np.ones((3, 3))
    step = fewstep.StepSize(0.25, fewstep.Spectrum(kernel))
    return LeaveOneOut(kernel, [0.5, 0.5, -0.5], step, candidates)


def test_every_label_counts_the_same():
    answers = Answers([1, 1, 0], [0.5, 0.5, 0.5], (0, 1))
    left_out = copies([0, 1000])
    answered = left_out.with_answers([0.5, 0.5, -0.5], answers)
    # Many steps predict 1/2 for the first two, which leaves 1/2, and 1 for the last, which leaves 1:
    # a mean fourth power of (1/16 + 1)/2.
    many = np.sqrt(17 / 32)
    assert close(answered.risk("by-label"), [0.25, many])
    assert answered.choose("by-label", 0.0).horizon == 0
    assert close(answered.posterior("by-label", 1.0, 1.0)[1], 1 / (1 + (4 * many) ** 3))
    # Without labels two of three examples outweigh the last one.
    assert close(answered.risk("median"), [0.25, 0.25])
    # What was asked stays without them, and the other risks are the same.
    assert left_out == copies([0, 1000]) != answered
    assert answered.errors.tolist() == left_out.errors.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_cut_to_the_range_of_the_labels(seed):
    features, residuals, query = prompt(seed)
    kernel, horizons = features @ features.T, [0, 1, 8]
    step = fewstep.StepSize.fraction(0.3, fewstep.Spectrum(kernel))
    left_out = LeaveOneOut(kernel, residuals, step, horizons)
    # Labels of two, three and one examples, whose order and numbers do not matter.
    labels, shares = [7, 0, 7, 3, 0, 0], np.array([3, 2, 3, 6, 2, 2]) / 18
    predictions = np.linspace(-0.5, 0.5, 6)
    answers = Answers(labels, predictions, [-1.0, 0.75])
    found = left_out.with_answers(residuals, answers).risk("by-label")
    left, _ = literal(features, residuals, query, float(step), horizons)
    predicted = np.clip(predictions + residuals - left, -1.0, 0.75)
    squares = (predictions + residuals - predicted) ** 2
    assert np.any(squares != left**2)
    assert close(found, np.sqrt(squares**2 @ shares), many=1e4)
    # More than three labels are numbers: every example counts the same, and roots are averaged.
    answers = Answers([7, 0, 7, 3, 1, 1], predictions, [-1.0, 0.75])
    found = left_out.with_answers(residuals, answers).risk("by-label")
    assert close(found, np.mean(squares**0.25, axis=1) ** 4, many=1e4)


def test_answers_say_which_are_alike_and_what_room_there_is():
    answers = Answers([3, 0], [0.25, 0.5], (0.0, 1.0))
    assert answers.labels == [3, 0]
    assert [(room.lower, room.upper) for room in answers.room] == [(-0.25, 0.75), (-0.5, 0.5)]
    assert answers.to_dict() == {
        "labels": [3, 0],
        "room": [{"lower": -0.25, "upper": 0.75}, {"lower": -0.5, "upper": 0.5}],
    }
    assert repr(answers) == "Answers(2 examples, 2 labels)"
    assert answers == Answers(iter([3, 0]), [0.25, 0.5], [0, 1])
    assert answers == Answers(np.array([3, 0]), np.array([0.25, 0.5]), np.array([0, 1]))
    assert answers != Answers([3, 3], [0.25, 0.5], (0.0, 1.0))
    assert answers != Answers([3, 0], [0.25, 0.5], (0.0, 2.0))


def endless():
    while True:
        yield 0


def test_answers_that_do_not_fit_are_refused():
    with pytest.raises(errors.SizeMismatch, match="predictions has size 1, but 2 is needed"):
        Answers([0, 1], [0.5], (0.0, 1.0))
    with pytest.raises(errors.SizeMismatch, match="range of the labels has size 3, but 2 is"):
        Answers([0], [0.5], (0.0, 0.5, 1.0))
    with pytest.raises(errors.OutOfRange, match="largest value of a label is 0; it must be at"):
        Answers([0], [0.5], (1.0, 0.0))
    with pytest.raises(errors.NotFinite, match="predictions has the entry NaN at position 0"):
        Answers([0], [np.nan], (0.0, 1.0))
    with pytest.raises(errors.NotFinite, match="range of the labels has the entry inf"):
        Answers([0], [0.5], (0.0, np.inf))
    with pytest.raises(errors.OutOfRange, match="labels holds -1; a label lies between 0 and"):
        Answers([-1], [0.5], (0.0, 1.0))
    with pytest.raises(errors.WrongType, match="labels holds float; labels are integers"):
        Answers([0.5], [0.5], (0.0, 1.0))
    with pytest.raises(errors.WrongType, match="labels is int; give a range or a list of labels"):
        Answers(3, [0.5], (0.0, 1.0))
    with pytest.raises(errors.OutOfRange, match="labels has over 1000000 entries"):
        Answers(endless(), [0.5], (0.0, 1.0))
    left_out, two = copies([0]), Answers([0, 1], [0.5, 0.5], (0.0, 1.0))
    with pytest.raises(errors.SizeMismatch, match="answers has size 2, but 3 is needed"):
        left_out.with_answers([0.5, 0.5, -0.5], two)
    with pytest.raises(errors.SizeMismatch, match="residuals has size 2, but 3 is needed"):
        left_out.with_answers([0.5, 0.5], two)
    with pytest.raises(TypeError):
        left_out.with_answers([0.5, 0.5, -0.5], [0, 1, 1])


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
    # Without labels a risk by label takes them for numbers of any size: roots are averaged.
    assert close(left_out.risk("by-label"), [((1 + 2**0.5) / 2) ** 4] * 3)
    allowed = "expected plain, trimmed, median, by-label or query-weighted"
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

"""Risks and gaps, against Gaussian algebra in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors, risk, theory

from .near import assert_near, normals, same_as

SIGNAL, NOISE = 0.7, 0.3
FEATURES, QUERY = normals(1, 6, 4), normals(2, 4)
KERNEL, COUPLING, VARIANCE = FEATURES @ FEATURES.T, FEATURES @ QUERY, QUERY @ QUERY
BENCHMARK = risk.Benchmark(SIGNAL, NOISE)
SPECTRUM = fewstep.Spectrum(KERNEL)
STEP = fewstep.StepSize.fraction(0.4, SPECTRUM)
# What rounding may do to a sum over modes with weights up to λ²/σ².
OPERATIONS = 36 * np.linalg.cond(KERNEL + NOISE * np.eye(6))

FILTERS = {
    "none": (fewstep.NoUpdate(), np.zeros((6, 6))),
    "descent": (
        fewstep.GradientDescent(STEP, 3),
        float(STEP)
        * sum(np.linalg.matrix_power(np.eye(6) - float(STEP) * KERNEL, t) for t in range(3)),
    ),
    "bayes": (BENCHMARK, np.linalg.inv(KERNEL + NOISE / SIGNAL * np.eye(6))),
}
RESIDUAL_COVARIANCE = SIGNAL * KERNEL + NOISE * np.eye(6)
BAYES = FILTERS["bayes"][1]


@pytest.mark.parametrize("name", FILTERS)
def test_on_the_prompt(name):
    filter, gain = FILTERS[name]
    fit, best = KERNEL @ gain, KERNEL @ BAYES
    missed = np.eye(6) - fit
    expected = SIGNAL * np.trace(missed @ KERNEL @ missed.T) + NOISE * np.trace(fit @ fit.T)
    scale = SIGNAL * np.trace(KERNEL)
    assert_near(risk.prompt_risk(SPECTRUM, filter, BENCHMARK), expected, OPERATIONS, scale)
    gap = np.trace((fit - best) @ RESIDUAL_COVARIANCE @ (fit - best).T)
    assert_near(risk.prompt_gap(SPECTRUM, filter, BENCHMARK), gap, OPERATIONS, scale)
    benefit = risk.prompt_benefit(SPECTRUM, filter, BENCHMARK)
    without = np.trace(best @ RESIDUAL_COVARIANCE @ best.T)
    assert_near(benefit.gap_icl, without, OPERATIONS, scale)
    assert_near(benefit.gap_adapted, gap, OPERATIONS, scale)
    assert_near(benefit.improvement, without - gap, OPERATIONS, scale)
    assert benefit.helps is (name != "none")


@pytest.mark.parametrize("name", FILTERS)
def test_at_the_query(name):
    filter, gain = FILTERS[name]
    difference = COUPLING @ (gain - BAYES)
    gap = difference @ RESIDUAL_COVARIANCE @ difference
    without = COUPLING @ BAYES @ RESIDUAL_COVARIANCE @ BAYES @ COUPLING
    left = SIGNAL * (VARIANCE - COUPLING @ BAYES @ COUPLING)
    scale = SIGNAL * VARIANCE + without
    found = risk.query_gap(SPECTRUM, COUPLING, filter, BENCHMARK)
    assert_near(found, gap, OPERATIONS, scale)
    found = risk.query_posterior_variance(SPECTRUM, COUPLING, VARIANCE, BENCHMARK)
    assert_near(found, left, OPERATIONS, scale)
    found = risk.query_risk(SPECTRUM, COUPLING, VARIANCE, filter, BENCHMARK)
    assert_near(found, left + gap, OPERATIONS, scale)
    benefit = risk.query_benefit(SPECTRUM, COUPLING, filter, BENCHMARK)
    assert_near(benefit.gap_icl, without, OPERATIONS, scale)
    assert_near(benefit.gap_adapted, gap, OPERATIONS, scale)
    assert_near(benefit.improvement, without - gap, OPERATIONS, scale)
    assert benefit.helps is (benefit.improvement > 0)


def test_mode_weights():
    values, vectors = np.linalg.eigh(KERNEL)
    expected = (SIGNAL * values + NOISE) * (vectors.T @ COUPLING) ** 2
    found = risk.mode_weights(SPECTRUM, COUPLING, BENCHMARK)
    assert_near(found, expected[::-1], OPERATIONS)
    assert found[4:].tolist() == [0.0, 0.0]


def test_what_no_steps_can_remove():
    target = normals(3, 6)
    left = target - FEATURES @ np.linalg.lstsq(FEATURES, target, rcond=None)[0]
    assert_near(theory.risk.floor(SPECTRUM, target), left @ left, OPERATIONS, target @ target)


def test_one_shrinkage_in_two_worlds():
    best, other = SIGNAL / (SIGNAL + NOISE), 2.0 / 2.5
    gap = 3 * (SIGNAL + NOISE) * (0.2 - best) ** 2
    assert_near(theory.risk.projector_gap(3, 0.2, BENCHMARK), gap, 8)
    bound = 3 * (SIGNAL + NOISE) * ((best - other) / 2) ** 2
    found = theory.risk.separation_bound(3, BENCHMARK, risk.Benchmark(2.0, 0.5))
    assert_near(found, bound, 8, scale=1.0)
    assert theory.risk.separation_bound(3, BENCHMARK, BENCHMARK) == 0.0


def test_shrinkage_per_mode():
    signal, shrinkage = np.array([3.0, 0.5, 0.0]), np.array([0.75, 0.5, 0.125])
    expected = (signal * (1 - shrinkage) ** 2 + 0.5 * shrinkage**2).sum()
    best = signal / (signal + 0.5)
    least = (signal * (1 - best) ** 2 + 0.5 * best**2).sum()
    assert_near(theory.risk.optimal_shrinkages(signal, 0.5), best, 2)
    assert_near(theory.risk.shrinkage_risk(signal, shrinkage, 0.5), expected, 8)
    found = theory.risk.shrinkage_excess(signal, shrinkage, 0.5)
    assert_near(found, expected - least, 8, scale=expected)
    for other in zip(same_as(signal), same_as(shrinkage)):
        assert theory.risk.shrinkage_excess(*other, 0.5) == found


def test_a_decomposition():
    predictions, bayes, targets = normals(4, 30), normals(5, 30), normals(6, 30)
    found = theory.risk.decompose(predictions, bayes, targets)
    losses = {
        "risk": (predictions - targets) ** 2,
        "gap": (predictions - bayes) ** 2,
        "posterior_variance": (bayes - targets) ** 2,
        "cross": 2 * (predictions - bayes) * (bayes - targets),
    }
    for name, loss in losses.items():
        estimate = getattr(found, name)
        assert_near(estimate.mean, loss.mean(), 30, scale=np.abs(loss).max())
        error = loss.std(ddof=1) / np.sqrt(30)
        assert_near(estimate.standard_error, error, 30, scale=np.abs(loss).max())
    assert found.to_dict()["gap"] == {
        "mean": found.gap.mean,
        "standard_error": found.gap.standard_error,
    }
    assert repr(found).startswith("Decomposition(risk=Estimate(mean=")


def test_other_kinds_of_arrays_give_the_same():
    coupling = np.round(8 * COUPLING) / 8
    descent = FILTERS["descent"][0]
    arguments = (SPECTRUM, coupling, descent, BENCHMARK)
    expected = (risk.query_gap(*arguments), risk.query_benefit(*arguments).to_dict())
    for other in same_as(coupling):
        arguments = (SPECTRUM, other, descent, BENCHMARK)
        assert (risk.query_gap(*arguments), risk.query_benefit(*arguments).to_dict()) == expected
        assert theory.risk.floor(SPECTRUM, other) == theory.risk.floor(SPECTRUM, coupling)


def test_what_does_not_fit_is_refused():
    descent = FILTERS["descent"][0]
    with pytest.raises(errors.SizeMismatch, match="coupling has size 2, but 6 is needed"):
        risk.query_gap(SPECTRUM, [1.0, 2.0], descent, BENCHMARK)
    with pytest.raises(errors.NotFinite, match="coupling has the entry NaN at position 5"):
        risk.query_benefit(SPECTRUM, [0, 0, 0, 0, 0, np.nan], descent, BENCHMARK)
    with pytest.raises(errors.OutOfRange, match="query variance is -1"):
        risk.query_posterior_variance(SPECTRUM, COUPLING, -1.0, BENCHMARK)
    with pytest.raises(errors.WrongType, match="filter is str; give one of fewstep's filters"):
        risk.prompt_risk(SPECTRUM, "descent", BENCHMARK)
    with pytest.raises(TypeError):
        risk.prompt_risk(SPECTRUM, descent, descent)
    with pytest.raises(errors.OutOfRange, match="number of tasks is 1; it must be at least 2"):
        theory.risk.decompose([1.0], [1.0], [1.0])
    with pytest.raises(errors.SizeMismatch, match="Bayes predictions has size 1"):
        theory.risk.decompose([1.0, 2.0], [1.0], [1.0, 2.0])
    with pytest.raises(errors.Empty, match="signal variances is empty"):
        theory.risk.optimal_shrinkages([], 1.0)
    with pytest.raises(errors.NotFinite, match="shrinkage has the entry inf"):
        theory.risk.projector_gap(1, np.inf, BENCHMARK)

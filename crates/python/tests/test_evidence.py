"""Evidence and the Gibbs posterior against determinants and sums written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.gibbs import GibbsPosterior, relative_entropy

from .prompts import close, guises, prompt


def literal(kernel, residuals, rho, horizon, noise):
    """(1/2n) {log det Σ + rᵀ Σ⁻¹ r} with Σ = σ² (I − ρK)^(−T), by matrices."""
    n = len(residuals)
    power = np.linalg.matrix_power(np.eye(n) - rho * kernel, horizon)
    quadratic = residuals @ power @ residuals
    variance = {
        "profiled": quadratic / n,
        "plug-in": residuals @ residuals / n,
    }.get(noise, noise)
    logarithm = n * np.log(variance) - np.linalg.slogdet(power)[1]
    return (logarithm + quadratic / variance) / (2 * n)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", ["profiled", "plug-in", 0.7])
def test_evidence_is_its_definition(seed, noise):
    features, residuals, _ = prompt(seed)
    kernel = features @ features.T
    spectrum = fewstep.Spectrum(kernel)
    step = fewstep.StepSize.fraction(0.2, spectrum)
    expected = [literal(kernel, residuals, float(step), T, noise) for T in range(9)]
    evidence = fewstep.Evidence(spectrum, residuals, step)
    assert close(evidence.curve_to(8, noise), expected, many=1e3)
    assert close(evidence.curve([5, 0, 3], noise), np.array(expected)[[5, 0, 3]], many=1e3)
    assert close(evidence.at(4, noise), expected[4], many=1e3)
    curve = fewstep.evidence_curve(spectrum, residuals, step, noise, 8)
    assert curve.tolist() == evidence.curve_to(8, noise).tolist()
    best = evidence.minimiser(noise)
    if np.isfinite(best):
        around = [evidence.at(max(best + shift, 0), noise) for shift in (-0.1, 0, 0.1)]
        assert min(around) == around[1]
    power = np.linalg.matrix_power(np.eye(6) - float(step) * kernel, 3)
    assert close(evidence.noise_variance(3), residuals @ power @ residuals / 6, many=1e3)


def test_the_gate_says_whether_the_first_step_helps():
    asked = set()
    for seed in range(30):
        features, residuals, _ = prompt(seed)
        spectrum = fewstep.Spectrum(features @ features.T)
        step = fewstep.StepSize.fraction(0.1, spectrum)
        evidence = fewstep.Evidence(spectrum, residuals, step)
        asked.add(evidence.gate() > 1)
        for noise in ("profiled", "plug-in"):
            assert (evidence.gate() > 1) == (evidence.at(1e-4, noise) < evidence.at(0, noise))
        given = evidence.gate_given(0.5) > 1
        assert given == (evidence.at(1e-4, 0.5) < evidence.at(0, 0.5))
    assert asked == {True, False}


def test_the_best_horizon_is_the_smallest_value():
    choice = fewstep.best_horizon([0, 4, 9], [1.0, 0.5, 0.75])
    assert (choice.horizon, choice.index, choice.at_edge) == (4, 1, False)
    assert choice.to_dict() == {"horizon": 4, "index": 1, "at_edge": False}
    assert repr(choice) == "HorizonChoice(horizon=4, index=1, at_edge=False)"
    assert fewstep.best_horizon(range(3), np.array([2.0, 1.0, 0.0])).at_edge
    assert fewstep.best_horizon([5, 3], [1.0, 1.0]).horizon == 3
    with pytest.raises(errors.Empty, match="candidate horizons is empty"):
        fewstep.best_horizon([], [])
    with pytest.raises(errors.NotFinite):
        fewstep.best_horizon([0], [np.nan])


def test_horizons_come_from_any_iterable():
    evidence = fewstep.Evidence(
        spectrum := fewstep.Spectrum(np.diag([2.0, 1.0])),
        [1.0, 0.5],
        fewstep.StepSize.fraction(0.1, spectrum),
    )
    expected = evidence.curve([0, 1, 2]).tolist()
    for candidates in (range(3), (0, 1, 2), np.arange(3), iter([0, 1, 2]), np.uint8([0, 1, 2])):
        assert evidence.curve(candidates).tolist() == expected
    with pytest.raises(errors.OutOfRange, match="candidates holds -1; a number of steps lies"):
        evidence.curve([-1])
    with pytest.raises(errors.OutOfRange, match="over 1000000 entries"):
        evidence.curve(itertools.count())
    with pytest.raises(errors.WrongType, match="candidates holds float"):
        evidence.curve([0.5])
    with pytest.raises(errors.WrongType, match="candidates is int"):
        evidence.curve(3)
    with pytest.raises(errors.OutOfRange, match="longest horizon is 4294967295"):
        evidence.curve_to(2**32 - 1)
    with pytest.raises(errors.UnknownName, match="unknown kind of noise .*: expected profiled, plug-in"):
        evidence.at(1, "loud")
    with pytest.raises(errors.OutOfRange, match="noise variance is -1"):
        evidence.at(1, -1.0)
    with pytest.raises(errors.OutOfRange, match="horizon is -1"):
        evidence.at(-1)
    for guise in guises(np.array([1.0, 0.5])):
        again = fewstep.Evidence(spectrum, guise, fewstep.StepSize.fraction(0.1, spectrum))
        assert again == evidence


@pytest.mark.parametrize("seed", range(3))
def test_gibbs_weights_are_a_tilted_prior(seed):
    generator = np.random.default_rng(seed)
    curve, prior = generator.normal(size=5), generator.uniform(0.1, 1, size=5)
    horizons = [7, 0, 2, 1, 30]
    posterior = GibbsPosterior.with_prior(horizons, prior, curve, 6, 0.8)
    weights = prior * np.exp(-0.8 * 6 * curve)
    weights /= weights.sum()
    prior = prior / prior.sum()
    assert posterior.horizons == horizons
    assert close(posterior.prior, prior)
    assert close(posterior.weights, weights, many=1e3)
    assert posterior.map() == horizons[int(np.argmax(weights))]
    assert close(posterior.mean_horizon(), weights @ horizons, many=1e3)
    assert close(posterior.expectation(curve), weights @ curve, many=1e3)
    entropy = np.sum(weights * np.log(weights / prior))
    assert close(posterior.relative_entropy(), entropy, many=1e3)
    assert close(relative_entropy(3 * weights, prior), entropy, many=1e3)
    uniform = GibbsPosterior(horizons, curve, 6, 0.8)
    assert uniform == GibbsPosterior.with_prior(horizons, np.ones(5), curve, 6, 0.8)
    spectrum = fewstep.Spectrum(np.diag([2.0, 1.0]))
    step = fewstep.StepSize.fraction(0.1, spectrum)
    average = posterior.average(step)
    assert isinstance(average, fewstep.Mixture)
    assert [part.horizon for _, part in average.parts] == horizons
    expected = sum(
        weight * fewstep.GradientDescent(step, horizon).gain(1.5)
        for weight, horizon in zip(weights, horizons)
    )
    assert close(average.gain(1.5), expected, many=1e3)


def test_bad_posteriors_are_refused():
    with pytest.raises(errors.OutOfRange, match="candidate horizon is 1; it must be named only"):
        GibbsPosterior([1, 1], [0.0, 0.0], 2, 1.0)
    with pytest.raises(errors.OutOfRange, match="inverse temperature is 0"):
        GibbsPosterior([1], [0.0], 2, 0.0)
    with pytest.raises(errors.OutOfRange, match="prior weight is 0"):
        GibbsPosterior.with_prior([1, 2], [0.0, 1.0], [0.0, 0.0], 2, 1.0)
    with pytest.raises(errors.Empty, match="prompt is empty"):
        GibbsPosterior([1], [0.0], 0, 1.0)
    with pytest.raises(errors.SizeMismatch):
        relative_entropy([1.0], [0.5, 0.5])

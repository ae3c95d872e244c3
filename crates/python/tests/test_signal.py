"""Signal and noise against the normal density written out."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.signal import SignalFit

from .prompts import close, guises, prompt


def literal(kernel, residuals, signal, noise):
    """(1/2n) {log det(τ²K + σ²I) + rᵀ(τ²K + σ²I)⁻¹r}."""
    covariance = signal * kernel + noise * np.eye(len(residuals))
    quadratic = residuals @ np.linalg.solve(covariance, residuals)
    return (np.linalg.slogdet(covariance)[1] + quadratic) / (2 * len(residuals))


@pytest.mark.parametrize("seed", range(8))
def test_the_fit_is_most_likely(seed):
    features, residuals, _ = prompt(seed)
    kernel = features @ features.T
    spectrum = fewstep.Spectrum(kernel)
    fit = SignalFit(spectrum, residuals)
    signal, noise = fit.signal_variance, fit.noise_variance
    assert close(fit.evidence, literal(kernel, residuals, signal, noise), many=1e3)
    # No other pair on a wide grid is more likely.
    scale = residuals @ residuals / 6
    for other_signal in scale * np.array([0.0, *np.geomspace(1e-3, 1e2, 30)]):
        for other_noise in scale * np.geomspace(1e-3, 1e1, 30):
            other = literal(kernel, residuals, other_signal, other_noise)
            assert fit.evidence <= other + 1e-12 * abs(other)
    assert fit.edge == (None if signal > 0 and noise > 0 else "no-signal")
    assert fit.noise_to_signal() == (noise / signal if signal > 0 else np.inf)


def test_given_variances_have_their_evidence():
    features, residuals, _ = prompt(1)
    kernel = features @ features.T
    fit = SignalFit.at(fewstep.Spectrum(kernel), residuals, 0.4, 0.9)
    assert (fit.signal_variance, fit.noise_variance, fit.edge) == (0.4, 0.9, None)
    assert close(fit.evidence, literal(kernel, residuals, 0.4, 0.9), many=1e3)
    assert fit.to_dict() == {
        "signal_variance": 0.4,
        "noise_variance": 0.9,
        "evidence": fit.evidence,
        "edge": None,
    }
    assert SignalFit.at(fewstep.Spectrum(kernel), residuals, 0.4, 0.0).edge == "no-noise"
    assert SignalFit.at(fewstep.Spectrum(kernel), residuals, 0.0, 0.4).edge == "no-signal"
    assert repr(fit) == "SignalFit(signal_variance=0.400, noise_variance=0.900)"


def test_the_best_filter_is_the_posterior_mean():
    features, residuals, _ = prompt(3)
    kernel = features @ features.T
    spectrum = fewstep.Spectrum(kernel)
    fit = SignalFit.at(spectrum, residuals, 0.5, 0.25)
    best = fit.benchmark(residuals)
    assert type(best) is fewstep.Benchmark
    assert (best.signal_variance, best.noise_variance) == (0.5, 0.25)
    mean = 0.5 * kernel @ np.linalg.solve(0.5 * kernel + 0.25 * np.eye(6), residuals)
    assert close(best.prompt_fit(spectrum, residuals), mean, many=1e4)
    # Some noise is left in any case.
    silent = SignalFit.at(spectrum, residuals, 0.5, 0.0).benchmark(residuals)
    assert close(silent.noise_variance, 1e-8 * residuals @ residuals / 6, scale=1e-8)
    explained = features @ np.ones(4) + 0.1 * residuals
    decision = fewstep.decide(kernel, explained, horizon="bayes-filter")
    assert decision.plan.filter == decision.signal.benchmark(explained)


def test_the_bayes_gap_is_a_distance_to_the_posterior_mean():
    features, residuals, query = prompt(2, examples=4, weights=4)
    kernel, coupling = features @ features.T, features @ query
    spectrum = fewstep.Spectrum(kernel)
    step = fewstep.StepSize.fraction(0.3, spectrum)
    fit = SignalFit.at(spectrum, residuals, 0.5, 0.25)
    gaps, best = fit.bayes_gap_horizon(spectrum, coupling, step, [0, 2, 9])
    covariance = 0.5 * kernel + 0.25 * np.eye(4)
    ideal = 0.5 * np.linalg.solve(covariance, coupling)
    expected = []
    for horizon in (0, 2, 9):
        # The weights of the residuals in the correction after the steps.
        weights = np.zeros((4, 4))
        for _ in range(horizon):
            weights = weights + float(step) * (np.eye(4) - kernel @ weights)
        difference = weights.T @ coupling - ideal
        expected.append(difference @ covariance @ difference)
    assert close(gaps, expected, many=1e4)
    assert best.horizon == [0, 2, 9][int(np.argmin(expected))]


def test_guises_and_refusals():
    spectrum = fewstep.Spectrum(np.diag([2.0, 1.0]))
    vector = np.array([0.5, -1.0])
    for guise in guises(vector):
        assert SignalFit(spectrum, guise) == SignalFit(spectrum, vector)
        fit = SignalFit(spectrum, vector)
        assert fit.benchmark(guise) == fit.benchmark(vector)
    with pytest.raises(errors.SizeMismatch, match="residuals has size 1"):
        SignalFit(spectrum, [1.0])
    with pytest.raises(errors.NotFinite):
        SignalFit(spectrum, vector).benchmark([0.0, np.nan])
    with pytest.raises(errors.OutOfRange, match="signal variance is -1"):
        SignalFit.at(spectrum, vector, -1.0, 1.0)
    step = fewstep.StepSize.fraction(0.5, spectrum)
    with pytest.raises(errors.Empty):
        SignalFit(spectrum, vector).bayes_gap_horizon(spectrum, vector, step, [])

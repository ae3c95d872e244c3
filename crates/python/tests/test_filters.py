"""Filters against their formulas, and against steps that are really taken."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors

from .prompts import EPSILON, close, guises, prompt


def filters(spectrum, residuals):
    step = fewstep.StepSize.fraction(0.4, spectrum)
    rho = float(step)
    descent = [fewstep.GradientDescent(step, horizon) for horizon in (0, 1, 5)]
    mean = lambda value: (0.25 * (rho * value) + 0.5 * (1 - (1 - rho * value) ** 5))
    return [
        (fewstep.NoUpdate(), lambda value: 0 * value),
        (descent[2], lambda value: 1 - (1 - rho * value) ** 5),
        (fewstep.theory.GradientFlow(0.75), lambda value: 1 - np.exp(-0.75 * value)),
        (fewstep.BayesFilter(0.3), lambda value: value / (value + 0.3)),
        (fewstep.theory.ExponentialTime(0.3), lambda value: value / (value + 0.3)),
        (fewstep.Benchmark(2.0, 0.6), lambda value: 2 * value / (2 * value + 0.6)),
        (fewstep.Mixture(zip([1.0, 1.0, 2.0], descent)), mean),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_filters_are_their_formulas(seed):
    # As many weights as examples, so that every mode has an inverse.
    features, residuals, query = prompt(seed, examples=5, weights=5)
    kernel, coupling = features @ features.T, features @ query
    spectrum = fewstep.Spectrum(kernel)
    values, modes = np.linalg.eigh(kernel)
    for one, response in filters(spectrum, residuals):
        assert isinstance(one, fewstep.Filter)
        points = np.array([0.25, 1.0, 1.5])
        assert close(one.response(points), response(points)), one
        assert close(one.gain(points), response(points) / points), one
        assert one.gain(1.5) == one.gain(points)[2]
        assert isinstance(one.response(1), float)
        freedom = response(values).sum()
        assert close(one.degrees_of_freedom(spectrum), freedom, many=1e3), one
        fit = modes @ (response(values) * (modes.T @ residuals))
        assert close(one.prompt_fit(spectrum, residuals), fit, many=1e3), one
        weights = modes @ (response(values) / values * (modes.T @ residuals))
        condition = values.max() / values.min()
        size = float(np.max(np.abs(weights)))
        assert close(one.example_weights(spectrum, residuals), weights, size, 64 * condition)
        correction = one.query_correction(spectrum, coupling, residuals)
        size = np.abs(coupling).sum() * size
        assert close(correction, coupling @ weights, size, 64 * condition), one


def test_descent_is_what_steps_do():
    features, residuals, query = prompt(3)
    spectrum = fewstep.Spectrum(features @ features.T)
    step = fewstep.StepSize.fraction(0.5, spectrum)
    theta = np.zeros(4)
    for _ in range(9):
        theta = theta + float(step) * features.T @ (residuals - features @ theta)
    descent = fewstep.GradientDescent(step, 9)
    assert close(descent.prompt_fit(spectrum, residuals), features @ theta, many=1e3)
    correction = descent.query_correction(spectrum, features @ query, residuals)
    assert close(correction, query @ theta, many=1e3)
    assert (descent.step, descent.horizon) == (step, 9)
    variance = descent.prior_variance(np.array([0.5, 2.0]), 0.3)
    expected = 0.3 * ((1 - float(step) * np.array([0.5, 2.0])) ** -9.0 - 1)
    assert close(variance, expected, many=1e3)


def test_projection_and_shrinkage_are_least_squares():
    features, residuals, _ = prompt(5)
    spectrum = fewstep.Spectrum(features @ features.T)
    fit = features @ np.linalg.lstsq(features, residuals, rcond=None)[0]
    full = fewstep.theory.Projection(spectrum).prompt_fit(spectrum, residuals)
    assert np.allclose(full, fit, rtol=0, atol=1e4 * EPSILON)
    shrunk = fewstep.theory.JamesStein(spectrum, residuals, 0.1).prompt_fit(spectrum, residuals)
    expected = (1 - (4 - 2) * 0.1 / (fit @ fit)) * fit
    assert np.allclose(shrunk, expected, rtol=0, atol=1e4 * EPSILON)


def test_fields_and_equality():
    assert fewstep.theory.GradientFlow(2.0).time == 2.0
    assert fewstep.BayesFilter(0.5).noise_to_signal == 0.5
    assert fewstep.theory.ExponentialTime(0.5).rate == 0.5
    benchmark = fewstep.Benchmark(2.0, 0.5)
    assert (benchmark.signal_variance, benchmark.noise_variance) == (2.0, 0.5)
    assert benchmark.noise_to_signal == 0.25
    assert fewstep.theory.GradientFlow(2.0) == fewstep.theory.GradientFlow(2.0) != fewstep.theory.GradientFlow(1.0)
    assert fewstep.NoUpdate() != fewstep.theory.GradientFlow(0.0)
    mixture = fewstep.Mixture([(1, fewstep.NoUpdate()), (3, fewstep.theory.GradientFlow(1.0))])
    assert mixture.parts == [(0.25, fewstep.NoUpdate()), (0.75, fewstep.theory.GradientFlow(1.0))]
    assert type(mixture.parts[1][1]) is fewstep.theory.GradientFlow
    assert mixture.to_dict()["parts"][1] == {"kind": "GradientFlow", "time": 1.0, "weight": 0.75}
    step = fewstep.StepSize(0.125, fewstep.Spectrum([[1.0]]))
    assert repr(fewstep.GradientDescent(step, 3)) == "GradientDescent(step=0.125, horizon=3)"
    assert fewstep.GradientDescent(step, 3).to_dict() == {
        "kind": "GradientDescent",
        "step": 0.125,
        "horizon": 3,
    }


def test_scalars_and_arrays_in_every_guise():
    one = fewstep.BayesFilter(0.25)
    expected = one.response(np.array([0.5, 2.0]))
    for guise in guises(np.array([0.5, 2.0])):
        assert one.response(guise).tolist() == expected.tolist()
    for scalar in (2, 2.0, np.float64(2.0), np.float32(2.0), np.array(2.0), np.int64(2)):
        assert one.gain(scalar) == 1 / 2.25
        assert type(one.gain(scalar)) is float
    assert one.response(np.array([2.0])).shape == (1,)


def test_bad_filters_are_refused():
    with pytest.raises(errors.OutOfRange, match="time is -1; it must be finite and at least 0"):
        fewstep.theory.GradientFlow(-1.0)
    with pytest.raises(errors.OutOfRange, match="noise-to-signal ratio is 0"):
        fewstep.BayesFilter(0.0)
    with pytest.raises(errors.OutOfRange, match="rate is NaN"):
        fewstep.theory.ExponentialTime(np.nan)
    with pytest.raises(errors.OutOfRange, match="noise variance is 0"):
        fewstep.Benchmark(1.0, 0.0)
    with pytest.raises(errors.Empty, match="mixture is empty"):
        fewstep.Mixture([])
    with pytest.raises(errors.OutOfRange, match="sum of the mixture weights is 0"):
        fewstep.Mixture([(0.0, fewstep.NoUpdate())])
    with pytest.raises(errors.WrongType, match="filter is str; give one of fewstep's filters"):
        fewstep.Mixture([(1.0, "steps")])
    with pytest.raises(errors.WrongType, match="give its own parts instead"):
        fewstep.Mixture([(1.0, fewstep.Mixture([(1.0, fewstep.NoUpdate())]))])
    with pytest.raises(errors.WrongShape):
        fewstep.NoUpdate().response(np.eye(2))
    spectrum = fewstep.Spectrum(np.eye(2))
    with pytest.raises(errors.SizeMismatch, match="residuals has size 3, but 2 is needed"):
        fewstep.NoUpdate().prompt_fit(spectrum, [1.0, 2.0, 3.0])
    with pytest.raises(errors.NotFinite, match="coupling has the entry NaN at position 1"):
        fewstep.NoUpdate().query_correction(spectrum, [1.0, np.nan], [1.0, 2.0])
    with pytest.raises(TypeError):
        fewstep.Filter()
    with pytest.raises(TypeError):
        fewstep.GradientDescent(0.1, 3)

"""Times of gradient flow, against their formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
import fewstep.theory.flow
from fewstep import errors
from fewstep.theory import flow

from .near import assert_near, gram

SIGNAL, NOISE = 0.7, 0.3


@pytest.fixture
def kernel():
    return gram(1, 6, 4)


@pytest.fixture
def spectrum(kernel):
    return fewstep.Spectrum(kernel)


def test_the_module_can_be_imported():
    assert fewstep.theory.flow is flow and flow.__name__ == "fewstep.theory.flow"
    assert flow.mode_time.__module__ == "fewstep.theory.flow"


def test_mode_time():
    assert_near(flow.mode_time(2.0, 0.5), np.log(5.0) / 2.0, 1)
    assert flow.mode_time(0.0, 0.25) == 4.0
    message = r"^eigenvalue is -1; it must be finite and at least 0$"
    with pytest.raises(errors.OutOfRange, match=message):
        flow.mode_time(-1.0, 1.0)


def test_the_representative_eigenvalue_is_a_ratio_of_traces(kernel, spectrum):
    covariance = SIGNAL * kernel + NOISE * np.eye(6)
    expected = np.trace(covariance @ kernel) / np.trace(covariance)
    found = flow.representative_eigenvalue(spectrum, SIGNAL, NOISE)
    assert_near(found, expected, 36)
    time = np.log(1.0 + expected * SIGNAL / NOISE) / expected
    assert_near(flow.match_time(spectrum, SIGNAL, NOISE), time, 36)


def risk_by_matrices(kernel, time):
    values, vectors = np.linalg.eigh(kernel)
    left = vectors @ np.diag(np.exp(-time * values)) @ vectors.T
    fitted = np.eye(len(kernel)) - left
    return SIGNAL * np.trace(left @ kernel @ left) + NOISE * np.trace(fitted @ fitted)


def test_the_risk_of_a_time(kernel, spectrum):
    for time in [0.0, 0.3, 2.0]:
        found = flow.flow_risk(spectrum, SIGNAL, NOISE, time)
        assert_near(found, risk_by_matrices(kernel, time), 36, scale=np.trace(kernel))


def test_the_best_time_has_the_smallest_risk(kernel, spectrum):
    best = flow.oracle_time(spectrum, SIGNAL, NOISE)
    least = risk_by_matrices(kernel, best)
    for time in np.geomspace(1e-2, 1e2, 400):
        assert least <= risk_by_matrices(kernel, time) + 1e-12
    assert flow.oracle_time(fewstep.Spectrum(np.zeros((2, 2))), SIGNAL, NOISE) == 0.0


def test_finite_steps_are_ahead_of_the_flow_by_at_most_the_bound(spectrum):
    step = fewstep.StepSize.fraction(0.5, spectrum)
    rho = float(step)
    for eigenvalue in [0.1, 0.9 * spectrum.largest]:
        ahead = np.exp(-7 * rho * eigenvalue) - (1 - rho * eigenvalue) ** 7
        bound = flow.discretisation_bound(step, 7, eigenvalue)
        assert 0.0 < ahead <= bound
        share = rho * eigenvalue
        expected = 7 * share**2 / (2 * (1 - share)) * np.exp(-7 * share)
        assert_near(bound, expected, 8)
    with pytest.raises(errors.OutOfRange, match="below one over the step size"):
        flow.discretisation_bound(step, 7, 2.5 * spectrum.largest)


def test_the_concentration_bound(kernel, spectrum):
    values = np.linalg.eigvalsh(kernel)
    weights = SIGNAL * values + NOISE
    mean = (weights * values).sum() / weights.sum()
    ratio, time = NOISE / SIGNAL, 0.4
    mismatch = (1 - np.exp(-time * mean)) - mean / (mean + ratio)
    spread = (weights * (values - mean) ** 2).sum()
    expected = 2 * weights.sum() * mismatch**2 + 2 * (time + 1 / ratio) ** 2 * spread
    found = flow.concentration_bound(spectrum, SIGNAL, NOISE, time)
    assert_near(found, expected, 100)


def test_the_number_of_steps_of_a_time(spectrum):
    step = fewstep.StepSize(0.125, fewstep.Spectrum([[4.0]]))
    assert flow.horizon_of(0.4, step) == 3
    with pytest.raises(errors.OutOfRange, match="number of steps"):
        flow.horizon_of(1e300, step)


def test_what_is_no_spectrum_is_refused():
    with pytest.raises(TypeError):
        flow.oracle_time([[1.0]], SIGNAL, NOISE)
    with pytest.raises(errors.OutOfRange, match="signal variance is 0"):
        flow.match_time(fewstep.Spectrum([[1.0]]), 0.0, NOISE)

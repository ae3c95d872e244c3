"""Watching real steps, against the linearised model in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.theory import drift

from .near import assert_near, gram, normals, same_as

RESIDUALS = np.array([0.5, -0.25, 1.0, 0.125, -0.75])


@pytest.fixture
def kernel():
    return gram(2, 5, 5)


@pytest.fixture
def watch(kernel):
    spectrum = fewstep.Spectrum(kernel)
    return drift.Watch(spectrum, RESIDUALS, fewstep.StepSize.fraction(0.3, spectrum))


def linear(kernel, horizon):
    rho = 0.3 / np.linalg.eigvalsh(kernel)[-1]
    return RESIDUALS - np.linalg.matrix_power(np.eye(5) - rho * kernel, horizon) @ RESIDUALS


def test_an_observation(kernel, watch):
    shift = linear(kernel, 3) + 0.01 * normals(4, 5)
    other = kernel + 0.1 * gram(5, 5, 2)
    seen = watch.observe(3, shift, kernel=other, update_length=0.4)
    length = np.linalg.norm
    predicted = length(linear(kernel, 3))
    deviation = length(shift - linear(kernel, 3))
    moved = length(other - kernel, 2)
    assert seen.horizon == 3
    assert_near(seen.predicted, predicted, 25)
    assert_near(seen.actual, length(shift), 5)
    assert_near(seen.deviation, deviation, 25, scale=predicted)
    assert_near(seen.relative_deviation, deviation / predicted, 25, scale=1.0)
    assert_near(seen.kernel_drift, moved / length(kernel, 2), 25, scale=2.0)
    rho = 0.3 / length(kernel, 2)
    steepest = np.sqrt(max(length(kernel, 2), length(other, 2)))
    wrong = max(length(RESIDUALS), length(RESIDUALS - shift))
    from_outputs = deviation / ((rho * steepest * wrong) ** 2 * (3 * 2 + 1.5))
    from_kernel = moved / ((np.sqrt(length(other, 2)) + np.sqrt(length(kernel, 2))) * 0.4)
    assert seen.lipschitz == pytest.approx(max(from_outputs, from_kernel), rel=1e-9)
    constants = watch.constants
    assert_near(constants.jacobian_bound, steepest, 25)
    assert_near(constants.residual_scale, wrong, 25)
    assert constants.jacobian_lipschitz == seen.lipschitz
    assert watch.departures[0].to_dict() == seen.to_dict()


def test_how_far_to_trust(kernel, watch):
    assert watch.departures == [] and watch.constants is None and watch.growth_exponent is None
    gap = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    for horizon in [1, 2, 4]:
        predicted = linear(kernel, horizon)
        watch.observe(horizon, predicted + 0.02 * horizon * np.linalg.norm(predicted) * gap)
    assert [watch.trusted_until(limit) for limit in [0.01, 0.03, 0.05, 0.1]] == [0, 1, 2, 4]
    deviations = [seen.deviation for seen in watch.departures]
    times = [0.5 * np.log(horizon * (horizon - 0.5)) for horizon in [1, 2, 4]]
    slope = np.polyfit(times, np.log(deviations), 1)[0]
    assert watch.growth_exponent == pytest.approx(slope, rel=1e-9)
    assert repr(watch) == "Watch(3 observations)"


def test_nothing_is_known_of_a_kernel_that_was_not_given(watch):
    seen = watch.observe(1, RESIDUALS)
    assert seen.kernel_drift is None and seen.to_dict()["kernel_drift"] is None


def test_other_kinds_of_arrays_give_the_same(kernel):
    spectrum = fewstep.Spectrum(kernel)
    step = fewstep.StepSize.fraction(0.3, spectrum)
    shift = np.array([0.25, -0.125, 0.5, 0.0, -0.375])
    exact = np.round(8 * kernel) / 8 + 2 * np.eye(5)
    reference = drift.Watch(spectrum, RESIDUALS, step).observe(2, shift, kernel=exact).to_dict()
    for residuals, moved, other in zip(same_as(RESIDUALS), same_as(shift), same_as(exact)):
        watch = drift.Watch(spectrum, residuals, step)
        assert watch.observe(2, moved, kernel=other).to_dict() == reference


def test_what_does_not_fit_is_refused(kernel, watch):
    spectrum = fewstep.Spectrum(kernel)
    step = fewstep.StepSize.fraction(0.3, spectrum)
    with pytest.raises(errors.SizeMismatch, match="residuals has size 2, but 5 is needed"):
        drift.Watch(spectrum, [1.0, 2.0], step)
    with pytest.raises(errors.NotFinite, match="shift has the entry NaN at position 1"):
        watch.observe(1, [0.0, float("nan"), 0.0, 0.0, 0.0])
    with pytest.raises(errors.SizeMismatch, match="kernel has size 2"):
        watch.observe(1, RESIDUALS, kernel=np.eye(2))
    with pytest.raises(errors.OutOfRange, match="update length is -1"):
        watch.observe(1, RESIDUALS, update_length=-1.0)
    assert watch.departures == []
    watch.observe(2, RESIDUALS)
    with pytest.raises(errors.OutOfRange, match="horizon of the observation is 2"):
        watch.observe(2, RESIDUALS)
    with pytest.raises(errors.OutOfRange, match="tolerance is 0; it must be finite and over 0"):
        watch.trusted_until(0.0)
    steep = fewstep.StepSize.fraction(0.9, fewstep.Spectrum(kernel / 10))
    with pytest.raises(errors.StepTooLarge):
        drift.Watch(spectrum, RESIDUALS, steep)


def test_bounds_from_constants():
    steep, curved, wrong, rho, horizon = 1.5, 0.4, 2.0, 0.2, 6
    constants = drift.LocalConstants(steep, curved, wrong)
    path = steep * rho * horizon * wrong
    assert_near(constants.step_limit, 1 / steep**2, 2)
    assert_near(constants.remainder_bound(0.3), curved * 0.09 / 2, 2)
    assert_near(constants.deviation_bound(rho, horizon), 1.5 * curved * path**2, 8)
    total = sum(2 * (t - 1) + 0.5 for t in range(1, horizon + 1))
    expected = curved * (steep * rho * wrong) ** 2 * total
    assert_near(constants.deviation_sum(rho, horizon), expected, 8)
    assert_near(constants.kernel_drift_bound(rho, horizon), 2 * curved * steep * path, 8)
    first = sum(range(horizon))
    second = rho * steep**2 * sum(t * t for t in range(horizon)) / 2
    rest = 0.7 * curved * steep * (rho * wrong) ** 2 * (first + second)
    found = constants.query_deviation_bound(0.7, 0.9, rho, horizon)
    assert_near(found, 0.45 * path**2 + rest, 16)
    with pytest.raises(errors.OutOfRange, match="step size is 1; it must be at most one over"):
        constants.deviation_bound(1.0, 2)
    with pytest.raises(errors.OutOfRange, match="Lipschitz constant of the Jacobian is -1"):
        drift.LocalConstants(1.0, -1.0, 1.0)
    assert constants == drift.LocalConstants(steep, curved, wrong)
    assert repr(constants).startswith("LocalConstants(jacobian_bound=1.50, ")

"""Spectra and step sizes against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors

from .prompts import EPSILON, close, guises, prompt


@pytest.mark.parametrize("seed", range(5))
def test_modes_decompose_the_kernel(seed):
    features, residuals, _ = prompt(seed)
    kernel = features @ features.T
    spectrum = fewstep.Spectrum(kernel)
    size = np.linalg.norm(kernel, 2)
    assert close(spectrum.eigenvalues, np.linalg.eigvalsh(kernel)[::-1].clip(0), size)
    assert spectrum.largest == spectrum.eigenvalues[0]
    modes = np.array([spectrum.mode(mode) for mode in range(6)])
    assert close(modes.T @ np.diag(spectrum.eigenvalues) @ modes, kernel, size)
    assert close(spectrum.rotate(residuals), modes @ residuals)
    assert close(spectrum.rotate_back(spectrum.rotate(residuals)), residuals)
    inside = features @ np.linalg.lstsq(features, residuals, rcond=None)[0]
    assert np.allclose(spectrum.project(residuals), inside, rtol=0, atol=1e4 * EPSILON)
    assert close(spectrum.project(residuals) + spectrum.project_outside(residuals), residuals)


def test_counts_and_limits():
    spectrum = fewstep.Spectrum(np.diag([4.0, 1.0, 0.0]))
    assert (spectrum.examples, spectrum.rank, spectrum.clamped) == (3, 2, 0)
    assert spectrum.effective_rank == 25 / 17
    assert spectrum.step_limit == 0.25
    assert spectrum.residual < 10 * EPSILON
    assert spectrum.to_dict()["eigenvalues"] == [4.0, 1.0, 0.0]
    assert repr(spectrum) == "Spectrum(3 examples, largest eigenvalue 4.00)"
    assert fewstep.Spectrum(np.diag([4.0, 1.0])) == fewstep.Spectrum([[4, 0], [0, 1]])
    assert fewstep.Spectrum(np.diag([4.0, 1.0])) != spectrum


def test_arrays_in_every_guise_are_the_same():
    kernel = np.array([[2.0, 0.5], [0.5, 1.25]])
    expected = fewstep.Spectrum(kernel)
    for guise in guises(kernel):
        assert fewstep.Spectrum(guise) == expected
    vector = np.array([0.5, -2.0])
    for guise in guises(vector):
        assert expected.rotate(guise).tolist() == expected.rotate(vector).tolist()


def test_what_is_no_kernel_is_refused():
    with pytest.raises(errors.NotSymmetric, match="not symmetric: entry"):
        fewstep.Spectrum([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(errors.NotPositiveSemidefinite, match="smallest eigenvalue"):
        fewstep.Spectrum([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(errors.NotFinite, match="at position 3"):
        fewstep.Spectrum([[1.0, 0.0], [0.0, np.nan]])
    with pytest.raises(errors.SizeMismatch):
        fewstep.Spectrum(np.zeros((2, 3)))
    with pytest.raises(errors.WrongShape, match="2 are needed"):
        fewstep.Spectrum([1.0, 2.0])
    with pytest.raises(errors.WrongType, match="real numbers are needed"):
        fewstep.Spectrum([["a"]])
    spectrum = fewstep.Spectrum(np.eye(3))
    with pytest.raises(errors.SizeMismatch, match="vector has size 2"):
        spectrum.rotate([1.0, 2.0])
    with pytest.raises(errors.OutOfRange, match="mode is 3; it must be under 3"):
        spectrum.mode(3)


def test_step_sizes_are_checked_for_their_spectrum():
    spectrum = fewstep.Spectrum(np.diag([4.0, 1.0]))
    step = fewstep.StepSize(0.125, spectrum)
    assert float(step) == step.get() == 0.125
    assert step == fewstep.StepSize.fraction(0.5, spectrum)
    assert step.check(fewstep.Spectrum([[7.0]])) == step
    assert repr(step) == "StepSize(0.125)"
    with pytest.raises(errors.StepTooLarge, match="outside the allowed range"):
        fewstep.StepSize(0.25, spectrum)
    with pytest.raises(errors.StepTooLarge):
        step.check(fewstep.Spectrum([[8.0]]))
    with pytest.raises(errors.OutOfRange, match="step scale is 1; it must be over 0 and under 1"):
        fewstep.StepSize.fraction(1.0, spectrum)
    with pytest.raises(TypeError):
        fewstep.StepSize("0.1", spectrum)

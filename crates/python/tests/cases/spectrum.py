from __future__ import annotations

import fewstep

from . import inputs


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    residuals = inputs.residuals()
    step = fewstep.StepSize(0.03125, spectrum)
    return {
        "Spectrum.eigenvalues": spectrum.eigenvalues,
        "Spectrum.largest": spectrum.largest,
        "Spectrum.rotate": spectrum.rotate(residuals),
        "Spectrum.rotate_back": spectrum.rotate_back(residuals),
        "Spectrum.project": spectrum.project(residuals),
        "Spectrum.project_outside": spectrum.project_outside(residuals),
        "Spectrum.mode": spectrum.mode(1),
        "Spectrum.effective_rank": spectrum.effective_rank,
        "Spectrum.residual": spectrum.residual,
        "Spectrum.step_limit": spectrum.step_limit,
        "Spectrum counts": [spectrum.examples, spectrum.rank, spectrum.clamped],
        "StepSize.fraction": float(fewstep.StepSize.fraction(0.1, spectrum)),
        "StepSize": [step.get(), float(step.check(spectrum))],
    }

from __future__ import annotations

import fewstep
from fewstep.signal import SignalFit

from . import inputs

COUPLING = [0.5, -0.25, 1.0, 0.75]


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    step = fewstep.StepSize.fraction(0.3, spectrum)
    fits = {
        "SignalFit": SignalFit(spectrum, inputs.residuals()),
        "SignalFit.at": SignalFit.at(spectrum, inputs.residuals(), 0.3, 0.7),
        "SignalFit.at silent": SignalFit.at(spectrum, inputs.residuals(), 0.3, 0.0),
    }
    found = {}
    for name, fit in fits.items():
        found[name] = [
            fit.signal_variance,
            fit.noise_variance,
            fit.evidence,
            fit.noise_to_signal(),
        ]
        best = fit.benchmark(inputs.residuals())
        found[f"{name}.benchmark"] = [
            best.signal_variance,
            best.noise_variance,
            best.response(2.0),
        ]
        gaps, best = fit.bayes_gap_horizon(spectrum, COUPLING, step, [0, 3, 9])
        found[f"{name}.bayes_gap_horizon gaps"] = gaps
        found[f"{name}.bayes_gap_horizon"] = best.horizon
    return found

from __future__ import annotations

import fewstep
from fewstep.theory import flow

from . import inputs


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    step = fewstep.StepSize.fraction(0.25, spectrum)
    signal, noise, time = 0.75, 0.375, 0.8125
    return {
        "flow.mode_time": [flow.mode_time(1.5, 0.5), flow.mode_time(0.0, 0.25)],
        "flow.representative_eigenvalue": flow.representative_eigenvalue(spectrum, signal, noise),
        "flow.match_time": flow.match_time(spectrum, signal, noise),
        "flow.flow_risk": flow.flow_risk(spectrum, signal, noise, time),
        "flow.oracle_time": flow.oracle_time(spectrum, signal, noise),
        "flow.discretisation_bound": flow.discretisation_bound(step, 3, 1.25),
        "flow.concentration_bound": flow.concentration_bound(spectrum, signal, noise, time),
        "flow.horizon_of": flow.horizon_of(time, step),
    }

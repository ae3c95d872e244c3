from __future__ import annotations

import fewstep
from fewstep.leave_one_out import LeaveOneOut

from . import inputs

COUPLING = [0.5, -0.25, 1.0, 0.75]


def cases():
    step = fewstep.StepSize.fraction(0.3, fewstep.Spectrum(inputs.kernel()))
    found = {}
    for length, candidates in [("short", [0, 2, 7]), ("long", [0, 20, 90])]:
        left_out = LeaveOneOut(
            inputs.kernel(), inputs.residuals(), step, candidates, COUPLING
        )
        name = lambda method: f"LeaveOneOut.{method} {length}"
        found[name("errors")] = left_out.errors
        found[name("candidates")] = left_out.candidates
        for kind in ("plain", "trimmed", "median", "balanced", "query-weighted"):
            found[name(f"risk {kind}")] = left_out.risk(kind)
            choice = left_out.choose(kind, 0.1)
            found[name(f"choose {kind}")] = [choice.horizon, choice.index]
            found[name(f"posterior {kind}")] = left_out.posterior(kind, 0.5, 2.0)
        interval = left_out.interval(1, 0.6)
        found[name("interval")] = [interval.lower, interval.upper]
        interval = left_out.interval_of_average([0.2, 0.5, 0.3], 0.6)
        found[name("interval_of_average")] = [interval.lower, interval.upper]
    return found

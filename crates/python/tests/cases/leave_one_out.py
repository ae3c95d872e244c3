from __future__ import annotations

import fewstep
from fewstep import Answers
from fewstep.leave_one_out import LeaveOneOut

from . import inputs

COUPLING = [0.5, -0.25, 1.0, 0.75]


def answers() -> Answers:
    """Labels of which one has two examples, and a range that predictions leave."""
    return Answers([2, 0, 2, 1], [0.375, 0.625, 0.5, 0.25], (-0.25, 1.375))


def cases():
    step = fewstep.StepSize.fraction(0.3, fewstep.Spectrum(inputs.kernel()))
    known = answers()
    found = {"Answers.labels": known.labels}
    found["Answers.room"] = [[room.lower, room.upper] for room in known.room]
    for length, candidates in [("short", [0, 2, 7]), ("long", [0, 20, 90])]:
        left_out = LeaveOneOut(
            inputs.kernel(), inputs.residuals(), step, candidates, COUPLING
        ).with_answers(inputs.residuals(), known)
        name = lambda method: f"LeaveOneOut.{method} {length}"
        found[name("errors")] = left_out.errors
        found[name("candidates")] = left_out.candidates
        again = LeaveOneOut.from_errors(candidates, left_out.errors)
        found[name("from_errors")] = again.risk("median")
        for kind in ("plain", "trimmed", "median", "by-label", "query-weighted"):
            found[name(f"risk {kind}")] = left_out.risk(kind)
            choice = left_out.choose(kind, 0.1)
            found[name(f"choose {kind}")] = [choice.horizon, choice.index]
            found[name(f"posterior {kind}")] = left_out.posterior(kind, 0.5, 2.0)
        interval = left_out.interval(1, 0.6)
        found[name("interval")] = [interval.lower, interval.upper]
        interval = left_out.interval_of_average([0.2, 0.5, 0.3], 0.6)
        found[name("interval_of_average")] = [interval.lower, interval.upper]
    return found

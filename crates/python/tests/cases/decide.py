from __future__ import annotations

import fewstep

from . import inputs
from .geometry import geometry

HORIZONS = [
    "3",
    "evidence",
    "evidence-fixed",
    "gibbs",
    "bayes-gap",
    "leave-one-out",
    "leave-one-out-average",
    "bayes-filter",
]
SELECTIONS = [
    "query-aware",
    "query-score",
    "trace-top",
    "trace-bottom",
    "random",
    "depth",
]


def cases():
    rows = [(horizon, "all") for horizon in HORIZONS]
    rows += [("evidence", selection) for selection in SELECTIONS]
    found = {}
    for horizon, selection in rows:
        decision = fewstep.decide(
            geometry(),
            policy="paper",
            horizon=horizon,
            select=selection,
            horizons=range(13),
            step_scale=0.3,
            coverage=0.6,
            seed=7,
            budget=None if selection in ("all", "depth") else 2,
        )
        name = lambda part: f"decide {horizon} {selection} {part}"
        when, far, query = decision.when, decision.how_far, decision.query
        bound, interval = decision.pac_bayes(), query.interval
        evidence, errors, depth = when.evidence, when.leave_one_out, decision.which.depth
        found[name("when")] = [when.adapt, when.weight]
        found[name("when.evidence")] = (
            [] if evidence is None else [evidence.gate, evidence.gap_icl, evidence.gap_adapted]
        )
        found[name("when.leave_one_out")] = [] if errors is None else [errors.icl, errors.adapted]
        found[name("how_far")] = [
            far.horizon,
            far.at_edge,
            far.step_size,
            far.noise_variance,
            far.degrees_of_freedom,
        ]
        found[name("evidence")] = far.evidence
        found[name("evidence_fixed")] = far.evidence_fixed
        found[name("posterior")] = far.posterior
        found[name("leave_one_out")] = far.leave_one_out
        found[name("pac_bayes")] = [
            bound.bound,
            bound.slack,
            bound.confidence,
            bound.inverse_temperature,
        ]
        found[name("depth")] = [] if depth is None else depth.risks
        found[name("selected")] = decision.which.selected
        found[name("blocks")] = [[one.trace, one.query] for one in decision.which.blocks]
        found[name("query")] = [query.correction, query.standard_deviation]
        found[name("interval")] = [] if interval is None else [interval.lower, interval.upper]
        signal = decision.signal
        found[name("signal")] = [signal.signal_variance, signal.noise_variance]
        found[name("eigenvalues")] = decision.spectrum.eigenvalues
        found[name("kernel")] = decision.block.kernel
        found[name("plan")] = decision.plan.filter.prompt_fit(
            decision.spectrum, inputs.residuals()
        )
    return found

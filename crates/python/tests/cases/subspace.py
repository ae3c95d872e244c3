from __future__ import annotations

import fewstep
from fewstep import subspace

from . import inputs, leave_one_out


def geometry():
    blocks = [
        fewstep.Block.from_features(
            f"value.{index // 2}.{index % 2}",
            inputs.features(index, inputs.EXAMPLES, 3),
            inputs.features(index + 5, 1, 3)[0],
            layer=index // 2,
        )
        for index in range(4)
    ]
    return fewstep.Geometry(inputs.residuals(), blocks)


def cases():
    given = geometry()
    scores = subspace.trace_scores(given, 0.375)
    greedy = subspace.greedy_correction(given, 3, 0.25, 4)
    found = {
        "subspace.trace_scores": scores,
        "subspace.per_weight": subspace.per_weight(scores, given),
        "subspace.top": subspace.top(scores, 3),
        "subspace.bottom": subspace.bottom(scores, 3),
        "subspace.query_scores": subspace.query_scores(given, 0.375),
        "subspace.random": subspace.random(9, 4, fewstep.Rng(5)),
        "subspace.greedy_correction.blocks": greedy.blocks,
        "subspace.greedy_correction.corrections": greedy.corrections,
    }
    given = given.with_answers(leave_one_out.answers())
    for averaging in ["plain", "trimmed", "median", "by-label", "query-weighted"]:
        steps = dict(step_scale=0.25, horizons=range(13), averaging=averaging)
        choice = subspace.last_layers(given, **steps)
        found[f"subspace.last_layers.blocks.{averaging}"] = choice.blocks
        found[f"subspace.last_layers.layers.{averaging}"] = choice.layers
        found[f"subspace.last_layers.risks.{averaging}"] = choice.risks
    return found

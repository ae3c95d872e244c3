from __future__ import annotations

import fewstep

from . import inputs, leave_one_out
from .inputs import EXAMPLES, features


def geometry() -> fewstep.Geometry:
    """Three blocks with a query, each in a layer of its own."""
    blocks = [
        fewstep.Block.from_features(
            f"value.{index}.5",
            features(index, EXAMPLES, 3),
            features(index, EXAMPLES + 1, 3)[EXAMPLES],
            index,
        )
        for index in range(3)
    ]
    return fewstep.Geometry(inputs.residuals(), blocks)


def cases():
    whole = geometry()
    rows = features(0, EXAMPLES, 3)
    prior = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]]
    factors = lambda index: (features(index, 2, 3), features(index + 1, 2, 2))
    pairs = [factors(0), factors(1), factors(2)]
    layers = fewstep.Geometry.from_factors(
        {"first": pairs, "second": pairs},
        [0.5, -0.25, 1.0],
        {"first": factors(3), "second": factors(3)},
    )
    given = fewstep.Block("c", inputs.kernel(), [0.5, -0.25, 0.125, 0.0], 2.0, 3)
    blocks = {
        "Block": given,
        "Block.from_features": whole.blocks[1],
        "Block.from_prior": fewstep.Block.from_prior("a", rows, prior, rows[0]),
        "Block.from_factors": fewstep.Block.from_factors("b", pairs, factors(3)),
        "Geometry.from_factors": layers.total(),
        "Block.intercept": fewstep.Block.intercept(3),
        "Geometry.sum": whole.sum([2, 0]),
        "Geometry.total": whole.total(),
        "Geometry.precondition": whole.precondition([0.3, 1.0, 2.7]).total(),
    }
    found = {"Block.name": list(given.name.encode())}
    found["Block.layer"] = [block.layer for block in whole.blocks]
    answered = whole.with_answers(leave_one_out.answers())
    found["Geometry.answers"] = answered.answers.labels
    for name, block in blocks.items():
        found[f"{name}.kernel"] = block.kernel
        found[f"{name} query"] = [*block.coupling, block.query_variance]
        found[f"{name}.parameters"] = block.parameters
    return found

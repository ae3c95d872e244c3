from __future__ import annotations

import fewstep


def cases():
    rng = fewstep.Rng(7)
    return {
        "Rng.uniform": [rng.uniform() for _ in range(5)],
        "Rng.sign": [rng.sign() for _ in range(5)],
        "Rng.normal": [rng.normal() for _ in range(5)],
        "Rng.below": [rng.below(1000) for _ in range(5)],
        "Rng.choose": rng.choose(4, 9),
    }

from __future__ import annotations

from fewstep.theory.random import MarchenkoPastur


def cases():
    found = {}
    for name, ratio in [("wide", 0.375), ("tall", 2.5)]:
        law = MarchenkoPastur(ratio)
        values = {
            "aspect_ratio": law.aspect_ratio,
            "support": law.support,
            "atom": law.atom,
            "density": law.density([0.25, 0.75, 1.5, 9.0]),
            "integral": law.integral(lambda at: at * at + 0.5),
            "moment": [law.moment(order) for order in range(6)],
            "risk_limit": law.risk_limit(0.625, 0.75, 0.5),
            "oracle_time": law.oracle_time(0.75, 0.5),
            "representative_eigenvalue": law.representative_eigenvalue(0.75, 0.5),
            "match_time": law.match_time(0.75, 0.5),
        }
        for what, value in values.items():
            found[f"random.MarchenkoPastur.{what}.{name}"] = value
    return found

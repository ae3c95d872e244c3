from __future__ import annotations

from fewstep import Policy


def cases():
    found = {}
    for name in ["default", "paper"]:
        policy = Policy.named(name)
        found[f"Policy.to_json {name}"] = list(policy.to_json().encode())
        other = policy.with_overrides(
            select="random", budget=2, seed=7, horizon="gibbs", horizons=range(5)
        )
        found[f"Policy.with_overrides {name}"] = list(other.to_json().encode())
        found[f"Policy.differences {name}"] = list(" ".join(other.differences(policy)).encode())
        found[f"Policy.looks_at_query {name}"] = other.looks_at_query
    read = Policy.from_json('{"horizon": {"rule": "leave-one-out", "averaging": "query-weighted"}}')
    found["Policy.from_json"] = list(read.to_json().encode())
    found["Policy.from_json looks"] = read.looks_at_query
    found["Policy.paper"] = list(Policy.paper().blocks.encode())
    return found

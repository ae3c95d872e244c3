"""Prints what a decision on arrays costs, in microseconds per call: `python tests/benchmark.py`."""

from __future__ import annotations

import sys
import timeit

import numpy as np

import fewstep


def best(function, calls: int = 2_000, rounds: int = 7) -> float:
    """The fastest of some rounds; others have met something else that ran."""
    return min(timeit.repeat(function, number=calls, repeat=rounds)) / calls * 1e6


def main() -> None:
    generator = np.random.default_rng(0)
    for examples in (5, 10, 20, 50):
        features = generator.normal(size=(examples, 8))
        query = generator.normal(size=8)
        kernel, coupling = features @ features.T, features @ query
        variance = float(query @ query)
        residuals = generator.normal(size=examples)
        geometry = fewstep.Geometry.from_kernel(kernel, residuals, coupling, variance)
        policy = fewstep.Policy(horizon="leave-one-out")
        cases = {
            "decide(kernel, residuals)": lambda: fewstep.decide(kernel, residuals),
            "decide(kernel, residuals, coupling, query_variance)": lambda: fewstep.decide(
                kernel, residuals, coupling, variance
            ),
            "decide(geometry)": lambda: fewstep.decide(geometry),
            "decide(geometry, horizon='gibbs')": lambda: fewstep.decide(geometry, horizon="gibbs"),
            "decide(geometry, policy=leave-one-out)": lambda: fewstep.decide(geometry, policy=policy),
            "Geometry.from_kernel(…)": lambda: fewstep.Geometry.from_kernel(
                kernel, residuals, coupling, variance
            ),
            "decide(geometry).to_dict()": lambda: fewstep.decide(geometry).to_dict(),
        }
        for name, function in cases.items():
            sys.stdout.write(f"n = {examples:3}  {best(function):9.2f} µs  {name}\n")


if __name__ == "__main__":
    main()

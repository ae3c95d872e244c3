"""Prompts for the tests, and arrays in other guises."""

from __future__ import annotations

import numpy as np

EPSILON = np.finfo(np.float64).eps


def prompt(seed: int, examples: int = 6, weights: int = 4):
    """Features, residuals and query features of one random prompt."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(examples, weights))
    return features, generator.normal(size=examples), generator.normal(size=weights)


def close(found, expected, scale: float = 1.0, many: float = 64.0) -> bool:
    """Equal up to `many` roundings of a size, or of the largest number where that is larger."""
    found, expected = np.asarray(found), np.asarray(expected)
    size = max(scale, float(np.max(np.abs(expected), initial=0.0)))
    return found.shape == expected.shape and bool(
        np.all(np.abs(found - expected) <= many * max(found.size, 1) * EPSILON * size)
    )


def guises(array: np.ndarray) -> list[object]:
    """The same numbers as lists, in other strides, byte orders and precisions, and read-only."""
    array = np.asarray(array, dtype=np.float64)
    spread = np.zeros(tuple(2 * length for length in array.shape))
    every_other = tuple(slice(None, None, 2) for _ in array.shape)
    spread[every_other] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    found = [
        array.tolist(),
        np.asfortranarray(array),
        spread[every_other],
        array[..., ::-1].copy()[..., ::-1],
        array.astype(">f8"),
        frozen,
    ]
    if np.array_equal(array.astype(np.float32), array):
        found.append(array.astype(np.float32))
    return found

"""What tests of numbers share: inputs from a seed, tolerances from rounding, other kinds of arrays."""

from __future__ import annotations

import numpy as np

EPSILON = np.finfo(np.float64).eps


def normals(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def gram(seed: int, size: int, rank: int) -> np.ndarray:
    """A kernel of a given rank with eigenvalues of order 1."""
    features = normals(seed, size, rank)
    return features @ features.T / rank


def assert_near(found, expected, operations: float, scale: float | None = None) -> None:
    """Equal up to the rounding of this many operations on numbers of this size."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape
    if scale is None:
        scale = np.abs(expected).max(initial=0.0)
    worst = np.abs(found - expected).max(initial=0.0)
    assert worst <= 64 * operations * EPSILON * scale, (found, expected)


def same_as(values: np.ndarray) -> list:
    """The same numbers in other clothes: they must be eighths of small numbers, which f32 holds."""
    wide = np.zeros(tuple(2 * length for length in values.shape))
    strided = wide[tuple(slice(None, None, 2) for _ in values.shape)]
    strided[...] = values
    locked = values.copy()
    locked.setflags(write=False)
    single = values.astype(np.float32)
    assert np.array_equal(single.astype(np.float64), values)
    return [values.tolist(), single, strided, locked, np.asfortranarray(values)]

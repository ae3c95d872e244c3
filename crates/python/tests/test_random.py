"""The law of the eigenvalues of large random kernels, against numpy's eigenvalues and quadrature."""

from __future__ import annotations

import numpy as np
import pytest

from fewstep import errors
from fewstep.theory.random import MarchenkoPastur

from .near import assert_near, normals, same_as


def nodes(ratio, count=20001):
    """Eigenvalues and weights, by the trapezoidal rule in the angle."""
    angles = np.linspace(0.0, np.pi, count)
    values = (1 - np.sqrt(ratio)) ** 2 + 4 * np.sqrt(ratio) * np.sin(angles / 2) ** 2
    weights = 2 / np.pi * np.sin(angles) ** 2 / values * (angles[1] - angles[0])
    return values, weights


@pytest.mark.parametrize("ratio", [0.25, 3.0])
def test_integrals(ratio):
    law = MarchenkoPastur(ratio)
    values, weights = nodes(ratio)
    for function in [lambda x: 1.0, lambda x: x * x, lambda x: np.exp(-x)]:
        atom = law.atom * function(0.0)
        expected = (weights * np.array([function(value) for value in values])).sum() + atom
        assert law.integral(function) == pytest.approx(expected, rel=1e-10)
    assert law.atom == pytest.approx(max(0.0, 1 - 1 / ratio), rel=1e-15)
    assert law.support == ((1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2)
    assert law.aspect_ratio == ratio


def test_moments_are_those_of_a_large_kernel():
    features = normals(3, 800, 1600)
    values = np.linalg.eigvalsh(features @ features.T / 1600)
    law = MarchenkoPastur(0.5)
    assert [law.moment(0), law.moment(1), law.moment(2)] == [1.0, 1.0, 1.5]
    for order in [1, 2, 3]:
        # The moments of a sample fluctuate by about 1/n.
        assert np.mean(values**order) == pytest.approx(law.moment(order), rel=20 / 800)


def test_the_density_of_a_number_and_of_an_array():
    law = MarchenkoPastur(0.25)
    points = np.array([0.125, 0.25, 0.5, 1.0, 2.25, 3.0])
    low, high = 0.25, 2.25
    inside = np.maximum((high - points) * (points - low), 0.0)
    expected = np.sqrt(inside) / (2 * np.pi * 0.25 * points)
    found = law.density(points)
    assert_near(found, expected, 4)
    assert [law.density(float(point)) for point in points] == found.tolist()
    assert law.density(np.float32(1.0)) == law.density(np.array(1.0)) == law.density(1)
    assert law.density(np.array([1.0])).shape == (1,)
    for other in same_as(points):
        assert law.density(other).tolist() == found.tolist()


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_risk_and_best_time(ratio):
    law = MarchenkoPastur(ratio)
    values, weights = nodes(ratio)
    signal, noise = 0.7, 0.3

    def risk(time):
        left = np.exp(-time * values)
        return (weights * (signal * values * left**2 + noise * (1 - left) ** 2)).sum()

    assert law.risk_limit(0.6, signal, noise) == pytest.approx(risk(0.6), rel=1e-9)
    best = law.oracle_time(signal, noise)
    assert all(risk(best) <= risk(time) + 1e-12 for time in np.geomspace(0.01, 100, 300))
    mean = (1 + ratio + noise / signal) / (1 + noise / signal)
    assert_near(law.representative_eigenvalue(signal, noise), mean, 4)
    assert_near(law.match_time(signal, noise), np.log(1 + mean * signal / noise) / mean, 8)


def test_what_a_function_raises_comes_out():
    law = MarchenkoPastur(0.5)

    class Odd(Exception):
        pass

    calls = []

    def failing(value):
        calls.append(value)
        raise Odd("no")

    with pytest.raises(Odd, match="^no$"):
        law.integral(failing)
    assert len(calls) == 1
    with pytest.raises(TypeError):
        law.integral(lambda value: "text")
    with pytest.raises(errors.NotFinite, match="integrand has the entry NaN at position 0"):
        law.integral(lambda value: float("nan"))
    with pytest.raises(errors.OutOfRange, match="aspect ratio is 0; it must be finite and over 0"):
        MarchenkoPastur(0.0)

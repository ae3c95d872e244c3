"""Reproducible randomness."""

from __future__ import annotations

import pytest

import fewstep
from fewstep import errors


def test_a_seed_fixes_the_sequence():
    first, second = fewstep.Rng(7), fewstep.Rng(7)
    draws = [(rng.uniform(), rng.sign(), rng.normal(), rng.below(9)) for rng in (first, second)]
    assert draws[0] == draws[1]
    assert fewstep.Rng(1).uniform() != fewstep.Rng(2).uniform()


def test_draws_are_in_their_range():
    rng = fewstep.Rng(0)
    for _ in range(100):
        assert 0.0 <= rng.uniform() < 1.0
        assert abs(rng.sign()) == 1.0
        assert 0 <= rng.below(3) < 3
    assert rng.below(0) == 0
    assert sorted(rng.choose(5, 5)) == [0, 1, 2, 3, 4]
    drawn = rng.choose(3, 10)
    assert len(set(drawn)) == 3 and max(drawn) < 10
    assert len(rng.choose(10, 3)) == 3


def test_what_does_not_fit_in_memory_is_refused():
    rng = fewstep.Rng(0)
    with pytest.raises(errors.TooMuchMemory, match="limit is 4611686018427387904"):
        rng.choose(1, 2**62)
    with pytest.raises(OverflowError):
        fewstep.Rng(-1)
    with pytest.raises(TypeError):
        fewstep.Rng("seed")

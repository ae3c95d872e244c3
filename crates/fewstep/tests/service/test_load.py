"""A few seconds of what ``load`` does for two minutes."""

from __future__ import annotations

from offered import flat
from pressure import Amount, press


def test_more_than_the_service_can_do_is_refused_politely_and_changes_no_answer(program: str) -> None:
    # Patience and queue are short, so that slow clients come to their end and requests to theirs. So
    # few seconds do not tell what the service can do on a machine with other work, nor what it will hold.
    lenient = {"times": 10, "least": 0.1, "slack": 64 * 2**20}
    amount = Amount(6.0, 2.0, prompts=16, compared=5, threads=2, **lenient)
    result = press(program, amount, "--receive-seconds", "2", "--queue", "6")
    assert result.wrong == []
    assert {name for name, told in result.told.items() if told} == set(result.told)


def test_memory_that_grows_is_not_flat() -> None:
    mebibyte = 2**20
    assert flat([500 * mebibyte] * 9)[2]
    assert flat([100 * mebibyte] * 6 + [115 * mebibyte] * 3)[2], "16 MiB are let pass"
    assert flat([1000 * mebibyte] * 6 + [1045 * mebibyte] * 3)[2], "5 % are let pass"
    assert not flat([500 * mebibyte] * 6 + [530 * mebibyte] * 3)[2]
    assert flat([530 * mebibyte] * 6 + [500 * mebibyte] * 3)[2], "less is no matter"

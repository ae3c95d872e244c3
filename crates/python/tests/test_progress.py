"""The line that says how far a call is."""

from __future__ import annotations

import io
import re

import pytest

from fewstep import Model
from fewstep.progress import Progress, duration, show

from . import places


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_line_says_how_many_and_how_long():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(4, stream, clock)
    for _ in range(4):
        clock.now += 30.0
        progress.advance()
    progress.close()
    assert stream.getvalue() == (
        "\r1/4 tasks, 1 min 30 s left"
        "\r2/4 tasks, 1 min 0 s left "
        "\r3/4 tasks, 30 s left     "
        "\r4/4 tasks, 2 min 0 s"
        "\r4/4 tasks, 2 min 0 s\n"
    )


def test_without_a_total_the_time_so_far_is_shown_and_not_too_often():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(None, stream, clock)
    for _ in range(1000):
        clock.now += 0.001
        progress.advance()
    progress.close()
    lines = stream.getvalue().split("\r")
    assert len(lines) <= 13 and lines[-1] == "1000 tasks, 1 s\n"


def test_a_stream_that_is_gone_does_no_harm():
    stream = io.StringIO()
    stream.close()
    progress = Progress(1, stream)
    progress.advance()
    progress.close()


def test_durations_are_written_as_people_do():
    assert [duration(s) for s in (0.4, 59, 60, 3599, 7260)] == [
        "0 s", "59 s", "1 min 0 s", "59 min 59 s", "2 h 1 min",
    ]


def test_nothing_is_shown_where_no_terminal_is(capsys):
    model, tasks = Model.load(progress=True), places.tasks()
    model.predict(tasks, progress=True)
    assert capsys.readouterr().err == ""
    found = model.predict(tasks, progress="always")
    said = capsys.readouterr().err
    last = said.split("\r")[-1]
    assert re.fullmatch(f"{len(tasks)}/{len(tasks)} tasks, [0-9]+ s *\n", last), said
    assert said.count("\n") == 1 and len(found) == len(tasks)
    list(model.predict_iter(iter(tasks), progress="always"))
    assert f"{len(tasks)} tasks, " in capsys.readouterr().err
    assert show(False, 3) is None and show(None, 3) is None
    with pytest.raises(ValueError, match="'always'"):
        show("often", 3)

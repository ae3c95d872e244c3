"""Ctrl-C ends a call at once, in the middle of whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from . import places

BEGIN = """
import fewstep, itertools, sys
lines = open(sys.argv[1]).read().splitlines()
model = fewstep.Model.load()
model.predict(lines[0])
print("begun", flush=True)
"""

#: Minutes of work at least: many tasks, an iterator, one long task, one long decision.
CALLS = {
    "many": "model.predict(itertools.cycle(lines))",
    "iterator": "list(None for _ in model.predict_iter(itertools.cycle(lines)))",
    "one": "model.predict(lines[0], policy='paper', horizon=100_000, blocks='value,output,mlp-up,mlp-down@all')",
    "act": (
        "model.act(lines[0], fewstep.decide("
        "model.observe(lines[0], 'value,output,mlp-up,mlp-down@all').geometry, horizon=100_000))"
    ),
}

END = """
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    # The model is as good as before, while what was left behind goes on.
    assert model.predict(lines[1]) == fewstep.Model.load().predict(lines[1])
    print("answered", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on Unix")
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_ends_the_call_within_a_second(call):
    code = BEGIN + END.format(call=CALLS[call])
    words = [sys.executable, "-c", code, str(places.root() / "examples/digits.jsonl")]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begun\n", child.stderr.read()
        time.sleep(1.0)
        assert child.poll() is None
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 1.0
        assert child.stdout.readline() == "answered\n", child.stderr.read()
        # Threads that are left behind do not keep the process alive.
        assert child.wait(timeout=30) == 0
    finally:
        child.kill()
        child.communicate()

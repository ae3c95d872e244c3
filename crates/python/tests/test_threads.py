"""Other threads of Python go on while a call computes."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import fewstep

from . import places


def longest_silence(call) -> tuple:
    """How long the call took, and the longest time that another thread could not run in it."""
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        while not ticks:
            time.sleep(0.001)
        begun = time.perf_counter()
        call()
        ended = time.perf_counter()
    finally:
        stop.set()
        ticking.join()
    inside = [begun, *(at for at in ticks if begun < at < ended), ended]
    return ended - begun, max(later - sooner for sooner, later in zip(inside, inside[1:]))


def long_decision():
    rows = np.random.default_rng(0).normal(size=(700, 700))
    kernel, residuals = rows @ rows.T, rows[0]
    return lambda: fewstep.decide(kernel, residuals)


def long_spectrum():
    rows = np.random.default_rng(0).normal(size=(900, 900))
    kernel = rows @ rows.T
    return lambda: fewstep.Spectrum(kernel)


def long_features():
    # Many rows: reading them grows with their number, the kernel with its square.
    features = np.random.default_rng(0).normal(size=(1_200, 5_000))
    return lambda: fewstep.Block.from_features("a", features)


def long_task():
    model, task = fewstep.Model.load(), places.tasks()[0]
    return lambda: model.predict(
        task, policy="paper", horizon=400, blocks="value,output,mlp-up@all", threads=1
    )


@pytest.mark.parametrize("make", [long_decision, long_spectrum, long_features, long_task])
def test_the_lock_of_python_is_let_go(make):
    call = make()
    for _ in range(3):
        took, silence = longest_silence(call)
        assert took > 0.05, "too short to say anything"
        # Reading the arguments takes the lock; computing does not. A busy machine may pause both.
        if silence < took / 2:
            return
    pytest.fail(f"nothing else ran for {silence:.3f} of {took:.3f} seconds")


def test_one_model_serves_many_threads():
    model, tasks = fewstep.Model.load(), places.tasks()
    expected = model.predict(tasks)
    found = [None] * len(tasks)

    def ask(place):
        found[place] = model.predict(tasks[place], threads=1)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected

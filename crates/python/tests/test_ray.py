"""Tasks on two local workers, one of which dies."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import time

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
pytest.importorskip("ray.data", reason="ray[data] is not installed: pip install '.[ray]'")

import fewstep  # noqa: E402
import fewstep.ray  # noqa: E402


def task(number: int) -> dict:
    digits = range(10)
    return {
        "id": f"t{number}",
        "template": "{x}->{y}",
        "labels": [{"text": str(d), "value": d / 9} for d in digits],
        "examples": [{"x": str(d), "y": str((d + number) % 10)} for d in range(8)],
        "query": {"x": "9"},
    }


@pytest.fixture(scope="module", autouse=True)
def local():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def workers() -> list[int]:
    """The processes that hold a model."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::") and b"_Worker" in line:
            found.append(int(folder.name))
    return found


def kill_one_worker(
    out: pathlib.Path, killed: list[int], alive: list[int], done: threading.Event
) -> None:
    """Kills a worker as soon as some answers are there, and counts workers until all is done."""
    while not done.is_set():
        found = workers()
        alive.append(len(found))
        if found and not killed and list(out.glob("*.jsonl")):
            killed.append(found[0])
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.01)


@pytest.mark.skipif(not pathlib.Path("/proc").is_dir(), reason="finds workers in /proc")
def test_every_task_is_answered_once_although_a_worker_dies(tmp_path):
    tasks = [task(number) for number in range(48)]
    killed: list[int] = []
    alive: list[int] = []
    done = threading.Event()
    killer = threading.Thread(target=kill_one_worker, args=(tmp_path, killed, alive, done))
    killer.start()
    try:
        answers = fewstep.ray.predict(tasks, concurrency=2, batch_size=4, out=tmp_path)
    finally:
        done.set()
        killer.join()
    assert killed, "no worker was there to be killed"
    # One model per process, and no more processes than were asked for.
    assert max(alive) == 2
    rows = answers.take_all()
    assert sorted(row["id"] for row in rows) == sorted(t["id"] for t in tasks)
    assert all(row["error"] is None for row in rows)
    # Nor is a task answered twice in what was written.
    lines = [json.loads(line) for file in tmp_path.glob("*.jsonl") for line in open(file)]
    assert sorted(line["id"] for line in lines) == sorted(t["id"] for t in tasks)
    own = fewstep.Model.load("builtin").predict(tasks[3])
    [same] = [row for row in rows if row["id"] == "t3"]
    assert same["adapted"] == own.prediction.adapted
    assert same["report"] == json.dumps(own.to_dict())
    assert json.loads(same["report"])["policy"] == fewstep.Policy.default().to_dict()


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    first = fewstep.ray.predict([task(1), task(2)], out=tmp_path).take_all()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.jsonl")}
    both = fewstep.ray.predict([task(1), task(2), task(3)], out=tmp_path).take_all()
    assert {row["id"] for row in first} == {"t1", "t2"}
    assert sorted(row["id"] for row in both) == ["t1", "t2", "t3"]
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())
    for asked in ({"horizon": 8}, {"policy": "paper"}):
        with pytest.raises(fewstep.errors.OtherSettings, match="holds answers for"):
            fewstep.ray.predict([task(1)], out=tmp_path, **asked)
    # The same policy in other words is no other one.
    same = {"policy": fewstep.Policy.default().to_dict(), "step_scale": 0.6}
    assert len(fewstep.ray.predict([task(1)], out=tmp_path, **same).take_all()) == 3


def test_a_task_that_fails_is_a_row():
    bad = task(5)
    del bad["query"]
    rows = fewstep.ray.predict([task(4), bad, "no JSON"]).take_all()
    assert sorted(row["error"] is None for row in rows) == [False, False, True]
    assert any("query" in row["error"] for row in rows if row["error"])


def test_one_task_is_no_dataset():
    with pytest.raises(fewstep.errors.WrongType, match="list of tasks"):
        fewstep.ray.predict(task(1))

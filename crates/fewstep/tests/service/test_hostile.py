"""Clients that behave badly get what they deserve, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator

import hostile
import pytest
from client import Connection, ask, head, post
from service import PATIENCE, Service, digit_task, printed, report_of


@pytest.fixture(scope="module")
def service(program: str) -> Iterator[Service]:
    """A service that is soon out of patience."""
    with Service(program, "--threads", "2", "--receive-seconds", "1") as service:
        yield service


@pytest.fixture(scope="module")
def report(program: str) -> bytes:
    return printed(program, [digit_task(7)])[0]


def settles(service: Service) -> None:
    """Waits until nothing is left of what clients wanted."""
    until = time.monotonic() + PATIENCE
    names = ["queue_requests", "queue_tasks", "tasks_under_way", "waiting_bytes"]
    while time.monotonic() < until:
        metrics = service.metrics()
        # The connection that asks is one.
        if not any(metrics[f"fewstep_{name}"] for name in names) and metrics["fewstep_connections"] <= 1:
            return
        time.sleep(0.05)
    raise AssertionError(service.get("/metrics"))


@pytest.fixture(autouse=True)
def as_before(service: Service, report: bytes) -> Iterator[None]:
    """Whatever a client did, the next one is answered, and nothing is left behind."""
    yield
    assert service.process.poll() is None, "the service ended"
    answer = asyncio.run(ask(service.port, post("/v1/predict", {"task": digit_task(7), "reuse": False})))
    assert answer.status == 200 and report_of(answer.body) == report
    settles(service)


@pytest.mark.parametrize("name", hostile.SLOW)
def test_slow_clients_are_let_go_in_time(service: Service, name: str) -> None:
    started = time.monotonic()
    told = asyncio.run(hostile.SLOW[name](service.port, 0.1))
    took = time.monotonic() - started
    assert told in {"slow head": ("closed", "408"), "slow body": ("408",)}[name]
    assert 0.9 < took < 20, took


def test_a_client_that_does_not_read_is_let_go(service: Service) -> None:
    asked = 3000

    async def deaf() -> None:
        connection = await Connection.open(service.port)
        # Its answers are many times what lies between the two.
        connection.writer.write(head("GET", "/openapi.json") * asked)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(settles, service)
        connection.close()

    asyncio.run(deaf())
    answered = service.metrics()['fewstep_requests_total{route="/openapi.json",method="GET",status="200"}']
    assert answered < asked


TOLD = {
    "half a body": "408",
    "left in its body": "left",
    "left before the answer": "left",
    "left in the answer": "left",
    "1 GB announced": "413",
    "1 GB sent": "413",
    "pieces without end": "413",
    "nested 100,000 deep": "422 422 400 422 422 422 422 200",
}


@pytest.mark.parametrize("name", hostile.QUICK)
def test_bad_manners_are_answered_and_forgotten(service: Service, name: str) -> None:
    before = service.memory()
    for _ in range(3):
        assert asyncio.run(hostile.QUICK[name](service.port)) == TOLD[name]
    assert service.memory() - before < 64 * 2**20


def test_a_thousand_idle_connections_do_not_keep_others_out(program: str) -> None:
    with Service(program, "--threads", "2", "--receive-seconds", "30") as service:
        asyncio.run(ask(service.port, post("/v1/predict", {"task": digit_task(7), "reuse": False})))
        files = service.files()

        async def crowd() -> tuple[list[int], int, int]:
            async with hostile.idle(service.port, 1000):
                statuses = []
                for _ in range(5):
                    request = post("/v1/predict", {"task": digit_task(7), "reuse": False})
                    statuses.append((await ask(service.port, request)).status)
                metrics = (await ask(service.port, head("GET", "/metrics"))).body
                connections = re.search(rb"^fewstep_connections (\d+)$", metrics, re.MULTILINE)
                return statuses, int(connections[1]), service.files()

        statuses, connections, crowded = asyncio.run(crowd())
        assert statuses == [200] * 5
        assert connections <= 256 and crowded <= files + 260
        settles(service)
        assert service.files() <= files + 1


def test_a_long_list_holds_up_nobody(service: Service) -> None:
    tasks = [digit_task(seed, 12) for seed in range(30)]

    async def both() -> tuple[list[int], int, list[bytes]]:
        connection = await Connection.open(service.port)
        await connection.send(post("/v1/predict", {"tasks": tasks, "reuse": False}))
        assert (await connection.read_head()).status == 200
        lines: list[bytes] = []

        async def take() -> None:
            while line := await connection.read_piece():
                lines.append(line)

        taking = asyncio.create_task(take())
        short = post("/v1/predict", {"task": digit_task(7, 4), "reuse": False})
        statuses = [(await ask(service.port, short)).status for _ in range(5)]
        seen = len(lines)
        await asyncio.wait_for(taking, PATIENCE)
        connection.close()
        return statuses, seen, lines

    statuses, seen, lines = asyncio.run(both())
    assert statuses == [200] * 5
    assert [json.loads(line)["report"]["id"] for line in lines] == [task["id"] for task in tasks]
    assert seen < 20, f"{seen} of 30 tasks of the list were answered before five short requests"

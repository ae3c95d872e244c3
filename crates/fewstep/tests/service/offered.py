"""Load from one process: as fast as answers come, or at a rate that does not wait for them."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from client import Answer, Closed, Connection, post
from service import PATIENCE, digit_task, printed, report_of

#: Prompts that are asked about again and again with other queries, whose updates are kept.
FAMILIAR = 4

#: Connections that the load uses at most: fewer than the service takes.
MOST_CONNECTIONS = 200


@dataclass(slots=True)
class Question:
    """A request, and the report that its answer must hold, if that is known."""

    request: bytes
    report: bytes | None


def questions(program: str, prompts: int) -> list[Question]:
    """What is asked: three prompts whose updates are gone when it is their turn again, and a query on a kept one."""
    tasks = [digit_task(seed) for seed in range(prompts)]
    reports = printed(program, tasks)
    asked = []
    for place, (task, report) in enumerate(zip(tasks, reports)):
        asked.append(Question(post("/v1/predict", {"task": task}), report))
        if place % 3 == 2:
            further = digit_task(1000 + place % FAMILIAR)
            further["query"] = {"x": str(place % 10)}
            asked.append(Question(post("/v1/predict", {"task": further}), None))
    return asked


@dataclass
class Record:
    """What came of an amount of load."""

    seconds: float = 0.0
    #: How long answers took, in seconds, by their status.
    times: dict[int, list[float]] = field(default_factory=dict)
    #: What was not as it should be, and how often.
    errors: Counter[str] = field(default_factory=Counter)
    hits: int = 0
    #: Requests that were sent again because an idle connection had been closed meanwhile.
    again: int = 0

    def take(self, question: Question, answer: Answer, took: float) -> None:
        """Writes an answer down and says what is wrong with it."""
        self.times.setdefault(answer.status, []).append(took)
        if answer.status == 200:
            self.hits += b'"hit":true' in answer.body[-40:]
            if question.report is not None and report_of(answer.body) != question.report:
                self.errors["an answer is not what predict --json prints"] += 1
        elif answer.status == 429:
            seconds = answer.headers.get("retry-after", "")
            if not seconds.isdigit() or int(seconds) < 1:
                self.errors["429 without Retry-After"] += 1
            if json.loads(answer.body).get("status") != 429:
                self.errors["429 without a problem"] += 1
        else:
            self.errors[f"status {answer.status}"] += 1

    def count(self, status: int) -> int:
        return len(self.times.get(status, []))

    @property
    def total(self) -> int:
        return sum(map(len, self.times.values()))

    def rate(self, status: int) -> float:
        """Answers of a status per second."""
        return self.count(status) / self.seconds

    def milliseconds(self, status: int, share: float) -> float:
        """The time within which some share of the answers came."""
        times = sorted(self.times.get(status, [])) or [float("nan")]
        if len(times) == 1:
            return times[0] * 1e3
        return statistics.quantiles(times, n=100, method="inclusive")[round(share * 100) - 1] * 1e3


async def _answer(connection: Connection | None, port: int, question: Question, record: Record) -> Connection:
    """Asks on a connection, or on a new one if it was closed while it was idle."""
    while True:
        fresh = connection is None
        connection = connection or await Connection.open(port)
        try:
            started = time.perf_counter()
            answer = await connection.ask(question.request)
            record.take(question, answer, time.perf_counter() - started)
            return connection
        except Closed as closed:
            connection.close()
            if fresh or closed.begun:
                raise
            connection = None
            record.again += 1


async def closed_loop(port: int, asked: Iterator[Question], clients: int, seconds: float) -> Record:
    """Clients that ask again as soon as they are answered: what the service can do."""
    record = Record()
    started = time.perf_counter()

    async def client() -> None:
        connection = None
        while time.perf_counter() - started < seconds:
            connection = await _answer(connection, port, next(asked), record)
        if connection is not None:
            connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    record.seconds = time.perf_counter() - started
    return record


async def open_loop(port: int, asked: Iterator[Question], rate: float, seconds: float) -> Record:
    """Requests at a rate, whatever becomes of those before."""
    record, idle, under_way = Record(), [], set()

    async def one() -> None:
        try:
            idle.append(await _answer(idle.pop() if idle else None, port, next(asked), record))
        except Exception as error:  # noqa: BLE001 (whatever it is, there is no answer)
            record.errors[f"no answer: {type(error).__name__}"] += 1

    started = time.perf_counter()
    for number in itertools.count():
        due = number / rate
        if due >= seconds:
            break
        await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
        if len(under_way) >= MOST_CONNECTIONS:
            record.errors["not sent: too many requests without an answer"] += 1
            continue
        task = asyncio.create_task(one())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    record.seconds = time.perf_counter() - started
    if under_way:
        await asyncio.wait(under_way, timeout=PATIENCE)
    for connection in idle:
        connection.close()
    return record


def flat(memory: list[int], slack: int = 16 * 2**20) -> tuple[float, float, bool]:
    """The medians of the first and the last third, and whether the last is not above the first.

    Above means by more than 5 % and by more than some slack.
    """
    third = max(1, len(memory) // 3)
    first, last = statistics.median(memory[:third]), statistics.median(memory[-third:])
    return first, last, last <= first + max(0.05 * first, slack)

"""What the load test does, for as long as it is told: capacity, four times that, and the answers after it."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from dataclasses import dataclass, field

import hostile
from client import ask, post
from offered import FAMILIAR, Record, closed_loop, flat, open_loop, questions
from service import Service, digit_task, printed, report_of


@dataclass(frozen=True)
class Amount:
    """How much is done."""

    #: Seconds of load, and of what comes before to find the capacity.
    seconds: float
    warm: float
    #: Prompts that take turns. The service keeps an eighth of their updates, so that each is made anew even
    #: where three of four requests are refused.
    prompts: int = 64
    #: Answers that are compared with the command line afterwards.
    compared: int = 20
    #: How many times what the service can do is offered, and the share of that which it must still do.
    times: float = 4.0
    least: float = 0.5
    #: How much more memory, in bytes, may be held at the end.
    slack: int = 16 * 2**20
    #: Tasks at the same time; twice as many clients find the capacity.
    threads: int = os.cpu_count() or 1


@dataclass
class Result:
    """What was measured, and what was not as it should be."""

    amount: Amount
    capacity: Record = field(default_factory=Record)
    offered: float = 0.0
    load: Record = field(default_factory=Record)
    memory: list[int] = field(default_factory=list)
    #: What clients with bad manners were told.
    told: dict[str, Counter[str]] = field(default_factory=dict)
    right: int = 0
    wrong: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Writes down what does not hold."""
        refuse = self.wrong.append
        for record, name in [(self.capacity, "capacity"), (self.load, "load")]:
            for error, count in record.errors.items():
                refuse(f"{name}: {error} ({count} times)")
        if self.capacity.count(429):
            refuse("capacity: requests were refused although few waited")
        if self.load.rate(200) < self.amount.least * self.capacity.rate(200):
            refuse("under load the service answers much less than it can")
        if not self.load.count(429):
            refuse("nothing was refused, so this was no load")
        first, last, held = flat(self.memory, self.amount.slack)
        if not held:
            refuse(f"memory grew from {first / 2**20:.0f} to {last / 2**20:.0f} MiB")
        compared = self.amount.compared
        if self.right != compared:
            refuse(f"{compared - self.right} of {compared} answers after the load are not those of predict --json")

    def rows(self) -> list[tuple[str, str]]:
        """The figures, in words."""
        load, first_last = self.load, flat(self.memory)

        def times(record: Record, status: int) -> str:
            return f"{record.milliseconds(status, 0.5):.0f} ms, {record.milliseconds(status, 0.95):.0f} ms"

        rows = [
            ("capacity", f"{self.capacity.rate(200):.1f} answers/s"),
            ("their time: median, 95 %", times(self.capacity, 200)),
            ("offered", f"{self.offered:.1f} requests/s for {load.seconds:.0f} s, {load.total} in all"),
            ("answered", f"{load.rate(200):.1f} per second, {load.count(200)} in all"),
            ("their time: median, 95 %", times(load, 200)),
            ("refused with 429 and `Retry-After`", f"{100 * load.count(429) / max(1, load.total):.1f} %"),
            ("their time: median, 95 %", times(load, 429)),
            ("anything else", str(sum(load.errors.values()))),
            ("updates found again", str(load.hits)),
            ("sent again after an idle connection was closed", str(load.again)),
            (
                "resident memory: first third, last third, most",
                ", ".join(f"{size / 2**20:.0f} MiB" for size in (*first_last[:2], max(self.memory))),
            ),
            ("answers afterwards that are those of `predict --json`", f"{self.right} of {self.amount.compared}"),
        ]
        for name, told in self.told.items():
            rows.append((name, ", ".join(f"{what} ({count})" for what, count in sorted(told.items()))))
        return rows


async def _watch(service: Service, memory: list[int]) -> None:
    """Looks at the memory every second, and ends never."""
    while True:
        memory.append(service.memory())
        await asyncio.sleep(1)


async def _badly(result: Result, port: int, name: str, until: float, *pause: float) -> None:
    """One client with bad manners, again and again."""
    behave = hostile.SLOW.get(name) or hostile.QUICK[name]
    told = result.told.setdefault(name, Counter())
    while time.monotonic() < until:
        try:
            told[await behave(port, *pause)] += 1
        except Exception as error:  # noqa: BLE001 (whatever it is, it is not what should have happened)
            result.wrong.append(f"{name}: {type(error).__name__} {str(error)[:200]}")
        await asyncio.sleep(0.5)


async def _crowd(result: Result, port: int, seconds: float) -> None:
    """A thousand idle connections during the middle of the load."""
    await asyncio.sleep(seconds / 3)
    async with hostile.idle(port, 1000):
        await asyncio.sleep(seconds / 3)
    result.told["1000 idle connections"] = Counter({"came and left": 1})


async def _run(program: str, service: Service, amount: Amount) -> Result:
    result, asked = Result(amount), itertools.cycle(questions(program, amount.prompts))
    clients = 2 * amount.threads
    # What is done once is not measured.
    await closed_loop(service.port, asked, clients, amount.warm / 2)
    result.capacity = await closed_loop(service.port, asked, clients, amount.warm)
    result.offered = amount.times * result.capacity.rate(200)
    until, pause = time.monotonic() + amount.seconds, 1.0
    watching = asyncio.create_task(_watch(service, result.memory))
    bad = [_badly(result, service.port, name, until, pause) for name in hostile.SLOW]
    bad += [_badly(result, service.port, name, until) for name in hostile.QUICK]
    loading = open_loop(service.port, asked, result.offered, amount.seconds)
    result.load, *_ = await asyncio.gather(loading, _crowd(result, service.port, amount.seconds), *bad)
    watching.cancel()
    tasks = [digit_task(5000 + seed) for seed in range(amount.compared)]
    for task, report in zip(tasks, printed(program, tasks)):
        answer = await ask(service.port, post("/v1/predict", {"task": task}))
        result.right += answer.status == 200 and report_of(answer.body) == report
    result.judge()
    return result


def press(program: str, amount: Amount, *flags: str) -> Result:
    """Starts a service, loads it, and judges what came of it."""
    own = ["--threads", str(amount.threads), "--cache-entries", str(FAMILIAR + amount.prompts // 8)]
    with Service(program, *own, *flags) as service:
        return asyncio.run(_run(program, service, amount))

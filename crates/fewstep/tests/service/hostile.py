"""Clients that behave badly, each on a connection of its own; every one says what it was told.

What a client may be told depends on what else goes on: a service that is busy may say so (429) to
any that asks for work. Anything else than what is expected here is an ``AssertionError``.
"""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from client import Answer, Closed, Connection, ask, head, post
from service import PATIENCE, digit_task

GIGABYTE = 10**9
#: How much a client sends at most that was told to stop.
ENOUGH = 64 * 2**20
DEPTH = 100_000


def expect(answer: Answer, *statuses: int) -> str:
    """The status in words, if it is one of these and says what a problem says."""
    assert answer.status in (*statuses, 429), (answer.status, answer.body[:300])
    if answer.status >= 400:
        problem = answer.json()
        assert problem["status"] == answer.status and problem["detail"], problem
    if answer.status == 429:
        assert int(answer.headers["retry-after"]) >= 1
    return str(answer.status)


async def _drop_by_drop(connection: Connection, text: bytes, pause: float) -> Answer | None:
    """Sends byte by byte until there is an answer or an end."""
    reading = asyncio.create_task(connection.read())
    for byte in text:
        await connection.send(bytes([byte]))
        done, _ = await asyncio.wait([reading], timeout=pause)
        if done:
            break
    with suppress(Closed):
        return await asyncio.wait_for(reading, PATIENCE)
    return None


async def slow_head(port: int, pause: float) -> str:
    """A head that never ends, one byte at a time."""
    connection = await Connection.open(port)
    try:
        answer = await _drop_by_drop(connection, head("GET", "/healthz")[:-2] + b"X: " + b"x" * 1000, pause)
        return "closed" if answer is None else expect(answer, 408)
    finally:
        connection.close()


async def slow_body(port: int, pause: float) -> str:
    """A body of one byte at a time."""
    connection = await Connection.open(port)
    try:
        await connection.send(head("POST", "/v1/predict", 1000))
        answer = await _drop_by_drop(connection, b'{"task": ' + b" " * 900, pause)
        assert answer is not None, "it was closed without a word"
        return expect(answer, 408)
    finally:
        connection.close()


async def half_body(port: int) -> str:
    """Half a body, and then nothing."""
    request = post("/v1/predict", {"task": digit_task(1)})
    return expect(await ask(port, request[: len(request) // 2]), 408)


async def leave_in_body(port: int) -> str:
    """Half a body, and then nobody."""
    connection = await Connection.open(port)
    request = post("/v1/predict", {"task": digit_task(1)})
    await connection.send(request[: len(request) // 2])
    connection.close()
    return "left"


async def leave_before_answer(port: int) -> str:
    """A request whose client does not wait."""
    connection = await Connection.open(port)
    await connection.send(post("/v1/predict", {"task": digit_task(1), "reuse": False}))
    await asyncio.sleep(0.01)
    connection.close()
    return "left"


async def leave_in_answer(port: int) -> str:
    """A list whose client leaves after the first line."""
    connection = await Connection.open(port)
    try:
        tasks = [digit_task(seed, 12) for seed in range(30)]
        await connection.send(post("/v1/predict", {"tasks": tasks, "reuse": False}))
        answer = await asyncio.wait_for(connection.read_head(), PATIENCE)
        if answer.status == 200:
            line = await asyncio.wait_for(connection.read_piece(), PATIENCE)
            assert "report" in json.loads(line) or "error" in json.loads(line)
            return "left"
        assert answer.status == 429, answer.status
        return "429"
    finally:
        connection.close()


async def announced(port: int) -> str:
    """A gigabyte that is announced and does not come."""
    return expect(await ask(port, head("POST", "/v1/predict", GIGABYTE)), 413)


async def _flood(port: int, beginning: bytes, piece: bytes) -> str:
    """Sends on and on, whatever is said."""
    connection = await Connection.open(port)
    try:
        await connection.send(beginning)
        reading = asyncio.create_task(connection.read())
        for _ in range(ENOUGH // len(piece)):
            await connection.send(piece)
            await asyncio.sleep(0)
            if reading.done():
                break
        return expect(await asyncio.wait_for(reading, PATIENCE), 413)
    finally:
        connection.close()


async def gigabyte(port: int) -> str:
    """A gigabyte that is announced and does come, until the client is told."""
    return await _flood(port, head("POST", "/v1/predict", GIGABYTE), b" " * 2**16)


async def chunked(port: int) -> str:
    """A body in pieces without an end."""
    beginning = head("POST", "/v1/decide", Transfer_Encoding="chunked")
    return await _flood(port, beginning, b"10000\r\n" + b" " * 2**16 + b"\r\n")


async def nested(port: int) -> str:
    """JSON that is a hundred thousand levels deep, in every place where something may stand."""
    lists, objects = b"[" * DEPTH + b"]" * DEPTH, b'{"a":' * DEPTH + b"1" + b"}" * DEPTH
    told = []
    for body, status in [
        (lists, 422),
        (objects, 422),
        (b'{"task":' + b"[" * DEPTH, 400),
        (b'{"task":' + lists + b"}", 422),
        (b'{"task":' + objects + b"}", 422),
        (b'{"task":{"id":' + lists + b"}}", 422),
        (b'{"horizons":' + lists + b"}", 422),
        (b'{"tasks":' + lists + b"}", 200),
    ]:
        told.append(expect(await ask(port, post("/v1/predict", body)), status))
    return " ".join(told)


@asynccontextmanager
async def idle(port: int, count: int) -> AsyncIterator[list[Connection]]:
    """So many connections on which nothing is said."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    connections: list[Connection] = []
    try:
        while len(connections) < count:
            some = min(50, count - len(connections))
            connections += await asyncio.gather(*(Connection.open(port) for _ in range(some)))
        yield connections
    finally:
        for connection in connections:
            connection.close()


#: Those that can be let loose on a service again and again; slow ones take a pause between bytes.
SLOW = {"slow head": slow_head, "slow body": slow_body}
QUICK = {
    "half a body": half_body,
    "left in its body": leave_in_body,
    "left before the answer": leave_before_answer,
    "left in the answer": leave_in_answer,
    "1 GB announced": announced,
    "1 GB sent": gigabyte,
    "pieces without end": chunked,
    "nested 100,000 deep": nested,
}

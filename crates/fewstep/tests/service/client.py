"""A client that knows no more of HTTP than it needs, so that it can also behave badly."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from service import PATIENCE


@dataclass(slots=True)
class Answer:
    """What a service said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Closed(Exception):
    """The service closed the connection before the answer, or in the middle of it."""

    def __init__(self, begun: bool) -> None:
        super().__init__("the connection was closed")
        #: Whether some of the answer had come.
        self.begun = begun


def head(method: str, path: str, length: int | None = None, **headers: str) -> bytes:
    """The head of a request; ``_`` in names of headers stands for ``-``."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if method == "POST":
        lines.append("Content-Type: application/json")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path: str, content: Any, **headers: str) -> bytes:
    """A whole request with a body of JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return head("POST", path, len(body), **headers) + body


class Connection:
    """One connection to a service, which may be used for several requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        """Sends bytes as they are; whether anybody takes them is seen when an answer is read."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            pass

    async def read_head(self) -> Answer:
        """The status and the headers of the next answer, without a body."""
        try:
            text = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            raise Closed(bool(error.partial)) from None
        except ConnectionError:
            raise Closed(False) from None
        first, *lines = text.decode("latin-1").rstrip().split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return Answer(int(first.split(" ")[1]), {name.lower(): value.strip() for name, value in pairs}, b"")

    async def read_piece(self) -> bytes:
        """The next piece of a body in pieces; nothing at its end."""
        length = int(await self.reader.readuntil(b"\r\n"), 16)
        return (await self.reader.readexactly(length + 2))[:length]

    async def read(self) -> Answer:
        """The next answer."""
        answer = await self.read_head()
        try:
            if answer.headers.get("transfer-encoding") == "chunked":
                pieces = []
                while piece := await self.read_piece():
                    pieces.append(piece)
                answer.body = b"".join(pieces)
            else:
                answer.body = await self.reader.readexactly(int(answer.headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Closed(True) from None
        return answer

    async def ask(self, request: bytes) -> Answer:
        """Sends a request and waits for its answer."""
        await self.send(request)
        return await asyncio.wait_for(self.read(), PATIENCE)

    def close(self) -> None:
        """Goes away, with what was not sent yet."""
        self.writer.transport.abort()


async def ask(port: int, request: bytes) -> Answer:
    """One request on a connection of its own."""
    connection = await Connection.open(port)
    try:
        return await connection.ask(request)
    finally:
        connection.close()

"""A service that was started for a test or for a measurement, and the command line beside it."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[4]
TASKS = [json.loads(line) for line in (ROOT / "examples/digits.jsonl").read_text().splitlines()]

#: How long anything may take, in seconds, that should not take long on a machine with other work.
PATIENCE = 60.0


class Service:
    """``fewstep serve`` on any free port of this machine, until the end of a ``with``."""

    def __init__(self, program: str, *flags: str) -> None:
        self.errors = tempfile.NamedTemporaryFile("w+", prefix="fewstep-serve-", errors="replace")
        command = [program, "serve", "--bind", "127.0.0.1:0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.port = self._port()

    def _port(self) -> int:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said())
            if found:
                return int(found[1])
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError(f"the service does not listen: {self.said()}")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        """Everything on standard error so far."""
        return Path(self.errors.name).read_text(errors="replace")

    def get(self, path: str, token: str | None = None) -> str:
        """The body of a plain GET."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with urlopen(Request(self.address + path, headers=headers), timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self, token: str | None = None) -> dict[str, float]:
        """The numbers of ``/metrics`` by name and labels."""
        lines = self.get("/metrics", token).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def memory(self) -> int:
        """Resident memory in bytes, as Linux has it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def files(self) -> int:
        """How many files and connections the process holds open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> int:
        """Asks the service to end and waits for it; the code that it ends with."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        code = self.end()
        self.errors.close()
        if kind is None and code != 0:
            raise RuntimeError(f"the service ended with {code}")


def digit_task(seed: int, examples: int = 10) -> dict[str, Any]:
    """A task like those of ``examples/digits.jsonl``, made by a seed."""
    rng = random.Random(seed)
    shift = rng.randrange(10)
    digits = [rng.randrange(10) for _ in range(examples + 1)]
    pairs = [{"x": str(digit), "y": str((digit + shift) % 10)} for digit in digits]
    return {
        "id": f"task {seed}",
        "template": "{x}->{y}",
        "labels": TASKS[0]["labels"],
        "examples": pairs[:-1],
        "query": pairs[-1],
    }


def printed(program: str, tasks: list[dict[str, Any]], *flags: str) -> list[bytes]:
    """What ``predict --json`` prints for each of some tasks."""
    lines = "".join(json.dumps(task) + "\n" for task in tasks).encode()
    done = subprocess.run([program, "predict", "-", "--json", *flags], input=lines, capture_output=True, check=True)
    return done.stdout.splitlines()


def report_of(body: bytes) -> bytes:
    """The bytes of the report in the answer to one task."""
    beginning, end = b'{"report":', b',"adapter":{'
    if not body.startswith(beginning):
        raise ValueError("the answer does not begin with a report")
    rest = body[len(beginning):]
    return rest[: rest.rindex(end)] if end in rest else rest[:-1]

"""The service, the command line and the browser."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

BINARY = os.environ["FEWSTEP_BINARY"]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def service() -> Iterator[str]:
    """The address of a service that was started for these tests."""
    process = subprocess.Popen(
        [BINARY, "serve", "--bind", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in process.stderr:
            lines.put(line)

    threading.Thread(target=listen, daemon=True).start()
    try:
        while True:
            found = re.search(r"listening on (http://\S+)", lines.get(timeout=60))
            if found:
                break
        yield found[1].rstrip("/")
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, "the service did not end well"


@dataclass
class CommandLine:
    """The program on one task: as JSON to the byte, and in words."""

    kept: dict[tuple[str, ...], str] = field(default_factory=dict)

    def _run(self, task: dict[str, Any], *words: str) -> str:
        key = (json.dumps(task), *words)
        if key not in self.kept:
            done = subprocess.run(
                [BINARY, words[0], "-", *words[1:]],
                input=key[0] + "\n",
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            self.kept[key] = done.stdout
        return self.kept[key]

    def json(self, task: dict[str, Any], *flags: str, action: str = "predict") -> str:
        """The line of the report with everything in it."""
        return self._run(task, action, "--json", "--full", *flags)

    def report(self, task: dict[str, Any], *flags: str, action: str = "predict") -> dict[str, Any]:
        """The report with everything in it."""
        return json.loads(self.json(task, *flags, action=action))

    def words(self, task: dict[str, Any], *flags: str, action: str = "predict") -> dict[str, str]:
        """The lines for a person, by the word they begin with."""
        # What is said about all tasks together comes behind a blank line.
        text = self._run(task, action, *flags).split("\n\n")[0]
        return dict(re.findall(r"^  (when|how far|where|prediction|error) +(.*)$", text, re.MULTILINE))


@pytest.fixture(scope="session")
def command_line() -> CommandLine:
    return CommandLine()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(15_000)
    # What a policy keeps from loading is no console message in every case.
    context.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => "
        "console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`))"
    )
    yield context
    context.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser may complain about in a test: statuses that it provokes, as ``422``."""
    return []


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    """A page that ends without an error in the console that was not expected."""
    page = context.new_page()
    errors: list[str] = []
    page.on(
        "console",
        lambda message: errors.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    unexpected = [error for error in errors if not any(expected in error for expected in complaints)]
    assert unexpected == []


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go."""
    named = os.environ.get("SCREENSHOTS")
    directory = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory

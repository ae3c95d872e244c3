"""What the tests share: numbers as the command line writes them, addresses, and the page in use."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).resolve().parents[4]
TASKS = [json.loads(line) for line in (ROOT / "examples/digits.jsonl").read_text().splitlines()]

#: The longest that an answer of the built-in model may take on a machine that does other things.
PATIENCE = 60_000


def number(value: float | None) -> str:
    """A number to three digits: the same rule as in the program, by Python's own rounding."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    mantissa, power = f"{value:.2e}".split("e")
    exponent = int(power)
    if -4 <= exponent <= 4:
        return f"{value:.{max(0, 2 - exponent)}f}"
    return f"{mantissa}e{exponent}"


def at(report: dict[str, Any], path: str) -> Any:
    """What stands at ``how_far.evidence[3]`` and the like."""
    value: Any = report
    for key in re.findall(r"[^.\[\]]+", path):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def fragment(task: dict[str, Any], options: dict[str, Any] | None = None, action: str = "predict") -> str:
    """The address of a task, as the page writes it."""
    asked = {"action": action, "task": task, "options": options or {}}
    text = json.dumps(asked, ensure_ascii=False).encode()
    return "#task=" + base64.urlsafe_b64encode(text).decode().rstrip("=")


def read_fragment(address: str) -> dict[str, Any]:
    """What an address of the page holds."""
    coded = address.split("#task=", 1)[1]
    return json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))


def flags(options: dict[str, Any]) -> list[str]:
    """The options of a request as flags of the command line."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def run(page: Page) -> None:
    """Presses Run and waits for the answer."""
    page.get_by_role("button", name="Run", exact=True).click()
    answered(page)


def answered(page: Page) -> None:
    """Waits for the answer."""
    expect(page.locator("#status")).to_contain_text("Answered", timeout=PATIENCE)


def field(page: Page, name: str) -> Locator:
    """The field with a name such as ``examples[3].y``."""
    return page.locator(f'[data-field="{name}"]')

"""``docs/serve.md`` is held against the program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from service import ROOT, Service

PAGE = (ROOT / "docs/serve.md").read_text()
#: Every example, and what it prints, where ``…`` stands for anything within a line.
EXAMPLES = re.findall(r"```sh\n(.*?)```\n(?:```text\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def service(program: str) -> Iterator[Service]:
    with Service(program, "--threads", "2") as service:
        yield service


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_examples_print_what_they_are_said_to(service: Service, place: int) -> None:
    script, shown = EXAMPLES[place]
    assert "localhost:8080" in script and shown
    script = "set -euo pipefail\n" + script.replace("localhost:8080", f"127.0.0.1:{service.port}")
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pattern = re.escape(shown.strip()).replace("…", ".*")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout


def test_every_operation_has_an_example(service: Service) -> None:
    paths = json.loads(service.get("/openapi.json"))["paths"]
    for path, operations in paths.items():
        for method in operations:
            assert f"`{method.upper()} {path}`" in PAGE, path
            assert f"localhost:8080{path.replace('{id}', '0' * 32)}" in PAGE, path


def test_every_status_is_in_the_table(service: Service) -> None:
    paths = json.loads(service.get("/openapi.json"))["paths"]
    operations = [operation for path in paths.values() for operation in path.values()]
    answers = {answer for operation in operations for answer in operation["responses"]}
    rows = re.findall(r"^\| (\d{3}(?:, \d{3})*) \|", PAGE, re.MULTILINE)
    shown = {status for row in rows for status in row.split(", ")}
    # What a document does not mention is no operation of it.
    assert shown == {status for status in answers if status >= "400"} | {"405"}


def test_the_limits_are_those_of_the_help(program: str) -> None:
    shown = re.findall(r"^\| `(--[\w-]+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)
    text = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    limits = re.search(r"^Limits:\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)[1]
    found = re.findall(r"(--[\w-]+) <.*?\[default:\s+([\d.]+)\]", limits, re.DOTALL)
    assert shown == found and len(found) == limits.count(" --")

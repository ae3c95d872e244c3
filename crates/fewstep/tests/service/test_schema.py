"""What the service does is what ``/openapi.json`` says, whatever is sent to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from service import Service

HERE = Path(__file__).resolve().parent
WORK = ("/v1/decide", "/v1/predict")


def explore(service: Service, *flags: str) -> None:
    """Sends what fits the document and what does not to every operation, and fails if an answer does not fit."""
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "--no-color", "--config-file", str(HERE / "schemathesis.toml"),
        "run", service.address + "/openapi.json", *flags,
    ]
    hooks = os.environ | {"SCHEMATHESIS_HOOKS": str(HERE / "schema_hooks.py")}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(command, cwd=scratch, env=hooks, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    found = re.search(r"Operations: +(\d+) selected", done.stdout)
    assert found and int(found[1]) >= 7, done.stdout


def statuses(service: Service, token: str | None = None) -> dict[tuple[str, int], int]:
    """How often each route answered with each status."""
    pattern = r'fewstep_requests_total\{route="([^"]+)",method="\w+",status="(\d+)"\} (\d+)'
    counts: dict[tuple[str, int], int] = {}
    for route, status, count in re.findall(pattern, service.get("/metrics", token)):
        key = (route, int(status))
        counts[key] = counts.get(key, 0) + int(count)
    return counts


@pytest.fixture
def token(tmp_path: Path) -> tuple[str, str]:
    """A token and the file that it is in."""
    file = tmp_path / "token"
    file.write_text("an-open-secret")
    return "an-open-secret", str(file)


def test_every_answer_fits_the_document(program: str) -> None:
    with Service(program) as service:
        explore(service, "--phases", "examples,coverage,fuzzing", "--max-examples", "30")
        counts = statuses(service)
    assert not [key for key in counts if key[1] >= 500], counts
    for route in WORK:
        assert counts[route, 200] >= 10 and counts[route, 422] >= 10, counts


def test_every_answer_fits_the_document_with_a_token(program: str, token: tuple[str, str]) -> None:
    with Service(program, "--token-file", token[1]) as service:
        bearer = f"Authorization: Bearer {token[0]}"
        explore(service, "--header", bearer, "--phases", "fuzzing", "--max-examples", "12")
        counts = statuses(service, token[0])
    assert not [key for key in counts if key[1] >= 500], counts
    for route in WORK:
        # That a request without the token is refused is tried for each operation, too.
        assert counts[route, 200] >= 3 and counts[route, 401] >= 1, counts


def test_nobody_without_the_token_gets_anything(program: str, token: tuple[str, str]) -> None:
    with Service(program, "--token-file", token[1]) as service:
        explore(service, "--phases", "fuzzing", "--max-examples", "6")
        # This counts a request of its own, after it has counted.
        counts = statuses(service, token[0])
    for route in (*WORK, "/v1/models", "/v1/adapters/{id}", "/metrics"):
        assert {status for known, status in counts if known == route} <= {401}, counts
        assert counts[route, 401] >= 1, counts

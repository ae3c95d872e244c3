"""What clients write is neither in the log nor among the metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from client import ask, head, post
from service import Service, digit_task

#: Words that nothing else says; the built-in model reads nothing but digits, so one is made of them.
WORD, DIGITS = "Sesquipedalian", "7391846205"


def bodies() -> list[Any]:
    """Requests with the words in every place, some answered and some refused."""
    plain = digit_task(1, 4)
    read = plain | {"id": WORD, "examples": [{"x": DIGITS, "y": "1"}, {"x": "2", "y": "3"}], "query": {"x": DIGITS}}
    labels = [{"text": WORD, "value": 0}, {"text": f"{WORD}s", "value": 1}]
    wrong = [
        plain | {"id": {WORD: 1}},
        plain | {"template": f"{WORD}{{x}}->{{y}}"},
        plain | {"template": WORD},
        plain | {"separator": WORD},
        plain | {"labels": labels},
        plain | {"examples": [{"x": WORD, "y": "1"}, {"x": "2", "y": WORD}]},
        plain | {"examples": [{"x": "1", "y": "1", WORD: "2"}]},
        plain | {"query": {"x": WORD, "y": WORD}},
        plain | {WORD: 1},
    ]
    tasks = [read, *wrong, WORD]
    names = ("model", "blocks", "select", "horizon", "horizons", "bos", "full", "budget", WORD)
    options = [{name: WORD} for name in names]
    return [{"task": read}, {"task": read}, {"tasks": tasks}, *({"task": task} for task in tasks)] + [
        {"task": read, **option} for option in options
    ]


async def ask_all(port: int, token: str) -> list[int]:
    bearer = {"Authorization": f"Bearer {token}"}
    requests = [post(f"/v1/{verb}", body, **bearer) for body in bodies() for verb in ("decide", "predict")]
    requests += [
        post("/v1/predict", f'{{"task": {WORD}'.encode(), **bearer),
        post("/v1/predict", {"task": digit_task(1, 4)}, Authorization=f"Bearer {WORD}"),
        head("GET", f"/{WORD}?{WORD}={WORD}", X_Word=WORD, User_Agent=WORD, **bearer),
        head("GET", f"/v1/models?{WORD}", Cookie=f"{WORD}={WORD}", **bearer),
        head("GET", "/v1/models", Authorization=f"{WORD} {WORD}"),
        head("GET", "/page/" + WORD),
        head("DELETE", f"/v1/adapters/{WORD}", **bearer),
        head(WORD.upper(), "/healthz", **bearer),
        head("GET", "/healthz", **bearer).replace(b"Host: localhost", f"Host: {WORD}.example".encode()),
    ]
    return [(await ask(port, request)).status for request in requests]


def test_words_of_clients_are_nowhere(program: str, tmp_path: Path) -> None:
    token = f"{WORD}-token"
    (tmp_path / "token").write_text(token)
    with Service(program, "--threads", "2", "--token-file", str(tmp_path / "token")) as service:
        statuses = asyncio.run(ask_all(service.port, token))
        assert set(statuses) == {200, 400, 401, 404, 405, 421, 422}, sorted(set(statuses))
        metrics = service.get("/metrics", token)
        assert service.end() == 0
        said = service.said()
    assert said.count("/v1/predict") > 20, "requests are written down"
    for text in (said.lower(), metrics.lower()):
        assert WORD.lower() not in text and DIGITS not in text

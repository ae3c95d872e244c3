"""What schemathesis is told about this service: real tasks, and answers in lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import schemathesis

sys.path.insert(0, str(Path(__file__).resolve().parent))

from service import digit_task  # noqa: E402

LINES = "application/x-ndjson"


def is_lines(response: schemathesis.Response) -> bool:
    return response.status_code == 200 and response.headers.get("content-type", [""])[0] == LINES


def lines(response: schemathesis.Response) -> list[Any]:
    return [json.loads(line) for line in response.content.decode().splitlines()]


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Gives every second request that fits tasks that can be answered, so that some are."""
    positive = case.meta is not None and case.meta.generation.mode.is_positive
    body = case.body
    if not positive or not isinstance(body, dict) or len(json.dumps(body)) % 2:
        return
    if "task" in body:
        body["task"] = digit_task(1, 3)
    if isinstance(body.get("tasks"), list):
        body["tasks"] = [digit_task(1, 3), *body["tasks"][1:3], digit_task(2, 3)]
    # Options that are right one by one need not be right together.
    seen = ("adjoint", "residuals", "shots")
    for name in (
        "model", "blocks", "lora_rank", "lora_first", "horizons", "max_tokens_per_example", "orders", *seen,
    ):
        body.pop(name, None)
    if "budget" in body:
        body["budget"] = 1 + body["budget"] % 4
    if isinstance(body.get("policy"), dict):
        for name in ("blocks", "horizons", *seen):
            body["policy"].pop(name, None)


def asked(task: Any) -> int:
    """The number of queries in a task's list, if it has one."""
    queries = task.get("queries") if isinstance(task, dict) else None
    return len(queries) if isinstance(queries, list) else 0


@schemathesis.check
def lines_fit_the_schema(ctx: Any, response: schemathesis.Response, case: schemathesis.Case) -> None:
    """Every line of an answer to many tasks is one of the lines that the document describes."""
    if not is_lines(response):
        return
    document = case.operation.schema.raw_schema
    schema = {"$ref": "#/components/schemas/Line", "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(schema)
    found = lines(response)
    # A task has a line, or one for each query of its list.
    tasks = case.body["tasks"] if "tasks" in case.body else [case.body["task"]]
    most = sum(max(1, asked(task)) for task in tasks)
    assert len(tasks) <= len(found) <= most, "there is not one line for each task or query"
    for line in found:
        validator.validate(line)


@schemathesis.hook
def filter_failure(context: schemathesis.HookContext, failure: Any, case: Any, response: Any) -> bool:
    """A task of a list that is wrong fails in its place, and the list does not."""
    accepted = type(failure).__name__ == "AcceptedNegativeData"
    return not (accepted and is_lines(response) and any("error" in line for line in lines(response)))

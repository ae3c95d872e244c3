"""Many tasks on many machines: `fewstep.ray.predict` runs them on Ray Data.

One copy of the model per worker process, which answers its share of the tasks one batch at a time;
Ray hands out batches no faster than they are answered, and hands a batch of a worker that died to
another one. A task that fails becomes a row with its error, and the others go on.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import pathlib
import tempfile
from typing import Any, FrozenSet, Iterable, Mapping, Optional, Union

try:
    import ray
    import ray.data
except ImportError as missing:
    raise ImportError(
        "fewstep.ray needs Ray Data, which is not installed; pip install 'fewstep[ray]'"
    ) from missing

import fewstep

__all__ = ["predict"]

#: The columns of an answer. `key` tells tasks apart: it is made of all that a task says.
COLUMNS = (
    "key",
    "id",
    "icl",
    "adapted",
    "linear",
    "standard_deviation",
    "lower",
    "upper",
    "label",
    "probability",
    "abstention",
    "adapt",
    "horizon",
    "error",
    "report",
)

_SETTINGS = "settings.json"

#: The options that change single fields of a policy.
_OVERRIDES = frozenset(inspect.signature(fewstep.Policy.with_overrides).parameters) - {"self"}


def predict(
    dataset: Union["ray.data.Dataset", Iterable[Any], str, os.PathLike[str]],
    model: str = "builtin",
    *,
    concurrency: int = 2,
    batch_size: int = 8,
    out: Optional[Union[str, os.PathLike[str]]] = None,
    load: Optional[Mapping[str, Any]] = None,
    policy: Any = "default",
    **options: Any,
) -> "ray.data.Dataset":
    """Answers every task of a dataset and gives a dataset with one row per task.

    `dataset` is a Ray dataset, an iterable of tasks (dictionaries or `fewstep.Task`), or the path
    of JSON Lines. A row of a dataset holds the fields of a task, or a column `task` with one as a
    dictionary or as JSON. `model` and `load` are those of `fewstep.Model.load`, `policy` and
    `options` those of `Model.predict`; `concurrency` is the number of worker processes.

    Without `out` the result is lazy, as Ray's datasets are. With `out`, a directory that all
    workers reach, answers are written there as they come, tasks that it answers already are passed
    over, and the result is everything in it; so a run that was stopped continues when it is started
    again. Model and policy must be those that it was started with.
    """
    settings = {"model": str(model), "load": dict(load or {}), **_asked(policy, options)}
    directory = None if out is None else pathlib.Path(out).absolute()
    answered = frozenset() if directory is None else _answered(directory, settings)
    # One step from rows to answers: a step of its own for anything else would wait for a processor
    # that the workers have.
    answers = _rows_of(dataset).map_batches(
        _Worker,
        batch_size=batch_size,
        batch_format="pandas",
        concurrency=concurrency,
        num_cpus=1,
        fn_constructor_kwargs={"settings": settings, "out": directory, "answered": answered},
    )
    if directory is None:
        return answers
    answers.materialize()
    return _read(directory)


def _asked(policy: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The whole policy and the other options; what is wrong with them is said before any work."""
    overrides = {name: value for name, value in options.items() if name in _OVERRIDES}
    chosen = fewstep.Policy.of(policy).with_overrides(**overrides)
    # A seed is for low-rank blocks, too, which no policy describes.
    others = {name: value for name, value in options.items() if name not in _OVERRIDES}
    if "seed" in options:
        others["seed"] = options["seed"]
    return {"policy": chosen.to_dict(), "options": others}


def _rows_of(dataset: Any) -> "ray.data.Dataset":
    """A dataset of rows that hold a task each, in one of the forms that `_task` knows."""
    if isinstance(dataset, (str, os.PathLike)):
        return ray.data.read_text(os.fspath(dataset), drop_empty_lines=True)
    if isinstance(dataset, ray.data.Dataset):
        return dataset
    if isinstance(dataset, (Mapping, fewstep.Task)):
        raise fewstep.errors.WrongType(
            "dataset is one task; give a list of tasks, a Ray dataset or the path of JSON Lines"
        )
    return ray.data.from_items([{"task": _json(task)} for task in dataset])


def _task(row: Mapping[str, Any]) -> str:
    """The task of a row, as JSON: a line of text, a column, or the row itself."""
    if set(row) == {"text"}:
        return str(row["text"]).strip()
    return _json(row["task"] if "task" in row else dict(row))


def _json(task: Any) -> str:
    """A task as JSON, whatever it is held in; what is no task becomes an error row later."""
    if isinstance(task, str):
        return task
    if isinstance(task, fewstep.Task):
        return task.to_json()
    # Arrow and numpy hold lists and numbers in types of their own.
    return json.dumps(task, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "as_py"):
        return value.as_py()
    return str(value)


class _Worker:
    """A process with a model."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        out: Optional[pathlib.Path],
        answered: FrozenSet[str],
    ) -> None:
        self._model = fewstep.Model.load(settings["model"], **settings["load"])
        self._options = {"threads": 1, **settings["options"], "policy": settings["policy"]}
        self._out = out
        self._answered = answered

    def __call__(self, batch: Any) -> Any:
        pandas: Any = importlib.import_module("pandas")
        tasks = [_task(row) for row in batch.to_dict("records")]
        keys = [hashlib.sha256(task.encode()).hexdigest()[:32] for task in tasks]
        pairs = [pair for pair in zip(keys, tasks) if pair[0] not in self._answered]
        rows = [self._row(key, task) for key, task in pairs]
        if self._out is not None and rows:
            _write(self._out, rows)
        return pandas.DataFrame(rows, columns=list(COLUMNS))

    def _row(self, key: str, task: str) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row["key"] = str(key)
        try:
            parsed = fewstep.Task.from_json(str(task))
            row["id"] = parsed.id
            if parsed.queries is not None:
                raise fewstep.errors.WrongType(
                    f"task {parsed.id!r} has a list of queries; give one task for each, with query"
                )
            report = self._model.predict(parsed, **self._options)
        except fewstep.errors.FewstepError as error:
            row["error"] = str(error)
            return row
        row.update(_said(report))
        return row


def _said(report: Union[fewstep.Report, fewstep.ClassReport]) -> dict[str, Any]:
    """What the columns of an answer say of a report."""
    fields = report.to_dict()
    said = fields["prediction"]
    row: dict[str, Any] = {
        "adapt": (fields.get("when") or {}).get("adapt"),
        "horizon": (fields.get("how_far") or {}).get("horizon"),
        "report": json.dumps(fields),
    }
    if isinstance(report, fewstep.ClassReport):
        probability = said["adapted"][said["labels"].index(said["label"])]
        return {**row, "label": said["label"], "probability": probability, "abstention": said["abstention"]}
    interval = said.get("interval") or {}
    return {
        **row,
        "icl": said.get("icl"),
        "adapted": said.get("adapted"),
        "linear": said.get("linear"),
        "standard_deviation": said.get("standard_deviation"),
        "lower": interval.get("lower"),
        "upper": interval.get("upper"),
    }


def _write(directory: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    """Writes a batch as one file that is there whole or not at all.

    Its name is made of its tasks: a batch that is worked on again replaces what a worker left that
    died after writing it.
    """
    name = hashlib.sha256("".join(row["key"] for row in rows).encode()).hexdigest()[:32]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    _replace(directory / f"{name}.jsonl", text)


def _replace(file: pathlib.Path, text: str) -> None:
    handle, part = tempfile.mkstemp(prefix=".part-", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as open_file:
            open_file.write(text)
            open_file.flush()
            os.fsync(open_file.fileno())
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def _answered(directory: pathlib.Path, settings: Mapping[str, Any]) -> FrozenSet[str]:
    """The keys of the tasks that a directory answers, after a look at what they were asked with."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / _SETTINGS
    text = json.dumps(settings, sort_keys=True, default=str)
    if file.exists():
        found = file.read_text(encoding="utf-8")
        if found != text:
            raise fewstep.errors.OtherSettings(
                f"{directory} holds answers for {found}, not for {text}; name another directory, or "
                "ask with the same model and options"
            )
    else:
        _replace(file, text)
    return frozenset(row["key"] for row in _rows(directory))


def _rows(directory: pathlib.Path) -> Iterable[dict[str, Any]]:
    for file in sorted(directory.glob("*.jsonl")):
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def _read(directory: pathlib.Path) -> "ray.data.Dataset":
    """Everything that a directory answers, each task once."""
    rows = {row["key"]: row for row in _rows(directory)}
    return ray.data.from_items([rows[key] for key in sorted(rows)])

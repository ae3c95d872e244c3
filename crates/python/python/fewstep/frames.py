"""Tasks in tables of pandas or polars, and their answers as a table of the same library.

Neither library is needed: it is imported only by a call that brings one of its tables.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union

from ._native import ClassReport, Failure, Report, errors

#: The columns of a table that has one task per row.
_NEEDED = ("template", "examples", "query")

#: Those that it may have besides.
_OPTIONAL = ("id", "labels", "separator")

#: The columns of a table of answers, and what they hold.
_COLUMNS = {
    "id": "text",
    "query": "count",
    "icl": "number",
    "adapted": "number",
    "linear": "number",
    "standard_deviation": "number",
    "lower": "number",
    "upper": "number",
    "target": "number",
    "adapt": "answer",
    "horizon": "count",
    "step_size": "number",
    "rule": "text",
    "select": "text",
    "selected": "texts",
    "error": "text",
}

#: Those of answers to tasks of classes.
_CLASS_COLUMNS = {
    "id": "text",
    "query": "count",
    "label": "text",
    "probability": "number",
    "set": "texts",
    "confidence": "number",
    "abstention": "number",
    "answer": "text",
    "labels": "texts",
    "icl_probabilities": "numbers",
    "adapted_probabilities": "numbers",
    "adapt": "answer",
    "weight": "number",
    "horizon": "count",
    "mean_horizon": "number",
    "rule": "text",
    "error": "text",
}

Answer = Union[Report, ClassReport, Failure]


def tasks(frame: Any) -> Iterator[Any]:
    """The tasks of a table, row by row.

    The table has a column ``task`` with dictionaries, lines of JSON or tasks; or the columns
    ``template``, ``examples`` and ``query``, and maybe ``labels``, ``id`` and ``separator``. There
    labels and examples are lists or their JSON, and a query is a text or a dictionary. Without
    labels the answers of the examples are classes. Without a column ``id`` a task is named after its
    row, counted from 1.
    """
    frame = _collected(frame)
    columns = [str(name) for name in frame.columns]
    if "task" in columns:
        return iter(_cells(frame, "task"))
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise errors.WrongType(
            f"the table has no column {', '.join(missing)}; a table of tasks has a column task, "
            f"or the columns {', '.join(_NEEDED)}"
        )
    names = [name for name in (*_NEEDED, *_OPTIONAL) if name in columns]
    rows = zip(*(_cells(frame, name) for name in names))
    return (_task(number, dict(zip(names, row))) for number, row in enumerate(rows, 1))


def answer(method: Callable[..., Sequence[Answer]], frame: Any, **options: Any) -> Any:
    """What a method of a model says about the tasks of a table: one row per task, or per query of a
    task with a list of them, whose rows have the same place in the index and a number in ``query``.

    Tasks of classes have columns of their own; a table of both kinds has the columns of both.
    """
    frame = _collected(frame)
    found = method(list(tasks(frame)), **options)
    kinds = _columns(found)
    rows = [_row(one) for one in found]
    columns = {name: [row.get(name) for row in rows] for name in kinds}
    if _library(frame) == "polars":
        polars: Any = importlib.import_module("polars")

        types: Dict[str, Any] = {
            "text": polars.String,
            "texts": polars.List(polars.String),
            "number": polars.Float64,
            "numbers": polars.List(polars.Float64),
            "count": polars.Int64,
            "answer": polars.Boolean,
        }
        return polars.DataFrame(columns, schema={name: types[kind] for name, kind in kinds.items()})
    pandas: Any = importlib.import_module("pandas")

    # What is absent stays absent: a row that failed has no horizon, not the horizon NaN.
    dtypes = {"number": "float64", "count": "Int64", "answer": "boolean"}
    index = frame.index.take(_places(found))
    series = {
        name: pandas.Series(columns[name], index=index, dtype=dtypes.get(kind, "object"))
        for name, kind in kinds.items()
    }
    return pandas.DataFrame(series, index=index)


def _columns(found: Sequence[Answer]) -> Dict[str, str]:
    """The columns of a table of these answers."""
    classes = any(isinstance(one, ClassReport) for one in found)
    numbers = not classes or any(isinstance(one, Report) for one in found)
    kinds = {**(_COLUMNS if numbers else {}), **(_CLASS_COLUMNS if classes else {})}
    if all(one.query is None for one in found):
        kinds.pop("query")
    return kinds


def _places(found: Sequence[Answer]) -> List[int]:
    """The row of the table of tasks that each answer is about."""
    places: List[int] = []
    for one in found:
        last = places[-1] if places else -1
        places.append(last if one.query else last + 1)
    return places


def _library(frame: Any) -> str:
    return type(frame).__module__.split(".")[0]


def _collected(frame: Any) -> Any:
    """A table with its rows, where they are still to be computed."""
    return frame.collect() if type(frame).__name__ == "LazyFrame" else frame


def _cells(frame: Any, name: str) -> List[Any]:
    cells: List[Any] = frame[name].to_list()
    return cells


def _task(number: int, cells: Mapping[str, Any]) -> Dict[str, Any]:
    """A row as the fields of a task; what is wrong with them is said when the task is read."""
    fields = {name: _plain(cell) for name, cell in cells.items()}
    name = fields.get("id")
    fields["id"] = str(number) if name is None else name if isinstance(name, str) else str(name)
    if fields.get("separator") is None:
        fields.pop("separator", None)
    if isinstance(fields["query"], str):
        fields["query"] = {"x": fields["query"]}
    if fields.get("labels") is None:
        fields.pop("labels", None)
    for column in ("labels", "examples"):
        if isinstance(fields.get(column), str):
            try:
                fields[column] = json.loads(fields[column])
            except ValueError:
                # The text stays, and is refused in its place.
                pass
    return fields


def _plain(cell: Any) -> Any:
    """A cell, with what libraries put for an absent one as ``None``."""
    if isinstance(cell, float) and cell != cell:
        return None
    return None if type(cell).__name__ in ("NAType", "NaTType") else cell


def _row(found: Answer) -> Dict[str, Any]:
    if isinstance(found, Failure):
        return {"id": found.id, "query": found.query, "error": found.error}
    if isinstance(found, ClassReport):
        return _class_row(found)
    prediction, when, how_far = found.prediction, found.when, found.how_far
    row: Dict[str, Any] = {
        "id": found.id,
        "query": found.query,
        "icl": prediction.icl,
        "adapted": prediction.adapted,
        "linear": prediction.linear,
        "standard_deviation": prediction.standard_deviation,
        "target": prediction.target,
        "select": found.which.rule,
        "selected": found.which.selected,
    }
    if prediction.interval is not None:
        row["lower"], row["upper"] = prediction.interval.lower, prediction.interval.upper
    if when is not None:
        row["adapt"] = when.adapt
    if how_far is not None:
        row["horizon"], row["rule"] = how_far.horizon, how_far.rule
        row["step_size"] = how_far.step_size
    return row


def _class_row(found: ClassReport) -> Dict[str, Any]:
    said, when, how_far = found.prediction, found.when, found.how_far
    return {
        "id": found.id,
        "query": found.query,
        "label": said.label,
        "probability": float(said.adapted[said.labels.index(said.label)]),
        "set": said.set,
        "confidence": said.confidence,
        "abstention": said.abstention,
        "answer": said.target,
        "labels": said.labels,
        "icl_probabilities": said.icl.tolist(),
        "adapted_probabilities": said.adapted.tolist(),
        "adapt": when.adapt,
        "weight": when.weight,
        "horizon": how_far.horizon,
        "mean_horizon": how_far.mean_horizon,
        "rule": how_far.rule,
    }

"""Tasks in tables of pandas or polars, and their answers as a table of the same library.

Neither library is needed: it is imported only by a call that brings one of its tables.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Union

from ._native import Failure, Report, errors

#: The columns of a table that has one task per row.
_NEEDED = ("template", "labels", "examples", "query")

#: The columns of a table of answers, and what they hold.
_COLUMNS = {
    "id": "text",
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

Answer = Union[Report, Failure]


def tasks(frame: Any) -> Iterator[Any]:
    """The tasks of a table, row by row.

    The table has a column ``task`` with dictionaries, lines of JSON or tasks; or the columns
    ``template``, ``labels``, ``examples`` and ``query``, and maybe ``id`` and ``separator``. There
    labels and examples are lists or their JSON, and a query is a text or a dictionary. Without a
    column ``id`` a task is named after its row, counted from 1.
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
    names = [name for name in ("id", *_NEEDED, "separator") if name in columns]
    rows = zip(*(_cells(frame, name) for name in names))
    return (_task(number, dict(zip(names, row))) for number, row in enumerate(rows, 1))


def answer(method: Callable[..., Sequence[Answer]], frame: Any, **options: Any) -> Any:
    """What a method of a model says about the tasks of a table, one row per task."""
    frame = _collected(frame)
    rows = [_row(found) for found in method(list(tasks(frame)), **options)]
    columns = {name: [row.get(name) for row in rows] for name in _COLUMNS}
    if _library(frame) == "polars":
        polars: Any = importlib.import_module("polars")

        kinds: Dict[str, Any] = {
            "text": polars.String,
            "texts": polars.List(polars.String),
            "number": polars.Float64,
            "count": polars.Int64,
            "answer": polars.Boolean,
        }
        return polars.DataFrame(columns, schema={n: kinds[kind] for n, kind in _COLUMNS.items()})
    pandas: Any = importlib.import_module("pandas")

    # What is absent stays absent: a row that failed has no horizon, not the horizon NaN.
    dtypes = {"number": "float64", "count": "Int64", "answer": "boolean"}
    series = {
        name: pandas.Series(columns[name], index=frame.index, dtype=dtypes.get(kind, "object"))
        for name, kind in _COLUMNS.items()
    }
    return pandas.DataFrame(series, index=frame.index)


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
    for column in ("labels", "examples"):
        if isinstance(fields[column], str):
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
        return {"id": found.id, "error": found.error}
    prediction, when, how_far = found.prediction, found.when, found.how_far
    row: Dict[str, Any] = {
        "id": found.id,
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

"""Tables of tasks in, tables of answers out, by either library and by neither."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fewstep import Model, Task, errors

from . import places


@pytest.fixture(scope="module")
def model():
    return Model.load()


@pytest.fixture(scope="module")
def tasks():
    return places.tasks()


def expected(reports):
    """The rows that reports should give, from their JSON."""
    rows = []
    for report in reports:
        record = report.to_dict()
        prediction, how_far = record["prediction"], record["how_far"]
        interval = prediction.get("interval", {})
        rows.append(
            {
                "id": record["id"],
                "icl": prediction["icl"],
                "adapted": prediction["adapted"],
                "linear": prediction["linear"],
                "standard_deviation": prediction["standard_deviation"],
                "lower": interval.get("lower"),
                "upper": interval.get("upper"),
                "target": prediction.get("target"),
                "adapt": record["when"]["adapt"],
                "horizon": how_far["horizon"],
                "step_size": how_far["step_size"],
                "rule": how_far["rule"],
                "select": record["which"]["rule"],
                "selected": record["which"]["selected"],
                "error": None,
            }
        )
    return rows


def rows(frame):
    """The rows of a table, with None for what is absent."""
    if type(frame).__module__.startswith("polars"):
        return frame.to_dicts()
    import pandas

    absent = lambda cell: not isinstance(cell, list) and pandas.isna(cell)
    plain = lambda row: {name: None if absent(cell) else cell for name, cell in row.items()}
    return [plain(row) for row in frame.to_dict("records")]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_is_answered_by_a_table_of_its_library(model, tasks, library):
    module = pytest.importorskip(library)
    wanted = expected(model.predict(tasks))
    forms = [
        module.DataFrame(tasks),
        module.DataFrame([{"task": json.dumps(task)} for task in tasks]),
        # As in a file of comma-separated values.
        module.DataFrame(
            [
                {**task, "labels": json.dumps(task["labels"]), "examples": json.dumps(task["examples"])}
                for task in tasks
            ]
        ),
    ]
    if library == "pandas":
        forms += [
            module.DataFrame({"task": tasks}),
            module.DataFrame({"task": [Task.from_dict(task) for task in tasks]}),
            module.DataFrame(tasks).assign(separator=float("nan")),
        ]
    else:
        forms.append(module.DataFrame(tasks).lazy())
    for frame in forms:
        answers = model.predict(frame)
        assert isinstance(answers, module.DataFrame)
        assert rows(answers) == wanted
    decided = model.decide(forms[0], horizon=3)
    assert rows(decided) == expected(model.decide(tasks, horizon=3))
    assert all(row["adapted"] is None for row in rows(decided))
    assert list(model.predict_iter(forms[0])) == model.predict(tasks)


def test_rows_keep_their_names_and_failures_their_rows(model, tasks):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(tasks[:3], index=["a", "b", "c"])
    frame.at["b", "examples"] = []
    frame.at["c", "query"] = tasks[2]["query"]["x"]
    answers = model.predict(frame)
    assert list(answers.index) == ["a", "b", "c"]
    assert answers.dtypes["icl"] == "float64" and str(answers.dtypes["horizon"]) == "Int64"
    failure = model.predict([tasks[0], {**tasks[1], "examples": []}])[1]
    assert answers.loc["b", "error"] == failure.error
    assert answers.loc["b", "id"] == tasks[1]["id"]
    assert pandas.isna(answers.loc["b", "icl"]) and pandas.isna(answers.loc["b", "horizon"])
    assert pandas.isna(answers.loc["c", "target"]) and answers.loc["c", "error"] is None
    assert answers.loc["a", "icl"] == model.predict(tasks[0]).prediction.icl


@pytest.fixture(scope="module")
def classes():
    return places.tasks("examples/digit-classes.jsonl")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_of_classes_has_columns_of_its_own(model, classes, library):
    module = pytest.importorskip(library)
    task = classes[0]
    report = model.predict(task).to_dict()
    said, how_far = report["prediction"], report["how_far"]
    wanted = {
        "id": task["id"],
        "label": said["label"],
        "probability": max(said["adapted"]),
        "set": said["set"],
        "confidence": 0.9,
        "abstention": said["abstention"],
        "answer": "7",
        "labels": task["labels"],
        "icl_probabilities": said["icl"],
        "adapted_probabilities": said["adapted"],
        "adapt": report["when"]["adapt"],
        "weight": report["when"]["weight"],
        "horizon": how_far["horizon"],
        "mean_horizon": how_far["mean_horizon"],
        "rule": how_far["rule"],
        "error": None,
    }
    assert rows(model.predict(module.DataFrame([task]))) == [wanted]
    # Without labels the answers of the examples are the classes.
    bare = {name: value for name, value in task.items() if name != "labels"}
    bare["query"] = {"x": "4"}
    answers = model.predict(module.DataFrame([bare]))
    assert rows(answers)[0]["labels"] == [example["y"] for example in task["examples"]]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_of_both_kinds_has_both_columns(model, tasks, classes, library):
    module = pytest.importorskip(library)
    cells = [json.dumps(task) for task in (classes[0], tasks[0])]
    answers = rows(model.predict(module.DataFrame({"task": cells})))
    first, second = [model.predict(task).to_dict()["prediction"] for task in (classes[0], tasks[0])]
    assert (answers[0]["label"], answers[0]["icl"]) == (first["label"], None)
    assert (answers[1]["label"], answers[1]["icl"]) == (None, second["icl"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_list_of_queries_has_a_row_for_each(model, tasks, classes, library):
    module = pytest.importorskip(library)
    cells = [json.dumps(task) for task in (classes[1], tasks[0])]
    frame = module.DataFrame({"task": cells})
    if library == "pandas":
        frame.index = ["a", "b"]
    answers = model.predict(frame)
    assert [row["query"] for row in rows(answers)] == [0, 1, 2, None]
    assert [row["answer"] for row in rows(answers)] == ["1", "3", "4", None]
    if library == "pandas":
        assert list(answers.index) == ["a", "a", "a", "b"]


def test_rows_without_an_id_are_counted(model, tasks):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(tasks).drop("id")
    assert model.predict(frame)["id"].to_list() == [str(number) for number in range(1, len(tasks) + 1)]
    numbered = frame.with_columns(id=polars.Series(range(7, 7 + len(tasks))))
    assert model.predict(numbered)["id"].to_list()[0] == "7"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_without_tasks_is_refused_or_empty(model, tasks, library):
    module = pytest.importorskip(library)
    with pytest.raises(errors.WrongType, match="no column template, examples, query"):
        model.predict(module.DataFrame({"text": ["a"]}))
    empty = model.predict(module.DataFrame(tasks)[:0])
    assert len(empty) == 0 and list(empty.columns)[0] == "id"


def test_neither_library_is_imported_unless_it_is_used():
    code = (
        "import sys, fewstep; fewstep.Model.load(); "
        "assert not {'pandas', 'polars'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

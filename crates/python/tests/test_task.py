"""Tasks in every form in which Python may hold one."""

from __future__ import annotations

import collections
import json
import pickle

import numpy as np
import pytest

import fewstep
from fewstep import Task, errors

FIELDS = {
    "id": "t1",
    "template": "{x}->{y}",
    "separator": "\n",
    "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1 / 9}],
    "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}],
    "query": {"x": "4", "y": "1"},
}


def build(**changes):
    fields = {name: FIELDS[name] for name in ("id", "template", "examples", "query", "labels")}
    return Task(**{**fields, **changes})


def test_every_form_is_the_same_task():
    task = Task.from_dict(FIELDS)
    assert task == build()
    assert task == build(examples=[("3", "1"), ["5", "0"]], labels=(("0", 0), ("1", 1 / 9)))
    assert task == build(examples=(pair for pair in [("3", "1"), ("5", "0")]))
    assert task == build(labels=[("0", np.float32(0)), ("1", np.float64(1 / 9))])
    assert task == build(separator="\n")
    assert task == Task("t1", "{x}->{y}", FIELDS["examples"], FIELDS["query"], FIELDS["labels"])
    assert task == Task.from_json(json.dumps(FIELDS))
    assert task == Task.from_json(json.dumps(FIELDS).encode() + b"\r\n")
    assert task == Task.from_dict(collections.UserDict(FIELDS))
    assert task == Task.from_dict(collections.OrderedDict(FIELDS))
    assert task == pickle.loads(pickle.dumps(task))
    assert task != build(query="4")
    assert build(query="4") == build(query={"x": "4"})
    assert build(separator=", ").separator == ", "


def test_a_task_says_what_it_was_made_of():
    task = Task.from_dict(FIELDS)
    assert task.to_dict() == FIELDS
    assert json.loads(task.to_json()) == FIELDS
    assert (task.id, task.template, task.separator) == ("t1", "{x}->{y}", "\n")
    assert (task.labels, task.examples, task.query) == (
        FIELDS["labels"],
        FIELDS["examples"],
        FIELDS["query"],
    )
    assert build(query="4").query == {"x": "4"}
    assert repr(task) == "Task('t1', 2 examples, 2 labels)"
    # Every bit of a value is kept.
    values = [0.1, 1e-300, -2.5e11, 1 / 3]
    labels = [(str(place), value) for place, value in enumerate(values)]
    assert [label["value"] for label in build(labels=labels).labels] == values


def test_labels_of_classes_have_no_values():
    task = build(labels=["0", "1"])
    assert task == build(labels=[{"text": "0"}, {"text": "1"}]) == build(labels=("0", {"text": "1"}))
    assert task.labels == [{"text": "0"}, {"text": "1"}]
    # The answers of the examples, in their order, each once.
    assert build(labels=None).labels == [{"text": "1"}, {"text": "0"}]
    fields = {name: value for name, value in FIELDS.items() if name != "labels"}
    assert Task.from_dict(fields) == build(labels=None)
    assert task == pickle.loads(pickle.dumps(task))


def test_a_task_may_ask_many_queries():
    task = build(query=None, queries=["4", {"x": "5", "y": "1"}])
    assert task.queries == [{"x": "4"}, {"x": "5", "y": "1"}]
    assert task.query == {"x": "4"}
    assert task == build(query=None, queries=(x for x in ["4", {"x": "5", "y": "1"}]))
    assert task == Task.from_dict({**{n: v for n, v in FIELDS.items() if n != "query"}, "queries": task.queries})
    assert build().queries is None


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"labels": [0, 1]}, "invalid type: integer `0`, expected a label: a text, or an object"),
        ({"labels": "01"}, 'invalid type: string "01", expected a sequence'),
        ({"labels": [("0", 0.0, 1.0)]}, "invalid type: sequence, expected a label"),
        ({"examples": [{"x": "3", "z": "1"}]}, "unknown field `z`, expected `x` or `y`"),
        ({"examples": [{"x": "3"}]}, "missing field `y`"),
        ({"examples": [(3, "1")]}, "invalid type: integer `3`, expected a string"),
        ({"query": None}, "missing field `query`"),
        ({"query": 4}, "invalid type: integer `4`, expected struct Query"),
        ({"queries": ["4"]}, "expected `query` or `queries`, found both"),
        ({"query": None, "queries": []}, "`queries` is empty, expected at least one query"),
        ({"query": None, "queries": "4"}, 'invalid type: string "4", expected a sequence'),
        ({"id": 7}, "invalid type: integer `7`, expected a string"),
        ({"template": None}, "invalid type: null, expected a string"),
        ({"id": "\ud800"}, "hex escape"),
    ],
)
def test_what_is_no_task_is_refused_with_the_words_of_the_tool(changes, words):
    with pytest.raises(errors.Json, match="column [0-9]+: ") as refused:
        build(**changes)
    assert words in str(refused.value)


def test_what_cannot_be_handed_over_is_refused():
    with pytest.raises(errors.WrongType, match="a task holds object; texts, numbers"):
        build(query=object())
    with pytest.raises(errors.WrongType, match="a task is int; a dictionary is needed"):
        Task.from_dict(3)
    with pytest.raises(errors.WrongType, match="a task is list; text is needed"):
        Task.from_json([])
    with pytest.raises(errors.NotUtf8):
        Task.from_json(b"\xff")
    with pytest.raises(errors.Json, match="unknown field `tempalte`"):
        Task.from_dict({"id": "a", "tempalte": ""})
    with pytest.raises(TypeError):
        Task("t1")
    circle = dict(FIELDS)
    circle["query"] = circle
    with pytest.raises((ValueError, RecursionError)):
        Task.from_dict(circle)


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"template": "{x}"}, errors.Placeholder),
        ({"template": "{y}{x}"}, errors.PlaceholderOrder),
        ({"labels": [("0", 0.0)]}, errors.TooFewLabels),
        ({"labels": [("0", 0.0), ("0", 1.0)]}, errors.DuplicateLabel),
        ({"labels": [("0", 0.0), ("1", 1e13)]}, errors.LabelValue),
        ({"examples": [("3", "1")]}, errors.TooFewExamples),
        ({"examples": [("3", "1"), ("4", "7")]}, errors.UnknownLabel),
        ({"query": " "}, errors.EmptyInput),
    ],
)
def test_words_that_make_no_sense_are_refused_when_they_are_checked(changes, error):
    task = build(**changes)
    with pytest.raises(error):
        task.check()
    with pytest.raises(error):
        fewstep.Model.load().predict(task)


def test_a_task_that_can_be_asked_passes():
    assert build().check() is None

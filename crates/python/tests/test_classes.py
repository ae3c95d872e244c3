"""Tasks of classes: reports are those of the program, and their numbers are what they say they are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fewstep import ClassReport, Failure, Model, Policy, Report, Task, errors

from . import places

DIGITS = "examples/digit-classes.jsonl"


@pytest.fixture(scope="module")
def model():
    return Model.load()


@pytest.fixture(scope="module")
def tasks():
    return places.tasks(DIGITS)


@pytest.mark.parametrize(
    "flags, options",
    [
        ([], {}),
        (["--full"], {"full": True}),
        (["--confidence", "0.6"], {"confidence": 0.6}),
        (["--horizons", "0,2,8", "--step-scale", "0.2"], {"horizons": [0, 2, 8], "step_scale": 0.2}),
        (["--shots", "4", "--seed", "3"], {"shots": 4, "seed": 3}),
    ],
)
def test_reports_are_those_of_the_program(model, tasks, flags, options):
    expected = places.said("predict", DIGITS, *flags)
    reports = model.predict(tasks, **options)
    assert all(isinstance(report, ClassReport) for report in reports)
    assert [report.to_json() for report in reports] == expected
    assert [report.to_dict() for report in reports] == [json.loads(line) for line in expected]
    assert list(model.predict_iter(tasks, **options)) == reports
    assert model.predict(tasks[0], **options) == reports[0]
    # A list of queries is answered by a list.
    assert model.predict(Task.from_dict(tasks[1]), **options) == reports[1:]


def test_explanations_are_those_of_the_program(model, tasks):
    expected = places.said("decide", DIGITS, "--full")
    assert [report.to_json() for report in model.decide(tasks, full=True)] == expected


def test_attributes_say_what_the_json_says(model, tasks):
    report = model.predict(tasks[0], full=True)
    said = report.to_dict()
    prediction = report.prediction
    assert prediction.to_dict() == said["prediction"]
    assert (prediction.labels, prediction.target) == (tasks[0]["labels"], "7")
    assert prediction.icl.dtype == np.float64
    assert report.when.to_dict() == said["when"]
    assert report.how_far.to_dict() == said["how_far"]
    geometry = {name: value for name, value in report.geometry.to_dict().items() if value is not None}
    assert geometry == said["geometry"]
    assert report.which.rule == "arms"
    for arm, fields in zip(report.which.arms, said["which"]["arms"]):
        assert (arm.name, arm.base, arm.blocks, arm.weight) == (
            fields["name"],
            fields["base"],
            fields["blocks"],
            fields["weight"],
        )
        assert arm.leave_one_out.to_dict() == fields["leave_one_out"] and arm.left_out is None
        for path, entry in zip(arm.paths, fields["paths"]):
            assert path.evidence is None
            assert {**path.to_dict(), **entry} == {**entry, "evidence": None}
    assert report.which.zero_shot.to_dict() == said["which"]["zero_shot"]
    assert report.policy.to_dict() == said["policy"] == Policy().to_dict()
    assert report.lines.when == said["lines"]["when"] and report.query is None
    assert "adapt" in str(report) and str(report).startswith("class-shift-3")
    assert repr(report) == f"ClassReport('class-shift-3', label='7', adapt={report.when.adapt})"
    assert report._repr_html_().count("<svg") == 3


def test_numbers_add_up(model, tasks):
    """What a report says of its numbers holds, by NumPy."""
    for report in model.predict(tasks, full=True):
        said, basis = report.prediction, report.geometry
        for shares in (said.icl, said.adapted):
            np.testing.assert_allclose(np.sum(shares), 1.0, rtol=1e-12)
        assert said.label == said.labels[np.argmax(said.adapted)]
        order = [said.labels[at] for at in np.argsort(-said.adapted, kind="stable")]
        assert said.set == order[: len(said.set)]
        weights = [arm.weight for arm in report.which.arms]
        for arm in report.which.arms:
            np.testing.assert_allclose(sum(path.weights.sum() for path in arm.paths), arm.weight, rtol=1e-9)
        alone = 1.0 - sum(weights) - report.which.zero_shot.weight
        np.testing.assert_allclose(report.when.weight, 1.0 - alone, rtol=1e-9)
        steps = np.dot(report.how_far.horizons, report.how_far.posterior)
        np.testing.assert_allclose(steps, report.how_far.mean_horizon, rtol=1e-9)
        # Leave-one-out log-losses are those of the probabilities that stand beside them.
        answers = np.asarray(basis.answers)
        for rows, loss in [
            (basis.icl, report.when.leave_one_out.icl),
            (basis.probabilities, report.when.leave_one_out.adapted),
        ]:
            chosen = rows[np.arange(len(answers)), answers]
            np.testing.assert_allclose(-np.log(np.maximum(chosen, 1e-6)).mean(), loss, rtol=1e-9)


def test_what_concerns_regression_alone_is_refused_by_its_name(model, tasks):
    for keyword, value in {
        "blocks": "value@all",
        "select": "all",
        "horizon": 3,
        "adjoint": "whole",
    }.items():
        with pytest.raises(errors.RegressionOnly) as refused:
            model.predict(tasks[0], **{keyword: value})
        assert refused.value.field == {"select": "selection"}.get(keyword, keyword)
    for asked in ({"dynamics": "steps"}, {"policy": "paper"}):
        with pytest.raises(errors.StepsForClasses):
            model.predict(tasks[0], **asked)
    with pytest.raises(errors.NotRegression):
        model.observe(tasks[0])
    with pytest.raises(errors.Policy) as refused:
        model.predict(tasks[0], confidence=1.0)
    assert refused.value.field == "confidence"


def test_a_policy_says_how_classes_are_decided(model, tasks):
    arm = {"base": "few-shot", "blocks": "bias"}
    policy = Policy(classes={"arms": [arm], "confidence": 0.5})
    assert policy.differences() == ["classes"]
    assert policy.classes["arms"][0]["blocks"] == "bias" and policy.classes["confidence"] == 0.5
    report = model.predict(tasks[0], policy=policy)
    assert [one.name for one in report.which.arms] == ["few-shot bias"]
    assert model.predict(tasks[0], policy=report.policy) == report
    assert Policy().with_overrides(confidence=0.5).classes == {**Policy().classes, "confidence": 0.5}
    with pytest.raises(errors.WrongType, match="classes is list; a dictionary is needed"):
        Policy(classes=[])


def test_both_kinds_and_failures_stand_side_by_side(model, tasks):
    numbers = places.tasks()[0]
    wrong = {**tasks[0], "labels": ["7"]}
    asked = [tasks[0], numbers, wrong]
    assert [type(answer) for answer in model.predict(asked)] == [ClassReport, Report, Failure]
    with pytest.raises(errors.TooFewLabels):
        model.predict(wrong)
    # A query that cannot be asked is one failure among the reports of the others.
    queries = [{"x": "4"}, {"x": " "}, {"x": "6"}]
    task = {**{name: value for name, value in tasks[1].items() if name != "queries"}, "queries": queries}
    answers = model.predict(task)
    assert [type(answer) for answer in answers] == [ClassReport, Failure, ClassReport]
    assert [answer.query for answer in answers] == [0, 1, 2]

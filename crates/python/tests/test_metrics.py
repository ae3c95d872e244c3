"""Scores of probabilities against the same scores by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from fewstep import Model, errors, metrics

from . import places


def by_numpy(probabilities, answers):
    """The scores by their definitions."""
    count, classes = probabilities.shape
    known = np.eye(classes)[answers]
    predicted = probabilities.argmax(axis=1)
    correct = predicted == answers
    pairs = np.zeros((classes, classes))
    np.add.at(pairs, (answers, predicted), 1)
    both, sizes = np.diag(pairs), pairs.sum(axis=0) + pairs.sum(axis=1)
    largest = probabilities.max(axis=1)
    edges = [(place / 10 <= largest) & ((largest < (place + 1) / 10) | (place == 9)) for place in range(10)]
    apart = [abs(largest[edge].mean() - correct[edge].mean()) * edge.sum() for edge in edges if edge.any()]
    return {
        "count": count,
        "accuracy": correct.mean(),
        "macro_f1": (2 * both[sizes > 0] / sizes[sizes > 0]).mean(),
        "log_loss": -np.log(np.maximum(probabilities[known == 1], 1e-6)).mean(),
        "brier": ((probabilities - known) ** 2).sum(axis=1).mean(),
        "calibration_error": sum(apart) / count,
    }


@pytest.mark.parametrize("seed, count, classes", [(0, 1, 2), (1, 50, 2), (2, 200, 6), (3, 30, 40)])
def test_scores_are_those_of_numpy(seed, count, classes):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(count, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    answers = rng.integers(classes, size=count)
    expected = by_numpy(probabilities, answers)
    scores = metrics.ClassScores.of(probabilities, answers)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(scores, name), value, rtol=1e-10, atol=1e-12, err_msg=name)
    assert list(scores.to_dict()) == list(expected)
    # One query after the other, by the texts of labels.
    labels = [f"label {place}" for place in range(classes)]
    one_by_one = metrics.ClassScores()
    for row, answer in zip(probabilities, answers):
        one_by_one.add(labels, row, labels[answer])
    assert one_by_one == metrics.ClassScores.of(probabilities, [labels[at] for at in answers], labels)


def test_scores_of_reports_are_those_of_their_probabilities():
    model, tasks = Model.load(), places.tasks("examples/digit-classes.jsonl")
    unknown = {**tasks[0], "query": {"x": "4"}}
    reports = model.predict([*tasks, unknown, places.tasks()[0], {**tasks[0], "labels": ["7"]}])
    scores = metrics.of_reports(reports)
    answers = np.array([int(report.prediction.target) for report in reports[:4]])
    for name, found in scores.items():
        rows = np.array([getattr(report.prediction, name) for report in reports[:4]])
        for score, value in by_numpy(rows, answers).items():
            np.testing.assert_allclose(getattr(found, score), value, rtol=1e-10, err_msg=f"{name} {score}")
    assert list(scores) == ["icl", "adapted"]


def test_what_cannot_be_scored_is_refused():
    scores = metrics.ClassScores()
    assert scores.count == 0 and np.isnan(scores.accuracy)
    for arguments, error in [
        ((["a", "b"], [1.0], 0), errors.SizeMismatch),
        ((["a", "b"], [0.5, 0.5], 2), errors.OutOfRange),
        ((["a", "b"], [0.5, 1.5], 0), errors.OutOfRange),
        ((["a", "b"], [0.5, float("nan")], 0), errors.OutOfRange),
        ((["a", "b"], [0.5, 0.5], "c"), errors.UnknownLabel),
        ((["a", "b"], [0.5, 0.5], 0.5), errors.WrongType),
        ((["a", "b"], [0.5, 0.5], -1), errors.WrongType),
        (("ab", [0.5, 0.5], 0), errors.WrongType),
        (([1, 2], [0.5, 0.5], 0), errors.WrongType),
        (([], [], 0), errors.Empty),
    ]:
        with pytest.raises(error):
            scores.add(*arguments)
    assert scores == metrics.ClassScores()
    with pytest.raises(errors.SizeMismatch, match="1 answers for 2 rows"):
        metrics.ClassScores.of([[0.5, 0.5], [1.0, 0.0]], [0])
    with pytest.raises(errors.WrongType, match="reports holds str"):
        metrics.of_reports("abc")
    assert metrics.log_loss(1.0) == 0.0 and metrics.log_loss(0.0) == -np.log(1e-6)

"""Decisions: the three answers, their numbers, and how they read."""

from __future__ import annotations

import html.parser
import json

import numpy as np
import pytest

import fewstep
from fewstep import Block, Geometry, Rules, decide, errors
from fewstep.leave_one_out import Answers

from .prompts import close, guises, prompt


def two_modes(residuals=(1.5, 1.0)):
    """Two modes of eigenvalue 4 and 1, and a query in the first."""
    return decide(np.diag([4.0, 1.0]), list(residuals), [2.0, 0.0], 1.0)


def test_the_three_answers_of_a_prompt_that_can_be_done_by_hand():
    decision = two_modes()
    assert decision.when.adapt and decision.when.reason == "the rule asks for it"
    assert decision.when.gate > 1 and decision.when.gap_adapted < decision.when.gap_icl
    # 1.5² · 0.9^T = 0.975^T at T ≈ 10.1.
    far = decision.how_far
    assert (far.rule, far.horizon, far.at_edge, far.step_size) == ("evidence", 10, False, 0.025)
    assert far.horizons == list(range(31)) and len(far.evidence) == 31
    assert int(np.argmin(far.evidence)) == 10
    assert close(far.degrees_of_freedom, 2 - 0.9**10 - 0.975**10)
    assert close(far.noise_variance, (1.5**2 * 0.9**10 + 0.975**10) / 2)
    weights = np.exp(-2 * (far.evidence - far.evidence.min()))
    assert close(far.posterior, weights / weights.sum(), many=1e3)
    assert far.left_out_risk.shape == (0,)
    bound = decision.pac_bayes()
    assert bound.confidence == 0.95
    assert bound.bound == pytest.approx(bound.slack + far.evidence_fixed.min(), rel=1e-14)
    assert decision.pac_bayes(confidence=0.99).slack > bound.slack
    with pytest.raises(errors.OutOfRange, match="confidence is 1; it must be over 0 and under 1"):
        decision.pac_bayes(1.0)
    which = decision.which
    assert (which.rule, which.budget, which.selected) == ("all", 1, [0])
    # σ² = 1.625.
    assert which.blocks[0].name == "kernel"
    assert close(which.blocks[0].trace, 4 / 5.625 + 1 / 2.625)
    assert close(which.blocks[0].query, 2 * 2 / 5.625)
    assert close(decision.query.correction, 2 * (1 - 0.9**10) / 4 * 1.5)
    assert decision.query.interval is None
    assert decision.update.kind == "steps"
    assert decision.update.filter.horizon == 10
    assert decision.block.kernel.tolist() == [[4.0, 0.0], [0.0, 1.0]]
    assert decision.spectrum.eigenvalues.tolist() == [4.0, 1.0]
    fit = fewstep.signal.SignalFit(decision.spectrum, [1.5, 1.0])
    assert decision.signal == fit


def test_kernels_and_geometries_decide_alike():
    features, residuals, query = prompt(4)
    kernel, coupling, variance = features @ features.T, features @ query, float(query @ query)
    first = decide(kernel, residuals, coupling, variance, horizon="gibbs")
    geometry = Geometry.from_kernel(kernel, residuals, coupling, variance)
    second = decide(geometry, rules=Rules(horizon="gibbs"))
    assert first.to_dict() == second.to_dict()
    # A keyword beside rules replaces that field alone.
    third = decide(geometry, rules=Rules(horizon=3, step_scale=0.2), horizon="gibbs")
    assert third.how_far.rule == "gibbs"
    assert third.how_far.step_size == pytest.approx(2 * first.how_far.step_size, rel=1e-15)
    assert decide(geometry, rules=None).how_far.rule == "evidence"


def test_every_horizon_rule_gives_its_kind_of_update():
    features, residuals, query = prompt(4)
    geometry = Geometry.from_features(features, residuals, query)
    kinds = {
        "evidence": ("steps", fewstep.GradientDescent),
        3: ("steps", fewstep.GradientDescent),
        "3": ("steps", fewstep.GradientDescent),
        0: ("none", fewstep.NoUpdate),
        "gibbs": ("average", fewstep.Mixture),
        "leave-one-out-average": ("averaged-steps", fewstep.Mixture),
        "bayes-filter": ("posterior", fewstep.Benchmark),
    }
    # Residuals that the features explain, so that every rule asks for something.
    residuals = features @ np.array([1.0, -0.5, 0.25, 2.0]) + 0.1 * residuals
    geometry = Geometry.from_features(features, residuals, query)
    for rule, (kind, filter_class) in kinds.items():
        decision = decide(geometry, horizon=rule, leave_alone_odds=0.1)
        assert decision.how_far.rule == str(rule)
        assert decision.update.kind == kind, rule
        assert type(decision.update.filter) is filter_class
        correction = decision.update.filter.query_correction(
            decision.spectrum, features @ query, residuals
        )
        assert close(decision.query.correction, correction)
    decision = decide(geometry, horizon="leave-one-out", coverage=0.5)
    assert len(decision.how_far.left_out_risk) == 31
    assert decision.query.interval.lower < decision.query.interval.upper


def test_left_out_errors_may_count_by_label():
    # Three copies of one example, predicted as 1/2, with the labels 1, 1 and 0: steps help the two
    # and harm the one, which count the same.
    geometry = Geometry.from_kernel(np.ones((3, 3)), [0.5, 0.5, -0.5])
    answered = geometry.with_answers(Answers([1, 1, 0], [0.5] * 3, (0.0, 1.0)))
    rules = {"horizon": "leave-one-out", "horizons": [0, 1000], "leave_one_out": "by-label"}
    decision = decide(answered, **rules)
    assert close(decision.how_far.left_out_risk, [0.25, np.sqrt(17 / 32)])
    assert not decision.when.adapt
    assert decide(answered, rules=Rules(**rules)).to_dict() == decision.to_dict()
    assert Rules(**rules).leave_one_out == "by-label"
    # With blocks chosen by the same errors.
    assert decide(answered, select="leave-one-out", **rules).which.selected == [0]
    for select in ("all", "leave-one-out"):
        with pytest.raises(errors.NoAnswers, match="a risk by label needs the labels"):
            decide(geometry, select=select, **rules)
    # Who does not ask for it need not know them.
    for other in ("plain", "trimmed", "median", "balanced"):
        found = decide(geometry, **{**rules, "leave_one_out": other})
        assert found.to_dict() == decide(answered, **{**rules, "leave_one_out": other}).to_dict()


def test_blocks_are_selected_by_position():
    features, residuals, query = prompt(7, weights=6)
    blocks = [
        Block.from_features(f"value.0.{index}", features[:, [index]], query[[index]])
        for index in range(6)
    ]
    geometry = Geometry(residuals, blocks)
    decision = decide(geometry, select="trace-top", budget=2)
    inverse = np.linalg.inv(features @ features.T + residuals @ residuals / 6 * np.eye(6))
    traces = [features[:, index] @ inverse @ features[:, index] for index in range(6)]
    couplings = features * query
    queries = [couplings[:, index] @ inverse @ couplings[:, index] for index in range(6)]
    which = decision.which
    assert close([block.trace for block in which.blocks], traces, many=1e3)
    assert close([block.query for block in which.blocks], queries, many=1e3)
    assert which.selected == list(np.argsort(traces)[::-1][:2])
    assert (which.rule, which.budget) == ("trace-top", 2)
    assert decision.block == geometry.sum(which.selected)
    assert [block.name for block in which.blocks] == [block.name for block in blocks]
    first, again = (decide(geometry, select="random", budget=3, seed=5) for _ in range(2))
    assert first.which.selected == again.which.selected


def test_nothing_to_do_has_its_reason():
    decision = two_modes([0.0, 0.0])
    assert decision.when.reason == "every residual is 0: there is nothing to correct"
    assert not decision.when.adapt and decision.update.filter == fewstep.NoUpdate()
    assert len(decision.how_far.evidence) == 0 and decision.pac_bayes() is None
    decision = decide(np.zeros((2, 2)), [1.0, 1.0])
    assert decision.when.reason.startswith("the selected kernel is 0")
    assert decision.query is None
    assert "query" not in str(decision)


def test_a_decision_in_words_and_as_plain_values():
    decision = two_modes()
    assert str(decision) == "\n".join(
        [
            f"when       adapt: the rule asks for it (gate {shown(decision.when.gate)}; expected "
            f"gap {shown(decision.when.gap_icl)} -> {shown(decision.when.gap_adapted)})",
            "how far    10 steps of 0.0250 by evidence (0.875 degrees of freedom)",
            "which      1 of 1 block by all: kernel",
            f"residuals  signal variance {shown(decision.signal.signal_variance)}, noise variance "
            f"{shown(decision.signal.noise_variance)}",
            f"query      correction 0.488 (standard deviation "
            f"{shown(decision.query.standard_deviation)})",
        ]
    )
    assert repr(decision) == "Decision(adapt=True, horizon=10, blocks=1 of 1)"
    plain = decision.to_dict()
    assert list(plain) == [
        "when",
        "how_far",
        "which",
        "update",
        "block",
        "spectrum",
        "signal",
        "query",
    ]
    assert json.loads(json.dumps(plain)) == plain
    assert plain["which"]["blocks"][0]["name"] == "kernel"
    assert plain["how_far"]["evidence"] == decision.how_far.evidence.tolist()
    assert plain["update"]["filter"]["horizon"] == 10
    assert repr(decision.when).startswith("When(adapt=True, reason='the rule asks for it'")


def shown(value: float) -> str:
    """Three digits, as all texts show numbers."""
    if value == 0:
        return "0"
    digits, power = f"{value:.2e}".split("e")
    if -4 <= int(power) <= 4:
        return f"{value:.{max(2 - int(power), 0)}f}"
    return f"{digits}e{int(power)}"


def test_notebooks_get_a_table_in_which_names_are_escaped():
    block = Block.from_features("<script>&\x1b", [[1.0], [2.0]], [1.0])
    decision = decide(Geometry([1.0, 0.5], [block]))
    text = decision._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;&amp;\\u{1b}" in text
    opened: list[str] = []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Parser().feed(text)
    assert opened == [] and text.count("<tr>") == 5
    assert "\x1b" not in str(decision)


def test_rules_have_the_defaults_of_the_tool():
    rules = Rules()
    assert rules.to_dict() == {
        "horizon": "evidence",
        "horizons": list(range(31)),
        "step_scale": 0.1,
        "select": "all",
        "budget": None,
        "selection_horizon": 8,
        "inverse_temperature": 1.0,
        "leave_one_out": "trimmed",
        "leave_one_out_gate": 0.0,
        "leave_alone_odds": 5.0,
        "coverage": 0.8,
        "seed": 0,
    }
    changed = {
        "horizon": "leave-one-out",
        "horizons": [0, 2, 4],
        "step_scale": 0.2,
        "select": "trace-bottom",
        "budget": 2,
        "selection_horizon": 9,
        "inverse_temperature": 2.0,
        "leave_one_out": "median",
        "leave_one_out_gate": 1.0,
        "leave_alone_odds": 3.0,
        "coverage": 0.7,
        "seed": 2**64 - 1,
    }
    assert Rules(**changed).to_dict() == changed
    assert Rules(**changed) != rules == Rules(horizons=None)
    assert Rules(horizons=range(0, 6, 2)).horizons == [0, 2, 4]
    assert Rules(horizon=7).horizon == "7"
    assert repr(rules).startswith("Rules(horizon='evidence', horizons=list of 31, step_scale=0.100")


def test_arrays_in_every_guise_decide_alike():
    kernel = np.array([[2.0, 0.5], [0.5, 1.25]])
    residuals, coupling = np.array([1.5, -1.0]), np.array([0.5, 0.25])
    expected = decide(kernel, residuals, coupling, 1.0).to_dict()
    for rows, vector, other in zip(guises(kernel), guises(residuals), guises(coupling)):
        assert decide(rows, vector, other, 1).to_dict() == expected


def test_what_cannot_be_decided_is_refused():
    kernel, residuals = np.eye(2), [1.0, 0.5]
    geometry = Geometry.from_kernel(kernel, residuals)
    with pytest.raises(errors.WrongType, match="coupling is given without query_variance"):
        decide(kernel, residuals, [0.5, 0.5])
    with pytest.raises(errors.WrongType, match="a Geometry holds residuals"):
        decide(geometry, residuals)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'residuals'"):
        decide(kernel)
    with pytest.raises(TypeError, match="decide.. got an unexpected keyword argument 'steps'"):
        decide(geometry, steps=3)
    with pytest.raises(TypeError, match="Rules.. got an unexpected keyword argument 'rules'"):
        Rules(rules=None)
    with pytest.raises(TypeError):
        decide(geometry, rules={"horizon": 3})
    with pytest.raises(TypeError):
        decide(geometry, horizon=None)
    with pytest.raises(errors.UnknownName, match="is no horizon rule; use a number of steps"):
        decide(geometry, horizon="guess")
    with pytest.raises(errors.UnknownName, match="is no selection rule; use all, query-aware"):
        decide(geometry, select="best")
    with pytest.raises(errors.NoQuery, match="the horizon rule bayes-gap needs a query"):
        decide(geometry, horizon="bayes-gap")
    with pytest.raises(errors.BudgetOutOfRange, match="budget is 0 blocks"):
        decide(geometry, select="trace-top")
    with pytest.raises(errors.OutOfRange, match="larger than the one before it"):
        decide(geometry, horizons=[3, 1])
    with pytest.raises(errors.Empty, match="candidate horizons is empty"):
        decide(geometry, horizons=[])
    with pytest.raises(errors.OutOfRange, match="step scale is 2"):
        decide(geometry, step_scale=2.0)
    with pytest.raises(errors.NotPositiveSemidefinite):
        decide([[1.0, 2.0], [2.0, 1.0]], residuals)
    with pytest.raises(errors.SizeMismatch):
        decide(kernel, [1.0])
    with pytest.raises(errors.NotFinite, match="residuals has the entry NaN at position 0"):
        decide(kernel, [np.nan, 1.0])

"""Decisions: the three answers, their numbers, and how they read."""

from __future__ import annotations

import html.parser
import json

import numpy as np
import pytest

import fewstep
from fewstep import Answers, Block, Geometry, Policy, decide, errors

from .prompts import close, guises, prompt


def two_modes(residuals=(1.5, 1.0)):
    """Two modes of eigenvalue 4 and 1, and a query in the first."""
    return decide(np.diag([4.0, 1.0]), list(residuals), [2.0, 0.0], 1.0, policy="paper")


def test_the_three_answers_of_a_prompt_that_can_be_done_by_hand():
    decision = two_modes()
    assert decision.when.adapt and decision.when.reason == "evidence favours updating"
    assert decision.when.gate > 1 and decision.when.gap_adapted < decision.when.gap_icl
    assert decision.when.weight == 1.0 and decision.when.leave_one_out is None
    assert decision.when.evidence.to_dict() == {
        name: getattr(decision.when, name) for name in ("gate", "gap_icl", "gap_adapted")
    }
    # 1.5² · 0.9^T = 0.975^T at T ≈ 10.1.
    far = decision.how_far
    assert (far.rule, far.horizon, far.at_edge, far.step_size) == ("evidence", 10, False, 0.025)
    assert far.horizons == list(range(31)) and len(far.evidence) == 31
    assert int(np.argmin(far.evidence)) == 10
    assert close(far.degrees_of_freedom, 2 - 0.9**10 - 0.975**10)
    assert close(far.noise_variance, (1.5**2 * 0.9**10 + 0.975**10) / 2)
    weights = np.exp(-2 * (far.evidence - far.evidence.min()))
    assert close(far.posterior, weights / weights.sum(), many=1e3)
    assert far.leave_one_out.shape == (0,)
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
    assert decision.plan.kind == "steps"
    assert decision.plan.filter.horizon == 10
    assert decision.block.kernel.tolist() == [[4.0, 0.0], [0.0, 1.0]]
    assert decision.spectrum.eigenvalues.tolist() == [4.0, 1.0]
    fit = fewstep.signal.SignalFit(decision.spectrum, [1.5, 1.0])
    assert decision.signal == fit


def test_kernels_and_geometries_decide_alike():
    features, residuals, query = prompt(4)
    kernel, coupling, variance = features @ features.T, features @ query, float(query @ query)
    first = decide(kernel, residuals, coupling, variance, horizon="gibbs")
    geometry = Geometry.from_kernel(kernel, residuals, coupling, variance)
    second = decide(geometry, policy=Policy(horizon="gibbs"))
    assert first.to_dict() == second.to_dict()
    # A keyword beside a policy replaces that field alone.
    third = decide(geometry, policy=Policy(horizon=3, step_scale=0.3), horizon="gibbs")
    assert third.how_far.rule == "gibbs"
    assert 2 * third.how_far.step_size == pytest.approx(first.how_far.step_size, rel=1e-15)
    assert decide(geometry, policy="paper").how_far.rule == "evidence"
    # Alone they are decided on by the default policy.
    for alone in (decide(kernel, residuals), decide(geometry, policy=None)):
        assert alone.policy == Policy.default() and alone.which.rule == "depth"
        assert alone.how_far.rule == "leave-one-out-average"
        assert alone.when.evidence is alone.when.gate is alone.when.gap_icl is None
        errors_of = alone.when.leave_one_out
        assert 0 < errors_of.adapted and close(
            errors_of.icl, np.mean(np.abs(residuals) ** 0.5) ** 4, many=1e3
        )
        weights = alone.how_far.posterior
        assert close(alone.when.weight, weights[1:].sum(), many=1e3)
        assert alone.when.adapt == (alone.when.weight >= 0.5)


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
        decision = decide(geometry, policy="paper", horizon=rule)
        assert decision.how_far.rule == str(rule)
        assert decision.plan.kind == kind, rule
        assert type(decision.plan.filter) is filter_class
        correction = decision.plan.filter.query_correction(
            decision.spectrum, features @ query, residuals
        )
        assert close(decision.query.correction, correction)
    decision = decide(geometry, policy="paper", horizon="leave-one-out", coverage=0.5)
    assert len(decision.how_far.leave_one_out) == 31
    assert decision.query.interval.lower < decision.query.interval.upper


def test_leave_one_out_errors_may_count_by_label():
    # Three copies of one example, predicted as 1/2, with the labels 1, 1 and 0: steps help the two
    # and harm the one, which count the same.
    geometry = Geometry.from_kernel(np.ones((3, 3)), [0.5, 0.5, -0.5])
    answered = geometry.with_answers(Answers([1, 1, 0], [0.5] * 3, (0.0, 1.0)))
    rule = {"rule": "leave-one-out", "averaging": "by-label"}
    fields = {"horizon": rule, "horizons": [0, 1000], "selection": "all", "step_scale": 0.1}
    decision = decide(answered, policy=Policy(**fields))
    assert close(decision.how_far.leave_one_out, [0.25, np.sqrt(17 / 32)])
    assert not decision.when.adapt and decision.when.weight == 0.0
    assert decision.when.reason == "leave-one-out error puts more weight on leaving the model alone"
    assert decide(answered, policy={**fields, "selection": {"rule": "all"}}).to_dict() == (
        decision.to_dict()
    )
    # With blocks chosen by the same errors.
    assert decide(answered, policy=Policy(**{**fields, "selection": "depth"})).which.selected == [0]
    # Without labels they are taken for numbers of any size: roots are averaged.
    alone = decide(geometry, policy=Policy(**fields)).how_far.leave_one_out
    assert close(alone, [0.25, ((2 * 0.5**0.5 + 1) / 3) ** 4])
    # Who does not ask for it need not know them.
    for other in ("plain", "trimmed", "median"):
        policy = Policy(**{**fields, "horizon": {**rule, "averaging": other}})
        assert decide(geometry, policy=policy).to_dict() == decide(answered, policy=policy).to_dict()


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
    assert not decision.when.adapt and decision.plan.filter == fewstep.NoUpdate()
    assert len(decision.how_far.evidence) == 0 and decision.pac_bayes() is None
    decision = decide(np.zeros((2, 2)), [1.0, 1.0])
    assert decision.when.reason.startswith("the selected kernel is 0")
    assert decision.query is None
    assert "query" not in str(decision)


def test_a_decision_in_words_and_as_plain_values():
    decision = two_modes()
    assert str(decision) == "\n".join(
        [
            f"when       adapt: evidence favours updating (gate {shown(decision.when.gate)}; "
            f"expected gap {shown(decision.when.gap_icl)} -> {shown(decision.when.gap_adapted)})",
            "how far    10 steps of 0.0250 by evidence (0.875 degrees of freedom)",
            "where      1 of 1 blocks by all: kernel",
            f"residuals  signal variance {shown(decision.signal.signal_variance)}, noise variance "
            f"{shown(decision.signal.noise_variance)}",
            f"query      correction 0.488 (standard deviation "
            f"{shown(decision.query.standard_deviation)})",
        ]
    )
    assert repr(decision) == "Decision(adapt=True, horizon=10, blocks=1 of 1)"
    plain = decision.to_dict()
    assert list(plain) == [
        "policy",
        "when",
        "how_far",
        "which",
        "plan",
        "block",
        "spectrum",
        "signal",
        "query",
    ]
    assert json.loads(json.dumps(plain)) == plain
    assert plain["which"]["blocks"][0]["name"] == "kernel"
    assert plain["how_far"]["evidence"] == decision.how_far.evidence.tolist()
    assert plain["plan"]["filter"]["horizon"] == 10
    assert repr(decision.when).startswith("When(adapt=True, reason='evidence favours updating'")


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
    with pytest.raises(TypeError, match="decide.. got an unexpected keyword argument 'rules'"):
        decide(geometry, rules=None)
    with pytest.raises(TypeError):
        decide(geometry, horizon=0.5)
    with pytest.raises(errors.UnknownName, match="unknown horizon rule .*: expected a number of"):
        decide(geometry, horizon="guess")
    with pytest.raises(errors.UnknownName, match="unknown selection rule .*: expected all, query"):
        decide(geometry, select="best")
    with pytest.raises(errors.NoQuery, match="the horizon rule bayes-gap needs a query"):
        decide(geometry, horizon="bayes-gap")
    with pytest.raises(errors.Policy, match="budget is missing; it must be the number of blocks"):
        decide(geometry, select="trace-top")
    with pytest.raises(errors.Policy, match="budget is 2; it must be from 1 to 1, the number of"):
        decide(geometry, select="trace-top", budget=2)
    with pytest.raises(errors.Policy, match=r"horizons is \[3, 1\]; it must be a range such as"):
        decide(geometry, horizons=[3, 1])
    with pytest.raises(errors.Policy, match=r"horizons is \[\]"):
        decide(geometry, horizons=[])
    with pytest.raises(errors.Policy, match="step_scale is 2; it must be over 0 and under 1"):
        decide(geometry, step_scale=2.0)
    with pytest.raises(errors.NotPositiveSemidefinite):
        decide([[1.0, 2.0], [2.0, 1.0]], residuals)
    with pytest.raises(errors.SizeMismatch):
        decide(kernel, [1.0])
    with pytest.raises(errors.NotFinite, match="residuals has the entry NaN at position 0"):
        decide(kernel, [np.nan, 1.0])

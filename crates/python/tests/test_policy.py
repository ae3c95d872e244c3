"""One policy at every door of the package; the other doors are asked in `fewstep/tests`."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import fewstep
from fewstep import Block, Geometry, Model, Policy, errors

from . import places

DEFAULT = {
    "name": "default",
    "blocks": "mlp-up@upper-half",
    "selection": {"rule": "depth", "averaging": "by-label"},
    "horizon": {
        "rule": "leave-one-out-average",
        "averaging": "by-label",
        "sharpness": 0.2,
        "leave_alone_odds": 1.0,
    },
    "horizons": [0, 1, 2, 4, 8, 16, 32, 64],
    "step_scale": 0.6,
    "dynamics": "linear",
    "coverage": 0.8,
    "adjoint": "local",
    "residuals": {"rule": "leave-one-out"},
    "shots": {"most": None, "seed": 0},
    "classes": {
        "arms": [
            {"base": "few-shot", "blocks": "bias", "depth": "all"},
            {"base": "few-shot", "blocks": "readout", "depth": "all"},
            {"base": "few-shot", "blocks": "mlp-up@upper-half", "depth": "all"},
            {"base": "zero-shot", "blocks": "bias", "depth": "all"},
            {"base": "zero-shot", "blocks": "readout", "depth": "all"},
        ],
        "loss": {"rule": "cross-entropy"},
        "rule": "leave-one-out",
        "sharpness": 0.15,
        "leave_alone": 0.1,
        "step_scales": [],
        "confidence": 0.9,
        "folds": {"exact_up_to": 64, "count": 10, "seed": 0},
    },
}
PAPER = {
    "name": "paper",
    "blocks": "value@last4",
    "selection": {"rule": "all"},
    "horizon": {"rule": "evidence"},
    "horizons": list(range(31)),
    "step_scale": 0.1,
    "dynamics": "steps",
    "coverage": 0.8,
    "adjoint": "whole",
    "residuals": {"rule": "leave-one-out"},
    "shots": {"most": None, "seed": 0},
    "classes": DEFAULT["classes"],
}

#: Every override alone or with what it needs, and the field of the policy that it changes.
OVERRIDES = [
    ("blocks", {"blocks": "value@last2"}),
    ("selection", {"select": "all"}),
    ("selection", {"select": "trace-top", "budget": 2}),
    ("selection", {"select": "random", "budget": 1}),
    ("horizon", {"horizon": "evidence-fixed"}),
    ("horizon", {"horizon": 5}),
    ("horizons", {"horizons": [0, 1, 3]}),
    ("step_scale", {"step_scale": 0.3}),
    ("dynamics", {"dynamics": "steps"}),
    ("coverage", {"coverage": 0.5}),
    ("shots", {"seed": 3}),
    ("adjoint", {"adjoint": "whole"}),
    ("residuals", {"residuals": "prefix"}),
    ("residuals", {"residuals": "prefix", "orders": 3}),
    ("shots", {"shots": 3}),
    ("shots", {"shots": 3, "seed": 2}),
    ("classes", {"confidence": 0.5}),
]


@pytest.fixture(scope="module")
def model():
    return Model.load()


@pytest.fixture(scope="module")
def task():
    return places.tasks()[0]


def two_blocks() -> Geometry:
    """One block of derivatives in each of two layers."""
    generator = np.random.default_rng(5)
    blocks = [
        Block.from_features(f"mlp-up.{layer}", generator.normal(size=(6, 4)), layer=layer)
        for layer in range(2)
    ]
    return Geometry(generator.normal(size=6), blocks)


# The value itself.


def test_two_policies_have_names():
    assert Policy().to_dict() == Policy.default().to_dict() == DEFAULT
    assert Policy.paper().to_dict() == PAPER
    assert Policy.named("paper") == Policy.paper() != Policy() == Policy.named("default")
    for policy, fields in ((Policy(), DEFAULT), (Policy.paper(), PAPER)):
        for name, value in fields.items():
            assert getattr(policy, name) == value
        assert json.loads(policy.to_json()) == fields


def test_a_policy_is_the_default_one_with_fields_replaced():
    assert Policy(step_scale=0.3).to_dict() == {**DEFAULT, "name": "custom", "step_scale": 0.3}
    assert Policy(name="slow", step_scale=0.3).name == "slow"
    changed = {**PAPER, "name": "mine", "coverage": 0.5, "horizon": {"rule": "fixed", "steps": 8}}
    assert Policy(**changed).to_dict() == changed
    # Rules by their names, with the parameters that they have unless these are given.
    assert Policy(selection="all").selection == {"rule": "all"}
    assert Policy(horizon="gibbs").horizon == {"rule": "gibbs", "inverse_temperature": 1.0}
    assert Policy(horizon=8).horizon == Policy(horizon="8").horizon == changed["horizon"]
    assert Policy(horizons=range(3)).horizons == Policy(horizons="0..2").horizons == [0, 1, 2]
    assert Policy(horizons=np.array([0, 4])).horizons == [0, 4]
    assert Policy(residuals="prefix").residuals == {"rule": "prefix", "orders": 2}
    assert Policy(residuals={"rule": "prefix", "orders": 5}).residuals["orders"] == 5
    assert Policy(shots=8).shots == Policy(shots={"most": 8}).shots == {"most": 8, "seed": 0}
    assert Policy(shots={"most": None, "seed": 3}).shots == {"most": None, "seed": 3}
    assert [Policy(adjoint=part).adjoint for part in ("local", "whole")] == ["local", "whole"]
    # Names tell the truth, and nothing said changes nothing.
    assert Policy(**{**PAPER, "name": "mine"}) == Policy.paper()
    assert Policy(name="paper") == Policy(**dict.fromkeys(DEFAULT)) == Policy()


def test_differences_are_named():
    assert Policy().differences() == Policy.paper().differences("paper") == []
    assert Policy(coverage=0.5, step_scale=0.3).differences() == ["step_scale", "coverage"]
    assert Policy(coverage=0.5).differences(Policy(coverage=0.5, name="other")) == []
    every = ["blocks", "selection", "horizon", "horizons", "step_scale", "dynamics"]
    every += ["adjoint"] if DEFAULT["adjoint"] == "local" else []
    assert Policy().differences("paper") == Policy.paper().differences(DEFAULT) == every


def test_a_policy_is_read_back_from_everything_that_it_is_written_as():
    for policy in (Policy(), Policy.paper(), Policy(name="mine", horizon="gibbs", horizons="0..3")):
        assert Policy.from_json(policy.to_json()) == policy
        for form in (policy, policy.to_dict(), policy.to_json()):
            assert Policy.of(form) == policy
        for again in (pickle.loads(pickle.dumps(policy)), copy.copy(policy), copy.deepcopy(policy)):
            assert again == policy and again.to_json() == policy.to_json()
    assert Policy.of("paper") == Policy.paper()
    assert Policy.of({}) == Policy() and Policy.of({"step_scale": 0.3}) == Policy(step_scale=0.3)
    assert repr(Policy()).startswith("Policy(name='default', blocks='mlp-up@upper-half', selection={")


def test_a_policy_cannot_be_changed():
    with pytest.raises(AttributeError):
        Policy().step_scale = 0.3  # type: ignore[misc]
    policy = Policy()
    policy.horizons.append(100)
    policy.selection["rule"] = "all"
    assert policy == Policy.default()


@pytest.mark.parametrize("field, overrides", OVERRIDES)
@pytest.mark.parametrize("name", ["default", "paper"])
def test_an_override_changes_only_what_it_names(name, field, overrides):
    policy = Policy.named(name)
    changed = policy.with_overrides(**overrides)
    same = name == "paper" and overrides in ({"select": "all"}, {"dynamics": "steps"})
    same = same or overrides == {"adjoint": policy.adjoint}
    assert changed.differences(policy) == ([] if same else [field])
    assert (changed.name == name) == same
    # A later one starts from there.
    again = changed.with_overrides(**dict.fromkeys(overrides))
    assert again == changed


# Doors.


def doors(model, task, **asked) -> dict:
    """The policy of every door, by its name."""
    seen = model.observe(task, **asked)
    kernel = seen.geometry.total()
    (first,) = model.predict_iter([task], **asked)
    # Beside a kernel, residuals are numbers: their rule is given with the policy.
    rule = {name: asked[name] for name in ("residuals", "orders") if asked.get(name)}
    beside = {name: value for name, value in asked.items() if name not in rule}
    if rule:
        beside["policy"] = Policy().with_overrides(**rule)
    beside.pop("residuals", None)
    return {
        "decide(geometry)": fewstep.decide(seen.geometry, **asked).policy,
        "decide(kernel)": fewstep.decide(
            kernel.kernel, seen.residuals, kernel.coupling, kernel.query_variance, **beside
        ).policy,
        "Model.decide": model.decide(task, **asked).policy,
        "Model.predict": model.predict(task, **asked).policy,
        "Model.predict of many": model.predict([task], **asked)[0].policy,
        "Model.predict_iter": first.policy,
    }


def test_every_door_starts_from_the_default_policy(model, task):
    for door, policy in doors(model, task).items():
        assert policy.to_dict() == DEFAULT, door
    assert fewstep.decide([[1.0, 0.5], [0.5, 1.0]], [1.0, 0.5]).policy == Policy()
    assert model.blocks() == model.blocks(Policy().blocks)
    names = [block.name for block in model.observe(task).geometry.blocks]
    assert names == model.blocks()


@pytest.mark.parametrize("form", ["name", "policy", "dictionary", "json"])
def test_every_door_takes_every_form_of_a_policy(model, task, form):
    paper = Policy.paper()
    given = {"name": "paper", "policy": paper, "dictionary": PAPER, "json": paper.to_json()}[form]
    for door, policy in doors(model, task, policy=given).items():
        assert policy == paper, door
    assert model.blocks(policy=given) == model.blocks("value@last4")


@pytest.mark.parametrize("field, overrides", OVERRIDES)
def test_every_door_takes_every_override(model, task, field, overrides):
    if "budget" in overrides:
        overrides = {**overrides, "budget": 1}
    for door, policy in doors(model, task, **overrides).items():
        assert policy.differences() == [field], door
        assert policy == Policy().with_overrides(**overrides), door


def test_overrides_of_nothing_are_no_overrides(model, task):
    nothing = dict.fromkeys(["policy", *(name for _, one in OVERRIDES for name in one)])
    assert len(nothing) == 15
    for door, policy in doors(model, task, **nothing).items():
        assert policy == Policy(), door


def test_observing_and_deciding_is_what_the_model_decides(model):
    for task in places.tasks()[:3]:
        for asked in [{}, {"policy": "paper"}, {"horizon": 5}, {"policy": "paper", "select": "random", "budget": 3, "seed": 4}, {"adjoint": "local"}, {"residuals": "prefix"}, {"shots": 3}]:
            seen = model.observe(task, **asked)
            decision = fewstep.decide(seen.geometry, **asked)
            report = model.decide(task, full=True, **asked)
            assert decision.policy == report.policy
            assert decision.when.to_dict() == report.when.to_dict()
            found, said = decision.how_far.to_dict(), report.how_far.to_dict()
            assert found == {name: said[name] for name in found}
            names = [seen.geometry.blocks[index].name for index in decision.which.selected]
            assert names == report.which.selected
            assert seen.query_prediction + decision.query.correction == report.prediction.linear


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"policy": "paper"},
        {"step_scale": 0.3},
        {"policy": "paper", "horizon": "gibbs", "horizons": "0..5"},
        {"select": "random", "budget": 2, "seed": 9},
        {"policy": Policy(name="mine", horizon={"rule": "leave-one-out", "gate": 1.0})},
    ],
)
def test_what_a_report_says_can_be_pasted_back(model, task, asked):
    for method in (model.predict, model.decide):
        report = method(task, full=True, **asked)
        policy = report.policy
        for form in (policy, policy.to_dict(), report.to_dict()["policy"], policy.to_json()):
            assert method(task, full=True, policy=form).to_json() == report.to_json()


def test_blocks_without_a_layer_are_one_set():
    generator = np.random.default_rng(2)
    blocks = [Block.from_features(f"mlp_{index}", generator.normal(size=(5, 3))) for index in (4, 5)]
    depth = fewstep.decide(Geometry(generator.normal(size=5), blocks)).which.depth
    # A name tells no layer.
    assert (depth.layers, depth.blocks, len(depth.risks)) == ([0], [0, 1], 1)
    depth = fewstep.decide(two_blocks()).which.depth
    assert depth.layers == [1, 2] and len(depth.risks) == 2
    assert fewstep.decide(two_blocks(), policy="paper").which.depth is None


def test_blocks_say_their_layer_and_their_number(model, task):
    blocks = two_blocks().blocks
    assert [(block.layer, block.id) for block in blocks] == [(0, None), (1, None)]
    assert blocks[1].to_dict()["layer"] == 1
    assert Block("a", [[1.0]]).layer is None and Block("a", [[1.0]], layer=3).layer == 3
    factors = [([[1.0]], [[1.0]])]
    assert Block.from_factors("a", factors, layer=2).layer == 2
    assert Block.from_prior("a", [[1.0]], [[1.0]], layer=2).layer == 2
    assert two_blocks().precondition([1.0, 2.0]).blocks[1].layer == 1
    seen = model.observe(task, "value@last2").geometry.blocks
    assert [block.layer for block in seen] == [int(block.name.split(".")[1]) for block in seen]
    assert len({block.id for block in seen}) == len(seen)
    scores = fewstep.decide(model.observe(task).geometry).which.blocks
    assert [score.id for score in scores] == [b.id for b in model.observe(task).geometry.blocks]


def test_only_the_reasons_that_decided_are_given():
    geometry = two_blocks()
    when = fewstep.decide(geometry).when
    assert when.leave_one_out is not None and when.evidence is None
    assert when.gate is when.gap_icl is when.gap_adapted is None
    when = fewstep.decide(geometry, policy="paper").when
    assert when.leave_one_out is None and when.evidence.gate == when.gate
    when = fewstep.decide(geometry, horizon=3).when
    assert when.leave_one_out is when.evidence is None
    assert (when.adapt, when.weight, when.reason) == (True, 1.0, "the number of steps was given")


# What is wrong has a name.


def field_of(call) -> str:
    with pytest.raises(errors.FewstepError) as raised:
        call()
    return raised.value.field


@pytest.mark.parametrize(
    "field, asked",
    [
        ("step_scale", {"step_scale": 1.0}),
        ("step_scale", {"step_scale": float("nan")}),
        ("step_scale", {"step_scale": "fast"}),
        ("coverage", {"coverage": 0}),
        ("horizons", {"horizons": [2, 1]}),
        ("horizons", {"horizons": 3}),
        ("horizons", {"horizons": "3..1"}),
        ("horizon", {"horizon": "soon"}),
        ("selection", {"select": "best"}),
        ("selection", {"select": 3}),
        ("budget", {"select": "trace-top"}),
        ("budget", {"budget": 2}),
        ("steps", {"horizon": 100_001}),
        ("dynamics", {"dynamics": "fast"}),
        ("adjoint", {"adjoint": "none"}),
        ("residuals", {"residuals": "suffix"}),
        ("orders", {"orders": 3}),
        ("orders", {"residuals": "prefix", "orders": 65}),
        ("shots", {"shots": 0}),
        ("shots", {"policy": {"shots": {"most": 0}}}),
        ("policy", {"policy": {"residuals": {"rule": "leave-one-out", "orders": 2}}}),
        ("policy", {"policy": "best"}),
        ("policy", {"policy": 3}),
        ("policy", {"policy": {"step_size": 0.3}}),
        ("policy", {"policy": '{"step_scale": }'}),
        ("step_scale", {"policy": {"step_scale": 2}}),
        ("gate", {"policy": {"horizon": {"rule": "leave-one-out", "gate": -1}}}),
    ],
)
def test_an_error_about_a_field_says_which(model, task, field, asked):
    geometry = two_blocks()
    calls = [
        lambda: fewstep.decide(geometry, **asked),
        lambda: model.predict(task, **asked),
        lambda: model.decide(task, **asked),
        lambda: model.predict_iter([task], **asked),
        lambda: model.observe(task, **asked),
        lambda: model.blocks(**asked),
    ]
    for call in calls:
        assert field_of(call) == field


def test_fields_of_a_policy_are_refused_by_name():
    assert field_of(lambda: Policy(step_scale=2)) == "step_scale"
    assert field_of(lambda: Policy(horizon={"rule": "gibbs", "inverse_temperature": 0})) == (
        "inverse_temperature"
    )
    assert field_of(lambda: Policy(selection="trace-top")) == "budget"
    assert field_of(lambda: Policy(selection={"rule": "best"})) == "selection"
    assert field_of(lambda: Policy(horizon={"rule": "evidence", "gate": 1})) == "horizon"
    assert field_of(lambda: Policy(blocks=3)) == "blocks"
    assert field_of(lambda: Policy(adjoint="none")) == "adjoint"
    assert field_of(lambda: Policy(residuals={"rule": "prefix", "orders": 0})) == "orders"
    assert field_of(lambda: Policy(residuals={"rule": "prefix", "seed": 0})) == "residuals"
    assert field_of(lambda: Policy(shots=0)) == "shots"
    assert field_of(lambda: Policy.named("best")) == "policy"
    with pytest.raises(errors.Policy, match="policy is best; it must be default, paper, or a"):
        Policy.of("best")
    with pytest.raises(errors.PolicyJson, match="line 1, column 12 of the policy: unknown field"):
        Policy.from_json('{"step_size": 0.3}')
    with pytest.raises(errors.WrongType, match="policy is int; give a Policy, default, paper, or"):
        Policy.of(3)
    with pytest.raises(errors.WrongType, match="a policy holds object"):
        Policy.of({"name": object()})
    with pytest.raises(TypeError, match="Policy.. got an unexpected keyword argument 'rules'"):
        Policy(rules=None)
    with pytest.raises(TypeError, match="with_overrides.. got an unexpected keyword argument 'x'"):
        Policy().with_overrides(x=1)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'policy'"):
        Policy().with_overrides(policy="paper")
    # An error about something else is about no field.
    assert errors.FewstepError.field is None
    assert field_of(lambda: fewstep.Spectrum([])) is None


def test_blocks_that_a_model_does_not_have_are_refused_by_name(model, task):
    for blocks in ("value", "value@last0", "mlp-gate@all", "best@all"):
        assert field_of(lambda: model.predict(task, blocks=blocks)) == "blocks"
    assert field_of(lambda: model.predict(task, select="trace-top", budget=99)) == "budget"
    assert field_of(lambda: model.predict(task, lora_rank=2)) == "lora_rank"


# Doors that need other packages.


def test_the_bridge_starts_from_the_default_policy(task):
    models = pytest.importorskip("tests.torch_models", reason="torch is not installed")
    bridge = pytest.importorskip("fewstep.torch")
    name = "llama-plain"
    own, tokens, task = models.load(name), models.tokenizer(name), models.tasks()[0]
    seen = bridge.observe(own, tokens, task)
    engine = Model.load(places.root() / "fixtures" / name)
    assert list(seen.blocks) == engine.blocks()
    blocks = engine.observe(task).geometry.blocks
    assert [block.layer for block in seen.geometry.blocks] == [block.layer for block in blocks]
    decision = bridge.decide(seen)
    report = engine.decide(task)
    assert seen.policy == decision.policy == report.policy == Policy()
    assert list(decision.plan.blocks) == report.which.selected
    assert decision.which.depth.layers == [1]
    with bridge.adapted(own, seen) as by_default:
        pass
    with bridge.adapted(own, decision) as decided:
        assert by_default.prediction == decided.prediction != decided.base_prediction
    with bridge.adapted(own, seen, horizon=2) as two:
        assert len(two.losses) == 2
    with pytest.raises(errors.WrongType, match="was decided already"):
        with bridge.adapted(own, decision, policy="paper"):
            pass
    paper = bridge.observe(own, tokens, task, policy="paper", coverage=0.5)
    assert list(paper.blocks) == engine.blocks(policy="paper")
    assert bridge.decide(paper).policy.differences("paper") == ["coverage"]
    assert bridge.decide(paper, policy="default", step_scale=0.3).policy.differences() == [
        "step_scale"
    ]
    assert bridge.observe(own, tokens, task, "value@last1").policy.differences() == ["blocks"]
    assert bridge.observe(own, tokens, task, ["value.1.0"]).policy == Policy()
    with pytest.raises(errors.Policy, match="coverage is 2"):
        bridge.observe(own, tokens, task, coverage=2)


def test_ray_starts_from_the_default_policy(task):
    pytest.importorskip("ray.data", reason="ray is not installed")
    ray = pytest.importorskip("fewstep.ray")
    assert ray._asked("default", {})["policy"] == DEFAULT
    asked = ray._asked("paper", {"coverage": 0.5, "seed": 3, "full": True})
    assert Policy.of(asked["policy"]).differences("paper") == ["coverage", "shots"]
    assert asked["options"] == {"seed": 3, "full": True}
    with pytest.raises(errors.Policy, match="step_scale is 2"):
        ray.predict([task], step_scale=2)

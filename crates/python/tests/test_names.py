"""One word for one thing: in Rust, in Python, in JSON and on the command line."""

from __future__ import annotations

import inspect
import operator
import re
import subprocess
import types

import fewstep

from . import places, rust

# What numpy, plain arguments and attributes are in the place of.
REPLACED = {"Matrix", "IntoMatrix", "Factors", "Observation", "QueryCoupling"}
REPLACED |= {"Stopping", "EvidenceSettings", "DepthSettings"}
# What is a keyword, a text or a dictionary.
REPLACED |= {"Field", "HorizonName", "HorizonRule", "Horizons", "Overrides", "Selection"}
REPLACED |= {"SelectionName", "Adjoint", "Residuals", "ResidualsName", "Shots"}
REPLACED |= {"ClassArm", "ClassDepth", "ClassLoss", "ClassPolicy", "ClassRule", "Folds"}
# What tasks of classes are decided by: a model answers them, arrays of one's own are not taken.
REPLACED |= {"ArmBlocks", "ArmDecision", "ArmPath", "Base", "ClassBase", "ClassBlock", "ClassCoupling"}
REPLACED |= {"ClassDecision", "ClassGeometry", "ClassKernel", "ClassPrediction", "ClassQuery"}
REPLACED |= {"ClassWhen", "LeftOut", "QueryBase", "ZeroShotAlone"}
ARGUMENTS = {("Block", "with_query"), ("Block", "with_parameters"), ("Block", "query")}
ARGUMENTS |= {("Block", "in_layer"), ("Block", "with_id")}
# No policy is here that was not checked.
ARGUMENTS |= {("Policy", "check"), ("Policy", "check_budget")}
# What core lends to theory; in Python it stands behind what calls it.
ARGUMENTS |= {("StepSize", "decay_rate"), ("Benchmark", "residual_variance")}
LENT = {"symmetric", "normalised_prior", "normalised_weights", "risk_of_mode", "excess_of_mode"}
# A function that is a method here, of the decision that it bounds.
LENT |= {"guarantee"}
# As the types above.
LENT |= {"decide_classes"}
# A trait that Python subclasses under a shorter name.
RENAMED = {"LinearOperator": "Operator"}


def holder(module: str) -> types.ModuleType:
    return operator.attrgetter(module)(fewstep) if module else fewstep


def class_of(module: str, name: str) -> type:
    """The class of a type: in the module of the same name, or in the package."""
    name = RENAMED.get(name, name)
    found = getattr(holder(module), name, None) or getattr(fewstep, name, None)
    assert isinstance(found, type), f"{module}::{name} has no class"
    return found


def test_sources_are_read_as_they_are_meant():
    text = """
pub fn free() {}
pub(crate) fn inside() {}
impl<F: Filter> Mixture<F> {
    pub fn parts(&self) {}
    fn hidden(&self) {}
}
impl Default for Policy {
    fn default() -> Self {}
}
pub trait Filter {
    fn gain(&self);
}
pub struct Pair<'a> {
    /// First.
    pub first: &'a [f64],
    second: f64,
}
"""
    found = [function[1:] for function in rust.functions_of(text, "m")]
    assert found == [(None, "free"), ("Mixture", "parts"), ("Filter", "gain")]
    assert rust.fields(text, "Pair") == ["first"]


def test_every_function_of_core_is_here_under_its_name():
    functions = rust.core_functions()
    assert len(functions) > 150
    for function in functions:
        module, owner, name = function
        if owner is None:
            found = callable(getattr(holder(module), name, None))
            assert found is (name not in LENT), function
        elif owner not in REPLACED and (owner, name) not in ARGUMENTS:
            found = class_of(module, owner)
            # `new` and `of` are the class itself.
            assert name in ("new", "of") or hasattr(found, name), function


def test_every_field_of_core_is_here_under_its_name():
    structs = rust.core_structs()
    assert len(structs) > 15
    for module, name, known in structs:
        if name in REPLACED or name == "Decision":
            continue
        missing = [field for field in known if not hasattr(class_of(module, name), field)]
        assert not missing, f"{module}::{name}: {missing}"


def test_a_policy_has_the_fields_of_rust():
    known = rust.fields(rust.read("crates/core/src/policy.rs"), "Policy")
    assert list(fewstep.Policy().to_dict()) == known
    assert list(inspect.signature(fewstep.Policy).parameters) == known


def test_every_door_takes_the_overrides_of_rust():
    known = set(rust.fields(rust.read("crates/core/src/policy/overrides.rs"), "Overrides"))
    assert len(known) == 14
    keywords = lambda function: set(inspect.signature(function).parameters)
    assert keywords(fewstep.Policy.with_overrides) - {"self"} == known
    asked = keywords(fewstep.decide) - {"kernel", "coupling", "query_variance"}
    # There residuals are numbers, and the policy's rule is a name in their place.
    assert asked == known | {"policy"}
    model = fewstep.Model
    for function in (model.predict, model.decide, model.predict_iter, model.observe):
        assert known | {"policy"} <= keywords(function), function
    # There the choice comes first, without a name.
    assert known - {"blocks"} | {"policy", "choice"} <= keywords(model.blocks)


def test_the_names_of_rules_are_those_of_rust():
    text = rust.read("crates/core/src/policy/names.rs")
    names = re.findall(r'Self::\w+ => (?:f\.write_str\()?"([a-z-]+)"', text)
    horizons, selections, dynamics = names[:7], names[7:14], names[14:]
    assert (horizons[0], selections[0], dynamics) == ("evidence", "all", ["steps", "linear"])
    geometry = fewstep.Geometry.from_features([[1.0], [2.0]], [0.5, 0.25], [1.0])
    for name in horizons:
        assert fewstep.decide(geometry, horizon=name).how_far.rule == name
        assert fewstep.Policy(horizon=name).horizon["rule"] == name
    for name in selections:
        budget = None if name in ("all", "depth") else 1
        assert fewstep.decide(geometry, select=name, budget=budget).which.rule == name
    for name in dynamics:
        assert fewstep.Policy(dynamics=name).dynamics == name
    text = rust.read("crates/core/src/policy/observation.rs")
    names = re.findall(r'Self::\w+(?: { .. })? => "([a-z-]+)"', text)
    assert names == ["local", "whole", "leave-one-out", "prefix"]
    for name in names[:2]:
        assert fewstep.Policy(adjoint=name).adjoint == name
    for name in names[2:]:
        assert fewstep.Policy(residuals=name).residuals["rule"] == name


def test_a_decision_has_the_fields_of_rust():
    geometry = fewstep.Geometry.from_features([[1.0], [2.0]], [0.5, 0.25], [1.0])
    decision = fewstep.decide(geometry)
    text = rust.read("crates/core/src/decision.rs")
    for name, part in {
        "When": decision.when,
        "HowFar": decision.how_far,
        "Which": decision.which,
        "QueryOutlook": decision.query,
    }.items():
        known = set(rust.fields(text, name))
        if name == "When":
            # What evidence says stands beside the answer, as in the JSON of a report.
            known |= set(rust.fields(text, "EvidenceReasons"))
            known.remove("evidence")
            assert part.evidence is None
        # The candidates stand beside what was computed for them.
        assert set(part.to_dict()) - {"horizons"} == known, name
    assert list(decision.to_dict()) == rust.fields(text, "Decision")


def test_a_report_has_the_fields_of_its_json():
    task = places.tasks()[0]
    report = fewstep.Model.load("builtin").predict(task, full=True)
    said = report.to_dict()
    assert {"id", "policy", "lines", "prediction", "when", "how_far", "which", "geometry", "passes"} <= set(said)
    for name, part in said.items():
        assert hasattr(report, name), name
        for field in part if isinstance(part, dict) else ():
            assert hasattr(getattr(report, name), field), f"{name}.{field}"


def test_a_report_of_classes_has_the_fields_of_its_json():
    task = places.tasks("examples/digit-classes.jsonl")[0]
    report = fewstep.Model.load("builtin").predict(task, full=True)
    said = report.to_dict()
    assert {"id", "policy", "lines", "prediction", "when", "how_far", "which", "geometry", "passes"} <= set(said)

    def compare(found, fields, name):
        for field, value in fields.items():
            attribute = getattr(found, field)
            if isinstance(value, dict) and not isinstance(attribute, dict):
                compare(attribute, value, f"{name}.{field}")
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                for one, entry in zip(attribute, value):
                    compare(one, entry, f"{name}.{field}")

    compare(report, said, "report")


def test_decisions_reports_and_their_json_use_the_same_words():
    task = places.tasks()[0]
    model = fewstep.Model.load("builtin")
    said = model.predict(task, full=True, horizon="evidence").to_dict()
    decision = fewstep.decide(model.observe(task).geometry, horizon="evidence").to_dict()
    # What leave-one-out errors say is left out where they chose nothing, a bound until it is asked
    # for.
    assert set(decision["when"]) == set(said["when"]) | {"leave_one_out"}
    assert set(decision["how_far"]) | {"pac_bayes"} == set(said["how_far"]) | {"leave_one_out"}
    assert set(decision["which"]) - {"depth"} <= set(said["which"])
    assert set(said["which"]["blocks"][0]) >= {"name", "trace", "query"}
    said = model.predict(task).to_dict()
    decision = fewstep.decide(model.observe(task).geometry).to_dict()
    assert decision["when"] == {**said["when"], "gate": None, "gap_icl": None, "gap_adapted": None}
    assert decision["policy"] == said["policy"]


#: Flags of the command line that a call has no use for: where answers go, and as what.
OF_PROGRAMS = {"json", "out", "resume", "figures", "help"}
#: Parameters that the command line has as an argument, or shows by itself.
OF_CALLS = {"progress", "self", "tasks"}


def flags(command: str) -> set:
    done = subprocess.run(
        [places.program(), command, "--help"], capture_output=True, text=True, check=True
    )
    found = re.findall(r"^\s+(?:-\w, )?--([a-z][a-z-]+)", done.stdout, re.M)
    return {flag.replace("-", "_") for flag in found}


def test_keywords_are_flags_and_flags_are_keywords():
    keywords = lambda function: set(inspect.signature(function).parameters) - OF_CALLS
    loading = keywords(fewstep.Model.load)
    for command, function in {
        "predict": fewstep.Model.predict,
        "decide": fewstep.Model.decide,
    }.items():
        known = flags(command)
        assert len(known) > 12
        assert keywords(function) <= known, command
        # The model is the source; saving and reading updates have methods of their own.
        rest = known - keywords(function) - loading - OF_PROGRAMS - {"model"}
        assert rest <= {"save_adapter", "adapter", "adapter_format"}, (command, rest)
    # The rest of what loading takes has no flag: memory, and the seed of low-rank blocks.
    assert loading - flags("predict") == {"source", "memory_limit", "lora_seed"}


def test_flags_mean_the_same_here():
    model = fewstep.Model.load("builtin")
    task = places.tasks()[0]
    for keyword, value in {
        "blocks": "value@last1",
        "select": "trace-top",
        "budget": 1,
        "horizon": 2,
        "horizons": "0..4",
        "step_scale": 0.1,
        "dynamics": "steps",
        "coverage": 0.5,
        "confidence": 0.5,
        "adjoint": "whole",
        "residuals": "leave-one-out",
        "policy": "paper",
        "seed": 1,
        "full": True,
        "threads": 1,
    }.items():
        more = {"budget": 1} if keyword == "select" else {}
        more = {"select": "trace-top"} if keyword == "budget" else more
        model.predict(task, **{keyword: value}, **more)

"""One word for one thing: in Rust, in Python, in JSON and on the command line."""

from __future__ import annotations

import inspect
import re
import subprocess

import fewstep

from . import places


def rust(file: str) -> str:
    return (places.root() / file).read_text(encoding="utf-8")


def fields(file: str, struct: str) -> list:
    """The public fields of a Rust struct."""
    body = re.search(rf"pub struct {struct}\b[^{{]*{{(.*?)\n}}", rust(file), re.S)
    assert body, f"{struct} in {file}"
    return re.findall(r"^    pub (\w+):", body.group(1), re.M)


def test_rules_have_the_fields_of_rust():
    keywords = list(inspect.signature(fewstep.Rules).parameters)
    assert keywords == fields("crates/core/src/rules.rs", "Rules")


def test_the_names_of_rules_are_those_of_rust():
    text = rust("crates/core/src/rules.rs")
    horizons = re.findall(r'\("([a-z-]+)", HorizonRule::', text)
    selections = re.findall(r'\("([a-z-]+)", Selection::', text)
    assert len(horizons) == 7 and len(selections) == 7
    geometry = fewstep.Geometry.from_features([[1.0], [2.0]], [0.5, 0.25], [1.0])
    for name in horizons:
        assert fewstep.decide(geometry, horizon=name).how_far.rule == name
    for name in selections:
        budget = None if name == "all" else 1
        assert fewstep.decide(geometry, selection=name, budget=budget).which.rule == name


def test_a_decision_has_the_fields_of_rust():
    geometry = fewstep.Geometry.from_features([[1.0], [2.0]], [0.5, 0.25], [1.0])
    decision = fewstep.decide(geometry)
    for name, part in {
        "When": decision.when,
        "HowFar": decision.how_far,
        "Which": decision.which,
        "QueryOutlook": decision.query,
    }.items():
        known = set(fields("crates/core/src/decide.rs", name))
        # The candidates stand beside what was computed for them.
        assert set(part.to_dict()) - {"horizons"} == known, name
    parts = fields("crates/core/src/decide.rs", "Decision")
    assert all(hasattr(decision, part) for part in parts)


def test_a_report_has_the_fields_of_its_json():
    task = places.tasks()[0]
    report = fewstep.Model.load("builtin").predict(task, full=True)
    said = report.to_dict()
    for name, part in said.items():
        assert hasattr(report, name), name
        for field in part if isinstance(part, dict) else ():
            assert hasattr(getattr(report, name), field), f"{name}.{field}"


def test_keywords_are_flags():
    done = subprocess.run(
        [places.program(), "predict", "--help"], capture_output=True, text=True, check=True
    )
    flags = {flag.replace("-", "_") for flag in re.findall(r"--([a-z][a-z-]+)", done.stdout)}
    model = fewstep.Model.load("builtin")
    task = places.tasks()[0]
    for keyword, value in {
        "blocks": "value@last1",
        "select": "trace-top",
        "budget": 1,
        "horizon": 2,
        "horizons": "0..4",
        "step_scale": 0.1,
        "dynamics": "linear",
        "seed": 1,
        "full": True,
        "threads": 1,
    }.items():
        assert keyword in flags
        more = {"budget": 1} if keyword == "select" else {}
        more = {"select": "trace-top"} if keyword == "budget" else more
        model.predict(task, **{keyword: value}, **more)
    for keyword in ("expand", "bos", "loo_order", "max_tokens_per_example"):
        assert keyword in flags
        assert keyword in inspect.signature(fewstep.Model.load).parameters, keyword


def test_modules_are_those_of_core():
    public = re.findall(r"^pub mod (\w+);", rust("crates/core/src/lib.rs"), re.M)
    assert len(public) > 8
    for name in public:
        assert inspect.ismodule(getattr(fewstep, name)), name
        functions = set()
        source = places.root() / "crates/core/src"
        for file in source.rglob("*.rs"):
            if file == source / f"{name}.rs" or file.parent == source / name:
                functions |= set(re.findall(r"^pub fn (\w+)", file.read_text(), re.M))
        missing = {f for f in functions if not hasattr(getattr(fewstep, name), f)}
        assert not missing, f"{name}: {missing}"

"""What `help` and a prompt show: every public name says what it is, every result how it reads."""

from __future__ import annotations

import enum
import inspect
import re
import types

import pytest

import fewstep

from . import rust
from .test_errors import BORDER
from .test_malformed import proper

NATIVE = [
    module
    for package in (fewstep, fewstep.theory)
    for name, module in vars(package).items()
    if isinstance(module, types.ModuleType)
    and module.__name__ == f"{package.__name__}.{name}"
    and (package is fewstep.theory or name in fewstep.__all__)
]


def documented(module: types.ModuleType) -> dict:
    """Modules, classes, functions, methods and attributes that a person may look up."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found = {module.__name__: module}
    for name in names:
        value = getattr(module, name)
        if isinstance(value, types.ModuleType) or not callable(value):
            continue
        found[f"{module.__name__}.{name}"] = value
        if isinstance(value, type) and not issubclass(value, (BaseException, enum.Enum)):
            for member in vars(value):
                if not member.startswith("_"):
                    found[f"{module.__name__}.{name}.{member}"] = getattr(value, member)
    return found


def text_of(value: object) -> str:
    # A class may inherit the text of another one, which says nothing about it.
    text = vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)
    return (text or "").strip()


def test_every_public_name_of_the_package_says_what_it_is():
    assert len(NATIVE) == 16
    known = documented(fewstep)
    for module in NATIVE:
        known |= documented(module)
    assert len(known) > 400
    silent = sorted(name for name, value in known.items() if len(text_of(value)) < 5)
    assert not silent


@pytest.mark.parametrize("name", ["torch", "ray"])
def test_every_public_name_of_the_bridges_says_what_it_is(name):
    pytest.importorskip(name)
    known = documented(pytest.importorskip(f"fewstep.{name}"))
    # Fields of a dataclass stand in the table of its class.
    silent = [one for one, value in known.items() if callable(value) and len(text_of(value)) < 5]
    assert len(known) > 1 and not silent


def test_help_shows_signatures():
    for module in [fewstep, *NATIVE]:
        for name, value in documented(module).items():
            if callable(value) and not isinstance(value, type):
                assert inspect.signature(value) is not None, name
    assert "(kernel, residuals=None, coupling=None" in str(inspect.signature(fewstep.decide))


def test_errors_are_described_by_the_sources():
    described: dict = {}
    for crate in ("core", "engine", "fewstep"):
        text = rust.read(f"crates/{crate}/src/error.rs")
        body = text[text.index("pub enum Error {") :]
        body = body[: body.index("\n}")]
        # Lines of a description, what is printed, and the name of the variant.
        variant = r"((?:^    /// .*\n)+)(?:^    (?:[#)]| ).*\n)*^    ([A-Z]\w+)"
        for lines, name in re.findall(variant, body, re.M):
            said = " ".join(line.strip()[4:] for line in lines.strip().splitlines())
            described.setdefault(name, set()).add(said)
    classes = {name: one for name, one in vars(fewstep.errors).items() if isinstance(one, type)}
    assert len(set(classes) & set(described)) > 100
    for name, one in classes.items():
        if name in described:
            assert one.__doc__ in described[name], name
        else:
            assert name in {"FewstepError", *BORDER}


def results() -> list:
    """Objects of every class that a call may give."""
    return [one for one in proper() if type(one).__module__.startswith("fewstep")]


def test_results_can_be_read_and_taken_apart():
    kinds = {type(one).__name__ for one in results()}
    assert len(kinds) > 35
    # What only computes has nothing to take apart.
    tools = {"Rng", "Evidence", "LeaveOneOut", "Watch", "EvidenceFamily", "PacBayes", "Model"}
    tools |= {"LinearGaussian", "QueryMetric", "GlobalInformation", "StepSize", "Reports"}
    tools |= {"DenseKernel", "FactorKernel", "BlockSum", "Shifted", "MarchenkoPastur", "PlugIn"}
    for one in results():
        name = type(one).__name__
        assert repr(one).startswith(f"{name}("), repr(one)
        assert " object at 0x" not in repr(one) and len(repr(one)) < 1000
        if name not in tools:
            assert one.to_dict(), name


def test_notebooks_show_the_figures_of_the_tool():
    decision = fewstep.decide([[2.0, 0.5], [0.5, 1.25]], [1.5, -1.0])
    page = decision._repr_html_()
    assert page.startswith("<table>") and page.count("<svg") == page.count("</svg>") == 1
    assert "<style" not in page and "<script" not in page
    # The curve of every rule that has one.
    for rule in ("evidence", "gibbs", "leave-one-out", 3):
        shown = fewstep.decide([[2.0, 0.5], [0.5, 1.25]], [1.5, -1.0], horizon=rule)
        assert "<svg" in shown._repr_html_(), rule
    # Nothing to draw is no reason to fail.
    assert "<svg" not in fewstep.decide([[1.0]], [0.0])._repr_html_()

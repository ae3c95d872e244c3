"""Every number of core and theory is the same in Python, to the last bit."""

from __future__ import annotations

import importlib
import json
import pathlib
import pkgutil
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from . import cases, rust
from .test_names import ARGUMENTS, LENT, RENAMED, REPLACED, class_of

ROOT = pathlib.Path(__file__).resolve().parents[1]


def bits(value) -> list[str]:
    """Numbers, as the hexadecimal digits of their bits."""
    flat = np.asarray(value, dtype=np.float64).ravel().tolist()
    return [struct.pack(">d", number).hex() for number in flat]


@pytest.fixture(scope="module")
def reference() -> dict[str, list[str]]:
    command = ["cargo", "run", "--quiet", "--locked", "-p", "fewstep-python", "--example", "reference"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({line["name"] for line in lines}) == len(lines)
    return {line["name"]: line["bits"] for line in lines}


def modules() -> list:
    names = [module.name for module in pkgutil.iter_modules(cases.__path__)]
    return [importlib.import_module(f"{cases.__name__}.{name}") for name in names if name != "inputs"]


@pytest.fixture(scope="module")
def computed():
    """What Python computes, and which compiled functions and methods it calls for that."""
    found, called = {}, set()

    def note(frame, event, argument):
        if event == "c_call":
            called.add(argument.__qualname__)

    for module in modules():
        sys.setprofile(note)
        try:
            found |= module.cases()
        finally:
            sys.setprofile(None)
    return found, called


def test_every_number_is_that_of_rust(computed, reference):
    found, _ = computed
    assert len(found) > 500
    assert sorted(found) == sorted(reference)
    for name, value in found.items():
        assert bits(value) == reference[name], name


def test_every_public_function_of_core_is_compared(computed):
    _, called = computed
    text = "\n".join(pathlib.Path(module.__file__).read_text("utf-8") for module in modules())
    missing = []
    for module, owner, name in rust.core_functions():
        if owner is None:
            seen = name in called or name in LENT
        elif owner in REPLACED or (owner, name) in ARGUMENTS:
            continue
        elif name in ("new", "of"):
            seen = re.search(rf"\b{owner}\(", text) is not None
        elif callable(getattr(class_of(module, owner), name)):
            # A method is noted with the class that it was called on.
            found = class_of(module, owner)
            names = {f"{one.__name__}.{name}" for one in [found, *found.__subclasses__()]}
            seen = bool(names & called)
        else:
            # Python does not say that an attribute was read.
            seen = re.search(rf"\.{name}\b", text) is not None
        if not seen:
            missing.append(f"{module}::{RENAMED.get(owner, owner)}::{name}")
    assert not missing

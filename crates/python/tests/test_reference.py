"""Every number of core is the same in Python, to the last bit."""

import importlib
import json
import pathlib
import pkgutil
import struct
import subprocess

import numpy as np
import pytest

from . import cases

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


def test_every_number_is_that_of_rust(reference):
    computed = {}
    for module in pkgutil.iter_modules(cases.__path__):
        if module.name != "inputs":
            computed |= importlib.import_module(f"{cases.__name__}.{module.name}").cases()
    assert sorted(computed) == sorted(reference)
    for name, value in computed.items():
        assert bits(value) == reference[name], name

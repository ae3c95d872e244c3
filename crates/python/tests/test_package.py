"""What is installed: one extension for every Python from 3.9 on, and nothing but numpy beside it."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import pytest

import fewstep

from . import rust

PACKAGE = pathlib.Path(fewstep.__file__).parent


@pytest.mark.skipif(os.name != "posix", reason="Windows names extensions otherwise")
def test_the_extension_is_for_every_version():
    assert pathlib.Path(fewstep._native.__file__).name == "_native.abi3.so"


def test_the_package_says_what_it_needs():
    found = importlib.metadata.metadata("fewstep")
    assert found["Requires-Python"] == ">=3.9"
    version = re.search(r'^version = "(.+)"', rust.read("Cargo.toml"), re.M)
    assert version and found["Version"] == version[1]
    needed = [line for line in found.get_all("Requires-Dist") if "extra ==" not in line]
    assert [re.split(r"[<>=!~ ]", line)[0] for line in needed] == ["numpy"]
    assert {"torch", "ray"} <= set(found.get_all("Provides-Extra"))


def test_sources_are_those_of_the_oldest_version():
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    assert len(files) > 20
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))


def test_nothing_else_is_imported():
    code = (
        "import sys, fewstep; "
        "assert not {'torch', 'ray', 'jax', 'transformers', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["torch", "ray"])
def test_what_an_extra_needs_is_said(name):
    # As if it were not installed.
    code = f"import sys; sys.modules[{name!r}] = None; import fewstep.{name}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and f"pip install 'fewstep[{name}]'" in done.stderr

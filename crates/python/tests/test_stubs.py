"""The types that stubs promise are those of what is installed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

import fewstep

# What a stub says otherwise: how classes that only calls give are made, which classes have a
# layout of their own, and that a kernel needs residuals where a geometry must have none.
ALLOWED = r"""
.*\.__(new|init)__
fewstep\._native\.Filter
fewstep\.theory\.matfree\.Operator
fewstep\._native\.decide
"""


def test_the_package_is_marked_as_typed():
    assert pathlib.Path(fewstep.__file__).with_name("py.typed").is_file()


def test_the_package_itself_has_types(tmp_path):
    for name in ("mypy", "torch", "ray"):
        pytest.importorskip(name)
    words = [sys.executable, "-m", "mypy", "--strict", "-p", "fewstep"]
    words += ["--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_stubs_say_what_is_there(tmp_path):
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED, encoding="utf-8")
    package = pathlib.Path(fewstep.__file__).parent
    stubs = sorted(package.glob("*.pyi"))
    assert (len(stubs), len(sorted(package.glob("theory/*.pyi")))) == (9, 8)
    # A package brings its modules along.
    modules = [*(f"fewstep.{stub.stem}" for stub in stubs), "fewstep.theory"]
    words = [sys.executable, "-m", "mypy.stubtest", *modules]
    words += ["--concise"]
    words += ["--ignore-missing-stub", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

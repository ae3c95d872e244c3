"""The classes of `fewstep.errors` are the variants of the crates' errors, and nothing else."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

import fewstep

# What only the border between Rust and Python refuses.
BORDER = {"WrongType", "WrongShape", "Closed", "OtherSettings", "NothingToSave"}

BUILT_IN = (ValueError, TypeError, OSError, RuntimeError)


def sources() -> list[pathlib.Path]:
    """The three files that define errors, found upwards from here or below FEWSTEP_ROOT."""
    roots = list(pathlib.Path(__file__).resolve().parents)
    if "FEWSTEP_ROOT" in os.environ:
        roots.append(pathlib.Path(os.environ["FEWSTEP_ROOT"]))
    for root in roots:
        if (root / "crates/core/src/error.rs").is_file():
            return [root / f"crates/{name}/src/error.rs" for name in ("core", "engine", "fewstep")]
    pytest.skip("the crates' sources are not here; set FEWSTEP_ROOT to where they are")


def variants(source: str) -> set[str]:
    """The variants of `pub enum Error` that are errors of their own, not another crate's."""
    body = source[source.index("pub enum Error {") :]
    body = body[: body.index("\n}")]
    found = set()
    wraps = False
    for line in body.splitlines():
        if re.match(r"    #\[error\(transparent\)\]", line):
            wraps = True
        named = re.match(r"    ([A-Z]\w*)\b", line)
        if named:
            if not wraps:
                found.add(named[1])
            wraps = False
    return found


def test_variants_are_read_from_source():
    text = """
pub enum Error {
    #[error("one")]
    First,
    #[error(transparent)]
    Core(#[from] core::Error),
    #[error("two {Field}")]
    Second {
        Upper: u32,
    },
}
pub enum Other { Third }
"""
    assert variants(text) == {"First", "Second"}


def test_every_variant_has_a_class_and_every_class_a_variant():
    expected = set(BORDER)
    for source in sources():
        found = variants(source.read_text())
        assert len(found) > 10, source
        expected |= found
    classes = {name for name, value in vars(fewstep.errors).items() if isinstance(value, type)}
    assert classes - {"FewstepError"} == expected


def test_every_class_is_a_fewstep_error_and_a_built_in_one():
    classes = [value for value in vars(fewstep.errors).values() if isinstance(value, type)]
    assert len(classes) > 100
    for found in classes:
        assert issubclass(found, fewstep.errors.FewstepError)
        if found is not fewstep.errors.FewstepError:
            assert issubclass(found, BUILT_IN), found
            assert found.__module__ == "fewstep.errors"


def test_the_module_can_be_imported_by_its_name():
    import fewstep.errors as by_name

    assert by_name is fewstep.errors
    with pytest.raises(by_name.FewstepError):
        fewstep.Spectrum([])


def test_the_stub_names_every_class_with_its_bases():
    stub = pathlib.Path(fewstep.__file__).with_name("errors.pyi").read_text()
    found = dict(re.findall(r"^class (\w+)\((.*)\):", stub, re.M))
    classes = {name: one for name, one in vars(fewstep.errors).items() if isinstance(one, type)}
    assert found == {
        name: ", ".join(base.__name__ for base in one.__bases__) for name, one in classes.items()
    }

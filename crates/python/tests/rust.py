"""What the sources of the crates say is public, for tests that compare names."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple, Optional

from . import places

#: The crates whose every public name has a place here, with the module that they are there.
CRATES = {"crates/core/src": "", "crates/theory/src": "theory"}

#: Files of core that hold what one crate lends to another, and nothing for Python.
LENT = {"lib", "linalg", "error", "checks", "scalar", "vectors"}

#: Files of a crate whose contents are named in its root; all others are modules of their own.
_ROOT = re.compile(r"^mod (\w+);", re.M)


class Function(NamedTuple):
    """A public function, and the type that it belongs to."""

    module: str
    owner: Optional[str]
    name: str


def read(file: str) -> str:
    return (places.root() / file).read_text(encoding="utf-8")


def fields(text: str, struct: str) -> list:
    """The public fields of a struct."""
    body = re.search(rf"pub struct {struct}\b[^;{{]*{{(.*?)\n}}", text, re.S)
    assert body, struct
    return re.findall(r"^    pub (\w+):", body.group(1), re.M)


def functions_of(text: str, module: str) -> list:
    """The public functions of a file, the methods of its types and those of its public traits."""
    found = []
    owner = trait = None
    for line in text.splitlines():
        implemented = re.match(r"impl(?:<[^>]*>)? (\w+)(?:<[^>]*>)? {", line)
        public_trait = re.match(r"pub trait (\w+)", line)
        if line.startswith("}"):
            owner = trait = None
        elif implemented:
            owner = implemented[1]
        elif public_trait:
            trait = public_trait[1]
        free = re.match(r"pub (?:const )?fn (\w+)", line)
        method = re.match(r"    pub (?:const )?fn (\w+)", line)
        required = re.match(r"    fn (\w+)", line)
        if free:
            found.append(Function(module, None, free[1]))
        elif method and owner:
            found.append(Function(module, owner, method[1]))
        elif required and trait:
            found.append(Function(module, trait, required[1]))
    return found


def core_files() -> list:
    """The files of core and theory, each with the module that its names are public in; "" is the
    package."""
    found = []
    for folder, within in CRATES.items():
        source = places.root() / folder
        hidden = set(_ROOT.findall(read(f"{folder}/lib.rs")))
        for file in sorted(source.rglob("*.rs")):
            module = pathlib.PurePath(file.relative_to(source)).parts[0].removesuffix(".rs")
            if module not in LENT:
                path = [within, "" if module in hidden else module]
                found.append((file, ".".join(part for part in path if part)))
    return found


def core_functions() -> list:
    """Every public function and method of core and theory."""
    found = []
    for file, module in core_files():
        found += functions_of(file.read_text(encoding="utf-8"), module)
    return found


def core_structs() -> list:
    """Every struct of core and theory with public fields: its module, its name and these."""
    found = []
    for file, module in core_files():
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^pub struct (\w+)[^;{]*{", text, re.M):
            known = fields(text, name)
            if known:
                found.append((module, name, known))
    return found

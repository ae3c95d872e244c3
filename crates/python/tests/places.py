"""Where tests find the program and the files that it is tested with."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest


def root() -> pathlib.Path:
    """The project: what FEWSTEP_ROOT says, or the first directory upward with the fixtures."""
    named = os.environ.get("FEWSTEP_ROOT")
    if named:
        return pathlib.Path(named)
    for directory in pathlib.Path(__file__).resolve().parents:
        if (directory / "fixtures").is_dir():
            return directory
    pytest.skip("no directory upward of the tests has fixtures/; set FEWSTEP_ROOT")


def program() -> str:
    """The program, as FEWSTEP_BINARY says."""
    named = os.environ.get("FEWSTEP_BINARY")
    if not named:
        pytest.skip("set FEWSTEP_BINARY to the program fewstep to compare with it")
    return named


def lines(file: str) -> list:
    """The lines of a file of the project."""
    return (root() / file).read_text(encoding="utf-8").splitlines()


def tasks(file: str = "examples/digits.jsonl") -> list:
    """The tasks of a file of the project."""
    return [json.loads(line) for line in lines(file)]


def said(command: str, file: str, *flags: str) -> list:
    """What the program writes for each task of a file, as text of JSON."""
    words = [program(), command, str(root() / file), "--json", *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()

"""The examples of the README and of `docs/python.md` run, print what they say, and have types."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from . import places

EXAMPLES = 6


def blocks() -> list:
    """Each example with what the page says that it prints, if it says so."""
    found = []
    for file in ("README.md", "docs/python.md"):
        text = (places.root() / file).read_text(encoding="utf-8")
        example = r"```python\n(.*?)```(?:\n\nIt prints\n\n```text\n(.*?)```)?"
        found += re.findall(example, text, re.S)
    assert len(found) == EXAMPLES
    return found


def available(code: str) -> None:
    """Skips an example whose packages are not installed."""
    if "fewstep.torch" in code:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")


@pytest.mark.parametrize("number", range(EXAMPLES))
def test_an_example_runs_and_prints_what_the_page_says(number, tmp_path):
    code, printed = blocks()[number]
    available(code)
    (tmp_path / "fixtures").symlink_to(places.root() / "fixtures")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    if printed:
        assert done.stdout == printed
        assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()


@pytest.mark.parametrize("number", range(EXAMPLES))
def test_an_example_has_types(number, tmp_path):
    pytest.importorskip("mypy")
    code, _ = blocks()[number]
    available(code)
    file = tmp_path / "example.py"
    file.write_text(code, encoding="utf-8")
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    if "transformers" in code:
        # What that leaves untyped is not ours to answer for.
        words += ["--ignore-missing-imports", "--allow-untyped-calls"]
    words.append(str(file))
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

"""Models by the name that they have on the hub, from the cache that other tools share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from fewstep import Model, errors

from . import places

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path):
    """A cache of the hub with one model, as its own tools lay it out."""
    folder = tmp_path / "hub" / "models--somebody--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    kept = folder / "snapshots" / COMMIT
    kept.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copy(places.root() / "fixtures" / "llama-plain" / name, kept)
    return tmp_path


def run(code: str, cache) -> subprocess.CompletedProcess:
    environment = {**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT"):
        environment.pop(name, None)
    words = [sys.executable, "-c", code]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_a_model_is_loaded_by_its_name_on_the_hub(cache):
    task = places.tasks("fixtures/tasks.jsonl")[0]
    code = (
        "import fewstep\n"
        "model = fewstep.Model.load('somebody/tiny')\n"
        f"print(model.source, repr(model.predict({task!r}).prediction.icl))\n"
    )
    done = run(code, cache)
    assert done.returncode == 0, done.stderr
    with Model.load(places.root() / "fixtures" / "llama-plain") as model:
        expected = model.predict(task).prediction.icl
    assert done.stdout == f"somebody/tiny {expected!r}\n"


def test_a_model_that_the_cache_does_not_have_is_not_asked_for_offline(cache):
    code = (
        "import fewstep\n"
        "try:\n"
        "    fewstep.Model.load('somebody/else')\n"
        "except fewstep.errors.NotInCache as error:\n"
        "    print(isinstance(error, OSError), error)\n"
    )
    done = run(code, cache)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True ") and "somebody/else" in done.stdout


def test_files_that_are_no_models_are_refused(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"no model")
    with pytest.raises(errors.NotGguf):
        Model.load(file)
    with pytest.raises(errors.ModelNotFound):
        Model.load(tmp_path / "nothing.gguf")

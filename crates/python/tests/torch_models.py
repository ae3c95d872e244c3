"""What the tests of fewstep.torch share: fixtures, the program's answers, and plain derivatives."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import subprocess
from unittest import mock

import numpy as np
import pytest

for package in ("torch", "transformers"):
    reason = f"{package} is not installed: pip install 'fewstep[torch]'"
    pytest.importorskip(package, reason=reason)

import torch
import transformers

transformers.utils.logging.disable_progress_bar()

GPT2 = ["gpt2-plain", "gpt2-inner", "gpt2-half"]
LLAMA = ["llama-plain", "llama-biases", "llama-yarn", "mistral-heads", "qwen2-biases"]


def root() -> pathlib.Path:
    """The project's folder: FEWSTEP_ROOT, or the first above this file that has the fixtures."""
    given = os.environ.get("FEWSTEP_ROOT")
    above = [pathlib.Path(given)] if given else pathlib.Path(__file__).resolve().parents
    for folder in above:
        if (folder / "fixtures" / "tasks.jsonl").exists():
            return folder
    pytest.skip("the folder fixtures/ was not found; set FEWSTEP_ROOT to the project's folder")


def tasks() -> list[dict]:
    lines = (root() / "fixtures" / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def kinds(name: str) -> str:
    """All kinds that a fixture has."""
    return "value,output,query,key,mlp-up,mlp-down" + (",mlp-gate" if name in LLAMA else "")


@functools.lru_cache(maxsize=None)
def tokenizer(name: str):
    return transformers.AutoTokenizer.from_pretrained(root() / "fixtures" / name)


def load(name: str, dtype=torch.float32):
    folder = root() / "fixtures" / name
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)


@contextlib.contextmanager
def _double_in_place_of_single():
    with mock.patch.object(torch, "float32", torch.float64), mock.patch.object(
        torch, "float", torch.float64
    ), mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        yield


def load_double(name: str):
    """In float64 throughout; transformers has Llama's norms and angles in float32 otherwise."""
    model = load(name, torch.float64)
    if name in LLAMA:
        with _double_in_place_of_single():
            model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
        forward = model.forward

        @functools.wraps(forward)
        def wrapped(*arguments, **options):
            with _double_in_place_of_single():
                return forward(*arguments, **options)

        model.forward = wrapped
    return model


@functools.lru_cache(maxsize=None)
def program(name: str, *flags: str) -> dict[str, dict]:
    """What the tool's own engine says about the tasks, by id."""
    reports = run_program(root() / "fixtures" / "tasks.jsonl", name, *flags)
    return {report["id"]: report for report in reports}


def run_program(file, name: str, *flags: str) -> list[dict]:
    binary = os.environ.get("FEWSTEP_BINARY")
    if not binary:
        pytest.skip("set FEWSTEP_BINARY to the program fewstep to compare with it")
    command = [binary, "predict", str(file), "--model", str(root() / "fixtures" / name)]
    done = subprocess.run([*command, "--json", "--full", *flags], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def apart(found, expected) -> float:
    """Distance relative to the norm of what is expected."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert found.shape == expected.shape
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def plain_prediction(model, tokens, labels) -> torch.Tensor:
    """One prompt by itself, without padding, from the whole logits."""
    output = model(torch.tensor([list(tokens)]))
    logits = output if isinstance(output, torch.Tensor) else output.logits
    shares = torch.softmax(logits[0, -1, list(labels.tokens)].double(), dim=0)
    return shares @ torch.tensor(labels.values, dtype=torch.float64)


@contextlib.contextmanager
def last_token_alone(model, layers, mixers, others):
    """Weights matter to the last token alone: whatever else they compute is detached.

    `mixers` are the modules of a layer that take what attention mixed; of `others` the outputs are
    detached.
    """

    def alone(tensor):
        return torch.cat([tensor[..., :-1, :].detach(), tensor[..., -1:, :]], dim=-2)

    handles = []
    for layer in layers:
        for path in mixers:
            before = lambda _, given: (alone(given[0]), *given[1:])
            handles.append(layer.get_submodule(path).register_forward_pre_hook(before))
        for path in {*mixers, *others}:
            behind = lambda _, given, output: alone(output)
            handles.append(layer.get_submodule(path).register_forward_hook(behind))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def plain_jacobian(model, observation, weight, part) -> np.ndarray:
    """Derivatives of all predictions for a part of a weight by plain autograd, a row for each."""
    prompts = observation.prompts
    rows = []
    for tokens in [*prompts.leave_one_out, prompts.query]:
        prediction = plain_prediction(model, tokens, prompts.labels)
        (slope,) = torch.autograd.grad(prediction, weight)
        rows.append(part(slope).reshape(-1).double().numpy())
    return np.array(rows)


def small_opt(dtype=torch.float64):
    torch.manual_seed(3)
    config = transformers.OPTConfig(
        vocab_size=274, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, ffn_dim=20,
        max_position_embeddings=64, word_embed_proj_dim=12, dropout=0.3, init_std=0.4,
        pad_token_id=1, bos_token_id=2, eos_token_id=2,
    )  # fmt: skip
    return transformers.OPTForCausalLM(config).to(dtype)


def small_neox(dtype=torch.float64, parallel=True):
    torch.manual_seed(4)
    config = transformers.GPTNeoXConfig(
        vocab_size=274, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=64, initializer_range=0.4,
        hidden_dropout=0.3, attention_dropout=0.3, use_parallel_residual=parallel,
    )  # fmt: skip
    return transformers.GPTNeoXForCausalLM(config).to(dtype)

"""What fewstep.torch leaves behind in a model, where it finds its blocks, and what it refuses."""

from __future__ import annotations

import json
import pathlib
import re

import numpy as np
import pytest

from .torch_models import (
    apart,
    load,
    plain_jacobian,
    root,
    run_program,
    small_neox,
    small_opt,
    tasks,
    tokenizer,
)

import torch

import fewstep
import fewstep.torch as bridge
from fewstep import errors
from fewstep.torch.passes import _batches


def bits(model) -> dict[str, bytes]:
    """Every tensor of a model, byte by byte."""
    return {
        name: tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
        for name, tensor in model.state_dict().items()
    }


def observed(name="llama-plain", dtype=torch.float32, blocks="value,mlp-up@all", task=0):
    model = load(name, dtype)
    return model, bridge.observe(model, tokenizer(name), tasks()[task], blocks)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["gpt2-plain", "llama-plain"])
def test_weights_are_restored_bit_for_bit(name, dtype):
    model, seen = observed(name, dtype)
    before = bits(model)
    plan = bridge.Plan.steps(seen, 0.05, 3)
    with bridge.adapted(model, plan) as result:
        inside = bits(model)
        moved = {key for key in before if before[key] != inside[key]}
        modules = {f"{place.module}.weight" for place in seen.places}
        assert moved and moved <= modules
        assert result.prediction != result.base_prediction
        with bridge.adapted(model, plan):
            assert bits(model) != inside
        assert bits(model) == inside
        with pytest.raises(KeyError):
            with bridge.adapted(model, plan):
                raise KeyError("inside")
        assert bits(model) == inside
    assert bits(model) == before


def test_weights_are_restored_when_steps_fail():
    model, seen = observed()
    before = bits(model)
    with pytest.raises(errors.NotFinite, match="not finite after 1 steps"):
        with bridge.adapted(model, bridge.Plan.steps(seen, 1e300, 5)):
            pytest.fail("the steps diverge before the block is entered")
    assert bits(model) == before


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_weights_are_restored_whatever_ends_the_steps(raised):
    """Ctrl-C in the middle of the steps, when some of them are in the weights already."""
    model, seen = observed()
    before, passes = bits(model), []

    def interrupt(*_):
        passes.append(bits(model) != before)
        if len(passes) == 3:
            raise raised

    handle = model.register_forward_pre_hook(interrupt)
    with pytest.raises(raised):
        with bridge.adapted(model, bridge.Plan.steps(seen, 0.05, 5)):
            pytest.fail("the steps end before the block is entered")
    handle.remove()
    assert passes == [False, True, True]
    assert bits(model) == before
    assert all(parameter.requires_grad for parameter in model.parameters())
    with pytest.raises(raised):
        with bridge.adapted(model, bridge.Plan.steps(seen, 0.05, 2)):
            assert bits(model) != before
            raise raised
    assert bits(model) == before
    assert not any(module._forward_hooks for module in model.modules())


def test_only_the_chosen_part_of_a_weight_moves():
    model, seen = observed("gpt2-plain", blocks="value,output@all")
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plan = bridge.Plan.steps(seen, 0.05, 2, ["value.1.1", "output.0.0"])
    with bridge.adapted(model, plan) as result:
        assert sorted(result.update) == ["output.0.0", "value.1.1"]
        for name, tensor in model.state_dict().items():
            change = tensor - weights[name]
            if name == "transformer.h.1.attn.c_attn.weight":
                assert bool((change[:, 20:] != 0).all()) and not change[:, :20].any()
                assert torch.allclose(change[:, 20:], result.update["value.1.1"], atol=1e-6)
            elif name == "transformer.h.0.attn.c_proj.weight":
                assert bool((change[:4] != 0).any()) and not change[4:].any()
            else:
                assert not change.any(), name


def test_the_rest_of_the_model_is_left_alone():
    model = small_neox(torch.float32)
    model.train()
    model.gpt_neox.layers[0].eval()
    frozen = model.gpt_neox.embed_in.weight.requires_grad_(False)
    weight = model.gpt_neox.layers[1].mlp.dense_h_to_4h.weight
    weight.grad = torch.ones_like(weight)
    modes = [module.training for module in model.modules()]
    with torch.no_grad():  # what surrounds a call must not matter
        seen = bridge.observe(model, tokenizer("gpt2-plain"), tasks()[0], "mlp-up@last1")
        again = bridge.observe(model, tokenizer("gpt2-plain"), tasks()[0], "mlp-up@last1")
    assert seen.predictions.tolist() == again.predictions.tolist()  # no dropout
    with bridge.adapted(model, bridge.Plan.steps(seen, 0.01, 2)):
        assert [module.training for module in model.modules()] == modes
    assert [module.training for module in model.modules()] == modes
    assert not frozen.requires_grad
    assert all(p.requires_grad for p in model.parameters() if p is not frozen)
    assert bool((weight.grad == 1).all())
    assert not any(module._forward_hooks for module in model.modules())


def test_one_pass_serves_all_blocks_and_stops_at_the_lowest():
    model = load("llama-plain")
    passes, tracked = [], {}
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    for index, layer in enumerate(model.model.layers):
        layer.register_forward_hook(
            lambda module, given, output, index=index: tracked.update(
                {index: (output[0] if isinstance(output, tuple) else output).requires_grad}
            )
        )
    task = tasks()[0]
    seen = bridge.observe(model, tokenizer("llama-plain"), task, "value,output,mlp-down@last1")
    assert len(passes) == 1
    assert tracked == {0: False, 1: True}
    with bridge.adapted(model, bridge.Plan.steps(seen, 0.05, 3)):
        assert len(passes) == 1 + 3 + 1  # three steps and the query
    assert all(parameter.grad is None for parameter in model.parameters())


def test_batches_hold_no_more_tokens_than_asked_for():
    rng = np.random.default_rng(1)
    for limit in (1, 7, 40, 1000):
        sequences = [[0] * length for length in rng.integers(1, 20, 30)]
        batches = list(_batches(sequences, limit))
        assert sorted(row for rows in batches for row in rows) == list(range(30))
        for rows in batches:
            assert len(rows) == 1 or len(rows) * max(len(sequences[row]) for row in rows) <= limit
        assert len(batches) == {1: 30, 1000: 1}.get(limit, len(batches))


def test_half_precision_sees_what_single_precision_sees():
    """Relative to float32, by multiples of the type's own rounding."""
    for dtype in (torch.float16, torch.bfloat16):
        model, seen = observed("gpt2-plain", dtype, "value@all")
        _, exact = observed("gpt2-plain", torch.float32, "value@all")
        rounding = torch.finfo(dtype).eps
        assert np.abs(seen.predictions - exact.predictions).max() < 16 * rounding
        assert apart(sum(seen.kernels.values()), sum(exact.kernels.values())) < 64 * rounding


def test_predict_answers_further_queries():
    model, seen = observed()
    task = tasks()[0]
    with bridge.adapted(model, bridge.Plan.steps(seen, 0.1, 4)) as result:
        assert result.predict(task) == pytest.approx(result.prediction, abs=1e-6)
        assert result.predict("4") == pytest.approx(result.prediction, abs=1e-6)
        several = result.predict(["4", "9"])
        assert several.shape == (2,) and several[0] == pytest.approx(result.prediction, abs=1e-6)
        other = dict(task, query={"x": "9"})
        assert result.predict(other) == pytest.approx(several[1], abs=1e-6)
        base = bridge.observe(load("llama-plain"), tokenizer("llama-plain"), other, "value@all")
        assert abs(several[1] - base.query_prediction) > 1e-4
    with pytest.raises(errors.Closed, match="predict inside the with block"):
        result.predict("4")


def test_a_task_may_be_an_object():
    class Task:
        def to_dict(self):
            return {**tasks()[0], "query": {"x": "4", "y": None}}

    model, seen = observed()
    again = bridge.observe(model, tokenizer("llama-plain"), Task(), "value,mlp-up@all")
    assert again.query_prediction == seen.query_prediction


def test_no_step_is_no_change():
    model, seen = observed()
    before = bits(model)
    with bridge.adapted(model, bridge.Plan(seen, seen.blocks)) as result:
        assert bits(model) == before
        assert result.prediction == seen.query_prediction and not result.update


def test_averages_are_averages_of_where_steps_lead():
    model, seen = observed(dtype=torch.float64)
    weights = {1: 0.25, 3: 0.75}
    changes = {}
    for horizon in weights:
        with bridge.adapted(model, bridge.Plan.steps(seen, 0.1, horizon)) as result:
            changes[horizon] = result.update
    plan = bridge.Plan(seen, seen.blocks, 0.1, tuple(weights.items()))
    with bridge.adapted(model, plan) as result:
        for name, change in result.update.items():
            expected = sum(weight * changes[steps][name] for steps, weight in weights.items())
            assert torch.allclose(change, expected, rtol=1e-12, atol=0)


def test_example_weights_are_one_update_of_derivatives():
    model = small_opt()
    model.eval()
    # Prompts of unequal length are run in another order than that of the examples.
    seen = bridge.observe(model, tokenizer("gpt2-plain"), tasks()[1], "mlp-down@last1")
    weights = np.array([0.5, -1.0, 0.25])
    weight = model.model.decoder.layers[1].fc2.weight
    rows = plain_jacobian(model, seen, weight, lambda slope: slope)
    plan = bridge.Plan(seen, seen.blocks, example_weights=tuple(weights))
    with bridge.adapted(model, plan) as result:
        found = result.update["mlp-down.1"].T.reshape(-1).numpy()
    assert apart(found, weights @ rows[:-1]) < 1e-10


def test_a_model_that_cannot_be_differentiated_is_refused():
    model = MadeUp()
    model.forward = torch.no_grad()(model.forward)
    with pytest.raises(errors.Unsupported, match="a MadeUp cannot be differentiated"):
        bridge.observe(
            model, tokenizer("gpt2-plain"), tasks()[0], "value@all", layout=made_up_layout()
        )


@pytest.mark.parametrize("name", ["gpt2-plain", "llama-plain", "mistral-heads", "neox", "opt"])
def test_peft_reads_the_adapter(name, tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    make = {"neox": small_neox, "opt": small_opt}.get(name)
    model = make(torch.float32) if make else load(name)
    tokens = tokenizer("gpt2-plain" if make else name)
    seen = bridge.observe(model, tokens, tasks()[1], "value,output,query,mlp-up@all")
    with bridge.adapted(model, bridge.Plan.steps(seen, 0.02, 4)) as result:
        pass
    result.export_peft(tmp_path / "adapter")
    read = peft.PeftModel.from_pretrained(model, tmp_path / "adapter")
    found = bridge.observe(
        read.merge_and_unload(), tokens, tasks()[1], "value@last1"
    ).query_prediction
    assert abs(found - result.prediction) < 1e-5
    assert abs(found - result.base_prediction) > 1e-3


def test_peft_reads_an_adapter_that_changes_nothing(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    model, seen = observed()
    with bridge.adapted(model, bridge.Plan(seen, seen.blocks)) as result:
        result.export_peft(tmp_path)
    read = peft.PeftModel.from_pretrained(model, tmp_path).merge_and_unload()
    again = bridge.observe(read, tokenizer("llama-plain"), tasks()[0], "value@last1")
    assert again.query_prediction == seen.query_prediction


# Layouts.


class Mixer(torch.nn.Module):
    """Attention of two heads whose values stand behind their keys; nothing has a usual name."""

    def __init__(self):
        super().__init__()
        self.look = torch.nn.Linear(8, 8)
        self.both = torch.nn.Linear(8, 16)
        self.back = torch.nn.Parameter(0.5 * torch.randn(8, 8))
        self.out = Right(8, 8)

    def forward(self, x):
        length = x.shape[1]
        heads = lambda y: y.view(*y.shape[:2], 2, -1).transpose(1, 2)
        keys, values = heads(self.both(x)).chunk(2, dim=-1)
        scores = heads(self.look(x)) @ keys.transpose(-1, -2)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ values).transpose(1, 2).flatten(2)
        return x + self.out(mixed)


class Right(torch.nn.Module):
    """``x W``, with the inputs first."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(0.5 * torch.randn(inputs, outputs))

    def forward(self, x):
        return x @ self.weight


class MadeUp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.embed = torch.nn.Embedding(274, 8)
        self.parts = torch.nn.ModuleList([Mixer(), Mixer()])
        self.read = torch.nn.Linear(8, 274)

    def forward(self, tokens):
        x = self.embed(tokens)
        for part in self.parts:
            x = part(x)
        return self.read(x)


def made_up_layout(**changes):
    values = {
        "layers": "parts",
        "projections": {
            "value": bridge.Projection("both", start=4, stride=8),
            "query": bridge.Projection("look"),
            "output": bridge.Projection("out", inputs_first=True),
        },
        "heads": 2,
        "head_width": 4,
    }
    return bridge.Layout(**{**values, **changes})


def test_a_layout_tells_where_projections_are():
    model = MadeUp().double()
    names = "value,query,output@all"
    layout = made_up_layout()
    seen = bridge.observe(model, tokenizer("gpt2-plain"), tasks()[1], names, layout=layout)
    assert seen.blocks[:4] == ("value.0.0", "value.0.1", "value.1.0", "value.1.1")
    for layer in range(2):
        for head in range(2):
            mixer, rows = model.parts[layer], slice(4 * head, 4 * head + 4)
            for kind, weight, part in [
                ("value", mixer.both.weight, lambda w: w[8 * head + 4 : 8 * head + 8]),
                ("query", mixer.look.weight, lambda w: w[rows]),
                ("output", mixer.out.weight, lambda w: w[rows]),
            ]:
                jacobian = plain_jacobian(model, seen, weight, part)
                expected = jacobian @ jacobian.T
                name = f"{kind}.{layer}.{head}"
                assert apart(seen.kernels[name], expected[:-1, :-1]) < 1e-9
                assert apart(seen.couplings[name], expected[-1, :-1]) < 1e-9
    before = bits(model)
    with bridge.adapted(model, bridge.Plan.steps(seen, 0.05, 3)) as result:
        assert abs(result.prediction - seen.query_prediction) > 1e-6
    assert bits(model) == before


def test_what_was_looked_for_is_said():
    with pytest.raises(errors.Unsupported) as refused:
        bridge.find_layout(MadeUp())
    for part in ["MadeUp", "attn.c_attn", "self_attn.q_proj", "fc1", "query_key_value", "layout="]:
        assert part in str(refused.value)
    for changes, message in [
        ({"layers": "blocks"}, "no module blocks, where the list of layers"),
        ({"projections": {"value": bridge.Projection("values")}}, "no module parts.0.values"),
        ({"projections": {"value": bridge.Projection("out")}}, "Right cannot be updated"),
        ({"head_width": 9}, "value.0.1 would be the outputs 12 to 21 of parts.0.both"),
    ]:
        with pytest.raises(errors.Unsupported, match=re.escape(message)):
            bridge.choose_blocks("value@all", MadeUp(), made_up_layout(**changes))


def test_a_known_name_with_other_contents_is_not_taken_for_gpt2():
    model = load("gpt2-plain")
    for layer in model.transformer.h:
        layer.attn.c_attn = torch.nn.Linear(8, 24)
    with pytest.raises(errors.Unsupported, match="were not found"):
        bridge.find_layout(model)


# What is refused.


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ("value", "BadChoice"),
        ("value@last4@", "BadChoice"),
        ("value@last0", "BadLayers"),
        ("value@1..1", "BadLayers"),
        ("gate@all", "UnknownKind"),
        ("mlp-gate@all", "NoGate"),
        ("value,value@all", "DuplicateBlock"),
        (["value.0"], "BadBlockName"),
        (["value.01.0"], "BadBlockName"),
        (["value.2.0"], "NoSuchBlock"),
        (["value.0.2"], "NoSuchBlock"),
        ([], "Empty"),
    ],
)
def test_blocks_that_do_not_exist_are_refused(blocks, error):
    with pytest.raises(getattr(errors, error)) as refused:
        bridge.observe(load("gpt2-plain"), tokenizer("gpt2-plain"), tasks()[0], blocks)
    assert isinstance(refused.value, fewstep.errors.FewstepError)


def bad_tasks():
    """Changes of a task that the program refuses, by the class of the error."""
    labels = tasks()[0]["labels"]
    return {
        "Placeholder": {"template": "{x}->"},
        "PlaceholderOrder": {"template": "{y}<-{x}"},
        "TooFewLabels": {"labels": labels[:1]},
        "EmptyLabel": {"labels": [*labels, {"text": "", "value": 1.0}]},
        "DuplicateLabel": {"labels": [*labels, {"text": "0", "value": 1.0}]},
        "LabelValue": {"labels": [*labels, {"text": "a", "value": 2e12}]},
        "TooFewExamples": {"examples": tasks()[0]["examples"][:1]},
        "EmptyInput": {"query": {"x": " \t"}},
        "UnknownLabel": {"query": {"x": "4", "y": "é\""}},
        "LabelPieces": {"labels": [*labels, {"text": "zz", "value": 1.0}]},
        "ContextTooLong": {"separator": "\n" + 40 * "z"},
    }


@pytest.mark.parametrize("error", sorted(bad_tasks()))
def test_tasks_are_refused_with_the_words_of_the_program(error, tmp_path):
    task = {**tasks()[0], **bad_tasks()[error]}
    with pytest.raises(getattr(errors, error)) as refused:
        bridge.observe(load("gpt2-plain"), tokenizer("gpt2-plain"), task, "value@all")
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(task), encoding="utf-8")
    message = run_program(file, "gpt2-plain", "--blocks", "value@all")[0]["error"]
    cut = message.split("2000000000000")[0]  # how a number is written is not the point
    cut = cut.split(", or set max_tokens")[0]  # a setting that is not here
    assert str(refused.value).startswith(cut.rstrip())


def test_text_without_tokens_is_refused():
    class Spotty:
        """Knows no accents."""

        unk_token, unk_token_id = "<unk>", 0

        def __call__(self, text, **_):
            return {"input_ids": [0 if letter == "é" else ord(letter) for letter in text]}

    with pytest.raises(errors.UnknownText, match="characters without tokens"):
        bridge.observe(load("gpt2-plain"), Spotty(), tasks()[1], "value@all")


def test_plans_that_cannot_be_carried_out_are_refused():
    model, seen = observed()
    for build, error in [
        (lambda: bridge.Plan.steps(seen, 0.1, 1, ["key.0.0"]), errors.BlockNotOnTape),
        (lambda: bridge.Plan.steps(seen, 0.0, 1), errors.OutOfRange),
        (lambda: bridge.Plan(seen, seen.blocks, 0.1, ((3, 0.5), (1, 0.5))), errors.OutOfRange),
        (lambda: bridge.Plan(seen, seen.blocks, example_weights=(1.0,)), errors.SizeMismatch),
    ]:
        with pytest.raises(error):
            build()
    with pytest.raises(errors.WrongType, match="does not say what was observed"):
        with bridge.adapted(model, object()):
            pass
    with pytest.raises(errors.Unsupported, match="give the model that was observed"):
        with bridge.adapted(load("gpt2-plain"), bridge.Plan.steps(seen, 0.1, 1)):
            pass
    for task, error in [
        (3, errors.WrongType),
        ({"id": 3}, errors.WrongType),
        ({**tasks()[0], "seperator": ";"}, errors.Json),
        ({**tasks()[0], "query": {"x": "4", "z": "1"}}, errors.Json),
        ({**tasks()[0], "query": None}, errors.WrongType),
        ({**tasks()[0], "labels": ["0", 1]}, errors.WrongType),
        ({**tasks()[0], "labels": ["0", "1"]}, errors.NotRegression),
        ({**tasks()[0], "labels": [{"text": "0"}, {"text": "1"}]}, errors.NotRegression),
        ({name: value for name, value in tasks()[0].items() if name != "labels"}, errors.NotRegression),
    ]:
        with pytest.raises(error):
            bridge.observe(model, tokenizer("llama-plain"), task, "value@all")
    model.config.bos_token_id = None
    for options, error in [
        ({"loo_order": "half"}, errors.UnknownOrder),
        ({"bos": "?"}, errors.UnknownName),
        ({"bos": "always"}, errors.NoBos),
    ]:
        with pytest.raises(error):
            bridge.observe(model, tokenizer("llama-plain"), tasks()[0], "value@all", **options)

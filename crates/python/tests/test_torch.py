"""fewstep.torch against the tool's own engine, the references in fixtures/ and plain autograd."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile

import numpy as np
import pytest

from .torch_models import (
    GPT2,
    LLAMA,
    apart,
    kinds,
    last_token_alone,
    load,
    load_double,
    plain_jacobian,
    plain_prediction,
    program,
    root,
    run_program,
    small_neox,
    small_opt,
    tasks,
    tokenizer,
)

import torch
import transformers

import fewstep
import fewstep.torch as bridge
from fewstep import errors
from fewstep.torch.kernels import kernels as kernels_of
from fewstep.torch.passes import differentiate, undisturbed


def whole(kernel, coupling, variance):
    """The inner products of all derivatives, prompts and query together.

    A coupling is small where two large derivatives are nearly at right angles, and then inexact
    beside itself in single precision; beside what it is made of it is not.
    """
    coupling = np.array(coupling)
    return np.block([[np.array(kernel), coupling[:, None]], [coupling, variance]])


@pytest.mark.parametrize("name", GPT2 + LLAMA)
def test_numbers_are_those_of_the_engine(name):
    """In float64, so that what is apart is the engine's single precision alone.

    What queries and keys receive is a difference of values that nearly cancel, and single precision
    leaves them fewer digits: PyTorch's own differs from its float64 by up to 1.6e-5 on these models.
    There the engine may be off by twice as much as PyTorch is. In double precision both agree with
    the references: the bridge to 1e-12, as tested here, the engine to 1e-9 in its own tests.
    """
    reports = program(name, "--policy", "paper", "--blocks", kinds(name) + "@all", "--horizon", "8")
    model, single = load_double(name), load(name)
    engine: dict[str, float] = {}
    pytorch: dict[str, float] = {}
    for task in tasks():
        report = reports[task["id"]]
        seen = bridge.observe(model, tokenizer(name), task, kinds(name) + "@all")
        rounded = bridge.observe(single, tokenizer(name), task, kinds(name) + "@all")
        assert apart(seen.query_prediction, report["prediction"]["icl"]) < 1e-5
        assert apart(seen.residuals, report["geometry"]["residuals"]) < 1e-5
        assert list(seen.blocks) == [block["name"] for block in report["which"]["blocks"]]
        for block in report["which"]["blocks"]:
            at, kind = block["name"], block["name"].split(".")[0]
            exact, other = (
                whole(each.kernels[at], each.couplings[at], each.query_variances[at])
                for each in (seen, rounded)
            )
            found = whole(block["kernel"], block["coupling"], block["query_variance"])
            engine[kind] = max(engine.get(kind, 0.0), apart(found, exact))
            pytorch[kind] = max(pytorch.get(kind, 0.0), apart(other, exact))
        plan = bridge.Plan.steps(seen, report["how_far"]["step_size"], 8)
        with bridge.adapted(model, plan) as result:
            assert apart(result.prediction, report["prediction"]["adapted"]) < 1e-5
    for kind, distance in engine.items():
        cancels = kind in ("query", "key")
        assert distance < (max(1e-5, 2 * pytorch[kind]) if cancels else 1e-5), (kind, pytorch)


@pytest.mark.parametrize("name", GPT2 + LLAMA)
def test_single_precision_is_as_near_as_it_can_be(name):
    reports = program(name, "--policy", "paper", "--blocks", kinds(name) + "@all", "--horizon", "8")
    model = load(name)
    for task in tasks():
        report = reports[task["id"]]
        seen = bridge.observe(model, tokenizer(name), task, kinds(name) + "@all")
        spread = max(abs(label["value"]) for label in task["labels"])
        assert abs(seen.query_prediction - report["prediction"]["icl"]) < 1e-5 * spread
        assert apart(seen.residuals, report["geometry"]["residuals"]) < 1e-5
        assert apart(sum(seen.kernels.values()), report["geometry"]["kernel"]) < 1e-5
        assert apart(sum(seen.couplings.values()), report["geometry"]["coupling"]) < 1e-5
        plan = bridge.Plan.steps(seen, report["how_far"]["step_size"], 8)
        with bridge.adapted(model, plan) as result:
            assert abs(result.prediction - report["prediction"]["adapted"]) < 1e-5 * spread


@pytest.mark.parametrize("name", GPT2 + LLAMA)
def test_numbers_are_those_of_the_references(name):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = load_double(name)
    for task in tasks():
        file = root() / "fixtures" / name / f"reference-{task['id']}.safetensors"
        expected = safetensors.load_file(file)
        seen = bridge.observe(model, tokenizer(name), task, kinds(name) + "@all")
        assert apart(seen.predictions, expected["predictions"]) < 1e-12
        assert list(seen.prompts.query) == expected["query_tokens"].tolist()
        for row, tokens in zip(seen.prompts.leave_one_out, expected["prompt_tokens"]):
            assert list(row) == tokens[tokens >= 0].tolist()
        for block in seen.blocks:
            kind, *place = block.split(".")
            at = tuple(int(number) for number in place)
            assert apart(seen.kernels[block], expected[f"kernel.{kind}"][at]) < 1e-9
            assert apart(seen.couplings[block], expected[f"coupling.{kind}"][at]) < 1e-9
        mixed = "value.1.0 output.0.1 query.1.1 key.0.0 mlp-up.1 mlp-down.0"
        mixed += " mlp-gate.0" if name in LLAMA else ""
        last = bridge.choose_blocks("value@last2", model)
        for chosen, names in [("mixed", mixed.split()), ("value-last2", [b.name for b in last])]:
            step_size = float(expected[f"steps.{chosen}.step_size"])
            path = expected[f"steps.{chosen}.query_prediction"]
            with bridge.adapted(model, bridge.Plan.steps(seen, step_size, 10, names)) as result:
                assert abs(result.prediction - path[10]) < 1e-9
                losses = expected[f"steps.{chosen}.loss"][:10]
                assert apart(result.losses, losses) < 1e-9


@pytest.mark.parametrize("flags", [("--loo-order", "tree"), ("--bos", "always")])
def test_orders_and_starts_are_those_of_the_engine(flags):
    name, task = "gpt2-plain", tasks()[0]
    task["examples"].append({"x": "7", "y": "3"})
    reports = run_program_on(task, name, "--blocks", "value@all", *flags)
    seen = bridge.observe(
        load_double(name),
        tokenizer(name),
        task,
        "value@all",
        **{"--loo-order": {"loo_order": flags[1]}, "--bos": {"bos": flags[1]}}[flags[0]],
    )
    assert apart(seen.residuals, reports[0]["geometry"]["residuals"]) < 1e-5
    assert apart(seen.query_prediction, reports[0]["prediction"]["icl"]) < 1e-5
    plain = bridge.observe(load_double(name), tokenizer(name), task, "value@all")
    assert apart(seen.residuals, plain.residuals) > 1e-3


def test_a_token_that_the_tokenizer_puts_first_is_put_first(tmp_path):
    shutil.copytree(root() / "fixtures" / "gpt2-plain", tmp_path, dirs_exist_ok=True)
    file = tmp_path / "tokenizer.json"
    start, id = "<|endoftext|>", 273
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    settings = json.loads(file.read_text("utf-8"))
    settings["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": start, "type_id": 0}}, text("A")],
        "pair": [text("A"), text("B")],
        "special_tokens": {start: {"id": start, "ids": [id], "tokens": [start]}},
    }
    file.write_text(json.dumps(settings), "utf-8")
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
    report = run_program_on(tasks()[1], tmp_path, "--blocks", "value@all")[0]
    model = load_double("gpt2-plain")
    seen = bridge.observe(model, tokens, tasks()[1], "value@all")
    assert seen.prompts.query[0] == id
    assert apart(seen.residuals, report["geometry"]["residuals"]) < 1e-5
    without = bridge.observe(model, tokens, tasks()[1], "value@all", bos="never")
    assert without.prompts.query == seen.prompts.query[1:]


def test_answers_are_those_of_the_engine():
    name = "gpt2-plain"
    model, engine = load_double(name), fewstep.Model.load(str(root() / "fixtures" / name))
    for task in tasks():
        task["examples"][-1]["y"] = task["examples"][0]["y"]  # so that two are alike
        seen = bridge.observe(model, tokenizer(name), task, "value@all")
        found = seen.geometry.answers
        expected = engine.observe(task, "value@all").geometry.answers
        assert found.labels == expected.labels
        assert len(set(found.labels)) < len(found.labels) and found.labels[-1] == 0
        values = [label["value"] for label in task["labels"]]
        for room, other, prediction in zip(found.room, expected.room, seen.predictions):
            assert room.lower == min(values) - prediction
            assert room.upper == max(values) - prediction
            assert apart([room.lower, room.upper], [other.lower, other.upper]) < 1e-5
        decision = bridge.decide(seen, horizon="leave-one-out")
        assert decision.policy.horizon["averaging"] == "by-label"
        assert len(decision.how_far.leave_one_out) == len(decision.policy.horizons) == 8


def run_program_on(task, name, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(json.dumps(task))
        file.flush()
        return run_program(file.name, name, *flags)


@pytest.mark.parametrize(
    "horizon", ["evidence", "gibbs", "leave-one-out-average", "bayes-filter", "30"]
)
@pytest.mark.parametrize("select", [(), ("--select", "query-aware", "--budget", "3")])
def test_decisions_are_carried_out_as_by_the_engine(horizon, select):
    for name in ["gpt2-plain", "llama-plain"]:
        flags = ["--policy", "paper", "--blocks", "value,mlp-up@all", "--horizon", horizon]
        reports = program(name, *flags, *select)
        overrides = {"select": "query-aware", "budget": 3} if select else {}
        model = load_double(name)
        for task in tasks():
            report = reports[task["id"]]
            seen = bridge.observe(model, tokenizer(name), task, "value,mlp-up@all", policy="paper")
            decision = bridge.decide(seen, horizon=horizon, **overrides)
            assert decision.policy.to_dict() == report["policy"]
            assert decision.how_far.horizon == report["how_far"]["horizon"]
            assert decision.when.adapt == report["when"]["adapt"]
            assert list(decision.plan.blocks) == report["which"]["selected"]
            with bridge.adapted(model, decision) as result:
                assert apart(result.prediction, report["prediction"]["adapted"]) < 1e-5
                # An average may be carried out although most of its weight is on no step.
                assert bool(result.update) == (report["how_far"]["degrees_of_freedom"] > 0)
            with bridge.adapted(model, decision.decision, observation=seen) as again:
                assert again.prediction == result.prediction


# Models without an engine of the tool's own: plain autograd, prompt by prompt.

HEADS, WIDTH = 3, 4


def opt_part(kind, head):
    def part(slope):
        if kind == "output":
            return slope.view(-1, HEADS, WIDTH)[:, head]
        return slope if head is None else slope.view(HEADS, WIDTH, -1)[head]

    return part


def neox_part(kind, head):
    def part(slope):
        if kind in ("query", "key", "value"):
            which = {"query": 0, "key": 1, "value": 2}[kind]
            return slope.view(HEADS, 3, WIDTH, -1)[head, which]
        return opt_part(kind, head)(slope)

    return part


OPT = {
    "value": "self_attn.v_proj", "output": "self_attn.out_proj", "query": "self_attn.q_proj",
    "key": "self_attn.k_proj", "mlp-up": "fc1", "mlp-down": "fc2",
}  # fmt: skip
NEOX = {
    "value": "attention.query_key_value", "output": "attention.dense",
    "query": "attention.query_key_value", "key": "attention.query_key_value",
    "mlp-up": "mlp.dense_h_to_4h", "mlp-down": "mlp.dense_4h_to_h",
}  # fmt: skip


def hold_plain(model, layers, seen, paths, part_of):
    """Kernels are inner products of derivatives that plain autograd computes."""
    for block in seen.blocks:
        kind, layer, *head = block.split(".")
        weight = layers[int(layer)].get_submodule(paths[kind]).weight
        part = part_of(kind, int(head[0]) if head else None)
        rows = plain_jacobian(model, seen, weight, part)
        products = rows @ rows.T
        assert apart(seen.kernels[block], products[:-1, :-1]) < 1e-8, block
        assert apart(seen.couplings[block], products[-1, :-1]) < 1e-8, block
        assert apart(seen.query_variances[block], products[-1, -1]) < 1e-8, block
        assert seen.parameters[block] == rows.shape[1]


@pytest.mark.parametrize("family", ["opt", "neox", "neox-serial"])
def test_kernels_are_those_of_plain_derivatives(family):
    opt = family == "opt"
    model = small_opt() if opt else small_neox(parallel=family == "neox")
    layers = model.model.decoder.layers if opt else model.gpt_neox.layers
    paths, part = (OPT, opt_part) if opt else (NEOX, neox_part)
    # Projections that attention does not mix are those of the last token.
    others = {paths[kind] for kind in ("mlp-up", "mlp-down")}
    blocks = kinds("gpt2-plain") + "@all"
    for task in tasks()[:2]:
        seen = bridge.observe(model, tokenizer("gpt2-plain"), task, blocks, adjoint="whole")
        local = bridge.observe(model, tokenizer("gpt2-plain"), task, blocks, adjoint="local")
        assert len(seen.blocks) == len(local.blocks) == 2 * (4 * HEADS + 2)
        assert np.array_equal(local.predictions, seen.predictions)
        model.eval()
        hold_plain(model, layers, seen, paths, part)
        with last_token_alone(model, layers, [paths["output"]], others):
            hold_plain(model, layers, local, paths, part)
        # In the last layer nothing but the last token matters to its prediction.
        for block in seen.blocks:
            difference = apart(local.kernels[block], seen.kernels[block])
            assert difference > 1e-3 if block.split(".")[1] == "0" else difference < 1e-12, block
        model.train()


def test_local_adjoints_are_those_of_the_last_token_where_heads_share_values():
    name, task = "llama-plain", tasks()[1]
    model = load_double(name)
    layers, heads = model.model.layers, model.config.num_key_value_heads
    assert heads < model.config.num_attention_heads
    width = model.config.hidden_size // model.config.num_attention_heads
    paths = {"value": "self_attn.v_proj", "key": "self_attn.k_proj", "query": "self_attn.q_proj"}
    paths |= {"output": "self_attn.o_proj", "mlp-up": "mlp.up_proj", "mlp-gate": "mlp.gate_proj"}
    paths |= {"mlp-down": "mlp.down_proj"}

    def part(kind, head):
        rows = slice(None) if head is None else slice(head * width, (head + 1) * width)
        return lambda slope: slope[:, rows] if kind == "output" else slope[rows]

    blocks = ",".join(paths) + "@all"
    others = {paths[kind] for kind in ("mlp-up", "mlp-gate", "mlp-down")}
    # Batches of several lengths, and of one sequence each, are the same.
    for batch_tokens in (4096, 1):
        seen = bridge.observe(
            model, tokenizer(name), task, blocks, adjoint="local", batch_tokens=batch_tokens
        )
        with last_token_alone(model, layers, ["self_attn.o_proj"], others):
            hold_plain(model, layers, seen, paths, part)


def test_steps_by_local_adjoints_are_those_of_plain_gradient_descent():
    model, task = small_neox(), tasks()[0]
    blocks = ["value.0.0", "mlp-up.0"]
    seen = bridge.observe(model, tokenizer("gpt2-plain"), task, blocks, adjoint="local")
    step_size = 0.1 / max(np.linalg.eigvalsh(seen.kernels[block])[-1] for block in blocks)
    with bridge.adapted(model, bridge.Plan.steps(seen, step_size, 3)) as result:
        found = result.prediction
    model.eval()
    layers, prompts = model.gpt_neox.layers, seen.prompts
    weights = [layers[0].get_submodule(NEOX[kind]).weight for kind in ("value", "mlp-up")]
    places = torch.arange(weights[0].numel()).reshape(weights[0].shape)
    kept = neox_part("value", 0)(places).reshape(-1)
    others = [NEOX["mlp-up"], NEOX["mlp-down"]]
    for _ in range(3):
        with last_token_alone(model, layers, [NEOX["output"]], others):
            loss = 0.5 * sum(
                (plain_prediction(model, tokens, prompts.labels) - target) ** 2
                for tokens, target in zip(prompts.leave_one_out, prompts.targets)
            )
            slopes = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            # Of the module of queries, keys and values only one head's values are updated.
            mask = torch.zeros(weights[0].numel(), dtype=weights[0].dtype)
            mask[kept] = 1.0
            weights[0] -= step_size * slopes[0] * mask.reshape(weights[0].shape)
            weights[1] -= step_size * slopes[1]
    expected = float(plain_prediction(model, prompts.query, prompts.labels).detach())
    assert abs(found - expected) < 1e-10
    assert abs(found - seen.query_prediction) > 1e-4


def test_what_the_bridge_cannot_look_at_is_refused_by_name():
    name, task = "llama-plain", tasks()[0]
    model, tokens = load(name), tokenizer(name)
    for asked, field, words in [
        ({"residuals": "prefix"}, "residuals", "residuals is prefix; it must be leave-one-out"),
        ({"shots": 3}, "shots", "shots is 3; it must be as many as fit"),
    ]:
        with pytest.raises(errors.Policy, match=words) as raised:
            bridge.observe(model, tokens, task, **asked)
        assert raised.value.field == field
    whole = bridge.find_layout(model)
    projections = {kind: at for kind, at in whole.projections.items() if kind != "output"}
    layout = dataclasses.replace(whole, projections=projections)
    for kind in ("value", "key"):
        with pytest.raises(errors.Unsupported, match="add output to the layout, choose other"):
            bridge.observe(model, tokens, task, f"{kind}@all", layout=layout, adjoint="local")
        assert bridge.observe(model, tokens, task, f"{kind}@all", layout=layout, adjoint="whole")
    seen = bridge.observe(model, tokens, task, "query,mlp-up@all", layout=layout, adjoint="local")
    assert seen.policy.adjoint == "local"


@pytest.mark.parametrize("make", [small_opt, small_neox])
def test_steps_are_those_of_plain_gradient_descent(make):
    model, task = make(), tasks()[0]
    seen = bridge.observe(model, tokenizer("gpt2-plain"), task, "mlp-up@last1")
    step_size = 0.1 / np.linalg.eigvalsh(seen.kernels["mlp-up.1"])[-1]
    with bridge.adapted(model, bridge.Plan.steps(seen, step_size, 4)) as result:
        found = result.prediction
    model.eval()
    weight = dict(model.named_parameters())[f"{seen.places[0].module}.weight"]
    prompts = seen.prompts
    for _ in range(4):
        loss = 0.5 * sum(
            (plain_prediction(model, tokens, prompts.labels) - target) ** 2
            for tokens, target in zip(prompts.leave_one_out, prompts.targets)
        )
        (slope,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= step_size * slope
    expected = float(plain_prediction(model, prompts.query, prompts.labels).detach())
    assert abs(found - expected) < 1e-10
    assert abs(found - seen.query_prediction) > 1e-4


def test_both_forms_agree_and_batches_do_not_matter(monkeypatch):
    name, task = "llama-plain", tasks()[1]
    model = load_double(name)
    places = bridge.choose_blocks(kinds(name) + "@all", model)
    seen = bridge.observe(model, tokenizer(name), task, kinds(name) + "@all")
    sequences = [*seen.prompts.leave_one_out, seen.prompts.query]
    modules = list(dict.fromkeys(place.module for place in places))
    assert len({len(tokens) for tokens in sequences}) > 1
    with undisturbed(model):
        (batch,) = differentiate(
            model, sequences, seen.prompts.labels, modules, lambda _, s: s.sum()
        )
    for path in modules:
        by_row = dict(zip(batch.sequences, batch.factors[path]))
        batch.factors[path][:] = [by_row[row] for row in range(len(sequences))]
    forms = [kernels_of(places, batch.factors, form) for form in ("ghost", "explicit")]
    monkeypatch.setattr("fewstep.torch.kernels._BUFFER", 100)  # so that the work is cut
    forms.append(kernels_of(places, batch.factors, "explicit"))
    for place, ghost, explicit, cut in zip(places, *forms):
        assert apart(ghost, explicit) < 1e-12
        assert apart(cut, explicit) < 1e-12
        assert apart(ghost[:-1, :-1], seen.kernels[place.name]) < 1e-12
    for batch_tokens in (1, 60):
        split = bridge.observe(
            model, tokenizer(name), task, kinds(name) + "@all", batch_tokens=batch_tokens
        )
        assert apart(split.predictions, seen.predictions) < 1e-12
        for block in seen.blocks:
            assert apart(split.kernels[block], seen.kernels[block]) < 1e-9
        plans = [bridge.Plan.steps(part, 0.01, 3) for part in (seen, split)]
        found = []
        for plan in plans:
            with bridge.adapted(model, plan) as result:
                found.append(result.prediction)
        assert abs(found[0] - found[1]) < 1e-10
    with pytest.raises(errors.OutOfRange, match="batch_tokens is 0; it must be at least 1"):
        bridge.observe(model, tokenizer(name), task, batch_tokens=0, blocks="value@all")

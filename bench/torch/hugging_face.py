"""The best way on Hugging Face's modules: hooks, one batched backward, cached lower layers, label-only logits.

Prompts go through in one batch, or in several where one would hold more than CHUNK tokens.
"""

from contextlib import contextmanager

import torch
from plain import body
from transformers import DynamicCache

CHUNK = 4096


def chunks(tokens):
    """Slices of prompts with at most CHUNK tokens each, but at least one prompt."""
    size = max(1, CHUNK // tokens.shape[1])
    return [slice(start, start + size) for start in range(0, len(tokens), size)]


def observe(family, case):
    """Predictions, the kernel of every value block from one backward of the sum, and the stream below."""
    layers = range(case.first, len(family.layers))
    for parameter in family.model.parameters():
        parameter.requires_grad_(False)
    predictions, gradients, lower = [], [[] for _ in layers], {}
    for part in chunks(case.tokens):
        inputs, outputs, hooks = {}, {}, []

        def keep_stream(_, args, kwargs):
            stream = (args[0] if args else kwargs["hidden_states"]).detach()
            lower.setdefault("stream", []).append(stream)
            lower["passed"] = passed_on(kwargs)

        hooks.append(family.layers[case.first].register_forward_pre_hook(keep_stream, with_kwargs=True))
        for layer in layers:
            module, _ = family.value_module(layer)

            def keep(_, args, output, layer=layer):
                if layer == case.first:  # the graph begins here
                    output = output.requires_grad_(True)
                inputs[layer], outputs[layer] = args[0].detach(), output
                return output

            hooks.append(module.register_forward_hook(keep))
        found = family.read_out(body(family, case.tokens[part]), case, case.last[part])
        adjoints = torch.autograd.grad(found.sum(), [outputs[layer] for layer in layers])
        for hook in hooks:
            hook.remove()
        predictions.append(found.detach())
        for kept, layer, adjoint in zip(gradients, layers, adjoints):
            _, columns = family.value_module(layer)
            adjoint = adjoint.reshape(*inputs[layer].shape[:-1], -1)[..., columns]
            kept.append(torch.bmm(inputs[layer].transpose(1, 2), adjoint))
    kernels = torch.stack([family.kernels(torch.cat(kept)) for kept in gradients])
    return torch.cat(predictions), kernels, (torch.cat(lower["stream"]), lower["passed"])


def passed_on(kwargs):
    """What a layer is given besides the stream. A mask of None lets the fused attention be causal by itself."""
    return {name: value for name, value in kwargs.items() if name == "position_embeddings"}


def upper(family, first, stream, passed):
    for layer in family.layers[first:]:
        output = layer(stream, attention_mask=None, **passed)
        stream = output[0] if isinstance(output, tuple) else output
    return stream


@contextmanager
def moved(family, case, lower):
    """Gradient steps on ½ Σ (y − s)² from the stream below, which was run once.

    Gives the query's last prediction; the weights stay moved until the block is left.
    """
    layers = range(case.first, len(family.layers))
    weights = [family.value_module(layer)[0].weight for layer in layers]
    kept = [weight.detach().clone() for weight in weights]
    for parameter in family.model.parameters():
        parameter.requires_grad_(False)
    for weight in weights:
        weight.requires_grad_(True)
    n, (stream, passed) = case.examples, lower
    for _ in range(case.steps):
        total = None
        for part in chunks(case.tokens[:n]):
            hidden = upper(family, case.first, stream[:n][part], passed)
            found = family.read_out(hidden, case, case.last[:n][part])
            loss = 0.5 * (case.targets[part] - found).square().sum()
            gradients = torch.autograd.grad(loss, weights)
            total = gradients if total is None else [a + b for a, b in zip(total, gradients)]
        with torch.no_grad():
            for weight, gradient in zip(weights, total):
                family.move_values(weight, -case.step_size * family.value_gradient(gradient))
    with torch.no_grad():
        hidden = upper(family, case.first, stream[n:], passed)
        query = family.read_out(hidden, case, case.last[n:])
    try:
        yield query
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, kept):
                weight.copy_(old)


def steps(family, case, lower):
    with moved(family, case, lower) as query:
        return query


def further(family, case):
    """Predictions for further queries on the same examples, in one batch."""
    with torch.no_grad():
        found = [
            family.read_out(body(family, case.further[part]), case, case.further_last[part])
            for part in chunks(case.further)
        ]
        return torch.cat(found)


def further_cached(family, case):
    """The same with keys and values of what all queries begin with kept."""
    with torch.no_grad():
        same = (case.further == case.further[0]).all(0).long().cumprod(0)
        shared = min(int(same.sum()), case.further.shape[1] - 1)
        cache = DynamicCache(config=family.model.config)
        family.body(case.further[:1, :shared], past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(case.further))
        kept = {}
        hook = family.final_norm.register_forward_pre_hook(lambda _, args: kept.update(hidden=args[0]))
        family.body(case.further[:, shared:], past_key_values=cache, use_cache=True)
        hook.remove()
        return family.read_out(kept["hidden"], case, case.further_last - shared)

"""Derivatives at the last token of each prompt alone: what other tokens pass on is constant.

All tokens but the last go forward without a graph and leave keys and values behind. The last tokens follow as
one batch of single tokens; hooks keep the inputs of the first MLP matrices there, and one backward gives the
adjoints of their outputs. Prompts go through as one padded batch, or behind a cache of what they begin with.
"""

import copy

import torch
from plain import body
from transformers import DynamicCache

# How often prompts are divided by what they begin with.
LEVELS = {"local-batch": 0, "local-cache": 1, "local-cache-twice": 2}

# Fewer tokens in common are not worth a cache.
LEAST = 16


def observe(family, case, variant):
    """Predictions, and the kernel (A Aᵀ) ∘ (B Bᵀ) of every first MLP matrix from the lowest layer up."""
    for parameter in family.model.parameters():
        parameter.requires_grad_(False)
    cache = DynamicCache(config=family.model.config)
    everyone = list(range(len(case.prompts)))
    parts = list(leaves(family, case.prompts, everyone, (0, cache), LEVELS[variant]))
    found = [derivatives(family, case, members, place) for members, place in parts]
    members = torch.tensor([member for members, _ in parts for member in members])
    order = members.argsort()
    predictions = torch.cat([part[0] for part in found])[order]
    inputs, adjoints = (torch.cat([part[which] for part in found], 1)[:, order] for which in (1, 2))
    kernels = (inputs @ inputs.transpose(1, 2)) * (adjoints @ adjoints.transpose(1, 2))
    return predictions, kernels


def leaves(family, prompts, members, place, levels):
    """Groups of prompts, each with a place: how many tokens they begin with, and the cache of these."""
    start, cache = place
    end, shortest = start, min(len(prompts[member]) for member in members) - 1
    while levels and end < shortest and len({prompts[member][end] for member in members}) == 1:
        end += 1
    if levels and len(members) > 1 and end - start >= LEAST:
        shared = torch.tensor(prompts[members[0]][start:end])[None]
        cache = run_forward(family, shared, cache)
        place, levels = (end, cache), levels - 1
    groups = {}
    for member in members:
        groups.setdefault(prompts[member][end], []).append(member)
    if not levels or len(groups) == 1:
        yield members, place
        return
    for group in groups.values():
        yield from leaves(family, prompts, group, place, levels)


def run_forward(family, tokens, cache):
    """A copy of the cache with the keys and values of more tokens."""
    cache = copy.deepcopy(cache)
    with torch.no_grad():
        if len(tokens) > 1 and cache.get_seq_length() > 0:
            cache.batch_repeat_interleave(len(tokens))
        if tokens.shape[1] > 0:
            body(family, tokens, past_key_values=cache, use_cache=True)
    return cache


def derivatives(family, case, members, place):
    """Predictions, and the inputs and adjoints of each layer's matrix, [layers, prompts, …], at the last tokens."""
    (start, cache), prompts = place, [case.prompts[member] for member in members]
    longest = max(map(len, prompts)) - 1
    own = [prompt[start:-1] + [0] * (longest + 1 - len(prompt)) for prompt in prompts]
    cache = run_forward(family, torch.tensor(own, dtype=torch.long), cache)
    ends = torch.tensor([[len(prompt) - 1] for prompt in prompts])
    places = torch.arange(longest + 1)
    seen = (places < ends) | (places == longest)  # what pads a prompt is not seen; the last token comes behind it

    inputs, outputs, hooks = [], [], []
    for layer in range(case.first, len(family.layers)):

        def keep(_, args, output, layer=layer):
            if layer == case.first:  # the graph begins here
                output = output.requires_grad_(True)
            inputs.append(args[0].detach()[:, 0])
            outputs.append(output)
            return output

        hooks.append(family.mlp_up(layer).register_forward_hook(keep))
    last = torch.tensor([[prompt[-1]] for prompt in prompts])
    given = {"attention_mask": seen.long(), "position_ids": ends}
    hidden = body(family, last, past_key_values=cache, use_cache=True, **given)
    for hook in hooks:
        hook.remove()
    predictions = family.read_out(hidden, case, torch.zeros(len(prompts), dtype=torch.long))
    adjoints = torch.autograd.grad(predictions.sum(), outputs)
    return predictions.detach(), torch.stack(inputs), torch.stack([adjoint[:, 0] for adjoint in adjoints])

"""The straightforward way: one forward with all logits and one backward per prompt, whole-model steps."""

import torch


def observe(family, case):
    """Predictions, and the kernel of every value block of the upper layers."""
    model, layers = family.model, range(case.first, len(family.layers))
    weights = [family.value_module(layer)[0].weight for layer in layers]
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    predictions, gradients = [], []
    for tokens, last in zip(case.tokens, case.last):
        logits = model(tokens[None, : last + 1]).logits[0, -1, case.labels]
        prediction = (logits.softmax(-1) * case.values).sum()
        found = torch.autograd.grad(prediction, weights)
        predictions.append(prediction.detach())
        gradients.append([family.value_gradient(gradient).clone() for gradient in found])
    kernels = [family.kernels(torch.stack(rows)) for rows in zip(*gradients)]
    return torch.stack(predictions), torch.stack(kernels), None


def steps(family, case, _):
    """Gradient steps on ½ Σ (y − s)², with the whole model run each time; the query's last prediction."""
    model, layers = family.model, range(case.first, len(family.layers))
    weights = [family.value_module(layer)[0].weight for layer in layers]
    kept = [weight.detach().clone() for weight in weights]
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for weight in weights:
        weight.requires_grad_(True)
    n = case.examples
    for _ in range(case.steps):
        hidden = body(family, case.tokens[:n])
        loss = 0.5 * (case.targets - family.read_out(hidden, case, case.last[:n])).square().sum()
        found = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, found):
                family.move_values(weight, -case.step_size * family.value_gradient(gradient))
    with torch.no_grad():
        hidden = body(family, case.tokens[n:])
        query = family.read_out(hidden, case, case.last[n:])
        for weight, old in zip(weights, kept):
            weight.copy_(old)
    return query


def body(family, tokens, **given):
    """The stream after the last layer, before the final norm; `given` goes to the model, too."""
    kept = {}
    hook = family.final_norm.register_forward_pre_hook(lambda _, args: kept.update(hidden=args[0]))
    family.body(tokens, **given)
    hook.remove()
    return kept["hidden"]

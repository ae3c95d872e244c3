"""GPT-2 rewritten by hand for this work: every reduction of arithmetic but the sharing of prefixes.

The last layer runs at the last tokens only; in the lowest updated layer norm, queries and keys are kept;
nothing but the values' weights has a gradient.
"""

import torch
import torch.nn.functional as F


class Expert:
    def __init__(self, family):
        assert family.gpt2, "the rewrite is of GPT-2"
        self.family, self.width, self.heads = family, family.width, family.heads
        self.parts = []
        for layer in family.layers:
            weight, bias = layer.attn.c_attn.weight.detach(), layer.attn.c_attn.bias.detach()
            cut = lambda start, end: (
                weight[:, start * self.width : end * self.width].contiguous(),
                bias[start * self.width : end * self.width].contiguous(),
            )
            self.parts.append({"query": cut(0, 1), "key": cut(1, 2), "both": cut(0, 2), "value": cut(2, 3)})

    def split(self, rows, count):
        return rows.view(count, -1, self.heads, self.width // self.heads).transpose(1, 2)

    def transform(self, layer, stream):
        module = self.family.layers[layer]
        inner = torch.addmm(module.mlp.c_fc.bias, module.ln_2(stream), module.mlp.c_fc.weight)
        inner = F.gelu(inner, approximate="tanh")
        return stream + torch.addmm(module.mlp.c_proj.bias, inner, module.mlp.c_proj.weight)

    def project(self, layer, mixed, stream):
        out = self.family.layers[layer].attn.c_proj
        return self.transform(layer, stream + torch.addmm(out.bias, mixed, out.weight))

    def layer(self, layer, stream, count, values, both=None, normed=None):
        """One layer on all tokens; `values` are given, queries and keys may be."""
        if both is None:
            normed = self.family.layers[layer].ln_1(stream) if normed is None else normed
            weight, bias = self.parts[layer]["both"]
            both = torch.addmm(bias, normed, weight)
        queries, keys = self.split(both[:, : self.width], count), self.split(both[:, self.width :], count)
        mixed = F.scaled_dot_product_attention(queries, keys, self.split(values, count), is_causal=True)
        return self.project(layer, mixed.transpose(1, 2).reshape(-1, self.width), stream)

    def last(self, normed, stream, values, last):
        """The last layer at the last token of each prompt; shorter prompts are padded behind."""
        layer, count = len(self.parts) - 1, len(last)
        weight, bias = self.parts[layer]["key"]
        keys = torch.addmm(bias, normed, weight)
        rows = torch.arange(count) * (len(stream) // count) + last
        weight, bias = self.parts[layer]["query"]
        queries = torch.addmm(bias, normed[rows], weight)
        seen = torch.arange(len(stream) // count)[None, :] <= last[:, None]
        mixed = F.scaled_dot_product_attention(
            self.split(queries, count), self.split(keys, count), self.split(values, count),
            attn_mask=None if seen.all() else seen[:, None, None, :],
        )
        return self.project(layer, mixed.transpose(1, 2).reshape(count, self.width), stream[rows])

    def values(self, layer, normed, weight=None):
        own, bias = self.parts[layer]["value"]
        return torch.addmm(bias, normed, own if weight is None else weight)

    def lower(self, case, tokens):
        body, count = self.family.body, len(tokens)
        stream = (body.wte(tokens) + body.wpe.weight[: tokens.shape[1]]).view(-1, self.width)
        with torch.no_grad():
            for layer in range(case.first):
                normed = self.family.layers[layer].ln_1(stream)
                stream = self.layer(layer, stream, count, self.values(layer, normed), normed=normed)
        return stream

    def predict(self, hidden, case):
        logits = self.family.final_norm(hidden) @ self.family.body.wte.weight[case.labels].T
        return (logits.softmax(-1) * case.values).sum(-1)

    def observe(self, case):
        for parameter in self.family.model.parameters():
            parameter.requires_grad_(False)
        count, layers = len(case.tokens), len(self.parts)
        whole = self.lower(case, case.tokens)
        stream, inputs, outputs = whole, [], []
        for layer in range(case.first, layers):
            normed = self.family.layers[layer].ln_1(stream)
            values = self.values(layer, normed)
            if layer == case.first:
                values.requires_grad_(True)
            inputs.append(normed.detach())
            outputs.append(values)
            if layer + 1 < layers:
                stream = self.layer(layer, stream, count, values, normed=normed)
        predictions = self.predict(self.last(normed, stream, values, case.last), case)
        found = torch.autograd.grad(predictions.sum(), outputs)
        shape = (count, -1, self.width)
        products = (torch.bmm(a.view(shape).transpose(1, 2), b.view(shape)) for a, b in zip(inputs, found))
        kernels = torch.stack([self.family.kernels(product) for product in products])
        return predictions.detach(), kernels, whole

    def steps(self, case, whole):
        """Steps from the stream below the lowest updated layer, `whole`, as observing left it."""
        n, layers = case.examples, len(self.parts)
        lowest = self.family.layers[case.first].ln_1
        with torch.no_grad():
            normed = lowest(whole)
            weight, bias = self.parts[case.first]["both"]
            both = torch.addmm(bias, normed, weight)
        length = case.tokens.shape[1]
        weights = [self.parts[layer]["value"][0].clone() for layer in range(case.first, layers)]
        for weight in weights:
            weight.requires_grad_(True)

        def run(rows, last):
            count = len(last)
            stream, at = whole[rows], normed[rows]
            for layer in range(case.first, layers):
                if layer > case.first:
                    at = self.family.layers[layer].ln_1(stream)
                values = self.values(layer, at, weights[layer - case.first])
                if layer + 1 == layers:
                    return self.predict(self.last(at, stream, values, last), case)
                kept = both[rows] if layer == case.first else None
                stream = self.layer(layer, stream, count, values, both=kept, normed=at)

        for _ in range(case.steps):
            predictions = run(slice(0, n * length), case.last[:n])
            loss = 0.5 * (case.targets - predictions).square().sum()
            found = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, found):
                    weight.sub_(gradient, alpha=case.step_size)
        with torch.no_grad():
            return run(slice(n * length, None), case.last[n:])

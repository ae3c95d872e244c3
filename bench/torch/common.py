"""What all PyTorch variants share: the model, the prompts, the read-out and the answer's form."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # models come from a directory

import torch
import transformers

transformers.utils.logging.disable_progress_bar()


@dataclass
class Case:
    """One task in tokens, as the Rust side wrote it."""

    tokens: torch.Tensor  # [prompts + query, longest], padded on the right: causal models do not look there
    last: torch.Tensor  # the last token of each
    prompts: list  # the same without padding
    labels: torch.Tensor
    values: torch.Tensor
    targets: torch.Tensor
    first: int  # the lowest layer whose value blocks may move
    step_size: float
    steps: int
    further: torch.Tensor  # prompts of further queries, all of one length

    @property
    def further_last(self):
        return torch.full((len(self.further),), self.further.shape[1] - 1)

    @property
    def examples(self):
        return len(self.targets)


def read_case(file):
    case = json.loads(Path(file).read_text(encoding="utf-8"))
    prompts = case["prompts"] + [case["query"]]
    longest = max(map(len, prompts))
    return Case(
        tokens=torch.tensor([prompt + [0] * (longest - len(prompt)) for prompt in prompts]),
        last=torch.tensor([len(prompt) - 1 for prompt in prompts]),
        prompts=prompts,
        labels=torch.tensor(case["label_tokens"]),
        values=torch.tensor(case["label_values"], dtype=torch.float32),
        targets=torch.tensor(case["targets"], dtype=torch.float32),
        first=case["first_layer"],
        step_size=case["step_size"],
        steps=case["steps"],
        further=torch.tensor(case["further"]),
    )


def read_model(folder):
    """A causal model in float32 with the fused attention of PyTorch."""
    kind = transformers.AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    model.config.use_cache = False
    return model.eval()


class Family:
    """Where GPT-2 and Llama keep what the variants need."""

    def __init__(self, model):
        self.model, self.body, config = model, model.base_model, model.config
        self.gpt2 = config.model_type == "gpt2"
        self.layers = self.body.h if self.gpt2 else self.body.layers
        self.final_norm = self.body.ln_f if self.gpt2 else self.body.norm
        self.width = config.hidden_size
        self.heads = config.num_attention_heads if self.gpt2 else config.num_key_value_heads
        self.head_width = self.width // config.num_attention_heads
        if not self.gpt2:
            self.head_width = getattr(config, "head_dim", None) or self.head_width

    def value_module(self, layer):
        """The module that computes the values of a layer, and their columns in its output."""
        attention = self.layers[layer].attn if self.gpt2 else self.layers[layer].self_attn
        if self.gpt2:
            return attention.c_attn, slice(2 * self.width, 3 * self.width)
        return attention.v_proj, slice(0, self.heads * self.head_width)

    def mlp_up(self, layer):
        """The first matrix of a layer's MLP; of a gated one, that beside the gate."""
        return self.layers[layer].mlp.c_fc if self.gpt2 else self.layers[layer].mlp.up_proj

    def value_gradient(self, gradient):
        """The part of a weight's gradient that belongs to values, as [in, out]."""
        return gradient[:, 2 * self.width :] if self.gpt2 else gradient.T

    def move_values(self, weight, change):
        """Adds a change of the values, [in, out], to a weight."""
        if self.gpt2:
            weight[:, 2 * self.width :] += change
        else:
            weight += change.T

    def read_out(self, hidden, case, last):
        """Predictions from the stream after the last layer, at the last token of each prompt."""
        hidden = self.final_norm(hidden[torch.arange(len(hidden)), last])
        logits = hidden @ self.model.get_output_embeddings().weight[case.labels].T
        return (logits.softmax(-1) * case.values).sum(-1)

    def kernels(self, gradients):
        """[prompts, in, heads · head width] to the Gram matrices of all heads, [heads, prompts, prompts]."""
        count = gradients.shape[0]
        parts = gradients.reshape(count, -1, self.heads, self.head_width).permute(2, 0, 1, 3)
        rows = parts.reshape(self.heads, count, -1)
        return rows @ rows.transpose(1, 2)

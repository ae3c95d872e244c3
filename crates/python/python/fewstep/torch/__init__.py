"""The bridge for Hugging Face causal models that live in PyTorch.

Observe a task, decide, act; the same three parts as with the tool's own models::

    observation = fewstep.torch.observe(model, tokenizer, task)
    decision = fewstep.torch.decide(observation)
    with fewstep.torch.adapted(model, decision) as adapted_model:
        print(adapted_model.prediction)

``policy=`` and single keywords choose another policy than the default one, as everywhere else.
Inside the ``with`` block the model holds the updated weights; when it ends, however it ends, they
are what they were before, bit for bit. Observing needs one forward and one backward pass and no
gradient of a weight.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as missing:
    raise ImportError(
        "fewstep.torch needs PyTorch, which is not installed; pip install 'fewstep[torch]'"
    ) from missing

from .adapt import Adapted, adapted
from .decision import Decision, Plan, decide
from .layouts import Layout, Projection, choose_blocks, find_layout
from .observe import Observation, observe

__all__ = [
    "Adapted",
    "Decision",
    "Layout",
    "Observation",
    "Plan",
    "Projection",
    "adapted",
    "choose_blocks",
    "decide",
    "find_layout",
    "observe",
]

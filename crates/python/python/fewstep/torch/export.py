"""Writing an update as a LoRA adapter that the package PEFT loads.

A directory with ``adapter_config.json`` and ``adapter_model.safetensors``, in which a module has the
tensors ``base_model.model.PATH.lora_A.weight`` (``[rank, inputs]``) and ``….lora_B.weight``
(``[outputs, rank]``). The adapter is the update, not an approximation: every block gets the rank
that its change has in single precision.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from .. import errors
from .layouts import Place
from .passes import wide

_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_START = "base_model.model."


def export_peft(
    path: Union[str, "os.PathLike[str]"],
    places: Sequence[Place],
    update: Mapping[str, torch.Tensor],
    shapes: Mapping[str, Tuple[int, int]],
    base: Optional[str],
) -> None:
    """Writes the changes of some blocks; ``shapes`` are the inputs and outputs of their modules."""
    from safetensors.torch import save_file

    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    pairs: Dict[str, Tuple[torch.Tensor, torch.Tensor]] = {}
    for place in places:
        pair = _spread(place, shapes[place.module], *_factorised(place.name, update[place.name]))
        before = pairs.get(place.module)
        if before is not None:
            pair = (torch.cat([before[0], pair[0]]), torch.cat([before[1], pair[1]], dim=1))
        pairs[place.module] = pair
    moved = {module: pair for module, pair in pairs.items() if len(pair[0]) > 0}
    if not moved:
        # An adapter must have something to adapt: one pair of zeros stands for no change.
        module, (inputs, outputs) = places[0].module, shapes[places[0].module]
        moved = {module: (torch.zeros(1, inputs), torch.zeros(outputs, 1))}
    tensors: Dict[str, torch.Tensor] = {}
    for module, (first, second) in moved.items():
        tensors[f"{_START}{module}.lora_A.weight"] = first.contiguous()
        tensors[f"{_START}{module}.lora_B.weight"] = second.contiguous()
    inputs_first = any(place.inputs_first for place in places if place.module in moved)
    ranks = {module: len(first) for module, (first, _) in moved.items()}
    settings = json.dumps(_settings(ranks, inputs_first, base), indent=2, sort_keys=True)
    save_file(tensors, directory / _WEIGHTS, metadata={"format": "pt"})
    (directory / _CONFIG).write_text(settings + "\n", encoding="utf-8")


def _factorised(name: str, change: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """``θ = U diag(s) Vᵀ`` as ``U √s`` and ``√s Vᵀ``, without what is rounding."""
    values = wide(change.detach()).cpu()
    if not bool(torch.isfinite(values).all()):
        raise errors.WeightNotFinite(
            f"the change of {name} is not finite; take a smaller step size"
        )
    left, sizes, right = torch.linalg.svd(values, full_matrices=False)
    cut = torch.finfo(torch.float32).eps * sizes[0]
    rank = int((sizes > cut).sum())
    root = sizes[:rank].sqrt()
    return (left[:, :rank] * root).float(), (root[:, None] * right[:rank]).float()


def _spread(
    place: Place, shape: Tuple[int, int], first: torch.Tensor, second: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor]:
    """A block's factors as those of its whole module: PEFT's ``A`` and ``B``."""
    rank = first.shape[1]
    inner, outer = torch.zeros(rank, shape[0]), torch.zeros(shape[1], rank)
    inner[:, place.inputs] = first.T
    outer[place.outputs] = second.T
    return inner, outer


def _settings(ranks: Mapping[str, int], inputs_first: bool, base: Optional[str]) -> Dict[str, Any]:
    counted: List[Tuple[int, int]] = [(n, rank) for rank, n in Counter(ranks.values()).items()]
    common = max(counted)[1]
    others = {module: rank for module, rank in ranks.items() if rank != common}
    return {
        "alpha_pattern": others,
        "auto_mapping": None,
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": inputs_first,
        "inference_mode": True,
        "init_lora_weights": True,
        # The same as the rank, so that PEFT multiplies the product with 1.
        "lora_alpha": common,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": common,
        "rank_pattern": others,
        "revision": None,
        "target_modules": list(ranks),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": False,
    }

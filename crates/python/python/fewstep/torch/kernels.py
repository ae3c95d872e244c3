"""Kernels from the factors of derivatives: which predictions an update of a block changes together.

::

    K_ij = Σ_tt′ (a_it·a_jt′)(b_it·b_jt′)          (Lem. H.1 summed over tokens)

Either through inner products of tokens (the ghost form), of which one factor is shared by all heads
of a module, or through the derivatives themselves; whichever takes fewer multiplications.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray

from .layouts import Place
from .passes import Factors, wide

#: How many numbers of derivatives are held at the same time.
_BUFFER = 1 << 22


def kernels(
    places: Sequence[Place], factors: Dict[str, List[Factors]], form: str = "cheapest"
) -> List[NDArray[np.float64]]:
    """For each block the inner products of all derivatives, in double precision."""
    found: List[NDArray[np.float64]] = [np.empty(0)] * len(places)
    for members in _groups(places):
        pairs = factors[places[members[0]].module]
        common, own, lengths = _sides([places[member] for member in members], pairs)
        ghost = form == "ghost" or (form == "cheapest" and _ghost_is_cheaper(common, own, lengths))
        computed = _ghost(common, own, lengths) if ghost else _explicit(common, own, lengths)
        for member, kernel in zip(members, computed):
            found[member] = kernel.cpu().numpy()
    return found


def _groups(places: Sequence[Place]) -> List[List[int]]:
    """Blocks that share a factor: the same inputs of a module, or the same outputs."""
    groups: Dict[Tuple[str, bool, int, int], List[int]] = {}
    for index, place in enumerate(places):
        groups.setdefault(_key(place), []).append(index)
    return list(groups.values())


def _key(place: Place) -> Tuple[str, bool, int, int]:
    by_inputs = place.kind != "output"
    shared = place.inputs if by_inputs else place.outputs
    return (place.module, by_inputs, shared.start, shared.stop)


def _sides(
    places: Sequence[Place], pairs: List[Factors]
) -> Tuple[torch.Tensor, List[torch.Tensor], List[int]]:
    """The factor that the blocks share, each block's own, and the tokens of each sequence."""
    inputs = wide(torch.cat([pair.inputs for pair in pairs]))
    adjoints = wide(torch.cat([pair.adjoints for pair in pairs]))
    lengths = [len(pair.inputs) for pair in pairs]
    if _key(places[0])[1]:
        own = [adjoints[:, place.outputs] for place in places]
        return inputs[:, places[0].inputs], own, lengths
    own = [inputs[:, place.inputs] for place in places]
    return adjoints[:, places[0].outputs], own, lengths


def _ghost_is_cheaper(
    common: torch.Tensor, own: List[torch.Tensor], lengths: List[int]
) -> bool:
    pairs, seen = 0, 0
    for length in lengths:
        seen += length
        pairs += length * seen
    widths = sum(part.shape[1] for part in own)
    rows, width = common.shape
    ghost = pairs * (width + widths + len(own))
    explicit = widths * width * (rows + len(lengths) ** 2)
    return ghost <= explicit


def _ghost(
    common: torch.Tensor, own: List[torch.Tensor], lengths: List[int]
) -> List[torch.Tensor]:
    sequences = len(lengths)
    owner = torch.repeat_interleave(
        torch.arange(sequences, device=common.device),
        torch.tensor(lengths, device=common.device),
    )
    found = [common.new_zeros(sequences, sequences) for _ in own]
    first = 0
    for sequence, length in enumerate(lengths):
        end = first + length
        shared = common[first:end] @ common[:end].T
        for kernel, part in zip(found, own):
            products = (shared * (part[first:end] @ part[:end].T)).sum(dim=0)
            row = common.new_zeros(sequences).index_add_(0, owner[:end], products)
            kernel[sequence, : sequence + 1] = row[: sequence + 1]
            kernel[: sequence + 1, sequence] = row[: sequence + 1]
        first = end
    return found


def _explicit(
    common: torch.Tensor, own: List[torch.Tensor], lengths: List[int]
) -> List[torch.Tensor]:
    sequences, width = len(lengths), common.shape[1]
    found = [common.new_zeros(sequences, sequences) for _ in own]
    shared = torch.split(common, lengths)
    for kernel, part in zip(found, own):
        columns = part.shape[1]
        step = min(max(_BUFFER // max(sequences * columns, 1), 1), width)
        parts = torch.split(part, lengths)
        for first in range(0, width, step):
            derivatives = torch.stack(
                [(a[:, first : first + step].T @ b).flatten() for a, b in zip(shared, parts)]
            )
            kernel += derivatives @ derivatives.T
    return found

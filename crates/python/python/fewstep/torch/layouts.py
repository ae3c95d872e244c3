"""Where a model keeps the matrices that may be updated, and how blocks of them are named.

In: a model, and a choice such as ``value@last4``. Out: :class:`Place` objects, which say for every
block the module and the part of its matrix. Names and their order are those of the tool:
``kind.layer.head`` or ``kind.layer``, counted from 0; the head of a value or key block is the
key-value head where several query heads share one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from .. import errors

#: The kinds that a layout may have; the first four have one block per head.
KINDS = ("value", "output", "query", "key", "mlp-up", "mlp-down", "mlp-gate")
PER_HEAD = KINDS[:4]


@dataclass(frozen=True)
class Projection:
    """Which module of a layer computes one kind of projection, and where in it.

    ============ ======== ====================================================================
    name         default  meaning
    ============ ======== ====================================================================
    path         —        the module, from the layer: ``self_attn.v_proj``
    start        0        the first of its outputs (for ``output``: inputs) that is of the kind
    stride       head     how many outputs lie between the first of a head and that of the
                 width    next; more than a head's width where kinds stand side by side in
                          every head
    inputs_first by the   whether the weight is ``[inputs, outputs]``, as in GPT-2's Conv1D,
                 class    and not ``[outputs, inputs]``, as in ``torch.nn.Linear``
    ============ ======== ====================================================================
    """

    path: str
    start: int = 0
    stride: Optional[int] = None
    inputs_first: Optional[bool] = None


@dataclass(frozen=True)
class Layout:
    """How the projections of a model are found, for models that are not known by themselves.

    =============== ======= ==================================================================
    name            default meaning
    =============== ======= ==================================================================
    layers          —       the list of layers, from the top of the model: ``model.layers``
    projections     —       a :class:`Projection` for each kind that can be updated, of
                            ``value``, ``output``, ``query``, ``key``, ``mlp-up``,
                            ``mlp-down`` and ``mlp-gate``
    heads           —       how many query heads a layer has
    head_width      —       how many numbers a head has
    key_value_heads heads   how many heads keys and values have
    =============== ======= ==================================================================

    For example, a model whose attention is called ``mixer``::

        Layout(
            layers="body.blocks",
            projections={"value": Projection("mixer.values"), "output": Projection("mixer.out")},
            heads=4,
            head_width=16,
        )
    """

    layers: str
    projections: Mapping[str, Projection]
    heads: int
    head_width: int
    key_value_heads: Optional[int] = None

    def heads_of(self, kind: str) -> Optional[int]:
        """How many blocks of a kind a layer has, or None where it has one."""
        if kind not in PER_HEAD:
            return None
        if kind in ("value", "key") and self.key_value_heads is not None:
            return self.key_value_heads
        return self.heads


@dataclass(frozen=True)
class Place:
    """A block: its kind and layer, a module, and the inputs and outputs of it that belong to it.

    ``mixed_by`` is known of values and keys: the module that attention hands its result to.
    """

    name: str
    kind: str
    layer: int
    module: str
    inputs: slice
    outputs: slice
    inputs_first: bool
    mixed_by: Optional[str] = None

    @property
    def shape(self) -> Tuple[int, int]:
        """How many inputs and outputs the block has."""
        return (self.inputs.stop - self.inputs.start, self.outputs.stop - self.outputs.start)

    def within(self, weight: torch.Tensor) -> torch.Tensor:
        """The block's part of its module's weight, as ``[inputs, outputs]``."""
        if self.inputs_first:
            return weight[self.inputs, self.outputs]
        return weight[self.outputs, self.inputs].T


@dataclass(frozen=True)
class _Family:
    """A known way to name the modules of a layer; ``fused`` ones share one module."""

    name: str
    paths: Mapping[str, str]
    fused: str = ""
    conv1d: bool = False


_FAMILIES = (
    _Family(
        "GPT-2",
        {
            "value": "attn.c_attn",
            "output": "attn.c_proj",
            "query": "attn.c_attn",
            "key": "attn.c_attn",
            "mlp-up": "mlp.c_fc",
            "mlp-down": "mlp.c_proj",
        },
        fused="side by side",
        conv1d=True,
    ),
    _Family(
        "Llama, Mistral, Qwen2",
        {
            "value": "self_attn.v_proj",
            "output": "self_attn.o_proj",
            "query": "self_attn.q_proj",
            "key": "self_attn.k_proj",
            "mlp-up": "mlp.up_proj",
            "mlp-down": "mlp.down_proj",
            "mlp-gate": "mlp.gate_proj",
        },
    ),
    _Family(
        "OPT",
        {
            "value": "self_attn.v_proj",
            "output": "self_attn.out_proj",
            "query": "self_attn.q_proj",
            "key": "self_attn.k_proj",
            "mlp-up": "fc1",
            "mlp-down": "fc2",
        },
    ),
    _Family(
        "GPT-NeoX",
        {
            "value": "attention.query_key_value",
            "output": "attention.dense",
            "query": "attention.query_key_value",
            "key": "attention.query_key_value",
            "mlp-up": "mlp.dense_h_to_4h",
            "mlp-down": "mlp.dense_4h_to_h",
        },
        fused="in every head",
    ),
)

#: In which order fused modules have their kinds.
_FUSED = ("query", "key", "value")


def find_layout(model: torch.nn.Module) -> Layout:
    """Finds out from a model's modules and configuration where its projections are.

    GPT-2, the Llama family (Mistral, Qwen2, SmolLM), OPT and GPT-NeoX are known. Raises
    ``errors.Unsupported`` for other models; give :func:`observe` a :class:`Layout` for those.
    """
    for path, layers in model.named_modules():
        if not isinstance(layers, torch.nn.ModuleList) or len(layers) == 0:
            continue
        for family in _FAMILIES:
            if all(_fits(layer, family) for layer in layers):
                return _layout_of(model, family, path, layers[0])
    looked_for = "; ".join(
        f"{', '.join(dict.fromkeys(family.paths.values()))} ({family.name})"
        for family in _FAMILIES
    )
    raise errors.Unsupported(
        f"the projections of a {type(model).__name__} were not found: a list of layers was "
        f"looked for whose modules are {looked_for}; say where they are with layout=Layout(...)"
    )


def _fits(layer: torch.nn.Module, family: _Family) -> bool:
    modules = dict(layer.named_modules())
    found = [modules.get(path) for path in family.paths.values()]
    # Other models call Linear modules as GPT-2 calls its own, and order their outputs otherwise.
    return all(module is not None and _is_conv1d(module) == family.conv1d for module in found)


def _layout_of(
    model: torch.nn.Module, family: _Family, path: str, layer: torch.nn.Module
) -> Layout:
    config = getattr(model, "config", None)
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 1:
        raise errors.Unsupported(
            f"a {type(model).__name__} has the modules of {family.name}, but its config does not "
            "say num_attention_heads; say where its projections are with layout=Layout(...)"
        )
    shapes = {kind: _shape(layer.get_submodule(at), None) for kind, at in family.paths.items()}
    head_width = shapes["output"][0] // heads
    if family.fused and shapes["value"][1] != 3 * heads * head_width:
        raise errors.Unsupported(
            f"{family.paths['value']} of a {type(model).__name__} has {shapes['value'][1]} "
            f"outputs; queries, keys and values of {heads} heads would be "
            f"{3 * heads * head_width}: say where they are with layout=Layout(...)"
        )
    projections: Dict[str, Projection] = {}
    for kind, at in family.paths.items():
        place = _FUSED.index(kind) if family.fused and kind in _FUSED else 0
        if family.fused == "in every head" and kind in _FUSED:
            projections[kind] = Projection(at, place * head_width, 3 * head_width)
        else:
            projections[kind] = Projection(at, place * heads * head_width)
    key_value_heads = heads if family.fused else max(shapes["value"][1] // max(head_width, 1), 1)
    return Layout(path, projections, heads, head_width, key_value_heads)


def choose_blocks(
    choice: Union[str, Sequence[str]], model: torch.nn.Module, layout: Optional[Layout] = None
) -> List[Place]:
    """The blocks that a choice names: ``value@last4``, ``query,key@0..2``, or a list of names.

    The order is that of the kinds, then of layers, then of heads; a list keeps its own.
    """
    layout = find_layout(model) if layout is None else layout
    layers = _layers(model, layout)
    if isinstance(choice, str):
        names = _names(choice, layout, layers)
    else:
        names = [_parsed(name) for name in choice]
    if not names:
        raise errors.Empty("list of blocks is empty; give at least one")
    seen = set()
    for name in names:
        if name in seen:
            raise errors.DuplicateBlock(
                f"block {_written(name)} is named twice; name every block once"
            )
        seen.add(name)
    return [_place(model, layout, layers, *name) for name in names]


_Name = Tuple[str, int, Optional[int]]


def _written(name: _Name) -> str:
    kind, layer, head = name
    return f"{kind}.{layer}" if head is None else f"{kind}.{layer}.{head}"


def _layers(model: torch.nn.Module, layout: Layout) -> int:
    return len(list(_submodule(model, layout.layers, "the list of layers").children()))


def _names(choice: str, layout: Layout, layers: int) -> List[_Name]:
    kinds, at, chosen = choice.partition("@")
    if not at or "@" in chosen:
        raise errors.BadChoice(
            f"invalid blocks {json.dumps(choice)}: expected kinds, @ and layers, such as "
            "value@last4 or query,key@all"
        )
    span = _span(chosen, layers)
    names: List[_Name] = []
    for kind in (kind.strip() for kind in kinds.split(",")):
        _check_kind(kind, layout, kind)
        heads = layout.heads_of(kind)
        for layer in span:
            if heads is None:
                names.append((kind, layer, None))
            else:
                names.extend((kind, layer, head) for head in range(heads))
    return names


def _span(text: str, layers: int) -> range:
    bare = text.strip()
    last, pair = re.fullmatch(r"last(\d+)", bare), re.fullmatch(r"(\d+)\.\.(\d+)", bare)
    span = range(0)
    if bare == "all":
        span = range(layers)
    elif bare == "upper-half":
        span = range(layers // 2, layers)
    elif last:
        span = range(max(layers - int(last[1]), 0), layers)
    elif pair and int(pair[2]) <= layers:
        span = range(int(pair[1]), int(pair[2]))
    if not span:
        raise errors.BadLayers(
            f"invalid layers {json.dumps(text)}: expected all, upper-half, lastN with N from 1, or "
            f"A..B with A less than B and B at most {layers}"
        )
    return span


def _check_kind(kind: str, layout: Layout, block: str) -> None:
    if kind not in KINDS:
        raise errors.UnknownKind(
            f"unknown block kind {json.dumps(kind)}: for a model in PyTorch, expected one of "
            f"{', '.join(KINDS)}"
        )
    if kind in layout.projections:
        return
    if kind == "mlp-gate":
        raise errors.NoGate(
            f"block {block} does not exist: the model's MLP has no gate; take mlp-up or mlp-down"
        )
    raise errors.UnknownKind(
        f"block kind {json.dumps(kind)} is not in the layout, which has "
        f"{', '.join(layout.projections)}; add it there"
    )


def _parsed(name: str) -> _Name:
    found = re.fullmatch(r"([a-z-]+)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?", name)
    if found is None or (found[1] in KINDS and (found[1] in PER_HEAD) != (found[3] is not None)):
        raise errors.BadBlockName(
            f"invalid block {json.dumps(name)}: expected kind.layer.head such as value.5.3, "
            "or kind.layer for mlp-up, mlp-down and mlp-gate"
        )
    return (found[1], int(found[2]), None if found[3] is None else int(found[3]))


def _place(
    model: torch.nn.Module, layout: Layout, layers: int, kind: str, layer: int, head: Optional[int]
) -> Place:
    name = _written((kind, layer, head))
    _check_kind(kind, layout, name)
    heads = layout.heads_of(kind) or layout.heads
    if layer >= layers or (head is not None and head >= heads):
        raise errors.NoSuchBlock(
            f"block {name} does not exist: the model has {layers} layers with {heads} heads for "
            "this kind, counted from 0"
        )
    projection = layout.projections[kind]
    path = f"{layout.layers}.{layer}.{projection.path}"
    module = _submodule(model, path, f"the module of {name}")
    size = _shape(module, projection.inputs_first)
    inputs, outputs = slice(0, size[0]), slice(0, size[1])
    if head is not None:
        stride = layout.head_width if projection.stride is None else projection.stride
        first = projection.start + head * stride
        part = slice(first, first + layout.head_width)
        length = size[0] if kind == "output" else size[1]
        if part.stop > length or layout.head_width < 1:
            side = "inputs" if kind == "output" else "outputs"
            raise errors.Unsupported(
                f"block {name} would be the {side} {part.start} to {part.stop} of {path}, which "
                f"has {length}; check heads, head_width, start and stride of the layout"
            )
        inputs, outputs = (part, outputs) if kind == "output" else (inputs, part)
    inputs_first = _inputs_first(module, projection.inputs_first)
    mixed_by = None
    if kind in ("value", "key") and "output" in layout.projections:
        mixed_by = f"{layout.layers}.{layer}.{layout.projections['output'].path}"
    return Place(name, kind, layer, path, inputs, outputs, inputs_first, mixed_by)


def _submodule(model: torch.nn.Module, path: str, what: str) -> torch.nn.Module:
    try:
        return model.get_submodule(path)
    except AttributeError:
        raise errors.Unsupported(
            f"a {type(model).__name__} has no module {path}, where {what} was looked for; "
            "check the layout"
        ) from None


def _is_conv1d(module: torch.nn.Module) -> bool:
    # By name, so that transformers need not be imported for models that come from elsewhere.
    return type(module).__name__ == "Conv1D"


def _inputs_first(module: torch.nn.Module, said: Optional[bool]) -> bool:
    return _is_conv1d(module) if said is None else said


def _shape(module: torch.nn.Module, inputs_first: Optional[bool]) -> Tuple[int, int]:
    """Number of inputs and outputs of a module, or ``errors.Unsupported``."""
    weight = getattr(module, "weight", None)
    plain = isinstance(weight, torch.Tensor) and weight.dim() == 2 and weight.is_floating_point()
    known = isinstance(module, torch.nn.Linear) or _is_conv1d(module) or inputs_first is not None
    if not (isinstance(weight, torch.Tensor) and plain and known) or weight.is_meta:
        raise errors.Unsupported(
            f"a module {type(module).__module__}.{type(module).__qualname__} cannot be updated: it "
            "must be torch.nn.Linear or Conv1D with a matrix of floating-point weights in memory; "
            "load the model without quantisation and offloading, or say inputs_first in the layout"
        )
    rows, columns = weight.shape
    return (rows, columns) if _inputs_first(module, inputs_first) else (columns, rows)

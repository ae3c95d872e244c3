"""Running a model forward and backward without leaving a trace in it.

In: a model, prompts in tokens and the modules of interest. Out: predictions, and per module the two
factors of every derivative: what went into it, ``a_t``, and the adjoint of what came out, ``b_t``,
for each token. No gradient of a weight is formed, and nothing below the lowest module of interest
is differentiated.

Local adjoints are those of the last token alone, where the prediction is read. No token before it
sees it, so its row of the backward pass is the local one; values and keys reach it through the
attention of their layer, which is differentiated once more for that row.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import torch
from numpy.typing import NDArray

from .. import errors
from .prompts import Labels

#: How many tokens, padding included, are run at the same time unless told otherwise.
BATCH_TOKENS = 4096

#: By how much adjoints in float16, which has no numbers under 6e-8, are scaled on the way back.
_HALF_SCALE = 1024.0


class Factors(NamedTuple):
    """The derivative of one prediction for one module is ``Σ_t a_t b_tᵀ``."""

    inputs: torch.Tensor  # [tokens, inputs]
    adjoints: torch.Tensor  # [tokens, outputs]


@dataclass(frozen=True)
class Batch:
    """What one pass over some of the sequences gave."""

    sequences: List[int]
    predictions: torch.Tensor
    factors: Dict[str, List[Factors]]


#: For local adjoints: of every module the one that takes what attention mixes of its outputs, or
#: ``None`` where a token's output matters to no other token.
Local = Mapping[str, Optional[str]]

#: From the sequences of a batch and their predictions to the number that is differentiated.
Objective = Callable[[List[int], torch.Tensor], torch.Tensor]


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients of weights; afterwards both are as they were."""
    modes = [(module, module.training) for module in model.modules()]
    needing = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        model.eval()
        for parameter in needing:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter in needing:
            parameter.requires_grad_(True)


def wide(values: torch.Tensor) -> torch.Tensor:
    """In double precision; on the processor if the device has none."""
    if values.device.type == "mps":
        values = values.cpu()
    return values.double()


def predict(
    model: torch.nn.Module,
    sequences: Sequence[Sequence[int]],
    labels: Labels,
    batch_tokens: int = BATCH_TOKENS,
    steps: int = 0,
) -> NDArray[np.float64]:
    """The prediction of each sequence; the model's mode is the caller's business."""
    found = np.zeros(len(sequences))
    with torch.no_grad():
        for rows in _batches(sequences, batch_tokens):
            predictions = _forward(model, [sequences[row] for row in rows], labels)
            found[rows] = predictions.cpu().numpy()
    check_finite(found, steps)
    return found


def differentiate(
    model: torch.nn.Module,
    sequences: Sequence[Sequence[int]],
    labels: Labels,
    modules: Sequence[str],
    objective: Objective,
    batch_tokens: int = BATCH_TOKENS,
    local: Optional[Local] = None,
) -> Iterator[Batch]:
    """Runs all sequences, a bounded number of tokens at a time, forward and backward.

    Adjoints are whole, or those of the last token if ``local`` says how modules reach it.
    """
    for rows in _batches(sequences, batch_tokens):
        part = [sequences[row] for row in rows]
        of_part = functools.partial(objective, rows)
        yield Batch(rows, *_pass(model, part, labels, modules, of_part, local))


def _pass(
    model: torch.nn.Module,
    sequences: Sequence[Sequence[int]],
    labels: Labels,
    modules: Sequence[str],
    objective: Callable[[torch.Tensor], torch.Tensor],
    local: Optional[Local],
) -> Tuple[torch.Tensor, Dict[str, List[Factors]]]:
    """One batch forward and backward: predictions, and the factors of every module."""
    mixers = [path for path in dict.fromkeys((local or {}).values()) if path is not None]
    lengths = [len(tokens) for tokens in sequences]
    with contextlib.ExitStack() as hooks:
        hooks.enter_context(torch.enable_grad())
        inputs, taps = hooks.enter_context(_taps(model, modules))
        mixed = hooks.enter_context(_inputs_of(model, mixers))
        predictions = _forward(model, sequences, labels)
        scale = _scale(taps)
        total = objective(predictions) * scale
        unused = [path for path in modules if path not in taps]
        unused += [path for path in mixers if path not in mixed]
        if unused:
            raise errors.Unsupported(
                f"module {unused[0]} was not used when the model ran; check the layout"
            )
        if not total.requires_grad:
            raise errors.Unsupported(
                f"the predictions of a {type(model).__name__} cannot be differentiated for "
                "the outputs of its projections; it must not detach them or run under no_grad"
            )
        tensors = [taps[path] for path in modules] + [mixed[path] for path in mixers]
        found = _adjoints(total, tensors, needed_again=bool(mixers))
        adjoints, of_mixed = dict(zip(modules, found)), dict(zip(mixers, found[len(modules) :]))
        factors: Dict[str, List[Factors]] = {}
        for path in modules:
            mixer = None if local is None else local[path]
            adjoint = adjoints[path]
            if mixer is not None:
                last = _last_row(of_mixed[mixer], lengths)
                adjoint = _through_attention(mixed[mixer], taps[path], last)
            if scale != 1.0:
                adjoint = adjoint.float() / scale
            pairs = _split(inputs[path], adjoint, lengths)
            if local is not None and mixer is None:
                pairs = [Factors(pair.inputs[-1:], pair.adjoints[-1:]) for pair in pairs]
            factors[path] = pairs
    return predictions.detach(), factors


def _adjoints(
    total: torch.Tensor, tensors: Sequence[torch.Tensor], needed_again: bool
) -> List[torch.Tensor]:
    """The derivatives of a number; zeros for what it does not depend on."""
    found: Sequence[Optional[torch.Tensor]] = torch.autograd.grad(
        total, list(tensors), allow_unused=True, retain_graph=needed_again
    )
    return [
        torch.zeros_like(tensor) if one is None else one for tensor, one in zip(tensors, found)
    ]


def _through_attention(
    mixed: torch.Tensor, tap: torch.Tensor, adjoint: torch.Tensor
) -> torch.Tensor:
    """The adjoints of values and keys, from that of what attention makes of them in their layer."""
    (found,) = torch.autograd.grad(
        mixed, tap, grad_outputs=adjoint, allow_unused=True, retain_graph=True
    )
    return torch.zeros_like(tap) if found is None else found


def _last_row(adjoint: torch.Tensor, lengths: List[int]) -> torch.Tensor:
    """An adjoint with zeros for every token but the last one of each sequence."""
    by_row = adjoint.reshape(len(lengths), max(lengths), -1)
    kept = torch.zeros_like(by_row)
    for row, length in enumerate(lengths):
        kept[row, length - 1] = by_row[row, length - 1]
    return kept.reshape(adjoint.shape)


def check_finite(predictions: NDArray[np.float64], steps: int) -> None:
    """Raises ``errors.NotFinite`` for the first prediction that is no number."""
    wrong = np.flatnonzero(~np.isfinite(predictions))
    if wrong.size:
        raise errors.NotFinite(
            f"prediction {wrong[0]} is not finite after {steps} steps; take a smaller step size, "
            "or check the model's weights if no step was taken"
        )


def _batches(sequences: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[List[int]]:
    """Sequences of similar length together, so that little is padded."""
    if batch_tokens < 1:
        raise errors.OutOfRange(f"batch_tokens is {batch_tokens}; it must be at least 1")
    rows: List[int] = []
    longest = 0
    for row in sorted(range(len(sequences)), key=lambda row: -len(sequences[row])):
        longest = longest or len(sequences[row])
        if rows and (len(rows) + 1) * longest > batch_tokens:
            yield rows
            rows, longest = [], len(sequences[row])
        rows.append(row)
    if rows:
        yield rows


def _forward(
    model: torch.nn.Module, sequences: Sequence[Sequence[int]], labels: Labels
) -> torch.Tensor:
    """``s_i = Σ_j value_j softmax(label logits)_j`` after the last token of each sequence."""
    device = _device(model)
    lengths = torch.tensor([len(tokens) for tokens in sequences], device=device)
    longest = int(lengths.max())
    # Padding stands behind, where no token of a causal model sees it, and is a token of the text,
    # so that it is in every vocabulary.
    padded = [list(tokens) + [tokens[-1]] * (longest - len(tokens)) for tokens in sequences]
    ids = torch.tensor(padded, device=device)
    positions, which = torch.unique(lengths - 1, return_inverse=True)
    options: Dict[str, Any] = {
        "attention_mask": (torch.arange(longest, device=device) < lengths[:, None]).long(),
        "use_cache": False,
        "logits_to_keep": positions,
    }
    known = inspect.signature(model.forward).parameters
    output = model(ids, **{name: value for name, value in options.items() if name in known})
    logits = getattr(output, "logits", None)
    if logits is None:
        logits = output[0] if isinstance(output, (tuple, list)) else output
    if not isinstance(logits, torch.Tensor) or logits.dim() != 3:
        raise errors.Unsupported(
            f"a {type(model).__name__} does not return logits per token; it must be a causal "
            "language model"
        )
    at = which if logits.shape[1] == len(positions) else lengths - 1
    rows = torch.arange(len(sequences), device=logits.device)
    tokens = torch.tensor(labels.tokens, device=logits.device)
    chosen = logits[rows, at.to(logits.device)][:, tokens]
    shares = torch.softmax(wide(chosen), dim=-1)
    return shares @ torch.tensor(labels.values, dtype=shares.dtype, device=shares.device)


def _device(model: torch.nn.Module) -> torch.device:
    """Where the model takes its tokens."""
    embeddings = getattr(model, "get_input_embeddings", None)
    found = embeddings() if callable(embeddings) else None
    weight = getattr(found, "weight", None)
    if isinstance(weight, torch.Tensor):
        return weight.device
    return next(iter(model.parameters())).device


@contextlib.contextmanager
def _taps(
    model: torch.nn.Module, modules: Sequence[str]
) -> Iterator[Tuple[Dict[str, torch.Tensor], Dict[str, torch.Tensor]]]:
    """Keeps what goes into modules, and adds zeros to what comes out.

    The derivative for the zeros is the adjoint of the output. A module's own output may be
    overwritten by what comes after it; the zeros cannot, and since no weight needs a gradient,
    the graph begins at the lowest of them.
    """
    inputs: Dict[str, torch.Tensor] = {}
    taps: Dict[str, torch.Tensor] = {}

    def hook(path: str) -> Callable[..., torch.Tensor]:
        def keep(
            module: torch.nn.Module,
            arguments: Tuple[Any, ...],
            named: Dict[str, Any],
            output: torch.Tensor,
        ) -> torch.Tensor:
            if path in taps:
                raise errors.Unsupported(
                    f"module {path} is used more than once in a pass; it cannot be updated"
                )
            given = arguments[0] if arguments else next(iter(named.values()))
            inputs[path] = given.detach()
            # One number that looks like many: no memory of its own.
            zeros = torch.zeros((), dtype=output.dtype, device=output.device)
            taps[path] = zeros.expand(output.shape).requires_grad_()
            return output + taps[path]

        return keep

    handles = []
    try:
        for path in modules:
            module = model.get_submodule(path)
            handles.append(module.register_forward_hook(hook(path), with_kwargs=True))
        yield inputs, taps
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _inputs_of(
    model: torch.nn.Module, modules: Sequence[str]
) -> Iterator[Dict[str, torch.Tensor]]:
    """Keeps what goes into modules, as a part of the graph."""
    inputs: Dict[str, torch.Tensor] = {}

    def hook(path: str) -> Callable[..., None]:
        def keep(
            module: torch.nn.Module, arguments: Tuple[Any, ...], named: Dict[str, Any]
        ) -> None:
            inputs[path] = arguments[0] if arguments else next(iter(named.values()))

        return keep

    handles = []
    try:
        for path in modules:
            module = model.get_submodule(path)
            handles.append(module.register_forward_pre_hook(hook(path), with_kwargs=True))
        yield inputs
    finally:
        for handle in handles:
            handle.remove()


def _scale(taps: Dict[str, torch.Tensor]) -> float:
    half = any(tap.dtype == torch.float16 for tap in taps.values())
    return _HALF_SCALE if half else 1.0


def _split(inputs: torch.Tensor, adjoint: torch.Tensor, lengths: List[int]) -> List[Factors]:
    """One pair per sequence, without padding; some models merge the two leading axes."""
    rows, longest = len(lengths), max(lengths)
    inputs = inputs.reshape(rows, longest, -1)
    adjoint = adjoint.reshape(rows, longest, -1)
    return [
        Factors(inputs[row, :length], adjoint[row, :length]) for row, length in enumerate(lengths)
    ]

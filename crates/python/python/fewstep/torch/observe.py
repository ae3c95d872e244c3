"""Observing a model in PyTorch: one forward and one backward pass over a task, and no choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray

import fewstep

from .. import errors
from .kernels import kernels
from .layouts import Layout, Place, choose_blocks
from .passes import BATCH_TOKENS, Factors, Local, check_finite, differentiate, undisturbed
from .prompts import Prompts, Settings, Writer, read_task


@dataclass(frozen=True, eq=False)
class Observation:
    """What a task looks like to an update of a model.

    ================ =====================================================================
    name             meaning
    ================ =====================================================================
    blocks           names of the candidate blocks, ``value.5.3`` or ``mlp-up.5``
    predictions      ``s_i``: the prediction of each leave-one-out prompt
    residuals        ``r_i = y_i − s_i``: what is missing to the examples' answers
    query_prediction the prediction for the query, with all examples shown
    kernels          per block ``K_ij``, the inner products of the predictions' derivatives
    couplings        per block those with the derivative of the query's prediction
    query_variances  per block the latter's own
    parameters       per block the number of its weights
    policy           what :func:`decide` starts from: the policy that it was observed by
    ================ =====================================================================

    ``geometry`` has the same numbers as a ``fewstep.Geometry``, for ``fewstep.decide``.
    """

    blocks: Tuple[str, ...]
    predictions: NDArray[np.float64]
    residuals: NDArray[np.float64]
    query_prediction: float
    kernels: Dict[str, NDArray[np.float64]] = field(repr=False)
    couplings: Dict[str, NDArray[np.float64]] = field(repr=False)
    query_variances: Dict[str, float] = field(repr=False)
    parameters: Dict[str, int] = field(repr=False)
    policy: "fewstep.Policy" = field(repr=False)
    writer: Writer = field(repr=False)
    prompts: Prompts = field(repr=False)
    places: Tuple[Place, ...] = field(repr=False)
    batch_tokens: int = field(repr=False)

    @property
    def geometry(self) -> "fewstep.Geometry":
        """Residuals and answers, and per block its kernel, coupling and query variance."""
        blocks = [
            fewstep.Block(
                place.name,
                self.kernels[place.name],
                self.couplings[place.name],
                self.query_variances[place.name],
                parameters=self.parameters[place.name],
                layer=place.layer,
            )
            for place in self.places
        ]
        return fewstep.Geometry(self.residuals, blocks).with_answers(self._answers())

    def _answers(self) -> "fewstep.Answers":
        """Which answers are alike, and how far predictions can move within the labels' range."""
        targets, values = self.prompts.targets, self.prompts.labels.values
        labels = [targets.index(target) for target in targets]
        return fewstep.Answers(labels, self.predictions, (min(values), max(values)))


def observe(
    model: torch.nn.Module,
    tokenizer: Any,
    task: Any,
    blocks: Union[str, Sequence[str], None] = None,
    *,
    policy: Any = "default",
    loo_order: str = "original",
    bos: str = "auto",
    layout: Optional[Layout] = None,
    batch_tokens: int = BATCH_TOKENS,
    **overrides: Any,
) -> Observation:
    """Looks at a task: base predictions, residuals and the kernels of the candidate blocks.

    One forward and one backward pass over the prompts serve all blocks and the query. The model is
    as before afterwards: its mode, its weights, and whether they need gradients.

    ============ =============== ===========================================================
    name         default         meaning
    ============ =============== ===========================================================
    model        —               a causal language model of ``transformers``, or any module
                                 that returns logits per token
    tokenizer    —               its tokenizer
    task         —               a dictionary with the fields of the tool's JSON, or a
                                 ``fewstep.Task``
    blocks       the policy's    candidate blocks: kinds, ``@`` and layers, or a list of names
    policy       ``default``     a ``fewstep.Policy``, ``default``, ``paper``, or a dictionary
                                 with the fields of its JSON
    loo_order    ``original``    how a leave-one-out prompt orders the others, or ``tree``
    bos          ``auto``        whether a token is put before every prompt: ``auto`` as the
                                 tokenizer does, ``always`` or ``never``
    layout       found           where the projections are, for models that are not known
    batch_tokens 4096            the number of tokens, padding included, run at the same time
    overrides    —               ``select``, ``budget``, ``horizon``, ``horizons``,
                                 ``step_scale``, ``dynamics``, ``coverage``, ``adjoint`` and
                                 ``seed``: each changes only what it names of the policy
    ============ =============== ===========================================================

    Derivatives are whole, or the terms of the token where a prediction is read, as the policy's
    ``adjoint`` says. Of ``residuals`` and ``shots`` a model in PyTorch takes ``leave-one-out`` and
    as many as fit; others are refused.
    """
    if isinstance(blocks, str):
        overrides["blocks"], blocks = blocks, None
    chosen = fewstep.Policy.of(policy).with_overrides(**overrides)
    _check_supported(chosen)
    places = choose_blocks(chosen.blocks if blocks is None else blocks, model, layout)
    local = local_of(chosen, places)
    writer = Writer(read_task(task), tokenizer, _settings(model, tokenizer, loo_order, bos))
    prompts = writer.prompts()
    sequences = [*prompts.leave_one_out, prompts.query]
    modules = list(dict.fromkeys(place.module for place in places))
    predictions = np.zeros(len(sequences))
    found: Dict[str, Dict[int, Factors]] = {path: {} for path in modules}
    with undisturbed(model):
        for batch in differentiate(
            model,
            sequences,
            prompts.labels,
            modules,
            lambda _, predictions: predictions.sum(),
            batch_tokens,
            local,
        ):
            predictions[batch.sequences] = batch.predictions.cpu().numpy()
            for path in modules:
                found[path].update(zip(batch.sequences, batch.factors[path]))
    check_finite(predictions, 0)
    # Batches are sorted by length; kernels are in the order of the examples.
    factors = {path: [pairs[row] for row in range(len(sequences))] for path, pairs in found.items()}
    n = len(prompts.targets)
    whole = dict(zip((place.name for place in places), kernels(places, factors)))
    return Observation(
        blocks=tuple(whole),
        predictions=predictions[:n],
        residuals=np.array(prompts.targets) - predictions[:n],
        query_prediction=float(predictions[n]),
        kernels={name: kernel[:n, :n] for name, kernel in whole.items()},
        couplings={name: kernel[n, :n] for name, kernel in whole.items()},
        query_variances={name: float(kernel[n, n]) for name, kernel in whole.items()},
        parameters={place.name: place.shape[0] * place.shape[1] for place in places},
        policy=chosen,
        writer=writer,
        prompts=prompts,
        places=tuple(places),
        batch_tokens=batch_tokens,
    )


def _check_supported(policy: "fewstep.Policy") -> None:
    """Refuses what only the tool's own models may be asked for."""
    rule, most = policy.residuals["rule"], policy.shots["most"]
    for field, found, allowed in (
        ("residuals", rule, "leave-one-out"),
        ("shots", "as many as fit" if most is None else most, "as many as fit"),
    ):
        if found != allowed:
            error = errors.Policy(
                f"{field} is {found}; it must be {allowed}: the prompts of models in PyTorch are "
                "written no other way"
            )
            error.field = field
            raise error


def local_of(policy: "fewstep.Policy", places: Sequence[Place]) -> Optional[Local]:
    """How the modules of blocks reach the last token, or None for whole adjoints."""
    if policy.adjoint == "whole":
        return None
    local: Dict[str, Optional[str]] = {}
    for place in places:
        if place.kind in ("value", "key") and place.mixed_by is None:
            raise errors.Unsupported(
                f"block {place.name} cannot be observed by local adjoints without the layout's "
                "output projection: add output to the layout, choose other kinds than value and "
                "key, or take adjoint whole"
            )
        local[place.module] = place.mixed_by or local.get(place.module)
    return local


def _settings(model: torch.nn.Module, tokenizer: Any, loo_order: str, bos: str) -> Settings:
    config = getattr(model, "config", None)
    token = getattr(config, "bos_token_id", None)
    if token is None:
        token = getattr(tokenizer, "bos_token_id", None)
    vocabulary = getattr(config, "vocab_size", None)
    if token is not None and vocabulary is not None and token >= vocabulary:
        token = None
    return Settings(loo_order, bos, token, getattr(config, "max_position_embeddings", None))

"""Acting on a model in PyTorch: gradient steps on the examples, for as long as a ``with`` block."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union, overload

import numpy as np
import torch
from numpy.typing import NDArray

from .. import errors
from .decision import Decision, Plan, decide
from .export import export_peft
from .layouts import Place
from .observe import Observation, local_of
from .passes import check_finite, differentiate, predict, undisturbed
from .prompts import Writer, read_task

_Update = Dict[str, torch.Tensor]


class Adapted:
    """A model that was adapted to a task, inside its ``with`` block.

    =============== =======================================================================
    name            meaning
    =============== =======================================================================
    model           the model, which holds the updated weights until the block ends
    prediction      its prediction for the query
    base_prediction that without the update
    losses          ``½ Σ_i (y_i − s_i)²`` before each step; empty if no step was taken
    update          per updated block its change, ``[inputs, outputs]``
    =============== =======================================================================
    """

    def __init__(self, model: torch.nn.Module, plan: Plan) -> None:
        self.model = model
        self.base_prediction = plan.observation.query_prediction
        self.prediction = self.base_prediction
        self.losses: List[float] = []
        self.update: _Update = {}
        self._plan = plan
        self._open = True
        self._places = [place for place in plan.observation.places if place.name in plan.blocks]
        self._shapes = {place.module: _shape(model, place) for place in self._places}

    @overload
    def predict(self, what: str) -> float: ...

    @overload
    def predict(self, what: Union[List[str], Tuple[str, ...]]) -> NDArray[np.float64]: ...

    @overload
    def predict(self, what: Any) -> Any: ...

    def predict(self, what: Any) -> Any:
        """Predicts further queries: inputs for the same examples, or a task with its own.

        A text is one further input and gives a number, a list of texts an array; a task (a
        dictionary or a ``fewstep.Task``) gives the prediction for its query.
        """
        if not self._open:
            raise errors.Closed(
                "the model is no longer adapted: its weights were restored; predict inside the "
                "with block"
            )
        observation = self._plan.observation
        writer, labels = observation.writer, observation.prompts.labels
        if isinstance(what, str) or (
            isinstance(what, (list, tuple)) and all(isinstance(text, str) for text in what)
        ):
            texts = [what] if isinstance(what, str) else what
            sequences = [writer.query(text) for text in texts]
        else:
            prompts = Writer(read_task(what), writer.tokenizer, writer.settings).prompts()
            sequences, labels = [prompts.query], prompts.labels
        with undisturbed(self.model):
            found = predict(self.model, sequences, labels, observation.batch_tokens)
        return found if isinstance(what, (list, tuple)) else float(found[0])

    def export_peft(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the update as a LoRA adapter that the package PEFT loads; also after the block.

        ``path`` is a directory, which is made if it is missing.
        """
        if not self._places:
            raise errors.NothingToSave("no block was chosen; there is no update to save")
        update = dict(self.update)
        for place in self._places:
            update.setdefault(place.name, torch.zeros(place.shape))
        name = getattr(getattr(self.model, "config", None), "_name_or_path", "") or None
        export_peft(path, self._places, update, self._shapes, name)


@contextlib.contextmanager
def adapted(
    model: torch.nn.Module,
    decision: Any,
    observation: Optional[Observation] = None,
    *,
    policy: Any = None,
    **overrides: Any,
) -> Iterator[Adapted]:
    """Adapts a model as decided, for as long as a ``with`` block.

    ``decision`` comes from :func:`decide`, or is a :class:`Plan`, or a ``fewstep.Decision`` together
    with the ``observation`` it was made for; or it is an :class:`Observation`, on which
    ``policy`` and ``overrides`` decide as in :func:`decide`. Real full-batch gradient steps on
    ``½ Σ_i (y_i − s_i)²`` over the leave-one-out prompts update the chosen blocks and nothing else,
    along whole or local derivatives as observed, whatever the policy's dynamics: the linearised
    model needs no other weights, it is
    ``observation.query_prediction + decision.query.correction``. Inside the block the model holds
    the updated weights, rounded to its own precision; when the block ends, by an exception or not,
    they are what they were, bit for bit.
    """
    if isinstance(decision, Observation):
        decision = decide(decision, policy=policy, **overrides)
    elif policy is not None or overrides:
        raise errors.WrongType(
            f"a {type(decision).__name__} was decided already; give a policy to decide, or an "
            "observation here"
        )
    plan = _plan_of(decision, observation)
    names = {path for path, _ in model.named_modules()}
    for place in plan.observation.places:
        if place.module not in names:
            raise errors.Unsupported(
                f"a {type(model).__name__} has no module {place.module}, where {place.name} was "
                "observed; give the model that was observed"
            )
    result = Adapted(model, plan)
    with _restored(model, result._places) as originals:
        try:
            with undisturbed(model):
                _act(model, plan, result, originals)
            yield result
        finally:
            result._open = False


def _plan_of(decision: Any, observation: Optional[Observation]) -> Plan:
    if isinstance(decision, Plan):
        return decision
    if isinstance(decision, Decision):
        return decision.plan
    if observation is None:
        raise errors.WrongType(
            f"a {type(decision).__name__} does not say what was observed; take "
            "fewstep.torch.decide(observation, ...), or give observation="
        )
    return Decision(observation, decision).plan


def _shape(model: torch.nn.Module, place: Place) -> Tuple[int, int]:
    rows, columns = _weight(model, place.module).shape
    return (rows, columns) if place.inputs_first else (columns, rows)


def _weight(model: torch.nn.Module, path: str) -> torch.Tensor:
    weight = model.get_submodule(path).weight
    assert isinstance(weight, torch.Tensor)
    return weight


@contextlib.contextmanager
def _restored(
    model: torch.nn.Module, places: Sequence[Place]
) -> Iterator[Dict[str, torch.Tensor]]:
    """Copies of the weights that may be touched, which are written back at the end."""
    originals = {place.module: _weight(model, place.module).detach().clone() for place in places}
    try:
        yield originals
    finally:
        with torch.no_grad():
            for path, original in originals.items():
                _weight(model, path).copy_(original)


def _act(
    model: torch.nn.Module, plan: Plan, result: Adapted, originals: Dict[str, torch.Tensor]
) -> None:
    """Carries out a plan: the model's weights, and what is said about them."""
    steps = max([steps for steps, _ in plan.horizons], default=0)
    if plan.example_weights is not None:
        update, _ = _gradient(model, plan, result._places, plan.example_weights, 0)
    elif steps > 0:
        update = _averaged(model, plan, result, originals)
    else:
        return
    _write(model, result._places, originals, update)
    result.update = update
    prompts = plan.observation.prompts
    found = predict(model, [prompts.query], prompts.labels, steps=steps)
    result.prediction = float(found[0])


def _averaged(
    model: torch.nn.Module, plan: Plan, result: Adapted, originals: Dict[str, torch.Tensor]
) -> _Update:
    """``Σ_T w_T θ_T``: the average of where gradient steps lead."""
    places = result._places
    update = {place.name: _zeros(place, originals[place.module]) for place in places}
    average = {name: torch.zeros_like(change) for name, change in update.items()}
    taken = 0
    for horizon, weight in plan.horizons:
        while taken < horizon:
            if taken > 0:
                _write(model, places, originals, update)
            slopes, loss = _gradient(model, plan, places, None, taken)
            result.losses.append(loss)
            for name, slope in slopes.items():
                update[name] += plan.step_size * slope
            taken += 1
        for name, change in update.items():
            average[name] += weight * change
    return average


def _gradient(
    model: torch.nn.Module,
    plan: Plan,
    places: Sequence[Place],
    weights: Optional[Sequence[float]],
    steps: int,
) -> Tuple[_Update, float]:
    """``Σ_i w_i ∂s_i/∂θ`` per block, with the residuals for weights unless given; and the loss."""
    observation = plan.observation
    prompts = observation.prompts
    targets = np.array(prompts.targets)
    update: _Update = {}
    loss = 0.0

    def objective(rows: List[int], predictions: torch.Tensor) -> torch.Tensor:
        nonlocal loss
        found = predictions.detach().cpu().numpy()
        check_finite(found, steps)
        residuals = targets[rows] - found
        loss += 0.5 * float(residuals @ residuals)
        chosen = residuals if weights is None else np.array(weights)[rows]
        return predictions @ torch.as_tensor(
            chosen, dtype=predictions.dtype, device=predictions.device
        )

    modules = list(dict.fromkeys(place.module for place in places))
    for batch in differentiate(
        model,
        prompts.leave_one_out,
        prompts.labels,
        modules,
        objective,
        observation.batch_tokens,
        local_of(observation.policy, places),
    ):
        for path in modules:
            inputs = torch.cat([pair.inputs for pair in batch.factors[path]])
            adjoints = torch.cat([pair.adjoints for pair in batch.factors[path]])
            kept = _kept(_weight(model, path))
            for place in (place for place in places if place.module == path):
                slope = inputs[:, place.inputs].to(kept).T @ adjoints[:, place.outputs].to(kept)
                update[place.name] = update[place.name] + slope if place.name in update else slope
    return update, loss


def _kept(weight: torch.Tensor) -> torch.dtype:
    """In which precision an update is kept: that of the weights, and at least single."""
    return torch.float64 if weight.dtype == torch.float64 else torch.float32


def _zeros(place: Place, weight: torch.Tensor) -> torch.Tensor:
    return torch.zeros(place.shape, dtype=_kept(weight), device=weight.device)


def _write(
    model: torch.nn.Module,
    places: Sequence[Place],
    originals: Dict[str, torch.Tensor],
    update: _Update,
) -> None:
    """``W = W₀ + θ``, rounded once."""
    with torch.no_grad():
        for place in places:
            change = update[place.name]
            original = place.within(originals[place.module])
            place.within(_weight(model, place.module)).copy_(original.to(change.dtype) + change)

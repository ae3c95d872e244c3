"""From an observation to what is to be done with the model.

:func:`decide` asks ``fewstep.decide`` and keeps the observation beside the answer, so that
:func:`adapted` needs nothing else. A :class:`Plan` is the part of a decision that acts; it can also
be written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

import fewstep

from .. import errors
from .observe import Observation

#: Numbers of steps whose share of an average is smaller than this are not worth taking.
_NOT_WORTH = 0.01


@dataclass(frozen=True, eq=False)
class Plan:
    """Which blocks to update, and how.

    =============== =======================================================================
    name            meaning
    =============== =======================================================================
    observation     what was observed
    blocks          the blocks to update, among the observed ones
    step_size       ``ρ``: the size of a gradient step
    horizons        pairs of a number of steps and its weight, ascending; the update is the
                    average of where these numbers of steps lead
    example_weights instead of steps, one update ``Σ_i w_i ∂s_i/∂θ``
    =============== =======================================================================
    """

    observation: Observation
    blocks: Tuple[str, ...]
    step_size: float = 0.0
    horizons: Tuple[Tuple[int, float], ...] = ()
    example_weights: Optional[Tuple[float, ...]] = None

    def __post_init__(self) -> None:
        for name in self.blocks:
            if name not in self.observation.blocks:
                raise errors.BlockNotOnTape(f"block {name} was not observed; name it then")
        if self.horizons and not 0.0 < self.step_size < float("inf"):
            raise errors.OutOfRange(
                f"step size is {self.step_size}; it must be finite and over 0"
            )
        counts = [steps for steps, _ in self.horizons]
        if counts != sorted(set(counts)) or any(steps < 0 for steps in counts):
            raise errors.OutOfRange(
                f"numbers of steps are {counts}; they must be from 0 on and ascending"
            )
        given = self.example_weights
        expected = len(self.observation.residuals)
        if given is not None and len(given) != expected:
            raise errors.SizeMismatch(
                f"example weights has {len(given)} entries; it must have {expected}"
            )

    @classmethod
    def steps(
        cls,
        observation: Observation,
        step_size: float,
        horizon: int,
        blocks: Optional[Sequence[str]] = None,
    ) -> "Plan":
        """A number of gradient steps on some of the observed blocks, or on all."""
        names = observation.blocks if blocks is None else tuple(blocks)
        return cls(observation, names, step_size, ((horizon, 1.0),))


class Decision:
    """What was decided for a task, together with what was observed.

    ``decision`` is the ``fewstep.Decision``; its parts (``policy``, ``when``, ``how_far``, ``which``,
    …) can be read here, too. ``plan`` is what :func:`adapted` carries out.
    """

    def __init__(self, observation: Observation, decision: "fewstep.Decision") -> None:
        self.observation = observation
        self.decision = decision
        self.plan = _plan(observation, decision)

    def __getattr__(self, name: str) -> Any:
        if name == "decision":  # not there yet: asked for while it is being made or copied
            raise AttributeError(name)
        return getattr(self.decision, name)

    def __str__(self) -> str:
        return str(self.decision)

    def __repr__(self) -> str:
        return f"Decision({self.decision!r})"


def decide(observation: Observation, *, policy: Any = None, **overrides: Any) -> Decision:
    """Decides when, how far and with which blocks to adapt, as ``fewstep.decide`` does.

    Without ``policy`` it is that of the observation. ``overrides`` are the keywords of
    ``fewstep.decide``; each changes only what it names. How the task was looked at stays as observed.

    ``decide(observation, horizon="evidence", select="query-aware", budget=8)``
    """
    start = observation.policy if policy is None else policy
    return Decision(observation, fewstep.decide(observation.geometry, policy=start, **overrides))


def _plan(observation: Observation, decision: "fewstep.Decision") -> Plan:
    """What the tool's own engine would do for a decision."""
    expected, found = len(observation.residuals), decision.block.examples
    if found != expected:
        raise errors.SizeMismatch(
            f"the decision has {found} examples; the observation has {expected}"
        )
    blocks = tuple(decision.which.blocks[index].name for index in decision.which.selected)
    kind = decision.plan.kind
    chosen: Any = decision.plan.filter
    if kind == "none":
        return Plan(observation, blocks)
    step_size = float(decision.how_far.step_size)
    if kind == "steps":
        return Plan(observation, blocks, step_size, ((int(chosen.horizon), 1.0),))
    if kind == "averaged-steps":
        return Plan(observation, blocks, step_size, _worth_taking(chosen.parts))
    # No number of steps gives what is left: a filter's update is one of the examples' derivatives.
    weights = chosen.example_weights(decision.spectrum, observation.residuals)
    return Plan(observation, blocks, example_weights=tuple(np.asarray(weights).tolist()))


def _worth_taking(parts: Sequence[Tuple[float, Any]]) -> Tuple[Tuple[int, float], ...]:
    """Numbers of steps with their weights; the last ones give theirs up if they hardly count."""
    weights: List[Tuple[int, float]] = sorted(
        (int(part.horizon), float(weight)) for weight, part in parts
    )
    beyond = 0.0
    while len(weights) > 1 and beyond + weights[-1][1] < _NOT_WORTH:
        beyond += weights.pop()[1]
    steps, last = weights[-1]
    return (*weights[:-1], (steps, last + beyond))

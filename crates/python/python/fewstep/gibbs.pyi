from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import numpy
from numpy.typing import ArrayLike, NDArray

from ._native import Mixture, StepSize

@final
class GibbsPosterior:
    def __new__(
        cls,
        horizons: Iterable[int],
        evidence: ArrayLike,
        examples: int,
        inverse_temperature: float,
    ) -> GibbsPosterior: ...
    @classmethod
    def with_prior(
        cls,
        horizons: Iterable[int],
        prior: ArrayLike,
        evidence: ArrayLike,
        examples: int,
        inverse_temperature: float,
    ) -> GibbsPosterior: ...
    @property
    def horizons(self) -> list[int]: ...
    @property
    def prior(self) -> NDArray[numpy.float64]: ...
    @property
    def weights(self) -> NDArray[numpy.float64]: ...
    def map(self) -> int: ...
    def mean_horizon(self) -> float: ...
    def expectation(self, values: ArrayLike) -> float: ...
    def relative_entropy(self) -> float: ...
    def average(self, step: StepSize) -> Mixture: ...
    def to_dict(self) -> dict[str, Any]: ...

def relative_entropy(weights: ArrayLike, prior: ArrayLike) -> float: ...

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, final

import numpy
from numpy.typing import ArrayLike, NDArray

from ._native import StepSize
from .evidence import HorizonChoice

_Averaging = Literal["plain", "trimmed", "median", "balanced", "query-weighted"]

@final
class Interval:
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class LeaveOneOut:
    def __new__(
        cls,
        kernel: ArrayLike,
        residuals: ArrayLike,
        step: StepSize,
        candidates: Iterable[int],
        coupling: ArrayLike | None = None,
    ) -> LeaveOneOut: ...
    @property
    def candidates(self) -> list[int]: ...
    @property
    def errors(self) -> NDArray[numpy.float64]: ...
    def risk(self, averaging: _Averaging) -> NDArray[numpy.float64]: ...
    def choose(self, averaging: _Averaging, gate: float) -> HorizonChoice: ...
    def posterior(
        self, averaging: _Averaging, sharpness: float, odds: float
    ) -> NDArray[numpy.float64]: ...
    def interval(self, candidate: int, coverage: float) -> Interval: ...
    def interval_of_average(self, weights: ArrayLike, coverage: float) -> Interval: ...

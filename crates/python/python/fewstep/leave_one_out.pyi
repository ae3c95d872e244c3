from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, final

import numpy
from numpy.typing import ArrayLike, NDArray

from ._native import Answers, Interval, StepSize
from .evidence import HorizonChoice

_Averaging = Literal["plain", "trimmed", "median", "by-label", "query-weighted"]

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
    @classmethod
    def from_errors(cls, candidates: Iterable[int], errors: ArrayLike) -> LeaveOneOut: ...
    def with_answers(self, residuals: ArrayLike, answers: Answers) -> LeaveOneOut: ...
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

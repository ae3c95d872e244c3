from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, final

import numpy
from numpy.typing import ArrayLike, NDArray

from ._native import Benchmark, Spectrum, StepSize
from .evidence import HorizonChoice

@final
class SignalFit:
    def __new__(cls, spectrum: Spectrum, residuals: ArrayLike) -> SignalFit: ...
    @classmethod
    def at(
        cls,
        spectrum: Spectrum,
        residuals: ArrayLike,
        signal_variance: float,
        noise_variance: float,
    ) -> SignalFit: ...
    @property
    def signal_variance(self) -> float: ...
    @property
    def noise_variance(self) -> float: ...
    @property
    def evidence(self) -> float: ...
    @property
    def edge(self) -> Literal["no-signal", "no-noise"] | None: ...
    def noise_to_signal(self) -> float: ...
    def benchmark(self, residuals: ArrayLike) -> Benchmark: ...
    def bayes_gap_horizon(
        self,
        spectrum: Spectrum,
        coupling: ArrayLike,
        step: StepSize,
        candidates: Iterable[int],
    ) -> tuple[NDArray[numpy.float64], HorizonChoice]: ...
    def to_dict(self) -> dict[str, Any]: ...

from __future__ import annotations

from typing import Any, final

import numpy
from numpy.typing import ArrayLike, NDArray

from ._native import Benchmark as Benchmark
from ._native import Filter, Spectrum

@final
class Benefit:
    @property
    def gap_icl(self) -> float: ...
    @property
    def gap_adapted(self) -> float: ...
    @property
    def improvement(self) -> float: ...
    @property
    def helps(self) -> bool: ...
    def to_dict(self) -> dict[str, Any]: ...

def prompt_risk(spectrum: Spectrum, filter: Filter, benchmark: Benchmark) -> float: ...
def prompt_gap(spectrum: Spectrum, filter: Filter, benchmark: Benchmark) -> float: ...
def prompt_benefit(spectrum: Spectrum, filter: Filter, benchmark: Benchmark) -> Benefit: ...
def mode_weights(
    spectrum: Spectrum, coupling: ArrayLike, benchmark: Benchmark
) -> NDArray[numpy.float64]: ...
def query_gap(
    spectrum: Spectrum, coupling: ArrayLike, filter: Filter, benchmark: Benchmark
) -> float: ...
def query_posterior_variance(
    spectrum: Spectrum, coupling: ArrayLike, query_variance: float, benchmark: Benchmark
) -> float: ...
def query_risk(
    spectrum: Spectrum,
    coupling: ArrayLike,
    query_variance: float,
    filter: Filter,
    benchmark: Benchmark,
) -> float: ...
def query_benefit(
    spectrum: Spectrum, coupling: ArrayLike, filter: Filter, benchmark: Benchmark
) -> Benefit: ...

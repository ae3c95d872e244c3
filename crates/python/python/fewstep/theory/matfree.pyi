from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, Optional, Protocol, Union, final

import numpy
from numpy.typing import ArrayLike, NDArray

from .._native import GradientDescent, Rng, StepSize
from . import Estimate

class _Multiplies(Protocol):
    @property
    def shape(self) -> Any: ...
    def __matmul__(self, vector: Any, /) -> Any: ...

class Operator:
    @property
    def size(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    def apply(self, vector: ArrayLike) -> NDArray[numpy.float64]: ...
    def __matmul__(self, vector: ArrayLike, /) -> NDArray[numpy.float64]: ...

_AnyOperator = Union[Operator, _Multiplies, ArrayLike]

@final
class DenseKernel(Operator):
    def __new__(cls, kernel: ArrayLike) -> DenseKernel: ...

@final
class FactorKernel(Operator):
    def __new__(cls, features: ArrayLike) -> FactorKernel: ...

@final
class BlockSum(Operator):
    def __new__(cls, operators: Iterable[_AnyOperator]) -> BlockSum: ...

@final
class Shifted(Operator):
    def __new__(cls, operator: _AnyOperator, shift: float) -> Shifted: ...

def operator(
    function: Union[Callable[[NDArray[numpy.float64]], ArrayLike], _Multiplies],
    size: Optional[int] = None,
) -> Operator: ...

@final
class Solution:
    @property
    def vector(self) -> NDArray[numpy.float64]: ...
    @property
    def iterations(self) -> int: ...
    @property
    def residual(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Eigenpair:
    @property
    def value(self) -> float: ...
    @property
    def vector(self) -> NDArray[numpy.float64]: ...
    @property
    def bound(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class LargestEigenvalue:
    def __new__(cls, value: float, bound: float) -> LargestEigenvalue: ...
    @property
    def value(self) -> float: ...
    @property
    def bound(self) -> float: ...
    @property
    def upper(self) -> float: ...
    def step(self, fraction: float) -> StepSize: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class EvidenceEstimate:
    @property
    def values(self) -> list[Estimate]: ...
    @property
    def log_trace(self) -> Estimate: ...
    @property
    def quadratic_forms(self) -> NDArray[numpy.float64]: ...
    @property
    def quadrature_errors(self) -> NDArray[numpy.float64]: ...
    def to_dict(self) -> dict[str, Any]: ...

def conjugate_gradients(
    operator: _AnyOperator,
    right_side: ArrayLike,
    *,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> Solution: ...
def lanczos_top(
    operator: _AnyOperator,
    count: int,
    rng: Rng,
    *,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> list[Eigenpair]: ...
def largest_eigenvalue(
    operator: _AnyOperator, steps: int, failure_probability: float, rng: Rng
) -> LargestEigenvalue: ...
def hutchinson_trace(operator: _AnyOperator, probes: int, rng: Rng) -> Estimate: ...
def block_scores(
    blocks: Iterable[_AnyOperator],
    noise_variance: float,
    probes: int,
    rng: Rng,
    *,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> list[Estimate]: ...
def query_scores(
    blocks: Iterable[_AnyOperator],
    couplings: Iterable[ArrayLike],
    noise_variance: float,
    *,
    tolerance: float = 1e-8,
    iterations: int = 1000,
) -> NDArray[numpy.float64]: ...
def query_correction(
    operator: _AnyOperator, coupling: ArrayLike, residuals: ArrayLike, descent: GradientDescent
) -> float: ...
def estimate_evidence(
    operator: _AnyOperator,
    residuals: ArrayLike,
    rng: Rng,
    *,
    step: StepSize,
    largest: LargestEigenvalue,
    horizons: Iterable[int],
    noise: Union[Literal["profiled", "plug-in"], float],
    probes: int,
    lanczos_steps: int,
) -> EvidenceEstimate: ...

"""Types of what is proved beyond what a decision needs."""

from __future__ import annotations

from typing import Any, final

from numpy.typing import ArrayLike

from .._native import Filter, Spectrum
from . import design as design
from . import drift as drift
from . import flow as flow
from . import matfree as matfree
from . import pac_bayes as pac_bayes
from . import random as random
from . import risk as risk

@final
class GradientFlow(Filter):
    def __new__(cls, time: float) -> GradientFlow: ...
    @property
    def time(self) -> float: ...

@final
class ExponentialTime(Filter):
    def __new__(cls, rate: float) -> ExponentialTime: ...
    @property
    def rate(self) -> float: ...

@final
class Projection(Filter):
    def __new__(cls, spectrum: Spectrum) -> Projection: ...

@final
class JamesStein(Filter):
    def __new__(
        cls, spectrum: Spectrum, residuals: ArrayLike, noise_variance: float
    ) -> JamesStein: ...

@final
class Estimate:
    @property
    def mean(self) -> float: ...
    @property
    def standard_error(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

"""Types of the compiled part of `fewstep`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Dict, List, Literal, Optional, Tuple, Type, Union, final, overload

import numpy
from numpy.typing import ArrayLike, NDArray

from . import errors as errors
from . import evidence as evidence
from . import gibbs as gibbs
from . import leave_one_out as leave_one_out
from . import risk as risk
from . import signal as signal
from . import subspace as subspace
from . import theory as theory
from .evidence import Evidence as Evidence
from .evidence import HorizonChoice as HorizonChoice
from .evidence import best_horizon as best_horizon
from .evidence import evidence_curve as evidence_curve
from .signal import SignalFit
from .subspace import DepthChoice
from .theory.pac_bayes import Bound

# Arrays.

@final
class Spectrum:
    def __new__(cls, kernel: ArrayLike) -> Spectrum: ...
    @property
    def examples(self) -> int: ...
    @property
    def eigenvalues(self) -> NDArray[numpy.float64]: ...
    @property
    def largest(self) -> float: ...
    @property
    def rank(self) -> int: ...
    @property
    def effective_rank(self) -> float: ...
    @property
    def clamped(self) -> int: ...
    @property
    def residual(self) -> float: ...
    @property
    def step_limit(self) -> float: ...
    def mode(self, mode: int) -> NDArray[numpy.float64]: ...
    def rotate(self, vector: ArrayLike) -> NDArray[numpy.float64]: ...
    def rotate_back(self, amounts: ArrayLike) -> NDArray[numpy.float64]: ...
    def project(self, vector: ArrayLike) -> NDArray[numpy.float64]: ...
    def project_outside(self, vector: ArrayLike) -> NDArray[numpy.float64]: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class StepSize:
    def __new__(cls, step: float, spectrum: Spectrum) -> StepSize: ...
    @classmethod
    def fraction(cls, fraction: float, spectrum: Spectrum) -> StepSize: ...
    def get(self) -> float: ...
    def check(self, spectrum: Spectrum) -> StepSize: ...
    def __float__(self) -> float: ...

# filters.rs

class Filter:
    @overload
    def response(self, eigenvalue: float) -> float: ...
    @overload
    def response(
        self, eigenvalue: Union[Sequence[float], NDArray[Any]]
    ) -> NDArray[numpy.float64]: ...
    @overload
    def gain(self, eigenvalue: float) -> float: ...
    @overload
    def gain(
        self, eigenvalue: Union[Sequence[float], NDArray[Any]]
    ) -> NDArray[numpy.float64]: ...
    def degrees_of_freedom(self, spectrum: Spectrum) -> float: ...
    def prompt_fit(self, spectrum: Spectrum, residuals: ArrayLike) -> NDArray[numpy.float64]: ...
    def example_weights(
        self, spectrum: Spectrum, residuals: ArrayLike
    ) -> NDArray[numpy.float64]: ...
    def query_correction(
        self, spectrum: Spectrum, coupling: ArrayLike, residuals: ArrayLike
    ) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class NoUpdate(Filter):
    def __new__(cls) -> NoUpdate: ...

@final
class GradientDescent(Filter):
    def __new__(cls, step: StepSize, horizon: int) -> GradientDescent: ...
    @property
    def step(self) -> StepSize: ...
    @property
    def horizon(self) -> int: ...
    @overload
    def prior_variance(self, eigenvalue: float, noise_variance: float) -> float: ...
    @overload
    def prior_variance(
        self, eigenvalue: Union[Sequence[float], NDArray[Any]], noise_variance: float
    ) -> NDArray[numpy.float64]: ...

@final
class BayesFilter(Filter):
    def __new__(cls, noise_to_signal: float) -> BayesFilter: ...
    @property
    def noise_to_signal(self) -> float: ...

@final
class Benchmark(Filter):
    def __new__(cls, signal_variance: float, noise_variance: float) -> Benchmark: ...
    @property
    def signal_variance(self) -> float: ...
    @property
    def noise_variance(self) -> float: ...
    @property
    def noise_to_signal(self) -> float: ...

@final
class Mixture(Filter):
    def __new__(cls, parts: Iterable[tuple[float, Filter]]) -> Mixture: ...
    @property
    def parts(self) -> list[tuple[float, Filter]]: ...

# geometry.rs

@final
class Block:
    def __new__(
        cls,
        name: str,
        kernel: ArrayLike,
        coupling: ArrayLike | None = None,
        query_variance: float | None = None,
        parameters: int | None = None,
        layer: int | None = None,
    ) -> Block: ...
    @classmethod
    def from_features(
        cls,
        name: str,
        features: ArrayLike,
        query: ArrayLike | None = None,
        layer: int | None = None,
    ) -> Block: ...
    @classmethod
    def from_prior(
        cls,
        name: str,
        features: ArrayLike,
        prior: ArrayLike,
        query: ArrayLike | None = None,
        layer: int | None = None,
    ) -> Block: ...
    @classmethod
    def from_factors(
        cls,
        name: str,
        examples: Iterable[tuple[ArrayLike, ArrayLike]],
        query: tuple[ArrayLike, ArrayLike] | None = None,
        layer: int | None = None,
    ) -> Block: ...
    @classmethod
    def intercept(cls, examples: int) -> Block: ...
    @property
    def name(self) -> str: ...
    @property
    def layer(self) -> int | None: ...
    @property
    def id(self) -> int | None: ...
    @property
    def kernel(self) -> NDArray[numpy.float64]: ...
    @property
    def coupling(self) -> NDArray[numpy.float64] | None: ...
    @property
    def query_variance(self) -> float | None: ...
    @property
    def parameters(self) -> int | None: ...
    @property
    def examples(self) -> int: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Geometry:
    def __new__(cls, residuals: ArrayLike, blocks: Iterable[Block]) -> Geometry: ...
    @classmethod
    def from_kernel(
        cls,
        kernel: ArrayLike,
        residuals: ArrayLike,
        coupling: ArrayLike | None = None,
        query_variance: float | None = None,
    ) -> Geometry: ...
    @classmethod
    def from_features(
        cls, features: ArrayLike, residuals: ArrayLike, query: ArrayLike | None = None
    ) -> Geometry: ...
    @classmethod
    def from_factors(
        cls,
        blocks: Mapping[str, Iterable[tuple[ArrayLike, ArrayLike]]],
        residuals: ArrayLike,
        queries: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> Geometry: ...
    @property
    def residuals(self) -> NDArray[numpy.float64]: ...
    @property
    def blocks(self) -> list[Block]: ...
    @property
    def examples(self) -> int: ...
    @property
    def answers(self) -> Answers | None: ...
    def with_answers(self, answers: Answers) -> Geometry: ...
    def sum(self, chosen: Iterable[int]) -> Block: ...
    def total(self) -> Block: ...
    def precondition(self, variances: ArrayLike) -> Geometry: ...
    def to_dict(self) -> dict[str, Any]: ...

# leave_one_out.rs

@final
class Interval:
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Answers:
    def __new__(
        cls, labels: Iterable[int], predictions: ArrayLike, range: ArrayLike
    ) -> Answers: ...
    @property
    def labels(self) -> list[int]: ...
    @property
    def room(self) -> list[Interval]: ...
    def to_dict(self) -> dict[str, Any]: ...

# policy.rs

_Adjoint = Literal["local", "whole"]
_Dynamics = Literal["linear", "steps"]
_Residuals = Literal["leave-one-out", "prefix"]
_Selection = Literal[
    "all", "query-aware", "query-score", "trace-top", "trace-bottom", "random", "depth"
]
_Policy = Union["Policy", Mapping[str, Any], str]

@final
class Policy:
    def __new__(
        cls,
        *,
        name: str | None = None,
        blocks: str | None = None,
        selection: Mapping[str, Any] | _Selection | None = None,
        horizon: Mapping[str, Any] | str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: Mapping[str, Any] | _Residuals | None = None,
        shots: Mapping[str, Any] | int | None = None,
    ) -> Policy: ...
    @staticmethod
    def default() -> Policy: ...
    @staticmethod
    def paper() -> Policy: ...
    @staticmethod
    def named(name: str) -> Policy: ...
    @staticmethod
    def from_json(text: str) -> Policy: ...
    @staticmethod
    def of(policy: _Policy) -> Policy: ...
    def with_overrides(
        self,
        *,
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
    ) -> Policy: ...
    @property
    def name(self) -> str: ...
    @property
    def blocks(self) -> str: ...
    @property
    def selection(self) -> dict[str, Any]: ...
    @property
    def horizon(self) -> dict[str, Any]: ...
    @property
    def horizons(self) -> list[int]: ...
    @property
    def step_scale(self) -> float: ...
    @property
    def dynamics(self) -> str: ...
    @property
    def coverage(self) -> float: ...
    @property
    def adjoint(self) -> str: ...
    @property
    def residuals(self) -> dict[str, Any]: ...
    @property
    def shots(self) -> dict[str, Any]: ...
    @property
    def looks_at_query(self) -> bool: ...
    def differences(self, other: _Policy | None = None) -> list[str]: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...

# decide.rs

@overload
def decide(
    kernel: Geometry,
    *,
    policy: _Policy | None = "default",
    blocks: str | None = None,
    select: _Selection | None = None,
    budget: int | None = None,
    horizon: str | int | None = None,
    horizons: str | Iterable[int] | None = None,
    step_scale: float | None = None,
    dynamics: _Dynamics | None = None,
    coverage: float | None = None,
    adjoint: _Adjoint | None = None,
    residuals: _Residuals | None = None,
    orders: int | None = None,
    shots: int | None = None,
    seed: int | None = None,
) -> Decision: ...
@overload
def decide(
    kernel: ArrayLike,
    residuals: ArrayLike,
    coupling: ArrayLike | None = None,
    query_variance: float | None = None,
    *,
    policy: _Policy | None = "default",
    blocks: str | None = None,
    select: _Selection | None = None,
    budget: int | None = None,
    horizon: str | int | None = None,
    horizons: str | Iterable[int] | None = None,
    step_scale: float | None = None,
    dynamics: _Dynamics | None = None,
    coverage: float | None = None,
    adjoint: _Adjoint | None = None,
    orders: int | None = None,
    shots: int | None = None,
    seed: int | None = None,
) -> Decision: ...

@final
class Decision:
    @property
    def policy(self) -> Policy: ...
    @property
    def when(self) -> When: ...
    @property
    def how_far(self) -> HowFar: ...
    @property
    def which(self) -> Which: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def block(self) -> Block: ...
    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def signal(self) -> SignalFit: ...
    @property
    def query(self) -> QueryOutlook | None: ...
    def pac_bayes(self, confidence: float = 0.95) -> Bound | None: ...
    def to_dict(self) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

@final
class When:
    @property
    def adapt(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def leave_one_out(self) -> LeaveOneOutErrors | None: ...
    @property
    def evidence(self) -> EvidenceReasons | None: ...
    @property
    def gate(self) -> float | None: ...
    @property
    def gap_icl(self) -> float | None: ...
    @property
    def gap_adapted(self) -> float | None: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class LeaveOneOutErrors:
    @property
    def icl(self) -> float: ...
    @property
    def adapted(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class EvidenceReasons:
    @property
    def gate(self) -> float: ...
    @property
    def gap_icl(self) -> float: ...
    @property
    def gap_adapted(self) -> float: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class HowFar:
    @property
    def rule(self) -> str: ...
    @property
    def horizon(self) -> int: ...
    @property
    def at_edge(self) -> bool: ...
    @property
    def step_size(self) -> float: ...
    @property
    def noise_variance(self) -> float: ...
    @property
    def degrees_of_freedom(self) -> float: ...
    @property
    def horizons(self) -> list[int]: ...
    @property
    def evidence(self) -> NDArray[numpy.float64]: ...
    @property
    def evidence_fixed(self) -> NDArray[numpy.float64]: ...
    @property
    def posterior(self) -> NDArray[numpy.float64]: ...
    @property
    def leave_one_out(self) -> NDArray[numpy.float64]: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Which:
    @property
    def rule(self) -> str: ...
    @property
    def budget(self) -> int: ...
    @property
    def selected(self) -> list[int]: ...
    @property
    def blocks(self) -> list[BlockScore]: ...
    @property
    def depth(self) -> DepthChoice | None: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class BlockScore:
    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int | None: ...
    @property
    def trace(self) -> float: ...
    @property
    def query(self) -> float | None: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Plan:
    @property
    def kind(self) -> Literal["none", "steps", "average", "averaged-steps", "posterior"]: ...
    @property
    def filter(self) -> Filter: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class QueryOutlook:
    @property
    def correction(self) -> float: ...
    @property
    def standard_deviation(self) -> float: ...
    @property
    def interval(self) -> Interval | None: ...
    def to_dict(self) -> dict[str, Any]: ...

@final
class Rng:
    def __new__(cls, seed: int) -> Rng: ...
    def uniform(self) -> float: ...
    def sign(self) -> float: ...
    def normal(self) -> float: ...
    def below(self, limit: int) -> int: ...
    def choose(self, count: int, limit: int) -> list[int]: ...

# risk.rs

# The tool.

_Path = Union[str, "PathLike[str]"]
_Task = Union[Task, Mapping[str, Any], str, bytes]
_Tasks = Union[List[Any], Tuple[Any, ...], Iterator[Any]]
_Progress = Union[bool, Literal["always"], None]
_Pair = Union[Mapping[str, Any], Sequence[Any]]

@final
class Task:
    def __init__(
        self,
        id: str,
        template: str,
        examples: Iterable[_Pair],
        query: Union[str, Mapping[str, Any]],
        labels: Iterable[_Pair],
        separator: Optional[str] = "\n",
    ) -> None: ...
    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> Task: ...
    @staticmethod
    def from_json(text: Union[str, bytes]) -> Task: ...
    @property
    def id(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def separator(self) -> str: ...
    @property
    def labels(self) -> List[Dict[str, Any]]: ...
    @property
    def examples(self) -> List[Dict[str, str]]: ...
    @property
    def query(self) -> Dict[str, str]: ...
    def check(self) -> None: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportInterval:
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def coverage(self) -> float: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportPath:
    @property
    def linear(self) -> NDArray[numpy.float64]: ...
    @property
    def steps(self) -> Optional[NDArray[numpy.float64]]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportPrediction:
    @property
    def icl(self) -> float: ...
    @property
    def adapted(self) -> Optional[float]: ...
    @property
    def linear(self) -> Optional[float]: ...
    @property
    def standard_deviation(self) -> Optional[float]: ...
    @property
    def interval(self) -> Optional[ReportInterval]: ...
    @property
    def target(self) -> Optional[float]: ...
    @property
    def path(self) -> Optional[ReportPath]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportWhen:
    @property
    def adapt(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def leave_one_out(self) -> Optional[ReportLeaveOneOut]: ...
    @property
    def evidence(self) -> Optional[ReportEvidence]: ...
    @property
    def gate(self) -> Optional[float]: ...
    @property
    def gap_icl(self) -> Optional[float]: ...
    @property
    def gap_adapted(self) -> Optional[float]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportLeaveOneOut:
    @property
    def icl(self) -> float: ...
    @property
    def adapted(self) -> float: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportEvidence:
    @property
    def gate(self) -> float: ...
    @property
    def gap_icl(self) -> float: ...
    @property
    def gap_adapted(self) -> float: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportPacBayes:
    @property
    def bound(self) -> float: ...
    @property
    def slack(self) -> float: ...
    @property
    def confidence(self) -> float: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportHowFar:
    @property
    def rule(self) -> str: ...
    @property
    def horizon(self) -> int: ...
    @property
    def at_edge(self) -> bool: ...
    @property
    def step_size(self) -> float: ...
    @property
    def noise_variance(self) -> float: ...
    @property
    def degrees_of_freedom(self) -> float: ...
    @property
    def horizons(self) -> List[int]: ...
    @property
    def evidence(self) -> NDArray[numpy.float64]: ...
    @property
    def evidence_fixed(self) -> NDArray[numpy.float64]: ...
    @property
    def posterior(self) -> NDArray[numpy.float64]: ...
    @property
    def leave_one_out(self) -> NDArray[numpy.float64]: ...
    @property
    def pac_bayes(self) -> Optional[ReportPacBayes]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportBlockScore:
    @property
    def name(self) -> str: ...
    @property
    def trace(self) -> float: ...
    @property
    def query(self) -> Optional[float]: ...
    @property
    def kernel(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def coupling(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def query_variance(self) -> Optional[float]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportWhich:
    @property
    def rule(self) -> str: ...
    @property
    def budget(self) -> int: ...
    @property
    def seed(self) -> Optional[int]: ...
    @property
    def heads(self) -> Dict[str, str]: ...
    @property
    def selected(self) -> List[str]: ...
    @property
    def blocks(self) -> List[ReportBlockScore]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportGeometry:
    @property
    def residuals(self) -> NDArray[numpy.float64]: ...
    @property
    def shown(self) -> Optional[int]: ...
    @property
    def labels(self) -> Optional[List[int]]: ...
    @property
    def room(self) -> Optional[List[List[float]]]: ...
    @property
    def eigenvalues(self) -> NDArray[numpy.float64]: ...
    @property
    def response(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def bayes_response(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def kernel(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def coupling(self) -> Optional[NDArray[numpy.float64]]: ...
    @property
    def query_variance(self) -> float: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class Passes:
    @property
    def forward(self) -> int: ...
    @property
    def backward(self) -> int: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class ReportLines:
    @property
    def when(self) -> Optional[str]: ...
    @property
    def how_far(self) -> Optional[str]: ...
    @property
    def which(self) -> str: ...
    @property
    def prediction(self) -> str: ...
    @property
    def error(self) -> Optional[str]: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class Report:
    @property
    def id(self) -> str: ...
    @property
    def query(self) -> Optional[int]: ...
    @property
    def policy(self) -> Optional[Policy]: ...
    @property
    def prediction(self) -> ReportPrediction: ...
    @property
    def when(self) -> Optional[ReportWhen]: ...
    @property
    def how_far(self) -> Optional[ReportHowFar]: ...
    @property
    def which(self) -> ReportWhich: ...
    @property
    def geometry(self) -> Optional[ReportGeometry]: ...
    @property
    def passes(self) -> Passes: ...
    @property
    def lines(self) -> ReportLines: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

@final
class Failure:
    @property
    def id(self) -> Optional[str]: ...
    @property
    def line(self) -> int: ...
    @property
    def query(self) -> Optional[int]: ...
    @property
    def error(self) -> str: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class Reports:
    def __iter__(self) -> Reports: ...
    def __next__(self) -> Union[Report, Failure]: ...

@final
class Observation:
    @property
    def predictions(self) -> NDArray[numpy.float64]: ...
    @property
    def residuals(self) -> NDArray[numpy.float64]: ...
    @property
    def query_prediction(self) -> float: ...
    @property
    def geometry(self) -> Geometry: ...
    @property
    def passes(self) -> Passes: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class Update:
    @property
    def blocks(self) -> List[str]: ...
    def to_dict(self) -> Dict[str, NDArray[numpy.float32]]: ...
    def save(self, path: _Path) -> None: ...
    def save_peft(self, path: _Path) -> None: ...
    def save_lora_gguf(self, path: _Path) -> None: ...

@final
class Outcome:
    @property
    def icl(self) -> float: ...
    @property
    def adapted(self) -> float: ...
    @property
    def query_path(self) -> NDArray[numpy.float64]: ...
    @property
    def linear_path(self) -> NDArray[numpy.float64]: ...
    @property
    def prompt_path(self) -> NDArray[numpy.float64]: ...
    @property
    def update(self) -> Optional[Update]: ...
    @property
    def passes(self) -> Passes: ...
    def to_dict(self) -> Dict[str, Any]: ...

@final
class Model:
    @classmethod
    def load(
        cls,
        source: _Path = "builtin",
        *,
        expand: bool = False,
        bos: Literal["auto", "always", "never"] = "auto",
        loo_order: Literal["original", "tree"] = "original",
        max_tokens_per_example: Optional[int] = None,
        memory_limit: Optional[int] = None,
        lora_rank: Optional[int] = None,
        lora_first: Optional[Literal["random", "inputs"]] = None,
        lora_seed: int = 0,
        progress: _Progress = False,
    ) -> Model: ...
    @property
    def source(self) -> str: ...
    @property
    def config(self) -> Dict[str, Any]: ...
    def blocks(
        self,
        choice: Union[str, Sequence[str], None] = None,
        *,
        policy: Optional[_Policy] = "default",
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
    ) -> List[str]: ...
    def observe(
        self,
        task: _Task,
        blocks: Union[str, Sequence[str], None] = None,
        *,
        policy: Optional[_Policy] = "default",
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
    ) -> Observation: ...
    @overload
    def decide(
        self,
        tasks: _Task,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> Report: ...
    @overload
    def decide(
        self,
        tasks: _Tasks,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> List[Union[Report, Failure]]: ...
    # A table is answered by a table of its own library, which this package does not require.
    @overload
    def decide(
        self,
        tasks: Any,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> Any: ...
    @overload
    def predict(
        self,
        tasks: _Task,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> Report: ...
    @overload
    def predict(
        self,
        tasks: _Tasks,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> List[Union[Report, Failure]]: ...
    @overload
    def predict(
        self,
        tasks: Any,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> Any: ...
    def predict_iter(
        self,
        tasks: Any,
        *,
        policy: Optional[_Policy] = "default",
        blocks: str | None = None,
        select: _Selection | None = None,
        budget: int | None = None,
        horizon: str | int | None = None,
        horizons: str | Iterable[int] | None = None,
        step_scale: float | None = None,
        dynamics: _Dynamics | None = None,
        coverage: float | None = None,
        adjoint: _Adjoint | None = None,
        residuals: _Residuals | None = None,
        orders: int | None = None,
        shots: int | None = None,
        seed: int | None = None,
        full: bool = False,
        lora_rank: Optional[int] = None,
        lora_first: Optional[str] = None,
        progress: _Progress = False,
        threads: Optional[int] = None,
    ) -> Reports: ...
    def act(self, task: _Task, decision: Decision) -> Outcome: ...
    def predict_with(self, task: _Task, update: Update) -> float: ...
    def load_update(self, path: _Path) -> Update: ...
    def close(self) -> None: ...
    def __enter__(self) -> Model: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        raised: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

"""Ten thousand malformed calls: each ends in a value or in an exception that people can catch."""

from __future__ import annotations

import enum
import inspect
import math
import random
import types

import numpy as np
import pytest

import fewstep

CALLS = 10_000
SEED = 20261116
ALLOWED = (fewstep.errors.FewstepError, TypeError, ValueError, OverflowError)

# Callables that leave the process: they read and write files, models or the network.
OUTSIDE = {"Model", "load", "save", "save_peft", "save_lora_gguf"}

# Modules that only the package itself uses, or that other packages are needed for.
INSIDE = {"fewstep.frames", "fewstep.progress", "fewstep.ray", "fewstep.torch"}

# What takes any count of steps or examples without making or doing as many: it may be asked for
# very large ones. Elsewhere a count is taken at its word.
CAPPED = {
    "fewstep.evidence",
    "fewstep.gibbs",
    "fewstep.leave_one_out",
    "fewstep.signal",
    *(f"fewstep.{name}" for name in ("Block", "Evidence", "Geometry", "GradientDescent")),
    *(f"fewstep.{name}" for name in ("Policy", "Spectrum", "_native.decide")),
}
LARGE = [2**31, 2**32 - 1, 2**32, 2**63, [2**32 - 1], [0, 10**5, 2**32 - 1], range(2 * 10**6)]


def modules() -> list[types.ModuleType]:
    """The package and every module of it that is loaded with it."""
    found = [fewstep]
    for value in [*vars(fewstep).values(), *vars(fewstep.theory).values()]:
        if isinstance(value, types.ModuleType) and value.__name__.startswith("fewstep."):
            if value.__name__ not in INSIDE:
                found.append(value)
    return found


def public(holder: object) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(holder).items() if not name.startswith("_")]


def callables() -> dict[str, object]:
    """Functions, classes and the methods of classes; exceptions are not among them."""
    found: dict[str, object] = {}
    for module in modules():
        for name, value in public(module):
            if name in OUTSIDE or not callable(value):
                continue
            if isinstance(value, type) and issubclass(value, (BaseException, enum.Enum)):
                continue
            origin = getattr(value, "__module__", None) or ""
            if not origin.startswith("fewstep"):
                continue
            found[f"{origin}.{name}"] = value
            if isinstance(value, type):
                for method, _ in public(value):
                    if method not in OUTSIDE and callable(getattr(value, method)):
                        found[f"{origin}.{name}.{method}"] = getattr(value, method)
    return found


def proper() -> list[object]:
    """Objects of the package, so that calls get past the first check."""
    kernel = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    residuals = np.array([0.5, -0.25, 1.0])
    coupling = np.array([0.5, 0.5, 0.25])
    spectrum = fewstep.Spectrum(kernel)
    step = fewstep.StepSize.fraction(0.1, spectrum)
    block = fewstep.Block("one", kernel, coupling, 1.0)
    geometry = fewstep.Geometry(residuals, [block])
    descent = fewstep.GradientDescent(step, 3)
    decision = fewstep.decide(geometry, horizon="leave-one-out")
    left_out = fewstep.leave_one_out.LeaveOneOut(kernel, residuals, step, [0, 1, 5], coupling)
    answers = fewstep.Answers([0, 1, 0], [0.5, 0.25, 0.0], (0.0, 1.0))
    return [
        kernel,
        residuals,
        coupling,
        spectrum,
        step,
        block,
        geometry,
        descent,
        fewstep.Mixture([(1.0, descent), (2.0, fewstep.NoUpdate())]),
        fewstep.Benchmark(1.0, 0.5),
        fewstep.Evidence(spectrum, residuals, step),
        fewstep.gibbs.GibbsPosterior([0, 1, 2], residuals, 3, 1.0),
        left_out,
        left_out.with_answers(residuals, answers),
        answers,
        geometry.with_answers(answers),
        left_out.choose("plain", 0.0),
        left_out.interval(0, 0.5),
        fewstep.signal.SignalFit(spectrum, residuals),
        decision,
        decision.when,
        decision.how_far,
        decision.which,
        decision.which.blocks[0],
        decision.plan,
        decision.policy,
        fewstep.decide(geometry).which.depth,
        fewstep.decide(geometry).when.leave_one_out,
        fewstep.decide(geometry, policy="paper").when.evidence,
        decision.query,
        fewstep.metrics.ClassScores.of([[0.75, 0.25], [0.5, 0.5]], [0, 1]),
        fewstep.Policy(horizon="gibbs"),
        *others(spectrum, step, kernel, residuals),
        [0, 1, 2],
        range(4),
        [block, block],
        [(kernel, kernel), (kernel, kernel)],
        [(0.5, descent)],
    ]


def others(spectrum, step, kernel, residuals) -> list[object]:
    """Objects of the modules beside the decision, and of the tool."""
    theory = fewstep.theory
    design, drift, pac_bayes, matfree = (
        theory.design,
        theory.drift,
        theory.pac_bayes,
        theory.matfree,
    )
    watch = drift.Watch(spectrum, residuals, step)
    family = pac_bayes.EvidenceFamily(spectrum, step, 1.0, [0, 1, 2])
    bounds = pac_bayes.PacBayes(family, pac_bayes.Reference.horizon(1))
    gaussian = design.LinearGaussian(kernel, 1.0, 0.5)
    metric = design.QueryMetric.from_queries(kernel)
    information = gaussian.query_information(metric)
    dense = matfree.DenseKernel(kernel)
    task = {
        "id": "t",
        "template": "{x}->{y}",
        "labels": [{"text": str(digit), "value": digit / 9} for digit in range(10)],
        "examples": [{"x": str(digit), "y": str(digit)} for digit in range(3)],
        "query": {"x": "4"},
    }
    model = fewstep.Model.load("builtin")
    report = model.decide(task)
    return [
        fewstep.Rng(1),
        watch,
        drift.LocalConstants(1.0, 1.0, 1.0),
        family,
        bounds,
        gaussian,
        metric,
        information,
        information.optimal_subspace(1),
        design.GlobalInformation(3),
        dense,
        matfree.FactorKernel(kernel),
        matfree.BlockSum([dense, dense]),
        matfree.Shifted(dense, 0.5),
        matfree.largest_eigenvalue(dense, 3, 0.1, fewstep.Rng(1)),
        theory.random.MarchenkoPastur(0.5),
        task,
        fewstep.Task.from_dict(task),
        model.observe(task),
        report,
        report.prediction,
        report.when,
        report.how_far,
        report.which,
    ]


def by_name(kept: list[object]) -> dict[str, list[object]]:
    """What fits a parameter of this name, so that one bad argument can meet good ones."""
    of = lambda kind: [value for value in kept if isinstance(value, kind)]
    arrays = of(np.ndarray)
    vectors = [value for value in arrays if value.ndim == 1]
    names = dict.fromkeys(["residuals", "coupling", "evidence", "curve", "weights"], vectors)
    names |= dict.fromkeys(["vector", "amounts", "values", "prior", "variances"], vectors)
    names |= {"features": [arrays[0]], "kernel": [arrays[0], *of(fewstep.Geometry)]}
    names |= {"horizon": [0, 3, "gibbs", "bayes-filter", "leave-one-out-average"]}
    names |= {"select": ["all", "random", "query-aware"], "selection": ["all", "depth"]}
    names |= dict.fromkeys(["horizons", "candidates", "chosen"], [[0, 1, 2], range(4)])
    names |= {"averaging": ["plain", "by-label", "query-weighted"], "noise": ["profiled", 0.5]}
    names |= {"answers": [*of(fewstep.Answers), [0, 1]], "labels": [[0, 1, 0], ["a", "b"]]}
    names |= {"probabilities": [[0.75, 0.25], [[0.75, 0.25], [0.5, 0.5]]], "answer": [0, "b"]}
    names |= {"reports": [[]], "classes": [{"confidence": 0.5}], "adjoint": ["local", "whole"]}
    names |= {"dynamics": ["linear", "steps"], "shots": [2], "separator": ["\n"]}
    names |= {"predictions": vectors, "range": [(0.0, 1.0)]}
    names |= {"spectrum": of(fewstep.Spectrum), "step": of(fewstep.StepSize)}
    names |= {"name": ["one"], "blocks": [of(fewstep.Block)[:1]], "filter": of(fewstep.Filter)}
    names |= {"geometry": of(fewstep.Geometry), "policy": [*of(fewstep.Policy), "paper", {"horizons": [0, 3]}]}
    theory = fewstep.theory
    design, matfree, pac_bayes = theory.design, theory.matfree, theory.pac_bayes
    names |= dict.fromkeys(["target", "right_side", "scores", "shift", "coordinates"], vectors)
    names |= dict.fromkeys(["benchmark", "first", "second"], of(fewstep.Benchmark))
    names |= dict.fromkeys(["confidence", "failure_probability", "step_scale", "coverage"], [0.1])
    names |= {"rng": of(fewstep.Rng), "operator": of(matfree.Operator), "probes": [1, 4]}
    names |= {"metric": of(design.QueryMetric), "information": of(design.QueryInformation)}
    names |= {"subspace": of(design.Subspace), "family": of(pac_bayes.EvidenceFamily)}
    positive = ["noise_variance", "signal_variance", "inverse_temperature", "eigenvalue", "time"]
    names |= dict.fromkeys([*positive, "query_variance", "noise_to_signal", "ratio"], [0.5, 1.0])
    names |= dict.fromkeys(["budget", "rank", "examples", "longest"], [1])
    names |= {"query": [*vectors, None], "fraction": [0.1], "candidate": [0], "mode": [0]}
    names |= {"largest": of(matfree.LargestEigenvalue), "task": of((dict, fewstep.Task))}
    return names


# For parameters of every other name.
PLAIN = [0, 1, 2, 3, 5, 0.5, 1.0]


class Hostile:
    """Raises wherever numpy or the border might look."""

    def __array__(self, *arguments, **keywords):
        raise ValueError("no array here")

    def __float__(self):
        raise ValueError("no number here")

    def __iter__(self):
        raise ValueError("no entries here")

    def __len__(self):
        raise ValueError("no length here")


def malformed() -> list[object]:
    """What nobody should pass; nothing is so large that a call could take long."""
    cycle: list[object] = []
    cycle.append(cycle)
    return [
        None,
        True,
        0,
        1,
        -1,
        3,
        1000,
        2**64,
        10**400,
        -(2**70),
        0.0,
        -0.0,
        0.5,
        -1.0,
        1e-320,
        1e308,
        -1e308,
        math.nan,
        math.inf,
        -math.inf,
        1j,
        "",
        "evidence",
        "trace-top",
        "plain",
        "no such rule",
        "3",
        "\x00\ud800",
        b"bytes",
        [],
        {},
        {"a": 1},
        set(),
        [[]],
        [1],
        [1.0, 2.0],
        [[1.0, 2.0], [3.0]],
        ["a", "b"],
        [None],
        [-1, 2**40],
        cycle,
        object(),
        Hostile(),
        lambda *arguments: None,
        int,
        np.array(0.5),
        np.array([]),
        np.zeros((0, 0)),
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros((2, 3)),
        np.zeros((1, 1)),
        np.zeros((2, 2, 2)),
        np.eye(3),
        -np.eye(3),
        np.full((3, 3), math.nan),
        np.full((3, 3), 1e308),
        np.full((3, 3), 1e-320),
        np.array([[1.0, 2.0], [0.0, 1.0]]),
        np.full(3, math.nan),
        np.full(3, math.inf),
        np.full(3, 1e308),
        np.full(3, -1.0),
        np.arange(3),
        np.arange(3, dtype=np.uint8),
        np.arange(3, dtype=np.float16),
        np.array([1, 2, 3], dtype=object),
        np.array([1j, 2j, 3j]),
        np.array(["a", "b", "c"]),
        np.array([True, False, True]),
        np.array(["2026-11-16"], dtype="datetime64[D]"),
        np.zeros(3, dtype=[("a", "f8")]),
        np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False]),
        np.ones((3, 6))[:, ::2],
        np.ones(6)[::-2],
        iter([1, 2, 3]),
    ]


def parameters_of(function: object) -> tuple[list[str], list[str]]:
    """The names of parameters that may be given by position, and of those that may not."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], []
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        [one.name for one in parameters if one.kind in by_position],
        [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY],
    )


def shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:  # the repr of what was passed is not what is tested
        return type(value).__name__


@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_malformed_calls_end_in_values_or_exceptions():
    generator = random.Random(SEED)
    functions = sorted(callables().items())
    assert len(functions) > 60
    kept, bad = proper(), malformed()
    names = by_name(kept)
    numbers = [value for value in bad if isinstance(value, (int, float))]
    outcomes = {"value": 0, "exception": 0}
    for call in range(CALLS):
        name, function = functions[call % len(functions)]
        known, only_named = parameters_of(function)
        capped = any(name == one or name.startswith(f"{one}.") for one in CAPPED)
        odd = bad + LARGE if capped else bad
        wrong = generator.random()
        owner = getattr(function, "__objclass__", None)
        arguments = []
        for key in known:
            fitting = names.get(key, PLAIN)
            if key == "self" and owner is not None:
                fitting = [value for value in kept if isinstance(value, owner)] or kept
            if generator.random() < wrong and (key != "self" or generator.random() < 0.1):
                fitting = generator.choice([odd, odd, kept, numbers])
            arguments.append(generator.choice(fitting))
        if generator.random() < 0.2:
            arguments = [generator.choice(odd) for _ in range(generator.randrange(7))]
        named = {}
        for key in only_named:
            if generator.random() < 0.2:
                good = generator.random() > wrong
                named[key] = generator.choice(names.get(key, PLAIN) if good else odd)
        if generator.random() < 0.3:
            arguments = arguments[: generator.randrange(len(arguments) + 1)]
            for key in known[len(arguments) :] + ["no_such_keyword"]:
                if generator.random() < 0.3:
                    named[key] = generator.choice(generator.choice([odd, names.get(key, PLAIN)]))
        try:
            value = function(*arguments, **named)
            shown(value)
            outcomes["value"] += 1
        except ALLOWED:
            outcomes["exception"] += 1
        except BaseException as error:
            given = ", ".join(map(shown, arguments))
            keyed = ", ".join(f"{key}={shown(value)}" for key, value in named.items())
            raise AssertionError(
                f"call {call} (seed {SEED}): {name}({given}; {keyed}) raised "
                f"{type(error).__name__}: {error}"
            ) from error
    # Neither may crowd out the other, or the calls test nothing.
    assert min(outcomes.values()) > CALLS // 6, outcomes


def asked_of(model: fewstep.Model) -> list:
    """What may be asked of a model, with names and something that fits each."""
    task = {
        "id": "t",
        "template": "{x}->{y}",
        "labels": [{"text": str(digit), "value": digit / 9} for digit in range(10)],
        "examples": [{"x": str(digit), "y": str(digit)} for digit in range(3)],
        "query": {"x": "4"},
    }
    decision = fewstep.decide(model.observe(task).geometry, horizon=2)
    update = model.act(task, decision).update
    options = {"blocks": "value@last1", "horizon": 1, "horizons": [0, 1], "budget": 1, "seed": 1}
    options |= {"policy": "paper", "coverage": 0.5, "dynamics": "steps", "adjoint": "whole"}
    options |= {"residuals": "leave-one-out"}
    options |= {"select": "trace-top", "step_scale": 0.1, "full": True, "threads": 1}
    options |= {"lora_rank": 1, "lora_first": "inputs", "progress": False, "bos": "never"}
    return [
        (model.decide, (task,), options),
        (model.predict, (task,), options),
        (model.predict, ([task, task],), options),
        (lambda *given, **named: list(model.predict_iter(*given, **named)), ([task],), options),
        (model.observe, (task, "value@last1"), {}),
        (model.act, (task, decision), {}),
        (model.predict_with, (task, update), {}),
        (model.blocks, ("value@all",), {}),
        (model.load_update, ("nowhere",), {}),
        (fewstep.Model.load, ("builtin",), {**options, "loo_order": "tree", "expand": True}),
        *((fewstep.Task.from_dict, ({**task, name: value},), {}) for name, value in task.items()),
    ]


@pytest.mark.filterwarnings("ignore")
def test_malformed_calls_of_models_end_in_values_or_exceptions():
    generator = random.Random(SEED)
    model = fewstep.Model.load()
    calls, bad = asked_of(model), malformed()
    for call in range(1_000):
        function, fitting, options = calls[call % len(calls)]
        given = list(fitting)
        place = generator.randrange(len(given))
        if generator.random() < 0.7:
            whole = given[place]
            given[place] = generator.choice(bad)
            # One field alone, or one of many tasks.
            if isinstance(whole, dict) and generator.random() < 0.7:
                given[place] = {**whole, generator.choice(sorted(whole)): generator.choice(bad)}
            if isinstance(whole, list) and generator.random() < 0.7:
                given[place] = [whole[0], generator.choice(bad)]
        # Very long work is no malformed call.
        small = [one for one in bad if not (isinstance(one, int) and one > 10)]
        named = {
            name: generator.choice(small) if generator.random() < 0.5 else value
            for name, value in options.items()
            if generator.random() < 0.2
        }
        try:
            shown(function(*given, **named))
        except (*ALLOWED, OSError, RecursionError):
            pass
    # And it is as good as before.
    task = calls[0][1][0]
    assert model.predict(task) == fewstep.Model.load().predict(task)

"""Solvers that see products alone, against dense algebra in numpy."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.theory import matfree

from .near import assert_near, gram, normals, same_as

N, NOISE = 12, 0.5
FEATURES = [normals(seed, N, 5) for seed in (1, 2)]
KERNELS = [features @ features.T for features in FEATURES]
TOTAL = sum(KERNELS)
NOISY = TOTAL + NOISE * np.eye(N)
VECTOR = normals(3, N)


class Product:
    """Something with a shape and @, as a sparse matrix has."""

    def __init__(self, kernel):
        self.kernel, self.shape = kernel, kernel.shape

    def __matmul__(self, vector):
        return self.kernel @ vector


def operators():
    return {
        "dense": matfree.DenseKernel(TOTAL),
        "factor": matfree.FactorKernel(np.hstack(FEATURES)),
        "sum": matfree.BlockSum([matfree.FactorKernel(FEATURES[0]), KERNELS[1]]),
        "array": TOTAL,
        "list": TOTAL.tolist(),
        "product": Product(TOTAL),
        "wrapped": matfree.operator(Product(TOTAL)),
        "callable": matfree.operator(lambda vector: TOTAL @ vector, N),
        "lists": matfree.operator(lambda vector: (TOTAL @ vector).tolist(), size=N),
        "mixed": matfree.BlockSum(
            [matfree.operator(lambda v: KERNELS[0] @ v, N), matfree.FactorKernel(FEATURES[1])]
        ),
    }


NAMES = list(operators())


@pytest.mark.parametrize("name", NAMES)
def test_solves(name):
    shifted = matfree.Shifted(operators()[name], NOISE)
    assert shifted.size == N and shifted.shape == (N, N)
    scale = np.linalg.norm(TOTAL, 2) * np.linalg.norm(VECTOR)
    assert_near(shifted @ VECTOR, NOISY @ VECTOR, N, scale)
    assert (shifted @ VECTOR).tolist() == shifted.apply(VECTOR).tolist()
    solution = matfree.conjugate_gradients(shifted, VECTOR, tolerance=1e-12)
    expected = np.linalg.solve(NOISY, VECTOR)
    assert np.linalg.norm(NOISY @ solution.vector - VECTOR) <= 2e-12 * np.linalg.norm(VECTOR)
    assert solution.residual <= 1e-12 and solution.iterations <= 3 * N
    assert np.abs(solution.vector - expected).max() <= 2e-12 / NOISE * np.linalg.norm(VECTOR)


@pytest.mark.parametrize("name", NAMES)
def test_eigenvalues(name):
    operator = operators()[name]
    values = np.linalg.eigvalsh(TOTAL)[::-1]
    pairs = matfree.lanczos_top(operator, 3, fewstep.Rng(1))
    for pair, value in zip(pairs, values):
        assert abs(pair.value - value) <= pair.bound + 64 * N * 2.2e-16 * values[0]
        assert pair.bound <= 1.1e-8 * values[0]
        residual = TOTAL @ pair.vector - pair.value * pair.vector
        assert np.linalg.norm(residual) <= pair.bound + 64 * N * 2.2e-16 * values[0]
        assert_near(np.linalg.norm(pair.vector), 1.0, N)
    largest = matfree.largest_eigenvalue(operator, 4, 1e-6, fewstep.Rng(2))
    assert largest.value <= values[0] * (1 + 1e-12) and values[0] <= largest.upper
    assert largest.upper == largest.value + largest.bound
    assert_near(float(largest.step(0.5)), 0.5 / largest.upper, 2)


def test_an_eigenvalue_may_occur_twice():
    pairs = matfree.lanczos_top(np.diag([3.0, 3.0, 1.0]), 2, fewstep.Rng(1))
    assert_near([pair.value for pair in pairs], [3.0, 3.0], 3)


@pytest.mark.parametrize("name", NAMES)
def test_the_trace(name):
    estimate = matfree.hutchinson_trace(operators()[name], 400, fewstep.Rng(1))
    spread = np.sqrt(2 * ((TOTAL**2).sum() - (np.diag(TOTAL) ** 2).sum()) / 400)
    assert abs(estimate.mean - np.trace(TOTAL)) < 4 * spread
    assert 0.7 * spread < estimate.standard_error < 1.4 * spread


@pytest.mark.parametrize("wrap", [matfree.DenseKernel, Product, np.asarray])
def test_scores_of_blocks(wrap):
    blocks = [wrap(kernel) for kernel in KERNELS]
    inverse = np.linalg.inv(NOISY)
    scores = matfree.block_scores(blocks, NOISE, 300, fewstep.Rng(1))
    for score, kernel in zip(scores, KERNELS):
        assert abs(score.mean - np.trace(kernel @ inverse)) < 4.5 * score.standard_error
    couplings = normals(4, 2, N)
    expected = [coupling @ inverse @ coupling for coupling in couplings]
    found = matfree.query_scores(blocks, couplings, NOISE, tolerance=1e-12)
    assert_near(found, expected, 1e4)
    listed = matfree.query_scores(blocks, list(couplings), NOISE, tolerance=1e-12)
    assert found.tolist() == listed.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_the_correction_after_steps(name):
    largest = matfree.largest_eigenvalue(TOTAL, N, 1e-6, fewstep.Rng(1))
    step = largest.step(0.5)
    weights = np.zeros(N)
    for _ in range(6):
        weights = weights + float(step) * (VECTOR - TOTAL @ weights)
    coupling = normals(5, N)
    descent = fewstep.GradientDescent(step, 6)
    found = matfree.query_correction(operators()[name], coupling, VECTOR, descent)
    scale = 6 * float(step) * np.linalg.norm(coupling) * np.linalg.norm(VECTOR)
    assert_near(found, coupling @ weights, N, scale)
    spectrum = fewstep.Spectrum(TOTAL)
    assert_near(found, descent.query_correction(spectrum, coupling, VECTOR), 10 * N, scale)


def evidence(operator, noise, rng, **changes):
    largest = matfree.largest_eigenvalue(TOTAL, N, 1e-6, fewstep.Rng(1))
    settings = {
        "step": largest.step(0.5),
        "largest": largest,
        "horizons": range(0, 9, 2),
        "noise": noise,
        "probes": 40,
        "lanczos_steps": N,
    }
    return settings, matfree.estimate_evidence(operator, VECTOR, rng, **(settings | changes))


@pytest.mark.parametrize("noise", ["profiled", "plug-in", 0.7])
@pytest.mark.parametrize("name", ["dense", "callable", "mixed"])
def test_evidence(name, noise):
    settings, found = evidence(operators()[name], noise, fewstep.Rng(3))
    shrunk = np.eye(N) - float(settings["step"]) * TOTAL
    log_trace = np.linalg.slogdet(shrunk)[1]
    assert abs(found.log_trace.mean - log_trace) < 4.5 * found.log_trace.standard_error
    for index, horizon in enumerate(settings["horizons"]):
        form = VECTOR @ np.linalg.matrix_power(shrunk, horizon) @ VECTOR
        assert_near(found.quadratic_forms[index], form, 100, scale=VECTOR @ VECTOR)
        variance = {"profiled": form / N, "plug-in": VECTOR @ VECTOR / N}.get(noise, noise)
        # With the estimated trace in place of the true one: exact but for rounding.
        covariance = N * np.log(variance) - horizon * found.log_trace.mean
        expected = (covariance + form / variance) / (2 * N)
        assert_near(found.values[index].mean, expected, 1000, scale=5.0)
        error = horizon * found.log_trace.standard_error / (2 * N)
        assert_near(found.values[index].standard_error, error, 10)
    assert np.all(found.quadrature_errors >= 0) and found.quadrature_errors.max() < 1e-9
    assert len(found.to_dict()["values"]) == 5
    assert set(found.to_dict()["values"][0]) == {"mean", "standard_error"}


def test_other_kinds_of_arrays_give_the_same():
    features = np.round(8 * FEATURES[0]) / 8
    kernel, vector = 2 * features @ features.T + 8 * np.eye(N), np.round(8 * VECTOR) / 8
    kernel = np.round(8 * kernel) / 8
    first = matfree.conjugate_gradients(matfree.DenseKernel(kernel), vector).vector.tolist()
    second = (matfree.FactorKernel(features) @ vector).tolist()
    for k, f, v in zip(same_as(kernel), same_as(features), same_as(vector)):
        assert matfree.conjugate_gradients(matfree.DenseKernel(k), v).vector.tolist() == first
        assert (matfree.FactorKernel(f) @ v).tolist() == second


class Odd(Exception):
    pass


def everything(operator):
    """Every solver on one operator."""
    rng = fewstep.Rng(1)
    step = fewstep.StepSize(1e-6, fewstep.Spectrum([[1.0]]))
    descent = fewstep.GradientDescent(step, 1_000_000)
    return {
        "apply": lambda: matfree.Shifted(operator, 1.0) @ VECTOR,
        "conjugate_gradients": lambda: matfree.conjugate_gradients(operator, VECTOR),
        "lanczos_top": lambda: matfree.lanczos_top(operator, 2, rng),
        "largest_eigenvalue": lambda: matfree.largest_eigenvalue(operator, 5, 0.1, rng),
        "hutchinson_trace": lambda: matfree.hutchinson_trace(operator, 9, rng),
        "block_scores": lambda: matfree.block_scores([operator, TOTAL], 1.0, 5, rng),
        "query_scores": lambda: matfree.query_scores([TOTAL, operator], [VECTOR, VECTOR], 1.0),
        "query_correction": lambda: matfree.query_correction(operator, VECTOR, VECTOR, descent),
        "estimate_evidence": lambda: evidence(operator, "profiled", rng),
    }


SOLVERS = list(everything(TOTAL))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("good", [0, 1])
def test_an_exception_comes_out_as_it_is(solver, good):
    raised, calls = Odd("mine", 7), []

    def failing(vector):
        calls.append(vector)
        if len(calls) > good:
            raise raised
        return TOTAL @ vector

    operator = matfree.BlockSum([matfree.operator(failing, N), matfree.operator(failing, N)])
    with pytest.raises(Odd) as caught:
        everything(operator)[solver]()
    assert caught.value is raised
    assert any("failing" in entry.name for entry in caught.traceback)
    # Nobody asks again once it has failed.
    assert len(calls) == good + 1
    # The operator itself is none the worse for it.
    calls.clear()
    good = 10
    assert len(operator @ VECTOR) == N


def test_an_interrupt_comes_out_as_it_is():
    def interrupted(vector):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        matfree.conjugate_gradients(matfree.operator(interrupted, N), VECTOR)


BAD = {
    "length": (lambda v: v[:-1], errors.SizeMismatch, "operator product has size 11, but 12"),
    "axes": (lambda v: v[:, None], errors.WrongShape, "operator product has 2 axes"),
    "nan": (lambda v: v * np.nan, errors.NotFinite, "operator product has the entry NaN at pos"),
    "infinity": (lambda v: v + np.inf, errors.NotFinite, "operator product has the entry inf"),
    "none": (lambda v: None, errors.WrongType, "operator product has entries of type object"),
    "text": (lambda v: ["a"] * N, errors.WrongType, "operator product has entries of type"),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", BAD)
def test_bad_products_are_refused(solver, name):
    function, error, message = BAD[name]
    with pytest.raises(error, match=message):
        everything(matfree.operator(function, N))[solver]()


def test_a_product_may_keep_and_change_its_vector():
    kept = []

    def product(vector):
        kept.append(vector)
        result = TOTAL @ vector
        vector[:] = np.nan
        return result

    shifted = matfree.Shifted(matfree.operator(product, N), NOISE)
    found = matfree.conjugate_gradients(shifted, VECTOR).vector
    expected = matfree.conjugate_gradients(NOISY, VECTOR).vector
    assert_near(found, expected, 1e6)
    assert len(kept) > 1 and kept[0] is not kept[1]


def test_a_product_may_solve_itself():
    inner = matfree.Shifted(TOTAL, NOISE)
    outer = matfree.operator(lambda v: matfree.conjugate_gradients(inner, v).vector, N)
    values = np.linalg.eigvalsh(np.linalg.inv(NOISY))
    found = matfree.lanczos_top(outer, 1, fewstep.Rng(0), tolerance=1e-5)[0].value
    assert found == pytest.approx(values[-1], rel=1e-5)


def test_threads_may_share_an_operator():
    calls = []

    def product(vector):
        calls.append(threading.get_ident())
        if vector[0] == 99.0:
            raise Odd
        return TOTAL @ vector

    operator = matfree.Shifted(matfree.operator(product, N), NOISE)
    outcomes, together = [], threading.Barrier(6)

    def solve(right):
        together.wait()
        try:
            for _ in range(20):
                matfree.conjugate_gradients(operator, right)
            operator @ np.full(N, right[1])
            outcomes.append("solved")
        except Odd:
            outcomes.append("failed")

    rights = [VECTOR, np.full(N, 99.0)] * 3
    threads = [threading.Thread(target=solve, args=(right,)) for right in rights]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["failed"] * 3 + ["solved"] * 3
    assert len(set(calls)) == 6


def test_what_is_no_operator_is_refused():
    with pytest.raises(errors.WrongType, match="operator is function; give a kernel"):
        matfree.conjugate_gradients(lambda vector: vector, VECTOR)
    with pytest.raises(errors.WrongType, match="operator is int; it must be a function"):
        matfree.operator(3, 4)
    with pytest.raises(errors.WrongType, match="operator has no shape; give its size"):
        matfree.operator(lambda vector: vector)
    with pytest.raises(errors.SizeMismatch, match="operator has size 2, but 3 is needed"):
        matfree.operator(Product(np.zeros((3, 2))))
    with pytest.raises(errors.SizeMismatch, match="operator has size 4, but 3 is needed"):
        matfree.operator(Product(np.zeros((3, 3))), 4)
    with pytest.raises(errors.WrongShape, match=r"operator has the shape \(3,\)"):
        matfree.operator(Product(np.zeros(3)))
    with pytest.raises(errors.TooMuchMemory, match="size of the operator"):
        matfree.operator(lambda vector: vector, 2**62)
    with pytest.raises(errors.Empty, match="operator is empty"):
        matfree.conjugate_gradients(matfree.operator(lambda vector: vector, 0), [])
    with pytest.raises(errors.NotSymmetric):
        matfree.conjugate_gradients([[1.0, 2.0], [0.0, 1.0]], [1.0, 1.0])
    with pytest.raises(errors.NotSymmetric):
        matfree.DenseKernel([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(errors.Empty, match="features is empty"):
        matfree.FactorKernel(np.zeros((0, 3)))
    with pytest.raises(errors.Empty, match="blocks is empty"):
        matfree.BlockSum([])
    with pytest.raises(errors.SizeMismatch, match="block has size 2, but 12 is needed"):
        matfree.BlockSum([TOTAL, np.eye(2)])
    with pytest.raises(errors.OutOfRange, match="shift is -1; it must be finite and at least 0"):
        matfree.Shifted(TOTAL, -1.0)


def test_operators_are_not_nested_without_end():
    operator = matfree.DenseKernel(TOTAL)
    with pytest.raises(errors.OutOfRange, match="depth of operators inside each other is 65"):
        for _ in range(100):
            operator = matfree.Shifted(operator, 1.0)
    operator = matfree.DenseKernel(TOTAL)
    with pytest.raises(errors.OutOfRange, match="number of operators in a sum is"):
        for _ in range(40):
            operator = matfree.BlockSum([operator, operator])


def test_settings_are_checked():
    rng = fewstep.Rng(0)
    with pytest.raises(errors.NotConverged, match="conjugate gradients stopped after 1 iterations"):
        matfree.conjugate_gradients(NOISY, VECTOR, iterations=1)
    with pytest.raises(errors.OutOfRange, match="tolerance is 0"):
        matfree.conjugate_gradients(NOISY, VECTOR, tolerance=0.0)
    with pytest.raises(errors.SizeMismatch, match="right-hand side has size 1, but 12"):
        matfree.conjugate_gradients(NOISY, [1.0])
    with pytest.raises(errors.SizeMismatch, match="vector has size 1, but 12"):
        matfree.DenseKernel(NOISY) @ [1.0]
    with pytest.raises(errors.OutOfRange, match="number of eigenpairs is 13"):
        matfree.lanczos_top(NOISY, 13, rng)
    with pytest.raises(errors.OutOfRange, match="number of Lanczos steps is 0"):
        matfree.largest_eigenvalue(NOISY, 0, 0.1, rng)
    with pytest.raises(errors.OutOfRange, match="failure probability is 0"):
        matfree.largest_eigenvalue(NOISY, 1, 0.0, rng)
    with pytest.raises(errors.OutOfRange, match="number of probes is 1"):
        matfree.hutchinson_trace(NOISY, 1, rng)
    with pytest.raises(errors.TooMuchMemory, match="number of probes"):
        matfree.hutchinson_trace(NOISY, 2**62, rng)
    with pytest.raises(errors.NotPositiveSemidefinite):
        matfree.largest_eigenvalue(-NOISY, 5, 0.1, rng)
    with pytest.raises(errors.SizeMismatch, match="couplings has size 1, but 2 is needed"):
        matfree.query_scores(KERNELS, [VECTOR], NOISE)
    with pytest.raises(errors.OutOfRange, match="noise variance is 0"):
        matfree.block_scores(KERNELS, 0.0, 5, rng)
    with pytest.raises(errors.WrongType, match="descent is NoUpdate; a GradientDescent is needed"):
        matfree.query_correction(TOTAL, VECTOR, VECTOR, fewstep.NoUpdate())
    with pytest.raises(errors.UnknownName, match='unknown kind of noise "fitted": expected profiled'):
        evidence(TOTAL, "fitted", rng)
    with pytest.raises(errors.WrongType, match="noise is list; give profiled, plug-in or a number"):
        evidence(TOTAL, [], rng)
    with pytest.raises(errors.OutOfRange, match="noise variance is -1"):
        evidence(TOTAL, -1.0, rng)
    with pytest.raises(errors.Empty, match="candidate horizons is empty"):
        evidence(TOTAL, "profiled", rng, horizons=[])
    small = matfree.LargestEigenvalue(1.0, 0.0)
    with pytest.raises(errors.OutOfRange, match="upper bound of the largest eigenvalue is 1"):
        evidence(TOTAL, "profiled", rng, largest=small)
    with pytest.raises(errors.StepTooLarge):
        evidence(TOTAL, "profiled", rng, largest=matfree.LargestEigenvalue(1e9, 0.0))
    with pytest.raises(TypeError):
        matfree.lanczos_top(NOISY, 1, 0)


def test_what_operators_look_like():
    assert repr(matfree.DenseKernel(TOTAL)) == "DenseKernel(12 examples)"
    assert repr(matfree.operator(lambda v: v, 5)) == "Operator(5 examples)"
    assert repr(matfree.LargestEigenvalue(3.0, 1.0)) == "LargestEigenvalue(value=3.00, bound=1.00)"
    solution = matfree.conjugate_gradients(NOISY, VECTOR)
    assert repr(solution).startswith("Solution(vector=array of 12, iterations=")
    assert isinstance(matfree.BlockSum([TOTAL]), matfree.Operator)

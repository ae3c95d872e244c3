"""Scores and choices of blocks, against dense algebra in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors, subspace

from .near import assert_near, normals, same_as

EXAMPLES, BLOCKS, NOISE = 7, 4, 0.3
FEATURES = [normals(seed, EXAMPLES, 3) for seed in range(BLOCKS)]
QUERIES = [normals(10 + seed, 3) for seed in range(BLOCKS)]
KERNELS = [features @ features.T for features in FEATURES]
COUPLINGS = [features @ query for features, query in zip(FEATURES, QUERIES)]
RESIDUALS = normals(20, EXAMPLES)
OPERATIONS = EXAMPLES**2 * np.linalg.cond(sum(KERNELS) + NOISE * np.eye(EXAMPLES))


def geometry(query=True):
    blocks = [
        fewstep.Block.from_features(f"value.0.{index}", features, query if query is None else q)
        for index, (features, q) in enumerate(zip(FEATURES, QUERIES))
    ]
    return fewstep.Geometry(RESIDUALS, blocks)


GEOMETRY = geometry()


def test_scores():
    inverse = np.linalg.inv(sum(KERNELS) + NOISE * np.eye(EXAMPLES))
    traces = [np.trace(kernel @ inverse) for kernel in KERNELS]
    assert_near(subspace.trace_scores(GEOMETRY, NOISE), traces, OPERATIONS)
    forms = [coupling @ inverse @ coupling for coupling in COUPLINGS]
    assert_near(subspace.query_scores(GEOMETRY, NOISE), forms, OPERATIONS)
    assert_near(subspace.per_weight(traces, GEOMETRY), np.array(traces) / 3, 2)


def test_orders():
    scores = np.array([0.125, 0.75, 0.75, 0.25])
    assert subspace.top(scores, 3) == [1, 2, 3]
    assert subspace.bottom(scores, 2) == [0, 3]
    for other in same_as(scores):
        assert subspace.top(other, 3) == [1, 2, 3]
    drawn = subspace.random(9, 4, fewstep.Rng(1))
    assert len(set(drawn)) == 4 and max(drawn) < 9
    assert drawn == subspace.random(9, 4, fewstep.Rng(1))


def steps(kernel, coupling, scale, horizon, residuals=RESIDUALS):
    rho = scale / np.linalg.eigvalsh(kernel)[-1]
    weights = np.zeros(len(residuals))
    for _ in range(horizon):
        weights = weights + rho * (residuals - kernel @ weights)
    return coupling @ weights


def test_the_greedy_rule_takes_what_moves_the_query_most():
    choice = subspace.greedy_correction(GEOMETRY, 3, 0.4, 5)
    chosen = []
    for correction in choice.corrections:
        left = [block for block in range(BLOCKS) if block not in chosen]
        sums = [
            steps(
                sum(KERNELS[b] for b in chosen + [block]),
                sum(COUPLINGS[b] for b in chosen + [block]),
                0.4,
                5,
            )
            for block in left
        ]
        best = int(np.argmax(np.abs(sums)))
        chosen.append(left[best])
        assert_near(correction, sums[best], 100, scale=np.abs(sums).max())
    assert choice.blocks == chosen
    assert choice.to_dict()["blocks"] == chosen
    assert repr(choice).endswith("corrections=array of 3)")


def leave_one_out_errors(kernel, scale, horizon):
    rho = scale / np.linalg.eigvalsh(kernel)[-1]
    found = []
    for example in range(EXAMPLES):
        rest = [other for other in range(EXAMPLES) if other != example]
        weights = np.zeros(EXAMPLES - 1)
        for _ in range(horizon):
            weights = weights + rho * (RESIDUALS[rest] - kernel[np.ix_(rest, rest)] @ weights)
        found.append((RESIDUALS[example] - kernel[example, rest] @ weights) ** 2)
    return found


@pytest.mark.parametrize("averaging, average", [("plain", np.mean), ("median", np.median)])
@pytest.mark.parametrize("step_scale", [0.1, 0.9])
def test_depth_is_that_of_the_layers_that_predict_best(step_scale, averaging, average):
    # Three layers, the last of two blocks, whose names do not matter.
    blocks = [
        fewstep.Block(f"value.0.{index}", kernel, layer=layer)
        for index, (layer, kernel) in enumerate(zip([2, 4, 7, 7], KERNELS, strict=True))
    ]
    layered = fewstep.Geometry(RESIDUALS, blocks)
    horizons = [0, 1, 2, 3]
    choice = subspace.last_layers(
        layered, step_scale=step_scale, horizons=np.array(horizons), averaging=averaging
    )
    sets = [[2, 3], [1, 2, 3], [0, 1, 2, 3]]
    kernels = [sum(KERNELS[block] for block in chosen) for chosen in sets]
    errors_of = lambda kernel, t: leave_one_out_errors(kernel, step_scale, t)
    risks = [min(average(errors_of(kernel, t)) for t in horizons) for kernel in kernels]
    assert choice.layers == [1, 2, 3]
    for found, risk in zip(choice.risks, risks, strict=True):
        assert_near(found, risk, 1000)
    # Of equal ones the largest.
    best = max(index for index, risk in enumerate(risks) if risk == min(risks))
    assert choice.blocks == sets[best]


def test_what_does_not_fit_is_refused():
    alone = geometry(None)
    with pytest.raises(errors.NoQuery, match="the query score needs a query"):
        subspace.query_scores(alone, NOISE)
    with pytest.raises(errors.NoQuery, match="the greedy choice of blocks needs a query"):
        subspace.greedy_correction(alone, 1, 0.4, 5)
    with pytest.raises(errors.OutOfRange, match="noise variance is 0"):
        subspace.trace_scores(GEOMETRY, 0.0)
    with pytest.raises(errors.BudgetOutOfRange, match="budget is 5 blocks; .* at most 4"):
        subspace.greedy_correction(GEOMETRY, 5, 0.4, 5)
    with pytest.raises(errors.BudgetOutOfRange, match="budget is 0 blocks"):
        subspace.top([1.0], 0)
    with pytest.raises(errors.NotFinite, match="scores has the entry NaN at position 0"):
        subspace.bottom([np.nan], 1)
    with pytest.raises(errors.SizeMismatch, match="scores has size 1, but 4 is needed"):
        subspace.per_weight([1.0], GEOMETRY)
    with pytest.raises(errors.OutOfRange, match="step scale is 1"):
        subspace.greedy_correction(GEOMETRY, 1, 1.0, 5)
    with pytest.raises(errors.UnknownName, match='unknown kind of average "mode": expected plain'):
        subspace.last_layers(GEOMETRY, step_scale=0.4, horizons=[1], averaging="mode")
    with pytest.raises(errors.Empty):
        subspace.last_layers(GEOMETRY, step_scale=0.4, horizons=[], averaging="plain")
    with pytest.raises(errors.OutOfRange, match="step scale is 1"):
        subspace.last_layers(GEOMETRY, step_scale=1.0, horizons=[1], averaging="plain")
    with pytest.raises(errors.TooMuchMemory, match="number of blocks"):
        subspace.random(2**62, 1, fewstep.Rng(0))

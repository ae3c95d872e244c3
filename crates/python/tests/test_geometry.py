"""Blocks and geometries against products in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import Block, Geometry, errors
from fewstep import Answers

from .prompts import close, guises, prompt


def test_a_block_holds_what_it_was_given():
    features, _, query = prompt(0)
    kernel, coupling = features @ features.T, features @ query
    block = Block("value.5.3", kernel, coupling, float(query @ query), 4)
    assert (block.name, block.parameters, block.examples) == ("value.5.3", 4, 6)
    assert block.kernel.tolist() == kernel.tolist()
    assert block.coupling.tolist() == coupling.tolist()
    assert block.query_variance == float(query @ query)
    assert block.to_dict()["kernel"] == kernel.tolist()
    bare = Block("value.5.3", kernel)
    assert (bare.coupling, bare.query_variance, bare.parameters) == (None, None, None)
    assert bare != block and bare == Block("value.5.3", kernel)
    # What is handed out is a copy.
    block.kernel[0, 0] = 99.0
    assert block.kernel.tolist() == kernel.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_products_of_features(seed):
    features, _, query = prompt(seed)
    block = Block.from_features("a", features, query)
    assert close(block.kernel, features @ features.T)
    assert close(block.coupling, features @ query)
    assert close(block.query_variance, query @ query)
    assert block.parameters == 4
    root = np.random.default_rng(seed).normal(size=(4, 4))
    prior = root @ root.T
    block = Block.from_prior("a", features, prior, query)
    assert close(block.kernel, features @ prior @ features.T, many=1e3)
    assert close(block.coupling, features @ prior @ query, many=1e3)
    assert close(block.query_variance, query @ prior @ query, many=1e3)


def test_factors_are_jacobians():
    generator = np.random.default_rng(1)
    pairs = [(generator.normal(size=(3, 4)), generator.normal(size=(3, 2))) for _ in range(5)]
    jacobians = [(adjoints.T @ inputs).ravel() for inputs, adjoints in pairs]
    rows, query = np.array(jacobians[:4]), jacobians[4]
    block = Block.from_factors("a", pairs[:4], pairs[4])
    assert close(block.kernel, rows @ rows.T, many=1e3)
    assert close(block.coupling, rows @ query, many=1e3)
    assert close(block.query_variance, query @ query, many=1e3)
    assert block.parameters == 8
    assert Block.from_factors("a", iter(pairs[:4])).coupling is None
    assert Block.intercept(3).kernel.tolist() == np.ones((3, 3)).tolist()


def test_blocks_add_up():
    features, residuals, query = prompt(2)
    columns = [[0], [1, 3], [2]]
    blocks = [
        Block.from_features(str(index), features[:, chosen], query[chosen])
        for index, chosen in enumerate(columns)
    ]
    geometry = Geometry(residuals, blocks)
    assert (geometry.examples, geometry.blocks) == (6, blocks)
    assert geometry.residuals.tolist() == residuals.tolist()
    assert close(geometry.total().kernel, features @ features.T)
    assert close(geometry.total().coupling, features @ query)
    kept = features[:, [0, 2]]
    for chosen in ([2, 0], (2, 0), np.array([2, 0]), iter([2, 0])):
        assert close(geometry.sum(chosen).kernel, kept @ kept.T)
    variances = np.array([0.5, 2.0, 3.0])
    scaled = geometry.precondition(variances)
    weights = np.array([0.5, 2.0, 3.0, 2.0])
    assert close(scaled.total().kernel, features @ np.diag(weights) @ features.T)
    assert close(scaled.total().query_variance, query @ np.diag(weights) @ query)


def test_a_geometry_from_one_kernel_or_features():
    features, residuals, query = prompt(2)
    kernel, coupling = features @ features.T, features @ query
    geometry = Geometry.from_kernel(kernel, residuals, coupling, float(query @ query))
    block = Block("kernel", kernel, coupling, float(query @ query))
    assert geometry == Geometry(residuals, [block])
    geometry = Geometry.from_features(features, residuals, query)
    block = Block.from_features("features", features, query)
    assert geometry == Geometry(residuals, [block])


def test_a_geometry_from_factors_of_every_block():
    generator = np.random.default_rng(3)
    pair = lambda: (generator.normal(size=(3, 4)), generator.normal(size=(3, 2)))
    factors = {name: [pair() for _ in range(5)] for name in ("value.0.0", "value.0.1")}
    queries = {name: pair() for name in factors}
    residuals = generator.normal(size=5)
    geometry = Geometry.from_factors(factors, residuals, queries)
    blocks = [Block.from_factors(name, factors[name], queries[name]) for name in factors]
    assert geometry == Geometry(residuals, blocks)
    assert [block.name for block in geometry.blocks] == list(factors)
    # Products of whole Jacobians say the same.
    jacobian = lambda pair: (pair[1].T @ pair[0]).ravel()
    rows = np.hstack([[jacobian(one) for one in pairs] for pairs in factors.values()])
    query = np.concatenate([jacobian(one) for one in queries.values()])
    assert close(geometry.total().kernel, rows @ rows.T, many=1e3)
    assert close(geometry.total().coupling, rows @ query, many=1e3)
    assert Geometry.from_factors(factors, residuals).blocks[0].coupling is None
    assert geometry.to_dict() == {
        "residuals": residuals.tolist(),
        "blocks": [block.to_dict() for block in blocks],
        "answers": None,
    }
    with pytest.raises(errors.UnknownName, match="queries has 'value.0.2', which is no block"):
        Geometry.from_factors(factors, residuals, {"value.0.2": pair()})
    with pytest.raises(errors.NoQuery):
        Geometry.from_factors(factors, residuals, {"value.0.1": pair()})
    with pytest.raises(errors.WrongType, match="blocks is list; a dictionary by names"):
        Geometry.from_factors([pair()], residuals)
    with pytest.raises(errors.WrongType, match="queries is tuple; a dictionary by names"):
        Geometry.from_factors(factors, residuals, pair())
    with pytest.raises(errors.Empty, match="candidate blocks is empty"):
        Geometry.from_factors({}, residuals)
    with pytest.raises((TypeError, ValueError)):
        Geometry.from_factors({"a": [1.0]}, residuals)


def test_a_geometry_may_know_the_answers():
    geometry = Geometry([0.75, -0.5], [Block.intercept(2)])
    answers = Answers([1, 0], [0.25, 0.5], (0.0, 1.0))
    answered = geometry.with_answers(answers)
    assert geometry.answers is None and answered.answers == answers
    assert geometry != answered == geometry.with_answers(answers)
    assert answered.to_dict() == {**geometry.to_dict(), "answers": answers.to_dict()}
    assert answered.precondition([2.0]).answers == answers
    with pytest.raises(errors.SizeMismatch, match="answers has size 1, but 2 is needed"):
        geometry.with_answers(Answers([1], [0.25], (0.0, 1.0)))
    with pytest.raises(TypeError):
        geometry.with_answers([1, 0])


def test_arrays_in_every_guise_are_the_same():
    features = np.array([[1.0, 0.5], [2.0, -0.25], [0.5, 4.0]])
    residuals, query = np.array([0.5, 0.25, -1.0]), np.array([2.0, 0.5])
    expected = Geometry.from_features(features, residuals, query)
    for rows, vector, last in zip(guises(features), guises(residuals), guises(query)):
        assert Geometry.from_features(rows, vector, last) == expected


def test_what_does_not_fit_is_refused():
    with pytest.raises(errors.WrongType, match="coupling is given without query_variance"):
        Block("a", np.eye(2), coupling=[0.1, 0.1])
    with pytest.raises(errors.WrongType, match="query_variance is given without coupling"):
        Block("a", np.eye(2), query_variance=1.0)
    with pytest.raises(errors.CouplingTooLarge, match="of example 1 to the query is too large"):
        Block("a", np.eye(2), [0.5, 2.0], 1.0)
    with pytest.raises(errors.Empty, match="kernel is empty"):
        Block("a", np.zeros((0, 0)))
    with pytest.raises(errors.SizeMismatch):
        Block.from_features("a", np.eye(2), [1.0, 2.0, 3.0])
    with pytest.raises(errors.NotSymmetric):
        Block.from_prior("a", np.eye(2), [[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(errors.SizeMismatch, match="adjoints has size 1, but 2"):
        Block.from_factors("a", [(np.eye(2), np.ones((1, 2)))])
    with pytest.raises(errors.OutOfRange, match="examples is 1000000000"):
        Block.intercept(10**9)
    with pytest.raises(errors.DuplicateBlock, match="two blocks are named"):
        Geometry([1.0], [Block.intercept(1), Block.intercept(1)])
    with pytest.raises(errors.Empty, match="candidate blocks is empty"):
        Geometry([1.0], [])
    with pytest.raises(errors.NoQuery):
        Geometry([1.0], [Block.intercept(1), Block("a", [[1.0]])])
    with pytest.raises(TypeError):
        Geometry([1.0], ["a"])
    geometry = Geometry([1.0], [Block.intercept(1)])
    with pytest.raises(errors.BadBlock, match="block 1 cannot be chosen"):
        geometry.sum([1])
    # Without reading all of them.
    with pytest.raises(errors.BadBlock, match="block 1 cannot be chosen"):
        geometry.sum(range(10**12))
    with pytest.raises(errors.OutOfRange, match="block variance is 0"):
        geometry.precondition([0.0])

"""The best update directions, against dense algebra in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from fewstep import errors
from fewstep.theory import design

from .near import assert_near, gram, normals, same_as

JACOBIAN = normals(1, 4, 6)
QUERIES = normals(2, 3, 6)
NOISE = 0.4
PRIORS = {
    "isotropic": (0.7, 0.7 * np.eye(6)),
    "diagonal": ([0.5, 0.0, 1.0, 0.25, 2.0, 0.1], np.diag([0.5, 0.0, 1.0, 0.25, 2.0, 0.1])),
    "full": (gram(3, 6, 6), gram(3, 6, 6)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_posterior(name):
    given, prior = PRIORS[name]
    model = design.LinearGaussian(JACOBIAN, given, NOISE)
    spread = prior @ JACOBIAN.T
    kernel = JACOBIAN @ spread + NOISE * np.eye(4)
    information = spread @ np.linalg.solve(kernel, spread.T)
    residuals, vector = normals(4, 4), normals(5, 6)
    size = 36 * np.linalg.cond(kernel)
    assert model.parameters == 6
    mean = spread @ np.linalg.solve(kernel, residuals)
    assert_near(model.posterior_mean(residuals), mean, size)
    assert_near(model.information(vector), information @ vector, size)
    assert_near(model.information_matrix(), information, size)
    left = prior @ vector - information @ vector
    scale = np.abs(prior @ vector).max()
    assert_near(model.posterior_covariance(vector), left, size, scale=scale)


@pytest.mark.parametrize("name", PRIORS)
def test_the_best_subspace(name):
    given, prior = PRIORS[name]
    model = design.LinearGaussian(JACOBIAN, given, NOISE)
    metric = design.QueryMetric.from_queries(QUERIES)
    weights = QUERIES.T @ QUERIES / 3
    found = model.query_information(metric)
    information = model.information_matrix()
    assert_near(found.total, np.trace(weights @ prior), 100)
    # The nonzero eigenvalues of Q^(1/2) I Q^(1/2) are those of I Q.
    expected = np.sort(np.linalg.eigvals(information @ weights).real)[::-1][:3]
    assert_near(np.linalg.eigvalsh(found.matrix)[::-1], expected, 1000)
    for budget in [1, 2, 3]:
        subspace = found.optimal_subspace(budget)
        assert_near(subspace.captured, expected[:budget].sum(), 1000)
        risk = np.trace(weights @ prior) - expected[:budget].sum()
        assert_near(subspace.risk, risk, 1000, scale=found.total)
        assert_near(found.risk(subspace), risk, 1000, scale=found.total)
        assert_near(subspace.basis @ subspace.basis.T, np.eye(budget), 100)
        directions = subspace.directions(metric)
        assert_near(directions @ weights @ directions.T, np.eye(budget), 1000)


def test_the_metric():
    metric = design.QueryMetric.from_queries(QUERIES)
    weights = QUERIES.T @ QUERIES / 3
    assert (metric.parameters, metric.dimension) == (6, 3)
    vector = normals(6, 6)
    whitened = metric.whiten(vector)
    assert_near(whitened @ whitened, vector @ weights @ vector, 100)
    back = np.linalg.pinv(weights) @ weights @ vector
    assert_near(metric.unwhiten(whitened), back, 1000)
    same = design.QueryMetric.from_matrix(weights)
    assert same.dimension == 3
    assert_near(np.abs(same.whiten(vector)), np.abs(whitened), 1000)
    assert design.QueryMetric.from_queries(np.zeros((2, 3))).dimension == 0


def test_the_average_over_prompts():
    metric = design.QueryMetric.from_queries(QUERIES)
    average = design.GlobalInformation(3)
    matrices, totals = [], []
    for seed in [1, 7, 8]:
        found = design.LinearGaussian(normals(seed, 4, 6), 1.0, NOISE).query_information(metric)
        average.add(found)
        matrices.append(found.matrix)
        totals.append(found.total)
    mean = average.mean()
    assert average.prompts == 3 and repr(average) == "GlobalInformation(3 prompts)"
    assert_near(mean.matrix, np.mean(matrices, axis=0), 10)
    assert_near(mean.total, np.mean(totals), 10)


def test_the_price_of_an_average():
    log = np.log(2 * 5 / 0.1)
    deviation = (np.sqrt(2 * 3.0 * log) + 2 / 3 * 1.5 * log) / 12
    plug_in = design.PlugIn(12, 5, 1.5, 3.0)
    assert_near(plug_in.deviation(0.1), deviation, 8)
    assert_near(plug_in.regret(2, 0.1), 4 * deviation, 8)
    assert design.PlugIn.independent(12, 5, 1.5, 0.25) == plug_in
    with pytest.raises(errors.BudgetOutOfRange, match="budget is 6 blocks"):
        plug_in.regret(6, 0.1)
    with pytest.raises(errors.OutOfRange, match="failure probability is 1"):
        plug_in.deviation(1.0)
    with pytest.raises(errors.Empty, match="prompts is empty"):
        design.PlugIn(0, 1, 1.0, 1.0)


def test_other_kinds_of_arrays_give_the_same():
    jacobian = np.round(8 * JACOBIAN) / 8
    prior = np.array([0.5, 0.0, 1.0, 0.25, 2.0, 0.125])
    residuals = np.array([0.5, -0.25, 1.0, 0.125])
    expected = design.LinearGaussian(jacobian, prior, NOISE).posterior_mean(residuals).tolist()
    for other in zip(same_as(jacobian), same_as(prior), same_as(residuals)):
        model = design.LinearGaussian(other[0], other[1], NOISE)
        assert model.posterior_mean(other[2]).tolist() == expected
    full = design.LinearGaussian(jacobian, np.diag(prior), NOISE)
    assert_near(full.posterior_mean(residuals), expected, 36)
    for number in [2, np.float32(2.0), np.array(2.0)]:
        assert design.LinearGaussian(jacobian, number, NOISE) == design.LinearGaussian(
            jacobian, 2.0, NOISE
        )


def test_what_does_not_fit_is_refused():
    model = design.LinearGaussian(JACOBIAN, 1.0, NOISE)
    metric = design.QueryMetric.from_queries(QUERIES)
    with pytest.raises(errors.OutOfRange, match="noise variance is 0; it must be finite and over 0"):
        design.LinearGaussian(JACOBIAN, 1.0, 0.0)
    with pytest.raises(errors.SizeMismatch, match="prior variances has size 2, but 6 is needed"):
        design.LinearGaussian(JACOBIAN, [1.0, 1.0], NOISE)
    with pytest.raises(errors.NotPositiveSemidefinite):
        design.LinearGaussian(JACOBIAN, np.diag([1.0, 1, 1, 1, 1, -1]), NOISE)
    with pytest.raises(errors.WrongShape, match="prior has 3 axes"):
        design.LinearGaussian(JACOBIAN, np.zeros((1, 1, 1)), NOISE)
    with pytest.raises(errors.WrongType, match="prior has entries of type"):
        design.LinearGaussian(JACOBIAN, ["a"], NOISE)
    with pytest.raises(errors.WrongShape, match="jacobian has 1 axes"):
        design.LinearGaussian([1.0], 1.0, NOISE)
    with pytest.raises(errors.Empty, match="prompt Jacobian is empty"):
        design.LinearGaussian(np.zeros((0, 3)), 1.0, NOISE)
    with pytest.raises(errors.NotFinite, match="residuals has the entry inf at position 0"):
        model.posterior_mean([np.inf, 0.0, 0.0, 0.0])
    with pytest.raises(errors.SizeMismatch, match="query metric has size 2"):
        model.query_information(design.QueryMetric.from_matrix(np.eye(2)))
    with pytest.raises(errors.BudgetOutOfRange, match="at least 1 and at most 3"):
        model.query_information(metric).optimal_subspace(4)
    with pytest.raises(errors.Empty, match="average over prompts is empty"):
        design.GlobalInformation(3).mean()
    with pytest.raises(errors.SizeMismatch, match="query information has size 3"):
        design.GlobalInformation(2).add(model.query_information(metric))
    with pytest.raises(errors.TooMuchMemory, match="number of entries"):
        design.GlobalInformation(2**40)

"""Guarantees, against Gaussian algebra in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import fewstep
from fewstep import errors
from fewstep.theory import pac_bayes
from fewstep.theory.pac_bayes import Certificate, EvidenceFamily, PacBayes, Reference

from .near import assert_near, gram, same_as

N, NOISE, HORIZONS = 6, 0.5, [0, 2, 5]
KERNEL = gram(1, N, 4)
SPECTRUM = fewstep.Spectrum(KERNEL)
STEP = fewstep.StepSize.fraction(0.4, SPECTRUM)
FAMILY = EvidenceFamily(SPECTRUM, STEP, NOISE, HORIZONS)
IDENTITY = np.eye(N)
OTHER = gram(2, N, N) + NOISE * IDENTITY


def law(horizon):
    shrunk = IDENTITY - float(STEP) * KERNEL
    return NOISE * np.linalg.inv(np.linalg.matrix_power(shrunk, horizon))


REFERENCES = {
    "benchmark": (Reference.benchmark(0.7, 0.6), 0.7 * KERNEL + 0.6 * IDENTITY),
    "horizon": (Reference.horizon(2), law(2)),
    "covariance": (Reference.covariance(OTHER), OTHER),
}
EVIDENCE = [0.25, 0.125, 0.375]


def log_determinant(matrix):
    return np.linalg.slogdet(matrix)[1]


@pytest.mark.parametrize("name", REFERENCES)
def test_the_terms_of_the_bounds(name):
    reference, truth = REFERENCES[name]
    measured = PacBayes(FAMILY, reference)
    laws = [law(horizon) for horizon in HORIZONS]
    products = [np.linalg.solve(covariance, truth) for covariance in laws]
    ratios = [np.sort(np.linalg.eigvals(product).real) for product in products]
    operations = 100 * N**2
    for found, expected in zip(measured.ratios, ratios):
        assert_near(np.sort(found), expected, operations)
    variances = [np.trace(product @ product) / N for product in products]
    assert_near(measured.variances, variances, operations)
    assert_near(measured.largest_variance, max(variances), operations)
    assert_near(measured.operator_norms, [values[-1] for values in ratios], operations)
    risks = [
        (log_determinant(covariance) + np.trace(product)) / (2 * N)
        for covariance, product in zip(laws, products)
    ]
    true_risk = (log_determinant(truth) + N) / (2 * N)
    assert_near(measured.population_risks, risks, operations, scale=5.0)
    assert_near(measured.true_risk, true_risk, operations, scale=5.0)
    entropies = N * (np.array(risks) - true_risk)
    assert_near(measured.relative_entropies, entropies, operations, scale=5.0)
    gaps = 4 * NOISE * entropies / N
    assert_near(measured.gap_from_evidence(), gaps, operations, scale=5.0)
    moments = [
        beta / 2 * np.trace(product) - log_determinant(IDENTITY + beta * product) / 2
        for beta in [1.3]
        for product in products
    ]
    assert_near(measured.log_moments(1.3), moments, operations, scale=5.0)
    assert_near(measured.log_moment_bounds(1.3), 1.3**2 / 4 * N * np.array(variances), operations)


@pytest.mark.parametrize("name", REFERENCES)
def test_bounds(name):
    measured = PacBayes(FAMILY, REFERENCES[name][0], prior=[4.0, 2.0, 2.0])
    assert measured == PacBayes(FAMILY, REFERENCES[name][0]).with_prior([2.0, 1.0, 1.0])
    variance, confidence = measured.largest_variance, 0.9
    cost = np.log(1 / 0.25) + np.log(1 / 0.1)
    slack = np.sqrt(variance * cost / N)
    found = measured.bound(5, 0.375, confidence)
    assert_near(found.slack, slack, 20)
    assert_near(found.bound, 0.375 + slack, 20)
    assert_near(found.inverse_temperature, 2 * np.sqrt(cost / (N * variance)), 20)
    assert found.confidence == confidence

    moment = lambda beta: measured.log_moments(beta)[2]
    betas = np.geomspace(1e-2, 1e3, 4000)
    tightest = min((cost + moment(beta)) / (beta * N) for beta in betas)
    exact = measured.exact_bound(5, 0.375, confidence)
    assert exact.slack <= tightest <= exact.slack * (1 + 1e-5)

    deviations = np.sqrt(measured.variances * np.log(10) / N)
    deviations = deviations + measured.operator_norms * np.log(10) / N
    assert_near(measured.upper_deviations(confidence), deviations, 20)
    best = measured.bound(2, 0.125, confidence).slack
    gap = 4 * NOISE * (0.125 - measured.true_risk + best)
    assert_near(measured.gap_bound(EVIDENCE, confidence), gap, 20, scale=5.0)

    log = np.log(20)
    vanishing = measured.vanishing_gap(2, confidence)
    terms = [
        measured.relative_entropies[1] / N,
        np.sqrt(variance * (log + np.log(4)) / N),
        np.sqrt(measured.variances[1] * log / N),
        measured.operator_norms[1] * log / N,
    ]
    found = [vanishing.approximation, vanishing.selection, vanishing.fluctuation, vanishing.tail]
    assert_near(found, terms, 20)
    assert_near(vanishing.bound, 4 * NOISE * sum(terms), 20)
    assert vanishing.to_dict()["confidence"] == confidence


def test_certificates():
    measured = PacBayes(FAMILY, REFERENCES["horizon"][0])
    weights = np.array([0.5, 0.25, 0.25])
    distance = (weights * np.log(3 * weights)).sum()
    beta = 1.3
    for certificate, moments in [
        (measured.certificate(beta, 0.9), beta**2 / 4 * N * measured.largest_variance),
        (measured.exact_certificate(beta, 0.9), weights @ measured.log_moments(beta)),
    ]:
        slack = (distance + np.log(10) + moments) / (beta * N)
        assert_near(certificate.slack(weights), slack, 20)
        assert_near(certificate.slack(8 * weights), slack, 20)
        found = certificate.bound(weights, EVIDENCE)
        assert_near(found.bound, weights @ EVIDENCE + slack, 20)
        assert found.inverse_temperature == beta and found.confidence == 0.9
        for other in same_as(weights):
            assert certificate.slack(other) == certificate.slack(weights)
    rate = measured.rate_certificate(np.log(3), 0.9)
    worst = np.sqrt(measured.largest_variance * np.log(30) / N)
    assert_near(rate.slack([1.0, 0.0, 0.0]), worst, 20)
    own = Certificate([0.5, 0.5], [2.0, 1.0], 2.0, 4, 0.9)
    assert_near(own.slack([1.0, 0.0]), (np.log(2) + np.log(10) + 2) / 8, 20)


def test_mismatch():
    for ratio in [0.1, 0.999, 1.0, 1.001, 7.0]:
        expected = ratio - 1 - np.log(ratio)
        assert_near(pac_bayes.variance_mismatch(ratio), expected, 2, scale=ratio)
        floor = (ratio - 1) ** 2 / (2 * max(ratio, 1))
        assert_near(pac_bayes.variance_mismatch_floor(ratio), floor, 4)
    assert pac_bayes.variance_mismatch(0.0) == np.inf


def test_parts_can_be_read():
    assert FAMILY.horizons == HORIZONS and FAMILY.noise_variance == NOISE
    assert repr(FAMILY) == "EvidenceFamily(6 examples, 3 horizons)"
    assert repr(Reference.horizon(3)) == "Reference.horizon(3)"
    assert EvidenceFamily(SPECTRUM, STEP, NOISE, range(3)).horizons == [0, 1, 2]
    assert EvidenceFamily(SPECTRUM, STEP, NOISE, np.arange(3)).horizons == [0, 1, 2]


def test_the_family_keeps_its_parts():
    """The Rust value borrows; Python may drop what it was made of."""
    spectrum = fewstep.Spectrum(KERNEL)
    family = EvidenceFamily(spectrum, fewstep.StepSize.fraction(0.4, spectrum), NOISE, HORIZONS)
    del spectrum
    assert PacBayes(family, Reference.horizon(2)) == PacBayes(FAMILY, Reference.horizon(2))


def test_what_does_not_fit_is_refused():
    measured = PacBayes(FAMILY, Reference.horizon(2))
    with pytest.raises(errors.OutOfRange, match="noise variance is 0; it must be finite and over 0"):
        EvidenceFamily(SPECTRUM, STEP, 0.0, HORIZONS)
    with pytest.raises(errors.Empty, match="candidate horizons is empty"):
        EvidenceFamily(SPECTRUM, STEP, NOISE, [])
    with pytest.raises(errors.OutOfRange, match="horizon"):
        EvidenceFamily(SPECTRUM, STEP, NOISE, [1, 1])
    with pytest.raises(errors.OutOfRange, match="horizons holds -1"):
        EvidenceFamily(SPECTRUM, STEP, NOISE, [-1])
    with pytest.raises(errors.WrongType, match="horizons holds float"):
        EvidenceFamily(SPECTRUM, STEP, NOISE, [0.5])
    large = fewstep.StepSize.fraction(0.9, fewstep.Spectrum(KERNEL / 10))
    with pytest.raises(errors.StepTooLarge):
        EvidenceFamily(SPECTRUM, large, NOISE, HORIZONS)
    with pytest.raises(errors.OutOfRange, match="signal variance is -1"):
        PacBayes(FAMILY, Reference.benchmark(-1.0, 1.0))
    with pytest.raises(errors.SizeMismatch, match="reference covariance has size 2"):
        PacBayes(FAMILY, Reference.covariance(np.eye(2)))
    with pytest.raises(errors.OutOfRange, match="smallest eigenvalue of the reference covariance"):
        PacBayes(FAMILY, Reference.covariance(KERNEL))
    with pytest.raises(errors.SizeMismatch):
        PacBayes(FAMILY, Reference.horizon(2), [1.0])
    with pytest.raises(errors.OutOfRange, match="horizon is 7; it must be one of the candidates"):
        measured.bound(7, 0.5, 0.9)
    with pytest.raises(errors.OutOfRange, match="confidence is 1; it must be over 0 and under 1"):
        measured.exact_bound(2, 0.5, 1.0)
    with pytest.raises(errors.NotFinite, match="evidence has the entry NaN at position 0"):
        measured.bound(2, float("nan"), 0.9)
    with pytest.raises(errors.SizeMismatch, match="evidence has size 1, but 3 is needed"):
        measured.gap_bound([0.1], 0.9)
    with pytest.raises(errors.OutOfRange, match="relative to the noise variance"):
        PacBayes(FAMILY, Reference.benchmark(1.0, 0.1)).gap_from_evidence()
    with pytest.raises(errors.OutOfRange, match="inverse temperature is 0"):
        measured.log_moments(0.0)
    with pytest.raises(errors.Empty, match="prompt is empty"):
        Certificate([1.0], [1.0], 1.0, 0, 0.9)

from __future__ import annotations

import numpy as np

import fewstep
from fewstep.theory import pac_bayes
from fewstep.theory.pac_bayes import Certificate, EvidenceFamily, PacBayes, Reference

from . import inputs


def bound(found):
    return [found.bound, found.slack, found.confidence, found.inverse_temperature]


def vanishing(gap):
    terms = [gap.approximation, gap.selection, gap.fluctuation, gap.tail]
    return terms + [gap.bound, gap.confidence]


def cases():
    spectrum = fewstep.Spectrum(inputs.kernel())
    step = fewstep.StepSize.fraction(0.25, spectrum)
    family = EvidenceFamily(spectrum, step, 0.5, [0, 2, 5])
    weights, evidence = [0.5, 0.25, 0.25], [0.25, 0.125, 0.375]
    references = {
        "benchmark": Reference.benchmark(0.75, 0.625),
        "horizon": Reference.horizon(2),
        "covariance": Reference.covariance(inputs.kernel() + 0.75 * np.eye(4)),
    }
    found = {}
    for name, reference in references.items():
        measured = PacBayes(family, reference)
        weighted = PacBayes(family, reference, [4.0, 2.0, 2.0])
        assert weighted == measured.with_prior([4.0, 2.0, 2.0])
        rate = weighted.rate_certificate(0.5, 0.875)
        exact = weighted.exact_certificate(1.25, 0.875)
        values = {
            "ratios": np.concatenate(measured.ratios),
            "variances": measured.variances,
            "operator_norms": measured.operator_norms,
            "population_risks": measured.population_risks,
            "relative_entropies": measured.relative_entropies,
            "numbers": [measured.largest_variance, measured.true_risk],
            "log_moments": measured.log_moments(1.25),
            "log_moment_bounds": measured.log_moment_bounds(1.25),
            "certificate": bound(weighted.certificate(1.25, 0.875).bound(weights, evidence)),
            "exact_certificate": bound(exact.bound(weights, evidence)),
            "rate_certificate": bound(rate.bound(weights, evidence)),
            "bound": bound(weighted.bound(2, 0.125, 0.875)),
            "exact_bound": bound(weighted.exact_bound(2, 0.125, 0.875)),
            "upper_deviations": measured.upper_deviations(0.875),
            "gap_from_evidence": measured.gap_from_evidence(),
            "gap_bound": measured.gap_bound(evidence, 0.875),
            "vanishing_gap": vanishing(measured.vanishing_gap(5, 0.875)),
        }
        for what, value in values.items():
            found[f"pac_bayes.{what}.{name}"] = value
    certificate = Certificate([0.5, 0.5], [2.0, 1.5], 2.0, 3, 0.875)
    ratios = [0.25, 1.0, 1.0009765625, 4.0]
    found["pac_bayes.Certificate.slack"] = certificate.slack([3.0, 1.0])
    found["pac_bayes.Certificate.bound"] = bound(certificate.bound([3.0, 1.0], [0.25, 0.75]))
    found["pac_bayes.variance_mismatch"] = [pac_bayes.variance_mismatch(t) for t in ratios]
    found["pac_bayes.variance_mismatch_floor"] = [
        pac_bayes.variance_mismatch_floor(t) for t in ratios
    ]
    return found

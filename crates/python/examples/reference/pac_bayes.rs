//! What choosing a horizon by evidence guarantees.

use crate::{Lines, inputs};
use fewstep_core::{Error, Matrix, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{
    self, Bound, Certificate, EvidenceFamily, PacBayes, Reference, VanishingGap,
};

fn bound(found: &Bound) -> [f64; 4] {
    [found.bound, found.slack, found.confidence, found.inverse_temperature]
}

fn vanishing(gap: &VanishingGap) -> [f64; 6] {
    let VanishingGap { approximation, selection, fluctuation, tail, bound, confidence } = *gap;
    [approximation, selection, fluctuation, tail, bound, confidence]
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let spectrum = Spectrum::of(&inputs::kernel())?;
    let step = StepSize::fraction(0.25, &spectrum)?;
    let family = EvidenceFamily::new(&spectrum, step, 0.5, &[0, 2, 5])?;
    let mut covariance = inputs::kernel();
    for (index, row) in covariance.iter_mut().enumerate() {
        row[index] += 0.75;
    }
    let covariance = Matrix::from_rows(&covariance)?;
    let (weights, evidence) = ([0.5, 0.25, 0.25], [0.25, 0.125, 0.375]);
    let references = [
        ("benchmark", Reference::Benchmark { signal_variance: 0.75, noise_variance: 0.625 }),
        ("horizon", Reference::Horizon(2)),
        ("covariance", Reference::Covariance(&covariance)),
    ];
    for (name, reference) in references {
        let measured = PacBayes::new(&family, reference)?;
        let weighted = measured.clone().with_prior(&[4.0, 2.0, 2.0])?;
        let mut add = |what: &str, values: &[f64]| {
            lines.add(&format!("pac_bayes.{what}.{name}"), values.to_vec());
        };
        add("ratios", &measured.ratios().concat());
        add("variances", &measured.variances());
        add("operator_norms", &measured.operator_norms());
        add("population_risks", &measured.population_risks());
        add("relative_entropies", &measured.relative_entropies());
        add("numbers", &[measured.largest_variance(), measured.true_risk()]);
        add("log_moments", &measured.log_moments(1.25)?);
        add("log_moment_bounds", &measured.log_moment_bounds(1.25)?);
        for (certificate, found) in [
            ("certificate", weighted.certificate(1.25, 0.875)?),
            ("exact_certificate", weighted.exact_certificate(1.25, 0.875)?),
            ("rate_certificate", weighted.rate_certificate(0.5, 0.875)?),
        ] {
            add(certificate, &bound(&found.bound(&weights, &evidence)?));
        }
        add("bound", &bound(&weighted.bound(2, 0.125, 0.875)?));
        add("exact_bound", &bound(&weighted.exact_bound(2, 0.125, 0.875)?));
        add("upper_deviations", &measured.upper_deviations(0.875)?);
        add("gap_from_evidence", &measured.gap_from_evidence()?);
        add("gap_bound", &[measured.gap_bound(&evidence, 0.875)?]);
        add("vanishing_gap", &vanishing(&measured.vanishing_gap(5, 0.875)?));
    }
    let certificate = Certificate::new(&[0.5, 0.5], &[2.0, 1.5], 2.0, 3, 0.875)?;
    lines.add("pac_bayes.Certificate.slack", [certificate.slack(&[3.0, 1.0])?]);
    lines.add(
        "pac_bayes.Certificate.bound",
        bound(&certificate.bound(&[3.0, 1.0], &[0.25, 0.75])?),
    );
    let ratios = [0.25, 1.0, 1.0009765625, 4.0];
    lines.add("pac_bayes.variance_mismatch", ratios.map(pac_bayes::variance_mismatch));
    lines.add(
        "pac_bayes.variance_mismatch_floor",
        ratios.map(pac_bayes::variance_mismatch_floor),
    );
    Ok(())
}

//! How far from the best fit the horizon with the best evidence can be: Lem. E.15 to Lem. E.17.

use super::{DRAWS, HORIZONS, Literal, ROUNDING, assert_coverage, measure, prompt, references};
use crate::support::{assert_close, for_prompts, gaussian};
use fewstep_core::{Error, Rng, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{
    EvidenceFamily, PacBayes, Reference, variance_mismatch, variance_mismatch_floor,
};

/// Lem. E.15: `t − 1 − log t ≥ (t − 1)²/(2 max{t, 1})` for every `t > 0`, and both keep their
/// digits near 1.
#[test]
fn lem_e_15_scalar_quadratic_bound() {
    for exponent in -3000..=3000 {
        let t = (f64::from(exponent) / 10.0).exp();
        let (mismatch, floor) = (variance_mismatch(t), variance_mismatch_floor(t));
        let literal = t - 1.0 - f64::from(exponent) / 10.0;
        assert_close(mismatch, literal, (t - 1.0).abs() + f64::from(exponent).abs() / 10.0, 1);
        let literal = (t - 1.0) * (t - 1.0) / 2.0 / if t > 1.0 { t } else { 1.0 };
        if literal.is_finite() {
            assert_close(floor, literal, literal, 1);
        }
        assert!(mismatch >= floor * (1.0 - ROUNDING), "at {t}");
    }
    // u − log(1 + u) = u²/2 − u³/3 + u⁴/4 − …, for u = ±2⁻ᵏ exact in binary.
    for k in 3..=50 {
        for sign in [1.0, -1.0] {
            let u = sign * 0.5_f64.powi(k);
            let terms = (2..60).map(|power| {
                (if power % 2 == 0 { 1.0 } else { -1.0 }) * u.powi(power) / f64::from(power)
            });
            let expected: f64 = terms.rev().sum();
            let mismatch = variance_mismatch(1.0 + u);
            assert_close(mismatch, expected, expected, 1);
            assert!(mismatch >= variance_mismatch_floor(1.0 + u) * (1.0 - ROUNDING));
        }
    }
    assert!(variance_mismatch(0.0) > f64::MAX);
    assert!(variance_mismatch(-1.0).is_nan());
}

/// Lem. E.16: the relative entropy of the laws is `n (𝓛(T) − 𝓛_true)`, and the Bayes gap is at
/// most `4σ²` times it, for every horizon, aligned with the kernel or not.
#[test]
fn lem_e_16_evidence_controls_the_bayes_gap() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let n = p.n();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        for (signal, covariance) in references(&kernel, p.seed) {
            let found = measure(&spectrum, step, signal, &covariance);
            let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
            let scale = n as f64 * (1.0 + literal.largest_variance());
            assert_close(found.true_risk(), literal.true_risk(), scale, n);
            let entropies = found.relative_entropies();
            let gap_bounds = found.gap_from_evidence().unwrap();
            for position in 0..HORIZONS.len() {
                let expected = literal.relative_entropy(position);
                assert_close(entropies[position], expected, scale, n);
                let risks = found.population_risks()[position] - found.true_risk();
                assert_close(n as f64 * risks, expected, scale, n);
                assert_close(gap_bounds[position], 2.0 * expected / n as f64, scale, n);
                let rounding = 1e3 * n as f64 * f64::EPSILON * scale;
                assert!(literal.gap(position) <= gap_bounds[position] + rounding);
            }
        }
    });
}

/// Lem. E.16: the factor 4 is the right one: it is attained where there is little signal.
#[test]
fn lem_e_16_factor_is_sharp() {
    let spectrum = Spectrum::of(&[vec![1.0]]).unwrap();
    let step = StepSize::fraction(0.3, &spectrum).unwrap();
    let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0]).unwrap();
    for signal_variance in [1e-1, 1e-2, 1e-3, 1e-6] {
        let reference = Reference::Benchmark { signal_variance, noise_variance: 1.0 };
        let bound = PacBayes::new(&family, reference).unwrap().gap_from_evidence().unwrap()[0];
        // f̂ = 0 and f_Bayes = τ²/(1 + τ²) r with E r² = 1 + τ².
        let gap = signal_variance * signal_variance / (1.0 + signal_variance);
        assert!(gap <= bound && gap > bound * (1.0 - signal_variance));
    }
}

/// Lem. E.16: a reference with less noise than the candidates is refused, and rightly so.
#[test]
fn lem_e_16_less_noise_is_refused() {
    let spectrum = Spectrum::of(&[vec![0.0]]).unwrap();
    let step = StepSize::fraction(0.3, &spectrum).unwrap();
    let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0]).unwrap();
    let reference = Reference::Benchmark { signal_variance: 1.0, noise_variance: 0.5 };
    let found = PacBayes::new(&family, reference).unwrap();
    let literal = Literal::new(&vec![vec![0.0]], step.get(), 1.0, &[0], vec![vec![0.5]]);
    assert!(literal.gap(0) > 4.0 * literal.relative_entropy(0));
    let refusals = [
        found.gap_from_evidence().err(),
        found.gap_bound(&[0.5], 0.9).err(),
        found.vanishing_gap(0, 0.9).err(),
    ];
    for refusal in refusals {
        let Some(Error::OutOfRange { quantity, found, allowed }) = refusal else {
            panic!("{refusal:?}");
        };
        assert!(quantity.contains("smallest variance of the reference"));
        assert_close(found, 0.5, 0.5, 1);
        assert_eq!(allowed, "at least 1");
    }
}

/// Lem. E.17: with probability `1 − δ`, the Bayes gap of the horizon with the best evidence is at
/// most `4σ² (min ℓ − 𝓛_true + √(v̄ (log |𝒯| + log 1/δ)/n))`.
#[test]
fn lem_e_17_gap_of_the_evidence_minimiser() {
    let (n, delta) = (12, 0.3_f64);
    let (kernel, spectrum, step) = prompt(71, n);
    let mut rng = Rng::new(72);
    for (signal, covariance) in references(&kernel, 73) {
        let found = measure(&spectrum, step, signal, &covariance);
        let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
        let slack = (literal.largest_variance() * (6.0 / delta).ln() / n as f64).sqrt();
        let gaps: Vec<f64> = (0..HORIZONS.len()).map(|it| literal.gap(it)).collect();
        let mut violations = 0;
        for _ in 0..DRAWS {
            let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
            let best = (0..6).min_by(|&i, &j| evidence[i].total_cmp(&evidence[j])).unwrap();
            let bound = found.gap_bound(&evidence, 1.0 - delta).unwrap();
            let expected = 2.0 * (evidence[best] - literal.true_risk() + slack);
            assert_close(bound, expected, 2.0 * slack + 10.0, n);
            violations += usize::from(gaps[best] > bound);
        }
        assert_coverage(violations, DRAWS, delta);
    }
}

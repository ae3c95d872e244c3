//! Why the horizon with the best evidence comes ever closer to the best fit as prompts grow:
//! Lem. E.18 and Thm. E.19.

use super::{
    DRAWS, HORIZONS, Literal, ROUNDING, assert_broken, assert_coverage, level,
    level_deviations, measure, prompt, references,
};
use crate::support::{Rows, assert_close, gaussian, product, shifted, trace};
use fewstep_core::{Rng, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};

/// Lem. E.18: for each horizon, evidence exceeds its average by no more than
/// `√(v log(1/δ)/n) + ‖A‖ log(1/δ)/n` with probability `1 − δ`; half of that would not do.
#[test]
fn lem_e_18_one_sided_concentration() {
    let n = 10;
    let (kernel, spectrum, step) = prompt(81, n);
    let mut rng = Rng::new(82);
    for (signal, covariance) in references(&kernel, 83) {
        let found = measure(&spectrum, step, signal, &covariance);
        let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
        let norms: Vec<f64> = (0..6).map(|i| largest_eigenvalue(&literal.tilted(i))).collect();
        for (found, literal) in found.operator_norms().iter().zip(&norms) {
            assert_close(*found, *literal, *literal, n);
        }
        let risks = literal.risks();
        let evidence: Rows =
            (0..DRAWS).map(|_| literal.evidence(&gaussian(&mut rng, &literal.root))).collect();
        for delta in [0.5_f64, 0.1, 0.01] {
            let deviations = found.upper_deviations(1.0 - delta).unwrap();
            let share = (1.0 / delta).ln() / n as f64;
            for i in 0..6 {
                let expected = (literal.variances()[i] * share).sqrt() + norms[i] * share;
                assert_close(deviations[i], expected, expected, n);
                let over = evidence.iter().filter(|it| it[i] > risks[i] + deviations[i]);
                assert_coverage(over.count(), DRAWS, delta);
            }
        }
    }
    let (spectrum, step) = level();
    let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0]).unwrap();
    let found = PacBayes::new(&family, Reference::Horizon(0)).unwrap();
    let deviation = found.upper_deviations(0.99).unwrap()[0];
    let draws = level_deviations(84);
    assert_coverage(draws.iter().filter(|x| **x > deviation).count(), DRAWS, 0.01);
    assert_broken(draws.iter().filter(|x| **x > deviation / 2.0).count(), DRAWS, 0.01);
}

/// The largest eigenvalue by squaring the matrix forty times: `‖A^(2^k)‖^(1/2^k)`.
fn largest_eigenvalue(a: &Rows) -> f64 {
    let (mut power, mut log_scale, mut weight) = (a.clone(), 0.0, 1.0);
    for _ in 0..40 {
        let size = trace(&power);
        log_scale += weight * size.ln();
        power = shifted(&power, 1.0 / size, 0.0);
        power = product(&power, &power);
        weight /= 2.0;
    }
    log_scale.exp()
}

/// Thm. E.19: with probability `1 − 2δ`, the Bayes gap of the horizon with the best evidence is
/// at most `4σ²` times four terms, for any comparator.
#[test]
fn thm_e_19_bound_on_the_gap() {
    let (n, delta) = (12, 0.2_f64);
    let (kernel, spectrum, step) = prompt(91, n);
    let mut rng = Rng::new(92);
    for (signal, covariance) in references(&kernel, 93) {
        let found = measure(&spectrum, step, signal, &covariance);
        let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
        let gaps: Vec<f64> = (0..HORIZONS.len()).map(|it| literal.gap(it)).collect();
        let share = (1.0 / delta).ln() / n as f64;
        let choice = 6.0_f64.ln() / n as f64 + share;
        let bounds: Vec<f64> = (0..6)
            .map(|i| {
                let gap = found.vanishing_gap(HORIZONS[i], 1.0 - 2.0 * delta).unwrap();
                let scale = 10.0 * (1.0 + literal.largest_variance());
                let approximation = literal.relative_entropy(i) / n as f64;
                assert_close(gap.approximation, approximation, scale, n);
                assert_close(
                    gap.selection,
                    (literal.largest_variance() * choice).sqrt(),
                    scale,
                    n,
                );
                assert_close(
                    gap.fluctuation,
                    (literal.variances()[i] * share).sqrt(),
                    scale,
                    n,
                );
                assert_close(
                    gap.tail,
                    largest_eigenvalue(&literal.tilted(i)) * share,
                    scale,
                    n,
                );
                let sum = gap.approximation + gap.selection + gap.fluctuation + gap.tail;
                assert_close(gap.bound, 4.0 * 0.5 * sum, scale, n);
                assert_close(gap.confidence, 0.6, 1.0, 1);
                gap.bound
            })
            .collect();
        let mut violations = [0; 6];
        for _ in 0..DRAWS {
            let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
            let best = (0..6).min_by(|&i, &j| evidence[i].total_cmp(&evidence[j])).unwrap();
            for (count, bound) in violations.iter_mut().zip(&bounds) {
                *count += usize::from(gaps[best] > *bound);
            }
        }
        violations.iter().for_each(|&count| assert_coverage(count, DRAWS, 2.0 * delta));
    }
}

/// Thm. E.19: with a comparator that is right, bounded `v̄` and `‖A‖` and ever more candidates,
/// the bound and the gap itself go to 0 as the prompt grows.
#[test]
fn thm_e_19_gap_vanishes() {
    let (noise, truth, draws) = (0.5, 6, 200);
    let mut rng = Rng::new(94);
    let mut earlier: Option<(f64, f64)> = None;
    for n in [16_usize, 64, 256, 1024] {
        // Independent modes between 0 and 1; as many candidates as examples.
        let eigenvalues: Vec<f64> = (0..n).map(|i| (i as f64 + 0.5) / n as f64).collect();
        let kept: Vec<f64> = eigenvalues.iter().map(|l| 1.0 - 0.2 * l).collect();
        let horizons: Vec<u32> = (0..u32::try_from(n).unwrap()).collect();
        let (bound, largest) = diagonal_bound(&eigenvalues, noise, &horizons, truth);
        // (A2) and (A3): nothing grows. The largest is at T = 0.
        assert!(largest <= 0.8_f64.powi(-12));

        let reference: Vec<f64> = kept.iter().map(|k| noise * k.powi(-6)).collect();
        let logs: f64 = kept.iter().map(|k| k.ln()).sum();
        let mut average = 0.0;
        for _ in 0..draws {
            let squares: Vec<f64> =
                reference.iter().map(|s| s * rng.normal().powi(2)).collect();
            // 2nℓ_T − n log σ² = −T Σ log(1 − ρλ) + Σ (1 − ρλ)^T r²/σ², convex in T.
            let score = |horizon: i32| {
                let fit: f64 =
                    kept.iter().zip(&squares).map(|(k, s)| k.powi(horizon) * s).sum();
                fit / noise - f64::from(horizon) * logs
            };
            let mut best = 0;
            while best + 1 < i32::try_from(n).unwrap() && score(best + 1) < score(best) {
                best += 1;
            }
            let gap: f64 = kept
                .iter()
                .zip(&reference)
                .map(|(k, s)| s * (k.powi(best) - k.powi(6)).powi(2))
                .sum::<f64>()
                / n as f64;
            assert!(gap <= bound);
            average += gap / f64::from(draws);
        }
        if let Some((earlier_bound, earlier_average)) = earlier {
            // √(log n / n) falls by 0.61 or less per step; the gap itself like 1/n.
            assert!(bound < 0.65 * earlier_bound, "{bound} after {earlier_bound}");
            assert!(average < 0.5 * earlier_average, "{average} after {earlier_average}");
        }
        earlier = Some((bound, average));
    }
}

/// The bound of Thm. E.19 for independent modes with `ρ = 0.2` and `Σ★ = Σ_T`, and `v̄`.
fn diagonal_bound(eigenvalues: &[f64], noise: f64, horizons: &[u32], truth: u32) -> (f64, f64) {
    let n = eigenvalues.len();
    let kernel: Rows = (0..n)
        .map(|i| (0..n).map(|j| if i == j { eigenvalues[i] } else { 0.0 }).collect())
        .collect();
    let spectrum = Spectrum::of(&kernel).unwrap();
    let step = StepSize::new(0.2, &spectrum).unwrap();
    let family = EvidenceFamily::new(&spectrum, step, noise, horizons).unwrap();
    let found = PacBayes::new(&family, Reference::Horizon(truth)).unwrap();
    let gap = found.vanishing_gap(truth, 0.99).unwrap();
    assert!(gap.approximation <= 0.0);
    (gap.bound, found.largest_variance())
}

/// Thm. E.19: under `Σ★ = τ²K + σ²I` a horizon can be exactly right only if all nonzero
/// eigenvalues are equal; with two different ones, some distance always remains.
#[test]
fn thm_e_19_well_specified_benchmark() {
    // (1 − ρ)^(−T) = 1 + τ²/σ² at the eigenvalue 1, with ρ = 1/2 and T = 3: τ² = 7σ².
    let remaining = |eigenvalue: f64, signal_variance: f64| -> f64 {
        let kernel = [vec![1.0, 0.0, 0.0], vec![0.0, eigenvalue, 0.0], vec![0.0; 3]];
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::new(0.5, &spectrum).unwrap();
        let horizons: Vec<u32> = (0..40).collect();
        let family = EvidenceFamily::new(&spectrum, step, 0.5, &horizons).unwrap();
        let reference = Reference::Benchmark { signal_variance, noise_variance: 0.5 };
        let entropies = PacBayes::new(&family, reference).unwrap().relative_entropies();
        entropies.into_iter().fold(f64::INFINITY, f64::min)
    };
    // The ratio is right to rounding, and the distance to its square.
    assert!(remaining(1.0, 3.5) < ROUNDING * ROUNDING);
    for signal_variance in [0.1, 1.0, 3.5, 10.0] {
        assert!(remaining(0.5, signal_variance) > 1e-4);
    }
}

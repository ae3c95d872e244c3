//! Why second moments suffice for the best shrinkage of every mode: App. F.2.

use super::literal::{assert_within, compose, identity, plus, random_basis, sandwich};
use crate::support::{
    Rows, assert_all_close, assert_close, dot, mean_and_error, multiply, norm, normals,
    product, subtract, trace, transpose,
};
use fewstep_core::Rng;
use fewstep_theory::risk::{optimal_shrinkages, shrinkage_excess, shrinkage_risk};

/// Prop. F.7: with second moments alone, the risk of any shrinkage that commutes with the
/// kernel is a sum over modes, `c/(c + σ²)` is its one minimum, and the excess a squared distance.
#[test]
fn prop_f_7_second_moments_suffice() {
    let mut rng = Rng::new(27);
    let noise = 0.4;
    for n in [1, 2, 5, 9] {
        let modes = random_basis(&mut rng, n, n);
        // Two eigenvalues, repeated, and shrinkages that differ inside them.
        let eigenvalues: Vec<f64> = (0..n).map(|i| if i < n / 2 { 3.0 } else { 1.0 }).collect();
        let shrinkages: Vec<f64> = (0..n).map(|_| 2.0 * rng.uniform() - 0.5).collect();
        let (kernel, shrink) = (compose(&modes, &eigenvalues), compose(&modes, &shrinkages));
        let commutator = plus(&product(&kernel, &shrink), -1.0, &product(&shrink, &kernel));
        assert_all_close(&commutator.concat(), &vec![0.0; n * n], 10.0, n);
        // A signal that ignores the kernel, with fewer dimensions than examples.
        let root: Rows = (0..n).map(|_| normals(&mut rng, n.div_ceil(2))).collect();
        let covariance = product(&root, &transpose(&root));
        let signals: Vec<f64> =
            modes.iter().map(|u| dot(u, &multiply(&covariance, u))).collect();

        let literal = |shrink: &Rows| {
            trace(&sandwich(&plus(shrink, -1.0, &identity(n)), &covariance))
                + noise * trace(&product(shrink, shrink))
        };
        let scale = 4.0 * (trace(&covariance) + noise * n as f64);
        let risk = shrinkage_risk(&signals, &shrinkages, noise).unwrap();
        assert_close(risk, literal(&shrink), scale, n);
        let best = optimal_shrinkages(&signals, noise).unwrap();
        let excess = shrinkage_excess(&signals, &shrinkages, noise).unwrap();
        let least = literal(&compose(&modes, &best));
        assert_close(excess, literal(&shrink) - least, scale, n);
        let rounding = 1e3 * n as f64 * f64::EPSILON;
        let none = shrinkage_excess(&signals, &best, noise).unwrap();
        assert!(none <= rounding * rounding * scale);

        // One coordinate moved away from the optimum: strictly worse, by its weight.
        for mode in 0..n {
            for nudge in [-0.3, -1e-3, 1e-3, 0.3] {
                let mut moved = best.clone();
                moved[mode] += nudge;
                let rise = literal(&compose(&modes, &moved)) - least;
                assert!(rise > 0.0);
                assert_close(rise, (signals[mode] + noise) * nudge * nudge, scale, n);
            }
        }
    }
}

/// Prop. F.7: nothing Gaussian is needed: signs as signal, uniform noise.
#[test]
fn prop_f_7_without_gaussianity() {
    let (n, noise, draws) = (5, 0.6_f64, 20_000);
    let mut rng = Rng::new(28);
    let modes = random_basis(&mut rng, n, n);
    let shrinkages = [0.9, 0.7, 0.5, 0.2, -0.1];
    let shrink = compose(&modes, &shrinkages);
    let root: Rows = (0..n).map(|_| normals(&mut rng, 3)).collect();
    let losses: Vec<f64> = (0..draws)
        .map(|_| {
            let signs = [rng.sign(), rng.sign(), rng.sign()];
            let target = multiply(&root, &signs);
            let residuals: Vec<f64> = target
                .iter()
                .map(|f| f + (12.0 * noise).sqrt() * (rng.uniform() - 0.5))
                .collect();
            norm(&subtract(&multiply(&shrink, &residuals), &target)).powi(2)
        })
        .collect();
    let covariance = product(&root, &transpose(&root));
    let signals: Vec<f64> = modes.iter().map(|u| dot(u, &multiply(&covariance, u))).collect();
    let risk = shrinkage_risk(&signals, &shrinkages, noise).unwrap();

    // The error is B z with z = (signs, unit uniforms): for independent coordinates of fourth
    // moment m, Var zᵀHz = 2 Σ_{i≠j} H_ij² + Σ (m_i − 1) H_ii², and m = 1, 9/5.
    let from_signal = product(&plus(&shrink, -1.0, &identity(n)), &root);
    let both: Rows = from_signal
        .iter()
        .zip(&shrink)
        .map(|(a, b)| a.iter().copied().chain(b.iter().map(|x| noise.sqrt() * x)).collect())
        .collect();
    let form = product(&transpose(&both), &both);
    let mut variance = 0.0;
    for (i, row) in form.iter().enumerate() {
        for (j, entry) in row.iter().enumerate() {
            let factor = match (i == j, i < 3) {
                (false, _) => 2.0,
                (true, true) => 0.0,
                (true, false) => 0.8,
            };
            variance += factor * entry * entry;
        }
    }
    assert_within(mean_and_error(&losses).0, risk, (variance / f64::from(draws)).sqrt());
}

//! Whether evidence by stochastic Lanczos quadrature is the dense one within its stated error.

use super::{dense, gram, random, sign_deviation};
use crate::support::{
    assert_close, dot, eliminate, multiply, normals, product, shifted, trace,
};
use fewstep_core::{Noise, Rng};
use fewstep_theory::matfree::{
    EvidenceSettings, FactorKernel, LargestEigenvalue, estimate_evidence, largest_eigenvalue,
};

/// `log(I − ρK)` as its power series, entry by entry.
fn matrix_logarithm(kernel: &[Vec<f64>], step: f64) -> Vec<Vec<f64>> {
    let scaled: Vec<Vec<f64>> =
        kernel.iter().map(|row| row.iter().map(|x| step * x).collect()).collect();
    let mut power = scaled.clone();
    let mut sum = vec![vec![0.0; kernel.len()]; kernel.len()];
    for order in 1..80 {
        for (row, terms) in sum.iter_mut().zip(&power) {
            for (entry, term) in row.iter_mut().zip(terms) {
                *entry -= term / f64::from(order);
            }
        }
        power = product(&power, &scaled);
    }
    sum
}

/// `rᵀ(I − ρK)^T r` by T products.
fn literal_form(kernel: &[Vec<f64>], step: f64, residuals: &[f64], horizon: u32) -> f64 {
    let mut rest = residuals.to_vec();
    for _ in 0..horizon {
        let image = multiply(kernel, &rest);
        for (r, k) in rest.iter_mut().zip(image) {
            *r -= step * k;
        }
    }
    dot(residuals, &rest)
}

/// App. H: evidence by stochastic Lanczos quadrature is the dense one up to the error it states,
/// which is the one of theory; only the log-determinant is left to chance.
#[test]
fn sec_7_evidence_by_lanczos_quadrature() {
    for (seed, n, width) in [(1, 60, 90), (2, 120, 30)] {
        let mut rng = Rng::new(seed);
        let features = random(&mut rng, n, width);
        let kernel = gram(&features);
        let residuals = normals(&mut rng, n);
        let operator = FactorKernel::new(&features).unwrap();
        let largest = largest_eigenvalue(&operator, n, 1e-9, &mut rng).unwrap();
        let step = largest.step(0.5).unwrap();
        let horizons = [0, 1, 2, 7, 30, 200];
        let (probes, energy) = (400, dot(&residuals, &residuals));
        let logarithm = matrix_logarithm(&kernel, step.get());
        let expected_error = sign_deviation(&logarithm) / (probes as f64).sqrt();
        let noises = [
            (Noise::Fixed(0.3), Some(0.3)),
            (Noise::PlugIn, Some(energy / n as f64)),
            (Noise::Profiled, None),
        ];
        for (noise, noise_variance) in noises {
            let settings = EvidenceSettings {
                step,
                largest,
                horizons: &horizons,
                noise,
                probes,
                lanczos_steps: n,
            };
            let found = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
            let shrink = shifted(&kernel, -step.get(), 1.0);
            let (_, log_determinant) = eliminate(&shrink, &residuals);
            assert_close(trace(&logarithm), log_determinant, n as f64, n);
            assert!((found.log_trace.mean - log_determinant).abs() < 4.0 * expected_error);
            assert!((found.log_trace.standard_error / expected_error - 1.0).abs() < 0.2);
            for (index, &horizon) in horizons.iter().enumerate() {
                let form = literal_form(&kernel, step.get(), &residuals, horizon);
                assert_close(found.quadratic_forms[index], form, energy, n);
                let variance = noise_variance.unwrap_or(form / n as f64);
                // Σ_T = σ² (I − ρK)^(−T): T log-determinants, T products.
                let literal = (n as f64 * variance.ln() - f64::from(horizon) * log_determinant
                    + form / variance)
                    / (2.0 * n as f64);
                let value = found.values[index];
                let share = f64::from(horizon) / (2.0 * n as f64);
                assert_close(
                    value.standard_error,
                    share * found.log_trace.standard_error,
                    1.0,
                    n,
                );
                let rounding = 1e3 * n as f64 * f64::EPSILON * (1.0 + energy / form);
                assert!(
                    (value.mean - literal).abs() < 4.0 * share * expected_error + rounding,
                    "{} against {literal} at {horizon}",
                    value.mean
                );
                assert!(found.quadrature_errors[index] < 1e-12);
            }
        }
    }
}

/// Lanczos quadrature that is cut short stays within the error it states, and that error
/// vanishes with the steps.
#[test]
fn app_h_quadrature_errors_are_bounds() {
    let n = 100;
    let mut rng = Rng::new(8);
    // Eigenvalues all over the range, the hardest for a polynomial.
    let kernel: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| if i == j { (i + 1) as f64 / n as f64 } else { 0.0 }).collect())
        .collect();
    let operator = dense(&kernel);
    let residuals = normals(&mut rng, n);
    let energy = dot(&residuals, &residuals);
    let largest = LargestEigenvalue { value: 1.0, bound: 0.0 };
    let horizons = [3, 20, 50, 400];
    for fraction in [0.1, 0.9] {
        let step = largest.step(fraction).unwrap();
        // Random signs leave a diagonal operator's trace exact.
        let log_trace: f64 = (0..n).map(|i| (-step.get() * kernel[i][i]).ln_1p()).sum();
        let mut errors = vec![];
        for lanczos_steps in [1, 2, 4, 8, 16, 32] {
            let settings = EvidenceSettings {
                step,
                largest,
                horizons: &horizons,
                noise: Noise::Fixed(0.5),
                probes: 2,
                lanczos_steps,
            };
            let found = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
            for (index, &horizon) in horizons.iter().enumerate() {
                let form = literal_form(&kernel, step.get(), &residuals, horizon);
                let literal = 0.5
                    * (0.5_f64.ln() - f64::from(horizon) / n as f64 * log_trace
                        + form / (0.5 * n as f64));
                let off = (found.values[index].mean - literal).abs();
                let rounding = 1e3 * n as f64 * f64::EPSILON * (1.0 + energy / n as f64);
                assert!(off <= found.quadrature_errors[index] + rounding);
                if horizon == 3 && lanczos_steps > 1 {
                    assert_close(found.quadratic_forms[index], form, energy, n);
                }
            }
            errors.push(found.quadrature_errors.clone());
        }
        assert!(errors[0][3] > 1e-3, "one step is not enough for 400: {errors:?}");
        assert!(errors[5].iter().all(|&error| error < 1e-3), "{errors:?}");
        if fraction < 0.5 {
            assert!(errors[5].iter().all(|&error| error < 1e-13), "{errors:?}");
        }
    }
}

//! Why taking steps for ever is not best: Prop. 6.2, and Prop. E.7 on James and Stein's fit.

use super::literal::{assert_within, compose, nodes, projected, random_basis};
use crate::support::{
    assert_all_close, assert_close, dot, mean_and_error, multiply, norm, normals, subtract,
};
use fewstep_core::{Filter, Matrix, Rng, Spectrum};
use fewstep_theory::{JamesStein, Projection};

/// Prop. 6.2: literal steps of any size under `2/λ_max` converge to `Π_S r` at the rate of their
/// slowest mode; a shrinkage inside `S` has a smaller risk.
#[test]
fn prop_6_2_infinitely_many_steps_project_and_are_beaten() {
    let mut rng = Rng::new(62);
    let n = 7;
    for scale in [1e-12, 1.0, 1e12] {
        let modes = random_basis(&mut rng, 4, n);
        let eigenvalues = [5.0, 3.0, 1.0, 0.5].map(|x| x * scale);
        let kernel = compose(&modes, &eigenvalues);
        let residuals = normals(&mut rng, n);
        let limit = projected(&modes, &residuals);
        for fraction in [0.5, 1.0, 1.5, 1.9] {
            let rho = fraction / eigenvalues[0];
            let rate = eigenvalues.iter().fold(0.0_f64, |r, x| r.max((1.0 - rho * x).abs()));
            let mut fit = vec![0.0; n];
            let mut bound = norm(&limit);
            while bound > f64::EPSILON {
                let moved = multiply(&kernel, &subtract(&residuals, &fit));
                fit = fit.iter().zip(&moved).map(|(f, m)| f + rho * m).collect();
                bound *= rate;
                let rounding = 1e3 * n as f64 * f64::EPSILON * norm(&residuals);
                assert!(norm(&subtract(&fit, &limit)) <= bound + rounding);
            }
            assert_all_close(&fit, &limit, norm(&residuals), n);
        }
        let spectrum = Spectrum::of(&kernel).unwrap();
        let found = Projection::of(&spectrum).prompt_fit(&spectrum, &residuals).unwrap();
        assert_all_close(&found, &limit, norm(&residuals), n);
    }

    // dim S = 4: James and Stein's shrinkage of the limit, on the same simulated residuals.
    let (draws, noise) = (20_000, 0.5_f64);
    let modes = random_basis(&mut rng, 4, n);
    let spectrum = Spectrum::of(&compose(&modes, &[5.0, 3.0, 1.0, 0.5])).unwrap();
    for length in [0.0, 0.7, 1.5] {
        let target: Vec<f64> = modes[1].iter().map(|x| length * x).collect();
        let (mut full, mut shrunk) = (Vec::new(), Vec::new());
        for _ in 0..draws {
            let residuals: Vec<f64> =
                target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
            let everything =
                Projection::of(&spectrum).prompt_fit(&spectrum, &residuals).unwrap();
            let less = JamesStein::of(&spectrum, &residuals, noise)
                .unwrap()
                .prompt_fit(&spectrum, &residuals)
                .unwrap();
            assert_all_close(&less, &projected(&modes, &less), norm(&everything), n);
            full.push(norm(&subtract(&everything, &target)).powi(2));
            shrunk.push(norm(&subtract(&less, &target)).powi(2));
        }
        // The full fit's loss is σ² χ² with 4 degrees of freedom.
        let error = noise * (8.0 / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&full).0, 4.0 * noise, error);
        assert!(mean_and_error(&shrunk).0 < mean_and_error(&full).0 - 4.0 * error);
    }
}

/// `E ‖f̂_JS − f★‖²` by Stein's identity: `σ²{d − (d−2)² Σ_k Poisson(k; ‖f★‖²/2σ²)/(d−2+2k)}`.
fn james_stein_risk(dimensions: usize, length: f64, noise: f64) -> f64 {
    let (d, rate) = (dimensions as f64, length * length / (2.0 * noise));
    let (mut chance, mut mean) = ((-rate).exp(), 0.0);
    for k in 0..1000 {
        mean += chance / (d - 2.0 + 2.0 * f64::from(k));
        chance *= rate / f64::from(k + 1);
    }
    noise * (d - (d - 2.0).powi(2) * mean)
}

/// Mean and mean square of a loss that depends on `z ~ N(f★, σ²I)` through `‖z‖` and the angle
/// to `f★`: an integral over both.
fn polar_moments(
    dimensions: usize,
    length: f64,
    noise: f64,
    loss: impl Fn(f64, f64) -> f64,
) -> (f64, f64) {
    let spread = noise.sqrt();
    let power = i32::try_from(dimensions).unwrap();
    let angles = nodes(0.0, std::f64::consts::PI, 8);
    let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
    for (radius, weight) in nodes((length - 12.0 * spread).max(0.0), length + 12.0 * spread, 12)
    {
        for &(angle, part) in &angles {
            let (along, across) = (radius * angle.cos(), radius * angle.sin());
            let exponent = ((along - length).powi(2) + across.powi(2)) / (2.0 * noise);
            let density = weight
                * part
                * (radius / spread).powi(power - 1)
                * angle.sin().powi(power - 2)
                * (-exponent).exp();
            let value = loss(along, across);
            mass += density;
            mean += density * value;
            square += density * value * value;
        }
    }
    (mean / mass, square / mass)
}

/// Prop. E.7: James and Stein's fit has at most the full fit's risk wherever the target is in
/// `S`, and `2σ²` instead of `dσ²` at 0. Its risk is integrated over the library's estimator.
#[test]
fn prop_e_7_james_stein_dominates_the_projection() {
    let noise = 0.8;
    for dimensions in [3, 4, 6] {
        let spectrum = Spectrum::of(Matrix::identity(dimensions)).unwrap();
        let full = dimensions as f64 * noise;
        for multiple in [0.0, 0.5, 1.0, 2.0, 5.0, 16.0] {
            let length = multiple * noise.sqrt();
            let loss_of = |filter: &dyn Filter, residuals: &[f64]| {
                let mut error = filter.prompt_fit(&spectrum, residuals).unwrap();
                error[0] -= length;
                dot(&error, &error)
            };
            let (risk, _) = polar_moments(dimensions, length, noise, |along, across| {
                let mut residuals = vec![0.0; dimensions];
                (residuals[0], residuals[1]) = (along, across);
                let filter = JamesStein::of(&spectrum, &residuals, noise).unwrap();
                loss_of(&filter, &residuals)
            });
            assert_close(risk, james_stein_risk(dimensions, length, noise), full, dimensions);
            assert!(risk < full, "not dominated in {dimensions} dimensions at {length}");
            if multiple == 0.0 {
                assert_close(risk, 2.0 * noise, full, dimensions);
            }
        }
        // A residual of 0 has no direction to shrink.
        let nothing = vec![0.0; dimensions];
        let filter = JamesStein::of(&spectrum, &nothing, noise).unwrap();
        assert_eq!(filter.prompt_fit(&spectrum, &nothing).unwrap(), nothing);
    }
}

/// Prop. E.7: the same inside a proper subspace with unequal eigenvalues, on simulated
/// residuals, in theoretical standard errors.
#[test]
fn prop_e_7_simulated_residuals() {
    let (n, dimensions, noise, draws) = (9, 6, 0.8_f64, 20_000);
    let mut rng = Rng::new(71);
    let modes = random_basis(&mut rng, dimensions, n);
    let spectrum = Spectrum::of(&compose(&modes, &[9.0, 4.0, 4.0, 2.0, 1.0, 0.1])).unwrap();
    for length in [0.0, 1.0, 3.0, 10.0] {
        let direction = projected(&modes, &normals(&mut rng, n));
        let target: Vec<f64> =
            direction.iter().map(|x| length * x / norm(&direction)).collect();
        let losses: Vec<f64> = (0..draws)
            .map(|_| {
                let residuals: Vec<f64> =
                    target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
                let filter = JamesStein::of(&spectrum, &residuals, noise).unwrap();
                let fit = filter.prompt_fit(&spectrum, &residuals).unwrap();
                norm(&subtract(&fit, &target)).powi(2)
            })
            .collect();
        let surplus = (dimensions as f64 - 2.0) * noise;
        let (_, square) = polar_moments(dimensions, length, noise, |along, across| {
            let kept = 1.0 - surplus / (along * along + across * across);
            (kept * along - length).powi(2) + (kept * across).powi(2)
        });
        let risk = james_stein_risk(dimensions, length, noise);
        let error = ((square - risk * risk) / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&losses).0, risk, error);
        assert!(risk < dimensions as f64 * noise);
    }
}

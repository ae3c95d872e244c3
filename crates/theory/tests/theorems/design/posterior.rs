//! What a prompt says about the weights, and the best estimate inside a subspace: Lem. E.20 to
//! Lem. E.22.

use super::{diagonal, for_cases, operator_norm, orthonormal};
use crate::support::{
    Rows, assert_all_close, assert_close, cholesky, dot, eliminate, gaussian, inverse, matrix,
    multiply, normals, product, shifted, subtract, trace, transpose,
};
use fewstep_core::{Block, Rng};
use fewstep_theory::design::{LinearGaussian, Prior};

/// Lem. E.20: values on the prompt and at the query are jointly Gaussian with the kernel, the
/// coupling and the query variance as covariances; Σ = Π_U is the kernel of the features in U.
#[test]
fn lem_e_20_covariances_are_the_block() {
    for_cases(|case, rng| {
        let query = &case.queries[0];
        let prior = matrix(&case.covariance);
        let block = Block::from_prior("all", &case.jacobian, &prior, Some(query)).unwrap();
        let spread = product(&case.jacobian, &case.covariance);
        let (kernel, coupling) =
            (product(&spread, &transpose(&case.jacobian)), multiply(&spread, query));
        let variance = dot(query, &multiply(&case.covariance, query));
        let tied = block.query().unwrap();
        for (found, expected) in block.kernel().to_rows().iter().zip(&kernel) {
            assert_all_close(found, expected, trace(&kernel), case.p());
        }
        let scale = (trace(&kernel) * variance).sqrt();
        assert_all_close(&tied.coupling, &coupling, scale, case.p());
        assert_close(tied.variance, variance, variance, case.p());

        // Simulated: covariances and a fourth moment, in their theoretical standard errors.
        let root = cholesky(&case.covariance);
        let draws = 4000_u32;
        let (mut products, mut fourth) = (vec![0.0; case.n()], 0.0);
        let mixed_variance = kernel[0][0] + 2.0 * coupling[0] + variance;
        for _ in 0..draws {
            let u = gaussian(rng, &root);
            let (prompt, at_query) = (multiply(&case.jacobian, &u), dot(query, &u));
            for (sum, f) in products.iter_mut().zip(&prompt) {
                *sum += f * at_query / f64::from(draws);
            }
            fourth +=
                (prompt[0] + at_query).powi(4) / mixed_variance.powi(2) / f64::from(draws);
        }
        for (i, &found) in products.iter().enumerate() {
            let spread = kernel[i][i] * variance + coupling[i] * coupling[i];
            let standard_error = (spread / f64::from(draws)).sqrt();
            assert!((found - tied.coupling[i]).abs() <= 4.0 * standard_error);
        }
        assert!((fourth - 3.0).abs() < 4.0 * (96.0 / f64::from(draws)).sqrt());

        // The projector prior.
        let basis = orthonormal(
            &(0..case.p().div_ceil(2)).map(|_| normals(rng, case.p())).collect::<Vec<_>>(),
        );
        let projector = matrix(&product(&transpose(&basis), &basis));
        let inside = Block::from_features(
            "inside",
            &product(&case.jacobian, &transpose(&basis)),
            Some(&multiply(&basis, query)),
        )
        .unwrap();
        let projected =
            Block::from_prior("inside", &case.jacobian, &projector, Some(query)).unwrap();
        let size: f64 = case.jacobian.iter().map(|row| dot(row, row)).sum();
        let length = dot(query, query);
        assert_all_close(projected.kernel().values(), inside.kernel().values(), size, case.p());
        let (a, b) = (projected.query().unwrap(), inside.query().unwrap());
        assert_all_close(&a.coupling, &b.coupling, (size * length).sqrt(), case.p());
        assert_close(a.variance, b.variance, length, case.p());
    });
}

/// Lem. E.21: the posterior mean and covariance are those of the information form,
/// (Σ⁻¹ + JᵀJ/σ²)⁻¹, which never sees the prompt's kernel.
#[test]
fn lem_e_21_posterior_by_the_information_form() {
    for_cases(|case, rng| {
        let model = case.model();
        let noise = case.noise_variance;
        let seen = product(&transpose(&case.jacobian), &case.jacobian);
        let prior_precision = inverse(&case.covariance);
        let precision: Rows = prior_precision
            .iter()
            .zip(&seen)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y / noise).collect())
            .collect();
        // Condition of the sum against that of the prior, both modest by construction.
        let condition = operator_norm(&precision) * operator_norm(&case.covariance);
        let residuals: Vec<f64> =
            normals(rng, case.n()).iter().map(|x| noise.sqrt() * x).collect();
        let right: Vec<f64> = multiply(&transpose(&case.jacobian), &residuals)
            .iter()
            .map(|x| x / noise)
            .collect();
        let (mean, _) = eliminate(&precision, &right);
        let size = operator_norm(&case.covariance).sqrt() * condition;
        let found = model.posterior_mean(&residuals).unwrap();
        assert_all_close(&found, &mean, size * residuals.len() as f64, case.p());

        let vector = normals(rng, case.p());
        let scale = operator_norm(&case.covariance) * condition * dot(&vector, &vector).sqrt();
        let (literal, _) = eliminate(&precision, &vector);
        assert_all_close(
            &model.posterior_covariance(&vector).unwrap(),
            &literal,
            scale,
            case.p(),
        );
        let known = case.information();
        let told = model.information(&vector).unwrap();
        assert_all_close(&told, &multiply(&known, &vector), scale, case.p());
        let formed = model.information_matrix();
        assert_all_close(&formed.multiply(&vector).unwrap(), &told, scale, case.p());
    });
}

/// Lem. E.21 with a prior that freezes weights (Σ singular), by elimination in the joint
/// covariance.
#[test]
fn lem_e_21_frozen_weights() {
    let mut rng = Rng::new(8);
    let variances = [2.0, 0.0, 0.5, 0.0];
    let jacobian: Rows = (0..6).map(|_| normals(&mut rng, 4)).collect();
    let model =
        LinearGaussian::new(&jacobian, Prior::Diagonal(variances.to_vec()), 0.3).unwrap();
    let residuals = normals(&mut rng, 6);
    let spread = product(&jacobian, &diagonal(&variances));
    let noisy = shifted(&product(&spread, &transpose(&jacobian)), 1.0, 0.3);
    let expected = multiply(&transpose(&spread), &eliminate(&noisy, &residuals).0);
    let found = model.posterior_mean(&residuals).unwrap();
    assert_all_close(&found, &expected, 10.0, 6);
    assert_eq!((found[1].abs(), found[3].abs()), (0.0, 0.0));
}

/// Lem. E.22: of all estimates inside a subspace the projected posterior mean has the smallest
/// conditional risk, and every other one exceeds it by its squared distance.
#[test]
fn lem_e_22_projection_of_the_posterior_mean() {
    for_cases(|case, rng| {
        let p = case.p();
        let rank = p.div_ceil(2);
        let basis = orthonormal(&(0..rank).map(|_| normals(rng, p)).collect::<Vec<_>>());
        let noise = case.noise_variance;
        let residuals: Vec<f64> =
            normals(rng, case.n()).iter().map(|x| noise.sqrt() * x).collect();
        // The posterior, by the information form.
        let seen = product(&transpose(&case.jacobian), &case.jacobian);
        let precision: Rows = inverse(&case.covariance)
            .iter()
            .zip(&seen)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y / noise).collect())
            .collect();
        let covariance = inverse(&precision);
        let right = multiply(&transpose(&case.jacobian), &residuals);
        let mean: Vec<f64> = multiply(&covariance, &right).iter().map(|x| x / noise).collect();
        let risk = |estimate: &[f64]| {
            let error = subtract(estimate, &mean);
            dot(&error, &error) + trace(&covariance)
        };

        let known = case.model().posterior_mean(&residuals).unwrap();
        let best = multiply(&transpose(&basis), &multiply(&basis, &known));
        let root = cholesky(&covariance);
        let scale = risk(&best) * operator_norm(&precision) * operator_norm(&case.covariance);
        for _ in 0..10 {
            let size = trace(&covariance).sqrt();
            let amounts: Vec<f64> = normals(rng, rank).iter().map(|x| size * x).collect();
            let change = multiply(&transpose(&basis), &amounts);
            let other: Vec<f64> = best.iter().zip(&change).map(|(a, b)| a + b).collect();
            let excess = dot(&change, &change);
            assert!(risk(&other) > risk(&best));
            assert_close(risk(&other) - risk(&best), excess, scale + excess, p);

            // The same difference among draws of the correction, in theoretical standard errors.
            let draws = 500_u32;
            let mut difference = 0.0;
            for _ in 0..draws {
                let noise = gaussian(rng, &root);
                let truth: Vec<f64> = mean.iter().zip(&noise).map(|(a, b)| a + b).collect();
                let loss = |estimate: &[f64]| {
                    let error = subtract(estimate, &truth);
                    dot(&error, &error)
                };
                difference += (loss(&other) - loss(&best)) / f64::from(draws);
            }
            let variance = 4.0 * dot(&change, &multiply(&covariance, &change));
            let standard_error = (variance / f64::from(draws)).sqrt();
            assert!((difference - excess).abs() < 4.5 * standard_error);
        }
    });
}

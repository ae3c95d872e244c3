//! Whether all of it holds together at 20 000 examples.

use super::{gram, jacobi};
use crate::support::{
    assert_close, dot, eliminate, inverse, multiply, norm, normals, product, shifted, subtract,
    trace, transpose,
};
use fewstep_core::{GradientDescent, Noise, Rng};
use fewstep_theory::matfree::{
    BlockSum, EvidenceSettings, FactorKernel, Stopping, block_scores, estimate_evidence,
    lanczos_top, largest_eigenvalue, query_correction, query_scores,
};

/// App. H at scale: 20 000 examples, two blocks of 64 features, against the exact answers that
/// 128 × 128 matrices give in weight space. No matrix of n × n exists on either side.
#[test]
fn app_h_twenty_thousand_examples() {
    let (n, width, noise_variance) = (20_000, 64, 500.0);
    let mut rng = Rng::new(6);
    // Features that matter less and less.
    let features: Vec<Vec<Vec<f64>>> = (0..2)
        .map(|_| {
            let row = |rng: &mut Rng| -> Vec<f64> {
                (1..=width).map(|j| rng.normal() / f64::from(j)).collect()
            };
            (0..n).map(|_| row(&mut rng)).collect()
        })
        .collect();
    let columns = [transpose(&features[0]), transpose(&features[1])].concat();
    let residuals: Vec<f64> =
        (0..n).map(|i| 0.3 * columns[0][i] - columns[70][i] + rng.normal()).collect();
    let blocks: Vec<FactorKernel> =
        features.iter().map(|features| FactorKernel::new(features).unwrap()).collect();
    drop(features);
    let operator = BlockSum::new(blocks.iter().collect()).unwrap();
    // In weight space: G = ΦᵀΦ has the kernel's eigenvalues, all but zeros.
    let dual = gram(&columns);
    let pull = multiply(&columns, &residuals);
    let eigenvalues = jacobi(&dual);

    // Eigenpairs.
    let stopping = Stopping { tolerance: 1e-6, iterations: 120 };
    let pairs = lanczos_top(&operator, 4, stopping, &mut rng).unwrap();
    for (pair, &expected) in pairs.iter().zip(&eigenvalues) {
        assert!((pair.value - expected).abs() <= pair.bound);
    }
    let largest = largest_eigenvalue(&operator, 40, 1e-9, &mut rng).unwrap();
    assert!(largest.upper() >= eigenvalues[0] && largest.upper() < 1.2 * eigenvalues[0]);

    // Evidence: log det(I − ρΦΦᵀ) = log det(I − ρG), and descent in weight space.
    let step = largest.step(0.5).unwrap();
    let (horizons, probes) = ([0, 4, 30], 10);
    let settings = EvidenceSettings {
        step,
        largest,
        horizons: &horizons,
        noise: Noise::Profiled,
        probes,
        lanczos_steps: 60,
    };
    let evidence = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
    let (_, log_determinant) = eliminate(&shifted(&dual, -step.get(), 1.0), &pull);
    // ‖log(I − ρK)‖_F; its diagonal is negligible against the rest and lowers the variance.
    let spread = eigenvalues.iter().map(|x| (-step.get() * x).ln_1p().powi(2)).sum::<f64>();
    let expected_error = (2.0 * spread / probes as f64).sqrt();
    assert!((evidence.log_trace.mean - log_determinant).abs() < 4.0 * expected_error);
    let (mut theta, mut forms) = (vec![0.0; 128], vec![]);
    for _ in 0..=30 {
        forms.push(dot(&residuals, &residuals) - dot(&pull, &theta));
        let gradient = subtract(&pull, &multiply(&dual, &theta));
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t += step.get() * g);
    }
    for (index, &horizon) in horizons.iter().enumerate() {
        let form = forms[horizon as usize];
        assert_close(evidence.quadratic_forms[index], form, forms[0], 1);
        let share = f64::from(horizon) / (2.0 * n as f64);
        let literal = 0.5 * ((form / n as f64).ln() + 1.0) - share * log_determinant;
        let off = (evidence.values[index].mean - literal).abs();
        assert!(off < 4.0 * share * expected_error + 1e3 * 128.0 * f64::EPSILON);
        assert!(evidence.quadrature_errors[index] < 1e-12);
    }

    // Scores: Φ_bᵀ(K + σ²I)⁻¹Φ_b is the block of (G + σ²I)⁻¹ G.
    let stopping = Stopping { tolerance: 1e-6, iterations: 200 };
    let scores = block_scores(&blocks, noise_variance, 10, stopping, &mut rng).unwrap();
    let solves = inverse(&shifted(&dual, 1.0, noise_variance));
    let information = product(&solves, &dual);
    for (block, score) in scores.iter().enumerate() {
        let range = 64 * block..64 * (block + 1);
        let part = |a: &[Vec<f64>]| -> Vec<Vec<f64>> {
            a[range.clone()].iter().map(|row| row[range.clone()].to_vec()).collect()
        };
        let captured = part(&information);
        // M = K_b (K + σ²I)⁻¹: ‖sym M‖_F² = ½ (‖M‖_F² + tr M²), both in weight space.
        let inner = part(&product(&product(&solves, &dual), &solves));
        let squares = trace(&product(&inner, &part(&dual)));
        let symmetric = 0.5 * (squares + trace(&product(&captured, &captured)));
        let expected_error = (2.0 * symmetric / 10.0).sqrt();
        assert!((score.mean - trace(&captured)).abs() < 4.0 * expected_error);
    }
    let query = normals(&mut rng, 64);
    let coupling = multiply(&transpose(&columns[..64]), &query);
    let couplings = [coupling.clone(), vec![0.0; n]];
    let scores = query_scores(&blocks, &couplings, noise_variance, stopping).unwrap();
    let literal = (0..64).map(|i| query[i] * dot(&information[i][..64], &query)).sum::<f64>();
    let allowed = stopping.tolerance * dot(&coupling, &coupling) / noise_variance;
    assert!((scores[0] - literal).abs() <= allowed, "{} against {literal}", scores[0]);
    assert_close(scores[1], 0.0, 0.0, n);

    // Descent: Φ_bᵀ applied to the weights of the examples.
    let descent = GradientDescent { step, horizon: 5 };
    let found = query_correction(&operator, &coupling, &residuals, descent).unwrap();
    let mut theta = vec![0.0; 128];
    for _ in 0..5 {
        let gradient = subtract(&pull, &multiply(&dual, &theta));
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t += step.get() * g);
    }
    let scale = norm(&coupling) * norm(&residuals) * step.get() * 5.0;
    assert_close(found, dot(&query, &theta[..64]), scale, 1);
}

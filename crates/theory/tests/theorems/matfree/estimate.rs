//! Whether traces and block scores from random probes have the error that they state.

use super::{TIGHT, gram, random, sign_deviation};
use crate::support::{assert_close, dot, inverse, multiply, normals, product, trace};
use fewstep_core::Rng;
use fewstep_theory::matfree::{
    FactorKernel, Stopping, block_scores, hutchinson_trace, query_scores,
};

/// App. H: Hutchinson's estimate of a trace has the error that theory says, and says so.
#[test]
fn app_h_hutchinson_trace() {
    for (seed, n, width) in [(1, 30, 50), (2, 40, 10), (3, 25, 1)] {
        let mut rng = Rng::new(seed);
        let features = random(&mut rng, n, width);
        let kernel = gram(&features);
        let probes = 4000;
        let operator = FactorKernel::new(&features).unwrap();
        let estimate = hutchinson_trace(&operator, probes, &mut rng).unwrap();
        let expected_error = sign_deviation(&kernel) / (probes as f64).sqrt();
        assert!((estimate.mean - trace(&kernel)).abs() < 4.0 * expected_error);
        assert!((estimate.standard_error / expected_error - 1.0).abs() < 0.1);
    }
}

/// App. H: the block scores of Sec. 8 from shared probes, in units of the theoretical error; the
/// query scores to the tolerance of the solves.
#[test]
fn app_h_block_scores() {
    let (n, noise_variance, probes) = (50, 2.0, 3000);
    let mut rng = Rng::new(4);
    let features: Vec<Vec<Vec<f64>>> =
        [60, 8, 3].map(|width| random(&mut rng, n, width)).to_vec();
    let blocks: Vec<FactorKernel> =
        features.iter().map(|features| FactorKernel::new(features).unwrap()).collect();
    let kernels: Vec<Vec<Vec<f64>>> = features.iter().map(|features| gram(features)).collect();
    let mut noisy = vec![vec![0.0; n]; n];
    for (i, row) in noisy.iter_mut().enumerate() {
        for (j, entry) in row.iter_mut().enumerate() {
            *entry = kernels.iter().map(|kernel| kernel[i][j]).sum();
        }
        row[i] += noise_variance;
    }
    let inverse = inverse(&noisy);
    let stopping = Stopping { tolerance: 1e-10, iterations: 200 };
    let scores = block_scores(&blocks, noise_variance, probes, stopping, &mut rng).unwrap();
    for (score, kernel) in scores.iter().zip(&kernels) {
        let shares = product(kernel, &inverse);
        let expected_error = sign_deviation(&shares) / (probes as f64).sqrt();
        assert!((score.mean - trace(&shares)).abs() < 4.0 * expected_error);
        assert!((score.standard_error / expected_error - 1.0).abs() < 0.1);
    }
    let couplings: Vec<Vec<f64>> = features
        .iter()
        .map(|features| multiply(features, &normals(&mut rng, features[0].len())))
        .collect();
    let scores = query_scores(&blocks, &couplings, noise_variance, TIGHT).unwrap();
    for (&score, coupling) in scores.iter().zip(&couplings) {
        let literal = dot(coupling, &multiply(&inverse, coupling));
        let scale = dot(coupling, coupling) / noise_variance;
        assert_close(score, literal, scale, n);
    }
}

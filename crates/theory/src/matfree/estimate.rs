//! Traces and block scores from random probes, each with its standard error.

use super::conjugate_gradients::{Stopping, conjugate_gradients};
use super::operator::{BlockSum, LinearOperator, Shifted, check_operator, product};
use crate::estimate::Estimate;
use fewstep_core::checks::{check_positive, check_size};
use fewstep_core::linear_algebra::dot;
use fewstep_core::{Error, Rng};

/// Refuses fewer probes than a standard error needs.
pub(super) fn check_probes(probes: usize) -> Result<(), Error> {
    if probes < 2 {
        return Err(Error::OutOfRange {
            quantity: "number of probes",
            found: probes as f64,
            allowed: "at least 2, so that the standard error can be told",
        });
    }
    Ok(())
}

/// A probe: independent signs.
pub(super) fn signs(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| rng.sign()).collect()
}

/// The trace of an operator, estimated from products with random signs.
///
/// ```text
/// tr A ≈ (1/R) Σ_r z_rᵀ A z_r,   z_r ∈ {±1}ⁿ;   variance 2 (‖A‖_F² − Σ_i A_ii²)/R   (App. H)
/// ```
///
/// # Errors
///
/// [`Error::OutOfRange`] for fewer than two probes; [`Error::Empty`] and [`Error::NotFinite`]
/// for an invalid operator.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Rng};
/// use fewstep_theory::matfree::{DenseKernel, hutchinson_trace};
///
/// // zᵀAz is 2 or 6, so the trace of 4 is hit within 2 at worst.
/// let kernel = DenseKernel::new(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
/// let estimate = hutchinson_trace(&kernel, 400, &mut Rng::new(0))?;
/// assert!((estimate.mean - 4.0).abs() < 4.0 * estimate.standard_error);
/// # Ok::<(), Error>(())
/// ```
pub fn hutchinson_trace(
    operator: &impl LinearOperator,
    probes: usize,
    rng: &mut Rng,
) -> Result<Estimate, Error> {
    let n = check_operator(operator)?;
    check_probes(probes)?;
    let mut image = vec![0.0; n];
    let mut samples = Vec::with_capacity(probes);
    for _ in 0..probes {
        let probe = signs(rng, n);
        product(operator, &probe, &mut image)?;
        samples.push(dot(&probe, &image));
    }
    Ok(Estimate::of(&samples))
}

/// What the prompt tells about each block's weights, estimated for all blocks at once.
///
/// ```text
/// s_b = tr(K^(b) (K_full + σ²I)⁻¹) ≈ (1/R) Σ_r z_rᵀ K^(b) u_r,
/// u_r = (K_full + σ²I)⁻¹ z_r,   K_full = Σ_b K^(b)                            (Sec. 8, App. H)
/// ```
///
/// One solve per probe serves all blocks. The solves are not exact: on top of the standard
/// error a score may be off by `tolerance · n λ_max(K^(b))/σ²` at most.
///
/// # Errors
///
/// [`Error::NotConverged`] if a solve fails, [`Error::OutOfRange`] for fewer than two probes or
/// a noise variance that is not over 0, [`Error::Empty`], [`Error::SizeMismatch`] and
/// [`Error::NotFinite`] for blocks that do not fit.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Rng};
/// use fewstep_theory::matfree::{DenseKernel, Stopping, block_scores};
///
/// // One example: 3/(3 + 1 + 4) and 1/(3 + 1 + 4).
/// let blocks = [DenseKernel::new(&[vec![3.0]])?, DenseKernel::new(&[vec![1.0]])?];
/// let scores = block_scores(&blocks, 4.0, 2, Stopping::default(), &mut Rng::new(0))?;
/// assert_eq!((scores[0].mean, scores[1].mean), (0.375, 0.125));
/// # Ok::<(), Error>(())
/// ```
pub fn block_scores(
    blocks: &[impl LinearOperator],
    noise_variance: f64,
    probes: usize,
    stopping: Stopping,
    rng: &mut Rng,
) -> Result<Vec<Estimate>, Error> {
    let noisy = noisy_total(blocks, noise_variance)?;
    let n = check_operator(&noisy)?;
    check_probes(probes)?;
    let mut image = vec![0.0; n];
    let mut samples = vec![Vec::with_capacity(probes); blocks.len()];
    for _ in 0..probes {
        let probe = signs(rng, n);
        let solution = conjugate_gradients(&noisy, &probe, stopping)?.vector;
        for (block, samples) in blocks.iter().zip(&mut samples) {
            product(block, &solution, &mut image)?;
            samples.push(dot(&probe, &image));
        }
    }
    Ok(samples.iter().map(|samples| Estimate::of(samples)).collect())
}

/// What the prompt tells about the query through each block: no chance involved.
///
/// ```text
/// k_bᵀ (K_full + σ²I)⁻¹ k_b                                                          (Sec. 8)
/// ```
///
/// One solve per block. A score may be off by `tolerance · ‖k_b‖²/σ²` at most.
///
/// # Errors
///
/// [`Error::NotConverged`] if a solve fails, [`Error::SizeMismatch`] unless there is one
/// coupling per block with one entry per example, [`Error::OutOfRange`] for a noise variance
/// that is not over 0, [`Error::Empty`] and [`Error::NotFinite`] for input that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{DenseKernel, Stopping, query_scores}};
///
/// // One example: 2²/(3 + 1).
/// let blocks = [DenseKernel::new(&[vec![3.0]])?];
/// assert_eq!(query_scores(&blocks, &[vec![2.0]], 1.0, Stopping::default())?, [1.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn query_scores(
    blocks: &[impl LinearOperator],
    couplings: &[Vec<f64>],
    noise_variance: f64,
    stopping: Stopping,
) -> Result<Vec<f64>, Error> {
    let noisy = noisy_total(blocks, noise_variance)?;
    check_size("couplings", couplings.len(), blocks.len())?;
    let score = |coupling: &Vec<f64>| {
        let solution = conjugate_gradients(&noisy, coupling, stopping)?;
        Ok(dot(coupling, &solution.vector))
    };
    couplings.iter().map(score).collect()
}

/// The sum of the kernels plus the noise variance on the diagonal, `K_full + σ²I`.
fn noisy_total<O: LinearOperator>(
    blocks: &[O],
    noise_variance: f64,
) -> Result<Shifted<BlockSum<&O>>, Error> {
    check_positive("noise variance", noise_variance)?;
    Shifted::new(BlockSum::new(blocks.iter().collect())?, noise_variance)
}

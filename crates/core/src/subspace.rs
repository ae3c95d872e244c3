//! Which blocks of weights to update: scores and choices in prompt space.
//!
//! Answers "which directions" (Sec. 8, App. H, App. I) for blocks that are updated as a whole. In:
//! a [`Geometry`]. Out: a score per candidate block, or the chosen blocks by position. The exact
//! theory, in which directions are free, is in `fewstep_theory::design`.
//!
//! The paper has two rules named Query-Aware. Sec. 8.2 ranks blocks once by a quadratic form,
//! [`query_scores`]; App. I, which the experiments use, adds one block at a time so that the
//! predicted correction grows most, [`greedy_correction`]. They choose different blocks. Beyond the
//! paper, [`last_layers`] finds the number of last layers that predicts held-out examples best.

mod depth;
mod greedy;

use crate::checks::{check_budget, check_finite, check_positive, check_size};
use crate::error::Error;
use crate::geometry::{Geometry, QueryCoupling};
use crate::matrix::Matrix;
use crate::rng::Rng;
use crate::spectrum::Spectrum;
use crate::vectors::dot;

pub(crate) use depth::doubling;
pub use depth::{DepthChoice, DepthSettings, last_layers};
pub use greedy::{GreedyChoice, greedy_correction};

/// How much the prompt tells about each block's weights, whatever the query.
///
/// ```text
/// tr ℐ_bb = tr(K^(b) (K_full + σ²I)⁻¹)                            (Sec. 8.2, Trace-TopK of App. I)
/// ```
///
/// `K_full` is the sum over the candidate blocks, so what several blocks explain alike is shared
/// between them. The scores are at least 0 and sum to the degrees of freedom of the full update,
/// `Σ λ_i/(λ_i + σ²)`. `noise_variance` is relative to the variance of the weights' corrections
/// (`Σ = I`). One decomposition, then `O(n²)` per block.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless the noise variance is finite and over 0, and the errors of
/// [`Spectrum::of`] unless `K_full` is a kernel.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// // The first block changes example 0 only, the second example 1 only.
/// let first = Block::new("value.0.0", &[vec![3.0, 0.0], vec![0.0, 0.0]])?;
/// let second = Block::new("value.0.1", &[vec![0.0, 0.0], vec![0.0, 1.0]])?;
/// let geometry = Geometry::new(vec![0.3, -0.1], vec![first, second])?;
/// let scores = subspace::trace_scores(&geometry, 1.0)?;
/// assert!((scores[0] - 0.75).abs() < 1e-14 && (scores[1] - 0.5).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn trace_scores(geometry: &Geometry, noise_variance: f64) -> Result<Vec<f64>, Error> {
    let spectrum = Spectrum::of(geometry.total().kernel())?;
    Ok(traces(geometry, &precision(&spectrum, noise_variance)?))
}

/// Trace scores, and query scores if there is a query, from one decomposition of `K_full`.
pub(crate) fn scores(
    geometry: &Geometry,
    spectrum: &Spectrum,
    noise_variance: f64,
) -> Result<(Vec<f64>, Option<Vec<f64>>), Error> {
    let precision = precision(spectrum, noise_variance)?;
    let has_query = geometry.blocks()[0].query().is_some();
    let queries = has_query.then(|| quadratic_forms(geometry, &precision)).transpose()?;
    Ok((traces(geometry, &precision), queries))
}

fn traces(geometry: &Geometry, precision: &Matrix) -> Vec<f64> {
    // tr(AB) of symmetric matrices is the sum of the products of their entries.
    let score = |kernel: &Matrix| dot(kernel.values(), precision.values());
    geometry.blocks().iter().map(|block| score(block.kernel())).collect()
}

/// How much of each block's own contribution to the query the prompt determines.
///
/// ```text
/// j_x^(b)ᵀ ℐ_bb j_x^(b) = k_x^(b)ᵀ (K_full + σ²I)⁻¹ k_x^(b)            (Sec. 8.2, Query-Aware)
/// ```
///
/// It is the variance, from prompt to prompt, of what block `b` adds to the Bayes-optimal
/// correction of this query. `noise_variance` as in [`trace_scores`]; for blocks with different
/// prior variances use [`Geometry::precondition`] first.
///
/// # Differs from the paper
///
/// 1. The paper calls the risk reduction of block `b` proportional to this score. It is
///    `2 j_x^(b)ᵀ(ℐ j_x)^(b)` minus the score: the two agree where the other blocks' contributions
///    are uncorrelated with this one's, and the score ignores them otherwise.
///
/// # Errors
///
/// [`Error::NoQuery`] without a query, and as [`trace_scores`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// let first = Block::from_features("value.0.0", &[vec![1.0], vec![0.0]], Some(&[3.0]))?;
/// let second = Block::from_features("value.0.1", &[vec![0.0], vec![1.0]], Some(&[1.0]))?;
/// let geometry = Geometry::new(vec![0.3, -0.1], vec![first, second])?;
/// let scores = subspace::query_scores(&geometry, 1.0)?;
/// assert!((scores[0] - 4.5).abs() < 1e-14 && (scores[1] - 0.5).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn query_scores(geometry: &Geometry, noise_variance: f64) -> Result<Vec<f64>, Error> {
    let spectrum = Spectrum::of(geometry.total().kernel())?;
    quadratic_forms(geometry, &precision(&spectrum, noise_variance)?)
}

fn quadratic_forms(geometry: &Geometry, precision: &Matrix) -> Result<Vec<f64>, Error> {
    let mut scores = Vec::with_capacity(geometry.blocks().len());
    for block in geometry.blocks() {
        let coupling = &query(block.query(), "the query score")?.coupling;
        scores.push(dot(coupling, &precision.multiply(coupling)?));
    }
    Ok(scores)
}

/// `(K_full + σ²I)⁻¹` on the representable range of `K_full`.
///
/// Block kernels and couplings lie in that range, so the rest would only add rounding, divided
/// by a possibly tiny `σ²`.
fn precision(spectrum: &Spectrum, noise_variance: f64) -> Result<Matrix, Error> {
    check_positive("noise variance", noise_variance)?;
    let n = spectrum.examples();
    let mut precision = Matrix::zeros(n, n);
    for mode in 0..spectrum.rank() {
        let (vector, eigenvalue) = (spectrum.mode(mode), spectrum.eigenvalues()[mode]);
        let weight = 1.0 / (eigenvalue + noise_variance);
        precision.add_scaled(weight, &Matrix::from_fn(n, n, |i, j| vector[i] * vector[j]));
    }
    Ok(precision)
}

/// The query of a block, or the error that says what needs it.
fn query<'a>(
    query: Option<&'a QueryCoupling>,
    quantity: &'static str,
) -> Result<&'a QueryCoupling, Error> {
    query.ok_or(Error::NoQuery { quantity })
}

/// Scores per weight: each divided by the number of weights in its block (Sec. 8.2).
///
/// For a budget in weights instead of blocks; blocks of one size keep their order.
///
/// # Errors
///
/// [`Error::SizeMismatch`] or [`Error::NotFinite`] for scores that do not fit, and
/// [`Error::OutOfRange`] if a block's size is not known or 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// let block = Block::new("value.0.0", &[vec![4.0]])?.with_parameters(8);
/// let geometry = Geometry::new(vec![0.3], vec![block])?;
/// assert_eq!(subspace::per_weight(&[4.0], &geometry)?, [0.5]);
/// # Ok::<(), Error>(())
/// ```
pub fn per_weight(scores: &[f64], geometry: &Geometry) -> Result<Vec<f64>, Error> {
    check_size("scores", scores.len(), geometry.blocks().len())?;
    check_finite("scores", scores)?;
    let mut divided = Vec::with_capacity(scores.len());
    for (score, block) in scores.iter().zip(geometry.blocks()) {
        let weights = block.parameters().unwrap_or(0);
        if weights == 0 {
            return Err(Error::OutOfRange {
                quantity: "number of weights in a block",
                found: 0.0,
                allowed: "known and at least 1",
            });
        }
        divided.push(score / weights as f64);
    }
    Ok(divided)
}

/// The blocks with the highest scores, best first; of equal ones the first (App. I).
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are scores, and
/// [`Error::NotFinite`] for bad scores.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, subspace};
///
/// assert_eq!(subspace::top(&[0.1, 0.7, 0.7, 0.3], 3)?, [1, 2, 3]);
/// # Ok::<(), Error>(())
/// ```
pub fn top(scores: &[f64], budget: usize) -> Result<Vec<usize>, Error> {
    check_finite("scores", scores)?;
    bottom(&scores.iter().map(|score| -score).collect::<Vec<f64>>(), budget)
}

/// The blocks with the lowest scores, lowest first; of equal ones the first (App. I).
///
/// A negative control: a rule whose bottom does as well as its top has chosen nothing.
///
/// # Errors
///
/// As [`top`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, subspace};
///
/// assert_eq!(subspace::bottom(&[0.1, 0.7, 0.1, 0.3], 3)?, [0, 2, 3]);
/// # Ok::<(), Error>(())
/// ```
pub fn bottom(scores: &[f64], budget: usize) -> Result<Vec<usize>, Error> {
    check_budget(budget, scores.len())?;
    check_finite("scores", scores)?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Stable; unlike total_cmp it takes −0 and 0 for equal.
    order.sort_by(|&a, &b| scores[a].partial_cmp(&scores[b]).expect("scores are finite"));
    order.truncate(budget);
    Ok(order)
}

/// Blocks drawn uniformly, without replacement: the baseline of App. I.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are blocks.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Rng, subspace};
///
/// let mut drawn = subspace::random(3, 3, &mut Rng::new(0))?;
/// drawn.sort_unstable();
/// assert_eq!(drawn, [0, 1, 2]);
/// # Ok::<(), Error>(())
/// ```
pub fn random(blocks: usize, budget: usize, rng: &mut Rng) -> Result<Vec<usize>, Error> {
    check_budget(budget, blocks)?;
    Ok(rng.choose(budget, blocks))
}

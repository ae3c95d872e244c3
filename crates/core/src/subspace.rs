//! Which blocks of weights to update: scores and choices in prompt space.
//!
//! Answers "which directions" (Sec. 8, App. H, App. I) for blocks that are updated as a whole. In:
//! a [`Geometry`]. Out: a score per candidate block, or the chosen blocks by position. The exact
//! theory, in which directions are free, is in [`design`](crate::design).
//!
//! The paper has two rules named Query-Aware. Sec. 8.2 ranks blocks once by a quadratic form,
//! [`query_scores`]; App. I, which the experiments use, adds one block at a time so that the
//! predicted correction grows most, [`greedy_correction`]. They choose different blocks. Beyond the
//! paper, [`greedy_left_out`] asks which blocks predict examples that were left out.

use crate::error::{Error, check_finite, check_fraction, check_positive, check_size};
use crate::filter::{Filter, GradientDescent};
use crate::geometry::{Block, Geometry, QueryCoupling};
use crate::leave_one_out::{Averaging, LeaveOneOut};
use crate::linalg::{LargestEigenvalue, add_scaled, dot};
use crate::matrix::Matrix;
use crate::rng::Rng;
use crate::spectrum::{Spectrum, StepSize};

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
/// [`Error::OutOfRange`] unless the noise variance is finite and over 0, and what
/// [`Spectrum::of`] says about a `K_full` that is no kernel.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// // The first block moves example 0 only, the second example 1 only.
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
/// correction of this query. `noise_variance` as in [`trace_scores`]; for blocks whose weights
/// move by different amounts use [`Geometry::precondition`] first.
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

/// `Err(Error::BudgetOutOfRange)` unless the budget lies between 1 and `blocks`.
pub(crate) fn check_budget(budget: usize, blocks: usize) -> Result<(), Error> {
    if (1..=blocks).contains(&budget) {
        Ok(())
    } else {
        Err(Error::BudgetOutOfRange { budget, blocks })
    }
}

/// Blocks in the order in which the greedy rule took them.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// let geometry = Geometry::new(vec![1.0], vec![Block::intercept(1)?])?;
/// let choice = subspace::greedy_correction(&geometry, 1, 0.5, 1)?;
/// assert_eq!((choice.blocks, choice.corrections), (vec![0], vec![0.5]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GreedyChoice {
    /// The blocks' positions.
    pub blocks: Vec<usize>,
    /// `h`: the predicted correction at the query once the block was in.
    pub corrections: Vec<f64>,
}

/// Adds blocks one by one, each time the one with which the prediction at the query moves most.
///
/// ```text
/// b = argmax h²,   h = (k_cur + k^(b))ᵀ q_T(K_cur + K^(b)) r,   ρ = c/λ_max(K_cur + K^(b))
///                                                                          (App. I, Query-Aware)
/// ```
///
/// Coupling, kernel and step size are those of the current set *plus* the candidate, so `h` is
/// what `T` linear steps on these blocks would do. Of equal candidates the first is taken; in
/// particular, residuals of 0 give the first blocks. Not the rule of [`query_scores`], which has
/// the same name in the paper.
///
/// Every candidate costs `O(n³ + min(T, 20n) n²)`, without a decomposition while `T ≤ 20n`.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are blocks,
/// [`Error::NoQuery`] without a query, [`Error::OutOfRange`] unless the step scale `c` is over 0
/// and under 1, [`Error::NotFinite`] if a correction overflows, and what [`Spectrum::of`] says
/// about a `K_full` that is no kernel.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, subspace};
///
/// // One step of half the limit: h = ½ (k/K) r, with (k, K) = (1, 1), (6, 4), then (7, 5).
/// let first = Block::from_features("value.0.0", &[vec![1.0]], Some(&[1.0]))?;
/// let second = Block::from_features("value.0.1", &[vec![2.0]], Some(&[3.0]))?;
/// let geometry = Geometry::new(vec![1.0], vec![first, second])?;
/// let choice = subspace::greedy_correction(&geometry, 2, 0.5, 1)?;
/// assert_eq!(choice.blocks, [1, 0]);
/// assert!((choice.corrections[1] - 0.7).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn greedy_correction(
    geometry: &Geometry,
    budget: usize,
    step_scale: f64,
    horizon: u32,
) -> Result<GreedyChoice, Error> {
    let blocks = geometry.blocks().len();
    check_budget(budget, blocks)?;
    let mut trial = Trial::new(geometry, step_scale, horizon)?;
    let mut choice = GreedyChoice { blocks: Vec::new(), corrections: Vec::new() };
    while choice.blocks.len() < budget {
        let mut best: Option<(usize, f64)> = None;
        for block in (0..blocks).filter(|block| !choice.blocks.contains(block)) {
            let correction = trial.correction(block)?;
            if best.is_none_or(|(_, most)| correction.abs() > most.abs()) {
                best = Some((block, correction));
            }
        }
        let (block, correction) = best.expect("the budget leaves a block");
        trial.keep(block);
        choice.blocks.push(block);
        choice.corrections.push(correction);
    }
    Ok(choice)
}

/// How errors on examples left out are measured for a choice of blocks.
///
/// # Examples
///
/// See [`greedy_left_out`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut<'a> {
    /// `c`: the step size as a fraction of the largest stable one of the blocks together.
    pub step_scale: f64,
    /// Candidate numbers of steps, ascending.
    pub horizons: &'a [u32],
    /// How left-out errors are averaged.
    pub averaging: Averaging,
}

/// Blocks in the order in which they were taken, and what is left of the error.
///
/// # Examples
///
/// See [`greedy_left_out`].
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOutChoice {
    /// The blocks' positions.
    pub blocks: Vec<usize>,
    /// The smallest leave-one-out risk over the horizons once the block was in.
    pub risks: Vec<f64>,
}

/// Adds blocks one by one, each time the one with which examples left out are predicted best, as
/// long as that makes their error smaller.
///
/// ```text
/// b = argmin_b min_T risk(T; K_cur + K^(b)),   ρ = c/λ_max(K_cur + K^(b))
/// ```
///
/// Beyond the paper, whose rules look at how far a block moves the query and not at whether that is
/// the right way. The first block is always taken; of equal ones the first. Of many candidate
/// horizons some are looked at, each about √2 times the one before: the risk changes slowly.
///
/// Every candidate costs a decomposition per example.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are blocks,
/// [`Error::OutOfRange`] unless the step scale is over 0 and under 1, and those of
/// [`LeaveOneOut::of`] and [`LeaveOneOut::risk`].
///
/// # Examples
///
/// ```
/// use fewstep_core::leave_one_out::Averaging;
/// use fewstep_core::subspace::{LeftOut, greedy_left_out};
/// use fewstep_core::{Block, Error, Geometry};
///
/// // The first block takes the two examples for alike, which they are; the second for opposite.
/// let alike = Block::from_features("value.0.0", &[vec![1.0], vec![1.0]], None)?;
/// let opposite = Block::from_features("value.0.1", &[vec![2.0], vec![-2.0]], None)?;
/// let geometry = Geometry::new(vec![1.0, 1.0], vec![opposite, alike])?;
/// let steps = LeftOut { step_scale: 0.5, horizons: &[0, 1], averaging: Averaging::Plain };
/// let choice = greedy_left_out(&geometry, 2, &steps)?;
/// // One step closes a quarter of the gap: ½ of λ_max = 2.
/// assert_eq!((choice.blocks, choice.risks), (vec![1], vec![0.75 * 0.75]));
/// # Ok::<(), Error>(())
/// ```
pub fn greedy_left_out(
    geometry: &Geometry,
    budget: usize,
    steps: &LeftOut<'_>,
) -> Result<LeftOutChoice, Error> {
    let blocks = geometry.blocks().len();
    check_budget(budget, blocks)?;
    let horizons = thinned(steps.horizons);
    let mut choice = LeftOutChoice { blocks: Vec::new(), risks: Vec::new() };
    while choice.blocks.len() < budget {
        let mut best: Option<(usize, f64)> = None;
        for block in (0..blocks).filter(|block| !choice.blocks.contains(block)) {
            let mut together = choice.blocks.clone();
            together.push(block);
            let risk = left_out_risk(&geometry.sum(&together)?, geometry, steps, &horizons)?;
            if best.is_none_or(|(_, least)| risk < least) {
                best = Some((block, risk));
            }
        }
        let (block, risk) = best.expect("the budget leaves a block");
        if choice.risks.last().is_some_and(|&least| risk >= least) {
            break;
        }
        choice.blocks.push(block);
        choice.risks.push(risk);
    }
    Ok(choice)
}

/// The smallest leave-one-out risk over the horizons.
fn left_out_risk(
    block: &Block,
    geometry: &Geometry,
    steps: &LeftOut<'_>,
    horizons: &[u32],
) -> Result<f64, Error> {
    let spectrum = Spectrum::of(block.kernel())?;
    let step = StepSize::fraction(steps.step_scale, &spectrum)?;
    let coupling = block.query().map(|query| query.coupling.as_slice());
    let left_out =
        LeaveOneOut::of(block.kernel(), geometry.residuals(), step, horizons, coupling)?;
    Ok(left_out.risk(steps.averaging)?.into_iter().fold(f64::INFINITY, f64::min))
}

/// The first of the horizons, then each that is at least √2 times the one kept before, and the last.
fn thinned(horizons: &[u32]) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::new();
    for &horizon in horizons {
        let far =
            |&last: &u32| f64::from(horizon) >= std::f64::consts::SQRT_2 * f64::from(last);
        if kept.last().is_none_or(far) {
            kept.push(horizon);
        }
    }
    kept.extend(horizons.last().filter(|&&last| kept.last() != Some(&last)));
    kept
}

/// A kernel, `n × n` row by row, and its coupling to the query.
struct Pair {
    kernel: Vec<f64>,
    coupling: Vec<f64>,
}

impl Pair {
    /// Becomes `a + b`.
    fn set_sum(&mut self, a: &Self, b: &Self) {
        let add = |sum: &mut [f64], a: &[f64], b: &[f64]| {
            for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
                *sum = a + b;
            }
        };
        add(&mut self.kernel, &a.kernel, &b.kernel);
        add(&mut self.coupling, &a.coupling, &b.coupling);
    }
}

/// The current set of blocks, the candidates, and room to try one without allocating.
struct Trial<'a> {
    residuals: &'a [f64],
    step_scale: f64,
    horizon: u32,
    candidates: Vec<Pair>,
    current: Pair,
    /// Current set plus candidate.
    sum: Pair,
    largest: LargestEigenvalue,
    /// `q_t(K) r`, and what is left of the residuals then.
    weights: Vec<f64>,
    left: Vec<f64>,
}

impl<'a> Trial<'a> {
    fn new(geometry: &'a Geometry, step_scale: f64, horizon: u32) -> Result<Self, Error> {
        check_fraction("step scale", step_scale)?;
        let n = geometry.examples();
        let mut candidates = Vec::with_capacity(geometry.blocks().len());
        for block in geometry.blocks() {
            let coupling =
                query(block.query(), "the greedy choice of blocks")?.coupling.clone();
            let entries = block.kernel();
            // As in Spectrum::of: rounding may have made the two triangles differ.
            let kernel = (0..n * n)
                .map(|at| 0.5 * entries[(at / n, at % n)] + 0.5 * entries[(at % n, at / n)])
                .collect();
            candidates.push(Pair { kernel, coupling });
        }
        Spectrum::of(geometry.total().kernel())?;
        let empty = || Pair { kernel: vec![0.0; n * n], coupling: vec![0.0; n] };
        Ok(Self {
            residuals: geometry.residuals(),
            step_scale,
            horizon,
            candidates,
            current: empty(),
            sum: empty(),
            largest: LargestEigenvalue::new(n),
            weights: vec![0.0; n],
            left: vec![0.0; n],
        })
    }

    /// `h` of the current set and one more block.
    fn correction(&mut self, block: usize) -> Result<f64, Error> {
        self.sum.set_sum(&self.current, &self.candidates[block]);
        // T n² operations against n³ for a decomposition, whose constant is about 20.
        let short = self.horizon as usize <= 20 * self.residuals.len();
        let correction = if short { self.by_steps() } else { self.by_modes()? };
        check_finite("correction", &[correction])?;
        Ok(correction)
    }

    /// `k_xᵀ v_T` with `v ← v + ρ(r − K v)` from 0, once per step.
    fn by_steps(&mut self) -> f64 {
        let largest = self.largest.of(&self.sum.kernel);
        // As in StepSize::fraction: a zero kernel has no limit.
        let step = if largest > 0.0 {
            (self.step_scale / largest).min(f64::MAX)
        } else {
            self.step_scale
        };
        self.weights.fill(0.0);
        for _ in 0..self.horizon {
            let rows = self.sum.kernel.chunks_exact(self.residuals.len());
            for ((left, row), residual) in self.left.iter_mut().zip(rows).zip(self.residuals) {
                *left = residual - dot(row, &self.weights);
            }
            add_scaled(&mut self.weights, step, &self.left);
        }
        dot(&self.sum.coupling, &self.weights)
    }

    /// `k_xᵀ q_T(K) r` in the eigenbasis, for any number of steps.
    fn by_modes(&self) -> Result<f64, Error> {
        let n = self.residuals.len();
        let spectrum = Spectrum::of(Matrix::new(n, n, self.sum.kernel.clone())?)?;
        let step = StepSize::fraction(self.step_scale, &spectrum)?;
        let filter = GradientDescent { step, horizon: self.horizon };
        filter.query_correction(&spectrum, &self.sum.coupling, self.residuals)
    }

    /// Takes the block into the current set.
    fn keep(&mut self, block: usize) {
        let chosen = &self.candidates[block];
        add_scaled(&mut self.current.kernel, 1.0, &chosen.kernel);
        add_scaled(&mut self.current.coupling, 1.0, &chosen.coupling);
    }
}

#[cfg(test)]
mod tests {
    use super::{Trial, thinned};
    use crate::{Block, Geometry, Rng};

    #[test]
    fn fewer_horizons_are_as_far_apart_as_said() {
        let all: Vec<u32> = (0..=30).collect();
        assert_eq!(thinned(&all), [0, 1, 2, 3, 5, 8, 12, 17, 25, 30]);
        assert_eq!(thinned(&[4, 5, 6]), [4, 6]);
        assert!(thinned(&[]).is_empty());
    }

    /// Stepping and decomposing predict the same correction, on either side of the border
    /// between them.
    #[test]
    fn both_forms_agree() {
        for (seed, n) in [(1, 1), (2, 2), (3, 7), (4, 12)] {
            let mut rng = Rng::new(seed);
            let mut normals = |count| (0..count).map(|_| rng.normal()).collect::<Vec<f64>>();
            let residuals = normals(n);
            let features: Vec<Vec<f64>> = (0..n).map(|_| normals(5)).collect();
            let query = normals(5);
            let block = Block::from_features("value.0.0", &features, Some(&query)).unwrap();
            let coupling = &block.query().unwrap().coupling.clone();
            let geometry = Geometry::new(residuals.clone(), vec![block]).unwrap();
            for horizon in [0, 1, 8, 400] {
                let mut trial = Trial::new(&geometry, 0.9, horizon).unwrap();
                trial.correction(0).unwrap();
                let (stepped, filtered) = (trial.by_steps(), trial.by_modes().unwrap());
                let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
                let gain = 0.9 * f64::from(horizon) / geometry.blocks()[0].kernel()[(0, 0)];
                let allowed = 1e3
                    * n as f64
                    * f64::EPSILON
                    * gain
                    * length(coupling)
                    * length(&residuals);
                assert!((stepped - filtered).abs() <= allowed, "{stepped} against {filtered}");
            }
        }
    }
}

//! Blocks one by one: those that change the query's prediction most.

use super::query;
use crate::checks::{check_budget, check_finite, check_fraction};
use crate::error::Error;
use crate::filter::{Filter, GradientDescent};
use crate::geometry::Geometry;
use crate::linalg::LargestEigenvalue;
use crate::matrix::Matrix;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::{add_scaled, dot};

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

/// Adds blocks one by one, each time the one with which the query's prediction changes most.
///
/// ```text
/// b = argmax h²,   h = (k_cur + k^(b))ᵀ q_T(K_cur + K^(b)) r,   ρ = c/λ_max(K_cur + K^(b))
///                                                                          (App. I, Query-Aware)
/// ```
///
/// Coupling, kernel and step size are those of the current set *plus* the candidate, so `h` is
/// what `T` linear steps on these blocks would do. Of equal candidates the first is taken; in
/// particular, residuals of 0 give the first blocks. Not the rule of
/// [`query_scores`](super::query_scores), which has the same name in the paper.
///
/// Every candidate costs `O(n³ + min(T, 20n) n²)`, without a decomposition while `T ≤ 20n`.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are blocks,
/// [`Error::NoQuery`] without a query, [`Error::OutOfRange`] unless the step scale `c` is over 0
/// and under 1, [`Error::NotFinite`] if a correction overflows, and the errors of [`Spectrum::of`]
/// unless `K_full` is a kernel.
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
    use super::Trial;
    use crate::{Block, Geometry, Rng};

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

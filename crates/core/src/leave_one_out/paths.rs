//! What steps without each example in turn predict for it, and for a query.
//!
//! In: a kernel, residuals, a step size and candidate numbers of steps. Out: [`Paths`], by the steps
//! themselves or by eigendecompositions.

use crate::error::Error;
use crate::filter::{Filter, GradientDescent};
use crate::matrix::Matrix;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::dot;

/// Up to this number of steps per example, steps take fewer operations than eigendecompositions.
const STEPS_PER_EXAMPLE: u64 = 10;

/// What steps are taken on.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) kernel: &'a Matrix,
    pub(super) residuals: &'a [f64],
    pub(super) step: StepSize,
    pub(super) candidates: &'a [u32],
    /// To the query, if there is one.
    pub(super) coupling: Option<&'a [f64]>,
}

/// What steps on all examples but one predict: one row per example, one column per candidate.
pub(super) struct Paths {
    /// For the example itself.
    pub(super) predictions: Vec<Vec<f64>>,
    /// For the query; empty without one.
    pub(super) corrections: Vec<Vec<f64>>,
}

impl Paths {
    /// By whichever method takes fewer operations.
    pub(super) fn of(steps: Steps<'_>) -> Result<Self, Error> {
        let Steps { residuals, candidates, .. } = steps;
        let longest = candidates.iter().copied().max().unwrap_or(0);
        if u64::from(longest) <= STEPS_PER_EXAMPLE * residuals.len() as u64 {
            Ok(by_steps(steps))
        } else {
            by_modes(steps)
        }
    }
}

/// By taking the steps: `n²` operations each for every example.
fn by_steps(steps: Steps<'_>) -> Paths {
    let Steps { kernel, residuals, step, candidates, coupling } = steps;
    let n = residuals.len();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by_key(|&candidate| candidates[candidate]);
    let mut paths = Paths { predictions: Vec::new(), corrections: Vec::new() };
    let mut pulls = vec![0.0; n];
    for example in 0..n {
        let (mut fit, mut correction, mut taken) = (vec![0.0; n], 0.0, 0);
        let (mut predictions, mut corrections) =
            (vec![0.0; candidates.len()], vec![0.0; candidates.len()]);
        for &candidate in &order {
            while taken < candidates[candidate] {
                // ρ times what is left to learn, of all examples but one.
                for (pull, (residual, fit)) in pulls.iter_mut().zip(residuals.iter().zip(&fit))
                {
                    *pull = step.get() * (residual - fit);
                }
                pulls[example] = 0.0;
                for (row, pull) in pulls.iter().enumerate() {
                    // The kernel is symmetric: its rows are its columns.
                    for (fit, entry) in fit.iter_mut().zip(kernel.row(row)) {
                        *fit += pull * entry;
                    }
                }
                correction += coupling.map_or(0.0, |coupling| dot(coupling, &pulls));
                taken += 1;
            }
            predictions[candidate] = fit[example];
            corrections[candidate] = correction;
        }
        paths.predictions.push(predictions);
        if coupling.is_some() {
            paths.corrections.push(corrections);
        }
    }
    paths
}

/// By eigendecompositions: about `10n³` operations for every example, however many the steps.
fn by_modes(steps: Steps<'_>) -> Result<Paths, Error> {
    let Steps { kernel, residuals, coupling, .. } = steps;
    let mut paths = Paths { predictions: Vec::new(), corrections: Vec::new() };
    for example in 0..residuals.len() {
        let others = Others::without(example, steps)?;
        paths.predictions.push(others.predict(&without(example, kernel.row(example))));
        if let Some(coupling) = coupling {
            paths.corrections.push(others.predict(&without(example, coupling)));
        }
    }
    Ok(paths)
}

/// What steps on all examples but one learn, in the modes of the others.
struct Others {
    /// `None` if there are no others.
    spectrum: Option<Spectrum>,
    /// `q_T(λ_j) r̃_j`: one row per candidate.
    learned: Vec<Vec<f64>>,
}

impl Others {
    fn without(example: usize, steps: Steps<'_>) -> Result<Self, Error> {
        let Steps { kernel, residuals, step, candidates, .. } = steps;
        let kept: Vec<usize> = (0..residuals.len()).filter(|&other| other != example).collect();
        if kept.is_empty() {
            return Ok(Self { spectrum: None, learned: vec![Vec::new(); candidates.len()] });
        }
        let entry = |i: usize, j: usize| kernel[(kept[i], kept[j])];
        let spectrum = Spectrum::of(Matrix::from_fn(kept.len(), kept.len(), entry))?;
        let amounts = spectrum.amounts(&without(example, residuals));
        let learn = |&horizon: &u32| -> Vec<f64> {
            let filter = GradientDescent { step, horizon };
            let modes = spectrum.eigenvalues().iter().zip(&amounts);
            modes.map(|(&eigenvalue, amount)| filter.gain(eigenvalue) * amount).collect()
        };
        let learned = candidates.iter().map(learn).collect();
        Ok(Self { spectrum: Some(spectrum), learned })
    }

    /// `readoutᵀ q_T(K_{−i}) r_{−i}` for every candidate.
    fn predict(&self, readout: &[f64]) -> Vec<f64> {
        let readout = self.spectrum.as_ref().map_or(Vec::new(), |modes| modes.amounts(readout));
        self.learned.iter().map(|learned| dot(&readout, learned)).collect()
    }
}

/// A vector without one entry.
fn without(example: usize, vector: &[f64]) -> Vec<f64> {
    [&vector[..example], &vector[example + 1..]].concat()
}

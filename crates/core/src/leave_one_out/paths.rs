//! What steps without each example in turn predict for it, and for a query.
//!
//! In: a kernel, residuals, a step size and candidate numbers of steps. Out: [`Paths`], by the steps
//! themselves or by eigendecompositions.

use crate::error::Error;
use crate::filter::{Filter, GradientDescent};
use crate::linalg::add_product;
use crate::matrix::Matrix;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::{add_scaled, dot};

/// Up to this number of steps per example, steps take fewer operations than eigendecompositions.
const STEPS_PER_EXAMPLE: u64 = 10;

/// From this number of examples on the steps of all of them are one matrix product; fewer gain nothing by
/// it.
const SIDE_BY_SIDE: usize = 48;

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
            let together = residuals.len() >= SIDE_BY_SIDE;
            Ok(if together { side_by_side(steps) } else { by_steps(steps) })
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

/// As [`by_steps`], for all held-out examples at the same time: a column for each.
///
/// ```text
/// F ← F + K P,   P_ij = ρ (r_i − F_ij),   P_jj = 0
/// ```
fn side_by_side(steps: Steps<'_>) -> Paths {
    let Steps { kernel, residuals, step, candidates, coupling } = steps;
    let (n, count) = (residuals.len(), candidates.len());
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&candidate| candidates[candidate]);
    let (mut fits, mut pulls) = (vec![0.0; n * n], vec![0.0; n * n]);
    let mut correction = vec![0.0; n];
    let mut paths = Paths { predictions: vec![vec![0.0; count]; n], corrections: Vec::new() };
    if coupling.is_some() {
        paths.corrections = vec![vec![0.0; count]; n];
    }
    let mut taken = 0;
    for &candidate in &order {
        while taken < candidates[candidate] {
            let rows = pulls.chunks_exact_mut(n).zip(fits.chunks_exact(n));
            for (example, (pulls, fits)) in rows.enumerate() {
                for (pull, fit) in pulls.iter_mut().zip(fits) {
                    *pull = step.get() * (residuals[example] - fit);
                }
                pulls[example] = 0.0;
                let weight = coupling.map_or(0.0, |coupling| coupling[example]);
                add_scaled(&mut correction, weight, pulls);
            }
            add_product(&mut fits, kernel, &pulls, n);
            taken += 1;
        }
        for (example, path) in paths.predictions.iter_mut().enumerate() {
            path[candidate] = fits[example * n + example];
        }
        for (path, correction) in paths.corrections.iter_mut().zip(&correction) {
            path[candidate] = *correction;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// All three ways take the same steps, with a query and without, in any order of candidates.
    #[test]
    fn all_forms_agree() {
        let mut rng = Rng::new(4);
        for n in [1, 2, 7, 49] {
            let features = Matrix::from_fn(n, 5, |_, _| rng.normal());
            let kernel = crate::linalg::gram(&features);
            let residuals: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let coupling: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let spectrum = Spectrum::of(&kernel).unwrap();
            let step = StepSize::fraction(0.6, &spectrum).unwrap();
            for coupling in [None, Some(&coupling[..])] {
                let candidates = &[16, 0, 1, 5];
                let steps = Steps {
                    kernel: &kernel,
                    residuals: &residuals,
                    step,
                    candidates,
                    coupling,
                };
                let expected = by_modes(steps).unwrap();
                for found in [by_steps(steps), side_by_side(steps)] {
                    let pairs = [
                        (&found.predictions, &expected.predictions),
                        (&found.corrections, &expected.corrections),
                    ];
                    for (found, expected) in pairs {
                        assert_eq!(found.len(), expected.len());
                        for (a, b) in found.iter().flatten().zip(expected.iter().flatten()) {
                            let scale = 16.0 * (n as f64) * 10.0;
                            assert!((a - b).abs() <= scale * 1e-13, "{n}: {a} against {b}");
                        }
                    }
                }
            }
        }
    }
}

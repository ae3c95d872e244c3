//! One average over all candidates, weighted by their leave-one-out log-losses.
//!
//! In: held-out probabilities of every candidate with its prior. Out: weights, also without each
//! example's own loss, and the averaged probabilities.

use super::loss::log_loss;
use crate::matrix::Matrix;

/// A member of the pool: held-out probabilities of every example, one row each.
pub(super) struct Candidate<'a> {
    pub(super) prior: f64,
    pub(super) probabilities: &'a Matrix,
}

/// What a pool of candidates says.
pub(super) struct Pool {
    /// Of all candidates, summing to 1.
    pub(super) weights: Vec<f64>,
    /// Held-out probabilities of the average, one row per example.
    pub(super) probabilities: Matrix,
}

/// Leave-one-out log-losses of the examples, clipped.
pub(super) fn losses(probabilities: &Matrix, answers: &[usize]) -> Vec<f64> {
    answers
        .iter()
        .enumerate()
        .map(|(i, &answer)| log_loss(probabilities[(i, answer)]))
        .collect()
}

/// Their mean.
pub(super) fn mean_loss(probabilities: &Matrix, answers: &[usize]) -> f64 {
    losses(probabilities, answers).iter().sum::<f64>() / answers.len() as f64
}

impl Pool {
    /// Weighs candidates and averages them.
    ///
    /// ```text
    /// w_k ∝ prior_k · exp(−β Σ_i ℓ_ik),      ℓ_ik = −log max(p_ik(y_i), 10⁻⁶)
    /// ```
    ///
    /// Example `i` of the averaged probabilities is weighed by all losses but its own: otherwise the
    /// average would know its answer. Costs `n` multiplications per candidate and label.
    pub(super) fn of(candidates: &[Candidate<'_>], answers: &[usize], sharpness: f64) -> Self {
        let losses: Vec<Vec<f64>> =
            candidates.iter().map(|one| losses(one.probabilities, answers)).collect();
        let totals: Vec<f64> = losses.iter().map(|losses| losses.iter().sum()).collect();
        let weigh = |totals: &[f64]| {
            let least = totals.iter().copied().fold(f64::INFINITY, f64::min);
            let likely = |(one, total): (&Candidate<'_>, &f64)| {
                one.prior * (-sharpness * (total - least)).exp()
            };
            let raw: Vec<f64> = candidates.iter().zip(totals).map(likely).collect();
            let sum: f64 = raw.iter().sum();
            raw.into_iter().map(|weight| weight / sum).collect::<Vec<f64>>()
        };
        let classes = candidates[0].probabilities.columns();
        let mut pooled = Vec::with_capacity(answers.len() * classes);
        for example in 0..answers.len() {
            let others: Vec<f64> = totals
                .iter()
                .zip(&losses)
                .map(|(total, losses)| total - losses[example])
                .collect();
            let mut row = vec![0.0; classes];
            for (one, weight) in candidates.iter().zip(weigh(&others)) {
                crate::vectors::add_scaled(&mut row, weight, one.probabilities.row(example));
            }
            pooled.extend(row);
        }
        let probabilities =
            Matrix::from_fn(answers.len(), classes, |i, label| pooled[i * classes + label]);
        Self { weights: weigh(&totals), probabilities }
    }
}

//! What a step follows and what a prediction is, for each loss.
//!
//! In: label scores and their change in the linearised model. Out: residuals, which steps add up, and
//! probabilities. `C` labels; blocks of a descent hold `C × width` numbers, one column per run.

use super::kernel::centred;
use crate::policy::ClassLoss;

/// Losses are clipped here when candidates are compared: no single example decides alone.
pub(super) const LEAST_PROBABILITY: f64 = 1e-6;

/// Probabilities from scores, `softmax(z)`, of any magnitude.
pub(super) fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// The log-loss of a probability, clipped.
pub(super) fn log_loss(probability: f64) -> f64 {
    -probability.max(LEAST_PROBABILITY).ln()
}

/// One prediction as a loss sees it, before any step.
pub(super) struct Start {
    loss: ClassLoss,
    /// `z₀`, centred.
    scores: Vec<f64>,
    /// `softmax(z₀)`.
    probabilities: Vec<f64>,
}

impl Start {
    pub(super) fn of(scores: &[f64], loss: ClassLoss) -> Self {
        Self { loss, scores: centred(scores), probabilities: softmax(scores) }
    }

    /// What the loss predicts once the scores have changed.
    pub(super) fn predict(&self, change: &[f64]) -> Vec<f64> {
        if let ClassLoss::Squared = self.loss {
            let mut moved = change.to_vec();
            self.jacobian(&mut moved);
            let sum = |&(p, dp): &(f64, f64)| (p + dp).max(0.0);
            let pairs = self.probabilities.iter().copied().zip(moved);
            let kept: Vec<f64> = pairs.map(|pair| sum(&pair)).collect();
            let total: f64 = kept.iter().sum();
            return kept.into_iter().map(|p| p / total).collect();
        }
        let scores: Vec<f64> = self.scores.iter().zip(change).map(|(z, dz)| z + dz).collect();
        softmax(&scores)
    }

    /// The negative derivative of an example's loss by its label scores, at a change of them, which it
    /// replaces.
    pub(super) fn residual(&self, answer: usize, change: &mut [f64]) {
        let is = |label: usize| f64::from(u8::from(label == answer));
        match self.loss {
            ClassLoss::CrossEntropy => {
                let predicted = self.predict(change);
                for (label, (entry, p)) in change.iter_mut().zip(predicted).enumerate() {
                    *entry = is(label) - p;
                }
            }
            ClassLoss::Squared => {
                self.jacobian(change);
                for (label, (entry, p)) in
                    change.iter_mut().zip(&self.probabilities).enumerate()
                {
                    *entry = is(label) - p - *entry;
                }
                self.jacobian(change);
            }
            ClassLoss::Aitchison { smoothing } => {
                // clr(Ỹ) is the log-odds of the answer against any other label, centred.
                let share = smoothing / change.len() as f64;
                let odds = ((1.0 - smoothing + share) / share).ln();
                let mean = odds / change.len() as f64;
                for (label, (entry, z)) in change.iter_mut().zip(&self.scores).enumerate() {
                    *entry = is(label) * odds - mean - z - *entry;
                }
            }
        }
    }

    /// `J v`, with `J = diag(p) − p pᵀ` at the start.
    pub(super) fn jacobian(&self, vector: &mut [f64]) {
        covariance(&self.probabilities, vector);
    }
}

/// `(diag(p) − p pᵀ) v`, which replaces the vector.
pub(super) fn covariance(probabilities: &[f64], vector: &mut [f64]) {
    let mean: f64 = probabilities.iter().zip(&*vector).map(|(p, v)| p * v).sum();
    for (entry, p) in vector.iter_mut().zip(probabilities) {
        *entry = p * (*entry - mean);
    }
    // The entries sum to 0. That of a label with almost all probability would be rounding error.
    let pairs = probabilities.iter().enumerate();
    let most = pairs.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(label, _)| label);
    vector[most] = 0.0;
    vector[most] = -vector.iter().sum::<f64>();
}

/// The largest curvature of an example's loss in its label scores; for `squared`, in what its
/// kernel `J K Jᵀ` leaves.
pub(super) fn curvature(loss: ClassLoss) -> f64 {
    match loss {
        ClassLoss::CrossEntropy => 0.5,
        ClassLoss::Squared | ClassLoss::Aitchison { .. } => 1.0,
    }
}

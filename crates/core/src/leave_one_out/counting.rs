//! How leave-one-out errors are averaged to one number.
//!
//! In: squared errors, one per example. Out: one risk, by weights and a power.

use crate::answers::Answers;

/// The largest number of different labels that is taken for classification, where a label may be
/// rare and counts all the same; more are taken for regression, where every example counts the same.
const FEW_LABELS: usize = 3;

/// Which power of the errors is averaged in classification: the largest errors, which are confident
/// mistakes, tell most.
const CLASSIFICATION_POWER: f64 = 4.0;

/// The same in regression, where some labels may be wrong: the largest errors tell least.
const REGRESSION_POWER: f64 = 0.5;

/// How the errors of examples are averaged.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counting {
    /// Weights of the examples, which sum to 1: the same for every label, divided among its own,
    /// where labels are few; else the same for every example.
    weights: Vec<f64>,
    /// Which power of the errors is averaged.
    power: f64,
}

impl Counting {
    /// Every example counts the same, and squares are averaged.
    pub(super) fn plain(n: usize) -> Self {
        Self::squares(vec![1.0 / n as f64; n])
    }

    /// Regression: every example counts the same, and the largest errors count least.
    pub(super) fn regression(n: usize) -> Self {
        Self { weights: vec![1.0 / n as f64; n], power: REGRESSION_POWER }
    }

    /// By the labels of the examples: classification if they are few, else regression.
    pub(super) fn by_label(answers: &Answers) -> Self {
        let labels = answers.labels();
        let mut different = labels.to_vec();
        different.sort_unstable();
        different.dedup();
        if different.len() > FEW_LABELS {
            return Self::regression(labels.len());
        }
        let alike = |label: &usize| labels.iter().filter(|other| *other == label).count();
        let weight = |label| 1.0 / (alike(label) * different.len()) as f64;
        Self { weights: labels.iter().map(weight).collect(), power: CLASSIFICATION_POWER }
    }

    /// Squares are averaged, with these weights.
    pub(super) fn squares(weights: Vec<f64>) -> Self {
        Self { weights, power: 2.0 }
    }

    /// Weights of the examples.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The square of the weighted power mean of errors with these squares.
    pub(super) fn average(&self, squares: &[f64]) -> f64 {
        // Powers of the largest error could leave the range of numbers; those of its shares do not.
        let most = squares.iter().copied().fold(0.0, f64::max);
        if most == 0.0 || !most.is_finite() {
            return most;
        }
        let powers = squares.iter().map(|square| (square / most).powf(self.power / 2.0));
        let mean: f64 = powers.zip(&self.weights).map(|(power, weight)| weight * power).sum();
        most * mean.powf(2.0 / self.power)
    }
}

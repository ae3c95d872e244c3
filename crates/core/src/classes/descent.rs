//! Steps of gradient descent on all leave-one-out problems at once, in the linearised model.
//!
//! In: an arm's [`Operator`], its base's label scores, and who is held out when. Out: for each number
//! of steps the coefficients of the whole problem and a held-out prediction of every example.

use super::folds::HeldOut;
use super::loss::{Start, curvature, softmax};
use super::operator::Operator;
use super::step::{ClassStep, largest_centred};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::policy::ClassLoss;

/// What all descents behind one base prompt share.
pub(super) struct Problem<'a> {
    answers: &'a [usize],
    classes: usize,
    held_out: &'a HeldOut,
    loss: ClassLoss,
    starts: Vec<Start>,
}

/// Where a descent has come to after a number of steps.
pub(super) struct Reached {
    /// `a`, one row per example, of the steps on all of them.
    pub(super) coefficients: Matrix,
    /// One row per example, by the steps that held it out.
    pub(super) probabilities: Matrix,
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        scores: &Matrix,
        answers: &'a [usize],
        held_out: &'a HeldOut,
        loss: ClassLoss,
    ) -> Self {
        let starts = (0..scores.rows()).map(|i| Start::of(scores.row(i), loss)).collect();
        Self { answers, classes: scores.columns(), held_out, loss, starts }
    }

    /// The label of each example.
    pub(super) fn answers(&self) -> &[usize] {
        self.answers
    }

    /// Predictions before any step.
    pub(super) fn before(scores: &Matrix) -> Matrix {
        let values: Vec<f64> =
            (0..scores.rows()).flat_map(|i| softmax(scores.row(i))).collect();
        let classes = scores.columns();
        Matrix::from_fn(scores.rows(), classes, |i, label| values[i * classes + label])
    }

    /// Steps that are fractions of the largest stable one; none if the kernel is 0.
    pub(super) fn steps(
        &self,
        operator: &Operator,
        scales: &[f64],
    ) -> Result<Vec<(f64, ClassStep)>, Error> {
        let largest = largest_centred(self.answers.len(), self.classes, |vector, image| {
            if let ClassLoss::Squared = self.loss {
                // The kernel of the linearised probabilities, J K Jᵀ.
                let mut turned = vector.to_vec();
                self.jacobians(&mut turned);
                operator.apply(&turned, 1, image);
                self.jacobians(image);
            } else {
                operator.apply(vector, 1, image);
            }
        })?;
        let step = |&scale: &f64| {
            ClassStep::fraction(scale, largest, curvature(self.loss)).map(|step| (scale, step))
        };
        Ok(scales.iter().filter_map(step).collect())
    }

    fn jacobians(&self, vector: &mut [f64]) {
        for (start, row) in self.starts.iter().zip(vector.chunks_exact_mut(self.classes)) {
            start.jacobian(row);
        }
    }

    /// Takes the steps, up to the largest of the ascending horizons.
    ///
    /// ```text
    /// a_i ← a_i + ρ residual_i(z₀_i + (K a)_i)     for the examples i that are not held out
    /// ```
    ///
    /// One product with the kernel per step serves all runs, each a column: one per fold, and the
    /// last with no example held out.
    pub(super) fn descend(
        &self,
        operator: &Operator,
        step: ClassStep,
        horizons: &[u32],
    ) -> Vec<Reached> {
        let runs = self.held_out.folds + 1;
        let entries = self.answers.len() * self.classes * runs;
        let (mut coefficients, mut changes) = (vec![0.0; entries], vec![0.0; entries]);
        let mut reached = Vec::with_capacity(horizons.len());
        let mut done = 0;
        for &horizon in horizons {
            for _ in done..horizon {
                self.advance(step, &mut coefficients, &changes);
                operator.apply(&coefficients, runs, &mut changes);
            }
            done = horizon;
            reached.push(self.reached(&coefficients, &changes));
        }
        reached
    }

    /// One step of every run.
    fn advance(&self, step: ClassStep, coefficients: &mut [f64], changes: &[f64]) {
        let (classes, runs) = (self.classes, self.held_out.folds + 1);
        let block = classes * runs;
        let mut scratch = vec![0.0; classes];
        for (example, start) in self.starts.iter().enumerate() {
            let (changes, coefficients) = (
                &changes[example * block..(example + 1) * block],
                &mut coefficients[example * block..(example + 1) * block],
            );
            for run in (0..runs).filter(|&run| run != self.held_out.fold_of[example]) {
                read(changes, run, runs, &mut scratch);
                start.residual(self.answers[example], &mut scratch);
                for (label, residual) in scratch.iter().enumerate() {
                    coefficients[label * runs + run] += step.get() * residual;
                }
            }
        }
    }

    fn reached(&self, coefficients: &[f64], changes: &[f64]) -> Reached {
        let (n, classes, runs) = (self.answers.len(), self.classes, self.held_out.folds + 1);
        let mut probabilities = Vec::with_capacity(n * classes);
        let mut scratch = vec![0.0; classes];
        for (example, start) in self.starts.iter().enumerate() {
            let changes = &changes[example * classes * runs..(example + 1) * classes * runs];
            read(changes, self.held_out.fold_of[example], runs, &mut scratch);
            probabilities.extend(start.predict(&scratch));
        }
        Reached {
            coefficients: Matrix::from_fn(n, classes, |i, label| {
                coefficients[(i * classes + label) * runs + runs - 1]
            }),
            probabilities: Matrix::from_fn(n, classes, |i, label| {
                probabilities[i * classes + label]
            }),
        }
    }
}

/// One column of a block of `C × runs` numbers.
fn read(block: &[f64], run: usize, runs: usize, column: &mut [f64]) {
    for (entry, row) in column.iter_mut().zip(block.chunks_exact(runs)) {
        *entry = row[run];
    }
}

//! How probable the answers are under a prior of each strength, by Laplace's approximation.
//!
//! In: an arm's [`Operator`], its base's label scores, prior variances. Out: log-evidence. It is an
//! alternative to leave-one-out for the candidates of one arm, and sees all answers at once.

use super::loss::{covariance, softmax};
use super::operator::Operator;
use crate::error::Error;
use crate::linalg::{add_product_of_transpose, eigen};
use crate::matrix::Matrix;
use crate::vectors::{add_scaled, dot, squared_norm};

/// The largest number of outputs whose kernel is written out.
pub(super) const MOST_OUTPUTS: usize = 2000;

/// Where Newton's method ends: half the squared Newton decrement, in units of the objective.
const TOLERANCE: f64 = 1e-14;

/// The number of its rounds; it needs about ten.
const MOST_ROUNDS: usize = 100;

/// Scores with independent normal parameters, `z = z₀ + τ Ψ θ` with `Ψ Ψᵀ = P K P`.
pub(super) struct Normal<'a> {
    scores: &'a Matrix,
    answers: &'a [usize],
    /// `Ψ`: one row per output and one column per mode of the kernel.
    roots: Matrix,
}

/// The mode of the parameters, and what is known there.
struct Mode {
    parameters: Vec<f64>,
    objective: f64,
}

/// The negative log-posterior at some parameters, up to a constant.
struct Point {
    objective: f64,
    gradient: Vec<f64>,
    probabilities: Vec<Vec<f64>>,
}

impl<'a> Normal<'a> {
    /// Writes out the kernel and decomposes it.
    ///
    /// Costs `(n·C)³` multiplications, about ten times.
    pub(super) fn of(
        operator: &Operator,
        scores: &'a Matrix,
        answers: &'a [usize],
    ) -> Result<Self, Error> {
        let (classes, outputs) = (scores.columns(), scores.rows() * scores.columns());
        // K P, column by column: products of centred vectors are centred.
        let centring = Matrix::from_fn(outputs, outputs, |i, j| {
            if i / classes == j / classes {
                f64::from(u8::from(i == j)) - 1.0 / classes as f64
            } else {
                0.0
            }
        });
        let mut kernel = vec![0.0; outputs * outputs];
        operator.apply(centring.values(), outputs, &mut kernel);
        let (values, vectors) = eigen(&Matrix::new(outputs, outputs, kernel)?)?;
        let least = outputs as f64 * f64::EPSILON * values[0];
        let rank = values.iter().take_while(|&&value| value > least).count();
        let roots = Matrix::from_fn(outputs, rank, |output, mode| {
            values[mode].sqrt() * vectors[(mode, output)]
        });
        Ok(Self { scores, answers, roots })
    }

    /// The log-evidence of the answers for each prior variance `τ²`.
    ///
    /// ```text
    /// log p(y) ≈ Σ_i log p(y_i | z₀ + τΨθ̂) − ½ ‖θ̂‖² − ½ log det(I + τ² Ψᵀ W Ψ)
    /// ```
    ///
    /// with `θ̂` the mode and `W = diag(p) − p pᵀ` there (Rasmussen and Williams 2006, Sec. 3.5).
    pub(super) fn evidence(&self, variances: &[f64]) -> Result<Vec<f64>, Error> {
        let mut start = vec![0.0; self.roots.columns()];
        variances
            .iter()
            .map(|&variance| {
                let scale = variance.sqrt();
                let mode = self.mode(start.clone(), scale)?;
                let (values, _) = eigen(&self.hessian(&mode.parameters, scale))?;
                let volume: f64 = values.iter().map(|value| value.ln()).sum();
                start.clone_from(&mode.parameters);
                Ok(-mode.objective - 0.5 * volume)
            })
            .collect()
    }

    /// Newton's method with backtracking; the objective is convex.
    fn mode(&self, mut parameters: Vec<f64>, scale: f64) -> Result<Mode, Error> {
        let mut point = self.at(&parameters, scale);
        let mut decrement = f64::INFINITY;
        for _ in 0..MOST_ROUNDS {
            let (values, vectors) = eigen(&self.hessian_at(&point, scale))?;
            let amounts = vectors.multiply(&point.gradient)?;
            let scaled: Vec<f64> = amounts.iter().zip(&values).map(|(a, v)| a / v).collect();
            decrement = 0.5 * dot(&amounts, &scaled);
            let enough = TOLERANCE * (1.0 + point.objective.abs());
            let direction = vectors.multiply_transposed(&scaled)?;
            // Near the mode a step that is right changes the objective by less than its rounding.
            let rounding = 16.0 * f64::EPSILON * (1.0 + point.objective.abs());
            let (mut share, mut best) = (1.0, None);
            while best.is_none() && share > 1e-10 {
                let mut next = parameters.clone();
                add_scaled(&mut next, -share, &direction);
                let there = self.at(&next, scale);
                if there.objective <= point.objective + rounding {
                    best = Some((next, there));
                }
                share *= 0.5;
            }
            if let Some((next, there)) = best {
                (parameters, point) = (next, there);
            }
            if decrement <= enough {
                return Ok(Mode { parameters, objective: point.objective });
            }
        }
        Err(Error::NotConverged {
            method: "mode of an arm's parameters",
            iterations: MOST_ROUNDS,
            residual: decrement / (1.0 + point.objective.abs()),
            tolerance: TOLERANCE,
        })
    }

    /// `½‖θ‖² − Σ log p(y_i)` with its gradient.
    fn at(&self, parameters: &[f64], scale: f64) -> Point {
        let classes = self.scores.columns();
        let mut objective = 0.5 * squared_norm(parameters);
        let mut residuals = Vec::with_capacity(self.roots.rows());
        let mut probabilities = Vec::with_capacity(self.answers.len());
        for (example, &answer) in self.answers.iter().enumerate() {
            let z: Vec<f64> = (0..classes)
                .map(|label| {
                    let root = self.roots.row(example * classes + label);
                    self.scores[(example, label)] + scale * dot(root, parameters)
                })
                .collect();
            let largest = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = z.iter().map(|z| (z - largest).exp()).sum();
            objective += largest - z[answer] + sum.ln();
            let p = softmax(&z);
            residuals.extend(
                p.iter().enumerate().map(|(label, p)| f64::from(u8::from(label == answer)) - p),
            );
            probabilities.push(p);
        }
        let mut slope = vec![0.0; parameters.len()];
        add_product_of_transpose(&mut slope, &self.roots, &residuals, 1);
        let gradient = parameters.iter().zip(slope).map(|(t, s)| t - scale * s).collect();
        Point { objective, gradient, probabilities }
    }

    fn hessian(&self, parameters: &[f64], scale: f64) -> Matrix {
        self.hessian_at(&self.at(parameters, scale), scale)
    }

    /// `I + τ² Ψᵀ W Ψ`, exactly symmetric.
    fn hessian_at(&self, point: &Point, scale: f64) -> Matrix {
        let (classes, rank) = (self.scores.columns(), self.roots.columns());
        let mut turned = vec![0.0; self.roots.rows() * rank];
        let mut column = vec![0.0; classes];
        for (example, probabilities) in point.probabilities.iter().enumerate() {
            for mode in 0..rank {
                for (label, entry) in column.iter_mut().enumerate() {
                    *entry = self.roots[(example * classes + label, mode)];
                }
                covariance(probabilities, &mut column);
                for (label, entry) in column.iter().enumerate() {
                    turned[(example * classes + label) * rank + mode] = *entry;
                }
            }
        }
        let mut product = vec![0.0; rank * rank];
        add_product_of_transpose(&mut product, &self.roots, &turned, rank);
        Matrix::from_fn(rank, rank, |i, j| {
            let half = product[i * rank + j] + product[j * rank + i];
            f64::from(u8::from(i == j)) + 0.5 * scale * scale * half
        })
    }
}

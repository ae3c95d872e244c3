//! Drawn prompts, steps in weights and elimination: routes that share nothing with `fewstep-core`.

use fewstep_core::Rng;

/// A matrix by its rows.
pub(super) type Rows = Vec<Vec<f64>>;

/// A prompt whose correction is linear in some weights: features of its examples and its query.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// `Φ`: one row per example.
    pub(super) features: Rows,
    /// `φ(x)`.
    pub(super) query: Vec<f64>,
    /// `τ²`.
    pub(super) signal: f64,
    /// `σ²`.
    pub(super) noise: f64,
}

/// A task drawn in a world.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    /// The weights that would be right.
    pub(super) truth: Vec<f64>,
    /// `r`: what they do to the examples, and noise.
    pub(super) residuals: Vec<f64>,
    /// What they do to the query.
    pub(super) target: f64,
}

impl World {
    /// A world of so many examples and weights whose directions matter less and less.
    pub(super) fn new(rng: &mut Rng, examples: usize, weights: usize) -> Self {
        let mut row = || -> Vec<f64> {
            (1..=weights).map(|j| rng.normal() * (j as f64).powf(-0.7)).collect()
        };
        let features = (0..examples).map(|_| row()).collect();
        Self { features, query: row(), signal: 1.0, noise: 0.5 }
    }

    /// `K = ΦΦᵀ`.
    pub(super) fn kernel(&self) -> Rows {
        self.features.iter().map(|row| multiply(&self.features, row)).collect()
    }

    /// `k_x = Φφ(x)`.
    pub(super) fn coupling(&self) -> Vec<f64> {
        multiply(&self.features, &self.query)
    }

    /// A task: weights with variance `τ²`, noise with variance `σ²`.
    pub(super) fn draw(&self, rng: &mut Rng) -> Drawn {
        let truth: Vec<f64> =
            self.query.iter().map(|_| self.signal.sqrt() * rng.normal()).collect();
        let residuals = multiply(&self.features, &truth)
            .into_iter()
            .map(|clean| clean + self.noise.sqrt() * rng.normal())
            .collect();
        Drawn { target: dot(&self.query, &truth), truth, residuals }
    }

    /// Weights after each number of steps of a list that ascends: `θ ← θ + ρΦᵀ(r − Φθ)`.
    pub(super) fn descend(&self, residuals: &[f64], step: f64, horizons: &[u32]) -> Rows {
        let mut theta = vec![0.0; self.query.len()];
        let mut taken = 0;
        let mut path = Vec::with_capacity(horizons.len());
        for &horizon in horizons {
            while taken < horizon {
                let left = subtract(residuals, &multiply(&self.features, &theta));
                for (row, error) in self.features.iter().zip(&left) {
                    for (weight, feature) in theta.iter_mut().zip(row) {
                        *weight += step * error * feature;
                    }
                }
                taken += 1;
            }
            path.push(theta.clone());
        }
        path
    }

    /// What the best correction at the query gives each residual: `τ²(τ²K + σ²I)⁻¹k_x`.
    pub(super) fn bayes_weights(&self) -> Vec<f64> {
        let covariance = shifted(&self.kernel(), self.signal, self.noise);
        let solved = eliminate(&covariance, &self.coupling()).0;
        solved.into_iter().map(|weight| self.signal * weight).collect()
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(super) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub(super) fn subtract(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

pub(super) fn multiply(a: &Rows, v: &[f64]) -> Vec<f64> {
    a.iter().map(|row| dot(row, v)).collect()
}

pub(super) fn transpose(a: &Rows) -> Rows {
    let columns = a.first().map_or(0, Vec::len);
    (0..columns).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

pub(super) fn product(a: &Rows, b: &Rows) -> Rows {
    let columns = transpose(b);
    a.iter().map(|row| multiply(&columns, row)).collect()
}

/// `weight · a + shift · I`.
pub(super) fn shifted(a: &Rows, weight: f64, shift: f64) -> Rows {
    let entry = |i: usize, j: usize, x: f64| weight * x + if i == j { shift } else { 0.0 };
    let row = |(i, row): (usize, &Vec<f64>)| {
        row.iter().enumerate().map(|(j, &x)| entry(i, j, x)).collect()
    };
    a.iter().enumerate().map(row).collect()
}

/// Gaussian elimination with pivots: the solution of `a x = b`, and `log |det a|`.
pub(super) fn eliminate(a: &Rows, b: &[f64]) -> (Vec<f64>, f64) {
    let (mut rows, mut right, n) = (a.clone(), b.to_vec(), b.len());
    let mut log_determinant = 0.0;
    for pivot in 0..n {
        let best = (pivot..n)
            .max_by(|&i, &j| rows[i][pivot].abs().total_cmp(&rows[j][pivot].abs()))
            .unwrap_or(pivot);
        rows.swap(pivot, best);
        right.swap(pivot, best);
        log_determinant += rows[pivot][pivot].abs().ln();
        for i in pivot + 1..n {
            let (above, below) = rows.split_at_mut(i);
            let factor = below[0][pivot] / above[pivot][pivot];
            for (entry, known) in below[0].iter_mut().zip(&above[pivot]) {
                *entry -= factor * known;
            }
            right[i] -= factor * right[pivot];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * right[j]).sum();
        right[i] = (right[i] - known) / rows[i][i];
    }
    (right, log_determinant)
}

/// `a⁻¹b` for a matrix `b`, column by column.
pub(super) fn solve(a: &Rows, b: &Rows) -> Rows {
    transpose(&transpose(b).iter().map(|column| eliminate(a, column).0).collect())
}

pub(super) fn normals(rng: &mut Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.normal()).collect()
}

/// `XXᵀ/d` with independent normal entries.
pub(super) fn random_kernel(rng: &mut Rng, examples: usize, features: usize) -> Rows {
    let x: Rows = (0..examples).map(|_| normals(rng, features)).collect();
    x.iter().map(|a| x.iter().map(|b| dot(a, b) / features as f64).collect()).collect()
}

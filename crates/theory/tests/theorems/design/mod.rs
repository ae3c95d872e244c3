//! Sec. 8.1 and App. E: the best update subspace, for one prompt and for many.
//!
//! Here: the random models and the textbook eigenvalues that the files of this folder share.

mod bad_input;
mod global;
mod metric;
mod optimal;
mod posterior;
mod scores;

use crate::support::{
    Rows, dot, inverse, matrix, multiply, normals, product, shifted, transpose,
};
use fewstep_core::Rng;
use fewstep_theory::design::{LinearGaussian, Prior, QueryMetric};

/// A random model with everything written out.
struct Case {
    jacobian: Rows,
    prior: Prior,
    /// `Σ`.
    covariance: Rows,
    noise_variance: f64,
    /// One query Jacobian per row.
    queries: Rows,
}

impl Case {
    fn n(&self) -> usize {
        self.jacobian.len()
    }

    fn p(&self) -> usize {
        self.covariance.len()
    }

    fn model(&self) -> LinearGaussian {
        LinearGaussian::new(&self.jacobian, self.prior.clone(), self.noise_variance).unwrap()
    }

    fn metric(&self) -> QueryMetric {
        QueryMetric::from_queries(&self.queries).unwrap()
    }

    /// `(1/m) Σ j_x j_xᵀ`.
    fn query_matrix(&self) -> Rows {
        let gram = product(&transpose(&self.queries), &self.queries);
        shifted(&gram, 1.0 / self.queries.len() as f64, 0.0)
    }

    /// `ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ`.
    fn information(&self) -> Rows {
        let spread = product(&self.jacobian, &self.covariance);
        let kernel = product(&spread, &transpose(&self.jacobian));
        let solved = product(&inverse(&shifted(&kernel, 1.0, self.noise_variance)), &spread);
        product(&transpose(&spread), &solved)
    }

    /// `Q^(1/2)`, `Q^(1/2) Σ Q^(1/2)` and `Q^(1/2) ℐ Q^(1/2)`, one row and column per weight.
    fn whitened(&self) -> (Rows, Rows, Rows) {
        let root = square_root(&self.query_matrix());
        let sandwich = |a: &Rows| product(&root, &product(a, &root));
        let (total, known) = (sandwich(&self.covariance), sandwich(&self.information()));
        (root, total, known)
    }
}

/// Runs a check on models of many shapes, priors and magnitudes.
fn for_cases(mut check: impl FnMut(&Case, &mut Rng)) {
    // Examples, weights, queries, scale of the residuals' unit, scale of the prior's.
    let shapes = [
        (1, 1, 1, 1.0, 1.0),
        (1, 4, 1, 1e-6, 1.0),
        (3, 6, 6, 1.0, 1e6),
        (5, 4, 3, 1e6, 1e-6), // more examples than weights, singular metric
        (4, 5, 9, 1.0, 1.0),
        (10, 7, 2, 1.0, 1e3),
        (3, 3, 3, 0.0, 1.0), // a prompt that moves nothing
    ];
    for (seed, &(n, p, m, unit, spread)) in (1..).zip(&shapes) {
        let mut rng = Rng::new(seed);
        let rows = |rng: &mut Rng, count: usize, size: f64| -> Rows {
            (0..count).map(|_| normals(rng, p).iter().map(|x| size * x).collect()).collect()
        };
        let root = rows(&mut rng, p, 0.3);
        let full = shifted(&product(&root, &transpose(&root)), spread, spread);
        let variances: Vec<f64> = (0..p).map(|_| spread * (0.5 + rng.uniform())).collect();
        let (prior, covariance) = match seed % 3 {
            0 => (Prior::Isotropic(spread), shifted(&vec![vec![0.0; p]; p], 0.0, spread)),
            1 => (Prior::Full(matrix(&full)), full),
            _ => (Prior::Diagonal(variances.clone()), diagonal(&variances)),
        };
        let jacobian = rows(&mut rng, n, unit / f64::sqrt(spread));
        let queries = rows(&mut rng, m, 1.0);
        let noise_variance = if unit > 0.0 { 0.7 * unit * unit } else { 1.0 };
        let case = Case { jacobian, prior, covariance, noise_variance, queries };
        let run = std::panic::AssertUnwindSafe(|| check(&case, &mut rng));
        if let Err(cause) = std::panic::catch_unwind(run) {
            eprintln!("failed for the model with seed {seed}: n = {n}, p = {p}, m = {m}");
            std::panic::resume_unwind(cause);
        }
    }
}

fn diagonal(values: &[f64]) -> Rows {
    let entry = |i, j| if i == j { values[i] } else { 0.0 };
    (0..values.len()).map(|i| (0..values.len()).map(|j| entry(i, j)).collect()).collect()
}

/// Eigenvalues, descending, and eigenvectors as rows, by Jacobi's rotations.
fn jacobi(a: &[Vec<f64>]) -> (Vec<f64>, Rows) {
    let n = a.len();
    let mut a = a.to_vec();
    let mut vectors = shifted(&vec![vec![0.0; n]; n], 0.0, 1.0);
    for _ in 0..30 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q] == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p]);
                let (sine, cosine) = angle.sin_cos();
                let rotate = |x: &mut f64, y: &mut f64| {
                    (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                };
                for row in &mut a {
                    let (left, right) = row.split_at_mut(q);
                    rotate(&mut left[p], &mut right[0]);
                }
                for rows in [&mut a, &mut vectors] {
                    let (above, below) = rows.split_at_mut(q);
                    above[p].iter_mut().zip(&mut below[0]).for_each(|(x, y)| rotate(x, y));
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[j][j].total_cmp(&a[i][i]));
    (
        order.iter().map(|&i| a[i][i]).collect(),
        order.iter().map(|&i| vectors[i].clone()).collect(),
    )
}

/// The symmetric root of a positive semidefinite matrix.
fn square_root(a: &[Vec<f64>]) -> Rows {
    let (values, vectors) = jacobi(a);
    let roots: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    product(&transpose(&vectors), &product(&diagonal(&roots), &vectors))
}

/// The largest absolute eigenvalue of a symmetric matrix.
fn operator_norm(a: &[Vec<f64>]) -> f64 {
    let values = jacobi(a).0;
    values[0].max(-values[values.len() - 1])
}

/// Orthonormal rows with the span of the given ones.
fn orthonormal(rows: &[Vec<f64>]) -> Rows {
    let mut basis: Rows = Vec::new();
    for row in rows {
        let mut row = row.clone();
        // Twice is enough.
        for known in basis.iter().chain(&basis) {
            let overlap = dot(known, &row);
            row.iter_mut().zip(known).for_each(|(x, y)| *x -= overlap * y);
        }
        let length = dot(&row, &row).sqrt();
        basis.push(row.iter().map(|x| x / length).collect());
    }
    basis
}

/// `tr(Π a)` for the projector onto the span of orthonormal rows.
fn captured(basis: &[Vec<f64>], a: &[Vec<f64>]) -> f64 {
    basis.iter().map(|row| dot(row, &multiply(a, row))).sum()
}

//! Random prompts, tolerances and textbook linear algebra that shares nothing with the crate.

use fewstep_core::{Filter, Matrix, Rng, Spectrum};

/// A matrix, row by row.
pub(crate) type Rows = Vec<Vec<f64>>;

/// A random prompt: explicit features, query features and residuals.
pub(crate) struct Prompt {
    /// Printed when a test fails.
    pub(crate) seed: u64,
    /// `Φ`, one row per example.
    pub(crate) features: Vec<Vec<f64>>,
    /// `φ(x)`.
    pub(crate) query: Vec<f64>,
    /// `r`.
    pub(crate) residuals: Vec<f64>,
}

impl Prompt {
    /// `ΦΦᵀ`.
    pub(crate) fn kernel(&self) -> Vec<Vec<f64>> {
        self.features
            .iter()
            .map(|a| self.features.iter().map(|b| dot(a, b)).collect())
            .collect()
    }

    /// `Φ φ(x)`.
    pub(crate) fn coupling(&self) -> Vec<f64> {
        multiply(&self.features, &self.query)
    }

    /// Number of examples.
    pub(crate) fn n(&self) -> usize {
        self.features.len()
    }
}

/// What the random features look like.
#[derive(Clone, Copy)]
enum Shape {
    /// Independent normal entries.
    Random,
    /// Orthogonal rows of equal length: one eigenvalue, repeated.
    Level,
    /// No feature moves at all.
    Zero,
}

/// Runs a check on prompts of many shapes and magnitudes, edge cases among them.
pub(crate) fn for_prompts(mut check: impl FnMut(&Prompt)) {
    let shapes = [
        (1, 1, Shape::Random, 1.0),
        (1, 5, Shape::Random, 1e-6),
        (2, 7, Shape::Random, 1e6),
        (3, 3, Shape::Zero, 1.0),
        (5, 3, Shape::Random, 1.0), // rank deficient
        (6, 6, Shape::Level, 2.0),
        (8, 4, Shape::Level, 1.0), // repeated eigenvalues and rank deficient
        (10, 64, Shape::Random, 1.0),
        (10, 64, Shape::Random, 1e6),
        (24, 12, Shape::Random, 1e-6),
        (40, 60, Shape::Random, 0.3),
    ];
    for (seed, &(n, width, shape, scale)) in (1..).zip(&shapes) {
        let prompt = random_prompt(seed, n, width, shape, scale);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&prompt)));
        if let Err(cause) = outcome {
            eprintln!(
                "failed for the prompt with seed {}: n = {n}, width = {width}",
                prompt.seed
            );
            std::panic::resume_unwind(cause);
        }
    }
}

fn random_prompt(seed: u64, n: usize, width: usize, shape: Shape, scale: f64) -> Prompt {
    let mut rng = Rng::new(seed);
    let features = (0..n)
        .map(|i| match shape {
            Shape::Random => normals(&mut rng, width).iter().map(|x| x * scale).collect(),
            Shape::Level => (0..width).map(|j| if i == j { scale } else { 0.0 }).collect(),
            Shape::Zero => vec![0.0; width],
        })
        .collect();
    let query = normals(&mut rng, width).iter().map(|x| x * scale).collect();
    Prompt { seed, features, query, residuals: normals(&mut rng, n) }
}

/// Independent standard normal numbers.
pub(crate) fn normals(rng: &mut Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.normal()).collect()
}

/// A draw from `N(0, L Lᵀ)` for a lower-triangular (or any) root `L`.
pub(crate) fn gaussian(rng: &mut Rng, root: &[Vec<f64>]) -> Vec<f64> {
    multiply(root, &normals(rng, root.first().map_or(0, Vec::len)))
}

/// Agreement to `10³ · n · ε · scale`, with `scale` taken from the inputs.
#[track_caller]
pub(crate) fn assert_close(found: f64, expected: f64, scale: f64, n: usize) {
    let allowed = 1e3 * n as f64 * f64::EPSILON * scale;
    assert!(
        (found - expected).abs() <= allowed,
        "{found:e} against {expected:e}: apart by {:e}, allowed {allowed:e}",
        (found - expected).abs()
    );
}

/// [`assert_close`] for every entry.
#[track_caller]
pub(crate) fn assert_all_close(found: &[f64], expected: &[f64], scale: f64, n: usize) {
    assert_eq!(found.len(), expected.len());
    for (&a, &b) in found.iter().zip(expected) {
        assert_close(a, b, scale, n);
    }
}

/// The mean of some draws and the standard error of that mean.
pub(crate) fn mean_and_error(draws: &[f64]) -> (f64, f64) {
    let count = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / count;
    let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(crate) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub(crate) fn subtract(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x - y).collect()
}

pub(crate) fn multiply(a: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
    a.iter().map(|row| dot(row, v)).collect()
}

pub(crate) fn product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = transpose(b);
    a.iter().map(|row| multiply(&columns, row)).collect()
}

pub(crate) fn transpose(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..a.first().map_or(0, Vec::len)).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

pub(crate) fn trace(a: &[Vec<f64>]) -> f64 {
    a.iter().enumerate().map(|(i, row)| row[i]).sum()
}

/// `weight · a + shift · I`.
pub(crate) fn shifted(a: &[Vec<f64>], weight: f64, shift: f64) -> Vec<Vec<f64>> {
    let entry = |i: usize, j: usize, x: f64| weight * x + if i == j { shift } else { 0.0 };
    a.iter()
        .enumerate()
        .map(|(i, row)| row.iter().enumerate().map(|(j, &x)| entry(i, j, x)).collect())
        .collect()
}

/// Gaussian elimination with partial pivoting: the solution of `a x = b` and `log |det a|`.
pub(crate) fn eliminate(a: &[Vec<f64>], b: &[f64]) -> (Vec<f64>, f64) {
    let n = a.len();
    let mut rows: Vec<Vec<f64>> = a.to_vec();
    let mut right = b.to_vec();
    let mut log_determinant = 0.0;
    for pivot in 0..n {
        let best = (pivot..n)
            .max_by(|&i, &j| rows[i][pivot].abs().total_cmp(&rows[j][pivot].abs()))
            .unwrap();
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

/// The inverse, column by column.
pub(crate) fn inverse(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    let unit = |j: usize| (0..n).map(|i| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    transpose(&(0..n).map(|j| eliminate(a, &unit(j)).0).collect::<Vec<_>>())
}

/// A lower-triangular root of a positive definite matrix (Cholesky–Banachiewicz).
pub(crate) fn cholesky(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    let mut root = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| root[i][k] * root[j][k]).sum();
            root[i][j] =
                if i == j { (a[i][i] - known).sqrt() } else { (a[i][j] - known) / root[j][j] };
        }
    }
    root
}

/// The same numbers as a [`Matrix`].
pub(crate) fn matrix(rows: &[Vec<f64>]) -> Matrix {
    Matrix::from_rows(rows).unwrap()
}

/// Response is eigenvalue times gain in every mode, and the degrees of freedom are the trace of the
/// matrix that maps residuals to the fit.
#[track_caller]
pub(crate) fn assert_response_is_eigenvalue_times_gain(
    filter: &dyn Filter,
    spectrum: &Spectrum,
) {
    let n = spectrum.examples();
    for &eigenvalue in spectrum.eigenvalues() {
        let (response, gain) = (filter.response(eigenvalue), filter.gain(eigenvalue));
        if !gain.is_finite() || (gain == 0.0 && response == 0.0) {
            continue;
        }
        assert_close(eigenvalue * gain, response, 1.0, 1);
    }
    let mut trace = 0.0;
    for i in 0..n {
        let unit: Vec<f64> = (0..n).map(|j| f64::from(u8::from(i == j))).collect();
        trace += filter.prompt_fit(spectrum, &unit).unwrap()[i];
    }
    assert_close(filter.degrees_of_freedom(spectrum), trace, n as f64, n);
}

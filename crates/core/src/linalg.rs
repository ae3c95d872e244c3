//! The only file that knows the linear-algebra library.
//!
//! Takes and returns [`Matrix`] and plain vectors. Callers have checked sizes; what is left
//! here are the products and factorisations. What other crates may use is
//! exported as [`linear_algebra`](crate::linear_algebra).

use crate::error::Error;
use crate::matrix::Matrix;
use crate::vectors::{add_scaled, dot, squared_norm};
use faer::{Mat, MatMut, MatRef, Par, Side};

fn view(a: &Matrix) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(a.values(), a.rows(), a.columns())
}

fn to_matrix(a: MatRef<'_, f64>) -> Matrix {
    Matrix::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)])
}

/// The product of two matrices, `a b`.
///
/// # Panics
///
/// Unless the number of columns of `a` is the number of rows of `b`.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::product};
///
/// let swap = Matrix::from_rows(&[vec![0.0, 1.0], vec![1.0, 0.0]])?;
/// assert_eq!(product(&swap, &swap), Matrix::identity(2));
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn product(a: &Matrix, b: &Matrix) -> Matrix {
    multiply(view(a), view(b))
}

/// A matrix times the transpose of another, `a bᵀ`.
///
/// # Panics
///
/// Unless both have the same number of columns.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::product_transposed};
///
/// let (a, b) = (Matrix::from_rows(&[vec![1.0, 2.0]])?, Matrix::from_rows(&[vec![3.0, 4.0]])?);
/// assert_eq!(product_transposed(&a, &b).values(), [11.0]);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn product_transposed(a: &Matrix, b: &Matrix) -> Matrix {
    multiply(view(a), view(b).transpose())
}

fn multiply(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Matrix {
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    faer::linalg::matmul::matmul(product.as_mut(), faer::Accum::Replace, a, b, 1.0, Par::Seq);
    to_matrix(product.as_ref())
}

/// Adds `a b` to a target, both buffers row by row with the given number of columns.
pub(crate) fn add_product(target: &mut [f64], a: &Matrix, b: &[f64], columns: usize) {
    let b = MatRef::from_row_major_slice(b, a.columns(), columns);
    accumulate(MatMut::from_row_major_slice_mut(target, a.rows(), columns), view(a), b);
}

/// Adds `aᵀ b` to a target, both buffers row by row with the given number of columns.
pub(crate) fn add_product_of_transpose(
    target: &mut [f64],
    a: &Matrix,
    b: &[f64],
    columns: usize,
) {
    let b = MatRef::from_row_major_slice(b, a.rows(), columns);
    let target = MatMut::from_row_major_slice_mut(target, a.columns(), columns);
    accumulate(target, view(a).transpose(), b);
}

fn accumulate(target: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    faer::linalg::matmul::matmul(target, faer::Accum::Add, a, b, 1.0, Par::Seq);
}

/// A matrix times its own transpose, `a aᵀ`, exactly symmetric.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::gram};
///
/// let features = Matrix::from_rows(&[vec![1.0, 1.0], vec![0.0, 2.0]])?;
/// assert_eq!(gram(&features).values(), [2.0, 2.0, 2.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn gram(a: &Matrix) -> Matrix {
    let product = product_transposed(a, a);
    Matrix::from_fn(a.rows(), a.rows(), |i, j| product[(i.max(j), i.min(j))])
}

/// Eigenvalues of a symmetric matrix, descending, and its eigenvectors as *rows*.
///
/// Only the lower triangle is read. The matrix is scaled to entries of at most 1 first, so that
/// kernels of any magnitude are decomposed alike. The result is not checked here;
/// that of [`Spectrum::of`](crate::Spectrum::of) is.
///
/// # Errors
///
/// [`Error::Decomposition`] if the iteration does not end.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::eigen};
///
/// // Eigenvalues of either sign.
/// let (values, vectors) = eigen(&Matrix::from_rows(&[vec![-1.0, 0.0], vec![0.0, 4.0]])?)?;
/// assert_eq!((values, vectors[(0, 1)].abs()), (vec![4.0, -1.0], 1.0));
/// # Ok::<(), Error>(())
/// ```
pub fn eigen(a: &Matrix) -> Result<(Vec<f64>, Matrix), Error> {
    let n = a.rows();
    let scale = a.values().iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if scale == 0.0 {
        return Ok((vec![0.0; n], Matrix::identity(n)));
    }
    let scaled = Mat::from_fn(n, n, |i, j| a[(i, j)] / scale);
    let decomposition = scaled
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| Error::Decomposition { residual: f64::INFINITY, allowed: 0.0 })?;
    let (values, vectors) = (decomposition.S(), decomposition.U());
    // faer sorts ascending.
    let eigenvalues = (0..n).map(|mode| values[n - 1 - mode] * scale).collect();
    Ok((eigenvalues, Matrix::from_fn(n, n, |mode, i| vectors[(i, n - 1 - mode)])))
}

/// Singular values, descending, and the right singular vectors as *rows*.
///
/// Found without forming `aᵀa`, which would lose half of the digits of the small ones. The matrix
/// is scaled to entries of at most 1 first. A zero matrix has none.
///
/// # Errors
///
/// [`Error::Decomposition`] if the iteration does not end.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::singular};
///
/// let (values, vectors) = singular(&Matrix::from_rows(&[vec![3.0, 4.0]])?)?;
/// assert!((values[0] - 5.0).abs() < 1e-14 && (vectors[(0, 1)].abs() - 0.8).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
pub fn singular(a: &Matrix) -> Result<(Vec<f64>, Matrix), Error> {
    let scale = a.values().iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if scale == 0.0 {
        return Ok((Vec::new(), Matrix::zeros(0, a.columns())));
    }
    let scaled = Mat::from_fn(a.rows(), a.columns(), |i, j| a[(i, j)] / scale);
    let decomposition = scaled
        .thin_svd()
        .map_err(|_| Error::Decomposition { residual: f64::INFINITY, allowed: 0.0 })?;
    let (values, vectors) = (decomposition.S(), decomposition.V());
    let count = a.rows().min(a.columns());
    let singular_values = (0..count).map(|mode| values[mode] * scale).collect();
    Ok((singular_values, Matrix::from_fn(count, a.columns(), |mode, j| vectors[(j, mode)])))
}

/// Room to find the largest eigenvalue of one small symmetric matrix after another.
///
/// Written by hand because a rule that tries a thousand kernels needs a thousand such numbers:
/// the library's smallest decomposition takes 10 µs at `n = 10` and allocates, this one takes a
/// tenth of that and does not.
pub(crate) struct LargestEigenvalue {
    /// `n × n`, row by row; destroyed by the reduction.
    work: Vec<f64>,
    reflector: Vec<f64>,
    image: Vec<f64>,
    diagonal: Vec<f64>,
    /// Squares of the entries beside the diagonal; their signs do not matter.
    squares: Vec<f64>,
}

impl LargestEigenvalue {
    /// Room for `n × n` matrices.
    pub(crate) fn new(n: usize) -> Self {
        let vector = || vec![0.0; n];
        Self {
            work: vec![0.0; n * n],
            reflector: vector(),
            image: vector(),
            diagonal: vector(),
            squares: vector(),
        }
    }

    /// The largest eigenvalue of a symmetric matrix, to within a few units in the last place of
    /// its Frobenius norm. `a` is `n × n`, row by row.
    pub(crate) fn of(&mut self, a: &[f64]) -> f64 {
        debug_assert_eq!(a.len(), self.work.len());
        let scale = a.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        if scale == 0.0 {
            return 0.0;
        }
        for (target, value) in self.work.iter_mut().zip(a) {
            *target = value / scale;
        }
        self.reduce();
        self.largest_root() * scale
    }

    /// Householder reflections, until the matrix is tridiagonal.
    fn reduce(&mut self) {
        let n = self.diagonal.len();
        for k in 0..n {
            let (head, tail) = self.work.split_at_mut((k + 1) * n);
            let row = &head[k * n..];
            self.diagonal[k] = row[k];
            let v = &mut self.reflector[..n - k - 1];
            v.copy_from_slice(&row[k + 1..]);
            let square = squared_norm(v);
            self.squares[k] = square;
            // The entries are at most 1: what is smaller than this changes no digit.
            if v.len() < 2 || squared_norm(&v[1..]) < f64::MIN_POSITIVE {
                continue;
            }
            let length = square.sqrt();
            let weight = 1.0 / (square + v[0].abs() * length);
            v[0] += length.copysign(v[0]);
            let w = &mut self.image[..n - k - 1];
            for (entry, row) in w.iter_mut().zip(tail.chunks_exact(n)) {
                *entry = weight * dot(&row[k + 1..], v);
            }
            let half = 0.5 * weight * dot(w, v);
            add_scaled(w, -half, v);
            for ((row, &vi), &wi) in tail.chunks_exact_mut(n).zip(&*v).zip(&*w) {
                for ((entry, vj), wj) in row[k + 1..].iter_mut().zip(&*v).zip(&*w) {
                    *entry -= vi * wj + wi * vj;
                }
            }
        }
    }

    /// Laguerre's method from above, on the tridiagonal matrix's characteristic polynomial.
    ///
    /// All roots are real, so it descends to the largest one without ever passing it: cubically
    /// if that root stands alone, by a share of at least `2/(1 + √n)` per round in a cluster.
    fn largest_root(&self) -> f64 {
        let n = self.diagonal.len() as f64;
        let norm =
            (squared_norm(&self.diagonal) + 2.0 * self.squares.iter().sum::<f64>()).sqrt();
        let mut x = norm;
        loop {
            let Some((first, second)) = self.reciprocal_sums(x) else { return x };
            // For a cluster the difference cancels; without its rounding error the step might
            // land inside.
            let rounding = 8.0 * n * f64::EPSILON * n * second;
            let spread = (n * second - first * first).max(0.0) + rounding;
            let step = n / (first + ((n - 1.0) * spread).sqrt());
            x -= step;
            // The root is at most first/second below where this round began.
            if step.min(first / second - step) <= f64::EPSILON * norm {
                return x;
            }
        }
    }

    /// `Σ 1/(x − λ_i)` and `Σ 1/(x − λ_i)²`, or nothing if `x` does not lie above all `λ_i`.
    ///
    /// They are the logarithmic derivatives of `det(xI − A)`, the product of the pivots
    /// `q_i = x − a_i − b_{i−1}²/q_{i−1}`, which are carried along with their own derivatives.
    fn reciprocal_sums(&self, x: f64) -> Option<(f64, f64)> {
        let (mut first, mut second) = (0.0, 0.0);
        // b²/q, q′/q and q″/q of the row before.
        let (mut carried, mut slope, mut bend) = (0.0, 0.0, 0.0);
        for (&diagonal, &square) in self.diagonal.iter().zip(&self.squares) {
            let pivot = x - diagonal - carried;
            if pivot.is_nan() || pivot <= 0.0 {
                return None;
            }
            let inverse = 1.0 / pivot;
            (slope, bend) = (
                (1.0 + carried * slope) * inverse,
                carried * (bend - 2.0 * slope * slope) * inverse,
            );
            first += slope;
            second += slope * slope - bend;
            carried = square * inverse;
        }
        Some((first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::{LargestEigenvalue, Matrix, gram};
    use crate::{Rng, Spectrum};

    /// The fast largest eigenvalue is the checked decomposition's, for kernels of every rank and
    /// magnitude.
    #[test]
    fn largest_eigenvalue_of_kernels() {
        let mut rng = Rng::new(5);
        for n in [1, 2, 3, 4, 7, 10, 25, 60] {
            let mut largest = LargestEigenvalue::new(n);
            for width in [1, 2, n, 3 * n] {
                for scale in [1e-12_f64, 1e-6, 1.0, 1e6, 1e12] {
                    // Column weights from level to steep.
                    let steepness = 3.0 * rng.uniform();
                    let features = Matrix::from_fn(n, width, |_, j| {
                        scale.sqrt() * (-steepness * j as f64).exp() * rng.normal()
                    });
                    check(&mut largest, &gram(&features));
                }
            }
        }
    }

    /// The same for repeated, clustered, diagonal and vanishing kernels.
    #[test]
    fn largest_eigenvalue_of_degenerate_kernels() {
        for n in [1, 2, 3, 10, 21, 40] {
            let mut largest = LargestEigenvalue::new(n);
            let mut both = |entry: &dyn Fn(usize, usize) -> f64| {
                for scale in [1e-12, 1.0, 1e12] {
                    check(&mut largest, &Matrix::from_fn(n, n, |i, j| scale * entry(i, j)));
                }
            };
            let on = |i, j, value| if i == j { value } else { 0.0 };
            both(&|_, _| 0.0);
            both(&|_, _| 1.0);
            both(&|i, j| on(i, j, 1.0));
            both(&|i, j| on(i, j, i as f64));
            both(&|i, j| on(i, j, if 2 * i < n { 1.0 } else { 0.5 }));
            both(&|i, j| on(i, j, 1.0 + 1e-9 * i as f64));
            both(&|i, j| on(i, j, 1.0) + 1e-14 * ((i + j) as f64));
            both(&|i, j| on(i, j, f64::from(u8::from(i == n - 1))));
            // Two equal blocks of ones: every eigenvalue at least twice for even n.
            both(&|i, j| f64::from(u8::from(i % 2 == j % 2)));
            // Wilkinson's matrix, shifted: its largest eigenvalues agree to fifteen digits.
            both(&|i, j| {
                let edge = (2.0 * i as f64 - (n - 1) as f64).abs() / 2.0 + 2.0;
                on(i, j, edge) + f64::from(u8::from(i.abs_diff(j) == 1))
            });
        }
    }

    /// The same workspace serves one matrix after another.
    #[test]
    fn largest_eigenvalue_keeps_nothing() {
        let mut largest = LargestEigenvalue::new(2);
        let first = largest.of(&[2.0, 1.0, 1.0, 2.0]);
        assert!(largest.of(&[0.0; 4]).abs() < f64::MIN_POSITIVE);
        assert_eq!(largest.of(&[2.0, 1.0, 1.0, 2.0]).to_bits(), first.to_bits());
        assert!((first - 3.0).abs() < 1e-14);
    }

    fn check(largest: &mut LargestEigenvalue, kernel: &Matrix) {
        let expected = Spectrum::of(kernel).expect("a kernel").largest();
        let found = largest.of(kernel.values());
        let allowed = 8.0 * kernel.rows() as f64 * f64::EPSILON * expected;
        assert!(
            (found - expected).abs() <= allowed,
            "{found:e} against {expected:e}, n = {}",
            kernel.rows()
        );
    }
}

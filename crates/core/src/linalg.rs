//! The only file that knows the linear-algebra library.
//!
//! Takes and returns [`Matrix`] and plain vectors. Callers have checked sizes; what is left
//! here are the factorisations and the few loops that must be fast.

use crate::error::Error;
use crate::matrix::Matrix;
use faer::{Mat, MatRef, Par, Side};

/// Inner product.
///
/// Four running sums: the compiler may then use vector registers, which a single sum forbids.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Squared Euclidean length.
pub(crate) fn squared_norm(a: &[f64]) -> f64 {
    dot(a, a)
}

/// `target += weight · source`.
pub(crate) fn add_scaled(target: &mut [f64], weight: f64, source: &[f64]) {
    debug_assert_eq!(target.len(), source.len());
    for (t, s) in target.iter_mut().zip(source) {
        *t += weight * s;
    }
}

fn view(a: &Matrix) -> MatRef<'_, f64> {
    MatRef::from_row_major_slice(a.values(), a.rows(), a.columns())
}

fn to_matrix(a: MatRef<'_, f64>) -> Matrix {
    Matrix::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)])
}

/// `a b`.
pub(crate) fn product(a: &Matrix, b: &Matrix) -> Matrix {
    multiply(view(a), view(b))
}

/// `a bᵀ`.
pub(crate) fn product_transposed(a: &Matrix, b: &Matrix) -> Matrix {
    multiply(view(a), view(b).transpose())
}

fn multiply(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Matrix {
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    faer::linalg::matmul::matmul(product.as_mut(), faer::Accum::Replace, a, b, 1.0, Par::Seq);
    to_matrix(product.as_ref())
}

/// `a aᵀ`, exactly symmetric.
pub(crate) fn gram(a: &Matrix) -> Matrix {
    let product = product_transposed(a, a);
    Matrix::from_fn(a.rows(), a.rows(), |i, j| product[(i.max(j), i.min(j))])
}

/// Eigenvalues of a symmetric matrix, descending, and its eigenvectors as *rows*.
///
/// Only the lower triangle is read. The matrix is scaled to entries of at most 1 first, so that
/// kernels of any magnitude are decomposed alike. The result is not checked here.
pub(crate) fn eigen(a: &Matrix) -> Result<(Vec<f64>, Matrix), Error> {
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

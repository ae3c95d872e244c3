//! A plain table of numbers, row by row, that kernels and features come in.
//!
//! It holds numbers and checks shapes; everything that computes with it lives elsewhere, so
//! no linear-algebra library appears in this crate's signatures.

use crate::checks::{check_finite, check_size};
use crate::error::Error;
use std::ops::Index;

/// A dense matrix of finite numbers, stored row by row.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix};
///
/// let features = Matrix::new(2, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(features[(1, 0)], 4.0);
/// assert_eq!(features.multiply(&[1.0, 0.0, 0.0])?, vec![1.0, 4.0]);
/// assert_eq!(features.multiply_transposed(&[1.0, 1.0])?, vec![5.0, 7.0, 9.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// A matrix from its entries, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless there are `rows · columns` entries, and
    /// [`Error::NotFinite`] if one of them is NaN or infinite.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Matrix};
    ///
    /// let refused = Matrix::new(2, 2, vec![1.0]);
    /// assert_eq!(
    ///     refused,
    ///     Err(Error::SizeMismatch { quantity: "matrix", found: 1, expected: 4 })
    /// );
    /// ```
    pub fn new(rows: usize, columns: usize, values: Vec<f64>) -> Result<Self, Error> {
        check_size("matrix", values.len(), rows.saturating_mul(columns))?;
        check_finite("matrix", &values)?;
        Ok(Self { rows, columns, values })
    }

    /// A matrix from its rows.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] if a row is longer or shorter than the first, and
    /// [`Error::NotFinite`] for NaN or infinite entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Matrix};
    ///
    /// let matrix = Matrix::from_rows(&[vec![1.0, 2.0], vec![3.0, 4.0]])?;
    /// assert_eq!(matrix.row(1), [3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self, Error> {
        let columns = rows.first().map_or(0, Vec::len);
        for row in rows {
            check_size("matrix row", row.len(), columns)?;
        }
        Self::new(rows.len(), columns, rows.concat())
    }

    /// A matrix whose entries are all 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::zeros(1, 2).values(), [0.0, 0.0]);
    /// ```
    #[must_use]
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, values: vec![0.0; rows * columns] }
    }

    /// The identity.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::identity(2).values(), [1.0, 0.0, 0.0, 1.0]);
    /// ```
    #[must_use]
    pub fn identity(size: usize) -> Self {
        let mut identity = Self::zeros(size, size);
        for i in 0..size {
            identity.values[i * size + i] = 1.0;
        }
        identity
    }

    /// A matrix from a rule for its entries, which are not checked: the caller vouches that they
    /// are finite.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Matrix;
    ///
    /// let table = Matrix::from_fn(2, 2, |row, column| (2 * row + column) as f64);
    /// assert_eq!(table.values(), [0.0, 1.0, 2.0, 3.0]);
    /// ```
    pub fn from_fn(
        rows: usize,
        columns: usize,
        mut entry: impl FnMut(usize, usize) -> f64,
    ) -> Self {
        let mut values = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            values.extend((0..columns).map(|column| entry(row, column)));
        }
        Self { rows, columns, values }
    }

    /// Number of rows.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::zeros(2, 3).rows(), 2);
    /// ```
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::zeros(2, 3).columns(), 3);
    /// ```
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All entries, row by row.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::identity(1).values(), [1.0]);
    /// ```
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::identity(2).row(1), [0.0, 1.0]);
    /// ```
    #[must_use]
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// The rows, first to last, as vectors of their own.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Matrix::identity(2).to_rows(), [[1.0, 0.0], [0.0, 1.0]]);
    /// ```
    #[must_use]
    pub fn to_rows(&self) -> Vec<Vec<f64>> {
        (0..self.rows).map(|row| self.row(row).to_vec()).collect()
    }

    /// The matrix times a vector.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless the vector has one entry per column.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Matrix};
    /// let matrix = Matrix::from_rows(&[vec![1.0, 2.0], vec![3.0, 4.0]])?;
    /// assert_eq!(matrix.multiply(&[1.0, 1.0])?, [3.0, 7.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn multiply(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_size("vector", vector.len(), self.columns)?;
        Ok((0..self.rows).map(|row| crate::vectors::dot(self.row(row), vector)).collect())
    }

    /// The transpose times a vector.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless the vector has one entry per row.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Matrix};
    /// let matrix = Matrix::from_rows(&[vec![1.0, 2.0], vec![3.0, 4.0]])?;
    /// assert_eq!(matrix.multiply_transposed(&[1.0, 1.0])?, [4.0, 6.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn multiply_transposed(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_size("vector", vector.len(), self.rows)?;
        let mut product = vec![0.0; self.columns];
        for (row, &weight) in vector.iter().enumerate() {
            crate::vectors::add_scaled(&mut product, weight, self.row(row));
        }
        Ok(product)
    }

    /// Adds `weight` times another matrix of the same shape.
    ///
    /// # Panics
    ///
    /// In debug builds, if the shapes hold different numbers of entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Matrix;
    ///
    /// let mut sum = Matrix::identity(2);
    /// sum.add_scaled(0.5, &Matrix::identity(2));
    /// assert_eq!(sum, Matrix::from_fn(2, 2, |i, j| if i == j { 1.5 } else { 0.0 }));
    /// ```
    pub fn add_scaled(&mut self, weight: f64, other: &Self) {
        crate::vectors::add_scaled(&mut self.values, weight, &other.values);
    }
}

impl Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.row(row)[column]
    }
}

/// What can be read as a matrix: a [`Matrix`], or its rows.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, IntoMatrix, Matrix};
///
/// assert_eq!([vec![1.0, 0.0], vec![0.0, 1.0]].as_slice().into_matrix()?, Matrix::identity(2));
/// # Ok::<(), Error>(())
/// ```
pub trait IntoMatrix {
    /// The matrix, checked.
    ///
    /// # Errors
    ///
    /// As [`Matrix::from_rows`].
    fn into_matrix(self) -> Result<Matrix, Error>;
}

impl IntoMatrix for Matrix {
    fn into_matrix(self) -> Result<Matrix, Error> {
        Ok(self)
    }
}

impl IntoMatrix for &Matrix {
    fn into_matrix(self) -> Result<Matrix, Error> {
        Ok(self.clone())
    }
}

impl IntoMatrix for &[Vec<f64>] {
    fn into_matrix(self) -> Result<Matrix, Error> {
        Matrix::from_rows(self)
    }
}

impl IntoMatrix for &Vec<Vec<f64>> {
    fn into_matrix(self) -> Result<Matrix, Error> {
        Matrix::from_rows(self)
    }
}

impl<const ROWS: usize> IntoMatrix for &[Vec<f64>; ROWS] {
    fn into_matrix(self) -> Result<Matrix, Error> {
        Matrix::from_rows(self)
    }
}

//! Kernels that are never written down: what can multiply a vector over the examples.

use fewstep_core::checks::{check_finite, check_not_negative, check_size};
use fewstep_core::linear_algebra::{add_scaled, dot, symmetric};
use fewstep_core::{Error, IntoMatrix, Matrix};

/// A symmetric positive semidefinite map on prompt space, known by its products alone.
///
/// ```text
/// v ↦ Kv                                                                            (App. H)
/// ```
///
/// A model implements it by one backward and one forward product with its Jacobian; the
/// functions of this module call nothing else. They refuse a product that is not finite, and
/// one that shows the map to be indefinite, but cannot see every asymmetry.
///
/// # Examples
///
/// ```
/// use fewstep_theory::matfree::LinearOperator;
///
/// struct Doubling;
///
/// impl LinearOperator for Doubling {
///     fn size(&self) -> usize {
///         2
///     }
///
///     fn apply(&self, vector: &[f64], result: &mut [f64]) {
///         for (r, v) in result.iter_mut().zip(vector) {
///             *r = 2.0 * v;
///         }
///     }
/// }
///
/// let mut result = [0.0; 2];
/// Doubling.apply(&[1.0, 3.0], &mut result);
/// assert_eq!(result, [2.0, 6.0]);
/// ```
pub trait LinearOperator {
    /// Number of prompt examples, `n`.
    fn size(&self) -> usize;

    /// Writes `K · vector` over `result`; both have [`size`](Self::size) entries.
    fn apply(&self, vector: &[f64], result: &mut [f64]);
}

impl<O: LinearOperator + ?Sized> LinearOperator for &O {
    fn size(&self) -> usize {
        (**self).size()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        (**self).apply(vector, result);
    }
}

impl<O: LinearOperator + ?Sized> LinearOperator for Box<O> {
    fn size(&self) -> usize {
        (**self).size()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        (**self).apply(vector, result);
    }
}

/// The size of an operator on at least one example.
pub(super) fn check_operator(operator: &impl LinearOperator) -> Result<usize, Error> {
    match operator.size() {
        0 => Err(Error::Empty { quantity: "operator" }),
        n => Ok(n),
    }
}

/// `result = K · vector`, refused unless it is finite.
pub(super) fn product(
    operator: &impl LinearOperator,
    vector: &[f64],
    result: &mut [f64],
) -> Result<(), Error> {
    operator.apply(vector, result);
    check_finite("operator product", result)
}

/// A kernel that is written down after all.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{DenseKernel, LinearOperator}};
///
/// let kernel = DenseKernel::new(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
/// let mut result = [0.0; 2];
/// kernel.apply(&[1.0, 1.0], &mut result);
/// assert_eq!(result, [3.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DenseKernel(Matrix);

impl DenseKernel {
    /// An operator from a kernel: a [`Matrix`] or its rows.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::SizeMismatch`] or [`Error::NotFinite`] unless it is a square
    /// matrix of finite numbers, and [`Error::NotSymmetric`] if opposite entries differ by more than
    /// the rounding of a kernel that was summed in single precision.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, matfree::DenseKernel};
    ///
    /// let refused = DenseKernel::new(&[vec![1.0, 2.0], vec![0.0, 1.0]]);
    /// assert!(matches!(refused, Err(Error::NotSymmetric { row: 0, column: 1, .. })));
    /// ```
    pub fn new(kernel: impl IntoMatrix) -> Result<Self, Error> {
        Ok(Self(symmetric(&kernel.into_matrix()?)?))
    }
}

impl LinearOperator for DenseKernel {
    fn size(&self) -> usize {
        self.0.rows()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        assert_eq!(vector.len(), self.size(), "one entry per example");
        for (row, entry) in result.iter_mut().enumerate() {
            *entry = dot(self.0.row(row), vector);
        }
    }
}

/// A kernel that is kept as the features it comes from.
///
/// ```text
/// Kv = Φ (Φᵀ v)                                                                     (App. H)
/// ```
///
/// With `d` features a product costs `4nd` operations and the memory is that of `Φ`.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{FactorKernel, LinearOperator}};
///
/// // One feature per example: K = (1, 2)(1, 2)ᵀ.
/// let kernel = FactorKernel::new(&[vec![1.0], vec![2.0]])?;
/// let mut result = [0.0; 2];
/// kernel.apply(&[1.0, 1.0], &mut result);
/// assert_eq!(result, [3.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FactorKernel {
    features: Matrix,
}

impl FactorKernel {
    /// An operator from Jacobian features, one row per example.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples, [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// rows that do not form a matrix.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Matrix};
    /// use fewstep_theory::matfree::FactorKernel;
    ///
    /// let refused = FactorKernel::new(Matrix::zeros(0, 3));
    /// assert_eq!(refused, Err(Error::Empty { quantity: "features" }));
    /// ```
    pub fn new(features: impl IntoMatrix) -> Result<Self, Error> {
        let features = features.into_matrix()?;
        if features.rows() == 0 {
            return Err(Error::Empty { quantity: "features" });
        }
        Ok(Self { features })
    }
}

impl LinearOperator for FactorKernel {
    fn size(&self) -> usize {
        self.features.rows()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        assert_eq!(vector.len(), self.size(), "one entry per example");
        let mut update = vec![0.0; self.features.columns()];
        for (row, &weight) in vector.iter().enumerate() {
            add_scaled(&mut update, weight, self.features.row(row));
        }
        for (row, entry) in result.iter_mut().enumerate() {
            *entry = dot(self.features.row(row), &update);
        }
    }
}

/// The sum of the kernels of several blocks.
///
/// ```text
/// K = Σ_b K^(b)                                                                      (Sec. 3)
/// ```
///
/// The parts are operators of one type; for a mixture of types, box them.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{BlockSum, DenseKernel, FactorKernel, LinearOperator}};
///
/// let parts: Vec<Box<dyn LinearOperator>> = vec![
///     Box::new(DenseKernel::new(&[vec![1.0]])?),
///     Box::new(FactorKernel::new(&[vec![2.0]])?),
/// ];
/// let mut result = [0.0];
/// BlockSum::new(parts)?.apply(&[1.0], &mut result);
/// assert_eq!(result, [5.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSum<O> {
    parts: Vec<O>,
}

impl<O: LinearOperator> BlockSum<O> {
    /// The sum of at least one operator.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for no operator, [`Error::SizeMismatch`] if their sizes differ.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, matfree::{BlockSum, DenseKernel}};
    ///
    /// let none: Vec<DenseKernel> = vec![];
    /// assert_eq!(BlockSum::new(none), Err(Error::Empty { quantity: "blocks" }));
    /// ```
    pub fn new(parts: Vec<O>) -> Result<Self, Error> {
        let Some(first) = parts.first() else {
            return Err(Error::Empty { quantity: "blocks" });
        };
        for part in &parts {
            check_size("block", part.size(), first.size())?;
        }
        Ok(Self { parts })
    }
}

impl<O: LinearOperator> LinearOperator for BlockSum<O> {
    fn size(&self) -> usize {
        self.parts[0].size()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        let mut part_result = vec![0.0; result.len()];
        result.fill(0.0);
        for part in &self.parts {
            part.apply(vector, &mut part_result);
            add_scaled(result, 1.0, &part_result);
        }
    }
}

/// A kernel plus the same number on every diagonal entry.
///
/// ```text
/// K + σ²I                                                                            (Sec. 8)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{DenseKernel, LinearOperator, Shifted}};
///
/// let noisy = Shifted::new(DenseKernel::new(&[vec![3.0]])?, 0.5)?;
/// let mut result = [0.0];
/// noisy.apply(&[2.0], &mut result);
/// assert_eq!(result, [7.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Shifted<O> {
    operator: O,
    shift: f64,
}

impl<O: LinearOperator> Shifted<O> {
    /// An operator and what is added to its diagonal.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the shift is finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, matfree::{DenseKernel, Shifted}};
    ///
    /// assert!(Shifted::new(DenseKernel::new(&[vec![3.0]])?, -0.5).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(operator: O, shift: f64) -> Result<Self, Error> {
        check_not_negative("shift", shift)?;
        Ok(Self { operator, shift })
    }
}

impl<O: LinearOperator> LinearOperator for Shifted<O> {
    fn size(&self) -> usize {
        self.operator.size()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        self.operator.apply(vector, result);
        add_scaled(result, self.shift, vector);
    }
}

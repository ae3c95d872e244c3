//! What is observed of a query: its label scores, and how each block couples it to the examples.
//!
//! In: label scores and derivatives at the query. Out: a [`ClassQuery`], which
//! [`ClassDecision::predict`](crate::ClassDecision::predict) answers.

use super::geometry::{ClassBase, ClassGeometry};
use super::kernel::{ClassBlock, ClassKernel, centred};
use crate::checks::{check_finite, check_size, check_vector};
use crate::error::Error;
use crate::matrix::Matrix;

/// How a block couples the label scores of a query to those of the examples, in the form of the
/// block's [`ClassKernel`].
///
/// ```text
/// k_x[c,(j,d)] = φ_c(x) · φ_jd
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::ClassCoupling;
///
/// assert_eq!(ClassCoupling::bias(2), ClassCoupling::Shared(vec![1.0, 1.0]));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ClassCoupling {
    /// The coupling itself, `C × (n·C)`.
    Dense(Matrix),
    /// `g` with `k_x[c,(j,d)] = g_j δ_cd`, one entry per example.
    Shared(Vec<f64>),
    /// `F(x)`, `C × p`: the derivatives at the query, one row per label.
    Features(Matrix),
}

impl ClassCoupling {
    /// That of [`ClassBlock::bias`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::ClassCoupling;
    /// assert_eq!(ClassCoupling::bias(1), ClassCoupling::Shared(vec![1.0]));
    /// ```
    #[must_use]
    pub fn bias(examples: usize) -> Self {
        Self::Shared(vec![1.0; examples])
    }

    /// That of [`ClassBlock::scale`], from the label scores of the query.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassCoupling, Error, Matrix};
    /// let coupling = ClassCoupling::scale(&[5.0, 7.0]);
    /// assert_eq!(coupling, ClassCoupling::Features(Matrix::new(2, 1, vec![-1.0, 1.0])?));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn scale(scores: &[f64]) -> Self {
        let centred = centred(scores);
        Self::Features(Matrix::from_fn(centred.len(), 1, |label, _| centred[label]))
    }

    /// What its form is called in messages.
    fn form(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense",
            Self::Shared(_) => "shared",
            Self::Features(_) => "features",
        }
    }

    /// Refuses a coupling that does not belong to a block of a geometry.
    fn check(&self, block: &ClassBlock, geometry: &ClassGeometry) -> Result<(), Error> {
        let (n, classes) = (geometry.examples(), geometry.classes());
        let quantity = "coupling of a class block";
        let shape = |matrix: &Matrix, columns: usize| {
            check_size("rows of the coupling of a class block", matrix.rows(), classes)?;
            check_size(quantity, matrix.columns(), columns)?;
            check_finite(quantity, matrix.values())
        };
        match (self, block.kernel()) {
            (Self::Dense(coupling), ClassKernel::Dense(_)) => shape(coupling, n * classes),
            (Self::Shared(coupling), ClassKernel::Shared(_)) => {
                check_vector(quantity, coupling, n)
            }
            (Self::Features(features), ClassKernel::Features(kernel)) => {
                shape(features, kernel.columns())
            }
            (_, kernel) => Err(Error::UnknownName {
                quantity: "form of a coupling",
                found: self.form().to_owned(),
                allowed: kernel.form(),
            }),
        }
    }
}

/// What one base prompt says about a query.
///
/// # Examples
///
/// ```
/// use fewstep_core::{ClassCoupling, QueryBase};
///
/// let base = QueryBase { scores: vec![-0.1, -2.3], couplings: vec![ClassCoupling::bias(2)] };
/// assert_eq!(base.couplings.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QueryBase {
    /// `z₀(x)`: the log-scores of the labels behind the examples (few-shot) or behind none, up to a
    /// shift.
    pub scores: Vec<f64>,
    /// One coupling per block of that base, in their order.
    pub couplings: Vec<ClassCoupling>,
}

impl QueryBase {
    fn check(&self, base: &ClassBase, geometry: &ClassGeometry) -> Result<(), Error> {
        check_vector("label scores of the query", &self.scores, geometry.classes())?;
        check_size("list of couplings", self.couplings.len(), base.blocks().len())?;
        let mut pairs = self.couplings.iter().zip(base.blocks());
        pairs.try_for_each(|(coupling, block)| coupling.check(block, geometry))
    }
}

/// A query, as the base prompts of a [`ClassGeometry`] see it.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Base, ClassBase, ClassGeometry, ClassQuery, Error, Matrix, QueryBase};
///
/// let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 2), vec![])?;
/// let geometry = ClassGeometry::new(2, vec![0, 1], vec![base])?;
/// let seen = QueryBase { scores: vec![-0.1, -2.3], couplings: vec![] };
/// assert!(ClassQuery { bases: vec![seen] }.check(&geometry).is_ok());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassQuery {
    /// One entry per base prompt of the geometry, in their order.
    pub bases: Vec<QueryBase>,
}

impl ClassQuery {
    /// Refuses a query that does not fit a geometry.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] for other bases, blocks, examples or labels, [`Error::NotFinite`] for
    /// NaN or infinite entries, and [`Error::UnknownName`] for a coupling in another form than its
    /// block's kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Base, ClassBase, ClassGeometry, ClassQuery, Error, Matrix};
    /// let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 2), vec![])?;
    /// let geometry = ClassGeometry::new(2, vec![0, 1], vec![base])?;
    /// assert!(ClassQuery { bases: vec![] }.check(&geometry).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check(&self, geometry: &ClassGeometry) -> Result<(), Error> {
        check_size("list of bases of the query", self.bases.len(), geometry.bases().len())?;
        let mut pairs = self.bases.iter().zip(geometry.bases());
        pairs.try_for_each(|(seen, base)| seen.check(base, geometry))
    }
}

//! What the examples' label scores look like to an update: one kernel per block, kept in the form
//! that is smallest.
//!
//! In: derivatives of the label scores, as a caller has them. Out: [`ClassBlock`]s. Output `c` of
//! example `i` is number `i·C + c` everywhere. Nothing here multiplies large matrices.

use crate::checks::{check_finite, check_size};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::spectrum::symmetric;

/// How a block couples the label scores of the examples, in one of three forms.
///
/// ```text
/// K[(i,c),(j,d)] = φ_ic · φ_jd      n examples, C labels; output (i,c) is number i·C + c
/// ```
///
/// A form is chosen for its size alone: all of them answer alike.
///
/// | form | holds | entries | for instance |
/// |---|---|---|---|
/// | `Dense` | the kernel itself | `(n·C)²` | the matrices of a layer |
/// | `Shared` | `G` with `K[(i,c),(j,d)] = G_ij δ_cd` | `n²` | a bias per label; the rows of an unembedding |
/// | `Features` | `F` with `K = F Fᵀ` | `n·C·p` | a temperature (`p = 1`); few directions |
///
/// # Examples
///
/// ```
/// use fewstep_core::{ClassKernel, Matrix};
///
/// // Two examples with three labels each: one entry per pair of examples.
/// assert_eq!(ClassKernel::Shared(Matrix::identity(2)).entries(), 4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ClassKernel {
    /// The kernel itself, `(n·C) × (n·C)`.
    Dense(Matrix),
    /// `G`, `n × n`: every label has parameters of its own, with the same inputs.
    Shared(Matrix),
    /// `F`, `(n·C) × p`: the derivatives themselves, one row per output.
    Features(Matrix),
}

impl ClassKernel {
    /// The number of entries that are kept.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{ClassKernel, Matrix};
    ///
    /// assert_eq!(ClassKernel::Features(Matrix::zeros(6, 2)).entries(), 12);
    /// ```
    #[must_use]
    pub fn entries(&self) -> usize {
        let (Self::Dense(matrix) | Self::Shared(matrix) | Self::Features(matrix)) = self;
        matrix.values().len()
    }

    /// What its form is called in messages.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Self::Dense(_) => "dense",
            Self::Shared(_) => "shared",
            Self::Features(_) => "features",
        }
    }

    /// Refuses what no kernel can be, and averages the two triangles of a symmetric matrix.
    fn checked(self) -> Result<Self, Error> {
        match self {
            Self::Dense(kernel) => Ok(Self::Dense(symmetric(&finite(kernel)?)?)),
            Self::Shared(kernel) => Ok(Self::Shared(symmetric(&finite(kernel)?)?)),
            Self::Features(features) if features.values().is_empty() => {
                Err(Error::Empty { quantity: "features of a class block" })
            }
            Self::Features(features) => Ok(Self::Features(finite(features)?)),
        }
    }

    /// Refuses a kernel of other examples or labels.
    fn check(&self, examples: usize, classes: usize) -> Result<(), Error> {
        let outputs = examples * classes;
        let (found, expected) = match self {
            Self::Dense(kernel) => (kernel.rows(), outputs),
            Self::Shared(kernel) => (kernel.rows(), examples),
            Self::Features(features) => (features.rows(), outputs),
        };
        check_size("kernel of a class block", found, expected)
    }
}

/// A matrix may have been made without a check of its entries.
fn finite(matrix: Matrix) -> Result<Matrix, Error> {
    check_finite("kernel of a class block", matrix.values())?;
    Ok(matrix)
}

/// A group of parameters that may be updated, as the label scores of the examples see it.
///
/// # Examples
///
/// ```
/// use fewstep_core::{ClassBlock, ClassKernel, Error, Matrix};
///
/// let block = ClassBlock::new("mlp-up.5", ClassKernel::Dense(Matrix::identity(6)))?.in_layer(5);
/// assert_eq!((block.name(), block.layer(), block.id()), ("mlp-up.5", Some(5), None));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassBlock {
    name: String,
    id: Option<u64>,
    layer: Option<usize>,
    kernel: ClassKernel,
}

impl ClassBlock {
    /// A block from its kernel.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::SizeMismatch`], [`Error::NotFinite`] or [`Error::NotSymmetric`]
    /// unless the matrix is what its form says. Definiteness is checked where a step size is found.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{ClassBlock, ClassKernel, Matrix};
    ///
    /// let wide = ClassKernel::Shared(Matrix::zeros(2, 3));
    /// assert!(ClassBlock::new("readout", wide).is_err());
    /// ```
    pub fn new(name: impl Into<String>, kernel: ClassKernel) -> Result<Self, Error> {
        Ok(Self { name: name.into(), id: None, layer: None, kernel: kernel.checked()? })
    }

    /// A bias per label, which calibrates: every example asks for the same correction.
    ///
    /// ```text
    /// z_c(x) = z₀_c(x) + b_c,      G_ij = 1
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{ClassBlock, ClassKernel, Error, Matrix};
    ///
    /// let bias = ClassBlock::bias(2)?;
    /// assert_eq!(bias.name(), "bias");
    /// assert_eq!(bias.kernel(), &ClassKernel::Shared(Matrix::from_fn(2, 2, |_, _| 1.0)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bias(examples: usize) -> Result<Self, Error> {
        Self::new("bias", ClassKernel::Shared(Matrix::from_fn(examples, examples, |_, _| 1.0)))
    }

    /// A factor on all label scores, the inverse of a temperature.
    ///
    /// ```text
    /// z_c(x) = (1 + s) z₀_c(x),      F_ic = z₀_ic − mean_d z₀_id
    /// ```
    ///
    /// Log-scores matter up to a shift per example only, so the features are centred per example.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without scores, [`Error::NotFinite`] for NaN or infinite ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{ClassBlock, ClassKernel, Error, Matrix};
    ///
    /// let scale = ClassBlock::scale(&Matrix::new(1, 2, vec![5.0, 7.0])?)?;
    /// assert_eq!(scale.kernel(), &ClassKernel::Features(Matrix::new(2, 1, vec![-1.0, 1.0])?));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn scale(scores: &Matrix) -> Result<Self, Error> {
        let centred: Vec<f64> =
            (0..scores.rows()).flat_map(|i| centred(scores.row(i))).collect();
        let outputs = centred.len();
        Self::new("scale", ClassKernel::Features(Matrix::new(outputs, 1, centred)?))
    }

    /// The same block in a layer, by which the depth of an arm counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(2)?.in_layer(3).layer(), Some(3));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn in_layer(mut self, layer: usize) -> Self {
        self.layer = Some(layer);
        self
    }

    /// The same block with a number of the caller's own.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(2)?.with_id(7).id(), Some(7));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// Its name.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(2)?.name(), "bias");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The caller's own number for it, if it has one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(2)?.id(), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The layer it belongs to, if it belongs to one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(2)?.layer(), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn layer(&self) -> Option<usize> {
        self.layer
    }

    /// How it couples the examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{ClassBlock, Error};
    /// assert_eq!(ClassBlock::bias(3)?.kernel().entries(), 9);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn kernel(&self) -> &ClassKernel {
        &self.kernel
    }

    /// Refuses a block of other examples or labels.
    pub(super) fn check(&self, examples: usize, classes: usize) -> Result<(), Error> {
        self.kernel.check(examples, classes)
    }
}

/// The scores of one prediction less their mean: scores are taken up to a shift.
pub(super) fn centred(scores: &[f64]) -> Vec<f64> {
    // Differences first, so that large scores lose no digits, and no sum of them overflows.
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let below: Vec<f64> = scores.iter().map(|score| (score - largest).max(-1e300)).collect();
    let mean = below.iter().sum::<f64>() / scores.len() as f64;
    below.into_iter().map(|score| score - mean).collect()
}

//! The best update directions when any direction may be chosen: the exact theory behind
//! [`subspace`](fewstep_core::subspace).
//!
//! Answers "which directions" (Sec. 8, App. E) in the space of the weights. In: a prompt's
//! Jacobian with a prior over the weights' correction, [`LinearGaussian`], and what queries
//! care about, [`QueryMetric`]. Out: [`QueryInformation`], what the prompt tells about the
//! queries, whose top eigenspace is the best [`Subspace`]; averaged over prompts by
//! [`GlobalInformation`], with the price of having averaged over finitely many, [`PlugIn`].
//! No matrix with one row and one column per weight is formed unless it is asked for.

mod global;
mod metric;

pub use global::{GlobalInformation, PlugIn};
pub use metric::{QueryInformation, QueryMetric, Subspace};

use fewstep_core::checks::{
    check_finite, check_not_negative, check_positive, check_size, check_vector,
};
use fewstep_core::linear_algebra::{self, add_scaled, dot};
use fewstep_core::{Error, IntoMatrix, Matrix, Spectrum};

/// `Σ`: how far each weight's correction is expected to differ from task to task.
///
/// A variance of 0 freezes a weight.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
///
/// // The second weight is frozen, so the first takes all of the residual: 4/(4 + 1) of it.
/// let model = LinearGaussian::new(&[vec![1.0, 1.0]], Prior::Diagonal(vec![4.0, 0.0]), 1.0)?;
/// let mean = model.posterior_mean(&[5.0])?;
/// assert!((mean[0] - 4.0).abs() < 1e-14 && mean[1].abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Prior {
    /// The same variance for every weight, `τ² I`.
    Isotropic(f64),
    /// One variance per weight.
    Diagonal(Vec<f64>),
    /// A full covariance.
    Full(Matrix),
}

impl Prior {
    /// Checks the covariance and averages the triangles of a full one.
    fn checked(self, parameters: usize) -> Result<Self, Error> {
        match self {
            Self::Isotropic(variance) => {
                check_positive("prior variance", variance)?;
                Ok(self)
            }
            Self::Diagonal(ref variances) => {
                check_size("prior variances", variances.len(), parameters)?;
                for &variance in variances {
                    check_not_negative("prior variance", variance)?;
                }
                Ok(self)
            }
            Self::Full(covariance) => {
                check_size("prior covariance", covariance.rows(), parameters)?;
                Spectrum::of(&covariance)?;
                Ok(Self::Full(Matrix::from_fn(parameters, parameters, |i, j| {
                    0.5 * covariance[(i, j)] + 0.5 * covariance[(j, i)]
                })))
            }
        }
    }

    /// `AΣ`, for a matrix with one column per weight.
    fn multiply(&self, a: &Matrix) -> Matrix {
        let scaled = |variance: &dyn Fn(usize) -> f64| {
            Matrix::from_fn(a.rows(), a.columns(), |i, j| variance(j) * a[(i, j)])
        };
        match self {
            Self::Isotropic(variance) => scaled(&|_| *variance),
            Self::Diagonal(variances) => scaled(&|j| variances[j]),
            Self::Full(covariance) => linear_algebra::product(a, covariance),
        }
    }
}

/// A prompt seen from the weights: a Gaussian correction of the weights, observed through the
/// prompt's Jacobian with noise.
///
/// ```text
/// r = J u★ + ε,   u★ ~ N(0, Σ),   ε ~ N(0, σ²I)                               (Assump. 8.1)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
///
/// // One example that sees the first of two weights: half of what it says is noise.
/// let model = LinearGaussian::new(&[vec![1.0, 0.0]], Prior::Isotropic(1.0), 1.0)?;
/// let mean = model.posterior_mean(&[3.0])?;
/// assert!((mean[0] - 1.5).abs() < 1e-14 && mean[1].abs() < 1e-14);
/// let covariance = model.posterior_covariance(&[1.0, 1.0])?;
/// assert!((covariance[0] - 0.5).abs() < 1e-14 && (covariance[1] - 1.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinearGaussian {
    prior: Prior,
    /// The modes of the prompt's kernel, `JΣJᵀ`.
    spectrum: Spectrum,
    /// `1/√(λ_i + σ²)` on the representable range of `JΣJᵀ`, and 0 outside, where `ΣJᵀ` vanishes.
    roots: Vec<f64>,
    /// `G = (JΣJᵀ + σ²I)^(−1/2) JΣ` in the modes of `JΣJᵀ`, so that `ℐ = GᵀG`.
    gains: Matrix,
}

impl LinearGaussian {
    /// A model from the prompt's Jacobian `J` (one row per example, one column per weight), the
    /// prior `Σ` and the noise variance `σ²`.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples or weights, [`Error::OutOfRange`] for negative or infinite
    /// variances and a noise variance of 0, [`Error::SizeMismatch`], [`Error::NotSymmetric`] or
    /// [`Error::NotPositiveSemidefinite`] for a prior that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    ///
    /// let refused = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 0.0);
    /// assert!(matches!(refused, Err(Error::OutOfRange { quantity: "noise variance", .. })));
    /// ```
    pub fn new(
        jacobian: impl IntoMatrix,
        prior: Prior,
        noise_variance: f64,
    ) -> Result<Self, Error> {
        let jacobian = jacobian.into_matrix()?;
        if jacobian.values().is_empty() {
            return Err(Error::Empty { quantity: "prompt Jacobian" });
        }
        check_positive("noise variance", noise_variance)?;
        let prior = prior.checked(jacobian.columns())?;
        let spread = prior.multiply(&jacobian);
        let kernel = linear_algebra::product_transposed(&spread, &jacobian);
        check_finite("prompt kernel", kernel.values())?;
        let spectrum = Spectrum::of(kernel)?;
        let n = spectrum.examples();
        let mut roots = vec![0.0; n];
        for (root, eigenvalue) in
            roots.iter_mut().zip(&spectrum.eigenvalues()[..spectrum.rank()])
        {
            *root = 1.0 / (eigenvalue + noise_variance).sqrt();
        }
        let weights = Matrix::from_fn(n, n, |mode, i| roots[mode] * spectrum.mode(mode)[i]);
        let gains = linear_algebra::product(&weights, &spread);
        Ok(Self { prior, spectrum, roots, gains })
    }

    /// Number of weights, `p`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    /// let model = LinearGaussian::new(&[vec![1.0, 0.0]], Prior::Isotropic(1.0), 1.0)?;
    /// assert_eq!(model.parameters(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.gains.columns()
    }

    /// What the residuals say about the weights' correction: its posterior mean.
    ///
    /// ```text
    /// ū = ΣJᵀ (JΣJᵀ + σ²I)⁻¹ r                                                   (Lem. E.21)
    /// ```
    ///
    /// Restricted to a subspace, the best estimate is this one's orthogonal projection
    /// (Lem. E.22).
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    /// let model = LinearGaussian::new(&[vec![2.0]], Prior::Isotropic(1.0), 4.0)?;
    /// assert!((model.posterior_mean(&[2.0])?[0] - 0.5).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn posterior_mean(&self, residuals: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("residuals", residuals, self.spectrum.examples())?;
        let mut amounts = self.spectrum.rotate(residuals)?;
        for (amount, root) in amounts.iter_mut().zip(&self.roots) {
            *amount *= root;
        }
        self.gains.multiply_transposed(&amounts)
    }

    /// What stays unknown about the weights, applied to a vector over the weights.
    ///
    /// ```text
    /// Σ_post v = Σv − ℐv,   Σ_post = Σ − ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ                    (Lem. E.21)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 1.0)?;
    /// assert!((model.posterior_covariance(&[1.0])?[0] - 0.5).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn posterior_covariance(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        let information = self.information(vector)?;
        let row = Matrix::new(1, vector.len(), vector.to_vec())?;
        let mut product = self.prior.multiply(&row).row(0).to_vec();
        add_scaled(&mut product, -1.0, &information);
        Ok(product)
    }

    /// What the prompt tells about the weights, applied to a vector over the weights.
    ///
    /// ```text
    /// ℐ = Var(ū) = ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ                                           (Sec. 8.1)
    /// ```
    ///
    /// Costs `2np`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    /// let model = LinearGaussian::new(&[vec![1.0, 0.0]], Prior::Isotropic(1.0), 3.0)?;
    /// assert_eq!(model.information(&[1.0, 1.0])?, [0.25, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn information(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("vector", vector, self.parameters())?;
        self.gains.multiply_transposed(&self.gains.multiply(vector)?)
    }

    /// `ℐ` itself, one row and one column per weight.
    ///
    /// For models with few weights; everything else here works without it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior}};
    /// let model = LinearGaussian::new(&[vec![1.0, 0.0]], Prior::Isotropic(1.0), 3.0)?;
    /// assert_eq!(model.information_matrix().to_rows(), [[0.25, 0.0], [0.0, 0.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn information_matrix(&self) -> Matrix {
        let transposed =
            Matrix::from_fn(self.parameters(), self.gains.rows(), |i, j| self.gains[(j, i)]);
        linear_algebra::gram(&transposed)
    }

    /// What the prompt tells about the queries.
    ///
    /// ```text
    /// ℐ_Q = Var(Q^(1/2) ū) = Q^(1/2) ℐ Q^(1/2)                                     (Sec. 8.1)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless the metric is one over the same weights.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    ///
    /// let model = LinearGaussian::new(&[vec![1.0, 0.0]], Prior::Isotropic(1.0), 1.0)?;
    /// let query = QueryMetric::from_queries(&[vec![2.0, 0.0]])?;
    /// let information = model.query_information(&query)?;
    /// assert!((information.matrix()[(0, 0)] - 2.0).abs() < 1e-14);
    /// assert!((information.total() - 4.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn query_information(&self, metric: &QueryMetric) -> Result<QueryInformation, Error> {
        check_size("query metric", metric.parameters(), self.parameters())?;
        let whitening = metric.whitening();
        let spread = self.prior.multiply(&whitening);
        let total = dot(spread.values(), whitening.values());
        let matrix =
            linear_algebra::gram(&linear_algebra::product_transposed(&whitening, &self.gains));
        check_finite("query information", matrix.values())?;
        Ok(QueryInformation::new(matrix, total))
    }
}

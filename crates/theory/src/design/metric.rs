//! What queries care about, what a prompt tells about it, and the subspace that follows.
//!
//! In: query Jacobians, or `Q` itself. Out: [`QueryMetric`], the whitened coordinates in which
//! [`QueryInformation`] is written and a [`Subspace`] is chosen (Sec. 8.1).

use fewstep_core::checks::{check_budget, check_size, check_vector};
use fewstep_core::linear_algebra::{self, dot};
use fewstep_core::{Error, IntoMatrix, Matrix, Spectrum};

/// `Q`: which directions of the weights matter for queries, and how much.
///
/// ```text
/// Q = E[j_X j_Xᵀ],   ‖u‖_Q² = uᵀQu = E[(j_Xᵀu)²],   v = Q^(1/2) u               (Sec. 8.1)
/// ```
///
/// `Q` may be singular: the whitened coordinates `v` are those along an orthonormal basis of
/// `range(Q)`, and directions that no query sees have none.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, design::QueryMetric};
///
/// let metric = QueryMetric::from_queries(&[vec![3.0, 4.0]])?;
/// assert_eq!((metric.parameters(), metric.dimension()), (2, 1));
/// // Length in the metric is the size of the query's correction, 3 · 1 + 4 · 1.
/// assert!((metric.whiten(&[1.0, 1.0])?[0].abs() - 7.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QueryMetric {
    /// Roots of the nonzero eigenvalues of `Q`.
    roots: Vec<f64>,
    /// Their eigenvectors, as rows.
    directions: Matrix,
}

impl QueryMetric {
    /// `Q = (1/m) Σ j_x j_xᵀ` from the Jacobians of `m` queries, one per row.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without queries or weights, [`Error::Decomposition`] if the singular
    /// value decomposition fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, design::QueryMetric};
    ///
    /// let metric = QueryMetric::from_queries(&[vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]])?;
    /// assert_eq!(metric.dimension(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_queries(jacobians: impl IntoMatrix) -> Result<Self, Error> {
        let jacobians = jacobians.into_matrix()?;
        if jacobians.values().is_empty() {
            return Err(Error::Empty { quantity: "query Jacobians" });
        }
        let (values, vectors) = linear_algebra::singular(&jacobians)?;
        let size = jacobians.rows().max(jacobians.columns()) as f64;
        let noise = 64.0 * size * f64::EPSILON * values.first().unwrap_or(&0.0);
        let count = (jacobians.rows() as f64).sqrt();
        let roots = values.iter().take_while(|&&value| value > noise);
        Ok(Self::keep(roots.map(|value| value / count).collect(), &vectors))
    }

    /// A metric from the matrix `Q`; the identity weighs all weights alike.
    ///
    /// # Errors
    ///
    /// As [`Spectrum::of`], if the matrix is not symmetric and positive semidefinite.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Matrix};
    /// use fewstep_theory::design::QueryMetric;
    ///
    /// assert_eq!(QueryMetric::from_matrix(Matrix::identity(3))?.dimension(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_matrix(metric: impl IntoMatrix) -> Result<Self, Error> {
        let spectrum = Spectrum::of(metric)?;
        let size = spectrum.examples();
        let roots = spectrum.eigenvalues()[..spectrum.rank()].iter().map(|value| value.sqrt());
        let vectors = Matrix::from_fn(size, size, |mode, i| spectrum.mode(mode)[i]);
        Ok(Self::keep(roots.collect(), &vectors))
    }

    fn keep(roots: Vec<f64>, vectors: &Matrix) -> Self {
        let directions =
            Matrix::from_fn(roots.len(), vectors.columns(), |mode, i| vectors[(mode, i)]);
        Self { roots, directions }
    }

    /// `d_Q`: the dimension of `range(Q)`; 0 if no query depends on the weights.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::QueryMetric};
    /// assert_eq!(QueryMetric::from_queries(&[vec![0.0, 0.0]])?.dimension(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn dimension(&self) -> usize {
        self.roots.len()
    }

    /// Number of weights, `p`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::QueryMetric};
    /// assert_eq!(QueryMetric::from_queries(&[vec![0.0, 1.0]])?.parameters(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.directions.columns()
    }

    /// A vector over the weights in whitened coordinates, `v = Q^(1/2) u` along `range(Q)`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::QueryMetric};
    /// let metric = QueryMetric::from_queries(&[vec![0.0, 2.0]])?;
    /// assert_eq!(metric.whiten(&[5.0, 1.0])?[0].abs(), 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn whiten(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("vector", vector, self.parameters())?;
        self.whitening().multiply(vector)
    }

    /// The shortest vector over the weights with given whitened coordinates, `u = Q^(−1/2) v`: the
    /// pseudoinverse of [`whiten`](Self::whiten).
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for coordinates that do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::QueryMetric};
    /// let metric = QueryMetric::from_queries(&[vec![0.0, 2.0]])?;
    /// let back = metric.unwhiten(&metric.whiten(&[5.0, 1.0])?)?;
    /// assert_eq!(back, [0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn unwhiten(&self, coordinates: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("whitened coordinates", coordinates, self.dimension())?;
        let divided: Vec<f64> =
            coordinates.iter().zip(&self.roots).map(|(value, root)| value / root).collect();
        self.directions.multiply_transposed(&divided)
    }

    /// The rows that [`whiten`](Self::whiten) takes inner products with.
    pub(super) fn whitening(&self) -> Matrix {
        Matrix::from_fn(self.dimension(), self.parameters(), |mode, i| {
            self.roots[mode] * self.directions[(mode, i)]
        })
    }
}

/// What a prompt, or the average prompt, tells about the queries.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix};
/// use fewstep_theory::design::{LinearGaussian, Prior, QueryMetric};
///
/// // Two examples of different strength; one direction may be updated.
/// let jacobian = [vec![1.0, 0.0], vec![0.0, 3.0]];
/// let model = LinearGaussian::new(&jacobian, Prior::Isotropic(1.0), 1.0)?;
/// let metric = QueryMetric::from_matrix(Matrix::identity(2))?;
/// let subspace = model.query_information(&metric)?.optimal_subspace(1)?;
///
/// // It is the second weight, of which 9/10 can be recovered; 2 − 9/10 is left.
/// let direction = subspace.directions(&metric)?;
/// assert!(direction[(0, 0)].abs() < 1e-14 && (direction[(0, 1)].abs() - 1.0).abs() < 1e-14);
/// assert!((subspace.captured() - 0.9).abs() < 1e-14);
/// assert!((subspace.risk() - 1.1).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInformation {
    matrix: Matrix,
    total: f64,
}

impl QueryInformation {
    /// From `ℐ_Q`, which is finite and symmetric, and `tr(QΣ)`.
    pub(super) fn new(matrix: Matrix, total: f64) -> Self {
        Self { matrix, total }
    }

    /// `ℐ_Q`, in the whitened coordinates of the metric.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// assert!((information.matrix()[(0, 0)] - 1.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// `tr(QΣ)`: the query risk of no update at all.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// assert!((information.total() - 4.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The best directions to update within a budget: the top eigenspace of `ℐ_Q`.
    ///
    /// ```text
    /// R(Π̃) = tr(QΣ) − tr(Π̃ ℐ_Q),   smallest for the top eigenspace           (Thm. 8.2, Cor. E.23)
    /// ```
    ///
    /// # Differs from the paper
    ///
    /// 1. "The" top eigenspace is one of several if eigenvalue `budget` equals the next one; all
    ///    have the same risk, and the one that the decomposition puts first is returned.
    ///
    /// # Errors
    ///
    /// [`Error::BudgetOutOfRange`] for a budget of 0 or over the dimension of `range(Q)`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// assert!((information.optimal_subspace(1)?.risk() - 3.0).abs() < 1e-14);
    /// assert_eq!(
    ///     information.optimal_subspace(2),
    ///     Err(Error::BudgetOutOfRange { budget: 2, blocks: 1 })
    /// );
    /// # Ok::<(), Error>(())
    /// ```
    pub fn optimal_subspace(&self, budget: usize) -> Result<Subspace, Error> {
        let dimension = self.matrix.rows();
        check_budget(budget, dimension)?;
        let spectrum = Spectrum::of(&self.matrix)?;
        let basis = Matrix::from_fn(budget, dimension, |mode, i| spectrum.mode(mode)[i]);
        let captured: f64 = spectrum.eigenvalues()[..budget].iter().sum();
        Ok(Subspace { basis, captured, risk: (self.total - captured).max(0.0) })
    }

    /// The query risk of a subspace that was designed elsewhere, such as one for the average prompt.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] if it lives in other coordinates.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let metric = QueryMetric::from_queries(&[vec![1.0]])?;
    /// let informed = |strength: f64| {
    ///     LinearGaussian::new(&[vec![strength]], Prior::Isotropic(1.0), 1.0)?
    ///         .query_information(&metric)
    /// };
    /// let subspace = informed(3.0)?.optimal_subspace(1)?;
    /// assert!((informed(1.0)?.risk(&subspace)? - 0.5).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn risk(&self, subspace: &Subspace) -> Result<f64, Error> {
        check_size("subspace", subspace.basis.columns(), self.matrix.rows())?;
        let images = linear_algebra::product(&subspace.basis, &self.matrix);
        Ok((self.total - dot(images.values(), subspace.basis.values())).max(0.0))
    }
}

/// Directions to update, in the whitened coordinates of a [`QueryMetric`].
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Error, Matrix};
/// # use fewstep_theory::design::{LinearGaussian, Prior, QueryMetric};
/// let model = LinearGaussian::new(&[vec![0.0, 5.0]], Prior::Isotropic(1.0), 1.0)?;
/// let metric = QueryMetric::from_matrix(Matrix::identity(2))?;
/// let subspace = model.query_information(&metric)?.optimal_subspace(1)?;
/// assert!((subspace.directions(&metric)?[(0, 1)].abs() - 1.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Subspace {
    basis: Matrix,
    captured: f64,
    risk: f64,
}

impl Subspace {
    /// An orthonormal basis in whitened coordinates, one direction per row, best first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 1.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let subspace = model.query_information(&metric)?.optimal_subspace(1)?;
    /// assert_eq!(subspace.basis()[(0, 0)].abs(), 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn basis(&self) -> &Matrix {
        &self.basis
    }

    /// `tr(Π̃ ℐ_Q)`: how much of the queries' variance an update in these directions recovers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// assert!((information.optimal_subspace(1)?.captured() - 1.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn captured(&self) -> f64 {
        self.captured
    }

    /// `R(Π̃)`: the query risk that is left after the best update in these directions.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// assert!((information.optimal_subspace(1)?.risk() - 3.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn risk(&self) -> f64 {
        self.risk
    }

    /// `Q^(−1/2) range(Π̃)`: the same directions as vectors over the weights, one per row. They
    /// are orthonormal in the metric, `uᵀQu' = 0` or 1 (Sec. 8.1).
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] for a metric with other coordinates.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{LinearGaussian, Prior, QueryMetric}};
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let information = model.query_information(&metric)?;
    /// let subspace = information.optimal_subspace(1)?;
    /// assert!((subspace.directions(&metric)?[(0, 0)].abs() - 0.5).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn directions(&self, metric: &QueryMetric) -> Result<Matrix, Error> {
        let rows: Result<Vec<_>, _> =
            (0..self.basis.rows()).map(|row| metric.unwhiten(self.basis.row(row))).collect();
        Matrix::from_rows(&rows?)
    }
}

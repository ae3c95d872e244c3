//! The module `theory.design`: the best update directions when any direction may be chosen.

use crate::arrays::{array, matrix, numbers, table};
use crate::errors::OrRaise;
use crate::rng::room;
use fewstep_theory::design;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyType};

/// A prompt seen from the weights: a Gaussian correction of the weights, observed with noise.
///
///     r = J u★ + ε,   u★ ~ N(0, Σ),   ε ~ N(0, σ²I)                            (Assump. 8.1)
///
/// `jacobian` has one row per example and one column per weight. `prior` says how far each
/// weight's correction is expected to differ from task to task: one variance for all weights, an
/// array with one variance per weight (0 freezes a weight), or a whole covariance matrix.
#[pyclass(frozen, eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct LinearGaussian(design::LinearGaussian);

#[pymethods]
impl LinearGaussian {
    #[new]
    fn new(
        jacobian: &Bound<'_, PyAny>,
        prior: &Bound<'_, PyAny>,
        noise_variance: f64,
    ) -> PyResult<Self> {
        let py = jacobian.py();
        let (jacobian, prior) = (matrix(jacobian, "jacobian")?, prior_of(prior)?);
        let model = py.detach(|| design::LinearGaussian::new(jacobian, prior, noise_variance));
        Ok(Self(model.or_raise(py)?))
    }

    /// How many weights there are.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.parameters()
    }

    /// What the residuals say about the weights' correction: its posterior mean.
    ///
    ///     ū = ΣJᵀ (JΣJᵀ + σ²I)⁻¹ r                                                 (Lem. E.21)
    fn posterior_mean<'py>(
        &self,
        residuals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.product(residuals, "residuals", design::LinearGaussian::posterior_mean)
    }

    /// What stays unknown about the weights, applied to a vector over the weights.
    ///
    ///     Σ_post v = Σv − ℐv,   Σ_post = Σ − ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ                  (Lem. E.21)
    fn posterior_covariance<'py>(
        &self,
        vector: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.product(vector, "vector", design::LinearGaussian::posterior_covariance)
    }

    /// What the prompt tells about the weights, applied to a vector over the weights.
    ///
    ///     ℐ = Var(ū) = ΣJᵀ (JΣJᵀ + σ²I)⁻¹ JΣ                                        (Sec. 8.1)
    fn information<'py>(
        &self,
        vector: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.product(vector, "vector", design::LinearGaussian::information)
    }

    /// The information itself, one row and one column per weight: for models with few weights.
    fn information_matrix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let weights = self.0.parameters();
        room(py, "number of entries", weights.saturating_mul(weights))?;
        table(py, &py.detach(|| self.0.information_matrix()))
    }

    /// What the prompt tells about the queries.
    ///
    ///     ℐ_Q = Var(Q^(1/2) ū) = Q^(1/2) ℐ Q^(1/2)                                  (Sec. 8.1)
    fn query_information(
        &self,
        py: Python<'_>,
        metric: &QueryMetric,
    ) -> PyResult<QueryInformation> {
        let information = py.detach(|| self.0.query_information(&metric.0));
        Ok(QueryInformation(information.or_raise(py)?))
    }

    fn __repr__(&self) -> String {
        format!("LinearGaussian({} weights)", self.0.parameters())
    }
}

/// A method of a model that takes a vector and gives one.
type Product = fn(&design::LinearGaussian, &[f64]) -> Result<Vec<f64>, fewstep_core::Error>;

impl LinearGaussian {
    fn product<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        quantity: &str,
        product: Product,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = object.py();
        let values = numbers(object, quantity)?;
        Ok(array(py, &py.detach(|| product(&self.0, &values)).or_raise(py)?))
    }
}

/// A prior from a number, one number per weight, or a covariance.
fn prior_of(object: &Bound<'_, PyAny>) -> PyResult<design::Prior> {
    let number = object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>();
    if number {
        return Ok(design::Prior::Isotropic(object.extract()?));
    }
    let asarray = object.py().import("numpy")?.getattr("asarray")?;
    let axes = asarray.call1((object,)).and_then(|found| found.getattr("ndim")?.extract());
    match axes {
        Ok(0_usize) => Ok(design::Prior::Isotropic(object.extract()?)),
        Ok(2) => Ok(design::Prior::Full(matrix(object, "prior")?)),
        // Whatever else is wrong with it is said here.
        _ => Ok(design::Prior::Diagonal(numbers(object, "prior")?)),
    }
}

/// Which directions of the weights matter for queries, and how much.
///
///     Q = E[j_X j_Xᵀ],   ‖u‖_Q² = uᵀQu = E[(j_Xᵀu)²],   v = Q^(1/2) u            (Sec. 8.1)
///
/// Make one with `from_queries` or `from_matrix`. Directions that no query sees have no
/// coordinate.
#[pyclass(frozen, eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct QueryMetric(design::QueryMetric);

#[pymethods]
impl QueryMetric {
    /// A metric from the Jacobians of queries, one per row.
    #[classmethod]
    fn from_queries(
        _class: &Bound<'_, PyType>,
        jacobians: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = jacobians.py();
        let jacobians = matrix(jacobians, "jacobians")?;
        let metric = py.detach(|| design::QueryMetric::from_queries(jacobians));
        Ok(Self(metric.or_raise(py)?))
    }

    /// A metric from the matrix Q; the identity weighs all weights alike.
    #[classmethod]
    fn from_matrix(_class: &Bound<'_, PyType>, metric: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = metric.py();
        let metric = matrix(metric, "metric")?;
        Ok(Self(py.detach(|| design::QueryMetric::from_matrix(metric)).or_raise(py)?))
    }

    /// How many directions queries see; 0 if no query moves at all.
    #[getter]
    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    /// How many weights there are.
    #[getter]
    fn parameters(&self) -> usize {
        self.0.parameters()
    }

    /// A vector over the weights in whitened coordinates, in which length is what queries see.
    fn whiten<'py>(&self, vector: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = vector.py();
        let values = numbers(vector, "vector")?;
        Ok(array(py, &py.detach(|| self.0.whiten(&values)).or_raise(py)?))
    }

    /// The shortest vector over the weights with these whitened coordinates.
    fn unwhiten<'py>(
        &self,
        coordinates: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = coordinates.py();
        let values = numbers(coordinates, "coordinates")?;
        Ok(array(py, &py.detach(|| self.0.unwhiten(&values)).or_raise(py)?))
    }

    fn __repr__(&self) -> String {
        let (weights, dimension) = (self.0.parameters(), self.0.dimension());
        format!("QueryMetric({weights} weights, {dimension} directions)")
    }
}

/// What a prompt, or the average prompt, tells about the queries.
///
/// Made by `LinearGaussian.query_information` and `GlobalInformation.mean`.
#[pyclass(frozen, eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct QueryInformation(design::QueryInformation);

#[pymethods]
impl QueryInformation {
    /// The information in the whitened coordinates of the metric.
    #[getter]
    fn matrix<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, self.0.matrix())
    }

    /// The query risk of no update at all, tr(QΣ).
    #[getter]
    fn total(&self) -> f64 {
        self.0.total()
    }

    /// The directions to update when their number is limited: the top eigenspace.
    ///
    ///     R(Π̃) = tr(QΣ) − tr(Π̃ ℐ_Q),   smallest for the top eigenspace  (Thm. 8.2, Cor. E.23)
    fn optimal_subspace(&self, py: Python<'_>, budget: usize) -> PyResult<Subspace> {
        Ok(Subspace(py.detach(|| self.0.optimal_subspace(budget)).or_raise(py)?))
    }

    /// The query risk of a subspace that was designed elsewhere, such as for the average prompt.
    fn risk(&self, py: Python<'_>, subspace: &Subspace) -> PyResult<f64> {
        py.detach(|| self.0.risk(&subspace.0)).or_raise(py)
    }

    /// The fields as plain Python values: numbers and lists.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &["matrix", "total"])
    }

    fn __repr__(&self) -> String {
        let total = fewstep::text::number(self.0.total());
        format!("QueryInformation({} directions, total {total})", self.0.matrix().rows())
    }
}

/// Directions to update, in the whitened coordinates of a metric.
#[pyclass(frozen, eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct Subspace(design::Subspace);

#[pymethods]
impl Subspace {
    /// An orthonormal basis in whitened coordinates, one direction per row, best first.
    #[getter]
    fn basis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, self.0.basis())
    }

    /// How much of the queries' variance an update in these directions recovers.
    #[getter]
    fn captured(&self) -> f64 {
        self.0.captured()
    }

    /// The query risk that is left after the best update in these directions.
    #[getter]
    fn risk(&self) -> f64 {
        self.0.risk()
    }

    /// The same directions as vectors over the weights, one per row, orthonormal in the metric.
    fn directions<'py>(
        &self,
        py: Python<'py>,
        metric: &QueryMetric,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, &py.detach(|| self.0.directions(&metric.0)).or_raise(py)?)
    }

    /// The fields as plain Python values: numbers and lists.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &["basis", "captured", "risk"])
    }

    fn __repr__(&self) -> String {
        let number = fewstep::text::number;
        format!(
            "Subspace({} directions, captured={}, risk={})",
            self.0.basis().rows(),
            number(self.0.captured()),
            number(self.0.risk())
        )
    }
}

/// A running average of what prompts tell about the queries, for one design that serves them all.
///
///     ℐ̂_Q = (1/m) Σ_j ℐ_Q(J_j),   whose top eigenspace minimises the mean risk  (Cor. E.23)
///
/// `dimension` is that of the metric through which all prompts are seen.
#[pyclass(eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct GlobalInformation(design::GlobalInformation);

#[pymethods]
impl GlobalInformation {
    #[new]
    fn new(py: Python<'_>, dimension: usize) -> PyResult<Self> {
        room(py, "number of entries", dimension.saturating_mul(dimension))?;
        Ok(Self(design::GlobalInformation::new(dimension)))
    }

    /// Takes one more prompt into the average.
    fn add(&mut self, py: Python<'_>, information: &QueryInformation) -> PyResult<()> {
        self.0.add(&information.0).or_raise(py)
    }

    /// How many prompts were added so far.
    #[getter]
    fn prompts(&self) -> usize {
        self.0.prompts()
    }

    /// The average over the prompts so far.
    fn mean(&self, py: Python<'_>) -> PyResult<QueryInformation> {
        Ok(QueryInformation(self.0.mean().or_raise(py)?))
    }

    fn __repr__(&self) -> String {
        format!("GlobalInformation({} prompts)", self.0.prompts())
    }
}

/// How far an average over finitely many prompts can lead a design astray.
///
/// `prompts` were averaged through a metric of this `dimension`; `bound` is R, the largest
/// deviation of one prompt's information from its mean, and `variation` ν, that of the sum of
/// their conditional variances (Assump. E.24).
#[pyclass(frozen, eq, module = "fewstep.theory.design")]
#[derive(PartialEq)]
pub(crate) struct PlugIn(design::PlugIn);

#[pymethods]
impl PlugIn {
    #[new]
    fn new(
        py: Python<'_>,
        prompts: usize,
        dimension: usize,
        bound: f64,
        variation: f64,
    ) -> PyResult<Self> {
        Ok(Self(design::PlugIn::new(prompts, dimension, bound, variation).or_raise(py)?))
    }

    /// For prompts drawn independently, with a bound on the variance of one (Remark E.26).
    #[classmethod]
    fn independent(
        class: &Bound<'_, PyType>,
        prompts: usize,
        dimension: usize,
        bound: f64,
        variance: f64,
    ) -> PyResult<Self> {
        let plug_in = design::PlugIn::independent(prompts, dimension, bound, variance);
        Ok(Self(plug_in.or_raise(class.py())?))
    }

    /// How far the average is from its expectation, at most, except with a small probability.
    ///
    ///     ε = (1/m) {√(2ν log(2d_Q/δ)) + (2R/3) log(2d_Q/δ)}                        (Thm. E.25)
    fn deviation(&self, py: Python<'_>, failure_probability: f64) -> PyResult<f64> {
        self.0.deviation(failure_probability).or_raise(py)
    }

    /// How much more risk the design for the average has than the best global one, at most,
    /// except with a small probability: 2 · budget · ε (Thm. E.25).
    fn regret(&self, py: Python<'_>, budget: usize, failure_probability: f64) -> PyResult<f64> {
        self.0.regret(budget, failure_probability).or_raise(py)
    }
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "design")?;
    module.add_class::<LinearGaussian>()?;
    module.add_class::<QueryMetric>()?;
    module.add_class::<QueryInformation>()?;
    module.add_class::<Subspace>()?;
    module.add_class::<GlobalInformation>()?;
    module.add_class::<PlugIn>()
}

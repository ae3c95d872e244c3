//! The module `theory.random`: how long to adapt when only the sizes are known.

use crate::arrays::{array, vector};
use crate::errors::OrRaise;
use fewstep_theory::random;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use std::cell::Cell;

/// Where the eigenvalues of a large random kernel lie, for this many examples per feature direction.
///
///     μ_γ(dλ) = (1 − 1/γ)₊ δ_0(dλ) + √((λ₊ − λ)(λ − λ₋))/(2πγλ) dλ,   λ± = (1 ± √γ)²
///                                                                                 (Prop. G.9)
///
/// More directions (more heads) mean a smaller γ and a narrower spectrum around 1.
#[pyclass(frozen, eq, module = "fewstep.theory.random")]
#[derive(PartialEq)]
pub(crate) struct MarchenkoPastur(random::MarchenkoPastur);

#[pymethods]
impl MarchenkoPastur {
    #[new]
    fn new(py: Python<'_>, aspect_ratio: f64) -> PyResult<Self> {
        Ok(Self(random::MarchenkoPastur::new(aspect_ratio).or_raise(py)?))
    }

    /// Examples per feature direction.
    #[getter]
    fn aspect_ratio(&self) -> f64 {
        self.0.aspect_ratio()
    }

    /// The smallest and the largest eigenvalue apart from those at 0.
    #[getter]
    fn support(&self) -> (f64, f64) {
        self.0.support()
    }

    /// The share of eigenvalues that are 0, because there are more examples than directions.
    #[getter]
    fn atom(&self) -> f64 {
        self.0.atom()
    }

    /// The density of the eigenvalues that are not 0, at a number or at every entry of an array.
    ///
    /// It is 0 outside the support and at its edges. Averages are better taken with `integral`.
    fn density<'py>(&self, eigenvalue: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = eigenvalue.py();
        if is_number(eigenvalue)? {
            return Ok(PyFloat::new(py, self.0.density(eigenvalue.extract()?)).into_any());
        }
        let values = vector(eigenvalue, "eigenvalue")?;
        let densities: Vec<f64> =
            values.as_slice()?.iter().map(|&value| self.0.density(value)).collect();
        Ok(array(py, &densities).into_any())
    }

    /// The average of a function of the eigenvalue, those at 0 included.
    ///
    /// `function` takes a number and gives one; it is called a few hundred times if it is smooth.
    /// Its value at 0 is asked for only if there are more examples than directions.
    fn integral(&self, function: &Bound<'_, PyAny>) -> PyResult<f64> {
        let py = function.py();
        let failure: Cell<Option<PyErr>> = Cell::new(None);
        let value = |eigenvalue: f64| {
            let found = function.call1((eigenvalue,)).and_then(|value| value.extract());
            // What is no number ends the integration at once.
            found.unwrap_or_else(|error| {
                failure.set(Some(error));
                f64::NAN
            })
        };
        let integral = self.0.integral(value);
        match failure.into_inner() {
            Some(error) => Err(error),
            None => integral.or_raise(py),
        }
    }

    /// The average power of an eigenvalue: m_1 = 1, m_2 = 1 + γ, and so on.
    fn moment(&self, py: Python<'_>, order: u32) -> f64 {
        py.detach(|| self.0.moment(order))
    }

    /// The expected squared error per example of gradient flow on a large random prompt.
    ///
    ///     R(t)/n → ∫ ψ_t dμ_γ,   ψ_t(λ) = τ²λ e^(−2tλ) + σ²(1 − e^(−tλ))²           (Prop. G.9)
    fn risk_limit(
        &self,
        py: Python<'_>,
        time: f64,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<f64> {
        py.detach(|| self.0.risk_limit(time, signal_variance, noise_variance)).or_raise(py)
    }

    /// The time at which `risk_limit` is smallest.
    fn oracle_time(
        &self,
        py: Python<'_>,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<f64> {
        py.detach(|| self.0.oracle_time(signal_variance, noise_variance)).or_raise(py)
    }

    /// What the representative eigenvalue of a large random prompt settles to.
    ///
    ///     μ(K) → μ_∞ = (1 + γ + λ★)/(1 + λ★)                                       (Prop. G.10)
    fn representative_eigenvalue(
        &self,
        py: Python<'_>,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<f64> {
        self.0.representative_eigenvalue(signal_variance, noise_variance).or_raise(py)
    }

    /// The time that suits the representative eigenvalue in the limit.
    ///
    ///     t_{μ_∞} = (1/μ_∞) log(1 + μ_∞/λ★)                                        (Prop. G.10)
    fn match_time(
        &self,
        py: Python<'_>,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<f64> {
        self.0.match_time(signal_variance, noise_variance).or_raise(py)
    }

    fn __repr__(&self) -> String {
        format!("MarchenkoPastur({})", fewstep::text::number(self.0.aspect_ratio()))
    }
}

/// Whether an object is one number, as opposed to an array of them.
fn is_number(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyInt>() {
        return Ok(true);
    }
    let axes = object.getattr_opt("ndim")?;
    Ok(axes.is_some_and(|axes| axes.extract::<usize>().is_ok_and(|axes| axes == 0)))
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::submodule(parent, "random")?.add_class::<MarchenkoPastur>()
}

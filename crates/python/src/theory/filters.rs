//! One class for each kind of filter that no decision takes.

use crate::arrays::numbers;
use crate::errors::OrRaise;
use crate::filters::{AnyFilter, Filter, class};
use crate::spectrum::Spectrum;
use fewstep_theory as theory;
use pyo3::prelude::*;

/// Gradient descent with infinitely small steps, stopped at a time: g(λ) = 1 − exp(−tλ).
#[pyclass(frozen, extends = Filter, module = "fewstep.theory")]
pub(crate) struct GradientFlow(pub(crate) theory::GradientFlow);

#[pymethods]
impl GradientFlow {
    #[new]
    fn new(py: Python<'_>, time: f64) -> PyResult<PyClassInitializer<Self>> {
        let filter = theory::GradientFlow::new(time).or_raise(py)?;
        Ok(class(Self(filter), AnyFilter::GradientFlow(filter)))
    }

    /// The time at which it stops.
    #[getter]
    fn time(&self) -> f64 {
        self.0.time()
    }
}

/// Gradient flow stopped at a random, exponentially distributed time with mean 1/rate.
#[pyclass(frozen, extends = Filter, module = "fewstep.theory")]
pub(crate) struct ExponentialTime(pub(crate) f64);

#[pymethods]
impl ExponentialTime {
    #[new]
    fn new(py: Python<'_>, rate: f64) -> PyResult<PyClassInitializer<Self>> {
        let filter = theory::ExponentialTime::new(rate).or_raise(py)?;
        Ok(class(Self(rate), AnyFilter::ExponentialTime(filter, rate)))
    }

    /// The rate.
    #[getter]
    fn rate(&self) -> f64 {
        self.0
    }
}

/// Infinitely many steps: everything that can be fitted is, noise along with the signal.
#[pyclass(frozen, extends = Filter, module = "fewstep.theory")]
pub(crate) struct Projection;

#[pymethods]
impl Projection {
    #[new]
    fn new(spectrum: &Spectrum) -> PyClassInitializer<Self> {
        class(Self, AnyFilter::Projection(theory::Projection::of(&spectrum.0)))
    }
}

/// The full fit, shrunk by one factor that the residuals themselves suggest.
///
/// With fewer than three dimensions it is the full fit.
#[pyclass(frozen, extends = Filter, module = "fewstep.theory")]
pub(crate) struct JamesStein;

#[pymethods]
impl JamesStein {
    #[new]
    fn new(
        py: Python<'_>,
        spectrum: &Spectrum,
        residuals: &Bound<'_, PyAny>,
        noise_variance: f64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let residuals = numbers(residuals, "residuals")?;
        let found =
            py.detach(|| theory::JamesStein::of(&spectrum.0, &residuals, noise_variance));
        let filter = found.or_raise(py)?;
        Ok(class(Self, AnyFilter::JamesStein(filter)))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GradientFlow>()?;
    module.add_class::<ExponentialTime>()?;
    module.add_class::<Projection>()?;
    module.add_class::<JamesStein>()
}

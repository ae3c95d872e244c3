//! One class for each kind of filter.

use super::{AnyFilter, Filter, class, each, filter};
use crate::errors::{OrRaise, named};
use crate::spectrum::StepSize;
use fewstep_core as core;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// No update at all: plain in-context learning.
#[pyclass(frozen, extends = Filter, module = "fewstep")]
pub(crate) struct NoUpdate;

#[pymethods]
impl NoUpdate {
    #[new]
    fn new() -> PyClassInitializer<Self> {
        class(Self, AnyFilter::NoUpdate(core::NoUpdate))
    }
}

/// A number of gradient steps on the squared prompt loss, from zero.
///
/// g(λ) = 1 − (1 − ρλ)^T with the step size ρ and the horizon T.
#[pyclass(frozen, extends = Filter, module = "fewstep")]
pub(crate) struct GradientDescent(pub(super) core::GradientDescent);

#[pymethods]
impl GradientDescent {
    #[new]
    fn new(step: &StepSize, horizon: u32) -> PyClassInitializer<Self> {
        let filter = core::GradientDescent { step: step.0, horizon };
        class(Self(filter), AnyFilter::GradientDescent(filter))
    }

    /// The step size.
    #[getter]
    fn step(&self) -> StepSize {
        StepSize(self.0.step)
    }

    /// The number of steps.
    #[getter]
    fn horizon(&self) -> u32 {
        self.0.horizon
    }

    /// The variance that the implicit prior gives to a mode: with it, the steps' fit is exactly a
    /// posterior mean.
    ///
    /// `eigenvalue` may be a number or an array. Long horizons overflow to infinity.
    fn prior_variance<'py>(
        &self,
        eigenvalue: &Bound<'py, PyAny>,
        noise_variance: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        each(eigenvalue, |value| self.0.prior_variance(value, noise_variance))
    }
}

/// The best filter there is when signal and noise levels are known: the posterior mean.
///
/// g(λ) = λ/(λ + λ★) with the noise-to-signal ratio λ★.
#[pyclass(frozen, extends = Filter, module = "fewstep")]
pub(crate) struct BayesFilter(pub(super) core::BayesFilter);

#[pymethods]
impl BayesFilter {
    #[new]
    fn new(py: Python<'_>, noise_to_signal: f64) -> PyResult<PyClassInitializer<Self>> {
        let filter = core::BayesFilter::new(noise_to_signal).or_raise(py)?;
        Ok(class(Self(filter), AnyFilter::BayesFilter(filter)))
    }

    /// The noise-to-signal ratio.
    #[getter]
    fn noise_to_signal(&self) -> f64 {
        self.0.noise_to_signal()
    }
}

/// How much signal and how much noise the residuals of a prompt are taken to hold.
///
/// As a filter it is the best estimator under itself, the posterior mean.
#[pyclass(frozen, extends = Filter, module = "fewstep")]
pub(crate) struct Benchmark(pub(crate) core::risk::Benchmark);

#[pymethods]
impl Benchmark {
    #[new]
    fn new(
        py: Python<'_>,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let filter =
            core::risk::Benchmark::new(signal_variance, noise_variance).or_raise(py)?;
        Ok(class(Self(filter), AnyFilter::Benchmark(filter)))
    }

    /// What one unit of the kernel adds to the variance of a correction.
    #[getter]
    fn signal_variance(&self) -> f64 {
        self.0.signal_variance()
    }

    /// The variance of the noise in each residual.
    #[getter]
    fn noise_variance(&self) -> f64 {
        self.0.noise_variance()
    }

    /// The eigenvalue at which signal and noise are equal; infinite without signal.
    #[getter]
    fn noise_to_signal(&self) -> f64 {
        self.0.noise_to_signal()
    }
}

/// An average of filters: a random stopping time with finitely many values.
///
/// `parts` are pairs of a weight and a filter that is no mixture itself; the weights are divided
/// by their sum.
#[pyclass(frozen, extends = Filter, module = "fewstep")]
pub(crate) struct Mixture;

#[pymethods]
impl Mixture {
    #[new]
    fn new(parts: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let py = parts.py();
        let mut pairs = Vec::new();
        for part in parts.try_iter()? {
            let (weight, object): (f64, Bound<'_, PyAny>) = part?.extract()?;
            let part = filter(&object)?;
            // Mixtures of mixtures could be nested too deeply to be evaluated or dropped.
            if matches!(part, AnyFilter::Mixture(_) | AnyFilter::Horizons(_)) {
                let message = "a part of the mixture is a Mixture; give its own parts instead";
                return Err(named(py, "WrongType", message.to_owned()));
            }
            pairs.push((weight, part));
        }
        let mixture = core::Mixture::new(pairs).or_raise(py)?;
        Ok(class(Self, AnyFilter::Mixture(Arc::new(mixture))))
    }

    /// The weights, which sum to 1, and the filters.
    #[getter]
    fn parts<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let py = slf.py();
        let pair =
            |(weight, part): (f64, AnyFilter)| (weight, part.object(py)?).into_pyobject(py);
        slf.as_super().get().0.mixed().into_iter().map(pair).collect()
    }
}

//! How much of the residuals is signal and how much is noise: `fewstep.signal`.

use crate::arrays::{array, numbers};
use crate::errors::OrRaise;
use crate::evidence::{HorizonChoice, horizons};
use crate::filters::AnyFilter;
use crate::spectrum::{Spectrum, StepSize};
use fewstep::text::number;
use fewstep_core::signal::{self, Edge};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// The signal and noise variances under which the residuals are most likely.
#[pyclass(frozen, eq, module = "fewstep.signal")]
#[derive(PartialEq)]
pub(crate) struct SignalFit(pub(crate) signal::SignalFit);

#[pymethods]
impl SignalFit {
    #[new]
    fn new(spectrum: &Spectrum, residuals: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = residuals.py();
        let residuals = numbers(residuals, "residuals")?;
        let found = py.detach(|| signal::SignalFit::of(&spectrum.0, &residuals));
        Ok(Self(found.or_raise(py)?))
    }

    /// Variances that are known from elsewhere, and their evidence.
    #[classmethod]
    fn at(
        class: &Bound<'_, PyType>,
        spectrum: &Spectrum,
        residuals: &Bound<'_, PyAny>,
        signal_variance: f64,
        noise_variance: f64,
    ) -> PyResult<Self> {
        let (py, residuals) = (class.py(), numbers(residuals, "residuals")?);
        let found = py.detach(|| {
            signal::SignalFit::at(&spectrum.0, &residuals, signal_variance, noise_variance)
        });
        Ok(Self(found.or_raise(py)?))
    }

    /// The variance of the signal, in units of the kernel.
    #[getter]
    fn signal_variance(&self) -> f64 {
        self.0.signal_variance
    }

    /// The variance of the noise.
    #[getter]
    fn noise_variance(&self) -> f64 {
        self.0.noise_variance
    }

    /// Negative log-evidence per example, on the scale of `evidence_curve`.
    #[getter]
    fn evidence(&self) -> f64 {
        self.0.evidence
    }

    /// Which boundary the fit lies on, "no-signal" or "no-noise", if any.
    #[getter]
    fn edge(&self) -> Option<&'static str> {
        self.0.edge.map(|edge| match edge {
            Edge::NoSignal => "no-signal",
            Edge::NoNoise => "no-noise",
        })
    }

    /// The noise variance over the signal variance; infinite without signal.
    fn noise_to_signal(&self) -> f64 {
        self.0.noise_to_signal()
    }

    /// The best filter under these variances, a hundred-millionth of the residuals' mean square
    /// being left as noise in any case.
    fn benchmark(&self, residuals: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let (py, residuals) = (residuals.py(), numbers(residuals, "residuals")?);
        AnyFilter::Benchmark(self.0.benchmark(&residuals).or_raise(py)?).object(py)
    }

    /// The Bayes gap at the query after each candidate number of steps, and the best candidate.
    fn bayes_gap_horizon<'py>(
        &self,
        spectrum: &Spectrum,
        coupling: &Bound<'py, PyAny>,
        step: &StepSize,
        candidates: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, HorizonChoice)> {
        let py = coupling.py();
        let (coupling, step) = (numbers(coupling, "coupling")?, step.0);
        let candidates = horizons(candidates, "candidates")?;
        let found =
            py.detach(|| self.0.bayes_gap_horizon(&spectrum.0, &coupling, step, &candidates));
        let (gaps, best) = found.or_raise(py)?;
        Ok((array(py, &gaps), HorizonChoice::of(py, &best)?))
    }

    /// The fields as plain Python values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("signal_variance", self.0.signal_variance)?;
        fields.set_item("noise_variance", self.0.noise_variance)?;
        fields.set_item("evidence", self.0.evidence)?;
        fields.set_item("edge", self.edge())?;
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!(
            "SignalFit(signal_variance={}, noise_variance={})",
            number(self.0.signal_variance),
            number(self.0.noise_variance)
        )
    }
}

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "signal")?;
    module.add_class::<SignalFit>()
}

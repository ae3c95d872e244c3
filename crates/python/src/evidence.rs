//! The evidence that residuals give each number of steps: `fewstep.evidence`.

use crate::arrays::{Integers, array, integers, numbers, type_name, vector};
use crate::errors::{OrRaise, named};
use crate::record;
use crate::spectrum::{Spectrum, StepSize};
use fewstep_core::{self as core, Noise};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The curve up to this horizon takes eighty megabytes.
const LONGEST: u32 = 10_000_000;

/// Numbers of steps from any iterable of integers: a range, a list, an array.
pub(crate) fn horizons(object: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Vec<u32>> {
    integers(object, quantity, &STEPS)
}

/// What a number of steps is called, and the largest one.
const STEPS: Integers =
    Integers { one: "a number of steps", many: "numbers of steps", largest: u32::MAX as u64 };

/// What the noise variance is: "profiled", "plug-in", or a number over 0.
pub(crate) fn noise(object: &Bound<'_, PyAny>) -> PyResult<Noise> {
    let py = object.py();
    if let Ok(name) = object.cast::<PyString>() {
        return match name.to_cow()?.as_ref() {
            "profiled" => Ok(Noise::Profiled),
            "plug-in" => Ok(Noise::PlugIn),
            found => Err(core::Error::UnknownName {
                quantity: "kind of noise",
                found: found.to_owned(),
                allowed: "profiled, plug-in or a variance over 0",
            })
            .or_raise(py),
        };
    }
    let variance = object.extract().map_err(|_| {
        let found = type_name(object);
        named(py, "WrongType", format!("noise is {found}; give profiled, plug-in or a number"))
    })?;
    Ok(Noise::Fixed(variance))
}

/// The same, where nothing said is "profiled".
fn noise_or_profiled(object: Option<&Bound<'_, PyAny>>) -> PyResult<Noise> {
    object.map_or(Ok(Noise::Profiled), noise)
}

fn check_longest(py: Python<'_>, longest: u32) -> PyResult<()> {
    if longest <= LONGEST {
        return Ok(());
    }
    let message = format!(
        "longest horizon is {longest}; it must be at most {LONGEST}: give the candidates instead"
    );
    Err(named(py, "OutOfRange", message))
}

record! {
    /// A horizon chosen from a list of candidates.
    HorizonChoice from value: core::HorizonChoice {
        /// The chosen number of steps.
        horizon: u32 = value.horizon,
        /// Its position among the candidates.
        index: usize = value.index,
        /// Whether it is the largest candidate, so that a longer list might do better.
        at_edge: bool = value.at_edge,
    }
}

/// What the residuals of one prompt say about every number of steps, prepared once.
///
/// `noise` is "profiled" (for each horizon the variance of largest likelihood), "plug-in" (the mean
/// squared residual) or a known variance.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Evidence(core::Evidence);

#[pymethods]
impl Evidence {
    #[new]
    fn new(
        py: Python<'_>,
        spectrum: &Spectrum,
        residuals: &Bound<'_, PyAny>,
        step: &StepSize,
    ) -> PyResult<Self> {
        let (residuals, step) = (numbers(residuals, "residuals")?, step.0);
        let found = py.detach(|| core::Evidence::of(&spectrum.0, &residuals, step));
        Ok(Self(found.or_raise(py)?))
    }

    /// Negative log-evidence per example at one horizon, which may lie between steps.
    #[pyo3(signature = (horizon, noise=None), text_signature = "($self, horizon, noise='profiled')")]
    fn at(
        &self,
        py: Python<'_>,
        horizon: f64,
        noise: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        self.0.at(horizon, noise_or_profiled(noise)?).or_raise(py)
    }

    /// The same at every candidate, in the candidates' order.
    #[pyo3(
        signature = (candidates, noise=None),
        text_signature = "($self, candidates, noise='profiled')"
    )]
    fn curve<'py>(
        &self,
        candidates: &Bound<'py, PyAny>,
        noise: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = candidates.py();
        let candidates = horizons(candidates, "candidates")?;
        let noise = noise_or_profiled(noise)?;
        Ok(array(py, &py.detach(|| self.0.curve(&candidates, noise)).or_raise(py)?))
    }

    /// The same at every horizon from 0 to `longest`.
    #[pyo3(
        signature = (longest, noise=None),
        text_signature = "($self, longest, noise='profiled')"
    )]
    fn curve_to<'py>(
        &self,
        py: Python<'py>,
        longest: u32,
        noise: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        check_longest(py, longest)?;
        let noise = noise_or_profiled(noise)?;
        Ok(array(py, &py.detach(|| self.0.curve_to(longest, noise)).or_raise(py)?))
    }

    /// The noise variance of largest likelihood, given the horizon.
    fn noise_variance(&self, py: Python<'_>, horizon: f64) -> PyResult<f64> {
        self.0.noise_variance(horizon).or_raise(py)
    }

    /// Whether evidence asks for any step at all: over 1 it does, up to 1 it does not.
    fn gate(&self) -> f64 {
        self.0.gate()
    }

    /// The gate when the noise variance is known.
    fn gate_given(&self, py: Python<'_>, noise_variance: f64) -> PyResult<f64> {
        self.0.gate_given(noise_variance).or_raise(py)
    }

    /// The real horizon of largest evidence, without a grid; 0 unless the gate is over 1.
    ///
    /// It may be infinite with the noise profiled.
    #[pyo3(signature = (noise=None), text_signature = "($self, noise='profiled')")]
    fn minimiser(&self, py: Python<'_>, noise: Option<&Bound<'_, PyAny>>) -> PyResult<f64> {
        self.0.minimiser(noise_or_profiled(noise)?).or_raise(py)
    }

    fn __repr__(&self) -> String {
        format!("Evidence(gate {})", fewstep::text::number(self.0.gate()))
    }
}

/// Negative log-evidence per prompt example, at every number of steps from 0 to `longest`.
///
/// `noise` is "profiled" (for each horizon the variance of largest likelihood), "plug-in" (the mean
/// squared residual) or a known variance.
#[pyfunction]
#[pyo3(
    signature = (spectrum, residuals, step, noise, longest),
    text_signature = "(spectrum, residuals, step, noise, longest)"
)]
fn evidence_curve<'py>(
    spectrum: &Spectrum,
    residuals: &Bound<'py, PyAny>,
    step: &StepSize,
    noise: &Bound<'py, PyAny>,
    longest: u32,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = residuals.py();
    check_longest(py, longest)?;
    let evidence = Evidence::new(py, spectrum, residuals, step)?;
    evidence.curve_to(py, longest, Some(noise))
}

/// The candidate with the smallest value of a curve; of those that tie, up to rounding, the
/// shortest.
#[pyfunction]
fn best_horizon(
    candidates: &Bound<'_, PyAny>,
    curve: &Bound<'_, PyAny>,
) -> PyResult<HorizonChoice> {
    let py = candidates.py();
    let (candidates, curve) = (horizons(candidates, "candidates")?, vector(curve, "curve")?);
    let choice = core::best_horizon(&candidates, curve.as_slice()?).or_raise(py)?;
    HorizonChoice::of(py, &choice)
}

/// Fills `fewstep.evidence`, and puts the same names at the top.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "evidence")?;
    module.add_class::<Evidence>()?;
    module.add_class::<HorizonChoice>()?;
    module.add_function(wrap_pyfunction!(evidence_curve, &module)?)?;
    module.add_function(wrap_pyfunction!(best_horizon, &module)?)?;
    for name in ["Evidence", "HorizonChoice", "evidence_curve", "best_horizon"] {
        parent.add(name, module.getattr(name)?)?;
    }
    Ok(())
}

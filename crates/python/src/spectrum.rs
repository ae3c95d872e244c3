//! The modes of a kernel, and step sizes that suit it.

use crate::arrays::{array, matrix, numbers};
use crate::errors::{OrRaise, named};
use fewstep::text::number;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// The modes of a kernel: along which directions of the prompt residuals shrink, and how fast.
///
/// `kernel` is symmetric and positive semidefinite, one row per example. Asymmetry and negative
/// eigenvalues that single precision explains are taken for rounding; anything more is refused.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Spectrum(pub(crate) fewstep_core::Spectrum);

#[pymethods]
impl Spectrum {
    #[new]
    fn new(kernel: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = kernel.py();
        let kernel = matrix(kernel, "kernel")?;
        Ok(Self(py.detach(|| fewstep_core::Spectrum::of(kernel)).or_raise(py)?))
    }

    /// How many examples the kernel couples.
    #[getter]
    fn examples(&self) -> usize {
        self.0.examples()
    }

    /// The eigenvalues, largest first, one per mode.
    #[getter]
    fn eigenvalues<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, self.0.eigenvalues())
    }

    /// The largest eigenvalue.
    #[getter]
    fn largest(&self) -> f64 {
        self.0.largest()
    }

    /// How many modes an update can reach: the dimension of the kernel's range.
    #[getter]
    fn rank(&self) -> usize {
        self.0.rank()
    }

    /// How many modes carry the kernel's weight, between 1 and the rank: (Σ λ)² / Σ λ².
    #[getter]
    fn effective_rank(&self) -> f64 {
        self.0.effective_rank()
    }

    /// How many eigenvalues rounding had made negative and were set to 0.
    #[getter]
    fn clamped(&self) -> usize {
        self.0.clamped()
    }

    /// How far the decomposition is from the kernel, relative to the largest eigenvalue.
    #[getter]
    fn residual(&self) -> f64 {
        self.0.residual()
    }

    /// The smallest step size that is too large: one over the largest eigenvalue.
    #[getter]
    fn step_limit(&self) -> f64 {
        self.0.step_limit()
    }

    /// The unit vector of one mode, counted from 0 in the order of the eigenvalues.
    fn mode<'py>(&self, py: Python<'py>, mode: usize) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let modes = self.0.examples();
        if mode >= modes {
            let message =
                format!("mode is {mode}; it must be under {modes}, the number of modes");
            return Err(named(py, "OutOfRange", message));
        }
        Ok(array(py, self.0.mode(mode)))
    }

    /// A vector over examples, rewritten as amounts of each mode.
    #[pyo3(signature = (vector))]
    fn rotate<'py>(&self, vector: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.transformed(vector, "vector", fewstep_core::Spectrum::rotate)
    }

    /// Amounts of each mode, put together to a vector over examples again.
    fn rotate_back<'py>(
        &self,
        amounts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.transformed(amounts, "amounts", fewstep_core::Spectrum::rotate_back)
    }

    /// The part of a vector over examples that some update can produce.
    fn project<'py>(&self, vector: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.transformed(vector, "vector", fewstep_core::Spectrum::project)
    }

    /// The part of a vector over examples that no update can produce.
    fn project_outside<'py>(
        &self,
        vector: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.transformed(vector, "vector", fewstep_core::Spectrum::project_outside)
    }

    /// The fields as plain Python values: numbers and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("eigenvalues", self.0.eigenvalues())?;
        fields.set_item("rank", self.0.rank())?;
        fields.set_item("effective_rank", self.0.effective_rank())?;
        fields.set_item("clamped", self.0.clamped())?;
        fields.set_item("residual", self.0.residual())?;
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        let largest = number(self.0.largest());
        format!("Spectrum({} examples, largest eigenvalue {largest})", self.0.examples())
    }
}

/// A method of a spectrum that takes a vector and gives one.
type Transform = fn(&fewstep_core::Spectrum, &[f64]) -> Result<Vec<f64>, fewstep_core::Error>;

impl Spectrum {
    fn transformed<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        quantity: &str,
        transform: Transform,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = object.py();
        let values = numbers(object, quantity)?;
        Ok(array(py, &py.detach(|| transform(&self.0, &values)).or_raise(py)?))
    }
}

/// A step size that is known to be stable for a spectrum: over 0 and under one over its largest
/// eigenvalue.
///
/// `float(step)` is the number itself.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct StepSize(pub(crate) fewstep_core::StepSize);

#[pymethods]
impl StepSize {
    #[new]
    fn new(py: Python<'_>, step: f64, spectrum: &Spectrum) -> PyResult<Self> {
        Ok(Self(fewstep_core::StepSize::new(step, &spectrum.0).or_raise(py)?))
    }

    /// A step size as a fraction, over 0 and under 1, of the smallest one that is too large.
    #[classmethod]
    fn fraction(
        class: &Bound<'_, PyType>,
        fraction: f64,
        spectrum: &Spectrum,
    ) -> PyResult<Self> {
        let py = class.py();
        Ok(Self(fewstep_core::StepSize::fraction(fraction, &spectrum.0).or_raise(py)?))
    }

    /// The number itself.
    fn get(&self) -> f64 {
        self.0.get()
    }

    /// The same step, once it is known to be stable for another spectrum, too.
    fn check(&self, py: Python<'_>, spectrum: &Spectrum) -> PyResult<Self> {
        Ok(Self(self.0.check(&spectrum.0).or_raise(py)?))
    }

    fn __float__(&self) -> f64 {
        self.0.get()
    }

    fn __repr__(&self) -> String {
        format!("StepSize({})", number(self.0.get()))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Spectrum>()?;
    module.add_class::<StepSize>()
}

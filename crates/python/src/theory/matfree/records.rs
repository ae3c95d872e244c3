//! What the solvers return.

use crate::errors::OrRaise;
use crate::record::Field;
use crate::spectrum::StepSize;
use crate::theory::risk::Estimate;
use fewstep_theory::matfree;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

crate::record! {
    /// The solution of a linear system and how well it solves it.
    Solution from found: matfree::Solution {
        /// The solution.
        vector: Py<PyAny> = found.vector.as_slice(),
        /// Iterations done.
        iterations: usize = found.iterations,
        /// The length of what is left of the right-hand side, relative to it.
        residual: f64 = found.residual,
    }
}

crate::record! {
    /// An eigenvalue, its unit vector, and how far both may be off.
    Eigenpair from found: matfree::Eigenpair {
        /// The eigenvalue.
        value: f64 = found.value,
        /// Its vector, of length 1.
        vector: Py<PyAny> = found.vector.as_slice(),
        /// The operator has an eigenvalue within this distance of `value`.
        bound: f64 = found.bound,
    }
}

impl Field<Py<PyAny>> for &[fewstep_theory::Estimate] {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let list = PyList::empty(py);
        for estimate in self {
            list.append(Py::new(py, Estimate::of(py, estimate)?)?)?;
        }
        Ok(list.into_any().unbind())
    }
}

crate::record! {
    /// Negative log-evidence per example at every candidate horizon, with its errors.
    EvidenceEstimate from found: matfree::EvidenceEstimate {
        /// An estimate for each horizon. Their errors are one and the same draw, scaled by the
        /// horizon.
        values: Py<PyAny> = found.values.as_slice(),
        /// The trace of log(I − ρK), the only quantity that is left to chance.
        log_trace: Py<Estimate> = &found.log_trace,
        /// The quadratic form rᵀ(I − ρK)^T r for each horizon.
        quadratic_forms: Py<PyAny> = found.quadratic_forms.as_slice(),
        /// How far each value may be off because Lanczos quadrature was stopped early.
        quadrature_errors: Py<PyAny> = found.quadrature_errors.as_slice(),
    }
}

/// The largest eigenvalue of an operator, from below, and how much larger it can be.
#[pyclass(frozen, eq, module = "fewstep.theory.matfree")]
#[derive(PartialEq)]
pub(super) struct LargestEigenvalue(pub(super) matfree::LargestEigenvalue);

#[pymethods]
impl LargestEigenvalue {
    #[new]
    fn new(value: f64, bound: f64) -> Self {
        Self(matfree::LargestEigenvalue { value, bound })
    }

    /// The eigenvalue, from below.
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }

    /// How much larger it can be, except with the probability that was asked for.
    #[getter]
    fn bound(&self) -> f64 {
        self.0.bound
    }

    /// What the largest eigenvalue does not exceed.
    #[getter]
    fn upper(&self) -> f64 {
        self.0.upper()
    }

    /// A step size as a fraction, over 0 and under 1, of the limit that is certain.
    fn step(&self, py: Python<'_>, fraction: f64) -> PyResult<StepSize> {
        Ok(StepSize(self.0.step(fraction).or_raise(py)?))
    }

    /// The fields as plain Python values: numbers.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &["value", "bound", "upper"])
    }

    fn __repr__(&self) -> String {
        let number = fewstep::text::number;
        let (value, bound) = (number(self.0.value), number(self.0.bound));
        format!("LargestEigenvalue(value={value}, bound={bound})")
    }
}

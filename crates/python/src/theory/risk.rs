//! The module `theory.risk`: what no number of steps can avoid, and what an error is made of.

use crate::arrays::{array, numbers, vector};
use crate::errors::OrRaise;
use crate::filters::Benchmark;
use crate::record::Field;
use crate::spectrum::Spectrum;
use fewstep_theory::risk;
use numpy::PyArray1;
use pyo3::prelude::*;

crate::record! {
    /// A number that was found by sampling, and how sure it is.
    Estimate from found: fewstep_theory::Estimate {
        /// The mean of the samples.
        mean: f64 = found.mean,
        /// The standard deviation of the mean over draws of the samples, estimated from them.
        standard_error: f64 = found.standard_error,
    }
}

impl Field<Py<Estimate>> for &fewstep_theory::Estimate {
    fn field(self, py: Python<'_>) -> PyResult<Py<Estimate>> {
        Py::new(py, Estimate::of(py, self)?)
    }
}

crate::record! {
    /// A predictor's squared error, split into what it could have avoided and what nobody could.
    Decomposition from found: risk::Decomposition {
        /// The mean squared error of the predictor.
        risk: Py<Estimate> = &found.risk,
        /// The mean squared distance between the predictor and the Bayes predictor.
        gap: Py<Estimate> = &found.gap,
        /// The mean squared error of the Bayes predictor.
        posterior_variance: Py<Estimate> = &found.posterior_variance,
        /// What is left between them: 0 in expectation. Many standard errors away from 0 it says
        /// that the Bayes predictions are not what they are said to be.
        cross: Py<Estimate> = &found.cross,
    }
}

/// Splits a predictor's error on simulated tasks, where the Bayes predictions are known.
///
///     E(M − Y)² = E(M − M_Bayes)² + E(M_Bayes − Y)²                              (Prop. 2.1)
///
/// The last term does not depend on the predictor: all that adapting can do is reduce the gap.
#[pyfunction]
fn decompose(
    predictions: &Bound<'_, PyAny>,
    bayes_predictions: &Bound<'_, PyAny>,
    targets: &Bound<'_, PyAny>,
) -> PyResult<Decomposition> {
    let py = targets.py();
    let predictions = numbers(predictions, "predictions")?;
    let bayes_predictions = numbers(bayes_predictions, "Bayes predictions")?;
    let targets = numbers(targets, "targets")?;
    let found = py.detach(|| risk::decompose(&predictions, &bayes_predictions, &targets));
    Decomposition::of(py, &found.or_raise(py)?)
}

/// The Bayes gap of one shrinkage on a prompt whose kernel is a projector of this rank.
///
///     E‖aKr − f_Bayes‖² = m (τ² + σ²) (a − s)²,    s = τ²/(τ² + σ²)                (Prop. E.6)
#[pyfunction]
fn projector_gap(
    py: Python<'_>,
    rank: usize,
    shrinkage: f64,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    risk::projector_gap(rank, shrinkage, &benchmark.0).or_raise(py)
}

/// What any fixed shrinkage must lose in one of two worlds, on a projector kernel of this rank.
///
///     max_j E_j‖aKr − f_Bayes,j‖² ≥ m min_j (τ_j² + σ_j²) {(s_1 − s_2)/2}²         (Prop. E.6)
#[pyfunction]
fn separation_bound(rank: usize, first: &Benchmark, second: &Benchmark) -> f64 {
    risk::separation_bound(rank, &first.0, &second.0)
}

/// The squared error on the prompt that no number of steps can remove.
///
///     inf_{f̂ ∈ S} ‖f̂ − f★‖² = ‖Π_S⊥ f★‖²                                (Prop. 6.3, Prop. E.9)
///
/// If it is large against the error itself, other blocks are needed, not more steps.
#[pyfunction]
fn floor(spectrum: &Spectrum, target: &Bound<'_, PyAny>) -> PyResult<f64> {
    let py = target.py();
    let (spectrum, target) = (&spectrum.0, numbers(target, "target")?);
    py.detach(|| risk::floor(spectrum, &target)).or_raise(py)
}

/// The expected squared error of a shrinkage per mode, from second moments alone.
///
///     E‖Sr − f★‖² = Σ_i {c_i (1 − s_i)² + σ² s_i²},   c_i = Var(u_iᵀ f★)          (Prop. F.7)
///
/// Nothing needs to be Gaussian, and the signal need not follow the kernel.
#[pyfunction]
fn shrinkage_risk(
    signal_variances: &Bound<'_, PyAny>,
    shrinkages: &Bound<'_, PyAny>,
    noise_variance: f64,
) -> PyResult<f64> {
    let signal = vector(signal_variances, "signal variances")?;
    let shrinkages = vector(shrinkages, "shrinkages")?;
    risk::shrinkage_risk(signal.as_slice()?, shrinkages.as_slice()?, noise_variance)
        .or_raise(signal_variances.py())
}

/// How much `shrinkage_risk` is over its minimum.
///
///     Σ_i (c_i + σ²) (s_i − s_i★)²                                                (Prop. F.7)
#[pyfunction]
fn shrinkage_excess(
    signal_variances: &Bound<'_, PyAny>,
    shrinkages: &Bound<'_, PyAny>,
    noise_variance: f64,
) -> PyResult<f64> {
    let signal = vector(signal_variances, "signal variances")?;
    let shrinkages = vector(shrinkages, "shrinkages")?;
    risk::shrinkage_excess(signal.as_slice()?, shrinkages.as_slice()?, noise_variance)
        .or_raise(signal_variances.py())
}

/// The one shrinkage per mode with the smallest `shrinkage_risk`.
///
///     s_i★ = c_i/(c_i + σ²)                                                       (Prop. F.7)
#[pyfunction]
fn optimal_shrinkages<'py>(
    signal_variances: &Bound<'py, PyAny>,
    noise_variance: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = signal_variances.py();
    let signal = vector(signal_variances, "signal variances")?;
    let best = risk::optimal_shrinkages(signal.as_slice()?, noise_variance).or_raise(py)?;
    Ok(array(py, &best))
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    parent.add_class::<Estimate>()?;
    let module = crate::submodule(parent, "risk")?;
    module.add_class::<Decomposition>()?;
    module.add_function(wrap_pyfunction!(decompose, &module)?)?;
    module.add_function(wrap_pyfunction!(projector_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(separation_bound, &module)?)?;
    module.add_function(wrap_pyfunction!(floor, &module)?)?;
    module.add_function(wrap_pyfunction!(shrinkage_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(shrinkage_excess, &module)?)?;
    module.add_function(wrap_pyfunction!(optimal_shrinkages, &module)?)
}

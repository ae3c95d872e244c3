//! The module `risk`: when adapting helps, in expectation.

use crate::arrays::{array, numbers, vector};
use crate::errors::OrRaise;
use crate::filters::{Benchmark, filter};
use crate::record::Field;
use crate::spectrum::Spectrum;
use fewstep_core::risk;
use numpy::PyArray1;
use pyo3::prelude::*;

crate::record! {
    /// A number that was found by sampling, and how sure it is.
    Estimate from found: fewstep_core::Estimate {
        /// The mean of the samples.
        mean: f64 = found.mean,
        /// The standard deviation of the mean over draws of the samples, estimated from them.
        standard_error: f64 = found.standard_error,
    }
}

impl Field<Py<Estimate>> for &fewstep_core::Estimate {
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

crate::record! {
    /// What an update is expected to gain over none.
    Benefit from found: risk::Benefit {
        /// The Bayes gap without an update: plain in-context learning.
        gap_icl: f64 = found.gap_icl,
        /// The Bayes gap with it.
        gap_adapted: f64 = found.gap_adapted,
        /// The first minus the second, with its own digits.
        improvement: f64 = found.improvement,
        /// Whether the update beats no update, strictly.
        helps: bool = found.helps(),
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

/// The expected squared error of a filter's fit on the prompt's own examples, summed over them.
///
///     E‖f̂_g − f★‖² = Σ_i {τ²λ_i (1 − g(λ_i))² + σ² g(λ_i)²}             (Thm. E.4, Prop. G.4)
///
/// The first term is signal that was missed, the second noise that was fitted.
#[pyfunction]
fn prompt_risk(
    spectrum: &Spectrum,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    Ok(risk::prompt_risk(&spectrum.0, &self::filter(filter)?, &benchmark.0))
}

/// The Bayes gap on the prompt: the expected squared distance to the best fit there.
///
///     E‖f̂_g − f_Bayes‖² = Σ_i (τ²λ_i + σ²) {g(λ_i) − g★(λ_i)}²          (Thm. E.4, Cor. E.5)
#[pyfunction]
fn prompt_gap(
    spectrum: &Spectrum,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    Ok(risk::prompt_gap(&spectrum.0, &self::filter(filter)?, &benchmark.0))
}

/// Whether an update helps on the prompt's own examples, and by how much.
///
///     Σ_i (τ²λ_i + σ²) {g(λ_i) − g★(λ_i)}² < Σ_i (τ²λ_i + σ²) g★(λ_i)²             (Cor. E.5)
#[pyfunction]
fn prompt_benefit(
    spectrum: &Spectrum,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<Benefit> {
    let found = risk::prompt_benefit(&spectrum.0, &self::filter(filter)?, &benchmark.0);
    Benefit::of(filter.py(), &found)
}

/// How much each mode's mistake counts at the query.
///
///     a_i(x) = (τ²λ_i + σ²) (u_iᵀ k_x)²                                           (Thm. 5.2)
///
/// Modes outside the representable range have weight 0.
#[pyfunction]
fn mode_weights<'py>(
    spectrum: &Spectrum,
    coupling: &Bound<'py, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let py = coupling.py();
    let (spectrum, benchmark) = (&spectrum.0, &benchmark.0);
    let coupling = numbers(coupling, "coupling")?;
    let weights = py.detach(|| risk::mode_weights(spectrum, &coupling, benchmark));
    Ok(array(py, &weights.or_raise(py)?))
}

/// The Bayes gap at the query: the expected squared distance to the best correction there.
///
///     E{ĥ_q(x) − f_Bayes(x)}² = Σ_i a_i(x) {q(λ_i) − q★(λ_i)}²                    (Thm. 5.2)
///
/// The smaller of two filters' gaps is the better filter for this query.
#[pyfunction]
fn query_gap(
    spectrum: &Spectrum,
    coupling: &Bound<'_, PyAny>,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    let py = coupling.py();
    let (spectrum, benchmark) = (&spectrum.0, &benchmark.0);
    let (coupling, filter) = (numbers(coupling, "coupling")?, self::filter(filter)?);
    py.detach(|| risk::query_gap(spectrum, &coupling, &filter, benchmark)).or_raise(py)
}

/// What stays unknown about the correction at the query, however the prompt is used.
///
///     Var(f_x | r) = τ² {κ_x − k_xᵀ (K + λ★I)⁻¹ k_x}                  (Assump. 5.1, Prop. 2.1)
///
/// Its root is an error bar for the best correction.
#[pyfunction]
fn query_posterior_variance(
    spectrum: &Spectrum,
    coupling: &Bound<'_, PyAny>,
    query_variance: f64,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    let py = coupling.py();
    let (spectrum, benchmark) = (&spectrum.0, &benchmark.0);
    let coupling = numbers(coupling, "coupling")?;
    py.detach(|| risk::query_posterior_variance(spectrum, &coupling, query_variance, benchmark))
        .or_raise(py)
}

/// The expected squared error of a filter's correction at the query.
///
///     E{ĥ_q(x) − f_x}² = Var(f_x | r) + E{ĥ_q(x) − f_Bayes(x)}²          (Prop. 2.1, Thm. 5.2)
///
/// Its root is an error bar for this filter's correction; the first term no filter can avoid.
#[pyfunction]
fn query_risk(
    spectrum: &Spectrum,
    coupling: &Bound<'_, PyAny>,
    query_variance: f64,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<f64> {
    let py = coupling.py();
    let (spectrum, benchmark) = (&spectrum.0, &benchmark.0);
    let (coupling, filter) = (numbers(coupling, "coupling")?, self::filter(filter)?);
    py.detach(|| risk::query_risk(spectrum, &coupling, query_variance, &filter, benchmark))
        .or_raise(py)
}

/// Whether an update helps at the query, and by how much.
///
///     Σ_i a_i(x) {q(λ_i) − q★(λ_i)}² < Σ_i a_i(x) q★(λ_i)²                           (Sec. 5)
#[pyfunction]
fn query_benefit(
    spectrum: &Spectrum,
    coupling: &Bound<'_, PyAny>,
    filter: &Bound<'_, PyAny>,
    benchmark: &Benchmark,
) -> PyResult<Benefit> {
    let py = coupling.py();
    let (spectrum, benchmark) = (&spectrum.0, &benchmark.0);
    let (coupling, filter) = (numbers(coupling, "coupling")?, self::filter(filter)?);
    let found = py.detach(|| risk::query_benefit(spectrum, &coupling, &filter, benchmark));
    Benefit::of(py, &found.or_raise(py)?)
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

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    parent.add_class::<Estimate>()?;
    let module = crate::submodule(parent, "risk")?;
    module.add_class::<Decomposition>()?;
    module.add_class::<Benefit>()?;
    module.add_class::<Benchmark>()?;
    module.add_function(wrap_pyfunction!(decompose, &module)?)?;
    module.add_function(wrap_pyfunction!(projector_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(separation_bound, &module)?)?;
    module.add_function(wrap_pyfunction!(floor, &module)?)?;
    module.add_function(wrap_pyfunction!(prompt_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(prompt_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(prompt_benefit, &module)?)?;
    module.add_function(wrap_pyfunction!(mode_weights, &module)?)?;
    module.add_function(wrap_pyfunction!(query_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(query_posterior_variance, &module)?)?;
    module.add_function(wrap_pyfunction!(query_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(query_benefit, &module)?)?;
    module.add_function(wrap_pyfunction!(shrinkage_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(shrinkage_excess, &module)?)?;
    module.add_function(wrap_pyfunction!(optimal_shrinkages, &module)?)
}

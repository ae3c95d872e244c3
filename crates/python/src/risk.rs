//! The module `risk`: when adapting helps, in expectation.

use crate::arrays::{array, numbers};
use crate::errors::OrRaise;
use crate::filters::{Benchmark, filter};
use crate::spectrum::Spectrum;
use fewstep_core::risk;
use numpy::PyArray1;
use pyo3::prelude::*;

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

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "risk")?;
    module.add_class::<Benefit>()?;
    module.add_class::<Benchmark>()?;
    module.add_function(wrap_pyfunction!(prompt_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(prompt_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(prompt_benefit, &module)?)?;
    module.add_function(wrap_pyfunction!(mode_weights, &module)?)?;
    module.add_function(wrap_pyfunction!(query_gap, &module)?)?;
    module.add_function(wrap_pyfunction!(query_posterior_variance, &module)?)?;
    module.add_function(wrap_pyfunction!(query_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(query_benefit, &module)?)
}

//! The module `theory.flow`: how long to adapt when steps are infinitely small.

use crate::errors::OrRaise;
use crate::spectrum::{Spectrum, StepSize};
use fewstep_theory::flow;
use pyo3::prelude::*;

/// The time at which gradient flow treats one mode exactly as the Bayes filter does.
///
///     t_λ = (1/λ) log(1 + λ/λ★),   1/λ★ at λ = 0                                   (Lem. G.5)
///
/// It falls with the eigenvalue λ, so no single time suits all modes; λ★ is the noise-to-signal
/// ratio.
#[pyfunction]
fn mode_time(py: Python<'_>, eigenvalue: f64, noise_to_signal: f64) -> PyResult<f64> {
    flow::mode_time(eigenvalue, noise_to_signal).or_raise(py)
}

/// One eigenvalue that stands for the whole spectrum: the mean weighted by residual variance.
///
///     μ(K) = Σ a_i λ_i / Σ a_i,   a_i = τ²λ_i + σ²                                   (App. G)
#[pyfunction]
fn representative_eigenvalue(
    py: Python<'_>,
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> PyResult<f64> {
    flow::representative_eigenvalue(&spectrum.0, signal_variance, noise_variance).or_raise(py)
}

/// The time that suits the representative eigenvalue: a quick stand-in for `oracle_time`.
///
///     t_μ = (1/μ) log(1 + μ/λ★),   μ = μ(K)                                          (App. G)
#[pyfunction]
fn match_time(
    py: Python<'_>,
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> PyResult<f64> {
    flow::match_time(&spectrum.0, signal_variance, noise_variance).or_raise(py)
}

/// The expected squared error, summed over the prompt, of gradient flow stopped at a time.
///
///     R(t) = Σ {τ²λ_i e^(−2tλ_i) + σ²(1 − e^(−tλ_i))²}                    (Prop. G.4, App. G)
#[pyfunction]
fn flow_risk(
    py: Python<'_>,
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
    time: f64,
) -> PyResult<f64> {
    flow::flow_risk(&spectrum.0, signal_variance, noise_variance, time).or_raise(py)
}

/// The time at which the expected error of gradient flow on the prompt is smallest.
///
/// It lies between the mode times of the largest and the smallest positive eigenvalue. Of equal
/// minima the earliest counts; a zero kernel has the time 0.
#[pyfunction]
fn oracle_time(
    py: Python<'_>,
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> PyResult<f64> {
    let spectrum = &spectrum.0;
    py.detach(|| flow::oracle_time(spectrum, signal_variance, noise_variance)).or_raise(py)
}

/// How far a number of finite steps can be ahead of gradient flow in one mode.
///
///     0 ≤ g_T(λ) − g_t(λ) ≤ T(ρλ)²/(2(1 − ρλ)) e^(−tλ),   t = ρT                    (Lem. G.2)
#[pyfunction]
fn discretisation_bound(
    py: Python<'_>,
    step: &StepSize,
    horizon: u32,
    eigenvalue: f64,
) -> PyResult<f64> {
    flow::discretisation_bound(step.0, horizon, eigenvalue).or_raise(py)
}

/// What one time for all modes can cost at most, compared with the Bayes filter.
///
///     Σ a_i d_t(λ_i)² ≤ 2 (Σ a_i) d_t(μ)² + 2 (t + 1/λ★)² Σ a_i (λ_i − μ)²         (Prop. G.7)
///
/// with a_i = τ²λ_i + σ², d_t = g_t − g★ and μ the representative eigenvalue.
#[pyfunction]
fn concentration_bound(
    py: Python<'_>,
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
    time: f64,
) -> PyResult<f64> {
    flow::concentration_bound(&spectrum.0, signal_variance, noise_variance, time).or_raise(py)
}

/// The number of steps that comes closest to a time: the time over the step size, rounded.
#[pyfunction]
fn horizon_of(py: Python<'_>, time: f64, step: &StepSize) -> PyResult<u32> {
    flow::horizon_of(time, step.0).or_raise(py)
}

pub(super) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "flow")?;
    module.add_function(wrap_pyfunction!(mode_time, &module)?)?;
    module.add_function(wrap_pyfunction!(representative_eigenvalue, &module)?)?;
    module.add_function(wrap_pyfunction!(match_time, &module)?)?;
    module.add_function(wrap_pyfunction!(flow_risk, &module)?)?;
    module.add_function(wrap_pyfunction!(oracle_time, &module)?)?;
    module.add_function(wrap_pyfunction!(discretisation_bound, &module)?)?;
    module.add_function(wrap_pyfunction!(concentration_bound, &module)?)?;
    module.add_function(wrap_pyfunction!(horizon_of, &module)?)
}

//! Risk, gap and benefit of a filter on the prompt's own examples (App. E.3, G.2).

use super::{Benchmark, Benefit, excess_of_mode, improvement_of_mode, risk_of_mode};
use crate::filter::Filter;
use crate::spectrum::Spectrum;

/// The expected squared error of a filter's fit on the prompt's own examples, summed over them.
///
/// ```text
/// E‖f̂_g − f★‖² = Σ_i {τ²λ_i (1 − g(λ_i))² + σ² g(λ_i)²}                (Thm. E.4, Prop. G.4)
/// ```
///
/// The first term is signal that was missed, the second noise that was fitted.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, NoUpdate, Spectrum, risk::{Benchmark, prompt_risk}};
///
/// let spectrum = Spectrum::of(&[vec![3.0]])?;
/// let benchmark = Benchmark::new(1.0, 1.0)?;
/// assert_eq!(prompt_risk(&spectrum, &NoUpdate, &benchmark), 3.0);
/// assert_eq!(prompt_risk(&spectrum, &benchmark, &benchmark), 0.75);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn prompt_risk(spectrum: &Spectrum, filter: &dyn Filter, benchmark: &Benchmark) -> f64 {
    prompt_sum(spectrum, filter, benchmark, risk_of_mode)
}

/// The Bayes gap on the prompt: the expected squared distance to the best fit there.
///
/// ```text
/// E‖f̂_g − f_Bayes‖² = Σ_i (τ²λ_i + σ²) {g(λ_i) − g★(λ_i)}²             (Thm. E.4, Cor. E.5)
/// ```
///
/// It is exactly what [`prompt_risk`] is over its minimum.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, NoUpdate, Spectrum, risk::{Benchmark, prompt_gap}};
///
/// let spectrum = Spectrum::of(&[vec![3.0]])?;
/// let benchmark = Benchmark::new(1.0, 1.0)?;
/// assert_eq!(prompt_gap(&spectrum, &NoUpdate, &benchmark), 2.25);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn prompt_gap(spectrum: &Spectrum, filter: &dyn Filter, benchmark: &Benchmark) -> f64 {
    prompt_sum(spectrum, filter, benchmark, excess_of_mode)
}

/// A sum over modes of a function of signal variance, shrinkage and noise variance.
fn prompt_sum(
    spectrum: &Spectrum,
    filter: &dyn Filter,
    benchmark: &Benchmark,
    function: impl Fn(f64, f64, f64) -> f64,
) -> f64 {
    let mode = |&eigenvalue: &f64| {
        let signal = benchmark.signal_variance * eigenvalue;
        function(signal, filter.response(eigenvalue), benchmark.noise_variance)
    };
    spectrum.eigenvalues().iter().map(mode).sum()
}

/// Whether an update helps on the prompt's own examples, and by how much.
///
/// ```text
/// Σ_i (τ²λ_i + σ²) {g(λ_i) − g★(λ_i)}² < Σ_i (τ²λ_i + σ²) g★(λ_i)²                (Cor. E.5)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::risk::{Benchmark, prompt_benefit};
/// use fewstep_core::{Error, GradientDescent, Spectrum, StepSize};
///
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let half = GradientDescent { step: StepSize::new(0.5, &spectrum)?, horizon: 1 };
/// let benefit = prompt_benefit(&spectrum, &half, &Benchmark::new(3.0, 1.0)?);
/// assert_eq!((benefit.gap_icl, benefit.gap_adapted, benefit.improvement), (2.25, 0.25, 2.0));
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn prompt_benefit(
    spectrum: &Spectrum,
    filter: &dyn Filter,
    benchmark: &Benchmark,
) -> Benefit {
    Benefit {
        gap_icl: prompt_gap(spectrum, &crate::NoUpdate, benchmark),
        gap_adapted: prompt_gap(spectrum, filter, benchmark),
        improvement: prompt_sum(spectrum, filter, benchmark, improvement_of_mode),
    }
}

//! Risk, gap and benefit of a filter at the query (Sec. 5).

use super::{Benchmark, Benefit};
use crate::checks::{check_not_negative, check_vector};
use crate::error::Error;
use crate::filter::Filter;
use crate::spectrum::Spectrum;

/// `a_i(x)`: how much each mode's mistake counts at the query.
///
/// ```text
/// a_i(x) = (τ²λ_i + σ²) (u_iᵀ k_x)²                                              (Thm. 5.2)
/// ```
///
/// Only modes that the query shares count; a prompt can be fitted for nothing elsewhere.
///
/// Differs from the paper:
/// 1. The weight of a mode outside the representable range is set to 0. Assump. 5.1 implies
///    `u_iᵀ k_x = 0` there, and what rounding leaves of it must not meet a small `λ★`.
///
/// # Errors
///
/// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a coupling that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, risk::{Benchmark, mode_weights}};
///
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
/// let weights = mode_weights(&spectrum, &[3.0, 0.0], &Benchmark::new(0.5, 1.0)?)?;
/// assert_eq!(weights, [27.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn mode_weights(
    spectrum: &Spectrum,
    coupling: &[f64],
    benchmark: &Benchmark,
) -> Result<Vec<f64>, Error> {
    let mut weights = alignments(spectrum, coupling)?;
    for (weight, &eigenvalue) in weights.iter_mut().zip(spectrum.eigenvalues()) {
        *weight = benchmark.residual_variance(eigenvalue) * *weight * *weight;
    }
    Ok(weights)
}

/// `u_iᵀ k_x`, and 0 where it can be nothing but rounding.
///
/// A coupling has no part in the kernel's null space. What rounding leaves of it there would be
/// multiplied by `1/λ★`, which may be large.
fn alignments(spectrum: &Spectrum, coupling: &[f64]) -> Result<Vec<f64>, Error> {
    check_vector("coupling", coupling, spectrum.examples())?;
    let mut alignments = spectrum.amounts(coupling);
    alignments[spectrum.rank()..].fill(0.0);
    Ok(alignments)
}

/// The Bayes gap at the query: the expected squared distance to the best correction there.
///
/// ```text
/// E{ĥ_q(x) − f_Bayes(x)}² = Σ_i a_i(x) {q(λ_i) − q★(λ_i)}²                       (Thm. 5.2)
/// ```
///
/// The smaller of two filters' gaps is the better filter for this query.
///
/// # Errors
///
/// As [`mode_weights`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, NoUpdate, Spectrum, risk::{Benchmark, query_gap}};
///
/// // q★ = 1/4 and a = 4 · 2²: doing nothing is 16/16 away from the best.
/// let spectrum = Spectrum::of(&[vec![3.0]])?;
/// let benchmark = Benchmark::new(1.0, 1.0)?;
/// assert_eq!(query_gap(&spectrum, &[2.0], &NoUpdate, &benchmark)?, 1.0);
/// assert_eq!(query_gap(&spectrum, &[2.0], &benchmark, &benchmark)?, 0.0);
/// # Ok::<(), Error>(())
/// ```
pub fn query_gap(
    spectrum: &Spectrum,
    coupling: &[f64],
    filter: &dyn Filter,
    benchmark: &Benchmark,
) -> Result<f64, Error> {
    let weights = mode_weights(spectrum, coupling, benchmark)?;
    let gap = |(&weight, &eigenvalue): (&f64, &f64)| {
        weight * benchmark.gain_mismatch(filter, eigenvalue).powi(2)
    };
    Ok(weights.iter().zip(spectrum.eigenvalues()).map(gap).sum())
}

/// What stays unknown about the correction at the query, however the prompt is used.
///
/// ```text
/// Var(f_x | r) = τ² {κ_x − k_xᵀ (K + λ★I)⁻¹ k_x}                     (Assump. 5.1, Prop. 2.1)
/// ```
///
/// Its root is an error bar for the best correction. It lies between 0 and the prior variance
/// `τ²κ_x`; where rounding would lead out of that range it is set to the border.
///
/// # Errors
///
/// As [`mode_weights`], and [`Error::OutOfRange`] unless the query variance is finite and at
/// least 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, risk::{Benchmark, query_posterior_variance}};
///
/// // The query is the example itself: one look at it halves the variance of 1.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let benchmark = Benchmark::new(1.0, 1.0)?;
/// assert_eq!(query_posterior_variance(&spectrum, &[1.0], 1.0, &benchmark)?, 0.5);
/// # Ok::<(), Error>(())
/// ```
pub fn query_posterior_variance(
    spectrum: &Spectrum,
    coupling: &[f64],
    query_variance: f64,
    benchmark: &Benchmark,
) -> Result<f64, Error> {
    let alignments = alignments(spectrum, coupling)?;
    check_not_negative("query variance", query_variance)?;
    let explained: f64 = alignments
        .iter()
        .zip(spectrum.eigenvalues())
        .map(|(alignment, &eigenvalue)| alignment * alignment * benchmark.gain(eigenvalue))
        .sum();
    Ok(benchmark.signal_variance * (query_variance - explained).clamp(0.0, query_variance))
}

/// The expected squared error of a filter's correction at the query.
///
/// ```text
/// E{ĥ_q(x) − f_x}² = Var(f_x | r) + E{ĥ_q(x) − f_Bayes(x)}²             (Prop. 2.1, Thm. 5.2)
/// ```
///
/// Its root is an error bar for *this* filter's correction; the first term no filter can avoid.
///
/// # Errors
///
/// As [`query_posterior_variance`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, NoUpdate, Spectrum, risk::{Benchmark, query_risk}};
///
/// // Without an update the error is the whole prior variance τ²κ_x.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let benchmark = Benchmark::new(1.0, 1.0)?;
/// assert_eq!(query_risk(&spectrum, &[1.0], 1.0, &NoUpdate, &benchmark)?, 1.0);
/// # Ok::<(), Error>(())
/// ```
pub fn query_risk(
    spectrum: &Spectrum,
    coupling: &[f64],
    query_variance: f64,
    filter: &dyn Filter,
    benchmark: &Benchmark,
) -> Result<f64, Error> {
    let unavoidable = query_posterior_variance(spectrum, coupling, query_variance, benchmark)?;
    Ok(unavoidable + query_gap(spectrum, coupling, filter, benchmark)?)
}

/// Whether an update helps at the query, and by how much.
///
/// ```text
/// Σ_i a_i(x) {q(λ_i) − q★(λ_i)}² < Σ_i a_i(x) q★(λ_i)²                               (Sec. 5)
/// ```
///
/// # Errors
///
/// As [`mode_weights`].
///
/// # Examples
///
/// ```
/// use fewstep_core::risk::{Benchmark, query_benefit};
/// use fewstep_core::{Error, GradientDescent, Spectrum, StepSize};
///
/// // q = 1/2, q★ = 3/4 and a = 4: the gap falls from 9/4 to 1/4.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let half = GradientDescent { step: StepSize::new(0.5, &spectrum)?, horizon: 1 };
/// let benefit = query_benefit(&spectrum, &[1.0], &half, &Benchmark::new(3.0, 1.0)?)?;
/// assert_eq!((benefit.gap_icl, benefit.gap_adapted, benefit.improvement), (2.25, 0.25, 2.0));
/// # Ok::<(), Error>(())
/// ```
pub fn query_benefit(
    spectrum: &Spectrum,
    coupling: &[f64],
    filter: &dyn Filter,
    benchmark: &Benchmark,
) -> Result<Benefit, Error> {
    let gap_adapted = query_gap(spectrum, coupling, filter, benchmark)?;
    let gap_icl = query_gap(spectrum, coupling, &crate::NoUpdate, benchmark)?;
    // a q (2 q★ − q) without the weights' and q★'s common factor.
    let improvement = |(&eigenvalue, alignment): (&f64, f64)| {
        let (response, gain) = (filter.response(eigenvalue), filter.gain(eigenvalue));
        let surplus =
            benchmark.signal_variance * (2.0 - response) - benchmark.noise_variance * gain;
        alignment * gain * alignment * surplus
    };
    let modes = spectrum.eigenvalues().iter().zip(alignments(spectrum, coupling)?);
    Ok(Benefit { gap_icl, gap_adapted, improvement: modes.map(improvement).sum() })
}

//! When adapting helps: how far a filter is from the best estimate there is, in expectation.
//!
//! Answers "when" (Secs. 2, 5 and 6, App. E.3, E.4 and F.2). In: a [`Spectrum`], the coupling to
//! the query, a [`Filter`] and a [`Benchmark`] that says how much signal and noise to expect.
//! Out: risks, gaps to the Bayes-optimal estimate, and whether the update beats none at all.
//! Where no model of the task is wanted, [`decompose`] measures the same quantities on tasks
//! whose Bayes predictions are known.
//!
//! The signal and noise levels are given here, not estimated: that is the evidence's work.

use crate::error::{
    Error, check_finite, check_not_negative, check_positive, check_size, check_vector,
};
use crate::estimate::Estimate;
use crate::filter::Filter;
use crate::linalg::squared_norm;
use crate::spectrum::Spectrum;

/// How much signal and how much noise the residuals of a prompt are taken to hold.
///
/// ```text
/// (f★, f_x) ~ N(0, τ² [K, k_x; k_xᵀ, κ_x])      r = f★ + ε,   ε ~ N(0, σ² I)    (Assump. 5.1)
/// ```
///
/// As a [`Filter`] it is the best estimator under itself, the posterior mean:
///
/// ```text
/// g★(λ) = τ²λ/(τ²λ + σ²)         q★(λ) = τ²/(τ²λ + σ²)                (Thm. 5.2, Prop. E.3)
/// ```
///
/// Differs from the paper:
/// 1. `τ² = 0` is allowed. Residuals are then noise alone, the best filter does nothing, and
///    every formula of this module stays finite, because it is written without `λ★ = σ²/τ²`.
///
/// # Examples
///
/// ```
/// use fewstep_core::{BayesFilter, Error, Filter, risk::Benchmark};
///
/// let benchmark = Benchmark::new(2.0, 1.0)?;
/// assert_eq!(benchmark.noise_to_signal(), 0.5);
/// assert_eq!(benchmark.response(1.5), BayesFilter::new(0.5)?.response(1.5));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benchmark {
    signal_variance: f64,
    noise_variance: f64,
}

impl Benchmark {
    /// A benchmark from its signal variance `τ²` and its noise variance `σ²`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless both are finite, the first at least 0, the second over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::risk::Benchmark;
    ///
    /// assert!(Benchmark::new(0.0, 1.0).is_ok());
    /// assert!(Benchmark::new(1.0, 0.0).is_err());
    /// ```
    pub fn new(signal_variance: f64, noise_variance: f64) -> Result<Self, Error> {
        check_not_negative("signal variance", signal_variance)?;
        check_positive("noise variance", noise_variance)?;
        Ok(Self { signal_variance, noise_variance })
    }

    /// `τ²`: what one unit of the kernel adds to the variance of a correction.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, risk::Benchmark};
    /// assert_eq!(Benchmark::new(2.0, 1.0)?.signal_variance(), 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn signal_variance(&self) -> f64 {
        self.signal_variance
    }

    /// `σ²`: the variance of the noise in each residual.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, risk::Benchmark};
    /// assert_eq!(Benchmark::new(2.0, 1.0)?.noise_variance(), 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// `λ★ = σ²/τ²`: the eigenvalue at which signal and noise are equal; infinite without
    /// signal.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, risk::Benchmark};
    /// assert_eq!(Benchmark::new(0.0, 1.0)?.noise_to_signal(), f64::INFINITY);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn noise_to_signal(&self) -> f64 {
        self.noise_variance / self.signal_variance
    }

    /// `τ²λ + σ²`: the variance of a residual's amount of a mode.
    fn residual_variance(&self, eigenvalue: f64) -> f64 {
        self.signal_variance * eigenvalue + self.noise_variance
    }

    /// `q(λ) − q★(λ) = {σ² q(λ) − τ² (1 − g(λ))} / (τ²λ + σ²)`.
    ///
    /// One cancellation, at the optimum, where it belongs: the fitted share is subtracted from
    /// 1, not its quotient by `λ` from another quotient.
    fn gain_mismatch(&self, filter: &dyn Filter, eigenvalue: f64) -> f64 {
        let noise_fitted = self.noise_variance * filter.gain(eigenvalue);
        let signal_missed = self.signal_variance * (1.0 - filter.response(eigenvalue));
        (noise_fitted - signal_missed) / self.residual_variance(eigenvalue)
    }
}

impl Filter for Benchmark {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.signal_variance * eigenvalue / self.residual_variance(eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.signal_variance / self.residual_variance(eigenvalue)
    }
}

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
/// A query that moves with the examples has no part in the kernel's null space. What is left
/// of it there would be multiplied by `1/λ★`, which may be anything.
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

/// `c (1 − s)² + σ² s²`.
fn risk_of_mode(signal: f64, shrinkage: f64, noise: f64) -> f64 {
    signal * (1.0 - shrinkage).powi(2) + noise * shrinkage.powi(2)
}

/// `(c + σ²) (s − s★)²`, with `s − s★ = {σ² s − c (1 − s)} / (c + σ²)`.
fn excess_of_mode(signal: f64, shrinkage: f64, noise: f64) -> f64 {
    let variance = signal + noise;
    variance * ((noise * shrinkage - signal * (1.0 - shrinkage)) / variance).powi(2)
}

/// `(c + σ²) s★² − (c + σ²) (s − s★)²`: what fitting the share `s` gains over fitting nothing.
fn improvement_of_mode(signal: f64, shrinkage: f64, noise: f64) -> f64 {
    shrinkage * (signal * (2.0 - shrinkage) - noise * shrinkage)
}

/// What an update is expected to gain over none.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Projection, Spectrum, risk::{Benchmark, prompt_benefit}};
///
/// // Fitting everything: good when signal dominates, bad when noise does.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let everything = Projection::of(&spectrum);
/// assert!(prompt_benefit(&spectrum, &everything, &Benchmark::new(2.0, 1.0)?).helps());
/// assert!(!prompt_benefit(&spectrum, &everything, &Benchmark::new(1.0, 2.0)?).helps());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benefit {
    /// The Bayes gap without an update: plain in-context learning.
    pub gap_icl: f64,
    /// The Bayes gap with it.
    pub gap_adapted: f64,
    /// The first minus the second, with its own digits: it keeps its sign where the two gaps
    /// agree to the last one.
    pub improvement: f64,
}

impl Benefit {
    /// Whether the update beats no update, strictly.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, NoUpdate, Spectrum, risk::{Benchmark, prompt_benefit}};
    ///
    /// let spectrum = Spectrum::of(&[vec![1.0]])?;
    /// let benchmark = Benchmark::new(2.0, 1.0)?;
    /// assert!(prompt_benefit(&spectrum, &benchmark, &benchmark).helps());
    /// assert!(!prompt_benefit(&spectrum, &NoUpdate, &benchmark).helps());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn helps(&self) -> bool {
        self.improvement > 0.0
    }
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
/// use fewstep_core::{Error, Projection, Spectrum, risk::{Benchmark, query_benefit}};
///
/// // q = 1, q★ = 3/4 and a = 4: the gap falls from 9/4 to 1/4.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let everything = Projection::of(&spectrum);
/// let benefit = query_benefit(&spectrum, &[1.0], &everything, &Benchmark::new(3.0, 1.0)?)?;
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

/// Whether an update helps on the prompt's own examples, and by how much.
///
/// ```text
/// Σ_i (τ²λ_i + σ²) {g(λ_i) − g★(λ_i)}² < Σ_i (τ²λ_i + σ²) g★(λ_i)²                (Cor. E.5)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Projection, Spectrum, risk::{Benchmark, prompt_benefit}};
///
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let everything = Projection::of(&spectrum);
/// let benefit = prompt_benefit(&spectrum, &everything, &Benchmark::new(3.0, 1.0)?);
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

/// The expected squared error of a shrinkage per mode, from second moments alone.
///
/// ```text
/// E‖Sr − f★‖² = Σ_i {c_i (1 − s_i)² + σ² s_i²},   c_i = Var(u_iᵀ f★)             (Prop. F.7)
/// ```
///
/// Nothing needs to be Gaussian, and the signal need not follow the kernel.
///
/// # Errors
///
/// [`Error::Empty`] without modes, [`Error::SizeMismatch`] unless there is one shrinkage per
/// mode, [`Error::NotFinite`] for a shrinkage that is no number, and [`Error::OutOfRange`] for
/// a signal variance under 0 or a noise variance that is not over 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::shrinkage_risk};
///
/// assert_eq!(shrinkage_risk(&[3.0, 8.0], &[1.0, 0.5], 1.0)?, 3.25);
/// # Ok::<(), Error>(())
/// ```
pub fn shrinkage_risk(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
) -> Result<f64, Error> {
    shrinkage_sum(signal_variances, shrinkages, noise_variance, risk_of_mode)
}

/// How much [`shrinkage_risk`] is over its minimum.
///
/// ```text
/// Σ_i (c_i + σ²) (s_i − s_i★)²                                                   (Prop. F.7)
/// ```
///
/// # Errors
///
/// As [`shrinkage_risk`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::shrinkage_excess};
///
/// // The optimum is 3/4: a quarter too much, on a variance of 4.
/// assert_eq!(shrinkage_excess(&[3.0], &[1.0], 1.0)?, 0.25);
/// # Ok::<(), Error>(())
/// ```
pub fn shrinkage_excess(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
) -> Result<f64, Error> {
    shrinkage_sum(signal_variances, shrinkages, noise_variance, excess_of_mode)
}

/// The one shrinkage per mode with the smallest [`shrinkage_risk`].
///
/// ```text
/// s_i★ = c_i/(c_i + σ²)                                                          (Prop. F.7)
/// ```
///
/// # Errors
///
/// [`Error::Empty`] without modes, and [`Error::OutOfRange`] for a signal variance under 0 or
/// a noise variance that is not over 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::optimal_shrinkages};
///
/// assert_eq!(optimal_shrinkages(&[3.0, 0.0], 1.0)?, [0.75, 0.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn optimal_shrinkages(
    signal_variances: &[f64],
    noise_variance: f64,
) -> Result<Vec<f64>, Error> {
    check_variances(signal_variances, noise_variance)?;
    Ok(signal_variances.iter().map(|signal| signal / (signal + noise_variance)).collect())
}

fn check_variances(signal_variances: &[f64], noise_variance: f64) -> Result<(), Error> {
    if signal_variances.is_empty() {
        return Err(Error::Empty { quantity: "signal variances" });
    }
    check_positive("noise variance", noise_variance)?;
    signal_variances
        .iter()
        .try_for_each(|&signal| check_not_negative("signal variance", signal))
}

fn shrinkage_sum(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
    function: impl Fn(f64, f64, f64) -> f64,
) -> Result<f64, Error> {
    check_variances(signal_variances, noise_variance)?;
    check_vector("shrinkages", shrinkages, signal_variances.len())?;
    let modes = signal_variances.iter().zip(shrinkages);
    Ok(modes.map(|(&signal, &shrinkage)| function(signal, shrinkage, noise_variance)).sum())
}

/// The Bayes gap of one shrinkage on a prompt whose kernel is a projector.
///
/// ```text
/// E‖aKr − f_Bayes‖² = m (τ² + σ²) (a − s)²,    s = τ²/(τ² + σ²) = 1/(1 + λ★)      (Prop. E.6)
/// ```
///
/// With all eigenvalues equal, "how far" is a single number `a`, and its best value moves with
/// the signal-to-noise ratio.
///
/// # Errors
///
/// [`Error::NotFinite`] for a shrinkage that is no number.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::{Benchmark, projector_gap}};
///
/// assert_eq!(projector_gap(2, 1.0, &Benchmark::new(1.0, 1.0)?)?, 1.0);
/// # Ok::<(), Error>(())
/// ```
pub fn projector_gap(rank: usize, shrinkage: f64, benchmark: &Benchmark) -> Result<f64, Error> {
    check_finite("shrinkage", &[shrinkage])?;
    let (signal, noise) = (benchmark.signal_variance, benchmark.noise_variance);
    Ok(rank as f64 * excess_of_mode(signal, shrinkage, noise))
}

/// What any fixed shrinkage must lose in one of two worlds, on a projector kernel.
///
/// ```text
/// max_j E_j‖aKr − f_Bayes,j‖² ≥ m min_j (τ_j² + σ_j²) {(s_1 − s_2)/2}²           (Prop. E.6)
/// ```
///
/// It is over 0 as soon as the two signal-to-noise ratios differ (and the kernel is not 0): the
/// number of steps has to follow the prompt.
///
/// Differs from the paper:
/// 1. The two worlds may differ in their noise, too; the proof does not use that it is shared.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::{Benchmark, separation_bound}};
///
/// // s = 1/2 and 3/4, variances 2 and 4: (1/8)² · 2.
/// let (weak, strong) = (Benchmark::new(1.0, 1.0)?, Benchmark::new(3.0, 1.0)?);
/// assert_eq!(separation_bound(1, &weak, &strong), 0.03125);
/// assert_eq!(separation_bound(1, &weak, &weak), 0.0);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn separation_bound(rank: usize, first: &Benchmark, second: &Benchmark) -> f64 {
    let (first_variance, second_variance) =
        (first.residual_variance(1.0), second.residual_variance(1.0));
    // s₁ − s₂ = s₁ (1 − s₂) − s₂ (1 − s₁), where 1 − s is known as well as s.
    let distance = (first.signal_variance / first_variance)
        * (second.noise_variance / second_variance)
        - (second.signal_variance / second_variance) * (first.noise_variance / first_variance);
    rank as f64 * first_variance.min(second_variance) * (distance / 2.0).powi(2)
}

/// The squared error on the prompt that no number of steps can remove.
///
/// ```text
/// inf_{f̂ ∈ S} ‖f̂ − f★‖² = ‖Π_S⊥ f★‖²                                   (Prop. 6.3, Prop. E.9)
/// ```
///
/// If it is large against the error itself, other blocks are needed, not more steps.
///
/// # Errors
///
/// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a target that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, risk::floor};
///
/// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 0.0]])?;
/// assert_eq!(floor(&spectrum, &[5.0, 7.0])?, 49.0);
/// # Ok::<(), Error>(())
/// ```
pub fn floor(spectrum: &Spectrum, target: &[f64]) -> Result<f64, Error> {
    check_vector("target", target, spectrum.examples())?;
    Ok(squared_norm(&spectrum.amounts(target)[spectrum.rank()..]))
}

/// A predictor's squared error, split into what it could have avoided and what nobody could.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::decompose};
///
/// let found = decompose(&[1.0, 1.0], &[0.0, 0.0], &[2.0, -2.0])?;
/// assert_eq!((found.gap.mean, found.posterior_variance.mean, found.risk.mean), (1.0, 4.0, 5.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decomposition {
    /// Mean squared error of the predictor.
    pub risk: Estimate,
    /// Mean squared distance between the predictor and the Bayes predictor.
    pub gap: Estimate,
    /// Mean squared error of the Bayes predictor.
    pub posterior_variance: Estimate,
    /// `2 (M − M_Bayes)(M_Bayes − Y)`: 0 in expectation. On these tasks
    /// `risk = gap + posterior_variance + cross` exactly, so many standard errors away from 0
    /// it says that the Bayes predictions are not what they are said to be.
    pub cross: Estimate,
}

/// Splits a predictor's error on simulated tasks, where the Bayes predictions are known.
///
/// ```text
/// E(M − Y)² = E(M − M_Bayes)² + E(M_Bayes − Y)²                                  (Prop. 2.1)
/// ```
///
/// The last term does not depend on the predictor: all that adapting can do is reduce the gap.
///
/// # Errors
///
/// [`Error::SizeMismatch`] unless there is one prediction, one Bayes prediction and one target
/// per task, [`Error::NotFinite`] for entries that are no numbers, and [`Error::OutOfRange`]
/// for fewer than two tasks, which have no standard error.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::decompose};
///
/// let found = decompose(&[0.5, 1.0], &[0.0, 1.0], &[1.0, 1.0])?;
/// assert_eq!(found.risk.mean, 0.125);
/// assert_eq!(found.gap.mean + found.posterior_variance.mean + found.cross.mean, 0.125);
/// # Ok::<(), Error>(())
/// ```
pub fn decompose(
    predictions: &[f64],
    bayes_predictions: &[f64],
    targets: &[f64],
) -> Result<Decomposition, Error> {
    let tasks = targets.len();
    if tasks < 2 {
        let (quantity, allowed) = ("number of tasks", "at least 2");
        return Err(Error::OutOfRange { quantity, found: tasks as f64, allowed });
    }
    check_size("predictions", predictions.len(), tasks)?;
    check_size("Bayes predictions", bayes_predictions.len(), tasks)?;
    for (quantity, values) in [
        ("predictions", predictions),
        ("Bayes predictions", bayes_predictions),
        ("targets", targets),
    ] {
        check_finite(quantity, values)?;
    }
    let estimate = |loss: fn(f64, f64, f64) -> f64| {
        let losses: Vec<f64> = (0..tasks)
            .map(|task| loss(predictions[task], bayes_predictions[task], targets[task]))
            .collect();
        Estimate::of(&losses)
    };
    Ok(Decomposition {
        risk: estimate(|prediction, _, target| (prediction - target).powi(2)),
        gap: estimate(|prediction, bayes, _| (prediction - bayes).powi(2)),
        posterior_variance: estimate(|_, bayes, target| (bayes - target).powi(2)),
        cross: estimate(|prediction, bayes, target| {
            2.0 * (prediction - bayes) * (bayes - target)
        }),
    })
}

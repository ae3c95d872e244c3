//! When adapting helps: how far a filter is from the best estimate there is, in expectation.
//!
//! Answers "when" (Sec. 5, App. E.3). In: a
//! [`Spectrum`](crate::Spectrum), the coupling to the query, a [`Filter`] and a [`Benchmark`]
//! that says how much signal and noise to expect.
//! Out: risks, gaps to the Bayes-optimal estimate, and whether the update beats none at all.
//!
//! The signal and noise levels are given here, not estimated: that is the evidence's work.

mod prompt;
mod query;

pub use prompt::{prompt_benefit, prompt_gap, prompt_risk};
pub use query::{mode_weights, query_benefit, query_gap, query_posterior_variance, query_risk};

use crate::checks::{check_not_negative, check_positive};
use crate::error::Error;
use crate::filter::Filter;

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
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, risk::Benchmark};
    /// assert_eq!(Benchmark::new(2.0, 1.0)?.residual_variance(3.0), 7.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn residual_variance(&self, eigenvalue: f64) -> f64 {
        self.signal_variance * eigenvalue + self.noise_variance
    }

    /// How far a filter's gain is from the best one in a mode:
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

/// The expected squared error in one mode of signal variance `c` that is shrunk to the share `s`.
///
/// ```text
/// c (1 − s)² + σ² s²                                                    (Thm. E.4, Prop. F.7)
/// ```
///
/// # Examples
///
/// ```
/// // Half of the signal is missed, and half of the noise is let in.
/// assert_eq!(fewstep_core::risk::risk_of_mode(4.0, 0.5, 1.0), 1.25);
/// ```
#[must_use]
pub fn risk_of_mode(signal: f64, shrinkage: f64, noise: f64) -> f64 {
    signal * (1.0 - shrinkage).powi(2) + noise * shrinkage.powi(2)
}

/// How much [`risk_of_mode`] is over its minimum, which is at the share `s★ = c/(c + σ²)`.
///
/// ```text
/// (c + σ²) (s − s★)²,    s − s★ = {σ² s − c (1 − s)} / (c + σ²)         (Thm. E.4, Prop. F.7)
/// ```
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::risk::excess_of_mode(3.0, 0.75, 1.0), 0.0);
/// assert_eq!(fewstep_core::risk::excess_of_mode(3.0, 1.0, 1.0), 0.25);
/// ```
#[must_use]
pub fn excess_of_mode(signal: f64, shrinkage: f64, noise: f64) -> f64 {
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
/// use fewstep_core::{BayesFilter, Error, Spectrum, risk::{Benchmark, prompt_benefit}};
///
/// // Fitting nearly everything: good when signal dominates, bad when noise does.
/// let spectrum = Spectrum::of(&[vec![1.0]])?;
/// let everything = BayesFilter::new(1e-9)?;
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

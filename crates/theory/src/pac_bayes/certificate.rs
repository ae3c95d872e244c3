//! One bound for all distributions over horizons at once.

use super::bounds::Bound;
use fewstep_core::Error;
use fewstep_core::checks::{check_fraction, check_positive, check_vector};
use fewstep_core::gibbs::{normalised_prior, normalised_weights, relative_entropy};
use fewstep_core::linear_algebra::dot;

/// A promise that holds for all distributions over candidates at once, with one confidence.
///
/// ```text
/// P( E_ν[X_T] ≤ {KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T]}/β   for all ν ) ≥ 1 − δ
///     if  E exp(β X_T) ≤ exp(ψ_T)  for all T                                       (Lem. E.11)
/// ```
///
/// Everything it holds must be chosen before data are seen; the distribution need not be.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, pac_bayes::Certificate};
///
/// // Two standard normal variables: ψ = β²/2. With all weight on one of them, at β = 2.
/// let certificate = Certificate::new(&[0.5, 0.5], &[2.0, 2.0], 2.0, 1, 0.9)?;
/// let slack = certificate.slack(&[1.0, 0.0])?;
/// assert!((slack - (20.0_f64.ln() + 2.0) / 2.0).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    prior: Vec<f64>,
    log_moments: Vec<f64>,
    inverse_temperature: f64,
    examples: usize,
    confidence: f64,
    cost: f64,
}

impl Certificate {
    /// A certificate from bounds `ψ_T(β)` on the log-moments of any variables.
    ///
    /// `examples` is the `n` by which they were multiplied, `X_T = n {𝓛(T) − ℓ_T}`; 1 if by none.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without candidates or examples, [`Error::SizeMismatch`],
    /// [`Error::NotFinite`] or [`Error::OutOfRange`] for numbers that do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::pac_bayes::Certificate;
    ///
    /// assert!(Certificate::new(&[1.0], &[0.5], 1.0, 1, 1.0).is_err());
    /// ```
    pub fn new(
        prior: &[f64],
        log_moments: &[f64],
        inverse_temperature: f64,
        examples: usize,
        confidence: f64,
    ) -> Result<Self, Error> {
        let prior = normalised_prior(prior, prior.len())?;
        check_vector("log-moments", log_moments, prior.len())?;
        check_positive("inverse temperature", inverse_temperature)?;
        if examples == 0 {
            return Err(Error::Empty { quantity: "prompt" });
        }
        let cost = log_inverse_failure(confidence)?;
        let log_moments = log_moments.to_vec();
        Ok(Self { prior, log_moments, inverse_temperature, examples, confidence, cost })
    }

    /// What is added to the average evidence under a distribution over the candidates:
    /// `{KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T]}/(βn)` for weights `ν`, which are divided by their sum.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::OutOfRange`] unless there is one weight of at least 0
    /// per candidate and one of them is over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, pac_bayes::Certificate};
    /// // The prior itself has no distance from itself: (log 10 + 2)/2.
    /// let certificate = Certificate::new(&[0.5, 0.5], &[2.0, 2.0], 2.0, 1, 0.9)?;
    /// assert!((certificate.slack(&[3.0, 3.0])? - (10.0_f64.ln() + 2.0) / 2.0).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn slack(&self, weights: &[f64]) -> Result<f64, Error> {
        let weights = normalised_weights(weights, self.prior.len())?;
        let distance = relative_entropy(&weights, &self.prior)?;
        Ok((distance + self.cost + dot(&weights, &self.log_moments))
            / (self.inverse_temperature * self.examples as f64))
    }

    /// The bound on the average population risk: the average evidence `E_ν[ℓ_T(r)]` plus the slack.
    ///
    /// # Errors
    ///
    /// As [`Certificate::slack`], and [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// evidence that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, pac_bayes::Certificate};
    /// // Four examples: (log 10 + 2)/8 more than the average evidence.
    /// let certificate = Certificate::new(&[0.5, 0.5], &[2.0, 2.0], 2.0, 4, 0.9)?;
    /// let bound = certificate.bound(&[0.5, 0.5], &[0.25, 0.75])?;
    /// assert!((bound.bound - (0.5 + (10.0_f64.ln() + 2.0) / 8.0)).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bound(&self, weights: &[f64], evidence: &[f64]) -> Result<Bound, Error> {
        check_vector("evidence", evidence, self.prior.len())?;
        let slack = self.slack(weights)?;
        let average = dot(&normalised_weights(weights, self.prior.len())?, evidence);
        Ok(Bound {
            bound: average + slack,
            slack,
            confidence: self.confidence,
            inverse_temperature: self.inverse_temperature,
        })
    }
}

/// `log(1/δ)` for the confidence `1 − δ`.
pub(super) fn log_inverse_failure(confidence: f64) -> Result<f64, Error> {
    check_fraction("confidence", confidence)?;
    Ok(-f64::ln_1p(-confidence))
}

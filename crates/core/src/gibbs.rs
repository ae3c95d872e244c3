//! A distribution over horizons: how much each number of steps is believed, not only which is best.
//!
//! Answers "how far" with a weight per candidate (Sec. 7, Rem. E.10). In: candidate horizons and
//! their negative log-evidence per example. Out: [`GibbsPosterior`], its most likely horizon, its
//! averages and the averaged filter. What the weights guarantee stands in
//! `fewstep_theory::pac_bayes`; nothing here looks at residuals.

use crate::checks::{
    check_horizons, check_not_negative, check_positive, check_size, check_vector,
};
use crate::error::Error;
use crate::filter::{GradientDescent, Mixture};
use crate::scalar::{SERIES, exponential_excess, logarithm_excess};
use crate::spectrum::StepSize;
use crate::vectors::dot;

/// Weights over candidate horizons: a prior, tilted towards horizons with good evidence.
///
/// ```text
/// ν_β(T | r) ∝ π₀(T) exp{−β n ℓ_T(r)}                                      (Sec. 7, Rem. E.10)
/// ```
///
/// A small inverse temperature `β` stays near the prior, a large one takes the best horizon
/// alone; `β = 1` is Bayes' rule. `ℓ` has Sec. 7's scale, so constants that all horizons share
/// do not matter, but a factor does: App. I's criteria are twice as large.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, gibbs::GibbsPosterior};
///
/// // Two examples; ℓ differs by (log 3)/2, so the second horizon is three times as likely.
/// let evidence = [3.0_f64.ln() / 2.0, 0.0];
/// let posterior = GibbsPosterior::new(&[0, 8], &evidence, 2, 1.0)?;
/// assert!((posterior.weights()[1] - 0.75).abs() < 1e-15);
/// assert_eq!(posterior.map(), 8);
/// assert!((posterior.mean_horizon() - 6.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GibbsPosterior {
    horizons: Vec<u32>,
    prior: Vec<f64>,
    weights: Vec<f64>,
    /// `log dν/dπ₀` per candidate.
    log_densities: Vec<f64>,
    best: usize,
}

impl GibbsPosterior {
    /// The posterior for a prior that likes all candidates equally.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without candidates or examples, [`Error::SizeMismatch`] or
    /// [`Error::NotFinite`] for evidence that does not fit, [`Error::OutOfRange`] for a horizon
    /// that is named twice or an inverse temperature that is not finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::gibbs::GibbsPosterior;
    ///
    /// assert!(GibbsPosterior::new(&[0, 1], &[0.5], 10, 1.0).is_err());
    /// ```
    pub fn new(
        horizons: &[u32],
        evidence: &[f64],
        examples: usize,
        inverse_temperature: f64,
    ) -> Result<Self, Error> {
        let prior = vec![1.0; horizons.len()];
        Self::with_prior(horizons, &prior, evidence, examples, inverse_temperature)
    }

    /// The posterior for any prior that excludes no candidate; it is divided by its sum.
    ///
    /// # Errors
    ///
    /// As [`GibbsPosterior::new`], and [`Error::SizeMismatch`] or [`Error::OutOfRange`] for a
    /// prior that does not have one number over 0 per candidate.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, gibbs::GibbsPosterior};
    ///
    /// // Equal evidence leaves the prior as it was.
    /// let posterior = GibbsPosterior::with_prior(&[0, 8], &[3.0, 1.0], &[0.2; 2], 10, 1.0)?;
    /// assert_eq!(posterior.weights(), [0.75, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_prior(
        horizons: &[u32],
        prior: &[f64],
        evidence: &[f64],
        examples: usize,
        inverse_temperature: f64,
    ) -> Result<Self, Error> {
        check_horizons(horizons)?;
        let prior = normalised_prior(prior, horizons.len())?;
        check_vector("evidence", evidence, horizons.len())?;
        if examples == 0 {
            return Err(Error::Empty { quantity: "prompt" });
        }
        check_positive("inverse temperature", inverse_temperature)?;

        let lowest = evidence.iter().copied().fold(f64::INFINITY, f64::min);
        let energies: Vec<f64> = evidence
            .iter()
            // In this order 0 stays 0, and what is too large has no weight.
            .map(|&value| inverse_temperature * (examples as f64 * (value - lowest)))
            .collect();
        let log_normaliser = log_normaliser(&prior, &energies);
        let log_densities: Vec<f64> = energies.iter().map(|e| -e - log_normaliser).collect();
        let best = most_likely(horizons, &prior, &energies);
        let mut weights: Vec<f64> =
            log_densities.iter().zip(&prior).map(|(x, p)| (x + p.ln()).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        Ok(Self { horizons: horizons.to_vec(), prior, weights, log_densities, best })
    }

    /// The candidate horizons, in the order in which they were given.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// assert_eq!(GibbsPosterior::new(&[4, 2], &[0.1; 2], 5, 1.0)?.horizons(), [4, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn horizons(&self) -> &[u32] {
        &self.horizons
    }

    /// `π₀(T)`: the prior weights, which sum to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// assert_eq!(GibbsPosterior::new(&[4, 2], &[0.1; 2], 5, 1.0)?.prior(), [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn prior(&self) -> &[f64] {
        &self.prior
    }

    /// `ν_β(T | r)`: the weights, which sum to 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// // Two million units of evidence apart: one horizon has all the weight, without overflow.
    /// let posterior = GibbsPosterior::new(&[0, 1], &[1e6, -1e6], 1000, 1.0)?;
    /// assert_eq!(posterior.weights(), [0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// `T_MAP`: the most likely horizon; of equally likely ones, the smallest.
    ///
    /// Under a uniform prior it is the horizon with the best evidence, at every temperature.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// assert_eq!(GibbsPosterior::new(&[9, 3, 5], &[0.1, 0.1, 0.4], 5, 1.0)?.map(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn map(&self) -> u32 {
        self.horizons[self.best]
    }

    /// `E_ν[T]`: the average horizon.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// assert_eq!(GibbsPosterior::new(&[0, 3], &[0.1; 2], 5, 1.0)?.mean_horizon(), 1.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn mean_horizon(&self) -> f64 {
        self.weights.iter().zip(&self.horizons).map(|(w, &t)| w * f64::from(t)).sum()
    }

    /// `E_ν[x_T]`: the average of anything that is known for each candidate horizon.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] unless there is one number per candidate.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// let posterior = GibbsPosterior::new(&[0, 3], &[0.1; 2], 5, 1.0)?;
    /// assert_eq!(posterior.expectation(&[10.0, 20.0])?, 15.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn expectation(&self, values: &[f64]) -> Result<f64, Error> {
        check_vector("values per horizon", values, self.horizons.len())?;
        Ok(dot(&self.weights, values))
    }

    /// The relative entropy of the weights from the prior, in nats.
    ///
    /// ```text
    /// KL(ν‖π₀) = Σ_T ν(T) log{ν(T)/π₀(T)}                                          (Lem. E.11)
    /// ```
    ///
    /// It is what a PAC-Bayes bound charges for choosing by the data. Summed from terms that are
    /// never negative, so that small values keep their digits.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, gibbs::GibbsPosterior};
    /// // All weight on one of two horizons: one bit.
    /// let posterior = GibbsPosterior::new(&[0, 3], &[0.0, 1e6], 5, 1.0)?;
    /// assert!((posterior.relative_entropy() - 2.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn relative_entropy(&self) -> f64 {
        // ν x − ν + π ≥ 0 with x = log(ν/π); the last two sum to 0 over all candidates.
        let pairs = self.weights.iter().zip(&self.prior);
        self.log_densities.iter().zip(pairs).map(|(&x, (&w, &p))| tilt_cost(x, w, p)).sum()
    }

    /// `Ḡ = E_ν[g_T(K)]`: the filter that averages over horizons instead of choosing one.
    ///
    /// ```text
    /// ḡ(λ) = Σ_T ν(T) g_T(λ)         q̄(λ) = Σ_T ν(T) q_T(λ)                           (Sec. 7)
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Filter, Spectrum, StepSize, gibbs::GibbsPosterior};
    ///
    /// // No step or two steps, each of which closes half of the gap: (0 + 0.75)/2.
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let posterior = GibbsPosterior::new(&[0, 2], &[0.3; 2], 1, 1.0)?;
    /// let filter = posterior.average(StepSize::new(0.125, &spectrum)?);
    /// assert_eq!(filter.response(4.0), 0.375);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn average(&self, step: StepSize) -> Mixture<GradientDescent> {
        let parts = self.weights.iter().zip(&self.horizons);
        Mixture::new(
            parts
                .map(|(&weight, &horizon)| (weight, GradientDescent { step, horizon }))
                .collect(),
        )
        .expect("the weights are probabilities and there is at least one")
    }
}

/// `log Σ π e^(−E)`, accurate also where it is close to 0.
fn log_normaliser(prior: &[f64], energies: &[f64]) -> f64 {
    let lost: f64 = prior.iter().zip(energies).map(|(p, e)| p * f64::exp_m1(-e)).sum();
    if lost > -0.5 {
        return lost.ln_1p();
    }
    let logs: Vec<f64> = prior.iter().zip(energies).map(|(p, e)| p.ln() - e).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + logs.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

/// The position with the largest `π e^(−E)`; of equal ones, the one with the smallest horizon.
fn most_likely(horizons: &[u32], prior: &[f64], energies: &[f64]) -> usize {
    let mut best = 0;
    for i in 1..horizons.len() {
        // Pairwise, so that a uniform prior drops out before anything is rounded.
        let lead = (prior[i].ln() - prior[best].ln()) - (energies[i] - energies[best]);
        if lead > 0.0 || (lead == 0.0 && horizons[i] < horizons[best]) {
            best = i;
        }
    }
    best
}

/// `ν x − ν + π ≥ 0` for `ν = π eˣ`, without cancellation near `x = 0`.
fn tilt_cost(x: f64, weight: f64, prior: f64) -> f64 {
    match weight > 0.0 {
        false => prior,
        true if x < -1.0 => weight * x - prior * x.exp_m1(),
        true => weight * exponential_excess(-x),
    }
}

/// How far a distribution over candidates is from a prior, in nats.
///
/// ```text
/// KL(ν‖π₀) = Σ_T ν(T) log{ν(T)/π₀(T)}                                              (Lem. E.11)
/// ```
///
/// Both are divided by their sums. It is 0 for the prior itself and `log |𝒯|` for a single
/// horizon under a uniform prior.
///
/// # Errors
///
/// [`Error::Empty`] without candidates, [`Error::SizeMismatch`] unless both have the same size,
/// and [`Error::OutOfRange`] for a negative weight, weights that are all 0, or a prior that is
/// not over 0 everywhere.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, gibbs::relative_entropy};
///
/// let single = relative_entropy(&[0.0, 1.0, 0.0, 0.0], &[0.25; 4])?;
/// assert!((single - 4.0_f64.ln()).abs() < 1e-15);
/// assert_eq!(relative_entropy(&[0.3, 0.7], &[0.3, 0.7])?, 0.0);
/// # Ok::<(), Error>(())
/// ```
pub fn relative_entropy(weights: &[f64], prior: &[f64]) -> Result<f64, Error> {
    let prior = normalised_prior(prior, prior.len())?;
    let weights = normalised_weights(weights, prior.len())?;
    Ok(weights.iter().zip(&prior).map(|(w, p)| p * density_cost((w - p) / p)).sum())
}

/// A candidate's part of the relative entropy, `(1 + u) log(1 + u) − u ≥ 0`.
fn density_cost(u: f64) -> f64 {
    if u <= -1.0 {
        1.0
    } else if u.abs() < SERIES {
        u * u - (1.0 + u) * logarithm_excess(u)
    } else {
        (1.0 + u) * u.ln_1p() - u
    }
}

/// A prior with full support, divided by its sum.
///
/// # Errors
///
/// [`Error::Empty`] without candidates, [`Error::SizeMismatch`] unless there is one weight per
/// candidate, and [`Error::OutOfRange`] for a weight that is not over 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, gibbs::normalised_prior};
///
/// assert_eq!(normalised_prior(&[3.0, 1.0], 2)?, [0.75, 0.25]);
/// assert!(normalised_prior(&[3.0, 0.0], 2).is_err());
/// # Ok::<(), Error>(())
/// ```
pub fn normalised_prior(prior: &[f64], candidates: usize) -> Result<Vec<f64>, Error> {
    for &weight in prior {
        check_positive("prior weight", weight)?;
    }
    let prior = normalised("prior", prior, candidates)?;
    for &weight in &prior {
        // A share too small to be represented would exclude its candidate.
        check_positive("prior weight", weight)?;
    }
    Ok(prior)
}

/// Weights that are not negative, divided by their sum.
///
/// # Errors
///
/// [`Error::Empty`] without candidates, [`Error::SizeMismatch`] unless there is one weight per
/// candidate, and [`Error::OutOfRange`] for a negative weight or weights that are all 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, gibbs::normalised_weights};
///
/// assert_eq!(normalised_weights(&[3.0, 0.0, 1.0], 3)?, [0.75, 0.0, 0.25]);
/// assert!(normalised_weights(&[0.0, 0.0], 2).is_err());
/// # Ok::<(), Error>(())
/// ```
pub fn normalised_weights(weights: &[f64], candidates: usize) -> Result<Vec<f64>, Error> {
    for &weight in weights {
        check_not_negative("posterior weight", weight)?;
    }
    normalised("posterior weights", weights, candidates)
}

fn normalised(
    quantity: &'static str,
    weights: &[f64],
    candidates: usize,
) -> Result<Vec<f64>, Error> {
    check_size(quantity, weights.len(), candidates)?;
    if weights.is_empty() {
        return Err(Error::Empty { quantity });
    }
    let sum: f64 = weights.iter().sum();
    check_positive("sum of the weights", sum)?;
    Ok(weights.iter().map(|weight| weight / sum).collect())
}

//! What choosing a horizon by evidence guarantees, if residuals follow a reference law.
//!
//! Answers "does tuning the number of steps on the prompt overfit it?" (Sec. 7, App. E). In:
//! [`EvidenceFamily`], the laws that candidate horizons imply, and a [`Reference`] law. Out:
//! [`PacBayes`], bounds on the population evidence and on the Bayes gap, and [`Certificate`], a
//! bound that holds for all distributions over horizons at once. Bounds are on evidence, not on
//! the error at a query. Nothing here looks at residuals; evidence comes in as numbers.
//!
//! # Differs from the paper
//!
//! 1. Cor. E.14 lets every distribution `ν` choose its own temperature on an event that
//!    Lem. E.13 grants for one temperature. That needs `KL(ν‖π₀)` to be known in advance: it is
//!    for single horizons under a uniform prior (Thm. 7.2), not for a `ν` that depends on
//!    residuals. Here the temperature is fixed first, from a budget for `KL`
//!    ([`PacBayes::rate_certificate`]), and holds for every `ν` after that.
//! 2. For single horizons each may have its own temperature, by a union bound:
//!    `P(n{𝓛(T) − ℓ_T} > s_T) ≤ π₀(T) δ`. So the rate form holds for every prior, with
//!    `log{1/π₀(T)}` for `log |𝒯|`, and [`PacBayes::exact_bound`] uses the exact moments.
//! 3. Lem. E.16, Lem. E.17 and Thm. E.19 assume `Σ★ = τ²K + σ²I`. They hold for every
//!    `Σ★ ⪰ σ²I`, aligned with the kernel or not, with the Bayes fit `(I − σ²Σ★⁻¹) r`. They
//!    fail if the reference has less noise than the candidates; that is refused.
//! 4. `Σ★ = Σ_T` (the well-specified case of Thm. E.19) is possible with `Σ★ = τ²K + σ²I` only
//!    if all nonzero eigenvalues of `K` are equal; with [`Reference::Horizon`] it always is.

use crate::error::{
    Error, check_finite, check_fraction, check_not_negative, check_positive, check_size,
    check_vector,
};
use crate::filter::decay_rate;
use crate::gibbs::{
    SERIES, check_horizons, excess, log_excess, normalised_prior, normalised_weights,
    relative_entropy,
};
use crate::linalg::{self, dot, squared_norm};
use crate::matrix::Matrix;
use crate::spectrum::{Spectrum, StepSize};

/// The laws of the residuals that candidate horizons imply, for one noise variance.
///
/// ```text
/// r | T ~ N(0, Σ_T),   Σ_T = σ² (I − ρK)^(−T),   T ∈ 𝒯                                (Sec. 7)
/// ```
///
/// The noise variance must not depend on the residuals: bounds do not cover one that is
/// estimated anew for each horizon.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize, pac_bayes::EvidenceFamily};
///
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let step = StepSize::new(0.125, &spectrum)?;
/// assert!(EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1, 2]).is_ok());
/// assert!(EvidenceFamily::new(&spectrum, step, 1.0, &[]).is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EvidenceFamily<'a> {
    spectrum: &'a Spectrum,
    /// `c_i = −log(1 − ρλ_i)`, one per mode.
    rates: Vec<f64>,
    noise_variance: f64,
    horizons: Vec<u32>,
}

impl<'a> EvidenceFamily<'a> {
    /// The family of some candidate horizons.
    ///
    /// # Errors
    ///
    /// [`Error::StepTooLarge`] if the step is not stable for this spectrum,
    /// [`Error::OutOfRange`] for a noise variance that is not finite and over 0 or a horizon that
    /// is named twice, and [`Error::Empty`] without candidates.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize, pac_bayes::EvidenceFamily};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let step = StepSize::new(0.125, &spectrum)?;
    /// assert!(EvidenceFamily::new(&spectrum, step, 0.0, &[0, 1]).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        spectrum: &'a Spectrum,
        step: StepSize,
        noise_variance: f64,
        horizons: &[u32],
    ) -> Result<Self, Error> {
        step.check(spectrum)?;
        check_positive("noise variance", noise_variance)?;
        check_horizons(horizons)?;
        let rates =
            spectrum.eigenvalues().iter().map(|&value| decay_rate(step, value)).collect();
        Ok(Self { spectrum, rates, noise_variance, horizons: horizons.to_vec() })
    }
}

/// The law that residuals are taken to follow, `r ~ N(0, Σ★)` (Assumption 7.1).
///
/// # Examples
///
/// ```
/// use fewstep_core::pac_bayes::Reference;
///
/// let fitted = Reference::Benchmark { signal_variance: 0.5, noise_variance: 1.0 };
/// assert_ne!(fitted, Reference::Horizon(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reference<'a> {
    /// `Σ★ = τ²K + σ★²I`: the Gaussian benchmark of Sec. 5.
    Benchmark {
        /// `τ²`: at least 0.
        signal_variance: f64,
        /// `σ★²`: over 0; the family's own noise variance wherever Bayes gaps are bounded.
        noise_variance: f64,
    },
    /// `Σ★ = Σ_T`: what one horizon implies. Evidence is well specified then.
    Horizon(u32),
    /// Any positive definite `Σ★`; costs one eigendecomposition per candidate.
    Covariance(&'a Matrix),
}

/// A bound on the population risk that holds with a stated confidence.
///
/// # Examples
///
/// ```
/// use fewstep_core::pac_bayes::Bound;
///
/// let bound = Bound { bound: 0.9, slack: 0.8, confidence: 0.95, inverse_temperature: 1.2 };
/// assert!(bound.slack < bound.bound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Evidence plus slack: the population risk is at most this.
    pub bound: f64,
    /// What is added to the evidence.
    pub slack: f64,
    /// `1 − δ`: how often the bound holds, at least.
    pub confidence: f64,
    /// `β`: the inverse temperature at which it was derived.
    pub inverse_temperature: f64,
}

/// A bound on the normalised Bayes gap before residuals are seen, in its four terms.
///
/// ```text
/// bound = 4σ² (approximation + selection + fluctuation + tail)                     (Thm. E.19)
/// ```
///
/// # Examples
///
/// See [`PacBayes::vanishing_gap`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VanishingGap {
    /// `α_n = KL(N(0, Σ★) ‖ N(0, Σ_T★))/n`: how well the comparator fits the reference.
    pub approximation: f64,
    /// `√(v̄ (log |𝒯| + log 1/δ)/n)`: the price of choosing.
    pub selection: f64,
    /// `√(v_T★ log(1/δ)/n)`: the comparator's evidence fluctuates.
    pub fluctuation: f64,
    /// `‖A_T★‖ log(1/δ)/n`: its largest mode may fluctuate more.
    pub tail: f64,
    /// `4σ²` times their sum.
    pub bound: f64,
    /// `1 − 2δ`: how often the bound holds, at least.
    pub confidence: f64,
}

/// One candidate horizon against the reference.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    horizon: u32,
    /// Eigenvalues of `A_T`.
    ratios: Vec<f64>,
    /// `KL(N(0, Σ★) ‖ N(0, Σ_T))`.
    relative_entropy: f64,
    /// `𝓛(T | K)`.
    risk: f64,
}

impl Candidate {
    /// `v_T = tr(A_T²)/n`.
    fn variance(&self) -> f64 {
        squared_norm(&self.ratios) / self.ratios.len() as f64
    }

    /// `‖A_T‖`.
    fn largest(&self) -> f64 {
        self.ratios.iter().copied().fold(0.0, f64::max)
    }

    /// `ψ_T(β) = Σ {βa_i − log(1 + βa_i)}/2`.
    fn log_moment(&self, inverse_temperature: f64) -> f64 {
        0.5 * self.ratios.iter().map(|a| excess(inverse_temperature * a)).sum::<f64>()
    }

    /// The `β` that minimises `{cost + ψ_T(β)}/β`, by bisection on `β ψ'(β) − ψ(β) = cost`.
    fn best_temperature(&self, cost: f64) -> f64 {
        let spent = |beta: f64| -> f64 {
            let used = |u: f64| if u.is_finite() { u.ln_1p() - u / (1.0 + u) } else { 710.0 };
            0.5 * self.ratios.iter().map(|a| used(beta * a)).sum::<f64>()
        };
        // The left side is at most β² tr(A²)/4, so the root lies above this.
        let floor = f64::MIN_POSITIVE;
        let mut low = 2.0 * (cost / squared_norm(&self.ratios).max(floor)).sqrt();
        let mut high = low;
        while spent(high) < cost && high < 1e150 {
            low = high;
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if spent(middle) < cost {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

/// Candidate horizons measured against a reference law: everything that the bounds are made of.
///
/// ```text
/// A_T = Σ★^(1/2) Σ_T⁻¹ Σ★^(1/2),    v_T = tr(A_T²)/n,    v̄ = max_T v_T               (Thm. 7.2)
/// ```
///
/// Costs `O(n |𝒯|)` for a reference that shares the kernel's modes. Vectors over candidates are
/// in the order of the family's horizons.
///
/// # Examples
///
/// ```
/// use fewstep_core::{
///     Error, Spectrum, StepSize,
///     pac_bayes::{EvidenceFamily, PacBayes, Reference},
/// };
///
/// // One example, σ² = 1. No step says variance 1, one step says 2, and the truth is 2.
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let family = EvidenceFamily::new(&spectrum, StepSize::new(0.125, &spectrum)?, 1.0, &[0, 1])?;
/// let truth = Reference::Benchmark { signal_variance: 0.25, noise_variance: 1.0 };
/// let bounds = PacBayes::new(&family, truth)?;
/// assert!((bounds.variances()[0] - 4.0).abs() < 1e-14);
/// assert!((bounds.variances()[1] - 1.0).abs() < 1e-14);
///
/// // Whichever horizon is chosen, and however: its population risk is at most this.
/// let bound = bounds.bound(1, 0.8, 0.95)?;
/// assert!((bound.slack - (4.0 * 40.0_f64.ln()).sqrt()).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PacBayes {
    examples: usize,
    noise_variance: f64,
    candidates: Vec<Candidate>,
    prior: Vec<f64>,
    true_risk: f64,
    /// The smallest eigenvalue of `Σ★/σ²`, with rounding given the benefit of the doubt.
    smallest_reference: f64,
}

impl PacBayes {
    /// Measures every candidate against the reference, under a uniform prior.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for variances that are not finite and over 0 (a signal variance may
    /// be 0), a covariance that is not positive definite, or ratios too large to be represented;
    /// [`Error::SizeMismatch`] or [`Error::NotSymmetric`] for a covariance that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let noiseless = Reference::Benchmark { signal_variance: 1.0, noise_variance: 0.0 };
    /// assert!(PacBayes::new(&family, noiseless).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(family: &EvidenceFamily<'_>, reference: Reference<'_>) -> Result<Self, Error> {
        let measured = match reference {
            Reference::Benchmark { signal_variance, noise_variance } => {
                check_not_negative("signal variance", signal_variance)?;
                check_positive("noise variance", noise_variance)?;
                let noise = (noise_variance / family.noise_variance).ln();
                let signal = signal_variance / noise_variance;
                let eigenvalues = family.spectrum.eigenvalues().iter();
                aligned(family, eigenvalues.map(|l| noise + (signal * l).ln_1p()).collect())
            }
            Reference::Horizon(horizon) => {
                let steps = f64::from(horizon);
                aligned(family, family.rates.iter().map(|rate| steps * rate).collect())
            }
            Reference::Covariance(covariance) => general(family, covariance)?,
        };
        let largest = measured.candidates.iter().map(Candidate::variance);
        check_finite("variances of the candidates", &largest.collect::<Vec<_>>())?;
        Ok(measured)
    }

    /// The same with a prior that excludes no candidate; it is divided by its sum.
    ///
    /// It must be chosen before residuals are seen. Bounds for a single horizon charge
    /// `log{1/π₀(T)}` for it.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::OutOfRange`] unless there is one number over 0 per
    /// candidate.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let bounds = PacBayes::new(&family, Reference::Horizon(0))?.with_prior(&[9.0, 1.0])?;
    /// assert!(bounds.bound(0, 0.5, 0.9)?.slack < bounds.bound(1, 0.5, 0.9)?.slack);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_prior(mut self, prior: &[f64]) -> Result<Self, Error> {
        self.prior = normalised_prior(prior, self.candidates.len())?;
        Ok(self)
    }

    /// The eigenvalues of `A_T`, one list per candidate, in no particular order.
    ///
    /// A candidate that is the truth has ones alone.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// assert_eq!(bounds.ratios(), [[2.0], [1.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn ratios(&self) -> Vec<&[f64]> {
        self.candidates.iter().map(|candidate| candidate.ratios.as_slice()).collect()
    }

    /// `v_T = tr(A_T²)/n`: how much the evidence of each candidate fluctuates.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// assert_eq!(PacBayes::new(&family, Reference::Horizon(1))?.variances(), [4.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn variances(&self) -> Vec<f64> {
        self.candidates.iter().map(Candidate::variance).collect()
    }

    /// `v̄ = max_T v_T`; what is too small to be represented counts as the smallest number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// assert_eq!(PacBayes::new(&family, Reference::Horizon(1))?.largest_variance(), 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn largest_variance(&self) -> f64 {
        self.variances().into_iter().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// `‖A_T‖`: how much the worst mode fluctuates, for each candidate.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// assert_eq!(PacBayes::new(&family, Reference::Horizon(1))?.operator_norms(), [2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn operator_norms(&self) -> Vec<f64> {
        self.candidates.iter().map(Candidate::largest).collect()
    }

    /// The negative log-evidence per example that each candidate has on average over residuals.
    ///
    /// ```text
    /// 𝓛(T | K) = E[ℓ_T(r)] = (1/2n) {log det Σ_T + tr(Σ_T⁻¹ Σ★)}                       (Sec. 7)
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let risks = PacBayes::new(&family, Reference::Horizon(1))?.population_risks();
    /// assert_eq!(risks, [1.0, (2.0_f64.ln() + 1.0) / 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn population_risks(&self) -> Vec<f64> {
        self.candidates.iter().map(|candidate| candidate.risk).collect()
    }

    /// `𝓛_true = (1/2n) {log det Σ★ + n}`: the smallest average that any law could have.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// assert_eq!(bounds.true_risk(), bounds.population_risks()[1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn true_risk(&self) -> f64 {
        self.true_risk
    }

    /// How far the reference law is from the law of each candidate, in nats.
    ///
    /// ```text
    /// KL(N(0, Σ★) ‖ N(0, Σ_T)) = n {𝓛(T | K) − 𝓛_true}                             (Lem. E.16)
    /// ```
    ///
    /// For a reference that shares the kernel's modes it is summed from terms that are never
    /// negative and keeps its digits however small it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let entropies = PacBayes::new(&family, Reference::Horizon(1))?.relative_entropies();
    /// assert!((entropies[0] - (1.0 - 2.0_f64.ln()) / 2.0).abs() < 1e-15);
    /// assert_eq!(entropies[1], 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn relative_entropies(&self) -> Vec<f64> {
        self.candidates.iter().map(|candidate| candidate.relative_entropy).collect()
    }

    /// How likely evidence is to look too good, for each candidate: a log-moment, exactly.
    ///
    /// ```text
    /// ψ_T(β) = log E exp{(β/2)(tr A_T − ZᵀA_T Z)} = (β/2) tr A_T − ½ log det(I + βA_T)
    ///        ≤ (β²/4) tr A_T²                                                      (Lem. E.12)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the inverse temperature is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[1])?;
    /// // A = 1 and β = 3.
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// assert!((bounds.log_moments(3.0)?[0] - (1.5 - 4.0_f64.ln() / 2.0)).abs() < 1e-15);
    /// assert_eq!(bounds.log_moment_bounds(3.0)?, [2.25]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn log_moments(&self, inverse_temperature: f64) -> Result<Vec<f64>, Error> {
        check_positive("inverse temperature", inverse_temperature)?;
        Ok(self.candidates.iter().map(|it| it.log_moment(inverse_temperature)).collect())
    }

    /// `(β²/4) tr(A_T²)`: the bound of Lem. E.12 on [`PacBayes::log_moments`].
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the inverse temperature is finite and over 0.
    ///
    /// # Examples
    ///
    /// See [`PacBayes::log_moments`].
    pub fn log_moment_bounds(&self, inverse_temperature: f64) -> Result<Vec<f64>, Error> {
        check_positive("inverse temperature", inverse_temperature)?;
        let factor = inverse_temperature * inverse_temperature / 4.0;
        Ok(self.candidates.iter().map(|it| factor * squared_norm(&it.ratios)).collect())
    }

    /// A bound for every distribution over horizons at once, at one inverse temperature.
    ///
    /// ```text
    /// E_ν[𝓛(T | K)] ≤ E_ν[ℓ_T(r)] + {KL(ν‖π₀) + log(1/δ)}/(βn) + (β/4) v̄           (Lem. E.13)
    /// ```
    ///
    /// Temperature and confidence must be chosen before residuals are seen; `ν` need not.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the inverse temperature is finite and over 0 and the
    /// confidence strictly between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// // n = 1, β = 1, v̄ = 4; the prior itself costs nothing.
    /// let certificate = PacBayes::new(&family, Reference::Horizon(1))?.certificate(1.0, 0.9)?;
    /// let bound = certificate.bound(&[0.5, 0.5], &[0.6, 0.8])?;
    /// assert!((bound.slack - (10.0_f64.ln() + 1.0)).abs() < 1e-14);
    /// assert!((bound.bound - (0.7 + bound.slack)).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn certificate(
        &self,
        inverse_temperature: f64,
        confidence: f64,
    ) -> Result<Certificate, Error> {
        let moment = inverse_temperature * inverse_temperature / 4.0
            * self.examples as f64
            * self.largest_variance();
        let moments = vec![moment; self.candidates.len()];
        Certificate::new(&self.prior, &moments, inverse_temperature, self.examples, confidence)
    }

    /// The same bound with exact moments instead of `v̄`: never looser, and often much tighter.
    ///
    /// ```text
    /// E_ν[𝓛(T | K)] ≤ E_ν[ℓ_T(r)] + {KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T(β)]}/(βn)
    ///                                                                (Lem. E.11 with Lem. E.12)
    /// ```
    ///
    /// # Errors
    ///
    /// As [`PacBayes::certificate`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// let (exact, paper) = (bounds.exact_certificate(1.0, 0.9)?, bounds.certificate(1.0, 0.9)?);
    /// let (weights, evidence) = ([0.5, 0.5], [0.6, 0.8]);
    /// assert!(exact.bound(&weights, &evidence)?.slack < paper.bound(&weights, &evidence)?.slack);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn exact_certificate(
        &self,
        inverse_temperature: f64,
        confidence: f64,
    ) -> Result<Certificate, Error> {
        let moments = self.log_moments(inverse_temperature)?;
        Certificate::new(&self.prior, &moments, inverse_temperature, self.examples, confidence)
    }

    /// The certificate at the best temperature for distributions up to a stated distance from
    /// the prior.
    ///
    /// ```text
    /// β = 2 √({B + log(1/δ)}/(n v̄)),   slack ≤ √(v̄ {B + log(1/δ)}/n)   if KL(ν‖π₀) ≤ B
    ///                                                                              (Cor. E.14)
    /// ```
    ///
    /// The budget `B` is chosen before residuals are seen; `log |𝒯|` covers every distribution
    /// under a uniform prior. A `ν` beyond the budget is still covered, by Lem. E.13, with a
    /// larger slack.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the budget is finite and at least 0 and the confidence
    /// strictly between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// // n = 1, v̄ = 4, log 2 + log 10 = log 20.
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// let certificate = bounds.rate_certificate(2.0_f64.ln(), 0.9)?;
    /// let bound = certificate.bound(&[1.0, 0.0], &[0.6, 0.8])?;
    /// assert!((bound.slack - (4.0 * 20.0_f64.ln()).sqrt()).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rate_certificate(&self, budget: f64, confidence: f64) -> Result<Certificate, Error> {
        check_not_negative("budget for the relative entropy", budget)?;
        let cost = budget + log_inverse_failure(confidence)?;
        self.certificate(self.rate_temperature(cost), confidence)
    }

    /// `β = 2 √(cost/(n v̄))`.
    fn rate_temperature(&self, cost: f64) -> f64 {
        2.0 * (cost / (self.examples as f64 * self.largest_variance())).sqrt()
    }

    /// `√(v̄ cost/n)`.
    fn rate(&self, cost: f64) -> f64 {
        (self.largest_variance() * cost / self.examples as f64).sqrt()
    }

    /// A bound for a chosen horizon, however it was chosen from the candidates.
    ///
    /// ```text
    /// 𝓛(T | K) ≤ ℓ_T(r) + √(v̄ {log |𝒯| + log(1/δ)}/n)   for all T ∈ 𝒯 at once       (Thm. 7.2)
    /// ```
    ///
    /// `T_MAP` is the usual choice. With a prior of its own, `log{1/π₀(T)}` takes the place of
    /// `log |𝒯|`. `evidence` is `ℓ_T(r)` of the chosen horizon, in Sec. 7's scale and with the
    /// family's noise variance.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a horizon that is no candidate or a confidence that is not
    /// strictly between 0 and 1; [`Error::NotFinite`] for evidence that is no number.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// // n = 1, v̄ = 4, log 2 + log 10 = log 20.
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// let bound = bounds.bound(0, 0.6, 0.9)?;
    /// assert!((bound.slack - (4.0 * 20.0_f64.ln()).sqrt()).abs() < 1e-14);
    /// assert!(bounds.bound(7, 0.6, 0.9).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bound(&self, horizon: u32, evidence: f64, confidence: f64) -> Result<Bound, Error> {
        let cost = self.cost(horizon, evidence, confidence)?;
        let slack = self.rate(cost);
        let inverse_temperature = self.rate_temperature(cost);
        Ok(Bound { bound: evidence + slack, slack, confidence, inverse_temperature })
    }

    /// The tightest such bound that exact moments give, at the best temperature per horizon.
    ///
    /// ```text
    /// 𝓛(T | K) ≤ ℓ_T(r) + min_β {log(1/π₀(T)) + log(1/δ) + ψ_T(β)}/(βn)   for all T at once
    /// ```
    ///
    /// It is never looser than [`PacBayes::bound`] and at most `tr(A_T)/(2n)`, which evidence
    /// cannot undercut: where `n` is small it can be several times smaller.
    ///
    /// # Errors
    ///
    /// As [`PacBayes::bound`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// assert!(bounds.exact_bound(1, 0.6, 0.9)?.slack < 0.5);
    /// assert!(bounds.bound(1, 0.6, 0.9)?.slack > 3.4);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn exact_bound(
        &self,
        horizon: u32,
        evidence: f64,
        confidence: f64,
    ) -> Result<Bound, Error> {
        let cost = self.cost(horizon, evidence, confidence)?;
        let candidate = &self.candidates[self.position(horizon)?];
        let inverse_temperature = candidate.best_temperature(cost);
        let slack = (cost + candidate.log_moment(inverse_temperature))
            / (inverse_temperature * self.examples as f64);
        Ok(Bound { bound: evidence + slack, slack, confidence, inverse_temperature })
    }

    /// `log{1/π₀(T)} + log(1/δ)`.
    fn cost(&self, horizon: u32, evidence: f64, confidence: f64) -> Result<f64, Error> {
        let position = self.position(horizon)?;
        check_finite("evidence", &[evidence])?;
        Ok(log_inverse_failure(confidence)? - self.prior[position].ln())
    }

    fn position(&self, horizon: u32) -> Result<usize, Error> {
        let found = self.candidates.iter().position(|it| it.horizon == horizon);
        found.ok_or(Error::OutOfRange {
            quantity: "horizon",
            found: f64::from(horizon),
            allowed: "one of the candidates",
        })
    }

    /// How far the evidence of each candidate may lie above its average, for one of them.
    ///
    /// ```text
    /// ℓ_T(r) ≤ 𝓛(T | K) + √(v_T log(1/δ)/n) + ‖A_T‖ log(1/δ)/n                     (Lem. E.18)
    /// ```
    ///
    /// Each holds with the confidence by itself, not all at once.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the confidence is strictly between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[1])?;
    /// // log(1/δ) = 4 up to rounding: √4 + 4.
    /// let bounds = PacBayes::new(&family, Reference::Horizon(1))?;
    /// let deviation = bounds.upper_deviations(1.0 - (-4.0_f64).exp())?[0];
    /// assert!((deviation - 6.0).abs() < 1e-13);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn upper_deviations(&self, confidence: f64) -> Result<Vec<f64>, Error> {
        let cost = log_inverse_failure(confidence)?;
        Ok(self
            .candidates
            .iter()
            .map(|it| {
                let (fluctuation, tail) = self.deviation(it, cost);
                fluctuation + tail
            })
            .collect())
    }

    /// The two terms of Lem. E.18.
    fn deviation(&self, candidate: &Candidate, cost: f64) -> (f64, f64) {
        let share = cost / self.examples as f64;
        ((candidate.variance() * share).sqrt(), candidate.largest() * share)
    }

    /// How far the fit of each candidate can be from the Bayes fit, from evidence alone.
    ///
    /// ```text
    /// Gap_n(T | K) = E‖f̂_T − f_Bayes‖²/n ≤ 4σ² KL(N(0, Σ★) ‖ N(0, Σ_T))/n          (Lem. E.16)
    /// ```
    ///
    /// Horizons whose law is close to the reference predict almost as well as Bayes does.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if the reference has less variance in some direction than the
    /// family's noise: the inequality is not true then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0, 1])?;
    /// // Bayes fits half; no step fits nothing: the gap is 2 · (1/2)² = 0.5.
    /// let gaps = PacBayes::new(&family, Reference::Horizon(1))?.gap_from_evidence()?;
    /// assert!((gaps[0] - 2.0 * (1.0 - 2.0_f64.ln())).abs() < 1e-15);
    /// assert!(gaps[0] > 0.5);
    /// assert_eq!(gaps[1], 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn gap_from_evidence(&self) -> Result<Vec<f64>, Error> {
        let factor = self.gap_factor()? / self.examples as f64;
        Ok(self.candidates.iter().map(|it| factor * it.relative_entropy).collect())
    }

    /// `4σ²`, once `Σ★ ⪰ σ²I` is known.
    fn gap_factor(&self) -> Result<f64, Error> {
        if self.smallest_reference < 1.0 {
            return Err(Error::OutOfRange {
                quantity: "smallest variance of the reference relative to the noise variance",
                found: self.smallest_reference,
                allowed: "at least 1",
            });
        }
        Ok(4.0 * self.noise_variance)
    }

    /// A bound on the normalised Bayes gap of the horizon with the best evidence.
    ///
    /// ```text
    /// Gap_n(T̂ | K) ≤ 4σ² (min_T ℓ_T(r) − 𝓛_true + √(v̄ {log |𝒯| + log(1/δ)}/n))
    ///                                                                              (Lem. E.17)
    /// ```
    ///
    /// `evidence` has one entry per candidate; ties go to the smaller horizon.
    ///
    /// # Errors
    ///
    /// As [`PacBayes::gap_from_evidence`], [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// evidence that does not fit, [`Error::OutOfRange`] unless the confidence is strictly
    /// between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0])?;
    /// // n = 1, Σ★ = Σ_0 = 1, 𝓛_true = 1/2, v̄ = 1.
    /// let bounds = PacBayes::new(&family, Reference::Horizon(0))?;
    /// let gap = bounds.gap_bound(&[0.6], 0.9)?;
    /// assert!((gap - 4.0 * (0.1 + 10.0_f64.ln().sqrt())).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn gap_bound(&self, evidence: &[f64], confidence: f64) -> Result<f64, Error> {
        check_vector("evidence", evidence, self.candidates.len())?;
        let (horizon, lowest) = self
            .candidates
            .iter()
            .zip(evidence)
            .map(|(candidate, &value)| (candidate.horizon, value))
            .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
            .expect("there is at least one candidate");
        let slack = self.bound(horizon, lowest, confidence)?.slack;
        Ok(self.gap_factor()? * (lowest - self.true_risk + slack))
    }

    /// A bound on the same gap that needs no residuals and goes to 0 as the prompt grows.
    ///
    /// ```text
    /// Gap_n(T̂ | K) ≤ 4σ² (α_n + √(v̄ {log |𝒯| + log(1/δ)}/n)
    ///                     + √(v_T★ log(1/δ)/n) + ‖A_T★‖ log(1/δ)/n)                (Thm. E.19)
    /// ```
    ///
    /// It holds for any comparator `T★` among the candidates that is fixed in advance, with the
    /// confidence `1 − 2δ`, which is the argument here. With a prior of its own, the smallest
    /// `π₀(T)` stands for `1/|𝒯|`.
    ///
    /// # Errors
    ///
    /// As [`PacBayes::gap_from_evidence`], and [`Error::OutOfRange`] for a comparator that is no
    /// candidate or a confidence that is not strictly between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_core::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[1])?;
    /// // The only candidate is the truth; log(1/δ) = log 20.
    /// let gap = PacBayes::new(&family, Reference::Horizon(1))?.vanishing_gap(1, 0.9)?;
    /// assert_eq!(gap.approximation, 0.0);
    /// assert!((gap.selection - 20.0_f64.ln().sqrt()).abs() < 1e-14);
    /// assert!((gap.bound - 4.0 * (2.0 * gap.selection + 20.0_f64.ln())).abs() < 1e-13);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn vanishing_gap(
        &self,
        comparator: u32,
        confidence: f64,
    ) -> Result<VanishingGap, Error> {
        let candidate = &self.candidates[self.position(comparator)?];
        let cost = log_inverse_failure(confidence)? + 2.0_f64.ln();
        let rarest = self.prior.iter().copied().fold(1.0, f64::min);
        let approximation = candidate.relative_entropy / self.examples as f64;
        let selection = self.rate(cost - rarest.ln());
        let (fluctuation, tail) = self.deviation(candidate, cost);
        let bound = self.gap_factor()? * (approximation + selection + fluctuation + tail);
        Ok(VanishingGap { approximation, selection, fluctuation, tail, bound, confidence })
    }
}

/// `log(1/δ)` for the confidence `1 − δ`.
fn log_inverse_failure(confidence: f64) -> Result<f64, Error> {
    check_fraction("confidence", confidence)?;
    Ok(-f64::ln_1p(-confidence))
}

/// What rounding may take away from a variance, per example and relative to the largest.
const ROUNDING: f64 = 64.0 * f64::EPSILON;

/// A reference with the kernel's modes, from `log(s★_i/σ²)` per mode.
fn aligned(family: &EvidenceFamily<'_>, log_reference: Vec<f64>) -> PacBayes {
    let candidates = family
        .horizons
        .iter()
        .map(|&horizon| {
            let steps = f64::from(horizon);
            let modes = log_reference.iter().zip(&family.rates);
            let logs: Vec<f64> =
                modes.map(|(reference, rate)| reference - steps * rate).collect();
            let relative_entropy = 0.5 * logs.iter().map(|&x| log_excess(x)).sum::<f64>();
            let ratios = logs.iter().map(|x| x.exp()).collect();
            candidate(family, horizon, ratios, relative_entropy)
        })
        .collect();
    let smallest = log_reference.iter().copied().fold(f64::INFINITY, f64::min).exp();
    let rounding = ROUNDING * log_reference.len() as f64;
    measured(family, candidates, log_reference.iter().sum(), smallest * (1.0 + rounding))
}

/// Any reference: `A_T` has the eigenvalues of `Σ_T^(−1/2) Σ★ Σ_T^(−1/2)`, which is scaled rows
/// and columns in the kernel's modes.
fn general(family: &EvidenceFamily<'_>, covariance: &Matrix) -> Result<PacBayes, Error> {
    let n = family.spectrum.examples();
    check_size("reference covariance", covariance.rows(), n)?;
    let own = Spectrum::of(covariance)?;
    if own.rank() < n {
        return Err(Error::OutOfRange {
            quantity: "smallest eigenvalue of the reference covariance",
            found: own.eigenvalues()[n - 1],
            allowed: "over 0 by more than rounding",
        });
    }
    let modes = Matrix::from_fn(n, n, |mode, example| family.spectrum.mode(mode)[example]);
    let rotated = linalg::product_transposed(&linalg::product(&modes, covariance), &modes);
    let logs = own.eigenvalues().iter().map(|value| (value / family.noise_variance).ln());
    let log_determinant: f64 = logs.sum();
    let mut candidates = Vec::with_capacity(family.horizons.len());
    for &horizon in &family.horizons {
        let steps = f64::from(horizon);
        let roots: Vec<f64> = family.rates.iter().map(|c| (-0.5 * steps * c).exp()).collect();
        let scaled = |i: usize, j: usize| {
            rotated[(i.max(j), i.min(j))] / family.noise_variance * roots[i] * roots[j]
        };
        let (mut ratios, _) = linalg::eigen(&Matrix::from_fn(n, n, scaled))?;
        ratios.iter_mut().for_each(|ratio| *ratio = ratio.max(0.0));
        let log_ratio = log_determinant - steps * family.rates.iter().sum::<f64>();
        let trace_excess: f64 = ratios.iter().map(|ratio| ratio - 1.0).sum();
        let relative_entropy = (0.5 * (trace_excess - log_ratio)).max(0.0);
        candidates.push(candidate(family, horizon, ratios, relative_entropy));
    }
    let rounding = ROUNDING * n as f64 * own.largest();
    let smallest = (own.eigenvalues()[n - 1] + rounding) / family.noise_variance;
    Ok(measured(family, candidates, log_determinant, smallest))
}

fn candidate(
    family: &EvidenceFamily<'_>,
    horizon: u32,
    ratios: Vec<f64>,
    relative_entropy: f64,
) -> Candidate {
    let n = ratios.len() as f64;
    let rate: f64 = family.rates.iter().sum::<f64>() / n;
    let determinant = family.noise_variance.ln() + f64::from(horizon) * rate;
    let risk = 0.5 * (determinant + ratios.iter().sum::<f64>() / n);
    Candidate { horizon, ratios, relative_entropy, risk }
}

/// Puts the parts together; `log_determinant` is that of `Σ★/σ²`.
fn measured(
    family: &EvidenceFamily<'_>,
    candidates: Vec<Candidate>,
    log_determinant: f64,
    smallest_reference: f64,
) -> PacBayes {
    let examples = family.spectrum.examples();
    let determinant = family.noise_variance.ln() + log_determinant / examples as f64;
    PacBayes {
        examples,
        noise_variance: family.noise_variance,
        prior: vec![1.0 / candidates.len() as f64; candidates.len()],
        candidates,
        true_risk: 0.5 * (determinant + 1.0),
        smallest_reference,
    }
}

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
/// use fewstep_core::{Error, pac_bayes::Certificate};
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
    /// use fewstep_core::pac_bayes::Certificate;
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

    /// `{KL(ν‖π₀) + log(1/δ) + E_ν[ψ_T]}/(βn)` for weights `ν`, which are divided by their sum.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::OutOfRange`] unless there is one weight of at least 0
    /// per candidate and one of them is over 0.
    ///
    /// # Examples
    ///
    /// See [`Certificate`].
    pub fn slack(&self, weights: &[f64]) -> Result<f64, Error> {
        let weights = normalised_weights(weights, self.prior.len())?;
        let distance = relative_entropy(&weights, &self.prior)?;
        Ok((distance + self.cost + dot(&weights, &self.log_moments))
            / (self.inverse_temperature * self.examples as f64))
    }

    /// `E_ν[ℓ_T(r)]` plus the slack: the average population risk is at most this.
    ///
    /// # Errors
    ///
    /// As [`Certificate::slack`], and [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// evidence that does not fit.
    ///
    /// # Examples
    ///
    /// See [`PacBayes::certificate`].
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

/// How far a variance is from the right one: `t − 1 − log t` for their ratio `t > 0`.
///
/// ```text
/// t − 1 − log t ≥ (t − 1)² / (2 max{t, 1})                                         (Lem. E.15)
/// ```
///
/// Half of it is the relative entropy of `N(0, t)` from `N(0, 1)`. It keeps its digits near
/// `t = 1`; it is infinite at 0 and no number below.
///
/// # Examples
///
/// ```
/// use fewstep_core::pac_bayes::{variance_mismatch, variance_mismatch_floor};
///
/// let (mismatch, floor) = (variance_mismatch(2.0), variance_mismatch_floor(2.0));
/// assert!((mismatch - (1.0 - 2.0_f64.ln())).abs() < 1e-15);
/// assert_eq!(floor, 0.25);
/// assert_eq!(variance_mismatch(1.0), 0.0);
/// ```
#[must_use]
pub fn variance_mismatch(ratio: f64) -> f64 {
    let away = ratio - 1.0;
    if away.abs() < SERIES { excess(away) } else { away - ratio.ln() }
}

/// `(t − 1)² / (2 max{t, 1})`: the quadratic floor of Lem. E.15 under [`variance_mismatch`].
///
/// # Examples
///
/// See [`variance_mismatch`].
#[must_use]
pub fn variance_mismatch_floor(ratio: f64) -> f64 {
    (ratio - 1.0) * ((ratio - 1.0) / (2.0 * ratio.max(1.0)))
}

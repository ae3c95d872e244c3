//! What choosing a horizon by evidence guarantees, if residuals follow a reference law.
//!
//! Answers "does tuning the number of steps on the prompt overfit it?" (Sec. 7, App. E). In:
//! [`EvidenceFamily`], the laws that candidate horizons imply, and a [`Reference`] law. Out:
//! [`PacBayes`], bounds on the population evidence and on the Bayes gap, and [`Certificate`], a
//! bound that holds for all distributions over horizons at once. Bounds are on evidence, not on
//! the error at a query. Evidence comes in as numbers; [`guarantee`] alone looks at residuals, to
//! bound a decision that was made.
//!
//! # Differs from the paper
//!
//! 1. Cor. E.14 lets every distribution `ν` choose its own temperature on an event that
//!    Lem. E.13 grants for one temperature. That needs `KL(ν‖π₀)` to be known in advance: it is
//!    for single horizons under a uniform prior (Thm. 7.2), not for a `ν` that depends on
//!    residuals: variables with the moments of Lem. E.11 break the rate with a probability over
//!    `δ` (a test shows some). Here the temperature is fixed first, from a budget for `KL`
//!    ([`PacBayes::rate_certificate`]), and the bound holds for every `ν` after that.
//! 2. For single horizons each may have its own temperature, by a union bound:
//!    `P(n{𝓛(T) − ℓ_T} > s_T) ≤ π₀(T) δ`. So the rate form holds for every prior, with
//!    `log{1/π₀(T)}` for `log |𝒯|`, and [`PacBayes::exact_bound`] uses the exact moments.
//! 3. Lem. E.16, Lem. E.17 and Thm. E.19 assume `Σ★ = τ²K + σ²I`. They hold for every
//!    `Σ★ ⪰ σ²I`, aligned with the kernel or not, with the Bayes fit `(I − σ²Σ★⁻¹) r`. They
//!    fail if the reference has less noise than the candidates; that is refused.
//! 4. `Σ★ = Σ_T` (the well-specified case of Thm. E.19) is possible with `Σ★ = τ²K + σ²I` only
//!    if all nonzero eigenvalues of `K` are equal; with [`Reference::Horizon`] it always is.

mod bounds;
mod certificate;
mod guarantee;

pub use bounds::{Bound, VanishingGap};
pub use certificate::Certificate;
pub use guarantee::guarantee;

use fewstep_core::checks::{
    check_finite, check_horizons, check_not_negative, check_positive, check_size,
};
use fewstep_core::gibbs::normalised_prior;
use fewstep_core::linear_algebra::{self, squared_norm};
use fewstep_core::scalar::{exponential_excess, logarithm_excess};
use fewstep_core::{Error, Matrix, Spectrum, StepSize};

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
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::pac_bayes::EvidenceFamily;
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
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::pac_bayes::EvidenceFamily;
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
            spectrum.eigenvalues().iter().map(|&value| step.decay_rate(value)).collect();
        Ok(Self { spectrum, rates, noise_variance, horizons: horizons.to_vec() })
    }
}

/// The law that residuals are taken to follow, `r ~ N(0, Σ★)` (Assumption 7.1).
///
/// # Examples
///
/// ```
/// use fewstep_theory::pac_bayes::Reference;
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

/// One candidate horizon against the reference.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    horizon: u32,
    /// Eigenvalues of `A_T`.
    ratios: Vec<f64>,
    /// Relative entropy of the reference from its law, `KL(N(0, Σ★) ‖ N(0, Σ_T))`.
    relative_entropy: f64,
    /// Its population risk, `𝓛(T | K)`.
    risk: f64,
}

impl Candidate {
    /// How much its evidence fluctuates, `v_T = tr(A_T²)/n`.
    fn variance(&self) -> f64 {
        squared_norm(&self.ratios) / self.ratios.len() as f64
    }

    /// How much its worst mode fluctuates, `‖A_T‖`.
    fn largest(&self) -> f64 {
        self.ratios.iter().copied().fold(0.0, f64::max)
    }

    /// The log-moment of its evidence, `ψ_T(β) = Σ {βa_i − log(1 + βa_i)}/2`.
    fn log_moment(&self, inverse_temperature: f64) -> f64 {
        0.5 * self.ratios.iter().map(|a| logarithm_excess(inverse_temperature * a)).sum::<f64>()
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
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
    /// # let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// # let step = StepSize::new(0.125, &spectrum)?;
    /// # let family = EvidenceFamily::new(&spectrum, step, 1.0, &[1])?;
    /// // A = 1 and β = 2.
    /// assert_eq!(PacBayes::new(&family, Reference::Horizon(1))?.log_moment_bounds(2.0)?, [1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn log_moment_bounds(&self, inverse_temperature: f64) -> Result<Vec<f64>, Error> {
        check_positive("inverse temperature", inverse_temperature)?;
        let factor = inverse_temperature * inverse_temperature / 4.0;
        Ok(self.candidates.iter().map(|it| factor * squared_norm(&it.ratios)).collect())
    }
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
            let relative_entropy =
                0.5 * logs.iter().map(|&x| exponential_excess(x)).sum::<f64>();
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
    let rotated = linear_algebra::product_transposed(
        &linear_algebra::product(&modes, covariance),
        &modes,
    );
    let logs = own.eigenvalues().iter().map(|value| (value / family.noise_variance).ln());
    let log_determinant: f64 = logs.sum();
    let mut candidates = Vec::with_capacity(family.horizons.len());
    for &horizon in &family.horizons {
        let steps = f64::from(horizon);
        let roots: Vec<f64> = family.rates.iter().map(|c| (-0.5 * steps * c).exp()).collect();
        let scaled = |i: usize, j: usize| {
            rotated[(i.max(j), i.min(j))] / family.noise_variance * roots[i] * roots[j]
        };
        let (mut ratios, _) = linear_algebra::eigen(&Matrix::from_fn(n, n, scaled))?;
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

/// How close to 1 a ratio of variances counts as near: there its logarithm would cancel.
const NEAR: f64 = 0.2;

/// How far a variance is from the right one: `t − 1 − log t` for their ratio `t > 0`.
///
/// ```text
/// t − 1 − log t ≥ (t − 1)² / (2 max{t, 1})                                         (Lem. E.15)
/// ```
///
/// Half of it is the relative entropy of `N(0, t)` from `N(0, 1)`. It keeps its digits near
/// `t = 1`; it is infinite at 0 and NaN below.
///
/// # Examples
///
/// ```
/// use fewstep_theory::pac_bayes::{variance_mismatch, variance_mismatch_floor};
///
/// let (mismatch, floor) = (variance_mismatch(2.0), variance_mismatch_floor(2.0));
/// assert!((mismatch - (1.0 - 2.0_f64.ln())).abs() < 1e-15);
/// assert_eq!(floor, 0.25);
/// assert_eq!(variance_mismatch(1.0), 0.0);
/// ```
#[must_use]
pub fn variance_mismatch(ratio: f64) -> f64 {
    let away = ratio - 1.0;
    if away.abs() < NEAR { logarithm_excess(away) } else { away - ratio.ln() }
}

/// `(t − 1)² / (2 max{t, 1})`: the quadratic floor of Lem. E.15 under [`variance_mismatch`].
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_theory::pac_bayes::variance_mismatch_floor(0.5), 0.125);
/// ```
#[must_use]
pub fn variance_mismatch_floor(ratio: f64) -> f64 {
    (ratio - 1.0) * ((ratio - 1.0) / (2.0 * ratio.max(1.0)))
}

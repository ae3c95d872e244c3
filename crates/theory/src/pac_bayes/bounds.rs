//! The bounds themselves, for single horizons and for Bayes gaps; see the parent for the terms.

use super::certificate::{Certificate, log_inverse_failure};
use super::{Candidate, PacBayes};
use fewstep_core::Error;
use fewstep_core::checks::{check_finite, check_not_negative, check_vector};

/// A bound on the population risk that holds with a stated confidence.
///
/// # Examples
///
/// ```
/// use fewstep_theory::pac_bayes::Bound;
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
/// ```
/// # use fewstep_core::{Error, Spectrum, StepSize};
/// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
/// # let spectrum = Spectrum::of(&[vec![4.0]])?;
/// # let step = StepSize::new(0.125, &spectrum)?;
/// // No step, while one step would be right: half of 1 − log 2 remains however long the prompt.
/// let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0])?;
/// let gap = PacBayes::new(&family, Reference::Horizon(1))?.vanishing_gap(0, 0.9)?;
/// assert!((gap.approximation - (1.0 - 2.0_f64.ln()) / 2.0).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
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

impl PacBayes {
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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

    /// The inverse temperature of the rate form, `β = 2 √(cost/(n v̄))`.
    fn rate_temperature(&self, cost: f64) -> f64 {
        2.0 * (cost / (self.examples as f64 * self.largest_variance())).sqrt()
    }

    /// The slack of the rate form, `√(v̄ cost/n)`.
    fn rate(&self, cost: f64) -> f64 {
        (self.largest_variance() * cost / self.examples as f64).sqrt()
    }

    /// A bound for a chosen horizon, however it was chosen from the candidates.
    ///
    /// ```text
    /// 𝓛(T | K) ≤ ℓ_T(r) + √(v̄ {log |𝒯| + log(1/δ)}/n)   for all T ∈ 𝒯 at once       (Thm. 7.2)
    /// ```
    ///
    /// `T_MAP` is the most common choice. With a prior of its own, `log{1/π₀(T)}` takes the place of
    /// `log |𝒯|`. `evidence` is `ℓ_T(r)` of the chosen horizon, in Sec. 7's scale and with the
    /// family's noise variance.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a horizon that is not a candidate or a confidence that is not
    /// strictly between 0 and 1; [`Error::NotFinite`] for evidence that is NaN or infinite.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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

    /// The cost of a horizon and a confidence, `log{1/π₀(T)} + log(1/δ)`.
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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
    /// As [`PacBayes::gap_from_evidence`], and [`Error::OutOfRange`] for a comparator that is not a
    /// candidate or a confidence that is not strictly between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};
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

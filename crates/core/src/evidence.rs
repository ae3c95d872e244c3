//! How far to go, judged by the prompt alone: the evidence that its residuals give each horizon.
//!
//! Answers "how far" (Sec. 7, App. I), and "when" as far as evidence can: the gate says whether
//! any step at all is asked for. In: a [`Spectrum`], residuals and a [`StepSize`]. Out: the
//! negative log-evidence at every horizon, the best of them, and the exact optimum between
//! them. It does not look at the query, and it does not average over horizons; see
//! [`signal`](crate::signal) and [`gibbs`](crate::gibbs) for that.

use crate::checks::{check_not_negative, check_positive, check_size, check_vector};
use crate::error::Error;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::dot;

/// The noise variance `σ²` that evidence assumes.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize};
///
/// // Before the first step, the plug-in is the maximum-likelihood variance.
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
/// let step = StepSize::fraction(0.1, &spectrum)?;
/// let evidence = Evidence::of(&spectrum, &[1.5, 1.0], step)?;
/// assert_eq!(evidence.at(0.0, Noise::PlugIn)?, evidence.at(0.0, Noise::Profiled)?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// A known variance.
    Fixed(f64),
    /// `‖r‖²/n`, the variance of the residuals before any step ("Fixed-σ" of App. I).
    PlugIn,
    /// The variance of largest likelihood, for each horizon its own ("MLE-σ" of App. I).
    Profiled,
}

/// Negative log-evidence per prompt example, at every horizon `0..=longest`.
///
/// ```text
/// ℓ_T(r) = (1/2n) { log det Σ_T + rᵀ Σ_T⁻¹ r },   Σ_T = σ² (I − ρK)^(−T)     (Sec. 7)
/// ```
///
/// `Σ_T` is never formed: in the eigenbasis both terms are sums over modes, so the whole
/// curve costs `O(n · longest)` after one rotation of `residuals`.
///
/// # Errors
///
/// As [`Evidence::of`] and [`Evidence::at`].
///
/// # Examples
///
/// With `σ²` profiled out, the best horizon is the one that levels the modes: here
/// `1.5² · 0.9^T = 1² · 0.975^T` at `T ≈ 10.1`, and level residuals ask for no step at all.
///
/// ```
/// use fewstep_core::{Error, Noise, Spectrum, StepSize, evidence_curve};
///
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
/// let step = StepSize::fraction(0.1, &spectrum)?;
/// let best = |residuals: &[f64]| -> Result<u32, Error> {
///     let curve = evidence_curve(&spectrum, residuals, step, Noise::Profiled, 30)?;
///     Ok((0..=30).min_by(|&a, &b| curve[a as usize].total_cmp(&curve[b as usize])).unwrap_or(0))
/// };
///
/// assert_eq!(best(&[1.5, 1.0])?, 10);
/// assert_eq!(best(&[1.0, 1.0])?, 0);
/// # Ok::<(), Error>(())
/// ```
pub fn evidence_curve(
    spectrum: &Spectrum,
    residuals: &[f64],
    step: StepSize,
    noise: Noise,
    longest: u32,
) -> Result<Vec<f64>, Error> {
    Evidence::of(spectrum, residuals, step)?.curve_to(longest, noise)
}

/// A horizon chosen from a list of candidates.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, HorizonChoice, best_horizon};
///
/// let best = best_horizon(&[0, 10, 20], &[3.0, 2.0, 1.0])?;
/// assert_eq!(best, HorizonChoice { horizon: 20, index: 2, at_edge: true });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HorizonChoice {
    /// `T`: the chosen number of steps.
    pub horizon: u32,
    /// Its position among the candidates.
    pub index: usize,
    /// Whether it is the largest candidate, so that a longer list might do better.
    pub at_edge: bool,
}

/// Two values of a curve closer than this, relative to the smaller one, are a tie.
const TIE: f64 = 64.0 * f64::EPSILON;

/// The candidate with the smallest value; of those that tie, up to rounding, the shortest.
///
/// ```text
/// T_MAP ∈ argmin_{T ∈ 𝒯} ℓ_T(r)                                                       (Sec. 7)
/// ```
///
/// # Errors
///
/// [`Error::Empty`] without candidates, [`Error::SizeMismatch`] unless the curve has one value
/// per candidate, and [`Error::NotFinite`] if a value is NaN.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, best_horizon};
///
/// let best = best_horizon(&[0, 4, 8], &[1.0, 0.5, 0.5])?;
/// assert_eq!((best.horizon, best.at_edge), (4, false));
/// assert_eq!(best_horizon(&[], &[]), Err(Error::Empty { quantity: "candidate horizons" }));
/// # Ok::<(), Error>(())
/// ```
pub fn best_horizon(candidates: &[u32], curve: &[f64]) -> Result<HorizonChoice, Error> {
    let longest =
        *candidates.iter().max().ok_or(Error::Empty { quantity: "candidate horizons" })?;
    check_size("curve", curve.len(), candidates.len())?;
    if let Some(index) = curve.iter().position(|value| value.is_nan()) {
        return Err(Error::NotFinite { quantity: "curve", index, value: curve[index] });
    }
    let smallest = curve.iter().fold(f64::INFINITY, |smallest, &value| smallest.min(value));
    let bar = if smallest.is_finite() { smallest + TIE * smallest.abs() } else { smallest };
    let (index, &horizon) = candidates
        .iter()
        .enumerate()
        .filter(|&(index, _)| curve[index] <= bar)
        .min_by_key(|&(_, &horizon)| horizon)
        .expect("the smallest value is under the bar");
    Ok(HorizonChoice { horizon, index, at_edge: horizon == longest })
}

/// What the residuals of one prompt say about every horizon, prepared once.
///
/// ```text
/// 2 ℓ_T = log σ² + T · mean(c_i) + (1/nσ²) Σ r̃_i² e^(−T c_i)                          (Sec. 7)
/// c_i = −log(1 − ρλ_i),   r̃ = Uᵀr
/// ```
///
/// The second term is the price of a wider prior, the last one what the steps explain. As a
/// function of a real `T` the sum is convex for every kind of [`Noise`], so it has one optimum.
///
/// # Differs from the paper
///
/// 1. App. I's criteria are `2 ℓ_T − log σ²` (plug-in) and `2 ℓ_T − 1` (profiled); the scale
///    here is that of Sec. 7 for both. The best horizon is the same.
/// 2. A mode's share of the residuals that is no larger than the rotation's rounding counts
///    as 0. Otherwise that rounding would decide at very long horizons.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize, best_horizon};
///
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
/// let step = StepSize::fraction(0.1, &spectrum)?;
/// let evidence = Evidence::of(&spectrum, &[1.5, 1.0], step)?;
///
/// let candidates = [0, 5, 10, 15];
/// let curve = evidence.curve(&candidates, Noise::Profiled)?;
/// assert_eq!(best_horizon(&candidates, &curve)?.horizon, 10);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    n: f64,
    /// The largest residual; what follows is relative to it, so that squares cannot overflow.
    scale: f64,
    /// The modes that hold any of the residuals: their squares `(r̃_i/scale)²`,
    energies: Vec<f64>,
    /// their rates `c_i`, as `c_i − slowest`,
    rates: Vec<f64>,
    /// and as `c_i − mean(c)`, with 0 for what rounding cannot tell from it,
    departures: Vec<f64>,
    /// and what one step leaves of them, `e^(−rate)`.
    factors: Vec<f64>,
    /// The smallest `c_i` of these modes: factored out, so that no horizon underflows.
    slowest: f64,
    /// `mean(c_i)` over all modes.
    mean_rate: f64,
    /// `mean(c_i − slowest)` over all modes.
    mean_excess: f64,
}

impl Evidence {
    /// Prepares the evidence: one rotation of the residuals, then `O(n)`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit, and
    /// [`Error::StepTooLarge`] for a step that is not stable for this spectrum.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Spectrum, StepSize};
    ///
    /// let small = Spectrum::of(&[vec![1.0]])?;
    /// let step = StepSize::new(0.5, &small)?;
    /// let refused = Evidence::of(&Spectrum::of(&[vec![4.0]])?, &[1.0], step);
    /// assert_eq!(refused, Err(Error::StepTooLarge { step: 0.5, limit: 0.25 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(spectrum: &Spectrum, residuals: &[f64], step: StepSize) -> Result<Self, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        let step = step.check(spectrum)?;
        let n = spectrum.examples() as f64;
        let (scale, energies) = scaled_energies(spectrum, residuals);
        let rates: Vec<f64> =
            spectrum.eigenvalues().iter().map(|&value| step.decay_rate(value)).collect();
        let mean = |shift: f64| rates.iter().map(|rate| rate - shift).sum::<f64>() / n;
        let mean_rate = mean(0.0);
        let rounding = 4.0 * n * f64::EPSILON * rates[0];
        let held: Vec<(f64, f64)> =
            rates.iter().copied().zip(energies).filter(|&(_, energy)| energy > 0.0).collect();
        // Eigenvalues descend, so the last mode that holds anything is the slowest.
        let slowest = held.last().map_or(0.0, |&(rate, _)| rate);
        let departure = |rate: f64| {
            if (rate - mean_rate).abs() > rounding { rate - mean_rate } else { 0.0 }
        };
        Ok(Self {
            n,
            scale,
            energies: held.iter().map(|&(_, energy)| energy).collect(),
            rates: held.iter().map(|&(rate, _)| rate - slowest).collect(),
            departures: held.iter().map(|&(rate, _)| departure(rate)).collect(),
            factors: held.iter().map(|&(rate, _)| f64::exp(slowest - rate)).collect(),
            slowest,
            mean_rate,
            mean_excess: mean(slowest),
        })
    }

    /// Negative log-evidence per example, `ℓ_T(r)`, at one horizon, which may lie between steps.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a horizon that is negative or not finite, for a fixed noise
    /// variance that is not finite and over 0, and for residuals that are all 0 unless the
    /// noise is fixed: they make every smaller variance more likely without end.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize};
    ///
    /// // One example: Σ_1 = 1 · (1 − 1/8 · 4)⁻¹ = 2, so ℓ_1 = ½ (log 2 + 3²/2).
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let evidence = Evidence::of(&spectrum, &[3.0], StepSize::new(0.125, &spectrum)?)?;
    /// let expected = 0.5 * (2.0_f64.ln() + 4.5);
    /// assert!((evidence.at(1.0, Noise::Fixed(1.0))? - expected).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn at(&self, horizon: f64, noise: Noise) -> Result<f64, Error> {
        check_not_negative("horizon", horizon)?;
        Ok(self.value(horizon, self.left_after(horizon), self.resolve(noise)?))
    }

    /// Negative log-evidence per example at every candidate, in the candidates' order.
    ///
    /// Costs `O(n)` for each candidate (App. H), and no exponential where one candidate follows
    /// closely after another.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without candidates, otherwise as [`Evidence::at`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize};
    ///
    /// // No kernel, nothing to choose: every horizon has the same evidence.
    /// let spectrum = Spectrum::of(&[vec![0.0]])?;
    /// let evidence = Evidence::of(&spectrum, &[1.0], StepSize::new(1.0, &spectrum)?)?;
    /// assert_eq!(evidence.curve(&[0, 7], Noise::PlugIn)?, [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn curve(&self, candidates: &[u32], noise: Noise) -> Result<Vec<f64>, Error> {
        if candidates.is_empty() {
            return Err(Error::Empty { quantity: "candidate horizons" });
        }
        self.along(candidates.iter().copied(), noise)
    }

    /// Negative log-evidence per example at every horizon from 0 to the longest.
    ///
    /// # Errors
    ///
    /// As [`Evidence::at`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let evidence = Evidence::of(&spectrum, &[3.0], StepSize::new(0.125, &spectrum)?)?;
    /// let (curve, alone) = (evidence.curve_to(30, Noise::PlugIn)?, evidence.at(9.0, Noise::PlugIn)?);
    /// assert!((curve[9] - alone).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn curve_to(&self, longest: u32, noise: Noise) -> Result<Vec<f64>, Error> {
        self.along(0..=longest, noise)
    }

    /// `σ̂²(T)`: the noise variance of largest likelihood, given the horizon.
    ///
    /// ```text
    /// σ̂²(T) = (1/n) Σ r̃_i² (1 − ρλ_i)^T                                               (App. I)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a horizon that is negative or not finite.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Spectrum, StepSize};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let evidence = Evidence::of(&spectrum, &[3.0], StepSize::new(0.125, &spectrum)?)?;
    /// assert!((evidence.noise_variance(1.0)? - 4.5).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn noise_variance(&self, horizon: f64) -> Result<f64, Error> {
        check_not_negative("horizon", horizon)?;
        let left = f64::exp(-horizon * self.slowest) * self.left_after(horizon);
        Ok(self.scale * (self.scale * (left / self.n)))
    }

    /// Whether evidence asks for any step at all: over 1 it does, up to 1 it does not.
    ///
    /// ```text
    /// (Σ c_i r̃_i² / ‖r‖²) / mean(c_i)
    /// ```
    ///
    /// It compares how fast the residuals would shrink with how fast an average direction does,
    /// and is over 1 exactly if the optimum of the evidence, plug-in or profiled, over real
    /// horizons is positive. It is 0 for a zero kernel and for zero residuals: nothing to gain.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Spectrum, StepSize};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
    /// let step = StepSize::fraction(0.1, &spectrum)?;
    /// assert!(Evidence::of(&spectrum, &[1.5, 1.0], step)?.gate() > 1.0);
    /// assert_eq!(Evidence::of(&spectrum, &[1.0, 1.0], step)?.gate(), 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn gate(&self) -> f64 {
        if self.mean_rate == 0.0 || self.energies.is_empty() {
            return 0.0;
        }
        let total: f64 = self.energies.iter().sum();
        1.0 + dot(&self.energies, &self.departures) / total / self.mean_rate
    }

    /// Whether evidence asks for any step when the noise variance is known: over 1 it does.
    ///
    /// ```text
    /// (Σ c_i r̃_i² / nσ²) / mean(c_i)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the variance is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Spectrum, StepSize};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let evidence = Evidence::of(&spectrum, &[3.0], StepSize::new(0.125, &spectrum)?)?;
    /// assert!((evidence.gate_given(4.5)? - 2.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn gate_given(&self, noise_variance: f64) -> Result<f64, Error> {
        check_positive("noise variance", noise_variance)?;
        let total: f64 = self.energies.iter().sum();
        let ratio = (self.scale / noise_variance.sqrt()).powi(2);
        Ok(self.gate() * (total / self.n * ratio))
    }

    /// The real horizon of largest evidence, without a grid; 0 unless the gate is over 1.
    ///
    /// It is infinite, with [`Noise::Profiled`], if the residuals lie in modes that shrink
    /// faster than the average alone: each further step then explains more than it costs.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] as [`Evidence::at`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Evidence, Noise, Spectrum, StepSize};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
    /// let step = StepSize::fraction(0.1, &spectrum)?;
    /// let level = 2.25_f64.ln() / (0.975_f64 / 0.9).ln();
    /// let found = Evidence::of(&spectrum, &[1.5, 1.0], step)?.minimiser(Noise::Profiled)?;
    /// assert!((found - level).abs() < 1e-12);
    ///
    /// let only_fast = Evidence::of(&spectrum, &[1.0, 0.0], step)?;
    /// assert_eq!(only_fast.minimiser(Noise::Profiled)?, f64::INFINITY);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn minimiser(&self, noise: Noise) -> Result<f64, Error> {
        let criterion = self.resolve(noise)?;
        let gate = match noise {
            Noise::Fixed(variance) => self.gate_given(variance)?,
            Noise::PlugIn | Noise::Profiled => self.gate(),
        };
        Ok(match criterion {
            _ if gate <= 1.0 => 0.0,
            Criterion::Known { .. } => decreasing_root(|t| self.gain(t, gate.ln())),
            // No mode is slower than the average.
            Criterion::Profiled { .. } if self.departures.iter().all(|&d| d >= 0.0) => {
                f64::INFINITY
            }
            Criterion::Profiled { .. } => decreasing_root(|t| self.balance(t)),
        })
    }

    fn along(
        &self,
        horizons: impl Iterator<Item = u32>,
        noise: Noise,
    ) -> Result<Vec<f64>, Error> {
        let criterion = self.resolve(noise)?;
        let mut walk = Walk::new(self);
        Ok(horizons
            .map(|horizon| self.value(f64::from(horizon), walk.to(horizon), criterion))
            .collect())
    }

    fn resolve(&self, noise: Noise) -> Result<Criterion, Error> {
        if let Noise::Fixed(variance) = noise {
            check_positive("noise variance", variance)?;
            let weight = (self.scale / variance.sqrt()).powi(2) / self.n;
            return Ok(Criterion::Known { log_variance: variance.ln(), weight });
        }
        let total: f64 = self.energies.iter().sum();
        check_positive("noise variance", total)?;
        Ok(match noise {
            Noise::PlugIn => Criterion::Known {
                log_variance: 2.0 * self.scale.ln() + (total / self.n).ln(),
                weight: 1.0 / total,
            },
            _ => Criterion::Profiled { log_square: 2.0 * self.scale.ln() },
        })
    }

    /// `ℓ_T` from `left = Σ (r̃_i/scale)² e^(−T (c_i − slowest))`.
    fn value(&self, horizon: f64, left: f64, criterion: Criterion) -> f64 {
        0.5 * match criterion {
            Criterion::Known { log_variance, weight } => {
                let fit = weight * left * f64::exp(-horizon * self.slowest);
                log_variance + (horizon * self.mean_rate + fit)
            }
            Criterion::Profiled { log_square } => {
                log_square + (left / self.n).ln() + horizon * self.mean_excess + 1.0
            }
        }
    }

    fn left_after(&self, horizon: f64) -> f64 {
        let modes = self.energies.iter().zip(&self.rates);
        modes.map(|(energy, rate)| energy * f64::exp(-horizon * rate)).sum()
    }

    /// Logarithm of what a step still explains over what it costs, and its derivative:
    /// `log(gate) + log(Σ c_i r̃_i² e^(−T c_i) / Σ c_i r̃_i²)`.
    fn gain(&self, horizon: f64, log_gate: f64) -> (f64, f64) {
        // Modes that no step changes have rate 0 and drop out of all sums.
        let changing = || {
            let rates = self.rates.iter().map(|rate| rate + self.slowest);
            rates.zip(&self.energies).filter(|&(rate, _)| rate > 0.0)
        };
        let reference = changing().fold(f64::INFINITY, |least, (rate, _)| least.min(rate));
        let (mut before, mut after, mut change) = (0.0, 0.0, 0.0);
        for (rate, energy) in changing() {
            let weight = rate / self.mean_rate * energy;
            let explained = weight * f64::exp(-horizon * (rate - reference));
            before += weight;
            after += explained;
            change -= rate * explained;
        }
        (log_gate + (after / before).ln() - horizon * reference, change / after)
    }

    /// Logarithm of the pull of the modes faster than the average over that of the slower ones,
    /// and its derivative: `log Σ₊ − log Σ₋` of `r̃_i² |c_i − c̄| e^(−T (c_i − c̄))`.
    fn balance(&self, horizon: f64) -> (f64, f64) {
        let side = |sign: f64| {
            let modes = || {
                let modes = self.departures.iter().zip(&self.energies);
                modes.filter(move |&(departure, _)| sign * departure > 0.0)
            };
            // Relative to the largest exponential of this side.
            let top = modes().map(|(d, _)| -horizon * d).fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut change) = (0.0, 0.0);
            for (departure, energy) in modes() {
                let weight = sign * departure / self.mean_rate * energy;
                let pull = weight * f64::exp(-horizon * departure - top);
                sum += pull;
                change -= departure * pull;
            }
            (top + sum.ln(), change / sum)
        };
        let ((faster, faster_change), (slower, slower_change)) = (side(1.0), side(-1.0));
        (faster - slower, faster_change - slower_change)
    }
}

/// The noise variance of the evidence, prepared for the residuals.
#[derive(Clone, Copy)]
enum Criterion {
    /// It is known: `log σ²`, and `scale²/nσ²` for the quadratic form.
    Known { log_variance: f64, weight: f64 },
    /// It is profiled out: `log scale²`.
    Profiled { log_square: f64 },
}

/// After this many multiplications the powers are computed afresh, so that rounding stays
/// within a few dozen `ε` at any horizon.
const ANCHOR: u32 = 32;

/// A walk along horizons that keeps `e^(−T (c_i − slowest))` for every mode.
struct Walk<'a> {
    evidence: &'a Evidence,
    kept: Vec<f64>,
    horizon: u32,
    since_anchor: u32,
}

impl<'a> Walk<'a> {
    fn new(evidence: &'a Evidence) -> Self {
        let kept = vec![1.0; evidence.energies.len()];
        Self { evidence, kept, horizon: 0, since_anchor: 0 }
    }

    /// Goes to a horizon; returns `Σ (r̃_i/scale)² e^(−T (c_i − slowest))` there.
    fn to(&mut self, horizon: u32) -> f64 {
        match horizon.checked_sub(self.horizon) {
            Some(steps) if steps <= ANCHOR - self.since_anchor => {
                for _ in 0..steps {
                    for (kept, factor) in self.kept.iter_mut().zip(&self.evidence.factors) {
                        *kept *= factor;
                    }
                }
                self.since_anchor += steps;
            }
            _ => {
                for (kept, rate) in self.kept.iter_mut().zip(&self.evidence.rates) {
                    *kept = f64::exp(-f64::from(horizon) * rate);
                }
                self.since_anchor = 0;
            }
        }
        self.horizon = horizon;
        dot(&self.kept, &self.evidence.energies)
    }
}

/// The largest residual, and every mode's squared share relative to its square; what is within
/// the rotation's rounding is 0.
pub(crate) fn scaled_energies(spectrum: &Spectrum, residuals: &[f64]) -> (f64, Vec<f64>) {
    let scale = residuals.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if scale == 0.0 {
        return (0.0, vec![0.0; residuals.len()]);
    }
    let scaled: Vec<f64> = residuals.iter().map(|value| value / scale).collect();
    let rounding = 4.0 * residuals.len() as f64 * f64::EPSILON * dot(&scaled, &scaled).sqrt();
    let square = |amount: f64| if amount.abs() > rounding { amount * amount } else { 0.0 };
    (scale, spectrum.amounts(&scaled).into_iter().map(square).collect())
}

/// The root of a decreasing function that is positive at 0, from its value and slope: Newton's
/// method between the best known bounds, with a bisection now and then so that it must end.
fn decreasing_root(function: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high, mut at) = (0.0_f64, f64::INFINITY, 0.0_f64);
    for iteration in 1..1000_u32 {
        let (value, slope) = function(at);
        let newton = at - value / slope;
        let resolution = 2.0 * f64::EPSILON * at;
        if (newton - at).abs() <= resolution || high - low <= resolution {
            return newton.clamp(low, high);
        }
        if value > 0.0 {
            low = at;
        } else {
            high = at;
        }
        let bisect = iteration.is_multiple_of(4) || newton <= low || newton >= high;
        at = if bisect && high < f64::INFINITY { 0.5 * (low + high) } else { newton };
    }
    at
}

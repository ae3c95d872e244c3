//! How much of the residuals is signal and how much is noise, and the horizon that follows.
//!
//! Answers "how far" where [`evidence`](crate::evidence) cannot: that family ties signal and
//! noise together through the horizon, and its plug-in `‖r‖²/n` counts signal as noise. Here
//! the two variances of the Gaussian benchmark (Assumption 5.1) are fitted to the residuals.
//! In: a [`Spectrum`] and residuals. Out: [`SignalFit`], and from it the horizon with the
//! smallest Bayes gap at one query.

use crate::checks::{check_finite, check_not_negative, check_vector};
use crate::error::Error;
use crate::evidence::{HorizonChoice, best_horizon, scaled_energies};
use crate::filter::{Filter, GradientDescent};
use crate::risk::Benchmark;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::mean_square;

/// Where a fit of signal and noise ran into a boundary.
///
/// # Examples
///
/// ```
/// use fewstep_core::signal::{Edge, SignalFit};
/// use fewstep_core::{Error, Spectrum};
///
/// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 0.0]])?;
/// assert_eq!(SignalFit::of(&spectrum, &[1.0, 3.0])?.edge, Some(Edge::NoSignal));
/// assert_eq!(SignalFit::of(&spectrum, &[1.0, 0.0])?.edge, Some(Edge::NoNoise));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// `τ² = 0`: the residuals show nothing that an update could explain.
    NoSignal,
    /// `σ² = 0`: an update can explain the residuals entirely.
    NoNoise,
}

/// The signal and noise variances under which the residuals are most likely.
///
/// ```text
/// r ~ N(0, τ²K + σ²I)                                                     (Assumption 5.1)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::signal::SignalFit;
/// use fewstep_core::{Error, Spectrum};
///
/// // Mode variances 3² = 9 τ² + σ² and 1² = τ² + σ² are met exactly by τ² = 1, σ² = 0;
/// // 3² = 9 and 2² = 4 by τ² = 5/8, σ² = 27/8.
/// let spectrum = Spectrum::of(&[vec![9.0, 0.0], vec![0.0, 1.0]])?;
/// let fit = SignalFit::of(&spectrum, &[3.0, 2.0])?;
/// assert!((fit.signal_variance - 0.625).abs() < 1e-12);
/// assert!((fit.noise_variance - 3.375).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalFit {
    /// `τ²`: the variance of the signal, in units of the kernel.
    pub signal_variance: f64,
    /// `σ²`: the variance of the noise.
    pub noise_variance: f64,
    /// `(1/2n) {log det(τ²K + σ²I) + rᵀ(τ²K + σ²I)⁻¹r}`: negative log-evidence per example, on
    /// the scale of [`evidence_curve`](crate::evidence_curve).
    pub evidence: f64,
    /// Which boundary the fit lies on, if any.
    pub edge: Option<Edge>,
}

/// Beyond this factor outside the eigenvalues the evidence differs from that at the edge by less
/// than rounding.
const REACH: f64 = 1e8;

/// Grid points for each factor of 10 in `λ★`. The evidence is smooth on the scale of a factor
/// of `e`, so no dip that matters fits between two of them.
const POINTS_PER_DECADE: f64 = 4.0;

/// The share of the mean squared residual that is left as noise: a ratio far below it would turn the
/// rounding of null modes into a correction.
const LEAST_NOISE: f64 = 1e-8;

/// What must be gained, in evidence, before a fit is preferred to one with less signal.
const ROUNDING: f64 = 64.0 * f64::EPSILON;

impl SignalFit {
    /// Fits both variances by maximum likelihood.
    ///
    /// Given `λ★ = σ²/τ²` the best `τ²` is `(1/n) Σ r̃_i²/(λ_i + λ★)`; what is left is a search
    /// in one variable, where every minimum is found from the sign of the derivative
    ///
    /// ```text
    /// 2 dℓ/d log λ★ = Σ w_i g★(λ_i) / Σ w_i − mean(g★(λ_i)),  w_i = r̃_i²/(λ_i + λ★),  g★ = λ/(λ + λ★)
    /// ```
    ///
    /// and compared with both boundaries. If fits tie, as for a kernel with one eigenvalue only,
    /// the one with less signal is returned. Two cases are not what they seem:
    ///
    /// 1. Residuals that are all 0 have both variances 0, [`Edge::NoSignal`] and evidence `−∞`:
    ///    there is nothing to do.
    /// 2. Residuals inside the range of a kernel that is rank deficient leave no room for noise:
    ///    [`Edge::NoNoise`] and evidence `−∞`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::signal::{Edge, SignalFit};
    /// use fewstep_core::{Error, Spectrum};
    ///
    /// let nothing = SignalFit::of(&Spectrum::of(&[vec![0.0]])?, &[2.0])?;
    /// assert_eq!((nothing.signal_variance, nothing.noise_variance), (0.0, 4.0));
    /// assert_eq!(nothing.edge, Some(Edge::NoSignal));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(spectrum: &Spectrum, residuals: &[f64]) -> Result<Self, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        let modes = Modes::of(spectrum, residuals);
        let mut best = modes.fit(0.0, modes.mean(|_, energy| energy), Some(Edge::NoSignal));
        if best.noise_variance == 0.0 || modes.largest == 0.0 {
            return Ok(modes.in_units(best));
        }
        let minima = modes.minima().into_iter().map(|ratio| {
            let signal = modes.mean(|eigenvalue, energy| energy / (eigenvalue + ratio));
            modes.fit(signal, ratio * signal, None)
        });
        let silent = modes.mean(|value, energy| if value > 0.0 { energy / value } else { 0.0 });
        for fit in minima.chain([modes.fit(silent, 0.0, Some(Edge::NoNoise))]) {
            if fit.evidence < best.evidence - ROUNDING * (1.0 + best.evidence.abs()) {
                best = fit;
            }
        }
        Ok(modes.in_units(best))
    }

    /// Variances that are known from elsewhere, and their evidence.
    ///
    /// Residuals that the variances exclude (any at all where both leave no room) have evidence
    /// `+∞`.
    ///
    /// # Errors
    ///
    /// As [`SignalFit::of`], and [`Error::OutOfRange`] unless both variances are finite and at
    /// least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::signal::SignalFit;
    /// use fewstep_core::{Error, Spectrum};
    ///
    /// // N(0, 2 · 4 + 1) at 3: ½ (log 9 + 9/9).
    /// let known = SignalFit::at(&Spectrum::of(&[vec![4.0]])?, &[3.0], 2.0, 1.0)?;
    /// assert!((known.evidence - (3.0_f64.ln() + 0.5)).abs() < 1e-14);
    /// assert_eq!(known.noise_to_signal(), 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn at(
        spectrum: &Spectrum,
        residuals: &[f64],
        signal_variance: f64,
        noise_variance: f64,
    ) -> Result<Self, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        check_not_negative("signal variance", signal_variance)?;
        check_not_negative("noise variance", noise_variance)?;
        let edge = match (signal_variance > 0.0, noise_variance > 0.0) {
            (true, true) => None,
            (true, false) => Some(Edge::NoNoise),
            (false, _) => Some(Edge::NoSignal),
        };
        // Not scaled by the residuals, which may all be 0 here.
        let (scale, mut energies) = scaled_energies(spectrum, residuals);
        energies.iter_mut().for_each(|energy| *energy *= scale * scale);
        let (eigenvalues, largest) = normalised(spectrum);
        let modes = Modes { eigenvalues, energies, largest, scale: 1.0 };
        let fit = modes.fit(signal_variance * largest, noise_variance, edge);
        Ok(Self { signal_variance, noise_variance, ..fit })
    }

    /// `λ★ = σ²/τ²`; infinite without signal.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::signal::SignalFit;
    /// use fewstep_core::{Error, Spectrum};
    ///
    /// let nothing = SignalFit::of(&Spectrum::of(&[vec![1.0]])?, &[0.0])?;
    /// assert_eq!(nothing.noise_to_signal(), f64::INFINITY);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn noise_to_signal(&self) -> f64 {
        if self.signal_variance == 0.0 {
            f64::INFINITY
        } else {
            self.noise_variance / self.signal_variance
        }
    }

    /// The best filter under the fitted variances, some noise being left in any case.
    ///
    /// ```text
    /// g★(λ) = τ²λ/(τ²λ + σ²),   σ² at least 10⁻⁸ ‖r‖²/n                             (Thm. 5.2)
    /// ```
    ///
    /// Decisions measure gaps and error bars against it, and the rule `bayes-filter` carries it
    /// out.
    ///
    /// # Differs from the paper
    ///
    /// 1. Without noise there is no best filter: every one that fits the prompt entirely is as
    ///    good. The noise that is left chooses one.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`] for NaN or infinite residuals, and those of [`Benchmark::new`] for
    /// invalid variances.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::signal::SignalFit;
    /// use fewstep_core::{Error, Filter, Spectrum};
    ///
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// // λ★ = 1/0.25: as much noise as signal.
    /// let fit = SignalFit::at(&spectrum, &[2.0], 0.25, 1.0)?;
    /// assert_eq!(fit.benchmark(&[2.0])?.response(4.0), 0.5);
    /// let silent = SignalFit::at(&spectrum, &[2.0], 1.0, 0.0)?;
    /// assert_eq!(silent.benchmark(&[2.0])?.noise_variance(), 4e-8);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn benchmark(&self, residuals: &[f64]) -> Result<Benchmark, Error> {
        check_finite("residuals", residuals)?;
        let least = LEAST_NOISE * mean_square(residuals);
        let noise_variance = self.noise_variance.max(least).max(f64::MIN_POSITIVE);
        Benchmark::new(self.signal_variance, noise_variance)
    }

    /// The Bayes gap at the query after each candidate number of steps, and the best candidate.
    ///
    /// ```text
    /// Σ (τ²λ_i + σ²) (u_iᵀk_x)² {q_T(λ_i) − q★(λ_i)}²,   q★(λ) = τ²/(τ²λ + σ²)     (Thm. 5.2)
    /// ```
    ///
    /// Unlike evidence this looks at the query: only modes that reach it count. Ties go to the
    /// shorter horizon; without signal that is the shortest candidate.
    ///
    /// # Differs from the paper
    ///
    /// 1. Modes outside the range of the kernel are ignored. Under Assumption 5.1 the coupling
    ///    has no part in them; what rounding leaves there would drown the rest as `σ² → 0`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a coupling that does not fit,
    /// [`Error::StepTooLarge`] for a step that is not stable, [`Error::Empty`] without
    /// candidates.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::signal::SignalFit;
    /// use fewstep_core::{Error, Spectrum, StepSize};
    ///
    /// // q_T(4) = (1 − 2^−T)/4 meets q★(4) = 1/(4 + λ★) = 3/16 at T = 2 when λ★ = 4/3.
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let fit = SignalFit::at(&spectrum, &[1.0], 0.75, 1.0)?;
    /// let step = StepSize::new(0.125, &spectrum)?;
    /// let (gaps, best) = fit.bayes_gap_horizon(&spectrum, &[2.0], step, &[0, 1, 2, 3])?;
    /// assert_eq!((best.horizon, gaps[0], gaps[2]), (2, 0.5625, 0.0));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bayes_gap_horizon(
        &self,
        spectrum: &Spectrum,
        coupling: &[f64],
        step: StepSize,
        candidates: &[u32],
    ) -> Result<(Vec<f64>, HorizonChoice), Error> {
        check_vector("coupling", coupling, spectrum.examples())?;
        let step = step.check(spectrum)?;
        let amounts = spectrum.amounts(coupling);
        let reached = &spectrum.eigenvalues()[..spectrum.rank()];
        let gap = |&horizon: &u32| -> f64 {
            let filter = GradientDescent { step, horizon };
            let mode = |(&eigenvalue, amount): (&f64, &f64)| {
                let variance = self.signal_variance * eigenvalue + self.noise_variance;
                if variance == 0.0 {
                    return 0.0;
                }
                let mismatch = filter.gain(eigenvalue) - self.signal_variance / variance;
                variance * (amount * mismatch).powi(2)
            };
            reached.iter().zip(&amounts).map(mode).sum()
        };
        let gaps: Vec<f64> = candidates.iter().map(gap).collect();
        let best = best_horizon(candidates, &gaps)?;
        Ok((gaps, best))
    }
}

/// The kernel's eigenvalues relative to the largest, with 0 beyond the rank; and the largest.
fn normalised(spectrum: &Spectrum) -> (Vec<f64>, f64) {
    let largest = spectrum.largest();
    let mut eigenvalues = vec![0.0; spectrum.examples()];
    for (entry, value) in eigenvalues.iter_mut().zip(&spectrum.eigenvalues()[..spectrum.rank()])
    {
        *entry = value / largest;
    }
    (eigenvalues, largest)
}

/// A prompt in its modes, with eigenvalues relative to the largest and squared residuals
/// relative to `scale²`, so that nothing here depends on units.
struct Modes {
    eigenvalues: Vec<f64>,
    energies: Vec<f64>,
    largest: f64,
    scale: f64,
}

impl Modes {
    fn of(spectrum: &Spectrum, residuals: &[f64]) -> Self {
        let (scale, energies) = scaled_energies(spectrum, residuals);
        let (eigenvalues, largest) = normalised(spectrum);
        Self { eigenvalues, energies, largest, scale }
    }

    /// The mean of a function of eigenvalue and squared residual.
    fn mean(&self, function: impl Fn(f64, f64) -> f64) -> f64 {
        let modes = self.eigenvalues.iter().zip(&self.energies);
        let sum: f64 = modes.map(|(&eigenvalue, &energy)| function(eigenvalue, energy)).sum();
        sum / self.eigenvalues.len() as f64
    }

    /// The evidence of two variances, in relative units.
    fn fit(&self, signal_variance: f64, noise_variance: f64, edge: Option<Edge>) -> SignalFit {
        let variance = |eigenvalue: f64| signal_variance * eigenvalue + noise_variance;
        let quadratic =
            self.mean(
                |eigenvalue, energy| {
                    if energy == 0.0 { 0.0 } else { energy / variance(eigenvalue) }
                },
            );
        let evidence = if quadratic == f64::INFINITY {
            quadratic
        } else {
            0.5 * (self.mean(|eigenvalue, _| variance(eigenvalue).ln()) + quadratic)
        };
        SignalFit { signal_variance, noise_variance, evidence, edge }
    }

    /// A fit in the units of the kernel and the residuals.
    fn in_units(&self, fit: SignalFit) -> SignalFit {
        let square = self.scale * self.scale;
        let signal_variance = if fit.signal_variance == 0.0 {
            0.0
        } else {
            fit.signal_variance / self.largest * square
        };
        let evidence =
            if self.scale == 0.0 { f64::NEG_INFINITY } else { fit.evidence + self.scale.ln() };
        SignalFit {
            signal_variance,
            noise_variance: fit.noise_variance * square,
            evidence,
            ..fit
        }
    }

    /// The derivative `2 dℓ/d log λ★`, or 0 where rounding hides its sign.
    fn slope(&self, ratio: f64) -> f64 {
        let (mut weights, mut weighted, mut plain) = (0.0, 0.0, 0.0);
        for (&eigenvalue, &energy) in self.eigenvalues.iter().zip(&self.energies) {
            let inverse = 1.0 / (eigenvalue + ratio);
            let (weight, response) = (energy * inverse, eigenvalue * inverse);
            weights += weight;
            weighted += weight * response;
            plain += response;
        }
        let (weighted, plain) = (weighted / weights, plain / self.eigenvalues.len() as f64);
        let slope = weighted - plain;
        if slope.abs() > ROUNDING * plain { slope } else { 0.0 }
    }

    /// Every `λ★`, largest first, at which the profiled evidence has a minimum.
    fn minima(&self) -> Vec<f64> {
        let (low, high) = self.range();
        let points = ((high - low) * POINTS_PER_DECADE / std::f64::consts::LN_10).ceil();
        let mut minima = Vec::new();
        // Downwards: a minimum lies between a positive slope and the next negative one.
        let mut rising = None;
        let mut index = 0.0;
        while index <= points {
            let at = high + (low - high) * index / points;
            let slope = self.slope(at.exp());
            if slope > 0.0 {
                rising = Some(at);
            } else if slope < 0.0
                && let Some(above) = rising.take()
            {
                minima.push(self.root(at, above).exp());
            }
            index += 1.0;
        }
        minima
    }

    /// The logarithms of the `λ★` between which the search goes.
    fn range(&self) -> (f64, f64) {
        let held = self.eigenvalues.iter().filter(|&&eigenvalue| eigenvalue > 0.0);
        let smallest = held.clone().fold(1.0_f64, |least, &value| least.min(value));
        let mut low = smallest / REACH;
        // Far below the eigenvalues, modes outside the range of the kernel hold the noise and
        // the others the signal. Follow the noise down to where it is.
        let rank = held.count();
        let signal: f64 =
            self.energies.iter().zip(&self.eigenvalues).take(rank).map(|(e, l)| e / l).sum();
        let noise: f64 = self.energies[rank..].iter().sum();
        if noise > 0.0 && signal > 0.0 {
            let outside = (self.energies.len() - rank) as f64;
            low = low.min(noise / outside / (signal / rank as f64) / 100.0);
        }
        (low.ln(), REACH.ln())
    }

    /// The sign change of the slope between two logarithms of `λ★`: where a straight line through
    /// both ends meets 0, an end that stays twice counting half (the Illinois method).
    fn root(&self, mut low: f64, mut high: f64) -> f64 {
        let (mut below, mut above) = (self.slope(low.exp()), self.slope(high.exp()));
        let mut stayed = 0_i32;
        for _ in 0..100 {
            let width = high - low;
            if width <= 4.0 * f64::EPSILON * low.abs().max(high.abs()).max(1.0) {
                break;
            }
            let line = low + width * (below / (below - above));
            let middle = if line > low && line < high { line } else { low + 0.5 * width };
            let slope = self.slope(middle.exp());
            if slope > 0.0 {
                (high, above) = (middle, slope);
                below *= if stayed > 0 { 0.5 } else { 1.0 };
                stayed = 1;
            } else if slope < 0.0 {
                (low, below) = (middle, slope);
                above *= if stayed < 0 { 0.5 } else { 1.0 };
                stayed = -1;
            } else {
                return middle;
            }
        }
        0.5 * (low + high)
    }
}

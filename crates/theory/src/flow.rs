//! How long to adapt when steps are infinitely small: the time that replaces the horizon.
//!
//! Answers "how far" (App. G) for a known signal and noise level. In: a [`Spectrum`] and two
//! variances. Out: the best time for one mode, for a representative one and for all together.
//! Gradient flow itself is [`GradientFlow`]; that the Bayes filter is a
//! mixture of its times (Prop. G.6) is [`ExponentialTime`](crate::ExponentialTime).

use crate::filters::GradientFlow;
use fewstep_core::checks::{check_not_negative, check_positive};
use fewstep_core::{BayesFilter, Error, Filter, Spectrum, StepSize};

/// The time at which gradient flow treats one mode exactly as the Bayes filter does.
///
/// ```text
/// t_λ = (1/λ) log(1 + λ/λ★),   1/λ★ at λ = 0                                        (Lem. G.5)
/// ```
///
/// It falls with the eigenvalue, so no single time suits all modes. A kernel with one dominant
/// eigenvalue, the spiky head of App. G, is best left at this time of its spike, after about
/// [`horizon_of`] it steps.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless the eigenvalue is finite and at least 0 and the noise-to-signal
/// ratio finite and over 0.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, flow::mode_time};
///
/// assert_eq!(mode_time(1.0, 1.0)?, 2.0_f64.ln());
/// assert_eq!(mode_time(0.0, 0.25)?, 4.0);
/// # Ok::<(), Error>(())
/// ```
pub fn mode_time(eigenvalue: f64, noise_to_signal: f64) -> Result<f64, Error> {
    check_not_negative("eigenvalue", eigenvalue)?;
    check_positive("noise-to-signal ratio", noise_to_signal)?;
    Ok(unchecked_mode_time(eigenvalue, noise_to_signal))
}

fn unchecked_mode_time(eigenvalue: f64, noise_to_signal: f64) -> f64 {
    let ratio = eigenvalue / noise_to_signal;
    if ratio < 1.0 {
        // Right also where λ/λ★ underflows.
        return if ratio == 0.0 { 1.0 } else { ratio.ln_1p() / ratio } / noise_to_signal;
    }
    fit_exponent(eigenvalue, noise_to_signal) / eigenvalue
}

/// `log(1 + λ/λ★) = λ t_λ`: the exponent at which a mode is fitted best.
fn fit_exponent(eigenvalue: f64, noise_to_signal: f64) -> f64 {
    let ratio = eigenvalue / noise_to_signal;
    if ratio.is_finite() { ratio.ln_1p() } else { eigenvalue.ln() - noise_to_signal.ln() }
}

/// `λ★ = σ²/τ²`, once both are known to be variances.
pub(crate) fn noise_to_signal(signal_variance: f64, noise_variance: f64) -> Result<f64, Error> {
    check_positive("signal variance", signal_variance)?;
    check_positive("noise variance", noise_variance)?;
    let ratio = noise_variance / signal_variance;
    check_positive("noise-to-signal ratio", ratio)?;
    Ok(ratio)
}

/// One eigenvalue that stands for the whole spectrum: the mean weighted by residual variance.
///
/// ```text
/// μ(K) = Σ a_i λ_i / Σ a_i,   a_i = τ²λ_i + σ²                                         (App. G)
/// ```
///
/// It is 0 for a zero kernel.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless both variances, and their ratio, are finite and over 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum};
/// use fewstep_theory::flow::representative_eigenvalue;
///
/// // Weights 3 + 1 and 1 + 1: (4 · 3 + 2 · 1)/6.
/// let spectrum = Spectrum::of(&[vec![3.0, 0.0], vec![0.0, 1.0]])?;
/// assert!((representative_eigenvalue(&spectrum, 1.0, 1.0)? - 7.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
pub fn representative_eigenvalue(
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> Result<f64, Error> {
    let noise_to_signal = noise_to_signal(signal_variance, noise_variance)?;
    // A mean by its definition, between the smallest and the largest, so no sum can overflow.
    let (mut mean, mut total) = (0.0, 0.0);
    for &eigenvalue in spectrum.eigenvalues() {
        let weight = eigenvalue + noise_to_signal;
        total += weight;
        mean += (eigenvalue - mean) * (weight / total);
    }
    Ok(mean)
}

/// The time that suits the representative eigenvalue.
///
/// ```text
/// t_μ = (1/μ) log(1 + μ/λ★),   μ = μ(K)                                                (App. G)
/// ```
///
/// A quick stand-in for [`oracle_time`]; the two differ most for broad spectra.
///
/// # Errors
///
/// As [`representative_eigenvalue`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, Spectrum};
/// use fewstep_theory::flow::match_time;
///
/// let level = Spectrum::of(&Matrix::identity(3))?;
/// assert!((match_time(&level, 2.0, 2.0)? - 2.0_f64.ln()).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
pub fn match_time(
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> Result<f64, Error> {
    let mean = representative_eigenvalue(spectrum, signal_variance, noise_variance)?;
    mode_time(mean, noise_variance / signal_variance)
}

/// The expected squared error, summed over the prompt, of gradient flow stopped at a time.
///
/// ```text
/// R(t) = Σ {τ²λ_i e^(−2tλ_i) + σ²(1 − e^(−tλ_i))²}                           (Prop. G.4, App. G)
/// ```
///
/// For residuals `r = f★ + ε` with `f★ ~ N(0, τ²K)` and `ε ~ N(0, σ²I)`. Divided by `n` it is
/// what [`risk_limit`](crate::random::MarchenkoPastur::risk_limit) is the limit of.
///
/// # Errors
///
/// [`Error::OutOfRange`] unless both variances, and their ratio, are finite and over 0 and the
/// time is finite and at least 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum};
/// use fewstep_theory::flow::flow_risk;
///
/// // Half of the signal 4 · 3 is left in amplitude, half of the noise 2 let in: 12/4 + 2/4.
/// let spectrum = Spectrum::of(&[vec![3.0]])?;
/// assert!((flow_risk(&spectrum, 4.0, 2.0, 2.0_f64.ln() / 3.0)? - 3.5).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn flow_risk(
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
    time: f64,
) -> Result<f64, Error> {
    noise_to_signal(signal_variance, noise_variance)?;
    let flow = GradientFlow::new(time)?;
    let risk = |&eigenvalue| mode_risk(&flow, signal_variance, noise_variance, eigenvalue);
    Ok(spectrum.eigenvalues().iter().map(risk).sum())
}

/// `ψ_t(λ) = τ²λ e^(−2tλ) + σ²(1 − e^(−tλ))²`: the risk of one mode (Prop. G.9).
pub(crate) fn mode_risk(
    flow: &GradientFlow,
    signal_variance: f64,
    noise_variance: f64,
    eigenvalue: f64,
) -> f64 {
    let missed = signal_variance * eigenvalue * f64::exp(-2.0 * flow.time() * eigenvalue);
    missed + noise_variance * flow.response(eigenvalue).powi(2)
}

/// The time at which gradient flow has the smallest risk.
///
/// ```text
/// t★(K) = argmin_{t ≥ 0} R(t),   R as in flow_risk                                     (App. G)
/// ```
///
/// The risk of each mode falls until its own [`mode_time`] and rises after it. So the minimum
/// lies between the mode times of the largest and the smallest positive eigenvalue; there the
/// sum may have several valleys. A logarithmic grid, finer than the valley of any mode, finds
/// them, and each is followed to full precision. Of equal minima the earliest counts; a
/// zero kernel, where nothing changes, has the time 0. With `s = log(1 + λ_max/λ★)` it costs
/// `O(n s²)`.
///
/// # Errors
///
/// As [`representative_eigenvalue`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, Spectrum};
/// use fewstep_theory::flow::{mode_time, oracle_time};
///
/// // If all modes are alike, it is the time of each.
/// let level = Spectrum::of(&Matrix::identity(3))?;
/// assert!((oracle_time(&level, 3.0, 1.0)? - 4.0_f64.ln()).abs() < 1e-15);
///
/// let mixed = Spectrum::of(&[vec![3.0, 0.0], vec![0.0, 1.0]])?;
/// let best = oracle_time(&mixed, 1.0, 1.0)?;
/// assert!(mode_time(3.0, 1.0)? < best && best < mode_time(1.0, 1.0)?);
/// # Ok::<(), Error>(())
/// ```
pub fn oracle_time(
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
) -> Result<f64, Error> {
    let noise_to_signal = noise_to_signal(signal_variance, noise_variance)?;
    let modes: Vec<(f64, f64)> =
        spectrum.eigenvalues().iter().map(|&eigenvalue| (eigenvalue, 1.0)).collect();
    Ok(best_time(&modes, noise_to_signal))
}

/// The time of least risk for pairs of eigenvalue and weight; 0 if no eigenvalue is positive.
pub(crate) fn best_time(modes: &[(f64, f64)], noise_to_signal: f64) -> f64 {
    let valleys: Vec<Valley> = modes
        .iter()
        .filter(|&&(eigenvalue, weight)| eigenvalue > 0.0 && weight > 0.0)
        .map(|&(eigenvalue, weight)| Valley {
            eigenvalue,
            weight,
            exponent: fit_exponent(eigenvalue, noise_to_signal),
        })
        .collect();
    let (mut largest, mut smallest) = (0.0_f64, f64::INFINITY);
    for valley in &valleys {
        largest = largest.max(valley.eigenvalue);
        smallest = smallest.min(valley.eigenvalue);
    }
    if valleys.is_empty() {
        return 0.0;
    }
    let earliest = unchecked_mode_time(largest, noise_to_signal);
    let latest = unchecked_mode_time(smallest, noise_to_signal).max(earliest);
    let slope = |time: f64| valleys.iter().map(|valley| valley.slope(time)).sum::<f64>();
    let excess = |time: f64| valleys.iter().map(|valley| valley.excess(time)).sum::<f64>();

    // In log t, a mode's valley is about one over its fit exponent wide.
    let width = (latest / earliest).ln();
    let cells = (8.0 * fit_exponent(largest, noise_to_signal).max(1.0) * width).ceil();
    let cells = cells.clamp(1.0, 1e5);
    // What rounding makes of a minimum at an end of the range.
    let mut best = if excess(earliest) <= excess(latest) { earliest } else { latest };
    let mut least = excess(best);
    let (mut before, mut falling) = (earliest, slope(earliest) <= 0.0);
    let mut cell = 1.0;
    while cell <= cells {
        let after = (earliest * (width * cell / cells).exp()).min(latest);
        let still_falling = slope(after) <= 0.0;
        if falling && !still_falling {
            let time = bisect(before, after, |time| slope(time) <= 0.0);
            let value = excess(time);
            if value < least {
                (best, least) = (time, value);
            }
        }
        (before, falling) = (after, still_falling);
        cell += 1.0;
    }
    best
}

/// One mode's part of the risk as a function of time.
struct Valley {
    eigenvalue: f64,
    weight: f64,
    /// The exponent at which the mode is fitted best, `λ t_λ`.
    exponent: f64,
}

impl Valley {
    /// Half of `dR/dt`, over the noise variance; negative before the mode's own time.
    ///
    /// ```text
    /// λ e^(−tλ) {1 − e^(λ(t_λ − t))}
    /// ```
    fn slope(&self, time: f64) -> f64 {
        let fitted = time * self.eigenvalue;
        -self.weight * self.eigenvalue * f64::exp(-fitted) * f64::exp_m1(self.exponent - fitted)
    }

    /// The risk above its smallest value, over the noise variance: `(1 + λ/λ★)(g_t − g★)²`.
    fn excess(&self, time: f64) -> f64 {
        let mismatch = f64::exp_m1(self.exponent - time * self.eigenvalue);
        self.weight * f64::exp(-self.exponent) * mismatch * mismatch
    }
}

/// The last number in `[inside, outside]` for which a condition holds, if it changes once.
fn bisect(mut inside: f64, mut outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = inside + 0.5 * (outside - inside);
        if middle <= inside || middle >= outside {
            return inside;
        }
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
}

/// How far a number of finite steps can be ahead of gradient flow in one mode.
///
/// ```text
/// 0 ≤ g_T(λ) − g_t(λ) ≤ T(ρλ)²/(2(1 − ρλ)) e^(−tλ),   t = ρT                        (Lem. G.2)
/// ```
///
/// # Errors
///
/// [`Error::OutOfRange`] unless the eigenvalue is finite, at least 0, and below `1/ρ`.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::flow::discretisation_bound;
///
/// // 2 · 0.5²/(2 · 0.5) · e^(−1)
/// let step = StepSize::new(0.125, &Spectrum::of(&[vec![4.0]])?)?;
/// let bound = discretisation_bound(step, 2, 4.0)?;
/// assert!((bound - 0.5 * (-1.0_f64).exp()).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
pub fn discretisation_bound(
    step: StepSize,
    horizon: u32,
    eigenvalue: f64,
) -> Result<f64, Error> {
    check_not_negative("eigenvalue", eigenvalue)?;
    let fraction = step.get() * eigenvalue;
    if fraction >= 1.0 {
        return Err(Error::OutOfRange {
            quantity: "eigenvalue",
            found: eigenvalue,
            allowed: "below one over the step size",
        });
    }
    let steps = f64::from(horizon);
    Ok(0.5 * steps * fraction * fraction / (1.0 - fraction) * f64::exp(-steps * fraction))
}

/// What one time for all modes can cost at most, compared with the Bayes filter.
///
/// ```text
/// Σ a_i d_t(λ_i)² ≤ 2 (Σ a_i) d_t(μ)² + 2 (t + 1/λ★)² Σ a_i (λ_i − μ)²              (Prop. G.7)
/// a_i = τ²λ_i + σ²,   d_t = g_t − g★,   μ = μ(K)
/// ```
///
/// The first term is the mismatch at the representative eigenvalue, the second the spread of
/// the spectrum. At [`match_time`] only the spread is left.
///
/// # Errors
///
/// As [`flow_risk`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, Spectrum};
/// use fewstep_theory::flow::concentration_bound;
///
/// // A spectrum without spread, at time 0: 2 · 3 · (1 + 1) · (1/2)².
/// let level = Spectrum::of(&Matrix::identity(3))?;
/// assert!((concentration_bound(&level, 1.0, 1.0, 0.0)? - 3.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn concentration_bound(
    spectrum: &Spectrum,
    signal_variance: f64,
    noise_variance: f64,
    time: f64,
) -> Result<f64, Error> {
    let mean = representative_eigenvalue(spectrum, signal_variance, noise_variance)?;
    let bayes = BayesFilter::new(noise_variance / signal_variance)?;
    let mismatch = GradientFlow::new(time)?.response(mean) - bayes.response(mean);
    let (mut total, mut spread) = (0.0, 0.0);
    for &eigenvalue in spectrum.eigenvalues() {
        let weight = signal_variance * eigenvalue + noise_variance;
        total += weight;
        spread += weight * (eigenvalue - mean).powi(2);
    }
    let steepness = time + 1.0 / bayes.noise_to_signal();
    Ok(2.0 * total * mismatch * mismatch + 2.0 * steepness * steepness * spread)
}

/// The number of steps that comes closest to a time.
///
/// ```text
/// T ≈ t/ρ                                                                              (App. G)
/// ```
///
/// Finite steps run slightly ahead of the flow, by at most [`discretisation_bound`].
///
/// # Errors
///
/// [`Error::OutOfRange`] unless the time is finite and at least 0 and the number of steps fits
/// in 32 bits.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::flow::horizon_of;
///
/// let step = StepSize::new(0.125, &Spectrum::of(&[vec![4.0]])?)?;
/// assert_eq!(horizon_of(0.4, step)?, 3);
/// # Ok::<(), Error>(())
/// ```
pub fn horizon_of(time: f64, step: StepSize) -> Result<u32, Error> {
    check_not_negative("time", time)?;
    let steps = (time / step.get()).round();
    if steps > f64::from(u32::MAX) {
        return Err(Error::OutOfRange {
            quantity: "number of steps",
            found: steps,
            allowed: "at most 4294967295",
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within the range")]
    Ok(steps as u32)
}

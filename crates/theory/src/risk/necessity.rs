//! What no fixed shrinkage and no number of steps can avoid (Sec. 6, App. E.4).

use super::{Benchmark, excess_of_mode};
use fewstep_core::checks::{check_finite, check_vector};
use fewstep_core::linear_algebra::squared_norm;
use fewstep_core::{Error, Spectrum};

/// The Bayes gap of one shrinkage on a prompt whose kernel is a projector.
///
/// ```text
/// E‖aKr − f_Bayes‖² = m (τ² + σ²) (a − s)²,    s = τ²/(τ² + σ²) = 1/(1 + λ★)      (Prop. E.6)
/// ```
///
/// With all eigenvalues equal, "how far" is a single number `a`, and its best value depends on
/// the signal-to-noise ratio.
///
/// # Errors
///
/// [`Error::NotFinite`] for a shrinkage that is NaN or infinite.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, risk::Benchmark};
/// use fewstep_theory::risk::projector_gap;
///
/// assert_eq!(projector_gap(2, 1.0, &Benchmark::new(1.0, 1.0)?)?, 1.0);
/// # Ok::<(), Error>(())
/// ```
pub fn projector_gap(rank: usize, shrinkage: f64, benchmark: &Benchmark) -> Result<f64, Error> {
    check_finite("shrinkage", &[shrinkage])?;
    let (signal, noise) = (benchmark.signal_variance(), benchmark.noise_variance());
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
/// use fewstep_core::{Error, risk::Benchmark};
/// use fewstep_theory::risk::separation_bound;
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
    let distance = (first.signal_variance() / first_variance)
        * (second.noise_variance() / second_variance)
        - (second.signal_variance() / second_variance)
            * (first.noise_variance() / first_variance);
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
/// use fewstep_core::{Error, Spectrum};
/// use fewstep_theory::risk::floor;
///
/// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 0.0]])?;
/// assert_eq!(floor(&spectrum, &[5.0, 7.0])?, 49.0);
/// # Ok::<(), Error>(())
/// ```
pub fn floor(spectrum: &Spectrum, target: &[f64]) -> Result<f64, Error> {
    check_vector("target", target, spectrum.examples())?;
    Ok(squared_norm(&spectrum.rotate(target)?[spectrum.rank()..]))
}

//! Risk of one shrinkage per mode, from second moments alone (App. F.2).

use super::{excess_of_mode, risk_of_mode};
use fewstep_core::Error;
use fewstep_core::checks::{check_not_negative, check_positive, check_vector};

/// The expected squared error of a shrinkage per mode, from second moments alone.
///
/// ```text
/// E‖Sr − f★‖² = Σ_i {c_i (1 − s_i)² + σ² s_i²},   c_i = Var(u_iᵀ f★)             (Prop. F.7)
/// ```
///
/// Nothing needs to be Gaussian, and the signal need not follow the kernel.
///
/// # Errors
///
/// [`Error::Empty`] without modes, [`Error::SizeMismatch`] unless there is one shrinkage per
/// mode, [`Error::NotFinite`] for NaN or infinite shrinkages, and [`Error::OutOfRange`] for
/// a signal variance under 0 or a noise variance that is not over 0.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::shrinkage_risk};
///
/// assert_eq!(shrinkage_risk(&[3.0, 8.0], &[1.0, 0.5], 1.0)?, 3.25);
/// # Ok::<(), Error>(())
/// ```
pub fn shrinkage_risk(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
) -> Result<f64, Error> {
    shrinkage_sum(signal_variances, shrinkages, noise_variance, risk_of_mode)
}

/// How much [`shrinkage_risk`] is over its minimum.
///
/// ```text
/// Σ_i (c_i + σ²) (s_i − s_i★)²                                                   (Prop. F.7)
/// ```
///
/// # Errors
///
/// As [`shrinkage_risk`].
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::shrinkage_excess};
///
/// // The optimum is 3/4: a quarter too much, on a variance of 4.
/// assert_eq!(shrinkage_excess(&[3.0], &[1.0], 1.0)?, 0.25);
/// # Ok::<(), Error>(())
/// ```
pub fn shrinkage_excess(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
) -> Result<f64, Error> {
    shrinkage_sum(signal_variances, shrinkages, noise_variance, excess_of_mode)
}

/// The one shrinkage per mode with the smallest [`shrinkage_risk`].
///
/// ```text
/// s_i★ = c_i/(c_i + σ²)                                                          (Prop. F.7)
/// ```
///
/// # Errors
///
/// [`Error::Empty`] without modes, and [`Error::OutOfRange`] for a signal variance under 0 or
/// a noise variance that is not over 0.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::optimal_shrinkages};
///
/// assert_eq!(optimal_shrinkages(&[3.0, 0.0], 1.0)?, [0.75, 0.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn optimal_shrinkages(
    signal_variances: &[f64],
    noise_variance: f64,
) -> Result<Vec<f64>, Error> {
    check_variances(signal_variances, noise_variance)?;
    Ok(signal_variances.iter().map(|signal| signal / (signal + noise_variance)).collect())
}

fn check_variances(signal_variances: &[f64], noise_variance: f64) -> Result<(), Error> {
    if signal_variances.is_empty() {
        return Err(Error::Empty { quantity: "signal variances" });
    }
    check_positive("noise variance", noise_variance)?;
    signal_variances
        .iter()
        .try_for_each(|&signal| check_not_negative("signal variance", signal))
}

fn shrinkage_sum(
    signal_variances: &[f64],
    shrinkages: &[f64],
    noise_variance: f64,
    function: impl Fn(f64, f64, f64) -> f64,
) -> Result<f64, Error> {
    check_variances(signal_variances, noise_variance)?;
    check_vector("shrinkages", shrinkages, signal_variances.len())?;
    let modes = signal_variances.iter().zip(shrinkages);
    Ok(modes.map(|(&signal, &shrinkage)| function(signal, shrinkage, noise_variance)).sum())
}

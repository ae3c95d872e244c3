//! A predictor's error on simulated tasks, split by what it could have avoided (Sec. 2).

use crate::estimate::Estimate;
use fewstep_core::Error;
use fewstep_core::checks::{check_finite, check_size};

/// A predictor's squared error, split into what it could have avoided and what nobody could.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::decompose};
///
/// let found = decompose(&[1.0, 1.0], &[0.0, 0.0], &[2.0, -2.0])?;
/// assert_eq!((found.gap.mean, found.posterior_variance.mean, found.risk.mean), (1.0, 4.0, 5.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decomposition {
    /// Mean squared error of the predictor.
    pub risk: Estimate,
    /// Mean squared distance between the predictor and the Bayes predictor.
    pub gap: Estimate,
    /// Mean squared error of the Bayes predictor.
    pub posterior_variance: Estimate,
    /// Mean of `2 (M − M_Bayes)(M_Bayes − Y)`, 0 in expectation. On these tasks
    /// `risk = gap + posterior_variance + cross` exactly; several standard errors away from 0 it
    /// shows that the Bayes predictions are wrong.
    pub cross: Estimate,
}

/// Splits a predictor's error on simulated tasks, where the Bayes predictions are known.
///
/// ```text
/// E(M − Y)² = E(M − M_Bayes)² + E(M_Bayes − Y)²                                  (Prop. 2.1)
/// ```
///
/// The last term does not depend on the predictor: all that adapting can do is reduce the gap.
///
/// # Errors
///
/// [`Error::SizeMismatch`] unless there is one prediction, one Bayes prediction and one target
/// per task, [`Error::NotFinite`] for NaN or infinite entries, and [`Error::OutOfRange`]
/// for fewer than two tasks, which have no standard error.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::decompose};
///
/// let found = decompose(&[0.5, 1.0], &[0.0, 1.0], &[1.0, 1.0])?;
/// assert_eq!(found.risk.mean, 0.125);
/// assert_eq!(found.gap.mean + found.posterior_variance.mean + found.cross.mean, 0.125);
/// # Ok::<(), Error>(())
/// ```
pub fn decompose(
    predictions: &[f64],
    bayes_predictions: &[f64],
    targets: &[f64],
) -> Result<Decomposition, Error> {
    let tasks = targets.len();
    if tasks < 2 {
        let (quantity, allowed) = ("number of tasks", "at least 2");
        return Err(Error::OutOfRange { quantity, found: tasks as f64, allowed });
    }
    check_size("predictions", predictions.len(), tasks)?;
    check_size("Bayes predictions", bayes_predictions.len(), tasks)?;
    for (quantity, values) in [
        ("predictions", predictions),
        ("Bayes predictions", bayes_predictions),
        ("targets", targets),
    ] {
        check_finite(quantity, values)?;
    }
    let estimate = |loss: fn(f64, f64, f64) -> f64| {
        let losses: Vec<f64> = (0..tasks)
            .map(|task| loss(predictions[task], bayes_predictions[task], targets[task]))
            .collect();
        Estimate::of(&losses)
    };
    Ok(Decomposition {
        risk: estimate(|prediction, _, target| (prediction - target).powi(2)),
        gap: estimate(|prediction, bayes, _| (prediction - bayes).powi(2)),
        posterior_variance: estimate(|_, bayes, target| (bayes - target).powi(2)),
        cross: estimate(|prediction, bayes, target| {
            2.0 * (prediction - bayes) * (bayes - target)
        }),
    })
}

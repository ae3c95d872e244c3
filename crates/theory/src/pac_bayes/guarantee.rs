//! The bound for a decision that was made.

use super::{Bound, EvidenceFamily, PacBayes, Reference};
use fewstep_core::checks::{check_fraction, check_vector};
use fewstep_core::linear_algebra::mean_square;
use fewstep_core::{Decision, Error, StepSize, best_horizon};

/// What is guaranteed for the number of steps with the best evidence at fixed noise, among the
/// candidates of a decision.
///
/// Thm. 7.2, with the decision's fitted signal and noise in place of the unknown covariance and the
/// noise variance set to `‖r‖²/n`. `residuals` are those that the decision was made for, and
/// `confidence` is `1 − δ`. `None` if every residual is 0, as there is no evidence then.
///
/// # Errors
///
/// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit the decision, and
/// [`Error::OutOfRange`] for a confidence that does not lie strictly between 0 and 1.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// use fewstep_theory::pac_bayes::guarantee;
///
/// let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], None)?;
/// let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
///
/// let bound = guarantee(geometry.residuals(), &decision, 0.95)?.expect("there are residuals");
/// let least = decision.how_far.evidence_fixed.iter().copied().fold(f64::INFINITY, f64::min);
/// assert!((bound.bound - (least + bound.slack)).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn guarantee(
    residuals: &[f64],
    decision: &Decision,
    confidence: f64,
) -> Result<Option<Bound>, Error> {
    check_fraction("confidence", confidence)?;
    check_vector("residuals", residuals, decision.spectrum.examples())?;
    let horizons = &decision.policy.horizons;
    let evidence = &decision.how_far.evidence_fixed;
    if residuals.iter().all(|&residual| residual == 0.0) {
        return Ok(None);
    }
    let best = best_horizon(horizons, evidence)?;
    // A bound needs the chosen horizon and the one that fluctuates most. Variances only fall along
    // the steps here, so that this is the first; the others would be computed in vain.
    let (first, last) =
        horizons.iter().fold((best.horizon, best.horizon), |(first, last), &horizon| {
            (first.min(horizon), last.max(horizon))
        });
    let other = if best.horizon == first { last } else { first };
    let share = 1.0 / horizons.len() as f64;
    let (pair, prior) = ([best.horizon, other], [share, 1.0 - share]);
    let known = if first == last { 1 } else { 2 };
    let step = StepSize::new(decision.how_far.step_size, &decision.spectrum)?;
    let noise_variance = mean_square(residuals);
    let family = EvidenceFamily::new(&decision.spectrum, step, noise_variance, &pair[..known])?;
    let benchmark = decision.signal.benchmark(residuals)?;
    let reference = Reference::Benchmark {
        signal_variance: benchmark.signal_variance(),
        noise_variance: benchmark.noise_variance(),
    };
    let bounds = PacBayes::new(&family, reference)?.with_prior(&prior[..known])?;
    Ok(Some(bounds.bound(best.horizon, evidence[best.index], confidence)?))
}

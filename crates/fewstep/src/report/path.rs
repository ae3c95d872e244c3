//! Where every number of steps would lead, and where the steps that were taken led.

use fewstep_core::{Decision, Error, Filter, GradientDescent, StepSize};
use fewstep_engine::{Observation, Outcome};
use serde::Serialize;

/// The prediction for the query after `0, 1, 2, …` steps.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Decide)?
///     .with_matrices(true);
/// let task = fewstep::tasks::parse(
///     br#"{"id": "t1", "template": "{x}->{y}",
///          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// )?;
/// let prediction = predictor.answer(&task)?.report.prediction;
/// let path = prediction.path.expect("it was asked for");
/// assert_eq!((path.linear[0], path.steps), (prediction.icl, None));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionPath {
    /// By the linearised model, up to the largest candidate, or to the number of steps if that is
    /// larger.
    pub linear: Vec<f64>,
    /// Carried out in the model, as far as steps were taken; of an average over steps, those that
    /// it averages. `None` if none was taken, or none was followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<f64>>,
}

impl PredictionPath {
    /// The paths of a task, if something is known of its query's derivative.
    pub(super) fn of(
        seen: &Observation,
        decision: &Decision,
        outcome: Option<&Outcome>,
    ) -> Result<Option<Self>, Error> {
        let Some(query) = decision.block.query() else { return Ok(None) };
        let candidates = decision.policy.horizons.iter().copied();
        let longest = candidates.fold(decision.how_far.horizon, u32::max);
        let corrections =
            corrections(decision, &query.coupling, seen.geometry.residuals(), longest)?;
        let icl = outcome.map_or(seen.query_prediction, |outcome| outcome.icl);
        let followed = outcome.filter(|outcome| outcome.followed);
        Ok(Some(Self {
            linear: corrections.map(|correction| icl + correction).collect(),
            steps: followed.map(|outcome| outcome.query_path.clone()),
        }))
    }
}

/// `k_xᵀ q_T(K) r` for `T = 0, 1, …`, mode by mode, so that both vectors are rotated once.
fn corrections(
    decision: &Decision,
    coupling: &[f64],
    residuals: &[f64],
    longest: u32,
) -> Result<impl Iterator<Item = f64>, Error> {
    let spectrum = &decision.spectrum;
    let step = StepSize::new(decision.how_far.step_size, spectrum)?;
    let amounts = spectrum.rotate(coupling)?.into_iter().zip(spectrum.rotate(residuals)?);
    let modes: Vec<(f64, f64)> =
        spectrum.eigenvalues().iter().copied().zip(amounts.map(|(a, b)| a * b)).collect();
    Ok((0..=longest).map(move |horizon| {
        let steps = GradientDescent { step, horizon };
        modes.iter().map(|(eigenvalue, amount)| steps.gain(*eigenvalue) * amount).sum()
    }))
}

//! What the built-in model says about a small task.

use crate::Lines;
use fewstep::{Action, Dynamics, Error, Policy, Predictor};
use fewstep_core::{Block, HorizonRule, decide};
use fewstep_engine::choose_blocks;

const TASK: &[u8] = br#"{"id": "t1", "template": "{x}->{y}",
    "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.25}, {"text": "2", "value": 1.0}],
    "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "2"}, {"x": "7", "y": "1"}, {"x": "2", "y": "0"}],
    "query": {"x": "4", "y": "1"}}"#;

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let task = fewstep::tasks::parse(TASK)?;
    let model = fewstep::builtin()?;
    let blocks = choose_blocks("value@last2", model.config())?;
    let seen = model.observe(&task, &blocks)?;
    let policy = Policy { horizon: HorizonRule::Fixed { steps: 3 }, ..Policy::paper() };
    let outcome = model.act(&task, &decide(&seen.geometry, &policy)?)?;
    lines.add("Model.act.icl", [outcome.icl, outcome.adapted]);
    lines.add("Model.act.query_path", outcome.query_path);
    lines.add("Model.act.linear_path", outcome.linear_path);
    lines.add("Model.act.prompt_path", outcome.prompt_path.concat());
    lines.add("Model.observe.predictions", seen.predictions);
    let ids = seen.geometry.blocks().iter().filter_map(Block::id);
    lines.add("Block.id", ids.map(|id| id as f64));
    lines.add("Model.observe.residuals", seen.geometry.residuals().to_vec());
    lines.add("Model.observe.query_prediction", [seen.query_prediction]);
    let default = Predictor::new(model.clone(), Policy::default(), Action::Act)?;
    let said = default.answer(&task)?.report.prediction;
    lines.add("Model.predict.default", said.adapted.into_iter().chain(said.linear));
    let policy = Policy { dynamics: Dynamics::Steps, ..Policy::default() };
    let predictor = Predictor::new(model, policy, Action::Act)?.with_matrices(true);
    let report = predictor.answer(&task)?.report;
    let prediction = &report.prediction;
    let (adapted, linear) = (prediction.adapted, prediction.linear);
    lines.add(
        "Model.predict.prediction",
        [prediction.icl].into_iter().chain(adapted).chain(linear),
    );
    if let Some(interval) = prediction.interval {
        lines
            .add("Model.predict.interval", [interval.lower, interval.upper, interval.coverage]);
    }
    if let Some(path) = &prediction.path {
        lines.add("Model.predict.path.linear", path.linear.clone());
        lines.add("Model.predict.path.steps", path.steps.clone().unwrap_or_default());
    }
    if let Some(how_far) = report.how_far {
        lines.add("Model.predict.evidence", how_far.evidence);
        lines.add("Model.predict.posterior", how_far.posterior);
        lines.add("Model.predict.leave_one_out", how_far.leave_one_out);
    }
    if let Some(geometry) = report.geometry {
        lines.add("Model.predict.eigenvalues", geometry.eigenvalues);
        lines.add("Model.predict.response", geometry.response.unwrap_or_default());
        lines.add("Model.predict.bayes_response", geometry.bayes_response.unwrap_or_default());
        lines.add("Model.predict.kernel", geometry.kernel.unwrap_or_default().concat());
    }
    Ok(())
}

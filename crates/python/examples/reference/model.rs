//! What the built-in model says about a small task.

use crate::Lines;
use fewstep::{Action, Dynamics, Error, Session, Way};
use fewstep_core::{HorizonRule, Rules, decide};
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
    let rules = Rules { horizon: HorizonRule::Fixed(3), ..Rules::default() };
    let outcome = model.act(&task, &decide(&seen.geometry, &rules)?)?;
    lines.add("Model.act.icl", [outcome.icl, outcome.adapted]);
    lines.add("Model.act.query_path", outcome.query_path);
    lines.add("Model.act.linear_path", outcome.linear_path);
    lines.add("Model.act.prompt_path", outcome.prompt_path.concat());
    lines.add("Model.observe.predictions", seen.predictions);
    lines.add("Model.observe.residuals", seen.geometry.residuals().to_vec());
    lines.add("Model.observe.query_prediction", [seen.query_prediction]);
    let usual = Session::new(model, Action::Act)?.with_matrices(true);
    let said = usual.answer(&task)?.report.prediction;
    lines.add("Model.predict.usual", said.adapted.into_iter().chain(said.linear));
    let way = Way { dynamics: Dynamics::Steps, ..Way::usual(usual.model().config()) };
    let report = usual.with_way(way)?.answer(&task)?.report;
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
        lines.add("Model.predict.left_out_risk", how_far.left_out_risk);
    }
    if let Some(geometry) = report.geometry {
        lines.add("Model.predict.eigenvalues", geometry.eigenvalues);
        lines.add("Model.predict.response", geometry.response.unwrap_or_default());
        lines.add("Model.predict.bayes_response", geometry.bayes_response.unwrap_or_default());
        lines.add("Model.predict.kernel", geometry.kernel.unwrap_or_default().concat());
    }
    Ok(())
}

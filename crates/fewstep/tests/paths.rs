//! With `--full` the query is predicted after every step: where that number of steps leads, and nothing else
//! changes by it.
#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

use crate::support::{printed, records, root, run_with_input, said};
use fewstep::{Action, Policy, Predictor, Report};
use fewstep_core::{HorizonName, HorizonRule};
use fewstep_engine::{Config, Model, Parameters, Tokenizer};
use serde_json::Value;

/// The lines of the examples.
fn digits() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("examples/digits.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The reports of `predict` with some flags, on two of the examples: noisy and outside of what the
/// model knows.
fn reports(flags: &str) -> Vec<Value> {
    let mut arguments = vec!["predict", "-", "--json"];
    arguments.extend(flags.split_whitespace());
    let output = run_with_input(&arguments, digits()[2..4].join("\n").as_bytes());
    assert!(output.status.success(), "{}", said(&output));
    records(&printed(&output))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The report without what `--full` adds, and without what it cost.
fn brief(report: &Value) -> Value {
    let mut brief = report.clone();
    let remove = |part: &mut Value, names: &[&str]| {
        for name in names {
            part.as_object_mut().unwrap().remove(*name);
        }
    };
    remove(&mut brief["prediction"], &["path"]);
    remove(&mut brief["how_far"], &["horizons", "leave_one_out", "pac_bayes"]);
    remove(&mut brief["which"], &["blocks"]);
    let geometry = ["response", "bayes_response", "kernel", "coupling", "labels", "room"];
    remove(&mut brief["geometry"], &geometry);
    remove(&mut brief, &["passes"]);
    brief
}

/// All that is said without `--full` is said with it, to the last digit; and it costs one sequence
/// for each step on whose way the query would not have been looked at.
#[test]
fn looking_at_the_way_changes_no_digit() {
    for (flags, last_is_known) in [
        ("", false),
        ("--loo-order tree", false),
        ("--policy paper --horizon 8", true),
        ("--policy paper --horizon 1 --blocks lora-value@last1", true),
        ("--policy paper --select query-aware --budget 4", true),
        ("--policy paper --horizon gibbs", true),
        ("--policy paper --horizon bayes-filter", true),
        ("--policy paper --horizon 0", true),
        ("--dynamics linear", true),
    ] {
        let (short, long) = (reports(flags), reports(&format!("{flags} --full")));
        assert_eq!(short.len(), long.len());
        for (short, long) in short.iter().zip(&long) {
            assert!(short["prediction"].get("path").is_none());
            assert!(short["geometry"].get("response").is_none());
            assert_eq!(brief(short), brief(long), "{flags}");
            let steps = long["prediction"]["path"].get("steps").map(numbers);
            let taken = steps.map_or(0, |steps| steps.len() as u64 - 1);
            let forward = |report: &Value| report["passes"]["forward"].as_u64().unwrap();
            let more = if last_is_known { taken.saturating_sub(1) } else { taken };
            assert_eq!(forward(long) - forward(short), more, "{flags}");
            assert_eq!(long["passes"]["backward"], short["passes"]["backward"], "{flags}");
        }
    }
}

/// Nor does it change any weight: with 16 examples, whose last tokens are few rows while the query
/// would make them many.
#[test]
fn looking_at_the_way_changes_no_weight() {
    let tasks = digits();
    let mut task = fewstep::tasks::parse(tasks[3].as_bytes()).unwrap();
    let more = fewstep::tasks::parse(tasks[2].as_bytes()).unwrap().examples;
    task.examples.extend(more.into_iter().take(6));
    assert_eq!(task.examples.len(), 16);
    let model = fewstep::builtin().unwrap();
    for horizon in [HorizonName::Fixed(4), HorizonName::LeaveOneOutAverage] {
        let (rule, blocks) = (HorizonRule::of_name(horizon), "mlp-up@all".to_owned());
        let policy = Policy { horizon: rule, blocks, ..Policy::paper() };
        let predictor = Predictor::new(model.clone(), policy, Action::Act).unwrap();
        let short = predictor.answer(&task).unwrap();
        let long = predictor.with_matrices(true).answer(&task).unwrap();
        assert!(short.update.is_some() && short.update == long.update, "{horizon}");
        let [short, long] =
            [short, long].map(|answer| answer.report.prediction.adapted.unwrap().to_bits());
        assert_eq!(short, long, "{horizon}");
    }
}

/// After some steps on the way the query is where the same number of steps leads by itself, for
/// steps and for averages over them; the linear path likewise.
#[test]
fn a_path_is_where_fewer_steps_lead() {
    let policy = "--policy paper --blocks mlp-up@last1 --step-scale 0.3";
    // A few sums in single precision over the width, one for each step.
    let close = |a: f64, b: f64| (a - b).abs() <= 200.0 * f64::from(f32::EPSILON);
    let apart: Vec<Vec<Value>> =
        (0..=6).map(|steps| reports(&format!("{policy} --horizon {steps}"))).collect();
    let mut moved = 0;
    for (horizons, rule, longest) in
        [("0..4", "6", 6), ("0..6", "4", 6), ("0..6", "leave-one-out-average", 6)]
    {
        let flags = format!("{policy} --horizons {horizons} --horizon {rule} --full");
        for (task, report) in reports(&flags).iter().enumerate() {
            let (prediction, id) = (&report["prediction"], &report["id"]);
            let linear = numbers(&prediction["path"]["linear"]);
            assert_eq!(linear.len(), longest + 1, "{id}, {rule}");
            let Some(steps) = prediction["path"].get("steps").map(numbers) else {
                assert_eq!(report["when"]["adapt"], false, "{id}, {rule}");
                continue;
            };
            assert_eq!(Value::from(steps[0]), prediction["icl"], "{id}, {rule}");
            if let Ok(taken) = rule.parse::<usize>() {
                assert_eq!(steps.len(), taken + 1);
                assert_eq!(Value::from(steps[taken]), prediction["adapted"], "{id}");
                let linear_form = prediction["linear"].as_f64().unwrap();
                assert!((linear[taken] - linear_form).abs() <= 1e-13, "{id}");
            }
            let alone = |taken: usize| &apart[taken][task]["prediction"];
            for (taken, found) in steps.iter().enumerate() {
                let expected = alone(taken)["adapted"].as_f64().unwrap();
                assert!(close(*found, expected), "{id}, {rule}: {taken} steps: {found}");
            }
            for (taken, found) in linear.iter().enumerate() {
                let expected = alone(taken)["linear"].as_f64().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-13,
                    "{id}, {rule}: {taken} linear steps"
                );
            }
            moved += usize::from(!close(steps[0], steps[1]));
        }
    }
    assert!(moved > 3, "{moved}");
}

/// What a model without weights, which predicts the mean of the labels, has in its report if the
/// second label is worth so much.
fn report_without_weights(worth: f64) -> Report {
    let config = Config::from_json(
        br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
             "n_positions": 64, "vocab_size": 256}"#,
    )
    .unwrap();
    let parameters = Parameters::zeros(&config).unwrap();
    let model = Model::new(config, Tokenizer::of_bytes(), parameters).unwrap();
    let task = format!(
        r#"{{"id": "t", "template": "{{x}}={{y}}",
             "labels": [{{"text": "0", "value": 0.5}}, {{"text": "1", "value": {worth}}}],
             "examples": [{{"x": "a", "y": "1"}}, {{"x": "b", "y": "0"}}], "query": {{"x": "c"}}}}"#
    );
    let task = fewstep::tasks::parse(task.as_bytes()).unwrap();
    let predictor = Predictor::new(model, Policy::default(), Action::Act).unwrap();
    let predictor = predictor.with_matrices(true);
    predictor.answer(&task).unwrap().report
}

/// Where no step moves anything the filters do nothing; and nothing is fitted where the model is
/// right on every example.
#[test]
fn what_there_is_no_number_for_is_absent() {
    for (worth, fitted) in [(0.25, Some(vec![0.0, 0.0])), (0.5, None)] {
        let report = report_without_weights(worth);
        let geometry = report.geometry.as_ref().unwrap();
        let right = geometry.residuals.iter().all(|&residual| residual == 0.0);
        assert_eq!(right, fitted.is_none());
        assert_eq!(geometry.response, Some(vec![0.0, 0.0]));
        assert_eq!(geometry.bayes_response, fitted);
        let path = report.prediction.path.as_ref().unwrap();
        let icl = report.prediction.icl;
        assert!(path.linear.len() > 20 && path.linear.iter().all(|&at| at == icl));
        assert_eq!(path.steps, None);
        // Whoever asks for less afterwards gets it.
        for name in ["path", "response"] {
            assert!(report.to_json(true).contains(name));
            assert!(!report.to_json(false).contains(name));
        }
    }
}

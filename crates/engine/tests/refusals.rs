//! What is refused when a model or a task is put together by hand, each with its numbers.

#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

use crate::support::{blocks, random_case, random_case_of};
use fewstep_core::{Block, Geometry};
use fewstep_engine::{
    Error, Family, KernelForm, Labels, Layout, LinearPath, Network, Parameters, Steps,
    TokenTask, Variant, apply_filter, apply_weights, descend, observe, predict_updated,
};

type Part = fn(&mut Parameters) -> &mut Vec<f32>;

/// Every list of weights, the name under which it is refused, and its size.
fn parts() -> Vec<(&'static str, usize, Part)> {
    let (width, inner) = (6, 10);
    vec![
        ("token embedding", 11 * width, |p| &mut p.token_embedding),
        ("position embedding", 16 * width, |p| &mut p.position_embedding),
        ("final norm scale", width, |p| &mut p.final_norm.scale),
        ("final norm shift", width, |p| &mut p.final_norm.shift),
        ("output embedding", 11 * width, |p| p.unembedding.as_mut().unwrap()),
        ("query", width * width, |p| &mut p.layers[1].query.weight),
        ("query", width, |p| &mut p.layers[1].query.bias),
        ("key", width * width, |p| &mut p.layers[2].key.weight),
        ("key", width, |p| &mut p.layers[2].key.bias),
        ("value", width * width, |p| &mut p.layers[0].value.weight),
        ("value", width, |p| &mut p.layers[0].value.bias),
        ("output", width * width, |p| &mut p.layers[0].output.weight),
        ("output", width, |p| &mut p.layers[0].output.bias),
        ("mlp-up", width * inner, |p| &mut p.layers[2].mlp_up.weight),
        ("mlp-up", inner, |p| &mut p.layers[2].mlp_up.bias),
        ("mlp-down", inner * width, |p| &mut p.layers[2].mlp_down.weight),
        ("mlp-down", width, |p| &mut p.layers[2].mlp_down.bias),
        ("norm scale", width, |p| &mut p.layers[2].attention_norm.scale),
        ("norm shift", width, |p| &mut p.layers[2].attention_norm.shift),
        ("norm scale", width, |p| &mut p.layers[0].mlp_norm.scale),
        ("norm shift", width, |p| &mut p.layers[0].mlp_norm.shift),
    ]
}

#[test]
fn parameters_of_another_size_are_named() {
    let (config, parameters, _) = random_case(1);
    assert!(!config.tied);
    let refused = |parameters: Parameters| -> Error {
        Network::<f32>::new(&config, parameters).map(|_| ()).unwrap_err()
    };
    for (quantity, expected, part) in parts() {
        for longer in [false, true] {
            let mut wrong = parameters.clone();
            part(&mut wrong).resize(if longer { expected + 1 } else { expected - 1 }, 0.0);
            let found = if longer { expected + 1 } else { expected - 1 };
            assert_eq!(refused(wrong), Error::SizeMismatch { quantity, found, expected });
        }
    }
    let mut fewer = parameters.clone();
    fewer.layers.pop();
    let sizes = Error::SizeMismatch { quantity: "list of layers", found: 2, expected: 3 };
    assert_eq!(refused(fewer), sizes);
    let tied = Parameters { unembedding: None, ..parameters.clone() };
    let sizes = Error::SizeMismatch { quantity: "output embedding", found: 0, expected: 66 };
    assert_eq!(refused(tied), sizes);
    let mut own = config.clone();
    own.tied = true;
    let refused = Network::<f32>::new(&own, parameters.clone()).map(|_| ()).unwrap_err();
    let sizes = Error::SizeMismatch { quantity: "output embedding", found: 66, expected: 0 };
    assert_eq!(refused, sizes);
    own.heads = 4;
    let refused = Network::<f32>::new(&own, parameters).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::HeadsDoNotDivide { heads: 4, width: 6, .. }));
}

#[test]
fn labels_and_answers_must_be_complete_and_finite() {
    let refused = Labels::new(vec![], vec![]);
    assert_eq!(refused, Err(Error::Empty { quantity: "list of labels" }));
    let refused = Labels::new(vec![1, 2], vec![0.5]);
    let sizes = Error::SizeMismatch { quantity: "label values", found: 1, expected: 2 };
    assert_eq!(refused, Err(sizes));
    for value in [f64::INFINITY, f64::NEG_INFINITY] {
        let refused = Labels::new(vec![1, 2], vec![0.5, value]);
        let range =
            Error::OutOfRange { quantity: "label value", found: value, allowed: "finite" };
        assert_eq!(refused, Err(range));
    }
    let labels = || Labels::new(vec![1, 2], vec![0.0, 1.0]).unwrap();
    let task = |prompts: Vec<Vec<u32>>, targets: Vec<f64>| {
        TokenTask::new(prompts, vec![3], labels(), targets)
    };
    let refused = task(vec![], vec![]);
    assert_eq!(refused, Err(Error::Empty { quantity: "list of examples" }));
    let refused = task(vec![vec![1], vec![2]], vec![0.0]);
    let sizes = Error::SizeMismatch { quantity: "targets", found: 1, expected: 2 };
    assert_eq!(refused, Err(sizes));
    let found = f64::INFINITY;
    let refused = task(vec![vec![1]], vec![found]);
    assert_eq!(
        refused,
        Err(Error::OutOfRange { quantity: "target", found, allowed: "finite" })
    );
    assert!(matches!(
        task(vec![vec![1]], vec![f64::NAN]),
        Err(Error::OutOfRange { quantity: "target", found, .. }) if found.is_nan()
    ));
    // A prompt without tokens is noticed when it is laid out.
    let (config, parameters, _) = random_case(0);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let hollow = task(vec![vec![1], vec![]], vec![0.0, 1.0]).unwrap();
    let chosen = blocks("value@last1", &config);
    let refused = observe(&model, &hollow, &chosen, KernelForm::Cheapest).unwrap_err();
    assert_eq!(refused, Error::EmptySequence { sequence: 1 });
}

/// Parts that a family does not have are as wrong as parts that are missing.
#[test]
fn parameters_of_another_family_are_named() {
    let (config, parameters, _) = random_case_of(1, 1);
    let refused = |change: &dyn Fn(&mut Parameters)| -> Error {
        let mut wrong = parameters.clone();
        change(&mut wrong);
        Network::<f32>::new(&config, wrong).map(|_| ()).unwrap_err()
    };
    let sizes = |quantity, found, expected| Error::SizeMismatch { quantity, found, expected };
    let found = refused(&|p| p.position_embedding = vec![0.0; 96]);
    assert_eq!(found, sizes("position embedding", 96, 0));
    let found = refused(&|p| p.final_norm.shift = vec![0.0; 6]);
    assert_eq!(found, sizes("final norm shift", 6, 0));
    let found = refused(&|p| p.layers[2].mlp_norm.shift = vec![0.0; 6]);
    assert_eq!(found, sizes("norm shift", 6, 0));
    let found = refused(&|p| p.layers[1].mlp_gate = None);
    assert_eq!(found, sizes("mlp-gate", 0, 60));
    let found = refused(&|p| p.layers[1].value.bias = vec![0.0; 8]);
    assert_eq!(found, sizes("value", 8, 0));
    let found = refused(&|p| p.layers[0].key.weight.truncate(6));
    assert_eq!(found, sizes("key", 6, 48));
    let (config, mut parameters, _) = random_case(1);
    parameters.layers[0].mlp_gate = Some(parameters.layers[0].mlp_up.clone());
    let found = Network::<f32>::new(&config, parameters).map(|_| ()).unwrap_err();
    assert_eq!(found, sizes("mlp-gate", 60, 0));
}

/// A window is exact for sequences that fit into it, and longer ones are refused.
#[test]
fn sequences_beyond_a_window_are_refused() {
    let (config, parameters, task) = random_case_of(4, 1);
    let model: Network<f32> = Network::new(&config, parameters.clone()).unwrap();
    let predict = |model: &Network<f32>, length: u32| {
        let sequences: Vec<Vec<u32>> = vec![vec![1], (0..length).collect()];
        model.predict(Layout::plain(&sequences).unwrap(), task.labels())
    };
    let mut open = config.clone();
    let Family::Llama(parts) = &mut open.family else { panic!("it is one") };
    parts.variant = Variant::Mistral { window: None };
    let open: Network<f32> = Network::new(&open, parameters).unwrap();
    assert_eq!(predict(&model, 9), predict(&open, 9));
    assert!(predict(&open, 10).is_ok());
    let refused = predict(&model, 10);
    assert_eq!(refused, Err(Error::BeyondWindow { sequence: 1, found: 10, window: 9 }));
    let far = vec![vec![1; 17]];
    let refused = model.predict(Layout::plain(&far).unwrap(), task.labels());
    assert_eq!(refused, Err(Error::SequenceTooLong { sequence: 0, found: 17, limit: 16 }));
}

/// Overflow is refused wherever predictions are made, with the number of steps until then.
#[test]
fn predictions_that_are_no_numbers_are_refused() {
    let (config, parameters, task) = random_case(0);
    let chosen = blocks("value@last1", &config);
    let mut broken = parameters.clone();
    broken.layers[0].mlp_down.weight.fill(f32::MAX);
    let broken: Network<f32> = Network::new(&config, broken).unwrap();
    let at_once = Error::NotFinite { sequence: 0, steps: 0 };
    let refused = observe(&broken, &task, &chosen, KernelForm::Cheapest).unwrap_err();
    assert_eq!(refused, at_once);
    let refused = descend(&broken, &task, &chosen, &Steps::new(0.1, 3)).unwrap_err();
    assert_eq!(refused, at_once);
    let refused = apply_weights(&broken, &task, &chosen, &[1.0; 4], None).unwrap_err();
    assert_eq!(refused, at_once);

    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    // Values of ±3e38 overflow on their way through the projection, in the first step.
    let refused = descend(&model, &task, &chosen, &Steps::new(3e38, 4)).unwrap_err();
    assert!(matches!(refused, Error::NotFinite { sequence: 0..5, steps: 1 }), "{refused:?}");
    let refused = apply_weights(&model, &task, &chosen, &[3e38; 4], None).unwrap_err();
    assert!(matches!(refused, Error::NotFinite { sequence: 0..5, steps: 1 }), "{refused:?}");
    let mut update = fewstep_engine::Update::zeros(&model, &chosen).unwrap();
    update.block_mut(chosen[0]).unwrap().fill(f32::INFINITY);
    let refused = predict_updated(&model, &task, &update).unwrap_err();
    assert_eq!(refused, Error::NotFinite { sequence: 0, steps: 1 });
}

/// What the decision side refuses comes through as it is.
#[test]
fn refusals_of_the_decision_side_are_passed_on() {
    let (config, parameters, task) = random_case(0);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let chosen = blocks("value@last1", &config);
    let two = Block::new("two", [vec![1.0, 0.0], vec![0.0, 1.0]].as_slice()).unwrap();
    let geometry = Geometry::new(vec![1.0, 0.5], vec![two.clone()]).unwrap();
    let decision = fewstep_core::decide(&geometry, &fewstep_core::Policy::paper()).unwrap();
    let refused =
        apply_filter(&model, &task, &chosen, &decision.plan, &decision.spectrum).unwrap_err();
    let Error::Core(fewstep_core::Error::SizeMismatch { found: 4, expected: 2, .. }) = refused
    else {
        panic!("the spectrum has two modes, the task four examples: {refused:?}");
    };
    let refused = LinearPath::new(&two, &[1.0, 0.5], &Steps::new(0.1, 2)).unwrap_err();
    let quantity = "the path of linear steps";
    assert_eq!(refused, Error::Core(fewstep_core::Error::NoQuery { quantity }));
    let refused = LinearPath::new(&two, &[1.0], &Steps::new(0.1, 2)).unwrap_err();
    let sizes = Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 };
    assert_eq!(refused, sizes);
}

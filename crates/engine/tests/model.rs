//! The model as users have it: limits, what a decision leads to, and updates that become weights.

#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

use crate::support::{self, FOLDERS, all_blocks, assert_near, bits, blocks, fixture, kinds};
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::{
    Block, Decision, Geometry, GradientDescent, HorizonName, HorizonRule, Mixture, Plan,
    Policy, StepSize, decide,
};
use fewstep_engine::{
    Error, FirstFactor, Lora, Model, Order, Outcome, PromptSettings, Steps, Task, Update,
    descend, memory_plan, predict_updated,
};
use fewstep_theory::drift::{self, Departure, Watch};

fn tasks() -> Vec<Task> {
    let text = std::fs::read_to_string(fixture("tasks.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every kind of block by itself, and all together: a merged checkpoint predicts what the update
/// predicts beside the checkpoint.
#[test]
fn a_merged_checkpoint_predicts_what_its_update_predicts() {
    for folder in FOLDERS {
        let model = Model::open(&fixture(folder)).unwrap();
        let task = &tasks()[0];
        let tokens = model.read(task).unwrap();
        for kinds in
            kinds(model.config()).split(',').chain(["value,key,mlp-down,lora-value,norm"])
        {
            // Not all blocks of the kind: another head's place would go unnoticed.
            let mut chosen = blocks(&format!("{kinds}@all"), model.config());
            chosen.swap_remove(0);
            let steps = Steps::new(0.2, 3);
            let update = descend(model.network(), &tokens, &chosen, &steps).unwrap().update;
            let directory = tempfile::tempdir().unwrap();
            model.save_merged(directory.path(), &update).unwrap();
            let merged = Model::open(directory.path()).unwrap();

            let updated = predict_updated(model.network(), &tokens, &update).unwrap();
            let layout = || tokens.layout().unwrap();
            let found = merged.network().predict(layout(), tokens.labels()).unwrap();
            let found: Vec<f64> = found.into_iter().map(f64::from).collect();
            let what = format!("{folder}, {kinds}");
            assert_near(&found, &updated, 1e-6, &what);
            let base = model.network().predict(layout(), tokens.labels()).unwrap();
            let gaps = found.iter().zip(&base).map(|(a, &b)| (a - f64::from(b)).abs());
            assert!(gaps.fold(0.0, f64::max) > 1e-4, "{what}: the update moves predictions");
            let zeros = Update::zeros(merged.network(), &chosen).unwrap();
            let query = merged.predict(task, &zeros).unwrap();
            assert_near(&[query], &updated[updated.len() - 1..], 1e-6, &what);
        }
    }
}

#[test]
fn merging_leaves_other_weights_alone_and_refuses_what_does_not_fit() {
    let model = Model::open(&fixture("gpt2-inner")).unwrap();
    let (config, parameters) = (model.config(), model.network().parameters());
    let chosen = blocks("key@1..2", config);
    let mut update = Update::zeros(model.network(), &chosen).unwrap();
    update.block_mut(chosen[2]).unwrap().fill(0.5);
    let merged = update.merge(&parameters, config).unwrap();
    let (width, size) = (config.width, config.head_width());
    let mut expected = parameters.clone();
    for row in 0..width {
        for column in 2 * size..3 * size {
            expected.layers[1].key.weight[row * width + column] += 0.5;
        }
    }
    assert_eq!(merged, expected);

    let mut fewer = config.clone();
    fewer.layers = 1;
    let refused = update.merge(&parameters, &fewer).unwrap_err();
    let sizes = Error::SizeMismatch { quantity: "list of layers", found: 3, expected: 1 };
    assert_eq!(refused, sizes);
    let mut short = parameters.clone();
    short.layers.truncate(1);
    let refused = update.merge(&short, &fewer).unwrap_err();
    let block = "key.1.0".to_owned();
    assert_eq!(refused, Error::NoSuchBlock { block, layers: 1, heads: 4 });
    let other = Model::open(&fixture("gpt2-plain")).unwrap();
    let (config, parameters) = (other.config(), other.network().parameters());
    let own = Update::zeros(model.network(), &blocks("value@0..1", model.config())[..2]);
    let refused = own.unwrap().merge(&parameters, config).unwrap_err();
    let sizes = Error::SizeMismatch { quantity: "update", found: 16 * 4, expected: 8 * 4 };
    assert_eq!(refused, sizes);
}

#[test]
fn observing_beyond_the_limit_is_refused_before_it_starts() {
    let model = Model::open(&fixture("gpt2-plain")).unwrap();
    let (task, chosen) = (&tasks()[0], all_blocks(model.config()));
    let layout = model.read(task).unwrap().layout().unwrap();
    let needed = memory_plan(model.config(), &layout, &chosen, model.network().lora(), 4);
    assert!(needed > 1000);
    let limited = |limit: u64| model.clone().with_memory_limit(limit).observe(task, &chosen);
    let refused = limited(needed - 1).unwrap_err();
    assert_eq!(refused, Error::TooMuchMemory { needed, limit: needed - 1 });
    let allowed = limited(needed).unwrap();
    assert_eq!(allowed, model.observe(task, &chosen).unwrap());
}

/// The paper's policy with another horizon rule, and odds for leaving the model alone.
fn by_rule(name: HorizonName, odds: f64) -> Policy {
    let mut horizon = HorizonRule::of_name(name);
    if let HorizonRule::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds } =
        &mut horizon
    {
        (*averaging, *sharpness, *leave_alone_odds) = (Averaging::Trimmed, 1.0, odds);
    }
    Policy { horizon, ..Policy::paper() }
}

/// A decision by a rule, and what it led to.
fn outcome(model: &Model, task: &Task, horizon: HorizonName) -> (Decision, Outcome) {
    let seen = model.observe(task, &blocks("value,mlp-up@all", model.config())).unwrap();
    let decision = decide(&seen.geometry, &by_rule(horizon, 1.0)).unwrap();
    let outcome = model.act(task, &decision).unwrap();
    (decision, outcome)
}

/// How far every real step was from the linearised model.
fn departures(
    decision: &Decision,
    residuals: &[f64],
    step: StepSize,
    path: &[Vec<f64>],
) -> Vec<Departure> {
    let mut watch = Watch::new(&decision.spectrum, residuals, step).unwrap();
    for (horizon, predictions) in (0..).zip(path).skip(1) {
        let shift: Vec<f64> =
            predictions.iter().zip(&path[0]).map(|(s, base)| s - base).collect();
        watch.observe(drift::Observation::new(horizon, &shift)).unwrap();
    }
    watch.departures().to_vec()
}

/// Every step can be watched against the linearised model, both computed here from the kernel.
#[test]
fn real_steps_can_be_watched() {
    for folder in FOLDERS {
        let model = Model::open(&fixture(folder)).unwrap();
        for task in tasks() {
            let (decision, outcome) = outcome(&model, &task, HorizonName::Fixed(6));
            let Plan::Steps(GradientDescent { step, horizon: 6 }) = decision.plan else {
                panic!("six steps were asked for");
            };
            let seen =
                model.observe(&task, &blocks("value,mlp-up@all", model.config())).unwrap();
            let (block, residuals) = (seen.geometry.total(), seen.geometry.residuals());
            let (n, coupling) = (residuals.len(), &block.query().unwrap().coupling);
            let (mut fit, mut query) = (vec![0.0; n], outcome.icl);
            let departures = departures(&decision, residuals, step, &outcome.prompt_path);
            assert_eq!((outcome.linear_path.len(), departures.len()), (7, 6));
            for steps in 0..=6 {
                let what = format!("{folder}, {}, {steps} steps", task.id);
                assert_near(&[outcome.linear_path[steps]], &[query], 1e-12, &what);
                if let Some(departure) = steps.checked_sub(1).map(|at| departures[at]) {
                    assert_eq!(departure.horizon as usize, steps);
                    let shifts = outcome.prompt_path[steps].iter().zip(&outcome.prompt_path[0]);
                    let gaps: Vec<f64> =
                        shifts.zip(&fit).map(|((s, base), fit)| s - base - fit).collect();
                    let scale = support::norm(&fit);
                    let gap = (departure.deviation - support::norm(&gaps)).abs();
                    assert!(gap <= 1e-12 * scale, "{what}");
                    assert_near(&[departure.predicted], &[scale], 1e-12, &what);
                    assert!(departure.deviation > 0.0, "{what}: steps are not linear");
                }
                let pull: Vec<f64> =
                    residuals.iter().zip(&fit).map(|(r, f)| step.get() * (r - f)).collect();
                for (i, fit) in fit.iter_mut().enumerate() {
                    *fit += (0..n).map(|j| block.kernel()[(i, j)] * pull[j]).sum::<f64>();
                }
                query += coupling.iter().zip(&pull).map(|(k, p)| k * p).sum::<f64>();
            }
        }
    }
}

/// What is applied at once has its linear prediction too; without an update both are the model's.
#[test]
fn other_updates_have_a_linear_prediction() {
    let model = Model::open(&fixture("gpt2-plain")).unwrap();
    let task = &tasks()[0];
    let (_, none) = outcome(&model, task, HorizonName::Fixed(0));
    assert_eq!((none.linear_path, none.prompt_path.len()), (vec![none.icl], 1));
    assert_eq!((none.update, none.adapted), (None, none.icl));
    let (decision, average) = outcome(&model, task, HorizonName::Gibbs);
    assert!(matches!(decision.plan, Plan::Average(_)), "{:?}", decision.plan);
    assert_eq!(average.prompt_path.len(), 2);
    let expected = [average.icl, average.icl + decision.query.unwrap().correction];
    assert_near(&average.linear_path, &expected, 1e-14, "the decision's own outlook");
    assert_eq!(bits(&average.query_path)[0], average.icl.to_bits());
}

/// An average over the way of steps is the average of the weights after each number of them, and
/// predicts what they predict; it stops where hardly any weight is left.
#[test]
fn averaged_steps_are_the_average_of_steps() {
    let model = Model::open(&fixture("gpt2-plain")).unwrap();
    let task = &tasks()[0];
    let candidates = blocks("mlp-up@last1", model.config());
    let seen = model.observe(task, &candidates).unwrap();
    let by = |horizon, odds| {
        let horizons = vec![0, 1, 3, 4, 9];
        let policy = Policy { horizons, ..by_rule(horizon, odds) };
        decide(&seen.geometry, &policy).unwrap()
    };
    let mut decision = by(HorizonName::LeaveOneOutAverage, 1.0);
    let Plan::AveragedSteps(average) = decision.plan.clone() else {
        panic!("{:?}", decision.plan);
    };
    let step = average.parts()[0].1.step;
    let mixed = |parts: &[(f64, u32)]| {
        let parts = parts.iter();
        Mixture::new(
            parts
                .map(|&(weight, horizon)| (weight, GradientDescent { step, horizon }))
                .collect(),
        )
        .unwrap()
    };
    // The order of the parts does not matter, and what is far out has too little weight.
    let (weights, last) = ([(0.3, 4_u32), (0.5, 0), (0.2, 1)], 0.004);
    let total = 1.0 + last;
    let parts = [&weights[..], &[(last, 9)]].concat();
    decision.plan = Plan::AveragedSteps(mixed(&parts));
    let found = model.act(task, &decision).unwrap();
    let taken = |horizon: u32| {
        let update = model.act(task, &by(HorizonName::Fixed(horizon), 1.0)).unwrap().update;
        update.map(|update| update.blocks()[0].1.to_vec())
    };
    let (one, four) = (taken(1).unwrap(), taken(4).unwrap());
    let expected: Vec<f64> = one
        .iter()
        .zip(&four)
        .map(|(one, four)| (0.2 * f64::from(*one) + (0.3 + last) * f64::from(*four)) / total)
        .collect();
    let update = found.update.unwrap();
    let average: Vec<f64> = update.blocks()[0].1.iter().map(|&x| f64::from(x)).collect();
    assert_near(&average, &expected, 1e-5, "the average of the weights");
    assert_eq!(found.passes.backward, 4 * task.examples.len() as u64);
    let read = model.read(task).unwrap();
    let again = predict_updated(model.network(), &read, &update).unwrap();
    assert_near(&[found.adapted], &[*again.last().unwrap()], 1e-6, "its prediction");
    assert_eq!(found.prompt_path.len(), 2);
    // On the way the query is where that number of steps leads, and not where their average does.
    let farthest = model.act(task, &by(HorizonName::Fixed(4), 1.0)).unwrap();
    assert_near(&found.query_path, &farthest.query_path, 1e-6, "the path underneath");
    assert_near(&found.linear_path, &farthest.linear_path, 1e-14, "in the linearised model");
    assert!(found.followed && farthest.followed);
    assert!((found.adapted - found.query_path[4]).abs() > 1e-4, "the average is elsewhere");
    assert_eq!(found.icl.to_bits(), found.query_path[0].to_bits());
}

/// To look at the query on the way changes nothing but the path and what it cost.
#[test]
fn following_the_query_changes_no_bit() {
    let tree = |model: Model| {
        let settings = PromptSettings::new(model.config().positions);
        model.with_prompts(PromptSettings { order: Order::Tree, ..settings })
    };
    let mut paths = 0;
    for folder in FOLDERS {
        let plain = Model::open(&fixture(folder)).unwrap();
        for (model, task) in [(plain.clone(), &tasks()[0]), (tree(plain), &tasks()[1])] {
            for kinds in ["value,mlp-up@all", "mlp-down@last1", "lora-query,norm@all"] {
                let prepared = model.prepare(task, &blocks(kinds, model.config())).unwrap();
                for horizon in [
                    HorizonName::Fixed(0),
                    HorizonName::Fixed(1),
                    HorizonName::Fixed(5),
                    HorizonName::LeaveOneOutAverage,
                    HorizonName::Gibbs,
                    HorizonName::BayesFilter,
                ] {
                    let policy = by_rule(horizon, 0.1);
                    let decision = decide(&prepared.observation().geometry, &policy).unwrap();
                    let (seen, followed) = prepared.clone().act(&decision).unwrap();
                    let (also, once) = prepared.clone().act_at_once(&decision).unwrap();
                    assert_eq!(seen, also);
                    if let Some(update) = &once.update {
                        let own = model.read(task).unwrap().sequences().last().cloned();
                        let found = prepared.predict_further(&[own.unwrap()], update).unwrap();
                        // Sums over another layout are taken in another order.
                        let most =
                            task.labels.iter().filter_map(|label| label.value).map(f64::abs);
                        let most = most.fold(0.0, f64::max);
                        let gap = (found[0] - once.adapted).abs();
                        assert!(gap <= 100.0 * f64::from(f32::EPSILON) * most, "{gap:e}");
                    }
                    let what = format!("{folder}, {kinds}, {horizon}");
                    let ends = |path: &[f64]| [path[0], path[path.len() - 1]].map(f64::to_bits);
                    assert_eq!(followed.adapted.to_bits(), once.adapted.to_bits(), "{what}");
                    let taken = match &decision.plan {
                        Plan::Steps(steps) => steps.horizon as usize,
                        Plan::AveragedSteps(_) => followed.query_path.len() - 1,
                        _ => 0,
                    };
                    assert_eq!(followed.followed, taken > 0, "{what}");
                    assert!(!once.followed && once.query_path.len() <= 2, "{what}");
                    // The last of some steps needs no pass of its own; their average does.
                    let more = followed.passes.forward - once.passes.forward;
                    let averaged = matches!(decision.plan, Plan::AveragedSteps(_));
                    let expected = if averaged { taken } else { taken.saturating_sub(1) };
                    assert_eq!(more, expected as u64, "{what}");
                    if taken > 0 {
                        let path = &followed.query_path;
                        assert_eq!(path.len(), taken + 1, "{what}");
                        assert_eq!(path.len(), followed.linear_path.len(), "{what}");
                        paths += 1;
                    }
                    if !averaged {
                        assert_eq!(
                            ends(&followed.query_path),
                            ends(&once.query_path),
                            "{what}"
                        );
                        assert_eq!(
                            ends(&followed.linear_path),
                            ends(&once.linear_path),
                            "{what}"
                        );
                    }
                    let rest = Outcome {
                        query_path: once.query_path.clone(),
                        linear_path: once.linear_path.clone(),
                        followed: false,
                        passes: once.passes,
                        ..followed
                    };
                    assert_eq!(rest, once, "{what}");
                }
            }
        }
    }
    assert!(paths > 40, "{paths}");
}

/// A decision for a task of another size, or for blocks that the model does not have, is refused.
#[test]
fn a_decision_made_elsewhere_is_refused() {
    let model = Model::open(&fixture("gpt2-plain")).unwrap();
    let (task, shorter) = (&tasks()[0], &tasks()[1]);
    assert_ne!(task.examples.len(), shorter.examples.len());
    let (decision, _) = outcome(&model, task, HorizonName::Fixed(2));
    let (found, expected) = (task.examples.len(), shorter.examples.len());
    assert_eq!(
        model.act(shorter, &decision).unwrap_err(),
        Error::SizeMismatch { quantity: "the decision", found, expected }
    );
    let deeper = Model::open(&fixture("gpt2-inner")).unwrap();
    let (decision, _) = outcome(&deeper, task, HorizonName::Fixed(2));
    assert!(matches!(model.act(task, &decision), Err(Error::NoSuchBlock { .. })));
    // A name that looks like one of the model's blocks does not make it one.
    let stranger = Block::intercept(task.examples.len()).unwrap();
    let kernel = stranger.kernel().clone();
    let stranger = Block::new("mlp-up.0", kernel).unwrap();
    let stranger = Geometry::new(vec![1.0; task.examples.len()], vec![stranger]).unwrap();
    let decision = decide(&stranger, &by_rule(HorizonName::Fixed(2), 1.0)).unwrap();
    let refused = Error::ForeignBlock { name: "mlp-up.0".to_owned() };
    assert_eq!(model.act(task, &decision).unwrap_err(), refused);
}

/// One model serves many tasks and threads: every answer has the same bits as when its task runs
/// alone, and the weights stay those of the file.
#[test]
fn tasks_beside_each_other_answer_as_if_alone() {
    let directory = fixture("gpt2-inner");
    let model = Model::open(&directory).unwrap();
    let lora = Lora { rank: 3, first: FirstFactor::Inputs, seed: 0 };
    let model = model.with_lora(lora).unwrap();
    let work = |task: &Task| {
        let candidates =
            blocks("value,mlp-up,lora-value,lora-query,norm@last2", model.config());
        let observation = model.observe(task, &candidates).unwrap();
        let policy = by_rule(HorizonName::Fixed(5), 1.0);
        let decision = decide(&observation.geometry, &policy).unwrap();
        (observation, model.act(task, &decision).unwrap())
    };
    let tasks = tasks();
    let alone: Vec<_> = tasks.iter().map(work).collect();
    // Three rounds in three threads, each starting at another task.
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (tasks, alone, work) = (&tasks, &alone, &work);
            scope.spawn(move || {
                for turn in 0..3 * tasks.len() {
                    let index = (first + turn) % tasks.len();
                    let (observation, outcome) = work(&tasks[index]);
                    assert_eq!(observation, alone[index].0);
                    assert_eq!(bits(&outcome.query_path), bits(&alone[index].1.query_path));
                    assert_eq!(outcome, alone[index].1);
                }
            });
        }
    });
    let fresh = Model::open(&directory).unwrap();
    assert_eq!(model.network().parameters(), fresh.network().parameters());
}

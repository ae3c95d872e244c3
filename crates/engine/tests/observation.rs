//! What must hold of observing: it predicts as acting does, and sharing changes no kernel.

use crate::support::{
    DIGITS, FAMILIES, FOLDERS, Reference, all_blocks, assert_near, bits, blocks, digits, kinds,
    load, norm, random_case_of,
};
use fewstep_core::{Filter, GradientDescent, Spectrum, StepSize};
use fewstep_engine::{
    Applied, BlockId, Descent, Error, FirstFactor, Follow, KernelForm, KernelOperator, Layout,
    Lora, Network, Observation, Order, PassCount, Prepared, Real, Steps, Tape, TokenTask,
    Update, apply_filter, descend, observe, observe_single_position, predict_linear,
    predict_updated,
};

/// Gap of two kernels relative to the scale of the derivatives that they compare.
#[track_caller]
fn assert_same_kernel(found: &[f64], expected: &[f64], scale: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let gaps: Vec<f64> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    assert!(norm(&gaps) <= 1e-12 * scale, "{what}: off by {:e} of {scale:e}", norm(&gaps));
}

/// The derivative of every prediction for some blocks, from passes in which nothing is shared.
fn derivatives(model: &Network<f64>, task: &TokenTask, blocks: &[BlockId]) -> Vec<Vec<f64>> {
    let layout = Layout::plain(task.sequences()).unwrap();
    let mut tape = Tape::new(model, layout, task.labels(), blocks).unwrap();
    (0..task.sequences().len())
        .map(|sequence| {
            let mut seeds = vec![0.0; task.sequences().len()];
            seeds[sequence] = 1.0;
            tape.pull_back(&seeds).unwrap();
            tape.gradient().unwrap().blocks().iter().flat_map(|(_, g)| g.clone()).collect()
        })
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// All predictions, the query's last, by every way there is to get them without an update.
fn base_predictions<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    chosen: &[BlockId],
) -> Vec<(&'static str, Vec<f64>)> {
    let whole = |mut predictions: Vec<f64>, query: f64| {
        predictions.push(query);
        predictions
    };
    let layout = task.layout().unwrap();
    let predicted = model.predict(layout, task.labels()).unwrap();
    let seen = observe(model, task, chosen, KernelForm::Cheapest).unwrap();
    let none = descend(model, task, chosen, &Steps::new(0.1, 0)).unwrap();
    let zeros = Update::zeros(model, chosen).unwrap();
    vec![
        ("predict", predicted.iter().map(|s| s.wide()).collect()),
        ("observe", whole(seen.predictions, seen.query_prediction)),
        ("no step", whole(none.predictions[0].clone(), none.query_predictions[0])),
        ("zero update", predict_updated(model, task, &zeros).unwrap()),
    ]
}

/// Observing, taking no step and predicting give the same numbers, to the bit.
#[test]
fn base_predictions_are_the_same_whoever_asks() {
    fn check<R: Real>(model: &Network<R>, task: &TokenTask, what: &str) {
        let all = format!("{}@all", kinds(model.config()));
        for choice in [&all, "value@last1", "mlp-down@last1", "key,mlp-up@last2"] {
            let chosen = blocks(choice, model.config());
            let ways = base_predictions(model, task, &chosen);
            for (way, found) in &ways {
                assert_eq!(bits(found), bits(&ways[0].1), "{what}, {choice}: {way}");
            }
        }
    }
    for (family, seed) in (0..FAMILIES).flat_map(|family| [(family, 0), (family, 1)]) {
        let (config, parameters, task) = random_case_of(family, seed);
        let single: Network<f32> = Network::new(&config, parameters.clone()).unwrap();
        check(&single, &task, "single precision");
        check(&Network::<f64>::new(&config, parameters).unwrap(), &task, "double precision");
    }
    for folder in FOLDERS {
        for name in ["digits", "words", "text"] {
            check::<f32>(&load(folder), &Reference::read(folder, name).task(), folder);
        }
        for examples in [2, 3, 7, 11] {
            let task = digits(&DIGITS[..examples], Order::Tree);
            check::<f32>(&load(folder), &task, &format!("{folder}, {examples} in tree order"));
        }
    }
}

/// The single-position form and the operator start from the same predictions too.
#[test]
fn all_forms_of_the_kernel_start_from_the_same_predictions() {
    for family in 0..FAMILIES {
        let (config, parameters, task) = random_case_of(family, 1);
        let model: Network<f32> = Network::new(&config, parameters).unwrap();
        let values = blocks("value@last2", &config);
        let whole = observe(&model, &task, &values, KernelForm::Cheapest).unwrap();
        let single = observe_single_position(&model, &task, &values).unwrap();
        assert_eq!(bits(&single.predictions), bits(&whole.predictions));
        let operator = KernelOperator::new(&model, &task, &values).unwrap();
        assert_eq!(bits(operator.residuals()), bits(whole.geometry.residuals()));
    }
}

/// Kernels of separate adjoints over a shared forward pass are inner products of derivatives that
/// come from passes in which nothing is shared: for every block, together and by itself.
#[test]
fn a_shared_forward_pass_changes_no_kernel() {
    let random = |(family, seed): (u64, u64)| {
        let (config, parameters, task) = random_case_of(family, seed);
        (format!("family {family}"), Network::<f64>::new(&config, parameters).unwrap(), task)
    };
    let tree = |examples: usize| {
        let task = digits(&DIGITS[..examples], Order::Tree);
        (format!("{examples} in tree order"), load("gpt2-plain"), task)
    };
    let families = (0..FAMILIES).zip([2, 0, 1, 2, 0]);
    for (case, model, task) in families.map(random).chain([2, 3, 7].map(tree)) {
        let (all, n) = (all_blocks(model.config()), task.examples());
        let together = observe(&model, &task, &all, KernelForm::Ghost).unwrap();
        for (block, seen) in all.iter().zip(together.geometry.blocks()) {
            let features = derivatives(&model, &task, &[*block]);
            let gram = |i: usize, j: usize| dot(&features[i], &features[j]);
            let kernel: Vec<f64> = (0..n * n).map(|at| gram(at / n, at % n)).collect();
            let coupling: Vec<f64> = (0..n).map(|i| gram(i, n)).collect();
            let scale = (0..=n).map(|i| gram(i, i)).sum::<f64>();
            assert!(scale > 0.0);
            let alone = observe(&model, &task, &[*block], KernelForm::Explicit).unwrap();
            for found in [seen, &alone.geometry.blocks()[0]] {
                let what = format!("{case}, {block}");
                assert_same_kernel(found.kernel().values(), &kernel, scale, &what);
                let query = found.query().unwrap();
                assert_same_kernel(&query.coupling, &coupling, scale, &what);
                assert_same_kernel(&[query.variance], &[gram(n, n)], scale, &what);
            }
        }
    }
}

/// Every distinct token goes forward once, and backward once for each prompt that it is in.
#[test]
fn observing_runs_each_distinct_token_once() {
    let (config, parameters, task) = random_case_of(1, 0);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    // [1 2 3 4 5], [… 6] and [… 9 10] after what they share, [7 8 3 4 5 9 1], and [7 8] within it.
    let (distinct, all) = (5 + 1 + 2 + 7, 5 + 4 + 7 + 2 + 7);
    let expected =
        PassCount { forward: 5, backward: 5, forward_tokens: distinct, backward_tokens: all };
    let chosen = all_blocks(&config);
    let seen = observe(&model, &task, &chosen, KernelForm::Cheapest).unwrap();
    assert_eq!(seen.passes, expected);
    let values = blocks("value@last1", &config);
    assert_eq!(observe_single_position(&model, &task, &values).unwrap().passes, expected);
    assert_eq!(KernelOperator::new(&model, &task, &values).unwrap().passes(), expected);
}

/// A model and a task of a family, with all blocks, low-rank ones from the inputs of prompts among them.
fn low_rank_case(family: u64) -> (Network<f64>, TokenTask, Vec<BlockId>) {
    let (config, parameters, task) = random_case_of(family, 8);
    let lora = Lora { rank: 3, first: FirstFactor::Inputs, seed: 0 };
    let model: Network<f64> = Network::new(&config, parameters).unwrap();
    (model.with_lora(lora).unwrap(), task, all_blocks(&config))
}

/// Further queries on kept examples are what observing each of them from the start gives, for every
/// kind of block, and cost a fraction.
#[test]
fn further_queries_are_observed_as_if_each_were_the_only_one() {
    for family in 0..FAMILIES {
        let (model, task, chosen) = low_rank_case(family);
        let prepared = Prepared::new(&model, &task, &chosen).unwrap();
        let queries = [vec![1, 2, 3, 4], vec![1, 2, 3, 5, 6], vec![7], vec![1, 2, 3, 4]];
        let further = prepared.further(&queries).unwrap();
        assert_eq!(further.len(), queries.len());
        for (query, found) in queries.iter().zip(&further) {
            let (prompts, labels) = (&task.sequences()[..task.examples()], task.labels());
            let targets = task.targets().to_vec();
            let one = TokenTask::new(prompts.to_vec(), query.clone(), labels.clone(), targets)
                .unwrap();
            let expected = observe(&model, &one, &chosen, KernelForm::Cheapest).unwrap();
            let numbers = |seen: &Observation| -> Vec<f64> {
                let blocks = seen.geometry.blocks().iter().flat_map(|block| {
                    let query = block.query().unwrap();
                    let kernel = block.kernel().values().iter();
                    kernel
                        .chain(&query.coupling)
                        .copied()
                        .chain([query.variance])
                        .collect::<Vec<_>>()
                });
                let predictions = seen.predictions.iter().copied();
                predictions.chain([seen.query_prediction]).chain(blocks).collect()
            };
            assert_near(&numbers(found), &numbers(&expected), 1e-11, &format!("{family}"));
            for (found, expected) in
                found.geometry.blocks().iter().zip(expected.geometry.blocks())
            {
                let [found, expected] = [found, expected].map(|block| block.query().unwrap());
                let scale = 1e-9 * norm(&expected.coupling).max(expected.variance);
                for (a, b) in found.coupling.iter().zip(&expected.coupling) {
                    assert!((a - b).abs() <= scale, "{a} and {b}");
                }
            }
        }
        assert!(matches!(prepared.further(&[]), Err(Error::Empty { .. })));
    }
}

/// Further queries under an update are what observing sees of them if nothing is updated, and after every
/// step what steps predict for their own query.
#[test]
fn further_queries_are_predicted_under_an_update() {
    for family in 0..FAMILIES {
        let (model, task, chosen) = low_rank_case(family);
        let prepared = Prepared::new(&model, &task, &chosen).unwrap();
        let own = task.sequences()[task.examples()].clone();
        let queries = [own, vec![1, 2, 3, 5, 6], vec![7]];
        let seen = prepared.further(&queries).unwrap();
        let seen: Vec<f64> = seen.iter().map(|seen| seen.query_prediction).collect();
        let (steps, mut visits) = (Steps::new(1e-2, 3), vec![]);
        let visited = prepared.clone().descend_with(&chosen, &steps, |taken, update| {
            visits.push((taken, prepared.predict_further(&queries, update)?));
            Ok(())
        });
        let visited = visited.unwrap();
        assert_eq!(visited, prepared.clone().descend(&chosen, &steps).unwrap(), "{family}");
        let taken: Vec<usize> = visits.iter().map(|(taken, _)| *taken).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_near(&visits[0].1, &seen, 1e-12, "no step");
        let path: Vec<f64> = visits.iter().map(|(_, found)| found[0]).collect();
        assert_near(&path, &visited.query_predictions, 1e-12, "its own query");
        assert!(visits[3].1.iter().zip(&seen).all(|(a, b)| (a - b).abs() > 1e-9), "{family}");
        // Others are what a task with that query predicts under the last update.
        for (query, found) in queries.iter().zip(&visits[3].1) {
            let prompts = task.sequences()[..task.examples()].to_vec();
            let (labels, targets) = (task.labels().clone(), task.targets().to_vec());
            let other = TokenTask::new(prompts, query.clone(), labels, targets).unwrap();
            let all = predict_updated(&model, &other, &visited.update).unwrap();
            assert_near(&[*found], &all[task.examples()..], 1e-12, "another query");
        }
        let refused = prepared.predict_further(&[], &visited.update);
        assert!(matches!(refused, Err(Error::Empty { .. })));
        let stop = Error::Empty { quantity: "this test" };
        let refused = prepared.descend_with(&chosen, &steps, |_, _| Err(stop.clone()));
        assert_eq!(refused.unwrap_err(), stop);
    }
}

/// The linearised model takes one update, and along it every query's prediction changes by
/// `k_xᵀ q(K) r`, for every kind of block.
#[test]
fn further_queries_move_along_the_update_of_a_filter() {
    for family in 0..FAMILIES {
        let (model, task, chosen) = low_rank_case(family);
        let prepared = Prepared::new(&model, &task, &chosen).unwrap();
        let queries = [vec![1, 2, 3, 5, 6], vec![7]];
        let further = prepared.further(&queries).unwrap();
        let total = prepared.observation().geometry.total();
        let spectrum = Spectrum::of(total.kernel()).unwrap();
        let step = StepSize::fraction(0.6, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon: 5 };
        let applied = prepared.clone().apply_filter(&chosen, &filter, &spectrum).unwrap();
        let observation = prepared.observation().clone();
        let (seen, update) = prepared.filter_update(&chosen, &filter, &spectrum).unwrap();
        assert!(seen == observation && update == applied.update, "{family}");
        for (query, expected) in queries.iter().zip(&further) {
            let layout = Layout::plain(std::slice::from_ref(query)).unwrap();
            let found = predict_linear(&model, layout, task.labels(), &update).unwrap();
            let block = expected.geometry.total();
            let coupling = &block.query().unwrap().coupling;
            let residuals = expected.geometry.residuals();
            let change = filter.query_correction(&spectrum, coupling, residuals).unwrap();
            assert_near(&[found.prediction], &[expected.query_prediction], 1e-12, "as it is");
            assert!((found.change - change).abs() <= 1e-9 * change.abs(), "{change}");
            assert!(change.abs() > 1e-6, "{family}: {change}");
        }
        let two = Layout::plain(&queries).unwrap();
        let refused = predict_linear(&model, two, task.labels(), &update).unwrap_err();
        let quantity = "seeds";
        assert_eq!(refused, Error::SizeMismatch { quantity, found: 1, expected: 2 });
    }
}

/// Everything that steps did but what it cost, as one list.
fn numbers(descent: &Descent<f64>) -> Vec<f64> {
    let paths = descent.predictions.iter().flatten().chain(&descent.query_predictions);
    let losses = descent.losses.iter().chain(&descent.expected_decreases);
    let update = descent.update.blocks().iter().flat_map(|(_, change)| change);
    paths.chain(losses).chain(update).copied().collect()
}

/// Steps on any of the blocks do the same whether the task was observed before or not.
#[test]
fn steps_go_on_from_an_observation_as_from_the_model() {
    let mut saved = [0; 2];
    for family in 0..FAMILIES {
        let (config, parameters, task) = random_case_of(family, 9);
        let chosen = all_blocks(&config);
        let model: Network<f64> = Network::new(&config, parameters).unwrap();
        let lora = Lora { rank: 3, first: FirstFactor::Inputs, seed: 0 };
        let model = model.with_lora(lora).unwrap();
        let top = config.layers - 1;
        let above: Vec<BlockId> = chosen.iter().filter(|b| b.layer() == top).copied().collect();
        let prepared = Prepared::new(&model, &task, &chosen).unwrap();
        for some in [&chosen[..], &chosen[..2], &above[..], &above[above.len() - 1..]] {
            let steps = Steps::new(1e-3, 3);
            let found = prepared.clone().descend(some, &steps).unwrap();
            let expected = descend(&model, &task, some, &steps).unwrap();
            assert_near(&numbers(&found), &numbers(&expected), 1e-12, "steps");
            saved[0] += expected.passes.forward - found.passes.forward;
            saved[1] += expected.passes.backward - found.passes.backward;
            // What was prepared serves any number of steps, whatever came before.
            prepared.clone().descend(&chosen[..1], &Steps::new(1e-2, 1)).unwrap();
            assert_eq!(prepared.clone().descend(some, &steps).unwrap(), found, "{family}");
            let ends = [0, 3].map(|step| expected.query_predictions[step]);
            for (follow, known) in [(Follow::Prompts, 4), (Follow::Query, 3)] {
                let steps = Steps { follow, ..steps.clone() };
                let less = prepared.clone().descend(some, &steps).unwrap();
                assert_near(&less.query_predictions, &ends, 1e-12, "ends");
                assert_eq!((less.predictions.len(), less.losses.len()), (known, known));
                for (less, expected) in less.predictions.iter().zip(&expected.predictions) {
                    assert_near(less, expected, 1e-12, "prompts");
                }
                assert_eq!(less.expected_decreases.len(), 3);
                saved[0] += found.passes.forward - less.passes.forward;
                if follow == Follow::Prompts {
                    // With the query by itself on the way, the same to the bit but for its path.
                    let steps = Steps { follow: Follow::QueryApart, ..steps.clone() };
                    let apart = prepared.clone().descend(some, &steps).unwrap();
                    let path = &apart.query_predictions;
                    assert_near(path, &expected.query_predictions, 1e-12, "path");
                    assert_eq!(apart.passes.forward, less.passes.forward + 2);
                    let (query_predictions, passes) = (vec![path[0], path[3]], less.passes);
                    assert_eq!(
                        Descent { query_predictions, passes, ..apart },
                        less,
                        "{family}"
                    );
                }
            }
            let kernel = prepared.observation().geometry.total().kernel().clone();
            let spectrum = Spectrum::of(kernel).unwrap();
            let step = StepSize::new(1e-3, &spectrum).unwrap();
            let filter = GradientDescent { step, horizon: 4 };
            let found = prepared.clone().apply_filter(some, &filter, &spectrum).unwrap();
            let expected = apply_filter(&model, &task, some, &filter, &spectrum).unwrap();
            let numbers = |applied: &Applied<f64>| -> Vec<f64> {
                let update = applied.update.blocks().iter().flat_map(|(_, change)| change);
                let both = [applied.query_prediction, applied.base_query_prediction];
                let all = applied.predictions.iter().chain(&applied.base_predictions);
                all.chain(&both).chain(update).copied().collect()
            };
            assert_near(&numbers(&found), &numbers(&expected), 1e-12, "filter");
        }
        let few = Prepared::new(&model, &task, &chosen[..1]).unwrap();
        let refused = few.descend(&chosen[1..2], &Steps::new(0.1, 1)).unwrap_err();
        assert_eq!(refused, Error::BlockNotOnTape { block: chosen[1].to_string() });
    }
    assert!(saved.into_iter().all(|saved| saved > 0));
}

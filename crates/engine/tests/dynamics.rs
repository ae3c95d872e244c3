//! What must hold of observing and acting whatever the model: leaks, sharing, linearity, cost.

#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

use crate::support::{
    DIGITS, FAMILIES, all_blocks, assert_near, bits, blocks, digits, load, norm, random_case,
    random_case_of,
};
use fewstep_core::{Filter, GradientDescent, Spectrum, StepSize};
use fewstep_engine::{
    BlockId, KernelForm, KernelOperator, Labels, Layout, LinearPath, Network, Observation,
    Order, PassCount, Real, Steps, Tape, TokenTask, Update, apply_weights, descend, observe,
    observe_single_position, predict_updated,
};
use fewstep_theory::matfree::{self, LinearOperator};

/// A model of the family of that number, modulo the number of families, and a task.
fn case(seed: u64) -> (Network<f64>, TokenTask, Vec<BlockId>) {
    let (config, parameters, task) = random_case_of(seed % FAMILIES, seed);
    let all = all_blocks(&config);
    (Network::new(&config, parameters).unwrap(), task, all)
}

/// The derivative of one prediction for all blocks, block after block.
fn derivative<R: Real>(model: &Network<R>, task: &TokenTask, sequence: usize) -> Vec<f64> {
    let all = all_blocks(model.config());
    let layout = Layout::plain(task.sequences()).unwrap();
    let mut tape = Tape::new(model, layout, task.labels(), &all).unwrap();
    let mut seeds = vec![R::ZERO; task.sequences().len()];
    seeds[sequence] = R::ONE;
    tape.pull_back(&seeds).unwrap();
    let gradient = tape.gradient().unwrap();
    gradient.blocks().iter().flat_map(|(_, g)| g.iter().map(|x| x.wide())).collect()
}

/// Changing the answer of example `i` leaves prediction `i` and its derivative as they were, to
/// the bit, and changes the others.
#[test]
fn no_prediction_sees_its_own_answer() {
    let model: Network<f32> = load("gpt2-plain");
    let all = all_blocks(model.config());
    for (order, n) in [(Order::Original, 4), (Order::Tree, 4), (Order::Tree, 7)] {
        let before = digits(&DIGITS[..n], order);
        let seen = observe(&model, &before, &all, KernelForm::Cheapest).unwrap();
        for example in 0..n {
            let mut examples = DIGITS;
            examples[example].1 = if examples[example].1 == "9" { "0" } else { "9" };
            let after = digits(&examples[..n], order);
            let changed = observe(&model, &after, &all, KernelForm::Cheapest).unwrap();
            for other in 0..n {
                let [old, new] = [&seen, &changed].map(|seen| seen.predictions[other]);
                let same = old.to_bits() == new.to_bits();
                assert_eq!(same, other == example, "{order}, {other}, answer {example}");
            }
            assert_same_variance(&seen, &changed, example);
            let old = derivative(&model, &before, example);
            assert!(norm(&old) > 0.0);
            assert_eq!(bits(&old), bits(&derivative(&model, &after, example)));
        }
    }
}

/// The kernel of an example with itself is the same to the bit, for every block.
#[track_caller]
fn assert_same_variance(old: &Observation, new: &Observation, example: usize) {
    let at = (example, example);
    for (old, new) in old.geometry.blocks().iter().zip(new.geometry.blocks()) {
        assert_eq!(old.kernel()[at].to_bits(), new.kernel()[at].to_bits(), "{}", old.name());
    }
}

/// The same where examples are alike, so that prompts would begin alike further than they should
/// by chance, and less so once an answer is another.
#[test]
fn no_prediction_sees_its_own_answer_by_what_prompts_share() {
    let model: Network<f32> = load("gpt2-plain");
    let all = all_blocks(model.config());
    for (order, n) in [(Order::Original, 4), (Order::Tree, 4), (Order::Tree, 7)] {
        let alike = vec![("3", "1"); n];
        let observe = |examples: &[(&str, &str)]| {
            observe(&model, &digits(examples, order), &all, KernelForm::Cheapest).unwrap()
        };
        let seen = observe(&alike);
        for example in 0..n {
            for answer in ["0", "4", "9"] {
                let mut examples = alike.clone();
                examples[example].1 = answer;
                let changed = observe(&examples);
                let own =
                    |observation: &Observation| observation.predictions[example].to_bits();
                let what = format!("{order}, example {example}, answer {answer}");
                assert_eq!(own(&seen), own(&changed), "{what}");
                assert_same_variance(&seen, &changed, example);
            }
        }
    }
}

/// Without a step the predictions are the model's own, to the bit; and steps leave it as it was.
#[test]
fn no_step_is_no_adaptation_and_the_model_is_not_written_to() {
    let (config, parameters, task) = random_case(1);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let all = blocks("value,mlp-down@last2", &config);
    let own = || -> Vec<u32> {
        let layout = task.layout().unwrap();
        let own = model.predict(layout, task.labels()).unwrap();
        own.iter().map(|s| s.to_bits()).collect()
    };
    let before = own();
    let none = descend(&model, &task, &all, &Steps::new(0.1, 0)).unwrap();
    let some = descend(&model, &task, &all, &Steps::new(0.1, 3)).unwrap();
    for descent in [&none, &some] {
        let mut first: Vec<f64> = descent.predictions[0].clone();
        first.push(descent.query_predictions[0]);
        let first: Vec<u32> = first.iter().map(|&s| f32::of(s).to_bits()).collect();
        assert_eq!(first, before);
    }
    assert!(none.update.blocks().iter().all(|(_, change)| change.iter().all(|&x| x == 0.0)));
    assert!(norm(&some.predictions[3]) != norm(&some.predictions[0]));
    assert_eq!(own(), before);
}

/// Sharing beginnings changes neither predictions nor gradients, but for rounding.
#[test]
fn shared_and_separate_sequences_agree() {
    for seed in 0..FAMILIES {
        let (model, task, all) = case(seed);
        let run = |layout: Layout| {
            let mut tape = Tape::new(&model, layout, task.labels(), &all).unwrap();
            tape.pull_back(&[0.3, -1.0, 2.0, 0.5, 0.0]).unwrap();
            (tape.predictions().to_vec(), tape.gradient().unwrap())
        };
        let plain = run(Layout::plain(task.sequences()).unwrap());
        let shared = run(task.layout().unwrap());
        assert_near(&shared.0, &plain.0, 1e-13, "predictions");
        for ((block, a), (_, b)) in shared.1.blocks().iter().zip(plain.1.blocks()) {
            assert_near(a, b, 1e-12, &block.to_string());
        }
    }
}

/// A tape that is run again after other updates gives what a new one gives, to the bit.
#[test]
fn running_again_forgets_the_update_before() {
    for seed in 0..FAMILIES {
        running_again(seed);
    }
}

fn running_again(seed: u64) {
    let (model, task, _) = case(seed);
    let all = blocks("value,query,key,output,lora-value,lora-query,norm@0..2", model.config());
    let update_of = |kind: &str| {
        let chosen = blocks(&format!("{kind}@0..1"), model.config());
        let mut update = Update::zeros(&model, &chosen).unwrap();
        update.block_mut(chosen[chosen.len() - 1]).unwrap().fill(0.3);
        update
    };
    let layout = || task.layout().unwrap();
    let mut tape = Tape::new(&model, layout(), task.labels(), &all).unwrap();
    let base = tape.predictions().to_vec();
    let kinds = ["query", "value", "norm", "key", "norm", "lora-value", "value", "lora-query"];
    for kind in kinds.into_iter().chain(["output", "lora-value", "query"]) {
        let found = tape.run(&update_of(kind)).unwrap().to_vec();
        let mut fresh = Tape::new(&model, layout(), task.labels(), &all).unwrap();
        assert_eq!(bits(&found), bits(fresh.run(&update_of(kind)).unwrap()), "{kind}");
        assert!(bits(&found) != bits(&base), "{kind} moves predictions");
    }
    let nothing = Update::zeros(&model, &all).unwrap();
    assert_eq!(bits(tape.run(&nothing).unwrap()), bits(&base));
}

/// Kernels are inner products of derivatives; linear steps in the weights give core's filter.
#[test]
fn linear_steps_in_the_weights_are_the_filter_of_the_kernel() {
    for seed in 0..FAMILIES {
        let (model, task, all) = case(seed);
        let n = task.examples();
        let features: Vec<Vec<f64>> = (0..=n).map(|i| derivative(&model, &task, i)).collect();
        let seen = observe(&model, &task, &all, KernelForm::Cheapest).unwrap();
        let (total, residuals) = (seen.geometry.total(), seen.geometry.residuals());
        let spectrum = Spectrum::of(total.kernel()).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut theta = vec![0.0; features[0].len()];
        let path = LinearPath::new(&total, residuals, &Steps::new(step.get(), 12)).unwrap();
        for horizon in 0..=12 {
            let filter = GradientDescent { step, horizon };
            let coupling = &total.query().unwrap().coupling;
            let filtered = filter.query_correction(&spectrum, coupling, residuals).unwrap();
            let literal = dot(&features[n], &theta);
            // A thousand weights and a few hundred operations each.
            let scale = norm(&features[n]) * norm(residuals) * step.get() * 12.0;
            let scale = scale * norm(&features[0]).max(1.0);
            assert!((filtered - literal).abs() <= 1e-12 * scale, "{filtered} {literal}");
            let walked = path.query_corrections[horizon as usize];
            assert!((walked - literal).abs() <= 1e-12 * scale, "{walked} {literal}");
            let errors: Vec<f64> =
                (0..n).map(|i| residuals[i] - dot(&features[i], &theta)).collect();
            for (i, error) in errors.iter().enumerate() {
                for (theta, feature) in theta.iter_mut().zip(&features[i]) {
                    *theta += step.get() * error * feature;
                }
            }
        }
    }
}

/// Real steps leave the linear ones by a second-order amount: half as far, a quarter of the gap.
#[test]
fn halving_the_distance_quarters_the_gap_to_the_linear_steps() {
    for seed in 0..FAMILIES {
        let (model, task, all) = case(seed);
        let seen = observe(&model, &task, &all, KernelForm::Cheapest).unwrap();
        let (total, residuals) = (seen.geometry.total(), seen.geometry.residuals());
        let largest = Spectrum::of(total.kernel()).unwrap().eigenvalues()[0];
        let gap = |step_size: f64| -> f64 {
            let steps = Steps::new(step_size, 5);
            let real = descend(&model, &task, &all, &steps).unwrap();
            let linear = LinearPath::new(&total, residuals, &steps).unwrap();
            let fits = real.predictions[5].iter().zip(&seen.predictions).map(|(a, b)| a - b);
            let mut gaps: Vec<f64> =
                fits.zip(&linear.prompt_fits[5]).map(|(a, b)| a - b).collect();
            let query = real.query_predictions[5] - seen.query_prediction;
            gaps.push(query - linear.query_corrections[5]);
            norm(&gaps)
        };
        let ratio = gap(1e-4 / largest) / gap(5e-5 / largest);
        assert!((ratio - 4.0).abs() < 0.05, "seed {seed}: ratio {ratio}");
    }
}

/// The decrease that the gradient promises is the actual one for small steps.
#[test]
fn small_steps_lower_the_loss_as_expected() {
    let (model, task, all) = case(3);
    let ratio = |step_size: f64| {
        let descent = descend(&model, &task, &all, &Steps::new(step_size, 1)).unwrap();
        (descent.losses[0] - descent.losses[1]) / descent.expected_decreases[0]
    };
    let (far, near) = (1.0 - ratio(2e-6), 1.0 - ratio(1e-6));
    assert!(near.abs() < 1e-3 && (far / near - 2.0).abs() < 0.05, "{far} {near}");
}

/// A block's variance multiplies its gradient; the geometry says the same to first order.
#[test]
fn preconditioned_steps_follow_the_preconditioned_geometry() {
    let (model, task, all) = case(4);
    let variances: Vec<f64> = (0..all.len()).map(|index| 0.25 + 0.5 * index as f64).collect();
    let seen = observe(&model, &task, &all, KernelForm::Cheapest).unwrap();
    let total = seen.geometry.precondition(&variances).unwrap().total();
    let step_size = 1e-7 / Spectrum::of(total.kernel()).unwrap().eigenvalues()[0];
    let steps = Steps { variances: Some(variances.clone()), ..Steps::new(step_size, 2) };
    let linear = LinearPath::new(&total, seen.geometry.residuals(), &steps).unwrap();
    let real = descend(&model, &task, &all, &steps).unwrap();
    let moved = real.query_predictions[2] - real.query_predictions[0];
    assert_near(&[moved], &[linear.query_corrections[2]], 1e-5, "query");
    let weights: Vec<f64> = seen.geometry.residuals().iter().map(|r| step_size * r).collect();
    let once = apply_weights(&model, &task, &all, &weights, Some(&variances)).unwrap();
    let near = [once.query_prediction];
    assert_near(&near, &[real.query_predictions[1]], 1e-14, "one step is one update");
}

/// An update is what the predictions after the last step come from.
#[test]
fn an_update_gives_its_predictions_again() {
    let (model, task, all) = case(5);
    let descent = descend(&model, &task, &all, &Steps::new(0.01, 4)).unwrap();
    let mut last = descent.predictions[4].clone();
    last.push(descent.query_predictions[4]);
    let again = predict_updated(&model, &task, &descent.update).unwrap();
    assert_eq!(bits(&again), bits(&last));
}

/// In the last layer the single-position form is the kernel; below it is not.
#[test]
fn the_single_position_form_is_exact_in_the_last_layer_alone() {
    for seed in 0..FAMILIES {
        single_position(seed);
    }
}

fn single_position(seed: u64) {
    let (model, task, _) = case(seed);
    let values = blocks("value@all", model.config());
    let whole = observe(&model, &task, &values, KernelForm::Ghost).unwrap();
    let single = observe_single_position(&model, &task, &values).unwrap();
    for (a, b) in whole.geometry.blocks().iter().zip(single.geometry.blocks()) {
        let block: BlockId = a.name().parse().unwrap();
        if block.layer() == 2 {
            assert_near(b.kernel().values(), a.kernel().values(), 1e-12, a.name());
            let coupling = &a.query().unwrap().coupling;
            assert_near(&b.query().unwrap().coupling, coupling, 1e-12, a.name());
        } else {
            let gaps = a.kernel().values().iter().zip(b.kernel().values()).map(|(a, b)| a - b);
            let gap = norm(&gaps.collect::<Vec<f64>>());
            assert!(gap > 1e-3 * norm(a.kernel().values()), "{}", a.name());
        }
    }
}

/// Steps cost what they must: every token once each way, whatever shares it.
#[test]
fn passes_are_counted_exactly() {
    let (model, task, all) = case(0);
    // 5 + 1 + 7 + 0 + 2 rows: [7, 8] and the beginnings of the others are shared.
    let rows = task.layout().unwrap().rows() as u64;
    assert_eq!(rows, 15);
    let descent = descend(&model, &task, &all, &Steps::new(0.01, 3)).unwrap();
    let expected = PassCount {
        forward: 4 * 5,
        backward: 3 * 4,
        forward_tokens: 4 * rows,
        backward_tokens: 3 * rows,
    };
    assert_eq!(descent.passes, expected);
    let applied = apply_weights(&model, &task, &all, &[0.1; 4], None).unwrap();
    assert_eq!((applied.passes.forward, applied.passes.backward), (10, 4));
}

/// The kernel's products, as the matrix-free solvers ask for them.
struct Products(KernelOperator<f64>);

impl LinearOperator for Products {
    fn size(&self) -> usize {
        self.0.size()
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        self.0.apply(vector, result);
    }
}

/// Products from the factors are products with the kernel, and the query's come along.
#[test]
fn the_operator_multiplies_with_the_total_kernel() {
    for seed in 0..FAMILIES {
        let (model, task, all) = case(seed);
        let total = observe(&model, &task, &all, KernelForm::Ghost).unwrap().geometry.total();
        let operator = KernelOperator::new(&model, &task, &all).unwrap();
        let vector = [0.5, -1.0, 2.0, 0.25];
        let mut found = [f64::NAN; 4];
        operator.apply(&vector, &mut found);
        assert_near(&found, &total.kernel().multiply(&vector).unwrap(), 1e-12, "product");
        let (coupling, variance) = operator.query();
        let query = total.query().unwrap();
        assert_near(&coupling, &query.coupling, 1e-12, "coupling");
        assert_near(&[variance], &[query.variance], 1e-12, "variance");
        assert_eq!((operator.passes().forward, operator.passes().backward), (5, 5));
        // Steps by products alone are steps by modes.
        let spectrum = Spectrum::of(total.kernel()).unwrap();
        let filter =
            GradientDescent { step: StepSize::fraction(0.3, &spectrum).unwrap(), horizon: 5 };
        let residuals = operator.residuals().to_vec();
        let expected = filter.query_correction(&spectrum, &coupling, &residuals).unwrap();
        let found =
            matfree::query_correction(&Products(operator), &coupling, &residuals, filter);
        assert_near(&[found.unwrap()], &[expected], 1e-10, "steps by products");
    }
}

/// An update comes back from its file as it was; one for another model is refused.
#[test]
fn an_update_is_saved_and_loaded() {
    for family in 0..FAMILIES {
        saved_and_loaded(family);
    }
}

fn saved_and_loaded(family: u64) {
    use fewstep_engine::Error;
    let (config, parameters, task) = random_case_of(family, 1);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let chosen = blocks("value,output,query,mlp-up,lora-query,norm@last2", &config);
    let update = descend(&model, &task, &chosen, &Steps::new(0.05, 2)).unwrap().update;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("update.safetensors");
    update.save(&file, &model).unwrap();
    let loaded = Update::load(&file, &model).unwrap();
    for (block, change) in update.blocks() {
        let found = loaded.blocks().iter().find(|(other, _)| other == block).unwrap();
        assert_eq!(&found.1, change, "{block}");
    }
    let mut smaller = config.clone();
    (smaller.layers, smaller.tied) = (2, true);
    let other: Network<f32> =
        Network::new(&smaller, fewstep_engine::Parameters::zeros(&smaller).unwrap()).unwrap();
    assert!(matches!(Update::load(&file, &other), Err(Error::NoSuchBlock { layers: 2, .. })));
    assert!(matches!(update.save(&file, &other), Err(Error::NoSuchBlock { layers: 2, .. })));
    std::fs::write(&file, b"no tensors").unwrap();
    assert!(Update::load(&file, &model).is_err());
}

/// Each mistake is named with its numbers.
#[test]
fn mistakes_are_refused_with_their_numbers() {
    use fewstep_engine::Error;
    let (model, task, all) = case(0);
    let labels = task.labels();
    let layout = |sequences: &[Vec<u32>]| Layout::plain(sequences).unwrap();
    let refused = model.predict(layout(&[vec![1], vec![1; 17]]), labels);
    assert_eq!(refused, Err(Error::SequenceTooLong { sequence: 1, found: 17, limit: 16 }));
    let refused = model.predict(layout(&[vec![11]]), labels);
    assert_eq!(refused, Err(Error::TokenOutOfRange { token: 11, vocabulary: 11 }));
    let far = Labels::new(vec![99], vec![0.0]).unwrap();
    let refused = model.predict(layout(&[vec![1]]), &far);
    assert_eq!(refused, Err(Error::TokenOutOfRange { token: 99, vocabulary: 11 }));
    let refuse =
        |blocks: &[BlockId]| observe(&model, &task, blocks, KernelForm::Cheapest).unwrap_err();
    assert_eq!(refuse(&[]), Error::Empty { quantity: "list of blocks" });
    let beyond: BlockId = "value.0.2".parse().unwrap();
    let none = Error::NoSuchBlock { block: "value.0.2".to_owned(), layers: 3, heads: 2 };
    assert_eq!(refuse(&[beyond]), none);
    let twice = Error::DuplicateBlock { block: "value.0.0".to_owned() };
    assert_eq!(refuse(&[all[0], all[0]]), twice);
    let steps = |step_size: f64, variances: Option<Vec<f64>>| {
        descend(&model, &task, &all[..1], &Steps { variances, ..Steps::new(step_size, 1) })
    };
    for (found, refused) in [(0.0, steps(0.0, None)), (-1.0, steps(1.0, Some(vec![-1.0])))] {
        assert!(matches!(
            refused.unwrap_err(),
            Error::OutOfRange { found: value, allowed: "finite and over 0", .. } if value == found
        ));
    }
    let refused = steps(1.0, Some(vec![]));
    let sizes = Error::SizeMismatch { quantity: "block variances", found: 0, expected: 1 };
    assert_eq!(refused.unwrap_err(), sizes);
    let refused = apply_weights(&model, &task, &all, &[1.0], None);
    let sizes = Error::SizeMismatch { quantity: "example weights", found: 1, expected: 4 };
    assert_eq!(refused.unwrap_err(), sizes);
    let refused = apply_weights(&model, &task, &all, &[f64::INFINITY; 4], None);
    assert!(matches!(refused.unwrap_err(), Error::OutOfRange { found: f64::INFINITY, .. }));
    let mut tape = Tape::new(&model, layout(&[vec![1]]), labels, &all[..1]).unwrap();
    assert_eq!(tape.gradient(), Err(Error::Empty { quantity: "list of seeds" }));
    let sizes = Error::SizeMismatch { quantity: "seeds", found: 2, expected: 1 };
    assert_eq!(tape.pull_back(&[1.0, 1.0]), Err(sizes));
    let update = Update::zeros(&model, &all[1..2]).unwrap();
    let refused = tape.run(&update).unwrap_err();
    assert_eq!(refused, Error::BlockNotOnTape { block: "value.0.1".to_owned() });
    let refused = observe_single_position(&model, &task, &all).unwrap_err();
    assert_eq!(refused, Error::NotAValueBlock { block: "output.0.0".to_owned() });
}

/// Steps that blow up are refused, not reported.
#[test]
fn diverging_steps_are_refused() {
    let (model, task, _) = case(0);
    let all = blocks("value@last1", model.config());
    let refused = descend(&model, &task, &all, &Steps::new(f64::MAX, 4)).unwrap_err();
    assert!(
        matches!(refused, fewstep_engine::Error::NotFinite { steps: 1.., .. }),
        "{refused}"
    );
}

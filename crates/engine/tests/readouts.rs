//! Local adjoints: what they are made of, what they cost, and what is not run twice.

use crate::support::{FOLDERS, Reference, all_blocks, assert_near, blocks, load};
use fewstep_core::{Filter, GradientDescent, Spectrum, StepSize};
use fewstep_engine::{
    BlockId, BlockKind, Error, KernelForm, Layout, Network, Prepared, Steps, TokenTask,
    descend, descend_local, label_kernels, observe, observe_local, predict_linear_local,
};

/// All blocks of a model that have a local form.
fn local_blocks(model: &Network<f64>) -> Vec<BlockId> {
    let mut all = all_blocks(model.config());
    all.retain(|block| block.kind() != BlockKind::Key);
    all
}

fn task_of(folder: &str) -> TokenTask {
    Reference::read(folder, "digits").task()
}

fn numbers(blocks: &[fewstep_core::Block]) -> Vec<f64> {
    let one = |block: &fewstep_core::Block| {
        let query = block.query().unwrap();
        let kernel = block.kernel().values().iter().copied();
        kernel.chain(query.coupling.clone()).chain([query.variance]).collect::<Vec<_>>()
    };
    blocks.iter().flat_map(one).collect()
}

/// In the last layer no other position has a derivative, but for what norms do to keys and values.
#[test]
fn local_is_whole_in_the_last_layer() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let task = task_of(folder);
        let last = model.config().layers - 1;
        let mut chosen = local_blocks(&model);
        chosen.retain(|block| block.layer() == last && block.kind() != BlockKind::Norm);
        let local = observe_local(&model, &task, &chosen).unwrap();
        let whole = observe(&model, &task, &chosen, KernelForm::Ghost).unwrap();
        assert_near(&local.predictions, &whole.predictions, 1e-12, folder);
        for (local, whole) in local.geometry.blocks().iter().zip(whole.geometry.blocks()) {
            let [local, whole] =
                [local, whole].map(|block| numbers(std::slice::from_ref(block)));
            assert_near(&local, &whole, 1e-11, folder);
        }
    }
}

/// Below, the terms of the other positions are missing.
#[test]
fn local_is_not_whole_below_the_last_layer() {
    let folder = "llama-plain";
    let model: Network<f64> = load(folder);
    let (task, chosen) = (task_of(folder), blocks("mlp-up@0..1", model.config()));
    let local = observe_local(&model, &task, &chosen).unwrap();
    let whole = observe(&model, &task, &chosen, KernelForm::Ghost).unwrap();
    let [local, whole] = [local, whole].map(|seen| numbers(seen.geometry.blocks()));
    let gap: f64 = local.iter().zip(&whole).map(|(a, b)| (a - b).abs()).sum();
    assert!(gap > 1e-3 * whole.iter().map(|value| value.abs()).sum::<f64>(), "{gap:e}");
}

/// A prediction is a function of the logits of its labels, so its kernel is theirs with the
/// derivatives of that function on both sides.
#[test]
fn kernels_of_logits_give_those_of_predictions() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let (task, chosen) = (task_of(folder), local_blocks(&model));
        let seen = observe_local(&model, &task, &chosen).unwrap();
        let kernels = label_kernels(&model, &task, &chosen).unwrap();
        let (labels, n) = (task.labels(), task.sequences().len());
        let count = labels.tokens().len();
        let logits = model.logits(Layout::plain(task.sequences()).unwrap()).unwrap();
        let slopes: Vec<f64> = logits
            .chunks_exact(model.config().vocabulary)
            .flat_map(|row| {
                let chosen: Vec<f64> =
                    labels.tokens().iter().map(|&token| row[token as usize].exp()).collect();
                let sum: f64 = chosen.iter().sum();
                let p: Vec<f64> = chosen.iter().map(|value| value / sum).collect();
                let mean: f64 = p.iter().zip(labels.values()).map(|(p, v)| p * v).sum();
                let slope = |(p, v): (&f64, &f64)| p * (v - mean);
                p.iter().zip(labels.values()).map(slope).collect::<Vec<_>>()
            })
            .collect();
        for ((block, kernel), named) in seen.geometry.blocks().iter().zip(&kernels).zip(&chosen)
        {
            let size = n * count;
            let product = |i: usize, j: usize| -> f64 {
                let pairs = (0..count).flat_map(|c| (0..count).map(move |d| (c, d)));
                let term = |(c, d): (usize, usize)| {
                    let (row, column) = (i * count + c, j * count + d);
                    slopes[row] * kernel[row * size + column] * slopes[column]
                };
                pairs.map(term).sum()
            };
            let examples = n - 1;
            let found: Vec<f64> = (0..examples * examples)
                .map(|at| product(at / examples, at % examples))
                .chain((0..examples).map(|example| product(examples, example)))
                .chain([product(examples, examples)])
                .collect();
            let expected = numbers(std::slice::from_ref(block));
            assert_near(&found, &expected, 1e-10, &format!("{folder} {named}"));
        }
    }
}

/// The first local step changes the predictions of a model as the whole kernel between local and
/// whole derivatives says; here, in the last layer, as a whole step does.
#[test]
fn local_steps_in_the_last_layer_are_steps() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let task = task_of(folder);
        let chosen = blocks("value,mlp-up,mlp-down@last1", model.config());
        let steps = Steps::new(0.5, 4);
        let local = descend_local(&model, &task, &chosen, &steps).unwrap();
        let whole = descend(&model, &task, &chosen, &steps).unwrap();
        assert_near(&local.losses, &whole.losses, 1e-11, folder);
        assert_near(&local.query_predictions, &whole.query_predictions, 1e-11, folder);
        assert_near(&local.expected_decreases, &whole.expected_decreases, 1e-10, folder);
        for ((_, local), (_, whole)) in local.update.blocks().iter().zip(whole.update.blocks())
        {
            assert_near(local, whole, 1e-10, folder);
        }
    }
}

/// Below the last layer a step is the sum of the local derivatives weighed by the residuals: its
/// length is what the local kernel says.
#[test]
fn a_local_step_is_made_of_local_derivatives() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let (task, chosen) = (task_of(folder), local_blocks(&model));
        let seen = observe_local(&model, &task, &chosen).unwrap();
        let step = descend_local(&model, &task, &chosen, &Steps::new(0.25, 1)).unwrap();
        let residuals = seen.geometry.residuals();
        for (block, (_, change)) in seen.geometry.blocks().iter().zip(step.update.blocks()) {
            let square: f64 = change.iter().map(|value| value * value).sum();
            let product = block.kernel().multiply(residuals).unwrap();
            let expected: f64 = product.iter().zip(residuals).map(|(a, b)| a * b).sum();
            let name = format!("{folder} {}", block.name());
            assert_near(&[square], &[0.25_f64.powi(2) * expected], 1e-10, &name);
        }
    }
}

/// A further query is what it would be as the query itself, and only its own tokens are run.
#[test]
fn further_queries_run_their_own_tokens_alone() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let (task, chosen) = (task_of(folder), local_blocks(&model));
        let prepared = Prepared::local(&model, &task, &chosen).unwrap();
        let query = task.sequences().last().unwrap().clone();
        let others: Vec<Vec<u32>> = [3, 5]
            .map(|token| {
                [&query[..query.len() - 2], &[token], &query[query.len() - 1..]].concat()
            })
            .to_vec();
        let found = prepared.further(&others).unwrap();
        for (other, found) in others.iter().zip(&found) {
            let examples = task.sequences()[..task.examples()].to_vec();
            let (labels, targets) = (task.labels().clone(), task.targets().to_vec());
            let one = TokenTask::new(examples, other.clone(), labels, targets).unwrap();
            let expected = observe_local(&model, &one, &chosen).unwrap();
            assert_near(&[found.query_prediction], &[expected.query_prediction], 1e-12, folder);
            let pairs = found.geometry.blocks().iter().zip(expected.geometry.blocks());
            for (found, expected) in pairs {
                let name = format!("{folder} {}", found.name());
                let [found, expected] =
                    [found, expected].map(|block| numbers(std::slice::from_ref(block)));
                assert_near(&found, &expected, 1e-10, &name);
            }
            assert_eq!((found.passes.forward_tokens, found.passes.backward_tokens), (4, 2));
        }
    }
}

/// Base predictions of further queries are those of whole prompts that stand alone, with whatever
/// they begin, and however they were prepared.
#[test]
fn further_queries_are_predicted_without_a_backward_pass() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let (task, chosen) = (task_of(folder), local_blocks(&model));
        let query = task.sequences().last().unwrap().clone();
        let end = |token: u32| [&query[..query.len() - 1], &[token]].concat();
        let first = |token: u32| [&[token][..], &query[1..]].concat();
        let local = Prepared::local(&model, &task, &chosen).unwrap();
        let whole = Prepared::new(&model, &task, &chosen).unwrap();
        for queries in [
            vec![query.clone()],
            vec![end(3), query.clone(), end(5)],
            vec![first(3), query[..1].to_vec()],
        ] {
            let expected: Vec<f64> =
                model.predict(Layout::plain(&queries).unwrap(), task.labels()).unwrap();
            for prepared in [&local, &whole] {
                let found = prepared.further_predictions(&queries).unwrap();
                assert_near(&found, &expected, 1e-12, folder);
            }
        }
        let refused = local.further_predictions(&[]);
        assert_eq!(refused, Err(Error::Empty { quantity: "list of sequences" }));
    }
}

/// An update that stands for steps is made without running any: rank at most one per example and
/// matrix, and along it the local derivative of the query changes as the kernel says.
#[test]
fn an_update_is_made_of_one_product_per_example() {
    for folder in FOLDERS {
        let model: Network<f64> = load(folder);
        let task = task_of(folder);
        let chosen = blocks("value,mlp-up,norm@all", model.config());
        let prepared = Prepared::local(&model, &task, &chosen).unwrap();
        let total = prepared.observation().geometry.total();
        let residuals = prepared.observation().geometry.residuals().to_vec();
        let spectrum = Spectrum::of(total.kernel()).unwrap();
        let step = StepSize::fraction(0.5, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon: 7 };
        let coupling = total.query().unwrap().coupling.clone();
        let expected = filter.query_correction(&spectrum, &coupling, &residuals).unwrap();
        let (seen, update) = prepared.filter_update(&chosen, &filter, &spectrum).unwrap();
        let query = Layout::plain(&[task.sequences().last().unwrap().clone()]).unwrap();
        let linear = predict_linear_local(&model, query, task.labels(), &update).unwrap();
        assert_near(&[linear.change], &[expected], 1e-9, folder);
        assert_near(&[linear.prediction], &[seen.query_prediction], 1e-12, folder);
    }
}

/// Whole and local observations agree on everything that is not a derivative.
#[test]
fn predictions_do_not_depend_on_the_adjoint() {
    let folder = "qwen2-biases";
    let model: Network<f32> = load(folder);
    let (task, chosen) = (task_of(folder), blocks("mlp-up@all", model.config()));
    let local = observe_local(&model, &task, &chosen).unwrap();
    let whole = observe(&model, &task, &chosen, KernelForm::Cheapest).unwrap();
    assert_near(&local.predictions, &whole.predictions, 1e-5, "predictions");
    assert_eq!(local.passes.forward_tokens, whole.passes.forward_tokens);
    assert_eq!(local.passes.backward, whole.passes.backward);
    assert_eq!(local.passes.backward_tokens, task.sequences().len() as u64);
}

#[test]
fn key_blocks_have_no_local_form() {
    let folder = "gpt2-plain";
    let model: Network<f64> = load(folder);
    let task = task_of(folder);
    let chosen = blocks("mlp-up,key@all", model.config());
    let block = chosen.iter().find(|block| block.kind() == BlockKind::Key).unwrap().to_string();
    let refused = Err(Error::NoLocalForm { block });
    assert_eq!(observe_local(&model, &task, &chosen).map(|_| ()), refused.clone());
    assert_eq!(Prepared::local(&model, &task, &chosen).map(|_| ()), refused.clone());
    assert_eq!(label_kernels(&model, &task, &chosen).map(|_| ()), refused.clone());
    let steps = Steps::new(0.1, 1);
    assert_eq!(descend_local(&model, &task, &chosen, &steps).map(|_| ()), refused);
}

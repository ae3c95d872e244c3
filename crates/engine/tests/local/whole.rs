//! Where local adjoints are the whole ones, and where they are not.

use crate::local::local_blocks;
use crate::support::{FAMILIES, FOLDERS, Reference, assert_near, load, norm, random_case_of};
use fewstep_core::Block;
use fewstep_engine::{
    BlockId, BlockKind, FirstFactor, KernelForm, Labels, Lora, Network, Observation, Steps,
    TokenTask, descend, descend_local, observe, observe_local, observe_single_position,
};

/// A random model of a family with low-rank updates, and a task whose prompts share beginnings.
fn case(family: u64) -> (Network<f64>, TokenTask) {
    let (config, parameters, task) = random_case_of(family, family);
    let lora = Lora { rank: 2, first: FirstFactor::Random, seed: 5 };
    (Network::new(&config, parameters).unwrap().with_lora(lora).unwrap(), task)
}

/// The random models of all families, and the checkpoints with their tasks.
fn cases() -> impl Iterator<Item = (String, Network<f64>, TokenTask)> {
    let random = (0..FAMILIES).map(|family| {
        let (model, task) = case(family);
        (format!("family {family}"), model, task)
    });
    let folders = FOLDERS.map(|folder| {
        (folder.to_owned(), load(folder), Reference::read(folder, "words").task())
    });
    random.chain(folders)
}

/// Kernel of prompts and query, `[n + 1, n + 1]` in effect, as one list.
fn numbers(block: &Block) -> Vec<f64> {
    let query = block.query().unwrap();
    let mut all = block.kernel().values().to_vec();
    all.extend(&query.coupling);
    all.push(query.variance);
    all
}

fn assert_same(found: &Observation, expected: &Observation, what: &str) {
    assert_near(&found.predictions, &expected.predictions, 1e-12, what);
    assert_near(&[found.query_prediction], &[expected.query_prediction], 1e-12, what);
    let [found, expected] = [found, expected].map(|seen| seen.geometry.blocks());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.name(), expected.name());
        assert_eq!(found.parameters(), expected.parameters());
        let what = format!("{what}, {}", found.name());
        assert_near(&numbers(found), &numbers(expected), 1e-11, &what);
    }
}

/// In the last layer nothing but the last position is read: there every local derivative but that
/// of the norms is the whole one. Below it none is.
#[test]
fn local_is_whole_in_the_last_layer_alone() {
    for (name, model, task) in cases() {
        let last = model.config().layers - 1;
        let chosen = local_blocks(model.config());
        let local = observe_local(&model, &task, &chosen).unwrap();
        let whole = observe(&model, &task, &chosen, KernelForm::Ghost).unwrap();
        assert_near(&local.predictions, &whole.predictions, 1e-12, &name);
        assert_near(&[local.query_prediction], &[whole.query_prediction], 1e-12, &name);
        let pairs = local.geometry.blocks().iter().zip(whole.geometry.blocks());
        for (block, (local, whole)) in chosen.iter().zip(pairs) {
            let what = format!("{name}, {block}");
            let (found, expected) = (numbers(local), numbers(whole));
            if block.layer() == last && block.kind() != BlockKind::Norm {
                assert_near(&found, &expected, 1e-11, &what);
            } else {
                let gaps: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
                assert!(norm(&gaps) > 1e-3 * norm(&expected), "{what}");
            }
        }
    }
}

/// A choice of some blocks sees them as the choice of all does, however early its adjoint stops.
#[test]
fn a_block_is_seen_alike_whatever_is_chosen_besides() {
    for family in 0..FAMILIES {
        let (model, task) = case(family);
        let chosen = local_blocks(model.config());
        let together = observe_local(&model, &task, &chosen).unwrap();
        for (block, seen) in chosen.iter().zip(together.geometry.blocks()) {
            let alone = observe_local(&model, &task, &[*block]).unwrap();
            let what = format!("family {family}, {block}");
            assert_near(&numbers(&alone.geometry.blocks()[0]), &numbers(seen), 1e-12, &what);
        }
    }
}

/// Without other positions there is nothing to leave out: for prompts of one token each, local
/// derivatives are the whole ones in every layer, and those of the norms too.
#[test]
fn local_is_whole_for_prompts_of_one_token() {
    for family in 0..FAMILIES {
        let (model, _) = case(family);
        let labels = Labels::new(vec![2, 9, 4], vec![-0.5, 0.25, 1.0]).unwrap();
        let prompts = vec![vec![1], vec![7], vec![3]];
        let task = TokenTask::new(prompts, vec![5], labels, vec![0.3, -0.4, 1.0]).unwrap();
        let mut chosen = local_blocks(model.config());
        // Attention to one position is 1 whatever the query is.
        chosen.retain(|block| !matches!(block.kind(), BlockKind::Query | BlockKind::LoraQuery));
        let local = observe_local(&model, &task, &chosen).unwrap();
        let whole = observe(&model, &task, &chosen, KernelForm::Explicit).unwrap();
        assert_same(&local, &whole, &format!("family {family}"));
    }
}

/// For values the local form is the paper's single-position form, in every layer.
#[test]
fn values_have_the_single_position_form() {
    for (name, model, task) in cases() {
        let mut chosen = local_blocks(model.config());
        chosen.retain(|block| block.kind() == BlockKind::Value);
        let local = observe_local(&model, &task, &chosen).unwrap();
        let single = observe_single_position(&model, &task, &chosen).unwrap();
        assert_same(&local, &single, &name);
    }
}

/// A prompt that another one begins with is seen as it is by itself, in every layer.
#[test]
fn prompts_are_seen_alike_whatever_they_share() {
    for family in 0..FAMILIES {
        let (model, task) = case(family);
        let chosen = local_blocks(model.config());
        let together = observe_local(&model, &task, &chosen).unwrap();
        let (prompts, query) = task.sequences().split_at(task.examples());
        for (index, prompt) in prompts.iter().enumerate() {
            // Twice the same prompt, so that nothing else is there to be shared.
            let labels = task.labels().clone();
            let target = vec![task.targets()[index]];
            let one = TokenTask::new(vec![prompt.clone()], prompt.clone(), labels, target);
            let alone = observe_local(&model, &one.unwrap(), &chosen).unwrap();
            let pairs = together.geometry.blocks().iter().zip(alone.geometry.blocks());
            for (block, (together, alone)) in chosen.iter().zip(pairs) {
                let found = together.kernel().values()[index * (prompts.len() + 1)];
                let what = format!("family {family}, {block}, prompt {index}");
                let expected = alone.query().unwrap().variance;
                assert_near(&[found], &[expected], 1e-11, &what);
                assert_near(alone.kernel().values(), &[expected], 1e-11, &what);
            }
        }
        assert_eq!(query.len(), 1);
    }
}

/// Steps on blocks of the last layer are those of the whole derivative, updates and all.
#[test]
fn steps_in_the_last_layer_are_those_of_the_whole_derivative() {
    for (name, model, task) in cases() {
        let last = model.config().layers - 1;
        let mut chosen = local_blocks(model.config());
        chosen.retain(|block| block.layer() == last && block.kind() != BlockKind::Norm);
        let variances = (0..chosen.len()).map(|index| 1.0 + 0.1 * index as f64).collect();
        let steps = Steps { variances: Some(variances), ..Steps::new(1e-3, 5) };
        let local = descend_local(&model, &task, &chosen, &steps).unwrap();
        let whole = descend(&model, &task, &chosen, &steps).unwrap();
        let near = |found: &[f64], expected: &[f64], what: &str| {
            assert_near(found, expected, 1e-10, &format!("{name}, {what}"));
        };
        near(&local.predictions.concat(), &whole.predictions.concat(), "predictions");
        near(&local.query_predictions, &whole.query_predictions, "query");
        near(&local.losses, &whole.losses, "losses");
        near(&local.expected_decreases, &whole.expected_decreases, "expected decreases");
        for ((block, found), (_, expected)) in
            local.update.blocks().iter().zip(whole.update.blocks())
        {
            near(found, expected, &block.to_string());
        }
    }
}

/// One step is `ρ v Σ_i r_i ∂s_i/∂θ`, so it would lower the loss by `ρ v rᵀKr` with the local kernel.
#[test]
fn a_step_follows_the_local_kernel() {
    for family in 0..FAMILIES {
        let (model, task) = case(family);
        for block in local_blocks(model.config()) {
            let chosen: [BlockId; 1] = [block];
            let seen = observe_local(&model, &task, &chosen).unwrap();
            let steps = Steps { variances: Some(vec![2.0]), ..Steps::new(0.01, 1) };
            let descent = descend_local(&model, &task, &chosen, &steps).unwrap();
            let residuals = seen.geometry.residuals();
            let rows =
                seen.geometry.blocks()[0].kernel().values().chunks_exact(task.examples());
            let dot = |a: &[f64]| a.iter().zip(residuals).map(|(a, b)| a * b).sum::<f64>();
            let along: Vec<f64> = rows.map(dot).collect();
            let square = dot(&along);
            let what = format!("family {family}, {block}");
            assert_near(&descent.expected_decreases, &[0.02 * square], 1e-10, &what);
            let update = norm(&descent.update.blocks()[0].1);
            assert_near(&[update], &[0.02 * square.sqrt()], 1e-10, &what);
        }
    }
}

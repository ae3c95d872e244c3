//! Steps, sums with other blocks, files, and what is refused.

use crate::low_rank::whole::{by_heads, case, expand, project, settings, whole_derivatives};
use crate::support::{self, FAMILIES, assert_near, bits, blocks, norm, random_case_of};
use fewstep_engine::{
    BlockId, Error, FirstFactor, KernelForm, Layout, Lora, Network, Steps, Tape, Update,
    descend, observe, predict_updated,
};

/// Ten steps are `θ ← θ + ρ Aᵀ ∂/∂W` at `W + Aθ`, with the whole matrix updated head by head.
#[test]
fn steps_are_projected_steps_of_the_whole_matrix() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (model, task) = case(family, lora);
        let (width, n, step_size) = (model.config().width, task.examples(), 0.05);
        for (kind, layers) in [("value", "0..1"), ("query", "1..2"), ("query", "last1")] {
            let chosen = blocks(&format!("lora-{kind}@{layers}"), model.config());
            let descent = descend(&model, &task, &chosen, &Steps::new(step_size, 10)).unwrap();
            let first = descent.update.first(chosen[0]).unwrap();
            let heads = blocks(&format!("{kind}@{layers}"), model.config());
            let layout = Layout::plain(task.sequences()).unwrap();
            let mut tape = Tape::new(&model, layout, task.labels(), &heads).unwrap();
            let mut theta = vec![0.0; descent.update.blocks()[0].1.len()];
            for step in 0..=10 {
                let whole = by_heads(&model, &heads, &expand(first, &theta, width));
                let predictions = tape.run(&whole).unwrap().to_vec();
                let what = format!("family {family}, {kind}@{layers}, {lora:?}, step {step}");
                assert_near(&descent.predictions[step], &predictions[..n], 1e-11, &what);
                let query = [descent.query_predictions[step]];
                assert_near(&query, &predictions[n..], 1e-11, &what);
                let residuals = task.targets().iter().zip(&predictions).map(|(y, s)| y - s);
                tape.pull_back(&residuals.chain([0.0]).collect::<Vec<f64>>()).unwrap();
                let slope = project(first, &whole_derivatives(&tape, width), width);
                if step < 10 {
                    theta.iter_mut().zip(slope).for_each(|(t, g)| *t += step_size * g);
                }
            }
            assert_near(&descent.update.blocks()[0].1, &theta, 1e-10, "θ");
            assert!(norm(&theta) > 0.0);
        }
    }
}

/// A matrix that is updated whole, by some heads and by a product gets the sum, in whatever order
/// the blocks come and whatever was updated before.
#[test]
fn overlapping_blocks_add_up() {
    for family in 0..FAMILIES {
        let (model, task) = case(family, Lora { rank: 2, ..Lora::default() });
        let width = model.config().width;
        for (kind, layer) in [("value", 0), ("query", 1)] {
            let at = format!("{kind}@{layer}..{}", layer + 1);
            let heads = blocks(&at, model.config());
            let low_rank = blocks(&format!("lora-{at}"), model.config())[0];
            let both = [vec![low_rank], heads.clone()].concat();
            let reversed: Vec<BlockId> = both.iter().rev().copied().collect();
            let layout = || task.layout().unwrap();
            let mut tape = Tape::new(&model, layout(), task.labels(), &both).unwrap();
            // The last head is updated by itself, and every other time not at all.
            for round in 0..4 {
                let chosen = if round % 2 == 0 { &both } else { &reversed };
                let mut update = Update::zeros(&model, chosen).unwrap();
                let theta = update.block_mut(low_rank).unwrap();
                theta
                    .iter_mut()
                    .zip(1..)
                    .for_each(|(t, k)| *t = 0.1 * f64::from(k * (round + 1)));
                let theta = theta.to_vec();
                let last = heads[heads.len() - 1];
                let own = 0.3 * f64::from(round % 3);
                update.block_mut(last).unwrap().fill(own);
                let first = update.first(low_rank).unwrap();
                let mut sum = by_heads(&model, &heads, &expand(first, &theta, width));
                sum.block_mut(last).unwrap().iter_mut().for_each(|entry| *entry += own);
                let mut plain = Tape::new(&model, layout(), task.labels(), &heads).unwrap();
                let expected = plain.run(&sum).unwrap();
                let found = tape.run(&update).unwrap();
                assert_near(found, expected, 1e-13, &format!("family {family}, {at}, {round}"));
            }
            // Of all blocks that overlap, each has its own derivative.
            tape.pull_back(&[1.0, 0.5, -1.0, 0.25, 0.0]).unwrap();
            let gradient = tape.gradient().unwrap();
            let mut alone = Tape::new(&model, layout(), task.labels(), &heads).unwrap();
            let zeros = Update::zeros(&model, &both).unwrap();
            tape.run(&zeros).unwrap();
            tape.pull_back(&[1.0, 0.5, -1.0, 0.25, 0.0]).unwrap();
            alone.pull_back(&[1.0, 0.5, -1.0, 0.25, 0.0]).unwrap();
            let together = tape.gradient().unwrap();
            for (block, expected) in alone.gradient().unwrap().blocks() {
                let found = together.blocks().iter().find(|(other, _)| other == block).unwrap();
                assert_near(&found.1, expected, 1e-12, &block.to_string());
            }
            assert_ne!(gradient, together);
        }
    }
}

/// Derivatives at an update are for the first factors of the update, also of another rank; without
/// it the tape has its own again.
#[test]
fn a_tape_takes_the_first_factors_of_the_update() {
    let (model, task) = case(2, Lora { rank: 2, ..Lora::default() });
    let other = model.clone().with_lora(Lora { rank: 4, seed: 9, ..Lora::default() }).unwrap();
    let chosen = blocks("lora-value,norm@1..2", model.config());
    let start =
        |model| Tape::new(model, task.layout().unwrap(), task.labels(), &chosen).unwrap();
    let (mut tape, mut expected) = (start(&model), start(&other));
    let mut update = expected.zero_update();
    update.block_mut(chosen[0]).unwrap().fill(0.25);
    let [found, expected] = [&mut tape, &mut expected].map(|tape| {
        tape.run(&update).unwrap();
        tape.pull_back(&[1.0; 5]).unwrap();
        tape.gradient().unwrap()
    });
    assert_eq!(found, expected);
    let config = model.config();
    let outputs = config.head_width() * config.key_value_heads();
    assert_eq!(found.blocks()[0].1.len(), 4 * outputs);
    let norms = Update::zeros(&model, &chosen[1..]).unwrap();
    tape.run(&norms).unwrap();
    tape.pull_back(&[1.0; 5]).unwrap();
    let own = tape.gradient().unwrap();
    assert_eq!(own.first(chosen[0]), Update::zeros(&model, &chosen).unwrap().first(chosen[0]));
}

/// An update comes back from its file with its first factors, into a model that is set otherwise.
#[test]
fn first_factors_are_saved_with_their_updates() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (config, parameters, task) = random_case_of(family, 1);
        let plain: Network<f32> = Network::new(&config, parameters.clone()).unwrap();
        let model = plain.clone().with_lora(lora).unwrap();
        let chosen = blocks("lora-value,value,lora-query,norm@last2", &config);
        let update = descend(&model, &task, &chosen, &Steps::new(0.05, 2)).unwrap().update;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("update.safetensors");
        update.save(&file, &model).unwrap();
        let loaded = Update::load(&file, &plain).unwrap();
        assert_eq!(loaded.blocks().len(), chosen.len());
        for (block, change) in update.blocks() {
            let found = loaded.blocks().iter().find(|(other, _)| other == block).unwrap();
            assert_eq!(&found.1, change, "{block}");
            assert_eq!(loaded.first(*block), update.first(*block), "{block}");
        }
        let predictions = predict_updated(&plain, &task, &loaded).unwrap();
        assert_eq!(bits(&predictions), bits(&predict_updated(&model, &task, &update).unwrap()));
        // The weights with the update in them are those that it predicts with.
        let merged = update.merge(&parameters, &config).unwrap();
        let merged: Network<f32> = Network::new(&config, merged).unwrap();
        let own = merged.predict(task.layout().unwrap(), task.labels()).unwrap();
        let own: Vec<f64> = own.into_iter().map(f64::from).collect();
        assert_near(&own, &predictions, 1e-6, &format!("family {family}, {lora:?}"));
    }
}

/// A file of tensors, each with its shape and filled with one number.
fn write(file: &std::path::Path, tensors: &[(&str, &[usize])]) {
    use safetensors::{Dtype, tensor::TensorView};
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| 0.5_f32.to_le_bytes().repeat(shape.iter().product()))
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        (*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap())
    });
    std::fs::write(file, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Of a file everything is checked: both factors are there and fit each other and the model.
#[test]
fn files_with_factors_that_do_not_fit_are_refused() {
    let (config, parameters, _) = random_case_of(1, 1);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("update.safetensors");
    let load = |tensors: &[(&str, &[usize])]| {
        write(&file, tensors);
        Update::load(&file, &model)
    };
    let (theta, first) = ("lora-value.1", "lora-value.1.first");
    let loaded = load(&[(theta, &[5, 8]), (first, &[6, 5])]).unwrap();
    assert_eq!(loaded.first(theta.parse().unwrap()).unwrap().len(), 6 * 5);
    let missing = load(&[(theta, &[5, 8])]).unwrap_err();
    assert!(matches!(missing, Error::MissingTensor { tensor, .. } if tensor == first));
    for name in [first, "value.1.0.first", "lora-value.first", ".first", "norm.1.first"] {
        let stray = load(&[
            ("lora-query.1", &[2, 16]),
            ("lora-query.1.first", &[6, 2]),
            (name, &[6, 5]),
        ]);
        assert_eq!(stray, Err(Error::BadBlockName { found: name.to_owned() }));
    }
    for (theta_shape, first_shape) in [([5, 7], [6, 5]), ([5, 8], [5, 6]), ([5, 8], [6, 4])] {
        let refused = load(&[(theta, &theta_shape), (first, &first_shape)]).unwrap_err();
        assert!(matches!(refused, Error::TensorShape { .. }), "{refused}");
    }
    let refused = load(&[(theta, &[40]), (first, &[6, 5])]).unwrap_err();
    assert_eq!(refused, Error::LoraRank { found: 40, largest: 6 });
    let refused = load(&[(theta, &[0, 8]), (first, &[6, 0])]).unwrap_err();
    assert_eq!(refused, Error::LoraRank { found: 0, largest: 6 });
    let refused = load(&[(theta, &[]), (first, &[6, 1])]).unwrap_err();
    assert_eq!(refused, Error::LoraRank { found: 0, largest: 6 });
    let refused = load(&[("norm.1", &[1, 12])]).unwrap_err();
    assert!(matches!(refused, Error::TensorShape { expected, .. } if expected == [12]));
}

#[test]
fn settings_that_are_not_possible_are_refused() {
    let (config, parameters, task) = random_case_of(1, 1);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    assert_eq!(*model.lora(), Lora { rank: 6, ..Lora::default() });
    for found in [0, 7, usize::MAX] {
        let refused = model.clone().with_lora(Lora { rank: found, ..Lora::default() });
        assert_eq!(refused.err(), Some(Error::LoraRank { found, largest: 6 }));
    }
    let refused = "Random".parse::<FirstFactor>();
    assert_eq!(refused, Err(Error::UnknownFirstFactor { found: "Random".to_owned() }));
    // An update for a matrix of another size, by its change and by its first factor.
    let chosen = blocks("lora-value@last1", &config);
    let update = Update::zeros(&model, &chosen).unwrap();
    let (wide, parameters, _) = {
        let (mut config, _, task) = random_case_of(0, 1);
        config.width = 10;
        let rng = &mut fewstep_core::Rng::new(3);
        let parameters = support::random_parameters(&config, rng);
        (config, parameters, task)
    };
    let other: Network<f32> = Network::new(&wide, parameters).unwrap();
    let refused = predict_updated(&other, &task, &update).unwrap_err();
    // 6 · 8 numbers are four rows of ten and a rest.
    assert_eq!(refused, Error::SizeMismatch { quantity: "update", found: 48, expected: 40 });
}

/// Inputs that are NaN have no directions: the task is refused as it is without them.
#[test]
fn directions_of_what_is_no_number_are_refused() {
    let (config, mut parameters, task) = random_case_of(0, 0);
    parameters.layers[0].mlp_down.weight.fill(f32::MAX);
    let model: Network<f32> = Network::new(&config, parameters).unwrap();
    let lora = Lora { rank: 2, first: FirstFactor::Inputs, seed: 0 };
    let model = model.with_lora(lora).unwrap();
    let chosen = blocks("lora-value@all", &config);
    let refused = observe(&model, &task, &chosen, KernelForm::Cheapest).unwrap_err();
    assert_eq!(refused, Error::NotFinite { sequence: 0, steps: 0 });
}

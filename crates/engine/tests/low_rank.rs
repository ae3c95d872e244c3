//! Low-rank updates: what their blocks are to the matrices that they move, and their files.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

mod support;

use fewstep_core::matfree::LinearOperator;
use fewstep_engine::{
    BlockId, Error, FirstFactor, KernelForm, KernelOperator, Labels, Layout, Lora, Network,
    Real, Steps, Tape, TokenTask, Update, descend, observe, predict_updated,
};
use support::{FAMILIES, assert_near, bits, blocks, norm, random_case_of};

/// A model of a family with low-rank updates, and a task.
fn case(family: u64, lora: Lora) -> (Network<f64>, TokenTask) {
    let (config, parameters, task) = random_case_of(family, family);
    (Network::new(&config, parameters).unwrap().with_lora(lora).unwrap(), task)
}

/// The settings that the tests run through.
fn settings() -> [Lora; 3] {
    [
        Lora { rank: 2, first: FirstFactor::Random, seed: 5 },
        Lora { rank: 3, first: FirstFactor::Inputs, seed: 0 },
        Lora { rank: 6, first: FirstFactor::Inputs, seed: 0 },
    ]
}

/// The first factors of a task: those of an update that has not moved.
fn firsts<R: Real>(model: &Network<R>, task: &TokenTask, chosen: &[BlockId]) -> Update<R> {
    descend(model, task, chosen, &Steps::new(1.0, 0)).unwrap().update
}

/// Derivatives of some predictions for the whole matrix of a kind in a layer, `[in, out]` each,
/// put together from those of its heads.
fn whole_derivatives(tape: &Tape<'_, f64>, width: usize) -> Vec<f64> {
    let gradient = tape.gradient().unwrap();
    let heads: Vec<&[f64]> = gradient.blocks().iter().map(|(_, part)| &part[..]).collect();
    let row = |row: usize| {
        heads.iter().flat_map(move |head| {
            let columns = head.len() / width;
            head[row * columns..][..columns].to_vec()
        })
    };
    (0..width).flat_map(row).collect()
}

/// `Aᵀ G` for `A [in, rank]` and `G [in, out]`.
fn project(first: &[f64], whole: &[f64], width: usize) -> Vec<f64> {
    let (rank, outputs) = (first.len() / width, whole.len() / width);
    let entry = |at: usize| {
        let (row, column) = (at / outputs, at % outputs);
        (0..width).map(|i| first[i * rank + row] * whole[i * outputs + column]).sum()
    };
    (0..rank * outputs).map(entry).collect()
}

/// `A θ`.
fn expand(first: &[f64], theta: &[f64], width: usize) -> Vec<f64> {
    let rank = first.len() / width;
    let outputs = theta.len() / rank;
    let entry = |at: usize| {
        let (row, column) = (at / outputs, at % outputs);
        (0..rank).map(|k| first[row * rank + k] * theta[k * outputs + column]).sum()
    };
    (0..width * outputs).map(entry).collect()
}

/// An update of all heads of a matrix by a change of the whole, `[in, out]`.
fn by_heads(model: &Network<f64>, chosen: &[BlockId], whole: &[f64]) -> Update<f64> {
    let (width, size) = (model.config().width, model.config().head_width());
    let mut update = Update::zeros(model, chosen).unwrap();
    for &block in chosen {
        let first = block.head().unwrap() * size;
        let rows = whole.chunks_exact(whole.len() / width);
        let part: Vec<f64> = rows.flat_map(|row| row[first..first + size].to_vec()).collect();
        update.block_mut(block).unwrap().copy_from_slice(&part);
    }
    update
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Kernels are inner products of `Aᵀ ∂s/∂W`, in every form, with the query and as an operator.
#[test]
fn kernels_are_those_of_the_projected_derivatives() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (model, task) = case(family, lora);
        let (config, n) = (model.config(), task.examples());
        for (kind, layer) in [("value", 0), ("query", 1), ("value", 2), ("query", 2)] {
            let chosen = blocks(&format!("lora-{kind}@{layer}..{}", layer + 1), config);
            let update = firsts(&model, &task, &chosen);
            let first = update.first(chosen[0]).unwrap();
            let heads = blocks(&format!("{kind}@{layer}..{}", layer + 1), config);
            let layout = Layout::plain(task.sequences()).unwrap();
            let mut tape = Tape::new(&model, layout, task.labels(), &heads).unwrap();
            let features: Vec<Vec<f64>> = (0..=n)
                .map(|sequence| {
                    let mut seeds = vec![0.0; n + 1];
                    seeds[sequence] = 1.0;
                    tape.pull_back(&seeds).unwrap();
                    project(first, &whole_derivatives(&tape, config.width), config.width)
                })
                .collect();
            let gram = |i: usize, j: usize| dot(&features[i], &features[j]);
            let kernel: Vec<f64> = (0..n * n).map(|at| gram(at / n, at % n)).collect();
            let coupling: Vec<f64> = (0..n).map(|i| gram(i, n)).collect();
            let what = format!("family {family}, {kind}.{layer}, {lora:?}");
            for form in [KernelForm::Ghost, KernelForm::Explicit, KernelForm::Cheapest] {
                let seen = observe(&model, &task, &chosen, form).unwrap();
                let block = &seen.geometry.blocks()[0];
                assert_eq!(block.parameters(), Some(features[0].len()));
                assert_near(block.kernel().values(), &kernel, 1e-12, &what);
                let query = block.query().unwrap();
                assert_near(&query.coupling, &coupling, 1e-11, &what);
                assert_near(&[query.variance], &[gram(n, n)], 1e-12, &what);
            }
            let operator = KernelOperator::new(&model, &task, &chosen).unwrap();
            let (vector, mut found) = ([1.0, -2.0, 0.5, 0.25], [f64::NAN; 4]);
            operator.apply(&vector, &mut found);
            let rows = kernel.chunks_exact(n);
            let expected: Vec<f64> = rows.map(|row| dot(row, &vector)).collect();
            assert_near(&found, &expected, 1e-11, &what);
        }
    }
}

/// Over random first factors the kernel is on average that of the whole matrix. With
/// `S = sym(G_j G_iᵀ)` an entry of it is a mean of `rank` values `zᵀSz`, each of variance `2‖S‖²`.
#[test]
fn random_factors_have_the_kernel_of_the_matrix_on_average() {
    let draws = 300;
    let (model, task) = case(1, Lora { rank: 2, ..Lora::default() });
    let (width, n) = (model.config().width, task.examples());
    let heads = blocks("value@1..2", model.config());
    let layout = Layout::plain(task.sequences()).unwrap();
    let mut tape = Tape::new(&model, layout, task.labels(), &heads).unwrap();
    let mut derivative = |sequence: usize| {
        let mut seeds = vec![0.0; n + 1];
        seeds[sequence] = 1.0;
        tape.pull_back(&seeds).unwrap();
        whole_derivatives(&tape, width)
    };
    let whole: Vec<Vec<f64>> = (0..n).map(&mut derivative).collect();
    let chosen = blocks("lora-value@1..2", model.config());
    let mut sums = vec![0.0; n * n];
    let mut model = model;
    for seed in 0..draws {
        model = model.with_lora(Lora { rank: 2, seed, ..Lora::default() }).unwrap();
        let seen = observe(&model, &task, &chosen, KernelForm::Ghost).unwrap();
        let kernel = seen.geometry.blocks()[0].kernel().values();
        sums.iter_mut().zip(kernel).for_each(|(sum, entry)| *sum += entry);
    }
    let outputs = whole[0].len() / width;
    for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
        let row = |of: usize, t: usize| &whole[of][t * outputs..][..outputs];
        let entry = |a: usize, b: usize| dot(row(j, a), row(i, b));
        let square: f64 = (0..width * width)
            .map(|at| {
                (0.5 * (entry(at / width, at % width) + entry(at % width, at / width))).powi(2)
            })
            .sum();
        let standard_error = (2.0 * square / (2.0 * draws as f64)).sqrt();
        let (mean, expected) = (sums[i * n + j] / draws as f64, dot(&whole[i], &whole[j]));
        let gap = (mean - expected).abs() / standard_error;
        assert!(gap < 4.0, "{i}, {j}: {mean} against {expected}, {gap} standard errors");
    }
}

/// Directions of the inputs are orthonormal and as many as the leave-one-out prompts have; with all
/// of them the kernel is that of the whole matrix. But for
/// rounding the query has no say.
#[test]
fn all_directions_of_the_inputs_give_the_kernel_of_the_matrix() {
    let lora = Lora { rank: 6, first: FirstFactor::Inputs, seed: 0 };
    for family in 0..FAMILIES {
        let (model, _) = case(family, lora);
        let labels = Labels::new(vec![2, 9], vec![0.0, 1.0]).unwrap();
        // Four distinct rows of six inputs, two of them read-outs; a query of other tokens.
        let prompts = vec![vec![1, 2, 3], vec![1, 2, 4]];
        let task = |query: Vec<u32>| {
            TokenTask::new(prompts.clone(), query, labels.clone(), vec![1.0, 0.0]).unwrap()
        };
        let (one, other) = (task(vec![5, 6, 7, 8, 9]), task(vec![1, 2, 4, 10]));
        for (kind, rank) in
            [("value@0..1", 4), ("query@1..2", 4), ("value@2..3", 4), ("query@2..3", 2)]
        {
            let chosen = blocks(&format!("lora-{kind}"), model.config());
            let update = firsts(&model, &one, &chosen);
            let first = update.first(chosen[0]).unwrap();
            let column = |k: usize| -> Vec<f64> { (0..6).map(|i| first[i * 6 + k]).collect() };
            for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
                let expected = if i == j && i < rank { 1.0 } else { 0.0 };
                let inner = dot(&column(i), &column(j));
                assert!((inner - expected).abs() < 1e-14, "{kind}: {i}, {j}: {inner}");
            }
            assert!(column(rank).iter().all(|&entry| entry == 0.0), "{kind}");
            let same = firsts(&model, &other, &chosen);
            assert_near(same.first(chosen[0]).unwrap(), first, 1e-12, kind);

            let seen = observe(&model, &one, &chosen, KernelForm::Ghost).unwrap();
            let heads = blocks(kind, model.config());
            let whole = observe(&model, &one, &heads, KernelForm::Ghost).unwrap();
            let (found, expected) = (&seen.geometry.blocks()[0], whole.geometry.total());
            let what = format!("family {family}, {kind}");
            assert_near(found.kernel().values(), expected.kernel().values(), 1e-11, &what);
            let [found, expected] = [found, &expected].map(|block| block.query().unwrap());
            assert_near(&found.coupling, &expected.coupling, 1e-10, &what);
            assert!(found.variance < expected.variance * (1.0 + 1e-12), "{what}");
        }
    }
}

/// Whoever asks, and for whichever blocks besides, gets the same first factors to the bit.
#[test]
fn first_factors_are_the_same_whoever_asks() {
    for (family, lora) in (0..FAMILIES).flat_map(|f| settings().map(|lora| (f, lora))) {
        let (model, task) = case(family, lora);
        let few = blocks("lora-value,lora-query@last2", model.config());
        let many = blocks("norm,lora-query,value,lora-value,mlp-up@all", model.config());
        let [few_firsts, many_firsts] =
            [&few, &many].map(|chosen| firsts(&model, &task, chosen));
        for &block in &few {
            let [a, b] = [&few_firsts, &many_firsts].map(|update| update.first(block).unwrap());
            assert_eq!(bits(a), bits(b), "family {family}, {block}");
            let drawn = Update::zeros(&model, &few);
            match lora.first {
                FirstFactor::Random => {
                    assert_eq!(bits(drawn.unwrap().first(block).unwrap()), bits(a));
                }
                FirstFactor::Inputs => {
                    let block = few[0].to_string();
                    assert_eq!(drawn, Err(Error::FirstFactorOfPrompts { block }));
                }
            }
        }
        let beside = std::thread::scope(|scope| {
            let run = || firsts(&model, &task, &few);
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap())
        });
        assert!(beside.iter().all(|update| *update == few_firsts));
    }
}

/// Ten steps are `θ ← θ + ρ Aᵀ ∂/∂W` at `W + Aθ`, with the whole matrix moved head by head.
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
                let moved = by_heads(&model, &heads, &expand(first, &theta, width));
                let predictions = tape.run(&moved).unwrap().to_vec();
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

/// A matrix that is moved whole, by some heads and by a product gets the sum, in whatever order
/// the blocks come and whatever moved before.
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
            // The last head moves by itself, and every other time not at all.
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

/// Inputs that are no numbers have no directions: the task is refused as it is without them.
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

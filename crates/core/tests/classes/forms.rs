//! One kernel in three forms, shifted scores, other orders of labels: the same decision.

use crate::support::{Model, apart, arm, dot, for_models, normals, one_arm};
use fewstep_core::{
    ArmBlocks, Base, ClassBlock, ClassCoupling, ClassDecision, ClassDepth, ClassKernel,
    ClassPolicy, Matrix, Policy, Rng, decide_classes,
};

const HORIZONS: [u32; 4] = [0, 1, 4, 16];

fn allowed(model: &Model) -> f64 {
    1e6 * f64::EPSILON * (model.n() * model.classes()) as f64
}

fn assert_same(model: &Model, found: &ClassDecision, expected: &ClassDecision) {
    let allowed = allowed(model);
    assert!((found.when.weight - expected.when.weight).abs() < allowed);
    assert!(apart(found.probabilities.values(), expected.probabilities.values()) < allowed);
    let (losses, others) = (found.when.leave_one_out, expected.when.leave_one_out);
    assert!((losses.adapted - others.adapted).abs() < allowed);
}

#[test]
fn features_are_their_dense_kernel() {
    for_models(|model| {
        let (dense, factored) = (model.single(model.dense()), model.single(model.factored()));
        let (one, other) =
            (dense.decide(&one_arm(&HORIZONS)), factored.decide(&one_arm(&HORIZONS)));
        assert_same(model, &other, &one);
        assert!(apart(&dense.answer(&one), &factored.answer(&other)) < allowed(model));
    });
}

/// A shared block and a dense one of `G ⊗ I`, alone and beside a block of features.
#[test]
fn shared_kernels_are_their_dense_kernel() {
    for_models(|model| {
        let (n, classes) = (model.n(), model.classes());
        let mut rng = Rng::new(model.seed + 50);
        let inputs: Vec<Vec<f64>> = (0..=n).map(|_| normals(&mut rng, 3, 1.0)).collect();
        let g = |i: usize, j: usize| dot(&inputs[i], &inputs[j]);
        let same = |i: usize, j: usize| f64::from(u8::from(i % classes == j % classes));
        let shared = (
            ClassBlock::new("one", ClassKernel::Shared(Matrix::from_fn(n, n, g))).unwrap(),
            ClassCoupling::Shared((0..n).map(|j| g(n, j)).collect()),
        );
        let outputs = n * classes;
        let kernel =
            Matrix::from_fn(outputs, outputs, |i, j| same(i, j) * g(i / classes, j / classes));
        let coupling = Matrix::from_fn(classes, outputs, |c, j| same(c, j) * g(n, j / classes));
        let dense = (
            ClassBlock::new("one", ClassKernel::Dense(kernel)).unwrap(),
            ClassCoupling::Dense(coupling),
        );
        let (kernel, coupling) = model.factored();
        let beside = (ClassBlock::new("two", kernel).unwrap(), coupling);
        for (few, many) in [
            (vec![shared.clone()], vec![dense.clone()]),
            (vec![shared, beside.clone()], vec![dense, beside]),
        ] {
            let (few, many) = (model.task(few), model.task(many));
            let (one, other) =
                (few.decide(&one_arm(&HORIZONS)), many.decide(&one_arm(&HORIZONS)));
            assert_same(model, &one, &other);
            assert!(apart(&few.answer(&one), &many.answer(&other)) < allowed(model));
            assert!(one.multiplications < other.multiplications);
        }
    });
}

/// Log-scores count up to a shift per prediction, those of derivatives as well.
#[test]
fn a_shift_of_the_scores_of_a_prediction_changes_nothing() {
    for_models(|model| {
        let mut shifted = model.clone();
        let mut rng = Rng::new(model.seed);
        for row in shifted.scores.iter_mut().chain([&mut shifted.query_scores]) {
            let shift = 10.0 * rng.normal();
            row.iter_mut().for_each(|z| *z += shift);
        }
        for labels in shifted.features.iter_mut().chain([&mut shifted.query_features]) {
            let shift = normals(&mut rng, model.width(), 1.0);
            for features in labels {
                features.iter_mut().zip(&shift).for_each(|(f, s)| *f += s);
            }
        }
        let (task, other) = (model.single(model.dense()), shifted.single(shifted.dense()));
        let (one, two) = (task.decide(&one_arm(&HORIZONS)), other.decide(&one_arm(&HORIZONS)));
        assert_same(model, &two, &one);
        assert!(apart(&other.answer(&two), &task.answer(&one)) < allowed(model));
    });
}

#[test]
fn labels_in_another_order_are_answered_in_that_order() {
    for_models(|model| {
        let classes = model.classes();
        let turn = |c: usize| (c + 1) % classes;
        let mut turned = model.clone();
        for c in 0..classes {
            for i in 0..model.n() {
                turned.scores[i][turn(c)] = model.scores[i][c];
                turned.features[i][turn(c)].clone_from(&model.features[i][c]);
            }
            turned.query_scores[turn(c)] = model.query_scores[c];
            turned.query_features[turn(c)].clone_from(&model.query_features[c]);
        }
        turned.answers = model.answers.iter().map(|&c| turn(c)).collect();
        let (task, other) = (model.single(model.dense()), turned.single(turned.dense()));
        let (one, two) = (task.decide(&one_arm(&HORIZONS)), other.decide(&one_arm(&HORIZONS)));
        let (before, after) = (task.answer(&one), other.answer(&two));
        let back: Vec<f64> = (0..classes).map(|c| after[turn(c)]).collect();
        assert!(apart(&back, &before) < allowed(model));
        assert!((one.when.weight - two.when.weight).abs() < allowed(model));
    });
}

/// Blocks of layers 3, 4 and 5 and a bias of none.
fn layered(model: &Model) -> crate::support::Task {
    let n = model.n();
    let mut blocks = vec![(ClassBlock::bias(n).unwrap(), ClassCoupling::bias(n))];
    for layer in 3..6 {
        let other = Model {
            answers: model.answers.clone(),
            ..Model::random(90 + layer as u64, [n, model.classes(), 4], 0.5)
        };
        let (kernel, coupling) = other.dense();
        let block = ClassBlock::new(format!("mlp-up.{layer}"), kernel).unwrap();
        blocks.push((block.in_layer(layer), coupling));
    }
    model.task(blocks)
}

fn by_depth(depth: ClassDepth, step_scales: &[f64]) -> Policy {
    let (arms, step_scales) = (vec![arm(Base::FewShot, depth)], step_scales.to_vec());
    let classes = ClassPolicy { arms, step_scales, ..ClassPolicy::default() };
    Policy { horizons: HORIZONS.to_vec(), classes, ..Policy::default() }
}

/// Each depth of a pool is the decision about its blocks alone, and the best is one of them.
#[test]
fn depths_are_the_last_layers() {
    let model = Model::random(4, [8, 3, 2], 1.0);
    let task = layered(&model);
    let pooled = task.decide(&by_depth(ClassDepth::Pooled, &[0.3, 0.6]));
    let paths = &pooled.arms[0].paths;
    let sets: Vec<(usize, &[usize])> =
        paths.iter().step_by(2).map(|path| (path.layers, &path.blocks[..])).collect();
    let expected: [(usize, &[usize]); 3] = [(1, &[0, 3]), (2, &[0, 2, 3]), (3, &[0, 1, 2, 3])];
    assert_eq!(sets, expected);
    let mut alone = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        let scale = [0.3_f64, 0.6][place % 2];
        assert_eq!(path.step_scale.to_bits(), scale.to_bits());
        let arms = [ArmBlocks { base: 0, blocks: path.blocks.clone() }];
        let policy = by_depth(ClassDepth::All, &[scale]);
        let single = decide_classes(&task.geometry, &arms, &policy).unwrap();
        assert_eq!(single.arms[0].paths[0].losses, path.losses);
        assert_eq!(single.arms[0].paths[0].step_size.to_bits(), path.step_size.to_bits());
        // The same losses and prior weigh the candidates alike within a depth.
        let ratio = |weights: &[f64]| weights[0] / weights[2];
        let (found, expected) = (ratio(&path.weights), ratio(&single.arms[0].paths[0].weights));
        assert!((found / expected - 1.0).abs() < 1e-12);
        alone.push(single);
    }
    // The first layer counts as 0 where it is not updated.
    let first = pooled.block_coefficients(0, 1).unwrap();
    let weight =
        |place: usize| paths[place].weights.iter().sum::<f64>() / pooled.arms[0].weight;
    let of = |place: usize| alone[place].coefficients(0).unwrap();
    for (output, found) in first.values().iter().enumerate() {
        let expected = weight(4) * of(4).values()[output] + weight(5) * of(5).values()[output];
        assert!((found - expected).abs() < 1e-12);
    }
}

/// The depth that is kept is the one whose average predicts held-out examples best, and no other.
#[test]
fn the_best_depth_has_the_smallest_held_out_loss() {
    let mut chosen = Vec::new();
    for seed in 1..9 {
        let task = layered(&Model::random(seed, [8, 3, 2], 1.0));
        let best = task.decide(&by_depth(ClassDepth::Best, &[0.6]));
        let average = |blocks: &[usize]| {
            let arms = [ArmBlocks { base: 0, blocks: blocks.to_vec() }];
            let policy = by_depth(ClassDepth::All, &[0.6]);
            decide_classes(&task.geometry, &arms, &policy).unwrap().arms[0].average.unwrap()
        };
        let averages = [&[0, 3][..], &[0, 2, 3], &[0, 1, 2, 3]].map(average);
        let least = averages.iter().copied().fold(f64::INFINITY, f64::min);
        let paths = &best.arms[0].paths;
        assert_eq!(paths.len(), 1);
        assert!((averages[paths[0].layers - 1] - least).abs() < 1e-12);
        chosen.push(paths[0].layers);
    }
    assert!((1..=3).all(|layers| chosen.contains(&layers)), "{chosen:?}");
}

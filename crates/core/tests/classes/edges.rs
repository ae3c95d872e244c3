//! Smallest, largest and senseless tasks, and every refusal.

use crate::support::{Model, apart, arm, for_models, one_arm, softmax};
use fewstep_core::{
    ArmBlocks, Base, ClassBase, ClassBlock, ClassCoupling, ClassDepth, ClassGeometry,
    ClassKernel, ClassLoss, ClassPolicy, ClassQuery, ClassRule, Error, LeftOut, Matrix, Policy,
    QueryBase, decide_classes,
};

fn ways() -> [(ClassLoss, ClassRule); 4] {
    [
        (ClassLoss::CrossEntropy, ClassRule::LeaveOneOut),
        (ClassLoss::CrossEntropy, ClassRule::Laplace),
        (ClassLoss::Squared, ClassRule::LeaveOneOut),
        (ClassLoss::Aitchison { smoothing: 0.1 }, ClassRule::LeaveOneOut),
    ]
}

fn by((loss, rule): (ClassLoss, ClassRule)) -> Policy {
    let policy = one_arm(&[0, 1, 64]);
    Policy { classes: ClassPolicy { loss, rule, ..policy.classes.clone() }, ..policy }
}

/// A kernel of 0 leaves every arm out and the answer to in-context learning.
#[test]
fn a_zero_kernel_changes_nothing() {
    for_models(|model| {
        let flat = Model {
            features: vec![vec![vec![0.0; 2]; model.classes()]; model.n()],
            query_features: vec![vec![0.0; 2]; model.classes()],
            ..model.clone()
        };
        for way in ways() {
            for form in [flat.dense(), flat.factored()] {
                let task = flat.single(form);
                let decision = task.decide(&by(way));
                assert_eq!(decision.arms[0].left_out, Some(LeftOut::NothingChanges));
                assert!(!decision.when.adapt && decision.when.weight == 0.0);
                let icl = softmax(&model.query_scores);
                assert!(apart(&task.answer(&decision), &icl) < 1e-14);
            }
        }
    });
}

/// Derivatives that only shift all scores of a prediction change nothing, either.
#[test]
fn a_kernel_of_shifts_changes_nothing() {
    let shifts = Matrix::from_fn(6, 1, |output, _| [1.0, -2.0][output / 3]);
    let block = ClassBlock::new("shift", ClassKernel::Features(shifts)).unwrap();
    let model = Model::random(2, [2, 3, 1], 1.0);
    let task =
        model.task(vec![(block, ClassCoupling::Features(Matrix::from_fn(3, 1, |_, _| 1.0)))]);
    assert_eq!(task.decide(&one_arm(&[0, 8])).arms[0].left_out, Some(LeftOut::NothingChanges));
}

/// One example: held out, there is nothing to learn from.
#[test]
fn one_example_is_predicted_without_any() {
    let mut model = Model::random(5, [2, 3, 4], 1.0);
    model.answers.truncate(1);
    model.scores.truncate(1);
    model.features.truncate(1);
    let task = model.single(model.dense());
    let decision = task.decide(&one_arm(&[0, 1, 8]));
    assert_eq!(decision.folds, 1);
    assert!(apart(decision.probabilities.values(), &softmax(&model.scores[0])) < 1e-14);
    assert!((decision.when.weight - 0.9).abs() < 1e-14);
}

/// A label without examples keeps a probability, and scores of any size give no NaN.
#[test]
fn missing_labels_and_huge_scores() {
    for size in [1.0, 1e3, 1e8, 1e100, 1e300, 5e307] {
        for way in ways() {
            let mut model = Model::random(6, [5, 4, 3], 1.0);
            model.answers = vec![0, 1, 0, 1, 1];
            for row in model.scores.iter_mut().chain([&mut model.query_scores]) {
                row.iter_mut().for_each(|z| *z *= size);
            }
            let scale = ClassBlock::scale(&Matrix::from_rows(&model.scores).unwrap());
            let (kernel, coupling) = model.dense();
            let mut blocks = vec![(ClassBlock::new("block", kernel).unwrap(), coupling)];
            if size < 1e100 {
                blocks.push((scale.unwrap(), ClassCoupling::scale(&model.query_scores)));
            }
            let task = model.task(blocks);
            let decision = task.decide(&by(way));
            let answer = decision.predict(&task.geometry, &task.query).unwrap();
            for p in answer.adapted.iter().chain(decision.probabilities.values()) {
                assert!((0.0..=1.0).contains(p), "{size:e} {way:?}");
            }
            assert!((answer.adapted.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!((0.0..=1.0).contains(&answer.abstention));
            assert!(decision.when.leave_one_out.adapted.is_finite());
            if size == 1.0 && way.0 != ClassLoss::Squared {
                assert!(answer.adapted[2] > 0.0 && answer.adapted[3] > 0.0);
            }
        }
    }
    // A temperature of such scores has a kernel beyond all numbers.
    let scores = Matrix::from_rows(&[vec![1e300, 0.0], vec![0.0, 1e300]]).unwrap();
    let block = ClassBlock::scale(&scores).unwrap();
    let base = ClassBase::new(Base::FewShot, scores, vec![block]).unwrap();
    let geometry = ClassGeometry::new(2, vec![0, 0], vec![base]).unwrap();
    let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
    let refused = decide_classes(&geometry, &arms, &one_arm(&[0, 1]));
    assert!(matches!(refused, Err(Error::NotFinite { .. })));
}

/// 10⁵ outputs: products with the `n × n` matrix alone, counted; nothing of `n·C × n·C` entries would
/// fit in memory.
#[test]
fn many_outputs_cost_products_of_the_small_matrix() {
    let (n, classes) = (500, 200);
    let inputs = Matrix::from_fn(n, 3, |i, j| ((i * (j + 2)) as f64).sin());
    let gram = Matrix::from_fn(n, n, |i, j| {
        (0..3).map(|k| inputs[(i, k)] * inputs[(j, k)]).sum::<f64>()
    });
    let scores = Matrix::from_fn(n, classes, |i, c| ((i + 3 * c) as f64).cos());
    let block = ClassBlock::new("readout", ClassKernel::Shared(gram.clone())).unwrap();
    assert_eq!(block.kernel().entries(), n * n);
    let base = ClassBase::new(Base::FewShot, scores, vec![block]).unwrap();
    let answers = (0..n).map(|i| i % classes).collect();
    let geometry = ClassGeometry::new(classes, answers, vec![base]).unwrap();
    let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
    let decision = decide_classes(&geometry, &arms, &one_arm(&[0, 1, 2, 4])).unwrap();
    assert_eq!(decision.folds, 10);
    // Four steps of ten folds and the whole; a kernel of rank 3 needs a few products for its step.
    let product = (n * n * classes) as u64;
    let (steps, rest) = (4 * 11 * product, decision.multiplications % product);
    let finding = (decision.multiplications - steps) / product;
    assert_eq!(rest, 0);
    assert!((1..=16).contains(&finding), "{finding}");
    let seen = QueryBase {
        scores: vec![0.0; classes],
        couplings: vec![ClassCoupling::Shared(gram.row(0).to_vec())],
    };
    let answer = decision.predict(&geometry, &ClassQuery { bases: vec![seen] }).unwrap();
    assert!((answer.adapted.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

fn few_shot(n: usize, classes: usize) -> ClassBase {
    let blocks = vec![ClassBlock::bias(n).unwrap()];
    ClassBase::new(Base::FewShot, Matrix::zeros(n, classes), blocks).unwrap()
}

fn zero_shot(n: usize, classes: usize) -> ClassBase {
    ClassBase::new(Base::ZeroShot, Matrix::zeros(n, classes), vec![]).unwrap()
}

#[test]
fn blocks_that_are_none_are_refused() {
    let new = |kernel| ClassBlock::new("block", kernel).unwrap_err();
    assert!(matches!(
        new(ClassKernel::Dense(Matrix::zeros(2, 3))),
        Error::SizeMismatch { found: 3, expected: 2, .. }
    ));
    assert!(matches!(new(ClassKernel::Shared(Matrix::zeros(0, 0))), Error::Empty { .. }));
    assert!(matches!(new(ClassKernel::Features(Matrix::zeros(3, 0))), Error::Empty { .. }));
    let nan = Matrix::from_fn(1, 1, |_, _| f64::NAN);
    assert!(matches!(new(ClassKernel::Features(nan)), Error::NotFinite { index: 0, .. }));
    let skew = Matrix::from_rows(&[vec![1.0, 0.5], vec![0.0, 1.0]]).unwrap();
    assert!(matches!(
        new(ClassKernel::Dense(skew)),
        Error::NotSymmetric { row: 0, column: 1, .. }
    ));
    assert!(matches!(ClassBlock::bias(0), Err(Error::Empty { .. })));
}

#[test]
fn geometries_that_do_not_fit_are_refused() {
    let new = |base, rows, columns, blocks| {
        ClassBase::new(base, Matrix::zeros(rows, columns), blocks).unwrap_err()
    };
    let bias = |n| ClassBlock::bias(n).unwrap();
    assert!(matches!(new(Base::FewShot, 0, 2, vec![]), Error::Empty { .. }));
    assert!(matches!(
        new(Base::FewShot, 2, 1, vec![]),
        Error::OutOfRange { found, .. } if found == 1.0
    ));
    assert!(matches!(
        new(Base::FewShot, 2, 2, vec![bias(3)]),
        Error::SizeMismatch { found: 3, expected: 2, .. }
    ));
    assert_eq!(
        new(Base::FewShot, 2, 2, vec![bias(2), bias(2)]),
        Error::DuplicateBlock { name: "bias".to_owned() }
    );
    let nan = Matrix::from_fn(1, 2, |_, _| f64::NAN);
    let refused = ClassBase::new(Base::FewShot, nan, vec![]);
    assert!(matches!(refused, Err(Error::NotFinite { .. })));

    let refused = |classes, answers: &[usize], bases| match ClassGeometry::new(
        classes,
        answers.to_vec(),
        bases,
    )
    .unwrap_err()
    {
        Error::OutOfRange { quantity, found, .. } => (quantity, found),
        Error::SizeMismatch { quantity, found, .. } => (quantity, found as f64),
        Error::Empty { quantity } => (quantity, 0.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(1, &[0], vec![few_shot(1, 2)]), ("number of labels", 1.0));
    assert_eq!(refused(2, &[], vec![few_shot(1, 2)]), ("list of answers", 0.0));
    assert_eq!(refused(2, &[0, 2], vec![few_shot(2, 2)]), ("answer of an example", 2.0));
    assert_eq!(refused(2, &[0], vec![]), ("number of few-shot bases", 0.0));
    assert_eq!(refused(2, &[0], vec![zero_shot(1, 2)]), ("number of few-shot bases", 0.0));
    let twice = vec![few_shot(1, 2), zero_shot(1, 2), zero_shot(1, 2)];
    assert_eq!(refused(2, &[0], twice), ("number of zero-shot bases", 2.0));
    let turned = vec![zero_shot(1, 2), few_shot(1, 2)];
    assert_eq!(refused(2, &[0], turned), ("position of the few-shot base", 1.0));
    assert_eq!(refused(2, &[0], vec![few_shot(2, 2)]), ("rows of label scores", 2.0));
    assert_eq!(refused(3, &[0, 1], vec![few_shot(2, 2)]), ("row of label scores", 2.0));
}

#[test]
fn arms_and_queries_that_do_not_fit_are_refused() {
    let geometry =
        ClassGeometry::new(2, vec![0, 1], vec![few_shot(2, 2), zero_shot(2, 2)]).unwrap();
    let of = |arms: &[ArmBlocks]| decide_classes(&geometry, arms, &one_arm(&[0, 1]));
    let arm_of = |base, blocks: &[usize]| ArmBlocks { base, blocks: blocks.to_vec() };
    assert!(matches!(of(&[]), Err(Error::SizeMismatch { found: 0, expected: 1, .. })));
    for base in [1, 2] {
        let refused = of(&[arm_of(base, &[0])]);
        assert!(
            matches!(refused, Err(Error::OutOfRange { found, .. }) if found == base as f64)
        );
    }
    for (blocks, at) in [(&[1][..], 1), (&[0, 0][..], 0)] {
        assert_eq!(of(&[arm_of(0, blocks)]), Err(Error::BadBlock { index: at, blocks: 1 }));
    }
    // A zero-shot arm whose base was not observed has no blocks and takes no part.
    let alone = ClassGeometry::new(2, vec![0, 1], vec![few_shot(2, 2)]).unwrap();
    let arms = vec![arm(Base::ZeroShot, ClassDepth::All)];
    let classes = ClassPolicy { arms, ..ClassPolicy::default() };
    let policy = Policy { classes, ..Policy::default() };
    let decision = decide_classes(&alone, &[arm_of(1, &[])], &policy).unwrap();
    assert_eq!(decision.arms[0].left_out, Some(LeftOut::NoBlocks));
    assert_eq!((decision.zero_shot, decision.when.adapt), (None, false));

    let decision = of(&[arm_of(0, &[0])]).unwrap();
    let seen = |scores: &[f64], couplings: &[ClassCoupling]| QueryBase {
        scores: scores.to_vec(),
        couplings: couplings.to_vec(),
    };
    let bias = || [ClassCoupling::bias(2)];
    let ask = |first: QueryBase, more: Vec<QueryBase>| {
        let query = ClassQuery { bases: [vec![first], more].concat() };
        decision.predict(&geometry, &query)
    };
    let other = || vec![seen(&[0.0, 0.0], &[])];
    assert!(ask(seen(&[0.0, 0.0], &bias()), other()).is_ok());
    assert!(matches!(
        ask(seen(&[0.0, 0.0], &bias()), vec![]),
        Err(Error::SizeMismatch { found: 1, expected: 2, .. })
    ));
    for (scores, couplings) in [
        (&[0.0][..], &bias()[..]),
        (&[0.0, 0.0], &[]),
        (&[0.0, 0.0], &[ClassCoupling::bias(3)]),
    ] {
        let refused = ask(seen(scores, couplings), other());
        assert!(matches!(refused, Err(Error::SizeMismatch { .. })));
    }
    let nan = ask(seen(&[0.0, f64::NAN], &bias()), other());
    assert!(matches!(nan, Err(Error::NotFinite { index: 1, .. })));
    let dense = [ClassCoupling::Dense(Matrix::zeros(2, 4))];
    assert_eq!(
        ask(seen(&[0.0, 0.0], &dense), other()),
        Err(Error::UnknownName {
            quantity: "form of a coupling",
            found: "dense".to_owned(),
            allowed: "shared",
        })
    );
    every_other_form_is_refused();
    // Another geometry than the one that was decided.
    let bases = vec![few_shot(3, 2), zero_shot(3, 2)];
    let larger = ClassGeometry::new(2, vec![0, 1, 0], bases).unwrap();
    let query = ClassQuery { bases: vec![seen(&[0.0, 0.0], &[ClassCoupling::bias(3)])] };
    let refused = decision.predict(&larger, &query);
    assert!(matches!(refused, Err(Error::SizeMismatch { found: 3, expected: 2, .. })));
}

/// A coupling of any form belongs to a kernel of that form alone.
fn every_other_form_is_refused() {
    let forms = [
        (ClassKernel::Dense(Matrix::identity(4)), ClassCoupling::Dense(Matrix::zeros(2, 4))),
        (ClassKernel::Shared(Matrix::identity(2)), ClassCoupling::Shared(vec![0.0; 2])),
        (
            ClassKernel::Features(Matrix::zeros(4, 4)),
            ClassCoupling::Features(Matrix::zeros(2, 4)),
        ),
    ];
    for (place, (kernel, _)) in forms.iter().enumerate() {
        for (other, (_, coupling)) in forms.iter().enumerate() {
            let block = ClassBlock::new("block", kernel.clone()).unwrap();
            let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 2), vec![block]).unwrap();
            let geometry = ClassGeometry::new(2, vec![0, 1], vec![base]).unwrap();
            let scores = vec![0.0, 0.0];
            let seen = QueryBase { scores, couplings: vec![coupling.clone()] };
            let checked = ClassQuery { bases: vec![seen] }.check(&geometry);
            assert_eq!(checked.is_ok(), place == other);
            assert!(place == other || matches!(checked, Err(Error::UnknownName { .. })));
        }
    }
}

#[test]
fn kernels_without_a_stable_step_are_refused() {
    let indefinite = Matrix::from_fn(4, 4, |i, j| match (i == j, i / 2) {
        (true, 0) => 1.0,
        (true, _) => -1.0,
        _ => 0.0,
    });
    let block = ClassBlock::new("block", ClassKernel::Dense(indefinite)).unwrap();
    let base = ClassBase::new(Base::FewShot, Matrix::zeros(2, 2), vec![block]).unwrap();
    let geometry = ClassGeometry::new(2, vec![0, 1], vec![base]).unwrap();
    let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
    let refused = decide_classes(&geometry, &arms, &one_arm(&[0, 1]));
    assert!(matches!(
        refused,
        Err(Error::NotPositiveSemidefinite { smallest, largest })
            if (smallest + 1.0).abs() < 1e-12 && (largest - 1.0).abs() < 1e-12
    ));
    let policy = Policy { step_scale: 1.5, ..one_arm(&[0, 1]) };
    assert!(matches!(decide_classes(&geometry, &arms, &policy), Err(Error::Policy { .. })));
}

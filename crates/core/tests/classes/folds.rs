//! Grouped leave-one-out: who is held out together, and that predictions are refits without them.

use crate::support::{Model, apart, one_arm};
use fewstep_core::{ClassPolicy, Folds, Policy};

fn by(folds: Folds, horizons: &[u32]) -> Policy {
    let policy = one_arm(horizons);
    Policy { classes: ClassPolicy { folds, ..policy.classes.clone() }, ..policy }
}

#[test]
fn folds_are_stratified_and_reproducible() {
    for (seed, n, classes, count) in
        [(1, 23, 3, 5), (2, 40, 7, 10), (3, 12, 2, 2), (4, 9, 9, 4)]
    {
        let model = Model::random(seed, [n, classes, 1], 1.0);
        let task = model.single(model.factored());
        let of = |seed| task.decide(&by(Folds { exact_up_to: 5, count, seed }, &[0, 1]));
        let decision = of(0);
        assert_eq!((decision.folds, decision.fold_of.len()), (count, n));
        let spread = |is_in: &dyn Fn(usize) -> bool| {
            let sizes: Vec<usize> = (0..count)
                .map(|fold| (0..n).filter(|&i| is_in(i) && decision.fold_of[i] == fold).count())
                .collect();
            sizes.iter().max().unwrap() - sizes.iter().min().unwrap()
        };
        assert!(spread(&|_| true) <= 1);
        for label in 0..classes {
            assert!(spread(&|i| model.answers[i] == label) <= 1);
        }
        assert_eq!(of(0), decision);
        assert_ne!(of(1).fold_of, decision.fold_of);
    }
    // Up to the limit each example is held out alone.
    let model = Model::random(1, [6, 2, 1], 1.0);
    let task = model.single(model.factored());
    let decision = task.decide(&by(Folds { exact_up_to: 6, count: 2, seed: 0 }, &[0, 1]));
    assert_eq!((decision.folds, decision.fold_of), (6, vec![0, 1, 2, 3, 4, 5]));
    let more = task.decide(&by(Folds { exact_up_to: 0, count: 50, seed: 0 }, &[0, 1]));
    assert_eq!((more.folds, more.fold_of), (6, vec![0, 1, 2, 3, 4, 5]));
}

#[test]
fn a_fold_is_predicted_by_the_others() {
    for (seed, shape) in (1..).zip([[11, 3, 4], [8, 2, 20]]) {
        let model = Model::random(seed, shape, 0.8);
        let task = model.single(model.dense());
        let folds = Folds { exact_up_to: 2, count: 3, seed: 5 };
        let decision = task.decide(&by(folds, &[0, 10]));
        let path = &decision.arms[0].paths[0];
        let refitted: Vec<Vec<f64>> = (0..model.n())
            .map(|i| {
                let apart = |&j: &usize| decision.fold_of[j] != decision.fold_of[i];
                let others: Vec<usize> = (0..model.n()).filter(apart).collect();
                model.predict(i, &model.fit(&others, path.step_size, 10))
            })
            .collect();
        assert!((path.losses[0] - model.loss(&refitted)).abs() < 1e-10);
        assert!(apart(&[decision.arms[0].best.unwrap()], &path.losses) < 1e-15);
    }
}

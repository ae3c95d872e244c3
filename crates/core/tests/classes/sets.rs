//! Sets of labels and abstention: positions by hand, coverage by simulation.

use crate::support::{Task, one_arm};
use fewstep_core::{
    Base, ClassBase, ClassGeometry, ClassPolicy, ClassPrediction, ClassQuery, Matrix, Policy,
    QueryBase, Rng, decide_classes,
};

/// Examples whose true label, always the first of two, has these probabilities by in-context learning,
/// and a query.
fn task(probabilities: &[f64], query: &[f64]) -> Task {
    let logits = |p: &f64| vec![(p / (1.0 - p)).ln(), 0.0];
    let rows: Vec<Vec<f64>> = probabilities.iter().map(logits).collect();
    let base = ClassBase::new(Base::FewShot, Matrix::from_rows(&rows).unwrap(), vec![]);
    let answers = vec![0; probabilities.len()];
    Task {
        geometry: ClassGeometry::new(query.len(), answers, vec![base.unwrap()]).unwrap(),
        query: ClassQuery {
            bases: vec![QueryBase {
                scores: query.iter().map(|p| p.ln()).collect(),
                couplings: vec![],
            }],
        },
    }
}

fn predict(task: &Task, confidence: f64) -> ClassPrediction {
    let classes = ClassPolicy { arms: vec![], confidence, ..ClassPolicy::default() };
    let policy = Policy { classes, ..one_arm(&[0, 1]) };
    let decision = decide_classes(&task.geometry, &[], &policy).unwrap();
    assert!(!decision.when.adapt && decision.when.weight == 0.0);
    decision.predict(&task.geometry, &task.query).unwrap()
}

/// Scores 0.65, 0.7, 0.75, 0.8 of four examples: the threshold lies at position 5 · confidence.
#[test]
fn thresholds_lie_between_order_statistics() {
    let held = [0.2, 0.35, 0.3, 0.25];
    for (confidence, threshold) in
        [(0.2, 0.65), (0.4, 0.7), (0.48, 0.72), (0.5, 0.725), (0.79, 0.7975), (0.8, 0.8)]
    {
        for (nudge, expected) in [(1e-6, vec![0, 1]), (-1e-6, vec![0])] {
            // The second label is in the set if one less its probability is at most the threshold.
            let second = 1.0 - threshold + nudge;
            let set = predict(&task(&held, &[1.0 - second, second]), confidence).set;
            assert_eq!(set, expected, "{confidence}");
        }
    }
    // Before the first one the threshold starts at 0, and a set is never empty.
    assert_eq!(predict(&task(&held, &[0.4, 0.6]), 0.01).set, [1]);
    // 5 · 0.81 > 4: too few examples for less than every label, the most probable first.
    assert_eq!(predict(&task(&held, &[0.001, 0.999]), 0.81).set, [1, 0]);
    assert_eq!(predict(&task(&held, &[0.001, 0.999]), 0.8).set, [1]);
}

/// Between the examples' scores, on the scale of their number plus 1.
#[test]
fn abstention_is_a_position_among_the_examples() {
    let held = [0.7, 0.9, 0.6, 0.8]; // scores 0.1, 0.2, 0.3, 0.4
    for (largest, expected) in [
        (0.95, 0.5),
        (0.85, 1.5),
        (0.75, 2.5),
        (0.9, 1.0),
        (0.7, 3.0),
        (0.55, 4.0 + 0.05 / 0.6),
    ] {
        let found = predict(&task(&held, &[largest, 1.0 - largest]), 0.8).abstention;
        assert!((found - expected / 5.0).abs() < 1e-12, "{largest}: {found}");
    }
    let certain = predict(&task(&held, &[1.0 - 1e-15, 1e-15]), 0.8).abstention;
    assert!((0.0..1e-12).contains(&certain));
    // The less probable the best label, the larger, whatever ties there are.
    let ties = [0.8; 6];
    let found: Vec<f64> = (0..40)
        .map(|k| {
            let largest = 0.99 - 0.01 * f64::from(k);
            predict(&task(&ties, &[largest, 1.0 - largest]), 0.8).abstention
        })
        .collect();
    assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
}

/// Probabilities of the true label that are uniform between 0 and 1, so that interpolating is exact
/// on average: one query for each of 4000 tasks, in standard errors.
#[test]
fn sets_hold_the_answer_as_often_as_they_say() {
    let mut rng = Rng::new(21);
    for (n, confidence) in [(9, 0.9), (16, 0.9), (20, 0.75), (64, 0.9)] {
        let tasks = 4000;
        let held = (0..tasks)
            .filter(|_| {
                let uniform: Vec<f64> = (0..n).map(|_| rng.uniform().max(1e-12)).collect();
                let truth = rng.uniform().clamp(1e-12, 1.0 - 1e-12);
                let answer = predict(&task(&uniform, &[truth, 1.0 - truth]), confidence);
                answer.set.contains(&0)
            })
            .count();
        let share = f64::from(u32::try_from(held).unwrap()) / f64::from(tasks);
        let error = (confidence * (1.0 - confidence) / f64::from(tasks)).sqrt();
        assert!((share - confidence).abs() < 4.0 * error, "n = {n}: {share}");
    }
}

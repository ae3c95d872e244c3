//! Weights of the pool, by hand.

use crate::support::{Model, apart, arm, one_arm, softmax};
use fewstep_core::{
    ArmBlocks, Base, ClassBase, ClassBlock, ClassCoupling, ClassDecision, ClassDepth,
    ClassGeometry, ClassKernel, ClassPolicy, ClassQuery, LeftOut, Matrix, Policy, QueryBase,
    decide_classes,
};

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-13, "{found} against {expected}");
}

/// Two examples, two labels, a bias, one step of 0.6: every number by arithmetic.
#[test]
fn two_examples_and_one_step_by_hand() {
    // ICL gives the first label 3/4 on both; the answers are one of each.
    let three = 3.0_f64.ln();
    let scores = Matrix::from_rows(&[vec![three, 0.0], vec![three, 0.0]]).unwrap();
    let base = ClassBase::new(Base::FewShot, scores, vec![ClassBlock::bias(2).unwrap()]);
    let geometry = ClassGeometry::new(2, vec![0, 1], vec![base.unwrap()]).unwrap();
    let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
    let decision = decide_classes(&geometry, &arms, &one_arm(&[0, 1])).unwrap();

    // Ones of two examples, centred: λ = 2, ρ = 0.6 · 2/2.
    let path = &decision.arms[0].paths[0];
    close(path.step_size, 0.6);
    // Example 1 alone asks for (−3/4, 3/4), example 0 alone for (1/4, −1/4).
    let after = |z: f64| 1.0 / (1.0 + (-z).exp());
    let first = after(three - 0.9); // p of label 0 for example 0, by the other
    let second = 1.0 - after(three + 0.3); // p of label 1 for example 1, by the other
    let losses = [-first.ln(), -second.ln()];
    let icl = [-(0.75_f64.ln()), -(0.25_f64.ln())];
    close(path.losses[0], 0.5 * (losses[0] + losses[1]));
    close(decision.when.leave_one_out.icl, 0.5 * (icl[0] + icl[1]));
    let updated = |left: f64, moved: f64| {
        let (left, moved) = (0.1 * (-0.15 * left).exp(), 0.9 * (-0.15 * moved).exp());
        moved / (left + moved)
    };
    let weight = updated(icl[0] + icl[1], losses[0] + losses[1]);
    close(decision.when.weight, weight);
    close(decision.arms[0].weight, weight);
    close(path.weights[0], weight);
    assert!(decision.when.adapt);
    // Without its own loss, each example's weight is by the other's.
    let (w0, w1) = (updated(icl[1], losses[1]), updated(icl[0], losses[0]));
    let p0 = w0 * first + (1.0 - w0) * 0.75;
    let p1 = w1 * second + (1.0 - w1) * 0.25;
    close(decision.probabilities[(0, 0)], p0);
    close(decision.probabilities[(1, 1)], p1);
    close(decision.when.leave_one_out.adapted, -0.5 * (p0.ln() + p1.ln()));
    close(decision.icl[(1, 0)], 0.75);
    // Both ask: a = 0.6 ((1/4, −1/4), (−3/4, 3/4)), so the bias is (−0.3, 0.3).
    let a = decision.coefficients(0).unwrap();
    assert!(apart(a.values(), &[0.15, -0.15, -0.45, 0.45]) < 1e-13);
    let seen = QueryBase { scores: vec![0.0, 0.0], couplings: vec![ClassCoupling::bias(2)] };
    let answer = decision.predict(&geometry, &ClassQuery { bases: vec![seen] }).unwrap();
    close(answer.adapted[0], weight * after(-0.6) + (1.0 - weight) * 0.5);
    assert_eq!((answer.icl, answer.label), (vec![0.5, 0.5], 1));
}

/// Few-shot and zero-shot bases with a bias each, and what the pool holds.
fn both_bases(arms: &[(Base, usize)], horizons: &[u32], sharpness: f64) -> ClassDecision {
    let model = Model::random(3, [6, 3, 2], 1.0);
    let scores = Matrix::from_rows(&model.scores).unwrap();
    let turned = Matrix::from_fn(6, 3, |i, c| scores[(i, (c + 1) % 3)]);
    let bias = || vec![ClassBlock::bias(6).unwrap()];
    let bases = vec![
        ClassBase::new(Base::FewShot, scores, bias()).unwrap(),
        ClassBase::new(Base::ZeroShot, turned, bias()).unwrap(),
    ];
    let geometry = ClassGeometry::new(3, model.answers, bases).unwrap();
    let classes = ClassPolicy {
        arms: arms.iter().map(|(base, _)| arm(*base, ClassDepth::All)).collect(),
        sharpness,
        ..ClassPolicy::default()
    };
    let policy = Policy { horizons: horizons.to_vec(), classes, ..Policy::default() };
    let blocks: Vec<ArmBlocks> = arms
        .iter()
        .map(|&(base, count)| ArmBlocks {
            base: usize::from(base == Base::ZeroShot),
            blocks: (0..count).collect(),
        })
        .collect();
    decide_classes(&geometry, &blocks, &policy).unwrap()
}

/// Where losses hardly count, weights are priors: the policy's for leaving alone, the rest evenly over
/// arms and then over their candidates.
#[test]
fn priors_are_even_over_arms_and_within_arms() {
    use Base::{FewShot, ZeroShot};
    let near = |found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-9, "{found} against {expected}");
    };
    let weights = |arms: &[(Base, usize)], horizons: &[u32]| {
        let decision = both_bases(arms, horizons, 1e-12);
        let arms: Vec<f64> = decision.arms.iter().map(|arm| arm.weight).collect();
        (decision.when, decision.zero_shot.unwrap().weight, arms, decision)
    };
    let (when, zero_shot, arms, decision) = weights(&[(FewShot, 1), (ZeroShot, 1)], &[0, 1, 2]);
    near(when.weight, 0.9);
    assert!(when.adapt);
    near(zero_shot, 0.45 / 3.0);
    near(arms[0], 0.45);
    near(arms[1], 0.45 * 2.0 / 3.0);
    near(decision.arms[0].paths[0].weights[1], 0.45 / 2.0);
    near(decision.arms[1].paths[0].weights[1], 0.45 / 3.0);
    // Without a zero-shot arm the prompt left alone is one more arm.
    let (_, zero_shot, arms, _) = weights(&[(FewShot, 1)], &[0, 1, 2]);
    near(zero_shot, 0.45);
    near(arms[0], 0.45);
    // An arm without blocks takes no part, and neither does one without steps.
    let (_, zero_shot, arms, decision) = weights(&[(FewShot, 0), (ZeroShot, 1)], &[0, 1, 2, 4]);
    near(zero_shot, 0.9 / 4.0);
    near(arms[0], 0.0);
    assert_eq!(decision.arms[0].left_out, Some(LeftOut::NoBlocks));
    assert_eq!((decision.arms[0].best, decision.arms[1].left_out), (None, None));
    assert_eq!(decision.coefficients(0), None);
    let (when, zero_shot, _, decision) = weights(&[(FewShot, 1)], &[0]);
    near(zero_shot, 0.9);
    near(when.weight, 0.9);
    assert_eq!(decision.arms[0].left_out, Some(LeftOut::NoSteps));
}

/// Weights follow losses as the formula says, for every candidate of two arms.
#[test]
fn weights_follow_held_out_losses() {
    let arms = [(Base::FewShot, 1), (Base::ZeroShot, 1)];
    for sharpness in [0.15, 1.0, 30.0] {
        let decision = both_bases(&arms, &[0, 1, 2, 64], sharpness);
        let zero_shot = decision.zero_shot.unwrap();
        let mut members = vec![
            (0.1, decision.when.leave_one_out.icl, 1.0 - decision.when.weight),
            (0.45 / 4.0, zero_shot.loss, zero_shot.weight),
        ];
        for (arm, count) in decision.arms.iter().zip([3.0, 4.0]) {
            let path = &arm.paths[0];
            let pairs = path.losses.iter().zip(&path.weights);
            members.extend(pairs.map(|(&loss, &weight)| (0.45 / count, loss, weight)));
        }
        let raw: Vec<f64> = members
            .iter()
            .map(|(prior, loss, _)| prior * (-sharpness * 6.0 * loss).exp())
            .collect();
        let sum: f64 = raw.iter().sum();
        for ((_, _, weight), raw) in members.iter().zip(&raw) {
            close(*weight, raw / sum);
        }
        let total: f64 = members.iter().map(|member| member.2).sum();
        close(total, 1.0);
    }
}

/// A base that is right where the other is not takes the weight, and predictions are mixtures.
#[test]
fn the_better_base_takes_the_weight() {
    let right = Matrix::from_fn(8, 2, |i, c| if c == i % 2 { 3.0 } else { -3.0 });
    let wrong = Matrix::from_fn(8, 2, |i, c| -right[(i, c)]);
    let kernel = || ClassKernel::Shared(Matrix::identity(8));
    let block = || vec![ClassBlock::new("readout", kernel()).unwrap()];
    let bases = vec![
        ClassBase::new(Base::FewShot, wrong, block()).unwrap(),
        ClassBase::new(Base::ZeroShot, right, block()).unwrap(),
    ];
    let geometry = ClassGeometry::new(2, (0..8).map(|i| i % 2).collect(), bases).unwrap();
    let arms = [0, 1].map(|base| ArmBlocks { base, blocks: vec![0] });
    let classes = ClassPolicy {
        arms: vec![arm(Base::FewShot, ClassDepth::All), arm(Base::ZeroShot, ClassDepth::All)],
        sharpness: 1.0,
        ..ClassPolicy::default()
    };
    let policy = Policy { classes, ..Policy::default() };
    let decision = decide_classes(&geometry, &arms, &policy).unwrap();
    assert!(decision.when.adapt && decision.when.weight > 1.0 - 1e-9);
    let zero_shot = decision.zero_shot.unwrap().weight + decision.arms[1].weight;
    assert!(zero_shot > 1.0 - 1e-9);
    let seen = |z: f64| QueryBase {
        scores: vec![z, 0.0],
        couplings: vec![ClassCoupling::Shared(vec![0.0; 8])],
    };
    let query = ClassQuery { bases: vec![seen(2.0), seen(-2.0)] };
    let answer = decision.predict(&geometry, &query).unwrap();
    assert!(apart(&answer.icl, &softmax(&[2.0, 0.0])) < 1e-14);
    assert!(apart(&answer.adapted, &softmax(&[-2.0, 0.0])) < 1e-8);
    assert_eq!(answer.label, 1);

    // Without steps the two prompts alone are mixed.
    let still = Policy { horizons: vec![0], ..policy };
    let decision = decide_classes(&geometry, &arms, &still).unwrap();
    let weight = decision.zero_shot.unwrap().weight;
    close(decision.when.weight, weight);
    let answer = decision.predict(&geometry, &query).unwrap();
    let expected = weight * softmax(&[-2.0, 0.0])[0] + (1.0 - weight) * softmax(&[2.0, 0.0])[0];
    close(answer.adapted[0], expected);
}

//! Laplace's approximation in the space of parameters, and against the integral itself.

use crate::support::{Model, dot, one_arm, softmax};
use fewstep_core::{
    ArmBlocks, Base, ClassBase, ClassBlock, ClassGeometry, ClassKernel, ClassPolicy, ClassRule,
    Error, Matrix, Policy, decide_classes,
};

fn by_laplace(horizons: &[u32]) -> Policy {
    let policy = one_arm(horizons);
    let classes = ClassPolicy { rule: ClassRule::Laplace, ..policy.classes.clone() };
    Policy { classes, ..policy }
}

/// `Σ log p(y_i) − ‖θ‖²/2τ²` and its gradient.
fn posterior(model: &Model, theta: &[f64], variance: f64) -> (f64, Vec<f64>) {
    let all = 0..model.n();
    let likelihood: f64 =
        all.clone().map(|i| model.predict(i, theta)[model.answers[i]].ln()).sum();
    let slope = (0..model.width()).map(|j| {
        let pull = |i: usize| {
            let residual = model.residual(i, theta);
            residual.iter().zip(&model.features[i]).map(|(r, f)| r * f[j]).sum::<f64>()
        };
        all.clone().map(pull).sum::<f64>() - theta[j] / variance
    });
    (likelihood - dot(theta, theta) / (2.0 * variance), slope.collect())
}

/// `log det` of a positive definite matrix by elimination.
fn log_determinant(mut a: Vec<Vec<f64>>) -> f64 {
    let mut sum = 0.0;
    for k in 0..a.len() {
        sum += a[k][k].ln();
        for i in k + 1..a.len() {
            let factor = a[i][k] / a[k][k];
            let above = a[k].clone();
            a[i].iter_mut().zip(above).for_each(|(entry, above)| *entry -= factor * above);
        }
    }
    sum
}

/// The same number from weights instead of outputs: the mode by many gradient steps, the determinant
/// of `I + τ² Φᵀ W Φ` by elimination.
#[test]
fn evidence_is_that_of_the_parameters() {
    for (seed, shape) in (1..).zip([[2, 2, 1], [4, 3, 5], [7, 4, 3], [5, 2, 30]]) {
        let model = Model::random(seed, shape, 0.5);
        let decision = model.single(model.dense()).decide(&by_laplace(&[0, 1, 4, 20]));
        let path = &decision.arms[0].paths[0];
        for (&steps, &found) in path.horizons.iter().zip(&path.evidence) {
            let variance = path.step_size * f64::from(steps);
            let mut theta = vec![0.0; model.width()];
            // The curvature is at most 1/τ² plus half of the largest eigenvalue, 1.2/ρ.
            let rate = 1.0 / (1.0 / variance + 0.6 / path.step_size);
            for _ in 0..4000 {
                let (_, slope) = posterior(&model, &theta, variance);
                theta.iter_mut().zip(slope).for_each(|(t, s)| *t += rate * s);
            }
            let width = model.width();
            let mut hessian = vec![vec![0.0; width]; width];
            for i in 0..model.n() {
                let (p, f) = (model.predict(i, &theta), &model.features[i]);
                let mean: Vec<f64> =
                    (0..width).map(|j| p.iter().zip(f).map(|(p, f)| p * f[j]).sum()).collect();
                for (p, f) in p.iter().zip(f) {
                    for j in 0..width {
                        for k in 0..width {
                            hessian[j][k] += variance * p * (f[j] - mean[j]) * (f[k] - mean[k]);
                        }
                    }
                }
            }
            (0..width).for_each(|j| hessian[j][j] += 1.0);
            let expected =
                posterior(&model, &theta, variance).0 - 0.5 * log_determinant(hessian);
            let allowed = 1e-10 * (1.0 + expected.abs());
            assert!((found - expected).abs() < allowed, "{found} against {expected}");
        }
    }
}

/// One parameter and a narrow prior: the integral over it by the trapezoidal rule.
#[test]
fn evidence_is_close_to_the_integral() {
    for seed in 1..6 {
        let model = Model::random(seed, [6, 3, 1], 1.0);
        let policy = Policy { step_scale: 0.05, ..by_laplace(&[0, 1, 2]) };
        let decision = model.single(model.factored()).decide(&policy);
        let path = &decision.arms[0].paths[0];
        for (&steps, &found) in path.horizons.iter().zip(&path.evidence) {
            let variance = path.step_size * f64::from(steps);
            let width = variance.sqrt() / 200.0;
            let density = |k: i32| {
                let theta = width * f64::from(k);
                (posterior(&model, &[theta], variance).0).exp()
            };
            let integral: f64 = (-2000..=2000).map(density).sum::<f64>() * width
                / (std::f64::consts::TAU * variance).sqrt();
            let without: f64 =
                (0..6).map(|i| softmax(&model.scores[i])[model.answers[i]].ln()).sum();
            // The error of the approximation is of higher order than what the prior changes.
            let change = (integral.ln() - without).abs();
            assert!((found - integral.ln()).abs() < 0.05 * change, "{found} {integral}");
        }
    }
}

/// Within an arm weights are by evidence; the arm as a whole is weighed by leave-one-out log-loss.
#[test]
fn evidence_weighs_the_candidates_of_an_arm() {
    let model = Model::random(3, [6, 3, 4], 0.7);
    let task = model.single(model.dense());
    let decision = task.decide(&by_laplace(&[0, 1, 4, 16]));
    let arm = &decision.arms[0];
    let path = &arm.paths[0];
    let within = softmax(&path.evidence);
    for (weight, share) in path.weights.iter().zip(&within) {
        assert!((weight - arm.weight * share).abs() < 1e-14);
    }
    // The arm's average, held out.
    let mut averaged = vec![vec![0.0; 3]; 6];
    for (&steps, share) in path.horizons.iter().zip(&within) {
        for (sum, row) in averaged.iter_mut().zip(model.leave_one_out(path.step_size, steps)) {
            sum.iter_mut().zip(row).for_each(|(sum, p)| *sum += share * p);
        }
    }
    let loss = model.loss(&averaged);
    assert!((arm.average.unwrap() - loss).abs() < 1e-11);
    let icl = decision.when.leave_one_out.icl;
    let odds = 0.9 / 0.1 * (-0.15 * 6.0 * (loss - icl)).exp();
    assert!((arm.weight - odds / (1.0 + odds)).abs() < 1e-11);
    // By leave-one-out there is no evidence.
    assert!(task.decide(&one_arm(&[0, 1])).arms[0].paths[0].evidence.is_empty());
}

#[test]
fn evidence_of_too_many_outputs_is_refused() {
    let block = ClassBlock::new(
        "block",
        ClassKernel::Features(Matrix::from_fn(2002, 1, |i, _| (i as f64).sin())),
    );
    let base = ClassBase::new(Base::FewShot, Matrix::zeros(1001, 2), vec![block.unwrap()]);
    let answers = (0..1001).map(|i| i % 2).collect();
    let geometry = ClassGeometry::new(2, answers, vec![base.unwrap()]).unwrap();
    let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
    let refused = decide_classes(&geometry, &arms, &by_laplace(&[0, 1])).unwrap_err();
    assert_eq!(refused.field().map(fewstep_core::Field::name), Some("rule"));
    assert!(matches!(refused, Error::Policy { found, .. } if found.contains("2002")));
}

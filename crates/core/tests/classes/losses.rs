//! Steps follow the loss that the policy names: by numerical derivatives in parameter space, and by
//! the filters of squared loss.

use crate::support::{Model, apart, dot, one_arm, softmax};
use fewstep_core::{
    ClassLoss, ClassPolicy, Filter, GradientDescent, Matrix, Policy, Spectrum, StepSize,
};

fn by(loss: ClassLoss, horizons: &[u32]) -> Policy {
    let policy = one_arm(horizons);
    Policy { classes: ClassPolicy { loss, ..policy.classes.clone() }, ..policy }
}

fn one_hot(classes: usize, answer: usize) -> Vec<f64> {
    (0..classes).map(|c| f64::from(u8::from(c == answer))).collect()
}

/// `log p` less its mean.
fn log_ratios(p: &[f64]) -> Vec<f64> {
    let mean = p.iter().map(|p| p.ln()).sum::<f64>() / p.len() as f64;
    p.iter().map(|p| p.ln() - mean).collect()
}

/// `J = diag(p) − p pᵀ` at the scores of a prediction.
fn jacobian(z: &[f64]) -> Vec<Vec<f64>> {
    let p = softmax(z);
    let entry = |c: usize, d: usize| if c == d { p[c] - p[c] * p[d] } else { -p[c] * p[d] };
    (0..p.len()).map(|c| (0..p.len()).map(|d| entry(c, d)).collect()).collect()
}

fn smoothed(classes: usize, answer: usize, smoothing: f64) -> Vec<f64> {
    let pull = |y: f64| (1.0 - smoothing) * y + smoothing / classes as f64;
    one_hot(classes, answer).into_iter().map(pull).collect()
}

/// The loss of all examples, as the table of `ClassLoss` writes it.
fn total(model: &Model, loss: ClassLoss, theta: &[f64]) -> f64 {
    let squares = |v: Vec<f64>| 0.5 * dot(&v, &v);
    (0..model.n())
        .map(|i| {
            let (z, classes, answer) = (&model.scores[i], model.classes(), model.answers[i]);
            let change: Vec<f64> = model.features[i].iter().map(|f| dot(f, theta)).collect();
            let moved: Vec<f64> = z.iter().zip(&change).map(|(z, d)| z + d).collect();
            match loss {
                ClassLoss::CrossEntropy => -softmax(&moved)[answer].ln(),
                ClassLoss::Squared => squares(
                    (0..classes)
                        .map(|c| {
                            let linear = softmax(z)[c] + dot(&jacobian(z)[c], &change);
                            one_hot(classes, answer)[c] - linear
                        })
                        .collect(),
                ),
                ClassLoss::Aitchison { smoothing } => {
                    let target = log_ratios(&smoothed(classes, answer, smoothing));
                    let found = log_ratios(&softmax(&moved));
                    squares(target.iter().zip(&found).map(|(t, f)| t - f).collect())
                }
            }
        })
        .sum()
}

const LOSSES: [ClassLoss; 3] =
    [ClassLoss::CrossEntropy, ClassLoss::Squared, ClassLoss::Aitchison { smoothing: 0.2 }];

/// Four steps along central differences of the loss. Those are exact to about `h² + ε/h`, with
/// `h = 10⁻⁵`, relative to values of order 1.
#[test]
fn steps_go_down_the_loss() {
    for (seed, shape) in (1..).zip([[2, 2, 3], [4, 3, 5], [6, 4, 2]]) {
        let model = Model::random(seed, shape, 0.6);
        for loss in LOSSES {
            let task = model.single(model.dense());
            let decision = task.decide(&by(loss, &[0, 4]));
            let rho = decision.arms[0].paths[0].step_size;
            let mut theta = vec![0.0; model.width()];
            for _ in 0..4 {
                let slope = |j: usize| {
                    let at = |h: f64| {
                        let mut near = theta.clone();
                        near[j] += h;
                        total(&model, loss, &near)
                    };
                    (at(1e-5) - at(-1e-5)) / 2e-5
                };
                let gradient: Vec<f64> = (0..theta.len()).map(slope).collect();
                theta.iter_mut().zip(gradient).for_each(|(t, g)| *t -= rho * g);
            }
            let a = decision.coefficients(0).unwrap();
            let rows = model.rows();
            let found: Vec<f64> = (0..model.width())
                .map(|j| (0..rows.len()).map(|i| a.values()[i] * rows[i][j]).sum())
                .collect();
            assert!(apart(&found, &theta) < 1e-8, "{loss:?}: {found:?} {theta:?}");
        }
    }
}

/// Squared losses by the filter of the paper: eigenvalues of the kernel of what is predicted, a gain
/// for each mode, and the residuals of the start.
#[test]
fn squared_losses_are_filtered_residuals() {
    for (seed, shape) in (1..).zip([[2, 2, 3], [5, 3, 8], [7, 4, 40]]) {
        let model = Model::random(seed, shape, 0.6);
        let (n, classes, outputs) = (model.n(), model.classes(), model.n() * model.classes());
        for loss in &LOSSES[1..] {
            let task = model.single(model.dense());
            let decision = task.decide(&by(*loss, &[0, 9]));
            let rho = decision.arms[0].paths[0].step_size;
            // Rows of what is linear in θ: J φ for probabilities, centred φ for log-ratios.
            let rows_of = |z: &[f64], features: &[Vec<f64>]| -> Vec<Vec<f64>> {
                let factor = |c: usize, d: usize| match loss {
                    ClassLoss::Squared => jacobian(z)[c][d],
                    _ => f64::from(u8::from(c == d)) - 1.0 / classes as f64,
                };
                let entry = |c: usize, j: usize| {
                    (0..classes).map(|d| factor(c, d) * features[d][j]).sum::<f64>()
                };
                (0..classes)
                    .map(|c| (0..model.width()).map(|j| entry(c, j)).collect())
                    .collect()
            };
            let start = |i: usize| match *loss {
                ClassLoss::Aitchison { smoothing } => {
                    let target = log_ratios(&smoothed(classes, model.answers[i], smoothing));
                    let found = log_ratios(&softmax(&model.scores[i]));
                    target.iter().zip(found).map(|(t, f)| t - f).collect::<Vec<f64>>()
                }
                _ => one_hot(classes, model.answers[i])
                    .iter()
                    .zip(softmax(&model.scores[i]))
                    .map(|(y, p)| y - p)
                    .collect(),
            };
            let rows: Vec<Vec<f64>> =
                (0..n).flat_map(|i| rows_of(&model.scores[i], &model.features[i])).collect();
            let residuals: Vec<f64> = (0..n).flat_map(start).collect();
            let kernel = Matrix::from_fn(outputs, outputs, |i, j| dot(&rows[i], &rows[j]));
            let spectrum = Spectrum::of(&kernel).unwrap();
            let step = StepSize::fraction(0.6, &spectrum).unwrap();
            assert!((rho / step.get() - 1.0).abs() < 1e-10);
            let filter = GradientDescent { step, horizon: 9 };
            let gains: Vec<f64> = spectrum
                .eigenvalues()
                .iter()
                .zip(spectrum.rotate(&residuals).unwrap())
                .map(|(&eigenvalue, amount)| filter.gain(eigenvalue) * amount)
                .collect();
            let learned = spectrum.rotate_back(&gains).unwrap();
            let change: Vec<f64> = rows_of(&model.query_scores, &model.query_features)
                .iter()
                .map(|row| (0..outputs).map(|i| dot(row, &rows[i]) * learned[i]).sum())
                .collect();
            let icl = softmax(&model.query_scores);
            let moved: Vec<f64> = match loss {
                ClassLoss::Squared => {
                    let kept: Vec<f64> =
                        icl.iter().zip(&change).map(|(p, d)| (p + d).max(0.0)).collect();
                    let sum: f64 = kept.iter().sum();
                    kept.into_iter().map(|p| p / sum).collect()
                }
                _ => {
                    let z = model.query_scores.iter().zip(&change).map(|(z, d)| z + d);
                    softmax(&z.collect::<Vec<f64>>())
                }
            };
            let weight = decision.when.weight;
            let expected: Vec<f64> = moved
                .iter()
                .zip(icl)
                .map(|(p, icl)| weight * p + (1.0 - weight) * icl)
                .collect();
            assert!(apart(&task.answer(&decision), &expected) < 1e-10, "{loss:?}");
        }
    }
}

/// Held-out losses of the other losses are log-losses as well, by steps on the others alone.
#[test]
fn held_out_examples_are_predicted_by_the_others() {
    let model = Model::random(9, [5, 3, 4], 0.6);
    for loss in LOSSES {
        let task = model.single(model.dense());
        let decision = task.decide(&by(loss, &[0, 6]));
        let full = &decision.arms[0].paths[0];
        for held in 0..model.n() {
            // The same task with the held-out example as the query.
            let mut rest = model.clone();
            let answer = rest.answers.remove(held);
            rest.query_scores = rest.scores.remove(held);
            rest.query_features = rest.features.remove(held);
            let other = rest.single(rest.dense());
            let unscaled = other.decide(&by(loss, &[0, 6])).arms[0].paths[0].step_size;
            let scale = 0.6 * full.step_size / unscaled;
            let policy = Policy { step_scale: scale, ..by(loss, &[0, 6]) };
            let smaller = other.decide(&policy);
            let mixed = other.answer(&smaller)[answer];
            let icl = softmax(&rest.query_scores)[answer];
            let weight = smaller.when.weight;
            let alone = (mixed - (1.0 - weight) * icl) / weight;
            // The decision mixes with weights that do not know this example's loss.
            let losses = |predicted: f64| -predicted.max(1e-6).ln();
            let own = losses(alone);
            let all = 5.0 * full.losses[0] - own;
            let icl_all: f64 = (0..5)
                .filter(|&i| i != held)
                .map(|i| losses(softmax(&model.scores[i])[model.answers[i]]))
                .sum();
            let (left, updated) = (0.1 * (-0.15 * icl_all).exp(), 0.9 * (-0.15 * all).exp());
            let expected = (left * icl + updated * alone) / (left + updated);
            assert!((decision.probabilities[(held, answer)] - expected).abs() < 1e-9);
        }
    }
}

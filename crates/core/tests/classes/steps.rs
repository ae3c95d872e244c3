//! Steps in prompt space are steps in parameter space, and leave-one-out is refitting.

use crate::support::{Model, apart, dot, for_models, one_arm, softmax};
use fewstep_core::{ClassBlock, ClassCoupling, ClassKernel, Matrix, Policy, Rng, Spectrum};

const HORIZONS: [u32; 5] = [0, 1, 3, 8, 40];

/// Probabilities after `T` steps: rounding grows with the steps and the outputs.
fn allowed(model: &Model) -> f64 {
    1e3 * f64::EPSILON * (40 * model.n() * model.classes()) as f64
}

/// `P K P` by its definition.
fn centred(model: &Model) -> Matrix {
    let classes = model.classes();
    let rows = model.rows();
    let mean = |i: usize, j: usize| {
        rows[i / classes * classes..][..classes].iter().map(|row| row[j]).sum::<f64>()
            / classes as f64
    };
    let centred: Vec<Vec<f64>> = (0..rows.len())
        .map(|i| (0..model.width()).map(|j| rows[i][j] - mean(i, j)).collect())
        .collect();
    Matrix::from_fn(rows.len(), rows.len(), |i, j| dot(&centred[i], &centred[j]))
}

/// Every number of steps alone: leave-one-out losses by refitting each problem, predictions and
/// parameters by literal steps, step sizes by a decomposition of the kernel written out.
#[test]
fn steps_in_prompt_space_are_steps_in_parameter_space() {
    for_models(|model| {
        for (kernel, coupling) in [model.dense(), model.factored()] {
            let task = model.single((kernel, coupling));
            let decision = task.decide(&one_arm(&HORIZONS));
            let path = &decision.arms[0].paths[0];
            let largest = Spectrum::of(centred(model)).unwrap().largest();
            assert!((path.step_size * largest / 1.2 - 1.0).abs() < 1e-10);
            let all: Vec<usize> = (0..model.n()).collect();
            for (&steps, &loss) in path.horizons.iter().zip(&path.losses) {
                let refitted = model.leave_one_out(path.step_size, steps);
                assert!((loss - model.loss(&refitted)).abs() < 1e3 * allowed(model));
                let theta = model.fit(&all, path.step_size, steps);
                let decision = task.decide(&one_arm(&[0, steps]));
                // θ = Σ a φ.
                let a = decision.coefficients(0).unwrap();
                let found: Vec<f64> = (0..model.width())
                    .map(|j| {
                        let column: Vec<f64> = model.rows().iter().map(|row| row[j]).collect();
                        dot(a.values(), &column)
                    })
                    .collect();
                let norm = dot(&theta, &theta).sqrt();
                assert!(apart(&found, &theta) <= 1e3 * allowed(model) * norm);
                // The average of leaving alone and this number of steps.
                let weight = decision.when.weight;
                let expected: Vec<f64> = model
                    .predict_query(&theta)
                    .iter()
                    .zip(softmax(&model.query_scores))
                    .map(|(p, icl)| weight * p + (1.0 - weight) * icl)
                    .collect();
                assert!(apart(&task.answer(&decision), &expected) < 1e3 * allowed(model));
            }
        }
    });
}

/// With two labels: steps on the margin of a logistic regression with the kernel of the difference.
#[test]
fn two_labels_are_a_logistic_regression_on_the_margin() {
    for (seed, n) in [(1, 2), (2, 5), (3, 9)] {
        let model = Model::random(seed, [n, 2, 6], 0.7);
        let difference = |f: &[Vec<f64>]| -> Vec<f64> {
            f[1].iter().zip(&f[0]).map(|(one, other)| one - other).collect()
        };
        let rows: Vec<Vec<f64>> = model.features.iter().map(|f| difference(f)).collect();
        let margins: Vec<f64> = model.scores.iter().map(|z| z[1] - z[0]).collect();
        let query = difference(&model.query_features);
        let task = model.single(model.dense());
        let decision = task.decide(&one_arm(&[0, 7]));
        let rho = decision.arms[0].paths[0].step_size;
        // a ← a + ρ (y − σ(m + k a)), the margin m + k a, seven times.
        let sigmoid = |m: f64| 1.0 / (1.0 + (-m).exp());
        let mut a = vec![0.0; n];
        for _ in 0..7 {
            let moved: Vec<f64> = (0..n)
                .map(|i| {
                    margins[i] + (0..n).map(|j| dot(&rows[i], &rows[j]) * a[j]).sum::<f64>()
                })
                .collect();
            for i in 0..n {
                a[i] += rho * (model.answers[i] as f64 - sigmoid(moved[i]));
            }
        }
        let margin = model.query_scores[1] - model.query_scores[0]
            + (0..n).map(|j| dot(&query, &rows[j]) * a[j]).sum::<f64>();
        let icl = sigmoid(model.query_scores[1] - model.query_scores[0]);
        let weight = decision.when.weight;
        let expected = weight * sigmoid(margin) + (1.0 - weight) * icl;
        assert!((task.answer(&decision)[1] - expected).abs() < 1e2 * allowed(&model));
        let found = decision.coefficients(0).unwrap();
        for i in 0..n {
            assert!((found[(i, 1)] - a[i]).abs() < 1e2 * allowed(&model));
            assert!((found[(i, 0)] + a[i]).abs() < 1e2 * allowed(&model));
        }
    }
}

/// `model` with other derivatives: `features(example's scores, inputs, label)`.
fn with_features(
    model: &Model,
    inputs: &[Vec<f64>],
    features: impl Fn(&[f64], &[f64], usize) -> Vec<f64>,
) -> Model {
    let of = |scores: &[f64], input: &[f64]| {
        (0..scores.len()).map(|label| features(scores, input, label)).collect::<Vec<_>>()
    };
    Model {
        features: (0..model.n()).map(|i| of(&model.scores[i], &inputs[i])).collect(),
        query_features: of(&model.query_scores, &inputs[model.n()]),
        ..model.clone()
    }
}

/// Bias, readout and scale are the explicit models: a bias per label, a weight row per label on the
/// hidden state, and a factor on the scores. All three together are their sum.
#[test]
fn bias_readout_and_scale_are_their_explicit_models() {
    for (seed, n, classes, width) in [(1, 2, 2, 1), (2, 6, 3, 4), (3, 9, 5, 2)] {
        let model = Model::random(seed, [n, classes, 1], 1.0);
        let mut rng = Rng::new(100 + seed);
        let inputs: Vec<Vec<f64>> =
            (0..=n).map(|_| (0..width).map(|_| rng.normal()).collect()).collect();
        let one_hot = |label: usize| -> Vec<f64> {
            (0..classes).map(|c| f64::from(u8::from(c == label))).collect()
        };
        let bias = with_features(&model, &inputs, |_, _, label| one_hot(label));
        let readout = with_features(&model, &inputs, |_, input, label| {
            one_hot(label).iter().flat_map(|x| input.iter().map(move |h| x * h)).collect()
        });
        let scale = with_features(&model, &inputs, |scores, _, label| vec![scores[label]]);
        let all = with_features(&model, &inputs, |scores, input, label| {
            let rows = one_hot(label);
            let read = rows.iter().flat_map(|x| input.iter().map(move |h| x * h));
            rows.iter().copied().chain(read).chain([scores[label]]).collect()
        });
        let gram = Matrix::from_fn(n, n, |i, j| dot(&inputs[i], &inputs[j]));
        let near = (0..n).map(|j| dot(&inputs[n], &inputs[j])).collect();
        let scores = Matrix::from_rows(&model.scores).unwrap();
        let blocks = [
            (ClassBlock::bias(n).unwrap(), ClassCoupling::bias(n)),
            (
                ClassBlock::new("readout", ClassKernel::Shared(gram)).unwrap(),
                ClassCoupling::Shared(near),
            ),
            (ClassBlock::scale(&scores).unwrap(), ClassCoupling::scale(&model.query_scores)),
        ];
        let every = blocks.to_vec();
        let singles = blocks.into_iter().map(|block| vec![block]);
        for (explicit, blocks) in [bias, readout, scale, all].iter().zip(singles.chain([every]))
        {
            let task = model.task(blocks);
            let decision = task.decide(&one_arm(&[0, 12]));
            let path = &decision.arms[0].paths[0];
            let refitted = explicit.leave_one_out(path.step_size, 12);
            assert!((path.losses[0] - explicit.loss(&refitted)).abs() < 1e3 * allowed(&model));
            let largest = Spectrum::of(centred(explicit)).unwrap().largest();
            assert!((path.step_size * largest / 1.2 - 1.0).abs() < 1e-10);
            let theta = explicit.fit(&(0..n).collect::<Vec<_>>(), path.step_size, 12);
            let weight = decision.when.weight;
            let icl = softmax(&model.query_scores);
            let expected: Vec<f64> = explicit
                .predict_query(&theta)
                .iter()
                .zip(&icl)
                .map(|(p, icl)| weight * p + (1.0 - weight) * icl)
                .collect();
            assert!(apart(&task.answer(&decision), &expected) < 1e3 * allowed(&model));
        }
    }
}

/// Close to the largest stable step the cross-entropy of the examples still falls at every step.
#[test]
fn the_loss_falls_at_every_step_that_is_allowed() {
    for_models(|model| {
        let task = model.single(model.dense());
        let policy = |steps| Policy { step_scale: 0.999, ..one_arm(&[0, steps]) };
        let mut before = f64::INFINITY;
        for steps in 1..30 {
            let decision = task.decide(&policy(steps));
            let Some(a) = decision.coefficients(0) else { continue };
            let rows = model.rows();
            let theta: Vec<f64> = (0..model.width())
                .map(|j| (0..rows.len()).map(|i| a.values()[i] * rows[i][j]).sum())
                .collect();
            let loss: f64 =
                (0..model.n()).map(|i| -model.predict(i, &theta)[model.answers[i]].ln()).sum();
            assert!(loss <= before + allowed(model) * (1.0 + loss.abs()), "{loss} {before}");
            before = loss;
        }
    });
}

//! How an error splits into what could be avoided and what could not: Sec. 2.

use super::literal::{assert_within, nodes};
use crate::support::{assert_close, dot, mean_and_error, normals, subtract};
use fewstep_core::Rng;
use fewstep_theory::risk::decompose;

fn integral(nodes: &[(f64, f64)], function: impl Fn(f64) -> f64) -> f64 {
    nodes.iter().map(|&(x, weight)| weight * function(x)).sum()
}

/// Two equally likely tasks, slope 1 and −1: everything about them is a one-dimensional
/// integral over `s = Σ x_i y_i`.
struct TwoTasks {
    inputs: Vec<f64>,
    query: f64,
    noise_variance: f64,
}

impl TwoTasks {
    fn energy(&self) -> f64 {
        dot(&self.inputs, &self.inputs)
    }

    /// `E[Y | P_n, X]`.
    fn bayes(&self, s: f64) -> f64 {
        self.query * (s / self.noise_variance).tanh()
    }

    /// `s` and `Y`, drawn example by example.
    fn draw(&self, rng: &mut Rng) -> (f64, f64) {
        let (slope, spread) = (rng.sign(), self.noise_variance.sqrt());
        let label = |x: f64, rng: &mut Rng| slope * x + spread * rng.normal();
        let s = self.inputs.iter().map(|&x| x * label(x, rng)).sum();
        (s, label(self.query, rng))
    }

    /// `E h(s)`.
    fn expectation(&self, function: impl Fn(f64) -> f64) -> f64 {
        let variance = self.noise_variance * self.energy();
        let density = |s: f64, mean: f64| {
            (-(s - mean).powi(2) / (2.0 * variance)).exp()
                / (std::f64::consts::TAU * variance).sqrt()
        };
        let reach = self.energy() + 12.0 * variance.sqrt();
        let both = |s: f64| 0.5 * (density(s, self.energy()) + density(s, -self.energy()));
        // Two halves: one of the predictors jumps at 0.
        integral(&nodes(-reach, 0.0, 20), |s| both(s) * function(s))
            + integral(&nodes(0.0, reach, 20), |s| both(s) * function(s))
    }

    /// Second and fourth moment of `Y − E[Y | s]`.
    fn spread(&self, s: f64) -> (f64, f64) {
        let (t, x2, v) = (self.bayes(s) / self.query, self.query.powi(2), self.noise_variance);
        let moment = |chance: f64, slope: f64| {
            let d2 = (slope - t).powi(2) * x2;
            (chance * (d2 + v), chance * (d2 * d2 + 6.0 * d2 * v + 3.0 * v * v))
        };
        let (plus, minus) = (moment((1.0 + t) / 2.0, 1.0), moment((1.0 - t) / 2.0, -1.0));
        (plus.0 + minus.0, plus.1 + minus.1)
    }
}

/// Prop. 2.1: the risk is the Bayes gap plus the posterior variance, which no predictor changes.
#[test]
fn prop_2_1_risk_is_gap_plus_posterior_variance() {
    let tasks = TwoTasks { inputs: vec![0.5, -0.8, 0.3], query: 1.2, noise_variance: 0.6 };
    let least_squares = tasks.query / tasks.energy();
    let predictors: [&dyn Fn(f64) -> f64; 3] =
        [&|_| 0.0, &|s| least_squares * s, &|s| tasks.query * s.signum()];
    let mut rng = Rng::new(21);
    let draws: Vec<(f64, f64)> = (0..40_000).map(|_| tasks.draw(&mut rng)).collect();
    let root = (draws.len() as f64).sqrt();
    let targets: Vec<f64> = draws.iter().map(|draw| draw.1).collect();
    let bayes: Vec<f64> = draws.iter().map(|draw| tasks.bayes(draw.0)).collect();

    let variance = tasks.expectation(|s| tasks.spread(s).0);
    let variance_error =
        (tasks.expectation(|s| tasks.spread(s).1) - variance.powi(2)).sqrt() / root;
    for predictor in predictors {
        let predictions: Vec<f64> = draws.iter().map(|draw| predictor(draw.0)).collect();
        let found = decompose(&predictions, &bayes, &targets).unwrap();

        // On the sample: exact, with the cross term.
        let sum = found.gap.mean + found.posterior_variance.mean + found.cross.mean;
        assert_close(sum, found.risk.mean, found.risk.mean, 1);

        // In expectation: each part is its integral, the cross term is 0.
        let gap = tasks.expectation(|s| (predictor(s) - tasks.bayes(s)).powi(2));
        let fourth = tasks.expectation(|s| (predictor(s) - tasks.bayes(s)).powi(4));
        let gap_error = (fourth - gap * gap).sqrt() / root;
        let weighted =
            |s: f64| 4.0 * (predictor(s) - tasks.bayes(s)).powi(2) * tasks.spread(s).0;
        let cross_error = tasks.expectation(weighted).sqrt() / root;
        assert_within(found.gap.mean, gap, gap_error);
        assert_within(found.posterior_variance.mean, variance, variance_error);
        assert_within(found.cross.mean, 0.0, cross_error);
        let (plain, plain_error) = mean_and_error(
            &predictions.iter().zip(&targets).map(|(m, y)| (m - y).powi(2)).collect::<Vec<_>>(),
        );
        assert_close(found.risk.mean, plain, plain, 1);
        assert_close(found.risk.standard_error, plain_error, plain_error, 1);
        assert_within(
            found.risk.mean,
            gap + variance,
            gap_error + variance_error + cross_error,
        );
        for (reported, theory) in [
            (found.gap.standard_error, gap_error),
            (found.posterior_variance.standard_error, variance_error),
            (found.cross.standard_error, cross_error),
        ] {
            assert!((reported / theory - 1.0).abs() < 0.05, "{reported} against {theory}");
        }
    }
    // The Bayes predictor itself has no gap.
    let best = decompose(&bayes, &bayes, &targets).unwrap();
    assert!(best.gap.mean == 0.0 && best.risk == best.posterior_variance);
}

/// Sec. 2: seen from a base predictor, the gap is the distance to the Bayes-optimal correction.
#[test]
fn sec_2_correction_view() {
    let mut rng = Rng::new(22);
    let [adapted, bayes, base, targets] = [0; 4].map(|_| normals(&mut rng, 50));
    let whole = decompose(&adapted, &bayes, &targets).unwrap();
    let corrections = decompose(
        &subtract(&adapted, &base),
        &subtract(&bayes, &base),
        &subtract(&targets, &base),
    )
    .unwrap();
    assert_close(corrections.gap.mean, whole.gap.mean, whole.gap.mean, 1);
    assert_close(corrections.risk.mean, whole.risk.mean, whole.risk.mean, 1);
}

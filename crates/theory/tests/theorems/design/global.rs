//! Which subspace is best for many prompts, and the price of having seen only some: Cor. E.23
//! and Thm. E.25.

use super::{Case, captured, diagonal, jacobi, operator_norm, orthonormal};
use crate::support::{
    Rows, assert_all_close, assert_close, multiply, normals, product, shifted, subtract, trace,
    transpose,
};
use fewstep_core::{Matrix, Rng};
use fewstep_theory::design::{
    GlobalInformation, LinearGaussian, PlugIn, Prior, QueryInformation, QueryMetric,
};

/// A handful of prompts over the same weights, and what each tells about the same queries.
fn prompts(rng: &mut Rng, count: usize) -> (Vec<Case>, QueryMetric, Vec<QueryInformation>) {
    let p = 4;
    let queries: Rows = (0..6).map(|_| normals(rng, p)).collect();
    let cases: Vec<Case> = (0..count)
        .map(|_| Case {
            jacobian: (0..1 + rng.below(5)).map(|_| normals(rng, p)).collect(),
            prior: Prior::Isotropic(1.0),
            covariance: diagonal(&vec![1.0; p]),
            noise_variance: 0.5,
            queries: queries.clone(),
        })
        .collect();
    let metric = QueryMetric::from_queries(&queries).unwrap();
    let informed =
        cases.iter().map(|case| case.model().query_information(&metric).unwrap()).collect();
    (cases, metric, informed)
}

fn mean_of(parts: &[Rows]) -> Rows {
    let mut mean = shifted(&parts[0], 0.0, 0.0);
    for part in parts {
        for (sum, row) in mean.iter_mut().zip(part) {
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x / parts.len() as f64);
        }
    }
    mean
}

/// Cor. E.23: the top eigenspace of the average ℐ_Q has the smallest average risk.
#[test]
fn cor_e_23_global_subspace() {
    let mut rng = Rng::new(23);
    let (cases, metric, informed) = prompts(&mut rng, 12);
    let (p, count) = (4, cases.len());
    let (root, total, _) = cases[0].whitened();
    let known: Vec<Rows> = cases.iter().map(|case| case.whitened().2).collect();
    let average = mean_of(&known);
    let (eigenvalues, _) = jacobi(&average);
    let scale = trace(&total);

    let mut global = GlobalInformation::new(metric.dimension());
    for information in &informed {
        global.add(information).unwrap();
    }
    assert_eq!(global.prompts(), count);
    let mean = global.mean().unwrap();
    assert_close(mean.total(), scale, scale, p);
    for budget in 1..=p {
        let found = mean.optimal_subspace(budget).unwrap();
        let best: f64 = eigenvalues[..budget].iter().sum();
        assert_close(found.captured(), best, scale, p);
        let average_risk = |risk: &dyn Fn(usize) -> f64| -> f64 {
            (0..count).map(risk).sum::<f64>() / count as f64
        };
        let risk = average_risk(&|i| informed[i].risk(&found).unwrap());
        assert_close(risk, scale - best, scale, p);
        assert_close(found.risk(), risk, scale, p);

        let slack = 1e3 * p as f64 * f64::EPSILON * scale;
        for _ in 0..100 {
            let seen: Rows =
                (0..budget).map(|_| multiply(&root, &normals(&mut rng, p))).collect();
            let other = orthonormal(&seen);
            assert!(average_risk(&|i| scale - captured(&other, &known[i])) >= risk - slack);
        }
        // Nor is any prompt's own optimum better on average.
        for information in &informed {
            let own = information.optimal_subspace(budget).unwrap();
            assert!(average_risk(&|i| informed[i].risk(&own).unwrap()) >= risk - slack);
        }
    }
}

/// Thm. E.25 and Remark E.26: the bounds are the stated ones, and large enough for the matrix
/// Freedman inequality they come from.
#[test]
fn thm_e_25_the_bounds() {
    let mut rng = Rng::new(25);
    for _ in 0..200 {
        let (prompts, dimension) = (1 + rng.below(500), 1 + rng.below(50));
        let (bound, variation) = (3.0 * rng.uniform(), 100.0 * rng.uniform());
        let delta = 0.001 + 0.9 * rng.uniform();
        let (m, d) = (prompts as f64, dimension as f64);
        let plug_in = PlugIn::new(prompts, dimension, bound, variation).unwrap();
        let epsilon = plug_in.deviation(delta).unwrap();
        let log = (2.0 * d / delta).ln();
        let expected = (f64::sqrt(2.0 * variation * log) + 2.0 * bound / 3.0 * log) / m;
        assert_close(epsilon, expected, expected, 1);
        let tail =
            |t: f64| 2.0 * d * (-t * t / (2.0 * variation + 2.0 * bound * t / 3.0)).exp();
        assert!(tail(m * epsilon) <= delta * (1.0 + 1e-12));
        // Without jumps the inequality is used up.
        let smooth = PlugIn::new(prompts, dimension, 0.0, variation).unwrap();
        let reached = m * smooth.deviation(delta).unwrap();
        let at_the_limit = 2.0 * d * (-reached * reached / (2.0 * variation)).exp();
        assert_close(at_the_limit, delta, log, 1);

        let budget = 1 + rng.below(dimension);
        let regret = plug_in.regret(budget, delta).unwrap();
        assert_close(regret, 2.0 * budget as f64 * expected, regret, 1);

        let variance = variation / m;
        let independent = PlugIn::independent(prompts, dimension, bound, variance).unwrap();
        let expected = (2.0 * variance * log / m).sqrt() + 2.0 * bound / (3.0 * m) * log;
        assert_close(independent.deviation(delta).unwrap(), expected, expected, 1);
    }
}

/// One run of a process of prompts: did the average stay within ε, and if so, was the regret of
/// the plug-in design within 2kε for every budget?
fn within(
    plug_in: &PlugIn,
    drawn: &[&QueryInformation],
    expected: &[Vec<f64>],
    delta: f64,
) -> bool {
    let dimension = expected.len();
    let mut global = GlobalInformation::new(dimension);
    for information in drawn {
        global.add(information).unwrap();
    }
    let mean = global.mean().unwrap();
    let apart: Rows =
        mean.matrix().to_rows().iter().zip(expected).map(|(a, b)| subtract(a, b)).collect();
    let inside = operator_norm(&apart) <= plug_in.deviation(delta).unwrap();
    if inside {
        let eigenvalues = jacobi(expected).0;
        for budget in 1..=dimension {
            let design = mean.optimal_subspace(budget).unwrap().basis().to_rows();
            let best: f64 = eigenvalues[..budget].iter().sum();
            let regret = best - captured(&design, expected);
            let slack = 1e3 * dimension as f64 * f64::EPSILON * best;
            assert!(-slack <= regret && regret <= plug_in.regret(budget, delta).unwrap());
            // The proof's own step: twice the budget times the actual deviation.
            assert!(regret <= 2.0 * budget as f64 * operator_norm(&apart) + slack);
        }
    }
    inside
}

/// Thm. E.25 for independent prompts: the average stays within ε with probability 1 − δ, and the
/// regret of its design within 2kε.
#[test]
fn thm_e_25_independent_prompts() {
    let mut rng = Rng::new(26);
    let (_, metric, informed) = prompts(&mut rng, 20);
    let known: Vec<Rows> = informed.iter().map(|i| i.matrix().to_rows()).collect();
    let expected = mean_of(&known);
    let deviations: Vec<Rows> = known
        .iter()
        .map(|a| a.iter().zip(&expected).map(|(x, y)| subtract(x, y)).collect())
        .collect();
    let bound = deviations.iter().map(|x| operator_norm(x)).fold(0.0, f64::max);
    let squares: Vec<Rows> = deviations.iter().map(|x| product(x, x)).collect();
    let variance = operator_norm(&mean_of(&squares));
    let runs = 400;
    for (prompts, delta) in [(1, 0.5), (5, 0.3), (40, 0.1)] {
        let plug_in =
            PlugIn::independent(prompts, metric.dimension(), bound, variance).unwrap();
        let mut outside = 0.0;
        for _ in 0..runs {
            let drawn: Vec<_> =
                (0..prompts).map(|_| &informed[rng.below(informed.len())]).collect();
            outside += f64::from(u8::from(!within(&plug_in, &drawn, &expected, delta)));
        }
        let runs = f64::from(runs);
        assert!(outside / runs <= delta + 4.0 * (delta * (1.0 - delta) / runs).sqrt());
    }
}

/// Thm. E.25 for prompts that are not independent: how far the next one may stray depends on
/// all before it, only its conditional mean is fixed.
#[test]
fn thm_e_25_martingale_prompts() {
    let mut rng = Rng::new(27);
    let dimension = 3;
    let shapes: Vec<Rows> = (0..4)
        .map(|_| {
            let raw: Rows = (0..dimension).map(|_| normals(&mut rng, dimension)).collect();
            let both: Rows = raw
                .iter()
                .zip(transpose(&raw))
                .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y).collect())
                .collect();
            shifted(&both, 0.35 / operator_norm(&both), 0.0)
        })
        .collect();
    let metric = QueryMetric::from_matrix(Matrix::identity(dimension)).unwrap();
    // J = √(μ/(1−μ)) Vᵀ makes ℐ = Jᵀ(JJᵀ + I)⁻¹J any matrix between 0 and I that one likes.
    let centre = diagonal(&[0.4, 0.5, 0.6]);
    let told = |shape: &Rows, amount: f64| -> QueryInformation {
        let target: Rows = shifted(shape, amount, 0.0)
            .iter()
            .zip(&centre)
            .map(|(a, b)| a.iter().zip(b).map(|(x, y)| x + y).collect())
            .collect();
        let (values, vectors) = jacobi(&target);
        let odds: Vec<f64> =
            values.iter().map(|value| (value / (1.0 - value)).sqrt()).collect();
        let jacobian = product(&diagonal(&odds), &vectors);
        let model = LinearGaussian::new(&jacobian, Prior::Isotropic(1.0), 1.0).unwrap();
        model.query_information(&metric).unwrap()
    };
    let amounts = [-1.0, -0.2, 0.2, 1.0];
    let informed: Vec<Vec<QueryInformation>> = shapes
        .iter()
        .map(|shape| amounts.iter().map(|&amount| told(shape, amount)).collect())
        .collect();
    // The centre again, in the metric's own coordinates.
    let all: Vec<Rows> = informed.iter().flatten().map(|i| i.matrix().to_rows()).collect();
    let expected = mean_of(&all);
    assert_all_close(&jacobi(&expected).0, &[0.6, 0.5, 0.4], 1.0, dimension);
    let squares: Vec<Rows> = shapes.iter().map(|shape| product(shape, shape)).collect();
    let (prompts, delta, runs) = (30, 0.2, 400);
    // |amount| ≤ 1, so the conditional second moments sum to at most this, whatever happens.
    let variation = f64::from(prompts) * operator_norm(&mean_of(&squares));
    let plug_in = PlugIn::new(30, dimension, 0.35, variation).unwrap();
    let mut outside = 0.0;
    for _ in 0..runs {
        let (mut drawn, mut past) = (Vec::new(), 0.0);
        for _ in 0..prompts {
            let (shape, up) = (rng.below(shapes.len()), rng.sign() > 0.0);
            // Wide steps while the past leans up, narrow ones otherwise.
            let wide = past >= 0.0;
            past += if up { 1.0 } else { -1.0 } * trace(&shapes[shape]);
            let amount = match (up, wide) {
                (false, true) => 0,
                (false, false) => 1,
                (true, false) => 2,
                (true, true) => 3,
            };
            drawn.push(&informed[shape][amount]);
        }
        outside += f64::from(u8::from(!within(&plug_in, &drawn, &expected, delta)));
    }
    let runs = f64::from(runs);
    assert!(outside / runs <= delta + 4.0 * (delta * (1.0 - delta) / runs).sqrt());
}

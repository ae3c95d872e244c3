//! What holds for the horizon with the best evidence: Thm. 7.2.

use super::{
    DRAWS, HORIZONS, Literal, ROUNDING, assert_broken, assert_coverage, comparable_signal,
    level, level_deviations, measure, prompt, references,
};
use crate::support::{assert_close, gaussian, shifted, trace};
use fewstep_core::Rng;
use fewstep_core::gibbs::GibbsPosterior;
use fewstep_theory::pac_bayes::{EvidenceFamily, PacBayes, Reference};

/// Thm. 7.2: with probability `1 − δ` the population risk of the most likely horizon, as that of
/// every candidate, is at most its evidence plus `√(v̄ (log |𝒯| + log 1/δ)/n)`.
#[test]
fn thm_7_2_bound_for_the_most_likely_horizon() {
    let (n, delta) = (10, 0.2_f64);
    let (kernel, spectrum, step) = prompt(51, n);
    let mut rng = Rng::new(52);
    for (signal, covariance) in references(&kernel, 53) {
        let found = measure(&spectrum, step, signal, &covariance);
        let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
        let (risks, largest) = (literal.risks(), literal.largest_variance());
        let cost = 6.0_f64.ln() + (1.0 / delta).ln();
        let slack = (largest * cost / n as f64).sqrt();
        let beta = 2.0 * (cost / (n as f64 * largest)).sqrt();
        let (mut chosen, mut any, mut exact) = (0, 0, 0);
        for _ in 0..DRAWS {
            let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
            let horizon = GibbsPosterior::new(&HORIZONS, &evidence, n, beta).unwrap().map();
            let bounds: Vec<f64> = HORIZONS
                .iter()
                .zip(&evidence)
                .map(|(&horizon, &value)| {
                    let bound = found.bound(horizon, value, 1.0 - delta).unwrap();
                    assert_close(bound.slack, slack, slack, n);
                    assert_close(bound.bound, value + slack, value.abs() + slack, n);
                    assert_close(bound.inverse_temperature, beta, beta, n);
                    assert_close(bound.confidence, 0.8, 1.0, 1);
                    bound.bound
                })
                .collect();
            let position = HORIZONS.iter().position(|&it| it == horizon).unwrap();
            chosen += usize::from(risks[position] > bounds[position]);
            any += usize::from(risks.iter().zip(&bounds).any(|(risk, bound)| risk > bound));
        }
        let tight: Vec<f64> = (0..6).map(|i| exact_slack(&found, &literal, i, delta)).collect();
        for _ in 0..DRAWS {
            let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
            let broken = (0..6).any(|i| risks[i] > evidence[i] + tight[i]);
            exact += usize::from(broken);
        }
        assert_coverage(chosen, DRAWS, delta);
        assert_coverage(any, DRAWS, delta);
        assert_coverage(exact, DRAWS, delta);
    }
}

/// The exact slack, once it is known to be the smallest over temperatures, no larger than the
/// paper's and within what evidence can be short of at all.
fn exact_slack(found: &PacBayes, literal: &Literal, position: usize, delta: f64) -> f64 {
    let n = literal.n() as f64;
    let cost = (6.0 / delta).ln();
    let tight = found.exact_bound(HORIZONS[position], 0.0, 1.0 - delta).unwrap();
    let at = |beta: f64| (cost + literal.log_moment(position, beta)) / (beta * n);
    let beta = tight.inverse_temperature;
    assert_close(tight.slack, at(beta), tight.slack + 1.0, literal.n());
    for factor in [0.01, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 100.0] {
        assert!(tight.slack <= at(factor * beta) * (1.0 + ROUNDING));
    }
    assert!(tight.slack <= found.bound(HORIZONS[position], 0.0, 1.0 - delta).unwrap().slack);
    assert!(tight.slack <= trace(&literal.tilted(position)) / (2.0 * n) * (1.0 + ROUNDING));
    tight.slack
}

/// Thm. 7.2: half of the slack would not do.
#[test]
fn thm_7_2_half_the_slack_is_too_little() {
    let delta = 0.01;
    let (spectrum, step) = level();
    let family = EvidenceFamily::new(&spectrum, step, 1.0, &[0]).unwrap();
    let found = PacBayes::new(&family, Reference::Horizon(0)).unwrap();
    let deviations = level_deviations(54);
    let slacks = [
        found.bound(0, 0.0, 1.0 - delta).unwrap().slack,
        found.exact_bound(0, 0.0, 1.0 - delta).unwrap().slack,
        found.rate_certificate(0.0, 1.0 - delta).unwrap().slack(&[1.0]).unwrap(),
    ];
    for slack in slacks {
        let violations = |slack: f64| deviations.iter().filter(|x| -*x > slack).count();
        assert_coverage(violations(slack), DRAWS, delta);
        assert_broken(violations(slack / 2.0), DRAWS, delta);
    }
}

/// With a prior of its own, each single horizon is charged `log 1/π(T)` and all hold at once.
#[test]
fn thm_7_2_any_prior() {
    let (n, delta) = (10, 0.3_f64);
    let prior = [0.5, 0.2, 0.1, 0.1, 0.05, 0.05];
    let (kernel, spectrum, step) = prompt(55, n);
    let signal = comparable_signal(&kernel);
    let covariance = shifted(&kernel, signal, 0.5);
    let found = measure(&spectrum, step, Some(signal), &covariance).with_prior(&prior).unwrap();
    let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
    let (risks, mut rng) = (literal.risks(), Rng::new(56));
    let slacks: Vec<(f64, f64)> = (0..6)
        .map(|i| {
            let paper = found.bound(HORIZONS[i], 0.0, 1.0 - delta).unwrap().slack;
            let cost = (1.0 / (delta * prior[i])).ln();
            let expected = (literal.largest_variance() * cost / n as f64).sqrt();
            assert_close(paper, expected, expected, n);
            let exact = found.exact_bound(HORIZONS[i], 0.0, 1.0 - delta).unwrap().slack;
            assert!(exact <= paper);
            (paper, exact)
        })
        .collect();
    let (mut paper, mut exact) = (0, 0);
    for _ in 0..DRAWS {
        let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
        paper += usize::from((0..6).any(|i| risks[i] > evidence[i] + slacks[i].0));
        exact += usize::from((0..6).any(|i| risks[i] > evidence[i] + slacks[i].1));
    }
    assert_coverage(paper, DRAWS, delta);
    assert_coverage(exact, DRAWS, delta);
    let rarest = found.vanishing_gap(0, 0.4).unwrap().selection;
    assert_close(rarest, slacks[5].0, slacks[5].0, n);
}

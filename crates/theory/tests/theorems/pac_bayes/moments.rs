//! How large the exponential moments are that every bound starts from: Lem. E.11 and Lem. E.12.

use super::{
    DRAWS, HORIZONS, Literal, ROUNDING, assert_broken, assert_coverage, comparable_signal,
    is_broken, many_distributions, prompt, tilted_prior, unaligned,
};
use crate::support::{
    Rows, assert_all_close, assert_close, for_prompts, gaussian, matrix, product, shifted,
    trace,
};
use fewstep_core::{Rng, Spectrum, StepSize};
use fewstep_theory::pac_bayes::{Certificate, EvidenceFamily, PacBayes, Reference};

/// Lem. E.11: for any variables with bounded exponential moments, all distributions satisfy the
/// bound at once with probability `1 − δ`, also the one that was made to break it.
#[test]
fn lem_e_11_bound_from_exponential_moments() {
    let delta = 0.1;
    let prior = [0.4, 0.3, 0.2, 0.1];
    let spreads = [0.5_f64, 1.0, 1.5, 2.0];
    let mut rng = Rng::new(21);
    for beta in [0.2_f64, 0.7, 2.0] {
        let normal: Vec<f64> = spreads.iter().map(|s| (beta * s).powi(2) / 2.0).collect();
        // For 1 − E with E exponential: e^β/(1 + β).
        let skewed: Vec<f64> = spreads.iter().map(|s| beta * s - (beta * s).ln_1p()).collect();
        for kind in 0..3 {
            let moments = if kind == 2 { &skewed } else { &normal };
            let certificate = Certificate::new(&prior, moments, beta, 1, 1.0 - delta).unwrap();
            let mut violations = 0;
            for _ in 0..DRAWS {
                let shared = rng.normal();
                let x: Vec<f64> = spreads
                    .iter()
                    .map(|s| match kind {
                        0 => s * rng.normal(),
                        1 => s * shared,
                        _ => s * (1.0 + (1.0 - rng.uniform()).ln()),
                    })
                    .collect();
                let exponents: Vec<f64> =
                    x.iter().zip(moments).map(|(x, moment)| beta * x - moment).collect();
                let worst = tilted_prior(&prior, &exponents);
                let others = many_distributions(&mut rng, &prior, &x);
                violations += usize::from(is_broken(&certificate, &worst, &others, &x));
            }
            assert_coverage(violations, DRAWS, delta);
        }
    }
}

/// Lem. E.11: the constant before `log(1/δ)` cannot be smaller: a coin attains the bound, and
/// breaks one with half of it.
#[test]
fn lem_e_11_constant_is_sharp() {
    let (delta, beta, moment) = (0.1_f64, 0.7, 0.3);
    let certificate = Certificate::new(&[1.0], &[moment], beta, 1, 1.0 - delta).unwrap();
    let slack = certificate.slack(&[1.0]).unwrap();
    let mut rng = Rng::new(22);
    for (share, breaks) in [(1.0, false), (0.5, true)] {
        // X just over the bound with the probability that makes E exp(βX) = exp(ψ) exactly.
        let bound = slack - (1.0 - share) * (1.0 / delta).ln() / beta;
        let high = bound + 1e-6;
        let chance = (moment - beta * high).exp() * (1.0 - 1e-12);
        let low = -50.0;
        let expected = chance * (beta * high).exp() + (1.0 - chance) * (beta * low).exp();
        assert!(expected <= moment.exp());
        let draws = (0..DRAWS).map(|_| if rng.uniform() < chance { high } else { low });
        let violations = draws.filter(|x| *x > bound).count();
        if breaks {
            assert_broken(violations, DRAWS, delta);
        } else {
            assert_coverage(violations, DRAWS, delta);
            let error = (delta * (1.0 - delta) / DRAWS as f64).sqrt();
            assert!(violations as f64 / DRAWS as f64 > delta - 4.0 * error, "it is attained");
        }
    }
}

/// Lem. E.12: the log-moment is `(β/2) tr A − ½ log det(I + βA)` and at most `(β²/4) tr A²`, for
/// every horizon, temperature and reference.
#[test]
fn lem_e_12_exact_moment_and_trace_bound() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        let noise = 0.5;
        let family = EvidenceFamily::new(&spectrum, step, noise, &HORIZONS).unwrap();
        let signal_variance = comparable_signal(&kernel);
        let benchmark = Reference::Benchmark { signal_variance, noise_variance: 0.8 };
        let other = unaligned(&mut Rng::new(p.seed), p.n(), 0.3);
        let other_matrix = matrix(&other);
        let cases = [
            (benchmark, shifted(&kernel, signal_variance, 0.8)),
            (Reference::Covariance(&other_matrix), other),
        ];
        for (reference, covariance) in cases {
            let found = PacBayes::new(&family, reference).unwrap();
            let literal = Literal::new(&kernel, step.get(), noise, &HORIZONS, covariance);
            assert_all_close(
                &found.variances(),
                &literal.variances(),
                literal.largest_variance(),
                p.n(),
            );
            for beta in [1e-3, 0.4, 30.0] {
                let exact = found.log_moments(beta).unwrap();
                let bounds = found.log_moment_bounds(beta).unwrap();
                for position in 0..HORIZONS.len() {
                    let a = literal.tilted(position);
                    let scale = 1.0 + beta * trace(&a);
                    assert_close(
                        exact[position],
                        literal.log_moment(position, beta),
                        scale,
                        p.n(),
                    );
                    let bound = beta * beta / 4.0 * trace(&product(&a, &a));
                    assert_close(bounds[position], bound, scale + bound, p.n());
                    assert!(exact[position] <= bounds[position] * (1.0 + ROUNDING));
                }
            }
        }
    });
}

/// Lem. E.12: the exact log-moment is what draws give, in standard errors, which the moment at
/// `2β` tells; and it keeps its digits for small `β`, where it is the trace bound.
#[test]
fn lem_e_12_moment_by_simulation() {
    let n = 8;
    let (kernel, spectrum, step) = prompt(31, n);
    let signal_variance = comparable_signal(&kernel);
    let reference = Reference::Benchmark { signal_variance, noise_variance: 0.5 };
    let covariance = shifted(&kernel, signal_variance, 0.5);
    let literal = Literal::new(&kernel, step.get(), 0.5, &HORIZONS, covariance);
    let family = EvidenceFamily::new(&spectrum, step, 0.5, &HORIZONS).unwrap();
    let found = PacBayes::new(&family, reference).unwrap();
    let mut rng = Rng::new(32);
    let risks = literal.risks();
    let draws: Rows = (0..4 * DRAWS)
        .map(|_| {
            let evidence = literal.evidence(&gaussian(&mut rng, &literal.root));
            risks.iter().zip(evidence).map(|(risk, value)| n as f64 * (risk - value)).collect()
        })
        .collect();
    for beta in [0.1, 0.5, 1.5] {
        let exact = found.log_moments(beta).unwrap();
        for position in 0..HORIZONS.len() {
            let sum: f64 = draws.iter().map(|x| (beta * x[position]).exp()).sum();
            let mean = sum / draws.len() as f64;
            let second = literal.log_moment(position, 2.0 * beta).exp();
            let variance = second - (2.0 * literal.log_moment(position, beta)).exp();
            let error = (variance / draws.len() as f64).sqrt();
            assert!((mean - exact[position].exp()).abs() < 4.0 * error);
        }
    }
    // β tr A − log det(I + βA) = β² tr A²/2 − β³ tr A³/3 + …
    let beta = 1e-9_f64;
    let exact = found.log_moments(beta).unwrap();
    for (position, moment) in exact.into_iter().enumerate() {
        let a = literal.tilted(position);
        let square = product(&a, &a);
        let cube = trace(&product(&square, &a));
        let expected = beta * beta / 4.0 * trace(&square) - beta.powi(3) / 6.0 * cube;
        assert_close(moment, expected, expected, n);
    }
}

//! How far a fit is from the best one on the prompt's own examples, and when it helps there:
//! App. E.3.

use super::literal::{
    assert_within, check_prompt_side, check_unique_minimum, identity, literal_risk_and_gap,
    noise_level, plus, sandwich, steps_on_prompt, steps_to_query,
};
use crate::support::{
    Prompt, Rows, assert_all_close, assert_close, dot, eliminate, for_prompts, mean_and_error,
    multiply, norm, normals, product, shifted, subtract, trace, transpose,
};
use fewstep_core::risk::{
    Benchmark, prompt_benefit, prompt_risk, query_benefit, query_posterior_variance,
};
use fewstep_core::{BayesFilter, Filter, GradientDescent, Rng, Spectrum, StepSize};

/// Prop. E.3: the best fit on the prompt shrinks every mode by `λ/(λ + λ★)`; its error is
/// uncorrelated with the residuals, so no other estimator does better.
#[test]
fn prop_e_3_bayes_optimal_fit_on_the_prompt() {
    for_prompts(|p| {
        let (n, kernel) = (p.n(), p.kernel());
        let (signal, noise) = noise_level(p, 0.5);
        let spectrum = Spectrum::of(&kernel).unwrap();
        let covariance = shifted(&kernel, signal, noise);
        let weights = eliminate(&covariance, &p.residuals).0;
        let expected: Vec<f64> =
            multiply(&kernel, &weights).iter().map(|x| signal * x).collect();
        let ratio = noise / signal;
        for filter in [
            &Benchmark::new(signal, noise).unwrap() as &dyn Filter,
            &BayesFilter::new(ratio).unwrap(),
        ] {
            let found = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            assert_all_close(&found, &expected, norm(&p.residuals), n);

            // Cov(f★ − G r, r) = τ²K − G (τ²K + σ²I), column by column.
            for j in 0..n {
                let fit = filter.prompt_fit(&spectrum, &covariance[j]).unwrap();
                let target: Vec<f64> = kernel[j].iter().map(|k| signal * k).collect();
                assert_all_close(&fit, &target, norm(&covariance[j]), n);
            }
        }
    });
}

/// Thm. E.4: risk and Bayes gap of a fit on the prompt are sums over modes, minimised by `g★`
/// alone.
#[test]
fn thm_e_4_risk_and_gap_on_the_prompt() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        for (horizon, ratio) in [(0, 0.5), (1, 0.1), (6, 0.5), (40, 20.0)] {
            let step = StepSize::fraction(0.7, &spectrum).unwrap();
            let fit = steps_on_prompt(&p.kernel(), step.get(), horizon);
            check_prompt_side(p, &GradientDescent { step, horizon }, &fit, ratio);
        }
        check_unique_minimum(p);
    });
}

/// Thm. E.4: the risk of literal steps on simulated residuals.
#[test]
fn thm_e_4_simulated_residuals() {
    let draws = 20_000;
    let (signal, noise): (f64, f64) = (0.8, 0.5);
    for (seed, n, width, horizon) in [(1, 1, 2, 3), (2, 6, 4, 5), (3, 4, 9, 20)] {
        let mut rng = Rng::new(seed);
        let features: Rows = (0..n).map(|_| normals(&mut rng, width)).collect();
        let prompt = Prompt { seed, features, query: Vec::new(), residuals: Vec::new() };
        let kernel = prompt.kernel();
        let rho = 0.9 / trace(&kernel);
        let losses: Vec<f64> = (0..draws)
            .map(|_| {
                let theta: Vec<f64> =
                    normals(&mut rng, width).iter().map(|z| signal.sqrt() * z).collect();
                let target = multiply(&prompt.features, &theta);
                let residuals: Vec<f64> =
                    target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
                let mut fit = vec![0.0; n];
                for _ in 0..horizon {
                    let moved = multiply(&kernel, &subtract(&residuals, &fit));
                    fit = fit.iter().zip(&moved).map(|(f, m)| f + rho * m).collect();
                }
                let error = subtract(&fit, &target);
                dot(&error, &error)
            })
            .collect();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::new(rho, &spectrum).unwrap();
        let benchmark = Benchmark::new(signal, noise).unwrap();
        let found = prompt_risk(&spectrum, &GradientDescent { step, horizon }, &benchmark);

        // Var ‖e‖² = 2 tr C² for a normal error of covariance C.
        let fit = steps_on_prompt(&kernel, rho, horizon);
        let missed = plus(&fit, -1.0, &identity(n));
        let covariance = plus(
            &shifted(&sandwich(&missed, &kernel), signal, 0.0),
            noise,
            &product(&fit, &transpose(&fit)),
        );
        let error = (2.0 * trace(&product(&covariance, &covariance)) / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&losses).0, found, error);
    }
}

/// Cor. E.5: the two gaps on the prompt, and steps help exactly if theirs is smaller.
#[test]
fn cor_e_5_when_steps_help_on_the_prompt() {
    let (mut helped, mut harmed) = (0, 0);
    for_prompts(|p| {
        let kernel = p.kernel();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        for (ratio, horizon) in [(0.1, 0), (0.1, 3), (1.0, 30), (100.0, 1), (100.0, 300)] {
            let (signal, noise) = noise_level(p, ratio);
            let fit = steps_on_prompt(&kernel, step.get(), horizon);
            let adapted = literal_risk_and_gap(p, &fit, signal, noise).1;
            let nothing = shifted(&kernel, 0.0, 0.0);
            let icl = literal_risk_and_gap(p, &nothing, signal, noise).1;

            let benchmark = Benchmark::new(signal, noise).unwrap();
            let filter = GradientDescent { step, horizon };
            let found = prompt_benefit(&spectrum, &filter, &benchmark);
            let scale = signal * trace(&kernel) + p.n() as f64 * noise;
            assert_close(found.gap_icl, icl, scale, p.n());
            assert_close(found.gap_adapted, adapted, scale, p.n());
            assert_close(found.improvement, icl - adapted, scale, p.n());
            if (icl - adapted).abs() > 1e3 * p.n() as f64 * f64::EPSILON * scale {
                assert_eq!(found.helps(), adapted < icl);
                *if found.helps() { &mut helped } else { &mut harmed } += 1;
            }
            assert!(horizon > 0 || !found.helps(), "no step is no strict improvement");
        }
    });
    assert!(helped > 10 && harmed > 10, "helped {helped}, harmed {harmed}");
}

/// Cor. E.5: an improvement far below the last digit of the gaps is still seen, with its size.
#[test]
fn cor_e_5_improvement_keeps_its_digits() {
    let spectrum = Spectrum::of(&[vec![2.0]]).unwrap();
    let benchmark = Benchmark::new(3.0, 1.0).unwrap();
    let step = StepSize::new(1e-20, &spectrum).unwrap();
    let filter = GradientDescent { step, horizon: 1 };
    // g = 2e-20, q = 1e-20: the first order of w(g★² − (g − g★)²) is 2 g c, and 2 q τ² k².
    let prompt = prompt_benefit(&spectrum, &filter, &benchmark);
    assert!(prompt.helps() && (prompt.gap_icl - prompt.gap_adapted).abs() == 0.0);
    assert_close(prompt.improvement, 2.0 * 2e-20 * 6.0, 24e-20, 1);
    let query = query_benefit(&spectrum, &[5.0], &filter, &benchmark).unwrap();
    assert!(query.helps() && (query.gap_icl - query.gap_adapted).abs() == 0.0);
    assert_close(query.improvement, 2.0 * 1e-20 * 3.0 * 25.0, 150e-20, 1);
}

/// Without signal the best filter is none, every gap is noise that was fitted, and all is finite.
#[test]
fn no_signal_asks_for_no_update() {
    for_prompts(|p| {
        let (n, kernel, coupling) = (p.n(), p.kernel(), p.coupling());
        let noise = noise_level(p, 1.0).1;
        let benchmark = Benchmark::new(0.0, noise).unwrap();
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon: 5 };
        let gains = multiply(&steps_to_query(&kernel, step.get(), 5), &coupling);
        let expected = noise * dot(&gains, &gains);
        let scale = noise * dot(&coupling, &coupling) * (5.0 * step.get()).powi(2);
        let found = query_benefit(&spectrum, &coupling, &filter, &benchmark).unwrap();
        assert!(!found.helps() && found.gap_icl == 0.0);
        assert_close(found.gap_adapted, expected, scale, n);
        assert_close(found.improvement, -expected, scale, n);

        let fit = steps_on_prompt(&kernel, step.get(), 5);
        let expected = noise * trace(&product(&fit, &transpose(&fit)));
        let found = prompt_benefit(&spectrum, &filter, &benchmark);
        assert!(!found.helps() && found.gap_icl == 0.0);
        assert_close(found.gap_adapted, expected, n as f64 * noise, n);
        assert_close(
            prompt_risk(&spectrum, &filter, &benchmark),
            expected,
            n as f64 * noise,
            n,
        );
        let left = query_posterior_variance(&spectrum, &coupling, 1e20, &benchmark).unwrap();
        assert!(left == 0.0);
    });
    assert!(Benchmark::new(0.0, 2.0).unwrap().noise_to_signal() == f64::INFINITY);
}

//! How far steps are from the best correction at the query, and when they help there: Sec. 5.

use super::literal::{
    assert_within, basis, bayes_to_query, compose, noise_level, plus, projected, random_basis,
    steps_to_query,
};
use crate::support::{
    Prompt, Rows, assert_close, dot, eliminate, for_prompts, mean_and_error, multiply, norm,
    normals, product, shifted, subtract, trace, transpose,
};
use fewstep_core::risk::{
    Benchmark, mode_weights, query_benefit, query_gap, query_posterior_variance, query_risk,
};
use fewstep_core::{BayesFilter, Filter, GradientDescent, NoUpdate, Rng, Spectrum, StepSize};

/// Thm. 5.2: the posterior mean is `k_xᵀ(K + λ★I)⁻¹r`, and the Bayes gap of gradient steps is
/// the weighted squared distance between the two filters.
#[test]
fn thm_5_2_bayes_gap_at_the_query() {
    for_prompts(|p| {
        let (n, kernel, coupling) = (p.n(), p.kernel(), p.coupling());
        let (signal, noise) = noise_level(p, 0.5);
        let (benchmark, ratio) = (Benchmark::new(signal, noise).unwrap(), noise / signal);
        let spectrum = Spectrum::of(&kernel).unwrap();
        let covariance = shifted(&kernel, signal, noise);
        let best = bayes_to_query(&kernel, ratio);

        // The posterior mean, by conditioning the joint covariance.
        let cross: Vec<f64> = coupling.iter().map(|k| signal * k).collect();
        let mean = dot(&eliminate(&covariance, &cross).0, &p.residuals);
        let scale = norm(&coupling) * norm(&p.residuals) / ratio;
        for filter in [&benchmark as &dyn Filter, &BayesFilter::new(ratio).unwrap()] {
            let found = filter.query_correction(&spectrum, &coupling, &p.residuals).unwrap();
            assert_close(found, mean, scale, n);
            let gap = query_gap(&spectrum, &coupling, filter, &benchmark).unwrap();
            let tiny = 1e3 * n as f64 * f64::EPSILON;
            assert!(gap <= tiny * tiny * dot(&coupling, &coupling) * noise / ratio.powi(2));
        }

        for (horizon, fraction) in [(0, 0.3), (1, 0.9), (7, 0.3), (50, 0.3)] {
            let step = StepSize::fraction(fraction, &spectrum).unwrap();
            let filter = GradientDescent { step, horizon };
            let gains = steps_to_query(&kernel, step.get(), horizon);
            let apart = multiply(&plus(&gains, -1.0, &best), &coupling);
            let expected = dot(&apart, &multiply(&covariance, &apart));
            let largest_gain = (step.get() * f64::from(horizon)).max(1.0 / ratio);
            let scale = dot(&coupling, &coupling)
                * (signal * trace(&kernel) + noise)
                * largest_gain.powi(2);
            let found = query_gap(&spectrum, &coupling, &filter, &benchmark).unwrap();
            assert_close(found, expected, scale, n);

            // The same gap is the excess of the risk, both taken from the joint covariance.
            let prior = signal * dot(&p.query, &p.query);
            let risk_of = |gains: &Rows| {
                let weights = multiply(gains, &coupling);
                prior - 2.0 * dot(&cross, &weights)
                    + dot(&weights, &multiply(&covariance, &weights))
            };
            let (risk, least) = (risk_of(&gains), risk_of(&best));
            assert_close(found, risk - least, scale + prior, n);
            let variance = dot(&p.query, &p.query);
            let found = query_risk(&spectrum, &coupling, variance, &filter, &benchmark);
            assert_close(found.unwrap(), risk, scale + prior, n);
        }
    });
}

/// Thm. 5.2: the mode weights are `(τ²λ_i + σ²)(u_iᵀk_x)²`, for a kernel of known modes.
#[test]
fn thm_5_2_mode_weights() {
    let modes = random_basis(&mut Rng::new(51), 4, 4);
    let eigenvalues = [5.0, 2.0, 1.0, 0.0];
    let kernel = compose(&modes, &eigenvalues);
    let coupling = multiply(&kernel, &[0.3, -1.0, 0.8, 0.1]);
    let spectrum = Spectrum::of(&kernel).unwrap();
    let weights =
        mode_weights(&spectrum, &coupling, &Benchmark::new(0.7, 0.4).unwrap()).unwrap();
    for ((weight, u), eigenvalue) in weights.iter().zip(&modes).zip(eigenvalues) {
        let expected = (0.7 * eigenvalue + 0.4) * dot(u, &coupling).powi(2);
        assert_close(*weight, expected, 3.9 * dot(&coupling, &coupling), 4);
    }
}

/// Thm. 5.2: literal steps in parameter space, on simulated tasks, are as far from the posterior
/// mean and from the truth as the identity says.
#[test]
fn thm_5_2_simulated_tasks() {
    let draws = 20_000;
    let (signal, noise): (f64, f64) = (1.3, 0.9);
    for (seed, n, width, horizon) in [(1, 1, 3, 2), (2, 5, 3, 4), (3, 6, 10, 9)] {
        let mut rng = Rng::new(seed);
        let features: Rows = (0..n).map(|_| normals(&mut rng, width)).collect();
        let query = normals(&mut rng, width);
        let prompt = Prompt { seed, features, query, residuals: Vec::new() };
        let (kernel, coupling) = (prompt.kernel(), prompt.coupling());
        let rho = 0.8 / trace(&kernel);
        let weights = eliminate(&shifted(&kernel, signal, noise), &coupling).0;
        let (mut gaps, mut errors, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..draws {
            let truth: Vec<f64> =
                normals(&mut rng, width).iter().map(|z| signal.sqrt() * z).collect();
            let residuals: Vec<f64> = multiply(&prompt.features, &truth)
                .iter()
                .map(|f| f + noise.sqrt() * rng.normal())
                .collect();
            let mut theta = vec![0.0; width];
            for _ in 0..horizon {
                let left = subtract(&residuals, &multiply(&prompt.features, &theta));
                for (row, error) in prompt.features.iter().zip(&left) {
                    for (t, x) in theta.iter_mut().zip(row) {
                        *t += rho * error * x;
                    }
                }
            }
            let (correction, target) = (dot(&prompt.query, &theta), dot(&prompt.query, &truth));
            let bayes = signal * dot(&weights, &residuals);
            gaps.push((correction - bayes).powi(2));
            errors.push((correction - target).powi(2));
            least.push((bayes - target).powi(2));
        }
        let spectrum = Spectrum::of(&kernel).unwrap();
        let benchmark = Benchmark::new(signal, noise).unwrap();
        let step = StepSize::new(rho, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon };
        let variance = dot(&prompt.query, &prompt.query);
        let gap = query_gap(&spectrum, &coupling, &filter, &benchmark).unwrap();
        let risk = query_risk(&spectrum, &coupling, variance, &filter, &benchmark).unwrap();
        let floor =
            query_posterior_variance(&spectrum, &coupling, variance, &benchmark).unwrap();
        // Squares of centred normal numbers: the standard deviation is √2 times the mean.
        let root = (2.0 / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&gaps).0, gap, gap * root);
        assert_within(mean_and_error(&errors).0, risk, risk * root);
        assert_within(mean_and_error(&least).0, floor, floor * root);
    }
}

/// Sec. 5: steps help at the query exactly if the weighted mismatch falls below that of no
/// update.
#[test]
fn sec_5_when_steps_help_at_the_query() {
    let (mut helped, mut harmed) = (0, 0);
    for_prompts(|p| {
        let (kernel, coupling) = (p.kernel(), p.coupling());
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        for (ratio, horizon) in [(0.1, 0), (0.1, 3), (1.0, 30), (100.0, 1), (100.0, 300)] {
            let (signal, noise) = noise_level(p, ratio);
            let (covariance, best) =
                (shifted(&kernel, signal, noise), bayes_to_query(&kernel, noise / signal));
            let gap_of = |gains: &Rows| {
                let apart = multiply(&plus(gains, -1.0, &best), &coupling);
                dot(&apart, &multiply(&covariance, &apart))
            };
            let adapted = gap_of(&steps_to_query(&kernel, step.get(), horizon));
            let icl = gap_of(&shifted(&kernel, 0.0, 0.0));

            let benchmark = Benchmark::new(signal, noise).unwrap();
            let filter = GradientDescent { step, horizon };
            let found = query_benefit(&spectrum, &coupling, &filter, &benchmark).unwrap();
            let gain = (step.get() * f64::from(horizon)).max(signal / noise);
            let scale =
                dot(&coupling, &coupling) * (signal * trace(&kernel) + noise) * gain.powi(2);
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

/// Design 5.5: the posterior variance at the query is that of the weights' posterior, seen
/// along the query's features.
#[test]
fn design_5_5_posterior_variance_at_the_query() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let query_variance = dot(&p.query, &p.query);
        for ratio in [0.05, 1.0, 50.0] {
            let (signal, noise) = noise_level(p, ratio);
            // Weight space: Cov(θ | r) = (ΦᵀΦ/σ² + I/τ²)⁻¹.
            let moments = product(&transpose(&p.features), &p.features);
            let precision = shifted(&moments, 1.0 / noise, 1.0 / signal);
            let expected = dot(&p.query, &eliminate(&precision, &p.query).0);
            let benchmark = Benchmark::new(signal, noise).unwrap();
            let found =
                query_posterior_variance(&spectrum, &p.coupling(), query_variance, &benchmark);
            assert_close(found.unwrap(), expected, signal * query_variance, p.n());
        }
        // Hardly any noise and a query that is one of the examples: all but known.
        let (signal, noise) = noise_level(p, 1e-30);
        let benchmark = Benchmark::new(signal, noise).unwrap();
        let (kernel, first) = (p.kernel(), 0);
        let found = query_posterior_variance(
            &spectrum,
            &kernel[first],
            kernel[first][first],
            &benchmark,
        )
        .unwrap();
        assert!(found >= 0.0);
        assert_close(found, 0.0, signal * kernel[first][first], p.n());
    });
}

/// The full fit of every mode whose eigenvalue is at least this.
struct Everything(f64);

impl Filter for Everything {
    fn response(&self, eigenvalue: f64) -> f64 {
        f64::from(u8::from(eigenvalue >= self.0))
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.response(eigenvalue) / eigenvalue.max(self.0)
    }
}

/// Design 5.5: with hardly any noise and dependent examples, rounding in the kernel's null
/// space is not taken for knowledge: the examples tell the query's part in their span, no more.
#[test]
fn design_5_5_null_space_tells_nothing() {
    let (n, width, signal) = (6, 10, 0.7);
    for seed in 0..5 {
        let mut rng = Rng::new(seed);
        let independent: Rows = (0..3).map(|_| normals(&mut rng, width)).collect();
        let mixing: Rows = (0..n).map(|_| normals(&mut rng, 3)).collect();
        let features = product(&mixing, &independent);
        let query = normals(&mut rng, width);
        let prompt = Prompt { seed, features, query, residuals: Vec::new() };
        let known = projected(&basis(&independent), &prompt.query);
        let (known, whole) = (dot(&known, &known), dot(&prompt.query, &prompt.query));

        let spectrum = Spectrum::of(&prompt.kernel()).unwrap();
        let (coupling, benchmark) = (prompt.coupling(), Benchmark::new(signal, 1e-30).unwrap());
        let left = query_posterior_variance(&spectrum, &coupling, whole, &benchmark).unwrap();
        assert_close(left, signal * (whole - known), signal * whole, n);
        let gap = query_gap(&spectrum, &coupling, &NoUpdate, &benchmark).unwrap();
        assert_close(gap, signal * known, signal * whole, n);
        let everything = Everything(spectrum.eigenvalues()[spectrum.rank() - 1]);
        let benefit = query_benefit(&spectrum, &coupling, &everything, &benchmark).unwrap();
        assert_close(benefit.improvement, signal * known, signal * whole, n);
    }
}

//! When adapting helps: Secs. 2, 5 and 6, App. E.3, E.4, F.2, and their recall in App. G.

use crate::support::{
    Prompt, assert_all_close, assert_close, dot, eliminate, for_prompts, inverse,
    mean_and_error, multiply, norm, normals, product, shifted, subtract, transpose,
};
use fewstep_core::risk::{
    Benchmark, decompose, floor, mode_weights, optimal_shrinkages, projector_gap,
    prompt_benefit, prompt_gap, prompt_risk, query_benefit, query_gap,
    query_posterior_variance, query_risk, separation_bound, shrinkage_excess, shrinkage_risk,
};
use fewstep_core::{
    BayesFilter, Error, Filter, GradientDescent, GradientFlow, JamesStein, Matrix, Mixture,
    NoUpdate, Projection, Rng, Spectrum, StepSize,
};

type Rows = Vec<Vec<f64>>;

// ---------------------------------------------------------------- literal definitions

fn identity(n: usize) -> Rows {
    shifted(&vec![vec![0.0; n]; n], 0.0, 1.0)
}

fn trace(a: &[Vec<f64>]) -> f64 {
    a.iter().enumerate().map(|(i, row)| row[i]).sum()
}

/// `a + weight · b`.
fn plus(a: &[Vec<f64>], weight: f64, b: &[Vec<f64>]) -> Rows {
    let row =
        |(x, y): (&Vec<f64>, &Vec<f64>)| x.iter().zip(y).map(|(x, y)| x + weight * y).collect();
    a.iter().zip(b).map(row).collect()
}

/// `a b aᵀ`.
fn sandwich(a: &[Vec<f64>], b: &[Vec<f64>]) -> Rows {
    product(&product(a, b), &transpose(a))
}

/// `G_T`, by `T` times `G ← G + ρK(I − G)`: the fit that the steps make of each unit residual.
fn steps_on_prompt(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut fit = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        fit = plus(&fit, rho, &product(kernel, &plus(&unit, -1.0, &fit)));
    }
    fit
}

/// `q_T(K)`, by `T` times `Q ← Q + ρ(I − KQ)`.
fn steps_to_query(kernel: &[Vec<f64>], rho: f64, horizon: u32) -> Rows {
    let unit = identity(kernel.len());
    let mut gains = shifted(kernel, 0.0, 0.0);
    for _ in 0..horizon {
        gains = plus(&gains, rho, &plus(&unit, -1.0, &product(kernel, &gains)));
    }
    gains
}

/// `(K + λ★I)⁻¹`, by elimination.
fn bayes_to_query(kernel: &[Vec<f64>], noise_to_signal: f64) -> Rows {
    inverse(&shifted(kernel, 1.0, noise_to_signal))
}

/// `e^(−tK)`: Taylor's series of a sixteenth, squared four times.
fn exponential(kernel: &[Vec<f64>], time: f64) -> Rows {
    let small = shifted(kernel, -time / 16.0, 0.0);
    let mut term = identity(kernel.len());
    let mut sum = term.clone();
    for k in 1..40 {
        term = shifted(&product(&term, &small), 1.0 / f64::from(k), 0.0);
        sum = plus(&sum, 1.0, &term);
    }
    for _ in 0..4 {
        sum = product(&sum, &sum);
    }
    sum
}

/// An orthonormal basis of the span of some vectors (Gram and Schmidt, twice), as rows.
fn basis(vectors: &[Vec<f64>]) -> Rows {
    let mut found: Rows = Vec::new();
    for vector in vectors {
        let mut rest = vector.clone();
        for _ in 0..2 {
            for known in &found {
                let amount = dot(known, &rest);
                rest = rest.iter().zip(known).map(|(x, u)| x - amount * u).collect();
            }
        }
        if norm(&rest) > 1e-10 * norm(vector) {
            let length = norm(&rest);
            found.push(rest.iter().map(|x| x / length).collect());
        }
    }
    found
}

/// `rank` random orthonormal vectors of length `n`.
fn random_basis(rng: &mut Rng, rank: usize, n: usize) -> Rows {
    basis(&(0..rank).map(|_| normals(rng, n)).collect::<Rows>())
}

/// `Σ_i value_i u_i u_iᵀ`.
fn compose(modes: &[Vec<f64>], values: &[f64]) -> Rows {
    let scaled: Rows =
        modes.iter().zip(values).map(|(u, v)| u.iter().map(|x| x * v).collect()).collect();
    product(&transpose(&scaled), modes)
}

/// The projection onto the span of orthonormal vectors.
fn projected(modes: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    modes.iter().fold(vec![0.0; vector.len()], |sum, u| {
        let amount = dot(u, vector);
        sum.iter().zip(u).map(|(s, x)| s + amount * x).collect()
    })
}

/// Signal variance 0.7, and noise as strong as `ratio` of a typical eigenvalue's signal.
fn noise_level(prompt: &Prompt, ratio: f64) -> (f64, f64) {
    let typical = trace(&prompt.kernel()) / prompt.n() as f64;
    (0.7, 0.7 * ratio * if typical > 0.0 { typical } else { 1.0 })
}

/// Gauss and Legendre's rule with 20 points on every one of `panels` equal parts.
fn nodes(from: f64, to: f64, panels: u32) -> Vec<(f64, f64)> {
    let count = 20;
    let half = (to - from) / f64::from(2 * panels);
    let mut nodes = Vec::new();
    for i in 0..count {
        let mut x = (std::f64::consts::PI * (f64::from(i) + 0.75) / 20.5).cos();
        let mut slope = 0.0;
        for _ in 0..50 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=count {
                let k = f64::from(k);
                (before, value) =
                    (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = f64::from(count) * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        let weight = half * 2.0 / ((1.0 - x * x) * slope * slope);
        nodes.extend((0..panels).map(|p| (from + half * (f64::from(2 * p + 1) + x), weight)));
    }
    nodes
}

fn integral(nodes: &[(f64, f64)], function: impl Fn(f64) -> f64) -> f64 {
    nodes.iter().map(|&(x, weight)| weight * function(x)).sum()
}

/// At most four theoretical standard errors apart.
#[track_caller]
fn assert_within(found: f64, expected: f64, standard_error: f64) {
    let distance = (found - expected).abs() / standard_error;
    assert!(distance < 4.0, "{found} against {expected}: {distance} standard errors");
}

// ---------------------------------------------------------------- Sec. 2

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

// ---------------------------------------------------------------- Sec. 5

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
        let everything = Projection::of(&spectrum);
        let benefit = query_benefit(&spectrum, &coupling, &everything, &benchmark).unwrap();
        assert_close(benefit.improvement, signal * known, signal * whole, n);
    }
}

// ---------------------------------------------------------------- App. E.3

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

/// `E‖Gr − f★‖²` and `E‖(G − G★)r‖²` from the covariances, for a fit given as a matrix.
fn literal_risk_and_gap(p: &Prompt, fit: &Rows, signal: f64, noise: f64) -> (f64, f64) {
    let kernel = p.kernel();
    let missed = plus(fit, -1.0, &identity(p.n()));
    let risk = signal * trace(&sandwich(&missed, &kernel))
        + noise * trace(&product(fit, &transpose(fit)));
    let best = product(&kernel, &bayes_to_query(&kernel, noise / signal));
    let apart = plus(fit, -1.0, &best);
    (risk, trace(&sandwich(&apart, &shifted(&kernel, signal, noise))))
}

/// Risk, gap and excess of one filter against the literal fit matrix.
fn check_prompt_side(p: &Prompt, filter: &dyn Filter, fit: &Rows, ratio: f64) {
    let (signal, noise) = noise_level(p, ratio);
    let (risk, gap) = literal_risk_and_gap(p, fit, signal, noise);
    let benchmark = Benchmark::new(signal, noise).unwrap();
    let spectrum = Spectrum::of(&p.kernel()).unwrap();
    let n = p.n();
    let scale = signal * trace(&p.kernel()) + n as f64 * noise;
    assert_close(prompt_risk(&spectrum, filter, &benchmark), risk, scale, n);
    assert_close(prompt_gap(&spectrum, filter, &benchmark), gap, scale, n);
    let best = product(&p.kernel(), &bayes_to_query(&p.kernel(), noise / signal));
    let least = literal_risk_and_gap(p, &best, signal, noise).0;
    assert_close(prompt_gap(&spectrum, filter, &benchmark), risk - least, scale, n);
    assert_close(prompt_risk(&spectrum, &benchmark, &benchmark), least, scale, n);
}

/// The Bayes filter, moved by a constant.
struct Nudged(Benchmark, f64);

impl Filter for Nudged {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.0.response(eigenvalue) + self.1
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.response(eigenvalue) / eigenvalue
    }
}

/// Any shrinkage but `g★` has a larger risk, by the weight times its distance squared.
fn check_unique_minimum(p: &Prompt) {
    let (signal, noise) = noise_level(p, 0.5);
    let benchmark = Benchmark::new(signal, noise).unwrap();
    let spectrum = Spectrum::of(&p.kernel()).unwrap();
    let least = prompt_risk(&spectrum, &benchmark, &benchmark);
    for nudge in [-0.1_f64, -1e-4, 1e-4, 0.1] {
        let found = prompt_risk(&spectrum, &Nudged(benchmark, nudge), &benchmark);
        assert!(found > least);
        let weights = signal * trace(&p.kernel()) + p.n() as f64 * noise;
        assert_close(found - least, weights * nudge.powi(2), weights, p.n());
    }
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

// ---------------------------------------------------------------- Sec. 6, App. E.4

/// Prop. 6.1: on a projector the best fit is `Π_S r/(1 + λ★)`, and no number of steps is best
/// for two signal-to-noise ratios.
#[test]
fn prop_6_1_no_horizon_suits_two_priors() {
    let (n, rank, noise) = (6, 4, 0.3);
    let mut rng = Rng::new(61);
    let modes = random_basis(&mut rng, rank, n);
    let kernel = compose(&modes, &vec![1.0; rank]);
    let spectrum = Spectrum::of(&kernel).unwrap();
    // One step of one half is exactly best for λ★ = 1.
    let step = StepSize::new(0.5, &spectrum).unwrap();
    let worlds =
        [1.0, 0.05].map(|ratio| (ratio, Benchmark::new(noise / ratio, noise).unwrap()));
    let residuals = normals(&mut rng, n);
    for (ratio, benchmark) in &worlds {
        let expected: Vec<f64> =
            projected(&modes, &residuals).iter().map(|x| x / (1.0 + ratio)).collect();
        let found = benchmark.prompt_fit(&spectrum, &residuals).unwrap();
        assert_all_close(&found, &expected, norm(&residuals), n);
    }
    let bound = separation_bound(rank, &worlds[0].1, &worlds[1].1);
    assert!(bound > 0.0);
    let mut best = [(f64::INFINITY, 0); 2];
    for horizon in 0..80 {
        let fit = steps_on_prompt(&kernel, step.get(), horizon);
        let mut largest = 0.0_f64;
        for ((ratio, benchmark), best) in worlds.iter().zip(&mut best) {
            let shrunk = shifted(&kernel, 1.0 / (1.0 + ratio), 0.0);
            let apart = plus(&fit, -1.0, &shrunk);
            let gap = trace(&sandwich(&apart, &shifted(&kernel, noise / ratio, noise)));
            let filter = GradientDescent { step, horizon };
            let scale = (1.0 + 1.0 / ratio) * noise * rank as f64;
            assert_close(prompt_gap(&spectrum, &filter, benchmark), gap, scale, n);
            largest = largest.max(gap);
            if gap < best.0 {
                *best = (gap, horizon);
            }
        }
        assert!(largest >= bound, "{horizon} steps: {largest} under {bound}");
    }
    assert_eq!(best[0].1, 1);
    assert!(best[1].1 > 1, "the stronger signal asks for more steps");
}

/// The fit `a K r` on a projector.
struct Share(f64);

impl Filter for Share {
    fn response(&self, eigenvalue: f64) -> f64 {
        if eigenvalue > 0.5 { self.0 } else { 0.0 }
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.response(eigenvalue)
    }
}

/// Prop. E.6: on a projector of rank `m` the Bayes fit is `Kr/(1 + λ)`, the gap of `aKr` is
/// `m(τ² + σ²)(a − s)²`, and the larger of two worlds' gaps is bounded below for every `a`.
#[test]
fn prop_e_6_prior_shift_separation() {
    let mut rng = Rng::new(66);
    for (n, rank) in [(1, 1), (4, 1), (6, 3), (5, 5), (3, 0)] {
        let modes = random_basis(&mut rng, rank, n);
        let kernel =
            if rank == 0 { vec![vec![0.0; n]; n] } else { compose(&modes, &vec![1.0; rank]) };
        let spectrum = Spectrum::of(&kernel).unwrap();
        let noise = 0.7;
        for ratios in [[0.1, 10.0], [1.0, 1.1], [1e-3, 0.5]] {
            let worlds = ratios.map(|ratio| Benchmark::new(noise / ratio, noise).unwrap());
            let shares = ratios.map(|ratio| 1.0 / (1.0 + ratio));
            let weights = ratios.map(|ratio| noise / ratio + noise);
            let residuals = normals(&mut rng, n);
            for (ratio, world) in ratios.iter().zip(&worlds) {
                let expected: Vec<f64> =
                    multiply(&kernel, &residuals).iter().map(|x| x / (1.0 + ratio)).collect();
                let found = world.prompt_fit(&spectrum, &residuals).unwrap();
                assert_all_close(&found, &expected, norm(&residuals), n);
            }
            let scale = 4.0 * n as f64 * (weights[0] + weights[1]);
            let literal = rank as f64
                * weights[0].min(weights[1])
                * ((shares[0] - shares[1]) / 2.0).powi(2);
            let bound = separation_bound(rank, &worlds[0], &worlds[1]);
            assert_close(bound, literal, scale, 1);
            assert_eq!(bound > 0.0, rank > 0);

            let grid = (-20..=40).map(|i| f64::from(i) / 20.0);
            for share in grid.chain([shares[0], shares[1], f64::midpoint(shares[0], shares[1])])
            {
                let gaps: Vec<f64> = ratios
                    .iter()
                    .zip(&worlds)
                    .map(|(&ratio, world)| {
                        let best = product(&kernel, &bayes_to_query(&kernel, ratio));
                        let apart = plus(&shifted(&kernel, share, 0.0), -1.0, &best);
                        let covariance = shifted(&kernel, noise / ratio, noise);
                        let gap = trace(&sandwich(&apart, &covariance));
                        assert_close(projector_gap(rank, share, world).unwrap(), gap, scale, n);
                        assert_close(
                            prompt_gap(&spectrum, &Share(share), world),
                            gap,
                            scale,
                            n,
                        );
                        gap
                    })
                    .collect();
                let rounding = 1e3 * n as f64 * f64::EPSILON * scale;
                assert!(gaps[0].max(gaps[1]) >= bound - rounding);
            }
        }
    }
}

/// Prop. E.6: the exact gap of a fixed share, on simulated residuals.
#[test]
fn prop_e_6_simulated_residuals() {
    let (n, rank, noise, share, draws) = (6, 3, 0.7_f64, 0.6, 20_000);
    let mut rng = Rng::new(67);
    let modes = random_basis(&mut rng, rank, n);
    for ratio in [0.1, 2.0] {
        let signal: f64 = noise / ratio;
        let losses: Vec<f64> = (0..draws)
            .map(|_| {
                let mut residuals = normals(&mut rng, n);
                for (x, z) in residuals.iter_mut().zip(projected(&modes, &normals(&mut rng, n)))
                {
                    *x = noise.sqrt() * *x + signal.sqrt() * z;
                }
                let fit = projected(&modes, &residuals);
                let apart: Vec<f64> =
                    fit.iter().map(|x| share * x - x / (1.0 + ratio)).collect();
                dot(&apart, &apart)
            })
            .collect();
        let gap = projector_gap(rank, share, &Benchmark::new(signal, noise).unwrap()).unwrap();
        // A multiple of χ² with `rank` degrees of freedom.
        let error = gap * (2.0 / rank as f64 / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&losses).0, gap, error);
    }
}

/// Prop. E.6: two ratios that both ask for nearly everything are told apart to full precision.
#[test]
fn prop_e_6_bound_keeps_its_digits() {
    let worlds = [1e-18, 3e-18].map(|noise| Benchmark::new(1.0, noise).unwrap());
    let expected = (2e-18_f64 / 2.0).powi(2);
    assert_close(separation_bound(1, &worlds[0], &worlds[1]), expected, expected, 1);
}

/// Prop. 6.2: literal steps of any size under `2/λ_max` converge to `Π_S r` at the rate of their
/// slowest mode; a shrinkage inside `S` has a smaller risk.
#[test]
fn prop_6_2_infinitely_many_steps_project_and_are_beaten() {
    let mut rng = Rng::new(62);
    let n = 7;
    for scale in [1e-12, 1.0, 1e12] {
        let modes = random_basis(&mut rng, 4, n);
        let eigenvalues = [5.0, 3.0, 1.0, 0.5].map(|x| x * scale);
        let kernel = compose(&modes, &eigenvalues);
        let residuals = normals(&mut rng, n);
        let limit = projected(&modes, &residuals);
        for fraction in [0.5, 1.0, 1.5, 1.9] {
            let rho = fraction / eigenvalues[0];
            let rate = eigenvalues.iter().fold(0.0_f64, |r, x| r.max((1.0 - rho * x).abs()));
            let mut fit = vec![0.0; n];
            let mut bound = norm(&limit);
            while bound > f64::EPSILON {
                let moved = multiply(&kernel, &subtract(&residuals, &fit));
                fit = fit.iter().zip(&moved).map(|(f, m)| f + rho * m).collect();
                bound *= rate;
                let rounding = 1e3 * n as f64 * f64::EPSILON * norm(&residuals);
                assert!(norm(&subtract(&fit, &limit)) <= bound + rounding);
            }
            assert_all_close(&fit, &limit, norm(&residuals), n);
        }
        let spectrum = Spectrum::of(&kernel).unwrap();
        let found = Projection::of(&spectrum).prompt_fit(&spectrum, &residuals).unwrap();
        assert_all_close(&found, &limit, norm(&residuals), n);
    }

    // dim S = 4: James and Stein's shrinkage of the limit, on the same simulated residuals.
    let (draws, noise) = (20_000, 0.5_f64);
    let modes = random_basis(&mut rng, 4, n);
    let spectrum = Spectrum::of(&compose(&modes, &[5.0, 3.0, 1.0, 0.5])).unwrap();
    for length in [0.0, 0.7, 1.5] {
        let target: Vec<f64> = modes[1].iter().map(|x| length * x).collect();
        let (mut full, mut shrunk) = (Vec::new(), Vec::new());
        for _ in 0..draws {
            let residuals: Vec<f64> =
                target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
            let everything =
                Projection::of(&spectrum).prompt_fit(&spectrum, &residuals).unwrap();
            let less = JamesStein::of(&spectrum, &residuals, noise)
                .unwrap()
                .prompt_fit(&spectrum, &residuals)
                .unwrap();
            assert_all_close(&less, &projected(&modes, &less), norm(&everything), n);
            full.push(norm(&subtract(&everything, &target)).powi(2));
            shrunk.push(norm(&subtract(&less, &target)).powi(2));
        }
        // The full fit's loss is σ² χ² with 4 degrees of freedom.
        let error = noise * (8.0 / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&full).0, 4.0 * noise, error);
        assert!(mean_and_error(&shrunk).0 < mean_and_error(&full).0 - 4.0 * error);
    }
}

/// `E ‖f̂_JS − f★‖²` by Stein's identity: `σ²{d − (d−2)² Σ_k Poisson(k; ‖f★‖²/2σ²)/(d−2+2k)}`.
fn james_stein_risk(dimensions: usize, length: f64, noise: f64) -> f64 {
    let (d, rate) = (dimensions as f64, length * length / (2.0 * noise));
    let (mut chance, mut mean) = ((-rate).exp(), 0.0);
    for k in 0..1000 {
        mean += chance / (d - 2.0 + 2.0 * f64::from(k));
        chance *= rate / f64::from(k + 1);
    }
    noise * (d - (d - 2.0).powi(2) * mean)
}

/// Mean and mean square of a loss that depends on `z ~ N(f★, σ²I)` through `‖z‖` and the angle
/// to `f★`: an integral over both.
fn polar_moments(
    dimensions: usize,
    length: f64,
    noise: f64,
    loss: impl Fn(f64, f64) -> f64,
) -> (f64, f64) {
    let spread = noise.sqrt();
    let power = i32::try_from(dimensions).unwrap();
    let angles = nodes(0.0, std::f64::consts::PI, 8);
    let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
    for (radius, weight) in nodes((length - 12.0 * spread).max(0.0), length + 12.0 * spread, 12)
    {
        for &(angle, part) in &angles {
            let (along, across) = (radius * angle.cos(), radius * angle.sin());
            let exponent = ((along - length).powi(2) + across.powi(2)) / (2.0 * noise);
            let density = weight
                * part
                * (radius / spread).powi(power - 1)
                * angle.sin().powi(power - 2)
                * (-exponent).exp();
            let value = loss(along, across);
            mass += density;
            mean += density * value;
            square += density * value * value;
        }
    }
    (mean / mass, square / mass)
}

/// Prop. E.7: James and Stein's fit has at most the full fit's risk wherever the target is in
/// `S`, and `2σ²` instead of `dσ²` at 0. Its risk is integrated over the library's estimator.
#[test]
fn prop_e_7_james_stein_dominates_the_projection() {
    let noise = 0.8;
    for dimensions in [3, 4, 6] {
        let spectrum = Spectrum::of(Matrix::identity(dimensions)).unwrap();
        let full = dimensions as f64 * noise;
        for multiple in [0.0, 0.5, 1.0, 2.0, 5.0, 16.0] {
            let length = multiple * noise.sqrt();
            let loss_of = |filter: &dyn Filter, residuals: &[f64]| {
                let mut error = filter.prompt_fit(&spectrum, residuals).unwrap();
                error[0] -= length;
                dot(&error, &error)
            };
            let (risk, _) = polar_moments(dimensions, length, noise, |along, across| {
                let mut residuals = vec![0.0; dimensions];
                (residuals[0], residuals[1]) = (along, across);
                let filter = JamesStein::of(&spectrum, &residuals, noise).unwrap();
                loss_of(&filter, &residuals)
            });
            assert_close(risk, james_stein_risk(dimensions, length, noise), full, dimensions);
            assert!(risk < full, "not dominated in {dimensions} dimensions at {length}");
            if multiple == 0.0 {
                assert_close(risk, 2.0 * noise, full, dimensions);
            }
        }
        // A residual of 0 has no direction to shrink.
        let nothing = vec![0.0; dimensions];
        let filter = JamesStein::of(&spectrum, &nothing, noise).unwrap();
        assert_eq!(filter.prompt_fit(&spectrum, &nothing).unwrap(), nothing);
    }
}

/// Prop. E.7: the same inside a proper subspace with unequal eigenvalues, on simulated
/// residuals, in theoretical standard errors.
#[test]
fn prop_e_7_simulated_residuals() {
    let (n, dimensions, noise, draws) = (9, 6, 0.8_f64, 20_000);
    let mut rng = Rng::new(71);
    let modes = random_basis(&mut rng, dimensions, n);
    let spectrum = Spectrum::of(&compose(&modes, &[9.0, 4.0, 4.0, 2.0, 1.0, 0.1])).unwrap();
    for length in [0.0, 1.0, 3.0, 10.0] {
        let direction = projected(&modes, &normals(&mut rng, n));
        let target: Vec<f64> =
            direction.iter().map(|x| length * x / norm(&direction)).collect();
        let losses: Vec<f64> = (0..draws)
            .map(|_| {
                let residuals: Vec<f64> =
                    target.iter().map(|f| f + noise.sqrt() * rng.normal()).collect();
                let filter = JamesStein::of(&spectrum, &residuals, noise).unwrap();
                let fit = filter.prompt_fit(&spectrum, &residuals).unwrap();
                norm(&subtract(&fit, &target)).powi(2)
            })
            .collect();
        let surplus = (dimensions as f64 - 2.0) * noise;
        let (_, square) = polar_moments(dimensions, length, noise, |along, across| {
            let kept = 1.0 - surplus / (along * along + across * across);
            (kept * along - length).powi(2) + (kept * across).powi(2)
        });
        let risk = james_stein_risk(dimensions, length, noise);
        let error = ((square - risk * risk) / f64::from(draws)).sqrt();
        assert_within(mean_and_error(&losses).0, risk, error);
        assert!(risk < dimensions as f64 * noise);
    }
}

/// An orthonormal basis of `S = range(K) = range(Φ)`.
fn range(p: &Prompt) -> Rows {
    basis(&transpose(&p.features))
}

/// Prop. 6.3: however many steps are taken, the error never falls below the target's part
/// outside the representable range.
#[test]
fn prop_6_3_no_horizon_beats_the_floor() {
    for_prompts(|p| {
        let (n, kernel) = (p.n(), p.kernel());
        let spectrum = Spectrum::of(&kernel).unwrap();
        let target = normals(&mut Rng::new(63), n);
        let outside = subtract(&target, &projected(&range(p), &target));
        let scale = dot(&target, &target);
        let found = floor(&spectrum, &target).unwrap();
        assert_close(found, dot(&outside, &outside), scale, n);

        let rho = StepSize::fraction(0.9, &spectrum).unwrap().get();
        let noisy: Vec<f64> = target.iter().zip(&p.residuals).map(|(f, e)| f + e).collect();
        for residuals in [&noisy, &target] {
            let mut fit = vec![0.0; n];
            let mut least = f64::INFINITY;
            for _ in 0..200 {
                let error = subtract(&fit, &target);
                least = least.min(dot(&error, &error));
                let moved = multiply(&kernel, &subtract(residuals, &fit));
                fit = fit.iter().zip(&moved).map(|(f, m)| f + rho * m).collect();
            }
            assert!(least >= found - 1e3 * n as f64 * f64::EPSILON * scale);
        }
    });
}

/// Prop. E.9: for every fit inside the range, Pythagoras; the floor is attained by `Π_S f★`;
/// every filter with `g(0) = 0` stays inside the range.
#[test]
fn prop_e_9_irreducible_error_outside_the_range() {
    for_prompts(|p| {
        let (n, kernel) = (p.n(), p.kernel());
        let spectrum = Spectrum::of(&kernel).unwrap();
        let mut rng = Rng::new(69);
        let target = normals(&mut rng, n);
        let modes = range(p);
        let inside = projected(&modes, &target);
        let squared = |a: &[f64], b: &[f64]| norm(&subtract(a, b)).powi(2);
        let bound = floor(&spectrum, &target).unwrap();

        let fit = projected(&modes, &normals(&mut rng, n));
        let scale = dot(&target, &target) + dot(&fit, &fit);
        assert_close(squared(&fit, &target), squared(&fit, &inside) + bound, scale, n);
        assert_close(squared(&inside, &target), bound, scale, n);

        let step = StepSize::fraction(0.5, &spectrum).unwrap();
        let typical = noise_level(p, 1.0).1 / 0.7;
        let filters: [&dyn Filter; 6] = [
            &NoUpdate,
            &GradientDescent { step, horizon: 30 },
            &GradientFlow::new(3.0 / typical).unwrap(),
            &BayesFilter::new(0.1 * typical).unwrap(),
            &Projection::of(&spectrum),
            &JamesStein::of(&spectrum, &p.residuals, 0.1).unwrap(),
        ];
        for filter in filters {
            let fit = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            assert_all_close(&fit, &projected(&modes, &fit), norm(&p.residuals), n);
            let error = squared(&fit, &target);
            assert!(error >= bound - 1e3 * n as f64 * f64::EPSILON * error);
        }
    });
}

// ---------------------------------------------------------------- App. F.2

/// Prop. F.7: with second moments alone, the risk of any shrinkage that commutes with the
/// kernel is a sum over modes, `c/(c + σ²)` is its one minimum, and the excess a squared distance.
#[test]
fn prop_f_7_second_moments_suffice() {
    let mut rng = Rng::new(27);
    let noise = 0.4;
    for n in [1, 2, 5, 9] {
        let modes = random_basis(&mut rng, n, n);
        // Two eigenvalues, repeated, and shrinkages that differ inside them.
        let eigenvalues: Vec<f64> = (0..n).map(|i| if i < n / 2 { 3.0 } else { 1.0 }).collect();
        let shrinkages: Vec<f64> = (0..n).map(|_| 2.0 * rng.uniform() - 0.5).collect();
        let (kernel, shrink) = (compose(&modes, &eigenvalues), compose(&modes, &shrinkages));
        let commutator = plus(&product(&kernel, &shrink), -1.0, &product(&shrink, &kernel));
        assert_all_close(&commutator.concat(), &vec![0.0; n * n], 10.0, n);
        // A signal that ignores the kernel, with fewer dimensions than examples.
        let root: Rows = (0..n).map(|_| normals(&mut rng, n.div_ceil(2))).collect();
        let covariance = product(&root, &transpose(&root));
        let signals: Vec<f64> =
            modes.iter().map(|u| dot(u, &multiply(&covariance, u))).collect();

        let literal = |shrink: &Rows| {
            trace(&sandwich(&plus(shrink, -1.0, &identity(n)), &covariance))
                + noise * trace(&product(shrink, shrink))
        };
        let scale = 4.0 * (trace(&covariance) + noise * n as f64);
        let risk = shrinkage_risk(&signals, &shrinkages, noise).unwrap();
        assert_close(risk, literal(&shrink), scale, n);
        let best = optimal_shrinkages(&signals, noise).unwrap();
        let excess = shrinkage_excess(&signals, &shrinkages, noise).unwrap();
        let least = literal(&compose(&modes, &best));
        assert_close(excess, literal(&shrink) - least, scale, n);
        let rounding = 1e3 * n as f64 * f64::EPSILON;
        let none = shrinkage_excess(&signals, &best, noise).unwrap();
        assert!(none <= rounding * rounding * scale);

        // One coordinate moved away from the optimum: strictly worse, by its weight.
        for mode in 0..n {
            for nudge in [-0.3, -1e-3, 1e-3, 0.3] {
                let mut moved = best.clone();
                moved[mode] += nudge;
                let rise = literal(&compose(&modes, &moved)) - least;
                assert!(rise > 0.0);
                assert_close(rise, (signals[mode] + noise) * nudge * nudge, scale, n);
            }
        }
    }
}

/// Prop. F.7: nothing Gaussian is needed: signs as signal, uniform noise.
#[test]
fn prop_f_7_without_gaussianity() {
    let (n, noise, draws) = (5, 0.6_f64, 20_000);
    let mut rng = Rng::new(28);
    let modes = random_basis(&mut rng, n, n);
    let shrinkages = [0.9, 0.7, 0.5, 0.2, -0.1];
    let shrink = compose(&modes, &shrinkages);
    let root: Rows = (0..n).map(|_| normals(&mut rng, 3)).collect();
    let losses: Vec<f64> = (0..draws)
        .map(|_| {
            let signs = [rng.sign(), rng.sign(), rng.sign()];
            let target = multiply(&root, &signs);
            let residuals: Vec<f64> = target
                .iter()
                .map(|f| f + (12.0 * noise).sqrt() * (rng.uniform() - 0.5))
                .collect();
            norm(&subtract(&multiply(&shrink, &residuals), &target)).powi(2)
        })
        .collect();
    let covariance = product(&root, &transpose(&root));
    let signals: Vec<f64> = modes.iter().map(|u| dot(u, &multiply(&covariance, u))).collect();
    let risk = shrinkage_risk(&signals, &shrinkages, noise).unwrap();

    // The error is B z with z = (signs, unit uniforms): for independent coordinates of fourth
    // moment m, Var zᵀHz = 2 Σ_{i≠j} H_ij² + Σ (m_i − 1) H_ii², and m = 1, 9/5.
    let from_signal = product(&plus(&shrink, -1.0, &identity(n)), &root);
    let both: Rows = from_signal
        .iter()
        .zip(&shrink)
        .map(|(a, b)| a.iter().copied().chain(b.iter().map(|x| noise.sqrt() * x)).collect())
        .collect();
    let form = product(&transpose(&both), &both);
    let mut variance = 0.0;
    for (i, row) in form.iter().enumerate() {
        for (j, entry) in row.iter().enumerate() {
            let factor = match (i == j, i < 3) {
                (false, _) => 2.0,
                (true, true) => 0.0,
                (true, false) => 0.8,
            };
            variance += factor * entry * entry;
        }
    }
    assert_within(mean_and_error(&losses).0, risk, (variance / f64::from(draws)).sqrt());
}

// ---------------------------------------------------------------- App. G.2

/// Prop. G.4: the identities of Thm. E.4 hold for every filter: gradient flow against a matrix
/// exponential, random stopping times, and the full fit.
#[test]
fn prop_g_4_risk_and_gap_of_any_filter() {
    for_prompts(|p| {
        let (n, kernel) = (p.n(), p.kernel());
        let typical = noise_level(p, 1.0).1 / 0.7;
        let flow_fit = |time: f64| plus(&identity(n), -1.0, &exponential(&kernel, time));
        for (multiple, ratio) in [(0.0, 0.5), (0.01, 0.1), (0.5, 0.5), (2.0, 20.0)] {
            let time = multiple / typical;
            let flow = GradientFlow::new(time).unwrap();
            check_prompt_side(p, &flow, &flow_fit(time), ratio);
            let times = [time, 0.2 / typical];
            let parts = times.map(|time| (0.5, GradientFlow::new(time).unwrap()));
            let average = plus(&flow_fit(times[0]), 1.0, &flow_fit(times[1]));
            let mixture = Mixture::new(parts.to_vec()).unwrap();
            check_prompt_side(p, &mixture, &shifted(&average, 0.5, 0.0), ratio);
        }
        let spectrum = Spectrum::of(&kernel).unwrap();
        let modes = range(p);
        let everything = identity(n).iter().map(|unit| projected(&modes, unit)).collect();
        check_prompt_side(p, &Projection::of(&spectrum), &everything, 0.5);
        check_unique_minimum(p);
    });
}

// ---------------------------------------------------------------- bad input

/// Every function names what is wrong with its input.
#[test]
fn risk_bad_input_is_named() {
    let out_of_range =
        |quantity, found, allowed| Error::OutOfRange { quantity, found, allowed };
    let (over, least) = ("finite and over 0", "finite and at least 0");
    assert_eq!(Benchmark::new(-1.0, 1.0), Err(out_of_range("signal variance", -1.0, least)));
    assert_eq!(Benchmark::new(1.0, 0.0), Err(out_of_range("noise variance", 0.0, over)));
    assert!(
        Benchmark::new(f64::INFINITY, 1.0).is_err() && Benchmark::new(1.0, f64::NAN).is_err()
    );

    let spectrum = Spectrum::of(Matrix::identity(2)).unwrap();
    let benchmark = Benchmark::new(1.0, 1.0).unwrap();
    let short = Error::SizeMismatch { quantity: "coupling", found: 1, expected: 2 };
    let coupling = [1.0];
    assert_eq!(mode_weights(&spectrum, &coupling, &benchmark), Err(short.clone()));
    assert_eq!(query_gap(&spectrum, &coupling, &NoUpdate, &benchmark), Err(short.clone()));
    assert_eq!(query_benefit(&spectrum, &coupling, &NoUpdate, &benchmark), Err(short.clone()));
    assert_eq!(
        query_posterior_variance(&spectrum, &coupling, 1.0, &benchmark),
        Err(short.clone())
    );
    assert_eq!(query_risk(&spectrum, &coupling, 1.0, &NoUpdate, &benchmark), Err(short));
    let infinite = Error::NotFinite { quantity: "coupling", index: 1, value: f64::INFINITY };
    assert_eq!(mode_weights(&spectrum, &[0.0, f64::INFINITY], &benchmark), Err(infinite));
    assert_eq!(
        query_posterior_variance(&spectrum, &[0.0, 1.0], -1.0, &benchmark),
        Err(out_of_range("query variance", -1.0, least))
    );
    assert_eq!(
        floor(&spectrum, &[1.0; 3]),
        Err(Error::SizeMismatch { quantity: "target", found: 3, expected: 2 })
    );

    let empty = Error::Empty { quantity: "signal variances" };
    assert_eq!(shrinkage_risk(&[], &[], 1.0), Err(empty.clone()));
    assert_eq!(optimal_shrinkages(&[], 1.0), Err(empty));
    assert_eq!(
        shrinkage_excess(&[1.0], &[1.0, 1.0], 1.0),
        Err(Error::SizeMismatch { quantity: "shrinkages", found: 2, expected: 1 })
    );
    assert_eq!(
        optimal_shrinkages(&[1.0, -2.0], 1.0),
        Err(out_of_range("signal variance", -2.0, least))
    );
    assert_eq!(
        shrinkage_risk(&[1.0], &[1.0], 0.0),
        Err(out_of_range("noise variance", 0.0, over))
    );
    assert_eq!(
        projector_gap(1, f64::INFINITY, &benchmark),
        Err(Error::NotFinite { quantity: "shrinkage", index: 0, value: f64::INFINITY })
    );

    let few = out_of_range("number of tasks", 1.0, "at least 2");
    assert_eq!(decompose(&[0.0], &[0.0], &[0.0]), Err(few));
    assert_eq!(
        decompose(&[0.0; 2], &[0.0; 3], &[0.0; 2]),
        Err(Error::SizeMismatch { quantity: "Bayes predictions", found: 3, expected: 2 })
    );
    assert_eq!(
        decompose(&[0.0; 2], &[0.0; 2], &[0.0, f64::INFINITY]),
        Err(Error::NotFinite { quantity: "targets", index: 1, value: f64::INFINITY })
    );
}

//! Sec. 4, App. E.2, App. F.3: gradient steps are spectral filters and posterior means.

use crate::support::*;
use fewstep_core::{
    BayesFilter, Block, Filter, GradientDescent, Matrix, Mixture, NoUpdate, Spectrum, StepSize,
};

/// `T` literal gradient steps `θ ← θ + ρ Σ Φᵀ(r − Φθ)` from zero.
fn descend(p: &Prompt, prior: Option<&[Vec<f64>]>, step: f64, horizon: u32) -> Vec<f64> {
    let mut theta = vec![0.0; p.query.len()];
    for _ in 0..horizon {
        let error = subtract(&p.residuals, &multiply(&p.features, &theta));
        let gradient = multiply(&transpose(&p.features), &error);
        let direction = prior.map_or(gradient.clone(), |prior| multiply(prior, &gradient));
        for (t, d) in theta.iter_mut().zip(&direction) {
            *t += step * d;
        }
    }
    theta
}

/// Sec. 4: `T` literal gradient steps fit `g_T(K) r` on the prompt, and each mode's share lies
/// in `[0, 1)` and grows with `T`.
#[test]
fn sec_4_spectral_filter() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        for (scale, horizon) in [(0.1, 0), (0.1, 1), (0.9, 2), (0.3, 17), (0.99, 100)] {
            let step = StepSize::fraction(scale, &spectrum).unwrap();
            let filter = GradientDescent { step, horizon };
            let literal = multiply(&p.features, &descend(p, None, step.get(), horizon));
            let fitted = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            let size = norm(&p.residuals) * f64::from(horizon.max(1));
            assert_all_close(&fitted, &literal, size, p.n());

            let longer = GradientDescent { step, horizon: horizon + 1 };
            for &eigenvalue in spectrum.eigenvalues() {
                let share = filter.response(eigenvalue);
                let left = (1.0 - step.get() * eigenvalue).powf(f64::from(horizon));
                assert!(share >= 0.0 && (share < 1.0 || left < f64::EPSILON));
                assert!(share <= longer.response(eigenvalue));
            }
        }
    });
}

/// Prop. 4.1: the steps' fit is the posterior mean under the prior `N(0, σ² G_T (I − G_T)⁻¹)`,
/// whose variance in each mode is the closed form.
#[test]
fn prop_4_1_posterior_mean() {
    for_prompts(|p| {
        let (n, kernel) = (p.n(), p.kernel());
        let spectrum = Spectrum::of(&kernel).unwrap();
        let step = StepSize::fraction(0.3, &spectrum).unwrap();
        let noise_variance = 0.7;
        for horizon in [0, 1, 5] {
            // Route 1: G_T by multiplication, C_T by inversion, then r = f + ε conditioned.
            let kept = shifted(&kernel, -step.get(), 1.0);
            let mut power = shifted(&kernel, 0.0, 1.0);
            for _ in 0..horizon {
                power = product(&power, &kept);
            }
            let smoother = shifted(&power, -1.0, 1.0);
            let prior = product(&smoother, &inverse(&power));
            let prior = shifted(&prior, noise_variance, 0.0);
            let weights = eliminate(&shifted(&prior, 1.0, noise_variance), &p.residuals).0;
            let posterior_mean = multiply(&prior, &weights);

            // Route 2: the filter.
            let filter = GradientDescent { step, horizon };
            let fitted = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            // The inverse loses the condition of (1 − 0.3)^T.
            let condition = 0.7_f64.powi(-i32::try_from(2 * horizon).unwrap());
            assert_all_close(&fitted, &posterior_mean, norm(&p.residuals) * condition, n);

            for (mode, &eigenvalue) in spectrum.eigenvalues().iter().enumerate() {
                let direction = spectrum.mode(mode);
                let literal = dot(direction, &multiply(&prior, direction));
                let closed = filter.prior_variance(eigenvalue, noise_variance);
                assert_close(closed, literal, noise_variance * condition, n);
                assert!(closed >= 0.0);
            }
        }
    });
}

/// Prop. E.1: `T` literal gradient steps in parameter space give `k_xᵀ q_T(K) r` at the query,
/// and `K q_T(K) r` on the prompt.
#[test]
fn prop_e_1_out_of_sample_form() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        for (fraction, horizon) in [(0.3, 0), (0.3, 1), (0.3, 12), (0.95, 50)] {
            let step = StepSize::fraction(fraction, &spectrum).unwrap();
            let filter = GradientDescent { step, horizon };

            // Route 1: θ ← θ + ρ Φᵀ(r − Φθ), T times, then φ(x)ᵀθ.
            let theta = descend(p, None, step.get(), horizon);
            let literal = dot(&p.query, &theta);

            // Route 2: the filter, in the eigenbasis of K.
            let filtered =
                filter.query_correction(&spectrum, &p.coupling(), &p.residuals).unwrap();
            let reach = step.get() * f64::from(horizon.max(1)) * norm(&p.residuals);
            assert_close(filtered, literal, norm(&p.coupling()) * reach, p.n());

            let weights = filter.example_weights(&spectrum, &p.residuals).unwrap();
            let fitted = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            let from_weights = multiply(&p.kernel(), &weights);
            assert_all_close(&fitted, &from_weights, spectrum.largest() * reach, p.n());
        }
    });
}

/// Sec. 4: the gain tends to `ρT` at eigenvalue 0, and stays accurate on the way there.
#[test]
fn sec_4_gain_near_zero() {
    let spectrum = Spectrum::of(&[vec![1.0]]).unwrap();
    let step = StepSize::new(0.5, &spectrum).unwrap();
    let filter = GradientDescent { step, horizon: 1000 };
    assert_close(filter.gain(0.0), 500.0, 500.0, 1);
    for exponent in 4..300 {
        let eigenvalue = 10_f64.powi(-exponent);
        // ρ Σ_t (1 − ρλ)^t = ρT − ρ²λT(T−1)/2 + O((ρλT)²)
        let series = 500.0 - 0.25 * eigenvalue * 1000.0 * 999.0 / 2.0
            + 0.125 * eigenvalue.powi(2) * 1000.0 * 999.0 * 998.0 / 6.0
            - 0.0625 * eigenvalue.powi(3) * 1000.0 * 999.0 * 998.0 * 997.0 / 24.0;
        let remainder = 500.0 * (500.0 * eigenvalue).powi(4);
        assert!((filter.gain(eigenvalue) - series).abs() <= 1e-12 + remainder);
    }
}

/// Sec. 4: for every filter the response is eigenvalue times gain, and the degrees of freedom
/// are the trace of the matrix that maps residuals to the fit.
#[test]
fn sec_4_response_is_eigenvalue_times_gain() {
    for_prompts(|p| {
        let spectrum = Spectrum::of(&p.kernel()).unwrap();
        let size = spectrum.largest().max(f64::MIN_POSITIVE);
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        let descent = |horizon| GradientDescent { step, horizon };
        let mixture = Mixture::new(vec![(1.0, descent(2)), (3.0, descent(9))]).unwrap();
        let filters: [&dyn Filter; 4] =
            [&NoUpdate, &descent(5), &BayesFilter::new(0.2 * size).unwrap(), &mixture];
        for filter in filters {
            assert_response_is_eigenvalue_times_gain(filter, &spectrum);
        }
    });
}

/// A random covariance of the parameters, some directions of which never move.
fn random_prior(p: &Prompt) -> Vec<Vec<f64>> {
    let width = p.query.len();
    let mut rng = fewstep_core::Rng::new(p.seed + 100);
    let root: Vec<Vec<f64>> =
        (0..width).map(|_| normals(&mut rng, width.div_ceil(2))).collect();
    product(&root, &transpose(&root))
}

/// Prop. F.10: under `θ★ ~ N(0, τ²Σ)` the Bayes estimate on the prompt is
/// `K̃(K̃ + λ★I)⁻¹ r` with `K̃ = ΦΣΦᵀ`; here against conditioning in parameter space.
#[test]
fn prop_f_10_anisotropic_bayes() {
    for_prompts(|p| {
        let (prior, query) = (random_prior(p), &p.query);
        let block =
            Block::from_prior("value", &p.features, &matrix(&prior), Some(query)).unwrap();
        let spectrum = Spectrum::of(block.kernel()).unwrap();
        let largest = spectrum.largest();
        let (signal, noise) = (2.0, 0.3 * if largest > 0.0 { largest } else { 1.0 });
        let bayes = BayesFilter::new(noise / signal).unwrap();

        // E[θ★ | r] = τ²ΣΦᵀ (τ²ΦΣΦᵀ + σ²I)⁻¹ r, with the marginal covariance from Φ and Σ.
        let spread = product(&p.features, &prior);
        let marginal = shifted(&product(&spread, &transpose(&p.features)), signal, noise);
        let weights = eliminate(&marginal, &p.residuals).0;
        let theta: Vec<f64> =
            multiply(&transpose(&spread), &weights).iter().map(|x| signal * x).collect();

        let fitted = bayes.prompt_fit(&spectrum, &p.residuals).unwrap();
        let size = norm(&p.residuals);
        assert_all_close(&fitted, &multiply(&p.features, &theta), size, p.query.len());

        let coupling = &block.query().unwrap().coupling;
        let correction = bayes.query_correction(&spectrum, coupling, &p.residuals).unwrap();
        let reach = norm(coupling) * size / bayes.noise_to_signal();
        let terms: f64 = query.iter().zip(&theta).map(|(q, t)| (q * t).abs()).sum();
        assert_close(correction, dot(query, &theta), reach + terms, p.query.len());
    });
}

/// Thm. F.11: gradient steps preconditioned by `Σ` are plain steps under the kernel `ΦΣΦᵀ`.
#[test]
fn thm_f_11_preconditioned_descent() {
    for_prompts(|p| {
        let prior = random_prior(p);
        let block =
            Block::from_prior("value", &p.features, &matrix(&prior), Some(&p.query)).unwrap();
        let spectrum = Spectrum::of(block.kernel()).unwrap();
        let step = StepSize::fraction(0.4, &spectrum).unwrap();
        for horizon in [0, 1, 9] {
            let theta = descend(p, Some(&prior), step.get(), horizon);
            let filter = GradientDescent { step, horizon };
            let fitted = filter.prompt_fit(&spectrum, &p.residuals).unwrap();
            let size = norm(&p.residuals) * f64::from(horizon.max(1));
            assert_all_close(&fitted, &multiply(&p.features, &theta), size, p.query.len());

            let coupling = &block.query().unwrap().coupling;
            let correction =
                filter.query_correction(&spectrum, coupling, &p.residuals).unwrap();
            let terms: f64 = p.query.iter().zip(&theta).map(|(q, t)| (q * t).abs()).sum();
            let reach = norm(coupling) * step.get() * size;
            assert_close(correction, dot(&p.query, &theta), reach + terms, p.query.len());
        }
    });
}

/// Thm. F.11 for whole blocks: scaling a block's kernel is preconditioning its weights.
#[test]
fn thm_f_11_block_variances() {
    let block = |name: &str, value: f64| {
        Block::from_features(name, Matrix::new(1, 1, vec![value]).unwrap(), Some(&[1.0]))
            .unwrap()
    };
    let geometry =
        fewstep_core::Geometry::new(vec![1.0], vec![block("a", 2.0), block("b", 3.0)]).unwrap();
    let total = geometry.precondition(&[10.0, 0.5]).unwrap().total();
    assert_eq!(total.kernel()[(0, 0)], 10.0 * 4.0 + 0.5 * 9.0);
    assert_eq!(total.query().unwrap().coupling, [10.0 * 2.0 + 0.5 * 3.0]);
    assert_eq!(total.query().unwrap().variance, 10.5);
}

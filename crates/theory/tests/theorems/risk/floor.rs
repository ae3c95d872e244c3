//! What no number of steps can fit: Prop. 6.3 and Prop. E.9.

use super::literal::{noise_level, projected, range};
use crate::support::{
    assert_all_close, assert_close, dot, for_prompts, multiply, norm, normals, subtract,
};
use fewstep_core::{BayesFilter, Filter, GradientDescent, NoUpdate, Rng, Spectrum, StepSize};
use fewstep_theory::risk::floor;
use fewstep_theory::{GradientFlow, JamesStein, Projection};

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

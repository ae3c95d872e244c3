//! Claims that hold for every prompt, on prompts that nobody chose by hand.
//!
//! Horizons from 0 to 10⁶; the kernels are those of the core's tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

#[path = "../../core/tests/cases/mod.rs"]
mod cases;

use cases::{assert_shrinks, cases, config, horizons};
use fewstep_core::{
    Block, Filter, Geometry, GradientDescent, Policy, Spectrum, StepSize, decide,
};
use fewstep_theory::pac_bayes::guarantee;
use fewstep_theory::{GradientFlow, Projection};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config())]

    /// Fits stay between nothing and everything, and lie within the length of the residuals.
    #[test]
    fn filters_shrink(case in cases(), horizon in horizons(), fraction in 0.001..0.999_f64) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let step = StepSize::fraction(fraction, &spectrum).unwrap();
        let time = step.get() * f64::from(horizon);
        let filters: [&dyn Filter; 2] =
            [&GradientFlow::new(time).unwrap(), &Projection::of(&spectrum)];
        for filter in filters {
            assert_shrinks(filter, &case, &spectrum)?;
        }
    }

    /// Every decision has a bound, out to as many steps as may be asked for.
    #[test]
    fn every_decision_has_a_bound(
        case in cases().prop_filter("few examples", |case| case.kernel.rows() <= 40),
        long in any::<bool>(),
    ) {
        let block = Block::new("value.0.0", &case.kernel).unwrap();
        let geometry = Geometry::new(case.residuals, vec![block]).unwrap();
        let horizons = if long { vec![0, 1, 100_000] } else { (0..=30).collect() };
        let policy = Policy { horizons, ..Policy::paper() };
        let decision = decide(&geometry, &policy).unwrap();
        let bound = guarantee(geometry.residuals(), &decision, 0.95);
        let bound = bound.unwrap().unwrap();
        prop_assert!(bound.bound.is_finite() && bound.slack > 0.0);
    }

    /// A million steps at half the limit leave nothing of modes that are not tiny.
    #[test]
    fn many_steps_reach_the_projection(case in cases()) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let step = StepSize::fraction(0.5, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon: 1_000_000 };
        let projection = Projection::of(&spectrum);
        for &eigenvalue in spectrum.eigenvalues() {
            if eigenvalue > 1e-4 * spectrum.largest() {
                let apart = filter.response(eigenvalue) - projection.response(eigenvalue);
                prop_assert!(apart.abs() <= 4.0 * f64::EPSILON);
            }
        }
    }
}

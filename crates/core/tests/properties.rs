//! Claims that hold for every prompt, on prompts that nobody chose by hand.
//!
//! Horizons from 0 to 10⁶; the kernels are those of `cases`.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

mod cases;

use cases::{assert_shrinks, cases, config, horizons, squared_norm};
use fewstep_core::{
    BayesFilter, Block, Evidence, Filter, Geometry, GradientDescent, HorizonName, HorizonRule,
    Noise, Policy, Spectrum, StepSize, decide,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config())]

    /// Decompositions put the kernel together again and keep lengths.
    #[test]
    fn spectra_rebuild_their_kernel(case in cases()) {
        let n = case.kernel.rows();
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let allowed = 1e3 * n as f64 * f64::EPSILON;
        let rotated = spectrum.rotate(&case.residuals).unwrap();
        let length = squared_norm(&case.residuals);
        prop_assert!((squared_norm(&rotated) - length).abs() <= allowed * length);
        for (amount, eigenvalue) in rotated.iter().zip(spectrum.eigenvalues()) {
            prop_assert!(amount.is_finite() && *eigenvalue >= 0.0);
        }
        let mut amounts = rotated;
        for (amount, eigenvalue) in amounts.iter_mut().zip(spectrum.eigenvalues()) {
            *amount *= eigenvalue;
        }
        let rebuilt = spectrum.rotate_back(&amounts).unwrap();
        let literal = case.kernel.multiply(&case.residuals).unwrap();
        for (a, b) in rebuilt.iter().zip(&literal) {
            prop_assert!((a - b).abs() <= allowed * spectrum.largest() * length.sqrt());
        }
    }

    /// The two projections split a vector into orthogonal parts, whatever the rank.
    #[test]
    fn projections_split(case in cases()) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let inside = spectrum.project(&case.residuals).unwrap();
        let outside = spectrum.project_outside(&case.residuals).unwrap();
        let total = squared_norm(&case.residuals);
        let allowed = 1e3 * inside.len() as f64 * f64::EPSILON * total;
        prop_assert!((squared_norm(&inside) + squared_norm(&outside) - total).abs() <= allowed);
        prop_assert!(spectrum.rank() <= spectrum.examples());
        prop_assert!(spectrum.effective_rank() <= spectrum.examples() as f64 * (1.0 + 1e-12));
    }

    /// Fits stay between nothing and everything, and lie within the length of the residuals.
    #[test]
    fn filters_shrink(case in cases(), horizon in horizons(), fraction in 0.001..0.999_f64) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let step = StepSize::fraction(fraction, &spectrum).unwrap();
        let filters: [&dyn Filter; 2] = [
            &GradientDescent { step, horizon },
            &BayesFilter::new(case.magnitude).unwrap(),
        ];
        for filter in filters {
            assert_shrinks(filter, &case, &spectrum)?;
        }
    }

    /// No step is no update, bit for bit.
    #[test]
    fn zero_steps_do_nothing(case in cases()) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let filter = GradientDescent { step, horizon: 0 };
        let correction =
            filter.query_correction(&spectrum, &case.coupling, &case.residuals).unwrap();
        prop_assert_eq!(correction.abs().to_bits(), 0.0_f64.to_bits());
    }

    /// Evidence is a finite, convex curve out to a million steps, and under a gate of 1 it only
    /// grows.
    #[test]
    fn evidence_is_convex(case in cases(), fraction in 0.001..0.999_f64) {
        let spectrum = Spectrum::of(&case.kernel).unwrap();
        let step = StepSize::fraction(fraction, &spectrum).unwrap();
        let evidence = Evidence::of(&spectrum, &case.residuals, step).unwrap();
        for noise in [Noise::PlugIn, Noise::Fixed(0.5)] {
            let curve = evidence.curve(&[0, 10, 20, 999_980, 999_990, 1_000_000], noise).unwrap();
            prop_assert!(curve.iter().all(|value| value.is_finite()));
            for part in curve.chunks(3) {
                let size = 1e3 * f64::EPSILON * part.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
                prop_assert!(part[0] + part[2] - 2.0 * part[1] >= -size);
            }
            if noise == Noise::PlugIn && evidence.gate() < 1.0 {
                prop_assert!(curve.windows(2).all(|pair| pair[1] >= pair[0] - 1e-13));
            }
        }
    }

    /// Every rule decides on every prompt, with finite numbers; the Bayes gap that it reports for
    /// no update does not depend on the rule.
    #[test]
    fn every_prompt_is_decided(
        case in cases().prop_filter("small enough for leave-one-out", |c| c.kernel.rows() <= 40),
        rule in 0..7_usize,
        million in any::<bool>(),
    ) {
        let variance = case.kernel.values().iter().fold(0.0_f64, |m, x| m.max(x.abs())) * 1e3;
        let coupling: Vec<f64> =
            case.coupling.iter().map(|k| k * case.magnitude.sqrt() * 1e-3).collect();
        let block = Block::new("value.0.0", &case.kernel)
            .unwrap()
            .with_query(coupling, variance)
            .unwrap();
        let geometry = Geometry::new(case.residuals.clone(), vec![block]).unwrap();
        let horizon = [
            HorizonName::Fixed(100_000),
            HorizonName::Evidence,
            HorizonName::EvidenceFixed,
            HorizonName::Gibbs,
            HorizonName::BayesGap,
            HorizonName::LeaveOneOut,
            HorizonName::BayesFilter,
        ][rule];
        let horizons = if million { vec![0, 1, 100_000] } else { (0..=30).collect() };
        let horizon = HorizonRule::of_name(horizon);
        let policy = Policy { horizon, horizons, ..Policy::paper() };
        let decision = decide(&geometry, &policy).unwrap();
        if let Some(reasons) = decision.when.evidence {
            prop_assert!(reasons.gate.is_finite());
            prop_assert!(reasons.gap_icl.is_finite() && reasons.gap_icl >= 0.0);
            prop_assert!(reasons.gap_adapted.is_finite() && reasons.gap_adapted >= 0.0);
        }
        if let Some(errors) = decision.when.leave_one_out {
            prop_assert!(errors.icl.is_finite() && errors.icl >= 0.0);
            prop_assert!(errors.adapted.is_finite() && errors.adapted >= 0.0);
        }
        prop_assert!((0.0..=1.0 + 1e-12).contains(&decision.when.weight));
        prop_assert!(decision.how_far.degrees_of_freedom <= case.kernel.rows() as f64 + 1e-9);
        let query = decision.query.unwrap();
        prop_assert!(query.correction.is_finite() && query.standard_deviation.is_finite());
        let plain = decide(&geometry, &Policy::paper()).unwrap();
        if let (Some(one), Some(other)) = (plain.when.evidence, decision.when.evidence) {
            prop_assert_eq!(one.gap_icl.to_bits(), other.gap_icl.to_bits());
        }
    }
}

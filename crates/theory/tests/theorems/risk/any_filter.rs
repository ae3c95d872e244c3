//! Risk and gap on the prompt for filters of every kind: App. G.2.

use super::literal::{
    check_prompt_side, check_unique_minimum, identity, noise_level, plus, projected, range,
};
use crate::support::{Rows, for_prompts, product, shifted};
use fewstep_core::{Mixture, Spectrum};
use fewstep_theory::{GradientFlow, Projection};

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

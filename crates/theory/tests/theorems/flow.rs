//! App. G: gradient flow, the times that suit one mode or all, and the bounds around them.

use crate::support::{
    Prompt, assert_all_close, assert_close, dot, eliminate, for_prompts, multiply, norm,
    product, shifted,
};
use fewstep_core::{
    BayesFilter, Error, Filter, GradientDescent, Matrix, Rng, Spectrum, StepSize,
};
use fewstep_theory::flow::{
    concentration_bound, discretisation_bound, flow_risk, horizon_of, match_time, mode_time,
    oracle_time, representative_eigenvalue,
};
use fewstep_theory::{ExponentialTime, GradientFlow};

/// A spectrum with these eigenvalues, exactly.
fn diagonal(eigenvalues: &[f64]) -> Spectrum {
    let n = eigenvalues.len();
    let mut entries = vec![0.0; n * n];
    for (i, &eigenvalue) in eigenvalues.iter().enumerate() {
        entries[i * n + i] = eigenvalue;
    }
    let spectrum = Spectrum::of(Matrix::new(n, n, entries).unwrap()).unwrap();
    let mut sorted = eigenvalues.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    for (&found, &expected) in spectrum.eigenvalues().iter().zip(&sorted) {
        assert_close(found, expected, expected, 1);
    }
    spectrum
}

/// Random eigenvalues over many magnitudes, with the edge cases of a spectrum among them.
fn spectra() -> Vec<Vec<f64>> {
    let mut rng = Rng::new(5);
    let mut spectra =
        vec![vec![0.0], vec![3.0], vec![2.0; 4], vec![5.0, 0.0, 0.0], vec![0.0; 3]];
    for (n, decades) in [(2, 1.0), (5, 2.0), (12, 4.0), (12, 8.0), (30, 3.0)] {
        for scale in [1e-12, 1.0, 1e12] {
            let eigenvalue =
                |rng: &mut Rng| scale * 10.0_f64.powf(decades * (rng.uniform() - 0.5));
            spectra.push((0..n).map(|_| eigenvalue(&mut rng)).collect());
        }
    }
    spectra
}

/// The trace of a kernel, or 1 for a zero kernel: a rate that is at least every eigenvalue.
fn rate(prompt: &Prompt) -> f64 {
    let trace = prompt.features.iter().map(|row| dot(row, row)).sum::<f64>();
    if trace > 0.0 { trace } else { 1.0 }
}

/// `f(t)` from the equation `f' = K(r − f)`, `f(0) = 0`, by Taylor steps of its own derivatives.
fn integrate(kernel: &[Vec<f64>], residuals: &[f64], time: f64, steps: u32) -> Vec<f64> {
    let length = time / f64::from(steps);
    let mut fit = vec![0.0; residuals.len()];
    for _ in 0..steps {
        let missing: Vec<f64> = residuals.iter().zip(&fit).map(|(r, f)| r - f).collect();
        // The term of order k + 1 is −(length/(k + 1)) K times that of order k.
        let next = |term: &[f64], factor: f64| -> Vec<f64> {
            multiply(kernel, term).iter().map(|k| factor * k).collect()
        };
        let mut term = next(&missing, length);
        for order in 2..26 {
            for (f, t) in fit.iter_mut().zip(&term) {
                *f += t;
            }
            term = next(&term, -length / f64::from(order));
        }
    }
    fit
}

/// `I − e^(−sK)` by its series, for `s` so small that a few terms do.
fn early_response(kernel: &[Vec<f64>], time: f64) -> Vec<Vec<f64>> {
    let square = product(kernel, kernel);
    let entry = |(a, b): (&f64, &f64)| time * a - 0.5 * time * time * b;
    let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(entry).collect();
    kernel.iter().zip(&square).map(row).collect()
}

/// `M ← 2M − M²`: the response after twice the time.
fn double(response: &mut [Vec<f64>]) {
    let square = product(response, response);
    for (row, other) in response.iter_mut().zip(&square) {
        for (entry, s) in row.iter_mut().zip(other) {
            *entry = 2.0 * *entry - s;
        }
    }
}

/// Prop. G.1: the solution of `f' = K(r − f)` from 0 is the filter `1 − e^(−tλ)`, mode by mode
/// and as a whole.
#[test]
fn prop_g_1_gradient_flow() {
    for_prompts(|p| {
        let (kernel, rate) = (p.kernel(), rate(p));
        let spectrum = Spectrum::of(&kernel).unwrap();
        for (decays, steps) in [(0.0, 1), (0.1, 1), (1.0, 2), (20.0, 40)] {
            let time = decays / rate;
            let flow = GradientFlow::new(time).unwrap();
            let found = flow.prompt_fit(&spectrum, &p.residuals).unwrap();
            let expected = integrate(&kernel, &p.residuals, time, steps);
            assert_all_close(&found, &expected, norm(&p.residuals), p.n());
            // A mode by itself is learned at its own rate.
            for mode in 0..p.n() {
                let direction = spectrum.mode(mode);
                let alone = integrate(&kernel, direction, time, steps);
                let response = flow.response(spectrum.eigenvalues()[mode]);
                assert_close(response, dot(direction, &alone), 1.0, p.n());
            }
        }
    });
}

/// Lem. G.2: finite steps run ahead of the flow at the same time, by at most the bound, for all
/// `ρλ` in `[0, 1)` and all horizons.
#[test]
fn lem_g_2_steps_and_flow() {
    let unit = Spectrum::of(&[vec![1.0]]).unwrap();
    for rho in [1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999, 1.0 - 1e-12] {
        let step = StepSize::new(rho, &unit).unwrap();
        for eigenvalue in [0.0, 1e-12, 1e-4, 0.3, 0.7, 1.0] {
            let fraction = rho * eigenvalue;
            let mut kept = 1.0;
            for horizon in 0..200_u32 {
                let steps = f64::from(horizon);
                let decayed = (-steps * fraction).exp();
                let lead = decayed - kept;
                let bound = discretisation_bound(step, horizon, eigenvalue).unwrap();
                let expected = steps * fraction.powi(2) / (2.0 * (1.0 - fraction)) * decayed;
                let rounding = 1e3 * f64::EPSILON * (1.0 + steps * fraction) * decayed;
                assert!(-rounding <= lead && lead <= bound + rounding, "{lead:e} {bound:e}");
                // The library's two filters differ by just that.
                let descent = GradientDescent { step, horizon }.response(eigenvalue);
                let flow = GradientFlow::new(rho * steps).unwrap().response(eigenvalue);
                assert_close(descent - flow, lead, 1.0, 1);
                // 1 − ρλ carries the rounding of ρλ.
                assert_close(bound, expected, expected, 1);
                kept *= 1.0 - fraction;
            }
        }
    }
    // To leading order the bound is attained.
    for k in 10..20 {
        let step = StepSize::new(0.5_f64.powi(k), &unit).unwrap();
        let lead = (-7.0 * step.get()).exp() - (1.0 - step.get()).powi(7);
        let share = lead / discretisation_bound(step, 7, 1.0).unwrap();
        assert!(
            1.0 - 4.0 * step.get() <= share && share <= 1.0 + 1e3 * f64::EPSILON / step.get()
        );
    }
    let step = StepSize::new(0.5, &unit).unwrap();
    assert!(matches!(
        discretisation_bound(step, 1, 2.0),
        Err(Error::OutOfRange { quantity: "eigenvalue", found: 2.0, .. })
    ));
    assert!(discretisation_bound(step, 1, -1.0).is_err());
    assert!(discretisation_bound(step, 1, f64::NAN).is_err());
}

/// App. G: the flow's risk is the expected squared distance between fit and signal,
/// `tr{(I−G)τ²K(I−G)} + σ² tr G²` with `G = I − e^(−tK)` by repeated doubling.
#[test]
fn app_g_flow_risk() {
    for_prompts(|p| {
        let (kernel, rate) = (p.kernel(), rate(p));
        let spectrum = Spectrum::of(&kernel).unwrap();
        let (signal_variance, noise_variance) = (2.0 / rate, 0.3);
        let mut time = 0.5_f64.powi(36) / rate;
        let mut response = early_response(&kernel, time);
        for _ in 0..40 {
            double(&mut response);
            time *= 2.0;
            let kept = shifted(&response, -1.0, 1.0);
            let missed = product(&product(&kept, &kernel), &kept);
            let trace = |a: &[Vec<f64>]| (0..p.n()).map(|i| a[i][i]).sum::<f64>();
            let expected = signal_variance * trace(&missed)
                + noise_variance * trace(&product(&response, &response));
            let found = flow_risk(&spectrum, signal_variance, noise_variance, time).unwrap();
            assert_close(found, expected, 2.0 + 0.3 * p.n() as f64, p.n());
        }
    });
}

/// Lem. G.5: at the mode's time, and at no other, the flow's response is the Bayes response; at
/// eigenvalue 0 the time is the limit `1/λ★`.
#[test]
fn lem_g_5_mode_time() {
    let sizes = [1e-12, 1e-6, 1e-2, 0.5, 1.0, 3.0, 1e3, 1e8, 1e12];
    for noise_to_signal in sizes {
        for eigenvalue in sizes {
            let time = mode_time(eigenvalue, noise_to_signal).unwrap();
            // The share of the residual that is kept: literally, e^(−tλ) and λ★/(λ + λ★).
            let kept = |time: f64| (-time * eigenvalue).exp();
            let expected = noise_to_signal / (eigenvalue + noise_to_signal);
            let exponent = -expected.ln();
            assert_close(kept(time), expected, expected * (1.0 + exponent), 1);
            // The share that is fitted, which is the small one for small eigenvalues.
            let fitted = GradientFlow::new(time).unwrap().response(eigenvalue);
            let bayes = eigenvalue / (eigenvalue + noise_to_signal);
            assert_close(fitted, bayes, bayes, 1);
            // Unique: before it the mode is fitted less, after it more.
            let early = GradientFlow::new(0.999 * time).unwrap().response(eigenvalue);
            let late = GradientFlow::new(1.001 * time).unwrap().response(eigenvalue);
            if bayes < 0.5 {
                assert!(early < bayes && bayes < late);
            } else {
                assert!(kept(1.001 * time) < expected && expected < kept(0.999 * time));
            }
        }
        assert_close(
            mode_time(0.0, noise_to_signal).unwrap(),
            1.0 / noise_to_signal,
            1.0 / noise_to_signal,
            1,
        );
        let tiny = mode_time(noise_to_signal * 1e-200, noise_to_signal).unwrap();
        assert_close(tiny, 1.0 / noise_to_signal, 1.0 / noise_to_signal, 1);
        // The time falls as the eigenvalue grows: fast modes are left early.
        let times: Vec<f64> =
            sizes.iter().map(|&size| mode_time(size, noise_to_signal).unwrap()).collect();
        assert!(times.windows(2).all(|pair| pair[1] <= pair[0]));
    }
    // Even where λ/λ★ overflows: (log 10³⁰⁰ + log 10³⁰⁰)/10³⁰⁰.
    let extreme = mode_time(1e300, 1e-300).unwrap();
    assert_close(extreme * 1e300, 600.0 * 10.0_f64.ln(), 1e4, 1);
}

/// Prop. G.6: the Bayes response is the flow's response at an exponential random time, for every
/// eigenvalue and for the whole matrix.
#[test]
fn prop_g_6_exponential_mixture() {
    // ∫ λ★e^(−λ★s)(1 − e^(−sλ)) ds with s = e^x, whose trapezoidal sum converges exponentially.
    for noise_to_signal in [1e-12, 1e-3, 1.0, 1e5, 1e12] {
        for ratio in [0.0, 1e-12, 1e-3, 1.0, 40.0, 1e12] {
            let eigenvalue: f64 = ratio * noise_to_signal;
            let spacing = 0.0625;
            let integral: f64 = (-1500..80)
                .map(|k| {
                    let scaled = (f64::from(k) * spacing).exp();
                    scaled * (-scaled).exp() * -f64::exp_m1(-scaled * ratio) * spacing
                })
                .sum();
            let exponential = ExponentialTime::new(noise_to_signal).unwrap();
            let bayes = BayesFilter::new(noise_to_signal).unwrap();
            assert_close(exponential.response(eigenvalue), integral, integral, 1);
            assert_close(bayes.response(eigenvalue), integral, integral, 1);
        }
    }

    // The same sum with matrices: nodes at s, 2s, 4s, … share their exponentials.
    let chains = 6;
    let spacing = 2.0_f64.ln() / f64::from(chains);
    for_prompts(|p| {
        let (kernel, noise_to_signal) = (p.kernel(), 0.2 * rate(p));
        let mut integral = vec![0.0; p.n()];
        for chain in 0..chains {
            let mut scaled = (f64::from(chain) * spacing).exp() * 0.5_f64.powi(56);
            let mut response = early_response(&kernel, scaled / noise_to_signal);
            while scaled < 64.0 {
                let fit = multiply(&response, &p.residuals);
                for (sum, f) in integral.iter_mut().zip(&fit) {
                    *sum += spacing * scaled * (-scaled).exp() * f;
                }
                double(&mut response);
                scaled *= 2.0;
            }
        }
        let ridge = shifted(&kernel, 1.0, noise_to_signal);
        let solved = multiply(&kernel, &eliminate(&ridge, &p.residuals).0);
        let spectrum = Spectrum::of(&kernel).unwrap();
        let found =
            ExponentialTime::new(noise_to_signal).unwrap().prompt_fit(&spectrum, &p.residuals);
        let scale = norm(&p.residuals);
        assert_all_close(&found.unwrap(), &integral, scale, p.n());
        assert_all_close(&solved, &integral, scale, p.n());
    });
}

/// App. G: the representative eigenvalue is the weighted mean, and the match time makes flow and
/// Bayes filter agree there.
#[test]
fn app_g_match_time() {
    for eigenvalues in spectra() {
        let largest = eigenvalues.iter().fold(0.0_f64, |a, &b| a.max(b));
        for ratio in [1e-6, 1.0, 1e4] {
            let noise_variance = if largest > 0.0 { 0.7 * ratio * largest } else { ratio };
            let weight = |&l: &f64| 0.7 * l + noise_variance;
            let total: f64 = eigenvalues.iter().map(weight).sum();
            let expected: f64 = eigenvalues.iter().map(|l| weight(l) * l).sum::<f64>() / total;
            let spectrum = diagonal(&eigenvalues);
            let n = eigenvalues.len();
            let found = representative_eigenvalue(&spectrum, 0.7, noise_variance).unwrap();
            assert_close(found, expected, expected, n);
            let time = match_time(&spectrum, 0.7, noise_variance).unwrap();
            let kept = (-time * expected).exp();
            let bayes = noise_variance / (0.7 * expected + noise_variance);
            assert_close(kept, bayes, bayes * (1.0 - bayes.ln()), n);
            if largest == 0.0 {
                assert_close(time, 0.7 / noise_variance, time, 1);
            }
        }
    }
}

/// Prop. G.7: at every time the excess risk is at most the mismatch at the representative
/// eigenvalue plus the spread, as stated; at the match time the spread alone bounds it.
#[test]
fn prop_g_7_spectral_concentration() {
    for eigenvalues in spectra() {
        let (spectrum, n) = (diagonal(&eigenvalues), eigenvalues.len());
        let largest = eigenvalues.iter().fold(0.0_f64, |a, &b| a.max(b));
        let unit = if largest > 0.0 { largest } else { 1.0 };
        for ratio in [1e-3, 0.1, 1.0, 1e3] {
            let (signal_variance, noise_variance) = (2.0 / unit, 2.0 * ratio);
            let noise_to_signal = ratio * unit;
            let weight = |l: f64| signal_variance * l + noise_variance;
            let total: f64 = eigenvalues.iter().map(|&l| weight(l)).sum();
            let mean = eigenvalues.iter().map(|&l| weight(l) * l).sum::<f64>() / total;
            let spread: f64 =
                eigenvalues.iter().map(|&l| weight(l) * (l - mean) * (l - mean)).sum();
            let matched = match_time(&spectrum, signal_variance, noise_variance).unwrap();
            for time in [0.0, 1e-3 / unit, 0.1 / unit, 1.0 / unit, 30.0 / unit, matched] {
                let mismatch =
                    |l: f64| noise_to_signal / (l + noise_to_signal) - (-time * l).exp();
                let excess: f64 =
                    eigenvalues.iter().map(|&l| weight(l) * mismatch(l).powi(2)).sum();
                let steepness = time + 1.0 / noise_to_signal;
                let first = 2.0 * total * mismatch(mean).powi(2);
                let second = 2.0 * steepness.powi(2) * spread;
                let bound =
                    concentration_bound(&spectrum, signal_variance, noise_variance, time)
                        .unwrap();
                let scale = total * (1.0 + (steepness * unit).powi(2));
                assert_close(bound, first + second, scale, n);
                let rounding = 1e3 * n as f64 * f64::EPSILON * total;
                assert!(excess <= bound + rounding, "{excess:e} over {bound:e}");
            }
        }
    }
}

/// `R(t)`, literally.
fn risk(eigenvalues: &[f64], noise_to_signal: f64, time: f64) -> f64 {
    let mode = |&l: &f64| {
        let kept = (-time * l).exp();
        l * kept * kept + noise_to_signal * (1.0 - kept) * (1.0 - kept)
    };
    eigenvalues.iter().map(mode).sum()
}

/// The oracle time against a dense scan that also looks far outside of the mode times.
fn check_oracle(eigenvalues: &[f64], noise_to_signal: f64) {
    let (spectrum, n) = (diagonal(eigenvalues), eigenvalues.len());
    let best = oracle_time(&spectrum, 1.0, noise_to_signal).unwrap();
    let positive: Vec<f64> = eigenvalues.iter().copied().filter(|&l| l > 0.0).collect();
    if positive.is_empty() {
        assert_eq!(best.to_bits(), 0.0_f64.to_bits());
        return;
    }
    let times: Vec<f64> =
        positive.iter().map(|l| (1.0 + l / noise_to_signal).ln() / l).collect();
    let earliest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let latest = times.iter().copied().fold(0.0, f64::max);
    let slack = 1e3 * f64::EPSILON * (1.0 + noise_to_signal / positive[0]);
    assert!(earliest * (1.0 - slack) <= best && best <= latest * (1.0 + slack));

    let least = risk(eigenvalues, noise_to_signal, best);
    let size: f64 = eigenvalues.iter().map(|l| l + noise_to_signal).sum();
    let rounding = 1e3 * n as f64 * f64::EPSILON * least.max(f64::EPSILON * size);
    let (from, to) = (1e-2 * earliest, 1e2 * latest);
    for k in 0..=20_000 {
        let time = from * (to / from).powf(f64::from(k) / 20_000.0);
        let other = risk(eigenvalues, noise_to_signal, time);
        assert!(least <= other + rounding, "{least:e} at {best:e}, {other:e} at {time:e}");
    }
    assert!(least <= risk(eigenvalues, noise_to_signal, 0.0) + rounding);

    // A zero of R'(t)/2 = Σ λe^(−tλ){λ★ − (λ + λ★)e^(−tλ)}, as exactly as it can be computed.
    let (mut slope, mut bend, mut terms) = (0.0, 0.0, 0.0);
    for l in &positive {
        let kept = (-best * l).exp();
        let (up, down) = (l * noise_to_signal * kept, l * (l + noise_to_signal) * kept * kept);
        slope += up - down;
        bend += l * (2.0 * down - up);
        terms += (up + down) * (1.0 + best * l);
    }
    assert!(bend > 0.0 || terms == 0.0);
    assert_close(slope, 0.0, terms, n);
}

/// App. G: the oracle time is the global minimum of the risk, between the smallest and the
/// largest mode time, for spectra of every width and also where the risk has two valleys.
#[test]
fn app_g_oracle_time() {
    for eigenvalues in spectra() {
        let largest = eigenvalues.iter().fold(0.0_f64, |a, &b| a.max(b));
        let unit = if largest > 0.0 { largest } else { 1.0 };
        for ratio in [1e-4, 0.03, 1.0, 30.0] {
            check_oracle(&eigenvalues, ratio * unit);
        }
    }
    // Many fast modes and one slow one: the deeper valley is the late or the early one.
    let two_valleys = |fast: usize| {
        let mut eigenvalues = vec![50.0; fast];
        eigenvalues.push(1.0);
        check_oracle(&eigenvalues, 1.0);
        oracle_time(&diagonal(&eigenvalues), 1.0, 1.0).unwrap()
    };
    let (late, early) = (two_valleys(15), two_valleys(22));
    assert!(late > 0.5 && early < 0.1, "{late} {early}");
}

/// App. G: a single spike is left at its mode time, spikier kernels earlier, and the number of
/// steps is that time over the step size.
#[test]
fn app_g_spike() {
    let mut before = f64::INFINITY;
    for spike in [1e-6, 0.1, 1.0, 7.0, 1e5] {
        let spectrum = diagonal(&[0.0, spike, 0.0]);
        let time = oracle_time(&spectrum, 2.0, 0.5).unwrap();
        let expected = (1.0 + spike / 0.25).ln() / spike;
        assert_close(time, expected, expected * (1.0 + 0.25 / spike), 1);
        assert!(time < before);
        before = time;
        let step = StepSize::fraction(0.01, &spectrum).unwrap();
        let horizon = horizon_of(time, step).unwrap();
        let steps = expected * spike / 0.01;
        assert!((f64::from(horizon) - steps).abs() <= 0.5 + 1e3 * f64::EPSILON * steps);
        let taken = GradientDescent { step, horizon }.response(spike);
        let bayes = BayesFilter::new(0.25).unwrap().response(spike);
        // Half a step of rounding, and the lead of finite steps.
        let lead = discretisation_bound(step, horizon, spike).unwrap();
        assert!((taken - bayes).abs() <= -0.5 * 0.99_f64.ln() + lead);
    }
}

/// Arguments outside their ranges are refused, by name.
#[test]
fn app_g_flow_errors() {
    let spectrum = diagonal(&[2.0, 1.0]);
    let step = StepSize::fraction(0.1, &spectrum).unwrap();
    type Function = fn(&Spectrum, f64, f64) -> Result<f64, Error>;
    let functions: [Function; 5] = [
        representative_eigenvalue,
        match_time,
        oracle_time,
        |spectrum, signal, noise| flow_risk(spectrum, signal, noise, 1.0),
        |spectrum, signal, noise| concentration_bound(spectrum, signal, noise, 1.0),
    ];
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for function in functions {
            assert!(matches!(
                function(&spectrum, bad, 1.0),
                Err(Error::OutOfRange { quantity: "signal variance", found, .. })
                    if found.to_bits() == bad.to_bits()
            ));
            assert!(matches!(
                function(&spectrum, 1.0, bad),
                Err(Error::OutOfRange { quantity: "noise variance", found, .. })
                    if found.to_bits() == bad.to_bits()
            ));
            assert!(matches!(
                function(&spectrum, 1e-300, 1e300),
                Err(Error::OutOfRange { quantity: "noise-to-signal ratio", found, .. })
                    if found.is_infinite()
            ));
        }
        assert!(matches!(
            mode_time(1.0, bad),
            Err(Error::OutOfRange { quantity: "noise-to-signal ratio", .. })
        ));
    }
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            mode_time(bad, 1.0),
            Err(Error::OutOfRange { quantity: "eigenvalue", .. })
        ));
        for refused in [
            flow_risk(&spectrum, 1.0, 1.0, bad),
            concentration_bound(&spectrum, 1.0, 1.0, bad),
            horizon_of(bad, step).map(f64::from),
        ] {
            assert!(matches!(refused, Err(Error::OutOfRange { quantity: "time", .. })));
        }
    }
    assert!(matches!(
        horizon_of(1e12, step),
        Err(Error::OutOfRange { quantity: "number of steps", .. })
    ));
    assert_eq!(horizon_of(0.0, step).unwrap(), 0);
}

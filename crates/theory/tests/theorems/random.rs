//! App. G: what large random prompts settle to, against simulated ones.
//!
//! The yardstick is the central limit theorem for linear statistics `Σ h(λ_i)` of a sample
//! covariance (Bai and Silverstein, 2004), whose mean and variance are known in closed form. So
//! each comparison is in theoretical standard errors, and limits are seen to be reached as `1/n`.

use crate::support::{assert_close, dot};
use fewstep_core::{Error, Matrix, Rng, Spectrum};
use fewstep_theory::flow::{flow_risk, match_time, oracle_time, representative_eigenvalue};
use fewstep_theory::random::MarchenkoPastur;
use std::f64::consts::PI;

const RATIOS: [f64; 9] = [1e-12, 0.01, 0.25, 0.999, 1.0, 1.001, 2.0, 50.0, 1e12];

/// `XXᵀ/d` for an `n × d` matrix of independent entries.
fn kernel(n: usize, d: usize, mut entry: impl FnMut() -> f64) -> Matrix {
    let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..d).map(|_| entry()).collect()).collect();
    let mut values = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            values[i * n + j] = dot(&rows[i], &rows[j]) / d as f64;
            values[j * n + i] = values[i * n + j];
        }
    }
    Matrix::new(n, n, values).unwrap()
}

/// An average over the law by Simpson's rule in the angle, from the density as the paper writes
/// it; for functions that vary on the scale of the support, and `γ` not next to 1.
fn simpson(ratio: f64, function: impl Fn(f64) -> f64) -> f64 {
    let cells = 4096;
    let (smallest, largest) = ((1.0 - ratio.sqrt()).powi(2), (1.0 + ratio.sqrt()).powi(2));
    let mut sum = (1.0 - 1.0 / ratio).max(0.0) * function(0.0);
    for k in 1..cells {
        let angle = PI * f64::from(k) / f64::from(cells);
        let eigenvalue = 1.0 + ratio + 2.0 * ratio.sqrt() * angle.cos();
        let height = ((largest - eigenvalue) * (eigenvalue - smallest)).max(0.0).sqrt();
        let density = height / (2.0 * PI * ratio * eigenvalue);
        let width = 2.0 * ratio.sqrt() * angle.sin() * PI / f64::from(cells);
        sum += f64::from(if k % 2 == 1 { 4 } else { 2 }) / 3.0
            * width
            * density
            * function(eigenvalue);
    }
    sum
}

/// How a number that is settled by many eigenvalues varies around its limit.
#[derive(Clone, Copy)]
struct Fluctuation {
    mean: f64,
    variance: f64,
}

/// Mean (beyond `n` times the limit) and variance of `Σ h(λ_i)` for entries with mean 0,
/// variance 1 and fourth cumulant `kurtosis`, as `n` grows.
///
/// With `h(1 + γ + 2√γ cos θ) = a_0/2 + Σ a_k cos kθ`:
/// mean `(h(λ₋) + h(λ₊))/4 − a_0/4 + κ a_2/2`, variance `½ Σ k a_k² + κ a_1²/4`.
fn linear_statistic(ratio: f64, kurtosis: f64, function: impl Fn(f64) -> f64) -> Fluctuation {
    let nodes = 2048;
    let at = |angle: f64| function(1.0 + ratio + 2.0 * ratio.sqrt() * angle.cos());
    let values: Vec<f64> =
        (0..nodes).map(|j| at(PI * (f64::from(j) + 0.5) / f64::from(nodes))).collect();
    let coefficient = |k: i32| {
        let angle = |j: usize| PI * (j as f64 + 0.5) / f64::from(nodes) * f64::from(k);
        let sum: f64 = values.iter().enumerate().map(|(j, v)| v * angle(j).cos()).sum();
        2.0 * sum / f64::from(nodes)
    };
    let mean = 0.25 * (at(0.0) + at(PI) - coefficient(0)) + 0.5 * kurtosis * coefficient(2);
    let gaussian: f64 = (1..80).map(|k| 0.5 * f64::from(k) * coefficient(k).powi(2)).sum();
    Fluctuation { mean, variance: gaussian + 0.25 * kurtosis * coefficient(1).powi(2) }
}

/// Every draw within five standard deviations of its expectation, and their mean within four
/// standard errors; all in units in which the limit is approached as `1/n`.
#[track_caller]
fn assert_settles(draws: &[f64], limit: f64, n: usize, fluctuation: Fluctuation) {
    let Fluctuation { mean, variance } = fluctuation;
    let deviation = variance.sqrt();
    let scaled: Vec<f64> = draws.iter().map(|draw| n as f64 * (draw - limit) - mean).collect();
    for gap in &scaled {
        assert!(gap.abs() <= 5.0 * deviation, "{gap:e} in units of {deviation:e}");
    }
    let average = scaled.iter().sum::<f64>() / scaled.len() as f64;
    let error = deviation / (scaled.len() as f64).sqrt();
    assert!(average.abs() <= 4.0 * error, "{average:e} in units of {error:e}");
}

/// Prop. G.9, the law itself: atom and density together have mass 1, for every ratio; they
/// vanish outside the support.
#[test]
fn prop_g_9_law_has_mass_one() {
    for ratio in RATIOS {
        let law = MarchenkoPastur::new(ratio).unwrap();
        assert_close(law.integral(|_| 1.0).unwrap(), 1.0, 1.0, 1);
        let (smallest, largest) = law.support();
        assert_close(
            smallest.sqrt() + largest.sqrt(),
            2.0 * ratio.sqrt().max(1.0),
            largest.sqrt(),
            1,
        );
        assert_close(largest - smallest, 4.0 * ratio.sqrt(), largest, 1);
        for outside in [-1.0, 0.0, 0.99 * smallest, 1.01 * largest, smallest, largest] {
            assert_eq!(law.density(outside).to_bits(), 0.0_f64.to_bits());
        }
        assert!(law.density(0.5 * (smallest + largest)) > 0.0);
        assert!(law.density(f64::NAN).is_nan());
    }
    // The density alone, without the law's own quadrature.
    for (ratio, mass) in [(0.25, 1.0), (2.0, 0.5), (50.0, 0.02)] {
        let law = MarchenkoPastur::new(ratio).unwrap();
        assert_close(law.atom(), 1.0 - mass, 1.0, 1);
        let (smallest, largest) = law.support();
        // λ = λ₋ + (λ₊ − λ₋) sin²(πu/2) flattens both square roots; the rule is then exact.
        let nodes = 256;
        let sum: f64 = (0..nodes)
            .map(|k| {
                let angle = 0.5 * PI * (f64::from(k) + 0.5) / f64::from(nodes);
                let eigenvalue = smallest + (largest - smallest) * angle.sin().powi(2);
                let width = (largest - smallest) * (2.0 * angle).sin();
                law.density(eigenvalue) * width * 0.5 * PI / f64::from(nodes)
            })
            .sum();
        assert_close(sum, mass, 1.0, 1);
    }
}

/// Prop. G.9, the law itself: its Stieltjes transform `m(z)` solves `γzm² + (z + γ − 1)m + 1 = 0`,
/// also at `γ = 1` and close to the edge at 0.
#[test]
fn prop_g_9_stieltjes_transform() {
    for ratio in RATIOS {
        let law = MarchenkoPastur::new(ratio).unwrap();
        for shift in [1e-12, 1e-6, 1e-2, 1.0, 30.0, 1e6] {
            let found = law.integral(|eigenvalue| 1.0 / (eigenvalue + shift)).unwrap();
            // The positive root for z = −shift: −γsm² + (γ − 1 − s)m + 1 = 0.
            let middle = ratio - 1.0 - shift;
            let root = middle.hypot(2.0 * (ratio * shift).sqrt());
            let expected = if middle >= 0.0 {
                (middle + root) / (2.0 * ratio * shift)
            } else {
                2.0 / (root - middle)
            };
            // γ − 1 carries the rounding of γ against the edge at 0.
            let conditioning = 1.0 + (ratio + 1.0) / root;
            assert_close(found, expected, expected * conditioning, 1);
        }
    }
}

/// App. G: the moments are `m_1 = 1`, `m_2 = 1 + γ`, `m_3 = 1 + 3γ + γ²`,
/// `m_4 = 1 + 6γ + 6γ² + γ³`, and the averages of powers.
#[test]
fn app_g_moments() {
    for ratio in RATIOS {
        let law = MarchenkoPastur::new(ratio).unwrap();
        let expected = [
            1.0,
            1.0,
            1.0 + ratio,
            1.0 + 3.0 * ratio + ratio * ratio,
            1.0 + 6.0 * ratio + 6.0 * ratio * ratio + ratio.powi(3),
        ];
        for (order, &moment) in (0..).zip(&expected) {
            assert_close(law.moment(order), moment, moment, 1);
            let power = f64::from(order);
            let average = law.integral(|eigenvalue| eigenvalue.powf(power)).unwrap();
            assert_close(average, moment, moment, 1);
        }
        for order in 5..12_u32 {
            let power = f64::from(order);
            let average = law.integral(|eigenvalue| eigenvalue.powf(power)).unwrap();
            assert_close(law.moment(order), average, average, 10);
        }
    }
}

/// Prop. G.9: the risk limit is the integral of `ψ_t` against the law as written, and stays
/// exact for extreme times, where the edge at 0 decides.
#[test]
fn prop_g_9_risk_limit_is_the_integral() {
    for ratio in [0.01, 0.25, 1.0, 2.0, 50.0] {
        let law = MarchenkoPastur::new(ratio).unwrap();
        for time in [0.0, 0.01, 0.3, 2.0, 20.0] {
            let expected = simpson(ratio, |l| {
                let kept = (-time * l).exp();
                3.0 * l * kept * kept + 0.5 * (1.0 - kept) * (1.0 - kept)
            });
            let found = law.risk_limit(time, 3.0, 0.5).unwrap();
            assert_close(found, expected, 3.5, 1);
        }
        // For ever, all noise is let in where the kernel is not 0.
        if (ratio - 1.0).abs() > 0.1 {
            let forever = law.risk_limit(1e12, 3.0, 0.5).unwrap();
            assert_close(forever, 0.5 * (1.0 / ratio).min(1.0), 0.5, 1);
        }
    }
    // At γ = 1, ∫ e^(−sλ) dμ_1 = e^(−2s){I_0(2s) + I_1(2s)}; for such s three terms of the Bessel
    // functions' asymptotic series are exact to rounding.
    let decay = |s: f64| {
        let x = 2.0 * s;
        let zero = 1.0 + 1.0 / (8.0 * x) + 9.0 / (128.0 * x * x);
        let one = 1.0 - 3.0 / (8.0 * x) - 15.0 / (128.0 * x * x);
        (zero + one) / (2.0 * PI * x).sqrt()
    };
    let law = MarchenkoPastur::new(1.0).unwrap();
    for time in [1e6, 1e9, 1e12] {
        let found = law.integral(|l| (-time * l).exp()).unwrap();
        assert_close(found, decay(time), decay(time), 1);
        let noise = law.risk_limit(time, 1e-12, 1.0).unwrap();
        let expected = 1.0 - 2.0 * decay(time) + decay(2.0 * time);
        assert_close(noise, expected, 1.0, 1);
    }
}

/// Prop. G.9: the risk per example of simulated Gaussian prompts settles to the limit, at all
/// times and ratios, with the gap shrinking as `1/n`.
#[test]
fn prop_g_9_risk_settles() {
    let mut rng = Rng::new(91);
    let (signal_variance, noise_variance) = (2.0, 0.5);
    for (n, draws) in [(40, 20), (160, 6)] {
        for (ratio, d) in [(0.25, 4 * n), (1.0, n), (2.0, n / 2)] {
            let law = MarchenkoPastur::new(ratio).unwrap();
            let spectra: Vec<Spectrum> = (0..draws)
                .map(|_| Spectrum::of(kernel(n, d, || rng.normal())).unwrap())
                .collect();
            for time in [0.0, 0.1, 0.6, 2.0, 8.0] {
                let psi = |l: f64| {
                    let kept = (-time * l).exp();
                    signal_variance * l * kept * kept + noise_variance * (1.0 - kept).powi(2)
                };
                let risks: Vec<f64> = spectra
                    .iter()
                    .map(|spectrum| {
                        let literal =
                            spectrum.eigenvalues().iter().map(|&l| psi(l)).sum::<f64>();
                        let risk = flow_risk(spectrum, signal_variance, noise_variance, time);
                        assert_close(risk.unwrap(), literal, 2.5 * n as f64, 1);
                        literal / n as f64
                    })
                    .collect();
                let limit = law.risk_limit(time, signal_variance, noise_variance).unwrap();
                assert_settles(&risks, limit, n, linear_statistic(ratio, 0.0, psi));
            }
        }
    }
}

/// App. G, "and its minimiser": the limit's oracle time is the minimum of its own curve, and the
/// oracle times of simulated prompts settle to it.
#[test]
fn app_g_oracle_time_settles() {
    for ratio in [0.01, 0.25, 0.99, 1.0, 2.0, 50.0] {
        let law = MarchenkoPastur::new(ratio).unwrap();
        for noise in [1e-3, 0.2, 1.0, 30.0] {
            let best = law.oracle_time(1.0, noise).unwrap();
            let curve = |time: f64| law.risk_limit(time, 1.0, noise).unwrap();
            let least = curve(best);
            for k in -40..=40 {
                let other = curve(best * 10.0_f64.powf(0.1 * f64::from(k)));
                assert!(least <= other * (1.0 + 1e3 * f64::EPSILON));
            }
            // A zero of the slope: what is gained and what is lost there are equal.
            let kept = |l: f64| (-best * l).exp();
            let lost = law.integral(|l| l * noise * kept(l)).unwrap();
            let gained = law.integral(|l| l * (l + noise) * kept(l) * kept(l)).unwrap();
            let rounding = law.integral(|l| l * kept(l) * (1.0 + best * l)).unwrap();
            assert_close(gained, lost, lost + noise * rounding, 10);
        }
    }

    let mut rng = Rng::new(17);
    let (n, noise) = (140, 0.3);
    for (ratio, d) in [(0.25, 4 * n), (1.0, n), (2.0, n / 2)] {
        let best = MarchenkoPastur::new(ratio).unwrap().oracle_time(1.0, noise).unwrap();
        let times: Vec<f64> = (0..8)
            .map(|_| {
                let spectrum = Spectrum::of(kernel(n, d, || rng.normal())).unwrap();
                oracle_time(&spectrum, 1.0, noise).unwrap()
            })
            .collect();
        // To first order a shift of the slope moves its zero by −slope/bend.
        let kept = |l: f64| (-best * l).exp();
        let bend = simpson(ratio, |l| l * l * kept(l) * (2.0 * (l + noise) * kept(l) - noise));
        let moved = |l: f64| -l * kept(l) * (noise - (l + noise) * kept(l)) / bend;
        assert_settles(&times, best, n, linear_statistic(ratio, 0.0, moved));
    }
}

/// Prop. G.10: for normal, two-valued and uniform entries alike, representative eigenvalue and
/// match time settle to their limits; the two forms of the limit agree.
#[test]
fn prop_g_10_representative_eigenvalue_settles() {
    let mut rng = Rng::new(110);
    let (n, draws) = (100, 16);
    let (signal_variance, noise_variance) = (0.8, 0.4);
    let noise_to_signal = 0.5;
    type Entry = fn(&mut Rng) -> f64;
    let entries: [(Entry, f64); 3] = [
        (Rng::normal, 0.0),
        (Rng::sign, -2.0),
        (|rng| 12.0_f64.sqrt() * (rng.uniform() - 0.5), -1.2),
    ];
    for (ratio, d) in [(0.25, 4 * n), (1.0, n), (2.0, n / 2)] {
        let law = MarchenkoPastur::new(ratio).unwrap();
        let limit = law.representative_eigenvalue(signal_variance, noise_variance).unwrap();
        let by_moments = (signal_variance * (1.0 + ratio) + noise_variance)
            / (signal_variance + noise_variance);
        assert_close(limit, by_moments, by_moments, 1);
        assert_close(limit, (1.0 + ratio + noise_to_signal) / (1.0 + noise_to_signal), 3.0, 1);
        let time = law.match_time(signal_variance, noise_variance).unwrap();
        assert_close(time, (1.0 + limit / noise_to_signal).ln() / limit, time, 1);

        for (entry, kurtosis) in entries {
            let (mut means, mut times) = (vec![], vec![]);
            for draw in 0..draws {
                let kernel = kernel(n, d, || entry(&mut rng));
                // Σλ = tr K and Σλ² = ‖K‖².
                let first: f64 = (0..n).map(|i| kernel[(i, i)]).sum();
                let second: f64 = kernel.values().iter().map(|x| x * x).sum();
                let mean =
                    (second + noise_to_signal * first) / (first + noise_to_signal * n as f64);
                means.push(mean);
                times.push((1.0 + mean / noise_to_signal).ln() / mean);
                if draw == 0 {
                    let spectrum = Spectrum::of(kernel).unwrap();
                    let found =
                        representative_eigenvalue(&spectrum, signal_variance, noise_variance);
                    assert_close(found.unwrap(), mean, mean, n);
                    let found = match_time(&spectrum, signal_variance, noise_variance).unwrap();
                    assert_close(found, times[0], times[0], n);
                }
            }
            // To first order the mean is a linear statistic, and the time a function of it.
            let moved =
                |l: f64| (l * l + (noise_to_signal - limit) * l) / (1.0 + noise_to_signal);
            assert_settles(&means, limit, n, linear_statistic(ratio, kurtosis, moved));
            let rate = 1.0 / (limit * (limit + noise_to_signal)) - time / limit;
            assert_settles(
                &times,
                time,
                n,
                linear_statistic(ratio, kurtosis, |l| rate * moved(l)),
            );
        }
    }
}

/// App. G: more feature directions per example, a longer horizon.
#[test]
fn app_g_more_heads_longer_horizon() {
    for noise in [0.01, 1.0, 100.0] {
        let times: Vec<f64> = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25]
            .iter()
            .map(|&ratio| MarchenkoPastur::new(ratio).unwrap().match_time(1.0, noise).unwrap())
            .collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

/// Arguments outside their ranges and functions that cannot be integrated are refused.
#[test]
fn app_g_random_errors() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            MarchenkoPastur::new(bad),
            Err(Error::OutOfRange { quantity: "aspect ratio", found, .. })
                if found.to_bits() == bad.to_bits()
        ));
        let law = MarchenkoPastur::new(2.0).unwrap();
        for refused in [
            law.risk_limit(1.0, bad, 1.0),
            law.oracle_time(bad, 1.0),
            law.representative_eigenvalue(bad, 1.0),
            law.match_time(bad, 1.0),
        ] {
            assert!(matches!(
                refused,
                Err(Error::OutOfRange { quantity: "signal variance", .. })
            ));
        }
        for refused in [
            law.risk_limit(1.0, 1.0, bad),
            law.oracle_time(1.0, bad),
            law.representative_eigenvalue(1.0, bad),
            law.match_time(1.0, bad),
        ] {
            assert!(matches!(
                refused,
                Err(Error::OutOfRange { quantity: "noise variance", .. })
            ));
        }
    }
    let law = MarchenkoPastur::new(2.0).unwrap();
    assert!(matches!(
        law.risk_limit(-1.0, 1.0, 1.0),
        Err(Error::OutOfRange { quantity: "time", found: -1.0, .. })
    ));
    // The share of eigenvalues at 0 makes 1/λ infinite.
    assert!(matches!(
        law.integral(|eigenvalue| 1.0 / eigenvalue),
        Err(Error::NotFinite { quantity: "integrand", index: 0, value }) if value.is_infinite()
    ));
    // A jump is too rough; a kink is not.
    let jump = law.integral(|eigenvalue| if eigenvalue < 1.234 { 0.0 } else { 1.0 });
    assert!(matches!(
        jump,
        Err(Error::NotConverged { residual, tolerance, iterations, .. })
            if residual > tolerance && iterations > 1_000_000
    ));
    let kink = law.integral(|eigenvalue| (eigenvalue - 1.5).abs()).unwrap();
    let mirrored = law.integral(|eigenvalue| (eigenvalue - 1.5).max(0.0)).unwrap();
    // |x| = 2x₊ − x, and the average of x is 1 − 1.5.
    assert!((kink - (2.0 * mirrored + 0.5)).abs() < 3e-10);
}

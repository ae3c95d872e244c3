//! Why no number of steps suits two signal-to-noise ratios: Prop. 6.1 and Prop. E.6.

use super::literal::{
    assert_within, bayes_to_query, compose, plus, projected, random_basis, sandwich,
    steps_on_prompt,
};
use crate::support::{
    assert_all_close, assert_close, dot, mean_and_error, multiply, norm, normals, product,
    shifted, trace,
};
use fewstep_core::risk::{Benchmark, prompt_gap};
use fewstep_core::{Filter, GradientDescent, Rng, Spectrum, StepSize};
use fewstep_theory::risk::{projector_gap, separation_bound};

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

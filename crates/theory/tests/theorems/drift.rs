//! App. F.1: real gradient steps against linear ones, on models whose constants are known.

use crate::support::{
    Prompt, assert_all_close, assert_close, dot, for_prompts, multiply, norm, normals, product,
    subtract, transpose,
};
use fewstep_core::{Error, Matrix, Rng, Spectrum, StepSize};
use fewstep_theory::drift::{LocalConstants, Observation, Watch};

/// A model with curvature whose constants are known on all of parameter space.
///
/// ```text
/// s_i(θ) = sin(v_i·θ + b_i) − sin b_i,   ‖J‖ ≤ ‖V‖,   ‖J(θ) − J(θ')‖ ≤ max‖v_i‖ ‖V‖ ‖θ − θ'‖
/// ```
struct Waves<'a> {
    directions: &'a [Vec<f64>],
    residuals: &'a [f64],
}

/// Phases at which neither slope nor curvature vanishes.
fn phase(example: usize) -> f64 {
    0.4 + 0.9 * (example as f64 * 0.7).sin()
}

impl<'a> Waves<'a> {
    fn of(prompt: &'a Prompt) -> Self {
        Self { directions: &prompt.features, residuals: &prompt.residuals }
    }

    fn shift(&self, theta: &[f64]) -> Vec<f64> {
        let wave =
            |(i, v): (usize, &Vec<f64>)| (dot(v, theta) + phase(i)).sin() - phase(i).sin();
        self.directions.iter().enumerate().map(wave).collect()
    }

    fn jacobian(&self, theta: &[f64]) -> Vec<Vec<f64>> {
        let row = |(i, v): (usize, &Vec<f64>)| {
            let slope = (dot(v, theta) + phase(i)).cos();
            v.iter().map(|x| slope * x).collect()
        };
        self.directions.iter().enumerate().map(row).collect()
    }

    fn kernel(&self, theta: &[f64]) -> Vec<Vec<f64>> {
        let jacobian = self.jacobian(theta);
        product(&jacobian, &transpose(&jacobian))
    }

    /// `B`, `L`, `E`; the Frobenius norm stands for the operator norm.
    fn known(&self) -> (f64, f64, f64) {
        let bound = norm(&self.directions.concat());
        let longest = self.directions.iter().map(|v| norm(v)).fold(0.0, f64::max);
        let worst = |(i, r): (usize, &f64)| (r + phase(i).sin()).abs() + 1.0;
        let scale = norm(&self.residuals.iter().enumerate().map(worst).collect::<Vec<_>>());
        (bound, longest * bound, scale)
    }

    fn constants(&self) -> LocalConstants {
        let (bound, lipschitz, scale) = self.known();
        LocalConstants::new(bound, lipschitz, scale).unwrap()
    }

    /// `1/B²`, or 1 if nothing moves.
    fn step_limit(&self) -> f64 {
        let (bound, _, _) = self.known();
        if bound > 0.0 { 1.0 / (bound * bound) } else { 1.0 }
    }

    /// `θ_0, …, θ_T` of literal gradient descent, on the waves or on their tangent at 0.
    fn descend(&self, step: f64, horizon: usize, linear: bool) -> Vec<Vec<f64>> {
        let tangent = self.jacobian(&vec![0.0; self.directions[0].len()]);
        let mut path = vec![vec![0.0; self.directions[0].len()]];
        for _ in 0..horizon {
            let theta = path.last().unwrap();
            let (fit, jacobian) = if linear {
                (multiply(&tangent, theta), tangent.clone())
            } else {
                (self.shift(theta), self.jacobian(theta))
            };
            let gradient = multiply(&transpose(&jacobian), &subtract(self.residuals, &fit));
            path.push(theta.iter().zip(&gradient).map(|(t, g)| t + step * g).collect());
        }
        path
    }

    fn linear_shift(&self, theta: &[f64]) -> Vec<f64> {
        multiply(&self.jacobian(&vec![0.0; theta.len()]), theta)
    }
}

/// The operator norm of a symmetric matrix, from below, by power iteration on its square.
fn operator_norm(a: &[Vec<f64>]) -> f64 {
    let mut vector: Vec<f64> = (0..a.len()).map(|i| 1.0 + (i as f64).sin()).collect();
    let mut length = 0.0;
    for _ in 0..100 {
        vector = multiply(a, &multiply(a, &vector));
        length = norm(&vector);
        if length == 0.0 {
            return 0.0;
        }
        vector.iter_mut().for_each(|x| *x /= length);
    }
    length.sqrt()
}

fn difference(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    a.iter().zip(b).map(|(x, y)| subtract(x, y)).collect()
}

/// `found ≤ bound`, up to the rounding of `found`.
#[track_caller]
fn assert_at_most(found: f64, bound: f64, scale: f64, n: usize) {
    let rounding = 1e3 * n as f64 * f64::EPSILON * scale;
    assert!(found <= bound + rounding, "{found:e} is over {bound:e} + {rounding:e}");
}

/// A sequence that approaches 1 from below, halving its distance with each entry.
#[track_caller]
fn assert_attained(shares: &[f64]) {
    assert!(shares.iter().all(|&share| share <= 1.0), "{shares:?}");
    for pair in shares.windows(2) {
        assert!(1.0 - pair[1] <= 0.6 * (1.0 - pair[0]), "{shares:?}");
    }
}

/// A sequence whose distance to a limit halves with each entry.
#[track_caller]
fn assert_tends_to(limit: f64, values: &[f64]) {
    for pair in values.windows(2) {
        let (before, after) = ((pair[0] - limit).abs(), (pair[1] - limit).abs());
        assert!(after <= 0.6 * before, "{values:?} does not tend to {limit}");
    }
}

/// One weight and one example, `s(θ) = aθ + bθ²/2`: `T` literal steps with residual 1.
struct Parabola {
    slope: f64,
    curvature: f64,
    step: f64,
}

impl Parabola {
    fn shift(&self, theta: f64) -> f64 {
        self.slope * theta + 0.5 * self.curvature * theta * theta
    }

    fn jacobian(&self, theta: f64) -> f64 {
        self.slope + self.curvature * theta
    }

    /// The weight after `0, …, T` steps, real and linear.
    fn descend(&self, horizon: u32) -> Vec<(f64, f64)> {
        let mut path = vec![(0.0, 0.0)];
        for _ in 0..horizon {
            let (real, linear) = *path.last().unwrap();
            path.push((
                real + self.step * self.jacobian(real) * (1.0 - self.shift(real)),
                linear + self.step * self.slope * (1.0 - self.slope * linear),
            ));
        }
        path
    }

    /// The constants on the smallest ball around 0 that holds the path.
    fn constants(&self, path: &[(f64, f64)]) -> LocalConstants {
        let radius = path.iter().map(|(real, _)| real.abs()).fold(0.0, f64::max);
        let scale = (1.0 - self.shift(-radius)).abs().max((1.0 - self.shift(radius)).abs());
        let bound = self.slope + self.curvature * radius;
        LocalConstants::new(bound, self.curvature, scale).unwrap()
    }

    fn deviation(&self, real: f64, linear: f64) -> f64 {
        (self.shift(real) - self.slope * linear).abs()
    }

    /// Ever smaller steps: `ρT` is halved from each to the next.
    fn family(horizon: u32) -> impl Iterator<Item = Self> {
        let time = |k: i32| 0.5_f64.powi(k);
        (6..14).map(move |k| Self {
            slope: 1.3,
            curvature: 0.7,
            step: time(k) / f64::from(horizon),
        })
    }
}

/// Lem. F.2: a move leaves the tangent by at most half the Lipschitz constant times its square;
/// a parabola leaves it by exactly that.
#[test]
fn lem_f_2_remainder() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        let constants = waves.constants();
        let mut rng = Rng::new(p.seed);
        let size = waves.step_limit().sqrt();
        for length in [0.01, 0.3, 2.0, 30.0] {
            let theta: Vec<f64> =
                normals(&mut rng, p.query.len()).iter().map(|x| x * size).collect();
            let moved: Vec<f64> =
                normals(&mut rng, p.query.len()).iter().map(|x| x * size * length).collect();
            let end: Vec<f64> = theta.iter().zip(&moved).map(|(t, u)| t + u).collect();
            let tangent = multiply(&waves.jacobian(&theta), &moved);
            let change = subtract(&waves.shift(&end), &waves.shift(&theta));
            let remainder = norm(&subtract(&change, &tangent));
            let bound = constants.remainder_bound(norm(&moved)).unwrap();
            assert_at_most(remainder, bound, 1.0 + norm(&tangent), p.n());
        }
    });

    let parabola = Parabola { slope: 1.3, curvature: 0.7, step: 0.1 };
    let constants = LocalConstants::new(9.0, 0.7, 9.0).unwrap();
    for (theta, moved) in [(0.0, 1.0), (0.4, -2.0), (-1.0, 3.0)] {
        let change = parabola.shift(theta + moved) - parabola.shift(theta);
        let remainder = (change - parabola.jacobian(theta) * moved).abs();
        assert_close(constants.remainder_bound(moved.abs()).unwrap(), remainder, 10.0, 1);
    }
}

/// Lem. F.4: a real step is `ρ K_t e_t` plus a remainder that the square of the step bounds; for
/// a parabola the bound is attained.
#[test]
fn lem_f_4_recursion() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        let constants = waves.constants();
        for fraction in [0.1, 1.0] {
            let step = fraction * waves.step_limit();
            let path = waves.descend(step, 20, false);
            for pair in path.windows(2) {
                let (now, next) = (waves.shift(&pair[0]), waves.shift(&pair[1]));
                let pull = multiply(&waves.kernel(&pair[0]), &subtract(&p.residuals, &now));
                let expected: Vec<f64> =
                    now.iter().zip(&pull).map(|(f, k)| f + step * k).collect();
                let moved = norm(&subtract(&pair[1], &pair[0]));
                let remainder = norm(&subtract(&next, &expected));
                let bound = constants.remainder_bound(moved).unwrap();
                assert_at_most(remainder, bound, 1.0 + norm(&p.residuals), p.n());
            }
        }
    });

    let parabola = Parabola { slope: 1.3, curvature: 0.7, step: 0.2 };
    let path = parabola.descend(10);
    let constants = parabola.constants(&path);
    for pair in path.windows(2) {
        let (now, next) = (pair[0].0, pair[1].0);
        let pull = parabola.step * parabola.jacobian(now).powi(2) * (1.0 - parabola.shift(now));
        let remainder = parabola.shift(next) - parabola.shift(now) - pull;
        assert_close(constants.remainder_bound((next - now).abs()).unwrap(), remainder, 1.0, 1);
    }
}

/// Thm. F.5: at every horizon real and linear outputs differ by at most the proof's sum, which is
/// at most the stated bound, which is at most the bound with the larger of the two residual
/// scales.
#[test]
fn thm_f_5_deviation_bound() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        let constants = waves.constants();
        assert!(constants.residual_scale() >= norm(&p.residuals));
        for fraction in [0.05, 0.4, 1.0] {
            let step = fraction * waves.step_limit();
            let real = waves.descend(step, 30, false);
            let linear = waves.descend(step, 30, true);
            for (horizon, (theta, tangent)) in (0..).zip(real.iter().zip(&linear)) {
                let gap = norm(&subtract(&waves.shift(theta), &waves.linear_shift(tangent)));
                let sum = constants.deviation_sum(step, horizon).unwrap();
                let bound = constants.deviation_bound(step, horizon).unwrap();
                assert_at_most(gap, sum, 1.0 + norm(&p.residuals), p.n());
                assert!(1.5 * sum <= bound * (1.0 + 4.0 * f64::EPSILON));
            }
        }
    });
}

/// Thm. F.5, the proof's sum: with one weight and one example it is attained as steps become
/// small, at every horizon; the stated bound is one and a half times its leading term.
#[test]
fn thm_f_5_sum_is_attained() {
    for horizon in [1_u32, 2, 7, 40] {
        let steps = f64::from(horizon);
        let shares: Vec<(f64, f64)> = Parabola::family(horizon)
            .map(|parabola| {
                let path = parabola.descend(horizon);
                let constants = parabola.constants(&path);
                let (real, linear) = path[horizon as usize];
                let gap = parabola.deviation(real, linear);
                let sum = constants.deviation_sum(parabola.step, horizon).unwrap();
                let bound = constants.deviation_bound(parabola.step, horizon).unwrap();
                (gap / sum, gap / bound * 1.5 * steps / (steps - 0.5))
            })
            .collect();
        assert_attained(&shares.iter().map(|share| share.0).collect::<Vec<_>>());
        assert_attained(&shares.iter().map(|share| share.1).collect::<Vec<_>>());
    }
}

/// Thm. F.5, "in particular": the gap is quadratic in step size times horizon. Half the step
/// quarters it; half the horizon, too, up to the proof's own `T/2`.
#[test]
fn thm_f_5_gap_is_quadratic() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        if waves.known().0 == 0.0 {
            return; // nothing moves, and there is no gap
        }
        let gap = |step: f64| {
            let real = waves.descend(step, 6, false);
            let linear = waves.descend(step, 6, true);
            norm(&subtract(&waves.shift(&real[6]), &waves.linear_shift(&linear[6])))
        };
        let gaps: Vec<f64> =
            (9..15).map(|k| gap(0.5_f64.powi(k) * waves.step_limit())).collect();
        let ratios: Vec<f64> = gaps.windows(2).map(|pair| pair[0] / pair[1]).collect();
        assert_tends_to(4.0, &ratios);
    });

    for half in [1_u8, 4, 32] {
        let expected = 4.0 * (f64::from(half) - 0.25) / (f64::from(half) - 0.5);
        let half = usize::from(half);
        let ratios: Vec<f64> = Parabola::family(64)
            .map(|parabola| {
                let path = parabola.descend(64);
                let deviation = |step: usize| {
                    let (real, linear) = path[step];
                    parabola.deviation(real, linear)
                };
                deviation(2 * half) / deviation(half)
            })
            .collect();
        assert_tends_to(expected, &ratios);
    }
}

/// Cor. F.6: the kernel moves by at most `2LB²ρtE` along the way, and for a parabola with small
/// steps by just that much.
#[test]
fn cor_f_6_kernel_drift() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        let constants = waves.constants();
        for fraction in [0.1, 1.0] {
            let step = fraction * waves.step_limit();
            let path = waves.descend(step, 12, false);
            let first = waves.kernel(&path[0]);
            for (horizon, theta) in (0..).zip(&path) {
                let drift = operator_norm(&difference(&waves.kernel(theta), &first));
                let bound = constants.kernel_drift_bound(step, horizon).unwrap();
                assert_at_most(drift, bound, waves.known().0.powi(2), p.n());
            }
        }
    });

    for horizon in [1_u32, 9] {
        let shares: Vec<f64> = Parabola::family(horizon)
            .map(|parabola| {
                let path = parabola.descend(horizon);
                let last = parabola.jacobian(path[horizon as usize].0);
                let drift = last.powi(2) - parabola.slope.powi(2);
                let constants = parabola.constants(&path);
                drift / constants.kernel_drift_bound(parabola.step, horizon).unwrap()
            })
            .collect();
        assert_attained(&shares);
    }
}

/// App. F.1, last paragraph: the correction at the query, too, is within its bound at every
/// horizon, and its gap is quadratic in the step size.
#[test]
fn app_f_query_deviation() {
    let query_phase = 0.8_f64;
    for_prompts(|p| {
        let waves = Waves::of(p);
        let (query_bound, query_lipschitz) = (norm(&p.query), norm(&p.query).powi(2));
        let gaps = |step: f64| -> Vec<f64> {
            let real = waves.descend(step, 20, false);
            let linear = waves.descend(step, 20, true);
            let gap = |(theta, tangent): (&Vec<f64>, &Vec<f64>)| {
                let real = (dot(&p.query, theta) + query_phase).sin() - query_phase.sin();
                (real - query_phase.cos() * dot(&p.query, tangent)).abs()
            };
            real.iter().zip(&linear).map(gap).collect()
        };
        for fraction in [0.05, 0.4, 1.0] {
            let step = fraction * waves.step_limit();
            for (horizon, gap) in (0..).zip(gaps(step)) {
                let bound = waves
                    .constants()
                    .query_deviation_bound(query_bound, query_lipschitz, step, horizon)
                    .unwrap();
                assert_at_most(gap, bound, 1.0 + norm(&p.residuals), p.n());
            }
        }
        if waves.known().0 > 0.0 {
            let last = |k: i32| gaps(0.5_f64.powi(k) * waves.step_limit())[20];
            let ratios: Vec<f64> = (8..13).map(|k| last(k) / last(k + 1)).collect();
            assert_tends_to(4.0, &ratios);
        }
    });
}

/// App. F.1, the query bound's own sum: the gap between real and linear weights obeys
/// `δ_{t+1} ≤ δ_t + ρ L(ρtBE) E + ρ B (L/2)(ρtBE)²`, which the closed form adds up.
#[test]
fn app_f_query_deviation_sum() {
    let (bound, lipschitz, scale, step) = (1.7, 0.6, 1.2, 0.3);
    let constants = LocalConstants::new(bound, lipschitz, scale).unwrap();
    let (query_bound, query_lipschitz) = (0.9, 2.0);
    let mut weights_gap = 0.0;
    for horizon in 0..40_u32 {
        let path = step * f64::from(horizon) * bound * scale;
        let expected = 0.5 * query_lipschitz * path * path + query_bound * weights_gap;
        let found = constants
            .query_deviation_bound(query_bound, query_lipschitz, step, horizon)
            .unwrap();
        assert_close(found, expected, 1.0 + expected, 1);
        weights_gap += step * lipschitz * path * scale;
        weights_gap += step * bound * 0.5 * lipschitz * path * path;
    }
}

/// Constants and steps outside their ranges are refused.
#[test]
fn app_f_errors() {
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        for (constants, name) in [
            (LocalConstants::new(bad, 1.0, 1.0), "bound on the Jacobian"),
            (LocalConstants::new(1.0, bad, 1.0), "Lipschitz constant of the Jacobian"),
            (LocalConstants::new(1.0, 1.0, bad), "residual scale"),
        ] {
            assert!(matches!(
                constants,
                Err(Error::OutOfRange { quantity, found, .. })
                    if quantity == name && found.to_bits() == bad.to_bits()
            ));
        }
        let constants = LocalConstants::new(2.0, 1.0, 1.0).unwrap();
        assert!(constants.remainder_bound(bad).is_err());
        assert!(constants.query_deviation_bound(bad, 1.0, 0.1, 1).is_err());
        assert!(constants.query_deviation_bound(1.0, bad, 0.1, 1).is_err());
    }
    let constants = LocalConstants::new(2.0, 1.0, 1.0).unwrap();
    for step in [0.0, -0.1, 0.2501, f64::NAN, f64::INFINITY] {
        for refused in [
            constants.deviation_bound(step, 1),
            constants.deviation_sum(step, 1),
            constants.kernel_drift_bound(step, 1),
            constants.query_deviation_bound(1.0, 1.0, step, 1),
        ] {
            assert!(matches!(
                refused,
                Err(Error::OutOfRange { quantity: "step size", found, .. })
                    if found.to_bits() == step.to_bits()
            ));
        }
    }
    // The limit itself is allowed, and a model that cannot move allows any step.
    for bound in [0.3, 0.7, 1e-5, 3e7] {
        let constants = LocalConstants::new(bound, 1.0, 1.0).unwrap();
        assert!(constants.deviation_bound(constants.step_limit(), 3).is_ok());
    }
    let still = LocalConstants::new(0.0, 1.0, 1.0).unwrap();
    assert_eq!(still.deviation_bound(1e6, 100), Ok(0.0));
}

/// Design 5.8: the watch reports what literal real and literal linear steps did, names no more
/// curvature than there is, and forecasts at least what it has seen.
#[test]
fn design_5_8_watch_on_waves() {
    for_prompts(|p| {
        let waves = Waves::of(p);
        let step = 0.7 * waves.step_limit();
        let real = waves.descend(step, 15, false);
        let linear = waves.descend(step, 15, true);
        let spectrum = Spectrum::of(&waves.kernel(&real[0])).unwrap();
        let step_size = StepSize::new(step, &spectrum).unwrap();
        let mut watch = Watch::new(&spectrum, &p.residuals, step_size).unwrap();
        assert_eq!(watch.constants(), None);

        let scale = 1.0 + norm(&p.residuals);
        let mut literal = vec![];
        for (horizon, (theta, tangent)) in (0..).zip(real.iter().zip(&linear)).skip(1) {
            let (shift, expected) = (waves.shift(theta), waves.linear_shift(tangent));
            let kernel = Matrix::from_rows(&waves.kernel(theta)).unwrap();
            let seen = watch
                .observe(Observation {
                    kernel: Some(&kernel),
                    update_length: Some(norm(theta)),
                    ..Observation::new(horizon, &shift)
                })
                .unwrap();
            let gap = norm(&subtract(&shift, &expected));
            assert_eq!(seen.horizon, horizon);
            assert_all_close(
                &[seen.predicted, seen.actual, seen.deviation],
                &[norm(&expected), norm(&shift), gap],
                scale,
                p.n(),
            );
            literal.push(gap / norm(&expected));
            if let Some(lipschitz) = seen.lipschitz {
                assert!(lipschitz <= waves.known().1 * (1.0 + 1e3 * f64::EPSILON));
            }
        }

        let constants = watch.constants().unwrap();
        for seen in watch.departures() {
            let forecast = constants.deviation_sum(step, seen.horizon).unwrap();
            assert_at_most(seen.deviation, forecast, scale, p.n());
        }
        if waves.known().0 == 0.0 {
            assert!(watch.departures().iter().all(|seen| seen.relative_deviation == 0.0));
            assert!(watch.departures().iter().all(|seen| seen.kernel_drift == Some(0.0)));
            assert_eq!(
                (watch.trusted_until(0.1).unwrap(), constants.jacobian_lipschitz()),
                (15, 0.0)
            );
            assert_eq!(watch.growth_exponent(), None);
            return;
        }
        for tolerance in [0.003, 0.03, 0.3] {
            let kept = literal.iter().take_while(|&&share| share <= tolerance).count();
            assert_eq!(watch.trusted_until(tolerance).unwrap() as usize, kept);
        }
    });
}

/// Design 5.8: the kernel's drift is measured in the operator norm, up or down, for kernels of
/// any rank.
#[test]
fn design_5_8_watch_kernel_drift() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let spectrum = Spectrum::of(&kernel).unwrap();
        if spectrum.largest() == 0.0 {
            return; // below
        }
        let direction: Vec<f64> = p.residuals.iter().map(|r| r / norm(&p.residuals)).collect();
        let largest = operator_norm(&kernel);
        for share in [0.1, 3.0] {
            let drifted: Vec<Vec<f64>> = kernel
                .iter()
                .zip(&direction)
                .map(|(row, a)| {
                    row.iter()
                        .zip(&direction)
                        .map(|(k, b)| k + share * largest * a * b)
                        .collect()
                })
                .collect();
            let step = StepSize::fraction(0.1, &spectrum).unwrap();
            let mut watch = Watch::new(&spectrum, &p.residuals, step).unwrap();
            let drifted = Matrix::from_rows(&drifted).unwrap();
            let seen =
                Observation { kernel: Some(&drifted), ..Observation::new(1, &p.residuals) };
            let drift = watch.observe(seen).unwrap().kernel_drift.unwrap() * spectrum.largest();
            assert_close(drift, share * largest, (1.0 + share) * largest, p.n());
        }
        // Down to nothing: the drift is the kernel itself.
        let step = StepSize::fraction(0.1, &spectrum).unwrap();
        let mut watch = Watch::new(&spectrum, &p.residuals, step).unwrap();
        let zero = Matrix::zeros(p.n(), p.n());
        let seen = Observation { kernel: Some(&zero), ..Observation::new(1, &p.residuals) };
        assert_close(watch.observe(seen).unwrap().kernel_drift.unwrap(), 1.0, 1.0, p.n());
    });

    let zero = Spectrum::of(Matrix::zeros(2, 2)).unwrap();
    let step = StepSize::fraction(0.1, &zero).unwrap();
    let mut watch = Watch::new(&zero, &[1.0, 0.0], step).unwrap();
    let kernel = Matrix::identity(2);
    let seen = Observation { kernel: Some(&kernel), ..Observation::new(1, &[0.1, 0.0]) };
    let departure = watch.observe(seen).unwrap();
    assert_eq!(departure.kernel_drift, Some(f64::INFINITY));
    assert!(departure.relative_deviation.is_infinite());
    assert_eq!(watch.trusted_until(1e9).unwrap(), 0);
}

/// Design 5.8: the curvature of a parabola is recovered from its kernel exactly and from its
/// outputs in the limit, and the gap is seen to grow with the power 2.
#[test]
fn design_5_8_watch_on_a_parabola() {
    let mut shares = vec![];
    let mut exponents = vec![];
    for parabola in Parabola::family(10) {
        let spectrum = Spectrum::of(&[vec![parabola.slope.powi(2)]]).unwrap();
        let step = StepSize::new(parabola.step, &spectrum).unwrap();
        let mut with_kernel = Watch::new(&spectrum, &[1.0], step).unwrap();
        let mut outputs_only = Watch::new(&spectrum, &[1.0], step).unwrap();
        for (horizon, (theta, _)) in (0..).zip(parabola.descend(10)).skip(1) {
            let shift = [parabola.shift(theta)];
            let kernel = Matrix::from_rows(&[vec![parabola.jacobian(theta).powi(2)]]).unwrap();
            let seen = Observation {
                kernel: Some(&kernel),
                update_length: Some(theta),
                ..Observation::new(horizon, &shift)
            };
            let lipschitz = with_kernel.observe(seen).unwrap().lipschitz.unwrap();
            // (K_t − K_0)/θ_t amplifies the rounding of the kernels.
            assert_close(lipschitz, parabola.curvature, 1.0 / theta, 1);
            outputs_only.observe(Observation::new(horizon, &shift)).unwrap();
        }
        shares.push(outputs_only.departures()[9].lipschitz.unwrap() / parabola.curvature);
        exponents.push(outputs_only.growth_exponent().unwrap());
    }
    assert_attained(&shares);
    assert_tends_to(2.0, &exponents);
}

/// Design 5.8: the constants for the forecast are the largest that were seen, be it at the start,
/// on the way or at the end.
#[test]
fn design_5_8_watch_constants() {
    let spectrum = Spectrum::of(&[vec![4.0]]).unwrap();
    let step = StepSize::new(0.01, &spectrum).unwrap();
    let mut watch = Watch::new(&spectrum, &[1.0], step).unwrap();
    // (kernel, shift) → largest ‖J‖ and ‖r − f‖ up to then.
    for (horizon, (kernel, shift, bound, scale)) in (1..).zip([
        (1.0, 0.5, 2.0, 1.0),
        (9.0, -0.5, 3.0, 1.5),
        (4.0, 0.2, 3.0, 1.5),
        (16.0, -2.0, 4.0, 3.0),
    ]) {
        let kernel = Matrix::from_rows(&[vec![kernel]]).unwrap();
        let shift = [shift];
        let seen = Observation { kernel: Some(&kernel), ..Observation::new(horizon, &shift) };
        watch.observe(seen).unwrap();
        let constants = watch.constants().unwrap();
        assert_close(constants.jacobian_bound(), bound, bound, 1);
        assert_close(constants.residual_scale(), scale, scale, 1);
        let steepest = watch.departures().iter().filter_map(|seen| seen.lipschitz);
        assert_close(constants.jacobian_lipschitz(), steepest.fold(0.0, f64::max), 1.0, 1);
    }
}

/// Design 5.8: what does not fit is refused, and leaves the watch as it was.
#[test]
fn design_5_8_watch_errors() {
    let spectrum = Spectrum::of(Matrix::identity(2)).unwrap();
    let step = StepSize::new(0.5, &spectrum).unwrap();
    assert_eq!(
        Watch::new(&spectrum, &[1.0], step),
        Err(Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 })
    );
    assert!(matches!(
        Watch::new(&spectrum, &[1.0, f64::NAN], step),
        Err(Error::NotFinite { quantity: "residuals", index: 1, .. })
    ));
    let steep = Spectrum::of(&[vec![2.0, 0.0], vec![0.0, 1.0]]).unwrap();
    assert_eq!(
        Watch::new(&steep, &[1.0, 1.0], step),
        Err(Error::StepTooLarge { step: 0.5, limit: 0.5 })
    );

    let mut watch = Watch::new(&spectrum, &[1.0, 2.0], step).unwrap();
    watch.observe(Observation::new(2, &[0.7, 1.4])).unwrap();
    let before = watch.clone();
    for horizon in [0, 1, 2] {
        assert!(matches!(
            watch.observe(Observation::new(horizon, &[0.0, 0.0])),
            Err(Error::OutOfRange { quantity: "horizon of the observation", found, .. })
                if found.to_bits() == f64::from(horizon).to_bits()
        ));
    }
    assert_eq!(
        watch.observe(Observation::new(3, &[0.0])),
        Err(Error::SizeMismatch { quantity: "shift", found: 1, expected: 2 })
    );
    assert!(matches!(
        watch.observe(Observation::new(3, &[0.0, f64::INFINITY])),
        Err(Error::NotFinite { quantity: "shift", index: 1, .. })
    ));
    let seen = Observation::new(3, &[0.0, 0.0]);
    assert!(matches!(
        watch.observe(Observation { update_length: Some(-1.0), ..seen }),
        Err(Error::OutOfRange { quantity: "update length", found: -1.0, .. })
    ));
    let wrong_size = Matrix::identity(3);
    assert_eq!(
        watch.observe(Observation { kernel: Some(&wrong_size), ..seen }),
        Err(Error::SizeMismatch { quantity: "kernel", found: 3, expected: 2 })
    );
    let indefinite = Matrix::from_rows(&[vec![1.0, 0.0], vec![0.0, -1.0]]).unwrap();
    assert!(matches!(
        watch.observe(Observation { kernel: Some(&indefinite), ..seen }),
        Err(Error::NotPositiveSemidefinite { .. })
    ));
    assert_eq!(watch, before);
    for tolerance in [0.0, f64::NAN] {
        assert!(matches!(
            watch.trusted_until(tolerance),
            Err(Error::OutOfRange { quantity: "tolerance", .. })
        ));
    }
}

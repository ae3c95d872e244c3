//! App. H: what large prompts get from products alone, against dense or dual literal routes.

use crate::support::{
    assert_all_close, assert_close, dot, eliminate, for_prompts, inverse, multiply, norm,
    normals, product, shifted, subtract, transpose,
};
use fewstep_core::matfree::{
    BlockSum, DenseKernel, EvidenceSettings, FactorKernel, LargestEigenvalue, LinearOperator,
    Shifted, Stopping, block_scores, conjugate_gradients, estimate_evidence, hutchinson_trace,
    lanczos_top, largest_eigenvalue, query_correction, query_scores,
};
use fewstep_core::{Error, GradientDescent, Matrix, Noise, Rng, Spectrum, StepSize};

const TIGHT: Stopping = Stopping { tolerance: 1e-13, iterations: 1000 };

fn dense(rows: &[Vec<f64>]) -> DenseKernel {
    DenseKernel::new(&rows.to_vec()).unwrap()
}

fn apply(operator: &impl LinearOperator, vector: &[f64]) -> Vec<f64> {
    let mut result = vec![f64::NAN; vector.len()];
    operator.apply(vector, &mut result);
    result
}

fn random(rng: &mut Rng, rows: usize, columns: usize) -> Vec<Vec<f64>> {
    (0..rows).map(|_| normals(rng, columns)).collect()
}

fn gram(features: &[Vec<f64>]) -> Vec<Vec<f64>> {
    features.iter().map(|a| features.iter().map(|b| dot(a, b)).collect()).collect()
}

fn trace(a: &[Vec<f64>]) -> f64 {
    (0..a.len()).map(|i| a[i][i]).sum()
}

fn frobenius(a: &[Vec<f64>]) -> f64 {
    a.iter().flatten().map(|x| x * x).sum::<f64>().sqrt()
}

/// The standard deviation of `zᵀAz` over random signs, from the entries of `A`.
fn sign_deviation(a: &[Vec<f64>]) -> f64 {
    let pairs = (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    // zᵀAz = tr A + Σ_{j<i} (A_ij + A_ji) z_i z_j, and the products of signs are uncorrelated.
    pairs.map(|(i, j)| (a[i][j] + a[j][i]).powi(2)).sum::<f64>().sqrt()
}

/// Eigenvalues by Jacobi's rotations, largest first.
fn jacobi(a: &[Vec<f64>]) -> Vec<f64> {
    let n = a.len();
    let mut a = a.to_vec();
    let negligible = f64::EPSILON * frobenius(&a) / n as f64;
    let mut rotated = true;
    while rotated {
        rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                if a[p][q].abs() <= negligible {
                    continue;
                }
                rotated = true;
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[p][p] - a[q][q]);
                let (s, c) = angle.sin_cos();
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] + s * row[q], c * row[q] - s * row[p]);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x + s * *y, c * *y - s * *x);
                }
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}

/// Textbook conjugate gradients: the iterate after exactly `iterations` steps.
fn textbook(a: &[Vec<f64>], b: &[f64], iterations: usize) -> Vec<f64> {
    let mut x = vec![0.0; b.len()];
    let mut r = b.to_vec();
    let mut p = b.to_vec();
    for _ in 0..iterations {
        let ap = multiply(a, &p);
        let alpha = dot(&r, &r) / dot(&p, &ap);
        let before = dot(&r, &r);
        for i in 0..b.len() {
            x[i] += alpha * p[i];
            r[i] -= alpha * ap[i];
        }
        let beta = dot(&r, &r) / before;
        for i in 0..b.len() {
            p[i] = r[i] + beta * p[i];
        }
    }
    x
}

/// App. H: products through features, sums over blocks and shifts are those of the written
/// kernel.
#[test]
fn app_h_products_without_a_kernel() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let scale = trace(&kernel) * norm(&p.residuals);
        let expected = multiply(&kernel, &p.residuals);
        let factor = FactorKernel::new(&p.features).unwrap();
        assert_all_close(&apply(&factor, &p.residuals), &expected, scale, p.n());
        let written = dense(&kernel);
        assert_all_close(&apply(&written, &p.residuals), &expected, scale, p.n());

        let parts: Vec<Box<dyn LinearOperator>> = vec![Box::new(factor), Box::new(written)];
        let sum = Shifted::new(BlockSum::new(parts).unwrap(), 0.7).unwrap();
        let expected = multiply(&shifted(&kernel, 2.0, 0.7), &p.residuals);
        let scale = 2.0 * scale + norm(&p.residuals);
        assert_all_close(&apply(&sum, &p.residuals), &expected, scale, p.n());
    });
}

/// App. H: conjugate gradients solve (K + λI) x = b, and report the residual that x really has.
#[test]
fn app_h_conjugate_gradients_solve() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let shift = (0.1 * trace(&kernel) / p.n() as f64).max(1e-30);
        let noisy = shifted(&kernel, 1.0, shift);
        let operator = Shifted::new(FactorKernel::new(&p.features).unwrap(), shift).unwrap();
        let found = conjugate_gradients(&operator, &p.residuals, TIGHT).unwrap();
        let (expected, _) = eliminate(&noisy, &p.residuals);
        // The smallest eigenvalue is at least the shift, the condition at most `condition`.
        let condition = frobenius(&noisy) / shift;
        let scale = norm(&p.residuals) / shift;
        let allowed = TIGHT.tolerance * scale;
        let rounding = 1e3 * p.n() as f64 * f64::EPSILON * condition * norm(&expected);
        for (x, y) in found.vector.iter().zip(&expected) {
            assert!((x - y).abs() <= allowed + rounding, "{x:e} against {y:e}");
        }
        let literal = norm(&subtract(&p.residuals, &multiply(&noisy, &found.vector)))
            / norm(&p.residuals);
        let scale = frobenius(&noisy) * norm(&found.vector) / norm(&p.residuals);
        assert_close(found.residual, literal, scale, p.n());
        assert!(found.residual <= TIGHT.tolerance && found.iterations <= 3 * p.n());
    });
}

/// App. H: a singular kernel is solved when the right-hand side lies in its range, refused
/// with a large residual when it does not; nothing asked, nothing done.
#[test]
fn app_h_conjugate_gradients_on_singular_kernels() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let operator = dense(&kernel);
        let reachable = multiply(&kernel, &p.residuals);
        let solution = conjugate_gradients(&operator, &reachable, Stopping::default()).unwrap();
        let left = norm(&subtract(&reachable, &multiply(&kernel, &solution.vector)));
        assert!(left <= 1.01 * 1e-8 * norm(&reachable));

        let nothing = conjugate_gradients(&operator, &vec![0.0; p.n()], TIGHT).unwrap();
        assert_eq!((nothing.iterations, nothing.residual), (0, 0.0));
        assert_eq!(nothing.vector, vec![0.0; p.n()]);
    });

    // Half of b is out of reach; the zero kernel reaches nothing.
    let half = dense(&[vec![1.0, 0.0], vec![0.0, 0.0]]);
    let none = dense(&[vec![0.0, 0.0], vec![0.0, 0.0]]);
    for (operator, iterations) in [(half, 1), (none, 0)] {
        let error = conjugate_gradients(&operator, &[1.0, 1.0], TIGHT).unwrap_err();
        let Error::NotConverged { iterations: done, residual, .. } = error else {
            panic!("{error}")
        };
        // For `half`, one step of length 2 overshoots to (−1, 1): no shorter than (1, 1).
        assert_eq!(done, iterations);
        assert_close(residual, 1.0, 1.0, 2);
    }
}

/// App. H: a failed solve reports the true residual of its last iterate, not of the zero start.
#[test]
fn app_h_conjugate_gradients_failure_reports_the_last_residual() {
    let mut rng = Rng::new(5);
    let noisy = shifted(&gram(&random(&mut rng, 30, 40)), 1.0, 0.1);
    let right_side = normals(&mut rng, 30);
    let operator = dense(&noisy);
    for iterations in [0, 1, 4, 9] {
        let stopping = Stopping { tolerance: 1e-12, iterations };
        let error = conjugate_gradients(&operator, &right_side, stopping).unwrap_err();
        let Error::NotConverged { method, iterations: done, residual, tolerance } = error
        else {
            panic!("{error}")
        };
        let last = textbook(&noisy, &right_side, iterations);
        let expected =
            norm(&subtract(&right_side, &multiply(&noisy, &last))) / norm(&right_side);
        assert_close(residual, expected, frobenius(&noisy), 30);
        assert_eq!((method, done), ("conjugate gradients", iterations));
        assert_eq!(tolerance.to_bits(), 1e-12_f64.to_bits());
        if iterations == 9 {
            assert!(residual < 0.5, "nine iterations make progress: {residual}");
        }
    }
}

/// App. H: where rounding keeps the true residual up, the recurrence's own, which falls for
/// ever, is not believed.
#[test]
fn app_h_conjugate_gradients_do_not_believe_their_recurrence() {
    let n = 30;
    let mut rng = Rng::new(12);
    // Eigenvalues from 1 to 10⁻¹⁰ behind the reflection I − 2vvᵀ.
    let eigenvalues: Vec<f64> =
        (0..n).map(|i| 10.0_f64.powf(-10.0 * i as f64 / (n - 1) as f64)).collect();
    let direction = normals(&mut rng, n);
    let length = norm(&direction);
    let reflection: Vec<Vec<f64>> = direction
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let entry = |j: usize| {
                f64::from(u8::from(i == j)) - 2.0 * x * direction[j] / length / length
            };
            (0..n).map(entry).collect()
        })
        .collect();
    let scaled: Vec<Vec<f64>> = reflection
        .iter()
        .map(|row| row.iter().zip(&eigenvalues).map(|(x, value)| x * value.sqrt()).collect())
        .collect();
    let right_side = normals(&mut rng, n);
    let stopping = Stopping { tolerance: 1e-12, iterations: 3000 };
    let error = conjugate_gradients(&dense(&gram(&scaled)), &right_side, stopping).unwrap_err();
    let Error::NotConverged { residual, iterations, .. } = error else { panic!("{error}") };
    // ‖x‖ is about 10¹⁰, so its last digits alone move Ax by 10⁻⁶ of b.
    assert_eq!(iterations, 3000);
    assert!(residual > 1e-12 && residual < 1.0, "{residual:e}");
}

/// App. H: Lanczos finds the top eigenpairs with their multiplicity, and its bounds hold.
#[test]
fn app_h_lanczos_top_eigenpairs() {
    for_prompts(|p| {
        let kernel = p.kernel();
        let operator = FactorKernel::new(&p.features).unwrap();
        let expected = jacobi(&kernel);
        let (scale, top) = (frobenius(&kernel), expected[0]);
        for count in [1, 2, 5, p.n()].into_iter().filter(|&count| count <= p.n()) {
            let stopping = Stopping { tolerance: 1e-3, iterations: p.n() };
            let pairs = lanczos_top(&operator, count, stopping, &mut Rng::new(9)).unwrap();
            assert_eq!(pairs.len(), count);
            for (pair, &expected) in pairs.iter().zip(&expected) {
                let image = multiply(&kernel, &pair.vector);
                let left: Vec<f64> =
                    image.iter().zip(&pair.vector).map(|(a, b)| a - pair.value * b).collect();
                let rounding = 1e3 * p.n() as f64 * f64::EPSILON * scale;
                assert!(norm(&left) <= pair.bound + rounding);
                assert!((pair.value - expected).abs() <= pair.bound + rounding);
                assert!(pair.bound <= 1.01e-3 * top);
            }
            for (i, a) in pairs.iter().enumerate() {
                for (j, b) in pairs.iter().enumerate() {
                    let unit = f64::from(u8::from(i == j));
                    assert_close(dot(&a.vector, &b.vector), unit, 1.0, p.n());
                }
            }
        }
    });
}

/// App. H: the bound of an unfinished eigenpair is its true residual, not only above it.
#[test]
fn app_h_lanczos_bounds_are_sharp() {
    let mut rng = Rng::new(2);
    let kernel = gram(&random(&mut rng, 80, 120));
    let stopping = Stopping { tolerance: 0.05, iterations: 80 };
    let pairs = lanczos_top(&dense(&kernel), 3, stopping, &mut rng).unwrap();
    for pair in &pairs {
        let image = multiply(&kernel, &pair.vector);
        let left: Vec<f64> =
            image.iter().zip(&pair.vector).map(|(a, b)| a - pair.value * b).collect();
        assert_close(pair.bound, norm(&left), frobenius(&kernel), 80);
    }
    assert!(pairs.iter().any(|pair| pair.bound > 1e-6 * pair.value), "stopped early");
}

/// App. H: eigenpairs that were not found in time are an error with the worst true residual.
#[test]
fn app_h_lanczos_failure_reports_the_worst_bound() {
    let mut rng = Rng::new(3);
    let kernel = gram(&random(&mut rng, 80, 120));
    let stopping = Stopping { tolerance: 1e-10, iterations: 12 };
    let error = lanczos_top(&dense(&kernel), 2, stopping, &mut Rng::new(1)).unwrap_err();
    let Error::NotConverged { method, iterations, residual, tolerance } = error else {
        panic!("{error}")
    };
    assert_eq!((method, iterations), ("Lanczos iteration", 12));
    assert_eq!(tolerance.to_bits(), 1e-10_f64.to_bits());
    // The same twelve products, accepted: the pairs whose residual was reported.
    let accepted = Stopping { tolerance: 1.0001 * residual, iterations: 12 };
    let pairs = lanczos_top(&dense(&kernel), 2, accepted, &mut Rng::new(1)).unwrap();
    let worst = pairs.iter().map(|pair| {
        let image = multiply(&kernel, &pair.vector);
        let left: Vec<f64> =
            image.iter().zip(&pair.vector).map(|(a, b)| a - pair.value * b).collect();
        norm(&left) / pairs[0].value
    });
    assert_close(residual, worst.fold(0.0, f64::max), 1.0, 80);
}

/// The bound on the largest eigenvalue fails at most as often as it was told to, on spectra
/// that are hard for Lanczos; it is exact for one example, no kernel and low rank.
#[test]
fn app_h_largest_eigenvalue_is_bounded() {
    let n = 60;
    let crowded: Vec<f64> = (0..n).map(|i| 1.0 - (f64::from(i) / 60.0).powi(2)).collect();
    let mut lonely = vec![0.5; 60];
    (lonely[0], lonely[1]) = (1.0, 0.0);
    for (eigenvalues, steps) in [(&crowded, 3), (&crowded, 12), (&lonely, 1)] {
        let kernel: Vec<Vec<f64>> = (0..eigenvalues.len())
            .map(|i| (0..60).map(|j| if i == j { eigenvalues[i] } else { 0.0 }).collect())
            .collect();
        let operator = dense(&kernel);
        let (runs, probability) = (400_u32, 0.3);
        let mut misses = 0.0;
        for seed in 0..runs {
            let rng = &mut Rng::new(seed.into());
            let found = largest_eigenvalue(&operator, steps, probability, rng).unwrap();
            assert!(found.value <= 1.0 + 1e3 * 60.0 * f64::EPSILON);
            misses += f64::from(u8::from(found.upper() < 1.0));
            let safe = largest_eigenvalue(&operator, steps, 1e-9, rng).unwrap();
            assert!(safe.step(0.9).unwrap().get() < 0.9 && safe.upper() >= 1.0);
        }
        let runs = f64::from(runs);
        let allowed = probability + 4.0 * (probability * (1.0 - probability) / runs).sqrt();
        assert!(misses / runs <= allowed, "{misses} misses with {steps} steps");
    }
    for_prompts(|p| {
        let kernel = p.kernel();
        let rng = &mut Rng::new(p.seed);
        let operator = FactorKernel::new(&p.features).unwrap();
        let found = largest_eigenvalue(&operator, p.n(), 1e-9, rng).unwrap();
        let expected = jacobi(&kernel)[0];
        assert_close(found.value, expected, frobenius(&kernel), p.n());
        assert_close(found.upper(), expected, frobenius(&kernel), p.n());
        let step = found.step(0.5).unwrap().get();
        assert!(step * expected <= 0.5 * (1.0 + 1e3 * p.n() as f64 * f64::EPSILON));
    });
}

/// The formula of that bound: at one step it is n-dimensional geometry, checked by a draw of
/// the worst case, a single eigenvalue.
#[test]
fn app_h_largest_eigenvalue_bound_is_not_wasteful() {
    let n = 40;
    let mut kernel = vec![vec![0.0; n]; n];
    kernel[0][0] = 1.0;
    let operator = dense(&kernel);
    let (runs, probability) = (4000, 0.1);
    let mut misses = 0.0;
    for seed in 0..runs {
        let rng = &mut Rng::new(seed);
        let found = largest_eigenvalue(&operator, 1, probability, rng).unwrap();
        misses += f64::from(u8::from(found.upper() < 1.0));
    }
    // θ = g₁²/‖g‖², so a miss is g₁² (n−1)·2/(πδ²) < Σ_{i>1} g_i²: about δ·(1 + O(1/n)).
    let deviation = (probability * (1.0 - probability) / runs as f64).sqrt();
    let rate = misses / runs as f64;
    assert!((rate - probability).abs() < 0.01 + 4.0 * deviation, "missed at a rate of {rate}");
}

/// App. H: Hutchinson's estimate of a trace has the error that theory says, and says so.
#[test]
fn app_h_hutchinson_trace() {
    for (seed, n, width) in [(1, 30, 50), (2, 40, 10), (3, 25, 1)] {
        let mut rng = Rng::new(seed);
        let features = random(&mut rng, n, width);
        let kernel = gram(&features);
        let probes = 4000;
        let operator = FactorKernel::new(&features).unwrap();
        let estimate = hutchinson_trace(&operator, probes, &mut rng).unwrap();
        let expected_error = sign_deviation(&kernel) / (probes as f64).sqrt();
        assert!((estimate.mean - trace(&kernel)).abs() < 4.0 * expected_error);
        assert!((estimate.standard_error / expected_error - 1.0).abs() < 0.1);
    }
}

/// `log(I − ρK)` as its power series, entry by entry.
fn matrix_logarithm(kernel: &[Vec<f64>], step: f64) -> Vec<Vec<f64>> {
    let scaled: Vec<Vec<f64>> =
        kernel.iter().map(|row| row.iter().map(|x| step * x).collect()).collect();
    let mut power = scaled.clone();
    let mut sum = vec![vec![0.0; kernel.len()]; kernel.len()];
    for order in 1..80 {
        for (row, terms) in sum.iter_mut().zip(&power) {
            for (entry, term) in row.iter_mut().zip(terms) {
                *entry -= term / f64::from(order);
            }
        }
        power = product(&power, &scaled);
    }
    sum
}

/// `rᵀ(I − ρK)^T r` by T products.
fn literal_form(kernel: &[Vec<f64>], step: f64, residuals: &[f64], horizon: u32) -> f64 {
    let mut rest = residuals.to_vec();
    for _ in 0..horizon {
        let image = multiply(kernel, &rest);
        for (r, k) in rest.iter_mut().zip(image) {
            *r -= step * k;
        }
    }
    dot(residuals, &rest)
}

/// App. H: evidence by stochastic Lanczos quadrature is the dense one up to the error it states,
/// which is the one of theory; only the log-determinant is left to chance.
#[test]
fn sec_7_evidence_by_lanczos_quadrature() {
    for (seed, n, width) in [(1, 60, 90), (2, 120, 30)] {
        let mut rng = Rng::new(seed);
        let features = random(&mut rng, n, width);
        let kernel = gram(&features);
        let residuals = normals(&mut rng, n);
        let operator = FactorKernel::new(&features).unwrap();
        let largest = largest_eigenvalue(&operator, n, 1e-9, &mut rng).unwrap();
        let step = largest.step(0.5).unwrap();
        let horizons = [0, 1, 2, 7, 30, 200];
        let (probes, energy) = (400, dot(&residuals, &residuals));
        let logarithm = matrix_logarithm(&kernel, step.get());
        let expected_error = sign_deviation(&logarithm) / (probes as f64).sqrt();
        let noises = [
            (Noise::Fixed(0.3), Some(0.3)),
            (Noise::PlugIn, Some(energy / n as f64)),
            (Noise::Profiled, None),
        ];
        for (noise, noise_variance) in noises {
            let settings = EvidenceSettings {
                step,
                largest,
                horizons: &horizons,
                noise,
                probes,
                lanczos_steps: n,
            };
            let found = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
            let shrink = shifted(&kernel, -step.get(), 1.0);
            let (_, log_determinant) = eliminate(&shrink, &residuals);
            assert_close(trace(&logarithm), log_determinant, n as f64, n);
            assert!((found.log_trace.mean - log_determinant).abs() < 4.0 * expected_error);
            assert!((found.log_trace.standard_error / expected_error - 1.0).abs() < 0.2);
            for (index, &horizon) in horizons.iter().enumerate() {
                let form = literal_form(&kernel, step.get(), &residuals, horizon);
                assert_close(found.quadratic_forms[index], form, energy, n);
                let variance = noise_variance.unwrap_or(form / n as f64);
                // Σ_T = σ² (I − ρK)^(−T): T log-determinants, T products.
                let literal = (n as f64 * variance.ln() - f64::from(horizon) * log_determinant
                    + form / variance)
                    / (2.0 * n as f64);
                let value = found.values[index];
                let share = f64::from(horizon) / (2.0 * n as f64);
                assert_close(
                    value.standard_error,
                    share * found.log_trace.standard_error,
                    1.0,
                    n,
                );
                let rounding = 1e3 * n as f64 * f64::EPSILON * (1.0 + energy / form);
                assert!(
                    (value.mean - literal).abs() < 4.0 * share * expected_error + rounding,
                    "{} against {literal} at {horizon}",
                    value.mean
                );
                assert!(found.quadrature_errors[index] < 1e-12);
            }
        }
    }
}

/// Lanczos quadrature that is cut short stays within the error it states, and that error
/// vanishes with the steps.
#[test]
fn app_h_quadrature_errors_are_bounds() {
    let n = 100;
    let mut rng = Rng::new(8);
    // Eigenvalues all over the range, the hardest for a polynomial.
    let kernel: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| if i == j { (i + 1) as f64 / n as f64 } else { 0.0 }).collect())
        .collect();
    let operator = dense(&kernel);
    let residuals = normals(&mut rng, n);
    let energy = dot(&residuals, &residuals);
    let largest = LargestEigenvalue { value: 1.0, bound: 0.0 };
    let horizons = [3, 20, 50, 400];
    for fraction in [0.1, 0.9] {
        let step = largest.step(fraction).unwrap();
        // Random signs leave a diagonal operator's trace exact.
        let log_trace: f64 = (0..n).map(|i| (-step.get() * kernel[i][i]).ln_1p()).sum();
        let mut errors = vec![];
        for lanczos_steps in [1, 2, 4, 8, 16, 32] {
            let settings = EvidenceSettings {
                step,
                largest,
                horizons: &horizons,
                noise: Noise::Fixed(0.5),
                probes: 2,
                lanczos_steps,
            };
            let found = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
            for (index, &horizon) in horizons.iter().enumerate() {
                let form = literal_form(&kernel, step.get(), &residuals, horizon);
                let literal = 0.5
                    * (0.5_f64.ln() - f64::from(horizon) / n as f64 * log_trace
                        + form / (0.5 * n as f64));
                let off = (found.values[index].mean - literal).abs();
                let rounding = 1e3 * n as f64 * f64::EPSILON * (1.0 + energy / n as f64);
                assert!(off <= found.quadrature_errors[index] + rounding);
                if horizon == 3 && lanczos_steps > 1 {
                    assert_close(found.quadratic_forms[index], form, energy, n);
                }
            }
            errors.push(found.quadrature_errors.clone());
        }
        assert!(errors[0][3] > 1e-3, "one step is not enough for 400: {errors:?}");
        assert!(errors[5].iter().all(|&error| error < 1e-3), "{errors:?}");
        if fraction < 0.5 {
            assert!(errors[5].iter().all(|&error| error < 1e-13), "{errors:?}");
        }
    }
}

/// App. H: the block scores of Sec. 8 from shared probes, in units of the theoretical error; the
/// query scores to the tolerance of the solves.
#[test]
fn app_h_block_scores() {
    let (n, noise_variance, probes) = (50, 2.0, 3000);
    let mut rng = Rng::new(4);
    let features: Vec<Vec<Vec<f64>>> =
        [60, 8, 3].map(|width| random(&mut rng, n, width)).to_vec();
    let blocks: Vec<FactorKernel> =
        features.iter().map(|features| FactorKernel::new(features).unwrap()).collect();
    let kernels: Vec<Vec<Vec<f64>>> = features.iter().map(|features| gram(features)).collect();
    let mut noisy = vec![vec![0.0; n]; n];
    for (i, row) in noisy.iter_mut().enumerate() {
        for (j, entry) in row.iter_mut().enumerate() {
            *entry = kernels.iter().map(|kernel| kernel[i][j]).sum();
        }
        row[i] += noise_variance;
    }
    let inverse = inverse(&noisy);
    let stopping = Stopping { tolerance: 1e-10, iterations: 200 };
    let scores = block_scores(&blocks, noise_variance, probes, stopping, &mut rng).unwrap();
    for (score, kernel) in scores.iter().zip(&kernels) {
        let shares = product(kernel, &inverse);
        let expected_error = sign_deviation(&shares) / (probes as f64).sqrt();
        assert!((score.mean - trace(&shares)).abs() < 4.0 * expected_error);
        assert!((score.standard_error / expected_error - 1.0).abs() < 0.1);
    }
    let couplings: Vec<Vec<f64>> = features
        .iter()
        .map(|features| multiply(features, &normals(&mut rng, features[0].len())))
        .collect();
    let scores = query_scores(&blocks, &couplings, noise_variance, TIGHT).unwrap();
    for (&score, coupling) in scores.iter().zip(&couplings) {
        let literal = dot(coupling, &multiply(&inverse, coupling));
        let scale = dot(coupling, coupling) / noise_variance;
        assert_close(score, literal, scale, n);
    }
}

/// Prop. E.1 without a spectrum: T products give what T literal parameter steps do at the query.
#[test]
fn app_h_query_correction_by_products() {
    for_prompts(|p| {
        let operator = FactorKernel::new(&p.features).unwrap();
        let largest =
            largest_eigenvalue(&operator, p.n(), 1e-9, &mut Rng::new(p.seed)).unwrap();
        let step = largest.step(0.3).unwrap();
        for horizon in [0, 1, 12] {
            let mut theta = vec![0.0; p.query.len()];
            for _ in 0..horizon {
                let error = subtract(&p.residuals, &multiply(&p.features, &theta));
                let gradient = multiply(&transpose(&p.features), &error);
                for (t, g) in theta.iter_mut().zip(gradient) {
                    *t += step.get() * g;
                }
            }
            let descent = GradientDescent { step, horizon };
            let found = query_correction(&operator, &p.coupling(), &p.residuals, descent);
            let scale = norm(&p.coupling()) * norm(&p.residuals) * step.get() * 12.0;
            assert_close(found.unwrap(), dot(&p.query, &theta), scale, p.n());
        }
    });
}

/// App. H at scale: 20 000 examples, two blocks of 64 features, against the exact answers that
/// 128 × 128 matrices give in weight space. No matrix of n × n exists on either side.
#[test]
fn app_h_twenty_thousand_examples() {
    let (n, width, noise_variance) = (20_000, 64, 500.0);
    let mut rng = Rng::new(6);
    // Features that matter less and less.
    let features: Vec<Vec<Vec<f64>>> = (0..2)
        .map(|_| {
            let row = |rng: &mut Rng| -> Vec<f64> {
                (1..=width).map(|j| rng.normal() / f64::from(j)).collect()
            };
            (0..n).map(|_| row(&mut rng)).collect()
        })
        .collect();
    let columns = [transpose(&features[0]), transpose(&features[1])].concat();
    let residuals: Vec<f64> =
        (0..n).map(|i| 0.3 * columns[0][i] - columns[70][i] + rng.normal()).collect();
    let blocks: Vec<FactorKernel> =
        features.iter().map(|features| FactorKernel::new(features).unwrap()).collect();
    drop(features);
    let operator = BlockSum::new(blocks.iter().collect()).unwrap();
    // In weight space: G = ΦᵀΦ has the kernel's eigenvalues, all but zeros.
    let dual = gram(&columns);
    let pull = multiply(&columns, &residuals);
    let eigenvalues = jacobi(&dual);

    // Eigenpairs.
    let stopping = Stopping { tolerance: 1e-6, iterations: 120 };
    let pairs = lanczos_top(&operator, 4, stopping, &mut rng).unwrap();
    for (pair, &expected) in pairs.iter().zip(&eigenvalues) {
        assert!((pair.value - expected).abs() <= pair.bound);
    }
    let largest = largest_eigenvalue(&operator, 40, 1e-9, &mut rng).unwrap();
    assert!(largest.upper() >= eigenvalues[0] && largest.upper() < 1.2 * eigenvalues[0]);

    // Evidence: log det(I − ρΦΦᵀ) = log det(I − ρG), and descent in weight space.
    let step = largest.step(0.5).unwrap();
    let (horizons, probes) = ([0, 4, 30], 10);
    let settings = EvidenceSettings {
        step,
        largest,
        horizons: &horizons,
        noise: Noise::Profiled,
        probes,
        lanczos_steps: 60,
    };
    let evidence = estimate_evidence(&operator, &residuals, &settings, &mut rng).unwrap();
    let (_, log_determinant) = eliminate(&shifted(&dual, -step.get(), 1.0), &pull);
    // ‖log(I − ρK)‖_F; its diagonal is negligible against the rest and lowers the variance.
    let spread = eigenvalues.iter().map(|x| (-step.get() * x).ln_1p().powi(2)).sum::<f64>();
    let expected_error = (2.0 * spread / probes as f64).sqrt();
    assert!((evidence.log_trace.mean - log_determinant).abs() < 4.0 * expected_error);
    let (mut theta, mut forms) = (vec![0.0; 128], vec![]);
    for _ in 0..=30 {
        forms.push(dot(&residuals, &residuals) - dot(&pull, &theta));
        let gradient = subtract(&pull, &multiply(&dual, &theta));
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t += step.get() * g);
    }
    for (index, &horizon) in horizons.iter().enumerate() {
        let form = forms[horizon as usize];
        assert_close(evidence.quadratic_forms[index], form, forms[0], 1);
        let share = f64::from(horizon) / (2.0 * n as f64);
        let literal = 0.5 * ((form / n as f64).ln() + 1.0) - share * log_determinant;
        let off = (evidence.values[index].mean - literal).abs();
        assert!(off < 4.0 * share * expected_error + 1e3 * 128.0 * f64::EPSILON);
        assert!(evidence.quadrature_errors[index] < 1e-12);
    }

    // Scores: Φ_bᵀ(K + σ²I)⁻¹Φ_b is the block of (G + σ²I)⁻¹ G.
    let stopping = Stopping { tolerance: 1e-6, iterations: 200 };
    let scores = block_scores(&blocks, noise_variance, 10, stopping, &mut rng).unwrap();
    let solves = inverse(&shifted(&dual, 1.0, noise_variance));
    let information = product(&solves, &dual);
    for (block, score) in scores.iter().enumerate() {
        let range = 64 * block..64 * (block + 1);
        let part = |a: &[Vec<f64>]| -> Vec<Vec<f64>> {
            a[range.clone()].iter().map(|row| row[range.clone()].to_vec()).collect()
        };
        let captured = part(&information);
        // M = K_b (K + σ²I)⁻¹: ‖sym M‖_F² = ½ (‖M‖_F² + tr M²), both in weight space.
        let inner = part(&product(&product(&solves, &dual), &solves));
        let squares = trace(&product(&inner, &part(&dual)));
        let symmetric = 0.5 * (squares + trace(&product(&captured, &captured)));
        let expected_error = (2.0 * symmetric / 10.0).sqrt();
        assert!((score.mean - trace(&captured)).abs() < 4.0 * expected_error);
    }
    let query = normals(&mut rng, 64);
    let coupling = multiply(&transpose(&columns[..64]), &query);
    let couplings = [coupling.clone(), vec![0.0; n]];
    let scores = query_scores(&blocks, &couplings, noise_variance, stopping).unwrap();
    let literal = (0..64).map(|i| query[i] * dot(&information[i][..64], &query)).sum::<f64>();
    let allowed = stopping.tolerance * dot(&coupling, &coupling) / noise_variance;
    assert!((scores[0] - literal).abs() <= allowed, "{} against {literal}", scores[0]);
    assert_close(scores[1], 0.0, 0.0, n);

    // Descent: Φ_bᵀ applied to the weights of the examples.
    let descent = GradientDescent { step, horizon: 5 };
    let found = query_correction(&operator, &coupling, &residuals, descent).unwrap();
    let mut theta = vec![0.0; 128];
    for _ in 0..5 {
        let gradient = subtract(&pull, &multiply(&dual, &theta));
        theta.iter_mut().zip(gradient).for_each(|(t, g)| *t += step.get() * g);
    }
    let scale = norm(&coupling) * norm(&residuals) * step.get() * 5.0;
    assert_close(found, dot(&query, &theta[..64]), scale, 1);
}

/// An operator of the user's own that does what it likes.
struct Broken {
    size: usize,
    value: f64,
}

impl LinearOperator for Broken {
    fn size(&self) -> usize {
        self.size
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        for (r, v) in result.iter_mut().zip(vector) {
            *r = self.value * v;
        }
    }
}

/// Input that does not fit is refused with its numbers.
#[test]
fn app_h_bad_input_is_refused() {
    let rng = &mut Rng::new(1);
    let kernel = dense(&[vec![2.0, 1.0], vec![1.0, 2.0]]);
    let empty = Broken { size: 0, value: 1.0 };
    let missing = Error::Empty { quantity: "operator" };
    assert_eq!(conjugate_gradients(&empty, &[], TIGHT), Err(missing.clone()));
    assert_eq!(lanczos_top(&empty, 1, TIGHT, rng), Err(missing.clone()));
    assert_eq!(largest_eigenvalue(&empty, 1, 0.1, rng), Err(missing.clone()));
    assert_eq!(hutchinson_trace(&empty, 2, rng), Err(missing.clone()));
    assert_eq!(block_scores(&[empty], 1.0, 2, TIGHT, rng), Err(missing));
    let none: [DenseKernel; 0] = [];
    let missing = Error::Empty { quantity: "blocks" };
    assert_eq!(block_scores(&none, 1.0, 2, TIGHT, rng), Err(missing.clone()));
    assert_eq!(query_scores(&none, &[], 1.0, TIGHT), Err(missing));
    let missing = Error::Empty { quantity: "kernel" };
    assert_eq!(DenseKernel::new(Matrix::zeros(0, 0)), Err(missing));
    let missing = Error::Empty { quantity: "features" };
    assert_eq!(FactorKernel::new(Matrix::zeros(0, 2)), Err(missing));

    let sizes = |quantity| Error::SizeMismatch { quantity, found: 1, expected: 2 };
    let descent = GradientDescent {
        step: StepSize::new(0.1, &Spectrum::of(&[vec![1.0]]).unwrap()).unwrap(),
        horizon: 3,
    };
    let short = conjugate_gradients(&kernel, &[1.0], TIGHT);
    assert_eq!(short, Err(sizes("right-hand side")));
    let short = query_correction(&kernel, &[1.0], &[1.0, 1.0], descent);
    assert_eq!(short, Err(sizes("coupling")));
    let short = query_correction(&kernel, &[1.0, 1.0], &[1.0], descent);
    assert_eq!(short, Err(sizes("residuals")));
    let short = query_scores(&[&kernel, &kernel], &[vec![1.0, 1.0]], 1.0, TIGHT);
    assert_eq!(short, Err(sizes("couplings")));
    let short = query_scores(&[&kernel], &[vec![1.0]], 1.0, TIGHT);
    assert_eq!(short, Err(sizes("right-hand side")));
    let short = BlockSum::new(vec![kernel.clone(), dense(&[vec![1.0]])]);
    assert_eq!(short, Err(sizes("block")));
    let short = DenseKernel::new(&[vec![1.0], vec![1.0]]);
    assert_eq!(short, Err(sizes("kernel row")));

    for value in [f64::NAN, f64::INFINITY] {
        let found = conjugate_gradients(&kernel, &[1.0, value], TIGHT);
        assert!(matches!(
            found,
            Err(Error::NotFinite { quantity: "right-hand side", index: 1, .. })
        ));
        let operator = Broken { size: 2, value };
        let refused = |error: Error| {
            assert!(matches!(
                error,
                Error::NotFinite { quantity: "operator product", index: 0, .. }
            ));
        };
        refused(conjugate_gradients(&operator, &[1.0, 0.5], TIGHT).unwrap_err());
        refused(lanczos_top(&operator, 1, TIGHT, rng).unwrap_err());
        refused(largest_eigenvalue(&operator, 2, 0.1, rng).unwrap_err());
        refused(hutchinson_trace(&operator, 2, rng).unwrap_err());
        refused(query_correction(&operator, &[1.0, 1.0], &[1.0, 1.0], descent).unwrap_err());
    }
    let error = lanczos_top(&Broken { size: 2, value: -1.0 }, 1, TIGHT, rng).unwrap_err();
    let Error::NotPositiveSemidefinite { smallest, largest } = error else { panic!("{error}") };
    assert_close(smallest, -1.0, 1.0, 2);
    assert_close(largest, -1.0, 1.0, 2);
    let steep = Broken { size: 2, value: 20.0 };
    let error = query_correction(&steep, &[1.0, 1.0], &[1.0, 1.0], descent).unwrap_err();
    assert_eq!(error, Error::StepTooLarge { step: 0.1, limit: 0.05 });
}

/// Numbers outside their range are refused with their name.
#[test]
fn app_h_numbers_out_of_range_are_refused() {
    #[track_caller]
    fn refused<V: std::fmt::Debug>(outcome: Result<V, Error>, name: &str, value: f64) {
        let error = outcome.unwrap_err();
        let Error::OutOfRange { quantity, found, .. } = error else { panic!("{error}") };
        assert_eq!((quantity, found.to_bits()), (name, value.to_bits()));
    }
    let rng = &mut Rng::new(1);
    let kernel = dense(&[vec![2.0, 1.0], vec![1.0, 2.0]]);
    let lax = Stopping { tolerance: 0.0, iterations: 9 };
    refused(conjugate_gradients(&kernel, &[1.0, 1.0], lax), "tolerance", 0.0);
    refused(lanczos_top(&kernel, 1, lax, rng), "tolerance", 0.0);
    refused(lanczos_top(&kernel, 0, TIGHT, rng), "number of eigenpairs", 0.0);
    refused(lanczos_top(&kernel, 3, TIGHT, rng), "number of eigenpairs", 3.0);
    let brief = Stopping { tolerance: 0.1, iterations: 1 };
    refused(lanczos_top(&kernel, 2, brief, rng), "number of eigenpairs", 2.0);
    refused(largest_eigenvalue(&kernel, 0, 0.1, rng), "number of Lanczos steps", 0.0);
    refused(largest_eigenvalue(&kernel, 1, 1.0, rng), "failure probability", 1.0);
    refused(hutchinson_trace(&kernel, 1, rng), "number of probes", 1.0);
    refused(block_scores(&[&kernel], 1.0, 1, TIGHT, rng), "number of probes", 1.0);
    refused(block_scores(&[&kernel], 0.0, 2, TIGHT, rng), "noise variance", 0.0);
    refused(query_scores(&[&kernel], &[vec![1.0, 1.0]], -1.0, TIGHT), "noise variance", -1.0);
    refused(Shifted::new(&kernel, -1.0).map(|_| ()), "shift", -1.0);
    let largest = LargestEigenvalue { value: 3.0, bound: 0.0 };
    refused(largest.step(1.0), "step scale", 1.0);

    let fine = EvidenceSettings {
        step: largest.step(0.5).unwrap(),
        largest,
        horizons: &[0, 2],
        noise: Noise::Profiled,
        probes: 2,
        lanczos_steps: 2,
    };
    let evidence = |settings: &EvidenceSettings<'_>, residuals: &[f64]| {
        estimate_evidence(&kernel, residuals, settings, &mut Rng::new(3))
    };
    assert!(evidence(&fine, &[1.0, 2.0]).is_ok());
    let bad = EvidenceSettings { noise: Noise::Fixed(0.0), ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "noise variance", 0.0);
    let bad = EvidenceSettings { probes: 1, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "number of probes", 1.0);
    let bad = EvidenceSettings { lanczos_steps: 0, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "number of Lanczos steps", 0.0);
    let bad = EvidenceSettings { horizons: &[], ..fine.clone() };
    let missing = Error::Empty { quantity: "candidate horizons" };
    assert_eq!(evidence(&bad, &[1.0, 2.0]), Err(missing));
    let low = LargestEigenvalue { value: 1.0, bound: 0.5 };
    let bad = EvidenceSettings { largest: low, ..fine.clone() };
    refused(evidence(&bad, &[1.0, 2.0]), "upper bound of the largest eigenvalue", 1.5);
    let high = LargestEigenvalue { value: 8.0, bound: 0.0 };
    let bad = EvidenceSettings { largest: high, ..fine.clone() };
    let step = fine.step.get();
    let steep = Error::StepTooLarge { step, limit: 0.125 };
    assert_eq!(evidence(&bad, &[1.0, 2.0]), Err(steep));
    refused(evidence(&fine, &[0.0, 0.0]), "noise variance", 0.0);
    let sizes = Error::SizeMismatch { quantity: "residuals", found: 1, expected: 2 };
    assert_eq!(evidence(&fine, &[1.0]), Err(sizes));
}

/// A zero kernel and zero residuals are prompts, too: no step helps, nothing is left to chance.
#[test]
fn app_h_zero_kernel_and_zero_residuals() {
    let rng = &mut Rng::new(1);
    for n in [1, 3] {
        let zero = FactorKernel::new(Matrix::zeros(n, 2)).unwrap();
        let pairs = lanczos_top(&zero, n, TIGHT, rng).unwrap();
        assert!(pairs.iter().all(|pair| (pair.value + pair.bound).to_bits() == 0));
        let largest = largest_eigenvalue(&zero, 5, 1e-9, rng).unwrap();
        assert_eq!(largest, LargestEigenvalue { value: 0.0, bound: 0.0 });
        let settings = EvidenceSettings {
            step: largest.step(0.5).unwrap(),
            largest,
            horizons: &[0, 9],
            noise: Noise::Fixed(2.0),
            probes: 2,
            lanczos_steps: 3,
        };
        let found = estimate_evidence(&zero, &vec![0.0; n], &settings, rng).unwrap();
        for value in found.values {
            assert_close(value.mean, 0.5 * 2.0_f64.ln(), 1.0, n);
            assert_close(value.standard_error, 0.0, 0.0, n);
        }
        let profiled = EvidenceSettings { noise: Noise::Profiled, ..settings };
        let found = estimate_evidence(&zero, &vec![3.0; n], &profiled, rng).unwrap();
        for value in found.values {
            assert_close(value.mean, 0.5 * (9.0_f64.ln() + 1.0), 1.0, n);
        }
        let scores = block_scores(&[&zero], 1.0, 2, TIGHT, rng).unwrap();
        assert_close(scores[0].mean, 0.0, 0.0, n);
        assert_close(hutchinson_trace(&zero, 2, rng).unwrap().mean, 0.0, 0.0, n);
    }
}

//! Whether conjugate gradients solve what they say they solve.

use super::{TIGHT, dense, frobenius, gram, random};
use crate::support::{
    assert_close, dot, eliminate, for_prompts, multiply, norm, normals, shifted, subtract,
    trace,
};
use fewstep_core::{Error, Rng};
use fewstep_theory::matfree::{FactorKernel, Shifted, Stopping, conjugate_gradients};

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

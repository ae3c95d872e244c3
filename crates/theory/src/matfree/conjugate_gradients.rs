//! Linear systems in prompt space, from products alone.
//!
//! Written by hand: the linear-algebra library has the method, too, but it reports the residual
//! of the zero start when it fails, takes eight arguments, and would put its own matrix and
//! memory types into the signatures of this crate.

use super::operator::{LinearOperator, check_operator, product};
use fewstep_core::Error;
use fewstep_core::checks::{check_positive, check_vector};
use fewstep_core::linear_algebra::{add_scaled, dot, squared_norm};

/// When an iterative method may stop, and when it must.
///
/// | name | meaning | range |
/// |---|---|---|
/// | `tolerance` | relative residual that counts as solved | over 0 |
/// | `iterations` | products with the operator before giving up | any |
///
/// # Examples
///
/// ```
/// use fewstep_theory::matfree::Stopping;
///
/// let stopping = Stopping { iterations: 50, ..Stopping::default() };
/// assert_eq!(stopping.tolerance, 1e-8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stopping {
    /// The relative residual that counts as solved; 10⁻⁸ by default.
    pub tolerance: f64,
    /// The number of iterations after which to give up; 1000 by default.
    pub iterations: usize,
}

impl Default for Stopping {
    fn default() -> Self {
        Self { tolerance: 1e-8, iterations: 1000 }
    }
}

/// The solution of a linear system and how well it solves it.
///
/// # Examples
///
/// ```
/// # use fewstep_theory::{Error, matfree::{DenseKernel, Stopping, conjugate_gradients}};
/// let operator = DenseKernel::new(&[vec![4.0]])?;
/// let solution = conjugate_gradients(&operator, &[8.0], Stopping::default())?;
/// assert_eq!((solution.iterations, solution.residual), (1, 0.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// `x` with `Ax ≈ b`.
    pub vector: Vec<f64>,
    /// Iterations done.
    pub iterations: usize,
    /// `‖b − Ax‖/‖b‖`, computed from the solution itself; 0 for a zero right-hand side.
    pub residual: f64,
}

/// Solves a linear system with a symmetric positive semidefinite operator.
///
/// ```text
/// x ≈ A⁻¹ b     with ‖b − Ax‖ ≤ tolerance · ‖b‖                                     (App. H)
/// ```
///
/// Each iteration costs one product and `O(n)`. The residual that the recurrence carries drifts
/// away from the true one; before anything is returned the true one is computed (one more
/// product), and if it is still too large the iteration starts again from there. A singular
/// operator is fine as long as `b` lies in its range.
///
/// # Errors
///
/// [`Error::NotConverged`], with the true residual of the last iterate, if the tolerance was not
/// reached, also when the iteration broke down because `b` is out of the operator's range.
/// [`Error::Empty`], [`Error::SizeMismatch`], [`Error::NotFinite`] and [`Error::OutOfRange`] for
/// input that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, matfree::{DenseKernel, Stopping, conjugate_gradients}};
///
/// let operator = DenseKernel::new(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
/// let solution = conjugate_gradients(&operator, &[3.0, 0.0], Stopping::default())?;
/// assert!((solution.vector[0] - 2.0).abs() < 1e-14);
/// assert!((solution.vector[1] + 1.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
pub fn conjugate_gradients(
    operator: &impl LinearOperator,
    right_side: &[f64],
    stopping: Stopping,
) -> Result<Solution, Error> {
    let n = check_operator(operator)?;
    check_vector("right-hand side", right_side, n)?;
    check_positive("tolerance", stopping.tolerance)?;
    let scale = length(right_side);
    if scale == 0.0 {
        return Ok(Solution { vector: vec![0.0; n], iterations: 0, residual: 0.0 });
    }
    let unit: Vec<f64> = right_side.iter().map(|value| value / scale).collect();
    let mut solution = vec![0.0; n];
    let mut residual = unit.clone();
    let mut direction = unit.clone();
    let mut image = vec![0.0; n];
    let mut energy = squared_norm(&residual);
    let (mut iterations, mut broken) = (0, false);
    loop {
        let last = broken || iterations == stopping.iterations;
        if last || energy.sqrt() <= stopping.tolerance {
            product(operator, &solution, &mut image)?;
            for ((r, b), ax) in residual.iter_mut().zip(&unit).zip(&image) {
                *r = b - ax;
            }
            energy = squared_norm(&residual);
            if energy.sqrt() <= stopping.tolerance {
                solution.iter_mut().for_each(|value| *value *= scale);
                return Ok(Solution { vector: solution, iterations, residual: energy.sqrt() });
            }
            if last {
                return Err(Error::NotConverged {
                    method: "conjugate gradients",
                    iterations,
                    residual: energy.sqrt(),
                    tolerance: stopping.tolerance,
                });
            }
            direction.copy_from_slice(&residual);
        }
        product(operator, &direction, &mut image)?;
        let length = energy / dot(&direction, &image);
        // A direction without curvature: nothing more can be gained along it.
        broken = !(length.is_finite() && length > 0.0);
        if broken {
            continue;
        }
        add_scaled(&mut solution, length, &direction);
        add_scaled(&mut residual, -length, &image);
        let next = squared_norm(&residual);
        for (d, r) in direction.iter_mut().zip(&residual) {
            *d = r + next / energy * *d;
        }
        energy = next;
        iterations += 1;
    }
}

/// Euclidean length, without overflow or underflow of the squares.
pub(super) fn length(vector: &[f64]) -> f64 {
    let scale = vector.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    if scale == 0.0 {
        return 0.0;
    }
    scale * vector.iter().map(|value| (value / scale).powi(2)).sum::<f64>().sqrt()
}

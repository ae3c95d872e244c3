//! Which step is stable for an arm.
//!
//! In: a product with a symmetric kernel. Out: its largest eigenvalue, with a residual that was
//! checked, and a [`ClassStep`] that is known to be stable.

use crate::error::Error;
use crate::linalg::eigen;
use crate::matrix::Matrix;
use crate::rng::Rng;
use crate::spectrum::KERNEL_ROUNDING;
use crate::vectors::{add_scaled, dot};

/// Where the iteration ends: the eigenvalue then has twice the digits of this residual, unless
/// others lie close.
const AIM: f64 = 1e-8;

/// The largest relative residual that is accepted; it is added to the eigenvalue.
const ALLOWED: f64 = 1e-3;

/// The number of products after which the iteration gives up.
const MOST_PRODUCTS: usize = 300;

/// A step size known to be stable for a kernel and a loss.
///
/// ```text
/// 0 < ρ < 1/(h λ_max(K)),   h: the largest curvature of an example's loss in its label scores
/// ```
///
/// In parameter space the loss has a Hessian `ΦᵀHΦ ≤ h λ_max(ΦΦᵀ)`, so that a step of gradient
/// descent lowers it whenever `ρ < 2/(h λ_max)`; half of that limit also keeps every mode from
/// overshooting, `1 − ρhλ > 0`. Cross-entropy has `h = ½`, since `vᵀ(diag(p) − ppᵀ)v` is the variance
/// of `v` under `p`, at most `½‖v‖²`; squared losses have `h = 1`. A kernel without some of the
/// examples is a principal part of the whole, with no larger eigenvalue: one step serves all
/// leave-one-out runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClassStep(f64);

impl ClassStep {
    /// A fraction of the largest stable step; `None` for a kernel that is 0, or too small for any
    /// step to be a number.
    pub(super) fn fraction(scale: f64, largest: f64, curvature: f64) -> Option<Self> {
        let step = scale / (curvature * largest);
        (0.0 < scale && scale < 1.0 && step.is_finite()).then_some(Self(step))
    }

    pub(super) fn get(self) -> f64 {
        self.0
    }
}

/// The largest eigenvalue of a positive semidefinite kernel that is known by its products alone,
/// within the given number of them.
///
/// Lanczos' method with full reorthogonalisation. Some eigenvalue lies within the residual of the value
/// that is found, and with a random start almost surely the largest: a residual over 10⁻⁸ is added, so
/// that a step is never too large, and a smaller one leaves an error of its square. Costs one product and `2km`
/// multiplications in round `k` for `m` outputs, and usually ends after 10 to 60 rounds.
///
/// # Errors
///
/// [`Error::NotConverged`], [`Error::NotPositiveSemidefinite`] for a negative eigenvalue that
/// rounding does not explain, [`Error::NotFinite`] if a product overflows.
pub(super) fn largest_eigenvalue(
    start: Vec<f64>,
    most_products: usize,
    mut product: impl FnMut(&[f64], &mut [f64]),
) -> Result<f64, Error> {
    let outputs = start.len();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let (mut diagonal, mut beside): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut next = start;
    if normalise(&mut next)?.is_none() {
        return Ok(0.0);
    }
    loop {
        let mut image = vec![0.0; outputs];
        product(&next, &mut image);
        let size = largest_entry(&image)?;
        diagonal.push(dot(&next, &image));
        basis.push(next);
        // Twice: once leaves what the first pass rounded off.
        for _ in 0..2 {
            for direction in &basis {
                let share = dot(direction, &image);
                add_scaled(&mut image, -share, direction);
            }
        }
        let rounding = outputs as f64 * f64::EPSILON * size.max(diagonal[0].abs());
        let length = normalise(&mut image)?.filter(|&length| length > rounding);
        let rounds = diagonal.len();
        let last = length.is_none() || rounds == most_products;
        if last || rounds.is_power_of_two() || rounds.is_multiple_of(16) {
            let found = ritz(&diagonal, &beside, length.unwrap_or(0.0))?;
            if last || found.residual <= AIM * found.largest {
                return found.checked(rounds, outputs);
            }
        }
        beside.push(length.unwrap_or(0.0));
        next = image;
    }
}

/// The same for a kernel on `examples · classes` outputs that are centred per example.
pub(super) fn largest_centred(
    examples: usize,
    classes: usize,
    product: impl FnMut(&[f64], &mut [f64]),
) -> Result<f64, Error> {
    let mut rng = Rng::new(0x5EED);
    let start: Vec<f64> = (0..examples)
        .flat_map(|_| {
            let row: Vec<f64> = (0..classes).map(|_| rng.normal()).collect();
            super::kernel::centred(&row)
        })
        .collect();
    largest_eigenvalue(start, MOST_PRODUCTS, product)
}

/// Ends of the spectrum of a tridiagonal matrix, and how well the upper one is known.
struct Ritz {
    largest: f64,
    smallest: f64,
    residual: f64,
}

impl Ritz {
    fn checked(&self, iterations: usize, outputs: usize) -> Result<f64, Error> {
        let Self { largest, smallest, residual } = *self;
        if -smallest > outputs as f64 * KERNEL_ROUNDING * largest.abs() {
            return Err(Error::NotPositiveSemidefinite { smallest, largest });
        }
        let relative = if largest > 0.0 { residual / largest } else { 0.0 };
        if relative > ALLOWED {
            return Err(Error::NotConverged {
                method: "largest eigenvalue of an arm's kernel",
                iterations,
                residual: relative,
                tolerance: ALLOWED,
            });
        }
        let spread = if relative > AIM { residual } else { 0.0 };
        Ok((largest + spread).max(0.0))
    }
}

fn ritz(diagonal: &[f64], beside: &[f64], length: f64) -> Result<Ritz, Error> {
    let rounds = diagonal.len();
    let (values, vectors) =
        eigen(&Matrix::from_fn(rounds, rounds, |i, j| match i.abs_diff(j) {
            0 => diagonal[i],
            1 => beside[i.min(j)],
            _ => 0.0,
        }))?;
    let residual = length * vectors[(0, rounds - 1)].abs();
    Ok(Ritz { largest: values[0], smallest: values[rounds - 1], residual })
}

/// Divides a vector by its length, which is returned; `None` for a zero vector.
fn normalise(vector: &mut [f64]) -> Result<Option<f64>, Error> {
    let largest = largest_entry(vector)?;
    if largest == 0.0 {
        return Ok(None);
    }
    // Squares of entries of any magnitude.
    vector.iter_mut().for_each(|entry| *entry /= largest);
    let length = dot(vector, vector).sqrt();
    vector.iter_mut().for_each(|entry| *entry /= length);
    Ok(Some(length * largest))
}

fn largest_entry(vector: &[f64]) -> Result<f64, Error> {
    crate::checks::check_finite("product with an arm's kernel", vector)?;
    Ok(vector.iter().fold(0.0_f64, |largest, entry| largest.max(entry.abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spectrum;
    use crate::linalg::gram;

    fn of(kernel: &Matrix, most_products: usize) -> Result<f64, Error> {
        let mut rng = Rng::new(3);
        let start = (0..kernel.rows()).map(|_| rng.normal()).collect();
        largest_eigenvalue(start, most_products, |vector, image| {
            image.copy_from_slice(&kernel.multiply(vector).expect("sizes agree"));
        })
    }

    /// By products alone as by a checked decomposition, for kernels of every rank and magnitude.
    #[test]
    fn products_find_the_eigenvalue_of_a_decomposition() {
        let mut rng = Rng::new(8);
        for n in [1, 2, 3, 7, 30, 90] {
            for width in [1, 2, n, 2 * n] {
                for scale in [1e-100_f64, 1e-6, 1.0, 1e6, 1e100] {
                    let features =
                        Matrix::from_fn(n, width, |_, _| scale.sqrt() * rng.normal());
                    let kernel = gram(&features);
                    let expected = Spectrum::of(&kernel).expect("a kernel").largest();
                    let found = of(&kernel, MOST_PRODUCTS).expect("it converges");
                    let allowed = 64.0 * n as f64 * f64::EPSILON * expected;
                    assert!(
                        (found - expected).abs() <= allowed,
                        "{found:e}, {expected:e}, n = {n}, width = {width}"
                    );
                }
            }
        }
    }

    #[test]
    fn repeated_and_vanishing_eigenvalues() {
        assert!((of(&Matrix::identity(50), 300).unwrap() - 1.0).abs() < 1e-14);
        assert!(of(&Matrix::zeros(4, 4), 300).unwrap().abs() < f64::MIN_POSITIVE);
        let ones = Matrix::from_fn(40, 40, |_, _| 1.0);
        assert!((of(&ones, 300).unwrap() - 40.0).abs() < 1e-12);
    }

    /// With too few products the residual is the true one, and the value never too small by more.
    #[test]
    fn an_eigenvalue_that_is_not_known_is_refused_or_has_its_residual_added() {
        let kernel = Matrix::from_fn(60, 60, |i, j| if i == j { 60.0 - i as f64 } else { 0.0 });
        match of(&kernel, 4) {
            Err(Error::NotConverged { iterations: 4, residual, tolerance, .. }) => {
                assert!(residual > tolerance && tolerance == ALLOWED);
            }
            other => panic!("{other:?}"),
        }
        let early = (5..60).filter_map(|products| of(&kernel, products).ok());
        assert!(early.into_iter().all(|found| (60.0 - 1e-8..60.1).contains(&found)));
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let indefinite = Matrix::from_fn(3, 3, |i, j| match i == j {
            true => [1.0, 0.5, -0.5][i],
            false => 0.0,
        });
        assert!(matches!(
            of(&indefinite, 300),
            Err(Error::NotPositiveSemidefinite { smallest, largest })
                if (smallest + 0.5).abs() < 1e-12 && (largest - 1.0).abs() < 1e-12
        ));
        let mut products = 0;
        let negative = largest_eigenvalue(vec![1.0; 3], 300, |vector, image| {
            products += 1;
            image.iter_mut().zip(vector).for_each(|(image, entry)| *image = -entry);
        });
        assert!(matches!(negative, Err(Error::NotPositiveSemidefinite { .. })));
        assert_eq!(products, 1);
        let overflowing = Matrix::from_fn(3, 3, |_, _| f64::MAX);
        assert!(matches!(of(&overflowing, 300), Err(Error::NotFinite { .. })));
    }

    #[test]
    fn a_step_is_a_fraction_of_the_largest_stable_one() {
        let step = ClassStep::fraction(0.6, 4.0, 0.5).expect("stable");
        assert!((step.get() - 0.3).abs() < 1e-15);
        assert_eq!(ClassStep::fraction(0.6, 0.0, 0.5), None);
        assert_eq!(ClassStep::fraction(1.0, 4.0, 0.5), None);
        assert_eq!(ClassStep::fraction(0.5, f64::MIN_POSITIVE / 8.0, 1.0), None);
    }
}

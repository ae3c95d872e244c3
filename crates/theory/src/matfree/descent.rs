//! Gradient descent on a large prompt, step by step.

use super::operator::{LinearOperator, check_operator, product};
use fewstep_core::checks::check_vector;
use fewstep_core::linear_algebra::{add_scaled, dot, squared_norm};
use fewstep_core::{Error, GradientDescent};

/// The correction at the query after a number of gradient steps, taken one by one.
///
/// ```text
/// k_xᵀ q_T(K) r,   q_T(K) r = ρ Σ_{t<T} (I − ρK)^t r                               (Prop. E.1)
/// ```
///
/// Costs one product per step and three vectors of memory; with a
/// [`Spectrum`](fewstep_core::Spectrum), [`query_correction`](fewstep_core::Filter::query_correction) of the
/// filter gives the same number.
///
/// # Errors
///
/// [`Error::StepTooLarge`] if the steps reveal an eigenvalue of at least `1/ρ` (the reported
/// limit is an upper bound of the true one); [`Error::Empty`], [`Error::SizeMismatch`] or
/// [`Error::NotFinite`] for input that does not fit.
///
/// # Examples
///
/// ```
/// use fewstep_theory::matfree::{DenseKernel, query_correction};
/// use fewstep_core::{Error, GradientDescent, Spectrum, StepSize};
///
/// // One example with kernel 4: two steps of 1/8 close half of the gap each.
/// let step = StepSize::new(0.125, &Spectrum::of(&[vec![4.0]])?)?;
/// let descent = GradientDescent { step, horizon: 2 };
/// let kernel = DenseKernel::new(&[vec![4.0]])?;
/// assert_eq!(query_correction(&kernel, &[2.0], &[1.0], descent)?, 0.375);
/// # Ok::<(), Error>(())
/// ```
pub fn query_correction(
    operator: &impl LinearOperator,
    coupling: &[f64],
    residuals: &[f64],
    descent: GradientDescent,
) -> Result<f64, Error> {
    let n = check_operator(operator)?;
    check_vector("coupling", coupling, n)?;
    check_vector("residuals", residuals, n)?;
    let step = descent.step.get();
    // What is left of the residuals after t steps, (I − ρK)^t r, and the sum of it so far.
    let mut rest = residuals.to_vec();
    let mut sum = vec![0.0; n];
    let mut image = vec![0.0; n];
    for step_index in 0..descent.horizon {
        if step_index > 0 {
            product(operator, &rest, &mut image)?;
            let (energy, curvature) = (squared_norm(&rest), dot(&rest, &image));
            if curvature > 0.0 && step * curvature >= energy {
                return Err(Error::StepTooLarge { step, limit: energy / curvature });
            }
            add_scaled(&mut rest, -step, &image);
        }
        add_scaled(&mut sum, 1.0, &rest);
    }
    Ok(step * dot(coupling, &sum))
}

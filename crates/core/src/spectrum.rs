//! The modes of a prompt: the directions of prompt space that an update fits, and how fast.
//!
//! In: a kernel. Out: [`Spectrum`], its checked eigendecomposition, and [`StepSize`], a step
//! that is known to be stable for it. Every other file works in the modes found here and never
//! decomposes the kernel again.

use crate::checks::{check_fraction, check_size, check_vector};
use crate::error::Error;
use crate::linalg;
use crate::matrix::{IntoMatrix, Matrix};
use crate::vectors::dot;

/// The eigenvalues and eigenvectors of a prompt's kernel, `K = U diag(λ) Uᵀ`.
///
/// Eigenvalues are in descending order and never negative: what rounding made negative is set
/// to 0 and counted, and a kernel that is truly indefinite is refused. The decomposition is
/// checked against the kernel before it is handed out.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum};
///
/// // Eigenvalues 3 and 1 along (1, 1) and (1, −1).
/// let spectrum = Spectrum::of(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
/// assert!((spectrum.eigenvalues()[0] - 3.0).abs() < 1e-14);
/// assert!((spectrum.eigenvalues()[1] - 1.0).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    eigenvalues: Vec<f64>,
    /// Row `i` is the eigenvector of eigenvalue `i`.
    modes: Matrix,
    rank: usize,
    clamped: usize,
    residual: f64,
}

/// Rounding in a kernel that was summed in single precision, per example and relative to the
/// largest eigenvalue. Kernels are mostly computed from f32 activations.
pub(crate) const KERNEL_ROUNDING: f64 = f32::EPSILON as f64;

/// What the eigendecomposition may leave, per example and relative to the largest eigenvalue.
const DECOMPOSITION_ROUNDING: f64 = 64.0 * f64::EPSILON;

impl Spectrum {
    /// Decomposes a kernel: a [`Matrix`] or its rows.
    ///
    /// Asymmetry and negative eigenvalues up to `n · ε₃₂` of the largest entry or eigenvalue are
    /// taken for rounding (kernels are often summed in single precision): the two triangles are
    /// averaged and the negative eigenvalues become 0.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::SizeMismatch`] and [`Error::NotFinite`] unless it is a square
    /// matrix of finite numbers, [`Error::NotSymmetric`] and [`Error::NotPositiveSemidefinite`]
    /// unless it can be `ΦΦᵀ`, and [`Error::Decomposition`] if the decomposition fails its check.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Spectrum};
    ///
    /// let indefinite = Spectrum::of(&[vec![0.0, 1.0], vec![1.0, 0.0]]);
    /// assert!(matches!(indefinite, Err(Error::NotPositiveSemidefinite { .. })));
    /// ```
    pub fn of(kernel: impl IntoMatrix) -> Result<Self, Error> {
        let kernel = symmetric(&kernel.into_matrix()?)?;
        let (eigenvalues, modes) = linalg::eigen(&kernel)?;
        Self::checked(&kernel, eigenvalues, modes)
    }

    /// A decomposition of a symmetric kernel, once it is known to be one.
    fn checked(
        kernel: &Matrix,
        mut eigenvalues: Vec<f64>,
        modes: Matrix,
    ) -> Result<Self, Error> {
        let n = kernel.rows();
        let scale = eigenvalues.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let (largest, smallest) = (eigenvalues[0], eigenvalues[n - 1]);
        if smallest < -(n as f64) * KERNEL_ROUNDING * largest.max(0.0) {
            return Err(Error::NotPositiveSemidefinite { smallest, largest });
        }
        let residual = residual(kernel, &eigenvalues, &modes, scale);
        let allowed = n as f64 * DECOMPOSITION_ROUNDING;
        if residual > allowed {
            return Err(Error::Decomposition { residual, allowed });
        }
        // Rounding makes eigenvalues negative and positive alike: what is not clearly larger than
        // the most negative one is noise, too.
        let noise = (n as f64 * DECOMPOSITION_ROUNDING * scale).max(-2.0 * smallest);
        let rank = eigenvalues.iter().take_while(|&&value| value > noise).count();
        let clamped = eigenvalues.iter().filter(|&&value| value < 0.0).count();
        for value in &mut eigenvalues {
            *value = value.max(0.0);
        }
        Ok(Self { eigenvalues, modes, rank, clamped, residual })
    }

    /// Number of prompt examples, `n`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// assert_eq!(Spectrum::of(&[vec![4.0]])?.examples(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn examples(&self) -> usize {
        self.eigenvalues.len()
    }

    /// `λ_i`: the eigenvalues, largest first, one per mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 4.0]])?;
    /// assert_eq!(spectrum.eigenvalues(), [4.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// `λ_max`: the largest eigenvalue.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// assert_eq!(Spectrum::of(&[vec![4.0]])?.largest(), 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.eigenvalues[0]
    }

    /// `u_i`: the unit vector of one mode.
    ///
    /// # Panics
    ///
    /// If there is no such mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 4.0]])?;
    /// assert_eq!(spectrum.mode(0)[1].abs(), 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn mode(&self, mode: usize) -> &[f64] {
        self.modes.row(mode)
    }

    /// `Uᵀv`: a vector over examples, rewritten as amounts of each mode.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
    /// let amounts = spectrum.rotate(&[3.0, 3.0])?;
    /// assert!((amounts[0].abs() - 18.0_f64.sqrt()).abs() < 1e-14);
    /// assert!(amounts[1].abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rotate(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("vector", vector, self.examples())?;
        Ok(self.amounts(vector))
    }

    /// `Um`: amounts of each mode, put together to a vector over examples again.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] unless there is one number per mode.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![2.0, 1.0], vec![1.0, 2.0]])?;
    /// let back = spectrum.rotate_back(&spectrum.rotate(&[1.0, 5.0])?)?;
    /// assert!((back[0] - 1.0).abs() < 1e-14 && (back[1] - 5.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn rotate_back(&self, amounts: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("amounts", amounts, self.examples())?;
        Ok(self.assemble(amounts))
    }

    /// [`Spectrum::rotate`] for a vector that has been checked.
    pub(crate) fn amounts(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.examples()).map(|mode| dot(self.mode(mode), vector)).collect()
    }

    /// [`Spectrum::rotate_back`] for amounts that have been checked.
    pub(crate) fn assemble(&self, amounts: &[f64]) -> Vec<f64> {
        let mut vector = vec![0.0; self.examples()];
        for (mode, &amount) in amounts.iter().enumerate() {
            crate::vectors::add_scaled(&mut vector, amount, self.mode(mode));
        }
        vector
    }

    /// Dimension of the representable range `S = range(K)`: how many modes an update can reach.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// assert_eq!(Spectrum::of(&[vec![1.0, 1.0], vec![1.0, 1.0]])?.rank(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many modes carry the kernel's weight, as a number between 1 and the rank.
    ///
    /// ```text
    /// (Σ λ_i)² / Σ λ_i²
    /// ```
    ///
    /// It is 0 for a zero kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let level = Spectrum::of(&[vec![3.0, 0.0], vec![0.0, 3.0]])?;
    /// assert_eq!(level.effective_rank(), 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn effective_rank(&self) -> f64 {
        let largest = self.largest();
        if largest == 0.0 {
            return 0.0;
        }
        let sum: f64 = self.eigenvalues.iter().map(|value| value / largest).sum();
        let squares: f64 = self.eigenvalues.iter().map(|value| (value / largest).powi(2)).sum();
        sum * sum / squares
    }

    /// `Π_S v`: the part of a vector that some update can produce.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 0.0]])?;
    /// assert_eq!(spectrum.project(&[5.0, 7.0])?, [5.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn project(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("vector", vector, self.examples())?;
        let mut amounts = self.amounts(vector);
        amounts[self.rank..].fill(0.0);
        Ok(self.assemble(&amounts))
    }

    /// `Π_S⊥ v`: the part of a vector that no update can produce.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for a vector that does not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, 0.0]])?;
    /// assert_eq!(spectrum.project_outside(&[5.0, 7.0])?, [0.0, 7.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn project_outside(&self, vector: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("vector", vector, self.examples())?;
        let mut amounts = self.amounts(vector);
        amounts[..self.rank].fill(0.0);
        Ok(self.assemble(&amounts))
    }

    /// How many eigenvalues rounding had made negative and were set to 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![1.0, 0.0], vec![0.0, -1e-9]])?;
    /// assert_eq!((spectrum.clamped(), spectrum.eigenvalues()[1]), (1, 0.0));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn clamped(&self) -> usize {
        self.clamped
    }

    /// How far the decomposition is from the kernel, relative to the largest eigenvalue.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// assert!(Spectrum::of(&[vec![2.0, 1.0], vec![1.0, 2.0]])?.residual() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.residual
    }

    /// `1/λ_max(K)`: the smallest step size that is too large (Prop. 4.1); infinite if `K = 0`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum};
    /// assert_eq!(Spectrum::of(&[vec![4.0]])?.step_limit(), 0.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn step_limit(&self) -> f64 {
        1.0 / self.largest()
    }
}

/// A kernel with its two triangles averaged, once they are known to agree up to rounding.
///
/// # Errors
///
/// [`Error::Empty`], [`Error::SizeMismatch`] or [`Error::NotSymmetric`] unless the matrix is
/// symmetric.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Matrix, linear_algebra::symmetric};
///
/// let kernel = Matrix::from_rows(&[vec![2.0, 1.0], vec![1.0 + 1e-15, 2.0]])?;
/// let averaged = symmetric(&kernel)?;
/// assert_eq!(averaged[(0, 1)], averaged[(1, 0)]);
/// assert!(symmetric(&Matrix::from_rows(&[vec![2.0, 1.0], vec![0.0, 2.0]])?).is_err());
/// # Ok::<(), Error>(())
/// ```
pub fn symmetric(kernel: &Matrix) -> Result<Matrix, Error> {
    let n = kernel.rows();
    if n == 0 {
        return Err(Error::Empty { quantity: "kernel" });
    }
    check_size("kernel row", kernel.columns(), n)?;
    let scale = kernel.values().iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let allowed = n as f64 * KERNEL_ROUNDING * scale;
    for row in 0..n {
        for column in row + 1..n {
            let (upper, lower) = (kernel[(row, column)], kernel[(column, row)]);
            if (upper - lower).abs() > allowed {
                return Err(Error::NotSymmetric { row, column, upper, lower });
            }
        }
    }
    Ok(Matrix::from_fn(n, n, |i, j| 0.5 * kernel[(i, j)] + 0.5 * kernel[(j, i)]))
}

/// The largest entry of `K Uᵀ − Uᵀ Λ` and of `U Uᵀ − I`, relative to the largest eigenvalue.
fn residual(kernel: &Matrix, eigenvalues: &[f64], modes: &Matrix, scale: f64) -> f64 {
    if scale == 0.0 {
        return 0.0;
    }
    let images = linalg::product(modes, kernel);
    let overlaps = linalg::product_transposed(modes, modes);
    let mut worst = 0.0_f64;
    for (i, &eigenvalue) in eigenvalues.iter().enumerate() {
        for j in 0..eigenvalues.len() {
            let image = (images[(i, j)] - eigenvalue * modes[(i, j)]).abs() / scale;
            let overlap = (overlaps[(i, j)] - f64::from(u8::from(i == j))).abs();
            // `max` passes over NaN, which must not pass for accurate.
            if image.is_nan() || overlap.is_nan() {
                return f64::INFINITY;
            }
            worst = worst.max(image).max(overlap);
        }
    }
    worst
}

/// A step size `ρ` known to satisfy `0 < ρ < 1/λ_max(K)`, the condition of Prop. 4.1.
///
/// The only way to obtain one is to name the spectrum it is meant for, so a filter can never
/// be evaluated outside the range where its implicit prior exists.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
///
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// assert_eq!(StepSize::fraction(0.5, &spectrum)?.get(), 0.125);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepSize(f64);

impl StepSize {
    /// A step size given as a number.
    ///
    /// # Errors
    ///
    /// [`Error::StepTooLarge`] unless it is over 0 and under [`Spectrum::step_limit`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// assert_eq!(StepSize::new(0.2, &spectrum)?.get(), 0.2);
    /// assert!(StepSize::new(0.3, &spectrum).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(step: f64, spectrum: &Spectrum) -> Result<Self, Error> {
        let limit = spectrum.step_limit();
        // The product is what the filters use; near the limit it may round to 1 before ρ does.
        if 0.0 < step && step < limit && step.is_finite() && step * spectrum.largest() < 1.0 {
            Ok(Self(step))
        } else {
            Err(Error::StepTooLarge { step, limit })
        }
    }

    /// `ρ = c/λ_max(K)`: a step size as a fraction of the limit.
    ///
    /// A zero kernel has no limit, and no step changes anything; `ρ = c` is returned for it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the fraction is over 0 and under 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// assert_eq!(StepSize::fraction(0.1, &spectrum)?.get(), 0.025);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fraction(fraction: f64, spectrum: &Spectrum) -> Result<Self, Error> {
        check_fraction("step scale", fraction)?;
        if spectrum.largest() == 0.0 {
            return Ok(Self(fraction));
        }
        Self::new((fraction / spectrum.largest()).min(f64::MAX), spectrum)
    }

    /// `ρ` itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// assert_eq!(StepSize::new(0.1, &Spectrum::of(&[vec![4.0]])?)?.get(), 0.1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// `c = −log(1 − ρλ)`: the rate at which one step shrinks a mode's residual.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// // A step that halves what is left.
    /// let step = StepSize::new(0.125, &Spectrum::of(&[vec![4.0]])?)?;
    /// assert!((step.decay_rate(4.0) - 2.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn decay_rate(self, eigenvalue: f64) -> f64 {
        -f64::ln_1p(-self.0 * eigenvalue)
    }

    /// The same step, once it is known to be stable for another spectrum, too.
    ///
    /// # Errors
    ///
    /// [`Error::StepTooLarge`] if it is not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// let step = StepSize::new(0.2, &Spectrum::of(&[vec![4.0]])?)?;
    /// assert!(step.check(&Spectrum::of(&[vec![8.0]])?).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check(self, spectrum: &Spectrum) -> Result<Self, Error> {
        Self::new(self.0, spectrum)
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Matrix, Spectrum};

    /// Eigenvalues or modes that do not rebuild the kernel are refused with the residual.
    #[test]
    fn a_wrong_decomposition_is_refused() {
        let kernel = Matrix::from_rows(&[vec![4.0, 0.0], vec![0.0, 1.0]]).unwrap();
        let tilted = Matrix::from_rows(&[vec![0.8, 0.6], vec![-0.6, 0.8]]).unwrap();
        let stretched = Matrix::from_rows(&[vec![1.0, 0.0], vec![0.0, 1.5]]).unwrap();
        for (eigenvalues, modes) in [
            (vec![4.0, 1.5], Matrix::identity(2)),
            (vec![4.0, 1.0], tilted),
            (vec![4.0, 1.0], stretched),
            (vec![f64::NAN, 1.0], Matrix::identity(2)),
        ] {
            let Err(Error::Decomposition { residual, allowed }) =
                Spectrum::checked(&kernel, eigenvalues, modes)
            else {
                panic!("a wrong decomposition was taken");
            };
            assert!(residual > 0.1 && allowed < 1e-13);
        }
        assert!(Spectrum::checked(&kernel, vec![4.0, 1.0], Matrix::identity(2)).is_ok());
    }
}

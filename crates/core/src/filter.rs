//! How far an update goes in each mode: the filters that estimators of the correction are.
//!
//! Answers "how far" (Sec. 4, App. E, App. G). In: a [`Spectrum`] and residuals. Out: the
//! correction on the prompt and at the query. A filter is two functions of an eigenvalue, the
//! response on the prompt side and the gain on the query side; everything else follows.
//!
//! Preconditioned descent needs no filter of its own: with the preconditioner `Σ` it is
//! gradient descent under the kernel `ΦΣΦᵀ` (Thm. F.11), which
//! [`Block::from_prior`](crate::Block::from_prior) builds.

use crate::checks::{check_not_negative, check_positive, check_vector};
use crate::error::Error;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::dot;

/// An estimator of the correction that treats each mode by its eigenvalue alone.
///
/// ```text
/// on the prompt  f̂ = g(K) r        at the query  ĥ = k_xᵀ q(K) r,    g(λ) = λ q(λ)   (Sec. 4)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, GradientDescent, Spectrum, StepSize};
///
/// // One example with kernel 4: two steps of 1/8 close half of the gap each.
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let filter = GradientDescent { step: StepSize::new(0.125, &spectrum)?, horizon: 2 };
/// assert_eq!(filter.prompt_fit(&spectrum, &[1.0])?, [0.75]);
/// assert_eq!(filter.query_correction(&spectrum, &[2.0], &[1.0])?, 0.375);
/// # Ok::<(), Error>(())
/// ```
pub trait Filter {
    /// `g(λ)`: the share of a mode's residual that is fitted on the prompt.
    fn response(&self, eigenvalue: f64) -> f64;

    /// `q(λ)`: the factor from a mode's residual to its correction at the query; `g(λ)/λ` with
    /// its limit at 0.
    fn gain(&self, eigenvalue: f64) -> f64;

    /// `Σ g(λ_i)`: the degrees of freedom of the fit on the prompt.
    fn degrees_of_freedom(&self, spectrum: &Spectrum) -> f64 {
        spectrum.eigenvalues().iter().map(|&eigenvalue| self.response(eigenvalue)).sum()
    }

    /// `g(K) r`: the correction on the prompt's own examples.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit.
    fn prompt_fit(&self, spectrum: &Spectrum, residuals: &[f64]) -> Result<Vec<f64>, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        Ok(apply(spectrum, residuals, |eigenvalue| self.response(eigenvalue)))
    }

    /// `q(K) r`: the weights with which the examples' features add up to the update,
    /// `θ = Φᵀ q(K) r`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit.
    fn example_weights(
        &self,
        spectrum: &Spectrum,
        residuals: &[f64],
    ) -> Result<Vec<f64>, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        Ok(apply(spectrum, residuals, |eigenvalue| self.gain(eigenvalue)))
    }

    /// `k_xᵀ q(K) r`: the correction at the query (Prop. E.1).
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for vectors that do not fit.
    fn query_correction(
        &self,
        spectrum: &Spectrum,
        coupling: &[f64],
        residuals: &[f64],
    ) -> Result<f64, Error> {
        check_vector("coupling", coupling, spectrum.examples())?;
        Ok(dot(coupling, &self.example_weights(spectrum, residuals)?))
    }
}

/// `h(K) v` for a function `h` of the eigenvalues.
fn apply(spectrum: &Spectrum, vector: &[f64], function: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut amounts = spectrum.amounts(vector);
    for (amount, &eigenvalue) in amounts.iter_mut().zip(spectrum.eigenvalues()) {
        *amount *= function(eigenvalue);
    }
    spectrum.assemble(&amounts)
}

/// No update at all: plain in-context learning, `g = q = 0`.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Filter, NoUpdate};
///
/// assert_eq!(NoUpdate.gain(4.0), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoUpdate;

impl Filter for NoUpdate {
    fn response(&self, _eigenvalue: f64) -> f64 {
        0.0
    }

    fn gain(&self, _eigenvalue: f64) -> f64 {
        0.0
    }
}

/// A number of gradient steps on the squared prompt loss, from zero.
///
/// ```text
/// g_T(λ) = 1 − (1 − ρλ)^T        q_T(λ) = g_T(λ)/λ,   q_T(0) = ρT         (Sec. 4, Prop. E.1)
/// ```
///
/// Modes with a large eigenvalue are fitted first; more steps reach further down the spectrum.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, GradientDescent, Spectrum, StepSize};
///
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let filter = GradientDescent { step: StepSize::new(0.125, &spectrum)?, horizon: 3 };
/// assert_eq!(filter.response(4.0), 0.875);
/// assert_eq!(filter.gain(0.0), 0.375);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientDescent {
    /// `ρ`: the step size.
    pub step: StepSize,
    /// `T`: the number of steps.
    pub horizon: u32,
}

impl GradientDescent {
    /// `σ² {(1 − ρλ)^(−T) − 1}`: the variance that the implicit prior gives to a mode.
    ///
    /// ```text
    /// C_T = σ² G_T (I − G_T)⁻¹                                                  (Prop. 4.1)
    /// ```
    ///
    /// With this prior the steps' fit is exactly a posterior mean: taking more steps means
    /// believing in larger corrections. It may overflow to infinity for very long horizons.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, GradientDescent, Spectrum, StepSize};
    ///
    /// // Half of the gap is closed, so the prior is as wide as the noise.
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let filter = GradientDescent { step: StepSize::new(0.125, &spectrum)?, horizon: 1 };
    /// assert!((filter.prior_variance(4.0, 0.3) - 0.3).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn prior_variance(&self, eigenvalue: f64, noise_variance: f64) -> f64 {
        noise_variance * f64::exp_m1(f64::from(self.horizon) * self.step.decay_rate(eigenvalue))
    }
}

impl Filter for GradientDescent {
    fn response(&self, eigenvalue: f64) -> f64 {
        let kept = 1.0 - self.step.get() * eigenvalue;
        if kept <= 0.0 {
            // Past the step's own spectrum the logarithm ends, but steps can still be counted.
            return 1.0 - kept.powf(f64::from(self.horizon));
        }
        -f64::exp_m1(-f64::from(self.horizon) * self.step.decay_rate(eigenvalue))
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        if eigenvalue == 0.0 {
            return self.step.get() * f64::from(self.horizon);
        }
        self.response(eigenvalue) / eigenvalue
    }
}

/// The best filter there is when signal and noise levels are known: the posterior mean.
///
/// ```text
/// g★(λ) = λ/(λ + λ★)             q★(λ) = 1/(λ + λ★)                   (Thm. 5.2, Prop. E.3)
/// ```
///
/// It is also gradient flow stopped at a random, exponentially distributed time of rate `λ★`
/// (Prop. G.6), which is why one horizon for all modes can only be a compromise.
///
/// # Examples
///
/// ```
/// use fewstep_core::{BayesFilter, Error, Filter};
///
/// let bayes = BayesFilter::new(1.0)?;
/// assert_eq!((bayes.response(3.0), bayes.gain(3.0)), (0.75, 0.25));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BayesFilter {
    noise_to_signal: f64,
}

impl BayesFilter {
    /// The filter for the noise-to-signal ratio `λ★ = σ²/τ²`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the ratio is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::BayesFilter::new(0.0).is_err());
    /// ```
    pub fn new(noise_to_signal: f64) -> Result<Self, Error> {
        check_positive("noise-to-signal ratio", noise_to_signal)?;
        Ok(Self { noise_to_signal })
    }

    /// `λ★`: the noise-to-signal ratio.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{BayesFilter, Error};
    /// assert_eq!(BayesFilter::new(0.5)?.noise_to_signal(), 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn noise_to_signal(&self) -> f64 {
        self.noise_to_signal
    }
}

impl Filter for BayesFilter {
    fn response(&self, eigenvalue: f64) -> f64 {
        eigenvalue / (eigenvalue + self.noise_to_signal)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        1.0 / (eigenvalue + self.noise_to_signal)
    }
}

/// An average of filters of one kind: a random stopping time with finitely many values.
///
/// ```text
/// ḡ(λ) = Σ_j w_j g_j(λ)          q̄(λ) = Σ_j w_j q_j(λ)                             (Sec. 7)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, GradientDescent, Mixture, Spectrum, StepSize};
///
/// // Each step closes half of the gap: 1/4 of none and 3/4 of one.
/// let step = StepSize::new(0.125, &Spectrum::of(&[vec![4.0]])?)?;
/// let descent = |horizon| GradientDescent { step, horizon };
/// let mixture = Mixture::new(vec![(1.0, descent(0)), (3.0, descent(1))])?;
/// assert_eq!(mixture.response(4.0), 0.375);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture<F> {
    parts: Vec<(f64, F)>,
}

impl<F: Filter> Mixture<F> {
    /// A mixture from weights, which are divided by their sum, and filters.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without parts, [`Error::OutOfRange`] for a negative weight or if all
    /// weights are 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Mixture, NoUpdate};
    ///
    /// assert!(Mixture::new(vec![(0.0, NoUpdate)]).is_err());
    /// ```
    pub fn new(mut parts: Vec<(f64, F)>) -> Result<Self, Error> {
        if parts.is_empty() {
            return Err(Error::Empty { quantity: "mixture" });
        }
        for (weight, _) in &parts {
            check_not_negative("mixture weight", *weight)?;
        }
        let sum: f64 = parts.iter().map(|(weight, _)| weight).sum();
        check_positive("sum of the mixture weights", sum)?;
        for (weight, _) in &mut parts {
            *weight /= sum;
        }
        Ok(Self { parts })
    }

    /// The weights, which sum to 1, and the filters.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Mixture, NoUpdate};
    /// let mixture = Mixture::new(vec![(2.0, NoUpdate), (2.0, NoUpdate)])?;
    /// assert_eq!(mixture.parts()[0].0, 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parts(&self) -> &[(f64, F)] {
        &self.parts
    }
}

impl<F: Filter> Filter for Mixture<F> {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.parts.iter().map(|(weight, part)| weight * part.response(eigenvalue)).sum()
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.parts.iter().map(|(weight, part)| weight * part.gain(eigenvalue)).sum()
    }
}

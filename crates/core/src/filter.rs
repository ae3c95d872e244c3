//! How far an update goes in each mode: the filters that estimators of the correction are.
//!
//! Answers "how far" (Sec. 4, App. E, App. G). In: a [`Spectrum`] and residuals. Out: the
//! correction on the prompt and at the query. A filter is two functions of an eigenvalue, the
//! response on the prompt side and the gain on the query side; everything else follows.
//!
//! Preconditioned descent needs no filter of its own: with the preconditioner `Σ` it is
//! gradient descent under the kernel `ΦΣΦᵀ` (Thm. F.11), which
//! [`Block::from_prior`](crate::Block::from_prior) builds.

use crate::error::{Error, check_not_negative, check_positive, check_vector};
use crate::linalg::{dot, squared_norm};
use crate::spectrum::{Spectrum, StepSize};

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

    /// `q(λ)`: what multiplies a mode's residual on its way to the query; `g(λ)/λ` with its
    /// limit at 0.
    fn gain(&self, eigenvalue: f64) -> f64;

    /// `Σ g(λ_i)`: how many free numbers the fit spends on the prompt.
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
        noise_variance
            * f64::exp_m1(f64::from(self.horizon) * decay_rate(self.step, eigenvalue))
    }
}

/// `c = −log(1 − ρλ)`: the rate at which one step shrinks a mode's residual.
pub(crate) fn decay_rate(step: StepSize, eigenvalue: f64) -> f64 {
    -f64::ln_1p(-step.get() * eigenvalue)
}

impl Filter for GradientDescent {
    fn response(&self, eigenvalue: f64) -> f64 {
        let kept = 1.0 - self.step.get() * eigenvalue;
        if kept <= 0.0 {
            // Past the step's own spectrum the logarithm ends, but steps can still be counted.
            return 1.0 - kept.powf(f64::from(self.horizon));
        }
        -f64::exp_m1(-f64::from(self.horizon) * decay_rate(self.step, eigenvalue))
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        if eigenvalue == 0.0 {
            return self.step.get() * f64::from(self.horizon);
        }
        self.response(eigenvalue) / eigenvalue
    }
}

/// Gradient descent with infinitely small steps, stopped at a time.
///
/// ```text
/// g_t(λ) = 1 − e^(−tλ)           q_t(λ) = g_t(λ)/λ,   q_t(0) = t                (Prop. G.1)
/// ```
///
/// Time corresponds to step size times number of steps (Lem. G.2).
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, GradientFlow};
///
/// let flow = GradientFlow::new(2.0_f64.ln())?;
/// assert_eq!(flow.response(1.0), 0.5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientFlow {
    time: f64,
}

impl GradientFlow {
    /// Stops at `time`, in units of one over an eigenvalue.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless `time` is finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::GradientFlow::new(-1.0).is_err());
    /// ```
    pub fn new(time: f64) -> Result<Self, Error> {
        check_not_negative("time", time)?;
        Ok(Self { time })
    }

    /// The time at which it stops.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, GradientFlow};
    /// assert_eq!(GradientFlow::new(2.0)?.time(), 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn time(&self) -> f64 {
        self.time
    }
}

impl Filter for GradientFlow {
    fn response(&self, eigenvalue: f64) -> f64 {
        -f64::exp_m1(-self.time * eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        if eigenvalue == 0.0 { self.time } else { self.response(eigenvalue) / eigenvalue }
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
/// use fewstep_core::{Error, Filter, GradientFlow, Mixture};
///
/// let early = GradientFlow::new(0.0)?;
/// let late = GradientFlow::new(2.0_f64.ln())?;
/// let mixture = Mixture::new(vec![(1.0, early), (3.0, late)])?;
/// assert_eq!(mixture.response(1.0), 0.375);
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

/// Gradient flow stopped at a random, exponentially distributed time.
///
/// ```text
/// ∫₀^∞ γ e^(−γs) (1 − e^(−sλ)) ds = λ/(λ + γ)                                   (Prop. G.6)
/// ```
///
/// With the rate `γ = λ★` it is the [`BayesFilter`].
///
/// # Examples
///
/// ```
/// use fewstep_core::{BayesFilter, Error, ExponentialTime, Filter};
///
/// let (random, bayes) = (ExponentialTime::new(0.5)?, BayesFilter::new(0.5)?);
/// assert_eq!(random.response(2.0), bayes.response(2.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialTime {
    rate: f64,
}

impl ExponentialTime {
    /// A random time with mean `1/rate`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the rate is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::ExponentialTime::new(f64::NAN).is_err());
    /// ```
    pub fn new(rate: f64) -> Result<Self, Error> {
        check_positive("rate", rate)?;
        Ok(Self { rate })
    }
}

impl Filter for ExponentialTime {
    fn response(&self, eigenvalue: f64) -> f64 {
        eigenvalue / (eigenvalue + self.rate)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        1.0 / (eigenvalue + self.rate)
    }
}

/// Infinitely many steps: everything that can be fitted is.
///
/// ```text
/// g_∞(K) = Π_S                   q_∞(K) = K⁺                                      (Prop. 6.2)
/// ```
///
/// Noise is fitted along with the signal. Outside the representable range nothing is.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, Projection, Spectrum};
///
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 0.0]])?;
/// assert_eq!(Projection::of(&spectrum).prompt_fit(&spectrum, &[5.0, 7.0])?, [5.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projection {
    /// The smallest eigenvalue inside the representable range.
    smallest: f64,
}

impl Projection {
    /// The projection onto the representable range of a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Filter, Projection, Spectrum};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// assert_eq!(Projection::of(&spectrum).gain(4.0), 0.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn of(spectrum: &Spectrum) -> Self {
        let reachable = &spectrum.eigenvalues()[..spectrum.rank()];
        Self { smallest: reachable.last().copied().unwrap_or(f64::INFINITY) }
    }
}

impl Filter for Projection {
    fn response(&self, eigenvalue: f64) -> f64 {
        if eigenvalue >= self.smallest { 1.0 } else { 0.0 }
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        if eigenvalue >= self.smallest { 1.0 / eigenvalue } else { 0.0 }
    }
}

/// The full fit, shrunk by one factor that the residuals themselves suggest.
///
/// ```text
/// f̂ = (1 − (d − 2)σ² / ‖Π_S r‖²) Π_S r,    d = dim S ≥ 3                          (Prop. E.7)
/// ```
///
/// It is never worse than the full fit on average, which shows that fitting everything is
/// wasteful. With fewer than three dimensions it is the full fit.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Filter, JamesStein, Matrix, Spectrum};
///
/// // d = 4 and ‖r‖² = 4: half of the fit is kept for a noise variance of 1.
/// let spectrum = Spectrum::of(&Matrix::identity(4))?;
/// let filter = JamesStein::of(&spectrum, &[1.0; 4], 1.0)?;
/// assert!((filter.response(1.0) - 0.5).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JamesStein {
    projection: Projection,
    factor: f64,
}

impl JamesStein {
    /// The shrinkage for these residuals and a known noise variance.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the noise variance is finite and over 0;
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, JamesStein, Spectrum};
    /// assert!(JamesStein::of(&Spectrum::of(&[vec![4.0]])?, &[1.0], 0.0).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(
        spectrum: &Spectrum,
        residuals: &[f64],
        noise_variance: f64,
    ) -> Result<Self, Error> {
        check_positive("noise variance", noise_variance)?;
        let energy = squared_norm(&spectrum.project(residuals)?);
        let surplus = spectrum.rank().saturating_sub(2) as f64;
        let factor = match (surplus > 0.0, energy > 0.0) {
            (false, _) => 1.0,
            (true, false) => 0.0,
            (true, true) => 1.0 - surplus * noise_variance / energy,
        };
        Ok(Self { projection: Projection::of(spectrum), factor })
    }
}

impl Filter for JamesStein {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.factor * self.projection.response(eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.factor * self.projection.gain(eigenvalue)
    }
}

//! Filters that no decision takes: gradient flow, random times, and the full fit.
//!
//! Answers "how far" where steps are infinitely small or infinitely many (Sec. 6, App. E.4, App. G).
//! In: a [`Spectrum`], a time or a rate. Out: a [`Filter`], as the ones of `fewstep_core` are.

use fewstep_core::checks::{check_not_negative, check_positive};
use fewstep_core::linear_algebra::squared_norm;
use fewstep_core::{Error, Filter, Spectrum};

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
/// use fewstep_core::{Error, Filter};
/// use fewstep_theory::GradientFlow;
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
    /// assert!(fewstep_theory::GradientFlow::new(-1.0).is_err());
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
    /// # use fewstep_theory::{Error, GradientFlow};
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

/// Gradient flow stopped at a random, exponentially distributed time.
///
/// ```text
/// ∫₀^∞ γ e^(−γs) (1 − e^(−sλ)) ds = λ/(λ + γ)                                   (Prop. G.6)
/// ```
///
/// With the rate `γ = λ★` it is the [`BayesFilter`](fewstep_core::BayesFilter).
///
/// # Examples
///
/// ```
/// use fewstep_core::{BayesFilter, Error, Filter};
/// use fewstep_theory::ExponentialTime;
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
    /// assert!(fewstep_theory::ExponentialTime::new(f64::NAN).is_err());
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
/// use fewstep_core::{Error, Filter, Spectrum};
/// use fewstep_theory::Projection;
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
    /// # use fewstep_core::{Error, Filter, Spectrum};
    /// # use fewstep_theory::Projection;
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
/// use fewstep_core::{Error, Filter, Matrix, Spectrum};
/// use fewstep_theory::JamesStein;
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
    /// # use fewstep_core::{Error, Spectrum};
    /// # use fewstep_theory::JamesStein;
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

//! How long to adapt when only the sizes are known: the limit of large random prompts.
//!
//! Answers "how far" (App. G) before any kernel is seen. In: the ratio of examples to features
//! and two variances. Out: [`MarchenkoPastur`], the law that the eigenvalues of
//! `K = XXᵀ/d` with independent standardised entries settle to, and with it the risk curve and
//! the best times of [`flow`](crate::flow) in the limit.

use crate::filters::GradientFlow;
use crate::flow::{best_time, mode_risk, mode_time, noise_to_signal};
use fewstep_core::Error;
use fewstep_core::checks::check_positive;
use std::f64::consts::PI;

/// Where the eigenvalues of a large random kernel lie.
///
/// ```text
/// μ_γ(dλ) = (1 − 1/γ)₊ δ_0(dλ) + √((λ₊ − λ)(λ − λ₋))/(2πγλ) dλ,   λ± = (1 ± √γ)²     (Prop. G.9)
/// ```
///
/// `γ = n/d` is the number of examples over the number of independent feature directions. More
/// directions (more heads) mean a smaller `γ` and a narrower spectrum around 1.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, random::MarchenkoPastur};
///
/// let law = MarchenkoPastur::new(4.0)?;
/// assert_eq!(law.support(), (1.0, 9.0));
/// assert_eq!(law.atom(), 0.75);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarchenkoPastur {
    aspect_ratio: f64,
}

/// Spacing of the quadrature nodes at which smooth functions are integrated to full precision.
const SPACING: f64 = 0.125;
/// The finest spacing that is tried.
const FINEST: f64 = SPACING / 4096.0;
/// Largest change between two spacings, relative to the integral of the absolute value.
const TOLERANCE: f64 = 1e-10;

impl MarchenkoPastur {
    /// The law for `γ` examples per feature direction.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the ratio is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_theory::random::MarchenkoPastur::new(0.0).is_err());
    /// ```
    pub fn new(aspect_ratio: f64) -> Result<Self, Error> {
        check_positive("aspect ratio", aspect_ratio)?;
        Ok(Self { aspect_ratio })
    }

    /// `γ`: examples per feature direction.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// assert_eq!(MarchenkoPastur::new(0.5)?.aspect_ratio(), 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn aspect_ratio(&self) -> f64 {
        self.aspect_ratio
    }

    /// `(λ₋, λ₊)`: the smallest and the largest eigenvalue apart from those at 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// assert_eq!(MarchenkoPastur::new(0.25)?.support(), (0.25, 2.25));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn support(&self) -> (f64, f64) {
        let root = self.aspect_ratio.sqrt();
        ((1.0 - root).powi(2), (1.0 + root).powi(2))
    }

    /// `(1 − 1/γ)₊`: the share of eigenvalues that are 0, because there are more examples than
    /// feature directions.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// assert_eq!(MarchenkoPastur::new(0.25)?.atom(), 0.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn atom(&self) -> f64 {
        ((self.aspect_ratio - 1.0) / self.aspect_ratio).max(0.0)
    }

    /// The density of the eigenvalues that are not 0.
    ///
    /// It is 0 outside the support and at its edges; for `γ = 1` it grows without bound towards
    /// 0. Averages are better taken with [`integral`](Self::integral), which knows about that.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// // √((4 − 2) · 2)/(2π · 2)
    /// let density = MarchenkoPastur::new(1.0)?.density(2.0);
    /// assert!((density - 0.5 / std::f64::consts::PI).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn density(&self, eigenvalue: f64) -> f64 {
        let (smallest, largest) = self.support();
        if eigenvalue <= smallest || eigenvalue >= largest {
            return 0.0;
        }
        let height = (largest - eigenvalue).sqrt() * (eigenvalue - smallest).sqrt();
        height / (2.0 * PI * self.aspect_ratio * eigenvalue)
    }

    /// The average of a function of the eigenvalue, `∫ h(λ) μ_γ(dλ)`, those at 0 included.
    ///
    /// With `λ = (1 − √γ)² + 4√γ sin²(φ/2)` the law becomes `(2/π) sin²φ/λ dφ`, without
    /// singular edges for any `γ`, and equal steps in `log φ − log(π − φ)` resolve whatever the
    /// function does near 0. Analytic functions are integrated to full precision with a few
    /// hundred evaluations; for merely continuous ones the steps are halved until the result
    /// is settled to ten digits. The value at 0 is asked for only if `γ > 1`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`] if the function is not finite where it is needed (the index counts
    /// evaluations), and [`Error::NotConverged`] if it is too rough.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// let law = MarchenkoPastur::new(0.5)?;
    /// assert!((law.integral(|_| 1.0)? - 1.0).abs() < 1e-14);
    /// assert!((law.integral(|eigenvalue| 1.0 / eigenvalue)? - 2.0).abs() < 1e-13);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn integral(&self, function: impl Fn(f64) -> f64) -> Result<f64, Error> {
        let (mut sum, _) = self.sum(SPACING, &function)?;
        let mut spacing = SPACING;
        let mut residual = f64::INFINITY;
        while spacing > FINEST {
            spacing *= 0.5;
            let (finer, size) = self.sum(spacing, &function)?;
            let change = (finer - sum).abs();
            if change <= TOLERANCE * size {
                return Ok(finer);
            }
            (sum, residual) = (finer, change / size);
        }
        Err(Error::NotConverged {
            method: "quadrature over eigenvalues",
            iterations: self.nodes(spacing).count(),
            residual,
            tolerance: TOLERANCE,
        })
    }

    /// The integrals of a function and of its absolute value.
    fn sum(&self, spacing: f64, function: &impl Fn(f64) -> f64) -> Result<(f64, f64), Error> {
        let zero = Some((0.0, self.atom())).filter(|&(_, atom)| atom > 0.0);
        let (mut sum, mut size) = (0.0, 0.0);
        for (index, (eigenvalue, weight)) in
            zero.into_iter().chain(self.nodes(spacing)).enumerate()
        {
            let value = function(eigenvalue);
            if !value.is_finite() {
                return Err(Error::NotFinite { quantity: "integrand", index, value });
            }
            sum += weight * value;
            size += weight * value.abs();
        }
        Ok((sum, size))
    }

    /// Eigenvalues and weights that stand for the part of the law that is not at 0.
    fn nodes(&self, spacing: f64) -> impl Iterator<Item = (f64, f64)> {
        // From φ = π e^(−60), below which nothing is left even if all of an integral lies near
        // 0, to π − φ = π e^(−14), where sin²φ has made the weight negligible.
        let (first, last) = (-60.0, 14.0);
        let root = self.aspect_ratio.sqrt();
        let smallest = self.support().0;
        std::iter::successors(Some(first), move |x| Some(x + spacing))
            .take_while(move |&x| x <= last)
            .map(move |x: f64| {
                let (angle, rest) = (PI / (1.0 + f64::exp(-x)), PI / (1.0 + f64::exp(x)));
                let eigenvalue = smallest + 4.0 * root * (0.5 * angle).sin().powi(2);
                let sine = angle.min(rest).sin();
                let weight = 2.0 / PI * (sine * sine / eigenvalue) * (angle * rest / PI);
                (eigenvalue, weight * spacing)
            })
    }

    /// The average power of an eigenvalue.
    ///
    /// ```text
    /// m_k = Σ_{j<k} γ^j/(j+1) · C(k, j) · C(k−1, j),   m_1 = 1,  m_2 = 1 + γ              (App. G)
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// let law = MarchenkoPastur::new(0.5)?;
    /// assert_eq!([law.moment(0), law.moment(1), law.moment(2)], [1.0, 1.0, 1.5]);
    /// assert_eq!(law.moment(3), 1.0 + 3.0 * 0.5 + 0.25);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn moment(&self, order: u32) -> f64 {
        let (k, mut term, mut moment) = (f64::from(order), 1.0, 1.0);
        for j in 1..order {
            let j = f64::from(j);
            term *= self.aspect_ratio * (k - j + 1.0) * (k - j) / (j * (j + 1.0));
            moment += term;
        }
        moment
    }

    /// The expected squared error per example of gradient flow on a large random prompt.
    ///
    /// ```text
    /// R(t)/n → ∫ ψ_t dμ_γ,   ψ_t(λ) = τ²λ e^(−2tλ) + σ²(1 − e^(−tλ))²                  (Prop. G.9)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless both variances, and their ratio, are finite and over 0 and
    /// the time is finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// // Without a step, all of the signal is missed.
    /// let law = MarchenkoPastur::new(2.0)?;
    /// assert!((law.risk_limit(0.0, 3.0, 1.0)? - 3.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn risk_limit(
        &self,
        time: f64,
        signal_variance: f64,
        noise_variance: f64,
    ) -> Result<f64, Error> {
        noise_to_signal(signal_variance, noise_variance)?;
        let flow = GradientFlow::new(time)?;
        self.integral(|eigenvalue| {
            mode_risk(&flow, signal_variance, noise_variance, eigenvalue)
        })
    }

    /// The time at which [`risk_limit`](Self::risk_limit) is smallest.
    ///
    /// Found as [`oracle_time`](crate::flow::oracle_time) finds it for a given prompt.
    ///
    /// # Errors
    ///
    /// As [`representative_eigenvalue`](Self::representative_eigenvalue).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, flow::mode_time, random::MarchenkoPastur};
    /// // With many features per example, all eigenvalues are close to 1.
    /// let best = MarchenkoPastur::new(1e-9)?.oracle_time(1.0, 1.0)?;
    /// assert!((best - mode_time(1.0, 1.0)?).abs() < 1e-8);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn oracle_time(&self, signal_variance: f64, noise_variance: f64) -> Result<f64, Error> {
        let noise_to_signal = noise_to_signal(signal_variance, noise_variance)?;
        Ok(best_time(&self.nodes(SPACING).collect::<Vec<_>>(), noise_to_signal))
    }

    /// `μ_∞`: what the representative eigenvalue of a large random prompt settles to.
    ///
    /// ```text
    /// μ(K) → μ_∞ = (1 + γ + λ★)/(1 + λ★)                                               (Prop. G.10)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless both variances, and their ratio, are finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// assert_eq!(MarchenkoPastur::new(2.0)?.representative_eigenvalue(1.0, 1.0)?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn representative_eigenvalue(
        &self,
        signal_variance: f64,
        noise_variance: f64,
    ) -> Result<f64, Error> {
        let noise_to_signal = noise_to_signal(signal_variance, noise_variance)?;
        Ok(1.0 + self.aspect_ratio / (1.0 + noise_to_signal))
    }

    /// `t_{μ_∞}`: the time that suits the representative eigenvalue in the limit.
    ///
    /// ```text
    /// t_{μ_∞} = (1/μ_∞) log(1 + μ_∞/λ★)                                                (Prop. G.10)
    /// ```
    ///
    /// It grows with the number of feature directions per example: more heads, longer horizon.
    ///
    /// # Errors
    ///
    /// As [`representative_eigenvalue`](Self::representative_eigenvalue).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, random::MarchenkoPastur};
    /// let time = MarchenkoPastur::new(2.0)?.match_time(1.0, 1.0)?;
    /// assert!((time - 0.5 * 3.0_f64.ln()).abs() < 1e-15);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn match_time(&self, signal_variance: f64, noise_variance: f64) -> Result<f64, Error> {
        let mean = self.representative_eigenvalue(signal_variance, noise_variance)?;
        mode_time(mean, noise_variance / signal_variance)
    }
}

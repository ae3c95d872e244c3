//! Does the linearised model still hold? How far real steps can depart from it, and how far they do.
//!
//! Answers App. F.1. Before adapting: [`LocalConstants`] turns what is known about a model's
//! curvature into bounds on the gap between real and linear steps. While adapting: [`Watch`]
//! compares each real step with its linear prediction and estimates those constants. Nothing
//! here runs a model; outputs and kernels that were seen come in as numbers.

use fewstep_core::checks::{check_not_negative, check_positive, check_size, check_vector};
use fewstep_core::linear_algebra::{self, squared_norm};
use fewstep_core::{Error, Filter, GradientDescent, Matrix, Spectrum, StepSize};

/// How steep and how curved a model is near its pretrained weights, and how wrong it is there.
///
/// ```text
/// ‖J(θ)‖ ≤ B,   ‖J(θ) − J(θ')‖ ≤ L ‖θ − θ'‖,   ‖r − s(θ)‖ ≤ E    on a ball around 0  (App. F.1)
/// ```
///
/// Here `s(θ)` is the change of the outputs on the prompt and `J` its Jacobian. All three hold
/// on a ball that the steps must not leave; `E` is at least `‖r‖`, for `s(0) = 0`.
///
/// Differs from the paper:
/// 1. The proof of Thm. F.5 gives the constant 1 where the statement says 3/2. The statement is
///    [`deviation_bound`](Self::deviation_bound), the proof's own sum
///    [`deviation_sum`](Self::deviation_sum), which some models attain.
/// 2. The bound at the query, which the paper omits, has a term in `(ρT)³` beside those in
///    `(ρT)²`; see [`query_deviation_bound`](Self::query_deviation_bound).
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, drift::LocalConstants};
///
/// let constants = LocalConstants::new(2.0, 0.5, 1.0)?;
/// assert_eq!(constants.step_limit(), 0.25);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalConstants {
    jacobian_bound: f64,
    jacobian_lipschitz: f64,
    residual_scale: f64,
}

impl LocalConstants {
    /// Constants `B`, `L` and `E`; a linear model has `L = 0`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless all three are finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_theory::drift::LocalConstants::new(1.0, -1.0, 1.0).is_err());
    /// ```
    pub fn new(
        jacobian_bound: f64,
        jacobian_lipschitz: f64,
        residual_scale: f64,
    ) -> Result<Self, Error> {
        check_not_negative("bound on the Jacobian", jacobian_bound)?;
        check_not_negative("Lipschitz constant of the Jacobian", jacobian_lipschitz)?;
        check_not_negative("residual scale", residual_scale)?;
        Ok(Self { jacobian_bound, jacobian_lipschitz, residual_scale })
    }

    /// `B`: the largest singular value of the Jacobian.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.jacobian_bound(), 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn jacobian_bound(&self) -> f64 {
        self.jacobian_bound
    }

    /// `L`: how fast the Jacobian changes with the weights.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.jacobian_lipschitz(), 0.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn jacobian_lipschitz(&self) -> f64 {
        self.jacobian_lipschitz
    }

    /// `E`: the length of the largest residual vector.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.residual_scale(), 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn residual_scale(&self) -> f64 {
        self.residual_scale
    }

    /// `1/B²`: the largest step size for which the bounds hold; infinite if `B = 0`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// assert_eq!(LocalConstants::new(0.5, 0.0, 1.0)?.step_limit(), 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn step_limit(&self) -> f64 {
        1.0 / (self.jacobian_bound * self.jacobian_bound)
    }

    /// How far one update of the weights can take the outputs away from their tangent.
    ///
    /// ```text
    /// ‖s(θ + u) − s(θ) − J(θ)u‖ ≤ (L/2) ‖u‖²                                        (Lem. F.2)
    /// ```
    ///
    /// With `u` one gradient step it also bounds what a step adds to `ρ K_t e_t` (Lem. F.4).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the length of the update is finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.remainder_bound(2.0)?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn remainder_bound(&self, move_length: f64) -> Result<f64, Error> {
        check_not_negative("length of the update", move_length)?;
        Ok(0.5 * self.jacobian_lipschitz * move_length * move_length)
    }

    /// How far the outputs after real steps can be from those after linear steps.
    ///
    /// ```text
    /// ‖f_T − f_T^lin‖ ≤ (3/2) L B² ρ² T² E²                                         (Thm. F.5)
    /// ```
    ///
    /// Halving step size or horizon quarters it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the step is over 0 and at most
    /// [`step_limit`](Self::step_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// // (3/2) · 0.5 · (2 · 0.25 · 4 · 1)² = 3
    /// let constants = LocalConstants::new(2.0, 0.5, 1.0)?;
    /// assert_eq!(constants.deviation_bound(0.25, 4)?, 3.0);
    /// assert!(constants.deviation_bound(0.26, 4).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn deviation_bound(&self, step: f64, horizon: u32) -> Result<f64, Error> {
        let path = self.path_bound(step, horizon)?;
        Ok(1.5 * self.jacobian_lipschitz * path * path)
    }

    /// The sum that the proof of [`deviation_bound`](Self::deviation_bound) arrives at, at least
    /// a third smaller.
    ///
    /// ```text
    /// ‖f_T − f_T^lin‖ ≤ L B² ρ² E² {T(T − 1) + T/2}                                 (Thm. F.5)
    /// ```
    ///
    /// It cannot be improved in general: with one weight and one example it is attained as
    /// `ρ → 0`.
    ///
    /// # Errors
    ///
    /// As [`deviation_bound`](Self::deviation_bound).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// // 0.5 · (2 · 0.25 · 1)² · (4 · 3 + 2)
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.deviation_sum(0.25, 4)?, 1.75);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn deviation_sum(&self, step: f64, horizon: u32) -> Result<f64, Error> {
        let first = self.path_bound(step, 1)?;
        Ok(self.jacobian_lipschitz * first * first * squared_time(horizon))
    }

    /// How far the kernel can change during the steps.
    ///
    /// ```text
    /// ‖K_t − K_0‖ ≤ 2 L B² ρ t E                                                    (Cor. F.6)
    /// ```
    ///
    /// # Errors
    ///
    /// As [`deviation_bound`](Self::deviation_bound).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// // 2 · 0.5 · 2 · (2 · 0.25 · 3 · 1)
    /// assert_eq!(LocalConstants::new(2.0, 0.5, 1.0)?.kernel_drift_bound(0.25, 3)?, 3.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn kernel_drift_bound(&self, step: f64, horizon: u32) -> Result<f64, Error> {
        let path = self.path_bound(step, horizon)?;
        Ok(2.0 * self.jacobian_lipschitz * self.jacobian_bound * path)
    }

    /// How far the correction at the query can be from the linear one.
    ///
    /// ```text
    /// |Δ(x; θ_T) − φ(x)ᵀθ_T^lin| ≤ (L_x/2) (ρTBE)²
    ///                              + B_x L B ρ² E² {T(T−1)/2 + ρB² T(T−1)(2T−1)/12}   (App. F.1)
    /// ```
    ///
    /// `B_x` and `L_x` bound the query's own Jacobian and its change. The paper states the order
    /// only. The last term is what the prompt's remainders do to the weights: these are pulled
    /// back on the prompt, but not at a query outside of it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for negative bounds, or as
    /// [`deviation_bound`](Self::deviation_bound).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, drift::LocalConstants};
    /// // (3/2) (0.25 · 2 · 2)² + 1 · 0.5 · 2 · 0.25² (1 + 0.25 · 4 · 6/12)
    /// let constants = LocalConstants::new(2.0, 0.5, 1.0)?;
    /// assert_eq!(constants.query_deviation_bound(1.0, 3.0, 0.25, 2)?, 1.5 + 0.09375);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn query_deviation_bound(
        &self,
        query_jacobian_bound: f64,
        query_jacobian_lipschitz: f64,
        step: f64,
        horizon: u32,
    ) -> Result<f64, Error> {
        check_not_negative("bound on the query's Jacobian", query_jacobian_bound)?;
        check_not_negative(
            "Lipschitz constant of the query's Jacobian",
            query_jacobian_lipschitz,
        )?;
        let path = self.path_bound(step, horizon)?;
        let steps = f64::from(horizon);
        let pairs = 0.5 * steps * (steps - 1.0);
        let squares = pairs * (2.0 * steps - 1.0) / 3.0;
        let fraction = step * self.jacobian_bound * self.jacobian_bound;
        let curvature = self.jacobian_lipschitz * self.jacobian_bound;
        let weights_gap = curvature
            * (step * self.residual_scale).powi(2)
            * (pairs + 0.5 * fraction * squares);
        Ok(0.5 * query_jacobian_lipschitz * path * path + query_jacobian_bound * weights_gap)
    }

    /// `ρTBE`: how long the update can be, once the step is known to be small enough.
    fn path_bound(&self, step: f64, horizon: u32) -> Result<f64, Error> {
        check_positive("step size", step)?;
        // Multiplied out, so that a step of exactly 1/B² passes however it was rounded.
        if step * self.jacobian_bound * self.jacobian_bound > 1.0 + 4.0 * f64::EPSILON {
            return Err(Error::OutOfRange {
                quantity: "step size",
                found: step,
                allowed: "at most one over the square of the bound on the Jacobian",
            });
        }
        Ok(step * f64::from(horizon) * self.jacobian_bound * self.residual_scale)
    }
}

/// `T(T − 1) + T/2`: how the gap grows with the horizon (Thm. F.5).
fn squared_time(horizon: u32) -> f64 {
    let steps = f64::from(horizon);
    steps * (steps - 0.5)
}

/// What was seen of a model after some real steps.
///
/// # Examples
///
/// ```
/// use fewstep_theory::drift::Observation;
///
/// let seen = Observation { kernel: None, update_length: None, horizon: 1, shift: &[0.5] };
/// assert_eq!(seen, Observation::new(1, &[0.5]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation<'a> {
    /// `T`: the number of steps taken so far.
    pub horizon: u32,
    /// `f_T`: by how much the outputs on the prompt have changed since step 0.
    pub shift: &'a [f64],
    /// `K_T`: the kernel at the present weights, if it was computed.
    pub kernel: Option<&'a Matrix>,
    /// `‖θ_T‖`: the length of the update, if it is known.
    pub update_length: Option<f64>,
}

impl<'a> Observation<'a> {
    /// An observation of the outputs alone.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_theory::drift::Observation::new(3, &[0.5]).horizon, 3);
    /// ```
    #[must_use]
    pub fn new(horizon: u32, shift: &'a [f64]) -> Self {
        Self { horizon, shift, kernel: None, update_length: None }
    }
}

/// How far one observation is from the linearised model.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::drift::{Observation, Watch};
///
/// // One linear step of 1/8 with kernel 4 closes half of the gap; the model closed 0.6 of it.
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
/// let departure = watch.observe(Observation::new(1, &[0.6]))?;
/// assert_eq!((departure.predicted, departure.actual), (0.5, 0.6));
/// assert!((departure.relative_deviation - 0.2).abs() < 1e-15);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// `T`: the number of steps.
    pub horizon: u32,
    /// `‖f_T^lin‖`: the length of the predicted change of the outputs.
    pub predicted: f64,
    /// `‖f_T‖`: the length of the actual change.
    pub actual: f64,
    /// `‖f_T − f_T^lin‖`: the length of the difference.
    pub deviation: f64,
    /// The difference relative to the predicted change: 0 if neither changed, infinite if
    /// something changed where no change was predicted.
    pub relative_deviation: f64,
    /// `‖K_T − K_0‖/‖K_0‖`, if a kernel was given: 0 if both are 0, infinite if only `K_0` is.
    pub kernel_drift: Option<f64>,
    /// A value that `L` must have reached to explain this observation, if one can be named.
    ///
    /// ```text
    /// L ≥ ‖f_T − f_T^lin‖ / (B²ρ²E² {T(T−1) + T/2})                                 (Thm. F.5)
    /// L ≥ ‖K_T − K_0‖ / ((‖J_T‖ + ‖J_0‖) ‖θ_T‖)                      (in the proof of Cor. F.6)
    /// ```
    ///
    /// The larger of the two. `B` and `E` are the largest values seen so far; the first line is
    /// sure only where kernels are given, the second needs kernel and update length.
    pub lipschitz: Option<f64>,
}

/// A running comparison of a model's real steps with the linearised model.
///
/// ```text
/// f_T^lin = {I − (I − ρK_0)^T} r                                                     (App. F.1)
/// ```
///
/// Hand it what the model did after each step (or some of them) and ask
/// [`trusted_until`](Self::trusted_until). An observation costs `O(n²)`, `O(n³)` with a kernel.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
/// use fewstep_theory::drift::{Observation, Watch};
///
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
/// watch.observe(Observation::new(1, &[0.51]))?; // predicted 0.5
/// watch.observe(Observation::new(2, &[0.84]))?; // predicted 0.75
/// assert_eq!(watch.trusted_until(0.05)?, 1);
/// assert_eq!(watch.trusted_until(0.15)?, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    spectrum: Spectrum,
    residuals: Vec<f64>,
    step: StepSize,
    /// Largest `‖J‖` and `‖r − f‖` seen so far.
    jacobian_bound: f64,
    residual_scale: f64,
    departures: Vec<Departure>,
}

impl Watch {
    /// A watch from the kernel and the residuals before the first step, and the step size.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] or [`Error::NotFinite`] for residuals that do not fit, and
    /// [`Error::StepTooLarge`] for a step that belongs to another kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::drift::Watch;
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let step = StepSize::new(0.125, &spectrum)?;
    /// assert!(Watch::new(&spectrum, &[1.0, 2.0], step).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(spectrum: &Spectrum, residuals: &[f64], step: StepSize) -> Result<Self, Error> {
        check_vector("residuals", residuals, spectrum.examples())?;
        Ok(Self {
            spectrum: spectrum.clone(),
            residuals: residuals.to_vec(),
            step: step.check(spectrum)?,
            jacobian_bound: spectrum.largest().sqrt(),
            residual_scale: squared_norm(residuals).sqrt(),
            departures: Vec::new(),
        })
    }

    /// Compares what was seen after some real steps with the linear prediction.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the horizon is larger than that of the last observation and
    /// the update length is finite and at least 0, [`Error::SizeMismatch`] or
    /// [`Error::NotFinite`] for a shift that does not fit, and the errors of [`Spectrum::of`]
    /// for an invalid kernel. After an error the watch is as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    /// # use fewstep_theory::drift::{Observation, Watch};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
    /// let kernel = Matrix::from_rows(&[vec![5.0]])?;
    /// let seen = Observation { kernel: Some(&kernel), ..Observation::new(1, &[0.5]) };
    /// assert_eq!(watch.observe(seen)?.kernel_drift, Some(0.25));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn observe(&mut self, seen: Observation<'_>) -> Result<Departure, Error> {
        if self.departures.last().map_or(0, |last| last.horizon) >= seen.horizon {
            return Err(Error::OutOfRange {
                quantity: "horizon of the observation",
                found: f64::from(seen.horizon),
                allowed: "larger than 0 and than that of the observation before",
            });
        }
        check_vector("shift", seen.shift, self.spectrum.examples())?;
        if let Some(length) = seen.update_length {
            check_not_negative("update length", length)?;
        }
        let kernel = seen.kernel.map(|kernel| self.kernel_change(kernel)).transpose()?;

        let filter = GradientDescent { step: self.step, horizon: seen.horizon };
        let predicted = filter.prompt_fit(&self.spectrum, &self.residuals)?;
        let deviation = distance(seen.shift, &predicted);
        let predicted = squared_norm(&predicted).sqrt();
        if let Some((_, largest)) = kernel {
            self.jacobian_bound = self.jacobian_bound.max(largest.sqrt());
        }
        let residual = distance(&self.residuals, seen.shift);
        self.residual_scale = self.residual_scale.max(residual);
        let departure = Departure {
            horizon: seen.horizon,
            predicted,
            actual: squared_norm(seen.shift).sqrt(),
            deviation,
            relative_deviation: relative(deviation, predicted),
            kernel_drift: kernel.map(|(drift, _)| relative(drift, self.spectrum.largest())),
            lipschitz: self.implied_lipschitz(&seen, deviation, kernel),
        };
        self.departures.push(departure);
        Ok(departure)
    }

    /// `‖K_T − K_0‖` and `‖K_T‖`.
    fn kernel_change(&self, kernel: &Matrix) -> Result<(f64, f64), Error> {
        let n = self.spectrum.examples();
        check_size("kernel", kernel.rows(), n)?;
        let largest = Spectrum::of(kernel)?.largest();
        // In the modes of K_0, where K_0 itself is diagonal: UᵀK_TU − Λ.
        let half: Vec<Vec<f64>> = (0..n)
            .map(|row| self.spectrum.rotate(kernel.row(row)))
            .collect::<Result<_, _>>()?;
        let columns: Vec<Vec<f64>> = (0..n)
            .map(|mode| {
                self.spectrum.rotate(&half.iter().map(|row| row[mode]).collect::<Vec<_>>())
            })
            .collect::<Result<_, _>>()?;
        let change = Matrix::from_fn(n, n, |i, j| {
            columns[j][i] - if i == j { self.spectrum.eigenvalues()[i] } else { 0.0 }
        });
        let (eigenvalues, _) = linear_algebra::eigen(&change)?;
        Ok((eigenvalues[0].abs().max(eigenvalues[n - 1].abs()), largest))
    }

    fn implied_lipschitz(
        &self,
        seen: &Observation<'_>,
        deviation: f64,
        kernel: Option<(f64, f64)>,
    ) -> Option<f64> {
        let first = self.step.get() * self.jacobian_bound * self.residual_scale;
        let from_outputs = deviation / (first * first * squared_time(seen.horizon));
        let from_kernel = match (kernel, seen.update_length) {
            (Some((drift, largest)), Some(length)) => {
                drift / ((largest.sqrt() + self.spectrum.largest().sqrt()) * length)
            }
            _ => f64::NAN,
        };
        // Where nothing can change, 0/0 or x/0 says nothing about curvature.
        [from_outputs, from_kernel]
            .into_iter()
            .filter(|bound| bound.is_finite())
            .reduce(f64::max)
    }

    /// All comparisons so far, in the order of their horizons.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::drift::Watch;
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
    /// assert!(watch.departures().is_empty());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// The last horizon up to which every observation kept to the linear prediction, within
    /// `tolerance` of its length; 0 if none did.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the tolerance is finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::drift::{Observation, Watch};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
    /// watch.observe(Observation::new(1, &[1.0]))?; // predicted 0.5
    /// assert_eq!(watch.trusted_until(0.1)?, 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn trusted_until(&self, tolerance: f64) -> Result<u32, Error> {
        check_positive("tolerance", tolerance)?;
        let within = |departure: &&Departure| departure.relative_deviation <= tolerance;
        Ok(self.departures.iter().take_while(within).last().map_or(0, |last| last.horizon))
    }

    /// The power of time with which the gap to the linearised model grows.
    ///
    /// ```text
    /// slope of  log ‖f_T − f_T^lin‖  against  ½ log {T(T−1) + T/2}                  (Thm. F.5)
    /// ```
    ///
    /// About 2 where the theorem's bound is tight: half the time, a quarter of the gap. Less means
    /// that the fit has converged, more that effects beyond the second order have set in.
    /// Gaps within single-precision rounding are ignored; `None` if fewer than two remain.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::drift::{Observation, Watch};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
    /// watch.observe(Observation::new(1, &[0.5 + 0.005]))?;
    /// watch.observe(Observation::new(2, &[0.75 + 0.03]))?;
    /// assert!((watch.growth_exponent().expect("two gaps") - 2.0).abs() < 1e-10);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn growth_exponent(&self) -> Option<f64> {
        let points: Vec<(f64, f64)> = self
            .departures
            .iter()
            .filter(|seen| seen.deviation > f64::from(f32::EPSILON) * seen.predicted)
            .map(|seen| (0.5 * squared_time(seen.horizon).ln(), seen.deviation.ln()))
            .collect();
        if points.len() < 2 {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let shared: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        Some(shared / spread)
    }

    /// The constants that the observations suggest, for a forecast by
    /// [`LocalConstants::deviation_sum`]; `None` before the first observation.
    ///
    /// They are the largest values seen, so the true ones may be larger; the forecast is never
    /// below a gap that has been observed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Spectrum, StepSize};
    /// # use fewstep_theory::drift::{Observation, Watch};
    /// let spectrum = Spectrum::of(&[vec![4.0]])?;
    /// let mut watch = Watch::new(&spectrum, &[1.0], StepSize::new(0.125, &spectrum)?)?;
    /// watch.observe(Observation::new(1, &[0.51]))?;
    /// let constants = watch.constants().expect("one observation");
    /// // 0.01 / (2² · 0.125² · 1² · 0.5)
    /// assert!((constants.jacobian_lipschitz() - 0.32).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn constants(&self) -> Option<LocalConstants> {
        let lipschitz = self.departures.iter().filter_map(|seen| seen.lipschitz);
        (!self.departures.is_empty()).then(|| LocalConstants {
            jacobian_bound: self.jacobian_bound,
            jacobian_lipschitz: lipschitz.fold(0.0, f64::max),
            residual_scale: self.residual_scale,
        })
    }
}

/// Euclidean distance.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

/// `part/whole`, with `0/0 = 0`.
fn relative(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / whole }
}

//! One design for many prompts, and what it costs to have seen only some of them.
//!
//! In: [`QueryInformation`] of several prompts. Out: its average, [`GlobalInformation`], and the
//! bounds of [`PlugIn`] (Cor. E.23, Thm. E.25).

use super::metric::QueryInformation;
use fewstep_core::checks::{check_budget, check_fraction, check_not_negative, check_size};
use fewstep_core::{Error, Matrix};

/// A running average of what prompts tell about the queries, for one design that serves them all.
///
/// ```text
/// ℐ̂_Q = (1/m) Σ_j ℐ_Q(J_j),   whose top eigenspace minimises the mean risk      (Cor. E.23)
/// ```
///
/// All prompts must be seen through one and the same [`QueryMetric`](super::QueryMetric).
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, design::{GlobalInformation, LinearGaussian, Prior, QueryMetric}};
///
/// let metric = QueryMetric::from_queries(&[vec![1.0]])?;
/// let mut global = GlobalInformation::new(metric.dimension());
/// for strength in [1.0, 0.0] {
///     let model = LinearGaussian::new(&[vec![strength]], Prior::Isotropic(1.0), 1.0)?;
///     global.add(&model.query_information(&metric)?)?;
/// }
/// assert!((global.mean()?.optimal_subspace(1)?.captured() - 0.25).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalInformation {
    matrix: Matrix,
    total: f64,
    prompts: usize,
}

impl GlobalInformation {
    /// No prompt yet, for a metric of this [`dimension`](super::QueryMetric::dimension).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_theory::design::GlobalInformation::new(3).prompts(), 0);
    /// ```
    #[must_use]
    pub fn new(dimension: usize) -> Self {
        Self { matrix: Matrix::zeros(dimension, dimension), total: 0.0, prompts: 0 }
    }

    /// Takes one more prompt into the average.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] if it was seen through a metric of another dimension.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::{GlobalInformation, LinearGaussian, Prior, QueryMetric}};
    /// let metric = QueryMetric::from_queries(&[vec![2.0]])?;
    /// let model = LinearGaussian::new(&[vec![1.0]], Prior::Isotropic(1.0), 3.0)?;
    /// let mut global = GlobalInformation::new(1);
    /// global.add(&model.query_information(&metric)?)?;
    /// assert_eq!(global.prompts(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn add(&mut self, information: &QueryInformation) -> Result<(), Error> {
        check_size("query information", information.matrix().rows(), self.matrix.rows())?;
        self.matrix.add_scaled(1.0, information.matrix());
        self.total += information.total();
        self.prompts += 1;
        Ok(())
    }

    /// Number of prompts so far, `m`.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_theory::design::GlobalInformation::new(1).prompts(), 0);
    /// ```
    #[must_use]
    pub fn prompts(&self) -> usize {
        self.prompts
    }

    /// The average over the prompts so far.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] before the first prompt.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, design::GlobalInformation};
    ///
    /// let nothing = GlobalInformation::new(1).mean();
    /// assert_eq!(nothing, Err(Error::Empty { quantity: "average over prompts" }));
    /// ```
    pub fn mean(&self) -> Result<QueryInformation, Error> {
        if self.prompts == 0 {
            return Err(Error::Empty { quantity: "average over prompts" });
        }
        let share = 1.0 / self.prompts as f64;
        let mut matrix = Matrix::zeros(self.matrix.rows(), self.matrix.rows());
        matrix.add_scaled(share, &self.matrix);
        Ok(QueryInformation::new(matrix, share * self.total))
    }
}

/// How far an average over finitely many prompts can lead a design astray.
///
/// With `X_j = ℐ_Q(J_j) − ℐ_{Q,glob}`, the bounds ask for `E[X_j | before] = 0`, `‖X_j‖ ≤ R` and
/// `‖Σ_j E[X_j² | before]‖ ≤ ν` (Assump. E.24). Since `0 ≼ ℐ_Q ≼ Q^(1/2) Σ Q^(1/2)`, the largest
/// eigenvalue of the latter will always do for `R`.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, design::PlugIn};
///
/// // log(2 · 1/0.5) = 1.386: (√(2 · 8 · 1.386) + (2/3) · 1.386)/10 = 0.563.
/// let plug_in = PlugIn::new(10, 1, 1.0, 8.0)?;
/// assert!((plug_in.deviation(0.5)? - 0.563).abs() < 1e-3);
/// assert_eq!(plug_in.regret(1, 0.5)?, 2.0 * plug_in.deviation(0.5)?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlugIn {
    prompts: usize,
    dimension: usize,
    bound: f64,
    variation: f64,
}

impl PlugIn {
    /// For `m` prompts, a metric of dimension `d_Q`, and the numbers `R` and `ν`.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for no prompts or no dimension, [`Error::OutOfRange`] unless `bound` and
    /// `variation` are finite and at least 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_theory::design::PlugIn::new(0, 1, 1.0, 1.0).is_err());
    /// ```
    pub fn new(
        prompts: usize,
        dimension: usize,
        bound: f64,
        variation: f64,
    ) -> Result<Self, Error> {
        for (quantity, count) in [("prompts", prompts), ("query metric", dimension)] {
            if count == 0 {
                return Err(Error::Empty { quantity });
            }
        }
        check_not_negative("bound on the deviations", bound)?;
        check_not_negative("predictable variation", variation)?;
        Ok(Self { prompts, dimension, bound, variation })
    }

    /// For prompts drawn independently, with `‖E[X²]‖ ≤ variance`: `ν = m · variance`
    /// (Remark E.26).
    ///
    /// # Errors
    ///
    /// As [`PlugIn::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_theory::{Error, design::PlugIn};
    ///
    /// assert_eq!(PlugIn::independent(4, 1, 1.0, 0.5)?, PlugIn::new(4, 1, 1.0, 2.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn independent(
        prompts: usize,
        dimension: usize,
        bound: f64,
        variance: f64,
    ) -> Result<Self, Error> {
        Self::new(prompts, dimension, bound, prompts as f64 * variance)
    }

    /// How far the average is from its expectation, at most, except with a small probability.
    ///
    /// ```text
    /// ‖ℐ̂_Q − ℐ_{Q,glob}‖ ≤ ε = (1/m) {√(2ν log(2d_Q/δ)) + (2R/3) log(2d_Q/δ)}      (Thm. E.25)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless the failure probability `δ` is over 0 and under 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::PlugIn};
    /// // log(2 · 2/0.4) = log 10, and no variation: (2/3) · 3 · log 10/4.
    /// let deviation = PlugIn::new(4, 2, 3.0, 0.0)?.deviation(0.4)?;
    /// assert!((deviation - 10.0_f64.ln() / 2.0).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn deviation(&self, failure_probability: f64) -> Result<f64, Error> {
        check_fraction("failure probability", failure_probability)?;
        let log = (2.0 * self.dimension as f64 / failure_probability).ln();
        let deviation = (2.0 * self.variation * log).sqrt() + 2.0 / 3.0 * self.bound * log;
        Ok(deviation / self.prompts as f64)
    }

    /// How much more risk the design for the average has than the best global one, at most,
    /// except with a small probability: `2 · budget · ε` (Thm. E.25).
    ///
    /// # Errors
    ///
    /// [`Error::BudgetOutOfRange`] for a budget of 0 or over the dimension, and as
    /// [`PlugIn::deviation`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_theory::{Error, design::PlugIn};
    /// let plug_in = PlugIn::new(4, 2, 3.0, 0.0)?;
    /// assert!((plug_in.regret(2, 0.4)? - 2.0 * 10.0_f64.ln()).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn regret(&self, budget: usize, failure_probability: f64) -> Result<f64, Error> {
        check_budget(budget, self.dimension)?;
        Ok(2.0 * budget as f64 * self.deviation(failure_probability)?)
    }
}

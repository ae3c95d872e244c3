//! Where the answer may lie, by leave-one-out errors.
//!
//! In: [`LeaveOneOut`], for a prompt with a query. Out: [`Interval`]s (jackknife+), of one number of
//! steps or of an average over several.

use super::LeaveOneOut;
use crate::answers::Interval;
use crate::checks::{check_fraction, check_vector};
use crate::error::Error;
use crate::matrix::Matrix;

impl LeaveOneOut {
    /// The jackknife+ interval for the query's residual, its label minus the base prediction.
    ///
    /// ```text
    /// [ the ⌊α(n+1)⌋-th smallest ĥ_{−i}(x) − R_i,  the ⌈(1−α)(n+1)⌉-th smallest ĥ_{−i}(x) + R_i ]
    /// R_i = |r_i − r̂_i(T)|,   ĥ_{−i}(x) = k_{x,−i}ᵀ q_T(K_{−i}) r_{−i},   α = 1 − coverage
    /// ```
    ///
    /// If the query is exchangeable with the examples, and horizon and step size were not chosen
    /// from them, it holds the truth with probability at least `1 − 2α`, whatever the
    /// distribution (Barber, Candès, Ramdas and Tibshirani 2021, Theorem 1), and in practice about
    /// `1 − α`. With fewer than `1/α − 1` examples no finite interval can do so, and the ends are
    /// infinite.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuery`] if no coupling was given, [`Error::OutOfRange`] unless `candidate` is
    /// the position of a candidate and the coverage lies between 0 and 1.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::LeaveOneOut;
    /// use fewstep_core::{Error, Interval, Matrix, Spectrum, StepSize};
    ///
    /// // Without a step the corrections are 0: ends at ± the largest of three residuals.
    /// let kernel = Matrix::identity(3);
    /// let step = StepSize::new(0.5, &Spectrum::of(&kernel)?)?;
    /// let coupling = [0.1, 0.1, 0.1];
    /// let dropped = LeaveOneOut::of(&kernel, &[1.0, -2.0, 3.0], step, &[0], Some(&coupling))?;
    /// assert_eq!(dropped.interval(0, 0.75)?, Interval { lower: -3.0, upper: 3.0 });
    /// assert_eq!(dropped.interval(0, 0.9)?.upper, f64::INFINITY);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn interval(&self, candidate: usize, coverage: f64) -> Result<Interval, Error> {
        if candidate >= self.candidates.len() {
            return Err(Error::OutOfRange {
                quantity: "position of the candidate",
                found: candidate as f64,
                allowed: "below the number of candidates",
            });
        }
        let mut weights = vec![0.0; self.candidates.len()];
        weights[candidate] = 1.0;
        self.interval_of_average(&weights, coverage)
    }

    /// The same interval for an average over the candidates, such as
    /// [`LeaveOneOut::posterior`]'s: without each example in turn the average is taken with the
    /// same weights.
    ///
    /// # Errors
    ///
    /// As [`LeaveOneOut::interval`], and [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// weights that do not fit the candidates.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::LeaveOneOut;
    /// use fewstep_core::{Error, Interval, Matrix, Spectrum, StepSize};
    ///
    /// // Two copies of one example, and the query a third: half a step of a quarter.
    /// let kernel = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 1.0]])?;
    /// let step = StepSize::new(0.25, &Spectrum::of(&kernel)?)?;
    /// let dropped = LeaveOneOut::of(&kernel, &[1.0, 1.0], step, &[0, 1], Some(&[1.0, 1.0]))?;
    /// let half = dropped.interval_of_average(&[0.5, 0.5], 0.5)?;
    /// assert_eq!(half, Interval { lower: 0.125 - 0.875, upper: 0.125 + 0.875 });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn interval_of_average(
        &self,
        weights: &[f64],
        coverage: f64,
    ) -> Result<Interval, Error> {
        let query =
            self.query.as_ref().ok_or(Error::NoQuery { quantity: "a jackknife+ interval" })?;
        check_fraction("coverage", coverage)?;
        check_vector("weights", weights, self.candidates.len())?;
        let (corrections, errors) =
            (averaged(&query.corrections, weights), averaged(&self.errors, weights));
        let sorted = |sign: f64| {
            let ends = corrections.iter().zip(&errors);
            let mut ends: Vec<f64> = ends.map(|(h, error)| h + sign * error.abs()).collect();
            ends.sort_by(f64::total_cmp);
            ends
        };
        let n = errors.len();
        Ok(match (1..=n).find(|&rank| reaches(rank, coverage, n)) {
            // ⌊α(n+1)⌋ = n + 1 − ⌈(1−α)(n+1)⌉.
            Some(rank) => {
                Interval { lower: sorted(-1.0)[n - rank], upper: sorted(1.0)[rank - 1] }
            }
            None => Interval { lower: f64::NEG_INFINITY, upper: f64::INFINITY },
        })
    }
}

/// Whether `rank ≥ coverage · (n + 1)`, with rounding in the product forgiven.
fn reaches(rank: usize, coverage: f64, n: usize) -> bool {
    let needed = coverage * (n as f64 + 1.0);
    rank as f64 >= needed * (1.0 - 4.0 * f64::EPSILON)
}

/// The average of a matrix's rows; rows without weight are passed over.
pub(super) fn averaged(rows: &Matrix, weights: &[f64]) -> Vec<f64> {
    let mut average = vec![0.0; rows.columns()];
    for (row, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
        for (sum, value) in average.iter_mut().zip(rows.row(row)) {
            *sum += weight * value;
        }
    }
    average
}

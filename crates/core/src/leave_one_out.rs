//! How far to go, judged by prediction: the leave-one-out error of each horizon.
//!
//! Answers "how far" without a model of the residuals: drop one example, take the steps on the
//! others, predict what was dropped. In: a kernel, residuals and candidate horizons. Out:
//! [`LeaveOneOut`], with the risk of every candidate, the choice among them, and an interval
//! for the query. It takes linear steps in prompt space; no model runs.

mod counting;
mod intervals;
mod paths;

use crate::answers::Answers;
use crate::checks::{
    check_finite, check_not_negative, check_positive, check_size, check_vector,
};
use crate::error::Error;
use crate::evidence::{HorizonChoice, best_horizon};
use crate::geometry::{Block, Geometry};
use crate::matrix::Matrix;
use crate::spectrum::{Spectrum, StepSize};
use crate::vectors::dot;
use counting::Counting;
use intervals::averaged;
use paths::{Paths, Steps};
use serde::{Deserialize, Serialize};

/// How the squared errors on held-out examples are averaged to one risk.
///
/// # Examples
///
/// ```
/// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
/// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
///
/// // Nothing changes, so the errors are the residuals: squares 0, 1, 4 and 100.
/// let kernel = Matrix::zeros(4, 4);
/// let step = StepSize::new(1.0, &Spectrum::of(&kernel)?)?;
/// let dropped = LeaveOneOut::of(&kernel, &[0.0, 1.0, 2.0, 10.0], step, &[0], None)?;
/// assert_eq!(dropped.risk(Averaging::Plain)?, [26.25]);
/// assert_eq!(dropped.risk(Averaging::Trimmed)?, [2.5]);
/// assert_eq!(dropped.risk(Averaging::Median)?, [2.5]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Averaging {
    /// The mean.
    Plain,
    /// The mean without the smallest and the largest; the mean if there are fewer than three.
    Trimmed,
    /// The median.
    Median,
    /// The square of a power mean of the errors, with predictions clamped to the range of the
    /// labels. Up to three different labels among the examples are taken for classification: every
    /// label counts the same, however many examples have it, and fourth powers are averaged, as a
    /// confident mistake tells most. More are taken for regression: square roots are averaged, as
    /// the largest errors are often those of a wrong label. Without [`LeaveOneOut::with_answers`]
    /// it is regression, and nothing is clamped.
    ByLabel,
    /// The mean weighted by `k_{x,i}²/K_ii`, the squared cosine between example and query up to
    /// a constant; the mean if no example is aligned with the query at all.
    QueryWeighted,
}

impl std::fmt::Display for Averaging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Trimmed => "trimmed",
            Self::Median => "median",
            Self::ByLabel => "by-label",
            Self::QueryWeighted => "query-weighted",
        })
    }
}

/// What every candidate horizon predicts for each example from the others.
///
/// ```text
/// r̂_i(T) = K_{i,−i} q_T(K_{−i}) r_{−i}
/// ```
///
/// The query is exchangeable with the examples, so the errors `r_i − r̂_i(T)` estimate the risk
/// of `T` steps at the query. The step size is the same whichever is held out: a stable step
/// stays stable when an example is held out.
///
/// # Examples
///
/// ```
/// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
/// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
///
/// // Two copies of one example: one step on either closes ρ · 1 = 1/4 of the gap.
/// let kernel = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 1.0]])?;
/// let step = StepSize::new(0.25, &Spectrum::of(&kernel)?)?;
/// let dropped = LeaveOneOut::of(&kernel, &[1.0, 1.0], step, &[0, 1, 2], None)?;
/// assert_eq!(dropped.errors().row(1), [0.75, 0.75]);
/// assert_eq!(dropped.choose(Averaging::Plain, 1.0)?.horizon, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveOneOut {
    candidates: Vec<u32>,
    /// `r_i − r̂_i(T)`: one row per candidate, one column per example.
    errors: Matrix,
    query: Option<Query>,
    answered: Option<Answered>,
}

#[derive(Clone, Debug, PartialEq)]
struct Answered {
    /// The errors of predictions clamped to the range of the labels.
    errors: Matrix,
    /// How they are averaged.
    counting: Counting,
}

#[derive(Clone, Debug, PartialEq)]
struct Query {
    /// `ĥ_{−i}(x)`, in the shape of the errors.
    corrections: Matrix,
    /// `k_{x,i}²/K_ii`, divided by their sum.
    weights: Vec<f64>,
}

impl LeaveOneOut {
    /// Drops each example in turn and predicts it after every candidate number of steps.
    ///
    /// Exact: by taking the steps, or, where they are many, by `n` eigendecompositions of size
    /// `n − 1`. With a single example there is nothing to learn from and every prediction is 0. The
    /// coupling is needed for [`Averaging::QueryWeighted`] and [`LeaveOneOut::interval`] only.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without candidates, [`Error::SizeMismatch`] or [`Error::NotFinite`] for
    /// vectors that do not fit, [`Error::StepTooLarge`] for a step that is not stable, and what
    /// [`Spectrum::of`] finds wrong with the kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::LeaveOneOut;
    /// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    ///
    /// let kernel = Matrix::identity(1);
    /// let step = StepSize::new(0.5, &Spectrum::of(&kernel)?)?;
    /// let alone = LeaveOneOut::of(&kernel, &[3.0], step, &[0, 10], None)?;
    /// assert_eq!(alone.errors().values(), [3.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(
        kernel: &Matrix,
        residuals: &[f64],
        step: StepSize,
        candidates: &[u32],
        coupling: Option<&[f64]>,
    ) -> Result<Self, Error> {
        let step = step.check(&Spectrum::of(kernel)?)?;
        Self::with_stable_step(kernel, residuals, step, candidates, coupling)
    }

    /// The errors of some blocks of a prompt together, with what is known of its answers. The step
    /// size is one that was made for their kernel, which is not decomposed again.
    pub(crate) fn within(
        geometry: &Geometry,
        block: &Block,
        step: StepSize,
        candidates: &[u32],
    ) -> Result<Self, Error> {
        let coupling = block.query().map(|query| query.coupling.as_slice());
        let (kernel, residuals) = (block.kernel(), geometry.residuals());
        let errors = Self::with_stable_step(kernel, residuals, step, candidates, coupling)?;
        match geometry.answers() {
            Some(answers) => errors.with_answers(residuals, answers),
            None => Ok(errors),
        }
    }

    fn with_stable_step(
        kernel: &Matrix,
        residuals: &[f64],
        step: StepSize,
        candidates: &[u32],
        coupling: Option<&[f64]>,
    ) -> Result<Self, Error> {
        let n = kernel.rows();
        check_vector("residuals", residuals, n)?;
        if let Some(coupling) = coupling {
            check_vector("coupling", coupling, n)?;
        }
        if candidates.is_empty() {
            return Err(Error::Empty { quantity: "candidate horizons" });
        }
        let Paths { predictions, corrections } =
            Paths::of(Steps { kernel, residuals, step, candidates, coupling })?;
        // One row per example there; the transpose is what readers want.
        let errors = Matrix::from_fn(candidates.len(), n, |candidate, example| {
            residuals[example] - predictions[example][candidate]
        });
        let query = coupling.map(|coupling| Query {
            corrections: Matrix::from_fn(candidates.len(), n, |candidate, example| {
                corrections[example][candidate]
            }),
            weights: alignment(kernel, coupling),
        });
        Ok(Self { candidates: candidates.to_vec(), errors, query, answered: None })
    }

    /// From errors that were measured elsewhere, such as by steps in a model: one row per candidate,
    /// one column per example.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without candidates or examples, [`Error::SizeMismatch`] unless there is a
    /// row for every candidate, [`Error::NotFinite`] for NaN or infinite errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
    /// use fewstep_core::{Error, Matrix};
    ///
    /// let errors = Matrix::from_rows(&[vec![1.0, 3.0], vec![0.0, 2.0]])?;
    /// let dropped = LeaveOneOut::from_errors(&[0, 8], errors)?;
    /// assert_eq!(dropped.risk(Averaging::Plain)?, [5.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_errors(candidates: &[u32], errors: Matrix) -> Result<Self, Error> {
        if candidates.is_empty() || errors.columns() == 0 {
            return Err(Error::Empty { quantity: "candidate horizons" });
        }
        check_size("rows of leave-one-out errors", errors.rows(), candidates.len())?;
        check_finite("leave-one-out errors", errors.values())?;
        Ok(Self { candidates: candidates.to_vec(), errors, query: None, answered: None })
    }

    /// The same, with what is known of the answers, for [`Averaging::ByLabel`].
    ///
    /// ```text
    /// e_i(T) = r_i − min(max(r̂_i(T), lower_i), upper_i)
    /// risk(T) = (Σ_i w_i |e_i(T)|^p)^(2/p),   p = 4 for at most three labels, else ½
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless residuals and answers are those of the same examples, and
    /// [`Error::NotFinite`] for NaN or infinite residuals.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
    /// use fewstep_core::{Answers, Error, Matrix, Spectrum, StepSize};
    ///
    /// // Three copies of one example, predicted as ½, with the labels 1, 1 and 0. Many steps predict
    /// // ½ for the first two and 1 for the last; each label counts for half, and fourth powers are
    /// // averaged.
    /// let kernel = Matrix::from_rows(&[vec![1.0; 3], vec![1.0; 3], vec![1.0; 3]])?;
    /// let step = StepSize::new(0.25, &Spectrum::of(&kernel)?)?;
    /// let residuals = [0.5, 0.5, -0.5];
    /// let answers = Answers::new(vec![1, 1, 0], &[0.5; 3], [0.0, 1.0])?;
    /// let dropped = LeaveOneOut::of(&kernel, &residuals, step, &[0, 1000], None)?
    ///     .with_answers(&residuals, &answers)?;
    /// let risk = dropped.risk(Averaging::ByLabel)?;
    /// let expected = ((0.5_f64.powi(4) + 1.0) / 2.0).sqrt();
    /// assert!((risk[0] - 0.25).abs() < 1e-14 && (risk[1] - expected).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_answers(mut self, residuals: &[f64], answers: &Answers) -> Result<Self, Error> {
        let (candidates, n) = (self.errors.rows(), self.errors.columns());
        check_vector("residuals", residuals, n)?;
        check_size("answers", answers.labels().len(), n)?;
        let errors = Matrix::from_fn(candidates, n, |candidate, example| {
            let (residual, room) = (residuals[example], answers.room()[example]);
            let predicted = residual - self.errors[(candidate, example)];
            residual - predicted.max(room.lower).min(room.upper)
        });
        self.answered = Some(Answered { errors, counting: Counting::by_label(answers) });
        Ok(self)
    }

    /// The candidate horizons, in the order of every curve and of the rows of the errors.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::leave_one_out::LeaveOneOut;
    /// # use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    /// # let kernel = Matrix::identity(1);
    /// # let step = StepSize::new(0.5, &Spectrum::of(&kernel)?)?;
    /// let alone = LeaveOneOut::of(&kernel, &[3.0], step, &[0, 10], None)?;
    /// assert_eq!(alone.candidates(), [0, 10]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn candidates(&self) -> &[u32] {
        &self.candidates
    }

    /// `r_i − r̂_i(T)`: one row per candidate, one column per example.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::leave_one_out::LeaveOneOut;
    /// # use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    /// # let kernel = Matrix::identity(2);
    /// # let step = StepSize::new(0.5, &Spectrum::of(&kernel)?)?;
    /// // Examples that share nothing cannot predict each other.
    /// let dropped = LeaveOneOut::of(&kernel, &[3.0, 4.0], step, &[10], None)?;
    /// assert_eq!(dropped.errors().to_rows(), [[3.0, 4.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn errors(&self) -> &Matrix {
        &self.errors
    }

    /// The estimated risk at every candidate: the averaged squares of the errors.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuery`] if weights by the query are asked for and no coupling was given.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
    /// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    ///
    /// let kernel = Matrix::identity(2);
    /// let step = StepSize::new(0.5, &Spectrum::of(&kernel)?)?;
    /// let coupling = [0.0, 0.5];
    /// let dropped = LeaveOneOut::of(&kernel, &[3.0, 4.0], step, &[10], Some(&coupling))?;
    /// assert_eq!(dropped.risk(Averaging::Plain)?, [12.5]);
    /// assert_eq!(dropped.risk(Averaging::QueryWeighted)?, [16.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn risk(&self, averaging: Averaging) -> Result<Vec<f64>, Error> {
        let (errors, counting) = self.counting(averaging)?;
        let mut squares = Vec::new();
        let risk = |candidate| {
            squares.clear();
            squares.extend(errors.row(candidate).iter().map(|error| error * error));
            average(&mut squares, averaging, &counting)
        };
        Ok((0..self.candidates.len()).map(risk).collect())
    }

    /// The candidate with the smallest risk, if it is better than the shortest one by more than
    /// chance explains; otherwise the shortest, normally `T = 0`.
    ///
    /// ```text
    /// risk(T_0) − risk(T) > gate · standard error of e_i(T_0)² − e_i(T)² over examples
    /// ```
    ///
    /// The differences are paired by example. Their standard error is that of a mean, weighted
    /// if the risk is; for the robust averages it is an upper guide, as an outlier widens it.
    /// With `gate = 0` this is the smallest risk, ties to the shorter.
    ///
    /// # Errors
    ///
    /// As [`LeaveOneOut::risk`], and [`Error::OutOfRange`] unless the gate is finite and at least
    /// 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
    /// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    ///
    /// // Two copies of one example. One step leaves 1 − 3/4 and 3 − 1/4; the squares shrink by
    /// // 15/16 and 23/16, that is by 19/16 with a standard error of 1/4.
    /// let kernel = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 1.0]])?;
    /// let step = StepSize::new(0.25, &Spectrum::of(&kernel)?)?;
    /// let dropped = LeaveOneOut::of(&kernel, &[1.0, 3.0], step, &[0, 1], None)?;
    /// assert_eq!(dropped.choose(Averaging::Plain, 4.0)?.horizon, 1);
    /// assert_eq!(dropped.choose(Averaging::Plain, 5.0)?.horizon, 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn choose(&self, averaging: Averaging, gate: f64) -> Result<HorizonChoice, Error> {
        check_not_negative("gate", gate)?;
        let risk = self.risk(averaging)?;
        let best = best_horizon(&self.candidates, &risk)?;
        let flat = vec![0.0; risk.len()];
        let shortest = best_horizon(&self.candidates, &flat)?;
        let improvement = risk[shortest.index] - risk[best.index];
        let (errors, counting) = self.counting(averaging)?;
        let error = standard_error(
            errors.row(shortest.index),
            errors.row(best.index),
            counting.weights(),
        );
        Ok(if improvement > gate * error { best } else { shortest })
    }

    /// The weight of each candidate, by its leave-one-out errors.
    ///
    /// ```text
    /// w_T ∝ π_T risk(T)^(−βn),   π_{T_0} = odds · Σ_{T ≠ T_0} π_T,   the other π_T equal
    /// ```
    ///
    /// An average over horizons instead of one of them: with a handful of examples the smallest
    /// risk is mostly a matter of chance. `T_0` is the shortest candidate, normally 0, so that
    /// `odds` are the prior odds of leaving the model alone. `β = ½` is the likelihood of `n`
    /// independent normal errors at their best variance; as all candidates are compared on the same
    /// examples, a larger `β` can be right. Candidates without any error share all weight.
    ///
    /// # Errors
    ///
    /// As [`LeaveOneOut::risk`], and [`Error::OutOfRange`] unless sharpness `β` and odds are
    /// finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::leave_one_out::{Averaging, LeaveOneOut};
    /// use fewstep_core::{Error, Matrix, Spectrum, StepSize};
    ///
    /// // Two copies of one example: a step leaves ¾ of the error of each, which is (16/9)² times as
    /// // likely, against odds of 4.
    /// let kernel = Matrix::from_rows(&[vec![1.0, 1.0], vec![1.0, 1.0]])?;
    /// let step = StepSize::new(0.25, &Spectrum::of(&kernel)?)?;
    /// let dropped = LeaveOneOut::of(&kernel, &[1.0, 1.0], step, &[0, 1], None)?;
    /// let weights = dropped.posterior(Averaging::Plain, 1.0, 4.0)?;
    /// assert!((weights[1] - 256.0 / (4.0 * 81.0 + 256.0)).abs() < 1e-14);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn posterior(
        &self,
        averaging: Averaging,
        sharpness: f64,
        odds: f64,
    ) -> Result<Vec<f64>, Error> {
        check_positive("sharpness", sharpness)?;
        check_positive("odds", odds)?;
        let risk = self.risk(averaging)?;
        let least = risk.iter().copied().fold(f64::INFINITY, f64::min);
        let shortest = best_horizon(&self.candidates, &vec![0.0; risk.len()])?.index;
        let others = (risk.len() - 1).max(1) as f64;
        let power = -sharpness * self.errors.columns() as f64;
        let weight = |(candidate, &risk): (usize, &f64)| {
            let prior = if candidate == shortest { odds * others } else { 1.0 };
            let likelihood = match least {
                0.0 => f64::from(u8::from(risk == 0.0)),
                _ => (risk / least).powf(power),
            };
            prior * likelihood
        };
        let weights: Vec<f64> = risk.iter().enumerate().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        Ok(weights.into_iter().map(|weight| weight / sum).collect())
    }

    /// The risk without an update and with an average over the candidates, for the prompt that the
    /// errors belong to.
    pub(crate) fn before_and_after(
        &self,
        geometry: &Geometry,
        weights: &[f64],
        averaging: Averaging,
    ) -> Result<(f64, f64), Error> {
        let residuals = geometry.residuals();
        let mut errors = averaged(&self.errors, weights);
        if let (Averaging::ByLabel, Some(answers)) = (averaging, geometry.answers()) {
            let known = residuals.iter().zip(answers.room());
            for (error, (residual, room)) in errors.iter_mut().zip(known) {
                *error = residual - (residual - *error).max(room.lower).min(room.upper);
            }
        }
        let (_, counting) = self.counting(averaging)?;
        let risk = |errors: &[f64]| {
            let mut squares: Vec<f64> = errors.iter().map(|error| error * error).collect();
            average(&mut squares, averaging, &counting)
        };
        Ok((risk(residuals), risk(&errors)))
    }

    /// The errors to average, and how each counts.
    fn counting(&self, averaging: Averaging) -> Result<(&Matrix, Counting), Error> {
        match averaging {
            Averaging::QueryWeighted => {
                let quantity = "a risk weighted by the query";
                let query = self.query.as_ref().ok_or(Error::NoQuery { quantity })?;
                Ok((&self.errors, Counting::squares(query.weights.clone())))
            }
            Averaging::ByLabel => Ok(match &self.answered {
                Some(answered) => (&answered.errors, answered.counting.clone()),
                None => (&self.errors, Counting::regression(self.errors.columns())),
            }),
            Averaging::Plain | Averaging::Trimmed | Averaging::Median => {
                Ok((&self.errors, Counting::plain(self.errors.columns())))
            }
        }
    }
}

/// Standard error of the weighted mean of the differences of squared errors between two rows; 0
/// for a single example, which shows no difference.
fn standard_error(from: &[f64], to: &[f64], weights: &[f64]) -> f64 {
    let n = weights.len() as f64;
    let pairs = from.iter().zip(to);
    let differences: Vec<f64> = pairs.map(|(a, b)| (a - b) * (a + b)).collect();
    let mean = dot(weights, &differences);
    let spread = differences.iter().zip(weights).map(|(d, w)| (w * (d - mean)).powi(2));
    (spread.sum::<f64>() * n / (n - 1.0).max(1.0)).sqrt()
}

/// Squared cosines between the examples and the query, divided by their sum.
fn alignment(kernel: &Matrix, coupling: &[f64]) -> Vec<f64> {
    let cosine = |(example, &coupling): (usize, &f64)| {
        let length = kernel[(example, example)];
        if length > 0.0 { coupling * (coupling / length) } else { 0.0 }
    };
    let cosines: Vec<f64> = coupling.iter().enumerate().map(cosine).collect();
    let sum: f64 = cosines.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        cosines.iter().map(|cosine| cosine / sum).collect()
    } else {
        vec![1.0 / coupling.len() as f64; coupling.len()]
    }
}

/// One number from the squared errors of one candidate; sorts them if it must.
fn average(squares: &mut [f64], averaging: Averaging, counting: &Counting) -> f64 {
    let n = squares.len();
    let mean = |squares: &[f64]| squares.iter().sum::<f64>() / squares.len() as f64;
    match averaging {
        Averaging::QueryWeighted | Averaging::ByLabel => counting.average(squares),
        Averaging::Trimmed if n >= 3 => {
            squares.sort_by(f64::total_cmp);
            mean(&squares[1..n - 1])
        }
        Averaging::Plain | Averaging::Trimmed => mean(squares),
        Averaging::Median => {
            squares.sort_by(f64::total_cmp);
            mean(&squares[(n - 1) / 2..=n / 2])
        }
    }
}

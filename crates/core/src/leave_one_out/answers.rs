//! What is known of the answers that left-out errors are errors of.
//!
//! In: which label each example has, predictions, and the range of the labels. Out: [`Answers`].

use super::Interval;
use crate::checks::check_vector;
use crate::error::Error;

/// Up to so many different labels are classes, of which one may be rare and all are meant; more are
/// numbers, of which every example tells the same.
const FEW_LABELS: usize = 3;

/// Which power of the errors is averaged where labels are classes: mistakes about an answer that is
/// certain, the largest errors, tell most.
const POWER_FOR_CLASSES: f64 = 4.0;

/// The same where labels are numbers, of which some may be wrong: the largest errors tell least.
const POWER_FOR_NUMBERS: f64 = 0.5;

/// What is known of the examples' answers beside the residuals: which are alike, and how far a
/// prediction can move before it leaves the range of the labels.
///
/// # Examples
///
/// ```
/// use fewstep_core::Error;
/// use fewstep_core::leave_one_out::Answers;
///
/// // Predictions 0.25 and 0.5, labels 0 and 1: the first can fall by 0.25 and rise by 0.75.
/// let answers = Answers::new(vec![0, 1], &[0.25, 0.5], [0.0, 1.0])?;
/// assert_eq!((answers.room()[0].lower, answers.room()[0].upper), (-0.25, 0.75));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    labels: Vec<usize>,
    room: Vec<Interval>,
}

impl Answers {
    /// Which label each example has, what was predicted for it, and the smallest and the largest
    /// value of a label.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless there is one label per prediction, [`Error::NotFinite`] for
    /// numbers that are none, [`Error::OutOfRange`] unless the range has its smaller end first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::Error;
    /// # use fewstep_core::leave_one_out::Answers;
    /// assert!(Answers::new(vec![0], &[0.5], [1.0, 0.0]).is_err());
    /// ```
    pub fn new(
        labels: Vec<usize>,
        predictions: &[f64],
        [least, most]: [f64; 2],
    ) -> Result<Self, Error> {
        check_vector("predictions", predictions, labels.len())?;
        check_vector("range of the labels", &[least, most], 2)?;
        if least > most {
            return Err(Error::OutOfRange {
                quantity: "largest value of a label",
                found: most,
                allowed: "at least the smallest",
            });
        }
        let room = |&prediction: &f64| Interval {
            lower: least - prediction,
            upper: most - prediction,
        };
        Ok(Self { room: predictions.iter().map(room).collect(), labels })
    }

    /// Which label each example has; only whether two are the same matters.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::Error;
    /// # use fewstep_core::leave_one_out::Answers;
    /// assert_eq!(Answers::new(vec![3], &[0.5], [0.0, 1.0])?.labels(), [3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// How far each prediction can move down, a negative number, and up.
    ///
    /// # Examples
    ///
    /// See [`Answers`].
    #[must_use]
    pub fn room(&self) -> &[Interval] {
        &self.room
    }

    /// How the errors are averaged.
    pub(super) fn counting(&self) -> Counting {
        let n = self.labels.len();
        let mut different = self.labels.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() > FEW_LABELS {
            return Counting { weights: vec![1.0 / n as f64; n], power: POWER_FOR_NUMBERS };
        }
        let alike = |label: &usize| self.labels.iter().filter(|other| *other == label).count();
        let weight = |label| 1.0 / (alike(label) * different.len()) as f64;
        Counting { weights: self.labels.iter().map(weight).collect(), power: POWER_FOR_CLASSES }
    }
}

/// How the errors of examples are averaged.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counting {
    /// Weights of the examples, which sum to 1: the same for every label, divided among its own,
    /// where labels are few; else the same for every example.
    weights: Vec<f64>,
    /// Which power of the errors is averaged.
    power: f64,
}

impl Counting {
    /// Squares are averaged, with these weights.
    pub(super) fn squares(weights: Vec<f64>) -> Self {
        Self { weights, power: 2.0 }
    }

    /// Weights of the examples.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The square of the weighted power mean of errors with these squares.
    pub(super) fn average(&self, squares: &[f64]) -> f64 {
        // Powers of the largest error could leave the range of numbers; those of its shares do not.
        let most = squares.iter().copied().fold(0.0, f64::max);
        if most == 0.0 || !most.is_finite() {
            return most;
        }
        let powers = squares.iter().map(|square| (square / most).powf(self.power / 2.0));
        let mean: f64 = powers.zip(&self.weights).map(|(power, weight)| weight * power).sum();
        most * mean.powf(2.0 / self.power)
    }
}

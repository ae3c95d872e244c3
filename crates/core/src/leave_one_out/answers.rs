//! What is known of the answers that left-out errors are errors of.
//!
//! In: which label each example has, predictions, and the range of the labels. Out: [`Answers`].

use super::Interval;
use crate::error::{Error, check_vector};

/// Up to so many different labels are classes, of which one may be rare and all are meant; more are
/// numbers, of which every example tells the same.
const FEW_LABELS: usize = 3;

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

    /// Weights of the examples, which sum to 1: the same for every label, divided among its own,
    /// where labels are few; else the same for every example.
    pub(super) fn weights(&self) -> Vec<f64> {
        let n = self.labels.len();
        let mut different = self.labels.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() > FEW_LABELS {
            return vec![1.0 / n as f64; n];
        }
        let alike = |label: &usize| self.labels.iter().filter(|other| *other == label).count();
        let shares: Vec<f64> =
            self.labels.iter().map(|label| 1.0 / alike(label) as f64).collect();
        let labels: f64 = shares.iter().sum();
        shares.into_iter().map(|share| share / labels).collect()
    }
}

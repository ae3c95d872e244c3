//! What is known of the examples' answers beside the residuals.
//!
//! In: the label of each example, predictions, and the range of the labels. Out: [`Answers`].

use crate::checks::check_vector;
use crate::error::Error;

/// An interval of numbers; its ends may be infinite.
///
/// # Examples
///
/// ```
/// use fewstep_core::Interval;
///
/// let interval = Interval { lower: -0.5, upper: f64::INFINITY };
/// assert!(interval.lower < 0.0 && 1e300 < interval.upper);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// What is known of the examples' answers beside the residuals: which are alike, and how far a
/// prediction can change before it leaves the range of the labels.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Answers, Error};
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
    /// NaN or infinite numbers, [`Error::OutOfRange`] unless the range has its smaller end first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Answers, Error};
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
    /// # use fewstep_core::{Answers, Error};
    /// assert_eq!(Answers::new(vec![3], &[0.5], [0.0, 1.0])?.labels(), [3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// How far each prediction can fall, a negative number, and rise within the labels' range.
    ///
    /// # Examples
    ///
    /// See [`Answers`].
    #[must_use]
    pub fn room(&self) -> &[Interval] {
        &self.room
    }
}

//! What a prediction chooses between.

use crate::error::Error;

/// The tokens that a prediction chooses between, and the value of each.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Labels};
///
/// let refused = Labels::new(vec![3], vec![0.0, 1.0]);
/// assert_eq!(
///     refused,
///     Err(Error::SizeMismatch { quantity: "label values", found: 2, expected: 1 })
/// );
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Labels {
    tokens: Vec<u32>,
    values: Vec<f64>,
}

impl Labels {
    /// Labels from the token and the value of each.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without labels, [`Error::SizeMismatch`] unless there is a value for each
    /// token, [`Error::OutOfRange`] for a value that is not finite.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels};
    /// let refused = Labels::new(vec![], vec![]);
    /// assert_eq!(refused, Err(Error::Empty { quantity: "list of labels" }));
    /// ```
    pub fn new(tokens: Vec<u32>, values: Vec<f64>) -> Result<Self, Error> {
        if tokens.is_empty() {
            return Err(Error::Empty { quantity: "list of labels" });
        }
        let (found, expected) = (values.len(), tokens.len());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "label values", found, expected });
        }
        match values.iter().find(|value| !value.is_finite()) {
            Some(&found) => {
                Err(Error::OutOfRange { quantity: "label value", found, allowed: "finite" })
            }
            None => Ok(Self { tokens, values }),
        }
    }

    /// The token of each label.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels};
    /// assert_eq!(Labels::new(vec![3, 4], vec![0.0, 1.0])?.tokens(), [3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The value of each label.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels};
    /// assert_eq!(Labels::new(vec![3, 4], vec![0.0, 1.0])?.values(), [0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

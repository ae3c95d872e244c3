//! Checks of what callers hand in: sizes, finite entries and ranges.
//!
//! Every public function of this crate refuses invalid input by one of these, and crates that build
//! on it can do the same. Each takes the name of the quantity, for the message, and returns an
//! [`Error`] that holds what was found and what is allowed. Nothing here computes.

use crate::error::Error;

/// Refuses entries that are NaN or infinite.
///
/// # Errors
///
/// [`Error::NotFinite`] with the first of them.
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_finite;
///
/// assert!(check_finite("residuals", &[1.0, -2.0]).is_ok());
/// assert!(check_finite("residuals", &[1.0, f64::NAN]).is_err());
/// ```
pub fn check_finite(quantity: &'static str, values: &[f64]) -> Result<(), Error> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NotFinite { quantity, index, value: values[index] }),
        None => Ok(()),
    }
}

/// Refuses a size that differs from the expected one.
///
/// # Errors
///
/// [`Error::SizeMismatch`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_size;
///
/// assert!(check_size("residuals", 3, 3).is_ok());
/// assert!(check_size("residuals", 2, 3).is_err());
/// ```
pub fn check_size(quantity: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::SizeMismatch { quantity, found, expected })
    }
}

/// Refuses a vector of the wrong size, or with entries that are NaN or infinite.
///
/// # Errors
///
/// [`Error::SizeMismatch`] or [`Error::NotFinite`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_vector;
///
/// assert!(check_vector("coupling", &[1.0, 2.0], 2).is_ok());
/// assert!(check_vector("coupling", &[1.0, 2.0], 3).is_err());
/// ```
pub fn check_vector(
    quantity: &'static str,
    values: &[f64],
    expected: usize,
) -> Result<(), Error> {
    check_size(quantity, values.len(), expected)?;
    check_finite(quantity, values)
}

/// Refuses a number that is not finite and over 0.
///
/// # Errors
///
/// [`Error::OutOfRange`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_positive;
///
/// assert!(check_positive("noise variance", 0.5).is_ok());
/// assert!(check_positive("noise variance", 0.0).is_err());
/// ```
pub fn check_positive(quantity: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::OutOfRange { quantity, found: value, allowed: "finite and over 0" })
    }
}

/// Refuses a number that is not finite and at least 0.
///
/// # Errors
///
/// [`Error::OutOfRange`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_not_negative;
///
/// assert!(check_not_negative("signal variance", 0.0).is_ok());
/// assert!(check_not_negative("signal variance", f64::INFINITY).is_err());
/// ```
pub fn check_not_negative(quantity: &'static str, value: f64) -> Result<(), Error> {
    if value >= 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(Error::OutOfRange { quantity, found: value, allowed: "finite and at least 0" })
    }
}

/// Refuses a number that does not lie strictly between 0 and 1.
///
/// # Errors
///
/// [`Error::OutOfRange`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_fraction;
///
/// assert!(check_fraction("confidence", 0.95).is_ok());
/// assert!(check_fraction("confidence", 1.0).is_err());
/// ```
pub fn check_fraction(quantity: &'static str, value: f64) -> Result<(), Error> {
    if 0.0 < value && value < 1.0 {
        Ok(())
    } else {
        Err(Error::OutOfRange { quantity, found: value, allowed: "over 0 and under 1" })
    }
}

/// Refuses a budget that does not lie between 1 and the number of blocks.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_budget;
///
/// assert!(check_budget(3, 3).is_ok());
/// assert!(check_budget(0, 3).is_err() && check_budget(4, 3).is_err());
/// ```
pub fn check_budget(budget: usize, blocks: usize) -> Result<(), Error> {
    if (1..=blocks).contains(&budget) {
        Ok(())
    } else {
        Err(Error::BudgetOutOfRange { budget, blocks })
    }
}

/// Refuses an empty list of candidate horizons, and one that names a horizon twice.
///
/// # Errors
///
/// [`Error::Empty`] or [`Error::OutOfRange`].
///
/// # Examples
///
/// ```
/// use fewstep_core::checks::check_horizons;
///
/// assert!(check_horizons(&[8, 0, 1]).is_ok());
/// assert!(check_horizons(&[]).is_err() && check_horizons(&[1, 0, 1]).is_err());
/// ```
pub fn check_horizons(horizons: &[u32]) -> Result<(), Error> {
    if horizons.is_empty() {
        return Err(Error::Empty { quantity: "set of candidate horizons" });
    }
    let mut sorted = horizons.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::OutOfRange {
            quantity: "candidate horizon",
            found: f64::from(pair[0]),
            allowed: "named only once",
        }),
        None => Ok(()),
    }
}

//! A number that was found by sampling, and how sure it is.

/// A mean of random samples and the standard error of that mean.
///
/// # Examples
///
/// ```
/// use fewstep_theory::{Error, risk::decompose};
///
/// // Squared errors 1 and 9: mean 5, standard deviation √32, standard error √(32/2).
/// let found = decompose(&[1.0, 3.0], &[1.0, 3.0], &[0.0, 0.0])?;
/// assert_eq!((found.risk.mean, found.risk.standard_error), (5.0, 4.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard deviation over draws of the samples, itself estimated from them.
    pub standard_error: f64,
}

impl Estimate {
    /// Of at least two samples.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        Self { mean, standard_error: (squares / (count - 1.0) / count).sqrt() }
    }
}

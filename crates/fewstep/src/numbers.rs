//! Numbers as a person would write them.

/// A number to three digits, as a person would write it.
///
/// # Examples
///
/// ```
/// use fewstep::number;
///
/// assert_eq!(number(0.41237), "0.412");
/// assert_eq!(number(0.00182), "0.00182");
/// assert_eq!(number(0.09999), "0.100");
/// assert_eq!(number(-12.0), "-12.0");
/// assert_eq!(number(12_345.0), "12345");
/// assert_eq!(number(2.5e-7), "2.50e-7");
/// assert_eq!(number(0.0), "0");
/// assert_eq!(number(f64::NAN), "–");
/// ```
#[must_use]
pub fn number(value: f64) -> String {
    let exponential = format!("{value:.2e}");
    // After rounding: 0.09999 is 1.00e-1.
    let power = exponential.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok());
    match power {
        _ if value == 0.0 => "0".to_owned(),
        None => "–".to_owned(),
        Some(power @ -4..=4) => {
            let decimals = usize::try_from(2 - power).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        Some(_) => exponential,
    }
}

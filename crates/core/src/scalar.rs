//! Functions of one number that keep their digits where the textbook form cancels.
//!
//! Relative entropies and moments are sums of these two (Sec. 7, App. E).

/// Where the series takes over: beyond, the subtraction costs less than five bits.
pub(crate) const SERIES: f64 = 0.2;

/// The exponential less its tangent at 0, `eˣ − 1 − x ≥ 0`, without cancellation near 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::scalar::exponential_excess;
///
/// assert!((exponential_excess(1.0) - (1.0_f64.exp() - 2.0)).abs() < 1e-15);
/// assert!((exponential_excess(1e-9) - 5e-19).abs() < 1e-27);
/// ```
#[must_use]
pub fn exponential_excess(x: f64) -> f64 {
    if x.abs() < SERIES { logarithm_series(x.exp_m1()) } else { x.exp_m1() - x }
}

/// The logarithm's tangent at 1 less the logarithm, `u − log(1 + u) ≥ 0` for `u > −1`, without
/// cancellation near 0.
///
/// # Examples
///
/// ```
/// use fewstep_core::scalar::logarithm_excess;
///
/// assert!((logarithm_excess(1.0) - (1.0 - 2.0_f64.ln())).abs() < 1e-15);
/// assert!((logarithm_excess(1e-9) - 5e-19).abs() < 1e-27);
/// ```
#[must_use]
pub fn logarithm_excess(u: f64) -> f64 {
    match u.abs() < SERIES {
        true => logarithm_series(u),
        false if u == f64::INFINITY => u,
        false => u - u.ln_1p(),
    }
}

/// `u − log(1 + u)` for small `u`, from `log(1 + u) = 2 (s + s³/3 + s⁵/5 + …)`, `s = u/(2 + u)`.
fn logarithm_series(u: f64) -> f64 {
    let s = u / (2.0 + u);
    let tail = (1..12).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    u * s - 2.0 * s.powi(3) * tail
}

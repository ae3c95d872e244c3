//! Sums over vectors: the few loops that must be fast.
//!
//! Callers have checked sizes. What other crates may use is exported as
//! [`linear_algebra`](crate::linear_algebra).

/// Inner product.
///
/// Four running sums: the compiler may then use vector registers, which a single sum forbids.
///
/// # Panics
///
/// In debug builds, if the sizes differ.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::linear_algebra::dot(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    debug_assert_eq!(a.len(), b.len());
    let (a_blocks, a_rest) = a.as_chunks::<4>();
    let (b_blocks, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..4 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Squared Euclidean length.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::linear_algebra::squared_norm(&[3.0, 4.0]), 25.0);
/// ```
#[must_use]
pub fn squared_norm(a: &[f64]) -> f64 {
    dot(a, a)
}

/// Mean of the squares, 0 of nothing.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::linear_algebra::mean_square(&[3.0, 4.0]), 12.5);
/// ```
#[must_use]
pub fn mean_square(a: &[f64]) -> f64 {
    if a.is_empty() { 0.0 } else { squared_norm(a) / a.len() as f64 }
}

/// Adds a multiple of one vector to another: `target += weight · source`.
///
/// # Panics
///
/// In debug builds, if the sizes differ.
///
/// # Examples
///
/// ```
/// let mut target = [1.0, 2.0];
/// fewstep_core::linear_algebra::add_scaled(&mut target, 3.0, &[1.0, -1.0]);
/// assert_eq!(target, [4.0, -1.0]);
/// ```
pub fn add_scaled(target: &mut [f64], weight: f64, source: &[f64]) {
    debug_assert_eq!(target.len(), source.len());
    for (t, s) in target.iter_mut().zip(source) {
        *t += weight * s;
    }
}

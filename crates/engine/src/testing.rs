//! What unit tests share: seeded numbers, differences, and one way to say "close".

/// Seeded numbers between −1 and 1.
pub(crate) struct Numbers(fewstep_core::Rng);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fewstep_core::Rng::new(seed))
    }

    pub(crate) fn vector(&mut self, size: usize) -> Vec<f64> {
        (0..size).map(|_| 2.0 * self.0.uniform() - 1.0).collect()
    }
}

/// The slope of a function along a direction, by a five-point difference (error `h⁴`).
pub(crate) fn difference(
    at: &[f64],
    direction: &[f64],
    function: impl Fn(&[f64]) -> f64,
) -> f64 {
    let width = 1e-3;
    let value = |offset: f64| {
        let moved: Vec<f64> =
            at.iter().zip(direction).map(|(x, d)| x + offset * width * d).collect();
        function(&moved)
    };
    (value(-2.0) - 8.0 * value(-1.0) + 8.0 * value(1.0) - value(2.0)) / (12.0 * width)
}

/// Asserts `|found − expected| ≤ 100 · terms · ε · scale`.
pub(crate) fn assert_close(found: f64, expected: f64, scale: f64, terms: usize) {
    let allowed = 100.0 * terms.max(1) as f64 * f64::EPSILON * scale;
    let gap = (found - expected).abs();
    assert!(gap <= allowed, "{found} against {expected}: off by {gap:e}, allowed {allowed:e}");
}

//! Kernels that nobody chose by hand: `n` from 1 to 200, full rank, rank deficient, zero and level,
//! magnitudes from 1e-12 to 1e12.

use fewstep_core::{Filter, Matrix, Rng, Spectrum};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError};

/// A kernel with its residuals and a coupling that belongs to it.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) kernel: Matrix,
    pub(crate) residuals: Vec<f64>,
    pub(crate) coupling: Vec<f64>,
    /// Of its entries.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) magnitude: f64,
}

pub(crate) fn normals(rng: &mut Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.normal()).collect()
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let size = prop_oneof![4 => 1..=12_usize, 1 => 13..=200_usize];
    (size, 0..4_u8, -12..=12_i32, any::<u64>()).prop_map(|(n, kind, exponent, seed)| {
        let mut rng = Rng::new(seed);
        let magnitude = 10_f64.powi(exponent);
        let width = match kind {
            0 => n + 3,         // full rank
            1 => n.div_ceil(2), // rank deficient
            2 => n,             // level: one eigenvalue, repeated
            _ => 1,             // zero
        };
        let feature = |i: usize, j: usize, rng: &mut Rng| match kind {
            0 | 1 => rng.normal() * magnitude.sqrt(),
            2 => f64::from(u8::from(i == j)) * magnitude.sqrt(),
            _ => 0.0,
        };
        let rows: Vec<Vec<f64>> =
            (0..n).map(|i| (0..width).map(|j| feature(i, j, &mut rng)).collect()).collect();
        let query: Vec<f64> = normals(&mut rng, width);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let kernel: Vec<Vec<f64>> =
            rows.iter().map(|a| rows.iter().map(|b| dot(a, b)).collect()).collect();
        let coupling = rows.iter().map(|row| dot(row, &query)).collect();
        Case {
            kernel: Matrix::from_rows(&kernel).unwrap(),
            residuals: normals(&mut rng, n),
            coupling,
            magnitude,
        }
    })
}

/// No step, a few, or very many.
#[allow(dead_code, reason = "not every test needs it")]
pub(crate) fn horizons() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0_u32), 1..100_u32, Just(1_000_000)]
}

/// The same cases on every run.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(20_261_115),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn squared_norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum()
}

/// A fit stays between nothing and everything in each mode, and lies within the length of the
/// residuals.
pub(crate) fn assert_shrinks(
    filter: &dyn Filter,
    case: &Case,
    spectrum: &Spectrum,
) -> Result<(), TestCaseError> {
    for &eigenvalue in spectrum.eigenvalues() {
        prop_assert!((0.0..=1.0).contains(&filter.response(eigenvalue)));
        prop_assert!(filter.gain(eigenvalue) >= 0.0);
    }
    let fit = filter.prompt_fit(spectrum, &case.residuals).unwrap();
    let allowed = 1.0 + 1e3 * fit.len() as f64 * f64::EPSILON;
    prop_assert!(squared_norm(&fit) <= squared_norm(&case.residuals) * allowed);
    let correction =
        filter.query_correction(spectrum, &case.coupling, &case.residuals).unwrap();
    prop_assert!(correction.is_finite());
    Ok(())
}

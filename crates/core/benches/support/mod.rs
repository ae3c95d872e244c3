//! Random features, for benches of core and theory.

use fewstep_core::{Matrix, Rng};

pub(crate) fn normals(rng: &mut Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.normal()).collect()
}

pub(crate) fn features(rng: &mut Rng, rows: usize, columns: usize) -> Matrix {
    let scale = 1.0 / (columns as f64).sqrt();
    let values = normals(rng, rows * columns).iter().map(|x| x * scale).collect();
    Matrix::new(rows, columns, values).unwrap()
}

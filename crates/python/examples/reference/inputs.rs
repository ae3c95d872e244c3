//! The inputs of all comparisons, in fractions that both languages hold exactly;
//! `tests/cases/inputs.py` says the same.

/// How many examples there are.
pub(crate) const EXAMPLES: usize = 4;

/// Features of two blocks: eighths that look irregular.
pub(crate) fn features(block: usize, rows: usize, columns: usize) -> Vec<Vec<f64>> {
    let entry = |row: usize, column: usize| {
        ((row * 7 + column * 5 + block * 3 + row * column) % 17) as f64 / 8.0 - 1.0
    };
    (0..rows).map(|row| (0..columns).map(|column| entry(row, column)).collect()).collect()
}

/// What the model leaves of each example.
pub(crate) fn residuals() -> Vec<f64> {
    vec![0.75, -0.5, 0.25, 1.125]
}

/// A kernel: the products of the first block's features.
pub(crate) fn kernel() -> Vec<Vec<f64>> {
    let rows = features(0, EXAMPLES, 3);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    rows.iter().map(|a| rows.iter().map(|b| dot(a, b)).collect()).collect()
}

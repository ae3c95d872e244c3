//! The kernel of an arm as products: a sum of blocks in any of their forms, never written out where
//! that would be larger.
//!
//! In: [`ClassBlock`]s. Out: an [`Operator`] that multiplies many vectors at once. They stand side by
//! side, `width` of them: entry `(i·C + c)·width + r` is output `c` of example `i` in vector `r`. The
//! same buffer is read as a matrix of `n·C` rows or of `n` rows, so that no form needs a copy.

use super::kernel::{ClassBlock, ClassKernel};
use crate::linalg::{add_product, add_product_of_transpose};
use crate::matrix::Matrix;
use std::cell::Cell;

/// `P K P`, the sum of some blocks' kernels on outputs that are centred per example.
///
/// ```text
/// P = I − 11ᵀ/C per example
/// ```
///
/// Steps never leave the centred outputs, as a residual sums to 0 over the labels; a shift of all
/// scores of a prediction changes nothing, and must not count for the largest stable step.
pub(super) struct Operator {
    dense: Option<Matrix>,
    shared: Option<Matrix>,
    features: Vec<Matrix>,
    classes: usize,
    multiplications: Cell<u64>,
}

impl Operator {
    pub(super) fn of<'a>(
        blocks: impl IntoIterator<Item = &'a ClassBlock>,
        classes: usize,
    ) -> Self {
        let (mut dense, mut shared) = (None, None);
        let mut features = Vec::new();
        for block in blocks {
            match block.kernel() {
                ClassKernel::Dense(kernel) => add(&mut dense, kernel),
                ClassKernel::Shared(kernel) => add(&mut shared, kernel),
                ClassKernel::Features(rows) => features.push(centred_rows(rows, classes)),
            }
        }
        let dense = dense.map(|sum| centred_both(&sum, classes));
        Self { dense, shared, features, classes, multiplications: Cell::new(0) }
    }

    /// `target = K vectors`, for `width` vectors side by side, each centred per example.
    ///
    /// Costs `(n·C)²`, `n²·C` and `2·n·C·p` multiplications per vector, by form.
    pub(super) fn apply(&self, vectors: &[f64], width: usize, target: &mut [f64]) {
        target.fill(0.0);
        self.multiplications.set(self.multiplications.get() + self.cost(vectors.len()));
        if let Some(kernel) = &self.dense {
            add_product(target, kernel, vectors, width);
        }
        if let Some(kernel) = &self.shared {
            add_product(target, kernel, vectors, self.classes * width);
        }
        for features in &self.features {
            let mut image = vec![0.0; features.columns() * width];
            add_product_of_transpose(&mut image, features, vectors, width);
            add_product(target, features, &image, width);
        }
    }

    /// The number of multiplications so far.
    pub(super) fn multiplications(&self) -> u64 {
        self.multiplications.get()
    }

    /// Multiplications of a product with vectors of that many entries together.
    fn cost(&self, entries: usize) -> u64 {
        let square = |kernel: &Option<Matrix>| kernel.as_ref().map_or(0, Matrix::rows);
        let wide: usize = self.features.iter().map(|features| 2 * features.columns()).sum();
        let rows = square(&self.dense) + square(&self.shared) + wide;
        rows as u64 * entries as u64
    }
}

fn add(sum: &mut Option<Matrix>, kernel: &Matrix) {
    match sum {
        Some(sum) => sum.add_scaled(1.0, kernel),
        None => *sum = Some(kernel.clone()),
    }
}

/// `P F`: the columns, centred over the labels of each example.
fn centred_rows(features: &Matrix, classes: usize) -> Matrix {
    let (outputs, columns) = (features.rows(), features.columns());
    let mut means = vec![0.0; outputs / classes * columns];
    for (output, row) in features.values().chunks_exact(columns).enumerate() {
        let example = output / classes;
        for (mean, value) in means[example * columns..].iter_mut().zip(row) {
            *mean += value / classes as f64;
        }
    }
    Matrix::from_fn(outputs, columns, |output, column| {
        features[(output, column)] - means[output / classes * columns + column]
    })
}

/// `P K P`, exactly symmetric where the kernel is.
fn centred_both(kernel: &Matrix, classes: usize) -> Matrix {
    let half = centred_rows(kernel, classes);
    let outputs = kernel.rows();
    let means: Vec<f64> = half
        .values()
        .chunks_exact(classes)
        .map(|labels| labels.iter().sum::<f64>() / classes as f64)
        .collect();
    let examples = outputs / classes;
    let centred = Matrix::from_fn(outputs, outputs, |output, other| {
        half[(output, other)] - means[output * examples + other / classes]
    });
    // Rounding differs between the triangles, and the largest eigenvalue is that of a symmetric one.
    Matrix::from_fn(outputs, outputs, |i, j| 0.5 * (centred[(i, j)] + centred[(j, i)]))
}

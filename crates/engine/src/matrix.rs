//! A matrix of weights as it is stored, behind the two products that passes take with it.
//!
//! In: numbers in the order of their file, or still quantised. Out: products with the matrix and with
//! its transpose, and copies with an update in them. Nothing outside notices the storage.
//!
//! Quantised weights are dequantised a few outputs at a time on their way into a product and forgotten
//! after it. Numbers that come as `[out, in]` are in memory once: a product through a transposed view is as
//! fast from about a hundred rows on. Those that come as `[in, out]` are transposed when a backward
//! pass first asks, because products of small matrices through a view differ in their last bits.

use crate::ops::{View, ViewMut, Write, product};
use crate::quantised::QuantisedMatrix;
use crate::real::Real;
use std::ops::Range;
use std::sync::OnceLock;

/// The order of the numbers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightOrder {
    /// `[in, out]`, row by row.
    InputsFirst,
    /// `[out, in]`, row by row.
    OutputsFirst,
}

/// Some rows (inputs) and columns (outputs) of a matrix `[in, out]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submatrix {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl Submatrix {
    /// Number of weights.
    pub(crate) fn size(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// Number of weights of a quantised matrix that are dequantised at once, if a row is not longer: enough for a
/// product to run at full rate, few enough to stay close to the processor.
pub(crate) const DEQUANTISED_AT_ONCE: usize = 1 << 18;

/// The numbers of a matrix.
#[derive(Clone, Debug)]
enum Storage<R> {
    Plain(Vec<R>),
    /// `[out, in]`; in a box, since overlays have room for every matrix and none is quantised.
    Quantised(Box<QuantisedMatrix>),
}

/// A matrix from inputs to outputs.
#[derive(Clone, Debug)]
pub(crate) struct Matrix<R> {
    storage: Storage<R>,
    inputs: usize,
    outputs: usize,
    order: WeightOrder,
    /// `[out, in]` of a matrix that is `[in, out]`, once it was asked for; a copy has none.
    transposed: Option<OnceLock<Vec<R>>>,
}

impl<R: Real> Matrix<R> {
    pub(crate) fn new(
        values: Vec<R>,
        inputs: usize,
        outputs: usize,
        order: WeightOrder,
    ) -> Self {
        assert_eq!(values.len(), inputs * outputs, "a matrix has all its numbers");
        let transposed = (order == WeightOrder::InputsFirst).then(OnceLock::new);
        Self { storage: Storage::Plain(values), inputs, outputs, order, transposed }
    }

    /// A matrix that stays quantised.
    pub(crate) fn quantised(matrix: QuantisedMatrix) -> Self {
        let (inputs, outputs) = (matrix.columns(), matrix.rows());
        let (storage, order) =
            (Storage::Quantised(Box::new(matrix)), WeightOrder::OutputsFirst);
        Self { storage, inputs, outputs, order, transposed: None }
    }

    /// Whether its numbers are quantised.
    pub(crate) fn is_quantised(&self) -> bool {
        matches!(self.storage, Storage::Quantised(_))
    }

    /// All numbers, in an order that plain numbers must already have.
    pub(crate) fn numbers(&self, order: WeightOrder) -> Vec<R> {
        match (&self.storage, order) {
            (Storage::Plain(values), _) => {
                assert_eq!(order, self.order, "plain numbers are asked for as they are");
                values.clone()
            }
            (Storage::Quantised(quantised), WeightOrder::OutputsFirst) => {
                R::of_weights(quantised.dequantise())
            }
            (Storage::Quantised(quantised), WeightOrder::InputsFirst) => {
                R::of_weights(quantised.dequantise_transposed())
            }
        }
    }

    /// The weights of one output, `[in]`, of a matrix whose outputs come first.
    pub(crate) fn write_output(&self, output: usize, target: &mut [R]) {
        assert_eq!(
            self.order,
            WeightOrder::OutputsFirst,
            "an output's weights lie side by side"
        );
        match &self.storage {
            Storage::Plain(values) => {
                target.copy_from_slice(&values[output * self.inputs..][..self.inputs]);
            }
            Storage::Quantised(quantised) => {
                target.copy_from_slice(&dequantised(quantised, output..output + 1));
            }
        }
    }

    /// Calls `visit` with some outputs at a time and their weights `[outputs, in]`, in order.
    fn for_outputs(
        &self,
        quantised: &QuantisedMatrix,
        mut visit: impl FnMut(Range<usize>, View<'_, R>),
    ) {
        let step = (DEQUANTISED_AT_ONCE / self.inputs).max(1);
        for first in (0..self.outputs).step_by(step) {
            let part = first..self.outputs.min(first + step);
            let numbers = dequantised(quantised, part.clone());
            visit(part.clone(), View::new(&numbers, part.len(), self.inputs));
        }
    }

    /// `target (+)= input · W` for `input [count, in]`, `target [count, out]`.
    pub(crate) fn project(&self, write: Write, input: &[R], target: &mut [R]) {
        let count = input.len() / self.inputs;
        let input = View::new(input, count, self.inputs);
        match &self.storage {
            Storage::Plain(values) => {
                let target = ViewMut::new(target, count, self.outputs);
                product(write, target, input, self.plain(values), R::ONE);
            }
            Storage::Quantised(quantised) => self.for_outputs(quantised, |outputs, weights| {
                let target = ViewMut::new(target, count, self.outputs).columns(outputs);
                product(write, target, input, weights.transposed(), R::ONE);
            }),
        }
    }

    /// `target (+)= input · Wᵀ` for `input [count, out]`, `target [count, in]`.
    pub(crate) fn back(&self, write: Write, input: &[R], target: &mut [R]) {
        let count = input.len() / self.outputs;
        match (&self.storage, &self.transposed) {
            (Storage::Plain(values), Some(kept)) => {
                let values = kept.get_or_init(|| transpose(values, self.inputs, self.outputs));
                let target = ViewMut::new(target, count, self.inputs);
                let input = View::new(input, count, self.outputs);
                let transposed = View::new(values, self.outputs, self.inputs);
                product(write, target, input, transposed, R::ONE);
            }
            _ => self.back_through(write, 0..self.inputs, input, target),
        }
    }

    /// As [`Matrix::project`], for some of the outputs, between views.
    pub(crate) fn project_to(
        &self,
        outputs: Range<usize>,
        write: Write,
        input: View<'_, R>,
        target: ViewMut<'_, R>,
    ) {
        match &self.storage {
            Storage::Plain(values) => {
                product(write, target, input, self.plain(values).columns(outputs), R::ONE);
            }
            Storage::Quantised(quantised) => {
                let weights = dequantised(quantised, outputs.clone());
                let weights = View::new(&weights, outputs.len(), self.inputs);
                product(write, target, input, weights.transposed(), R::ONE);
            }
        }
    }

    /// `target = input · Wᵀ` from some of the outputs, between views.
    pub(crate) fn back_from(
        &self,
        outputs: Range<usize>,
        input: View<'_, R>,
        target: ViewMut<'_, R>,
    ) {
        let numbers;
        // Not through a transpose, which copies do not have: their bits should be the same.
        let weights = match &self.storage {
            Storage::Plain(values) => self.plain(values).columns(outputs).transposed(),
            Storage::Quantised(quantised) => {
                numbers = dequantised(quantised, outputs.clone());
                View::new(&numbers, outputs.len(), self.inputs)
            }
        };
        product(Write::Over, target, input, weights, R::ONE);
    }

    /// As [`Matrix::back`], for some of the inputs: `target [count, rows]`.
    pub(crate) fn back_to(&self, rows: Range<usize>, input: &[R], target: &mut [R]) {
        self.back_through(Write::Over, rows, input, target);
    }

    /// As [`Matrix::back_to`], without a transpose.
    fn back_through(&self, write: Write, rows: Range<usize>, input: &[R], target: &mut [R]) {
        let count = input.len() / self.outputs;
        let input = View::new(input, count, self.outputs);
        match &self.storage {
            Storage::Plain(values) => {
                let target = ViewMut::new(target, count, rows.len());
                let part = self.plain(values).rows(rows).transposed();
                product(write, target, input, part, R::ONE);
            }
            Storage::Quantised(quantised) => self.for_outputs(quantised, |outputs, weights| {
                let write = if outputs.start == 0 { write } else { Write::Add };
                let target = ViewMut::new(target, count, rows.len());
                let weights = weights.columns(rows.clone());
                product(write, target, input.columns(outputs), weights, R::ONE);
            }),
        }
    }

    /// `[in, out]`, whatever the order.
    fn plain<'a>(&self, values: &'a [R]) -> View<'a, R> {
        match self.order {
            WeightOrder::InputsFirst => View::new(values, self.inputs, self.outputs),
            WeightOrder::OutputsFirst => {
                View::new(values, self.outputs, self.inputs).transposed()
            }
        }
    }

    /// A copy that updates are written into, again and again; it is not quantised.
    pub(crate) fn copy(&self) -> Self {
        let storage = Storage::Plain(self.numbers(self.order));
        Self { storage, transposed: None, ..*self }
    }

    /// Writes `own + change` into the rows (inputs) and columns (outputs) of a block, for
    /// `change [rows, columns]`; the rest stays.
    pub(crate) fn set_block(&mut self, own: &Self, part: Submatrix, change: &[R]) {
        let Storage::Plain(values) = &mut self.storage else {
            unreachable!("updates are written into copies, which are not quantised");
        };
        match &own.storage {
            Storage::Plain(own) => {
                for_block(self.inputs, self.outputs, self.order, part, |index, from| {
                    values[index] = own[index] + change[from];
                });
            }
            Storage::Quantised(own) => {
                let Submatrix { rows, columns } = part;
                for (offset, output) in columns.clone().enumerate() {
                    let own = dequantised::<R>(own, output..output + 1);
                    let target = &mut values[output * self.inputs..][..self.inputs];
                    for (from, input) in rows.clone().enumerate() {
                        target[input] = own[input] + change[from * columns.len() + offset];
                    }
                }
            }
        }
    }
}

/// The weights of some outputs of a quantised matrix, `[outputs, in]`.
fn dequantised<R: Real>(quantised: &QuantisedMatrix, outputs: Range<usize>) -> Vec<R> {
    let mut numbers = vec![0.0; outputs.len() * quantised.columns()];
    quantised.dequantise_rows(outputs, &mut numbers).expect("the outputs are inside");
    R::of_weights(numbers)
}

/// `[rows, columns]` to `[columns, rows]`.
fn transpose<R: Real>(values: &[R], rows: usize, columns: usize) -> Vec<R> {
    let mut transposed = vec![R::ZERO; values.len()];
    // Square tiles: both sides stay in cache.
    const TILE: usize = 32;
    for row in (0..rows).step_by(TILE) {
        for column in (0..columns).step_by(TILE) {
            for r in row..rows.min(row + TILE) {
                for c in column..columns.min(column + TILE) {
                    transposed[c * rows + r] = values[r * columns + c];
                }
            }
        }
    }
    transposed
}

/// Calls `visit` with the place of every number of a block in its matrix and in the block itself,
/// which is `[rows, columns]` of a matrix of some inputs and outputs.
pub(crate) fn for_block(
    inputs: usize,
    outputs: usize,
    order: WeightOrder,
    Submatrix { rows, columns }: Submatrix,
    mut visit: impl FnMut(usize, usize),
) {
    match order {
        WeightOrder::InputsFirst => {
            for (from, row) in rows.enumerate() {
                for (offset, column) in columns.clone().enumerate() {
                    visit(row * outputs + column, from * columns.len() + offset);
                }
            }
        }
        WeightOrder::OutputsFirst => {
            for (offset, column) in columns.clone().enumerate() {
                for (from, row) in rows.clone().enumerate() {
                    visit(column * inputs + row, from * columns.len() + offset);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantised::Encoding;
    use crate::testing::{Numbers, assert_close};

    /// Products with a quantised matrix are those with its numbers, whatever is dequantised at once.
    #[test]
    fn quantised_numbers_are_multiplied_like_plain_ones() {
        let mut numbers = Numbers::new(9);
        // The second is dequantised in several parts, the third row by row.
        for (inputs, outputs, count) in
            [(3, 5, 4), (600, 901, 3), (DEQUANTISED_AT_ONCE + 1, 2, 1)]
        {
            let values: Vec<f32> =
                (0..inputs * outputs).map(|_| f32::of(numbers.vector(1)[0])).collect();
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let quantised =
                QuantisedMatrix::new(Encoding::F32, [outputs, inputs], bytes).unwrap();
            let quantised: Matrix<f64> = Matrix::quantised(quantised);
            let values = f64::of_weights(values);
            let plain = Matrix::new(values, inputs, outputs, WeightOrder::OutputsFirst);
            assert!(
                quantised.is_quantised()
                    && !plain.is_quantised()
                    && !quantised.copy().is_quantised()
            );
            assert_eq!(
                quantised.numbers(WeightOrder::OutputsFirst),
                plain.numbers(WeightOrder::OutputsFirst)
            );
            let (forward, backward) =
                (numbers.vector(count * inputs), numbers.vector(count * outputs));
            let some = inputs / 3..inputs;
            let all = |matrix: &Matrix<f64>, write: Write| {
                let mut found = [
                    vec![0.5; count * outputs],
                    vec![0.5; count * inputs],
                    vec![0.5; count * some.len()],
                    vec![0.5; count * outputs],
                    vec![0.5; count * inputs],
                    vec![0.5; count * inputs],
                ];
                matrix.project(write, &forward, &mut found[0]);
                matrix.back(write, &backward, &mut found[1]);
                matrix.back_to(some.clone(), &backward, &mut found[2]);
                // Through views, some outputs at a time.
                for (index, part) in [0..outputs / 2, outputs / 2..outputs].iter().enumerate() {
                    let input = View::new(&forward, count, inputs);
                    let target = ViewMut::new(&mut found[3], count, outputs);
                    matrix.project_to(part.clone(), write, input, target.columns(part.clone()));
                    let input = View::new(&backward, count, outputs).columns(part.clone());
                    let target = ViewMut::new(&mut found[4 + index], count, inputs);
                    matrix.back_from(part.clone(), input, target);
                }
                if write == Write::Over {
                    // The whole is made of its parts.
                    let parts = found[4].iter().zip(&found[5]).map(|(a, b)| a + b);
                    for (whole, parts) in found[1].iter().zip(parts) {
                        assert_close(*whole, parts, outputs as f64, outputs);
                    }
                    for (whole, parts) in found[0].iter().zip(&found[3]) {
                        assert_close(*whole, *parts, inputs as f64, inputs);
                    }
                }
                found.concat()
            };
            for write in [Write::Over, Write::Add] {
                for (found, expected) in
                    all(&quantised, write).into_iter().zip(all(&plain, write))
                {
                    assert_close(found, expected, inputs as f64, inputs);
                }
            }
        }
    }

    #[test]
    fn updates_of_quantised_matrices_leave_the_rest_as_it_is() {
        let mut numbers = Numbers::new(10);
        let (inputs, outputs) = (7, 6);
        let values: Vec<f32> = (0..42).map(|_| f32::of(numbers.vector(1)[0])).collect();
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let quantised = QuantisedMatrix::new(Encoding::F32, [outputs, inputs], bytes).unwrap();
        let quantised: Matrix<f32> = Matrix::quantised(quantised);
        let plain = Matrix::new(values, inputs, outputs, WeightOrder::OutputsFirst);
        let (mut left, mut right) = (quantised.copy(), plain.copy());
        for (rows, columns) in [(0..7, 2..4), (3..6, 0..6)] {
            let part = Submatrix { rows, columns };
            let change: Vec<f32> =
                (0..part.size()).map(|_| f32::of(numbers.vector(1)[0])).collect();
            left.set_block(&quantised, part.clone(), &change);
            right.set_block(&plain, part, &change);
        }
        assert_eq!(
            left.numbers(WeightOrder::OutputsFirst),
            right.numbers(WeightOrder::OutputsFirst)
        );
        assert_ne!(
            left.numbers(WeightOrder::OutputsFirst),
            plain.numbers(WeightOrder::OutputsFirst)
        );
        let mut row = [0.0; 7];
        quantised.write_output(4, &mut row);
        assert_eq!(row.to_vec(), plain.numbers(WeightOrder::OutputsFirst)[28..35].to_vec());
    }
}

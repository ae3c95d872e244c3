//! A matrix of weights as it is stored, behind the two products that passes take with it.
//!
//! In: numbers in the order of their file. Out: products with the matrix and with its transpose,
//! and copies with an update in them. A storage of another kind belongs in here, and nothing
//! outside would notice.
//!
//! Numbers that come as `[out, in]` are in memory once: a product through a transposed view is as
//! fast from about a hundred rows on. Those that come as `[in, out]` are transposed when a backward
//! pass first asks, because products of small matrices through a view differ in their last bits.

use crate::ops::{View, ViewMut, Write, product};
use crate::real::Real;
use std::ops::Range;
use std::sync::OnceLock;

/// The order of the numbers of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[in, out]`, row by row.
    InputsFirst,
    /// `[out, in]`, row by row.
    OutputsFirst,
}

/// A matrix with so many inputs and outputs.
#[derive(Debug)]
pub(crate) struct Matrix<R> {
    values: Vec<R>,
    inputs: usize,
    outputs: usize,
    order: Order,
    /// `[out, in]` of a matrix that is `[in, out]`, once it was asked for; a copy has none.
    transposed: Option<OnceLock<Vec<R>>>,
}

impl<R: Real> Matrix<R> {
    pub(crate) fn new(values: Vec<R>, (inputs, outputs): (usize, usize), order: Order) -> Self {
        assert_eq!(values.len(), inputs * outputs, "a matrix has all its numbers");
        let transposed = (order == Order::InputsFirst).then(OnceLock::new);
        Self { values, inputs, outputs, order, transposed }
    }

    /// The numbers in their order.
    pub(crate) fn values(&self) -> &[R] {
        &self.values
    }

    /// `[in, out]`, whatever the order.
    fn view(&self) -> View<'_, R> {
        match self.order {
            Order::InputsFirst => View::new(&self.values, self.inputs, self.outputs),
            Order::OutputsFirst => {
                View::new(&self.values, self.outputs, self.inputs).transposed()
            }
        }
    }

    /// `target (+)= input · W` for `input [count, in]`, `target [count, out]`.
    pub(crate) fn project(&self, write: Write, input: &[R], target: &mut [R]) {
        let count = input.len() / self.inputs;
        let target = ViewMut::new(target, count, self.outputs);
        product(write, target, View::new(input, count, self.inputs), self.view(), R::ONE);
    }

    /// `target (+)= input · Wᵀ` for `input [count, out]`, `target [count, in]`.
    pub(crate) fn back(&self, write: Write, input: &[R], target: &mut [R]) {
        let count = input.len() / self.outputs;
        let target = ViewMut::new(target, count, self.inputs);
        let input = View::new(input, count, self.outputs);
        let transposed = match &self.transposed {
            None => self.view().transposed(),
            Some(kept) => {
                let values =
                    kept.get_or_init(|| transpose(&self.values, self.inputs, self.outputs));
                View::new(values, self.outputs, self.inputs)
            }
        };
        product(write, target, input, transposed, R::ONE);
    }

    /// As [`Matrix::back`], for some of the inputs: `target [count, rows]`.
    pub(crate) fn back_to(&self, rows: Range<usize>, input: &[R], target: &mut [R]) {
        let count = input.len() / self.outputs;
        let target = ViewMut::new(target, count, rows.len());
        let part = self.view().rows(rows).transposed();
        product(Write::Over, target, View::new(input, count, self.outputs), part, R::ONE);
    }

    /// A copy that updates are written into, again and again.
    pub(crate) fn copy(&self) -> Self {
        let values = self.values.clone();
        Self { values, transposed: None, ..*self }
    }

    /// Writes `own + change` into the rows (inputs) and columns (outputs) of a block, for
    /// `change [rows, columns]`; the rest stays.
    pub(crate) fn set_block(
        &mut self,
        own: &Self,
        place: (Range<usize>, Range<usize>),
        change: &[R],
    ) {
        for_block((self.inputs, self.outputs), self.order, place, |index, from| {
            self.values[index] = own.values[index] + change[from];
        });
    }
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
    (inputs, outputs): (usize, usize),
    order: Order,
    (rows, columns): (Range<usize>, Range<usize>),
    mut visit: impl FnMut(usize, usize),
) {
    match order {
        Order::InputsFirst => {
            for (from, row) in rows.enumerate() {
                for (offset, column) in columns.clone().enumerate() {
                    visit(row * outputs + column, from * columns.len() + offset);
                }
            }
        }
        Order::OutputsFirst => {
            for (offset, column) in columns.clone().enumerate() {
                for (from, row) in rows.clone().enumerate() {
                    visit(column * inputs + row, from * columns.len() + offset);
                }
            }
        }
    }
}

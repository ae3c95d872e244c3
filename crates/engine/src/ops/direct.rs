//! Products that are too small, or have too few rows, to be worth rearranging their factors for.
//!
//! A general product copies its factors into the order that its inner loop wants. Attention takes
//! thousands of products of a few rows, for which that costs more than the product; and the
//! few rows that are asked for in the last layer meet each weight once, so that reading the
//! weights in their own order is all that counts. Every sum runs in an order that the shapes fix.

use super::{View, Write, wide};
use crate::real::Real;

/// The order in which a product goes through its factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopOrder {
    /// Rows of the right factor are added up, one row of the target after the other.
    Rows,
    /// The same, while the right factor passes by once.
    Stream,
    /// Inner products of rows of the left factor with columns of the right one.
    Dots,
}

/// Rows of the left factor up to which a product is taken directly.
pub(crate) const FEW_ROWS: usize = 16;

/// Numbers of the right factor up to which it stays close to the processor.
pub(crate) const SMALL_FACTOR: usize = 1 << 13;

/// Numbers of the right factor from which on it is read from far away.
const LARGE_FACTOR: usize = 1 << 16;

/// Columns of a target that stay close to the processor while the right factor passes by.
const BLOCK: usize = 512;

/// Partial sums of an inner product, side by side.
const LANES: usize = 16;

/// Half of them.
const HALF: usize = LANES / 2;

/// How a product is taken directly, if it should be.
pub(super) fn loop_order<R>(left: View<'_, R>, right: View<'_, R>) -> Option<LoopOrder> {
    let size = right.rows * right.columns;
    if left.rows > FEW_ROWS && (right.rows > FEW_ROWS || size > SMALL_FACTOR)
        || SMALL_FACTOR < size && size < LARGE_FACTOR
    {
        return None;
    }
    if right.column_stride == 1 {
        return Some(if size <= SMALL_FACTOR { LoopOrder::Rows } else { LoopOrder::Stream });
    }
    let rows_lie_still = right.row_stride == 1 && left.column_stride == 1;
    (rows_lie_still && left.rows <= FEW_ROWS).then_some(LoopOrder::Dots)
}

/// `target (+)= scale · left · right`, for views that are known to be inside their buffers.
pub(super) struct Product<'a, R> {
    pub(super) write: Write,
    pub(super) scale: R,
    pub(super) left: View<'a, R>,
    pub(super) right: View<'a, R>,
    /// Between rows of the target.
    pub(super) stride: usize,
}

impl<R: Real> Product<'_, R> {
    /// Writes the product to its target.
    pub(super) fn run(&self, loop_order: LoopOrder, target: &mut [R]) {
        match loop_order {
            LoopOrder::Rows => wide(
                #[inline(always)]
                || self.rows(target),
            ),
            LoopOrder::Stream => wide(
                #[inline(always)]
                || self.stream(target),
            ),
            LoopOrder::Dots => wide(
                #[inline(always)]
                || self.dots(target),
            ),
        }
    }

    /// `scale · left[row, inner]`.
    #[inline(always)]
    fn weight(&self, row: usize, inner: usize) -> R {
        let View { values, row_stride, column_stride, .. } = self.left;
        self.scale * values[row * row_stride + inner * column_stride]
    }

    #[inline(always)]
    fn rows(&self, target: &mut [R]) {
        for row in 0..self.left.rows {
            let target = &mut target[row * self.stride..][..self.right.columns];
            let mut first = 0;
            while let Some(block) = target.get_mut(first..first + 64) {
                self.block::<64>(row, first, block);
                first += 64;
            }
            while let Some(block) = target.get_mut(first..first + 16) {
                self.block::<16>(row, first, block);
                first += 16;
            }
            while let Some(block) = target.get_mut(first..first + 8) {
                self.block::<8>(row, first, block);
                first += 8;
            }
            for column in first..target.len() {
                self.block::<1>(row, column, &mut target[column..=column]);
            }
        }
    }

    /// Some columns of a row of the target, in registers until all rows are added up.
    #[inline(always)]
    fn block<const COLUMNS: usize>(&self, row: usize, first: usize, target: &mut [R]) {
        let mut sums = [R::ZERO; COLUMNS];
        if self.write == Write::Add {
            sums.copy_from_slice(target);
        }
        for inner in 0..self.right.rows {
            let weight = self.weight(row, inner);
            let values = &self.right.values[inner * self.right.row_stride + first..][..COLUMNS];
            for column in 0..COLUMNS {
                sums[column] += weight * values[column];
            }
        }
        target.copy_from_slice(&sums);
    }

    #[inline(always)]
    fn stream(&self, target: &mut [R]) {
        let (rows, columns, inner) = (self.left.rows, self.right.columns, self.right.rows);
        if self.write == Write::Over {
            for row in 0..rows {
                target[row * self.stride..][..columns].fill(R::ZERO);
            }
        }
        for first in (0..columns).step_by(BLOCK) {
            let size = BLOCK.min(columns - first);
            for inner in (0..inner).step_by(4) {
                self.pass(target, inner, first, size);
            }
        }
    }

    /// Adds up to four rows of the right factor to some columns of the target.
    #[inline(always)]
    fn pass(&self, target: &mut [R], inner: usize, first: usize, size: usize) {
        let right =
            |inner: usize| &self.right.values[inner * self.right.row_stride + first..][..size];
        if inner + 4 > self.right.rows {
            for inner in inner..self.right.rows {
                for row in 0..self.left.rows {
                    let weight = self.weight(row, inner);
                    let target = &mut target[row * self.stride + first..][..size];
                    for (target, &value) in target.iter_mut().zip(right(inner)) {
                        *target += weight * value;
                    }
                }
            }
            return;
        }
        let (a, b, c, d) = (right(inner), right(inner + 1), right(inner + 2), right(inner + 3));
        let weights = |row: usize| -> [R; 4] {
            let weight = |k: usize| self.weight(row, inner + k);
            [weight(0), weight(1), weight(2), weight(3)]
        };
        for row in (0..self.left.rows - self.left.rows % 2).step_by(2) {
            let (upper, lower) = target[row * self.stride + first..].split_at_mut(self.stride);
            let (upper, lower) = (&mut upper[..size], &mut lower[..size]);
            let (w, v) = (weights(row), weights(row + 1));
            for k in 0..size {
                upper[k] += (w[0] * a[k] + w[1] * b[k]) + (w[2] * c[k] + w[3] * d[k]);
                lower[k] += (v[0] * a[k] + v[1] * b[k]) + (v[2] * c[k] + v[3] * d[k]);
            }
        }
        if self.left.rows % 2 == 1 {
            let row = self.left.rows - 1;
            let target = &mut target[row * self.stride + first..][..size];
            let w = weights(row);
            for k in 0..size {
                target[k] += (w[0] * a[k] + w[1] * b[k]) + (w[2] * c[k] + w[3] * d[k]);
            }
        }
    }

    #[inline(always)]
    fn dots(&self, target: &mut [R]) {
        let rows = self.left.rows;
        for column in 0..self.right.columns {
            let right = &self.right.values[column * self.right.column_stride..];
            let right = &right[..self.right.rows];
            let mut row = 0;
            while row + 4 <= rows {
                self.write_dots::<4>(target, row, right, column);
                row += 4;
            }
            for row in row..rows {
                self.write_dots::<1>(target, row, right, column);
            }
        }
    }

    /// The inner products of some rows of the left factor with one column of the right one.
    #[inline(always)]
    fn write_dots<const ROWS: usize>(
        &self,
        target: &mut [R],
        first: usize,
        right: &[R],
        column: usize,
    ) {
        let lefts: [&[R]; ROWS] = std::array::from_fn(|row| {
            &self.left.values[(first + row) * self.left.row_stride..][..right.len()]
        });
        let mut sums = [[R::ZERO; LANES]; ROWS];
        let whole = right.len() - right.len() % LANES;
        for from in (0..whole).step_by(LANES) {
            let right = &right[from..from + LANES];
            for (sums, left) in sums.iter_mut().zip(&lefts) {
                let left = &left[from..from + LANES];
                for lane in 0..LANES {
                    sums[lane] += left[lane] * right[lane];
                }
            }
        }
        // Heads are often of eight numbers: a rest of known length stays in registers.
        let half = if right.len() - whole >= HALF { HALF } else { 0 };
        for (row, (sums, left)) in sums.iter_mut().zip(&lefts).enumerate() {
            if half > 0 {
                let (left, right) = (&left[whole..whole + HALF], &right[whole..whole + HALF]);
                for lane in 0..HALF {
                    sums[lane] += left[lane] * right[lane];
                }
            }
            let rest = left[whole + half..].iter().zip(&right[whole + half..]);
            for (sum, (&left, &right)) in sums[half..].iter_mut().zip(rest) {
                *sum += left * right;
            }
            let sum = self.scale * halved(*sums);
            let target = &mut target[(first + row) * self.stride + column];
            *target = if self.write == Write::Add { *target + sum } else { sum };
        }
    }
}

/// The sum of all lanes, half of them onto the other half at a time.
#[inline(always)]
fn halved<R: Real>(mut lanes: [R; LANES]) -> R {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0]
}

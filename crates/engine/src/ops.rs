//! The operations that a Transformer is made of, each forward next to its adjoint.
//!
//! In and out: flat buffers, row by row; the first line of a function names their shapes. Shapes
//! are checked here once more, because everything above relies on it; a mismatch is a mistake of
//! this crate and panics. All sums run in a fixed order.

use crate::real::Real;
use std::cell::Cell;
use std::ops::Range;

mod direct;
#[cfg(test)]
mod tests;

pub(crate) use direct::{FEW_ROWS, SMALL_FACTOR};

/// How many partial sums a reduction runs side by side, so that it becomes vector code.
const LANES: usize = 16;

/// Runs loops as compiled for the widest vectors that this machine has.
///
/// What it runs must be inlined into it. No multiplication is fused with an addition, so the loops
/// give the same bits whichever vectors they use.
#[inline(always)]
pub(crate) fn wide<T>(run: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(run)
}

/// A matrix to read: rows and columns of a buffer, each with its stride.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, R> {
    values: &'a [R],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, R> View<'a, R> {
    /// A whole buffer, `[rows, columns]`.
    pub(crate) fn new(values: &'a [R], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a view covers its buffer");
        Self { values, rows, columns, row_stride: columns, column_stride: 1 }
    }

    pub(crate) fn rows(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.rows, "rows are inside");
        let values = tail(self.values, range.start * self.row_stride);
        Self { values, rows: range.len(), ..self }
    }

    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.columns, "columns are inside");
        let values = tail(self.values, range.start * self.column_stride);
        Self { values, columns: range.len(), ..self }
    }

    pub(crate) fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    /// Number of rows and columns.
    pub(crate) fn shape(self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    /// One row of a view whose columns lie side by side.
    pub(crate) fn row(self, row: usize) -> &'a [R] {
        assert!(row < self.rows && self.column_stride == 1, "the row is inside and contiguous");
        &self.values[row * self.row_stride..][..self.columns]
    }

    /// Whether the last entry is inside the buffer.
    fn fits(&self) -> bool {
        self.rows == 0
            || self.columns == 0
            || (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride
                < self.values.len()
    }
}

/// The buffer from an offset on; nothing if the offset is its end or beyond (an empty view).
fn tail<T>(values: &[T], offset: usize) -> &[T] {
    values.get(offset..).unwrap_or(&[])
}

/// A matrix to write: rows of a buffer that do not overlap, and a range of their columns.
pub(crate) struct ViewMut<'a, R> {
    values: &'a mut [R],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a, R> ViewMut<'a, R> {
    /// A whole buffer, `[rows, columns]`.
    pub(crate) fn new(values: &'a mut [R], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a view covers its buffer");
        Self { values, rows, columns, row_stride: columns }
    }

    pub(crate) fn rows(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.rows, "rows are inside");
        let values = self.values.get_mut(range.start * self.row_stride..).unwrap_or(&mut []);
        Self { values, rows: range.len(), ..self }
    }

    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.columns, "columns are inside");
        let values = self.values.get_mut(range.start..).unwrap_or(&mut []);
        Self { values, columns: range.len(), ..self }
    }
}

/// Whether a product replaces what it is written to or adds to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Over,
    Add,
}

/// Multiplications from which on a product is worth dividing between two threads.
const DIVISIBLE: usize = 1 << 22;

/// Rows or columns that a part of a divided product has at least: with fewer, the product kernel
/// may sum in another order.
const LEAST_PART: usize = 96;

thread_local! {
    /// Multiplications of matrix products that this thread has asked for.
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Adds to the count of multiplications.
fn count(rows: usize, columns: usize, inner: usize) {
    let operations = rows as u64 * columns as u64 * inner as u64;
    OPERATIONS.with(|sum| sum.set(sum.get() + operations));
}

/// Does some work on this thread and counts the multiplications of its matrix products, each of
/// which comes with an addition.
///
/// The count belongs to the arithmetic, not to the machine: it says what an optimisation saves.
/// What the work does on other threads is not counted, so it must not be inside a thread pool.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{Config, Error, Layout, Network, Parameters, count_operations};
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// let run = |length| {
///     let layout = Layout::plain(&[vec![0; length]]).expect("there are tokens");
///     count_operations(|| model.logits(layout)).1
/// };
/// assert!(run(1) < run(2));
/// # Ok::<(), Error>(())
/// ```
pub fn count_operations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = OPERATIONS.with(Cell::get);
    let result = work();
    (result, OPERATIONS.with(Cell::get) - before)
}

/// `target (+)= scale · left · right`.
///
/// Inside a thread pool a large product is divided between its threads. No number changes by it:
/// every entry is summed in one piece and in one order.
pub(crate) fn product<R: Real>(
    write: Write,
    target: ViewMut<'_, R>,
    left: View<'_, R>,
    right: View<'_, R>,
    scale: R,
) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    assert_eq!((target.rows, target.columns), (rows, columns), "the product has this shape");
    assert_eq!(right.rows, inner, "inner sizes agree");
    if rows == 0 || columns == 0 {
        return;
    }
    count(rows, columns, inner);
    if inner == 0 {
        if write == Write::Over {
            for row in 0..rows {
                target.values[row * target.row_stride..][..columns].fill(R::ZERO);
            }
        }
        return;
    }
    let last = (rows - 1) * target.row_stride + columns - 1;
    assert!(left.fits() && right.fits() && last < target.values.len(), "views are inside");
    assert!(columns <= target.row_stride || rows == 1, "target rows do not overlap");
    if let Some(loop_order) = direct::loop_order(left, right) {
        let stride = target.row_stride;
        let product = direct::Product { write, scale, left, right, stride };
        return product.run(loop_order, target.values);
    }
    let target =
        TargetPointer { first: target.values.as_mut_ptr(), row_stride: target.row_stride };
    // SAFETY: the assertions above hold, so every entry that the three views name lies inside
    // its slice, and distinct entries of the target are distinct numbers. The target is borrowed
    // mutably, so it overlaps neither factor.
    #[allow(unsafe_code, reason = "the product kernel takes raw pointers")]
    unsafe {
        multiply(write, target, left, right, scale);
    }
}

/// Where the entries of a product go: the first of them, and how far its rows are apart.
#[derive(Clone, Copy)]
struct TargetPointer<R> {
    first: *mut R,
    row_stride: usize,
}

// SAFETY: a place is handed to one thread alone, together with the rows and columns that are its.
#[allow(unsafe_code, reason = "pointers do not cross threads by themselves")]
unsafe impl<R: Send> Send for TargetPointer<R> {}

impl<R> TargetPointer<R> {
    /// The place of an entry, which is inside.
    fn at(self, row: usize, column: usize) -> Self {
        Self { first: self.first.wrapping_add(row * self.row_stride + column), ..self }
    }
}

/// As [`product`], in parts if that is worth it.
///
/// # Safety
///
/// Both views are inside their buffers, and the entries of the target are numbers that are
/// distinct, inside one buffer, and borrowed by nobody else.
#[allow(unsafe_code, reason = "the parts of a product lie side by side in one buffer")]
unsafe fn multiply<R: Real>(
    write: Write,
    target: TargetPointer<R>,
    left: View<'_, R>,
    right: View<'_, R>,
    scale: R,
) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    let least = rows.min(columns) >= LEAST_PART && rows.max(columns) >= 2 * LEAST_PART;
    if pooled() && least && rows.saturating_mul(columns).saturating_mul(inner) >= DIVISIBLE {
        // Whole tiles of the product kernel; what is left is no smaller.
        let half = |size: usize| size / 2 / (LEAST_PART / 2) * (LEAST_PART / 2);
        // The larger side is cut, so that the smaller factor is the one that both parts read.
        // SAFETY: the two parts have different rows or different columns of the target.
        if rows > columns {
            let cut = half(rows);
            let (upper, lower) = (left.rows(0..cut), left.rows(cut..rows));
            rayon::join(
                move || unsafe { multiply(write, target, upper, right, scale) },
                move || unsafe { multiply(write, target.at(cut, 0), lower, right, scale) },
            );
        } else {
            let cut = half(columns);
            let (first, rest) = (right.columns(0..cut), right.columns(cut..columns));
            rayon::join(
                move || unsafe { multiply(write, target, left, first, scale) },
                move || unsafe { multiply(write, target.at(0, cut), left, rest, scale) },
            );
        }
        return;
    }
    let stride = |value: usize| isize::try_from(value).expect("a stride is inside a buffer");
    // SAFETY: as required of the caller. `Real` is sealed: `R` is `f32` or `f64`, which `gemm`
    // implements.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            target.first,
            1,
            stride(target.row_stride),
            write == Write::Add,
            left.values.as_ptr(),
            stride(left.column_stride),
            stride(left.row_stride),
            right.values.as_ptr(),
            stride(right.column_stride),
            stride(right.row_stride),
            R::ONE,
            scale,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Whether this thread belongs to a pool of several.
pub(crate) fn pooled() -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1
}

/// `y = x W + b` for every row: `target [rows, out]`, `input [rows, in]`, `weight [in, out]`.
pub(crate) fn linear<R: Real>(
    target: &mut [R],
    input: View<'_, R>,
    weight: View<'_, R>,
    bias: &[R],
) {
    for row in target.chunks_exact_mut(bias.len()) {
        row.copy_from_slice(bias);
    }
    let target = ViewMut::new(target, input.rows, weight.columns);
    product(Write::Add, target, input, weight, R::ONE);
}

/// `target += x W + b` for every row, as [`linear`].
pub(crate) fn linear_add<R: Real>(
    target: &mut [R],
    input: View<'_, R>,
    weight: View<'_, R>,
    bias: &[R],
) {
    for row in target.chunks_exact_mut(bias.len()) {
        add(row, bias);
    }
    let target = ViewMut::new(target, input.rows, weight.columns);
    product(Write::Add, target, input, weight, R::ONE);
}

/// `Σ_k f(a_k, b_k)` in [`LANES`] partial sums.
#[inline(always)]
fn reduce<R: Real>(left: &[R], right: &[R], entry: impl Fn(R, R) -> R) -> R {
    assert_eq!(left.len(), right.len(), "both have one entry per column");
    let mut sums = [R::ZERO; LANES];
    let (lefts, rights) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest = lefts.remainder().iter().zip(rights.remainder());
    for (left, right) in lefts.zip(rights) {
        for lane in 0..LANES {
            sums[lane] += entry(left[lane], right[lane]);
        }
    }
    for (sum, (&left, &right)) in sums.iter_mut().zip(rest) {
        *sum += entry(left, right);
    }
    sums.into_iter().sum()
}

/// `Σ_k a_k b_k`.
#[inline(always)]
pub(crate) fn dot<R: Real>(left: &[R], right: &[R]) -> R {
    reduce(left, right, |left, right| left * right)
}

/// `target += values`.
pub(crate) fn add<R: Real>(target: &mut [R], values: &[R]) {
    assert_eq!(target.len(), values.len(), "both have one entry per column");
    for (target, &value) in target.iter_mut().zip(values) {
        *target += value;
    }
}

/// `target *= values`, entry by entry.
#[inline(always)]
pub(crate) fn scale_by<R: Real>(target: &mut [R], values: &[R]) {
    assert_eq!(target.len(), values.len(), "both have one entry per column");
    for (target, &value) in target.iter_mut().zip(values) {
        *target *= value;
    }
}

/// What a norm divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormKind {
    /// The standard deviation, after the mean is subtracted (a layer norm).
    Deviation,
    /// The root of the mean square; the mean stays.
    MeanSquare,
}

impl NormKind {
    /// What is subtracted from every entry of a row, in a norm and in its adjoint.
    #[inline(always)]
    fn mean<R: Real>(self, row: &[R]) -> R {
        match self {
            Self::Deviation => reduce(row, row, |value, _| value) / R::of(row.len() as f64),
            Self::MeanSquare => R::ZERO,
        }
    }
}

/// The scale and shift of a norm, `[width]` each; without a shift it is empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NormWeights<R> {
    pub(crate) scale: Vec<R>,
    pub(crate) shift: Vec<R>,
}

impl<R: Real> NormWeights<R> {
    /// With a change added, of the scale and then of the shift.
    pub(crate) fn updated(&self, change: &[R]) -> Self {
        let mut updated = self.clone();
        let (scale, shift) = change.split_at(updated.scale.len());
        add(&mut updated.scale, scale);
        add(&mut updated.shift, shift);
        updated
    }
}

/// What the adjoint of a norm needs: `normalised [rows, width]`, `inverse [rows]`.
#[derive(Clone, Copy)]
pub(crate) struct Normalised<'a, R> {
    pub(crate) normalised: &'a [R],
    pub(crate) inverse: &'a [R],
}

/// The same, to write to.
pub(crate) struct NormalisedMut<'a, R> {
    pub(crate) normalised: &'a mut [R],
    pub(crate) inverse: &'a mut [R],
}

/// `x̂ = (x − mean)/√(variance + ε)` for every row of `input [rows, width]`.
///
/// Of a [`NormKind::MeanSquare`] the mean is 0. A row whose variance overflows becomes NaN, so
/// that it is found in the predictions.
pub(crate) fn normalise<R: Real>(
    input: &[R],
    kind: NormKind,
    width: usize,
    epsilon: R,
    kept: NormalisedMut<'_, R>,
) {
    let rows = input.chunks_exact(width).zip(kept.normalised.chunks_exact_mut(width));
    for ((input, normalised), inverse) in rows.zip(kept.inverse) {
        *inverse = wide(
            #[inline(always)]
            || normalise_row(input, kind, epsilon, normalised),
        );
    }
}

/// One row of [`normalise`]; returns what it was multiplied with.
#[inline(always)]
fn normalise_row<R: Real>(input: &[R], kind: NormKind, epsilon: R, normalised: &mut [R]) -> R {
    let (mean, count) = (kind.mean(input), R::of(input.len() as f64));
    let variance = reduce(input, input, |value, _| (value - mean) * (value - mean)) / count;
    // One over an overflown variance is 0, which would pass for a row of equal entries.
    let sound = variance.finite();
    let inverse = if sound { R::ONE / (variance + epsilon).root() } else { R::of(f64::NAN) };
    for (target, &value) in normalised.iter_mut().zip(input) {
        *target = (value - mean) * inverse;
    }
    inverse
}

/// `y = scale · x̂ + shift` for every row of `normalised [rows, width]`.
pub(crate) fn affine<R: Real>(normalised: &[R], norm: &NormWeights<R>, output: &mut [R]) {
    let width = norm.scale.len();
    let rows = normalised.chunks_exact(width).zip(output.chunks_exact_mut(width));
    let scaled = |row: &[R], output: &mut [R]| {
        for ((target, &value), &scale) in output.iter_mut().zip(row).zip(&norm.scale) {
            *target = value * scale;
        }
    };
    let shifted = |row: &[R], output: &mut [R]| {
        let weights = norm.scale.iter().zip(&norm.shift);
        for ((target, &value), (&scale, &shift)) in output.iter_mut().zip(row).zip(weights) {
            *target = value * scale + shift;
        }
    };
    wide(
        #[inline(always)]
        || match norm.shift.is_empty() {
            true => rows.for_each(|(row, output)| scaled(row, output)),
            false => rows.for_each(|(row, output)| shifted(row, output)),
        },
    );
}

/// Adds the adjoint of a norm's input to `target [rows, width]`.
///
/// ```text
/// x̄ += (g − mean(g) − x̂ · mean(g x̂)) / √(variance + ε),   g = scale · ȳ
/// ```
///
/// Of a [`NormKind::MeanSquare`] `mean(g)` is 0. `adjoint [rows, width]` is `ȳ` and is
/// overwritten by `g`.
pub(crate) fn norm_adjoint<R: Real>(
    adjoint: &mut [R],
    kind: NormKind,
    scale: &[R],
    kept: Normalised<'_, R>,
    target: &mut [R],
) {
    let width = scale.len();
    let count = R::of(width as f64);
    let rows = adjoint.chunks_exact_mut(width).zip(kept.normalised.chunks_exact(width));
    let rows = rows.zip(kept.inverse).zip(target.chunks_exact_mut(width));
    let run = |adjoint: &mut [R], normalised: &[R], inverse: R, target: &mut [R]| {
        scale_by(adjoint, scale);
        let mean = kind.mean(adjoint);
        let slope = dot(adjoint, normalised) / count;
        for ((target, &value), &x) in target.iter_mut().zip(&*adjoint).zip(normalised) {
            *target += inverse * (value - mean - x * slope);
        }
    };
    for (((adjoint, normalised), &inverse), target) in rows {
        wide(
            #[inline(always)]
            || run(adjoint, normalised, inverse, target),
        );
    }
}

/// The adjoint of a norm's scale and, where `target` has room for it, of its shift, summed over
/// some rows: `adjoint` and `normalised` are `[rows, width]`.
///
/// ```text
/// scale = Σ_t ȳ_t x̂_t,   shift = Σ_t ȳ_t
/// ```
pub(crate) fn norm_weights_adjoint<R: Real>(
    adjoint: &[R],
    normalised: &[R],
    width: usize,
    target: &mut [R],
) {
    target.fill(R::ZERO);
    let (scale, shift) = target.split_at_mut(width);
    let rows = adjoint.chunks_exact(width).zip(normalised.chunks_exact(width));
    for (adjoint, normalised) in rows {
        for ((target, &value), &x) in scale.iter_mut().zip(adjoint).zip(normalised) {
            *target += value * x;
        }
        if !shift.is_empty() {
            add(shift, adjoint);
        }
    }
}

/// The smooth step of GPT-2 in its `tanh` form; `input` is overwritten by the derivative.
///
/// ```text
/// y = x · ½(1 + tanh u) = x · s,   s = 1/(1 + e^(−2u)),   u = √(2/π) (x + 0.044715 x³)
/// y′ = s + x s (1 − s) · 2u′
/// ```
pub(crate) fn gelu<R: Real>(input: &mut [R], output: &mut [R]) {
    assert_eq!(input.len(), output.len(), "one output per input");
    let twice_root = R::of(2.0 * (2.0 / std::f64::consts::PI).sqrt());
    let cubic = R::of(0.044715);
    let slope = R::of(3.0 * 0.044715);
    wide(
        #[inline(always)]
        || {
            for (input, output) in input.iter_mut().zip(output) {
                let x = *input;
                let square = x * x;
                let inner = twice_root * x * (R::ONE + cubic * square);
                let step = R::ONE / (R::ONE + (-inner).exponential());
                *output = x * step;
                *input =
                    step + x * step * (R::ONE - step) * twice_root * (R::ONE + slope * square);
            }
        },
    );
}

/// `y = u · g s(g)`, `s(g) = 1/(1 + e^(−g))`: a product that lets through as much as its gate says.
///
/// `gate` and `up` are overwritten by the derivatives of `y` for them:
///
/// ```text
/// ∂y/∂g = u s (1 + g (1 − s)),   ∂y/∂u = g s
/// ```
pub(crate) fn gated_silu<R: Real>(gate: &mut [R], up: &mut [R], output: &mut [R]) {
    assert_eq!(gate.len(), output.len(), "one output per gate");
    assert_eq!(up.len(), output.len(), "one output per input");
    wide(
        #[inline(always)]
        || {
            for ((gate, up), output) in gate.iter_mut().zip(up).zip(output) {
                let (g, u) = (*gate, *up);
                let step = R::ONE / (R::ONE + (-g).exponential());
                *up = g * step;
                *output = u * *up;
                *gate = u * step * (R::ONE + g * (R::ONE - step));
            }
        },
    );
}

/// Turns scores into probabilities in place.
pub(crate) fn softmax<R: Real>(scores: &mut [R]) {
    wide(
        #[inline(always)]
        || {
            let largest = largest(scores);
            for score in scores.iter_mut() {
                *score = (*score - largest).exponential();
            }
            let sum = reduce(scores, scores, |score, _| score);
            for score in scores {
                *score /= sum;
            }
        },
    );
}

/// The largest of some numbers; one that is not a number counts for nothing.
#[inline(always)]
fn largest<R: Real>(values: &[R]) -> R {
    let larger = |most: R, value: R| if value > most { value } else { most };
    let mut most = [R::of(f64::NEG_INFINITY); LANES];
    let lanes = values.chunks_exact(LANES);
    for (most, &value) in most.iter_mut().zip(lanes.remainder()) {
        *most = larger(*most, value);
    }
    for values in lanes {
        for lane in 0..LANES {
            most[lane] = larger(most[lane], values[lane]);
        }
    }
    most.into_iter().fold(R::of(f64::NEG_INFINITY), larger)
}

/// The adjoint of the scores of a [`softmax`], over the adjoint of its probabilities in place.
///
/// ```text
/// z̄_j = scale · p_j (p̄_j − Σ_k p_k p̄_k)
/// ```
pub(crate) fn softmax_adjoint<R: Real>(adjoint: &mut [R], probabilities: &[R], scale: R) {
    let mean = dot(adjoint, probabilities);
    for (adjoint, &probability) in adjoint.iter_mut().zip(probabilities) {
        *adjoint = scale * probability * (*adjoint - mean);
    }
}

/// `s = Σ_j value_j softmax(z)_j`, turning the logits `z` into probabilities in place.
pub(crate) fn expectation<R: Real>(logits: &mut [R], values: &[R]) -> R {
    softmax(logits);
    dot(logits, values)
}

/// `z̄_j = s̄ · p_j (value_j − s)`: the adjoint of the logits of an [`expectation`].
pub(crate) fn expectation_adjoint<R: Real>(
    seed: R,
    probabilities: &[R],
    values: &[R],
    adjoint: &mut [R],
) {
    adjoint.copy_from_slice(values);
    softmax_adjoint(adjoint, probabilities, seed);
}

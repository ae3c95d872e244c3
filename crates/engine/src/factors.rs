//! Kernels from the factors of derivatives: which predictions an update of a block changes together.
//!
//! In: a [`Tape`](crate::Tape) on which the adjoint was run with all seeds 1, apart.
//! Out: per block the Gram matrix of the derivatives of all predictions. The derivative of
//! prediction `i` for a block is `Σ_t a_it b_itᵀ`: inputs of its matrix, adjoints of the outputs.
//!
//! ```text
//! K_ij = Σ_tt′ (a_it·a_jt′)(b_it·b_jt′)          (Lem. H.1 summed over tokens)
//! ```

use crate::attention::HeadCounts;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::buffer::Buffer;
use crate::ops::{View, ViewMut, Write, dot, product};
use crate::real::Real;
use crate::tape::{Factors, Tape};
use std::ops::Range;

/// How a kernel is computed; both forms give the same numbers up to rounding.
///
/// # Examples
///
/// ```
/// assert_ne!(fewstep_engine::KernelForm::Ghost, fewstep_engine::KernelForm::Explicit);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelForm {
    /// From inner products of tokens; those of the inputs serve all heads of a layer.
    Ghost,
    /// From the derivatives themselves, a few rows at a time.
    Explicit,
    /// Whichever takes fewer operations.
    Cheapest,
}

/// Numbers that the explicit form holds at once, at least one row of every derivative.
pub(crate) const EXPLICIT_BUFFER: usize = 1 << 20;

/// The factors of the blocks of one matrix.
struct MatrixFactors<'a, R> {
    /// The factor that all blocks of the matrix have in common.
    common: View<'a, R>,
    /// The factor of each block.
    own: Vec<View<'a, R>>,
    /// The rows of each sequence.
    ranges: Vec<Range<usize>>,
}

/// The Gram matrix of the derivatives of all predictions, one per block of the tape:
/// `[sequences, sequences]`, row by row.
pub(crate) fn kernels<R: Real>(tape: &Tape<R>, form: KernelForm) -> Vec<Vec<f64>> {
    let mut kernels = vec![Vec::new(); tape.blocks().len()];
    for members in by_matrix(tape) {
        let values = factors_of(tape, &members);
        let factors = MatrixFactors::new(tape, &values, &members);
        for (&(index, _), kernel) in members.iter().zip(factors.kernels(form)) {
            kernels[index] = kernel;
        }
    }
    kernels
}

/// How derivatives of one tape's predictions go together with those of another's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coupling {
    /// `[sequences, others]`, row by row.
    pub(crate) products: Vec<f64>,
    /// The square of each derivative of the first tape.
    pub(crate) variances: Vec<f64>,
}

/// Inner products of the derivatives of `tape` with those of `others`, one entry per block; both
/// were made for the same blocks.
pub(crate) fn couplings<R: Real>(tape: &Tape<R>, others: &Tape<R>) -> Vec<Coupling> {
    let mut couplings = vec![Coupling::default(); tape.blocks().len()];
    for members in by_matrix(tape) {
        let values = [tape, others].map(|tape| factors_of(tape, &members));
        let factors = MatrixFactors::new(tape, &values[0], &members);
        let other = MatrixFactors::new(others, &values[1], &members);
        let (products, own) = (factors.products_with(&other), factors.variances());
        for ((&(index, _), products), variances) in members.iter().zip(products).zip(own) {
            couplings[index] = Coupling { products, variances };
        }
    }
    couplings
}

/// The blocks of each matrix, with their numbers; blocks that have no factor in common are by
/// themselves.
fn by_matrix<R: Real>(tape: &Tape<R>) -> Vec<Vec<(usize, BlockId)>> {
    let mut matrices: Vec<Vec<(usize, BlockId)>> = Vec::new();
    for (index, &block) in tape.blocks().iter().enumerate() {
        let alone = tape.folds(block.layer(), block.kind());
        let same = |(_, other): &(usize, BlockId)| {
            !alone && (other.layer(), other.kind()) == (block.layer(), block.kind())
        };
        match matrices.iter_mut().find(|members| members.first().is_some_and(same)) {
            Some(members) => members.push((index, block)),
            None => matrices.push(vec![(index, block)]),
        }
    }
    matrices
}

/// The inputs of a matrix and the adjoints of its outputs.
fn factors_of<'a, R: Real>(tape: &'a Tape<R>, members: &[(usize, BlockId)]) -> Factors<'a, R> {
    let (layer, kind) = (members[0].1.layer(), members[0].1.kind());
    Factors { inputs: tape.inputs(layer, kind), outputs: tape.outputs_adjoint(layer, kind) }
}

impl<'a, R: Real> MatrixFactors<'a, R> {
    /// For blocks of one matrix, whose inputs are `[rows, in]` and adjoints `[rows, out]`.
    fn new(tape: &Tape<R>, factors: &'a Factors<'a, R>, members: &[(usize, BlockId)]) -> Self {
        let (layer, kind) = (members[0].1.layer(), members[0].1.kind());
        let shape = tape.factor_shape(layer, kind);
        let rows = factors.inputs.len() / shape.0;
        let inputs = View::new(&factors.inputs, rows, shape.0);
        let outputs = View::new(&factors.outputs, rows, shape.1);
        let place = |block: &BlockId| tape.factor_place(block);
        let ranges = tape.ranges(layer, kind);
        if kind == BlockKind::Output {
            let own =
                members.iter().map(|(_, block)| inputs.columns(place(block).rows)).collect();
            Self { common: outputs, own, ranges }
        } else {
            let own = members
                .iter()
                .map(|(_, block)| outputs.columns(place(block).columns))
                .collect();
            Self { common: inputs.columns(place(&members[0].1).rows), own, ranges }
        }
    }

    fn kernels(&self, form: KernelForm) -> Vec<Vec<f64>> {
        match form {
            KernelForm::Ghost => self.ghost(),
            KernelForm::Explicit => self.explicit(EXPLICIT_BUFFER),
            KernelForm::Cheapest if self.ghost_is_cheaper() => self.ghost(),
            KernelForm::Cheapest => self.explicit(EXPLICIT_BUFFER),
        }
    }

    /// Multiplications of the two forms, compared.
    fn ghost_is_cheaper(&self) -> bool {
        let count = |value: usize| value as f64;
        let pairs: f64 = self.ranges.iter().map(|r| count(r.len()) * count(r.end)).sum();
        let own: f64 = self.own.iter().map(|own| count(own.shape().1)).sum();
        let (rows, common) = self.common.shape();
        let sequences = count(self.ranges.len());
        let ghost = pairs * (count(common) + own + count(self.own.len()));
        let explicit = own * count(common) * (count(rows) + sequences * sequences);
        ghost <= explicit
    }

    /// From inner products of tokens, one sequence against all before it at a time.
    fn ghost(&self) -> Vec<Vec<f64>> {
        let n = self.ranges.len();
        let rows = self.common.shape().0;
        let longest = self.ranges.iter().map(Range::len).max().unwrap_or(0);
        let mut common = Buffer::new(longest * rows);
        let mut own = Buffer::new(longest * rows);
        let mut kernels = vec![vec![0.0; n * n]; self.own.len()];
        for (i, range) in self.ranges.iter().enumerate() {
            let size = range.len() * range.end;
            token_products(self.common, range, &mut common[..size]);
            for (kernel, &part) in kernels.iter_mut().zip(&self.own) {
                token_products(part, range, &mut own[..size]);
                for (j, other) in self.ranges[..=i].iter().enumerate() {
                    let rows = common[..size].chunks_exact(range.end);
                    let sum: f64 = rows
                        .zip(own[..size].chunks_exact(range.end))
                        .map(|(a, b)| dot(&a[other.clone()], &b[other.clone()]).wide())
                        .sum();
                    kernel[i * n + j] = sum;
                    kernel[j * n + i] = sum;
                }
            }
        }
        kernels
    }

    /// Inner products of derivatives with those of other sequences, from inner products of tokens:
    /// `[sequences, others]` per block.
    fn products_with(&self, others: &Self) -> Vec<Vec<f64>> {
        let (n, width) = (others.ranges.len(), others.common.shape().0);
        let longest = self.ranges.iter().map(Range::len).max().unwrap_or(0);
        let mut common = Buffer::new(longest * width);
        let mut own = Buffer::new(longest * width);
        let mut products = vec![vec![0.0; self.ranges.len() * n]; self.own.len()];
        for (i, range) in self.ranges.iter().enumerate() {
            let size = range.len() * width;
            let rows = range.clone();
            all_products(self.common.rows(rows.clone()), others.common, &mut common[..size]);
            for (block, products) in products.iter_mut().enumerate() {
                let part = self.own[block].rows(rows.clone());
                all_products(part, others.own[block], &mut own[..size]);
                let row = &mut products[i * n..(i + 1) * n];
                for (product, other) in row.iter_mut().zip(&others.ranges) {
                    let pairs = common[..size].chunks_exact(width);
                    *product = pairs
                        .zip(own[..size].chunks_exact(width))
                        .map(|(a, b)| dot(&a[other.clone()], &b[other.clone()]).wide())
                        .sum();
                }
            }
        }
        products
    }

    /// The squares of derivatives, per block.
    fn variances(&self) -> Vec<Vec<f64>> {
        let alone = |range: &Range<usize>| {
            let rows = range.clone();
            let part = Self {
                common: self.common.rows(rows.clone()),
                own: self.own.iter().map(|own| own.rows(rows.clone())).collect(),
                ranges: std::iter::once(0..range.len()).collect(),
            };
            part.ghost()
        };
        let mut variances = vec![Vec::new(); self.own.len()];
        for range in &self.ranges {
            for (variances, square) in variances.iter_mut().zip(alone(range)) {
                variances.extend(square);
            }
        }
        variances
    }

    /// From the derivatives `Σ_t a_t b_tᵀ`, a few rows of all of them at a time: about `limit`
    /// numbers.
    fn explicit(&self, limit: usize) -> Vec<Vec<f64>> {
        let n = self.ranges.len();
        let width = self.common.shape().1;
        let mut gram = vec![R::ZERO; n * n];
        let step_of = |columns: usize| (limit / (n * columns).max(1)).clamp(1, width);
        let sizes = self.own.iter().map(|own| n * step_of(own.shape().1) * own.shape().1);
        let mut buffer = Buffer::new(sizes.max().unwrap_or(0));
        let mut kernels = vec![vec![0.0; n * n]; self.own.len()];
        for (kernel, &own) in kernels.iter_mut().zip(&self.own) {
            let columns = own.shape().1;
            let step = step_of(columns);
            for first in (0..width).step_by(step) {
                let part = first..width.min(first + step);
                let size = part.len() * columns;
                let buffer = &mut buffer[..n * size];
                for (range, derivative) in self.ranges.iter().zip(buffer.chunks_exact_mut(size))
                {
                    let left =
                        self.common.rows(range.clone()).columns(part.clone()).transposed();
                    let target = ViewMut::new(derivative, part.len(), columns);
                    product(Write::Over, target, left, own.rows(range.clone()), R::ONE);
                }
                let derivatives = View::new(buffer, n, size);
                let target = ViewMut::new(&mut gram, n, n);
                product(Write::Over, target, derivatives, derivatives.transposed(), R::ONE);
                for i in 0..n {
                    for j in 0..=i {
                        kernel[i * n + j] += gram[i * n + j].wide();
                    }
                }
            }
            for i in 0..n {
                for j in 0..i {
                    kernel[j * n + i] = kernel[i * n + j];
                }
            }
        }
        kernels
    }
}

/// `[range, range.end]`: inner products of a sequence's rows with all rows up to its last.
fn token_products<R: Real>(factor: View<'_, R>, range: &Range<usize>, target: &mut [R]) {
    let target = ViewMut::new(target, range.len(), range.end);
    let before = factor.rows(0..range.end).transposed();
    product(Write::Over, target, factor.rows(range.clone()), before, R::ONE);
}

/// `[left, right]`: inner products of all rows with all rows.
fn all_products<R: Real>(left: View<'_, R>, right: View<'_, R>, target: &mut [R]) {
    let target = ViewMut::new(target, left.shape().0, right.shape().0);
    product(Write::Over, target, left, right.transposed(), R::ONE);
}

/// The kernels of the value blocks as if only the last token were read and asked.
///
/// ```text
/// K_ij = (m_i·m_j)(β_i·β_j),   m = Σ_s α_s z_s,   β = W_Oᵀ g                       (Sec. 3.3)
/// ```
///
/// If several query heads share the values, `K_ij` is the sum over all pairs of them. In the last
/// layer it is the kernel; below, what other tokens pass on is missing. The tape must have been
/// made for an `output` block of the same layers too.
pub(crate) fn single_position_kernels<R: Real>(
    tape: &Tape<R>,
    blocks: &[BlockId],
) -> Vec<Vec<f64>> {
    blocks.iter().map(|block| single_position_kernel(tape, block)).collect()
}

fn single_position_kernel<R: Real>(tape: &Tape<R>, block: &BlockId) -> Vec<f64> {
    let config = tape.model().config();
    let (n, width, head_width) = (tape.layout().sequences(), config.width, config.head_width());
    let (layer, head) = (block.layer(), block.head().expect("value blocks have a head"));
    let inputs = tape.normed(layer);
    let adjoints = tape.projection_adjoint_at_readouts(layer);
    let served = HeadCounts::of(config).served_by(head);
    let (rows, group) = (served.start * head_width..served.end * head_width, served.len());
    let mut gradients = vec![R::ZERO; n * rows.len()];
    tape.matrix(layer, BlockKind::Output).back_to(rows, &adjoints, &mut gradients);
    let mixed: Vec<Vec<R>> = (0..n)
        .flat_map(|sequence| {
            let (rows, heads) = tape.attention_at_readout(layer, sequence);
            let mix = |head: usize| mixed_input(&inputs, &rows, heads[head], width);
            served.clone().map(mix).collect::<Vec<_>>()
        })
        .collect();
    // Sequence by sequence, and within each head by head.
    let gradients: Vec<&[R]> = gradients.chunks_exact(head_width).collect();
    let mut kernel = vec![0.0; n * n];
    for left in 0..n * group {
        for right in 0..n * group {
            let inputs = dot(&mixed[left], &mixed[right]).wide();
            let outputs = dot(gradients[left], gradients[right]).wide();
            kernel[left / group * n + right / group] += inputs * outputs;
        }
    }
    kernel
}

/// `Σ_s α_s z_s` for `inputs [rows, width]`, over the rows that a token sees.
fn mixed_input<R: Real>(inputs: &[R], rows: &[usize], weights: &[R], width: usize) -> Vec<R> {
    let mut mixed = vec![R::ZERO; width];
    for (&row, &weight) in rows.iter().zip(weights) {
        for (target, &value) in mixed.iter_mut().zip(&inputs[row * width..][..width]) {
            *target += weight * value;
        }
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Numbers, assert_close};

    /// `Σ_tt′ (a_it·a_jt′)(b_it·b_jt′)`, term by term.
    fn definition(factors: &MatrixFactors<'_, f64>, own: usize, i: usize, j: usize) -> f64 {
        let inner = |view: View<'_, f64>, t: usize, u: usize| -> f64 {
            view.row(t).iter().zip(view.row(u)).map(|(a, b)| a * b).sum()
        };
        let pairs = factors.ranges[i]
            .clone()
            .flat_map(|t| factors.ranges[j].clone().map(move |u| (t, u)));
        pairs.map(|(t, u)| inner(factors.common, t, u) * inner(factors.own[own], t, u)).sum()
    }

    #[test]
    fn both_forms_follow_the_definition_however_the_work_is_cut() {
        let mut numbers = Numbers::new(6);
        for (lengths, width, head) in
            [(vec![1], 1, 1), (vec![3, 1, 4], 7, 2), (vec![5; 4], 20, 3)]
        {
            let rows = lengths.iter().sum();
            let (common, own) = (numbers.vector(rows * width), numbers.vector(rows * 2 * head));
            let mut first = 0;
            let ranges: Vec<Range<usize>> = lengths
                .iter()
                .map(|length| {
                    first += length;
                    first - length..first
                })
                .collect();
            let outputs = View::new(&own, rows, 2 * head);
            let factors = MatrixFactors {
                common: View::new(&common, rows, width),
                own: vec![outputs.columns(0..head), outputs.columns(head..2 * head)],
                ranges,
            };
            let n = lengths.len();
            let cut = [1, 3 * n * head, 1 << 20].map(|limit| factors.explicit(limit));
            for kernels in cut.into_iter().chain([factors.ghost()]) {
                for (own, kernel) in kernels.iter().enumerate() {
                    for (index, &found) in kernel.iter().enumerate() {
                        let expected = definition(&factors, own, index / n, index % n);
                        assert_close(found, expected, (width * head) as f64, rows * rows);
                    }
                }
            }
        }
    }
}

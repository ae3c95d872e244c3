//! Attention in the last layer, where one token of each sequence asks.
//!
//! A product of a sum is the sum of the products: instead of making keys and values of every
//! token, the few queries are multiplied with the transposed matrix of the keys and meet the inputs
//! themselves, and what they mix goes through the matrix of the values.
//!
//! ```text
//! q·(z W_K) = (q W_Kᵀ)·z            asking = q W_Kᵀ, a vector as wide as the stream per head
//! Σ_t p_t (z_t W_V) = (Σ_t p_t z_t) W_V            mixed inputs = Σ_t p_t z_t
//! ```
//!
//! A bias of the keys adds the same to all scores of a query, which probabilities do not notice;
//! one of the values stays, since probabilities sum to one. If positions turn keys, each token's
//! differs from what `asking` would meet, and keys are made.

use super::{
    AdjointScratch, Depth, LayerAdjoints, LayerBackward, LayerPass, LayerTape, ReadOuts,
    Scratch, Valid, chosen, either, gather, keep, scatter_add,
};
use crate::attention::{HeadCounts, Heads, ScoreAdjoints};
use crate::block_kind::BlockKind;
use crate::matrix::Matrix;
use crate::ops::{View, ViewMut, Write, affine};
use crate::real::Real;
use crate::rotary::Turn;
use std::ops::Range;

impl<R: Real> LayerPass<'_, R> {
    /// As [`LayerPass::attend`], after the norm.
    pub(super) fn attend_at(
        &self,
        readouts: ReadOuts<'_>,
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
        valid: Valid,
    ) {
        let (asked, folded) = (self.asked(), self.folded());
        let probabilities = &mut tape.probabilities[..self.plan.probabilities()];
        let mixed_inputs = &mut tape.mixed_inputs[..folded];
        if !(valid.queries && valid.keys) {
            let inputs = &mut scratch.normed[..self.positions.len() * self.width()];
            affine(&tape.attention_normalised[..inputs.len()], self.norms()[0], inputs);
            let queries = &mut tape.queries[..asked];
            if !valid.queries {
                let gathered = &mut scratch.gathered[..readouts.rows.len() * self.width()];
                gather(inputs, readouts.rows, self.width(), gathered);
                self.project(BlockKind::Query, gathered, queries);
                self.turn_queries(Turn::Forward, queries);
            }
            if self.rotations.is_none() {
                let asking = &mut tape.asking[..folded];
                let keys = self.matrix(BlockKind::Key);
                self.for_heads(|columns, key_values, wide| {
                    let target = self.by_head_mut(asking, wide);
                    keys.back_from(key_values, self.by_head(queries, columns), target);
                });
                readouts.folded.attend(asking, inputs, probabilities);
            } else {
                let keys = &mut tape.keys[..self.key_values()];
                if !valid.keys {
                    self.project(BlockKind::Key, inputs, keys);
                    self.turn_keys(Turn::Forward, keys);
                }
                self.plan.attend(queries, keys, probabilities);
            }
            readouts.folded.mix(probabilities, inputs, mixed_inputs);
        }
        if !(valid.queries && valid.keys && valid.values) || tape.mixed.is_empty() {
            let mixed = either(&mut tape.mixed, &mut scratch.normed);
            self.project_mixed(mixed_inputs, &mut mixed[..asked]);
        }
    }

    /// The mixed values from the mixed inputs, `[asked, heads · width]`.
    fn project_mixed(&self, mixed_inputs: &[R], mixed: &mut [R]) {
        let bias = self.model.bias(self.layer, BlockKind::Value);
        let values = self.matrix(BlockKind::Value);
        self.for_heads(|columns, key_values, wide| {
            let mut write = Write::Over;
            if !bias.is_empty() {
                for row in mixed.chunks_exact_mut(self.attention_width()) {
                    row[columns.clone()].copy_from_slice(&bias[key_values.clone()]);
                }
                write = Write::Add;
            }
            let target = self.by_head_mut(mixed, columns);
            values.project_to(key_values, write, self.by_head(mixed_inputs, wide), target);
        });
    }

    /// As [`LayerPass::attend_adjoint`]. Beside the adjoints of queries, and of keys if they are
    /// made, it leaves the inputs of keys and values and, of their adjoint, what values and folded
    /// keys add to it.
    pub(super) fn attend_adjoint_at(
        &self,
        readouts: ReadOuts<'_>,
        backward: &mut LayerBackward<'_, R>,
    ) {
        let LayerBackward { tape, adjoints, scratch, depth } = backward;
        let (asked, folded, depth) = (self.asked(), self.folded(), *depth);
        let AdjointScratch {
            outputs,
            normed,
            mixed,
            scores,
            inputs,
            asking,
            mixed_inputs,
            gathered: _,
        } = &mut **scratch;
        let mixed = &mixed[..asked];
        self.keep_served(mixed, &mut adjoints.kept[BlockKind::Value as usize]);
        if depth <= Depth::Value {
            return;
        }
        let (rows, mixed_inputs) = (self.positions.len(), &mut mixed_inputs[..folded]);
        let inputs = &mut inputs[..rows * self.width()];
        affine(&tape.attention_normalised[..inputs.len()], self.norms()[0], inputs);
        let values = self.matrix(BlockKind::Value);
        self.for_heads(|columns, key_values, wide| {
            let target = self.by_head_mut(mixed_inputs, wide);
            values.back_from(key_values, self.by_head(mixed, columns), target);
        });
        let probabilities = &tape.probabilities[..self.plan.probabilities()];
        let normed = &mut normed[..inputs.len()];
        readouts.folded.adjoint_of_values(probabilities, mixed_inputs, normed);
        let met = Heads {
            queries: &tape.queries[..asked],
            keys: inputs,
            values: inputs,
            probabilities,
        };
        let [_, _, kept_queries, kept_keys, ..] = &mut adjoints.kept;
        let [_, _, own_queries, own_keys, ..] = outputs;
        let queries = &mut either(kept_queries, own_queries)[..asked];
        if self.rotations.is_some() {
            let rows = self.key_values();
            let keys = &mut either(kept_keys, own_keys)[..rows];
            keys.fill(R::ZERO);
            let met = Heads { keys: &tape.keys[..rows], ..met };
            let targets = ScoreAdjoints { queries: &mut *queries, keys: &mut *keys, scores };
            readouts.folded.adjoint_of_asking(self.plan, met, mixed_inputs, targets);
            self.turn_queries(Turn::Back, queries);
            self.turn_keys(Turn::Back, keys);
            return;
        }
        // The derivative of a key block is made of these two.
        keep(kept_keys, met.queries);
        let asking = &mut either(&mut adjoints.asking, asking)[..folded];
        let met = Heads { queries: &tape.asking[..folded], ..met };
        let targets = ScoreAdjoints { queries: &mut *asking, keys: normed, scores };
        let plan = readouts.folded;
        plan.adjoint_of_asking(plan, met, mixed_inputs, targets);
        let keys = self.matrix(BlockKind::Key);
        self.for_heads(|columns, key_values, wide| {
            let target = self.by_head_mut(queries, columns);
            keys.project_to(key_values, Write::Over, self.by_head(asking, wide), target);
        });
    }

    /// As [`LayerPass::normed_adjoint`], after [`LayerPass::attend_adjoint_at`].
    pub(super) fn normed_adjoint_at(
        &self,
        readouts: ReadOuts<'_>,
        adjoints: &mut LayerAdjoints<R>,
        scratch: &mut AdjointScratch<R>,
    ) {
        let width = self.width();
        let AdjointScratch { outputs, normed, gathered, .. } = scratch;
        let normed = &mut normed[..self.positions.len() * width];
        if self.rotations.is_some() {
            let keys = chosen(adjoints, outputs, BlockKind::Key, self.key_values());
            self.back(Write::Add, BlockKind::Key, keys, normed);
        }
        let queries = chosen(adjoints, outputs, BlockKind::Query, self.asked());
        let gathered = &mut gathered[..readouts.rows.len() * width];
        self.back(Write::Over, BlockKind::Query, queries, gathered);
        scatter_add(gathered, readouts.rows, width, normed);
    }

    /// Keeps the adjoint of the mixed values for the value blocks, if there are any: `[asked ·
    /// served, key-value heads · head width]`, where a row has one of the heads that each
    /// key-value head serves.
    pub(super) fn keep_served(&self, mixed: &[R], kept: &mut [R]) {
        if !kept.is_empty() {
            let counts = HeadCounts::of(self.model.config());
            counts.arrange_served(mixed, counts.head_width, kept);
        }
    }

    fn matrix(&self, kind: BlockKind) -> &Matrix<R> {
        self.model.matrix(self.overlay, self.layer, kind)
    }

    fn attention_width(&self) -> usize {
        self.model.config().attention_width()
    }

    /// Numbers of what stands for all keys or values: one vector of the stream per query and head.
    fn folded(&self) -> usize {
        self.plan.queries() * self.model.config().heads * self.width()
    }

    /// Calls `visit` with each head's columns among the queries, among the keys and values, and
    /// among vectors as wide as the stream.
    fn for_heads(&self, mut visit: impl FnMut(Range<usize>, Range<usize>, Range<usize>)) {
        let counts = HeadCounts::of(self.model.config());
        let of = |head: usize, width: usize| head * width..(head + 1) * width;
        for head in 0..counts.heads {
            let key_values = of(counts.serving(head), counts.head_width);
            visit(of(head, counts.head_width), key_values, of(head, self.width()));
        }
    }

    /// Some columns of a buffer with one row per query.
    fn by_head<'a>(&self, values: &'a [R], columns: Range<usize>) -> View<'a, R> {
        let queries = self.plan.queries();
        View::new(values, queries, values.len() / queries).columns(columns)
    }

    fn by_head_mut<'a>(&self, values: &'a mut [R], columns: Range<usize>) -> ViewMut<'a, R> {
        let (queries, size) = (self.plan.queries(), values.len());
        ViewMut::new(values, queries, size / queries).columns(columns)
    }
}

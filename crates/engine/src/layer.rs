//! One layer of a Transformer: its forward pass and, next to it, its adjoint.
//!
//! ```text
//! z = norm₁(x);  q, k, v = z W + b;  x ← x + attention(turn(q), turn(k), v) W_O + b_O
//! z = norm₂(x);                      x ← x + h W_down + b
//! h = gelu(z W_up + b)   or, gated,   h = silu(z W_gate + b) · (z W_up + b)
//! ```
//!
//! Which norm, whether positions turn queries and keys, whether the MLP is gated and which
//! matrices have biases are parts of the model; a part that is missing is skipped. In the last
//! layer only the last token of each sequence is asked, so queries, projection and
//! MLP run on those rows alone, and keys and values are not made ([`last`]). Nothing here
//! allocates.

mod buffers;
mod last;
mod local;

pub(crate) use buffers::{
    AdjointScratch, Keeps, LayerAdjoints, LayerBackward, LayerSizes, LayerTape, Scratch,
};
pub(crate) use local::{LocalForward, LocalKeep};

use crate::attention::{AttentionPlan, Heads, ScoreAdjoints};
use crate::block_kind::BlockKind;
use crate::buffer::Buffer;
use crate::network::{KINDS, Network};
use crate::ops::{
    NormWeights, Normalised, NormalisedMut, Write, add, affine, gated_silu, gelu, norm_adjoint,
    norm_weights_adjoint, normalise, scale_by,
};
use crate::overlay::Overlay;
use crate::real::Real;
use crate::rotary::{Rotations, Turn};
use std::ops::Range;

/// What of a layer's attention is still valid from the last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Valid {
    pub(crate) norm: bool,
    pub(crate) queries: bool,
    pub(crate) keys: bool,
    pub(crate) values: bool,
}

/// A layer of a model, as updated, on a layout.
pub(crate) struct LayerPass<'a, R> {
    pub(crate) model: &'a Network<R>,
    pub(crate) overlay: &'a Overlay<R>,
    pub(crate) layer: usize,
    pub(crate) plan: &'a AttentionPlan,
    /// The asked rows, if they are not all.
    pub(crate) readouts: Option<ReadOuts<'a>>,
    /// The position of every row, and what positions do to queries and keys if they are rotary.
    pub(crate) positions: &'a [usize],
    pub(crate) rotations: Option<&'a Rotations<R>>,
    pub(crate) sums: &'a Sums,
}

/// The rows of the last tokens, and who looks at the inputs of keys and values there.
#[derive(Clone, Copy)]
pub(crate) struct ReadOuts<'a> {
    pub(crate) rows: &'a [usize],
    pub(crate) folded: &'a AttentionPlan,
}

/// Which rows the adjoint of a norm's weights is summed over: all, or each sequence's.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) rows: Vec<Range<usize>>,
    /// Where each sequence has one row.
    readouts: Vec<Range<usize>>,
}

impl Sums {
    /// One sum over all rows.
    pub(crate) fn together(rows: usize, sequences: usize) -> Self {
        let one = |count: usize| std::iter::once(0..count).collect();
        Self { rows: one(rows), readouts: one(sequences) }
    }

    /// One sum per sequence, whose rows these are.
    pub(crate) fn apart(rows: Vec<Range<usize>>) -> Self {
        let readouts = (0..rows.len()).map(|index| index..index + 1).collect();
        Self { rows, readouts }
    }
}

impl<R: Real> LayerPass<'_, R> {
    /// In front of attention and of the MLP.
    fn norms(&self) -> [&NormWeights<R>; 2] {
        self.model.norms(self.overlay, self.layer)
    }

    fn width(&self) -> usize {
        self.model.config().width
    }

    /// Numbers of all asked queries.
    fn asked(&self) -> usize {
        self.plan.queries() * self.model.config().attention_width()
    }

    /// Numbers of all keys or all values.
    fn key_values(&self) -> usize {
        self.positions.len() * self.model.config().key_value_width()
    }

    /// `target (+)= input · Wᵀ` for `input [count, out]`, `target [count, in]`.
    fn back(&self, write: Write, kind: BlockKind, input: &[R], target: &mut [R]) {
        self.model.matrix(self.overlay, self.layer, kind).back(write, input, target);
    }

    /// `target = input · W + b`.
    fn project(&self, kind: BlockKind, input: &[R], target: &mut [R]) {
        let bias = self.model.bias(self.layer, kind);
        let matrix = self.model.matrix(self.overlay, self.layer, kind);
        if bias.is_empty() {
            return matrix.project(Write::Over, input, target);
        }
        for row in target.chunks_exact_mut(bias.len()) {
            row.copy_from_slice(bias);
        }
        matrix.project(Write::Add, input, target);
    }

    /// `target += input · W + b`.
    fn project_add(&self, kind: BlockKind, input: &[R], target: &mut [R]) {
        let bias = self.model.bias(self.layer, kind);
        if !bias.is_empty() {
            for row in target.chunks_exact_mut(bias.len()) {
                add(row, bias);
            }
        }
        self.model.matrix(self.overlay, self.layer, kind).project(Write::Add, input, target);
    }

    /// Turns queries by their positions, or their adjoint back.
    fn turn_queries(&self, turn: Turn, queries: &mut [R]) {
        let Some(rotations) = self.rotations else { return };
        match self.readouts {
            None => rotations.turn(turn, queries, self.positions.iter().copied()),
            Some(ReadOuts { rows, .. }) => {
                rotations.turn(turn, queries, rows.iter().map(|&row| self.positions[row]));
            }
        }
    }

    /// Turns keys by their positions, or their adjoint back.
    fn turn_keys(&self, turn: Turn, keys: &mut [R]) {
        if let Some(rotations) = self.rotations {
            rotations.turn(turn, keys, self.positions.iter().copied());
        }
    }

    /// From the stream to the mixed heads, `stream [rows, width]`.
    pub(crate) fn attend(
        &self,
        stream: &[R],
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
        valid: Valid,
    ) {
        let epsilon = R::of(self.model.config().norm_epsilon);
        let (rows, key_values) = (self.positions.len() * self.width(), self.key_values());
        if !valid.norm {
            let kept = NormalisedMut {
                normalised: &mut tape.attention_normalised[..rows],
                inverse: &mut tape.attention_inverse[..self.positions.len()],
            };
            let kind = self.model.config().norm_kind();
            normalise(stream, kind, self.width(), epsilon, kept);
        }
        if let Some(readouts) = self.readouts {
            return self.attend_at(readouts, tape, scratch, valid);
        }
        if !(valid.queries && valid.keys && valid.values) {
            let normed = &mut scratch.normed[..rows];
            affine(&tape.attention_normalised[..rows], self.norms()[0], normed);
        }
        let (asked, normed) = (self.asked(), &scratch.normed[..rows]);
        let (keys, values) = (&mut tape.keys[..key_values], &mut tape.values[..key_values]);
        if !valid.queries {
            self.project(BlockKind::Query, normed, &mut tape.queries[..asked]);
            self.turn_queries(Turn::Forward, &mut tape.queries[..asked]);
        }
        if !valid.keys {
            self.project(BlockKind::Key, normed, keys);
            self.turn_keys(Turn::Forward, keys);
        }
        if !valid.values {
            self.project(BlockKind::Value, normed, values);
        }
        let probabilities = &mut tape.probabilities[..self.plan.probabilities()];
        if !(valid.queries && valid.keys) {
            self.plan.attend(&tape.queries[..asked], keys, probabilities);
        }
        if !(valid.queries && valid.keys && valid.values) || tape.mixed.is_empty() {
            let mixed = either(&mut tape.mixed, &mut scratch.normed);
            self.plan.mix(probabilities, values, &mut mixed[..asked]);
        }
    }

    /// From the mixed heads to the layer's output, added to `stream [asked, width]`.
    pub(crate) fn transform(
        &self,
        stream: &mut [R],
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
    ) {
        let config = self.model.config();
        let (width, asked) = (config.width, self.plan.queries());
        let mixed = either(&mut tape.mixed, &mut scratch.normed);
        self.project_add(BlockKind::Output, &mixed[..self.asked()], stream);
        let normalised = &mut tape.mlp_normalised[..asked * width];
        let inverse = &mut tape.mlp_inverse[..asked];
        let kept = NormalisedMut { normalised, inverse };
        let epsilon = R::of(config.norm_epsilon);
        normalise(stream, config.norm_kind(), width, epsilon, kept);
        let normed = &mut scratch.normed[..asked * width];
        affine(&tape.mlp_normalised[..asked * width], self.norms()[1], normed);
        let slopes = &mut tape.slopes[..asked * config.inner];
        self.project(BlockKind::MlpUp, normed, slopes);
        let activated = either(&mut tape.activated, &mut scratch.activated);
        let activated = &mut activated[..asked * config.inner];
        if config.gated() {
            let gate = &mut tape.gate_slopes[..asked * config.inner];
            self.project(BlockKind::MlpGate, normed, gate);
            gated_silu(gate, slopes, activated);
        } else {
            gelu(slopes, activated);
        }
        self.project_add(BlockKind::MlpDown, activated, stream);
    }

    /// The adjoint of [`LayerPass::transform`]: of its output to of its input, in place in
    /// `stream [asked, width]`; then that of the mixed heads.
    pub(crate) fn transform_adjoint(
        &self,
        stream: &mut [R],
        backward: &mut LayerBackward<'_, R>,
    ) {
        let LayerBackward { tape, adjoints, scratch, depth } = backward;
        let (config, depth) = (self.model.config(), *depth);
        let (width, asked) = (config.width, self.plan.queries());
        let AdjointScratch { outputs, normed, mixed, .. } = scratch;
        keep(&mut adjoints.kept[BlockKind::MlpDown as usize], stream);
        if depth <= Depth::MlpDown {
            return;
        }
        let inner = asked * config.inner;
        let [_, _, _, _, kept_up, _, kept_gate] = &mut adjoints.kept;
        let [_, _, _, _, own_up, _, own_gate] = outputs;
        let up = &mut either(kept_up, own_up)[..inner];
        self.back(Write::Over, BlockKind::MlpDown, stream, up);
        let mut gate = config.gated().then(|| &mut either(kept_gate, own_gate)[..inner]);
        if let Some(gate) = &mut gate {
            gate.copy_from_slice(up);
            scale_by(gate, &tape.gate_slopes[..inner]);
        }
        scale_by(up, &tape.slopes[..inner]);
        if depth <= Depth::MlpUp {
            return;
        }
        let normed = &mut normed[..asked * width];
        self.back(Write::Over, BlockKind::MlpUp, up, normed);
        if let Some(gate) = gate {
            self.back(Write::Add, BlockKind::MlpGate, gate, normed);
        }
        let normalised = &tape.mlp_normalised[..asked * width];
        self.keep_norm(1, &mut adjoints.norms, normed, normalised);
        let kept = Normalised { normalised, inverse: &tape.mlp_inverse[..asked] };
        norm_adjoint(normed, config.norm_kind(), &self.norms()[1].scale, kept, stream);
        keep(&mut adjoints.kept[BlockKind::Output as usize], stream);
        if depth > Depth::Output {
            self.back(Write::Over, BlockKind::Output, stream, &mut mixed[..self.asked()]);
        }
    }

    /// The adjoints of queries, keys and values from that of the mixed heads.
    pub(crate) fn attend_adjoint(&self, backward: &mut LayerBackward<'_, R>) {
        if let Some(readouts) = self.readouts {
            return self.attend_adjoint_at(readouts, backward);
        }
        let LayerBackward { tape, adjoints, scratch, depth } = backward;
        let (asked, depth) = (self.asked(), *depth);
        let AdjointScratch { outputs, mixed, scores, .. } = scratch;
        let mixed = &mixed[..asked];
        let probabilities = &tape.probabilities[..self.plan.probabilities()];
        let rows = self.key_values();
        let values = chosen(adjoints, outputs, BlockKind::Value, rows);
        self.plan.adjoint_of_values(probabilities, mixed, values);
        if depth <= Depth::Value {
            return;
        }
        let inputs = Heads {
            queries: &tape.queries[..asked],
            keys: &tape.keys[..rows],
            values: &tape.values[..rows],
            probabilities,
        };
        let [_, _, kept_queries, kept_keys, ..] = &mut adjoints.kept;
        let [_, _, own_queries, own_keys, ..] = outputs;
        let queries = &mut either(kept_queries, own_queries)[..asked];
        let keys = &mut either(kept_keys, own_keys)[..rows];
        let targets = ScoreAdjoints { queries: &mut *queries, keys: &mut *keys, scores };
        self.plan.adjoint_of_scores(inputs, mixed, targets);
        self.turn_queries(Turn::Back, queries);
        self.turn_keys(Turn::Back, keys);
    }

    /// The adjoint of the first norm's output, left in `scratch`, and that of its weights.
    pub(crate) fn normed_adjoint(&self, backward: &mut LayerBackward<'_, R>) {
        let LayerBackward { tape, adjoints, scratch, .. } = backward;
        let rows = self.positions.len() * self.width();
        if let Some(readouts) = self.readouts {
            self.normed_adjoint_at(readouts, adjoints, scratch);
        } else {
            let AdjointScratch { outputs, normed, .. } = &mut **scratch;
            let normed = &mut normed[..rows];
            let values = chosen(adjoints, outputs, BlockKind::Value, self.key_values());
            self.back(Write::Over, BlockKind::Value, values, normed);
            let keys = chosen(adjoints, outputs, BlockKind::Key, self.key_values());
            self.back(Write::Add, BlockKind::Key, keys, normed);
            let queries = chosen(adjoints, outputs, BlockKind::Query, self.asked());
            self.back(Write::Add, BlockKind::Query, queries, normed);
        }
        let normalised = &tape.attention_normalised[..rows];
        self.keep_norm(0, &mut adjoints.norms, &scratch.normed[..rows], normalised);
    }

    /// Adds the adjoint of the layer's input, through the first norm, to `stream [rows, width]`,
    /// after [`LayerPass::normed_adjoint`].
    pub(crate) fn input_adjoint(&self, stream: &mut [R], backward: &mut LayerBackward<'_, R>) {
        let LayerBackward { tape, scratch, .. } = backward;
        let (rows, size) = (self.positions.len(), self.positions.len() * self.width());
        let kept = Normalised {
            normalised: &tape.attention_normalised[..size],
            inverse: &tape.attention_inverse[..rows],
        };
        let (kind, scale) = (self.model.config().norm_kind(), &self.norms()[0].scale);
        norm_adjoint(&mut scratch.normed[..size], kind, scale, kept, stream);
    }

    /// Keeps the adjoint of the weights of a layer's first or second norm, if it is asked for,
    /// from that of its output and from what it normalised, `[rows, width]` each.
    fn keep_norm(&self, index: usize, kept: &mut [R], adjoint: &[R], normalised: &[R]) {
        // Where only read-outs are asked, the second norm has no other rows.
        let few = index == 1 && self.readouts.is_some();
        let sums = if few { &self.sums.readouts } else { &self.sums.rows };
        let (width, size) = (self.width(), self.model.config().shape(BlockKind::Norm).1);
        for (sum, kept) in sums.iter().zip(kept.chunks_exact_mut(size)) {
            let rows = sum.start * width..sum.end * width;
            let part = &mut kept[index * size / 2..][..size / 2];
            norm_weights_adjoint(&adjoint[rows.clone()], &normalised[rows], width, part);
        }
    }
}

/// How far the adjoint of the lowest layer is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    MlpDown,
    MlpUp,
    Output,
    Value,
    Scores,
    Norm,
    Input,
}

impl Depth {
    /// As far as a block of this kind needs.
    pub(crate) fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::MlpDown => Self::MlpDown,
            BlockKind::MlpUp | BlockKind::MlpGate => Self::MlpUp,
            BlockKind::Output => Self::Output,
            BlockKind::Value | BlockKind::LoraValue => Self::Value,
            BlockKind::Query | BlockKind::Key | BlockKind::LoraQuery => Self::Scores,
            BlockKind::Norm => Self::Norm,
        }
    }
}

/// The kept buffer of a kind, or the stand-in.
fn chosen<'a, R: Real>(
    adjoints: &'a mut LayerAdjoints<R>,
    outputs: &'a mut [Buffer<R>; KINDS],
    kind: BlockKind,
    size: usize,
) -> &'a mut [R] {
    &mut either(&mut adjoints.kept[kind as usize], &mut outputs[kind as usize])[..size]
}

/// The kept buffer, or the stand-in if nothing is kept.
fn either<'a, R>(kept: &'a mut [R], own: &'a mut [R]) -> &'a mut [R] {
    if kept.is_empty() { own } else { kept }
}

/// Copies into a kept buffer, which may have room for more, if there is one.
fn keep<R: Real>(kept: &mut [R], values: &[R]) {
    if !kept.is_empty() {
        kept[..values.len()].copy_from_slice(values);
    }
}

/// `target[i] = values[rows[i]]`, row by row.
pub(crate) fn gather<R: Real>(values: &[R], rows: &[usize], width: usize, target: &mut [R]) {
    for (&row, target) in rows.iter().zip(target.chunks_exact_mut(width)) {
        target.copy_from_slice(&values[row * width..][..width]);
    }
}

/// `target[rows[i]] += values[i]`, row by row.
pub(crate) fn scatter_add<R: Real>(
    values: &[R],
    rows: &[usize],
    width: usize,
    target: &mut [R],
) {
    for (&row, values) in rows.iter().zip(values.chunks_exact(width)) {
        add(&mut target[row * width..][..width], values);
    }
}

//! One layer of GPT-2: its forward pass and, next to it, its adjoint.
//!
//! ```text
//! z = norm₁(x);  q, k, v = z W + b;  x ← x + attention(q, k, v) W_O + b_O
//! z = norm₂(x);                      x ← x + gelu(z W_up + b) W_down + b
//! ```
//!
//! In the last layer only the last token of each sequence is asked, so queries, projection and
//! MLP run on those rows alone. Nothing here allocates.

use crate::attention::{AttentionPlan, Heads};
use crate::blocks::BlockKind;
use crate::network::{LayerWeights, Network, Overlay};
use crate::ops::{
    Normalised, View, ViewMut, Write, affine, gelu, linear, linear_add, norm_adjoint,
    normalise, product, scale_by,
};
use crate::real::Real;

/// What a layer's adjoint and its factors need of the forward pass.
///
/// "Asked" rows are all rows, or in the last layer one per sequence.
#[derive(Debug)]
pub(crate) struct LayerTape<R> {
    /// `[rows, width]` and `[rows]`.
    pub(crate) attention_normalised: Vec<R>,
    pub(crate) attention_inverse: Vec<R>,
    /// `[asked, width]`.
    pub(crate) queries: Vec<R>,
    /// `[rows, width]`.
    pub(crate) keys: Vec<R>,
    /// `[rows, width]`.
    pub(crate) values: Vec<R>,
    pub(crate) probabilities: Vec<R>,
    /// `[asked, width]`.
    pub(crate) mixed: Vec<R>,
    /// `[asked, width]` and `[asked]`.
    pub(crate) mlp_normalised: Vec<R>,
    pub(crate) mlp_inverse: Vec<R>,
    /// The derivative of the activation, `[asked, inner]`.
    pub(crate) slopes: Vec<R>,
    /// Its value, `[asked, inner]`; empty if no block needs it.
    pub(crate) activated: Vec<R>,
}

impl<R: Real> LayerTape<R> {
    pub(crate) fn new(sizes: &LayerSizes, keep_activated: bool) -> Self {
        let &LayerSizes { rows, asked, width, inner, probabilities } = sizes;
        let zeros = |size: usize| vec![R::ZERO; size];
        Self {
            attention_normalised: zeros(rows * width),
            attention_inverse: zeros(rows),
            queries: zeros(asked * width),
            keys: zeros(rows * width),
            values: zeros(rows * width),
            probabilities: zeros(probabilities),
            mixed: zeros(asked * width),
            mlp_normalised: zeros(asked * width),
            mlp_inverse: zeros(asked),
            slopes: zeros(asked * inner),
            activated: if keep_activated { zeros(asked * inner) } else { Vec::new() },
        }
    }

    /// Without what only the factors need.
    pub(crate) fn for_adjoint(sizes: &LayerSizes) -> Self {
        let mut tape = Self::new(sizes, false);
        tape.mixed = Vec::new();
        tape
    }
}

/// The sizes of the buffers of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerSizes {
    pub(crate) rows: usize,
    pub(crate) asked: usize,
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) probabilities: usize,
}

/// Buffers that a forward pass writes over in every layer.
#[derive(Debug)]
pub(crate) struct Scratch<R> {
    /// Output of a norm, `[rows, width]`.
    pub(crate) normed: Vec<R>,
    /// Its asked rows in the last layer, `[sequences, width]`.
    pub(crate) gathered: Vec<R>,
    /// `[rows, inner]`.
    pub(crate) activated: Vec<R>,
}

/// The adjoints that block factors are made of; a buffer is empty if no block needs it.
#[derive(Debug)]
pub(crate) struct LayerAdjoints<R> {
    /// The adjoint of each matrix's output, in the order of [`BlockKind::ALL`].
    pub(crate) kept: [Vec<R>; 6],
}

/// Buffers that a backward pass writes over in every layer.
#[derive(Debug)]
pub(crate) struct AdjointScratch<R> {
    /// Stand-ins for adjoints that are not kept, in the order of [`BlockKind::ALL`].
    pub(crate) outputs: [Vec<R>; 6],
    /// Adjoint of a norm's output, `[rows, width]`.
    pub(crate) normed: Vec<R>,
    /// Of the mixed heads, `[rows, width]`.
    pub(crate) mixed: Vec<R>,
    /// Of the gathered rows, `[sequences, width]`.
    pub(crate) gathered: Vec<R>,
    /// Of the scores of one group.
    pub(crate) scores: Vec<R>,
}

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
    pub(crate) readouts: Option<&'a [usize]>,
}

impl<R: Real> LayerPass<'_, R> {
    fn weights(&self) -> &LayerWeights<R> {
        &self.model.layers[self.layer]
    }

    fn width(&self) -> usize {
        self.model.config().width
    }

    /// `target = input · Wᵀ` for `input [count, out]`, `target [count, in]`.
    fn back(&self, write: Write, kind: BlockKind, input: &[R], target: &mut [R]) {
        let (inputs, outputs) = self.model.shape(kind);
        let count = input.len() / outputs;
        let weight = self.model.transposed(self.overlay, self.layer, kind);
        let target = ViewMut::new(target, count, inputs);
        product(write, target, View::new(input, count, outputs), weight, R::ONE);
    }

    /// `target = input · W + b`.
    fn project(&self, kind: BlockKind, input: &[R], target: &mut [R]) {
        let (inputs, _) = self.model.shape(kind);
        let input = View::new(input, input.len() / inputs, inputs);
        let weight = self.model.weight(self.overlay, self.layer, kind);
        linear(target, input, weight, self.model.bias(self.layer, kind));
    }

    /// `target += input · W + b`.
    fn project_add(&self, kind: BlockKind, input: &[R], target: &mut [R]) {
        let (inputs, _) = self.model.shape(kind);
        let input = View::new(input, input.len() / inputs, inputs);
        let weight = self.model.weight(self.overlay, self.layer, kind);
        linear_add(target, input, weight, self.model.bias(self.layer, kind));
    }

    /// From the stream to the mixed heads, `stream [rows, width]`.
    pub(crate) fn attend(
        &self,
        stream: &[R],
        tape: &mut LayerTape<R>,
        scratch: &mut Scratch<R>,
        valid: Valid,
    ) {
        let (width, epsilon) = (self.width(), R::of(self.model.config().norm_epsilon));
        if !valid.norm {
            let kept = Normalised {
                normalised: &mut tape.attention_normalised,
                inverse: &mut tape.attention_inverse,
            };
            normalise(stream, width, epsilon, kept);
        }
        if !(valid.queries && valid.keys && valid.values) {
            affine(
                &tape.attention_normalised,
                &self.weights().attention_norm,
                &mut scratch.normed,
            );
        }
        let asked = self.plan.queries() * width;
        if !valid.queries {
            let normed = match self.readouts {
                None => &scratch.normed,
                Some(rows) => {
                    gather(&scratch.normed, rows, width, &mut scratch.gathered);
                    &scratch.gathered
                }
            };
            self.project(BlockKind::Query, normed, &mut tape.queries[..asked]);
        }
        if !valid.keys {
            self.project(BlockKind::Key, &scratch.normed, &mut tape.keys);
        }
        if !valid.values {
            self.project(BlockKind::Value, &scratch.normed, &mut tape.values);
        }
        let probabilities = &mut tape.probabilities[..self.plan.probabilities()];
        if !(valid.queries && valid.keys) {
            self.plan.attend(&tape.queries[..asked], &tape.keys, probabilities);
        }
        if !(valid.queries && valid.keys && valid.values) {
            self.plan.mix(probabilities, &tape.values, &mut tape.mixed[..asked]);
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
        self.project_add(BlockKind::Output, &tape.mixed[..asked * width], stream);
        let normalised = &mut tape.mlp_normalised[..asked * width];
        let inverse = &mut tape.mlp_inverse[..asked];
        let kept = Normalised { normalised, inverse };
        normalise(stream, width, R::of(config.norm_epsilon), kept);
        let normed = &mut scratch.normed[..asked * width];
        affine(&tape.mlp_normalised[..asked * width], &self.weights().mlp_norm, normed);
        let slopes = &mut tape.slopes[..asked * config.inner];
        self.project(BlockKind::MlpUp, normed, slopes);
        let activated = if tape.activated.is_empty() {
            &mut scratch.activated[..asked * config.inner]
        } else {
            &mut tape.activated[..]
        };
        gelu(slopes, activated);
        self.project_add(BlockKind::MlpDown, activated, stream);
    }

    /// The adjoint of [`LayerPass::transform`]: of its output to of its input, in place in
    /// `stream [asked, width]`; then that of the mixed heads.
    ///
    /// `depth` says how far down the lowest layer must be followed.
    pub(crate) fn transform_adjoint(
        &self,
        stream: &mut [R],
        (tape, adjoints): (&LayerTape<R>, &mut LayerAdjoints<R>),
        scratch: &mut AdjointScratch<R>,
        depth: Depth,
    ) {
        let config = self.model.config();
        let (width, asked) = (config.width, self.plan.queries());
        let AdjointScratch { outputs, normed, mixed, .. } = scratch;
        keep(&mut adjoints.kept[BlockKind::MlpDown as usize], stream);
        if depth <= Depth::MlpDown {
            return;
        }
        let up = chosen(adjoints, outputs, BlockKind::MlpUp, asked * config.inner);
        self.back(Write::Over, BlockKind::MlpDown, stream, up);
        scale_by(up, &tape.slopes[..asked * config.inner]);
        if depth <= Depth::MlpUp {
            return;
        }
        let normed = &mut normed[..asked * width];
        self.back(Write::Over, BlockKind::MlpUp, up, normed);
        let normalised = &tape.mlp_normalised[..asked * width];
        let (scale, inverse) = (&self.weights().mlp_norm.scale, &tape.mlp_inverse[..asked]);
        norm_adjoint(normed, scale, normalised, inverse, stream);
        keep(&mut adjoints.kept[BlockKind::Output as usize], stream);
        if depth > Depth::Output {
            self.back(Write::Over, BlockKind::Output, stream, &mut mixed[..asked * width]);
        }
    }

    /// The adjoints of queries, keys and values from that of the mixed heads.
    pub(crate) fn attend_adjoint(
        &self,
        tape: &LayerTape<R>,
        adjoints: &mut LayerAdjoints<R>,
        scratch: &mut AdjointScratch<R>,
        depth: Depth,
    ) {
        let asked = self.plan.queries() * self.width();
        let AdjointScratch { outputs, mixed, scores, .. } = scratch;
        let mixed = &mixed[..asked];
        let probabilities = &tape.probabilities[..self.plan.probabilities()];
        let values = chosen(adjoints, outputs, BlockKind::Value, tape.values.len());
        self.plan.adjoint_of_values(probabilities, mixed, values);
        if depth <= Depth::Value {
            return;
        }
        let inputs = Heads {
            queries: &tape.queries[..asked],
            keys: &tape.keys,
            values: &tape.values,
            probabilities,
        };
        let [_, _, kept_queries, kept_keys, ..] = &mut adjoints.kept;
        let [_, _, own_queries, own_keys, ..] = outputs;
        let queries = if kept_queries.is_empty() { own_queries } else { kept_queries };
        let keys = if kept_keys.is_empty() { own_keys } else { kept_keys };
        let targets = (&mut queries[..asked], &mut keys[..]);
        self.plan.adjoint_of_scores(inputs, mixed, targets, scores);
    }

    /// Adds the adjoint of the layer's input, through the first norm, to `stream [rows, width]`.
    pub(crate) fn input_adjoint(
        &self,
        tape: &LayerTape<R>,
        adjoints: &mut LayerAdjoints<R>,
        scratch: &mut AdjointScratch<R>,
        stream: &mut [R],
    ) {
        let (width, asked) = (self.width(), self.plan.queries());
        let AdjointScratch { outputs, normed, gathered, .. } = scratch;
        let values = chosen(adjoints, outputs, BlockKind::Value, tape.values.len());
        self.back(Write::Over, BlockKind::Value, values, normed);
        let keys = chosen(adjoints, outputs, BlockKind::Key, tape.keys.len());
        self.back(Write::Add, BlockKind::Key, keys, normed);
        let queries = chosen(adjoints, outputs, BlockKind::Query, asked * width);
        match self.readouts {
            None => self.back(Write::Add, BlockKind::Query, queries, normed),
            Some(rows) => {
                self.back(Write::Over, BlockKind::Query, queries, gathered);
                scatter_add(gathered, rows, width, normed);
            }
        }
        let (normalised, inverse) = (&tape.attention_normalised, &tape.attention_inverse);
        let scale = &self.weights().attention_norm.scale;
        norm_adjoint(normed, scale, normalised, inverse, stream);
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
    Input,
}

impl Depth {
    /// As far as a block of this kind needs.
    pub(crate) fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::MlpDown => Self::MlpDown,
            BlockKind::MlpUp => Self::MlpUp,
            BlockKind::Output => Self::Output,
            BlockKind::Value => Self::Value,
            BlockKind::Query | BlockKind::Key => Self::Scores,
        }
    }
}

/// The kept buffer of a kind, or the stand-in.
fn chosen<'a, R>(
    adjoints: &'a mut LayerAdjoints<R>,
    outputs: &'a mut [Vec<R>; 6],
    kind: BlockKind,
    size: usize,
) -> &'a mut [R] {
    let kept = &mut adjoints.kept[kind as usize];
    if kept.is_empty() { &mut outputs[kind as usize][..size] } else { &mut kept[..size] }
}

/// Copies into a kept buffer, if there is one.
fn keep<R: Real>(kept: &mut [R], values: &[R]) {
    if !kept.is_empty() {
        kept.copy_from_slice(values);
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
        crate::ops::add(&mut target[row * width..][..width], values);
    }
}

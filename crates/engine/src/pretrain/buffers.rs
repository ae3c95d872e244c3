//! The memory of a pass over some sequences, kept from pass to pass.

use crate::attention::AttentionPlan;
use crate::config::Config;
use crate::layout::Layout;
use crate::ops::{self, NormKind, NormalisedMut};
use crate::real::Real;

/// A layer norm's normalised rows, `[rows, width]`, and one over each row's deviation, `[rows]`.
#[derive(Debug, Default)]
pub(crate) struct NormTape<R> {
    pub(crate) normalised: Vec<R>,
    pub(crate) inverse: Vec<R>,
}

impl<R: Real> NormTape<R> {
    fn resize(&mut self, rows: usize, width: usize) {
        resize(&mut self.normalised, rows * width);
        resize(&mut self.inverse, rows);
    }

    /// Normalises every row of `input [rows, width]`.
    pub(crate) fn fill(&mut self, input: &[R], config: &Config) {
        let Self { normalised, inverse } = self;
        let kept = NormalisedMut { normalised, inverse };
        let epsilon = R::of(config.norm_epsilon);
        ops::normalise(input, NormKind::Deviation, config.width, epsilon, kept);
    }
}

/// What the adjoint of a layer needs of its forward pass; `[rows, width]` unless said.
#[derive(Debug, Default)]
pub(crate) struct LayerTape<R> {
    pub(crate) attention_norm: NormTape<R>,
    pub(crate) queries: Vec<R>,
    pub(crate) keys: Vec<R>,
    pub(crate) values: Vec<R>,
    pub(crate) probabilities: Vec<R>,
    pub(crate) mixed: Vec<R>,
    pub(crate) mlp_norm: NormTape<R>,
    /// The derivative of the activation, `[rows, inner]`.
    pub(crate) slopes: Vec<R>,
    /// Its value, `[rows, inner]`.
    pub(crate) activated: Vec<R>,
}

/// From the last layer to the loss; a row per target.
#[derive(Debug, Default)]
pub(crate) struct HeadTape<R> {
    pub(crate) norm: NormTape<R>,
    /// The stream and its adjoint, the normed stream and its adjoint: `[targets, width]`.
    pub(crate) stream: Vec<R>,
    pub(crate) normed: Vec<R>,
    pub(crate) normed_adjoint: Vec<R>,
    /// Logits, then their adjoint: `[targets, vocabulary]`.
    pub(crate) logits: Vec<R>,
}

/// What every layer writes over; `[rows, width]` unless said.
#[derive(Debug, Default)]
pub(crate) struct Scratch<R> {
    pub(crate) normed: Vec<R>,
    pub(crate) normed_adjoint: Vec<R>,
    pub(crate) queries: Vec<R>,
    pub(crate) keys: Vec<R>,
    pub(crate) values: Vec<R>,
    pub(crate) mixed: Vec<R>,
    /// `[rows, inner]`.
    pub(crate) inner: Vec<R>,
    /// Of one head in one sequence.
    pub(crate) scores: Vec<R>,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Buffers<R> {
    /// The stream between layers, then its adjoint, `[rows, width]`.
    pub(crate) stream: Vec<R>,
    pub(crate) layers: Vec<LayerTape<R>>,
    pub(crate) head: HeadTape<R>,
    pub(crate) scratch: Scratch<R>,
}

impl<R: Real> Buffers<R> {
    /// Gives every buffer the size that these sequences need; allocates only to grow.
    pub(crate) fn fit(
        &mut self,
        config: &Config,
        layout: &Layout,
        plan: &AttentionPlan,
        targets: usize,
    ) {
        let (rows, width, inner) = (layout.rows(), config.width, config.inner);
        self.layers.resize_with(config.layers, LayerTape::default);
        for layer in &mut self.layers {
            layer.attention_norm.resize(rows, width);
            layer.mlp_norm.resize(rows, width);
            for buffer in
                [&mut layer.queries, &mut layer.keys, &mut layer.values, &mut layer.mixed]
            {
                resize(buffer, rows * width);
            }
            resize(&mut layer.probabilities, plan.probabilities());
            resize(&mut layer.slopes, rows * inner);
            resize(&mut layer.activated, rows * inner);
        }
        let Self { stream, head, scratch, .. } = self;
        head.norm.resize(targets, width);
        for buffer in [&mut head.stream, &mut head.normed, &mut head.normed_adjoint] {
            resize(buffer, targets * width);
        }
        resize(&mut head.logits, targets * config.vocabulary);
        let Scratch { normed, normed_adjoint, queries, keys, values, mixed, .. } = scratch;
        for buffer in [stream, normed, normed_adjoint, queries, keys, values, mixed] {
            resize(buffer, rows * width);
        }
        resize(&mut scratch.inner, rows * inner);
        resize(&mut scratch.scores, plan.largest_group());
    }
}

fn resize<R: Real>(buffer: &mut Vec<R>, size: usize) {
    buffer.resize(size, R::ZERO);
}

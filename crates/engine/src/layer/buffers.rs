//! The memory of a layer's passes.

use super::Depth;
use crate::buffer::Buffer;
use crate::config::Config;
use crate::network::KINDS;
use crate::real::Real;

/// What a layer's adjoint and its factors need of the forward pass.
///
/// "Asked" rows are all rows, or in the last layer one per sequence.
#[derive(Clone, Debug)]
pub(crate) struct LayerTape<R: Real> {
    /// `[rows, width]` and `[rows]`.
    pub(crate) attention_normalised: Buffer<R>,
    pub(crate) attention_inverse: Buffer<R>,
    /// As attention takes them, `[asked, attention]`.
    pub(crate) queries: Buffer<R>,
    /// As attention takes them, `[rows, key_values]`; see [`crate::layer`] for the last layer.
    pub(crate) keys: Buffer<R>,
    /// `[rows, key_values]`; empty in the last layer.
    pub(crate) values: Buffer<R>,
    /// In the last layer, queries as they meet the inputs of the keys, and those of the values
    /// mixed, `[asked, heads · width]` each.
    pub(crate) asking: Buffer<R>,
    pub(crate) mixed_inputs: Buffer<R>,
    pub(crate) probabilities: Buffer<R>,
    /// `[asked, attention]`; empty if no block needs it.
    pub(crate) mixed: Buffer<R>,
    /// `[asked, width]` and `[asked]`.
    pub(crate) mlp_normalised: Buffer<R>,
    pub(crate) mlp_inverse: Buffer<R>,
    /// The derivative of the activation for what `mlp-up` gives, `[asked, inner]`.
    pub(crate) slopes: Buffer<R>,
    /// That for what `mlp-gate` gives, `[asked, inner]`; empty without a gate.
    pub(crate) gate_slopes: Buffer<R>,
    /// Its value, `[asked, inner]`; empty if no block needs it.
    pub(crate) activated: Buffer<R>,
}

impl<R: Real> LayerTape<R> {
    /// How many numbers it holds.
    pub(crate) fn numbers(&self) -> usize {
        let Self { attention_normalised, attention_inverse, queries, keys, values, .. } = self;
        let Self { asking, mixed_inputs, probabilities, mixed, mlp_normalised, .. } = self;
        let Self { mlp_inverse, slopes, gate_slopes, activated, .. } = self;
        let attention = [attention_normalised, attention_inverse, queries, keys, values];
        let last = [asking, mixed_inputs, probabilities, mixed, mlp_normalised];
        let mlp = [mlp_inverse, slopes, gate_slopes, activated];
        attention.into_iter().chain(last).chain(mlp).map(|buffer| buffer.len()).sum()
    }

    pub(crate) fn new(sizes: &LayerSizes, keeps: Keeps) -> Self {
        let &LayerSizes { rows, asked, width, inner, probabilities, .. } = sizes;
        let &LayerSizes { attention, keys, values, asking, mixed_inputs, gated, .. } = sizes;
        let numbers = Buffer::new;
        let if_so = |wanted: bool, size: usize| numbers(if wanted { size } else { 0 });
        Self {
            attention_normalised: numbers(rows * width),
            attention_inverse: numbers(rows),
            queries: numbers(asked * attention),
            keys: numbers(keys),
            values: numbers(values),
            asking: numbers(asking),
            mixed_inputs: numbers(mixed_inputs),
            probabilities: numbers(probabilities),
            mixed: if_so(keeps.mixed, asked * attention),
            mlp_normalised: numbers(asked * width),
            mlp_inverse: numbers(asked),
            slopes: numbers(asked * inner),
            gate_slopes: if_so(gated, asked * inner),
            activated: if_so(keeps.activated, asked * inner),
        }
    }

    /// Without what only the factors need.
    pub(crate) fn for_adjoint(sizes: &LayerSizes) -> Self {
        Self::new(&LayerSizes { mixed_inputs: 0, ..*sizes }, Keeps::default())
    }
}

/// What of a layer's forward pass outlives it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeps {
    pub(crate) mixed: bool,
    pub(crate) activated: bool,
}

/// The sizes of the buffers of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerSizes {
    pub(crate) rows: usize,
    pub(crate) asked: usize,
    pub(crate) width: usize,
    /// Of all query heads together.
    pub(crate) attention: usize,
    /// Of all key-value heads together.
    pub(crate) key_values: usize,
    /// Numbers of all keys and values, and of what stands for them in the last layer.
    pub(crate) keys: usize,
    pub(crate) values: usize,
    pub(crate) asking: usize,
    pub(crate) mixed_inputs: usize,
    pub(crate) inner: usize,
    pub(crate) gated: bool,
    pub(crate) probabilities: usize,
}

impl LayerSizes {
    /// Sizes that serve both.
    pub(crate) fn larger(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            asked: self.asked.max(other.asked),
            probabilities: self.probabilities.max(other.probabilities),
            keys: self.keys.max(other.keys),
            values: self.values.max(other.values),
            asking: self.asking.max(other.asking),
            mixed_inputs: self.mixed_inputs.max(other.mixed_inputs),
            ..self
        }
    }
}

/// Buffers that a forward pass writes over in every layer.
#[derive(Clone, Debug)]
pub(crate) struct Scratch<R: Real> {
    /// Output of a norm, `[rows, width]`, then what heads mix of it, `[asked, attention]`.
    pub(crate) normed: Buffer<R>,
    /// Its asked rows in the last layer, `[sequences, width]`.
    pub(crate) gathered: Buffer<R>,
    /// `[rows, inner]`.
    pub(crate) activated: Buffer<R>,
}

impl<R: Real> Scratch<R> {
    /// Room for `rows` rows of an adjoint, too, to which it is lent: separate sequences may have
    /// more rows.
    pub(crate) fn make_room(&mut self, rows: usize, config: &Config) {
        for (buffer, width) in
            [(&mut self.normed, config.width), (&mut self.activated, config.inner)]
        {
            if buffer.len() < rows * width {
                // Its memory serves what comes next.
                *buffer = Buffer::new(0);
                *buffer = Buffer::new(rows * width);
            }
        }
    }
}

/// The adjoints that block factors are made of; a buffer is empty if no block needs it, and may
/// have room for more rows than there are.
#[derive(Clone, Debug)]
pub(crate) struct LayerAdjoints<R: Real> {
    /// The adjoint of each matrix's output, in the order of [`BlockKind::MATRICES`].
    pub(crate) kept: [Buffer<R>; KINDS],
    /// The adjoint of the weights of both norms, `[sums, numbers]`.
    pub(crate) norms: Buffer<R>,
    /// Of [`LayerTape::asking`], if a key block of the last layer needs it.
    pub(crate) asking: Buffer<R>,
}

impl<R: Real> LayerAdjoints<R> {
    /// How many numbers it holds.
    pub(crate) fn numbers(&self) -> usize {
        let kept: usize = self.kept.iter().map(|buffer| buffer.len()).sum();
        kept + self.norms.len() + self.asking.len()
    }
}

/// What the backward pass of a layer reads of the forward pass, and what it writes.
pub(crate) struct LayerBackward<'a, R: Real> {
    pub(crate) tape: &'a LayerTape<R>,
    pub(crate) adjoints: &'a mut LayerAdjoints<R>,
    pub(crate) scratch: &'a mut AdjointScratch<R>,
    /// How far down the layer is followed.
    pub(crate) depth: Depth,
}

/// Buffers that a backward pass writes over in every layer.
#[derive(Clone, Debug)]
pub(crate) struct AdjointScratch<R: Real> {
    /// Stand-ins for adjoints that are not kept, in the order of [`BlockKind::MATRICES`].
    pub(crate) outputs: [Buffer<R>; KINDS],
    /// Adjoint of a norm's output, `[rows, width]`.
    pub(crate) normed: Buffer<R>,
    /// Of the mixed heads, `[rows, attention]`.
    pub(crate) mixed: Buffer<R>,
    /// Of the gathered rows, `[sequences, width]`.
    pub(crate) gathered: Buffer<R>,
    /// Of the scores of one group.
    pub(crate) scores: Buffer<R>,
    /// In the last layer: the inputs of keys and values, `[rows, width]`, and the adjoints of
    /// [`LayerTape::asking`] and [`LayerTape::mixed_inputs`].
    pub(crate) inputs: Buffer<R>,
    pub(crate) asking: Buffer<R>,
    pub(crate) mixed_inputs: Buffer<R>,
}

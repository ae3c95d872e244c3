//! The memory of a layer's passes.

use crate::network::KINDS;
use crate::real::Real;

/// What a layer's adjoint and its factors need of the forward pass.
///
/// "Asked" rows are all rows, or in the last layer one per sequence.
#[derive(Debug)]
pub(crate) struct LayerTape<R> {
    /// `[rows, width]` and `[rows]`.
    pub(crate) attention_normalised: Vec<R>,
    pub(crate) attention_inverse: Vec<R>,
    /// As attention takes them, `[asked, attention]`.
    pub(crate) queries: Vec<R>,
    /// As attention takes them, `[rows, key_values]`; see [`crate::layer`] for the last layer.
    pub(crate) keys: Vec<R>,
    /// `[rows, key_values]`; empty in the last layer.
    pub(crate) values: Vec<R>,
    /// In the last layer, queries as they meet the inputs of the keys, and those of the values
    /// mixed, `[asked, heads · width]` each.
    pub(crate) asking: Vec<R>,
    pub(crate) mixed_inputs: Vec<R>,
    pub(crate) probabilities: Vec<R>,
    /// `[asked, attention]`.
    pub(crate) mixed: Vec<R>,
    /// `[asked, width]` and `[asked]`.
    pub(crate) mlp_normalised: Vec<R>,
    pub(crate) mlp_inverse: Vec<R>,
    /// The derivative of the activation for what `mlp-up` gives, `[asked, inner]`.
    pub(crate) slopes: Vec<R>,
    /// That for what `mlp-gate` gives, `[asked, inner]`; empty without a gate.
    pub(crate) gate_slopes: Vec<R>,
    /// Its value, `[asked, inner]`; empty if no block needs it.
    pub(crate) activated: Vec<R>,
}

impl<R: Real> LayerTape<R> {
    pub(crate) fn new(sizes: &LayerSizes, keep_activated: bool) -> Self {
        let &LayerSizes { rows, asked, width, inner, probabilities, .. } = sizes;
        let &LayerSizes { attention, keys, values, asking, mixed_inputs, gated, .. } = sizes;
        let zeros = |size: usize| vec![R::ZERO; size];
        Self {
            attention_normalised: zeros(rows * width),
            attention_inverse: zeros(rows),
            queries: zeros(asked * attention),
            keys: zeros(keys),
            values: zeros(values),
            asking: zeros(asking),
            mixed_inputs: zeros(mixed_inputs),
            probabilities: zeros(probabilities),
            mixed: zeros(asked * attention),
            mlp_normalised: zeros(asked * width),
            mlp_inverse: zeros(asked),
            slopes: zeros(asked * inner),
            gate_slopes: zeros(if gated { asked * inner } else { 0 }),
            activated: if keep_activated { zeros(asked * inner) } else { Vec::new() },
        }
    }

    /// Without what only the factors need.
    pub(crate) fn for_adjoint(sizes: &LayerSizes) -> Self {
        let mut tape = Self::new(sizes, false);
        (tape.mixed, tape.mixed_inputs) = (Vec::new(), Vec::new());
        tape
    }
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
    /// The adjoint of each matrix's output, in the order of [`BlockKind::MATRICES`].
    pub(crate) kept: [Vec<R>; KINDS],
    /// The adjoint of the weights of both norms, `[sums, numbers]`.
    pub(crate) norms: Vec<R>,
    /// Of [`LayerTape::asking`], if a key block of the last layer needs it.
    pub(crate) asking: Vec<R>,
}

/// Buffers that a backward pass writes over in every layer.
#[derive(Debug)]
pub(crate) struct AdjointScratch<R> {
    /// Stand-ins for adjoints that are not kept, in the order of [`BlockKind::MATRICES`].
    pub(crate) outputs: [Vec<R>; KINDS],
    /// Adjoint of a norm's output, `[rows, width]`.
    pub(crate) normed: Vec<R>,
    /// Of the mixed heads, `[rows, attention]`.
    pub(crate) mixed: Vec<R>,
    /// Of the gathered rows, `[sequences, width]`.
    pub(crate) gathered: Vec<R>,
    /// Of the scores of one group.
    pub(crate) scores: Vec<R>,
    /// In the last layer: the inputs of keys and values, `[rows, width]`, and the adjoints of
    /// [`LayerTape::asking`] and [`LayerTape::mixed_inputs`].
    pub(crate) inputs: Vec<R>,
    pub(crate) asking: Vec<R>,
    pub(crate) mixed_inputs: Vec<R>,
}

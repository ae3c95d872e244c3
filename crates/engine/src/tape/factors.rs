//! What an adjoint leaves behind: the factors of every block's derivative.

use super::Tape;
use crate::attention::HeadCounts;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::buffer::list;
use crate::error::Error;
use crate::layer::{LayerTape, gather};
use crate::matrix::{Matrix, Submatrix};
use crate::ops::{View, ViewMut, Write, affine, product};
use crate::real::Real;
use crate::update::Update;
use std::borrow::Cow;
use std::ops::Range;

/// The inputs of a matrix and the adjoints of its outputs.
pub(crate) struct Factors<'a, R: Real> {
    pub(crate) inputs: Cow<'a, [R]>,
    pub(crate) outputs: Cow<'a, [R]>,
}

impl<R: Real> Tape<R> {
    /// A matrix, as updated.
    pub(crate) fn matrix(&self, layer: usize, kind: BlockKind) -> &Matrix<R> {
        self.model.matrix(&self.overlay, layer, kind)
    }

    /// The blocks it was made for.
    pub(crate) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Number of rows that a matrix is applied to.
    pub(super) fn rows_of(&self, layer: usize, kind: BlockKind) -> usize {
        let layout = &self.adjoint_plans().layout;
        self.rows_among(layer, kind, layout.rows(), self.differentiated_outputs())
    }

    /// How many derivatives there are: one per sequence, or one per output of each.
    pub(super) fn differentiated_outputs(&self) -> usize {
        let sequences = self.adjoint_plans().layout.sequences();
        self.local.as_ref().map_or(sequences, |local| local.outputs.count(sequences))
    }

    /// The same for this number of rows and sequences.
    pub(super) fn rows_among(
        &self,
        layer: usize,
        kind: BlockKind,
        rows: usize,
        sequences: usize,
    ) -> usize {
        match kind.matrix() {
            _ if self.folds(layer, kind) => sequences * self.served(kind),
            _ if self.has_all_rows(layer, kind) => rows,
            // Norms have one sum, or one of each sequence.
            None if self.separate.is_none() && self.local.is_none() => 1,
            _ => sequences,
        }
    }

    /// Whether a matrix is applied to all rows.
    pub(super) fn has_all_rows(&self, layer: usize, kind: BlockKind) -> bool {
        !self.one_row_each(layer, kind) && !self.folds(layer, kind)
    }

    /// The rows of each sequence among those that a matrix is applied to; for an adjoint that
    /// keeps sequences apart.
    pub(crate) fn ranges(&self, layer: usize, kind: BlockKind) -> Vec<Range<usize>> {
        let layout = &self.adjoint_plans().layout;
        if self.folds(layer, kind) {
            let served = self.served(kind);
            let rows = |index: usize| index * served..(index + 1) * served;
            return (0..self.differentiated_outputs()).map(rows).collect();
        }
        if self.one_row_each(layer, kind) {
            return (0..self.differentiated_outputs()).map(|index| index..index + 1).collect();
        }
        layout.segments().iter().map(|segment| segment.rows.clone()).collect()
    }

    /// Whether a matrix is applied to the last token of each sequence alone. What norms have of a
    /// sequence is summed to one row, too.
    pub(super) fn one_row_each(&self, layer: usize, kind: BlockKind) -> bool {
        match kind.matrix() {
            Some(BlockKind::Value | BlockKind::Key) => false,
            None => true,
            _ => self.only_readouts(layer),
        }
    }

    /// Whether what a matrix is applied to is mixed first, for each head by itself: in the last
    /// layer values, and keys that positions do not turn.
    pub(crate) fn folds(&self, layer: usize, kind: BlockKind) -> bool {
        let folded = match kind.matrix() {
            Some(BlockKind::Value) => true,
            Some(BlockKind::Key) => self.rotations.is_none(),
            _ => false,
        };
        folded && self.only_readouts(layer)
    }

    /// Whether derivatives in this layer are made of the read-outs alone.
    fn only_readouts(&self, layer: usize) -> bool {
        self.local.is_some() || self.plans.is_last(layer)
    }

    /// How many rows a sequence has where inputs are mixed first: one for each query head that a
    /// head serves, or for each query head if the block has all heads.
    fn served(&self, kind: BlockKind) -> usize {
        let config = self.model.config();
        if kind.per_head() { config.heads / config.key_value_heads() } else { config.heads }
    }

    /// Number of inputs and outputs that the factors of a kind have.
    pub(crate) fn factor_shape(&self, layer: usize, kind: BlockKind) -> (usize, usize) {
        let config = self.model.config();
        let (inputs, outputs) = config.shape(kind);
        match kind {
            _ if kind.is_lora() => (self.first(layer, kind).1, outputs),
            _ if self.folds(layer, kind) => (inputs * config.key_value_heads(), outputs),
            _ => (inputs, outputs),
        }
    }

    /// The inputs and outputs among them that a block takes.
    pub(crate) fn factor_place(&self, block: &BlockId) -> Submatrix {
        let Submatrix { rows, columns } = block.place(self.model.config());
        if block.kind().is_lora() {
            let rows = 0..self.first(block.layer(), block.kind()).1;
            return Submatrix { rows, columns };
        }
        match block.head().filter(|_| self.folds(block.layer(), block.kind())) {
            Some(head) => {
                let rows = head * rows.len()..(head + 1) * rows.len();
                Submatrix { rows, columns }
            }
            None => Submatrix { rows, columns },
        }
    }

    /// `a`: the inputs of a matrix that blocks were asked for, `[rows, in]`; those of a LoRA block
    /// are what its first factor makes of them, `[rows, rank]`.
    ///
    /// The derivative for norms is a sum over tokens by itself: its inputs are ones.
    pub(crate) fn inputs(&self, layer: usize, kind: BlockKind) -> Cow<'_, [R]> {
        if kind == BlockKind::Norm {
            return Cow::Owned(vec![R::ONE; self.rows_of(layer, kind)]);
        }
        if kind == BlockKind::Key && self.folds(layer, kind) {
            // The inputs mixed by the adjoint of the scores; the other factor is the queries.
            return Cow::Borrowed(&self.adjoints[layer - self.lowest].asking);
        }
        let values = self.forward_inputs(layer, kind);
        let outputs = self.local.as_ref().map(|local| &local.outputs);
        if let Some(outputs) = outputs.filter(|outputs| !outputs.is_one_each()) {
            // Each of a sequence's outputs has the same inputs.
            let rows = outputs.sequences(self.adjoint_plans().layout.sequences());
            let size = self.rows_of(layer, kind) / rows.len().max(1);
            let width = size * self.factor_shape(layer, kind).0;
            return Cow::Owned(gathered(&values, &rows, width));
        }
        // Rows that the adjoint does not have come last.
        let size = self.rows_of(layer, kind) * self.factor_shape(layer, kind).0;
        match &self.separate {
            Some(separate) if self.has_all_rows(layer, kind) => {
                let width = self.factor_shape(layer, kind).0;
                Cow::Owned(gathered(&values, &separate.rows, width))
            }
            _ => match values {
                Cow::Borrowed(values) => Cow::Borrowed(&values[..size]),
                Cow::Owned(mut values) => {
                    values.truncate(size);
                    Cow::Owned(values)
                }
            },
        }
    }

    /// As they were in the forward pass.
    pub(super) fn forward_inputs(&self, layer: usize, kind: BlockKind) -> Cow<'_, [R]> {
        let tape = &self.layers[layer - self.lowest];
        if let Some(matrix) = kind.matrix().filter(|_| kind.is_lora()) {
            let inputs = match self.folds(layer, kind) {
                true => Cow::Borrowed(&tape.mixed_inputs[..]),
                false => self.forward_inputs(layer, matrix),
            };
            let ((first, rank), width) = (self.first(layer, kind), self.model.config().width);
            let (rows, first) = (inputs.len() / width, View::new(first, width, rank));
            let mut projected = list(rows * rank);
            let target = ViewMut::new(&mut projected, rows, rank);
            product(Write::Over, target, View::new(&inputs, rows, width), first, R::ONE);
            return Cow::Owned(projected);
        }
        match kind {
            BlockKind::Output => Cow::Borrowed(&tape.mixed),
            BlockKind::MlpDown => Cow::Borrowed(&tape.activated),
            BlockKind::MlpUp | BlockKind::MlpGate => {
                let mut inputs = list(tape.mlp_normalised.len());
                let [_, norm] = self.model.norms(&self.overlay, layer);
                affine(&tape.mlp_normalised, norm, &mut inputs);
                Cow::Owned(inputs)
            }
            BlockKind::Value if self.only_readouts(layer) => self.mixed_inputs(tape),
            BlockKind::Query if self.plans.is_last(layer) && self.local.is_none() => {
                let width = self.model.config().width;
                Cow::Owned(gathered(&self.normed(layer), &self.plans.readouts, width))
            }
            _ => Cow::Owned(self.normed(layer)),
        }
    }

    /// What queries, keys and values of a layer are made of, `[rows, width]`.
    pub(crate) fn normed(&self, layer: usize) -> Vec<R> {
        let normalised = &self.layers[layer - self.lowest].attention_normalised;
        let mut normed = list(normalised.len());
        affine(normalised, self.model.norms(&self.overlay, layer)[0], &mut normed);
        normed
    }

    /// What each head mixes in the last layer, with a row for each query head that a key-value
    /// head serves.
    fn mixed_inputs<'a>(&self, tape: &'a LayerTape<R>) -> Cow<'a, [R]> {
        let counts = HeadCounts::of(self.model.config());
        if counts.heads == counts.key_value_heads {
            return Cow::Borrowed(&tape.mixed_inputs);
        }
        let mut arranged = list(tape.mixed_inputs.len());
        counts.arrange_served(&tape.mixed_inputs, self.model.config().width, &mut arranged);
        Cow::Owned(arranged)
    }

    /// `b`: the adjoint of the outputs of a matrix that blocks were asked for, `[rows, out]`, or
    /// that of the norms' weights.
    ///
    /// Where inputs are mixed for each head by itself, a block of all heads has a row for each, with
    /// nothing outside the head's own columns.
    pub(crate) fn outputs_adjoint(&self, layer: usize, kind: BlockKind) -> Cow<'_, [R]> {
        let adjoints = &self.adjoints[layer - self.lowest];
        let kept =
            kind.matrix().map_or(&adjoints.norms, |matrix| &adjoints.kept[matrix as usize]);
        if kind.per_head() || !self.folds(layer, kind) {
            return Cow::Borrowed(kept);
        }
        let counts = HeadCounts::of(self.model.config());
        let (size, group) = (counts.head_width, counts.heads / counts.key_value_heads);
        let width = counts.key_value_heads * size;
        let mut rows = list(kept.len() * counts.key_value_heads);
        rows.fill(R::ZERO);
        for (index, row) in rows.chunks_exact_mut(width).enumerate() {
            let (sequence, head) = (index / counts.heads, index % counts.heads);
            let served = counts.serving(head) * size;
            let from = (sequence * group + head % group) * width + served;
            row[served..served + size].copy_from_slice(&kept[from..from + size]);
        }
        Cow::Owned(rows)
    }

    /// The same in a sum over sequences, whose weights they are multiplied with where each sequence
    /// is known by itself; without the last sequences if these do not weigh anything.
    fn weighed_adjoint(&self, layer: usize, kind: BlockKind) -> Cow<'_, [R]> {
        let adjoint = self.outputs_adjoint(layer, kind);
        let apart = self.separate.as_ref().and_then(|known| known.weights.as_ref());
        let local = self.local.as_ref().and_then(|known| known.weights.as_ref());
        let Some(weights) = apart.or(local) else {
            return adjoint;
        };
        let (ranges, width) = (self.ranges(layer, kind), self.factor_shape(layer, kind).1);
        let some =
            weights.iter().rposition(|&weight| weight != R::ZERO).map_or(0, |last| last + 1);
        let mut weighed = list(ranges[..some].last().map_or(0, |rows| rows.end) * width);
        for (rows, &weight) in ranges[..some].iter().zip(weights) {
            let place = rows.start * width..rows.end * width;
            for (target, &value) in weighed[place.clone()].iter_mut().zip(&adjoint[place]) {
                *target = weight * value;
            }
        }
        Cow::Owned(weighed)
    }

    /// The probabilities with which the last token of a sequence attends, one list per head, and
    /// the rows that it attends to.
    pub(crate) fn attention_at_readout(
        &self,
        layer: usize,
        sequence: usize,
    ) -> (Vec<usize>, Vec<&[R]>) {
        let tape = &self.layers[layer - self.lowest];
        let seen = self.plans.layout.seen_by(sequence).into_iter().flatten().collect();
        let row = self.plans.readouts[sequence];
        let query = if self.plans.is_last(layer) { sequence } else { row };
        (seen, self.plans.of(layer).row(&tape.probabilities, query))
    }

    /// The adjoint of the projection's output at the last token of each sequence.
    pub(crate) fn projection_adjoint_at_readouts(&self, layer: usize) -> Vec<R> {
        let adjoint = self.outputs_adjoint(layer, BlockKind::Output);
        if self.plans.is_last(layer) {
            return adjoint.to_vec();
        }
        gathered(&adjoint, &self.adjoint_plans().readouts, self.model.config().width)
    }

    /// Calls `visit` with each block's number, inputs and adjoints of outputs, in order.
    pub(crate) fn for_each_factor(
        &self,
        mut visit: impl FnMut(usize, View<'_, R>, View<'_, R>),
    ) {
        let mut factors: Option<(usize, BlockKind, Factors<'_, R>)> = None;
        for (index, block) in self.blocks.iter().enumerate() {
            let (layer, kind) = (block.layer(), block.kind());
            let fresh = factors.as_ref().is_some_and(|(l, k, _)| (*l, *k) == (layer, kind));
            if !fresh {
                let inputs = self.inputs(layer, kind);
                let outputs = self.weighed_adjoint(layer, kind);
                factors = Some((layer, kind, Factors { inputs, outputs }));
            }
            let (_, _, factors) = factors.as_ref().expect("it was set just now");
            let Factors { inputs, outputs } = factors;
            let shape = self.factor_shape(layer, kind);
            let Submatrix { rows, columns } = self.factor_place(block);
            let count = self.rows_of(layer, kind);
            let weighed = 0..outputs.len() / shape.1;
            let left = View::new(inputs, count, shape.0).rows(weighed.clone()).columns(rows);
            let right = View::new(outputs, weighed.len(), shape.1);
            visit(index, left, right.columns(columns));
        }
    }

    /// `Σ_i seed_i ∂s_i/∂θ` for every block of the tape, after [`Tape::pull_back`].
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] if no adjoint was run.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Layout, Network, Parameters, Tape, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let layout = Layout::plain(&[vec![0, 1, 2]])?;
    /// let mut tape = Tape::new(&model, layout, &labels, &blocks)?;
    /// assert_eq!(tape.gradient(), Err(Error::Empty { quantity: "list of seeds" }));
    /// tape.pull_back(&[1.0])?;
    /// assert_eq!(tape.gradient()?.blocks()[0].1, [0.0; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn gradient(&self) -> Result<Update<R>, Error> {
        if self.adjoint_scratch.is_none() {
            return Err(Error::Empty { quantity: "list of seeds" });
        }
        let mut gradient = self.zero_update();
        self.for_each_factor(|index, inputs, outputs| {
            write_gradient(inputs, outputs, &mut gradient.blocks[index].1);
        });
        Ok(gradient)
    }
}

/// Copies of some rows.
fn gathered<R: Real>(values: &[R], rows: &[usize], width: usize) -> Vec<R> {
    let mut target = list(rows.len() * width);
    gather(values, rows, width, &mut target);
    target
}

/// `Σ_t a_t b_tᵀ` over `[in, out]`.
pub(crate) fn write_gradient<R: Real>(
    inputs: View<'_, R>,
    outputs: View<'_, R>,
    target: &mut [R],
) {
    let target = ViewMut::new(target, inputs.shape().1, outputs.shape().1);
    product(Write::Over, target, inputs.transposed(), outputs, R::ONE);
}

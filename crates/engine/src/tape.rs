//! A forward pass that remembers what its adjoint needs, and the adjoint.
//!
//! In: a [`Network`], a [`Layout`], the [`Labels`] and the blocks that may be updated. Out: one
//! prediction per sequence, and after [`Tape::pull_back`] the factors of every block's
//! derivative. Layers below the lowest block are computed once and remembered by their result
//! alone. Running again after an update allocates nothing.

use crate::attention::AttentionPlan;
use crate::blocks::{BlockId, BlockKind};
use crate::error::Error;
use crate::gpt2::{
    AdjointScratch, Depth, LayerAdjoints, LayerPass, LayerSizes, LayerTape, Scratch, Valid,
    gather, scatter_add,
};
use crate::layout::Layout;
use crate::network::{Labels, Network, Overlay, block_size};
use crate::ops::{View, ViewMut, Write, affine, product};
use crate::passes::PassCount;
use crate::real::Real;
use crate::update::Update;
use std::borrow::Cow;
use std::ops::Range;

mod readout;

use readout::Readout;

/// Who attends to what in which layer.
#[derive(Debug)]
struct Plans {
    everywhere: AttentionPlan,
    at_readouts: AttentionPlan,
    readouts: Vec<usize>,
    last: usize,
}

impl Plans {
    fn of(&self, layer: usize) -> &AttentionPlan {
        if layer == self.last { &self.at_readouts } else { &self.everywhere }
    }

    fn pass<'a, R>(
        &'a self,
        model: &'a Network<R>,
        overlay: &'a Overlay<R>,
        layer: usize,
    ) -> LayerPass<'a, R> {
        let readouts = (layer == self.last).then_some(&self.readouts[..]);
        LayerPass { model, overlay, layer, plan: self.of(layer), readouts }
    }
}

/// The stream between layers, `[rows, width]`, and after the last one, `[sequences, width]`.
#[derive(Debug)]
struct Streams<R> {
    rows: Vec<R>,
    asked: Vec<R>,
}

/// What a forward pass remembers.
#[derive(Debug)]
pub struct Tape<'m, R = f32> {
    model: &'m Network<R>,
    layout: Layout,
    plans: Plans,
    blocks: Vec<BlockId>,
    lowest: usize,
    depth: Depth,
    /// The stream at the lowest layer, `[rows, width]`.
    input: Vec<R>,
    streams: Streams<R>,
    layers: Vec<LayerTape<R>>,
    adjoints: Vec<LayerAdjoints<R>>,
    scratch: Scratch<R>,
    adjoint_scratch: Option<AdjointScratch<R>>,
    readout: Readout<R>,
    overlay: Overlay<R>,
    /// The blocks that the overlay holds.
    applied: Vec<BlockId>,
    valid: Valid,
    passes: PassCount,
}

impl<R: Real> Network<R> {
    /// The prediction of each sequence: `s = Σ_j value_j softmax(label logits)_j`.
    ///
    /// # Errors
    ///
    /// Those of [`Tape::new`], but for those about blocks.
    pub fn predict(&self, layout: Layout, labels: &Labels) -> Result<Vec<R>, Error> {
        Ok(Tape::start(self, layout, labels, &[])?.readout.predictions)
    }
}

impl<'m, R: Real> Tape<'m, R> {
    /// Runs the model forward and remembers what derivatives for `blocks` need.
    ///
    /// # Errors
    ///
    /// [`Error::SequenceTooLong`] or [`Error::TokenOutOfRange`] for sequences or labels that do
    /// not fit the model, [`Error::Empty`], [`Error::NoSuchBlock`] or [`Error::DuplicateBlock`]
    /// for blocks that it does not have.
    pub fn new(
        model: &'m Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        model.check_blocks(blocks)?;
        Self::start(model, layout, labels, blocks)
    }

    fn start(
        model: &'m Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        model.check_layout(&layout)?;
        model.check_tokens(labels.tokens())?;
        let mut tape = Self::allocate(model, layout, labels, blocks);
        tape.run_lower_layers();
        tape.run_upper_layers();
        Ok(tape)
    }

    /// All buffers, for a layout that fits the model.
    fn allocate(
        model: &'m Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
    ) -> Self {
        let config = model.config();
        let (rows, sequences, width) = (layout.rows(), layout.sequences(), config.width);
        let (heads, head_width) = (config.heads, config.head_width());
        let plans = Plans {
            everywhere: AttentionPlan::everywhere(&layout, heads, head_width),
            at_readouts: AttentionPlan::at_readouts(&layout, heads, head_width),
            readouts: layout.readout_rows().collect(),
            last: config.layers - 1,
        };
        let lowest = blocks.iter().map(BlockId::layer).min().unwrap_or(config.layers);
        let depths = blocks.iter().filter(|block| block.layer() == lowest);
        let zeros = |size: usize| vec![R::ZERO; size];
        let mut tape = Self {
            model,
            depth: depths.map(|b| Depth::of(b.kind())).max().unwrap_or(Depth::MlpDown),
            lowest,
            input: zeros(rows * width),
            streams: Streams { rows: zeros(rows * width), asked: zeros(sequences * width) },
            layers: Vec::new(),
            adjoints: Vec::new(),
            scratch: Scratch {
                normed: zeros(rows * width),
                gathered: zeros(sequences * width),
                activated: zeros(rows.max(sequences) * config.inner),
            },
            adjoint_scratch: None,
            readout: Readout::new(model, labels, sequences),
            overlay: Overlay::none(model),
            applied: Vec::new(),
            valid: Valid::default(),
            passes: PassCount::default(),
            blocks: blocks.to_vec(),
            layout,
            plans,
        };
        tape.layers = (lowest..config.layers)
            .map(|layer| {
                LayerTape::new(&tape.sizes(layer), tape.needs(layer, BlockKind::MlpDown))
            })
            .collect();
        tape
    }

    fn sizes(&self, layer: usize) -> LayerSizes {
        let (config, plan) = (self.model.config(), self.plans.of(layer));
        LayerSizes {
            rows: self.layout.rows(),
            asked: plan.queries(),
            width: config.width,
            inner: config.inner,
            probabilities: plan.probabilities(),
        }
    }

    /// Whether a block of this kind and layer is asked for.
    fn needs(&self, layer: usize, kind: BlockKind) -> bool {
        self.blocks.iter().any(|block| block.layer() == layer && block.kind() == kind)
    }

    /// From the tokens to the stream at the lowest layer; nothing else is kept.
    fn run_lower_layers(&mut self) {
        self.model.embed(&self.layout, &mut self.streams.rows);
        if self.lowest > 0 {
            let mut sizes = self.sizes(0);
            for layer in 1..self.lowest {
                let other = self.sizes(layer);
                sizes.asked = sizes.asked.max(other.asked);
                sizes.probabilities = sizes.probabilities.max(other.probabilities);
            }
            let mut tape = LayerTape::new(&sizes, false);
            for layer in 0..self.lowest {
                let pass = self.plans.pass(self.model, &self.overlay, layer);
                run_layer(
                    &pass,
                    &mut self.streams,
                    &mut tape,
                    &mut self.scratch,
                    Valid::default(),
                );
            }
        }
        self.input.copy_from_slice(&self.streams.rows);
    }

    /// From the stream at the lowest layer to the predictions.
    fn run_upper_layers(&mut self) {
        self.streams.rows.copy_from_slice(&self.input);
        for (index, tape) in self.layers.iter_mut().enumerate() {
            let valid = if index == 0 { self.valid } else { Valid::default() };
            let pass = self.plans.pass(self.model, &self.overlay, self.lowest + index);
            run_layer(&pass, &mut self.streams, tape, &mut self.scratch, valid);
        }
        let normed = &mut self.scratch.gathered;
        self.readout.run(self.model, &self.streams.asked, normed);
        self.passes.forward += self.layout.sequences() as u64;
        self.passes.forward_tokens += self.layout.rows() as u64;
    }

    /// Runs the updated model forward; the model itself stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::BlockNotOnTape`] for an update of a block that the tape was not made for, and
    /// [`Error::SizeMismatch`] for one that was made for another model.
    pub fn run(&mut self, update: &Update<R>) -> Result<&[R], Error> {
        let moved: Vec<BlockId> = update.blocks.iter().map(|(block, _)| *block).collect();
        for (block, change) in &update.blocks {
            if !self.blocks.contains(block) {
                return Err(Error::BlockNotOnTape { block: block.to_string() });
            }
            let (found, expected) = (change.len(), block_size(self.model.config(), block));
            if found != expected {
                return Err(Error::SizeMismatch { quantity: "update", found, expected });
            }
        }
        // In the lowest layer, what no update touches now or touched last time is still valid.
        let touched = |kind: BlockKind| {
            let here = |b: &BlockId| b.layer() == self.lowest && b.kind() == kind;
            moved.iter().any(here) || self.applied.iter().any(here)
        };
        self.valid = Valid {
            norm: true,
            queries: !touched(BlockKind::Query),
            keys: !touched(BlockKind::Key),
            values: !touched(BlockKind::Value),
        };
        if moved != self.applied {
            self.overlay = Overlay::none(self.model);
            self.applied = moved;
        }
        self.overlay.set(self.model, update);
        self.run_upper_layers();
        Ok(&self.readout.predictions)
    }

    /// Runs the adjoint of `Σ_i seed_i s_i` down to the lowest block, at the last forward pass.
    ///
    /// No gradient of a weight is formed: afterwards every block's derivative is known by its
    /// factors, the inputs of its matrix and the adjoints of the outputs.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless there is one seed per sequence.
    pub fn pull_back(&mut self, seeds: &[R]) -> Result<(), Error> {
        let (found, expected) = (seeds.len(), self.layout.sequences());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "seeds", found, expected });
        }
        self.allocate_adjoints();
        let scratch = self.adjoint_scratch.as_mut().expect("it was allocated just now");
        let asked = &mut self.streams.asked;
        self.readout.adjoint(self.model, seeds, &mut scratch.gathered, asked);
        for (index, tape) in self.layers.iter().enumerate().rev() {
            let depth = if index == 0 { self.depth } else { Depth::Input };
            let pass = self.plans.pass(self.model, &self.overlay, self.lowest + index);
            let adjoints = &mut self.adjoints[index];
            pull_back_layer(&pass, &mut self.streams, (tape, adjoints), scratch, depth);
        }
        self.passes.backward += seeds.iter().filter(|&&seed| seed != R::ZERO).count() as u64;
        self.passes.backward_tokens += self.layout.rows() as u64;
        Ok(())
    }

    /// Buffers for the adjoint, once.
    fn allocate_adjoints(&mut self) {
        if self.adjoint_scratch.is_some() {
            return;
        }
        let config = self.model.config();
        let (rows, sequences) = (self.layout.rows(), self.layout.sequences());
        let largest = rows.max(sequences);
        let zeros = |size: usize| vec![R::ZERO; size];
        self.adjoints = (self.lowest..config.layers)
            .map(|layer| LayerAdjoints {
                kept: BlockKind::ALL.map(|kind| {
                    let outputs = self.model.shape(kind).1;
                    let size = self.rows_of(layer, kind) * outputs;
                    zeros(if self.needs(layer, kind) { size } else { 0 })
                }),
            })
            .collect();
        self.adjoint_scratch = Some(AdjointScratch {
            outputs: BlockKind::ALL.map(|kind| match kind {
                // These two are the stream itself.
                BlockKind::Output | BlockKind::MlpDown => Vec::new(),
                _ => zeros(largest * self.model.shape(kind).1),
            }),
            normed: zeros(largest * config.width),
            mixed: zeros(largest * config.width),
            gathered: zeros(sequences * config.width),
            scores: zeros(
                self.plans
                    .everywhere
                    .largest_group()
                    .max(self.plans.at_readouts.largest_group()),
            ),
        });
    }

    /// The prediction of each sequence at the last forward pass.
    #[must_use]
    pub fn predictions(&self) -> &[R] {
        &self.readout.predictions
    }

    /// What was run so far.
    #[must_use]
    pub fn passes(&self) -> PassCount {
        self.passes
    }

    /// The sequences.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn model(&self) -> &'m Network<R> {
        self.model
    }

    /// A matrix `[in, out]`, as updated.
    pub(crate) fn weight(&self, layer: usize, kind: BlockKind) -> View<'_, R> {
        self.model.weight(&self.overlay, layer, kind)
    }

    /// The blocks it was made for.
    pub(crate) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Number of rows that a matrix is applied to.
    fn rows_of(&self, layer: usize, kind: BlockKind) -> usize {
        match kind {
            BlockKind::Value | BlockKind::Key => self.layout.rows(),
            _ => self.plans.of(layer).queries(),
        }
    }

    /// The rows of each sequence among those that a matrix is applied to; for a layout in which
    /// nothing is shared.
    pub(crate) fn ranges(&self, layer: usize, kind: BlockKind) -> Vec<Range<usize>> {
        if layer == self.plans.last && !matches!(kind, BlockKind::Value | BlockKind::Key) {
            return (0..self.layout.sequences()).map(|index| index..index + 1).collect();
        }
        self.layout.segments().iter().map(|segment| segment.rows.clone()).collect()
    }

    /// `a`: the inputs of a matrix that blocks were asked for, `[rows, in]`.
    pub(crate) fn inputs(&self, layer: usize, kind: BlockKind) -> Cow<'_, [R]> {
        let tape = &self.layers[layer - self.lowest];
        let weights = &self.model.layers[layer];
        let (normalised, norm) = match kind {
            BlockKind::Output => return Cow::Borrowed(&tape.mixed),
            BlockKind::MlpDown => return Cow::Borrowed(&tape.activated),
            BlockKind::MlpUp => (&tape.mlp_normalised, &weights.mlp_norm),
            _ => (&tape.attention_normalised, &weights.attention_norm),
        };
        let mut inputs = vec![R::ZERO; normalised.len()];
        affine(normalised, norm, &mut inputs);
        if kind == BlockKind::Query && layer == self.plans.last {
            let width = self.model.config().width;
            let mut asked = vec![R::ZERO; self.plans.readouts.len() * width];
            gather(&inputs, &self.plans.readouts, width, &mut asked);
            return Cow::Owned(asked);
        }
        Cow::Owned(inputs)
    }

    /// `b`: the adjoint of the outputs of a matrix that blocks were asked for, `[rows, out]`.
    pub(crate) fn outputs_adjoint(&self, layer: usize, kind: BlockKind) -> &[R] {
        &self.adjoints[layer - self.lowest].kept[kind as usize]
    }

    /// The probabilities with which the last token of a sequence attends, one list per head, and
    /// the rows that it attends to.
    pub(crate) fn attention_at_readout(
        &self,
        layer: usize,
        sequence: usize,
    ) -> (Vec<usize>, Vec<&[R]>) {
        let tape = &self.layers[layer - self.lowest];
        let seen = self.layout.seen_by(sequence).into_iter().flatten().collect();
        let row = self.plans.readouts[sequence];
        let query = if layer == self.plans.last { sequence } else { row };
        (seen, self.plans.of(layer).row(&tape.probabilities, query))
    }

    /// The adjoint of the projection's output at the last token of each sequence.
    pub(crate) fn projection_adjoint_at_readouts(&self, layer: usize) -> Vec<R> {
        let adjoint = self.outputs_adjoint(layer, BlockKind::Output);
        if layer == self.plans.last {
            return adjoint.to_vec();
        }
        let width = self.model.config().width;
        let mut asked = vec![R::ZERO; self.plans.readouts.len() * width];
        gather(adjoint, &self.plans.readouts, width, &mut asked);
        asked
    }

    /// Calls `visit` with each block's number, inputs and adjoints of outputs, in order.
    pub(crate) fn for_each_factor(
        &self,
        mut visit: impl FnMut(usize, View<'_, R>, View<'_, R>),
    ) {
        let mut inputs: Option<(usize, BlockKind, Cow<'_, [R]>)> = None;
        for (index, block) in self.blocks.iter().enumerate() {
            let (layer, kind) = (block.layer(), block.kind());
            let fresh = inputs.as_ref().is_some_and(|(l, k, _)| (*l, *k) == (layer, kind));
            if !fresh {
                inputs = Some((layer, kind, self.inputs(layer, kind)));
            }
            let (_, _, values) = inputs.as_ref().expect("it was set just now");
            let shape = self.model.shape(kind);
            let (rows, columns) = block.place(shape, self.model.config().head_width());
            let count = self.rows_of(layer, kind);
            let left = View::new(values, count, shape.0).columns(rows);
            let right = View::new(self.outputs_adjoint(layer, kind), count, shape.1);
            visit(index, left, right.columns(columns));
        }
    }

    /// `Σ_i seed_i ∂s_i/∂θ` for every block of the tape, after [`Tape::pull_back`].
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] if no adjoint was run.
    pub fn gradient(&self) -> Result<Update<R>, Error> {
        if self.adjoint_scratch.is_none() {
            return Err(Error::Empty { quantity: "list of seeds" });
        }
        let mut gradient = Update::zeros(self.model, &self.blocks)?;
        self.for_each_factor(|index, inputs, outputs| {
            write_gradient(inputs, outputs, &mut gradient.blocks[index].1);
        });
        Ok(gradient)
    }
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

fn run_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    streams: &mut Streams<R>,
    tape: &mut LayerTape<R>,
    scratch: &mut Scratch<R>,
    valid: Valid,
) {
    pass.attend(&streams.rows, tape, scratch, valid);
    match pass.readouts {
        None => pass.transform(&mut streams.rows, tape, scratch),
        Some(rows) => {
            gather(&streams.rows, rows, pass.model.config().width, &mut streams.asked);
            pass.transform(&mut streams.asked, tape, scratch);
        }
    }
}

/// The adjoint of [`run_layer`]; the streams hold adjoints.
fn pull_back_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    streams: &mut Streams<R>,
    (tape, adjoints): (&LayerTape<R>, &mut LayerAdjoints<R>),
    scratch: &mut AdjointScratch<R>,
    depth: Depth,
) {
    let stream = if pass.readouts.is_some() { &mut streams.asked } else { &mut streams.rows };
    pass.transform_adjoint(stream, (tape, &mut *adjoints), scratch, depth);
    if depth > Depth::Output {
        pass.attend_adjoint(tape, adjoints, scratch, depth);
    }
    if depth == Depth::Input {
        if let Some(rows) = pass.readouts {
            streams.rows.fill(R::ZERO);
            let width = pass.model.config().width;
            scatter_add(&streams.asked, rows, width, &mut streams.rows);
        }
        pass.input_adjoint(tape, adjoints, scratch, &mut streams.rows);
    }
}

//! A forward pass that remembers what its adjoint needs, and the adjoint.
//!
//! In: a [`Network`], a [`Layout`], the [`Labels`] and the blocks that may be updated. Out: one
//! prediction per sequence, and after [`Tape::pull_back`] the factors of every block's
//! derivative. Layers below the lowest block are computed once and remembered by their result
//! alone. Running again after an update allocates nothing.

use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::buffer::Buffer;
use crate::config::Config;
use crate::error::Error;
use crate::label_tree::LabelTree;
use crate::labels::Labels;
use crate::layer::{
    AdjointScratch, Depth, Keeps, LayerAdjoints, LayerPass, LayerTape, ReadOuts, Scratch,
    Valid, gather,
};
use crate::layout::Layout;
use crate::lora::FirstFactors;
use crate::network::Network;
use crate::ops::Write;
use crate::overlay::Overlay;
use crate::passes::PassCount;
use crate::real::Real;
use crate::rotary::Rotations;
use crate::token_task::TokenTask;
use crate::update::Update;
use std::sync::Arc;

mod adjoint;
mod factors;
mod firsts;
mod local;
mod plans;
mod readout;

pub(crate) use factors::{Factors, write_gradient};
pub(crate) use local::Context;
use local::{Local, OutputRows, check_local};
pub(crate) use plans::PART_ROWS;
use plans::{Plans, Separate};
use readout::Readout;
pub(crate) use readout::finite;

/// What a derivative is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// Each prediction.
    Predictions,
    /// The logit of every label, for each prediction.
    Logits,
}

impl Outputs {
    fn count(self, labels: &Labels) -> usize {
        match self {
            Self::Predictions => 1,
            Self::Logits => labels.tokens().len(),
        }
    }
}

/// The stream between layers, `[rows, width]`, and after the last one, `[sequences, width]`.
#[derive(Clone, Debug)]
struct Streams<R: Real> {
    rows: Buffer<R>,
    asked: Buffer<R>,
}

impl<R: Real> Streams<R> {
    fn new(layout: &Layout, width: usize) -> Self {
        Self {
            rows: Buffer::new(layout.rows() * width),
            asked: Buffer::new(layout.sequences() * width),
        }
    }
}

/// What a forward pass remembers.
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
/// let layout = Layout::plain(&[vec![0, 1, 2]])?;
/// let mut tape = Tape::new(&model, layout, &labels, &choose_blocks("mlp-down@all", &config)?)?;
/// assert_eq!(tape.predictions(), [0.5]);
/// tape.pull_back(&[1.0])?;
/// // The derivative for a matrix of 8 × 2 weights, which is 0 where all weights are.
/// assert_eq!(tape.gradient()?.blocks()[0].1, [0.0; 16]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tape<R: Real = f32> {
    /// Its weights are shared with the model that it was made for.
    model: Network<R>,
    /// Of the forward pass.
    plans: Plans,
    /// What positions do to queries and keys, if they are rotary.
    rotations: Option<Rotations<R>>,
    /// What keeps sequences apart in the backward pass, if they are not to be added up.
    separate: Option<Separate<R>>,
    /// What derivatives at the read-outs alone need, if these are asked for.
    local: Option<Local<R>>,
    /// The rows of all sequences but the last, if the backward pass skips that one.
    examples: Option<Plans>,
    blocks: Vec<BlockId>,
    /// The first factors of the LoRA blocks, and those that the last update had in their place.
    own_firsts: FirstFactors<R>,
    firsts: FirstFactors<R>,
    lowest: usize,
    depth: Depth,
    /// The stream at the lowest layer, `[rows, width]`.
    input: Buffer<R>,
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
    /// Those of [`Tape::new`], except those about blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Labels, Layout, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// assert_eq!(model.predict(Layout::plain(&[vec![0, 1, 2]])?, &labels)?, [0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn predict(&self, layout: Layout, labels: &Labels) -> Result<Vec<R>, Error> {
        Ok(Tape::start(self, layout, labels, &[])?.readout.predictions)
    }

    /// The logits of every token after each sequence: `[sequences, vocabulary]`, row by row.
    ///
    /// # Errors
    ///
    /// As [`Network::predict`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Layout, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// assert_eq!(model.logits(Layout::plain(&[vec![0, 1], vec![2]])?)?, [0.0; 2 * 5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn logits(&self, layout: Layout) -> Result<Vec<R>, Error> {
        let (sequences, vocabulary) = (layout.sequences(), self.config().vocabulary);
        let labels = Labels::new(vec![0], vec![0.0])?;
        let tape = Tape::start(self, layout, &labels, &[])?;
        // The read-out leaves the output of the final norm behind.
        let mut logits = vec![R::ZERO; sequences * vocabulary];
        self.unembedding().project(Write::Over, &tape.scratch.gathered, &mut logits);
        Ok(logits)
    }
}

impl<R: Real> Tape<R> {
    /// Runs the model forward and remembers what derivatives for `blocks` need.
    ///
    /// First factors of LoRA blocks that come from prompts come from all of these sequences.
    ///
    /// # Errors
    ///
    /// [`Error::SequenceTooLong`] or [`Error::TokenOutOfRange`] for sequences or labels that do
    /// not fit the model, [`Error::Empty`], [`Error::NoSuchBlock`] or [`Error::DuplicateBlock`]
    /// for blocks that it does not have. If first factors come from the sequences,
    /// [`Error::NotFinite`] or [`Error::Core`] for those that have none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Labels, Layout, Network, Parameters, Tape};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// let refused = Tape::new(&model, Layout::plain(&[vec![0]])?, &labels, &[]);
    /// let refused = refused.expect_err("no block is named");
    /// assert_eq!(refused, Error::Empty { quantity: "list of blocks" });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        model.check_blocks(blocks)?;
        let sequences = layout.sequences();
        Self::start(model, layout, labels, blocks)?.with_own_firsts(sequences)
    }

    /// As [`Tape::new`] for the prompts of a task; first factors that come from prompts come from
    /// those that leave one out.
    pub(crate) fn of_task(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        model.check_blocks(blocks)?;
        let tape = Self::start(model, task.layout()?, task.labels(), blocks)?;
        tape.with_own_firsts(task.examples())
    }

    /// As [`Tape::new`] for the updated model: the model as it is, is not run.
    ///
    /// # Errors
    ///
    /// Those of [`Tape::new`], and those of [`Tape::run`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Layout, Network, Parameters, Tape, Update, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
    /// let tape = Tape::of_update(&model, Layout::plain(&[vec![0, 1, 2]])?, &labels, &update)?;
    /// assert_eq!((tape.predictions(), tape.passes().forward), ([0.5].as_slice(), 1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of_update(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        update: &Update<R>,
    ) -> Result<Self, Error> {
        let blocks: Vec<BlockId> = update.blocks.iter().map(|(block, _)| *block).collect();
        model.check_blocks(&blocks)?;
        update.check(model.config())?;
        model.check_layout(&layout)?;
        model.check_tokens(labels.tokens())?;
        let mut tape = Self::allocate(model, layout, labels, &blocks, None);
        tape.own_firsts = update.firsts.clone();
        tape.firsts = update.firsts.clone();
        tape.overlay.set(model, update);
        tape.applied = blocks;
        tape.run_lower_layers(0);
        tape.run_upper_layers();
        Ok(tape)
    }

    /// As [`Tape::of_task`], but the adjoint keeps sequences apart, whatever they share on the
    /// layout.
    ///
    /// Every token goes forward once and backward once for each sequence that it belongs to.
    pub(crate) fn separate(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        Ok(Self::of_task(model, task, blocks)?.kept_apart())
    }

    /// As [`Tape::of_task`], but derivatives are taken at the tokens where predictions are read, and
    /// keys and values of the query's prompt are kept for further ones.
    ///
    /// # Errors
    ///
    /// As [`Tape::of_task`], and [`Error::NoLocalForm`] for a block that has no such derivative.
    pub(crate) fn local(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
        outputs: Outputs,
    ) -> Result<Self, Error> {
        model.check_blocks(blocks)?;
        check_local(blocks)?;
        let (layout, labels) = (task.layout()?, task.labels());
        let local = Local::new(OutputRows::Each(outputs.count(labels)), None);
        let tape = Self::start_with(model, layout, labels, blocks, Some(local))?;
        tape.with_own_firsts(task.examples())
    }

    /// The model as it is at some sequences, with derivatives at their read-outs for the blocks and the
    /// first factors of an update.
    pub(crate) fn local_of_update(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        update: &Update<R>,
    ) -> Result<Self, Error> {
        let blocks: Vec<BlockId> = update.blocks.iter().map(|(block, _)| *block).collect();
        model.check_blocks(&blocks)?;
        check_local(&blocks)?;
        let local = Some(Local::new(OutputRows::Each(1), None));
        let mut tape = Self::start_with(model, layout, labels, &blocks, local)?;
        tape.own_firsts = update.firsts.clone();
        tape.firsts = update.firsts.clone();
        Ok(tape)
    }

    /// The same tape, whose adjoint keeps sequences apart.
    fn kept_apart(mut self) -> Self {
        let config = self.model.config();
        self.separate = Some(Separate::new(&self.plans.layout, config, self.lowest));
        self
    }

    /// The same tape, whose backward pass skips the last sequence, the query: steps have no seed
    /// for it, and the rows that it has alone come last.
    pub(crate) fn of_examples(mut self) -> Self {
        let layout = self.plans.layout.without_last();
        self.examples = layout.map(|layout| Plans::new(layout, self.model.config()));
        self
    }

    /// Every prediction, and the tape with the derivative of each by itself.
    pub(crate) fn differentiated(mut self) -> Result<(Self, Vec<f64>), Error> {
        let predictions = finite(self.predictions(), 0)?;
        self.pull_back_all()?;
        // What is left are factors; they need none of the scratch.
        self.adjoint_scratch = None;
        if let Some(separate) = &mut self.separate {
            (separate.copies, separate.known) = (None, true);
        }
        if self.local.is_some() {
            self.release_seen();
        }
        Ok((self, predictions))
    }

    /// The adjoint of every output with a seed of 1.
    fn pull_back_all(&mut self) -> Result<(), Error> {
        match self.local.as_ref().map(|local| &local.outputs) {
            Some(outputs) if !outputs.is_one_each() => {
                self.pull_back_logits();
                Ok(())
            }
            _ => self.pull_back(&vec![R::ONE; self.plans.layout.sequences()]),
        }
    }

    /// A tape for steps on some of its blocks, which runs nothing again that this one knows of the
    /// model as it is.
    pub(crate) fn acting(mut self, labels: &Labels, blocks: &[BlockId]) -> Result<Self, Error> {
        self.model.check_blocks(blocks)?;
        if let Some(block) = blocks.iter().find(|block| !self.blocks.contains(block)) {
            return Err(Error::BlockNotOnTape { block: block.to_string() });
        }
        let (lowest, depth) = reach(blocks, self.model.config());
        if lowest == self.lowest {
            // What is known of each sequence by itself serves the first step.
            (self.blocks, self.depth) = (blocks.to_vec(), depth);
            self.passes = PassCount::default();
            return Ok(self);
        }
        let Self { model, plans, input, own_firsts, lowest, local, .. } = self;
        let local = local.map(|local| Local::new(local.outputs, local.context));
        let mut tape = Self::allocate(&model, plans.layout, labels, blocks, local);
        tape.streams.rows = input;
        tape.run_lower_layers(lowest);
        tape.run_upper_layers();
        tape.firsts = own_firsts.clone();
        tape.own_firsts = own_firsts;
        Ok(tape)
    }

    /// The blocks of an update; `Err` unless they are blocks of the tape and fit the model.
    fn blocks_of(&self, update: &Update<R>) -> Result<Vec<BlockId>, Error> {
        let updated: Vec<BlockId> = update.blocks.iter().map(|(block, _)| *block).collect();
        if let Some(block) = updated.iter().find(|block| !self.blocks.contains(block)) {
            return Err(Error::BlockNotOnTape { block: block.to_string() });
        }
        update.check(self.model.config())?;
        Ok(updated)
    }

    /// The prediction of the last sequence under an update; nothing else is run, and what the tape
    /// knows of the last pass stays as it is.
    pub(crate) fn run_last_alone(
        &mut self,
        labels: &Labels,
        update: &Update<R>,
    ) -> Result<R, Error> {
        self.blocks_of(update)?;
        let layout = &self.plans.layout;
        let rows: Vec<usize> =
            layout.seen_by(layout.sequences() - 1).into_iter().flatten().collect();
        let tokens = rows.iter().map(|&row| layout.tokens()[row]).collect();
        let layout = Layout::plain(&[tokens])?;
        let mut tape = Self::allocate(&self.model, layout, labels, &self.blocks, None);
        gather(&self.input, &rows, self.model.config().width, &mut tape.input);
        tape.overlay.set(&self.model, update);
        tape.run_upper_layers();
        self.passes.forward += tape.passes.forward;
        self.passes.forward_tokens += tape.passes.forward_tokens;
        Ok(tape.readout.predictions[0])
    }

    /// A tape for other sequences with the same blocks and the same first factors, which keeps
    /// them apart in the backward pass.
    pub(crate) fn for_queries(&self, layout: Layout, labels: &Labels) -> Result<Self, Error> {
        let mut tape = Self::start(&self.model, layout, labels, &self.blocks)?;
        tape.own_firsts = self.own_firsts.clone();
        tape.firsts = self.own_firsts.clone();
        Ok(tape.kept_apart())
    }

    /// A tape for other sequences with the same blocks and first factors, whose derivatives are taken
    /// at their read-outs; what they begin with as the last sequence of this one did is not run again.
    pub(crate) fn behind(
        &self,
        context: &Arc<Context<R>>,
        sequences: &[Vec<u32>],
        labels: &Labels,
    ) -> Result<Self, Error> {
        let layout = context.layout_behind(sequences)?;
        let outputs = self.local.as_ref().map_or(OutputRows::Each(1), |l| l.outputs.clone());
        let local = Some(Local::new(outputs, Some(context.clone())));
        let mut tape = Self::start_with(&self.model, layout, labels, &self.blocks, local)?;
        tape.own_firsts = self.own_firsts.clone();
        tape.firsts = self.own_firsts.clone();
        Ok(tape)
    }

    /// A tape of the questions of a task of classes, prompt by prompt, with derivatives at their
    /// read-outs; first factors that come from prompts come from those of the first examples.
    pub(crate) fn of_labels(
        model: &Network<R>,
        layout: Layout,
        blocks: &[BlockId],
        tree: &LabelTree,
        examples: usize,
    ) -> Result<Self, Error> {
        if !blocks.is_empty() {
            model.check_blocks(blocks)?;
            check_local(blocks)?;
        }
        let local = Some(Local::new(label_rows(tree, layout.sequences()), None));
        let labels = some_label(tree)?;
        let tape = Self::start_with(model, layout, &labels, blocks, local)?;
        tape.with_own_firsts(examples * tree.nodes())
    }

    /// The same for further prompts, with the same blocks and first factors; what they begin with as the
    /// last sequence of this one did is not run again. Limits say what sequences may share.
    pub(crate) fn asking_labels(
        &self,
        context: Option<&Arc<Context<R>>>,
        sequences: &[Vec<u32>],
        limits: &[usize],
        tree: &LabelTree,
    ) -> Result<Self, Error> {
        let layout = match context {
            Some(context) => context.shared_layout_behind(sequences, limits)?,
            None => Layout::shared_within(sequences, limits)?,
        };
        let rows = label_rows(tree, sequences.len());
        let local = Some(Local::new(rows, context.cloned()));
        let labels = some_label(tree)?;
        let mut tape = Self::start_with(&self.model, layout, &labels, &self.blocks, local)?;
        tape.own_firsts = self.own_firsts.clone();
        tape.firsts = self.own_firsts.clone();
        Ok(tape)
    }

    /// What the final norm put out at each read-out in the last forward pass, `[sequences, width]`.
    pub(crate) fn hidden(&self) -> &[R] {
        let size = self.plans.layout.sequences() * self.model.config().width;
        &self.scratch.gathered[..size]
    }

    /// The same tape with the factors of derivatives, from the adjoints of what the final norm puts out,
    /// one row per output, which are written over.
    pub(crate) fn pulled_back(mut self, normed: &mut [R]) -> Self {
        self.pull_back_normed(normed);
        self.adjoint_scratch = None;
        self.release_seen();
        self
    }

    /// The same tape without what another pass would write over: its factors are left.
    pub(crate) fn at_rest(mut self) -> Self {
        let nothing = || Buffer::new(0);
        self.input = nothing();
        self.streams = Streams { rows: nothing(), asked: nothing() };
        self.scratch = Scratch { normed: nothing(), gathered: nothing(), activated: nothing() };
        self.adjoint_scratch = None;
        self
    }

    /// About how many bytes it holds beside the model, once it is at rest.
    pub(crate) fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(LayerTape::numbers).sum();
        let adjoints: usize = self.adjoints.iter().map(LayerAdjoints::numbers).sum();
        (layers + adjoints + self.input.len()) * size_of::<R>()
    }

    /// The predictions for such sequences without any derivative, of which nothing is kept.
    pub(crate) fn predict_behind(
        &self,
        context: &Arc<Context<R>>,
        sequences: &[Vec<u32>],
        labels: &Labels,
    ) -> Result<Vec<R>, Error> {
        let layout = context.layout_behind(sequences)?;
        let local = Some(Local::new(OutputRows::Each(1), Some(context.clone())));
        Ok(Self::start_with(&self.model, layout, labels, &[], local)?.readout.predictions)
    }

    /// Keys and values of the last sequence, for those that begin as it does.
    pub(crate) fn take_context(&mut self) -> Option<Context<R>> {
        self.local.as_mut().and_then(|local| local.path.take())
    }

    fn start(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        Self::start_with(model, layout, labels, blocks, None)
    }

    fn start_with(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
        local: Option<Local<R>>,
    ) -> Result<Self, Error> {
        model.check_layout(&layout)?;
        model.check_tokens(labels.tokens())?;
        let mut tape = Self::allocate(model, layout, labels, blocks, local);
        if tape.plans.layout.computed_before() == 0 {
            tape.keep_path();
        }
        tape.run_lower_layers(0);
        tape.run_upper_layers();
        Ok(tape)
    }

    /// All buffers, for a layout that fits the model.
    fn allocate(
        model: &Network<R>,
        layout: Layout,
        labels: &Labels,
        blocks: &[BlockId],
        local: Option<Local<R>>,
    ) -> Self {
        let config = model.config();
        let (rows, sequences, width) = (layout.rows(), layout.sequences(), config.width);
        let (lowest, depth) = reach(blocks, config);
        let longest = layout.lengths().iter().copied().max().unwrap_or(0);
        let rotations =
            config.rotary().map(|rotary| Rotations::new(rotary, config.head_width(), longest));
        let mut tape = Self {
            model: model.clone(),
            rotations,
            depth,
            lowest,
            input: Buffer::new(rows * width),
            streams: Streams::new(&layout, width),
            layers: Vec::new(),
            adjoints: Vec::new(),
            scratch: Scratch {
                normed: Buffer::new(rows * width.max(config.attention_width())),
                gathered: Buffer::new(sequences * width),
                activated: Buffer::new(rows.max(sequences) * config.inner),
            },
            adjoint_scratch: None,
            readout: Readout::new(model, labels, sequences),
            overlay: Overlay::none(model),
            applied: Vec::new(),
            valid: Valid::default(),
            passes: PassCount::default(),
            blocks: blocks.to_vec(),
            own_firsts: FirstFactors::none(),
            firsts: FirstFactors::none(),
            plans: Plans::new(layout, config),
            separate: None,
            local,
            examples: None,
        };
        tape.layers = (lowest..config.layers)
            .map(|layer| {
                if tape.local.is_some() {
                    return tape.local_layer(layer);
                }
                let sizes = tape.plans.sizes(layer, config);
                // What heads of the lowest layer mix stays the same if no block is below it.
                let same = layer == lowest && depth <= Depth::Output;
                let mixed = same || tape.needs(layer, BlockKind::Output);
                let activated = tape.needs(layer, BlockKind::MlpDown);
                LayerTape::new(&sizes, Keeps { mixed, activated })
            })
            .collect();
        tape
    }

    /// Whether a block that updates this matrix, or these norms, is asked for.
    fn needs(&self, layer: usize, kind: BlockKind) -> bool {
        self.blocks.iter().any(|block| block.updates(layer, kind))
    }

    /// From the stream that enters a layer, or from the tokens if that is the first one, to the
    /// stream at the lowest layer; nothing else is kept.
    fn run_lower_layers(&mut self, from: usize) {
        if from == 0 {
            self.model.embed(&self.plans.layout, &mut self.streams.rows);
        }
        if self.local.is_some() {
            self.run_local_layers(from..self.lowest, Sequences::All);
        } else if from < self.lowest {
            let sizes = self.plans.largest_sizes(from..self.lowest, self.model.config());
            let mut tape = LayerTape::new(&sizes, Keeps::default());
            for layer in from..self.lowest {
                let (overlay, rotations) = (&self.overlay, self.rotations.as_ref());
                let pass = self.plans.pass(&self.model, overlay, rotations, layer);
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
        self.run_upper_layers_for(Sequences::All);
    }

    fn run_upper_layers_for(&mut self, sequences: Sequences) {
        let plans = match (sequences, &self.examples) {
            (Sequences::Examples, Some(plans)) => plans,
            _ => &self.plans,
        };
        let (width, layout) = (self.model.config().width, &plans.layout);
        let (rows, asked) = (layout.rows() * width, layout.sequences() * width);
        let (counted, tokens) = (layout.sequences() as u64, layout.rows() as u64);
        self.streams.rows[..rows].copy_from_slice(&self.input[..rows]);
        if self.local.is_some() {
            self.run_local_layers(self.lowest..self.model.config().layers, sequences);
        } else {
            self.run_whole_layers(sequences);
        }
        let normed = &mut self.scratch.gathered[..asked];
        self.readout.run(&self.model, &self.streams.asked[..asked], normed);
        self.passes.forward += counted;
        self.passes.forward_tokens += tokens;
    }

    /// Layers from the lowest one up, of which everything is kept that an adjoint may need.
    fn run_whole_layers(&mut self, sequences: Sequences) {
        let plans = match (sequences, &self.examples) {
            (Sequences::Examples, Some(plans)) => plans,
            _ => &self.plans,
        };
        for (index, tape) in self.layers.iter_mut().enumerate() {
            let valid = if index == 0 { self.valid } else { Valid::default() };
            let (overlay, rotations) = (&self.overlay, self.rotations.as_ref());
            let pass = plans.pass(&self.model, overlay, rotations, self.lowest + index);
            run_layer(&pass, &mut self.streams, tape, &mut self.scratch, valid);
        }
    }

    /// Runs the updated model forward; the model itself stays as it is.
    ///
    /// The first factors of LoRA blocks are those of the update, also in derivatives that are taken
    /// there.
    ///
    /// # Errors
    ///
    /// [`Error::BlockNotOnTape`] for an update of a block that the tape was not made for, and
    /// [`Error::SizeMismatch`] for one that was made for another model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Layout, Network, Parameters, Tape, Update, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let layout = Layout::plain(&[vec![0, 1, 2]])?;
    /// let mut tape = Tape::new(&model, layout, &labels, &blocks)?;
    /// assert_eq!(tape.run(&Update::zeros(&model, &blocks)?)?, [0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn run(&mut self, update: &Update<R>) -> Result<&[R], Error> {
        self.run_for(Sequences::All, update)
    }

    /// As [`Tape::run`]; the predictions of other sequences stay as they were.
    pub(crate) fn run_for(
        &mut self,
        sequences: Sequences,
        update: &Update<R>,
    ) -> Result<&[R], Error> {
        let updated = self.blocks_of(update)?;
        if self.separate.take().is_some() {
            // It was at the weights before.
            (self.adjoint_scratch, self.adjoints) = (None, Vec::new());
        }
        if let Some(local) = &mut self.local {
            (local.known, local.weights) = (false, None);
        }
        self.firsts = self.own_firsts.clone();
        for (block, first) in update.firsts.iter() {
            self.firsts.set(*block, first.clone());
        }
        // In the lowest layer, what no update touches now or touched last time is still valid.
        let touched = |kind: BlockKind| {
            let here = |block: &BlockId| block.updates(self.lowest, kind);
            updated.iter().any(here) || self.applied.iter().any(here)
        };
        // An updated norm leaves what it normalised valid, and nothing that is made of its output.
        let same = |kind: BlockKind| !touched(kind) && !touched(BlockKind::Norm);
        self.valid = Valid {
            norm: true,
            queries: same(BlockKind::Query),
            keys: same(BlockKind::Key),
            values: same(BlockKind::Value),
        };
        if updated != self.applied {
            self.overlay = Overlay::none(&self.model);
            self.applied = updated;
        }
        self.overlay.set(&self.model, update);
        self.run_upper_layers_for(sequences);
        Ok(&self.readout.predictions)
    }

    /// The prediction of each sequence at the last forward pass.
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
    /// let layout = Layout::plain(&[vec![0], vec![1]])?;
    /// assert_eq!(Tape::new(&model, layout, &labels, &blocks)?.predictions(), [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn predictions(&self) -> &[R] {
        &self.readout.predictions
    }

    /// What was run so far.
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
    /// let layout = Layout::shared(&[vec![0, 1], vec![0, 2]])?;
    /// let passes = Tape::new(&model, layout, &labels, &blocks)?.passes();
    /// assert_eq!((passes.forward, passes.forward_tokens, passes.backward), (2, 3, 0));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn passes(&self) -> PassCount {
        self.passes
    }

    /// The sequences, as they went forward.
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
    /// let layout = Layout::shared(&[vec![0, 1], vec![0, 2]])?;
    /// assert_eq!(Tape::new(&model, layout, &labels, &blocks)?.layout().rows(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.plans.layout
    }

    pub(crate) fn model(&self) -> &Network<R> {
        &self.model
    }
}

/// The sequence of each edge of a tree of labels, for all prompts.
fn label_rows(tree: &LabelTree, sequences: usize) -> OutputRows {
    let nodes = tree.nodes();
    let of = |first: usize| tree.edges().iter().map(move |&(node, _)| first + node);
    OutputRows::Listed((0..sequences / nodes).flat_map(|prompt| of(prompt * nodes)).collect())
}

/// What a tape predicts that is asked for nothing but what the final norm puts out.
fn some_label(tree: &LabelTree) -> Result<Labels, Error> {
    Labels::new(vec![tree.edges()[0].1], vec![0.0])
}

/// Which sequences are run: all, or all but the last, the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequences {
    All,
    Examples,
}

/// The lowest layer of some blocks, or the end of the model, and how far down it must be followed.
fn reach(blocks: &[BlockId], config: &Config) -> (usize, Depth) {
    let lowest = blocks.iter().map(BlockId::layer).min().unwrap_or(config.layers);
    let depths = blocks.iter().filter(|block| block.layer() == lowest);
    (lowest, depths.map(|block| Depth::of(block.kind())).max().unwrap_or(Depth::MlpDown))
}

fn run_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    streams: &mut Streams<R>,
    tape: &mut LayerTape<R>,
    scratch: &mut Scratch<R>,
    valid: Valid,
) {
    let width = pass.model.config().width;
    let stream = &mut streams.rows[..pass.positions.len() * width];
    pass.attend(stream, tape, scratch, valid);
    match pass.readouts {
        None => pass.transform(stream, tape, scratch),
        Some(ReadOuts { rows, .. }) => {
            let asked = &mut streams.asked[..rows.len() * width];
            gather(stream, rows, width, asked);
            pass.transform(asked, tape, scratch);
        }
    }
}

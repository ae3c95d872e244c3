//! Derivatives taken at the tokens where predictions are read: one row back per output.
//!
//! In: a forward pass over all tokens. Out: factors with one row per prediction. The derivative of
//! a prediction for a matrix is a sum over the tokens of its prompt; here it is the term of the
//! read-out alone, and what the other tokens pass on is constant (the single-position form of
//! Sec. 3.3). In the last layer there is no other term. Keys and values of the other tokens are kept
//! for the backward pass, and nothing else of them.

use super::plans::Plans;
use super::readout::RowSeeds;
use super::{Sequences, Streams, Tape};
use crate::attention::{AttentionPlan, HeadCounts};
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::buffer::Buffer;
use crate::config::Config;
use crate::error::Error;
use crate::layer::{
    Depth, Keeps, LayerBackward, LayerPass, LayerSizes, LayerTape, LocalForward, LocalKeep,
    Sums, gather,
};
use crate::layout::Layout;
use crate::real::Real;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// What a tape has beside the others if derivatives are taken at the read-outs alone.
#[derive(Clone, Debug)]
pub(super) struct Local<R: Real> {
    /// How many derivatives each prediction has: of itself, or of the logit of each label.
    pub(super) outputs: OutputRows,
    /// What was computed before the tokens of the layout.
    pub(super) context: Option<Arc<Context<R>>>,
    /// What further sequences may see of the last one.
    pub(super) path: Option<Context<R>>,
    /// Whether the adjoint of every output is known at the last forward pass.
    pub(super) known: bool,
    /// What the outputs are weighed with, once that is asked for.
    pub(super) weights: Option<Vec<R>>,
}

/// Which read-out each output belongs to.
#[derive(Clone, Debug)]
pub(super) enum OutputRows {
    /// Every sequence has this number of outputs.
    Each(usize),
    /// The sequence of each output, in ascending order.
    Listed(Arc<[usize]>),
}

impl OutputRows {
    /// The sequence of each output.
    pub(super) fn sequences(&self, sequences: usize) -> Vec<usize> {
        match self {
            Self::Each(outputs) => {
                (0..sequences).flat_map(|index| std::iter::repeat_n(index, *outputs)).collect()
            }
            Self::Listed(rows) => rows.to_vec(),
        }
    }

    /// The number of outputs of this number of sequences.
    pub(super) fn count(&self, sequences: usize) -> usize {
        match self {
            Self::Each(outputs) => sequences * outputs,
            Self::Listed(rows) => rows.len(),
        }
    }

    /// The largest number of outputs of one sequence.
    pub(super) fn most(&self) -> usize {
        match self {
            Self::Each(outputs) => *outputs,
            Self::Listed(rows) => {
                rows.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap_or(0)
            }
        }
    }

    /// Whether every sequence has one output.
    pub(super) fn is_one_each(&self) -> bool {
        matches!(self, Self::Each(1))
    }
}

impl<R: Real> Local<R> {
    pub(super) fn new(outputs: OutputRows, context: Option<Arc<Context<R>>>) -> Self {
        Self { outputs, context, path: None, known: false, weights: None }
    }
}

/// Keys and values of tokens that were computed before, layer by layer.
#[derive(Clone, Debug)]
pub(crate) struct Context<R: Real> {
    pub(crate) tokens: Vec<u32>,
    layers: Vec<ContextLayer<R>>,
}

#[derive(Clone, Debug)]
struct ContextLayer<R: Real> {
    keys: Buffer<R>,
    values: Buffer<R>,
    /// Normalised inputs, if value blocks are made of them.
    normalised: Buffer<R>,
}

impl<R: Real> Context<R> {
    /// About how many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        let numbers = |layer: &ContextLayer<R>| {
            layer.keys.len() + layer.values.len() + layer.normalised.len()
        };
        let numbers: usize = self.layers.iter().map(numbers).sum();
        numbers * size_of::<R>() + self.tokens.len() * size_of::<u32>()
    }

    /// Sequences behind as many of these tokens as all of them begin with.
    pub(crate) fn layout_behind(&self, sequences: &[Vec<u32>]) -> Result<Layout, Error> {
        let shared = sequences.iter().map(|sequence| self.shared_with(sequence));
        let shared = shared.min().unwrap_or(0);
        let own: Vec<Vec<u32>> =
            sequences.iter().map(|sequence| sequence[shared..].to_vec()).collect();
        Layout::behind(shared, &own)
    }

    /// As [`Context::layout_behind`], where sequences share what they begin with, within limits.
    pub(crate) fn shared_layout_behind(
        &self,
        sequences: &[Vec<u32>],
        limits: &[usize],
    ) -> Result<Layout, Error> {
        let shared = sequences.iter().map(|sequence| self.shared_with(sequence));
        let shared = shared.min().unwrap_or(0);
        let own: Vec<Vec<u32>> =
            sequences.iter().map(|sequence| sequence[shared..].to_vec()).collect();
        let left: Vec<usize> =
            limits.iter().map(|limit| limit.saturating_sub(shared)).collect();
        Layout::shared_behind(shared, &own, &left)
    }

    /// How many tokens at the beginning of a sequence are these, and at least one is not.
    fn shared_with(&self, sequence: &[u32]) -> usize {
        let before = &sequence[..sequence.len().saturating_sub(1)];
        before.iter().zip(&self.tokens).take_while(|(a, b)| a == b).count()
    }
}

/// The read-outs as the rows of a backward pass.
struct OwnRows {
    plan: AttentionPlan,
    positions: Vec<usize>,
    sums: Sums,
    /// The sequence of each row.
    sequences: Vec<usize>,
}

impl OwnRows {
    fn new(layout: &Layout, config: &Config, sequences: Vec<usize>) -> Self {
        let readouts: Vec<usize> = layout.readout_rows().collect();
        let position = |&sequence: &usize| layout.positions()[readouts[sequence]];
        let alone = |row: usize| row..row + 1;
        Self {
            plan: AttentionPlan::at_readouts_of(layout, HeadCounts::of(config), &sequences),
            positions: sequences.iter().map(position).collect(),
            sums: Sums::apart((0..sequences.len()).map(alone).collect()),
            sequences,
        }
    }
}

/// `Err` for a block whose derivative is made of other tokens' keys.
pub(super) fn check_local(blocks: &[BlockId]) -> Result<(), Error> {
    match blocks.iter().find(|block| block.kind() == BlockKind::Key) {
        Some(block) => Err(Error::NoLocalForm { block: block.to_string() }),
        None => Ok(()),
    }
}

impl<R: Real> Tape<R> {
    /// What is kept of the read-outs of a layer.
    pub(super) fn local_layer(&self, layer: usize) -> LayerTape<R> {
        let (config, layout) = (self.model.config(), &self.plans.layout);
        let sequences = layout.sequences();
        let folded = sequences * config.heads * config.width;
        let values = self.needs(layer, BlockKind::Value);
        let key_values = layout.seen_rows() * config.key_value_width();
        let sizes = LayerSizes {
            rows: sequences,
            keys: key_values,
            values: key_values,
            asking: 0,
            mixed_inputs: if values { folded } else { 0 },
            asked: sequences,
            probabilities: self.plans.at_readouts.probabilities(),
            ..self.plans.sizes(layer, config)
        };
        let mixed = self.needs(layer, BlockKind::Output);
        LayerTape::new(
            &sizes,
            Keeps { mixed, activated: self.needs(layer, BlockKind::MlpDown) },
        )
    }

    /// Runs some layers, of which those from the lowest one up keep what their read-outs need.
    pub(super) fn run_local_layers(&mut self, layers: Range<usize>, sequences: Sequences) {
        let config = self.model.config();
        let plans = match (sequences, &self.examples) {
            (Sequences::Examples, Some(plans)) => plans,
            _ => &self.plans,
        };
        let local = self.local.as_mut().expect("the tape is local");
        let layout = &plans.layout;
        let key_values = layout.seen_rows() * config.key_value_width();
        let mut ascending: Vec<(usize, usize)> = plans
            .readouts
            .iter()
            .copied()
            .enumerate()
            .map(|(index, row)| (row, index))
            .collect();
        ascending.sort_unstable();
        let mut tape = LayerTape::new(&forward_sizes(plans, config), Keeps::default());
        let mut scores = Buffer::new(plans.group_scores());
        let path: Vec<usize> = match sequences {
            Sequences::All if layout.computed_before() == 0 => {
                layout.seen_by(layout.sequences() - 1).into_iter().flatten().collect()
            }
            _ => Vec::new(),
        };
        // They were let go if the adjoint is known.
        let room = |buffer: Buffer<R>| match buffer.len() < key_values {
            true => Buffer::new(key_values),
            false => buffer,
        };
        let blocks = &self.blocks;
        for layer in layers {
            let mut kept = layer.checked_sub(self.lowest).map(|index| &mut self.layers[index]);
            let (mut keys, mut values) = match &mut kept {
                Some(kept) => (
                    room(mem::replace(&mut kept.keys, Buffer::new(0))),
                    room(mem::replace(&mut kept.values, Buffer::new(0))),
                ),
                None => (Buffer::new(key_values), Buffer::new(key_values)),
            };
            let earlier = local.context.as_ref().map(|context| &context.layers[layer]);
            if let Some(earlier) = earlier {
                let size = layout.computed_before() * config.key_value_width();
                keys[..size].copy_from_slice(&earlier.keys[..size]);
                values[..size].copy_from_slice(&earlier.values[..size]);
            }
            let before = layout.computed_before() * config.width;
            let mut forward = LocalForward {
                tape: &mut tape,
                scratch: &mut self.scratch,
                keys: &mut keys[..key_values],
                values: &mut values[..key_values],
                earlier: earlier.map_or(&[], |earlier| {
                    &earlier.normalised[..before.min(earlier.normalised.len())]
                }),
                scores: &mut scores,
            };
            let (overlay, rotations) = (&self.overlay, self.rotations.as_ref());
            let pass = plans.pass(&self.model, overlay, rotations, layer);
            let keep = kept.as_mut().map(|tape| LocalKeep {
                tape,
                rows: &plans.readouts,
                ascending: &ascending,
                plan: &plans.at_readouts,
            });
            run_layer(&pass, &mut self.streams, &mut forward, keep);
            if let Some(found) = local.path.as_mut().filter(|_| !path.is_empty()) {
                let inputs = blocks.iter().any(|block| block.updates(layer, BlockKind::Value));
                let of = |values: &[R], width: usize| {
                    let mut rows = Buffer::new(path.len() * width);
                    gather(values, &path, width, &mut rows);
                    rows
                };
                let width = config.key_value_width();
                let normalised = match inputs {
                    true => of(&forward.tape.attention_normalised, config.width),
                    false => Buffer::new(0),
                };
                let (keys, values) = (of(forward.keys, width), of(forward.values, width));
                found.layers.truncate(layer);
                found.layers.push(ContextLayer { keys, values, normalised });
            }
            if let Some(kept) = kept {
                (kept.keys, kept.values) = (keys, values);
            }
        }
    }

    /// Lets go of the keys and values, which only the adjoint needs.
    pub(super) fn release_seen(&mut self) {
        for layer in &mut self.layers {
            (layer.keys, layer.values) = (Buffer::new(0), Buffer::new(0));
        }
    }

    /// Remembers keys and values of the last sequence from here on.
    pub(super) fn keep_path(&mut self) {
        let layout = &self.plans.layout;
        let rows = layout.seen_by(layout.sequences() - 1).into_iter().flatten();
        let tokens = rows.map(|row| layout.tokens()[row]).collect();
        if let Some(local) = &mut self.local {
            local.path = Some(Context { tokens, layers: Vec::new() });
        }
    }

    /// Weighs the predictions, whose adjoints are taken at most once for a forward pass.
    pub(super) fn weigh_rows(&mut self, seeds: &[R]) {
        let known = self.local.as_ref().is_some_and(|local| local.known);
        if !known {
            let sequences = self.examples.as_ref().unwrap_or(&self.plans).layout.sequences();
            let logits = self.readout.logits_of(&vec![R::ONE; sequences]);
            self.pull_back_rows(&logits);
        }
        if let Some(local) = &mut self.local {
            local.known = true;
            let ones = seeds.iter().all(|&seed| seed == R::ONE);
            local.weights = (!ones).then(|| seeds.to_vec());
        }
    }

    /// The adjoint of the logit of every label, for each sequence.
    pub(super) fn pull_back_logits(&mut self) {
        let (labels, sequences) = (self.readout.labels(), self.plans.layout.sequences());
        let one =
            |at: usize| if at / labels % labels == at % labels { R::ONE } else { R::ZERO };
        let logits: Vec<R> = (0..sequences * labels * labels).map(one).collect();
        self.pull_back_rows(&logits);
        if let Some(local) = &mut self.local {
            local.known = true;
        }
    }

    /// The adjoint of every output by itself; `logits [sequences · outputs, labels]` are the seeds.
    pub(super) fn pull_back_rows(&mut self, logits: &[R]) {
        let rows = logits.len() / self.readout.labels();
        let mut normed = Buffer::new(rows * self.model.config().width);
        self.readout.adjoint_of_logits(&self.model, logits, &mut normed);
        self.pull_back_normed(&mut normed);
    }

    /// As [`Tape::pull_back_rows`] from the adjoints of what the final norm puts out,
    /// `[outputs, width]`, which are written over.
    pub(crate) fn pull_back_normed(&mut self, normed: &mut [R]) {
        let config = &self.model.config().clone();
        let layout = &self.examples.as_ref().unwrap_or(&self.plans).layout;
        let outputs = self.local.as_ref().map_or(&OutputRows::Each(1), |local| &local.outputs);
        let alone = outputs.is_one_each();
        let own = OwnRows::new(layout, config, outputs.sequences(layout.sequences()));
        let mut stream = Buffer::new(own.sequences.len() * config.width);
        let seeds = RowSeeds { sequences: &own.sequences, values: normed };
        self.readout.adjoint_of_normed(&self.model, seeds, &mut stream);
        self.allocate_adjoints();
        self.scratch.make_room(own.sequences.len(), config);
        self.lend();
        let scratch = self.adjoint_scratch.as_mut().expect("it was allocated before");
        for (index, tape) in self.layers.iter_mut().enumerate().rev() {
            let depth = if index == 0 { self.depth } else { Depth::Input };
            let pass = LayerPass {
                model: &self.model,
                overlay: &self.overlay,
                layer: self.lowest + index,
                plan: &own.plan,
                readouts: None,
                positions: &own.positions,
                rotations: self.rotations.as_ref(),
                sums: &own.sums,
            };
            let adjoints = &mut self.adjoints[index];
            if alone {
                let backward = LayerBackward { tape, adjoints, scratch, depth };
                pull_back_layer(&pass, &mut stream, backward);
                continue;
            }
            let mut repeated = repeat(tape, &own, &self.plans.at_readouts, config);
            mem::swap(&mut repeated.keys, &mut tape.keys);
            mem::swap(&mut repeated.values, &mut tape.values);
            let backward = LayerBackward { tape: &repeated, adjoints, scratch, depth };
            pull_back_layer(&pass, &mut stream, backward);
            mem::swap(&mut repeated.keys, &mut tape.keys);
            mem::swap(&mut repeated.values, &mut tape.values);
        }
        self.lend();
        self.passes.backward += own.sequences.len() as u64;
        self.passes.backward_tokens += own.sequences.len() as u64;
    }
}

/// What a forward pass writes over in every layer.
fn forward_sizes(plans: &Plans, config: &Config) -> LayerSizes {
    let rows = plans.layout.rows();
    let sizes = plans.sizes(0, config);
    let nothing = LayerSizes { keys: 0, values: 0, asking: 0, mixed_inputs: 0, ..sizes };
    LayerSizes { asked: rows.max(plans.layout.sequences()), probabilities: 0, ..nothing }
}

fn run_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    streams: &mut Streams<R>,
    forward: &mut LocalForward<'_, R>,
    mut keep: Option<LocalKeep<'_, R>>,
) {
    let width = pass.model.config().width;
    let stream = &mut streams.rows[..pass.positions.len() * width];
    pass.attend_in_groups(stream, forward, keep.as_mut());
    match pass.readouts {
        None => pass.transform(stream, forward.tape, forward.scratch),
        Some(readouts) => {
            let asked = &mut streams.asked[..readouts.rows.len() * width];
            gather(stream, readouts.rows, width, asked);
            pass.transform(asked, forward.tape, forward.scratch);
        }
    }
    if let Some(keep) = &mut keep {
        pass.keep_transformed(forward, keep);
    }
}

/// The adjoint of a layer at the read-outs, in place in `stream [rows, width]`.
fn pull_back_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    stream: &mut [R],
    mut backward: LayerBackward<'_, R>,
) {
    let depth = backward.depth;
    pass.transform_adjoint(stream, &mut backward);
    if depth > Depth::Output {
        pass.attend_adjoint_at_own(&mut backward);
    }
    if depth >= Depth::Norm {
        pass.normed_adjoint_at_own(&mut backward);
    }
    if depth == Depth::Input {
        pass.input_adjoint(stream, &mut backward);
    }
}

/// What was kept of each read-out, once for each of its outputs, without keys and values.
fn repeat<R: Real>(
    tape: &LayerTape<R>,
    own: &OwnRows,
    plan: &AttentionPlan,
    config: &Config,
) -> LayerTape<R> {
    let of = |values: &[R], width: usize| {
        let mut rows =
            Buffer::new(if values.is_empty() { 0 } else { own.sequences.len() * width });
        gather(values, &own.sequences, width, &mut rows);
        rows
    };
    let mut probabilities = Buffer::new(own.plan.probabilities());
    own.plan.copy_probabilities(&mut probabilities, plan, &tape.probabilities, &own.sequences);
    let nothing = || Buffer::new(0);
    LayerTape {
        attention_normalised: of(&tape.attention_normalised, config.width),
        attention_inverse: of(&tape.attention_inverse, 1),
        queries: of(&tape.queries, config.attention_width()),
        keys: nothing(),
        values: nothing(),
        asking: nothing(),
        mixed_inputs: nothing(),
        probabilities,
        mixed: nothing(),
        mlp_normalised: of(&tape.mlp_normalised, config.width),
        mlp_inverse: of(&tape.mlp_inverse, 1),
        slopes: of(&tape.slopes, config.inner),
        gate_slopes: of(&tape.gate_slopes, config.inner),
        activated: nothing(),
    }
}

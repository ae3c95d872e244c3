//! The backward pass of a tape: from the predictions down to the lowest block.
//!
//! In: one seed per sequence, at the last forward pass. Out: the adjoints that the factors of the
//! blocks are made of, of the sum over sequences, or of every sequence by itself.

use super::plans::{ForwardLayer, Part, Plans};
use super::{Streams, Tape};
use crate::block_kind::BlockKind;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::layer::{
    AdjointScratch, Depth, LayerAdjoints, LayerBackward, LayerPass, ReadOuts, scatter_add,
};
use crate::network::KINDS;
use crate::real::Real;
use std::mem;
use std::ops::Range;

impl<R: Real> Tape<R> {
    /// Runs the adjoint of `Σ_i seed_i s_i` down to the lowest block, at the last forward pass.
    ///
    /// No gradient of a weight is formed: afterwards every block's derivative is known by its
    /// factors, the inputs of its matrix and the adjoints of the outputs.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless there is one seed per sequence.
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
    /// let refused = tape.pull_back(&[1.0, 1.0]);
    /// let quantity = "seeds";
    /// assert_eq!(refused, Err(Error::SizeMismatch { quantity, found: 2, expected: 1 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn pull_back(&mut self, seeds: &[R]) -> Result<(), Error> {
        let (found, expected) = (seeds.len(), self.plans.layout.sequences());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "seeds", found, expected });
        }
        if let Some(separate) = self.separate.as_mut().filter(|separate| separate.known) {
            // An adjoint is linear in its seeds.
            separate.weights = Some(seeds.to_vec());
            return Ok(());
        }
        if self.local.is_some() {
            self.weigh_rows(seeds);
            return Ok(());
        }
        self.allocate_adjoints();
        let seeds = &seeds[..self.adjoint_plans().layout.sequences()];
        // The forward pass is done with its rows of the read-outs.
        let normed = &mut self.scratch.gathered;
        let asked = self.separate.as_mut().map_or(&mut self.streams.asked, |s| &mut s.asked);
        self.readout.adjoint(&self.model, seeds, normed, asked);
        self.lend();
        if self.separate.is_some() {
            self.pull_back_parts();
        } else {
            self.pull_back_together();
        }
        self.lend();
        self.passes.backward += seeds.iter().filter(|&&seed| seed != R::ZERO).count() as u64;
        self.passes.backward_tokens += self.adjoint_plans().layout.rows() as u64;
        Ok(())
    }

    /// What a forward pass only writes over is lent to the adjoint, or given back: the two never
    /// run at once.
    pub(super) fn lend(&mut self) {
        let adjoint = self.adjoint_scratch.as_mut().expect("it was allocated before");
        let up = &mut adjoint.outputs[BlockKind::MlpUp as usize];
        mem::swap(&mut self.scratch.activated, up);
        mem::swap(&mut self.scratch.normed, &mut adjoint.normed);
    }

    /// The adjoint from the read-outs down, of the sum over sequences.
    fn pull_back_together(&mut self) {
        let scratch = self.adjoint_scratch.as_mut().expect("it was allocated before");
        let plans = self.examples.as_ref().unwrap_or(&self.plans);
        for (index, tape) in self.layers.iter().enumerate().rev() {
            let depth = if index == 0 { self.depth } else { Depth::Input };
            let (overlay, rotations) = (&self.overlay, self.rotations.as_ref());
            let pass = plans.pass(&self.model, overlay, rotations, self.lowest + index);
            let adjoints = &mut self.adjoints[index];
            let backward = LayerBackward { tape, adjoints, scratch, depth };
            pull_back_layer(&pass, &mut self.streams, backward);
        }
    }

    /// The same for every sequence by itself, a few of them at a time.
    fn pull_back_parts(&mut self) {
        let by_rows: Vec<[bool; KINDS]> = (self.lowest..self.model.config().layers)
            .map(|layer| BlockKind::MATRICES.map(|kind| self.has_all_rows(layer, kind)))
            .collect();
        let scratch = self.adjoint_scratch.as_mut().expect("it was allocated before");
        let separate = self.separate.as_mut().expect("sequences are kept apart");
        let (rows, sequences) = (separate.rows.len(), separate.plans.layout.sequences());
        for part in 0..separate.parts.len() {
            let Part { rows: own, sequences: few, .. } = &separate.parts[part];
            let (own, few) = (own.clone(), few.clone());
            for (index, tape) in self.layers.iter().enumerate().rev() {
                let depth = if index == 0 { self.depth } else { Depth::Input };
                let layer = self.lowest + index;
                let forward = ForwardLayer { plans: &self.plans, tape, layer };
                let (plans, copies) = separate.copy_layer(part, forward, depth);
                let (overlay, rotations) = (&self.overlay, self.rotations.as_ref());
                let pass = plans.pass(&self.model, overlay, rotations, layer);
                let (found, tape) = (&mut copies.adjoints[index], &copies.layer);
                let adjoints = &mut *found;
                let backward = LayerBackward { tape, adjoints, scratch, depth };
                pull_back_layer(&pass, &mut copies.streams, backward);
                let all = &mut self.adjoints[index];
                for (kind, &by_rows) in by_rows[index].iter().enumerate() {
                    let (place, count) = if by_rows { (&own, rows) } else { (&few, sequences) };
                    copy_part(&found.kept[kind], place, count, &mut all.kept[kind]);
                }
                copy_part(&found.norms, &few, sequences, &mut all.norms);
                copy_part(&found.asking, &few, sequences, &mut all.asking);
            }
        }
    }

    /// The rows that the adjoint runs on.
    pub(super) fn adjoint_plans(&self) -> &Plans {
        if self.local.is_some() {
            return &self.plans;
        }
        let seeded = self.examples.as_ref().unwrap_or(&self.plans);
        self.separate.as_ref().map_or(seeded, |separate| &separate.plans)
    }

    /// Buffers for the adjoint, once.
    pub(super) fn allocate_adjoints(&mut self) {
        if self.adjoint_scratch.is_some() {
            return;
        }
        let config = self.model.config();
        let plans = self.adjoint_plans();
        let (mut all_rows, mut all_sequences) = (plans.layout.rows(), plans.layout.sequences());
        let local = self.local.as_ref().map(|local| &local.outputs);
        if let Some(outputs) = local {
            let count = outputs.count(all_sequences);
            (all_rows, all_sequences) = (count, count);
        }
        let [rows, sequences, group] = match (&self.separate, local) {
            (Some(separate), _) => separate.largest_part(),
            (None, None) => [all_rows, all_sequences, plans.largest_group()],
            (None, Some(outputs)) => {
                [all_rows, all_sequences, outputs.most() * plans.at_readouts.largest_group()]
            }
        };
        self.adjoints = self.room_for_adjoints(all_rows, all_sequences);
        let of_part = self.separate.is_some().then(|| self.room_for_adjoints(rows, sequences));
        if let Some((separate, of_part)) = self.separate.as_mut().zip(of_part) {
            separate.allocate(of_part);
        }
        let largest = rows.max(sequences);
        self.scratch.make_room(largest, config);
        let folded = sequences * config.heads * config.width;
        // Whether an adjoint goes further down than to the values of the last layer.
        let through = self.lowest + 1 < config.layers || self.depth > Depth::Value;
        let through = through && self.local.is_none();
        let if_through = |size: usize| Buffer::new(if through { size } else { 0 });
        self.adjoint_scratch = Some(AdjointScratch {
            outputs: BlockKind::MATRICES.map(|kind| match kind {
                // The first two are the stream itself, the last is lent by the forward pass.
                BlockKind::Output | BlockKind::MlpDown | BlockKind::MlpUp => Buffer::new(0),
                _ if config.has(kind) => Buffer::new(largest * config.shape(kind).1),
                _ => Buffer::new(0),
            }),
            normed: Buffer::new(0),
            mixed: Buffer::new(largest * config.attention_width()),
            gathered: Buffer::new(sequences * config.width),
            scores: Buffer::new(group),
            inputs: if_through(rows * config.width),
            asking: if_through(if config.rotary().is_none() { folded } else { 0 }),
            mixed_inputs: if_through(folded),
        });
    }

    /// Room for the adjoints that blocks need, for this number of rows and sequences.
    fn room_for_adjoints(&self, rows: usize, sequences: usize) -> Vec<LayerAdjoints<R>> {
        let config = self.model.config();
        let room = |layer: usize| {
            let kept = |kind: BlockKind| {
                let count = self.rows_among(layer, kind, rows, sequences);
                let size = count * config.shape(kind).1;
                Buffer::new(if self.needs(layer, kind) { size } else { 0 })
            };
            let asks = self.folds(layer, BlockKind::Key) && self.needs(layer, BlockKind::Key);
            let asking = if asks { sequences * config.heads * config.width } else { 0 };
            LayerAdjoints {
                kept: BlockKind::MATRICES.map(kept),
                norms: kept(BlockKind::Norm),
                asking: Buffer::new(asking),
            }
        };
        (self.lowest..config.layers).map(room).collect()
    }
}

/// Copies what was found for some of `count` rows, or sequences; both may be empty.
fn copy_part<R: Real>(found: &[R], place: &Range<usize>, count: usize, all: &mut [R]) {
    let size = all.len() / count;
    let target = &mut all[place.start * size..place.end * size];
    target.copy_from_slice(&found[..target.len()]);
}

/// The adjoint of [`run_layer`](super::run_layer); the streams hold adjoints.
fn pull_back_layer<R: Real>(
    pass: &LayerPass<'_, R>,
    streams: &mut Streams<R>,
    mut backward: LayerBackward<'_, R>,
) {
    let depth = backward.depth;
    let width = pass.model.config().width;
    let rows = &mut streams.rows[..pass.positions.len() * width];
    let asked = pass.readouts.map_or(0, |readouts| readouts.rows.len());
    let asked = &mut streams.asked[..asked * width];
    let stream = if pass.readouts.is_some() { &mut *asked } else { &mut *rows };
    pass.transform_adjoint(stream, &mut backward);
    if depth > Depth::Output {
        pass.attend_adjoint(&mut backward);
    }
    if depth >= Depth::Norm {
        pass.normed_adjoint(&mut backward);
    }
    if depth == Depth::Input {
        if let Some(ReadOuts { rows: places, .. }) = pass.readouts {
            rows.fill(R::ZERO);
            scatter_add(asked, places, width, rows);
        }
        pass.input_adjoint(rows, &mut backward);
    }
}

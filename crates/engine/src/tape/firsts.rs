//! The first factors of the LoRA blocks of a tape, from random numbers or from its own sequences.

use super::Tape;
use super::finite;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::buffer::release_buffers;
use crate::error::Error;
use crate::lora::FirstFactor;
use crate::real::Real;
use crate::update::Update;
use std::sync::Arc;

impl<R: Real> Tape<R> {
    /// With the first factors that the model's setting asks for, right after the first pass; those
    /// that come from prompts come from the first `sequences` of them.
    pub(super) fn with_own_firsts(mut self, sequences: usize) -> Result<Self, Error> {
        let (model, lora) = (&self.model, self.model.lora());
        let lora_blocks = self.blocks.iter().filter(|block| block.kind().is_lora());
        let lora_blocks: Vec<BlockId> = lora_blocks.copied().collect();
        if lora.first == FirstFactor::Inputs && !lora_blocks.is_empty() {
            finite(self.predictions(), 0)?;
            // Finding directions takes no memory over from passes.
            release_buffers();
        }
        // Of a layer and its rows: values and queries mostly take the same in.
        let mut known: Option<(usize, Vec<usize>, Arc<[R]>)> = None;
        for block in lora_blocks {
            let (layer, (inputs, _)) = (block.layer(), model.config().shape(block.kind()));
            if lora.first == FirstFactor::Random {
                self.own_firsts.set(block, lora.random(&block, inputs));
                continue;
            }
            if self.local.is_some() {
                let first = lora.leading(&self.local_inputs(&block, sequences), inputs)?;
                self.own_firsts.set(block, first);
                continue;
            }
            let rows = self.distinct_rows(&block, sequences);
            let first = match known {
                Some((l, r, first)) if l == layer && r == rows => first,
                _ => lora.leading(&self.wide_inputs(layer, &rows), inputs)?,
            };
            known = Some((layer, rows, first.clone()));
            self.own_firsts.set(block, first);
        }
        self.firsts = self.own_firsts.clone();
        Ok(self)
    }

    /// The rows that the matrix of a LoRA block is applied to in some of the first sequences, each
    /// once, in order.
    fn distinct_rows(&self, block: &BlockId, sequences: usize) -> Vec<usize> {
        let mut rows: Vec<usize> = if self.one_row_each(block.layer(), block.kind()) {
            self.plans.readouts[..sequences].to_vec()
        } else {
            let seen = |sequence| self.plans.layout.seen_by(sequence).into_iter().flatten();
            (0..sequences).flat_map(seen).collect()
        };
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The inputs of a matrix that derivatives at the read-outs of some sequences are made of, row by
    /// row: those that heads mix for values, else the read-outs' own.
    fn local_inputs(&self, block: &BlockId, sequences: usize) -> Vec<f64> {
        let (layer, config) = (block.layer(), self.model.config());
        let (values, each) = match block.kind() {
            BlockKind::LoraValue => {
                let mixed = &self.layers[layer - self.lowest].mixed_inputs;
                (mixed.to_vec(), config.heads)
            }
            _ => (self.normed(layer), 1),
        };
        values[..sequences * each * config.width].iter().map(|value| value.wide()).collect()
    }

    /// What queries and values are made of at some rows, `[rows, width]`.
    fn wide_inputs(&self, layer: usize, rows: &[usize]) -> Vec<f64> {
        let inputs = self.normed(layer);
        let width = self.model.config().width;
        let row = |&row: &usize| inputs[row * width..][..width].iter();
        rows.iter().flat_map(row).map(|value| value.wide()).collect()
    }

    /// `θ = 0` for the blocks of the tape, with its first factors.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, FirstFactor, Labels, Layout, Lora, Network, Parameters, Tape,
    /// #     choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// let model = model.with_lora(Lora { rank: 1, first: FirstFactor::Inputs, seed: 0 })?;
    /// let blocks = choose_blocks("lora-value@all", &config)?;
    /// let tape = Tape::new(&model, Layout::plain(&[vec![0, 1]])?, &labels, &blocks)?;
    /// let update = tape.zero_update();
    /// assert_eq!(update.blocks()[0].1, [0.0; 2]);
    /// // Without weights all inputs are 0 and have no direction.
    /// assert_eq!(update.first(blocks[0]), Some(&[0.0; 2][..]));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn zero_update(&self) -> Update<R> {
        Update::with_firsts(self.model.config(), &self.blocks, &self.firsts)
    }

    /// The first factor of a LoRA block of the tape, and its rank.
    pub(super) fn first(&self, layer: usize, kind: BlockKind) -> (&[R], usize) {
        let block = BlockId::of_layer(kind, layer);
        let first = block.and_then(|block| self.firsts.get(&block));
        let first = first.expect("every LoRA block of a tape has its first factor");
        (first, first.len() / self.model.config().shape(kind).0)
    }
}

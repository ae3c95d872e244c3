//! Updates in the forms that other tools load: per matrix of the model, two narrow factors.
//!
//! In: an [`Update`]. Out: a PEFT LoRA adapter ([`Update::save_peft`]) or one for llama.cpp
//! ([`Update::save_lora_gguf`]); and [`Update::load_peft`] the other way. Every block becomes a
//! product of low rank, and the products of the blocks of one matrix are put side by side. What
//! a file calls a matrix may hold several of the engine's: GPT-2 keeps queries, keys and values
//! in one.

mod factorise;
mod lora_gguf;
mod peft;
mod peft_config;

use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::config::Config;
use crate::error::Error;
use crate::lora::FirstFactors;
use crate::matrix::Submatrix;
use crate::modules::{Module, module_of, modules};
use crate::update::Update;
use crate::weights::check_finite;
use factorise::factorise;
use std::ops::Range;
use std::path::Path;

/// The blocks that one of the engine's matrices consists of.
fn blocks_of(config: &Config, kind: BlockKind, layer: usize) -> Vec<BlockId> {
    match config.heads_of(kind) {
        None => BlockId::of_layer(kind, layer).into_iter().collect(),
        Some(heads) => {
            (0..heads).filter_map(|head| BlockId::of_head(kind, layer, head)).collect()
        }
    }
}

/// A change of some inputs and outputs of a matrix as a product of two narrow ones.
#[derive(Debug)]
struct LowRank {
    inputs: Range<usize>,
    outputs: Range<usize>,
    rank: usize,
    /// `[inputs, rank]`.
    first: Vec<f32>,
    /// `[rank, outputs]`.
    second: Vec<f32>,
}

impl LowRank {
    /// Factors that are there already; nothing if their product is.
    fn given(
        inputs: Range<usize>,
        outputs: Range<usize>,
        first: &[f32],
        second: &[f32],
    ) -> Self {
        if second.iter().all(|value| value.abs() == 0.0) {
            return Self { inputs, outputs, rank: 0, first: Vec::new(), second: Vec::new() };
        }
        let rank = second.len() / outputs.len();
        Self { inputs, outputs, rank, first: first.to_vec(), second: second.to_vec() }
    }
}

/// The change of a whole matrix as two factors, in the order in which files keep them.
#[derive(Debug)]
struct Pair {
    layer: usize,
    module: &'static Module,
    rank: usize,
    /// `[rank, inputs]`, `lora_A` in files.
    first: Vec<f32>,
    /// `[outputs, rank]`, `lora_B` in files.
    second: Vec<f32>,
}

impl Pair {
    /// The factors of parts side by side.
    fn new(config: &Config, layer: usize, module: &'static Module, parts: &[LowRank]) -> Self {
        // first [rank, inputs], second [outputs, rank]
        let (inputs, outputs) = module.shape(config);
        let rank = parts.iter().map(|part| part.rank).sum();
        let mut first = vec![0.0; rank * inputs];
        let mut second = vec![0.0; outputs * rank];
        let mut start = 0;
        for part in parts {
            let width = part.outputs.len();
            for direction in 0..part.rank {
                let place = start + direction;
                for (from, input) in part.inputs.clone().enumerate() {
                    first[place * inputs + input] = part.first[from * part.rank + direction];
                }
                for (from, output) in part.outputs.clone().enumerate() {
                    second[output * rank + place] = part.second[direction * width + from];
                }
            }
            start += part.rank;
        }
        Self { layer, module, rank, first, second }
    }
}

impl Update<f32> {
    /// The matrices that the update changes, each as two factors; `file` is for messages.
    ///
    /// Matrices whose change is zero are omitted. If all are, one with a factor of rank 1 that
    /// is zero stands for them, since an adapter must have something to adapt.
    fn pairs(&self, file: &Path, config: &Config) -> Result<Vec<Pair>, Error> {
        let mut pairs = Vec::new();
        for layer in 0..config.layers {
            for module in modules(config) {
                let parts = self.parts(file, config, layer, module)?;
                if parts.iter().any(|part| part.rank > 0) {
                    pairs.push(Pair::new(config, layer, module, &parts));
                }
            }
        }
        if let (true, Some((block, _))) = (pairs.is_empty(), self.blocks.first()) {
            let kind = block.kind().matrix().unwrap_or(BlockKind::Value);
            let (module, _) = module_of(config, kind);
            let ((inputs, outputs), layer) = (module.shape(config), block.layer());
            let (first, second) = (vec![0.0; inputs], vec![0.0; outputs]);
            pairs.push(Pair { layer, module, rank: 1, first, second });
        }
        Ok(pairs)
    }

    /// The parts of a matrix's change, one per block.
    fn parts(
        &self,
        file: &Path,
        config: &Config,
        layer: usize,
        module: &Module,
    ) -> Result<Vec<LowRank>, Error> {
        self.check(config)?;
        let mut parts = Vec::new();
        for (kind, start) in module.parts(config) {
            for (block, change) in &self.blocks {
                if (block.layer(), block.kind().matrix()) != (layer, Some(kind)) {
                    continue;
                }
                check_finite(file, &block.to_string(), change)?;
                let Submatrix { rows: inputs, columns } = block.place(config);
                let outputs = start + columns.start..start + columns.end;
                parts.push(match self.first(*block) {
                    None => factorise(change, inputs, outputs)?,
                    Some(first) => {
                        check_finite(file, &format!("{block}.first"), first)?;
                        LowRank::given(inputs, outputs, first, change)
                    }
                });
            }
        }
        Ok(parts)
    }

    /// The blocks of an update that are not zero, or the first one if all are.
    fn without_zeros(mut blocks: Vec<(BlockId, Vec<f32>)>) -> Result<Self, Error> {
        blocks.sort_by_key(|(block, _)| *block);
        let zero = |change: &[f32]| change.iter().all(|value| value.abs() == 0.0);
        let kept = blocks.iter().any(|(_, change)| !zero(change));
        if kept {
            blocks.retain(|(_, change)| !zero(change));
        } else {
            blocks.truncate(1);
        }
        match blocks.is_empty() {
            true => Err(Error::Empty { quantity: "adapter" }),
            false => Ok(Self { blocks, firsts: FirstFactors::none() }),
        }
    }
}

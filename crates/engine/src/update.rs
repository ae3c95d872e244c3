//! An update of a model's weights, kept apart from them, and its file.
//!
//! In: the blocks to update. Out: [`Update`], and a safetensors file in which every tensor is
//! named after its block, or the weights of a checkpoint with the update in them. A file is not
//! trusted: what does not fit the model is refused.
//!
//! The change of a LoRA block means nothing without the fixed first factor, so the two go together:
//! the file holds `lora-value.5` `[rank, out]` and `lora-value.5.first` `[in, rank]`.

use crate::block_kind::BlockKind;
use crate::blocks::{BlockId, check_blocks};
use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::lora::{FirstFactor, FirstFactors, check_rank};
use crate::matrix::{Submatrix, WeightOrder, for_block};
use crate::network::Network;
use crate::ops::{View, ViewMut, Write, product};
use crate::parameters::{Parameters, check_sizes};
use crate::real::Real;
use crate::weights::{Weights, check_finite};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};
use std::path::Path;

/// The longest header that a file of an update can have, beside its numbers.
const HEADER: u64 = 1 << 24;

/// What the name of a first factor has behind that of its block.
const FIRST: &str = ".first";

/// `θ`: a change of some blocks of a model's weights.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4, "n_ctx": 3,
///          "vocab_size": 5}"#,
/// )?;
/// let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
/// assert_eq!(update.blocks()[1].1, [0.0; 4 * 2]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Update<R = f32> {
    pub(crate) blocks: Vec<(BlockId, Vec<R>)>,
    /// Of the LoRA blocks among them, all of them.
    pub(crate) firsts: FirstFactors<R>,
}

/// The change of a part of a matrix, or of the norms of a layer: `[rows, columns]` of its place.
pub(crate) struct Part<'a, R> {
    pub(crate) layer: usize,
    /// A matrix or the norms.
    pub(crate) kind: BlockKind,
    pub(crate) place: Submatrix,
    pub(crate) change: &'a [R],
}

impl<R: Real> Update<R> {
    /// `θ = 0` for these blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without blocks, [`Error::NoSuchBlock`] or [`Error::DuplicateBlock`] for
    /// blocks that the model does not have or that are there twice,
    /// [`Error::FirstFactorOfPrompts`] for a LoRA block whose first factor comes from prompts: the
    /// tape that runs them has such an [update](crate::Tape::zero_update).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// let update = Update::zeros(&model, &choose_blocks("mlp-up@all", &config)?)?;
    /// assert_eq!(update.blocks()[0].1.len(), 2 * 8);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn zeros(model: &Network<R>, blocks: &[BlockId]) -> Result<Self, Error> {
        model.check_blocks(blocks)?;
        let mut firsts = FirstFactors::none();
        for block in blocks.iter().filter(|block| block.kind().is_lora()) {
            if model.lora().first == FirstFactor::Inputs {
                return Err(Error::FirstFactorOfPrompts { block: block.to_string() });
            }
            let (inputs, _) = model.config().shape(block.kind());
            firsts.set(*block, model.lora().random(block, inputs));
        }
        Ok(Self::with_firsts(model.config(), blocks, &firsts))
    }

    /// `θ = 0` for blocks that the model has, with the first factors of those that are LoRA blocks.
    pub(crate) fn with_firsts(
        config: &Config,
        blocks: &[BlockId],
        firsts: &FirstFactors<R>,
    ) -> Self {
        let mut update = Self { blocks: Vec::new(), firsts: FirstFactors::none() };
        for block in blocks {
            let Submatrix { rows, columns } = block.place(config);
            let mut size = rows.len() * columns.len();
            if let Some(first) = firsts.get(block) {
                size = first.len() / rows.len() * columns.len();
                update.firsts.set(*block, first.clone());
            }
            update.blocks.push((*block, vec![R::ZERO; size]));
        }
        update
    }

    /// Adds so much of another update of the same blocks.
    pub(crate) fn add_scaled(&mut self, scale: R, other: &Self) {
        for ((_, sum), (_, part)) in self.blocks.iter_mut().zip(&other.blocks) {
            for (sum, &part) in sum.iter_mut().zip(part) {
                *sum += scale * part;
            }
        }
    }

    /// The blocks, each with its change as `[in, out]`, row by row; that of a LoRA block is
    /// `[rank, out]`, that of norms their scales and shifts, one after the other: attention's scale
    /// and shift, then the MLP's.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// assert_eq!(Update::zeros(&model, &blocks)?.blocks()[0].0, blocks[0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn blocks(&self) -> &[(BlockId, Vec<R>)] {
        &self.blocks
    }

    /// How many bytes its numbers take.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
    /// assert_eq!(update.bytes(), 4 * 2 * 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        let firsts = self.firsts.iter().map(|(_, first)| first.len()).sum::<usize>();
        let changes = self.blocks.iter().map(|(_, change)| change.len()).sum::<usize>();
        (firsts + changes) * size_of::<R>()
    }

    /// The change of one block, to write to.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let mut update = Update::zeros(&model, &blocks)?;
    /// update.block_mut(blocks[0]).expect("it is there")[3] = 1.0;
    /// assert_eq!(update.blocks()[0].1, [0.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(update.block_mut("key.0.0".parse()?), None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn block_mut(&mut self, block: BlockId) -> Option<&mut [R]> {
        let found = self.blocks.iter_mut().find(|(other, _)| *other == block);
        found.map(|(_, change)| &mut change[..])
    }

    /// `A`: the fixed first factor of a LoRA block, `[in, rank]`, row by row, if it is there.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// let blocks = choose_blocks("lora-value,norm@all", &config)?;
    /// let update = Update::zeros(&model, &blocks)?;
    /// assert_eq!(update.first(blocks[0]).map(<[f32]>::len), Some(2 * 2));
    /// assert_eq!(update.first(blocks[1]), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn first(&self, block: BlockId) -> Option<&[R]> {
        self.firsts.get(&block).map(|first| &first[..])
    }

    /// `Err` unless every change has the size of its block in a model, and so has its first factor.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Error> {
        for (block, change) in &self.blocks {
            let shape = self.shape(config, block, change);
            check_size("update", change.len(), shape.iter().product())?;
            if let Some(first) = self.firsts.get(block) {
                check_size(
                    "first factor",
                    first.len(),
                    config.shape(block.kind()).0 * shape[0],
                )?;
            }
        }
        Ok(())
    }

    /// The shape of a block's change for a model; norms are one vector.
    fn shape(&self, config: &Config, block: &BlockId, change: &[R]) -> Vec<usize> {
        let Submatrix { rows, columns } = block.place(config);
        match block.kind() {
            BlockKind::Norm => vec![columns.len()],
            kind if kind.is_lora() => vec![change.len() / columns.len(), columns.len()],
            _ => vec![rows.len(), columns.len()],
        }
    }

    /// Calls `visit` with every part of a model's weights that changes, once: what several blocks
    /// change of one matrix, one of them by a product, is added up in `whole`.
    pub(crate) fn for_each_part(
        &self,
        config: &Config,
        whole: &mut Vec<R>,
        mut visit: impl FnMut(Part<'_, R>),
    ) {
        for (block, change) in &self.blocks {
            let (layer, place) = (block.layer(), block.place(config));
            let kind = block.kind().matrix().unwrap_or(BlockKind::Norm);
            let same = |b: &BlockId| b.layer() == layer && b.kind().matrix() == Some(kind);
            if !self.firsts.iter().any(|(other, _)| same(other)) {
                visit(Part { layer, kind, place, change });
            } else if block.kind().is_lora() {
                self.write_whole(config, layer, kind, whole);
                visit(Part { layer, kind, place, change: whole });
            }
        }
    }

    /// The change of a matrix by all blocks that update it, `[in, out]`.
    fn write_whole(&self, config: &Config, layer: usize, kind: BlockKind, whole: &mut Vec<R>) {
        let (inputs, outputs) = config.shape(kind);
        whole.clear();
        whole.resize(inputs * outputs, R::ZERO);
        for (block, change) in &self.blocks {
            if (block.layer(), block.kind().matrix()) != (layer, Some(kind)) {
                continue;
            }
            if let Some(first) = self.firsts.get(block) {
                let rank = change.len() / outputs;
                let (first, change) =
                    (View::new(first, inputs, rank), View::new(change, rank, outputs));
                let target = ViewMut::new(whole, inputs, outputs);
                product(Write::Add, target, first, change, R::ONE);
            } else {
                let part = block.place(config);
                for_block(inputs, outputs, WeightOrder::InputsFirst, part, |index, from| {
                    whole[index] += change[from];
                });
            }
        }
    }
}

fn check_size(quantity: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::SizeMismatch { quantity, found, expected })
}

impl Update<f32> {
    /// Writes the update of a model to a safetensors file.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] if it belongs to another model, [`Error::WeightNotFinite`] if a
    /// change is not finite, [`Error::File`] if the file cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let update = Update::zeros(&model, &blocks)?;
    /// let refused = update.save("no such directory/update.safetensors".as_ref(), &model);
    /// assert!(matches!(refused, Err(Error::File { action: "write", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save(&self, file: &Path, model: &Network<f32>) -> Result<(), Error> {
        let names: Vec<BlockId> = self.blocks.iter().map(|(block, _)| *block).collect();
        model.check_blocks(&names)?;
        self.check(model.config())?;
        let mut tensors = Vec::with_capacity(names.len());
        let mut push = |name: String, shape: Vec<usize>, values: &[f32]| -> Result<(), Error> {
            check_finite(file, &name, values)?;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            tensors.push((name, shape, bytes));
            Ok(())
        };
        for (block, change) in &self.blocks {
            let shape = self.shape(model.config(), block, change);
            if let Some(first) = self.firsts.get(block) {
                let (inputs, _) = model.config().shape(block.kind());
                push(format!("{block}{FIRST}"), vec![inputs, shape[0]], first)?;
            }
            push(block.to_string(), shape, change)?;
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
            (name, view.expect("there are four bytes for every number"))
        });
        let bytes = serialize(views, None).expect("every tensor is valid by itself");
        files::write(file, &bytes)
    }

    /// `W + θ`: the weights of a checkpoint with the update in them.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`]; [`Error::SizeMismatch`] for parameters that do not fit the
    /// configuration or an update that belongs to another model, [`Error::NoSuchBlock`] for a
    /// block that the model does not have.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    ///
    /// let config = Config::from_json(
    ///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_ctx": 3,
    ///          "vocab_size": 5}"#,
    /// )?;
    /// let parameters = Parameters::zeros(&config)?;
    /// let model: Network = Network::new(&config, parameters.clone())?;
    /// let blocks = choose_blocks("value@all", &config)?;
    /// let mut update = Update::zeros(&model, &blocks)?;
    /// update.block_mut(blocks[0]).expect("it is there").copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    ///
    /// let merged = update.merge(&parameters, &config)?;
    /// assert_eq!(merged.layers[0].value.weight, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn merge(&self, parameters: &Parameters, config: &Config) -> Result<Parameters, Error> {
        let mut merged = parameters.clone();
        self.add_to(&mut merged, config)?;
        Ok(merged)
    }

    /// `W ← W + θ`.
    pub(crate) fn add_to(
        &self,
        parameters: &mut Parameters,
        config: &Config,
    ) -> Result<(), Error> {
        config.check()?;
        check_sizes(config, parameters)?;
        let names: Vec<BlockId> = self.blocks.iter().map(|(block, _)| *block).collect();
        check_blocks(config, &names)?;
        self.check(config)?;
        self.for_each_part(config, &mut Vec::new(), |Part { layer, kind, place, change }| {
            let layer = &mut parameters.layers[layer];
            let Some(linear) = layer.linear_mut(kind) else {
                let (attention, mlp) = change.split_at(change.len() / 2);
                layer.attention_norm.add(attention);
                layer.mlp_norm.add(mlp);
                return;
            };
            let (inputs, outputs) = config.shape(kind);
            for_block(inputs, outputs, config.order(), place, |index, from| {
                linear.weight[index] += change[from];
            });
        });
        Ok(())
    }

    /// Reads the update of a model from a safetensors file.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::FileTooLarge`] if it cannot be read, those of
    /// [`Weights::from_bytes`] and [`Weights::tensor`], [`Error::BadBlockName`] or
    /// [`Error::NoSuchBlock`] for a tensor that is neither a block of the model nor the first factor of
    /// one in the file, and [`Error::LoraRank`] for a rank that the model's matrix cannot have.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// let refused = Update::load("no such file".as_ref(), &model);
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn load(file: &Path, model: &Network<f32>) -> Result<Self, Error> {
        let config = model.config();
        let size = |kind: BlockKind| {
            let (inputs, outputs) = config.shape(kind);
            // The size of a LoRA block of the highest rank together with its first factor.
            let rows = if kind.is_lora() { inputs + outputs } else { outputs };
            if config.has(kind) { inputs as u64 * rows as u64 } else { 0 }
        };
        let layer: u64 = BlockKind::ALL.into_iter().map(size).sum();
        let limit = (4 * layer).saturating_mul(config.layers as u64).saturating_add(HEADER);
        let bytes = files::read(file, limit)?;
        let weights = Weights::from_bytes(&bytes)?;
        let (factors, names): (Vec<&str>, Vec<&str>) =
            weights.names().partition(|name| name.ends_with(FIRST));
        let names: Vec<BlockId> =
            names.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        model.check_blocks(&names)?;
        let known = |name: &str| {
            let of =
                |block: &BlockId| block.kind().is_lora() && format!("{block}{FIRST}") == name;
            names.iter().any(of)
        };
        if let Some(stray) = factors.into_iter().find(|name| !known(name)) {
            return Err(Error::BadBlockName { found: stray.to_owned() });
        }
        let mut update = Self { blocks: Vec::new(), firsts: FirstFactors::none() };
        for block in names {
            update.read(&weights, config, block)?;
        }
        Ok(update)
    }

    /// Adds a block of a file, with its first factor.
    fn read(
        &mut self,
        weights: &Weights<'_>,
        config: &Config,
        block: BlockId,
    ) -> Result<(), Error> {
        let name = block.to_string();
        let Submatrix { rows, columns } = block.place(config);
        let shape = match block.kind() {
            BlockKind::Norm => vec![columns.len()],
            kind if kind.is_lora() => {
                // The file says what the rank is.
                let rank = weights.shape(&name).and_then(|shape| shape.first().copied());
                let rank = rank.unwrap_or(0);
                check_rank(rank, rows.len())?;
                let first = weights.tensor(&format!("{name}{FIRST}"), &[rows.len(), rank])?;
                self.firsts.set(block, first.into());
                vec![rank, columns.len()]
            }
            _ => vec![rows.len(), columns.len()],
        };
        self.blocks.push((block, weights.tensor(&name, &shape)?));
        Ok(())
    }
}

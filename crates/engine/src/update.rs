//! An update of a model's weights, kept apart from them, and its file.
//!
//! In: the blocks that move. Out: [`Update`], and a safetensors file in which every tensor is
//! named after its block, or the weights of a checkpoint with the update in them. A file is not
//! trusted: what does not fit the model is refused.

use crate::blocks::{BlockId, BlockKind, block_size, check_blocks};
use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::matrix::for_block;
use crate::network::Network;
use crate::parameters::{Parameters, check_sizes};
use crate::real::Real;
use crate::weights::{Weights, check_finite};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};
use std::path::Path;

/// The longest header that a file of an update can have, beside its numbers.
const HEADER: u64 = 1 << 24;

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
}

impl<R: Real> Update<R> {
    /// `θ = 0` for these blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without blocks, [`Error::NoSuchBlock`] or [`Error::DuplicateBlock`] for
    /// blocks that the model does not have or that are there twice.
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
        let size = |block: &BlockId| block_size(model.config(), block);
        let blocks = blocks.iter().map(|block| (*block, vec![R::ZERO; size(block)])).collect();
        Ok(Self { blocks })
    }

    /// The blocks, each with its change as `[in, out]`, row by row; that of norms is their scales
    /// and shifts, one after the other: attention's scale and shift, then the MLP's.
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

    /// The shape of each block for a model; norms are one vector.
    fn shapes(model: &Network<R>, blocks: &[BlockId]) -> Vec<Vec<usize>> {
        let of = |block: &BlockId| {
            let (rows, columns) = block.place(model.config());
            if block.kind() == BlockKind::Norm {
                return vec![columns.len()];
            }
            vec![rows.len(), columns.len()]
        };
        blocks.iter().map(of).collect()
    }
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
        let shapes = Self::shapes(model, &names);
        let mut tensors = Vec::with_capacity(names.len());
        for ((block, change), shape) in self.blocks.iter().zip(&shapes) {
            let (found, expected) = (change.len(), shape.iter().product());
            if found != expected {
                return Err(Error::SizeMismatch { quantity: "update", found, expected });
            }
            check_finite(file, &block.to_string(), change)?;
            let bytes: Vec<u8> = change.iter().flat_map(|value| value.to_le_bytes()).collect();
            tensors.push((block.to_string(), shape.clone(), bytes));
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
        for (block, change) in &self.blocks {
            let (found, expected) = (change.len(), block_size(config, block));
            if found != expected {
                return Err(Error::SizeMismatch { quantity: "update", found, expected });
            }
            let layer = &mut parameters.layers[block.layer()];
            if block.kind() == BlockKind::Norm {
                let (attention, mlp) = change.split_at(change.len() / 2);
                layer.attention_norm.add(attention);
                layer.mlp_norm.add(mlp);
                continue;
            }
            let linear = layer.linear_mut(block.kind());
            let weight = &mut linear.expect("the blocks have been checked").weight;
            let shape = config.shape(block.kind());
            for_block(shape, config.order(), block.place(config), |index, from| {
                weight[index] += change[from];
            });
        }
        Ok(())
    }

    /// Reads the update of a model from a safetensors file.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::FileTooLarge`] if it cannot be read, those of
    /// [`Weights::from_bytes`] and [`Weights::tensor`], [`Error::BadBlockName`] or
    /// [`Error::NoSuchBlock`] for a tensor that is no block of the model.
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
            if config.has(kind) { inputs as u64 * outputs as u64 } else { 0 }
        };
        let layer: u64 = BlockKind::ALL.into_iter().map(size).sum();
        let limit = (4 * layer).saturating_mul(config.layers as u64).saturating_add(HEADER);
        let bytes = files::read(file, limit)?;
        let weights = Weights::from_bytes(&bytes)?;
        let names: Vec<BlockId> = weights.names().map(str::parse).collect::<Result<_, _>>()?;
        model.check_blocks(&names)?;
        let mut blocks = Vec::with_capacity(names.len());
        for (block, shape) in names.iter().zip(Self::shapes(model, &names)) {
            blocks.push((*block, weights.tensor(&block.to_string(), &shape)?));
        }
        Ok(Self { blocks })
    }
}

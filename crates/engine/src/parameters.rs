//! The weights of a model as plain vectors, and the way to and from its files.
//!
//! In: [`Weights`] and a [`Config`]. Out: [`Parameters`], every size checked. Matrices keep the
//! order of the checkpoint, row by row: `[in, out]` in the GPT-2 family, `[out, in]` in the Llama
//! family. Nothing here computes.

use crate::block_kind::BlockKind;
use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::modules::prefix;
use crate::weights::{Weights, check_finite};
use half::f16;
use safetensors::Dtype;
use safetensors::tensor::{SafeTensorError, View, serialize_to_file};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

mod quantised;
mod tensors;

pub(crate) use quantised::QuantisedTensors;
use tensors::{UNEMBEDDING, is_table};
pub(crate) use tensors::{check_sizes, full_name, layout};

/// A norm: `y = scale · (x − mean)/√(variance + ε) + shift`, or without mean and shift.
///
/// # Examples
///
/// See [`Parameters`].
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// `[width]`.
    pub scale: Vec<f32>,
    /// `[width]`, or empty in the Llama family.
    pub shift: Vec<f32>,
}

/// A linear layer: `y = x W + b`.
///
/// # Examples
///
/// See [`Parameters`].
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// `[in, out]` in the GPT-2 family, `[out, in]` in the Llama family, row by row.
    pub weight: Vec<f32>,
    /// `[out]`, or empty if there is none.
    pub bias: Vec<f32>,
}

/// One Transformer block.
///
/// # Examples
///
/// See [`Parameters`].
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The norm in front of attention.
    pub attention_norm: Norm,
    /// From the stream to the queries of all heads.
    pub query: Linear,
    /// From the stream to the keys of all key-value heads.
    pub key: Linear,
    /// From the stream to the values of all key-value heads.
    pub value: Linear,
    /// From the heads back to the stream.
    pub output: Linear,
    /// The norm in front of the MLP.
    pub mlp_norm: Norm,
    /// From the stream to the gate of the MLP, if it has one.
    pub mlp_gate: Option<Linear>,
    /// From the stream into the MLP.
    pub mlp_up: Linear,
    /// From the MLP back to the stream.
    pub mlp_down: Linear,
}

impl Norm {
    /// Adds a change of the scale and then of the shift.
    pub(crate) fn add(&mut self, change: &[f32]) {
        for (weight, change) in self.scale.iter_mut().chain(&mut self.shift).zip(change) {
            *weight += change;
        }
    }
}

impl Layer {
    /// The matrix of a kind, if there is one.
    pub(crate) fn linear(&self, kind: BlockKind) -> Option<&Linear> {
        match kind {
            BlockKind::Value => Some(&self.value),
            BlockKind::Output => Some(&self.output),
            BlockKind::Query => Some(&self.query),
            BlockKind::Key => Some(&self.key),
            BlockKind::MlpUp => Some(&self.mlp_up),
            BlockKind::MlpDown => Some(&self.mlp_down),
            BlockKind::MlpGate => self.mlp_gate.as_ref(),
            BlockKind::LoraValue | BlockKind::LoraQuery | BlockKind::Norm => None,
        }
    }

    /// As [`Layer::linear`], to write to.
    pub(crate) fn linear_mut(&mut self, kind: BlockKind) -> Option<&mut Linear> {
        match kind {
            BlockKind::Value => Some(&mut self.value),
            BlockKind::Output => Some(&mut self.output),
            BlockKind::Query => Some(&mut self.query),
            BlockKind::Key => Some(&mut self.key),
            BlockKind::MlpUp => Some(&mut self.mlp_up),
            BlockKind::MlpDown => Some(&mut self.mlp_down),
            BlockKind::MlpGate => self.mlp_gate.as_mut(),
            BlockKind::LoraValue | BlockKind::LoraQuery | BlockKind::Norm => None,
        }
    }
}

/// All weights of a model.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Parameters};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_ctx": 3,
///          "vocab_size": 5}"#,
/// )?;
/// let parameters = Parameters::zeros(&config)?;
/// assert_eq!(parameters.token_embedding.len(), 5 * 2);
/// assert_eq!(parameters.layers[0].mlp_up.weight.len(), 2 * 8);
/// assert_eq!(parameters.unembedding, None);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// `[vocabulary, width]`.
    pub token_embedding: Vec<f32>,
    /// `[positions, width]`, or empty if positions are rotary.
    pub position_embedding: Vec<f32>,
    /// The blocks, lowest first.
    pub layers: Vec<Layer>,
    /// The norm after the last block.
    pub final_norm: Norm,
    /// `[vocabulary, width]`, or `None` if it is the token embedding.
    pub unembedding: Option<Vec<f32>>,
}

/// The precision in which weights are written.
///
/// # Examples
///
/// ```
/// assert_ne!(fewstep_engine::Precision::Single, fewstep_engine::Precision::Half);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits per weight, exact.
    Single,
    /// 16 bits per weight (`F16`), rounded to the nearest.
    Half,
}

impl Parameters {
    /// Reads the weights in a model's directory.
    ///
    /// # Errors
    ///
    /// Those of [`Weights::open`] and [`Parameters::from_weights`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error, Parameters};
    ///
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let refused = Parameters::load("no such directory".as_ref(), &config);
    /// assert!(matches!(refused, Err(Error::NoWeights { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn load(directory: &Path, config: &Config) -> Result<Self, Error> {
        Self::from_weights(&Weights::open(directory)?, config)
    }

    /// Reads the weights in the bytes of one safetensors file, such as one inside a program.
    ///
    /// # Errors
    ///
    /// Those of [`Weights::from_bytes`] and [`Parameters::from_weights`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
    /// let Err(Error::MissingTensor { tensor, .. }) = Parameters::from_bytes(&empty, &config) else {
    ///     panic!("the file holds no tensor");
    /// };
    /// assert_eq!(tensor, "wte.weight");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_bytes(bytes: &[u8], config: &Config) -> Result<Self, Error> {
        Self::from_weights(&Weights::from_bytes(bytes)?, config)
    }

    /// Takes a model's parameters out of a checkpoint.
    ///
    /// Names may carry the prefix `transformer.` or `model.` of their family; stored attention
    /// masks and rotary frequencies are passed over.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`] and [`Weights::tensor`]; [`Error::DuplicateTensor`] if a tensor
    /// is there with and without prefix; [`Error::UnknownTensor`] for one that the configured
    /// model does not have; [`Error::TiedWeightsDiffer`] for an output embedding of its own in a
    /// model that ties it to the token embedding.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Parameters, Weights};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
    /// let refused = Parameters::from_weights(&Weights::from_bytes(&empty)?, &config);
    /// assert!(matches!(refused, Err(Error::MissingTensor { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_weights(weights: &Weights<'_>, config: &Config) -> Result<Self, Error> {
        config.check()?;
        let layout = layout(config);
        let prefix = check_names(weights, config, &layout)?;
        let mut tensors = Vec::with_capacity(layout.len());
        for (name, shape) in &layout {
            tensors.push(weights.tensor(&full_name(prefix, name), shape)?);
        }
        let parameters = Self::from_tensors(tensors, config);
        if config.tied && weights.names().any(|name| name == UNEMBEDDING) {
            let own = weights.tensor(UNEMBEDDING, &[config.vocabulary, config.width])?;
            let pairs = own.iter().zip(&parameters.token_embedding);
            if let Some(index) = pairs.map(|(a, b)| a.to_bits() != b.to_bits()).position(|d| d)
            {
                let file = weights.file_of(UNEMBEDDING).to_path_buf();
                let tensor = UNEMBEDDING.to_owned();
                return Err(Error::TiedWeightsDiffer { file, tensor, index });
            }
        }
        Ok(parameters)
    }

    /// Parameters that are all 0, to be filled.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// assert_eq!(Parameters::zeros(&config)?.position_embedding, [0.0; 3 * 2]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn zeros(config: &Config) -> Result<Self, Error> {
        config.check()?;
        let tensors = layout(config)
            .into_iter()
            .map(|(_, shape)| vec![0.0; shape.iter().product()])
            .collect();
        Ok(Self::from_tensors(tensors, config))
    }

    /// Writes `model.safetensors` and `config.json` into an existing directory.
    ///
    /// Other tools read both; the tokenizer is written by [`crate::Tokenizer::save`].
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`]; [`Error::SizeMismatch`] for a parameter of another size than
    /// the configuration asks for; [`Error::WeightNotFinite`] for one that is not finite, or too
    /// large for the precision; [`Error::File`] if the files cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Parameters, Precision};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let parameters = Parameters::zeros(&config)?;
    /// let refused = parameters.save("no such directory".as_ref(), &config, Precision::Half);
    /// assert!(matches!(refused, Err(Error::File { action: "write", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save(
        &self,
        directory: &Path,
        config: &Config,
        precision: Precision,
    ) -> Result<(), Error> {
        config.check()?;
        let file = directory.join("model.safetensors");
        check_sizes(config, self)?;
        let tensors = self.stored(&file, config, precision)?;
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        serialize_to_file(tensors, Some(metadata.into_iter().collect()), &file).map_err(
            |error| {
                let kind = match error {
                    SafeTensorError::IoError(error) => error.kind(),
                    _ => std::io::ErrorKind::InvalidData,
                };
                files::refused(&file, "write")(kind.into())
            },
        )?;
        config.save(directory)
    }

    /// Every tensor under its full name, each number within the precision.
    fn stored(
        &self,
        file: &Path,
        config: &Config,
        precision: Precision,
    ) -> Result<Vec<(String, Stored<'_>)>, Error> {
        let layout = layout(config);
        let mut stored = Vec::with_capacity(layout.len());
        for ((name, shape), values) in layout.into_iter().zip(self.tensors(config)) {
            let tensor = full_name(prefix(config), &name);
            check_finite(file, &tensor, &values)?;
            if precision == Precision::Half {
                let overflows = |value: &f32| f16::from_f32(*value).is_infinite();
                if let Some(index) = values.iter().position(overflows) {
                    let (file, value) = (file.to_path_buf(), values[index]);
                    return Err(Error::WeightNotFinite { file, tensor, index, value });
                }
            }
            stored.push((tensor, Stored { shape, values, precision }));
        }
        Ok(stored)
    }
}

/// The prefix that all names carry, after checking that each belongs to the model.
fn check_names(
    weights: &Weights<'_>,
    config: &Config,
    layout: &[(String, Vec<usize>)],
) -> Result<&'static str, Error> {
    let names: BTreeSet<&str> = weights.names().collect();
    let known: BTreeSet<&str> = layout.iter().map(|(name, _)| name.as_str()).collect();
    let prefix = prefix(config);
    let twice = names.iter().find_map(|name| {
        let bare = name.strip_prefix(prefix).filter(|&bare| names.contains(bare))?;
        Some((bare, name))
    });
    if let Some((bare, full)) = twice {
        return Err(Error::DuplicateTensor {
            tensor: bare.to_owned(),
            first: weights.file_of(bare).to_path_buf(),
            second: weights.file_of(full).to_path_buf(),
        });
    }
    let prefix = if names.iter().any(|name| name.starts_with(prefix)) { prefix } else { "" };
    for &name in names.iter().filter(|&&name| name != UNEMBEDDING) {
        let belongs = name
            .strip_prefix(prefix)
            .is_some_and(|bare| known.contains(bare) || is_table(bare, config));
        if !belongs {
            let file = weights.file_of(name).to_path_buf();
            return Err(Error::UnknownTensor { file, tensor: name.to_owned() });
        }
    }
    Ok(prefix)
}

/// A tensor on its way into a file.
pub(crate) struct Stored<'a> {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Cow<'a, [f32]>,
    pub(crate) precision: Precision,
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        match self.precision {
            Precision::Single => Dtype::F32,
            Precision::Half => Dtype::F16,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        for &value in &*self.values {
            match self.precision {
                Precision::Single => bytes.extend_from_slice(&value.to_le_bytes()),
                Precision::Half => bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes()),
            }
        }
        bytes.into()
    }

    fn data_len(&self) -> usize {
        match self.precision {
            Precision::Single => 4 * self.values.len(),
            Precision::Half => 2 * self.values.len(),
        }
    }
}

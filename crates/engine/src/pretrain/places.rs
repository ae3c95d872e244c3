//! All parameters of a model in one vector, and where each tensor stands in it.
//!
//! One vector makes gradients, their norm, the optimiser and checkpoints loops over numbers.
//! Tensors follow each other in the order and layout of a checkpoint, matrices `[in, out]`.

use crate::config::{Config, Family};
use crate::error::Error;
use crate::modules::prefix;
use crate::parameters::{Parameters, check_sizes, full_name, layout};
use crate::real::Real;
use fewstep_core::Rng;
use std::ops::Range;

/// One tensor of a model.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    /// As in a checkpoint.
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) range: Range<usize>,
}

impl Tensor {
    /// Whether weight decay draws it to 0: matrices and embeddings, not norms and biases.
    pub(crate) fn decays(&self) -> bool {
        self.shape.len() > 1
    }
}

/// A layer norm.
#[derive(Clone, Debug)]
pub(crate) struct NormPlace {
    pub(crate) scale: Range<usize>,
    pub(crate) shift: Range<usize>,
}

/// A linear layer.
#[derive(Clone, Debug)]
pub(crate) struct LinearPlace {
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
}

/// One Transformer block, as [`crate::Layer`].
#[derive(Clone, Debug)]
pub(crate) struct LayerPlace {
    pub(crate) attention_norm: NormPlace,
    pub(crate) attention_input: LinearPlace,
    pub(crate) attention_output: LinearPlace,
    pub(crate) mlp_norm: NormPlace,
    pub(crate) mlp_up: LinearPlace,
    pub(crate) mlp_down: LinearPlace,
}

/// Where every tensor of a model stands in one vector.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) token_embedding: Range<usize>,
    pub(crate) position_embedding: Range<usize>,
    pub(crate) layers: Vec<LayerPlace>,
    pub(crate) final_norm: NormPlace,
    /// The token embedding's own if the two are tied.
    pub(crate) unembedding: Range<usize>,
}

impl Places {
    /// Of a model whose sizes have been checked.
    pub(crate) fn new(config: &Config) -> Self {
        let mut end = 0;
        let tensors: Vec<Tensor> = layout(config)
            .into_iter()
            .map(|(name, shape)| {
                let range = end..end + shape.iter().product::<usize>();
                end = range.end;
                Tensor { name: full_name(prefix(config), &name), shape, range }
            })
            .collect();
        let mut ranges = tensors.iter().map(|tensor| tensor.range.clone());
        let mut next = || ranges.next().expect("layout lists every tensor of the model");
        let token_embedding = next();
        let position_embedding = next();
        let layers = (0..config.layers)
            .map(|_| LayerPlace {
                attention_norm: NormPlace { scale: next(), shift: next() },
                attention_input: LinearPlace { weight: next(), bias: next() },
                attention_output: LinearPlace { weight: next(), bias: next() },
                mlp_norm: NormPlace { scale: next(), shift: next() },
                mlp_up: LinearPlace { weight: next(), bias: next() },
                mlp_down: LinearPlace { weight: next(), bias: next() },
            })
            .collect();
        let final_norm = NormPlace { scale: next(), shift: next() };
        let unembedding = if config.tied { token_embedding.clone() } else { next() };
        Self { tensors, token_embedding, position_embedding, layers, final_norm, unembedding }
    }

    /// Number of parameters.
    pub(crate) fn size(&self) -> usize {
        self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// All parameters in one vector, every size checked.
    pub(crate) fn flatten<R: Real>(
        &self,
        parameters: &Parameters,
        config: &Config,
    ) -> Result<Vec<R>, Error> {
        check_sizes(config, parameters)?;
        let mut flat = Vec::with_capacity(self.size());
        for values in parameters.tensors(config) {
            flat.extend(values.iter().map(|&value| R::of_weight(value)));
        }
        Ok(flat)
    }

    /// The parameters as a model has them.
    pub(crate) fn parameters(&self, flat: &[f32], config: &Config) -> Parameters {
        let tensors = self.tensors.iter().map(|tensor| flat[tensor.range.clone()].to_vec());
        Parameters::from_tensors(tensors.collect(), config)
    }
}

/// `Err` unless the sizes are in range and the model is of the family that can be trained.
pub(crate) fn check_trainable(config: &Config) -> Result<(), Error> {
    config.check()?;
    if config.family == Family::Gpt2 { Ok(()) } else { Err(Error::CannotTrain) }
}

/// The standard deviation of matrices and embeddings before training.
const SPREAD: f64 = 0.02;

impl Parameters {
    /// Parameters to start a training from, as GPT-2 starts.
    ///
    /// Matrices and embeddings are normal with standard deviation 0.02; those that write to the
    /// stream between layers have it divided by `√(2 · layers)`, so that the stream does not grow
    /// with depth. Norms are the identity and biases 0. A seed gives the same numbers always.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`], and [`Error::CannotTrain`] for a model of another family.
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
    /// let parameters = Parameters::initial(&config, 7)?;
    /// assert_eq!(parameters.final_norm.scale, [1.0, 1.0]);
    /// assert_eq!(parameters, Parameters::initial(&config, 7)?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn initial(config: &Config, seed: u64) -> Result<Self, Error> {
        check_trainable(config)?;
        let mut rng = Rng::new(seed);
        let residual = SPREAD / (2.0 * config.layers as f64).sqrt();
        let tensors = layout(config).into_iter().map(|(name, shape)| {
            let size = shape.iter().product();
            if shape.len() > 1 {
                let spread = if name.ends_with("c_proj.weight") { residual } else { SPREAD };
                (0..size).map(|_| f32::of(spread * rng.normal())).collect()
            } else {
                vec![if name.ends_with("weight") { 1.0 } else { 0.0 }; size]
            }
        });
        Ok(Self::from_tensors(tensors.collect(), config))
    }
}

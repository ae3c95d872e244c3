//! The weights of a GGUF file one by one, the matrices still quantised.

use super::tensors::{UNEMBEDDING, full_name, layout};
use super::{Norm, Parameters};
use crate::block_kind::BlockKind;
use crate::config::{Config, Family};
use crate::error::Error;
use crate::gguf::Gguf;
use crate::modules::{layers_name, module_of, norm_paths, prefix};
use crate::quantised::QuantisedMatrix;
use std::collections::BTreeSet;

/// A GGUF file that holds all tensors of a model and no other.
pub(crate) struct QuantisedTensors<'a> {
    gguf: &'a Gguf,
    pub(crate) config: &'a Config,
    prefix: &'static str,
}

impl<'a> QuantisedTensors<'a> {
    pub(crate) fn new(gguf: &'a Gguf, config: &'a Config) -> Result<Self, Error> {
        let prefix = match config.family {
            Family::Gpt2 => "",
            Family::Llama(_) => prefix(config),
        };
        let names = layout(config).into_iter().map(|(name, _)| full_name(prefix, &name));
        let known: BTreeSet<String> = names.collect();
        if let Some(stray) = gguf.names().find(|&name| !known.contains(name)) {
            let (file, tensor) = (gguf.file(), stray.to_owned());
            return Err(Error::UnknownTensor { file, tensor });
        }
        Ok(Self { gguf, config, prefix })
    }

    /// Everything, dequantised.
    fn dequantise(&self) -> Result<Parameters, Error> {
        let tensors = layout(self.config);
        let tensors = tensors.iter().map(|(name, shape)| self.numbers(name, shape));
        Ok(Parameters::from_tensors(tensors.collect::<Result<_, _>>()?, self.config))
    }

    fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        self.gguf.tensor(&full_name(self.prefix, name), shape)
    }

    /// An embedding, `[vocabulary, width]`.
    fn table(&self, name: &str) -> Result<QuantisedMatrix, Error> {
        let shape = [self.config.vocabulary, self.config.width];
        self.gguf.matrix(&full_name(self.prefix, name), shape)
    }

    pub(crate) fn token_embedding(&self) -> Result<QuantisedMatrix, Error> {
        self.table(match self.config.family {
            Family::Gpt2 => "wte.weight",
            Family::Llama(_) => "embed_tokens.weight",
        })
    }

    /// Empty if positions are rotary.
    pub(crate) fn position_embedding(&self) -> Result<Vec<f32>, Error> {
        let &Config { positions, width, .. } = self.config;
        if self.config.rotary().is_some() {
            return Ok(Vec::new());
        }
        self.numbers("wpe.weight", &[positions, width])
    }

    pub(crate) fn unembedding(&self) -> Result<Option<QuantisedMatrix>, Error> {
        (!self.config.tied).then(|| self.table(UNEMBEDDING)).transpose()
    }

    /// The norms in front of attention and in front of the MLP.
    pub(crate) fn norms(&self, layer: usize) -> Result<[Norm; 2], Error> {
        let [attention, mlp] = norm_paths(self.config, layer);
        Ok([self.norm(&attention)?, self.norm(&mlp)?])
    }

    pub(crate) fn final_norm(&self) -> Result<Norm, Error> {
        self.norm(match self.config.family {
            Family::Gpt2 => "ln_f",
            Family::Llama(_) => "norm",
        })
    }

    fn norm(&self, name: &str) -> Result<Norm, Error> {
        let part = |part: &str| self.numbers(&format!("{name}.{part}"), &[self.config.width]);
        let shift = if self.config.rotary().is_none() { part("bias")? } else { Vec::new() };
        Ok(Norm { scale: part("weight")?, shift })
    }

    /// A matrix and its bias, which is empty if there is none.
    pub(crate) fn linear(
        &self,
        layer: usize,
        kind: BlockKind,
    ) -> Result<(QuantisedMatrix, Vec<f32>), Error> {
        let (module, first) = module_of(self.config, kind);
        let (inputs, all) = module.shape(self.config);
        let own = first..first + self.config.shape(kind).1;
        let name = format!("{}.{layer}.{}", layers_name(self.config), module.name);
        let weight = full_name(self.prefix, &format!("{name}.weight"));
        let weight = self.gguf.matrix(&weight, [all, inputs])?;
        let bias = if self.config.has_bias(kind) {
            self.numbers(&format!("{name}.bias"), &[all])?[own.clone()].to_vec()
        } else {
            Vec::new()
        };
        Ok((weight.part(own), bias))
    }
}

impl Parameters {
    /// Takes a model's parameters out of a GGUF file, as plain numbers.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`] and [`Gguf::tensor`]; [`Error::UnknownTensor`] for a tensor that
    /// the configured model does not have.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error, Gguf, Parameters};
    ///
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/llama.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// let config = Config::from_json(gguf.config_json()?.as_bytes())?;
    /// let parameters = Parameters::from_gguf(&gguf, &config)?;
    /// assert_eq!(parameters.token_embedding.len(), config.vocabulary * config.width);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_gguf(gguf: &Gguf, config: &Config) -> Result<Self, Error> {
        config.check()?;
        QuantisedTensors::new(gguf, config)?.dequantise()
    }
}

//! The families of models, and what their members differ in.

use super::check_size;
use crate::block_kind::BlockKind;
use crate::error::Error;
use crate::rotary::Rotary;
use std::path::Path;

/// Which parts the layers of a model are made of.
///
/// | part | GPT-2 | Llama |
/// |---|---|---|
/// | norm | mean and variance, with scale and shift | mean square, with scale |
/// | position | learned, added to the token | rotary, in queries and keys |
/// | keys and values | one per query head | one per group of query heads |
/// | MLP | a smooth step | a smooth step that gates another product |
/// | biases | all | as the model has them |
/// | matrices in files | `[in, out]` | `[out, in]` |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Family};
///
/// let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4, "n_ctx": 8,
///                 "vocab_size": 256}"#;
/// assert_eq!(Config::from_json(json)?.family, Family::Gpt2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// GPT-2 and its relatives.
    Gpt2,
    /// Llama and its relatives.
    Llama(Llama),
}

/// What distinguishes a model of the Llama family beside its sizes.
///
/// | name | in `config.json` | meaning | range |
/// |---|---|---|---|
/// | `key_value_heads` | `num_key_value_heads` | heads that keys and values have | divides the number of heads |
/// | `head_width` | `head_dim`, or `hidden_size / num_attention_heads` | numbers per token in a head | even |
/// | `rotary` | `rope_theta` and `rope_scaling`, or `rope_parameters` | how queries and keys are turned | |
/// | `variant` | `model_type` | which published model, with its own settings | |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Family, Variant};
///
/// let config = Config::from_json(
///     br#"{"model_type": "mistral", "num_hidden_layers": 1, "num_attention_heads": 2,
///          "num_key_value_heads": 1, "hidden_size": 8, "intermediate_size": 12,
///          "max_position_embeddings": 64, "vocab_size": 256, "sliding_window": 16}"#,
/// )?;
/// let Family::Llama(parts) = config.family else { panic!("it is one") };
/// assert_eq!((parts.head_width, parts.rotary.base), (4, 10000.0));
/// assert_eq!(parts.variant, Variant::Mistral { window: Some(16) });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Llama {
    /// Heads that keys and values have; each serves the same number of query heads.
    pub key_value_heads: usize,
    /// Numbers per token in one attention head.
    pub head_width: usize,
    /// How queries and keys are turned by their position.
    pub rotary: Rotary,
    /// Which published model.
    pub variant: Variant,
}

/// The published models of the Llama family, each with the settings that it alone has.
///
/// # Examples
///
/// ```
/// use fewstep_engine::Variant;
///
/// let plain = Variant::Llama { attention_bias: false, mlp_bias: false };
/// assert_ne!(plain, Variant::Qwen2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Llama, SmolLM, TinyLlama and many others.
    Llama {
        /// Whether queries, keys, values and the projection have biases.
        attention_bias: bool,
        /// Whether the three matrices of the MLP have biases.
        mlp_bias: bool,
    },
    /// Mistral, without biases.
    Mistral {
        /// How many of the last tokens a token sees. Sequences up to this length are computed as
        /// if there were no window, which is exact; longer ones are refused.
        window: Option<usize>,
    },
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
}

impl Llama {
    /// Whether the parts are within their ranges, for a model with this number of heads.
    pub(super) fn check(&self, file: &Path, heads: usize) -> Result<(), Error> {
        let &Self { key_value_heads, head_width, .. } = self;
        check_size(file, "num_key_value_heads", key_value_heads, heads)?;
        check_size(file, "head_dim", head_width, (1 << 18) / heads)?;
        if !heads.is_multiple_of(key_value_heads) {
            let file = file.to_path_buf();
            return Err(Error::KeyValueHeadsDoNotDivide { file, heads, key_value_heads });
        }
        if !head_width.is_multiple_of(2) {
            let (file, found) = (file.to_path_buf(), head_width.to_string());
            let (setting, allowed) = ("head_dim", "even, because positions turn pairs");
            return Err(Error::Unsupported { file, setting, found, allowed });
        }
        if let Variant::Mistral { window: Some(window) } = self.variant {
            check_size(file, "sliding_window", window, usize::MAX)?;
        }
        self.rotary.check(file)
    }
}

impl Variant {
    pub(super) fn has_bias(self, kind: BlockKind) -> bool {
        let attention = kind.per_head();
        match self {
            Self::Llama { attention_bias, .. } if attention => attention_bias,
            Self::Llama { mlp_bias, .. } => mlp_bias,
            Self::Mistral { .. } => false,
            Self::Qwen2 => attention && kind != BlockKind::Output,
        }
    }
}

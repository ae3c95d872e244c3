//! The shape of a model, as its `config.json` gives it.
//!
//! In: the Hugging Face configuration of the GPT-2 family. Out: [`Config`], checked. What would
//! change the numbers and is not implemented is refused by name; what only concerns training
//! (dropout, initialisation) is not looked at.

use crate::error::Error;
use crate::files;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// The longest `config.json` that is read.
const LONGEST: u64 = 1 << 20;

const FILE: &str = "config.json";

/// The sizes of a model of the GPT-2 family.
///
/// | name | in `config.json` | meaning | range |
/// |---|---|---|---|
/// | `layers` | `n_layer` | Transformer blocks | 1 to 1024 |
/// | `heads` | `n_head` | attention heads per layer | divides `width` |
/// | `width` | `n_embd` | numbers per token between layers | 1 to 65536 |
/// | `inner` | `n_inner`, null for `4 · width` | numbers inside an MLP | 1 to 262144 |
/// | `positions` | `n_positions` or `n_ctx` | longest sequence | 1 to 1048576 |
/// | `vocabulary` | `vocab_size` | number of token ids | 1 to 4194304 |
/// | `norm_epsilon` | `layer_norm_epsilon`, 1e-5 | added to the variance in layer norms | over 0, at most 1 |
/// | `tied` | `tie_word_embeddings`, true | output embedding is the token embedding | |
/// | `bos` | `bos_token_id` | token that may start a text | |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 6, "n_head": 12, "n_embd": 768,
///          "n_positions": 1024, "vocab_size": 50257}"#,
/// )?;
/// assert_eq!((config.head_width(), config.inner, config.tied), (64, 3072, true));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of layers.
    pub layers: usize,
    /// Number of attention heads per layer.
    pub heads: usize,
    /// Numbers per token between layers.
    pub width: usize,
    /// Numbers per token inside an MLP.
    pub inner: usize,
    /// The longest sequence.
    pub positions: usize,
    /// Number of token ids.
    pub vocabulary: usize,
    /// What layer norms add to the variance.
    pub norm_epsilon: f64,
    /// Whether the output embedding is the token embedding.
    pub tied: bool,
    /// The token that may start a text.
    pub bos: Option<u32>,
}

/// The settings of `config.json` that change what a model computes.
#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    model_type: Value,
    #[serde(default)]
    architectures: Value,
    #[serde(default)]
    activation_function: Value,
    #[serde(default)]
    scale_attn_weights: Value,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: Value,
    #[serde(default)]
    add_cross_attention: Value,
    #[serde(default)]
    quantization_config: Value,
}

/// The settings that are sizes.
#[derive(Deserialize)]
struct Sizes {
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
    n_inner: Option<usize>,
    n_positions: Option<usize>,
    n_ctx: Option<usize>,
    vocab_size: usize,
    layer_norm_epsilon: Option<f64>,
    tie_word_embeddings: Option<bool>,
    bos_token_id: Option<u32>,
}

impl Config {
    /// Reads `config.json` in a model's directory.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::NotAFile`] or [`Error::FileTooLarge`] if it cannot be read, and
    /// those of [`Config::from_json`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error};
    ///
    /// let refused = Config::load("no such directory".as_ref());
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    /// ```
    pub fn load(directory: &Path) -> Result<Self, Error> {
        let file = directory.join(FILE);
        Self::parse(&file, &files::read(&file, LONGEST)?)
    }

    /// A configuration from the text of a `config.json`.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] for what is no configuration, [`Error::Unsupported`] for a model that is
    /// not implemented, and those of [`Config::check`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error};
    ///
    /// let relu = br#"{"model_type": "gpt2", "activation_function": "relu"}"#;
    /// let Err(Error::Unsupported { setting, found, .. }) = Config::from_json(relu) else {
    ///     panic!("only one activation is implemented");
    /// };
    /// assert_eq!((setting, found.as_str()), ("activation_function", "\"relu\""));
    /// ```
    pub fn from_json(json: &[u8]) -> Result<Self, Error> {
        Self::parse(Path::new(FILE), json)
    }

    fn parse(file: &Path, json: &[u8]) -> Result<Self, Error> {
        files::parse::<Settings>(file, json)?.check(file)?;
        let sizes: Sizes = files::parse(file, json)?;
        let missing = || Error::Unsupported {
            file: file.to_path_buf(),
            setting: "n_positions",
            found: "absent".to_owned(),
            allowed: "given, as n_positions or n_ctx",
        };
        let config = Self {
            layers: sizes.n_layer,
            heads: sizes.n_head,
            width: sizes.n_embd,
            inner: sizes.n_inner.unwrap_or(sizes.n_embd.saturating_mul(4)),
            positions: sizes.n_positions.or(sizes.n_ctx).ok_or_else(missing)?,
            vocabulary: sizes.vocab_size,
            norm_epsilon: sizes.layer_norm_epsilon.unwrap_or(1e-5),
            tied: sizes.tie_word_embeddings.unwrap_or(true),
            bos: sizes.bos_token_id,
        };
        config.check_in(file)?;
        Ok(config)
    }

    /// Whether the sizes are within their ranges and fit each other.
    ///
    /// # Errors
    ///
    /// [`Error::SizeOutOfRange`], [`Error::EpsilonOutOfRange`] or [`Error::HeadsDoNotDivide`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4,
    /// #                 "n_ctx": 8, "vocab_size": 256}"#;
    /// let mut config = Config::from_json(json)?;
    /// config.heads = 3;
    /// assert!(matches!(config.check(), Err(Error::HeadsDoNotDivide { heads: 3, width: 4, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        self.check_in(Path::new(FILE))
    }

    fn check_in(&self, file: &Path) -> Result<(), Error> {
        for (setting, found, largest) in [
            ("n_layer", self.layers, 1 << 10),
            ("n_embd", self.width, 1 << 16),
            ("n_head", self.heads, 1 << 16),
            ("n_inner", self.inner, 1 << 18),
            ("n_positions", self.positions, 1 << 20),
            ("vocab_size", self.vocabulary, 1 << 22),
        ] {
            if !(1..=largest).contains(&found) {
                let file = file.to_path_buf();
                return Err(Error::SizeOutOfRange { file, setting, found, largest });
            }
        }
        let (heads, width) = (self.heads, self.width);
        if !width.is_multiple_of(heads) {
            return Err(Error::HeadsDoNotDivide { file: file.to_path_buf(), heads, width });
        }
        if !(self.norm_epsilon > 0.0 && self.norm_epsilon <= 1.0) {
            let (file, found) = (file.to_path_buf(), self.norm_epsilon);
            return Err(Error::EpsilonOutOfRange { file, found });
        }
        Ok(())
    }

    /// Numbers per token in one attention head.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 6,
    /// #                 "n_ctx": 8, "vocab_size": 256}"#;
    /// assert_eq!(Config::from_json(json)?.head_width(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// The text of a `config.json` that other tools read as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 6,
    /// #                 "n_ctx": 8, "vocab_size": 256}"#;
    /// let config = Config::from_json(json)?;
    /// assert_eq!(Config::from_json(config.to_json().as_bytes())?, config);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let settings = json!({
            "activation_function": "gelu_new",
            "architectures": ["GPT2LMHeadModel"],
            "bos_token_id": self.bos,
            "layer_norm_epsilon": self.norm_epsilon,
            "model_type": "gpt2",
            "n_ctx": self.positions,
            "n_embd": self.width,
            "n_head": self.heads,
            "n_inner": self.inner,
            "n_layer": self.layers,
            "n_positions": self.positions,
            "scale_attn_by_inverse_layer_idx": false,
            "scale_attn_weights": true,
            "tie_word_embeddings": self.tied,
            "vocab_size": self.vocabulary,
        });
        format!("{settings:#}\n")
    }

    /// Writes `config.json` into a directory.
    pub(crate) fn save(&self, directory: &Path) -> Result<(), Error> {
        files::write(&directory.join(FILE), self.to_json().as_bytes())
    }
}

impl Settings {
    /// Refuses what would change the numbers and is not implemented.
    fn check(self, file: &Path) -> Result<(), Error> {
        let architectures = json!([null, ["GPT2LMHeadModel"], ["GPT2Model"]]);
        let activations = json!([null, "gelu_new", "gelu_pytorch_tanh"]);
        let (yes, no) = (json!([null, true]), json!([null, false]));
        let by_layer = self.scale_attn_by_inverse_layer_idx;
        let activation_names = "gelu_new or gelu_pytorch_tanh";
        for (setting, found, accepted, allowed) in [
            ("model_type", self.model_type, json!(["gpt2"]), "gpt2"),
            (
                "architectures",
                self.architectures,
                architectures,
                "GPT2LMHeadModel or GPT2Model",
            ),
            ("activation_function", self.activation_function, activations, activation_names),
            ("scale_attn_weights", self.scale_attn_weights, yes, "true"),
            ("scale_attn_by_inverse_layer_idx", by_layer, no.clone(), "false"),
            ("add_cross_attention", self.add_cross_attention, no, "false"),
            ("quantization_config", self.quantization_config, json!([null]), "absent"),
        ] {
            if !accepted.as_array().is_some_and(|values| values.contains(&found)) {
                let (file, found) = (file.to_path_buf(), found.to_string());
                return Err(Error::Unsupported { file, setting, found, allowed });
            }
        }
        Ok(())
    }
}

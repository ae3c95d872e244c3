//! The shape of a model, as its `config.json` gives it.
//!
//! In: the Hugging Face configuration of the GPT-2 or the Llama family. Out: [`Config`], checked.
//! What would change the numbers and is not implemented is refused by name; what only concerns
//! training (dropout, initialisation) is not looked at. Other files ask [`Config`] for the parts
//! of a model, never for its family.

use crate::block_kind::BlockKind;
use crate::error::Error;
use crate::files;
use crate::matrix::WeightOrder;
use crate::ops::NormKind;
use crate::rotary::Rotary;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

mod family;
mod gpt2;
mod llama;

pub use family::{Family, Llama, Variant};

/// The longest `config.json` that is read.
const LONGEST: u64 = 1 << 20;

const FILE: &str = "config.json";

/// The sizes and parts of a model.
///
/// | name | in `config.json` (GPT-2; Llama) | meaning | range |
/// |---|---|---|---|
/// | `layers` | `n_layer`; `num_hidden_layers` | Transformer blocks | 1 to 1024 |
/// | `heads` | `n_head`; `num_attention_heads` | attention heads per layer | divides `width`, or the head width is given |
/// | `width` | `n_embd`; `hidden_size` | numbers per token between layers | 1 to 65536 |
/// | `inner` | `n_inner`, null for `4 · width`; `intermediate_size` | numbers inside an MLP | 1 to 262144 |
/// | `positions` | `n_positions` or `n_ctx`; `max_position_embeddings` | longest sequence | 1 to 1048576 |
/// | `vocabulary` | `vocab_size` | number of token ids | 1 to 4194304 |
/// | `norm_epsilon` | `layer_norm_epsilon`, 1e-5; `rms_norm_eps`, 1e-6 | added to the mean square in norms | over 0, at most 1 |
/// | `tied` | `tie_word_embeddings`, true; false | output embedding is the token embedding | |
/// | `bos` | `bos_token_id` | token that may start a text | |
/// | `family` | `model_type` | which parts the layers are made of | |
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
///
/// let config = Config::from_json(
///     br#"{"model_type": "llama", "num_hidden_layers": 30, "num_attention_heads": 9,
///          "num_key_value_heads": 3, "hidden_size": 576, "intermediate_size": 1536,
///          "max_position_embeddings": 8192, "vocab_size": 49152, "rope_theta": 100000}"#,
/// )?;
/// assert_eq!((config.head_width(), config.key_value_heads()), (64, 3));
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
    /// What norms add to the variance or mean square.
    pub norm_epsilon: f64,
    /// Whether the output embedding is the token embedding.
    pub tied: bool,
    /// The token that may start a text.
    pub bos: Option<u32>,
    /// Which parts the layers are made of.
    pub family: Family,
}

/// The setting that says which family a configuration belongs to.
#[derive(Deserialize)]
struct ModelType {
    #[serde(default)]
    model_type: Value,
}

/// A setting as it was found, what is accepted, and the same in words.
type Accepted = (&'static str, Value, Value, &'static str);

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
    /// [`Error::Json`] for invalid JSON, [`Error::Unsupported`] for a model that is
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
        let found = files::parse::<ModelType>(file, json)?.model_type;
        let config = match found.as_str() {
            Some("gpt2") => gpt2::parse(file, json)?,
            Some("llama" | "mistral" | "qwen2") => llama::parse(file, json)?,
            _ => {
                let (file, found) = (file.to_path_buf(), found.to_string());
                let allowed = "gpt2, llama, mistral or qwen2";
                return Err(Error::Unsupported { file, setting: "model_type", found, allowed });
            }
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
        let [layers, width, heads, inner, positions, epsilon] = match self.family {
            Family::Gpt2 => gpt2::NAMES,
            Family::Llama(_) => llama::NAMES,
        };
        for (setting, found, largest) in [
            (layers, self.layers, 1 << 10),
            (width, self.width, 1 << 16),
            (heads, self.heads, 1 << 16),
            (inner, self.inner, 1 << 18),
            (positions, self.positions, 1 << 20),
            ("vocab_size", self.vocabulary, 1 << 22),
        ] {
            check_size(file, setting, found, largest)?;
        }
        if !(self.norm_epsilon > 0.0 && self.norm_epsilon <= 1.0) {
            let (file, found) = (file.to_path_buf(), self.norm_epsilon);
            return Err(Error::EpsilonOutOfRange { file, setting: epsilon, found });
        }
        match &self.family {
            Family::Gpt2 => check_division(file, self.heads, self.width),
            Family::Llama(parts) => parts.check(file, self.heads),
        }
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
        match &self.family {
            Family::Gpt2 => self.width / self.heads,
            Family::Llama(parts) => parts.head_width,
        }
    }

    /// Number of heads that keys and values have; each serves the same number of query heads.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 6,
    /// #                 "n_ctx": 8, "vocab_size": 256}"#;
    /// let config = Config::from_json(json)?;
    /// assert_eq!(config.key_value_heads(), config.heads); // in GPT-2 every head has its own
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn key_value_heads(&self) -> usize {
        match &self.family {
            Family::Gpt2 => self.heads,
            Family::Llama(parts) => parts.key_value_heads,
        }
    }

    /// Number of heads that a kind of block is split by, or `None` if it is not.
    ///
    /// Values and keys have one block per key-value head, queries and the projection one per
    /// query head.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{BlockKind, Config, Error};
    /// # let json = br#"{"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4,
    /// #     "num_key_value_heads": 2, "hidden_size": 8, "intermediate_size": 12,
    /// #     "max_position_embeddings": 8, "vocab_size": 256}"#;
    /// let config = Config::from_json(json)?;
    /// assert_eq!(config.heads_of(BlockKind::Value), Some(2));
    /// assert_eq!(config.heads_of(BlockKind::Query), Some(4));
    /// assert_eq!(config.heads_of(BlockKind::MlpGate), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn heads_of(&self, kind: BlockKind) -> Option<usize> {
        match kind {
            BlockKind::Value | BlockKind::Key => Some(self.key_value_heads()),
            BlockKind::Output | BlockKind::Query => Some(self.heads),
            _ => None,
        }
    }

    /// Numbers per token in all query heads together.
    pub(crate) fn attention_width(&self) -> usize {
        self.heads * self.head_width()
    }

    /// Numbers per token in all key-value heads together.
    pub(crate) fn key_value_width(&self) -> usize {
        self.key_value_heads() * self.head_width()
    }

    /// Number of inputs and outputs of the matrix of a kind; norms are one row of numbers.
    pub(crate) fn shape(&self, kind: BlockKind) -> (usize, usize) {
        match kind {
            BlockKind::Value | BlockKind::Key | BlockKind::LoraValue => {
                (self.width, self.key_value_width())
            }
            BlockKind::Query | BlockKind::LoraQuery => (self.width, self.attention_width()),
            BlockKind::Output => (self.attention_width(), self.width),
            BlockKind::MlpUp | BlockKind::MlpGate => (self.width, self.inner),
            BlockKind::MlpDown => (self.inner, self.width),
            BlockKind::Norm => (1, 2 * (self.width + self.shift_width())),
        }
    }

    /// Numbers of a norm's shift; 0 if it has none.
    pub(crate) fn shift_width(&self) -> usize {
        match self.norm_kind() {
            NormKind::Deviation => self.width,
            NormKind::MeanSquare => 0,
        }
    }

    /// Whether a layer has weights of this kind.
    pub(crate) fn has(&self, kind: BlockKind) -> bool {
        kind != BlockKind::MlpGate || self.gated()
    }

    /// Whether the MLP multiplies what it lets through with a second product.
    pub(crate) fn gated(&self) -> bool {
        matches!(self.family, Family::Llama(_))
    }

    /// Whether a matrix has a bias.
    pub(crate) fn has_bias(&self, kind: BlockKind) -> bool {
        match &self.family {
            Family::Gpt2 => true,
            Family::Llama(parts) => parts.variant.has_bias(kind),
        }
    }

    /// What the norms divide by.
    pub(crate) fn norm_kind(&self) -> NormKind {
        match self.family {
            Family::Gpt2 => NormKind::Deviation,
            Family::Llama(_) => NormKind::MeanSquare,
        }
    }

    /// How queries and keys are turned, unless positions are learned.
    pub(crate) fn rotary(&self) -> Option<&Rotary> {
        match &self.family {
            Family::Gpt2 => None,
            Family::Llama(parts) => Some(&parts.rotary),
        }
    }

    /// How many of the last tokens a token sees, if not all.
    pub(crate) fn window(&self) -> Option<usize> {
        match &self.family {
            Family::Llama(Llama { variant: Variant::Mistral { window }, .. }) => *window,
            _ => None,
        }
    }

    /// The order of the numbers of a matrix in files and in memory.
    pub(crate) fn order(&self) -> WeightOrder {
        match self.family {
            Family::Gpt2 => WeightOrder::InputsFirst,
            Family::Llama(_) => WeightOrder::OutputsFirst,
        }
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
        let settings = match &self.family {
            Family::Gpt2 => gpt2::settings(self),
            Family::Llama(parts) => llama::settings(self, parts),
        };
        format!("{settings:#}\n")
    }

    /// Writes `config.json` into a directory.
    pub(crate) fn save(&self, directory: &Path) -> Result<(), Error> {
        files::write(&directory.join(FILE), self.to_json().as_bytes())
    }
}

fn check_size(
    file: &Path,
    setting: &'static str,
    found: usize,
    largest: usize,
) -> Result<(), Error> {
    if (1..=largest).contains(&found) {
        return Ok(());
    }
    Err(Error::SizeOutOfRange { file: file.to_path_buf(), setting, found, largest })
}

/// `Err` unless heads can share the width evenly.
fn check_division(file: &Path, heads: usize, width: usize) -> Result<(), Error> {
    if heads > 0 && width.is_multiple_of(heads) {
        return Ok(());
    }
    Err(Error::HeadsDoNotDivide { file: file.to_path_buf(), heads, width })
}

/// Refuses the first setting whose value is not accepted.
fn refuse(file: &Path, settings: impl IntoIterator<Item = Accepted>) -> Result<(), Error> {
    for (setting, found, accepted, allowed) in settings {
        if !accepted.as_array().is_some_and(|values| values.contains(&found)) {
            let (file, found) = (file.to_path_buf(), found.to_string());
            return Err(Error::Unsupported { file, setting, found, allowed });
        }
    }
    Ok(())
}

//! The configuration of the GPT-2 family, to and from JSON.

use super::{Accepted, Config, Family, refuse};
use crate::error::Error;
use crate::files;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

/// What the file calls layers, width, heads, the MLP's width, positions and the norms' epsilon.
pub(super) const NAMES: [&str; 6] =
    ["n_layer", "n_embd", "n_head", "n_inner", "n_positions", "layer_norm_epsilon"];

/// The settings that change what a model computes.
#[derive(Deserialize)]
struct Gpt2Settings {
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

/// The configuration in a file's text; sizes are not checked yet.
pub(super) fn parse(file: &Path, json: &[u8]) -> Result<Config, Error> {
    refuse(file, files::parse::<Gpt2Settings>(file, json)?.accepted())?;
    let sizes: Sizes = files::parse(file, json)?;
    let missing = || Error::Unsupported {
        file: file.to_path_buf(),
        setting: "n_positions",
        found: "absent".to_owned(),
        allowed: "given, as n_positions or n_ctx",
    };
    Ok(Config {
        layers: sizes.n_layer,
        heads: sizes.n_head,
        width: sizes.n_embd,
        inner: sizes.n_inner.unwrap_or(sizes.n_embd.saturating_mul(4)),
        positions: sizes.n_positions.or(sizes.n_ctx).ok_or_else(missing)?,
        vocabulary: sizes.vocab_size,
        norm_epsilon: sizes.layer_norm_epsilon.unwrap_or(1e-5),
        tied: sizes.tie_word_embeddings.unwrap_or(true),
        bos: sizes.bos_token_id,
        family: Family::Gpt2,
    })
}

impl Gpt2Settings {
    /// What would change the numbers, with the values that are implemented.
    fn accepted(self) -> [Accepted; 6] {
        let architectures = json!([null, ["GPT2LMHeadModel"], ["GPT2Model"]]);
        let activations = json!([null, "gelu_new", "gelu_pytorch_tanh"]);
        let (yes, no) = (json!([null, true]), json!([null, false]));
        let by_layer = self.scale_attn_by_inverse_layer_idx;
        let activation_names = "gelu_new or gelu_pytorch_tanh";
        let names = "GPT2LMHeadModel or GPT2Model";
        [
            ("architectures", self.architectures, architectures, names),
            ("activation_function", self.activation_function, activations, activation_names),
            ("scale_attn_weights", self.scale_attn_weights, yes, "true"),
            ("scale_attn_by_inverse_layer_idx", by_layer, no.clone(), "false"),
            ("add_cross_attention", self.add_cross_attention, no, "false"),
            ("quantization_config", self.quantization_config, json!([null]), "absent"),
        ]
    }
}

/// The settings that other tools read as well.
pub(super) fn settings(config: &Config) -> Value {
    json!({
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "bos_token_id": config.bos,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": "gpt2",
        "n_ctx": config.positions,
        "n_embd": config.width,
        "n_head": config.heads,
        "n_inner": config.inner,
        "n_layer": config.layers,
        "n_positions": config.positions,
        "scale_attn_by_inverse_layer_idx": false,
        "scale_attn_weights": true,
        "tie_word_embeddings": config.tied,
        "vocab_size": config.vocabulary,
    })
}

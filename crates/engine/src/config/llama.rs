//! The configurations of the Llama family, to and from JSON.
//!
//! Defaults are those of the class that `model_type` names; what every published file states is
//! required.

use super::{Accepted, Config, Family, Llama, Variant, check_division, refuse};
use crate::error::Error;
use crate::files;
use crate::rotary::Rotary;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::path::Path;

/// What the file calls layers, width, heads, the MLP's width, positions and the norms' epsilon.
pub(super) const NAMES: [&str; 6] = [
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "rms_norm_eps",
];

/// The settings that change what a model computes.
#[derive(Deserialize)]
struct LlamaSettings {
    model_type: Name,
    #[serde(default)]
    architectures: Value,
    #[serde(default)]
    hidden_act: Value,
    #[serde(default)]
    pretraining_tp: Value,
    #[serde(default)]
    partial_rotary_factor: Value,
    #[serde(default)]
    use_sliding_window: Value,
    #[serde(default)]
    layer_types: Value,
    #[serde(default)]
    quantization_config: Value,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Name {
    Llama,
    Mistral,
    Qwen2,
}

/// The settings that are sizes or choices.
#[derive(Deserialize)]
struct Sizes {
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    hidden_size: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    vocab_size: usize,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    bos_token_id: Option<u32>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    /// Without the setting there is a window; null says that there is none.
    #[serde(default, deserialize_with = "given")]
    sliding_window: Option<Option<usize>>,
}

/// A setting that is there, even if it is null.
fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<usize>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The window of a Mistral whose file does not speak of it.
const WINDOW: usize = 4096;

/// The configuration in a file's text; sizes are not checked yet.
pub(super) fn parse(file: &Path, json: &[u8]) -> Result<Config, Error> {
    let settings: LlamaSettings = files::parse(file, json)?;
    let name = settings.model_type;
    refuse(file, settings.accepted())?;
    let sizes: Sizes = files::parse(file, json)?;
    let (heads, width) = (sizes.num_attention_heads, sizes.hidden_size);
    if sizes.head_dim.is_none() {
        check_division(file, heads, width)?;
    }
    if name != Name::Llama && sizes.num_key_value_heads.is_none() {
        // Their classes have defaults of their own, which fit no other size than the published.
        let (file, found) = (file.to_path_buf(), "absent".to_owned());
        let (setting, allowed) = ("num_key_value_heads", "given");
        return Err(Error::Unsupported { file, setting, found, allowed });
    }
    let variant = match name {
        Name::Llama => Variant::Llama {
            attention_bias: sizes.attention_bias.unwrap_or(false),
            mlp_bias: sizes.mlp_bias.unwrap_or(false),
        },
        Name::Mistral => {
            Variant::Mistral { window: sizes.sliding_window.unwrap_or(Some(WINDOW)) }
        }
        Name::Qwen2 => Variant::Qwen2,
    };
    let positions = sizes.max_position_embeddings;
    Ok(Config {
        layers: sizes.num_hidden_layers,
        heads,
        width,
        inner: sizes.intermediate_size,
        positions,
        vocabulary: sizes.vocab_size,
        norm_epsilon: sizes.rms_norm_eps.unwrap_or(1e-6),
        tied: sizes.tie_word_embeddings.unwrap_or(false),
        bos: sizes.bos_token_id,
        family: Family::Llama(Llama {
            key_value_heads: sizes.num_key_value_heads.unwrap_or(heads),
            head_width: sizes.head_dim.unwrap_or_else(|| width / heads),
            rotary: Rotary::parse(file, json, positions)?,
            variant,
        }),
    })
}

impl LlamaSettings {
    /// What would change the numbers, with the values that are implemented.
    fn accepted(self) -> [Accepted; 7] {
        let (architectures, names) = match self.model_type {
            Name::Llama => (
                json!([null, ["LlamaForCausalLM"], ["LlamaModel"]]),
                "LlamaForCausalLM or LlamaModel",
            ),
            Name::Mistral => (
                json!([null, ["MistralForCausalLM"], ["MistralModel"]]),
                "MistralForCausalLM or MistralModel",
            ),
            Name::Qwen2 => (
                json!([null, ["Qwen2ForCausalLM"], ["Qwen2Model"]]),
                "Qwen2ForCausalLM or Qwen2Model",
            ),
        };
        let (one, no) = (json!([null, 1, 1.0]), json!([null, false]));
        // A list of layers that all see everything says what its absence says.
        let full = |layers: &Vec<Value>| layers.iter().all(|layer| layer == "full_attention");
        let layer_types = match self.layer_types {
            Value::Array(layers) if full(&layers) => Value::Null,
            other => other,
        };
        let absent = json!([null]);
        [
            ("architectures", self.architectures, architectures, names),
            ("hidden_act", self.hidden_act, json!([null, "silu"]), "silu"),
            ("pretraining_tp", self.pretraining_tp, one.clone(), "1"),
            ("partial_rotary_factor", self.partial_rotary_factor, one, "1"),
            ("use_sliding_window", self.use_sliding_window, no, "false"),
            ("layer_types", layer_types, absent.clone(), "full_attention in every layer"),
            ("quantization_config", self.quantization_config, absent, "absent"),
        ]
    }
}

/// The settings that other tools read as well.
pub(super) fn settings(config: &Config, parts: &Llama) -> Value {
    let mut settings = json!({
        "bos_token_id": config.bos,
        "head_dim": parts.head_width,
        "hidden_act": "silu",
        "hidden_size": config.width,
        "intermediate_size": config.inner,
        "max_position_embeddings": config.positions,
        "num_attention_heads": config.heads,
        "num_hidden_layers": config.layers,
        "num_key_value_heads": parts.key_value_heads,
        "rms_norm_eps": config.norm_epsilon,
        "rope_scaling": parts.rotary.scaling.settings(),
        "rope_theta": parts.rotary.base,
        "tie_word_embeddings": config.tied,
        "vocab_size": config.vocabulary,
    });
    let own = match parts.variant {
        Variant::Llama { attention_bias, mlp_bias } => json!({
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": attention_bias,
            "mlp_bias": mlp_bias,
            "model_type": "llama",
        }),
        Variant::Mistral { window } => json!({
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "sliding_window": window,
        }),
        Variant::Qwen2 => json!({
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "use_sliding_window": false,
        }),
    };
    if let (Value::Object(settings), Value::Object(own)) = (&mut settings, own) {
        settings.extend(own);
    }
    settings
}

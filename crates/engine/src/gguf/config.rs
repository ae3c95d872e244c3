//! From a GGUF file's metadata to the settings of a Hugging Face `config.json`.
//!
//! Every entry under the architecture's name is either used or known to change nothing; any other
//! is refused, since it may change what the model computes.

use super::metadata::Metadata;
use super::{Architecture, Gguf, ROTARY_FACTORS};
use crate::error::Error;
use serde_json::{Map, Value, json};
use std::f64::consts::TAU;

const ARCHITECTURE: &str = "general.architecture";

/// The entries of every architecture, without its name.
const COMMON: [&str; 8] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "vocab_size",
    "tensor_data_layout",
];

/// Those of architectures with rotary embeddings.
const ROTARY: [&str; 12] = [
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "expert_count",
];

const GPT2_EPSILON: &str = "attention.layer_norm_epsilon";

/// The architecture of a file that holds one whole model.
pub(crate) fn architecture(metadata: &Metadata, bytes: &[u8]) -> Result<Architecture, Error> {
    let unsupported = |setting, found, allowed| {
        let file = metadata.file().to_path_buf();
        Err(Error::Unsupported { file, setting, found, allowed })
    };
    if let Some(kind) = metadata.text(bytes, "general.type")?
        && kind != "model"
    {
        return unsupported("general.type", kind.to_owned(), "model");
    }
    if let Some(parts @ 2..) = metadata.integer(bytes, "split.count")? {
        return unsupported("split.count", parts.to_string(), "1: join the parts of the model");
    }
    let allowed = "llama, qwen2 or gpt2";
    match metadata.text(bytes, ARCHITECTURE)? {
        Some("llama") => Ok(Architecture::Llama),
        Some("qwen2") => Ok(Architecture::Qwen2),
        Some("gpt2") => Ok(Architecture::Gpt2),
        Some(other) => unsupported(ARCHITECTURE, other.to_owned(), allowed),
        None => Err(metadata.absent(ARCHITECTURE, allowed)),
    }
}

/// The sizes that say how tensors are named and stored.
pub(crate) struct Sizes {
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) key_value_heads: u64,
}

impl Sizes {
    pub(crate) fn read(
        metadata: &Metadata,
        bytes: &[u8],
        architecture: Architecture,
    ) -> Result<Self, Error> {
        let entries = ModelEntries { metadata, bytes, architecture };
        entries.check_names()?;
        let heads = entries.needed("attention.head_count")?;
        let key_value_heads = entries.integer("attention.head_count_kv")?.unwrap_or(heads);
        Ok(Self { layers: entries.needed("block_count")?, heads, key_value_heads })
    }
}

/// The text of a `config.json`.
pub(crate) fn json(gguf: &Gguf) -> Result<String, Error> {
    let (metadata, bytes) = (&gguf.metadata, gguf.store.as_slice());
    let entries = ModelEntries { metadata, bytes, architecture: gguf.architecture };
    let embedding = match gguf.architecture {
        Architecture::Llama | Architecture::Qwen2 => "model.embed_tokens.weight",
        Architecture::Gpt2 => "wte.weight",
    };
    let vocabulary = gguf.placed(embedding)?.tensor.shape[0];
    let mut config = match gguf.architecture {
        Architecture::Llama | Architecture::Qwen2 => entries.rotary(gguf)?,
        Architecture::Gpt2 => entries.gpt2()?,
    };
    config.insert("vocab_size".to_owned(), json!(vocabulary));
    let tied = !gguf.tensors.contains_key("lm_head.weight");
    config.insert("tie_word_embeddings".to_owned(), json!(tied));
    for (name, key) in [
        ("bos_token_id", "tokenizer.ggml.bos_token_id"),
        ("eos_token_id", "tokenizer.ggml.eos_token_id"),
    ] {
        config.insert(name.to_owned(), json!(metadata.integer(bytes, key)?));
    }
    Ok(format!("{:#}\n", Value::Object(config)))
}

/// The entries under the architecture's name.
struct ModelEntries<'a> {
    metadata: &'a Metadata,
    bytes: &'a [u8],
    architecture: Architecture,
}

impl ModelEntries<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name())
    }

    fn integer(&self, name: &str) -> Result<Option<u64>, Error> {
        self.metadata.integer(self.bytes, &self.key(name))
    }

    fn needed(&self, name: &str) -> Result<u64, Error> {
        self.integer(name)?.ok_or_else(|| self.metadata.absent(&self.key(name), "an integer"))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        self.metadata.number(self.bytes, &self.key(name))
    }

    fn needed_number(&self, name: &str) -> Result<f64, Error> {
        self.number(name)?.ok_or_else(|| self.metadata.absent(&self.key(name), "a number"))
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        self.metadata.text(self.bytes, &self.key(name))
    }

    fn refused(&self, name: &str, found: String, allowed: &'static str) -> Error {
        self.metadata.refused(&self.key(name), found, allowed)
    }

    /// Refuses entries that may change what the model computes and are not understood.
    fn check_names(&self) -> Result<(), Error> {
        let prefix = self.key("");
        let rotary = self.architecture != Architecture::Gpt2;
        for name in self.metadata.keys().filter_map(|key| key.strip_prefix(&prefix)) {
            let own = if rotary { ROTARY.contains(&name) } else { name == GPT2_EPSILON };
            if !own && !COMMON.contains(&name) {
                return Err(self.refused(name, "not understood".to_owned(), "absent"));
            }
        }
        let layouts = "absent, reference or Meta AI original pth";
        match self.text("tensor_data_layout")? {
            None | Some("reference" | "Meta AI original pth") => {}
            Some(other) => {
                return Err(self.refused("tensor_data_layout", other.to_owned(), layouts));
            }
        }
        match self.integer("expert_count")? {
            None | Some(0) => Ok(()),
            Some(found) => Err(self.refused("expert_count", found.to_string(), "absent or 0")),
        }
    }

    fn gpt2(&self) -> Result<Map<String, Value>, Error> {
        let heads = self.needed("attention.head_count")?;
        if let Some(found) = self.integer("attention.head_count_kv")?.filter(|&kv| kv != heads)
        {
            let allowed = "that of attention.head_count";
            return Err(self.refused("attention.head_count_kv", found.to_string(), allowed));
        }
        Ok(object(json!({
            "activation_function": "gelu_new",
            "architectures": ["GPT2LMHeadModel"],
            "layer_norm_epsilon": self.needed_number(GPT2_EPSILON)?,
            "model_type": "gpt2",
            "n_embd": self.needed("embedding_length")?,
            "n_head": heads,
            "n_inner": self.needed("feed_forward_length")?,
            "n_layer": self.needed("block_count")?,
            "n_positions": self.needed("context_length")?,
        })))
    }

    fn rotary(&self, gguf: &Gguf) -> Result<Map<String, Value>, Error> {
        let (heads, width) =
            (self.needed("attention.head_count")?, self.needed("embedding_length")?);
        let head_width = self.head_width(heads, width)?;
        let theta = self.number("rope.freq_base")?.unwrap_or(10000.0);
        let window = self.integer("attention.sliding_window")?.filter(|&window| window > 0);
        let (kind, architecture) = match (self.architecture, window) {
            (Architecture::Qwen2, None) => ("qwen2", "Qwen2ForCausalLM"),
            (Architecture::Qwen2, Some(found)) => {
                let name = "attention.sliding_window";
                return Err(self.refused(name, found.to_string(), "absent or 0"));
            }
            (_, None) => ("llama", "LlamaForCausalLM"),
            (_, Some(_)) => ("mistral", "MistralForCausalLM"),
        };
        let mut config = object(json!({
            "architectures": [architecture],
            "head_dim": head_width,
            "hidden_act": "silu",
            "hidden_size": width,
            "intermediate_size": self.needed("feed_forward_length")?,
            "max_position_embeddings": self.needed("context_length")?,
            "model_type": kind,
            "num_attention_heads": heads,
            "num_hidden_layers": self.needed("block_count")?,
            "num_key_value_heads": self.integer("attention.head_count_kv")?.unwrap_or(heads),
            "rms_norm_eps": self.needed_number("attention.layer_norm_rms_epsilon")?,
            "rope_scaling": self.scaling(gguf, theta, head_width)?,
            "rope_theta": theta,
        }));
        let has =
            |name: &str| gguf.tensors.contains_key(&format!("model.layers.0.{name}.bias"));
        match kind {
            "llama" => {
                config.insert("attention_bias".to_owned(), json!(has("self_attn.q_proj")));
                config.insert("mlp_bias".to_owned(), json!(has("mlp.up_proj")));
            }
            "mistral" => {
                config.insert("sliding_window".to_owned(), json!(window));
            }
            _ => {
                config.insert("use_sliding_window".to_owned(), json!(false));
            }
        }
        Ok(config)
    }

    /// Numbers per head, which queries, keys, values and the rotation must share.
    fn head_width(&self, heads: u64, width: u64) -> Result<u64, Error> {
        let shared = width.checked_div(heads).filter(|each| each * heads == width);
        let head_width = match self.integer("attention.key_length")?.or(shared) {
            Some(head_width) => head_width,
            None => {
                let found = format!("{heads} for a width of {width}");
                let allowed = "a divisor of embedding_length, or attention.key_length given";
                return Err(self.refused("attention.head_count", found, allowed));
            }
        };
        for name in ["attention.value_length", "rope.dimension_count"] {
            if let Some(found) = self.integer(name)?.filter(|&found| found != head_width) {
                let found = format!("{found} for heads of {head_width}");
                return Err(self.refused(name, found, "the width of a head"));
            }
        }
        Ok(head_width)
    }

    /// How rotary frequencies are stretched for long texts.
    fn scaling(&self, gguf: &Gguf, theta: f64, head_width: u64) -> Result<Value, Error> {
        let kind = self.text("rope.scaling.type")?;
        let factor = match self.number("rope.scaling.factor")? {
            None => self.number("rope.scale_linear")?,
            factor => factor,
        };
        let factor = factor
            .filter(|factor| factor.to_bits() != 0 && factor.to_bits() != 1_f64.to_bits());
        if let Some(tensor) = &gguf.rotary_factors {
            if kind.is_some_and(|kind| kind != "none") {
                let found = format!("{kind:?} beside {ROTARY_FACTORS}");
                return Err(self.refused("rope.scaling.type", found, "absent or none"));
            }
            let mut factors = vec![0.0; tensor.shape.iter().product()];
            tensor.encoding.dequantise(&self.bytes[tensor.bytes.clone()], &mut factors);
            return rotary_factors(&factors, theta, head_width).ok_or_else(|| {
                let file = self.metadata.file().to_path_buf();
                let found = format!("{} factors", factors.len());
                let allowed = "the factors of a Llama 3 scaling, one per pair of a head";
                Error::Unsupported { file, setting: ROTARY_FACTORS, found, allowed }
            });
        }
        match (kind, factor) {
            (None | Some("linear" | "none"), None) | (Some("none"), _) => Ok(Value::Null),
            (None | Some("linear"), Some(factor)) => {
                Ok(json!({"rope_type": "linear", "type": "linear", "factor": factor}))
            }
            (Some("yarn"), Some(factor)) => {
                let original = self.needed("rope.scaling.original_context_length")?;
                Ok(json!({"rope_type": "yarn", "type": "yarn", "factor": factor,
                    "original_max_position_embeddings": original}))
            }
            (Some(other), _) => {
                let allowed = "none, linear, or yarn with a factor";
                Err(self.refused("rope.scaling.type", other.to_owned(), allowed))
            }
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The Llama 3 scaling that gives these factors, if one does.
///
/// ```text
/// wavelength < original/4: 1     wavelength > original: factor     else 1/((1−s)/factor + s)
/// s = (original/wavelength − 1)/3,   wavelength of pair i = 2π theta^(2i/width)
/// ```
///
/// Every published model has the 1 and the 4; `original` is found among the powers of two.
fn rotary_factors(found: &[f32], theta: f64, head_width: u64) -> Option<Value> {
    let pairs = usize::try_from(head_width / 2).ok().filter(|&pairs| pairs == found.len())?;
    let factor = f64::from(found.iter().copied().fold(f32::MIN, f32::max));
    if found.iter().all(|factor| factor.to_bits() == 1_f32.to_bits()) {
        return Some(Value::Null);
    }
    let original = (10..=20).map(|power| 1_u32 << power).find(|&original| {
        (0..pairs).zip(found).all(|(pair, &found)| {
            let exponent = 2.0 * pair as f64 / head_width as f64;
            let turns = f64::from(original) / (TAU * theta.powf(exponent));
            let smooth = (turns - 1.0) / 3.0;
            let expected = match turns {
                turns if turns > 4.0 => 1.0,
                turns if turns < 1.0 => factor,
                _ => 1.0 / ((1.0 - smooth) / factor + smooth),
            };
            // Frequencies are rounded to 32 bits and raised to powers before they are stored.
            (f64::from(found) - expected).abs() <= 1e-5 * expected
        })
    })?;
    Some(json!({"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": original}))
}

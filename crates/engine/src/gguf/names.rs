//! From the names of a GGUF file to those of the checkpoint that it was made from.

use super::Architecture;

/// Where a tensor of the file belongs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its name in a checkpoint.
    pub(crate) name: String,
    /// Whose rows are stored as rotary pairs.
    pub(crate) rows: Rows,
    /// Whether the checkpoint keeps it as `[in, out]`.
    pub(crate) transposed: bool,
}

/// Whether a tensor's rows belong to rotary heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Plain,
    Query,
    Key,
}

/// A tensor of a layer: its name in the file and in the checkpoint, without `.weight`; and
/// whether it may have a bias.
type Row = (&'static str, &'static str, bool);

const LLAMA: [Row; 9] = [
    ("attn_norm", "input_layernorm", false),
    ("attn_q", "self_attn.q_proj", true),
    ("attn_k", "self_attn.k_proj", true),
    ("attn_v", "self_attn.v_proj", true),
    ("attn_output", "self_attn.o_proj", true),
    ("ffn_norm", "post_attention_layernorm", false),
    ("ffn_gate", "mlp.gate_proj", true),
    ("ffn_up", "mlp.up_proj", true),
    ("ffn_down", "mlp.down_proj", true),
];

const GPT2: [Row; 6] = [
    ("attn_norm", "ln_1", true),
    ("attn_qkv", "attn.c_attn", true),
    ("attn_output", "attn.c_proj", true),
    ("ffn_norm", "ln_2", true),
    ("ffn_up", "mlp.c_fc", true),
    ("ffn_down", "mlp.c_proj", true),
];

const LLAMA_OUTER: [(&str, &str); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
];

const GPT2_OUTER: [(&str, &str); 5] = [
    ("token_embd.weight", "wte.weight"),
    ("position_embd.weight", "wpe.weight"),
    ("output_norm.weight", "ln_f.weight"),
    ("output_norm.bias", "ln_f.bias"),
    ("output.weight", "lm_head.weight"),
];

/// Where a tensor belongs, or `None` if a model of the architecture with `layers` layers has no such.
pub(crate) fn target(architecture: Architecture, layers: u64, name: &str) -> Option<Target> {
    let (outer, rows, prefix): (&[(&str, &str)], &[Row], _) = match architecture {
        Architecture::Llama | Architecture::Qwen2 => (&LLAMA_OUTER, &LLAMA, "model.layers"),
        Architecture::Gpt2 => (&GPT2_OUTER, &GPT2, "h"),
    };
    let plain = |name: String| Target { name, rows: Rows::Plain, transposed: false };
    if let Some((_, name)) = outer.iter().find(|(own, _)| *own == name) {
        return Some(plain((*name).to_owned()));
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let number: u64 = layer.parse().ok()?;
    if number >= layers || number.to_string() != layer {
        return None;
    }
    let (own, part) = rest.split_once('.')?;
    let (_, other, biased) = rows.iter().find(|(row, ..)| *row == own)?;
    if part != "weight" && !(*biased && part == "bias") {
        return None;
    }
    let rows = match (architecture, own) {
        (Architecture::Llama, "attn_q") => Rows::Query,
        (Architecture::Llama, "attn_k") => Rows::Key,
        _ => Rows::Plain,
    };
    let transposed =
        architecture == Architecture::Gpt2 && part == "weight" && !own.ends_with("_norm");
    Some(Target { name: format!("{prefix}.{number}.{other}.{part}"), rows, transposed })
}

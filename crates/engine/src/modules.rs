//! What files call the matrices of a layer, and which of the engine's are in each.

use crate::block_kind::BlockKind;
use crate::config::{Config, Family};

/// A matrix of a layer as files have it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its name within the layer of a checkpoint.
    pub(crate) name: &'static str,
    /// Its name within the layer of a GGUF file.
    pub(crate) gguf: &'static str,
    /// The engine's matrices in it, whose outputs stand side by side.
    pub(crate) kinds: &'static [BlockKind],
}

const GPT2: [Module; 4] = [
    Module {
        name: "attn.c_attn",
        gguf: "attn_qkv",
        kinds: &[BlockKind::Query, BlockKind::Key, BlockKind::Value],
    },
    Module { name: "attn.c_proj", gguf: "attn_output", kinds: &[BlockKind::Output] },
    Module { name: "mlp.c_fc", gguf: "ffn_up", kinds: &[BlockKind::MlpUp] },
    Module { name: "mlp.c_proj", gguf: "ffn_down", kinds: &[BlockKind::MlpDown] },
];

pub(crate) const LLAMA: [Module; 7] = [
    Module { name: "self_attn.q_proj", gguf: "attn_q", kinds: &[BlockKind::Query] },
    Module { name: "self_attn.k_proj", gguf: "attn_k", kinds: &[BlockKind::Key] },
    Module { name: "self_attn.v_proj", gguf: "attn_v", kinds: &[BlockKind::Value] },
    Module { name: "self_attn.o_proj", gguf: "attn_output", kinds: &[BlockKind::Output] },
    Module { name: "mlp.gate_proj", gguf: "ffn_gate", kinds: &[BlockKind::MlpGate] },
    Module { name: "mlp.up_proj", gguf: "ffn_up", kinds: &[BlockKind::MlpUp] },
    Module { name: "mlp.down_proj", gguf: "ffn_down", kinds: &[BlockKind::MlpDown] },
];

/// The matrices of a layer.
pub(crate) fn modules(config: &Config) -> &'static [Module] {
    match config.family {
        Family::Gpt2 => &GPT2,
        Family::Llama(_) => &LLAMA,
    }
}

/// What the names of the body of the model begin with, unless a checkpoint leaves it out.
pub(crate) fn prefix(config: &Config) -> &'static str {
    match config.family {
        Family::Gpt2 => "transformer.",
        Family::Llama(_) => "model.",
    }
}

/// What the layers of a checkpoint are called.
pub(crate) fn layers_name(config: &Config) -> &'static str {
    match config.family {
        Family::Gpt2 => "h",
        Family::Llama(_) => "layers",
    }
}

/// The path of the norm in front of attention, and of that in front of the MLP, below the prefix
/// of the model.
pub(crate) fn norm_paths(config: &Config, layer: usize) -> [String; 2] {
    let names = match config.family {
        Family::Gpt2 => ["ln_1", "ln_2"],
        Family::Llama(_) => ["input_layernorm", "post_attention_layernorm"],
    };
    names.map(|name| format!("{}.{layer}.{name}", layers_name(config)))
}

impl Module {
    /// Number of inputs and outputs.
    pub(crate) fn shape(&self, config: &Config) -> (usize, usize) {
        let outputs = self.kinds.iter().map(|&kind| config.shape(kind).1).sum();
        (config.shape(self.kinds[0]).0, outputs)
    }

    /// The engine's matrices in it, each with its first output.
    pub(crate) fn parts(&self, config: &Config) -> impl Iterator<Item = (BlockKind, usize)> {
        self.kinds.iter().scan(0, |next, &kind| {
            let first = *next;
            *next += config.shape(kind).1;
            Some((kind, first))
        })
    }

    /// Its path from the top of the model, such as `transformer.h.3.attn.c_attn`.
    pub(crate) fn path(&self, config: &Config, layer: usize) -> String {
        format!("{}{}.{layer}.{}", prefix(config), layers_name(config), self.name)
    }
}

/// The module that holds one of the engine's matrices, and the matrix's first output in it.
pub(crate) fn module_of(config: &Config, kind: BlockKind) -> (&'static Module, usize) {
    let mut all = modules(config).iter();
    let module = all.find(|module| module.kinds.contains(&kind));
    let module = module.expect("every matrix that a model has is part of a module");
    let part = module.parts(config).find(|(other, _)| *other == kind);
    (module, part.expect("it was found by the matrix").1)
}

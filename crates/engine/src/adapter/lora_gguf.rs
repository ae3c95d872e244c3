//! LoRA adapters as llama.cpp reads them: one GGUF file.
//!
//! A matrix has the tensors `blk.LAYER.NAME.weight.lora_a` (`[rank, inputs]`) and `….lora_b`
//! (`[outputs, rank]`), both in 32 bits. `adapter.lora.alpha` is 0, which says that products
//! count as they are, whatever their ranks. In files of the architecture `llama` the rows of
//! queries and keys are stored as rotary pairs, and so are those of their second factors.

use super::Pair;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::config::{Config, Family, Llama, Variant};
use crate::error::Error;
use crate::files;
use crate::network::Network;
use crate::quantised::RowOrder;
use crate::update::Update;
use std::path::Path;

/// The multiple of bytes at which the data and each tensor in it begin.
const ALIGNMENT: usize = 32;

/// The numbers of types in a file: 32-bit metadata, texts, and tensors of 32 bits.
const SINGLE: u32 = 6;
const TEXT: u32 = 8;
const F32: u32 = 0;

impl Update<f32> {
    /// Writes the update of a model as a LoRA adapter for llama.cpp into a GGUF file.
    ///
    /// The factors are those of [`Update::save_peft`]; `llama-cli --lora FILE` applies them to a
    /// GGUF file of the same model.
    ///
    /// # Errors
    ///
    /// Those of [`Update::save_peft`], and [`Error::Unsupported`] for norms, which such files do
    /// not hold.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
    /// let refused = update.save_lora_gguf("no such directory/update.gguf".as_ref(), &model);
    /// assert!(matches!(refused, Err(Error::File { action: "write", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save_lora_gguf(&self, file: &Path, model: &Network<f32>) -> Result<(), Error> {
        let names: Vec<BlockId> = self.blocks.iter().map(|(block, _)| *block).collect();
        model.check_blocks(&names)?;
        if let Some(block) = names.iter().find(|block| block.kind() == BlockKind::Norm) {
            return Err(Error::Unsupported {
                file: file.to_path_buf(),
                setting: "block",
                found: block.to_string(),
                allowed: "blocks of matrices; another format holds norms too",
            });
        }
        let pairs = self.pairs(file, model.config())?;
        files::write(file, &bytes(model.config(), pairs))
    }
}

/// The architecture, as files name it.
fn architecture(config: &Config) -> &'static str {
    match &config.family {
        Family::Gpt2 => "gpt2",
        Family::Llama(Llama { variant: Variant::Qwen2, .. }) => "qwen2",
        Family::Llama(_) => "llama",
    }
}

/// A tensor `[rows, columns]`.
struct Tensor {
    name: String,
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

/// A whole file.
fn bytes(config: &Config, pairs: Vec<Pair>) -> Vec<u8> {
    let tensors: Vec<Tensor> =
        pairs.into_iter().flat_map(|pair| tensors_of(config, pair)).collect();
    let mut file = b"GGUF".to_vec();
    file.extend(3_u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    let texts = [
        ("general.architecture", architecture(config)),
        ("general.type", "adapter"),
        ("adapter.type", "lora"),
    ];
    file.extend((texts.len() as u64 + 1).to_le_bytes());
    for (key, value) in texts {
        text(&mut file, key);
        file.extend(TEXT.to_le_bytes());
        text(&mut file, value);
    }
    text(&mut file, "adapter.lora.alpha");
    file.extend(SINGLE.to_le_bytes());
    file.extend(0.0_f32.to_le_bytes());
    let mut start = 0;
    for tensor in &tensors {
        text(&mut file, &tensor.name);
        file.extend(2_u32.to_le_bytes());
        // The innermost side comes first.
        file.extend((tensor.columns as u64).to_le_bytes());
        file.extend((tensor.rows as u64).to_le_bytes());
        file.extend(F32.to_le_bytes());
        file.extend((start as u64).to_le_bytes());
        start += (4 * tensor.values.len()).next_multiple_of(ALIGNMENT);
    }
    for tensor in &tensors {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(tensor.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
    file
}

/// A length and its characters.
fn text(file: &mut Vec<u8>, value: &str) {
    file.extend((value.len() as u64).to_le_bytes());
    file.extend(value.as_bytes());
}

fn tensors_of(config: &Config, pair: Pair) -> [Tensor; 2] {
    let Pair { layer, module, rank, first, second } = pair;
    let (inputs, outputs) = module.shape(config);
    let turned = matches!(module.kinds, [BlockKind::Query | BlockKind::Key]);
    let order = match architecture(config) {
        "llama" if turned => RowOrder::Interleaved { head_width: config.head_width() },
        _ => RowOrder::Plain,
    };
    let mut stored = vec![0.0; second.len()];
    for (output, row) in second.chunks_exact(rank).enumerate() {
        stored[order.place(output) * rank..][..rank].copy_from_slice(row);
    }
    let name = |end: &str| format!("blk.{layer}.{}.weight.{end}", module.gguf);
    [
        Tensor { name: name("lora_a"), rows: rank, columns: inputs, values: first },
        Tensor { name: name("lora_b"), rows: outputs, columns: rank, values: stored },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::modules;
    use crate::gguf::header::Header;
    use crate::gguf::names::target;
    use crate::modules::prefix;
    use crate::parameters::{full_name, layout};

    /// One model of each architecture; heads share keys and values, and are wider than need be.
    fn configs() -> Vec<Config> {
        let gpt2 = r#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 6, "n_ctx": 8,
                       "vocab_size": 9}"#;
        let other = |name: &str| {
            format!(
                r#"{{"model_type": "{name}", "num_hidden_layers": 1, "hidden_size": 6,
                     "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
                     "intermediate_size": 10, "max_position_embeddings": 8, "vocab_size": 9}}"#
            )
        };
        let texts = [gpt2.to_owned(), other("llama"), other("mistral"), other("qwen2")];
        texts.iter().map(|text| Config::from_json(text.as_bytes()).unwrap()).collect()
    }

    /// The reader of models finds every tensor of an adapter where it should be.
    #[test]
    fn the_reader_of_models_finds_every_tensor() {
        for config in configs() {
            let pairs: Vec<Pair> = modules(&config)
                .iter()
                .map(|module| {
                    let (inputs, outputs) = module.shape(&config);
                    let (first, second) = (vec![1.5; 3 * inputs], vec![2.5; 3 * outputs]);
                    Pair { layer: 0, module, rank: 3, first, second }
                })
                .collect();
            let bytes = bytes(&config, pairs);
            let header = Header::read(Path::new("adapter.gguf"), &bytes).unwrap();
            assert_eq!(header.tensors.len(), 2 * modules(&config).len());
            for (name, tensor) in &header.tensors {
                let numbers = bytes[tensor.bytes.clone()].as_chunks::<4>().0;
                let expected: f32 = if name.ends_with("a") { 1.5 } else { 2.5 };
                assert!(numbers.iter().all(|number| *number == expected.to_le_bytes()));
            }
            let text = |key| header.metadata.text(&bytes, key).unwrap();
            assert_eq!(text("general.architecture"), Some(architecture(&config)));
            assert_eq!(header.metadata.number(&bytes, "adapter.lora.alpha"), Ok(Some(0.0)));
        }
    }

    /// Modules have the names and shapes that the readers of checkpoints and GGUF files know.
    #[test]
    fn names_are_those_of_the_readers() {
        for config in configs() {
            let family = match architecture(&config) {
                "gpt2" => crate::gguf::Architecture::Gpt2,
                "qwen2" => crate::gguf::Architecture::Qwen2,
                _ => crate::gguf::Architecture::Llama,
            };
            let known: Vec<(String, Vec<usize>)> = layout(&config)
                .into_iter()
                .map(|(name, shape)| (full_name(prefix(&config), &name), shape))
                .collect();
            for module in modules(&config) {
                let path = format!("{}.weight", module.path(&config, 0));
                let (_, shape) = known.iter().find(|(name, _)| *name == path).unwrap();
                let (inputs, outputs) = module.shape(&config);
                let gpt2 = config.family == Family::Gpt2;
                let expected = if gpt2 { [inputs, outputs] } else { [outputs, inputs] };
                assert_eq!(shape, &expected);
                let target =
                    target(family, 1, &format!("blk.0.{}.weight", module.gguf)).unwrap();
                assert!(path.ends_with(&target.name), "{path} and {}", target.name);
            }
        }
    }
}

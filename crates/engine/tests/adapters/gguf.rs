//! LoRA adapters for llama.cpp, read by a reader of this file's own.

use crate::adapters::{
    as_checkpoint, multiply, random_model, random_update, transpose, wide_model,
};
use crate::support::{FAMILIES, assert_near, blocks, matrix_blocks, norm};
use fewstep_core::Rng;
use fewstep_engine::{Config, Error, Gguf, Update};
use std::collections::BTreeMap;

/// What stands in a file: texts, the one number, and tensors with their sides, innermost first.
#[derive(Default)]
struct Content {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<String, f32>,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk::<N>().unwrap();
        self.0 = rest;
        *taken
    }

    fn small(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn large(&mut self) -> usize {
        usize::try_from(u64::from_le_bytes(self.take())).unwrap()
    }

    fn text(&mut self) -> String {
        let length = self.large();
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8(text.to_vec()).unwrap()
    }
}

/// The format, step by step.
fn read(bytes: &[u8]) -> Content {
    let mut reader = Reader(bytes);
    assert_eq!((&reader.take(), reader.small()), (b"GGUF", 3));
    let (tensors, entries) = (reader.large(), reader.large());
    let mut content = Content::default();
    for _ in 0..entries {
        let (key, kind) = (reader.text(), reader.small());
        match kind {
            8 => drop(content.texts.insert(key, reader.text())),
            6 => drop(content.numbers.insert(key, f32::from_le_bytes(reader.take()))),
            other => panic!("{key} has type {other}"),
        }
    }
    let listed: Vec<(String, Vec<usize>, usize)> = (0..tensors)
        .map(|_| {
            let (name, sides) = (reader.text(), reader.small());
            let sides = (0..sides).map(|_| reader.large()).collect();
            assert_eq!(reader.small(), 0, "{name} holds 32-bit numbers");
            (name, sides, reader.large())
        })
        .collect();
    let start = (bytes.len() - reader.0.len()).next_multiple_of(32);
    for (name, sides, offset) in listed {
        assert_eq!(offset % 32, 0, "{name} is aligned");
        let data = &bytes[start + offset..][..4 * sides.iter().product::<usize>()];
        let numbers = data.as_chunks::<4>().0.iter();
        let values = numbers.map(|n| f64::from(f32::from_le_bytes(*n))).collect();
        assert!(content.tensors.insert(name, (sides, values)).is_none());
    }
    content
}

fn saved(update: &Update, model: &fewstep_engine::Network) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("adapter.gguf");
    update.save_lora_gguf(&file, model).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    std::fs::read(file).unwrap()
}

/// What a GGUF file calls a matrix of a checkpoint.
fn name_of(path: &str) -> Option<String> {
    const NAMES: [(&str, &str); 11] = [
        ("attn.c_attn", "attn_qkv"),
        ("attn.c_proj", "attn_output"),
        ("mlp.c_fc", "ffn_up"),
        ("mlp.c_proj", "ffn_down"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    let rest = path.strip_prefix("transformer.h.").or(path.strip_prefix("model.layers."))?;
    let (layer, matrix) = rest.split_once('.')?;
    let matrix = matrix.strip_suffix(".weight")?;
    let (_, name) = NAMES.iter().find(|(other, _)| *other == matrix)?;
    Some(format!("blk.{layer}.{name}.weight"))
}

/// Rows `[heads, half, 2]` become `[heads, 2, half]`: what a reader of the architecture `llama`
/// undoes to get a checkpoint's rows.
fn separate(rows: &[f64], columns: usize, heads: usize) -> Vec<f64> {
    let half = rows.len() / columns / heads / 2;
    let mut separated = Vec::new();
    for head in 0..heads {
        for side in 0..2 {
            for pair in 0..half {
                let row = (head * half + pair) * 2 + side;
                separated.extend(&rows[row * columns..(row + 1) * columns]);
            }
        }
    }
    separated
}

/// The heads whose rows are stored as pairs, if a matrix has such.
fn turned_heads(name: &str, architecture: &str, config: &Config) -> Option<usize> {
    match (architecture, name.split('.').nth(2)) {
        ("llama", Some("attn_q")) => Some(config.heads),
        ("llama", Some("attn_k")) => Some(config.key_value_heads()),
        _ => None,
    }
}

/// The products, by their definition and with rows put back, are what the update adds to a
/// checkpoint, for every matrix; and llama.cpp counts them once because alpha is 0.
#[test]
fn factors_multiply_to_what_the_update_adds() {
    let architectures = ["gpt2", "llama", "llama", "qwen2", "llama"];
    for (family, architecture) in (0..FAMILIES).zip(architectures) {
        let (model, mut rng) = (wide_model(family, 8), Rng::new(30 + family));
        let config = model.config();
        let update = random_update(&model, &matrix_blocks(config), &mut rng);
        let mut content = read(&saved(&update, &model));
        let text = |key: &str| content.texts[key].clone();
        assert_eq!(text("general.architecture"), architecture);
        assert_eq!(
            (text("general.type"), text("adapter.type")),
            ("adapter".into(), "lora".into())
        );
        assert_eq!(content.numbers["adapter.lora.alpha"].to_bits(), 0);
        for (path, (shape, added)) in as_checkpoint(&update, config) {
            let Some(name) = name_of(&path) else { continue };
            let added = match architecture {
                "gpt2" => transpose(&added, shape[1]),
                _ => added,
            };
            assert!(norm(&added) > 0.0);
            let (first_sides, first) =
                content.tensors.remove(&format!("{name}.lora_a")).unwrap();
            let (second_sides, second) =
                content.tensors.remove(&format!("{name}.lora_b")).unwrap();
            let (inputs, rank) = (first_sides[0], first_sides[1]);
            assert_eq!(second_sides, [rank, added.len() / inputs]);
            let product = multiply(&second, &first, rank);
            let product = match turned_heads(&name, architecture, config) {
                Some(heads) => separate(&product, inputs, heads),
                None => product,
            };
            assert_near(&product, &added, 1e-6, &name);
        }
        assert!(content.tensors.is_empty(), "{:?}", content.tensors.keys());
    }
}

/// An adapter is not a model, and the engine says so.
#[test]
fn an_adapter_is_not_taken_for_a_model() {
    let model = random_model(1, 9);
    let update = Update::zeros(&model, &blocks("value@last1", model.config())).unwrap();
    let bytes = saved(&update, &model);
    let content = read(&bytes);
    let sides: Vec<&Vec<usize>> = content.tensors.values().map(|(sides, _)| sides).collect();
    assert_eq!(sides, [&[6, 1], &[1, 8]]);
    let refused = Gguf::from_bytes(bytes).map(|_| ());
    let Err(Error::Unsupported { setting: "general.type", found, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(found, "adapter");
}

#[test]
fn an_update_that_is_not_finite_is_refused() {
    let model = random_model(2, 9);
    let chosen = blocks("query@last1", model.config());
    let mut update = Update::zeros(&model, &chosen).unwrap();
    update.block_mut(chosen[1]).unwrap()[2] = f32::INFINITY;
    let directory = tempfile::tempdir().unwrap();
    let refused = update.save_lora_gguf(&directory.path().join("a.gguf"), &model);
    assert!(matches!(
        refused,
        Err(Error::WeightNotFinite { tensor, index: 2, .. }) if tensor == "query.2.1"
    ));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

//! Small model directories, written with the `safetensors` crate and not with the library.

use fewstep_engine::Config;
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::fs;
use std::path::Path;

pub(crate) const CONFIG: &str = r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "n_layer": 2, "n_head": 2, "n_embd": 4, "n_inner": 6, "n_positions": 8, "vocab_size": 5}"#;

pub(crate) fn config() -> Config {
    Config::from_json(CONFIG.as_bytes()).unwrap()
}

/// A tensor on its way into a test file.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: Dtype,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn encode(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
        Dtype::BF16 => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
        other => panic!("the tests write no {other}"),
    }
}

/// Values that every precision holds exactly and that differ from tensor to tensor.
pub(crate) fn values(tensor: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((7 * tensor + i) % 251) as f32 / 8.0 - 15.0).collect()
}

/// Names and shapes of the model of [`CONFIG`], written out by hand for width 4 and inner 6.
pub(crate) fn names() -> Vec<(String, Vec<usize>)> {
    let mut names = vec![("wte.weight".to_owned(), vec![5, 4])];
    names.push(("wpe.weight".to_owned(), vec![8, 4]));
    for layer in ["h.0", "h.1"] {
        for (name, shape) in [
            ("ln_1.weight", vec![4]),
            ("ln_1.bias", vec![4]),
            ("attn.c_attn.weight", vec![4, 12]),
            ("attn.c_attn.bias", vec![12]),
            ("attn.c_proj.weight", vec![4, 4]),
            ("attn.c_proj.bias", vec![4]),
            ("ln_2.weight", vec![4]),
            ("ln_2.bias", vec![4]),
            ("mlp.c_fc.weight", vec![4, 6]),
            ("mlp.c_fc.bias", vec![6]),
            ("mlp.c_proj.weight", vec![6, 4]),
            ("mlp.c_proj.bias", vec![4]),
        ] {
            names.push((format!("{layer}.{name}"), shape));
        }
    }
    names.push(("ln_f.weight".to_owned(), vec![4]));
    names.push(("ln_f.bias".to_owned(), vec![4]));
    names
}

/// All tensors of the model, in one precision, with a prefix before each name.
pub(crate) fn tensors(prefix: &str, dtype: Dtype) -> Vec<Tensor> {
    names()
        .into_iter()
        .enumerate()
        .map(|(index, (name, shape))| tensor(&format!("{prefix}{name}"), &shape, dtype, index))
        .collect()
}

pub(crate) fn tensor(name: &str, shape: &[usize], dtype: Dtype, index: usize) -> Tensor {
    let bytes = encode(dtype, &values(index, shape.iter().product()));
    Tensor { name: name.to_owned(), shape: shape.to_vec(), dtype, bytes }
}

/// The bytes of a safetensors file.
pub(crate) fn file(tensors: &[Tensor]) -> Vec<u8> {
    let views = tensors.iter().map(|t| {
        (t.name.as_str(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// A safetensors file from a header written by hand.
pub(crate) fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Writes `model.safetensors`.
pub(crate) fn write(directory: &Path, tensors: &[Tensor]) {
    fs::write(directory.join("model.safetensors"), file(tensors)).unwrap();
}

/// Writes shards and the index that lists them.
pub(crate) fn write_shards(directory: &Path, shards: &[(&str, &[Tensor])]) {
    let mut map = serde_json::Map::new();
    for (name, tensors) in shards {
        fs::write(directory.join(name), file(tensors)).unwrap();
        map.extend(tensors.iter().map(|t| (t.name.clone(), (*name).into())));
    }
    write_index(directory, &map.into());
}

pub(crate) fn write_index(directory: &Path, map: &serde_json::Value) {
    let index = serde_json::json!({"metadata": {"total_size": 0}, "weight_map": map});
    fs::write(directory.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

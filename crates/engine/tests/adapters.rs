//! Updates as adapters of other tools: what is written, what is read, what is refused.

mod gguf;
mod peft;
mod refusals;

use crate::support::{random_case_of, random_parameters};
use fewstep_core::Rng;
use fewstep_engine::{BlockId, Config, Network, Parameters, Real, Update};
use std::collections::BTreeMap;

/// A random model of a family.
fn random_model(family: u64, seed: u64) -> Network {
    let (config, parameters, _) = random_case_of(family, seed);
    Network::new(&config, parameters).unwrap()
}

/// A random update of some blocks, of a random rank each.
fn random_update(model: &Network, blocks: &[BlockId], rng: &mut Rng) -> Update {
    let mut update = Update::zeros(model, blocks).unwrap();
    for block in blocks {
        let change = update.block_mut(*block).unwrap();
        let rows = block_rows(model.config(), *block);
        let (columns, mut rank) = (change.len() / rows, 1);
        while rng.uniform() < 0.6 && rank < rows.min(columns) {
            rank += 1;
        }
        let mut normal =
            |size: usize| -> Vec<f64> { (0..size).map(|_| rng.normal()).collect() };
        let (left, right) = (normal(rows * rank), normal(rank * columns));
        for row in 0..rows {
            for column in 0..columns {
                let sum: f64 =
                    (0..rank).map(|k| left[row * rank + k] * right[k * columns + column]).sum();
                change[row * columns + column] = f32::of(0.1 * sum);
            }
        }
    }
    update
}

/// How many inputs a block has.
fn block_rows(config: &Config, block: BlockId) -> usize {
    match block.kind().to_string().as_str() {
        "output" => config.head_width(),
        "mlp-down" => config.inner,
        _ => config.width,
    }
}

/// The update as the tensors of a checkpoint: what it adds to a model whose weights are 0.
fn as_checkpoint(update: &Update, config: &Config) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
    let zeros = Parameters::zeros(config).unwrap();
    let merged = update.merge(&zeros, config).unwrap();
    let directory = tempfile::tempdir().unwrap();
    merged.save(directory.path(), config, fewstep_engine::Precision::Single).unwrap();
    tensors(&directory.path().join("model.safetensors"))
}

/// All tensors of a file of 32-bit numbers.
fn tensors(file: &std::path::Path) -> BTreeMap<String, (Vec<usize>, Vec<f64>)> {
    let bytes = std::fs::read(file).unwrap();
    let all = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let one = |tensor: safetensors::tensor::TensorView<'_>| {
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32);
        let words = tensor.data().as_chunks::<4>().0.iter();
        let values = words.map(|word| f64::from(f32::from_le_bytes(*word))).collect();
        (tensor.shape().to_vec(), values)
    };
    all.iter().map(|(name, tensor)| (name.to_owned(), one(tensor))).collect()
}

/// `second [outputs, rank] · first [rank, inputs]` by its definition.
fn multiply(second: &[f64], first: &[f64], rank: usize) -> Vec<f64> {
    let (outputs, inputs) = (second.len() / rank, first.len() / rank);
    let entry = |output: usize, input: usize| -> f64 {
        (0..rank).map(|k| second[output * rank + k] * first[k * inputs + input]).sum()
    };
    (0..outputs).flat_map(|o| (0..inputs).map(move |i| entry(o, i))).collect()
}

/// `[rows, columns]` to `[columns, rows]`.
fn transpose(values: &[f64], columns: usize) -> Vec<f64> {
    let rows = values.len() / columns;
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}

/// A model with heads wide enough that a block can have a smaller rank, for every family.
fn wide_model(family: u64, seed: u64) -> Network {
    let (mut config, _, _) = random_case_of(family, seed);
    config.width = 12;
    let parameters = random_parameters(&config, &mut Rng::new(seed));
    Network::new(&config, parameters).unwrap()
}

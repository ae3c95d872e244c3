//! PEFT adapters, both ways.

use crate::adapters::{
    as_checkpoint, multiply, random_model, random_update, tensors, transpose, wide_model,
};
use crate::support::{
    FAMILIES, assert_near, blocks, fixture, matrix_blocks, norm, random_case_of,
};
use fewstep_core::Rng;
use fewstep_engine::{
    BlockId, Config, Error, Family, Model, Network, Real, Task, Update, predict_updated,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FIRST: &str = ".lora_A.weight";
const SECOND: &str = ".lora_B.weight";

fn json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn saved(update: &Update, model: &Network) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    update.save_peft(directory.path(), model, Some("some/model")).unwrap();
    directory
}

/// By module path: rank and the change `[outputs, inputs]`, from the files alone.
fn products(directory: &Path) -> BTreeMap<String, (usize, Vec<f64>)> {
    let all = tensors(&directory.join("adapter_model.safetensors"));
    let mut products = BTreeMap::new();
    for (name, (shape, first)) in &all {
        let Some(path) = name.strip_suffix(FIRST) else { continue };
        let (other, second) = &all[&format!("{path}{SECOND}")];
        assert_eq!(shape[0], other[1], "{name}: ranks agree");
        let path = path.strip_prefix("base_model.model.").unwrap().to_owned();
        products.insert(path, (shape[0], multiply(second, first, shape[0])));
    }
    assert_eq!(all.len(), 2 * products.len());
    products
}

/// Adapters that PEFT made, with plain and with root scaling, patterns for ranks and scalings,
/// some layers only, in three precisions: the predictions are those that PEFT computed.
#[test]
fn adapters_made_by_peft_predict_what_peft_predicts() {
    let tasks = std::fs::read_to_string(fixture("tasks.jsonl")).unwrap();
    let tasks: Vec<Task> =
        tasks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json(&fixture("adapters/expected.json"));
    assert_eq!(expected.as_object().unwrap().len(), 3);
    for (name, expected) in expected.as_object().unwrap() {
        let model = Model::open(&fixture(expected["model"].as_str().unwrap())).unwrap();
        let directory = fixture("adapters").join(name);
        let update = Update::load_peft(&directory, model.network()).unwrap();
        for task in &tasks {
            let expected = expected["predictions"][&task.id].as_f64().unwrap();
            let found = model.predict(task, &update).unwrap();
            let values: Vec<f64> = task.labels.iter().filter_map(|label| label.value).collect();
            // Rounding in single precision, over two layers of some hundred products.
            let allowed = 1e2 * f64::from(f32::EPSILON) * norm(&values);
            assert!((found - expected).abs() < allowed, "{name}, {}: {found}", task.id);
        }
    }
}

/// What is adapted is what the tensors say: here two kinds in one layer.
#[test]
fn an_adapter_of_one_layer_is_an_update_of_that_layer() {
    let model = Model::open(&fixture("qwen2-biases")).unwrap();
    let directory = fixture("adapters/qwen2-layers");
    let update = Update::load_peft(&directory, model.network()).unwrap();
    let found: Vec<BlockId> = update.blocks().iter().map(|(block, _)| *block).collect();
    assert_eq!(found, blocks("value,query@1..2", model.config()));
}

/// A saved update is the update: the products of the factors, by their definition, are what it
/// adds to the checkpoint, matrix by matrix under the checkpoint's names, and nothing else is
/// there.
#[test]
fn factors_multiply_to_what_the_update_adds_to_a_checkpoint() {
    for family in 0..FAMILIES {
        let (model, mut rng) = (wide_model(family, 3), Rng::new(family));
        let (config, all) = (model.config(), matrix_blocks(model.config()));
        let update = random_update(&model, &all, &mut rng);
        let directory = saved(&update, &model);
        let mut products = products(directory.path());
        for (name, (shape, added)) in as_checkpoint(&update, config) {
            let Some(path) = name.strip_suffix(".weight") else { continue };
            let gpt2 = config.family == Family::Gpt2;
            let added = if gpt2 { transpose(&added, shape[shape.len() - 1]) } else { added };
            match products.remove(path) {
                Some((_, product)) => assert_near(&product, &added, 1e-6, path),
                None => assert_eq!(norm(&added).to_bits(), 0, "{path} is not adapted"),
            }
        }
        assert!(products.is_empty(), "{products:?}");
    }
}

/// The settings say what PEFT needs: every product counts once, whatever its rank, and only the
/// updated modules are named, in full.
#[test]
fn settings_make_every_product_count_once() {
    for family in 0..FAMILIES {
        let (model, mut rng) = (wide_model(family, 4), Rng::new(10 + family));
        let chosen = blocks("value,output,mlp-down@1..3", model.config());
        let mut update = random_update(&model, &chosen, &mut rng);
        // No values of layer 2 are updated, and of layer 1 all but the second head.
        for block in chosen {
            let name = block.to_string();
            if name.starts_with("value.2.") || name == "value.1.1" {
                update.block_mut(block).unwrap().fill(0.0);
            }
        }
        let directory = saved(&update, &model);
        let settings = json(&directory.path().join("adapter_config.json"));
        let products = products(directory.path());
        let named: Vec<&str> = settings["target_modules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_str().unwrap())
            .collect();
        assert_eq!(named.len(), products.len());
        for name in &named {
            let value = |setting: &str, pattern: &str| {
                settings[pattern].get(name).unwrap_or(&settings[setting]).as_u64().unwrap()
            };
            let rank = products[*name].0 as u64;
            assert_eq!(
                (value("r", "rank_pattern"), value("lora_alpha", "alpha_pattern")),
                (rank, rank)
            );
        }
        let gpt2 = model.config().family == Family::Gpt2;
        let (third, values) = match gpt2 {
            true => ("transformer.h.2.attn.c_attn", "transformer.h.1.attn.c_attn"),
            false => ("model.layers.2.self_attn.v_proj", "model.layers.1.self_attn.v_proj"),
        };
        assert!(named.contains(&values) && !named.contains(&third), "{named:?}");
        assert_eq!(settings["fan_in_fan_out"], gpt2);
        assert_eq!(settings["peft_type"], "LORA");
        assert_eq!(settings["base_model_name_or_path"], "some/model");
        // A pattern may only match the module it names, as PEFT matches: a name is a suffix.
        for name in &named {
            let matched = products.keys().filter(|path| path.ends_with(name)).count();
            assert_eq!(matched, 1, "{name}");
        }
    }
}

/// The rank of a matrix is the sum of the ranks of its blocks, each at most a head's width.
#[test]
fn the_rank_is_the_sum_over_blocks() {
    let model = wide_model(0, 5);
    let chosen = blocks("value,query@1..2", model.config());
    let mut update = Update::zeros(&model, &chosen).unwrap();
    let width = model.config().head_width();
    for (rank, block) in [(1, "value.1.0"), (3, "value.1.1"), (width, "query.1.0")] {
        let change = update.block_mut(block.parse().unwrap()).unwrap();
        for k in 0..rank {
            change[k * width + k] = 1.5;
        }
    }
    let directory = saved(&update, &model);
    let products = products(directory.path());
    assert_eq!(products["transformer.h.1.attn.c_attn"].0, 1 + 3 + width);
}

/// The same update for a model in double precision, where predictions have no rounding of their
/// own.
fn widened(update: &Update, model: &Network<f64>) -> Update<f64> {
    let names: Vec<BlockId> = update.blocks().iter().map(|(block, _)| *block).collect();
    let mut wide = Update::zeros(model, &names).unwrap();
    for (block, change) in update.blocks() {
        for (to, &from) in wide.block_mut(*block).unwrap().iter_mut().zip(change) {
            *to = f64::from(from);
        }
    }
    wide
}

/// Saved and read again, an update of every kind of block is the same to rounding, predicts the
/// same, and has the same blocks.
#[test]
fn an_update_comes_back() {
    for family in 0..FAMILIES {
        let (config, parameters, task) = random_case_of(family, 6);
        let exact: Network<f64> = Network::new(&config, parameters.clone()).unwrap();
        let model: Network = Network::new(&config, parameters).unwrap();
        let mut rng = Rng::new(20 + family);
        let all = matrix_blocks(&config);
        let mut choices: Vec<Vec<BlockId>> = all.iter().map(|block| vec![*block]).collect();
        choices.push(all);
        for chosen in choices {
            let update = random_update(&model, &chosen, &mut rng);
            let directory = saved(&update, &model);
            let read = Update::load_peft(directory.path(), &model).unwrap();
            let names = |update: &Update| -> BTreeSet<BlockId> {
                update.blocks().iter().map(|(block, _)| *block).collect()
            };
            assert_eq!(names(&read), names(&update));
            for (block, change) in update.blocks() {
                let (_, again) =
                    read.blocks().iter().find(|(other, _)| other == block).unwrap();
                let [change, again] = [change, again]
                    .map(|values| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
                assert_near(&again, &change, 1e-6, &block.to_string());
            }
            let none = Update::zeros(&model, &chosen[..1]).unwrap();
            let [old, new, plain] = [&update, &read, &none].map(|update| {
                predict_updated(&exact, &task, &widened(update, &exact)).unwrap()
            });
            assert!(old.iter().zip(&plain).any(|(a, b)| (a - b).abs() > 1e-4), "it matters");
            // The labels lie between −0.5 and 1. Seen: at most 2e-7. The bound belongs to updates
            // of this size: twice as large, all blocks of the last family give 2.7e-6, where
            // single precision itself is off by 3.0e-6, because that model bends so much.
            for (old, new) in old.iter().zip(&new) {
                assert!((old - new).abs() < 1e-6, "{chosen:?}: {old} and {new}");
            }
        }
    }
}

/// Low-rank updates, norms and blocks of the same matrices update a model as they do without PEFT;
/// what comes back of low-rank updates are the blocks of their matrices.
#[test]
fn low_rank_updates_and_norms_come_back_as_what_they_do() {
    for family in 0..FAMILIES {
        let (config, parameters, _) = random_case_of(family, 7);
        let model: Network = Network::new(&config, parameters.clone()).unwrap();
        let mut rng = Rng::new(40 + family);
        for choice in ["norm@all", "lora-value@last1", "lora-query,norm,lora-value,value@all"] {
            let mut update = Update::zeros(&model, &blocks(choice, &config)).unwrap();
            for block in blocks(choice, &config) {
                for change in update.block_mut(block).unwrap() {
                    *change = f32::of(0.1 * rng.normal());
                }
            }
            let directory = saved(&update, &model);
            let read = Update::load_peft(directory.path(), &model).unwrap();
            let [old, new] =
                [&update, &read].map(|update| as_checkpoint(update, &config)).map(|all| {
                    all.into_values().flat_map(|(_, values)| values).collect::<Vec<_>>()
                });
            assert_near(&new, &old, 1e-6, choice);
            let settings = json(&directory.path().join("adapter_config.json"));
            let norms = if choice.contains("norm") { 2 * config.layers } else { 0 };
            assert_eq!(settings["modules_to_save"].as_array().map_or(0, Vec::len), norms);
        }
        // llama.cpp's adapters hold no norms, and say so.
        let norms = Update::zeros(&model, &blocks("norm@last1", &config)).unwrap();
        let refused = norms.save_lora_gguf("update.gguf".as_ref(), &model);
        let Err(Error::Unsupported { setting: "block", found, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(found.starts_with("norm."), "{found}");
    }
}

/// An update of zeros is an adapter that can be loaded and does nothing.
#[test]
fn an_update_of_zeros_can_be_loaded() {
    for family in 0..FAMILIES {
        let model = random_model(family, 7);
        let chosen = blocks("key,mlp-up@last1", model.config());
        let update = Update::zeros(&model, &chosen).unwrap();
        let directory = saved(&update, &model);
        let products = products(directory.path());
        assert_eq!(products.values().map(|(rank, _)| *rank).collect::<Vec<_>>(), [1]);
        let settings = json(&directory.path().join("adapter_config.json"));
        assert_eq!((&settings["r"], &settings["lora_alpha"]), (&1.into(), &1.into()));
        let read = Update::load_peft(directory.path(), &model).unwrap();
        assert_eq!(read.blocks().len(), 1);
        assert!(read.blocks()[0].1.iter().all(|value| value.abs() == 0.0));
    }
}

/// A name without the prefix of a model's body, as adapters of bare models have it, is the same
/// matrix.
#[test]
fn an_adapter_of_a_bare_model_is_read_alike() {
    let model = Model::open(&fixture("llama-plain")).unwrap();
    let directory = fixture("adapters/llama-rslora");
    let update = Update::load_peft(&directory, model.network()).unwrap();
    let bare = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(directory.join("adapter_model.safetensors")).unwrap();
    let renamed = rename(&bytes, "base_model.model.model.layers", "base_model.model.layers");
    std::fs::write(bare.path().join("adapter_model.safetensors"), renamed).unwrap();
    let settings = std::fs::read_to_string(directory.join("adapter_config.json")).unwrap();
    let settings = settings.replace("model.layers", "layers");
    std::fs::write(bare.path().join("adapter_config.json"), settings).unwrap();
    assert_eq!(Update::load_peft(bare.path(), model.network()), Ok(update));
}

/// A safetensors file with other names.
pub(crate) fn rename(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
    let header = std::str::from_utf8(header).unwrap().replace(old, new);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn an_update_of_another_model_is_refused() {
    let (small, large) = (random_model(0, 1), wide_model(0, 1));
    let chosen = blocks("value@all", large.config());
    let update = Update::zeros(&large, &chosen).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let refused = update.save_peft(directory.path(), &small, None);
    let (found, expected) = (12 * 6, 6 * 3);
    assert_eq!(refused, Err(Error::SizeMismatch { quantity: "update", found, expected }));

    let mut broken = Update::zeros(&small, &chosen[..1]).unwrap();
    broken.block_mut(chosen[0]).unwrap()[4] = f32::NAN;
    let refused = broken.save_peft(directory.path(), &small, None);
    assert!(matches!(
        refused,
        Err(Error::WeightNotFinite { tensor, index: 4, .. }) if tensor == "value.0.0"
    ));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Without a name for the model there is none in the file.
#[test]
fn a_model_without_a_name_has_none() {
    let model = random_model(1, 2);
    let update = Update::zeros(&model, &blocks("value@last1", model.config())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    update.save_peft(directory.path(), &model, None).unwrap();
    let settings = json(&directory.path().join("adapter_config.json"));
    assert_eq!(settings.get("base_model_name_or_path"), Some(&Value::Null));
}

/// A configuration of one family is another model.
#[test]
fn an_adapter_of_another_family_is_refused() {
    let model: Network = {
        let directory = fixture("gpt2-plain");
        let config = Config::load(&directory).unwrap();
        let parameters = fewstep_engine::Parameters::load(&directory, &config).unwrap();
        Network::new(&config, parameters).unwrap()
    };
    let refused = Update::load_peft(&fixture("adapters/qwen2-layers"), &model);
    let Err(Error::NotAdaptable { tensor, allowed, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(tensor, "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight");
    let expected = "transformer.h. with a layer from 0 to 1, one of attn.c_attn, attn.c_proj, \
                    mlp.c_fc, mlp.c_proj";
    assert_eq!(allowed, expected);
}

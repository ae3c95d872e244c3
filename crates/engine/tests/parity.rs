//! The engine against another implementation: the references in `fixtures/`, in both precisions.
//!
//! `cargo run --release -p fewstep-engine --example parity -- DIRECTORY` does the same with a
//! folder that is not part of the repository.

use crate::support::comparison::{self, Deviation};
use crate::support::obtained::obtained;
use crate::support::{
    self, FOLDERS, Reference, all_blocks, assert_near, blocks, fixture, load, matrix_blocks,
};
use fewstep_engine::{
    Config, FirstFactor, Gguf, KernelForm, Labels, Layout, Lora, Network, Parameters, Real,
    Steps, Update, descend, observe, predict_updated,
};
use std::path::Path;

const TASKS: [&str; 3] = ["digits", "words", "text"];

/// Of a tensor's norm: what float64 leaves after some thousand operations, and float32.
const DOUBLE: f64 = 1e-9;
const SINGLE: f64 = 1e-4;

/// Asserts that no deviation is larger than the tolerance, for every task of every folder.
fn agree<R: Real>(
    tasks: &[&str],
    tolerance: f64,
    compare: impl Fn(&Network<R>, &Reference) -> Vec<Deviation>,
) {
    for folder in FOLDERS {
        let model = load::<R>(folder);
        for task in tasks {
            for Deviation { what, relative } in compare(&model, &Reference::read(folder, task))
            {
                assert!(relative <= tolerance, "{folder}, {task}: {what} off by {relative:e}");
            }
        }
    }
}

#[test]
fn logits_agree_in_double_precision() {
    agree::<f64>(&TASKS, DOUBLE, comparison::logits);
}

#[test]
fn logits_agree_in_single_precision() {
    agree::<f32>(&TASKS, SINGLE, comparison::logits);
}

/// Predictions choose between any two tokens as the reference does: with two labels of value 0
/// and 1, s = 1/(1 + e^(z₀ − z₁)).
#[test]
fn predictions_follow_from_the_logits_of_their_labels() {
    for folder in FOLDERS {
        let (model, reference) = (load::<f64>(folder), Reference::read(folder, "digits"));
        let (task, vocabulary) = (reference.task(), model.config().vocabulary);
        let logits = &reference.floats["prompt_logits"];
        for token in 1..u32::try_from(vocabulary).unwrap() {
            let labels = Labels::new(vec![0, token], vec![0.0, 1.0]).unwrap();
            let layout = Layout::plain(&task.sequences()[..2]).unwrap();
            let found = model.predict(layout, &labels).unwrap();
            let expected: Vec<f64> = logits
                .chunks_exact(vocabulary)
                .take(2)
                .map(|z| 1.0 / (1.0 + (z[0] - z[token as usize]).exp()))
                .collect();
            assert_near(&found, &expected, DOUBLE, folder);
        }
    }
}

fn observations_agree<R: Real>(tolerance: f64) {
    for form in [KernelForm::Ghost, KernelForm::Explicit, KernelForm::Cheapest] {
        agree::<R>(&TASKS, tolerance, |model, reference| {
            let all = comparison::observation(model, reference, form);
            // Three numbers for every block, and three for all.
            assert_eq!(all.len(), 3 + 3 * matrix_blocks(model.config()).len());
            all
        });
    }
}

#[test]
fn observations_agree_in_double_precision() {
    observations_agree::<f64>(DOUBLE);
}

#[test]
fn observations_agree_in_single_precision() {
    observations_agree::<f32>(SINGLE);
}

/// Ten steps, for value blocks of the last two layers and for one block of every kind.
#[test]
fn ten_steps_agree_in_double_precision() {
    agree::<f64>(&TASKS, DOUBLE, comparison::steps);
}

#[test]
fn ten_steps_agree_in_single_precision() {
    agree::<f32>(&TASKS, SINGLE, comparison::steps);
}

fn gradients_agree<R: Real>(tolerance: f64) {
    agree::<R>(&["digits"], tolerance, |model, reference| {
        comparison::gradients(model, reference, &matrix_blocks(model.config()))
    });
}

#[test]
fn gradients_of_the_loss_agree_in_double_precision() {
    gradients_agree::<f64>(DOUBLE);
}

#[test]
fn gradients_of_the_loss_agree_in_single_precision() {
    gradients_agree::<f32>(SINGLE);
}

/// The checkpoints with references of low-rank updates and norms.
const ADAPTED: [&str; 3] = ["gpt2-plain", "llama-plain", "mistral-heads"];

/// Asserts that nothing is further from the references of low-rank updates and norms than the
/// tolerance: the random first factors, kernels in every form, and ten steps.
fn adapters_agree<R: Real>(tolerance: f64) {
    for (folder, task) in ADAPTED.iter().flat_map(|f| ["digits", "words"].map(|task| (f, task)))
    {
        let reference = Reference::read(folder, &format!("{task}-adapters"));
        let lora = |name: &str| reference.provenance["lora"][name].as_u64().unwrap();
        let rank = usize::try_from(lora("rank")).unwrap();
        let lora = Lora { rank, first: FirstFactor::Random, seed: lora("seed") };
        let model = load::<R>(folder).with_lora(lora).unwrap();
        let mut all = comparison::first_factors(&model, &reference);
        assert_eq!(all.len(), 2 * model.config().layers);
        for form in [KernelForm::Ghost, KernelForm::Explicit, KernelForm::Cheapest] {
            let seen = comparison::observation(&model, &reference, form);
            // Three numbers for each of the three kinds in every layer, and three for all.
            assert_eq!(seen.len(), 3 + 3 * 3 * model.config().layers);
            all.extend(seen);
        }
        let steps = comparison::steps(&model, &reference);
        assert_eq!(steps.len(), 3 * 3);
        for Deviation { what, relative } in all.into_iter().chain(steps) {
            assert!(relative <= tolerance, "{folder}, {task}: {what} off by {relative:e}");
        }
    }
}

#[test]
fn low_rank_updates_and_norms_agree_in_double_precision() {
    adapters_agree::<f64>(DOUBLE);
}

#[test]
fn low_rank_updates_and_norms_agree_in_single_precision() {
    adapters_agree::<f32>(SINGLE);
}

/// A model in a GGUF file, its weights quantised or not.
fn open_gguf<R: Real>(file: &Path, quantised: bool) -> Network<R> {
    let gguf = Gguf::open(file).unwrap();
    let config = Config::from_json(gguf.config_json().unwrap().as_bytes()).unwrap();
    if quantised {
        return Network::from_gguf(&gguf, &config).unwrap();
    }
    Network::new(&config, Parameters::from_gguf(&gguf, &config).unwrap()).unwrap()
}

/// Everything that passes give for a task of a model, in a row.
fn all_numbers<R: Real>(model: &Network<R>) -> Vec<f64> {
    let task = Reference::read("gpt2-plain", "digits").task();
    let chosen = all_blocks(model.config());
    let logits = model.logits(task.layout().unwrap()).unwrap();
    let mut all: Vec<f64> = logits.iter().map(|logit| logit.wide()).collect();
    let seen = observe(model, &task, &chosen, KernelForm::Cheapest).unwrap();
    all.extend(seen.predictions);
    all.extend(seen.geometry.blocks().iter().flat_map(|block| block.kernel().values()));
    let descent = descend(model, &task, &chosen, &Steps::new(1e-3, 5)).unwrap();
    all.extend(&descent.query_predictions);
    all.extend(descent.update.blocks().iter().flat_map(|(_, change)| change).map(|x| x.wide()));
    all.extend(predict_updated(model, &task, &descent.update).unwrap());
    let values = blocks("value@all", model.config());
    all.extend(
        fewstep_engine::observe_single_position(model, &task, &values)
            .unwrap()
            .geometry
            .blocks()
            .iter()
            .flat_map(|block| block.kernel().values().to_vec()),
    );
    all
}

/// Weights that stay quantised give what their numbers give, for every family.
#[test]
fn packed_weights_compute_like_their_numbers() {
    for name in ["gpt2", "llama", "llama3", "qwen2"] {
        let file = fixture("gguf").join(format!("{name}.gguf"));
        let quantised: Network<f64> = open_gguf(&file, true);
        assert!(quantised.is_quantised());
        let found = all_numbers(&quantised);
        assert_near(&found, &all_numbers(&open_gguf::<f64>(&file, false)), 1e-12, name);
        let quantised: Network<f32> = open_gguf(&file, true);
        let found = all_numbers(&quantised);
        assert_near(&found, &all_numbers(&open_gguf::<f32>(&file, false)), 1e-5, name);
        // Dequantised they are the file's, to the bit, and so is what an update is added to.
        let plain = open_gguf::<f32>(&file, false);
        assert_eq!(quantised.parameters(), plain.parameters(), "{name}");
        let chosen = all_blocks(quantised.config());
        let nothing = Update::zeros(&quantised, &chosen).unwrap();
        let task = Reference::read("gpt2-plain", "digits").task();
        let same = predict_updated(&quantised, &task, &nothing).unwrap();
        let base = observe(&quantised, &task, &chosen, KernelForm::Cheapest).unwrap();
        assert_near(&same[..task.examples()], &base.predictions, 1e-6, name);
    }
}

/// A reference of a real model: logits of some tokens, all kinds of blocks in the last two
/// layers, ten steps of its value blocks.
fn real_model_agrees<R: Real>(model: &Network<R>, folder: &str, tolerance: f64) {
    let reference = Reference::read(folder, "tokens");
    let mut all = comparison::logits(model, &reference);
    all.extend(comparison::observation(model, &reference, KernelForm::Cheapest));
    all.extend(comparison::steps(model, &reference));
    for Deviation { what, relative } in all {
        assert!(relative <= tolerance, "{folder}: {what} off by {relative:e}");
    }
}

#[test]
fn the_real_packed_model_agrees() {
    let (test, name) = ("the_real_packed_model_agrees", "SmolLM2-135M-Instruct.Q4_1.gguf");
    let Some(file) = obtained(test, "models/smollm2", name) else { return };
    real_model_agrees(&open_gguf::<f32>(&file, true), "smollm2", SINGLE);
    real_model_agrees(&open_gguf::<f64>(&file, true), "smollm2", DOUBLE);
}

#[test]
fn the_real_float_model_agrees() {
    let test = "the_real_float_model_agrees";
    let Some(directory) = obtained(test, "models/stories15m", "stories15m") else { return };
    real_model_agrees(&support::open::<f32>(&directory), "stories15m", SINGLE);
    real_model_agrees(&support::open::<f64>(&directory), "stories15m", DOUBLE);
}

//! The engine against another implementation: the references in `fixtures/`, in both precisions.
//!
//! `cargo run --release -p fewstep-engine --example parity -- DIRECTORY` does the same with a
//! folder that is not part of the repository.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use fewstep_engine::{KernelForm, Labels, Layout, Network, Real};
use support::comparison::{self, Deviation};
use support::{FOLDERS, Reference, all_blocks, assert_near, load};

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
            assert_eq!(all.len(), 3 + 3 * all_blocks(model.config()).len());
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
        comparison::gradients(model, reference, &all_blocks(model.config()))
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

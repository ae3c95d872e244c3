//! Compares the engine with a folder of references: a checkpoint and `reference-*.safetensors`.
//!
//! ```text
//! cargo run --release -p fewstep-engine --example parity -- DIRECTORY
//! ```
//!
//! `fixtures/make --large DIRECTORY` writes such a folder for a model of distilgpt2's shape, and
//! `fixtures/make --reference DIRECTORY` a reference for a model of the Llama family.
//! Prints the largest deviation of every quantity, relative to its norm, in both precisions;
//! fails if one is too large.

#![allow(clippy::unwrap_used, reason = "what cannot be compared stops the comparison")]
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "the comparison needs a part of it")]
mod support;

use fewstep_engine::{Model, Network, Real, Task};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use support::Reference;
use support::comparison::{self, Deviation};

/// The largest deviation of every quantity; NaN counts as the largest.
fn largest(all: Vec<Deviation>) -> BTreeMap<String, f64> {
    let mut largest: BTreeMap<String, f64> = BTreeMap::new();
    for Deviation { what, relative } in all {
        let most = largest.entry(what).or_insert(0.0);
        if relative > *most || relative.is_nan() {
            *most = relative;
        }
    }
    largest
}

fn compare<R: Real>(directory: &Path, reference: &Reference) -> BTreeMap<String, f64> {
    let model: Network<R> = support::open(directory);
    let mut all = comparison::logits(&model, reference);
    for form in [fewstep_engine::KernelForm::Ghost, fewstep_engine::KernelForm::Explicit] {
        all.extend(comparison::observation(&model, reference, form));
    }
    all.extend(comparison::steps(&model, reference));
    if reference.floats.keys().any(|key| key.starts_with("gradient.")) {
        let blocks = support::matrix_blocks(model.config());
        all.extend(comparison::gradients(&model, reference, &blocks));
    }
    largest(all)
}

/// The references in a directory that belong to a task.
fn references(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("reference-") && name != "reference-next-token.safetensors"
    });
    files.sort();
    files
}

/// Whether the text of a task becomes the tokens of the reference; `None` if it has no text.
fn same_tokens(directory: &Path, reference: &Reference) -> Option<bool> {
    let task: Task = serde_json::from_value(reference.provenance.get("task")?.clone()).unwrap();
    let read = Model::open(directory).unwrap().read(&task).unwrap();
    let expected = reference.task();
    Some(
        read.sequences() == expected.sequences()
            && read.labels() == expected.labels()
            && read.targets() == expected.targets(),
    )
}

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("give the directory of a checkpoint with its references");
        return ExitCode::from(2);
    };
    let files = references(&directory);
    if files.is_empty() {
        eprintln!("{} holds no references", directory.display());
        return ExitCode::from(2);
    }
    let mut agree = true;
    for file in files {
        let reference = Reference::open(&file);
        println!("{}", file.display());
        if let Some(same) = same_tokens(&directory, &reference) {
            println!("tokens {}", if same { "agree" } else { "DIFFER" });
            agree &= same;
        }
        let single = compare::<f32>(&directory, &reference);
        let double = compare::<f64>(&directory, &reference);
        println!("{:34} {:>12} {:>12}", "largest relative deviation", "f32", "f64");
        for ((what, single), double) in single.iter().zip(double.values()) {
            let within = *single <= 1e-4 && *double <= 1e-9;
            let mark = if within { "" } else { "  TOO LARGE" };
            println!("{what:34} {single:12.2e} {double:12.2e}{mark}");
            agree &= within;
        }
    }
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! Making a model by a recipe: its loss falls, and stopping changes nothing.

use crate::support::lab;
use fewstep_engine::Model;
use fewstep_lab::Error;
use fewstep_lab::pretraining::{Recipe, Workshop};
use std::ops::ControlFlow;
use std::path::Path;

const TINY: Recipe = Recipe {
    layers: 1,
    heads: 2,
    width: 16,
    steps: 12,
    batch: 4,
    learning_rate: 3e-3,
    seed: 5,
};

/// Trains until the model is finished, or for `most` steps.
fn train(directory: &Path, recipe: &Recipe, resume: bool, most: usize) -> Workshop {
    let mut workshop = Workshop::open(directory, recipe, resume).unwrap();
    let mut taken = 0;
    let finished = workshop.train(2, |_, _| {
        taken += 1;
        if taken == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(finished.unwrap(), taken < most);
    workshop
}

/// At 5.5 nats all bytes are equally likely; a model that knows no more than that a digit follows
/// has log 10 = 2.30. Only one that looks at the pairs before comes under 2.1.
#[test]
fn the_loss_of_a_tiny_model_falls_to_a_stated_level() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        layers: 2,
        heads: 4,
        width: 48,
        steps: 500,
        batch: 32,
        learning_rate: 6e-3,
        ..TINY
    };
    let workshop = train(directory.path(), &recipe, false, usize::MAX);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (workshop.losses()[0], mean(&workshop.losses()[480..]));
    assert!((first - 256_f64.ln()).abs() < 0.2, "began at {first}");
    assert!(last < 2.1, "ended at {last}");
}

#[test]
fn a_run_that_was_stopped_makes_the_same_model_bit_for_bit() {
    let [whole, parts] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    train(whole.path(), &TINY, false, usize::MAX);
    train(parts.path(), &TINY, false, 5);
    assert!(!parts.path().join("model.safetensors").exists());
    train(parts.path(), &TINY, true, 3);
    let workshop = train(parts.path(), &TINY, true, usize::MAX);
    assert_eq!(workshop.losses().len(), TINY.steps);
    for name in
        ["model.safetensors", "config.json", "tokenizer.json", "losses.csv", "recipe.json"]
    {
        let [a, b] =
            [&whole, &parts].map(|place| std::fs::read(place.path().join(name)).unwrap());
        assert!(a == b, "{name} differs");
    }
    assert!(!parts.path().join("checkpoint.safetensors").exists());
    assert!(Model::open(parts.path()).is_ok());
}

#[test]
fn a_run_is_not_begun_twice_nor_gone_on_with_by_another_recipe() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    train(path, &TINY, false, 2);
    let refused = Workshop::open(path, &TINY, false).unwrap_err();
    assert_eq!(refused, Error::WorkshopInUse { directory: path.to_path_buf() });
    let refused = Workshop::open(path, &Recipe { batch: 5, ..TINY }, true).unwrap_err();
    assert_eq!(refused, Error::OtherRecipe { file: path.join("recipe.json") });
    std::fs::write(path.join("losses.csv"), "step,loss\n1,5.5\n").unwrap();
    let refused = Workshop::open(path, &TINY, true).unwrap_err();
    let file = path.join("losses.csv");
    assert_eq!(refused, Error::BadLosses { file, found: 1, steps: 2 });
}

#[test]
fn other_seeds_see_other_tasks() {
    let other = Recipe { seed: 6, ..TINY };
    assert_eq!(TINY.batch(3).unwrap(), TINY.batch(3).unwrap());
    assert_ne!(TINY.batch(3).unwrap(), TINY.batch(4).unwrap());
    assert_ne!(TINY.batch(3).unwrap(), other.batch(3).unwrap());
}

#[test]
fn the_program_trains_measures_and_writes_a_card() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("model");
    let arguments = "--layers 1 --heads 2 --width 16 --steps 12 --batch 4 --tasks 4";
    let run = |more: &[&str]| {
        let mut program = lab();
        program.arg("pretrain").arg("--out").arg(&out);
        program.args(arguments.split(' ')).args(more).output().unwrap()
    };
    let first = run(&[]);
    assert_eq!(first.status.code(), Some(0), "{first:?}");
    let said = String::from_utf8(first.stdout).unwrap();
    assert!(said.contains("10 examples: squared error"), "{said}");
    assert!(said.contains("adapting, all (4 tasks)"), "{said}");
    let card = std::fs::read_to_string(out.join("README.md")).unwrap();
    assert!(card.contains("| 10 | 32 |") && card.contains("| all | 4 |"), "{card}");
    assert!(std::fs::read_to_string(out.join("curve.svg")).unwrap().contains("<svg"));

    // The model is finished: it is measured again, and nothing of it changes.
    let weights = std::fs::read(out.join("model.safetensors")).unwrap();
    let again = run(&["--resume"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), said);
    assert_eq!(std::fs::read(out.join("model.safetensors")).unwrap(), weights);
    assert_eq!(std::fs::read_to_string(out.join("README.md")).unwrap(), card);

    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["--resume", "--seed", "9"]).status.code(), Some(2));
}

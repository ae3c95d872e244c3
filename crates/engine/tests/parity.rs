//! The engine against another implementation: the references in `fixtures/`, in both precisions.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod support;

use fewstep_engine::{
    BlockId, KernelForm, Labels, Layout, Network, Real, Steps, Tape, descend, observe,
};
use support::{ALL_KINDS, Reference, assert_near, blocks, load};

const FOLDERS: [&str; 3] = ["gpt2-plain", "gpt2-inner", "gpt2-half"];
const TASKS: [&str; 3] = ["digits", "words", "text"];

/// Of a tensor's norm: what float64 leaves after some thousand operations, and float32.
const DOUBLE: f64 = 1e-9;
const SINGLE: f64 = 1e-4;

fn for_references(check: impl Fn(&str, &Reference)) {
    for folder in FOLDERS {
        for task in TASKS {
            check(folder, &Reference::read(folder, task));
        }
    }
}

/// Differences of logits: with two labels of value 0 and 1, s = 1/(1 + e^(z₀ − z₁)).
fn logit_differences<R: Real>(model: &Network<R>, sequences: &[Vec<u32>]) -> Vec<Vec<f64>> {
    let vocabulary = u32::try_from(model.config().vocabulary).unwrap();
    let mut rows = vec![Vec::new(); sequences.len()];
    for token in 1..vocabulary {
        let labels = Labels::new(vec![0, token], vec![0.0, 1.0]).unwrap();
        let predictions = model.predict(Layout::plain(sequences).unwrap(), &labels).unwrap();
        for (row, prediction) in rows.iter_mut().zip(predictions) {
            let s = prediction.wide();
            row.push((s / (1.0 - s)).ln());
        }
    }
    rows
}

fn logits_agree<R: Real>(tolerance: f64) {
    for_references(|folder, reference| {
        let task = reference.task();
        let vocabulary = reference.floats["query_logits"].len();
        let found = logit_differences(&load::<R>(folder), task.sequences());
        let prompts = reference.floats["prompt_logits"].chunks_exact(vocabulary);
        let query = reference.floats["query_logits"].chunks_exact(vocabulary);
        for (found, logits) in found.iter().zip(prompts.chain(query)) {
            let expected: Vec<f64> = logits[1..].iter().map(|z| z - logits[0]).collect();
            assert_near(found, &expected, tolerance, folder);
        }
    });
}

#[test]
fn logits_agree_in_double_precision() {
    logits_agree::<f64>(DOUBLE);
}

#[test]
fn logits_agree_in_single_precision() {
    logits_agree::<f32>(SINGLE);
}

/// Predictions, residuals, and kernel, coupling and query variance of every block.
fn observations_agree<R: Real>(tolerance: f64) {
    for_references(|folder, reference| {
        let model = load::<R>(folder);
        let (task, n) = (reference.task(), reference.task().examples());
        let all = blocks(ALL_KINDS, model.config());
        for form in [KernelForm::Ghost, KernelForm::Explicit, KernelForm::Cheapest] {
            let seen = observe(&model, &task, &all, form).unwrap();
            let floats = &reference.floats;
            assert_near(&seen.predictions, &floats["predictions"], tolerance, "predictions");
            let query = &floats["query_prediction"];
            assert_near(&[seen.query_prediction], query, tolerance, "query");
            let residuals = seen.geometry.residuals();
            assert_near(residuals, &floats["residuals"], tolerance, "residuals");
            for (block, seen) in all.iter().zip(seen.geometry.blocks()) {
                let (kind, heads) = (block.kind(), model.config().heads);
                let index = block.head().map_or(block.layer(), |h| block.layer() * heads + h);
                let at = |name: &str, size: usize| {
                    floats[&format!("{name}.{kind}")][index * size..][..size].to_vec()
                };
                let what = format!("{folder} {block} {form:?}");
                assert_near(seen.kernel().values(), &at("kernel", n * n), tolerance, &what);
                let variance = at("query_variance", 1);
                let query = seen.query().unwrap();
                assert_near(&[query.variance], &variance, tolerance, &what);
                // A coupling may vanish; its scale is that of the features.
                let gaps: Vec<f64> = query
                    .coupling
                    .iter()
                    .zip(at("coupling", n))
                    .map(|(found, expected)| found - expected)
                    .collect();
                let scale = (support::norm(seen.kernel().values()) * variance[0]).sqrt();
                assert!(support::norm(&gaps) <= tolerance * scale, "{what}: coupling {gaps:?}");
            }
        }
    });
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
fn steps_agree<R: Real>(tolerance: f64) {
    for_references(|folder, reference| {
        let (model, task) = (load::<R>(folder), reference.task());
        for (name, chosen) in reference.provenance["steps"].as_object().unwrap() {
            let chosen: Vec<BlockId> = chosen
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block.as_str().unwrap().parse().unwrap())
                .collect();
            let at = |key: &str| &reference.floats[&format!("steps.{name}.{key}")];
            let steps = Steps::new(at("step_size")[0], at("loss").len() - 1);
            let descent = descend(&model, &task, &chosen, &steps).unwrap();
            let what = format!("{folder} {name}");
            let predictions = descent.predictions.concat();
            assert_near(&predictions, at("predictions"), tolerance, &what);
            assert_near(&descent.query_predictions, at("query_prediction"), tolerance, &what);
            assert_near(&descent.losses, at("loss"), tolerance, &what);
        }
    });
}

#[test]
fn ten_steps_agree_in_double_precision() {
    steps_agree::<f64>(DOUBLE);
}

#[test]
fn ten_steps_agree_in_single_precision() {
    steps_agree::<f32>(SINGLE);
}

/// The gradient of `½ Σ_i (y_i − s_i)²` for every block, cut out of that of whole matrices.
fn gradients_agree<R: Real>(tolerance: f64) {
    for folder in FOLDERS {
        let (model, reference) = (load::<R>(folder), Reference::read(folder, "digits"));
        let (task, config) = (reference.task(), model.config());
        let all = blocks(ALL_KINDS, config);
        let layout = Layout::shared(task.sequences()).unwrap();
        let mut tape = Tape::new(&model, layout, task.labels(), &all).unwrap();
        // The derivative of the loss for s_i is −r_i; the query takes no part.
        let seeds: Vec<R> =
            reference.floats["residuals"].iter().map(|r| R::of(-r)).chain([R::ZERO]).collect();
        tape.pull_back(&seeds).unwrap();
        for (block, found) in tape.gradient().unwrap().blocks() {
            let whole = matrix_of(&reference, block);
            let (name, columns) =
                (block.kind().to_string(), whole.len() / inputs(config, block));
            let (rows, place) = slice(config, block, columns);
            let expected: Vec<f64> = whole
                .chunks_exact(columns)
                .enumerate()
                .filter(|(row, _)| rows.contains(row))
                .flat_map(|(_, row)| row[place.clone()].to_vec())
                .collect();
            let found: Vec<f64> = found.iter().map(|value| value.wide()).collect();
            assert_near(&found, &expected, tolerance, &format!("{folder} {name} {block}"));
        }
    }
}

fn matrix_of<'a>(reference: &'a Reference, block: &BlockId) -> &'a [f64] {
    let name = match block.kind().to_string().as_str() {
        "mlp-up" => "mlp.c_fc",
        "mlp-down" => "mlp.c_proj",
        "output" => "attn.c_proj",
        _ => "attn.c_attn",
    };
    let end = format!("h.{}.{name}.weight", block.layer());
    let mut found = reference
        .floats
        .iter()
        .filter(|(key, _)| key.starts_with("gradient.") && key.ends_with(&end));
    found.next().unwrap_or_else(|| panic!("no gradient ends with {end}")).1
}

fn inputs(config: &fewstep_engine::Config, block: &BlockId) -> usize {
    if block.kind().to_string() == "mlp-down" { config.inner } else { config.width }
}

/// Rows and columns of the stored matrix: queries, keys and values stand side by side.
fn slice(
    config: &fewstep_engine::Config,
    block: &BlockId,
    columns: usize,
) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let size = config.width / config.heads;
    let head = |head: usize, first: usize| first + head * size..first + (head + 1) * size;
    match (block.kind().to_string().as_str(), block.head()) {
        ("output", Some(index)) => (head(index, 0), 0..columns),
        ("query", Some(index)) => (0..config.width, head(index, 0)),
        ("key", Some(index)) => (0..config.width, head(index, config.width)),
        ("value", Some(index)) => (0..config.width, head(index, 2 * config.width)),
        _ => (0..inputs(config, block), 0..columns),
    }
}

#[test]
fn gradients_of_the_loss_agree_in_double_precision() {
    gradients_agree::<f64>(DOUBLE);
}

#[test]
fn gradients_of_the_loss_agree_in_single_precision() {
    gradients_agree::<f32>(SINGLE);
}

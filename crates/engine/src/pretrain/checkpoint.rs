//! A training run on disk: parameters, moments and the number of steps in one safetensors file.
//!
//! The file names the settings it was made with, and a run with other settings does not resume from it.

use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::parameters::{Precision, Stored};
use crate::pretrain::adamw::{Moments, State};
use crate::pretrain::places::Places;
use crate::pretrain::settings::PretrainSettings;
use crate::weights::{LENGTH_BYTES, LONGEST_HEADER, Weights, check_finite};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The entry of the file's metadata that describes the run.
const ENTRY: &str = "pretraining";

/// What stands before the name of a parameter.
const PARTS: [&str; 3] = ["parameter.", "mean.", "square."];

/// The run that a file belongs to.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Run {
    steps: usize,
    /// Numbers as text, so that none is rounded.
    settings: BTreeMap<String, String>,
}

/// The part of a safetensors header that is free text.
#[derive(Deserialize)]
struct Header {
    #[serde(default, rename = "__metadata__")]
    metadata: BTreeMap<String, String>,
}

/// Every setting that changes the result, by name.
fn settings_by_name(config: &Config, settings: &PretrainSettings) -> BTreeMap<String, String> {
    // Only one family can be trained, so it goes without saying.
    let Config {
        layers,
        heads,
        width,
        inner,
        positions,
        vocabulary,
        norm_epsilon,
        tied,
        bos,
        family: _,
    } = config;
    let PretrainSettings {
        seed,
        steps,
        warmup_steps,
        learning_rate,
        final_learning_rate,
        mean_decay,
        square_decay,
        epsilon,
        weight_decay,
        largest_gradient_norm,
    } = settings;
    [
        ("layers", layers.to_string()),
        ("heads", heads.to_string()),
        ("width", width.to_string()),
        ("inner", inner.to_string()),
        ("positions", positions.to_string()),
        ("vocabulary", vocabulary.to_string()),
        ("norm_epsilon", norm_epsilon.to_string()),
        ("tied", tied.to_string()),
        ("bos", bos.map_or("none".to_owned(), |token| token.to_string())),
        ("seed", seed.to_string()),
        ("steps", steps.to_string()),
        ("warmup_steps", warmup_steps.to_string()),
        ("learning_rate", learning_rate.to_string()),
        ("final_learning_rate", final_learning_rate.to_string()),
        ("mean_decay", mean_decay.to_string()),
        ("square_decay", square_decay.to_string()),
        ("epsilon", epsilon.to_string()),
        ("weight_decay", weight_decay.to_string()),
        ("largest_gradient_norm", largest_gradient_norm.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Writes a checkpoint; the file is either the old one or the whole new one.
pub(crate) fn save(
    file: &Path,
    state: &State,
    places: &Places,
    config: &Config,
    settings: &PretrainSettings,
) -> Result<(), Error> {
    let mut tensors = Vec::with_capacity(3 * places.tensors.len());
    for (part, values) in PARTS.into_iter().zip(state.parts()) {
        for tensor in &places.tensors {
            let name = format!("{part}{}", tensor.name);
            let values = &values[tensor.range.clone()];
            check_finite(file, &name, values)?;
            let (shape, precision) = (tensor.shape.clone(), Precision::Single);
            tensors.push((name, Stored { shape, values: values.into(), precision }));
        }
    }
    let run = Run { steps: state.steps, settings: settings_by_name(config, settings) };
    let run = serde_json::to_string(&run).expect("numbers and texts become JSON");
    // One entry only: the format does not fix the order of several.
    let metadata = HashMap::from([(ENTRY.to_owned(), run)]);
    let bytes = safetensors::serialize(tensors, Some(metadata.into_iter().collect()))
        .expect("every tensor has the bytes that its shape asks for");
    files::write(file, &bytes)
}

/// Reads a checkpoint of the run with these settings.
pub(crate) fn resume(
    file: &Path,
    places: &Places,
    config: &Config,
    settings: &PretrainSettings,
) -> Result<State, Error> {
    let data = 3 * size_of::<f32>() as u64 * places.size() as u64;
    let bytes = files::read(file, data.saturating_add(LONGEST_HEADER + LENGTH_BYTES as u64))?;
    let weights = Weights::of_file(file, &bytes)?;
    let run = read_run(file, &bytes)?;
    check_same(file, run.settings, settings_by_name(config, settings))?;
    check_names(&weights, places)?;
    let [parameters, mean, square] = PARTS.map(|part| read_part(&weights, part, places));
    let moments = Moments { mean: mean?, square: square? };
    let negative = |range: std::ops::Range<usize>| {
        moments.square[range].iter().position(|&value| value < 0.0)
    };
    for tensor in &places.tensors {
        if let Some(index) = negative(tensor.range.clone()) {
            return Err(Error::NegativeMoment {
                file: file.to_path_buf(),
                tensor: format!("{}{}", PARTS[2], tensor.name),
                index,
                value: moments.square[tensor.range.start + index],
            });
        }
    }
    Ok(State { steps: run.steps, weights: parameters?, moments })
}

/// The description of the run in a file whose header has been checked.
fn read_run(file: &Path, bytes: &[u8]) -> Result<Run, Error> {
    let (length, rest) =
        bytes.split_first_chunk::<LENGTH_BYTES>().expect("the header has been read once");
    let length = usize::try_from(u64::from_le_bytes(*length)).expect("it is within the file");
    let header: Header = files::parse(file, &rest[..length])?;
    let not_one = || Error::NotACheckpoint { file: file.to_path_buf(), entry: ENTRY };
    files::parse(file, header.metadata.get(ENTRY).ok_or_else(not_one)?.as_bytes())
}

/// `Err` for the first setting, by name, that differs.
fn check_same(
    file: &Path,
    found: BTreeMap<String, String>,
    expected: BTreeMap<String, String>,
) -> Result<(), Error> {
    let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    match names.into_iter().find(|&name| found.get(name) != expected.get(name)) {
        Some(setting) => {
            let shown = |settings: &BTreeMap<String, String>| {
                settings.get(setting).map_or("absent".to_owned(), String::clone)
            };
            Err(Error::OtherRun {
                file: file.to_path_buf(),
                setting: setting.clone(),
                found: shown(&found),
                expected: shown(&expected),
            })
        }
        None => Ok(()),
    }
}

/// `Err` for a tensor that no checkpoint of this model has.
fn check_names(weights: &Weights<'_>, places: &Places) -> Result<(), Error> {
    let known: BTreeSet<String> = PARTS
        .iter()
        .flat_map(|part| {
            places.tensors.iter().map(move |tensor| format!("{part}{}", tensor.name))
        })
        .collect();
    match weights.names().find(|&name| !known.contains(name)) {
        Some(name) => Err(Error::UnknownTensor {
            file: weights.file_of(name).to_path_buf(),
            tensor: name.to_owned(),
        }),
        None => Ok(()),
    }
}

fn read_part(weights: &Weights<'_>, part: &str, places: &Places) -> Result<Vec<f32>, Error> {
    let mut flat = Vec::with_capacity(places.size());
    for tensor in &places.tensors {
        flat.extend(weights.tensor(&format!("{part}{}", tensor.name), &tensor.shape)?);
    }
    Ok(flat)
}

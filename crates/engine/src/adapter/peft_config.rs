//! The settings of a PEFT LoRA adapter: `adapter_config.json`, to and from JSON.
//!
//! What would change the numbers and is not implemented is refused by name, and so is any other
//! setting that is not known, unless it is switched off. Which matrices are adapted is said by
//! the tensors, so the settings that choose them are not looked at.

use super::Pair;
use crate::config::{Config, Family};
use crate::error::Error;
use crate::files::{self, UniqueNames};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

/// The longest `adapter_config.json` that is read.
const LONGEST: u64 = 1 << 20;

/// The largest rank that is read.
const LARGEST_RANK: usize = 1 << 14;

/// The most patterns that are read, and the most memory that one may take.
const MOST_PATTERNS: usize = 1 << 13;
const PATTERN_BYTES: usize = 1 << 14;

/// Settings that are read below, that choose matrices, or that only training looks at.
const KNOWN: [&str; 27] = [
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "modules_to_save",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
];

/// Settings of which only some values are implemented, with those values and the same in words.
fn accepted() -> [(&'static str, Value, &'static str); 11] {
    let (no, none) = (json!([null, false]), json!([null]));
    let fresh = json!([null, true, false, "gaussian", "eva", "mica", "orthogonal"]);
    let kept =
        "true, false, gaussian, eva, mica or orthogonal, which leave the model's own weights";
    [
        ("peft_type", json!(["LORA"]), "LORA"),
        ("bias", json!([null, "none"]), "none"),
        ("use_dora", no.clone(), "false"),
        ("use_qalora", no.clone(), "false"),
        ("lora_bias", no, "false"),
        ("trainable_token_indices", json!([null, [], {}]), "null: embeddings are not adapted"),
        ("target_parameters", json!([null, []]), "null"),
        ("layer_replication", json!([null, []]), "null"),
        ("alora_invocation_tokens", none.clone(), "null"),
        ("arrow_config", none, "null"),
        ("init_lora_weights", fresh, kept),
    ]
}

/// The settings that say how large factors are and by what their product is multiplied.
pub(super) struct LoraSettings {
    rank: usize,
    alpha: f64,
    ranks: Vec<(Regex, usize)>,
    alphas: Vec<(Regex, f64)>,
    /// Whether the product is divided by the root of the rank.
    root: bool,
}

#[derive(Deserialize)]
struct Numbers {
    r: Option<usize>,
    lora_alpha: Option<f64>,
    rank_pattern: Option<Patterns<usize>>,
    alpha_pattern: Option<Patterns<f64>>,
    use_rslora: Option<bool>,
}

/// The rank, and the number that a product is multiplied by beside it, of a file without them.
const DEFAULT: u8 = 8;

impl LoraSettings {
    /// Reads and checks the settings in a file.
    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        let json = files::read(file, LONGEST)?;
        let UniqueNames(mut all) = files::parse::<UniqueNames<Value>>(file, &json)?;
        refuse(file, &mut all)?;
        let numbers: Numbers = files::parse(file, &json)?;
        Ok(Self {
            rank: numbers.r.unwrap_or(DEFAULT.into()),
            alpha: numbers.lora_alpha.unwrap_or(DEFAULT.into()),
            ranks: compile(file, "rank_pattern", numbers.rank_pattern)?,
            alphas: compile(file, "alpha_pattern", numbers.alpha_pattern)?,
            root: numbers.use_rslora.unwrap_or(false),
        })
    }

    /// The rank of the factors of a module, and what their product is multiplied by.
    ///
    /// ```text
    /// alpha / r,   or alpha / √r if use_rslora
    /// ```
    pub(super) fn of(&self, file: &Path, path: &str) -> Result<(usize, f64), Error> {
        let found = first_match(&self.ranks, path).unwrap_or(self.rank);
        if !(1..=LARGEST_RANK).contains(&found) {
            let (file, setting, largest) = (file.to_path_buf(), "r", LARGEST_RANK);
            return Err(Error::SizeOutOfRange { file, setting, found, largest });
        }
        let (rank, alpha) =
            (found as f64, first_match(&self.alphas, path).unwrap_or(self.alpha));
        Ok((found, alpha / if self.root { rank.sqrt() } else { rank }))
    }
}

/// Refuses settings that change what an adapter computes in a way that is not implemented.
fn refuse(file: &Path, all: &mut BTreeMap<String, Value>) -> Result<(), Error> {
    for (setting, accepted, allowed) in accepted() {
        let found = all.remove(setting).unwrap_or(Value::Null);
        if !accepted.as_array().is_some_and(|values| values.contains(&found)) {
            let (file, found) = (file.to_path_buf(), found.to_string());
            return Err(Error::Unsupported { file, setting, found, allowed });
        }
    }
    let off = [Value::Null, json!(false), json!({}), json!([])];
    let stray = all
        .iter()
        .find(|(name, value)| !KNOWN.contains(&name.as_str()) && !off.contains(value));
    match stray {
        None => Ok(()),
        Some((setting, found)) => Err(Error::UnknownSetting {
            file: file.to_path_buf(),
            setting: setting.clone(),
            found: found.to_string(),
        }),
    }
}

/// The number of the first pattern that a path ends with, as PEFT looks for it.
fn first_match<N: Copy>(patterns: &[(Regex, N)], path: &str) -> Option<N> {
    patterns.iter().find(|(pattern, _)| pattern.is_match(path.as_bytes())).map(|(_, n)| *n)
}

fn compile<N>(
    file: &Path,
    setting: &'static str,
    patterns: Option<Patterns<N>>,
) -> Result<Vec<(Regex, N)>, Error> {
    let patterns = patterns.map_or(Vec::new(), |patterns| patterns.0);
    let (found, largest) = (patterns.len(), MOST_PATTERNS);
    if found > largest {
        let file = file.to_path_buf();
        return Err(Error::SizeOutOfRange { file, setting, found, largest });
    }
    let mut compiled = Vec::with_capacity(found);
    for (found, number) in patterns {
        // Paths of matrices are plain ASCII, so bytes will do.
        let whole = format!(r"^(?:.*\.)?(?:{found})$");
        let built = RegexBuilder::new(&whole).unicode(false).size_limit(PATTERN_BYTES).build();
        let Ok(pattern) = built else {
            return Err(Error::BadPattern { file: file.to_path_buf(), setting, found });
        };
        compiled.push((pattern, number));
    }
    Ok(compiled)
}

/// Patterns and their numbers in the order of the file, which decides where several match.
struct Patterns<N>(Vec<(String, N)>);

impl<'de, N: Deserialize<'de>> Deserialize<'de> for Patterns<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PatternsVisitor(PhantomData))
    }
}

struct PatternsVisitor<N>(PhantomData<N>);

impl<'de, N: Deserialize<'de>> Visitor<'de> for PatternsVisitor<N> {
    type Value = Patterns<N>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut patterns = Vec::new();
        while let Some(entry) = map.next_entry()? {
            patterns.push(entry);
        }
        Ok(Patterns(patterns))
    }
}

/// The text of an `adapter_config.json` for some pairs, in which every product counts once.
/// `whole` are the paths of modules that are stored as they are.
pub(super) fn json(
    config: &Config,
    pairs: &[Pair],
    whole: &[&str],
    base: Option<&str>,
) -> String {
    let rank = most_common(pairs);
    let paths: Vec<String> =
        pairs.iter().map(|pair| pair.module.path(config, pair.layer)).collect();
    let others: Map<String, Value> = pairs
        .iter()
        .zip(&paths)
        .filter(|(pair, _)| pair.rank != rank)
        .map(|(pair, path)| (path.clone(), json!(pair.rank)))
        .collect();
    let settings = json!({
        "alpha_pattern": others,
        "auto_mapping": null,
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": config.family == Family::Gpt2,
        "inference_mode": true,
        "init_lora_weights": true,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "modules_to_save": if whole.is_empty() { Value::Null } else { json!(whole) },
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": others,
        "revision": null,
        "target_modules": paths,
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_rslora": false,
    });
    format!("{settings:#}\n")
}

/// The rank that most pairs have; of several the largest.
fn most_common(pairs: &[Pair]) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for pair in pairs {
        *counts.entry(pair.rank).or_default() += 1;
    }
    counts.into_iter().max_by_key(|&(rank, count)| (count, rank)).map_or(1, |(rank, _)| rank)
}

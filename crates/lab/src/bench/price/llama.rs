//! llama.cpp, as the npm package `node-llama-cpp` brings it: one process for each round.

use crate::error::{Error, refused};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("../../../../../bench/llama/evaluate.mjs");

/// The program that runs the script.
const NODE: &str = "node";

/// Runs before it is said whether flash attention is faster.
const TRIALS: usize = 3;

/// How many runs the script is runs for, on how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedRuns {
    pub(super) threads: usize,
    pub(super) repeats: usize,
}

/// A prompt in tokens with the labels that are read behind it, the model's file, where the packages
/// are, and a directory to write to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LlamaPrompt<'a> {
    pub(super) packages: &'a Path,
    pub(super) scratch: &'a Path,
    pub(super) model: &'a Path,
    pub(super) tokens: &'a [u32],
    pub(super) labels: &'a [u32],
}

/// A prompt that is ready to be evaluated.
#[derive(Debug)]
pub(super) struct Llama {
    packages: PathBuf,
    script: PathBuf,
    model: PathBuf,
    prompt: PathBuf,
    labels: String,
    flash_attention: bool,
    /// What it calls itself.
    pub(super) version: String,
    /// The labels' logits behind the prompt.
    pub(super) logits: Vec<f64>,
}

/// What the script prints.
#[derive(Debug, Deserialize)]
struct Evaluated {
    version: String,
    threads: usize,
    #[serde(rename = "flashAttention")]
    flash_attention: bool,
    seconds: Vec<f64>,
    logits: Vec<f64>,
}

/// Why it cannot be run here, if it cannot.
pub(super) fn missing(packages: &Path) -> Option<String> {
    let installed = packages.join("node_modules").join("node-llama-cpp").join("package.json");
    if !installed.is_file() {
        let packages = packages.display();
        return Some(format!("node-llama-cpp is not in {packages}; bench/run installs it"));
    }
    let version = Command::new(NODE).arg("--version").stdout(Stdio::null()).status();
    version.err().map(|error| format!("{NODE} does not start: {}", error.kind()))
}

impl Llama {
    /// A prompt of a model, evaluated with flash attention or without, whichever is faster on one
    /// thread.
    pub(super) fn new(of: &LlamaPrompt<'_>) -> Result<Self, Error> {
        let LlamaPrompt { packages, scratch, model, tokens, labels } = *of;
        let (script, prompt) = (scratch.join("evaluate.mjs"), scratch.join("prompt.json"));
        std::fs::write(&script, SCRIPT).map_err(refused(&script, "write"))?;
        let json = serde_json::to_string(tokens).expect("numbers become JSON");
        std::fs::write(&prompt, json).map_err(refused(&prompt, "write"))?;
        let labels = labels.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let (packages, model) = (packages.to_path_buf(), model.to_path_buf());
        let (flash_attention, version, logits) = (false, String::new(), Vec::new());
        let mut llama =
            Self { packages, script, model, prompt, labels, flash_attention, version, logits };
        let runs = TimedRuns { threads: 1, repeats: TRIALS };
        let plain = llama.evaluate(runs)?;
        llama.flash_attention = true;
        let flash = llama.evaluate(runs)?;
        let best = |answer: &Evaluated| answer.seconds.iter().copied().fold(f64::MAX, f64::min);
        let faster = if best(&flash) < best(&plain) { flash } else { plain };
        llama.flash_attention = faster.flash_attention;
        let with = if faster.flash_attention { "with" } else { "without" };
        llama.version = format!("{}, {with} flash attention", faster.version);
        llama.logits = faster.logits;
        Ok(llama)
    }

    /// Seconds of one evaluation: the median of the repeats.
    pub(super) fn seconds(&self, runs: TimedRuns) -> Result<f64, Error> {
        let mut seconds = self.evaluate(runs)?.seconds;
        seconds.sort_unstable_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }

    fn evaluate(&self, runs: TimedRuns) -> Result<Evaluated, Error> {
        let mut command = Command::new(NODE);
        command.arg(&self.script).arg("--packages").arg(&self.packages);
        command.arg("--model").arg(&self.model).arg("--tokens").arg(&self.prompt);
        command.args(["--labels", &self.labels, "--threads", &runs.threads.to_string()]);
        command.args(["--repeats", &runs.repeats.to_string(), "--flash-attention"]);
        command.arg(if self.flash_attention { "on" } else { "off" });
        let failed = |problem: String| Error::Worker { program: NODE.into(), problem };
        let output = command.output().map_err(|error| failed(error.kind().to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let answer: Evaluated = serde_json::from_slice(&output.stdout)
            .map_err(|error| failed(format!("its answer cannot be read: {error}")))?;
        let asked = (runs.threads, runs.repeats);
        match (answer.threads, answer.seconds.len()) {
            found if found == asked && asked.1 > 0 => Ok(answer),
            found => Err(failed(format!("threads, runs: {found:?} instead of {asked:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_package_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let reason = missing(folder.path()).unwrap();
        assert!(reason.starts_with("node-llama-cpp is not in"), "{reason}");
        assert!(reason.contains(folder.path().to_str().unwrap()), "{reason}");
        let package = folder.path().join("node_modules").join("node-llama-cpp");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("package.json"), "{}").unwrap();
        let reason = missing(folder.path());
        assert!(reason.is_none_or(|reason| reason.starts_with("node does not start")));
    }
}

//! What the tests of every program share: starting it, and what came out.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The top of the project: transcripts are written as if typed there.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program, ready to be given arguments.
pub(crate) fn program(file: &str) -> Command {
    let mut command = Command::new(file);
    command.current_dir(root()).env("NO_COLOR", "1").env_remove("COLUMNS").stdin(Stdio::null());
    command
}

/// What was printed.
pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What was said beside it.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Every line as JSON.
pub(crate) fn records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

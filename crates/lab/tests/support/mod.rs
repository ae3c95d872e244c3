//! What the tests of the program share: running it.

#[path = "../../../fewstep/tests/support/process.rs"]
mod process;

use std::process::{Command, Output};

pub(crate) use process::{printed, program, records, root, said};

/// The program, ready to be given arguments.
pub(crate) fn lab() -> Command {
    program(env!("CARGO_BIN_EXE_fewstep-lab"))
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    lab().args(arguments).output().unwrap()
}

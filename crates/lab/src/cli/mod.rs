//! The command line of the laboratory.
//!
//! Results go to standard output and everything else to standard error. The program ends with 0
//! if all was done, 1 if a task failed, 2 if nothing could run, and 130 if it was interrupted.

mod arguments;
mod bench;
mod pretrain;
mod reproduce;

use arguments::{Arguments, Command};
use clap::Parser;
use fewstep::cli::{Program, VERSION};
use std::io::{self, Write};
use std::process::ExitCode;

/// This program.
const LAB: Program = Program { name: "fewstep-lab" };

/// Reads the command line, does what it says, and returns the code to end with.
#[must_use]
pub fn main() -> ExitCode {
    LAB.end(match Arguments::parse().command {
        Command::Reproduce { what } => reproduce::reproduce(what, VERSION),
        Command::Pretrain(arguments) => pretrain::pretrain(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments, VERSION),
    })
}

/// Prints a result.
fn say(text: &str) {
    // A reader that has gone away has seen what it wanted.
    let _ = writeln!(io::stdout(), "{text}");
}

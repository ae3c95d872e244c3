//! The command line: what may be asked for, and how it is asked.
//!
//! Answers go to standard output and everything else to standard error. The program ends with 0
//! if all was done, 1 if a task failed, 2 if nothing could run, and 130 if it was interrupted.
//! What another program on the same library needs for the same manners is public here.

mod arguments;
mod console;
mod progress;
mod run;
mod serve;
mod sink;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::io::{self, Write};
use std::process::ExitCode;

pub use arguments::{BosChoice, VERSION, fraction, positive};
pub use console::{End, Program, processors, quoted};
pub use progress::Bar;
pub use run::load;

/// This program.
const FEWSTEP: Program = Program { name: "fewstep" };

/// Reads the command line, does what it says, and returns the code to end with.
#[must_use]
pub fn main() -> ExitCode {
    let end = match Arguments::parse().command {
        Command::Predict(arguments) => run::predict(arguments),
        Command::Decide(arguments) => run::decide(arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Completions { shell } => Ok(completions(shell)),
    };
    // What is a field elsewhere is a flag here.
    FEWSTEP.end(end.map_err(|error| error.with_flags()))
}

/// Writes the script that completes commands in a shell.
fn completions(shell: clap_complete::Shell) -> End {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "fewstep", &mut script);
    // A reader that has gone away has seen what it wanted.
    let _ = io::stdout().write_all(&script);
    End::Done
}

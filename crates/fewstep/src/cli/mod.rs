//! The command line: what may be asked for, and how it is asked.
//!
//! Answers go to standard output and everything else to standard error. The program ends with 0
//! if all was done, 1 if a task failed, 2 if nothing could run, and 130 if it was interrupted.

mod arguments;
mod bench;
mod pretrain;
mod progress;
mod reproduce;
mod run;
mod serve;
mod sink;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::io::{self, Write};
use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Every task was answered.
    Done,
    /// Some task was not.
    SomeFailed,
    /// Nothing could run.
    NothingRan,
    /// The user asked to stop.
    Interrupted,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        Self::from(match end {
            End::Done => 0,
            End::SomeFailed => 1,
            End::NothingRan => 2,
            End::Interrupted => 130,
        })
    }
}

/// Reads the command line, does what it says, and returns the code to end with.
#[must_use]
pub fn main() -> ExitCode {
    let end = match Arguments::parse().command {
        Command::Predict(arguments) => run::predict(arguments),
        Command::Decide(arguments) => run::decide(arguments),
        Command::Reproduce { what } => reproduce::reproduce(what, arguments::VERSION),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Pretrain(arguments) => pretrain::pretrain(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments, arguments::VERSION),
        Command::Completions { shell } => Ok(completions(shell)),
    };
    match end {
        Ok(end) => end.into(),
        Err(error) => {
            let _ = writeln!(io::stderr(), "fewstep: {error}");
            End::NothingRan.into()
        }
    }
}

/// Writes the script that completes commands in a shell.
fn completions(shell: clap_complete::Shell) -> End {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "fewstep", &mut script);
    // A reader that has gone away has seen what it wanted.
    let _ = io::stdout().write_all(&script);
    End::Done
}

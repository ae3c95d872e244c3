//! The program `fewstep`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fewstep::cli::main()
}

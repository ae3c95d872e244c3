//! The program `fewstep-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fewstep_lab::cli::main()
}

//! The program around its results: its version and its help.

use crate::support::{printed, run};

#[test]
fn the_version_is_that_of_fewstep() {
    let version = format!("fewstep-lab {}\n", fewstep::cli::VERSION);
    assert_eq!(printed(&run(&["--version"])), version);
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in ["reproduce", "pretrain", "bench"] {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(printed(&output).contains("Example"), "{command}");
        assert!(printed(&output).contains(&format!("  fewstep-lab {command} ")), "{command}");
    }
}

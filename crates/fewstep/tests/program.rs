//! The program around the answers: versions, completions, colours.
#![allow(clippy::unwrap_used, reason = "a missing word fails the test")]

mod support;

use support::{printed, run, run_with_input, tasks};

#[test]
fn the_version_names_the_commit_where_there_is_one() {
    let text = printed(&run(&["--version"]));
    let version = format!("fewstep {}", env!("CARGO_PKG_VERSION"));
    let rest = text.trim_end().strip_prefix(&version).unwrap();
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(support::root())
        .output();
    match git {
        Ok(git) if git.status.success() => {
            let commit = String::from_utf8(git.stdout).unwrap();
            assert_eq!(rest, format!(" (commit {})", commit.trim()));
        }
        _ => assert_eq!(rest, ""),
    }
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success());
        assert!(
            printed(&output).contains("leave-one-out") || printed(&output).contains("horizons")
        );
    }
}

#[test]
fn every_command_explains_itself_with_examples() {
    for command in ["predict", "decide", "completions"] {
        let output = run(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(printed(&output).contains("Example"), "{command}");
        assert!(printed(&output).contains(&format!("  fewstep {command} ")), "{command}");
    }
}

#[test]
fn what_is_not_a_terminal_gets_neither_colours_nor_bars() {
    let mut command = support::fewstep();
    let child = command.env_remove("NO_COLOR").args(["decide", "examples/digits.jsonl"]);
    let output = child.output().unwrap();
    assert!(output.status.success());
    assert!(!output.stdout.contains(&0x1b));
    assert!(output.stderr.is_empty());
}

#[test]
fn reports_have_the_fields_that_programs_rely_on() {
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let brief = run_with_input(&["predict", "-", "--json"], tasks(1).as_bytes());
    let report = &support::records(&printed(&brief))[0];
    let of = |part: &str| keys(&report[part]);
    assert_eq!(
        keys(report),
        ["geometry", "how_far", "id", "passes", "prediction", "when", "which"]
    );
    assert_eq!(of("prediction"), ["adapted", "icl", "linear", "standard_deviation", "target"]);
    assert_eq!(of("when"), ["adapt", "gap_adapted", "gap_icl", "gate", "reason"]);
    let how_far = [
        "at_edge",
        "degrees_of_freedom",
        "evidence",
        "evidence_fixed",
        "horizon",
        "noise_variance",
        "pac_bayes",
        "posterior",
        "rule",
        "step_size",
    ];
    assert_eq!(of("how_far"), how_far);
    assert_eq!(keys(&report["how_far"]["pac_bayes"]), ["bound", "confidence", "slack"]);
    assert_eq!(of("which"), ["budget", "rule", "selected"]);
    assert_eq!(of("geometry"), ["eigenvalues", "query_variance", "residuals"]);
    assert_eq!(of("passes"), ["backward", "forward"]);

    let full = run_with_input(&["decide", "-", "--json", "--full"], tasks(1).as_bytes());
    let report = &support::records(&printed(&full))[0];
    let geometry = ["coupling", "eigenvalues", "kernel", "query_variance", "residuals"];
    assert_eq!(keys(&report["geometry"]), geometry);
    assert_eq!(keys(&report["which"]), ["blocks", "budget", "rule", "selected"]);
    let block = ["coupling", "kernel", "name", "query", "query_variance", "trace"];
    assert_eq!(keys(&report["which"]["blocks"][0]), block);
    assert!(report["prediction"]["adapted"].is_null());
}

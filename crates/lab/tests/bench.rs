//! The benchmark runs, and says what it found; its times are nobody's business here.

use crate::support::{lab, printed, run, said};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_quick_run_prints_every_row() {
    let output = run(&["bench", "--quick"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = printed(&output);
    assert!(text.contains("without PyTorch") && text.contains("say nothing"), "{text}");
    for row in [
        "observe + decide, 40-token prompts",
        "… + 8 steps, original order",
        "… + 8 steps, tree order",
        "… linear dynamics for steps",
        "SmolLM2, 250 tokens, 8 steps, tree",
        "n = 64, 20 tokens each, 8 steps, tree",
        "100 further queries, each",
    ] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row} in {text}");
    }
    assert!(!text.contains("reached") && !text.contains("MISSED"), "{text}");
    #[cfg(target_os = "linux")]
    assert!(text.contains("peak memory, 40-token prompts"), "{text}");
    for [row, of] in [
        ["icl-10 ", "local / plain"],
        ["icl-10 ", "local, prefix / plain"],
        ["icl-10 ", "whole / local"],
        ["icl-64 ", "local / plain"],
        ["icl-64 ", "local, prefix / plain"],
        ["icl-64 ", "whole / local"],
        ["icl-further ", "further / plain behind the cache "],
        ["icl-further ", "further, alone / plain behind the cache, alone"],
        ["icl-rows ", "local, shots / plain behind the cache"],
        #[cfg(target_os = "linux")]
        ["icl-memory ", "local / whole"],
        #[cfg(target_os = "linux")]
        ["icl-memory ", "local / plain"],
    ] {
        let found = text.lines().any(|line| line.starts_with(row) && line.contains(of));
        assert!(found, "{row}{of} in {text}");
    }
    for skipped in ["skipped: icl-llama:", "skipped: icl-torch: there is no PyTorch"] {
        assert!(text.contains(skipped), "{skipped} in {text}");
    }
}

/// Rows about the price of in-context learning are asked for together, without any other.
#[test]
fn the_price_of_in_context_learning_is_reported_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut program = lab();
    program.args(["bench", "--quick", "--rounds", "2", "--work", "icl"]).arg("--out").arg(&out);
    let output = program.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 0);
    let rows = report["prices"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| &row["work"]).collect();
    assert_eq!(names[..4], ["icl-10", "icl-64", "icl-further", "icl-rows"]);
    for row in rows {
        for side in row["sides"].as_array().unwrap() {
            assert_eq!((&side["threads"], &side["taken"]["runs"]), (&1.into(), &2.into()));
            assert_eq!((&side["by"], &side["apart"]), (&Value::Null, &Value::Null));
        }
        for ratio in row["ratios"].as_array().unwrap() {
            assert!(ratio["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(ratio["reached"], Value::Null);
        }
    }
    let sides = |row: &Value| -> Vec<String> {
        let sides = row["sides"].as_array().unwrap().iter();
        sides.map(|side| side["side"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sides(&rows[0]), ["plain", "local", "local, prefix", "whole"]);
    assert_eq!(sides(&rows[3]), ["plain behind the cache", "local, shots"]);
    let page = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(page.contains("## The price of in-context learning"), "{page}");
    assert!(page.contains("| icl-10 | 10 examples of 30 tokens, tree | local / plain | 1 |"));
}

#[test]
fn a_report_holds_the_rows_that_are_asked_for_and_drawings() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut program = lab();
    program.args(["bench", "--quick", "--curves", "--rounds", "2", "--threads", "1"]);
    program.args(["--work", "steps", "--work", "observe"]).arg("--out").arg(&out);
    let output = program.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    let rows: Vec<_> = report["rows"].as_array().unwrap().iter().collect();
    assert_eq!(rows.iter().map(|row| &row["work"]).collect::<Vec<_>>(), ["observe", "steps"]);
    for row in &rows {
        assert_eq!(row["seconds"]["runs"], 2);
        assert!(row["operations"].as_f64() < row["plain_operations"].as_f64(), "{row}");
    }
    assert_eq!(report["memory"].as_array().unwrap().len(), 0);
    assert_eq!(report["curves"].as_array().unwrap().len(), 7);
    assert!(read("report.md").contains("| observe + decide, 40-token prompts |"));
    assert!(read("examples.svg").contains("slope"));
    let names = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_str().unwrap().ends_with(".part")));
}

/// What was measured before an interrupt is kept.
#[cfg(unix)]
#[test]
fn an_interrupted_run_reports_what_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut program = lab();
    program.args(["bench", "--quick", "--rounds", "100", "--threads", "1", "--out"]).arg(&out);
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut heard = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first row is told as soon as it is there.
    let first = heard.find(|line| line.as_ref().unwrap().contains("fewstep-lab: observe:"));
    assert!(first.is_some());
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = heard.map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    assert!(printed(&output).contains("The run was interrupted"), "{}", printed(&output));
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert!((1..7).contains(&rows.len()), "{}", rows.len());
    assert_eq!((&rows[0]["work"], &report["interrupted"]), (&"observe".into(), &true.into()));
}

#[test]
fn what_cannot_run_is_named() {
    let unknown = run(&["bench", "--quick", "--work", "step"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        said(&unknown).contains("unknown row \"step\" of the benchmark"),
        "{}",
        said(&unknown)
    );

    let missing = run(&["bench", "--quick", "--torch", "no/such/python"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        said(&missing).contains("no/such/python failed during the benchmark"),
        "{}",
        said(&missing)
    );

    let mut nowhere = lab();
    nowhere.args(["bench", "--quick"]).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    let nowhere = nowhere.output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(said(&nowhere).contains("set HOME or XDG_CACHE_HOME"), "{}", said(&nowhere));
}

/// One row may be asked for, and is measured alone.
#[test]
fn a_row_about_the_price_is_measured_alone() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let mut program = lab();
    program.args(["bench", "--quick", "--work", "icl-rows", "--work", "icl-torch", "--out"]);
    let output = program.arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["prices"].as_array().unwrap().len(), 1);
    assert_eq!(report["prices"][0]["work"], "icl-rows");
    let skipped = report["skipped"].as_array().unwrap();
    assert_eq!(skipped, &["icl-torch: there is no PyTorch; bench/run installs it"]);
}

/// The large model is not made for a work that its file is missing for.
#[test]
fn a_row_without_its_model_is_skipped_and_said_to_be() {
    let cache = tempfile::tempdir().unwrap();
    let mut program = lab();
    program.args(["bench", "--work", "smollm2", "--out"]).arg(cache.path().join("run"));
    let output = program.env("XDG_CACHE_HOME", cache.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("run models/smollm2"), "{}", said(&output));
    assert!(printed(&output).contains("skipped: smollm2:"), "{}", printed(&output));

    let mut program = lab();
    program.args(["bench", "--work", "icl-10", "--out"]).arg(cache.path().join("run"));
    let output = program.env("XDG_CACHE_HOME", cache.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(printed(&output).contains("skipped: icl-10:"), "{}", printed(&output));
}

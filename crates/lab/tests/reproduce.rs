//! Experiments as they are run: same seeds, same numbers; nothing is lost, and nothing is mixed.

use crate::support::{lab, printed, records, run, said};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

/// Runs an experiment into a directory.
fn reproduce(out: &Path, arguments: &[&str]) -> Output {
    lab().arg("reproduce").args(arguments).arg("--out").arg(out).output().unwrap()
}

fn done(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Directories for one test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A table of sentences of our own.
fn sentences() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sentences.tsv").to_owned()
}

#[test]
fn threads_change_nothing_and_the_report_says_what_was_run() {
    let place = Place::new();
    let flags = ["digit-shift", "--tasks", "4", "--step-scale", "0.1", "--threads"];
    let (one, two) = (place.at("one"), place.at("two"));
    let with = |out: &Path, threads: &str| reproduce(out, &[&flags[..], &[threads]].concat());
    let (first, second) = (with(&one, "1"), with(&two, "2"));
    done(&first);
    done(&second);
    let lines = read(&one, "digit-shift.jsonl");
    assert_eq!(lines, read(&two, "digit-shift.jsonl"));
    assert_eq!(printed(&first), printed(&second));
    let found = records(&lines);
    assert_eq!(found.len(), 4);
    for (number, record) in found.iter().enumerate() {
        assert_eq!(record["task"], number);
        for path in ["steps", "linear", "fit"] {
            assert_eq!(record["path"][path].as_array().unwrap().len(), 31);
        }
        assert!(record["bayes"]["variance"].as_f64().unwrap() >= 0.0);
    }
    let text = printed(&first);
    for row in ["ICL (T = 0)", "fixed T = 8", "evidence, MLE σ", "exact Bayes predictor"] {
        assert!(text.contains(row), "{row} in {text}");
    }
    assert!(text.contains("T = 8 improves over in-context learning"), "{text}");
    for name in ["report.html", "report.md"] {
        assert!(read(&one, name).contains("fewstep-lab reproduce digit-shift"), "{name}");
    }
    let settings: Value = serde_json::from_str(&read(&one, "settings.json")).unwrap();
    assert_eq!(
        (&settings["model"], &settings["parts"][0]["seed"]),
        (&"builtin".into(), &0.into())
    );
    assert!(!one.join("pilot.json").exists(), "the step size was given");
}

#[test]
fn killed_runs_add_up_to_one_that_was_left_alone() {
    let place = Place::new();
    let flags = ["digit-shift", "--tasks", "60", "--dynamics", "linear", "--threads", "2"];
    let (whole, parts) = (place.at("whole"), place.at("parts"));
    done(&reproduce(&whole, &flags));
    let file = parts.join("digit-shift.jsonl");
    let lines = || fs::read(&file).unwrap_or_default().iter().filter(|&&b| b == b'\n').count();
    let mut before = 0;
    for round in 0..2 {
        let mut program = lab();
        program.arg("reproduce").args(flags).arg("--out").arg(&parts);
        if round > 0 {
            program.arg("--resume");
        }
        let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while lines() < before + 5 {
            assert_eq!(child.try_wait().unwrap(), None, "ended with {} lines", lines());
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        before = lines();
        let half = fs::read_to_string(&file).unwrap() + "{\"task\":59,\"tar";
        fs::write(&file, half).unwrap();
    }
    assert!(before < 60, "nothing was left to go on with");
    let last = reproduce(&parts, &[&flags[..], &["--resume"]].concat());
    done(&last);
    assert!(said(&last).contains("cut off"), "{}", said(&last));
    for name in ["digit-shift.jsonl", "pilot.json", "settings.json"] {
        assert_eq!(read(&whole, name), read(&parts, name), "{name}");
    }
    // Once more there is nothing to do, and the report stays.
    let again = reproduce(&parts, &[&flags[..], &["--resume"]].concat());
    done(&again);
    assert_eq!(printed(&again), printed(&last));
}

#[test]
fn shards_are_put_together_and_other_settings_are_refused() {
    let place = Place::new();
    let flags = ["heads", "--tasks", "5", "--dynamics", "linear", "--step-scale", "0.1"];
    let (whole, first, second) = (place.at("whole"), place.at("first"), place.at("second"));
    done(&reproduce(&whole, &flags));
    for (out, shard) in [(&first, "1/2"), (&second, "2/2")] {
        let output = reproduce(out, &[&flags[..], &["--shard", shard]].concat());
        done(&output);
        assert!(said(&output).contains("merge"), "{}", said(&output));
        assert!(!out.join("report.html").exists());
    }
    assert_eq!(records(&read(&first, "heads.jsonl")).len(), 3);
    let merge = |directories: &[&Path], out: &Path| {
        let mut program = lab();
        program.args(["reproduce", "merge"]).args(directories).arg("--out").arg(out);
        program.output().unwrap()
    };
    let both = place.at("both");
    done(&merge(&[&first, &second], &both));
    for name in ["heads.jsonl", "settings.json"] {
        assert_eq!(read(&whole, name), read(&both, name), "{name}");
    }
    assert!(both.join("report.html").exists());
    // One share alone: the report says that tasks are missing.
    let partly = merge(&[&second], &place.at("partly"));
    assert_eq!(partly.status.code(), Some(1));
    assert!(printed(&partly).contains("3 tasks are missing"), "{}", printed(&partly));

    let other = place.at("other");
    let flags = ["heads", "--tasks", "5", "--dynamics", "linear", "--step-scale", "0.2"];
    done(&reproduce(&other, &[&flags[..], &["--shard", "2/2"]].concat()));
    let refused = merge(&[&first, &other], &place.at("mixed"));
    assert_eq!(refused.status.code(), Some(2));
    let text = said(&refused);
    assert!(text.contains("parts.0.choices.step_scale is 0.2, and 0.1 here"), "{text}");
    assert!(!place.at("mixed").exists());
    let resumed = reproduce(&first, &[&flags[..], &["--shard", "1/2", "--resume"]].concat());
    assert_eq!(resumed.status.code(), Some(2));
    assert!(said(&resumed).contains("other settings"), "{}", said(&resumed));
    // A result that was tampered with is noticed.
    let tampered = read(&first, "heads.jsonl").replacen("\"target\":", "\"target\":1", 1);
    fs::write(other.join("settings.json"), read(&first, "settings.json")).unwrap();
    fs::write(other.join("heads.jsonl"), tampered).unwrap();
    let refused = merge(&[&first, &other], &place.at("mixed"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("task 0 of"), "{}", said(&refused));
}

#[test]
fn heads_are_chosen_for_every_budget_by_every_method() {
    let place = Place::new();
    let out = place.at("heads");
    let output = reproduce(&out, &["heads", "--tasks", "1", "--step-scale", "0.1"]);
    done(&output);
    let record = &records(&read(&out, "heads.jsonl"))[0];
    let choices = record["heads"].as_array().unwrap();
    assert_eq!(choices.len(), 1 + 5 * 6);
    for choice in choices {
        let draws = if choice["method"] == "random" { 5 } else { 1 };
        assert_eq!(choice["query"].as_array().unwrap().len(), draws);
        assert!(choice["fit"][0]["steps"].as_f64().is_some());
    }
    assert!(printed(&output).contains("Improvement of the query error over Random"));
}

#[test]
fn sentences_are_tasks_like_others() {
    let place = Place::new();
    let data = sentences();
    let flags = ["sst2", "--data", &data, "--tasks", "3", "--dynamics", "linear"];
    let out = place.at("sst2");
    let cut = [&flags[..], &["--max-tokens-per-example", "5"]].concat();
    let output = reproduce(&out, &cut);
    done(&output);
    for record in records(&read(&out, "sst2.jsonl")) {
        assert!(record["path"].is_object() && record["heads"].is_array());
        assert_eq!(record.get("bayes"), None);
    }
    let text = printed(&output);
    assert!(text.contains("(App. J)") && text.contains("How far to go"), "{text}");
    let settings: Value = serde_json::from_str(&read(&out, "settings.json")).unwrap();
    assert_eq!(settings["data"]["file"], "sentences.tsv");
    assert_eq!(settings["data"]["sentences"], 16);
    assert!(!read(&out, "sst2.jsonl").contains("soup"), "sentences are not copied");

    // Whole sentences do not fit into the built-in model.
    let output = reproduce(&place.at("long"), &flags);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("none of 3 tasks could be measured"), "{}", said(&output));
}

#[test]
fn seeds_are_pooled_and_choices_swept() {
    let place = Place::new();
    let out = place.at("swept");
    let flags = ["digit-shift", "--tasks", "3", "--seeds", "2", "--sweep", "2"];
    let output = reproduce(&out, &[&flags[..], &["--dynamics", "linear"]].concat());
    done(&output);
    for seed in ["0", "1"] {
        let name = format!("digit-shift-seed-{seed}.jsonl");
        assert_eq!(records(&read(&out, &name)).len(), 3);
    }
    let long = &records(&read(&out, "digit-shift-sweep-horizons-0-to-60.jsonl"))[0];
    assert_eq!(long["path"]["linear"].as_array().unwrap().len(), 61);
    let tree = records(&read(&out, "digit-shift-sweep-leave-one-out-order-tree.jsonl"));
    assert_eq!(tree.len(), 2);
    let text = printed(&output);
    assert!(text.contains("Open choices (digit-shift)") && text.contains("separator: comma"));
    let report = read(&out, "report.md");
    assert!(report.contains("by seed") && report.contains("6 tasks"), "{report}");
    // The pilot found the step size on tasks of its own.
    let pilot: Value = serde_json::from_str(&read(&out, "pilot.json")).unwrap();
    assert_eq!(pilot["tried"].as_array().unwrap().len(), 3);
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_is_measured_and_says_how_to_go_on() {
    let place = Place::new();
    let out = place.at("out");
    let mut program = lab();
    program.args(["reproduce", "digit-shift", "--dynamics", "linear", "--step-scale", "0.1"]);
    program.arg("--out").arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let lines = || fs::read_to_string(out.join("digit-shift.jsonl")).unwrap_or_default();
    while lines().lines().count() < 3 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).trim_end().ends_with("--resume"), "{}", said(&output));
    assert!(lines().ends_with('\n') && lines().lines().count() < 2000);
    assert!(!out.join("report.html").exists());
}

/// A task is measured once; every rule is a look at what is stored.
#[test]
fn rules_are_compared_on_stored_tasks_of_every_kind() {
    let place = Place::new();
    let flags = ["rules", "--tasks", "1", "--seeds", "2", "--longest", "4"];
    let flags = [&flags[..], &["--kinds", "swap,shift-near"]].concat();
    let (first, test) = (place.at("development"), place.at("test"));
    let output = reproduce(&first, &flags);
    done(&output);
    done(&reproduce(&test, &[&flags[..], &["--split", "test"]].concat()));
    let text = printed(&output);
    for part in [
        "Rules, developed",
        "10 rules",
        "7 whole policies",
        "on what is observed in other ways",
        "local adjoints, prefix residuals",
        "The default policy (MLPs by depth)",
        "When the default policy hurts",
        "Abstention",
        "swap",
        "average by leave-one-out, as by default",
        "policy: MLPs by depth",
    ] {
        assert!(
            text.contains(part) || read(&first, "report.md").contains(part),
            "{part}: {text}"
        );
    }
    let judged = read(&test, "report.md");
    assert!(judged.contains("Rules, judged") && judged.contains("7 whole policies"));
    assert!(
        read(&test.join("figures"), "rules-gains.svg")
            .contains("the best fixed T in hindsight")
    );
    let stored = |out: &Path, split: &str| {
        let lines = read(out, &format!("rules-swap-{split}-seed-1.jsonl"));
        records(&lines).iter().map(|record| record["trace"].clone()).collect::<Vec<_>>()
    };
    let (developed, judged) = (stored(&first, "development"), stored(&test, "test"));
    assert_eq!((developed.len(), judged.len()), (1, 1));
    assert_ne!(developed[0]["residuals"], judged[0]["residuals"], "never the same tasks");
    assert_eq!(developed[0]["steps"].as_array().unwrap().len(), 5);
    assert_eq!(developed[0]["blocks"].as_array().unwrap().len(), 48);
    assert_eq!(developed[0]["blocks"][0]["kernel"].as_array().unwrap().len(), 55);
    // The report is made of what is stored, again and again.
    let before = read(&first, "report.md");
    done(&reproduce(&first, &[&flags[..], &["--resume"]].concat()));
    let tables = |text: &str| text.split_once("## Rules").unwrap().1.to_owned();
    assert_eq!(tables(&read(&first, "report.md")), tables(&before));
}

/// Further queries are more numbers about the same tasks: what was known of these stays, and tasks
/// are counted once.
#[test]
fn prompts_are_asked_about_several_queries() {
    let place = Place::new();
    let flags =
        ["rules", "--tasks", "2", "--longest", "2", "--kinds", "swap", "--split", "test"];
    let (one, three) = (place.at("one"), place.at("three"));
    done(&reproduce(&one, &flags));
    done(&reproduce(&three, &[&flags[..], &["--queries", "3"]].concat()));
    let name = "rules-swap-test-seed-0.jsonl";
    let (alone, more) = (records(&read(&one, name)), records(&read(&three, name)));
    assert_eq!((alone.len(), more.len()), (2, 2));
    for (alone, more) in alone.iter().zip(more) {
        let mut trace = more["trace"].clone();
        let further = trace.as_object_mut().unwrap().remove("further").unwrap();
        assert_eq!(further.as_array().unwrap().len(), 2);
        for outcome in trace["ways"].as_array_mut().unwrap() {
            let further = outcome.as_object_mut().unwrap().remove("further").unwrap();
            assert!(further[1]["prediction"].is_f64());
        }
        assert_eq!((trace, &more["target"]), (alone["trace"].clone(), &alone["target"]));
    }
    let report = read(&three, "report.md");
    assert!(report.contains("asked about 3 queries") && report.contains("range of the labels"));
    assert!(report.contains("| swap | 2 |"), "{report}");
    assert!(!read(&one, "report.md").contains("asked about"));
    // A directory with one query per prompt is not continued with three.
    let resumed = reproduce(&one, &[&flags[..], &["--queries", "3", "--resume"]].concat());
    assert_eq!(resumed.status.code(), Some(2));
    let text = said(&resumed);
    assert!(text.contains("parts.0.choices.queries is 1, and 3 here"), "{text}");
}

/// Whatever is wrong with a run is said before any work is done.
#[test]
fn what_cannot_run_is_refused_at_once() {
    let place = Place::new();
    let out = place.at("out");
    let refused = |arguments: &[&str], expected: &str| {
        let output = reproduce(&out, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
        assert!(!out.join("settings.json").exists(), "{arguments:?}");
    };
    refused(&["digit-shift", "--tasks", "0"], "0 is not in 1..");
    refused(&["digit-shift", "--seeds", "0"], "0 is not in 1..");
    refused(&["digit-shift", "--shard", "3/2"], "expected I/N with I from 1 to N");
    refused(&["digit-shift", "--step-scale", "1"], "over 0 and under 1");
    refused(&["digit-shift", "--blocks", "value@9..10"], "");
    refused(&["digit-shift", "--model", "no such/model/here"], "no such/model/here");
    refused(&["sst2"], "--data");
    refused(&["rules", "--kinds", "swap,sentiment"], "--data");
    refused(&["rules", "--queries", "0"], "0 is not in 1..=10");
    refused(&["rules", "--queries", "11"], "11 is not in 1..=10");
    refused(&["rules", "--longest", "10000"], "10000 is not in 1..=9999");
    refused(&["digit-shift", "--queries", "2"], "unexpected argument '--queries'");
    refused(&["all", "--queries", "2"], "unexpected argument '--queries'");
    let few = ["rules", "--kinds", "sentiment", "--queries", "7", "--data", &sentences()];
    refused(&few, "at least 17 for 7 queries per prompt");
    refused(&["rules", "--kinds", "swaps"], "unknown task family \"swaps\"");
    refused(&["sst2", "--data", "no such table.tsv"], "cannot read no such table.tsv");
    let bad = place.at("bad.tsv");
    fs::write(&bad, "sentence\tlabel\nfine\t3\n").unwrap();
    refused(&["sst2", "--data", bad.to_str().unwrap()], "line 2: the label is neither 0 nor 1");

    let file = place.at("file");
    fs::write(&file, "").unwrap();
    let output = reproduce(&file, &["digit-shift", "--tasks", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cannot make the directory"), "{}", said(&output));
    let output =
        run(&["reproduce", "merge", "no such results", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("holds no results"), "{}", said(&output));

    let flags = ["digit-shift", "--tasks", "1", "--dynamics", "linear", "--step-scale", "0.1"];
    done(&reproduce(&out, &flags));
    let output = reproduce(&out, &flags);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("add --resume"), "{}", said(&output));
    let output = reproduce(&out, &["theory"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("name another directory"), "{}", said(&output));
}

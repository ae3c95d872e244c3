//! What is wrong with a task is said in its place, and the others are answered.

use crate::support::{self, file_of, printed, records, run, run_with_input, said, task, tasks};
use serde_json::{Value, json};

/// A task with one part replaced.
fn with(id: &str, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut task = task(id, 3);
    change(&mut task);
    task.to_string().into_bytes()
}

/// A bad line, the id in its record, and words that its message must have.
fn bad_lines() -> Vec<(Vec<u8>, Option<&'static str>, Vec<&'static str>)> {
    let million = "1".repeat(1_000_000);
    let endless = "1".repeat(20_000_000);
    vec![
        (
            b"{\"id\": \"m1\", \"template\" \"{x}\"}".to_vec(),
            None,
            vec!["column 25", "expected `:`"],
        ),
        (b"{\"id\": \"m2\"".to_vec(), None, vec!["column 11", "EOF", "one line"]),
        (b"{".to_vec(), None, vec!["column 1"]),
        (b"[1, 2]".to_vec(), None, vec!["one JSON object"]),
        (b"\"id\"".to_vec(), None, vec!["one JSON object"]),
        (
            with("unknown", |t| t["tempalte"] = json!("{x}")),
            Some("unknown"),
            vec!["unknown field `tempalte`", "expected one of"],
        ),
        (
            with("nested", |t| t["query"]["z"] = json!(1)),
            Some("nested"),
            vec!["unknown field `z`"],
        ),
        (b"{\"id\": \"bare\"}".to_vec(), Some("bare"), vec!["missing field `template`"]),
        (b"{\"id\": 7}".to_vec(), None, vec!["expected a string"]),
        (
            with("label", |t| t["examples"][1]["y"] = json!("x")),
            Some("label"),
            vec!["y of example 1", "\"x\"", "must be one of"],
        ),
        (
            with("query", |t| t["query"]["y"] = json!("x")),
            Some("query"),
            vec!["y of the query"],
        ),
        (
            with("one", |t| t["examples"] = json!([{"x": "1", "y": "4"}])),
            Some("one"),
            vec!["has 1 examples", "at least 2"],
        ),
        (with("t0", |_| ()), Some("t0"), vec!["line 1 of", "its own"]),
        (
            with("no-x", |t| t["template"] = json!("->{y}")),
            Some("no-x"),
            vec!["contains {x} 0 times"],
        ),
        (
            with("no-y", |t| t["template"] = json!("{x}->")),
            Some("no-y"),
            vec!["contains {y} 0 times"],
        ),
        (
            with("order", |t| t["template"] = json!("{y}<-{x}")),
            Some("order"),
            vec!["put {x} first"],
        ),
        (
            with("long", |t| t["examples"][0]["x"] = json!(million)),
            Some("long"),
            vec!["at most 524288", "fewer or shorter"],
        ),
        (
            with("endless", |t| t["examples"][0]["x"] = json!(endless)),
            None,
            vec!["more than 16777216 bytes", "shorten"],
        ),
        (
            with("huge", |t| t["labels"][0]["value"] = json!("1e999")),
            Some("huge"),
            vec!["expected f64"],
        ),
        (
            with("number", |_| ()).replace(b"\"value\":0.0", b"\"value\":1e999"),
            Some("number"),
            vec!["number out of range"],
        ),
        (b"{\"id\": \"\xff\xfe\"}".to_vec(), None, vec!["column 9", "0xff", "UTF-8"]),
        (vec![0], None, vec!["column 1"]),
        ([vec![b'['; 100_000], vec![b']'; 100_000]].concat(), None, vec!["column"]),
    ]
}

trait Replace {
    fn replace(self, from: &[u8], to: &[u8]) -> Vec<u8>;
}

impl Replace for Vec<u8> {
    fn replace(self, from: &[u8], to: &[u8]) -> Vec<u8> {
        let at = self.windows(from.len()).position(|window| window == from).unwrap();
        [&self[..at], to, &self[at + from.len()..]].concat()
    }
}

#[test]
fn every_bad_task_has_a_record_in_its_place_and_the_rest_runs() {
    let bad = bad_lines();
    let mut file = tasks(1).into_bytes();
    for (index, (line, _, _)) in bad.iter().enumerate() {
        file.extend_from_slice(line);
        file.extend_from_slice(b"\n\r\n");
        file.extend_from_slice(task(&format!("good-{index}"), 1).to_string().as_bytes());
        file.push(b'\n');
    }
    let (_keep, name) = file_of(&file);
    let output = run(&["predict", &name, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let records = records(&printed(&output));
    assert_eq!(records.len(), 1 + 2 * bad.len());
    for (index, (_, id, words)) in bad.iter().enumerate() {
        let (record, next) = (&records[1 + 2 * index], &records[2 + 2 * index]);
        let error = record["error"].as_str().unwrap_or_else(|| panic!("{record}"));
        assert_eq!(record["id"], json!(id), "{error}");
        assert_eq!(record["line"], json!(2 + 3 * index), "{error}");
        assert_eq!(record.as_object().unwrap().len(), 3);
        for word in words {
            assert!(error.contains(word), "{word:?} is not in {error:?}");
        }
        assert!(error.len() < 2000, "{} characters", error.len());
        assert_eq!(next["id"], json!(format!("good-{index}")));
        assert!(next["prediction"]["adapted"].is_number());
    }
}

#[test]
fn the_text_form_names_bad_tasks_in_their_place_too() {
    let (_keep, name) = file_of(format!("{{\n{}", tasks(1)).as_bytes());
    let output = run(&["predict", &name]);
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(text.starts_with("(no id)\n  failed     line 1: column 1: EOF"), "{text}");
    assert!(text.contains("\n2 tasks: 1 answered, 1 failed;"), "{text}");
}

#[test]
fn text_for_the_terminal_cannot_carry_commands_to_it() {
    let line = with("\u{1b}[2J\nid", |t| t["examples"][0]["y"] = json!("\u{1b}]0;x"));
    let output = run_with_input(&["predict", "-"], &line);
    assert!(!printed(&output).contains('\u{1b}'), "{}", printed(&output));
    assert!(printed(&output).starts_with("\\u{1b}[2J\\nid\n"), "{}", printed(&output));
}

#[test]
fn files_may_end_without_a_line_break_and_begin_with_a_mark() {
    let text = format!("\u{feff}{}", tasks(2));
    let output = run_with_input(&["predict", "-", "--json"], text.trim_end().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(records(&printed(&output)).len(), 2);
}

#[test]
fn ids_must_differ_across_files() {
    let (_first, a) = file_of(tasks(2).as_bytes());
    let (_second, b) = file_of(tasks(1).as_bytes());
    let output = run(&["predict", &a, &b, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let records = records(&printed(&output));
    let error = records[2]["error"].as_str().unwrap();
    assert!(error.starts_with(&format!("{b}: ")), "{error}");
    assert!(error.contains(&format!("line 1 of {a}")), "{error}");
}

#[test]
fn when_nothing_can_run_the_code_is_2() {
    let (_keep, empty) = file_of(b"");
    let (_keep_too, blank) = file_of(b"\n  \n");
    for name in [&empty, &blank] {
        let output = run(&["predict", name, "--json"]);
        assert_eq!(output.status.code(), Some(2));
        let records = records(&printed(&output));
        assert_eq!((records.len(), &records[0]["id"]), (1, &Value::Null));
        assert!(records[0]["error"].as_str().unwrap().contains("contains no tasks"));
    }
    let (_good, good) = file_of(tasks(1).as_bytes());
    let output = run(&["predict", &good, &empty, "--json"]);
    assert_eq!((output.status.code(), records(&printed(&output)).len()), (Some(1), 2));

    for (flags, words) in [
        (vec!["no-such-file.jsonl"], "cannot read no-such-file.jsonl"),
        (vec!["."], "cannot read ."),
        (vec![&good, "--model", "no/such/model"], "no/such/model"),
        (vec![&good, "--blocks", "value@last"], "lastN"),
        (vec![&good, "--blocks", "values@all"], "expected one of value"),
        (vec![&good, "--select", "trace-top"], "--budget is missing"),
        (vec![&good, "--budget", "3"], "--budget is 3; it must be omitted"),
        (vec![&good, "--select", "trace-top", "--budget", "0"], "from 1 to 3"),
        (vec![&good, "--policy", "best"], "default, paper"),
        (vec![&good, "--policy", &good], "of the policy: unknown field"),
        (vec![&good, "--coverage", "1"], "over 0 and under 1"),
        (vec![&good, "--adjoint", "none"], "local or whole"),
        (vec![&good, "--residuals", "suffix"], "leave-one-out or prefix"),
        (vec![&good, "--orders", "3"], "--orders is 3; it must be omitted"),
        (
            vec![&good, "--residuals", "leave-one-out", "--orders", "3"],
            "--orders is 3; it must be omitted",
        ),
        (
            vec![&good, "--residuals", "prefix", "--orders", "0"],
            "--orders is 0; it must be from 1 to 64",
        ),
        (vec![&good, "--shots", "0"], "--shots is 0; it must be from 1"),
        (vec![&good, "--select", "best"], "all, query-aware"),
        (vec![&good, "--horizon", "soon"], "a number of steps, evidence"),
        (
            vec![&good, "--horizon", "4000000000"],
            "--horizon is 4000000000; it must be at most 100000",
        ),
        (vec![&good, "--horizons", "5..1"], "a range such as 0..30"),
        (vec![&good, "--step-scale", "1"], "over 0 and under 1"),
        (vec![&good, "--step-scale", "nan"], "over 0 and under 1"),
        (vec![&good, "--threads", "0"], "from 1"),
        (vec![&good, "--resume"], "--out"),
        (vec![&good, "--adapter", "no-such-adapter"], "no-such-adapter"),
        (vec![&good, "--adapter", "x", "--horizon", "3"], "cannot be used with"),
        (vec![&good, "--adapter", "x", "--adjoint", "whole"], "cannot be used with"),
        (vec![&good, "--adapter", "x", "--residuals", "prefix"], "cannot be used with"),
        (vec![&good, "--adapter", "x", "--orders", "3"], "cannot be used with"),
        (vec![&good, "--adapter", "x", "--shots", "3"], "cannot be used with"),
        (vec![], "required"),
    ] {
        let output = run(&[&["predict"][..], &flags[..]].concat());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(words), "{words:?} is not in {text:?}");
        assert_eq!(printed(&output), "");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::io::{BufRead, BufReader};
    let (_keep, name) = file_of(tasks(300).as_bytes());
    let mut child = support::fewstep()
        .args(["predict", &name, "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
}

#[test]
fn answers_come_in_order_whatever_the_number_of_threads() {
    let text = tasks(40);
    let one = run_with_input(&["predict", "-", "--json", "--threads", "1"], text.as_bytes());
    let many = run_with_input(&["predict", "-", "--json", "--threads", "7"], text.as_bytes());
    assert_eq!(printed(&one), printed(&many));
    let ids = records(&printed(&one)).into_iter().map(|record| record["id"].clone());
    assert!(ids.eq((0..40).map(|index| json!(format!("t{index}")))));
}

#[cfg(target_os = "linux")]
#[test]
fn answers_that_cannot_be_written_are_a_failure() {
    let (_keep, name) = file_of(tasks(2).as_bytes());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = support::fewstep();
    let output = command.args(["predict", &name, "--json"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write standard output"), "{}", said(&output));
    let output = run(&["predict", &name, "--json", "--out", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write /dev/full"), "{}", said(&output));
}

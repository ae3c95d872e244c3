//! What cannot be asked of a task of classes, and why.

use super::{class, classes};
use crate::support::{file_of, printed, records, run_with_input, said};
use serde_json::{Value, json};

fn error(flags: &[&str], task: &Value) -> String {
    let flags = [flags, &["-", "--json"]].concat();
    let output = run_with_input(&flags, task.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let record = records(&printed(&output)).remove(0);
    assert_eq!(record["id"], task["id"]);
    record["error"].as_str().unwrap_or_else(|| panic!("{record}")).to_owned()
}

#[test]
fn labels_that_cannot_be_told_apart_or_are_too_few_or_too_many_are_refused() {
    let many: Vec<String> = (0..201).map(|label| format!("label {label}")).collect();
    let value = |value: f64| json!({"text": "0", "value": value});
    for (labels, words) in [
        (json!(["6"]), "has 1 labels; it needs at least 2"),
        (json!(many), "201 labels, and a task of classes may have 200"),
        (json!(["6", "6", "0"]), "\"6\" is listed twice"),
        (json!(["6", ""]), "label 1 has no text"),
        (json!([value(0.0), "1", "6"]), "label \"1\" has no value and others have one"),
        (json!(["6", "5"]), "it must be one of [\"6\", \"5\"]"),
    ] {
        let mut task = class("t", 3, 4);
        task["labels"] = labels;
        let found = error(&["predict"], &task);
        assert!(found.contains(words), "{words:?} is not in {found:?}");
    }
    let mut task = class("t", 3, 4);
    for example in task["examples"].as_array_mut().unwrap() {
        example["y"] = json!("6");
    }
    task["labels"] = Value::Null;
    let found = error(&["predict"], &task);
    assert!(found.contains("has 1 labels"), "{found}");
}

#[test]
fn what_is_made_for_regression_is_refused_with_its_flag() {
    let (directory, _) = file_of(b"");
    let adapters = directory.path().to_str().unwrap().to_owned();
    for (flags, words) in [
        (
            &["predict", "--dynamics", "steps"][..],
            "--dynamics is steps; it must be linear for a task of classes",
        ),
        (&["predict", "--policy", "paper"], "--dynamics is steps; it must be linear"),
        (
            &["predict", "--blocks", "mlp-up@all"],
            "--blocks is about tasks of regression; omit it",
        ),
        (&["predict", "--select", "all"], "--select is about tasks of regression; omit it"),
        (&["predict", "--adjoint", "whole"], "--adjoint is about tasks of regression"),
        (&["predict", "--residuals", "prefix"], "--residuals is about tasks of regression"),
        (&["predict", "--horizon", "8"], "--horizon is about tasks of regression; omit it"),
        (
            &["predict", "--save-adapter", &adapters],
            "--save-adapter concerns tasks of regression",
        ),
        (&["predict", "--adapter", &adapters], "--adapter concerns tasks of regression"),
    ] {
        for task in [class("t", 3, 4), classes("t", 3, &[4, 5])] {
            let found = error(flags, &task);
            assert!(found.contains(words), "{words:?} is not in {found:?}");
        }
    }
    // What the paper says about steps is nothing that deciding needs.
    let flags = ["decide", "--policy", "paper", "--json", "-"];
    let output = run_with_input(&flags, class("t", 3, 4).to_string().as_bytes());
    assert!(output.status.success(), "{}", said(&output));
}

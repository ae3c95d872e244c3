//! Tasks of classes, as their users meet them.

mod recompute;
mod refusals;
mod service;

use crate::support::{file_of, printed, records, run, run_with_input, said, task};
use serde_json::{Value, json};
use std::fs;

/// A digit task whose labels have no values, with these queries.
fn classes(id: &str, shift: usize, queries: &[usize]) -> Value {
    let mut task = task(id, shift);
    let labels: Vec<String> = (0..10).map(|digit: u8| digit.to_string()).collect();
    task["labels"] = json!(labels);
    let query = |x: &usize| json!({"x": x.to_string(), "y": ((x + shift) % 10).to_string()});
    task["queries"] = queries.iter().map(query).collect();
    task.as_object_mut().unwrap().remove("query");
    task
}

/// The same with one query.
fn class(id: &str, shift: usize, x: usize) -> Value {
    let mut task = classes(id, shift, &[x]);
    task["query"] = task["queries"][0].clone();
    task.as_object_mut().unwrap().remove("queries");
    task
}

/// What is printed as JSON for some tasks.
fn reports(flags: &[&str], tasks: &[Value]) -> Vec<Value> {
    let input: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let output = run_with_input(&[flags, &["-", "--json"]].concat(), input.as_bytes());
    assert!(output.status.success(), "{flags:?}: {}", said(&output));
    records(&printed(&output))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|entry| entry.as_f64().unwrap()).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_report_has_the_outer_fields_of_regression_and_probabilities_of_labels() {
    let report = reports(&["predict"], &[class("t", 7, 4)]).remove(0);
    let regression = reports(&["predict"], &[task("t", 7)]).remove(0);
    assert_eq!(keys(&report), keys(&regression));
    let prediction = &report["prediction"];
    assert_eq!(prediction["labels"].as_array().unwrap().len(), 10);
    assert_eq!((&prediction["target"], &prediction["confidence"]), (&json!("1"), &json!(0.9)));
    for form in ["icl", "adapted"] {
        let probabilities = numbers(&prediction[form]);
        assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{probabilities:?}");
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
    let adapted = numbers(&prediction["adapted"]);
    let largest = adapted.iter().copied().fold(0.0, f64::max);
    let label = adapted.iter().position(|&p| p >= largest).unwrap();
    assert_eq!(prediction["label"], json!(label.to_string()));
    assert_eq!(prediction["set"][0], prediction["label"]);
    assert!((0.0..=1.0).contains(&prediction["abstention"].as_f64().unwrap()));
    assert_eq!(report["geometry"]["examples"], json!(6));
    assert_eq!(report["which"]["rule"], json!("arms"));
    assert_eq!(keys(&report["when"]), ["adapt", "leave_one_out", "reason", "weight"]);
    // Lists are for those who ask for them.
    let full = reports(&["predict", "--full"], &[class("t", 7, 4)]).remove(0);
    let path = &full["which"]["arms"][0]["paths"][0];
    assert_eq!(path["losses"].as_array().unwrap().len(), 7);
    for (place, lists) in [
        ("/geometry", &["answers", "fold_of", "icl", "probabilities"][..]),
        ("/how_far", &["horizons", "posterior"]),
        ("/which/arms/0", &["paths"]),
    ] {
        let (brief, full) = (report.pointer(place).unwrap(), full.pointer(place).unwrap());
        for list in lists {
            assert!(brief.get(list).is_none() && full[list].is_array(), "{place}/{list}");
        }
    }
    assert_eq!(
        (&full["lines"], &full["prediction"]),
        (&report["lines"], &report["prediction"])
    );
    // To decide is to say the same, and carries nothing out.
    let decided = reports(&["decide"], &[class("t", 7, 4)]).remove(0);
    assert_eq!(decided, report);
}

#[test]
fn confidence_is_that_of_the_set() {
    let sizes = ["0.5", "0.8"].map(|confidence| {
        let flags = ["predict", "--confidence", confidence];
        let report = reports(&flags, &[class("t", 7, 4)]).remove(0);
        let prediction = &report["prediction"];
        assert_eq!(prediction["confidence"].to_string(), confidence);
        assert_eq!(report["policy"]["classes"]["confidence"].to_string(), confidence);
        prediction["set"].as_array().unwrap().len()
    });
    assert!(sizes[0] <= sizes[1], "{sizes:?}");
    // Of ten labels and six examples, only all labels are as certain as that.
    let report = reports(&["predict", "--confidence", "0.95"], &[class("t", 7, 4)]).remove(0);
    assert_eq!(report["prediction"]["set"].as_array().unwrap().len(), 10);
    assert!(report["lines"]["prediction"].as_str().unwrap().ends_with("; 95 %: any label"));
}

#[test]
fn every_query_of_a_list_is_answered_as_if_it_were_the_only_one() {
    let asked = [4, 6, 1, 4, 7];
    let found = reports(&["predict", "--full"], &[classes("t", 7, &asked)]);
    assert_eq!(found.len(), asked.len());
    for (index, (report, x)) in found.iter().zip(asked).enumerate() {
        assert_eq!(report["query"], json!(index));
        let alone = reports(&["predict", "--full"], &[class("t", 7, x)]).remove(0);
        for form in ["icl", "adapted"] {
            let pairs = numbers(&report["prediction"][form]);
            let expected = numbers(&alone["prediction"][form]);
            for (a, b) in pairs.iter().zip(expected) {
                assert!((a - b).abs() < 2e-4, "{form} of query {index}: {a} and {b}");
            }
        }
        assert_eq!(keys(report).len(), keys(&alone).len() + 1);
    }
    // What is known of the examples is the same for all, and was paid for once.
    assert_eq!(found[0]["geometry"], found[4]["geometry"]);
    let forward = |report: &Value| report["passes"]["forward"].as_u64().unwrap();
    assert!(forward(&found[1]) < forward(&found[0]), "{}", found[1]["passes"]);
}

#[test]
fn what_is_wrong_with_one_query_stands_in_its_place() {
    let mut many = classes("t", 7, &[4, 6, 1]);
    many["queries"][0]["x"] = json!(" ");
    many["queries"][2]["y"] = json!("eleven");
    let output = run_with_input(&["predict", "-", "--json"], many.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let found = records(&printed(&output));
    let errors: Vec<bool> = found.iter().map(|record| record["error"].is_string()).collect();
    assert_eq!(errors, [true, false, true]);
    assert_eq!(found[2]["query"], json!(2));
}

/// Both kinds of task in one file, text and summary.
#[test]
fn a_file_may_mix_regression_and_classes() {
    let input = format!("{}\n{}\n", task("a", 7), classes("b", 7, &[4, 7]));
    let (directory, name) = file_of(input.as_bytes());
    let figures = directory.path().join("figures");
    let output = run(&["predict", &name, "--figures", figures.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let text = printed(&output);
    for words in [
        "\nb query 1\n  when       ",
        "\n  how far    ",
        "\n  where      ",
        "% without adapting",
        "; 90 %: ",
        "log-loss ",
        "; the answer is 1\n",
        "\n3 tasks: 3 answered, 0 failed; adapted to ",
        "(mean squared, over 1 known answers)",
        "\n  accuracy   ",
        " (over 2 known answers)\n",
        "\n  macro-F1   ",
        "\n  log-loss   ",
        "\n  Brier      ",
        "\n  ECE        ",
        "\n  sets       held ",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let mut drawn: Vec<String> = fs::read_dir(&figures)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('b'))
        .collect();
    drawn.sort();
    let kinds = ["arms", "log-loss", "probabilities"];
    let names =
        (0..2).flat_map(|query| kinds.map(|kind| format!("b.query-{query}.{kind}.svg")));
    assert_eq!(drawn, names.collect::<Vec<_>>());
    for name in drawn {
        let svg = fs::read_to_string(figures.join(&name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
    }
}

#[test]
fn decide_draws_probabilities_losses_and_weights() {
    let output = run_with_input(&["decide", "-"], class("t", 7, 4).to_string().as_bytes());
    let text = printed(&output);
    for words in [
        "  probability of each label (█ adapted, ░ without adapting)\n  0 ",
        "\n  leave-one-out log-loss of T steps; [ ] is the smallest\n",
        "\n  few-shot bias ",
        "\n  weight of each arm\n  in-context learning alone ",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    // What rests on the examples alone is drawn once for all queries on them.
    let many = classes("t", 7, &[4, 6, 1]).to_string();
    let text = printed(&run_with_input(&["decide", "-"], many.as_bytes()));
    assert_eq!(text.matches("probability of each label").count(), 3);
    assert_eq!(text.matches("weight of each arm").count(), 1);
    // Without a step there is nothing to choose among, and the reason is said.
    let flags = ["decide", "-", "--horizons", "0"];
    let text = printed(&run_with_input(&flags, class("t", 7, 4).to_string().as_bytes()));
    assert!(text.contains("\n  how far    0 steps\n"), "{text}");
    let reason = "(left out: few-shot bias: no number of steps over 0 is a candidate, ";
    assert!(text.contains(reason) && !text.contains("log-loss of T steps"), "{text}");
    // Without an arm there is nothing to leave out.
    let (directory, _) = file_of(b"");
    let policy = directory.path().join("policy.json");
    fs::write(&policy, r#"{"classes": {"arms": []}}"#).unwrap();
    let flags = ["decide", "-", "--policy", policy.to_str().unwrap()];
    let text = printed(&run_with_input(&flags, class("t", 7, 4).to_string().as_bytes()));
    assert!(text.contains("\n  how far    0 steps\n"), "{text}");
    assert!(text.contains("in-context learning alone "), "{text}");
}

#[test]
fn labels_cannot_carry_commands_to_the_terminal() {
    let mut task = class("t", 7, 4);
    task["labels"] = json!(["\u{1b}[2J", "1", "0", "2", "3", "5", "6", "9"]);
    task["examples"][0]["y"] = json!("\u{1b}[2J");
    for command in ["predict", "decide"] {
        let output = run_with_input(&[command, "-"], task.to_string().as_bytes());
        assert!(!printed(&output).contains('\u{1b}'), "{}", printed(&output));
    }
}

#[test]
fn a_run_that_ended_is_resumed_where_it_ended() {
    let many = [classes("t", 7, &[4, 6, 1]), class("u", 3, 5), task("v", 3)];
    let input: String = many.iter().map(|task| format!("{task}\n")).collect();
    let (directory, name) = file_of(input.as_bytes());
    let out = directory.path().join("out");
    let go = || {
        let output = run(&["predict", &name, "--resume", "--out", out.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        printed(&output)
    };
    go();
    let text = fs::read_to_string(&out).unwrap();
    assert_eq!(text.lines().count(), 5);
    for lines in 0..=5 {
        let begun: String = text.split_inclusive('\n').take(lines).collect();
        fs::write(&out, begun).unwrap();
        let said = go();
        assert!(lines == 0 || said.contains(&format!("{lines} answered before")), "{said}");
        assert_eq!(fs::read_to_string(&out).unwrap(), text, "{lines}");
    }
}

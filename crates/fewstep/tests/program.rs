//! The program around the answers: versions, completions, colours.

use crate::support::{self, printed, run, run_with_input, tasks};

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
    for command in ["predict", "decide", "serve", "completions"] {
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
        [
            "geometry",
            "how_far",
            "id",
            "lines",
            "passes",
            "policy",
            "prediction",
            "when",
            "which"
        ]
    );
    assert_eq!(
        of("prediction"),
        ["adapted", "icl", "interval", "linear", "standard_deviation", "target"]
    );
    assert_eq!(of("when"), ["adapt", "leave_one_out", "reason", "weight"]);
    assert_eq!(keys(&report["when"]["leave_one_out"]), ["adapted", "icl"]);
    assert_eq!(of("lines"), ["error", "how_far", "prediction", "when", "which"]);
    let policy = [
        "adjoint",
        "blocks",
        "classes",
        "coverage",
        "dynamics",
        "horizon",
        "horizons",
        "name",
        "residuals",
        "selection",
        "shots",
        "step_scale",
    ];
    assert_eq!(of("policy"), policy);
    let paper = ["predict", "-", "--json", "--policy", "paper"];
    let paper = run_with_input(&paper, tasks(1).as_bytes());
    let paper = &support::records(&printed(&paper))[0];
    let when = ["adapt", "gap_adapted", "gap_icl", "gate", "reason", "weight"];
    assert_eq!(keys(&paper["when"]), when);
    let how_far = [
        "at_edge",
        "degrees_of_freedom",
        "evidence",
        "evidence_fixed",
        "horizon",
        "noise_variance",
        "posterior",
        "rule",
        "step_size",
    ];
    assert_eq!(of("how_far"), how_far);
    assert_eq!(of("which"), ["budget", "rule", "selected"]);
    assert_eq!(of("geometry"), ["eigenvalues", "query_variance", "residuals"]);
    assert_eq!(of("passes"), ["backward", "forward"]);

    let full = run_with_input(&["decide", "-", "--json", "--full"], tasks(1).as_bytes());
    let report = &support::records(&printed(&full))[0];
    let geometry = [
        "bayes_response",
        "coupling",
        "eigenvalues",
        "kernel",
        "labels",
        "query_variance",
        "residuals",
        "response",
        "room",
    ];
    assert_eq!(keys(&report["geometry"]), geometry);
    let how_far = &report["how_far"];
    assert_eq!(keys(&how_far["pac_bayes"]), ["bound", "confidence", "slack"]);
    assert_eq!(how_far["pac_bayes"]["confidence"], 0.95);
    assert_eq!(keys(&report["prediction"]["path"]), ["linear"]);
    assert_eq!(keys(&report["which"]), ["blocks", "budget", "rule", "selected"]);
    let block = ["coupling", "kernel", "name", "query", "query_variance", "trace"];
    assert_eq!(keys(&report["which"]["blocks"][0]), block);
    assert!(report["prediction"]["adapted"].is_null());
}

/// Residuals, then the prediction for the query, as a command reports them of one task.
fn observed(command: &str, task: &serde_json::Value, order: &str) -> (Vec<f64>, f64) {
    let flags = [command, "-", "--json", "--loo-order", order];
    let output = run_with_input(&flags, task.to_string().as_bytes());
    assert!(output.status.success(), "{}", support::said(&output));
    let report = &support::records(&printed(&output))[0];
    let residuals = report["geometry"]["residuals"].as_array().unwrap();
    let icl = report["prediction"]["icl"].as_f64().unwrap();
    (residuals.iter().map(|r| r.as_f64().unwrap()).collect(), icl)
}

/// Tree order changes the prompts that leave an example out and not the query's.
#[test]
fn leave_one_out_prompts_are_ordered_as_asked() {
    // Single precision, and numbers of the size of 1 that are summed in another order.
    let same = |a: f64, b: f64| (a - b).abs() <= 100.0 * f64::from(f32::EPSILON);
    let six = support::task("t", 7);
    for command in ["predict", "decide"] {
        let (original, icl) = observed(command, &six, "original");
        let (tree, tree_icl) = observed(command, &six, "tree");
        assert!(same(icl, tree_icl), "{command}: {icl} and {tree_icl}");
        // The second half shows the first half first in both orders, and has three of its own.
        let moved: Vec<bool> = original.iter().zip(&tree).map(|(a, b)| !same(*a, *b)).collect();
        assert_eq!(moved, [true, true, true, false, false, false], "{command}: {tree:?}");
        // Each by itself: a task in whose original order the last prompt is the one of the tree.
        for shown in [[3, 4, 5, 1, 2, 0], [3, 4, 5, 0, 2, 1], [3, 4, 5, 0, 1, 2]] {
            let mut written = six.clone();
            written["examples"] = shown.iter().map(|&at| six["examples"][at].clone()).collect();
            let (found, _) = observed(command, &written, "original");
            assert!(same(tree[shown[5]], found[5]), "{command}, {shown:?}");
        }
    }
    let default = run_with_input(&["decide", "-", "--json"], six.to_string().as_bytes());
    let flags = ["decide", "-", "--json", "--loo-order", "original"];
    let original = run_with_input(&flags, six.to_string().as_bytes());
    assert_eq!(printed(&default), printed(&original));

    let refused = run(&["decide", "examples/digits.jsonl", "--loo-order", "half"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = support::said(&refused);
    assert!(
        said.contains("order of examples \"half\" is unknown; it must be original or tree")
    );
    // A saved update is applied to the query alone: an order would be ignored.
    let ignored =
        ["predict", "examples/digits.jsonl", "--adapter", "adapters", "--loo-order", "tree"];
    assert_eq!(run(&ignored).status.code(), Some(2));
    assert!(support::said(&run(&ignored)).contains("'--adapter <PATH>' cannot be used with"));
}

/// Two examples, for models that know few words.
const SHORT: &str = r#"{"id": "t", "template": "{x}={y}",
    "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#;

/// A task in one line, decided with a model in a GGUF file.
fn decided(flags: &[&str]) -> String {
    let model = support::root().join("fixtures/gguf/qwen2.gguf");
    let mut words = vec!["decide", "-", "--model", model.to_str().unwrap()];
    words.extend(flags);
    printed(&run_with_input(&words, SHORT.replace('\n', " ").as_bytes()))
}

#[test]
fn reports_say_whose_heads_are_counted() {
    let json: serde_json::Value = serde_json::from_str(&decided(&[
        "--policy",
        "paper",
        "--blocks",
        "value,query,mlp-up@all",
        "--json",
    ]))
    .unwrap();
    let expected = serde_json::json!({"query": "query", "value": "key-value"});
    assert_eq!(json["which"]["heads"], expected);
    let text = decided(&["--policy", "paper", "--blocks", "value@all"]);
    assert!(text.contains("(value: key-value heads)"), "{text}");
    assert!(text.contains("(layer, key-value head)"), "{text}");
    let plain = printed(&run(&["decide", "examples/digits.jsonl", "--json"]));
    assert!(!plain.contains("key-value"), "every head has its own");
}

#[test]
fn weights_give_the_same_answers_quantised_or_not() {
    let [packed, expanded] = [&["--json"][..], &["--json", "--expand"]].map(|flags| {
        let report: serde_json::Value = serde_json::from_str(&decided(flags)).unwrap();
        report["prediction"]["icl"].as_f64().unwrap()
    });
    assert!((packed - expanded).abs() < 1e-6, "{packed} and {expanded}");
}

//! `decide --full --json` says enough to make every choice again.
//!
//! Everything here is worked out from the JSON alone, with arithmetic of its own: steps are taken
//! literally, determinants and solutions come from elimination, the largest eigenvalue from
//! powers, the others from rotations. Nothing of the libraries is called.

mod arithmetic;
mod how_far;
mod prompt;
mod signal;

use crate::support::{printed, records, run, said};
use prompt::Prompt;
use serde_json::Value;
use std::collections::BTreeSet;

/// The reports of `decide` with some flags.
fn reports(tasks: &str, flags: &str) -> Vec<Value> {
    let mut arguments = vec!["decide", tasks, "--json", "--full"];
    arguments.extend(flags.split_whitespace());
    let output = run(&arguments);
    assert!(output.status.success(), "{}", said(&output));
    records(&printed(&output))
}

/// Makes all choices of some reports again and says whether each adapts.
fn check(reports: &[Value], step_scale: f64) -> Vec<bool> {
    let check = |report: &Value| {
        let prompt = Prompt::of(report);
        prompt.check_which();
        prompt.check_how_far(step_scale);
        report["when"]["adapt"].as_bool().unwrap()
    };
    reports.iter().map(check).collect()
}

/// What is changed of the paper's policy.
const CHOICES: [&str; 15] = [
    "",
    "--horizon evidence-fixed --select trace-top --budget 4",
    "--horizon leave-one-out --select query-score --budget 3",
    "--horizon gibbs --select query-aware --budget 4",
    "--horizon 8 --select trace-bottom --budget 2 --blocks value,output,mlp-down@last2",
    "--horizon bayes-gap",
    "--horizon bayes-gap --select random --budget 3 --seed 7 --horizons 0,1,2,4,8,16,64,512",
    "--horizon bayes-filter",
    "--horizon bayes-filter --select trace-bottom --budget 3",
    "--horizon gibbs --horizons 2,4,30,100",
    "--horizons 0,1,2,4,8,16,64,128 --horizon leave-one-out",
    "--horizons 0..3",
    "--horizon leave-one-out-average --horizons 0..60",
    "--horizon leave-one-out --select depth --blocks value,output@all",
    "--horizon 0",
];

/// What is done without any flag: six tenths of the largest step, in the blocks of some last layers.
#[test]
fn the_default_choice_can_be_made_again_from_the_json() {
    for (tasks, flags) in [
        ("examples/digits.jsonl", ""),
        ("examples/sentiment.jsonl", ""),
        ("fixtures/tasks.jsonl", "--model fixtures/gpt2-plain"),
        ("fixtures/tasks.jsonl", "--model fixtures/llama-plain"),
    ] {
        let reports = reports(tasks, flags);
        check(&reports, 0.6);
        for report in &reports {
            assert_eq!(report["which"]["rule"], "depth");
            assert_eq!(report["how_far"]["rule"], "leave-one-out-average");
            assert_eq!(report["policy"]["horizon"]["averaging"], "by-label");
        }
    }
}

#[test]
fn every_choice_can_be_made_again_from_the_json() {
    let adapted: Vec<bool> = CHOICES
        .iter()
        .flat_map(|flags| {
            check(&reports("examples/digits.jsonl", &format!("--policy paper {flags}")), 0.1)
        })
        .collect();
    assert!(adapted.contains(&true) && adapted.contains(&false), "{adapted:?}");
}

#[test]
fn choices_of_other_models_can_be_made_again_too() {
    for model in ["gpt2-plain", "gpt2-half"] {
        for flags in CHOICES {
            let flags = format!("--policy paper {flags} --model fixtures/{model}");
            check(&reports("fixtures/tasks.jsonl", &flags), 0.1);
        }
    }
}

/// Rules with other parameters than their own, which only a policy can state.
#[test]
fn choices_by_a_written_policy_can_be_made_again() {
    let policies = [
        r#"{"blocks": "value@last4", "selection": {"rule": "all"}, "step_scale": 0.1,
            "horizons": [0, 1, 2, 5, 11, 30, 60], "horizon": {"rule": "leave-one-out-average",
            "averaging": "trimmed", "sharpness": 1.0, "leave_alone_odds": 5.0}}"#,
        r#"{"step_scale": 0.1, "selection": {"rule": "depth", "averaging": "trimmed"},
            "horizon": {"rule": "leave-one-out", "averaging": "by-label"}}"#,
    ];
    for policy in policies {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), policy).unwrap();
        let flags = format!("--policy {}", file.path().display());
        let reports = reports("examples/digits.jsonl", &flags);
        check(&reports, 0.1);
        assert!(reports.iter().all(|report| report["policy"]["name"] == "custom"));
    }
}

#[test]
fn the_step_size_is_the_asked_fraction_of_the_largest() {
    for (flags, step_scale) in [
        (
            "--policy paper --step-scale 0.4 --select query-aware --budget 3 --horizon gibbs",
            0.4,
        ),
        ("--policy paper --step-scale 0.01 --horizon bayes-gap --horizons 0..90", 0.01),
    ] {
        check(&reports("examples/digits.jsonl", flags), step_scale);
    }
}

#[test]
fn a_random_choice_can_be_drawn_again_from_its_seed() {
    let mut seen = BTreeSet::new();
    for seed in ["0", "1", "18446744073709551615"] {
        let flags = format!("--policy paper --select random --budget 5 --seed {seed}");
        let reports = reports("examples/digits.jsonl", &flags);
        check(&reports, 0.1);
        assert!(
            reports.iter().all(|report| report["which"]["seed"].as_u64() == seed.parse().ok())
        );
        seen.extend(reports.iter().map(|report| report["which"]["selected"].to_string()));
    }
    // The seed decides, and nothing else.
    assert_eq!(seen.len(), 3, "{seen:?}");
    let unasked = &reports("examples/digits.jsonl", "--seed 3")[0]["which"];
    assert!(unasked.get("seed").is_none(), "{unasked}");
}

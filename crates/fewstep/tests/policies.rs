//! One policy at every door: the library, the command line and its flags say the same, and a policy
//! that a report prints leads to the same report when it is pasted back.
//!
//! The service is asked in `serve/policy.rs`, Python in `crates/python/tests/test_policy.py`.

use crate::support::{self, printed, records, root, run, said};
use fewstep::{Action, Options, Overrides, Policy, Predictor};
use fewstep_core::{Adjoint, Dynamics, HorizonName, ResidualsName, SelectionName};
use serde_json::Value;

const TASKS: &str = "examples/noisy.jsonl";

/// The lines that a command prints for the examples.
fn lines(command: &str, flags: &str) -> Vec<String> {
    let mut words = vec![command, TASKS, "--json"];
    words.extend(flags.split_whitespace());
    let output = run(&words);
    assert!(output.status.success(), "{flags}: {}", said(&output));
    printed(&output).lines().map(str::to_owned).collect()
}

/// The policy that every line states.
fn policy_of(lines: &[String]) -> Value {
    let reports = records(&lines.join("\n"));
    assert!(reports.iter().all(|report| report["policy"] == reports[0]["policy"]));
    reports[0]["policy"].clone()
}

/// Flags, and what they say in the library.
fn overrides() -> Vec<(&'static str, Overrides)> {
    let none = Overrides::default;
    vec![
        ("", none()),
        ("--step-scale 0.3", Overrides { step_scale: Some(0.3), ..none() }),
        ("--horizon gibbs", Overrides { horizon: Some(HorizonName::Gibbs), ..none() }),
        ("--horizon 5", Overrides { horizon: Some(HorizonName::Fixed(5)), ..none() }),
        ("--horizons 0..7", Overrides { horizons: Some("0..7".parse().unwrap()), ..none() }),
        (
            "--blocks output@last2",
            Overrides { blocks: Some("output@last2".to_owned()), ..none() },
        ),
        (
            "--select random --budget 2 --seed 7",
            Overrides {
                select: Some(SelectionName::Random),
                budget: Some(2),
                seed: Some(7),
                ..none()
            },
        ),
        ("--dynamics steps", Overrides { dynamics: Some(Dynamics::Steps), ..none() }),
        ("--coverage 0.5", Overrides { coverage: Some(0.5), ..none() }),
        other_adjoint(),
        ("--residuals prefix", Overrides { residuals: Some(ResidualsName::Prefix), ..none() }),
        (
            "--residuals prefix --orders 3",
            Overrides { residuals: Some(ResidualsName::Prefix), orders: Some(3), ..none() },
        ),
        ("--shots 3 --seed 7", Overrides { shots: Some(3), seed: Some(7), ..none() }),
    ]
}

/// The adjoint that is not the default policy's.
fn other_adjoint() -> (&'static str, Overrides) {
    let (flags, adjoint) = match Policy::default().adjoint {
        Adjoint::Whole => ("--adjoint local", Adjoint::Local),
        Adjoint::Local => ("--adjoint whole", Adjoint::Whole),
    };
    (flags, Overrides { adjoint: Some(adjoint), ..Overrides::default() })
}

/// The command line and the library have the same policy and print the same reports.
#[test]
fn the_command_line_and_the_library_share_every_policy() {
    let text = std::fs::read_to_string(root().join(TASKS)).unwrap();
    for base in ["default", "paper"] {
        for (flags, overrides) in overrides() {
            let policy = Policy::named(base).unwrap();
            let options = Options { policy, overrides, ..Options::default() };
            for (command, action) in [("predict", Action::Act), ("decide", Action::Decide)] {
                let predictor = options.predictor(fewstep::builtin().unwrap(), action).unwrap();
                let expected: Vec<String> = text
                    .lines()
                    .map(|line| {
                        let task = fewstep::tasks::parse(line.as_bytes()).unwrap();
                        predictor.answer(&task).unwrap().report.to_json(false)
                    })
                    .collect();
                let found = lines(command, &format!("--policy {base} {flags}"));
                assert_eq!(found, expected, "{command} --policy {base} {flags}");
                let stated: Value =
                    serde_json::from_str(&predictor.policy().to_json()).unwrap();
                assert_eq!(policy_of(&found), stated);
            }
        }
    }
}

/// An override shows up in the report's policy, and nothing beside it changes there.
#[test]
fn a_flag_changes_only_what_it_names() {
    let default = policy_of(&lines("decide", ""));
    for (flags, _) in overrides() {
        let found = policy_of(&lines("decide", flags));
        let fields = default.as_object().unwrap().keys();
        let changed: Vec<&String> = fields
            .filter(|field| *field != "name" && found[*field] != default[*field])
            .collect();
        let expected = match flags.split_whitespace().next() {
            None => vec![],
            // A seed is that of every draw.
            Some("--select") => vec!["selection", "shots"],
            Some(flag) => vec![flag],
        };
        let expected: Vec<String> = expected
            .iter()
            .map(|flag| flag.trim_start_matches("--").replace('-', "_"))
            .collect();
        assert_eq!(changed, expected.iter().collect::<Vec<_>>(), "{flags}");
    }
    // The values in force change nothing at all.
    let Policy { adjoint, residuals, .. } = Policy::default();
    let same = format!(
        "--step-scale 0.6 --horizon leave-one-out-average --select depth \
         --horizons 0,1,2,4,8,16,32,64 --dynamics linear --blocks mlp-up@upper-half \
         --coverage 0.8 --adjoint {adjoint} --residuals {} --seed 0",
        residuals.name()
    );
    assert_eq!(lines("predict", &same), lines("predict", ""));
    assert_eq!(lines("predict", "--policy default"), lines("predict", ""));
}

/// What a report prints is read back as the same policy, and leads to the same report to the byte.
#[test]
fn every_printed_policy_can_be_pasted_back() {
    for base in ["default", "paper"] {
        for (flags, _) in overrides() {
            let first = lines("predict", &format!("--policy {base} {flags}"));
            let policy = policy_of(&first);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), policy.to_string()).unwrap();
            // Flags beside it that are no part of a policy are not given again.
            let again = lines("predict", &format!("--policy {}", file.path().display()));
            assert_eq!(again, first, "--policy {base} {flags}");
        }
    }
}

/// A policy of somebody's own may have a name, and leave out what is the default's.
#[test]
fn a_policy_of_ones_own_has_its_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"name": "mine", "step_scale": 0.3}"#).unwrap();
    let found = policy_of(&lines("decide", &format!("--policy {}", file.path().display())));
    assert_eq!((&found["name"], &found["step_scale"]), (&"mine".into(), &0.3.into()));
    assert_eq!(found["blocks"], Policy::default().blocks);
    // A file with what is no policy is refused with the place.
    std::fs::write(file.path(), r#"{"stepscale": 0.3}"#).unwrap();
    let path = file.path().to_str().unwrap();
    let refused = run(&["decide", TASKS, "--policy", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("unknown field `stepscale`"), "{}", said(&refused));
}

/// A predictor can be made of everything that `Policy` says.
#[test]
fn policies_are_plain_values() {
    let model = fewstep::builtin().unwrap();
    for policy in [Policy::default(), Policy::paper()] {
        let predictor = Predictor::new(model.clone(), policy.clone(), Action::Act).unwrap();
        assert_eq!(*predictor.policy(), policy);
        assert_eq!(Policy::from_json(&policy.to_json()), Ok(policy));
    }
}

/// Every way of looking at a task gives an answer of its own, and what has no local form is refused by
/// the flags that ask for it.
#[test]
fn ways_of_looking_at_a_task_change_the_answer() {
    let mut seen = Vec::new();
    let ways = [
        "--adjoint whole",
        "--adjoint local",
        "--residuals prefix",
        "--residuals prefix --orders 1",
    ];
    for flags in ways.into_iter().chain(["--shots 4", "--shots 4 --seed 1"]) {
        let reports = records(&lines("predict", flags).join("\n"));
        let adapted: Vec<Value> =
            reports.iter().map(|report| report["prediction"]["adapted"].clone()).collect();
        assert!(!seen.contains(&adapted), "{flags}");
        seen.push(adapted);
    }
    let refused =
        run(&["predict", TASKS, "--adjoint", "local", "--blocks", "mlp-up,key@last2"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = printed(&refused) + &support::said(&refused);
    assert!(said.contains("key.4.0") && said.contains("whole adjoints"), "{said}");
    let refused = run(&["predict", TASKS, "--shots", "99"]);
    let said = printed(&refused) + &support::said(&refused);
    assert!(said.contains("99 shots were requested") && said.contains("choose 1 to"), "{said}");
}

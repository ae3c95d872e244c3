//! Lines that fuzzing came upon and that are worth keeping: each is answered, or refused for its
//! own reason.

use crate::support::file_of;
use fewstep::tasks::{Tasks, parse};
use fewstep::{Action, Error, Policy, Predictor};
use fewstep_core::{HorizonName, HorizonRule, Selection};
use fewstep_engine::Error as Engine;
use serde_json::{Value, json};

fn task() -> Value {
    json!({
        "id": "a", "template": "{x}={y};", "separator": "",
        "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
        "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}, {"x": "c", "y": "1"}],
        "query": {"x": "d", "y": "1"},
    })
}

/// The task with some values replaced.
fn with(changes: &[(&str, Value)]) -> Vec<u8> {
    let mut task = task();
    for (place, value) in changes {
        *task.pointer_mut(place).unwrap() = value.clone();
    }
    task.to_string().into_bytes()
}

const RULES: [HorizonName; 8] = [
    HorizonName::Evidence,
    HorizonName::EvidenceFixed,
    HorizonName::Gibbs,
    HorizonName::BayesGap,
    HorizonName::LeaveOneOut,
    HorizonName::LeaveOneOutAverage,
    HorizonName::BayesFilter,
    HorizonName::Fixed(3),
];

/// Answers a line under every rule; predictions must be numbers and the report JSON.
fn answer(line: &[u8]) -> Result<(), Error> {
    let task = parse(line)?;
    let selections = [Selection::All, Selection::QueryAware { budget: 2, lookahead: 8 }];
    for (&rule, &selection) in RULES.iter().zip(selections.iter().cycle()) {
        let (horizon, horizons) = (HorizonRule::of_name(rule), vec![0, 1, 2, 5]);
        let policy = Policy { horizon, horizons, selection, ..Policy::paper() };
        let predictor = Predictor::new(fewstep::builtin()?, policy, Action::Act)?;
        let report = predictor.with_matrices(true).answer(&task)?.report;
        assert!(report.prediction.icl.is_finite() && report.prediction.adapted.is_some());
        let read: Value = serde_json::from_str(&report.to_json(true)).unwrap();
        assert_eq!(read["id"], task.id.as_str());
    }
    Ok(())
}

/// A parser that rounds carelessly reads the last digit as 5.
#[test]
fn numbers_are_read_to_the_last_bit() {
    for text in ["1.6666666666666666", "8.941e-8", "0.1", "-123456789.12345679", "5e-324"] {
        let line =
            String::from_utf8(with(&[])).unwrap().replacen(":1.0", &format!(":{text}"), 1);
        let task = parse(line.as_bytes()).unwrap();
        let value = task.labels[1].value.unwrap();
        assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
        // Written and read again it is the same.
        let written = serde_json::to_vec(&task).unwrap();
        assert_eq!(parse(&written), Ok(task));
    }
}

/// A byte-order mark is no part of a task; where it stands alone there is none.
#[test]
fn a_mark_on_a_line_of_its_own_is_a_blank_line() {
    let (_keep, name) = file_of(&[&b"\xef\xbb\xbf \r\n"[..], &with(&[])].concat());
    let lines: Vec<_> = Tasks::open(vec![name.clone().into()]).unwrap().collect();
    assert_eq!((lines.len(), lines[0].number), (1, 2));
    assert!(lines[0].task.is_ok());

    let (_keep, name) = file_of(b"\xef\xbb\xbf");
    let lines: Vec<_> = Tasks::open(vec![name.clone().into()]).unwrap().collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].task, Err(Error::NoTasks { file: name.into() }));
    // Anywhere else it is a character that begins no task.
    let (_keep, name) = file_of(&[&b"\n\xef\xbb\xbf"[..], &with(&[])].concat());
    let mut lines = Tasks::open(vec![name.into()]).unwrap();
    assert!(matches!(lines.next().unwrap().task, Err(Error::Json { column: 1, .. })));
}

#[test]
fn values_too_large_for_single_precision_are_refused_by_name() {
    for value in [-1e300, 3e38, f64::MAX, 1e20] {
        let refused = answer(&with(&[("/labels/1/value", json!(value))])).unwrap_err();
        let Error::Engine(Engine::LabelValue { label, value: found, limit, .. }) = refused
        else {
            panic!("{refused}");
        };
        assert_eq!((label.as_str(), found, limit), ("1", value, 1e12));
    }
}

#[test]
fn odd_tasks_are_answered() {
    for changes in [
        // The largest values, one so small that its square vanishes, and values all alike.
        &[("/labels/0/value", json!(-1e12)), ("/labels/1/value", json!(1e12))][..],
        &[("/labels/1/value", json!(1e-30))],
        &[("/labels/0/value", json!(0.5)), ("/labels/1/value", json!(0.5))],
        // The same example twice, and the query among the examples.
        &[("/examples/1", json!({"x": "a", "y": "1"})), ("/query/x", json!("a"))],
        // The same input with two answers.
        &[("/examples/1/x", json!("a"))],
        // Placeholders, control characters and marks in the data.
        &[("/examples/0/x", json!("{y}")), ("/examples/1/x", json!("{x}"))],
        &[("/separator", json!("\u{0}")), ("/query/x", json!("\u{feff}"))],
        &[("/template", json!("\u{1f600}{x}\u{2028}{y}\r\n"))],
        &[("/id", json!(""))],
        // Two bytes each, of which the first is part of the prompt.
        &[
            ("/labels/0/text", json!("é")),
            ("/labels/1/text", json!("è")),
            ("/examples", json!([{"x": "a", "y": "é"}, {"x": "b", "y": "è"}])),
            ("/query", json!({"x": "c"})),
        ],
    ] {
        let line = with(changes);
        answer(&line).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
    }
}

#[test]
fn odd_lines_are_refused_where_they_are_odd() {
    let line = |from: &str, to: &str| {
        let line = String::from_utf8(with(&[])).unwrap();
        assert!(line.contains(from));
        line.replacen(from, to, 1).into_bytes()
    };
    for (line, expected) in [
        (line("\"id\":\"a\"", "\"id\":\"a\",\"id\":\"a\""), "duplicate field `id`"),
        (line("\"id\":\"a\"", "\"id\":\"\\ud83d\""), "hex escape"),
        (line("\"id\":\"a\"", "\"id\":null"), "expected a string"),
        (line(":1.0", ":1e309"), "number out of range"),
        (line(":1.0", ":01"), "invalid number"),
        (line("{x}={y};", "{x}=\u{1}{y};"), "control character"),
        (line("}]", "}],"), "key must be a string"),
    ] {
        let Err(Error::Json { column, problem, .. }) = parse(&line) else {
            panic!("{expected}")
        };
        assert!(problem.contains(expected), "{problem} is not {expected}");
        assert!((1..=line.len() + 1).contains(&column));
    }
    for (changes, variant) in [
        (("/labels/1/text", json!("0")), "DuplicateLabel"),
        (("/labels/1/text", json!("01")), "UnknownLabel"),
        (("/examples", json!([])), "TooFewExamples"),
        (("/template", json!("{x}{x}{y}")), "Placeholder"),
        (("/query/x", json!("\u{a0}\u{2003}")), "EmptyInput"),
    ] {
        let refused = answer(&with(&[changes])).unwrap_err();
        assert!(
            format!("{refused:?}").starts_with(&format!("Engine({variant} ")),
            "{refused:?}"
        );
    }
}

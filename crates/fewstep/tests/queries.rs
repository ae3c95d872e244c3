//! Many queries on the same examples: each is answered as if it were the only one.

use crate::serve::client::{Service, one, with};
use crate::support::{file_of, printed, records, run, run_with_input, said, task};
use serde_json::{Value, json};
use std::fs;

const ASKED: [&str; 5] = ["4", "6", "1", "4", "7"];

/// A task with a list of queries, of which the last has no known answer.
fn listed(id: &str, asked: &[&str]) -> Value {
    let mut task = task(id, 7);
    task.as_object_mut().unwrap().remove("query");
    let query =
        |x: &&str| json!({"x": x, "y": ((x.parse::<usize>().unwrap() + 7) % 10).to_string()});
    let mut queries: Vec<Value> = asked.iter().map(query).collect();
    queries.last_mut().unwrap().as_object_mut().unwrap().remove("y");
    task["queries"] = json!(queries);
    task
}

/// The same with one query.
fn alone(id: &str, query: &Value) -> Value {
    let mut task = task(id, 7);
    task["query"] = query.clone();
    task
}

/// All numbers of two values are close, and everything else is the same.
fn assert_close(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 2e-4 * (1.0 + b.abs()), "{place}: {a} and {b}");
        }
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{place}");
            for (key, value) in a {
                assert_close(value, &b[key], &format!("{place}.{key}"));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{place}");
            for (index, pair) in a.iter().zip(b).enumerate() {
                assert_close(pair.0, pair.1, &format!("{place}[{index}]"));
            }
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

/// What a report says of its query, without what it cost and the sentences, in which numbers are rounded.
fn said_of(report: &Value) -> Value {
    let mut report = report.clone();
    for field in ["query", "passes", "lines"] {
        report.as_object_mut().unwrap().remove(field);
    }
    report
}

#[test]
fn every_query_of_a_list_is_answered_as_if_it_were_the_only_one() {
    let many = listed("t", &ASKED);
    for flags in [
        &["predict"][..],
        &["predict", "--adjoint", "local"],
        &["predict", "--adjoint", "local", "--dynamics", "steps"],
        &["predict", "--policy", "paper"],
        &["predict", "--select", "query-aware", "--budget", "1", "--dynamics", "steps"],
        &["decide", "--adjoint", "local", "--residuals", "prefix"],
        &["predict", "--shots", "3", "--adjoint", "local"],
    ] {
        let all = |input: Value| {
            let flags = [flags, &["-", "--json"]].concat();
            let output = run_with_input(&flags, input.to_string().as_bytes());
            assert!(output.status.success(), "{flags:?}: {}", said(&output));
            records(&printed(&output))
        };
        let found = all(many.clone());
        assert_eq!(found.len(), ASKED.len(), "{flags:?}");
        for (index, report) in found.iter().enumerate() {
            assert_eq!((&report["id"], &report["query"]), (&json!("t"), &json!(index)));
            let expected = all(alone("t", &many["queries"][index])).remove(0);
            assert_eq!(expected.get("query"), None);
            assert_close(&said_of(report), &said_of(&expected), &format!("{flags:?} {index}"));
        }
        // The examples went forward once, for the first; the others cost themselves.
        if flags.contains(&"local") && !flags.contains(&"steps") {
            let forward = |report: &Value| report["passes"]["forward"].as_u64().unwrap();
            assert_eq!(forward(&found[0]), 7, "{flags:?}");
            assert_eq!(forward(&found[1]), 4, "{flags:?}");
        }
    }
}

#[test]
fn what_is_wrong_with_one_query_stands_in_its_place() {
    let mut many = listed("t", &ASKED);
    many["queries"][0]["x"] = json!(" ");
    many["queries"][2]["y"] = json!("eleven");
    many["queries"][3]["x"] = json!("5".repeat(400));
    let input = format!("{many}\n{}\n", listed("u", &["1"]));
    let output = run_with_input(&["predict", "-", "--json"], input.as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let found = records(&printed(&output));
    let errors: Vec<bool> = found.iter().map(|record| record["error"].is_string()).collect();
    assert_eq!(errors, [true, false, true, true, false, false]);
    for (index, record) in found.iter().take(5).enumerate() {
        assert_eq!((&record["id"], &record["query"]), (&json!("t"), &json!(index)), "{record}");
    }
    assert!(found[3]["error"].as_str().unwrap().contains("the query"), "{}", found[3]);

    for (queries, problem) in [
        (json!({"queries": []}), "`queries` is empty"),
        (json!({"queries": [{"x": "1"}], "query": {"x": "1"}}), "found both"),
        (json!({}), "missing field `query`"),
    ] {
        let mut task = task("t", 7);
        task.as_object_mut().unwrap().remove("query");
        task.as_object_mut().unwrap().extend(queries.as_object().unwrap().clone());
        let output = run_with_input(&["predict", "-", "--json"], task.to_string().as_bytes());
        let found = records(&printed(&output)).remove(0);
        assert!(found["error"].as_str().unwrap().contains(problem), "{found}");
    }
}

/// A run that ended between two queries of a task goes on with the next one.
#[test]
fn a_list_is_resumed_where_it_ended() {
    let input = format!("{}\n{}\n", listed("t", &ASKED), listed("u", &["1", "2"]));
    let (directory, name) = file_of(input.as_bytes());
    let (whole, out) = (directory.path().join("whole"), directory.path().join("out"));
    let flags = |out: &std::path::Path| {
        let out = out.to_str().unwrap().to_owned();
        ["predict".to_owned(), name.clone(), "--resume".to_owned(), "--out".to_owned(), out]
    };
    let go = |out: &std::path::Path| {
        let flags = flags(out);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let output = run(&flags);
        assert!(output.status.success(), "{}", said(&output));
        printed(&output)
    };
    go(&whole);
    let text = fs::read_to_string(&whole).unwrap();
    assert_eq!(text.lines().count(), 7);
    for lines in 0..=7 {
        let begun: String = text.split_inclusive('\n').take(lines).collect();
        fs::write(&out, begun).unwrap();
        let said = go(&out);
        assert!(lines == 0 || said.contains(&format!("{lines} answered before")), "{said}");
        assert_eq!(fs::read_to_string(&out).unwrap(), text, "{lines}");
    }
}

/// Over HTTP a task with a list has a line for each query, and the examples are observed once.
#[test]
fn the_service_answers_a_list_line_by_line() {
    let service = Service::start(&[]);
    let many = listed("t", &ASKED);
    let options = json!({"adjoint": "local"});
    let input = many.to_string();
    let expected =
        run_with_input(&["predict", "-", "--json", "--adjoint", "local"], input.as_bytes());
    let expected = records(&printed(&expected));
    let found = service.post("/v1/predict", &with(&many, &options));
    let found = records(&found.text());
    assert_eq!(found.len(), ASKED.len());
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found["report"]["query"], json!(index));
        assert_eq!(found["adapter"]["hit"], json!(index > 0));
        let place = format!("query {index}");
        assert_close(&said_of(&found["report"]), &said_of(expected), &place);
    }
    let document = service.get("/openapi.json").json();
    let report = &document["components"]["schemas"]["Report"]["properties"];
    assert!(report["query"].is_object() && found[1]["report"]["query"].is_u64());
    // The same request has the same fields, whatever was asked before.
    let again = service.post("/v1/predict", &one(&alone("t", &many["queries"][2])));
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let first = Service::start(&[]).post("/v1/predict", &one(&alone("t", &many["queries"][2])));
    assert_eq!(fields(&again.report().1["report"]), fields(&first.report().1["report"]));
}

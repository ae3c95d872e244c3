//! Tasks of classes over HTTP.

use super::{class, classes, reports};
use crate::serve::client::{Service, one, with};
use crate::support::records;
use serde_json::{Value, json};

fn without_passes(report: &Value) -> Value {
    let mut report = report.clone();
    report.as_object_mut().unwrap().remove("passes");
    report
}

#[test]
fn the_service_answers_what_the_command_line_prints() {
    let service = Service::start(&[]);
    let task = class("t", 7, 4);
    for options in [json!({}), json!({"full": true}), json!({"confidence": 0.5})] {
        let mut flags = vec!["predict"];
        flags.extend(options.get("full").map(|_| "--full"));
        flags.extend(
            options.get("confidence").into_iter().flat_map(|_| ["--confidence", "0.5"]),
        );
        let expected = reports(&flags, std::slice::from_ref(&task)).remove(0);
        for route in ["/v1/predict", "/v1/decide"] {
            let (_, answer) = service.post(route, &with(&task, &options)).report();
            assert_eq!(answer["report"], expected, "{route} {options}");
        }
    }
}

/// What was observed of the examples serves further queries, and is bounded like everything that is
/// kept.
#[test]
fn examples_are_observed_once() {
    let service = Service::start(&[]);
    let ask = |task: Value| service.post("/v1/predict", &one(&task));
    let first = ask(class("a", 7, 4));
    assert!(!first.hit());
    let again = ask(class("b", 7, 4));
    assert!(again.hit());
    let (mut expected, found) = (first.report().1["report"].clone(), again.report().1);
    expected["id"] = json!("b");
    assert_eq!(found["report"], expected);
    let further = ask(class("c", 7, 6));
    assert!(further.hit());
    let (further, alone) = (further.report().1, reports(&["predict"], &[class("c", 7, 6)]));
    let label = |report: &Value| report["prediction"]["label"].clone();
    assert_eq!(label(&further["report"]), label(&alone[0]));
    let passes = |report: &Value| report["passes"]["forward"].as_u64().unwrap();
    assert!(passes(&further["report"]) < passes(&alone[0]));
    assert_eq!(service.metric("fewstep_adapters"), 1);
    assert!(service.metric("fewstep_adapter_bytes") > 1000);
    // The same words with values ask for something else.
    assert!(!ask(crate::support::task("d", 7)).hit());

    let small = Service::start(&["--cache-bytes", "1000"]);
    for _ in 0..2 {
        assert!(!small.post("/v1/predict", &one(&class("a", 7, 4))).hit());
    }
    assert_eq!(small.metric("fewstep_adapters"), 0);
}

#[test]
fn a_list_of_queries_has_a_line_each() {
    let service = Service::start(&[]);
    let many = classes("t", 7, &[4, 6, 1]);
    let expected = reports(&["predict"], std::slice::from_ref(&many));
    let found = records(&service.post("/v1/predict", &one(&many)).text());
    assert_eq!(found.len(), 3);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found["adapter"]["hit"], json!(index > 0));
        let (found, expected) = (without_passes(&found["report"]), without_passes(expected));
        assert_eq!(found["query"], json!(index));
        assert_eq!(found["prediction"]["label"], expected["prediction"]["label"]);
        assert_eq!(found["geometry"], expected["geometry"]);
    }
}

#[test]
fn what_is_wrong_is_named_by_its_field() {
    let service = Service::start(&[]);
    let with_labels = |labels: Value| {
        let mut task = class("t", 3, 4);
        task["labels"] = labels;
        one(&task)
    };
    let valued = json!({"text": "0", "value": 0.5});
    for (body, field) in [
        (with_labels(json!(["6"])), "task.labels"),
        (with_labels(json!(["6", ""])), "task.labels[1].text"),
        (with_labels(json!(["6", "0", "6"])), "task.labels[2].text"),
        (with_labels(json!([valued, "6"])), "task.labels[1].value"),
        (with_labels(json!(["6", "5"])), "task.examples[1].y"),
        (with(&class("t", 3, 4), &json!({"dynamics": "steps"})), "dynamics"),
        (with(&class("t", 3, 4), &json!({"select": "all"})), "select"),
        (with(&class("t", 3, 4), &json!({"confidence": 1})), "confidence"),
    ] {
        let answer = service.post("/v1/predict", &body);
        assert_eq!(answer.problem(), (422, Some(field.to_owned())), "{body}");
    }
    let arms =
        json!({"policy": {"classes": {"arms": [{"base": "few-shot", "blocks": "mlp"}]}}});
    let answer = service.post("/v1/predict", &with(&class("t", 3, 4), &arms));
    assert_eq!(answer.problem(), (422, Some("policy.classes.arms".to_owned())));
    let body = with(&class("t", 3, 4), &json!({"policy": {"classes": {"sharpness": 0}}}));
    assert_eq!(service.post("/v1/predict", &body).status(), 422);
}

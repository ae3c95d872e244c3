//! What is wrong with a request is said, with the field at fault.

use crate::serve::client::{Client, Service, one, with};
use crate::support::task;
use serde_json::{Value, json};

#[test]
fn every_field_that_cannot_be_taken_is_named() {
    let service = Service::start(&[]);
    let refused = |options: Value, status: u16, field: &str| {
        let answer = service.post("/v1/predict", &with(&task("a", 1), &options));
        assert_eq!(answer.problem(), (status, Some(field.to_owned())), "{options}");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(!detail.contains("--"), "flags have no place here: {detail}");
    };
    refused(json!({"model": "none"}), 422, "model");
    refused(json!({"model": 3}), 422, "model");
    refused(json!({"blocks": "value"}), 422, "blocks");
    refused(json!({"blocks": "value@last0"}), 422, "blocks");
    refused(json!({"blocks": "value@0..99"}), 422, "blocks");
    refused(json!({"blocks": "mlp-gate@all"}), 422, "blocks");
    refused(json!({"select": "best"}), 422, "select");
    refused(json!({"select": "trace-top"}), 422, "budget");
    refused(json!({"budget": 3}), 422, "budget");
    refused(json!({"budget": -1}), 422, "budget");
    refused(json!({"budget": 1.5}), 422, "budget");
    refused(json!({"budget": 49, "select": "trace-top"}), 422, "budget");
    refused(json!({"horizon": "soon"}), 422, "horizon");
    refused(json!({"horizon": -1}), 422, "horizon");
    refused(json!({"horizon": 101}), 413, "horizon");
    refused(json!({"horizon": true}), 422, "horizon");
    refused(json!({"horizons": "3..1"}), 422, "horizons");
    refused(json!({"horizons": [3, 1]}), 422, "horizons");
    refused(json!({"horizons": []}), 422, "horizons");
    refused(json!({"horizons": "0..101"}), 413, "horizons");
    refused(json!({"horizons": [0, 101]}), 413, "horizons");
    refused(json!({"step_scale": 1.0}), 422, "step_scale");
    refused(json!({"step_scale": "0.1"}), 422, "step_scale");
    refused(json!({"seed": -1}), 422, "seed");
    refused(json!({"lora_rank": 3}), 422, "lora_rank");
    refused(json!({"lora_first": "inputs"}), 422, "lora_first");
    refused(json!({"lora_first": "outputs"}), 422, "lora_first");
    refused(json!({"lora_rank": 9999, "blocks": "lora-value@all"}), 422, "lora_rank");
    refused(json!({"bos": "maybe"}), 422, "bos");
    refused(json!({"bos": "always"}), 422, "bos");
    refused(json!({"max_tokens_per_example": 0}), 422, "max_tokens_per_example");
    refused(json!({"loo_order": "half"}), 422, "loo_order");
    refused(json!({"full": 1}), 422, "full");
    refused(json!({"full": null}), 422, "full");
    refused(json!({"dynamics": "none"}), 422, "dynamics");
    refused(json!({"coverage": 1}), 422, "coverage");
    refused(json!({"adjoint": "none"}), 422, "adjoint");
    refused(json!({"adjoint": null}), 422, "adjoint");
    refused(json!({"residuals": "suffix"}), 422, "residuals");
    refused(json!({"residuals": {"rule": "prefix"}}), 422, "residuals");
    refused(json!({"orders": 3}), 422, "orders");
    refused(json!({"orders": 0}), 422, "orders");
    refused(json!({"shots": 0}), 422, "shots");
    refused(json!({"shots": null}), 422, "shots");
    refused(json!({"select": "leave-one-out"}), 422, "select");
    refused(json!({"reuse": "no"}), 422, "reuse");
    refused(json!({"verbose": true}), 422, "verbose");

    // What carries nothing out keeps no update.
    let body = with(&task("a", 1), &json!({"reuse": true}));
    let answer = service.post("/v1/decide", &body);
    assert_eq!(answer.problem(), (422, Some("reuse".to_owned())));
}

#[test]
fn every_part_of_a_task_that_cannot_be_taken_is_named() {
    let service = Service::start(&[]);
    let refused = |change: &dyn Fn(&mut Value), field: &str| {
        let mut task = task("a", 1);
        change(&mut task);
        let answer = service.post("/v1/predict", &one(&task));
        assert_eq!(answer.problem(), (422, Some(field.to_owned())), "{task}");
    };
    refused(&|task| *task = json!([]), "task");
    refused(&|task| task["id"] = json!(3), "task.id");
    refused(&|task| task["template"] = json!("{x}"), "task.template");
    refused(&|task| task["template"] = json!("{y}{x}"), "task.template");
    refused(&|task| task["more"] = json!(1), "task.more");
    refused(&|task| drop(task.as_object_mut().unwrap().remove("query")), "task.query");
    refused(&|task| task["examples"] = json!([]), "task.examples");
    refused(&|task| task["examples"][3]["y"] = json!("x"), "task.examples[3].y");
    refused(&|task| task["examples"][3]["y"] = json!(1), "task.examples[3].y");
    refused(&|task| task["examples"][5]["x"] = json!(" "), "task.examples[5].x");
    refused(&|task| task["examples"][5]["z"] = json!(" "), "task.examples[5].z");
    refused(&|task| task["labels"] = json!([]), "task.labels");
    refused(&|task| task["labels"][4]["text"] = json!(""), "task.labels[4].text");
    refused(&|task| task["labels"][4]["text"] = json!("5"), "task.labels[5].text");
    refused(&|task| task["labels"][4]["text"] = json!("44"), "task.examples[0].y");
    refused(&|task| task["labels"][4]["value"] = json!(1e13), "task.labels[4].value");
    refused(&|task| task["labels"][4]["value"] = json!("x"), "task.labels[4].value");
    refused(&|task| task["query"]["y"] = json!("x"), "task.query.y");
    refused(&|task| task["query"]["x"] = json!(""), "task.query.x");
    refused(
        &|task| {
            task["labels"].as_array_mut().unwrap().push(json!({"text": "44", "value": 0.5}));
        },
        "task.labels[10].text",
    );
}

fn send(service: &Service, kind: &str, body: &[u8]) -> (u16, Option<String>) {
    let mut client = service.connect();
    client.ask("POST", "/v1/predict", &[("Content-Type", kind)], body).problem()
}

#[test]
fn what_is_no_request_is_refused() {
    let service = Service::start(&[]);
    let json_type = "application/json";
    for body in [&b""[..], b"{", b"\xff", b"{\"task\": }", b"{\"task\":1}{}", b"\"\\ud800\""] {
        let (status, field) = send(&service, json_type, body);
        assert_eq!((status, field), (400, None), "{body:?}");
    }
    for body in [&b"[]"[..], b"null", b"3"] {
        assert_eq!(send(&service, json_type, body), (422, None), "{body:?}");
    }
    assert_eq!(send(&service, json_type, b"{}"), (422, Some("task".to_owned())));
    let twice = format!("{{\"task\":{0},\"task\":{0}}}", task("a", 1));
    let twice = send(&service, json_type, twice.as_bytes());
    assert_eq!(twice, (422, Some("task".to_owned())));
    let good = one(&task("a", 1)).to_string();
    for kind in ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded"] {
        assert_eq!(send(&service, kind, good.as_bytes()), (415, None), "{kind}");
    }
    let mut client = service.connect();
    let kind = [("Content-Type", "Application/JSON; charset=utf-8")];
    assert_eq!(client.ask("POST", "/v1/predict", &kind, good.as_bytes()).status(), 200);
}

#[test]
fn deeply_nested_json_is_refused_and_nothing_else_happens() {
    let service = Service::start(&[]);
    let depth = 400_000;
    let nested = [&b"[".repeat(depth)[..], &b"]".repeat(depth)].concat();
    let inside = [b"{\"task\":", &nested[..], b"}"].concat();
    let field = |name: &str| Some(name.to_owned());
    assert_eq!(send(&service, "application/json", &inside), (422, field("task")));
    let objects = [&b"{\"a\":".repeat(100_000)[..], b"1", &b"}".repeat(100_000)].concat();
    assert_eq!(send(&service, "application/json", &objects), (422, field("a")));
    let list = [b"{\"tasks\":[", &nested[..], b"]}"].concat();
    let kind = [("Content-Type", "application/json")];
    let answer = service.connect().ask("POST", "/v1/predict", &kind, &list);
    assert_eq!(answer.status(), 200);
    assert!(answer.text().starts_with("{\"id\":null,\"line\":1,\"error\":"));
    assert_eq!(send(&service, "application/json", &nested), (422, None));
    assert_eq!(service.get("/healthz").status(), 200);
}

#[test]
fn bodies_may_come_in_pieces() {
    let service = Service::start(&[]);
    let body = one(&task("a", 1)).to_string();
    let mut client = Client::connect(&service.address);
    let head = "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    client.send(head.as_bytes());
    for piece in body.as_bytes().chunks(100) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.answer().unwrap().status(), 200);
}

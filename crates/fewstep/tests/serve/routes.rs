//! Every route, and what every answer says to browsers.

use crate::serve::client::{Service, one};
use crate::support::task;
use serde_json::json;

#[test]
fn every_route_answers() {
    let service = Service::start(&[]);
    for (path, kind, part) in [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/page.js", "text/javascript; charset=utf-8", ""),
        ("/page.css", "text/css; charset=utf-8", ""),
        ("/page/report.js", "text/javascript; charset=utf-8", "import"),
        ("/page/icon.svg", "image/svg+xml", "<svg"),
        ("/healthz", "text/plain; charset=utf-8", "alive"),
        ("/readyz", "text/plain; charset=utf-8", "ready"),
        (
            "/metrics",
            "text/plain; version=0.0.4; charset=utf-8",
            "# HELP fewstep_requests_total",
        ),
        ("/openapi.json", "application/json", "\"openapi\":\"3.1.0\""),
        ("/v1/models", "application/json", "\"name\":\"builtin\""),
    ] {
        let answer = service.get(path);
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert!(answer.text().contains(part), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
        let posted = service.post(path, &json!({}));
        assert_eq!(posted.problem(), (405, None), "{path}");
        assert_eq!(posted.header("allow"), Some("GET,HEAD"), "{path}");
    }
    for path in ["/v1/predict", "/v1/decide"] {
        assert_eq!(service.post(path, &one(&task("a", 1))).status(), 200, "{path}");
        let asked = service.get(path);
        assert_eq!((asked.problem(), asked.header("allow")), ((405, None), Some("POST")));
    }
    for path in [
        "/v1",
        "/v2/predict",
        "/index.html",
        "/page/none.js",
        "/page/%ff",
        "/v1/adapters/",
        "/..",
        "/%00",
    ] {
        assert_eq!(service.get(path).problem(), (404, None), "{path}");
    }
}

#[test]
fn models_are_named_and_described() {
    let file = crate::support::root().join("fixtures/gguf/qwen2.gguf");
    let name = file.to_str().unwrap();
    let service = Service::start(&["--model", "builtin", "--model", name]);
    let models = service.get("/v1/models").json();
    let models = models["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    assert_eq!((&models[0]["name"], &models[1]["name"]), (&json!("builtin"), &json!(name)));
    assert_eq!((&models[0]["default"], &models[1]["default"]), (&json!(true), &json!(false)));
    let keys: Vec<&String> = models[1].as_object().unwrap().keys().collect();
    let expected = [
        "default",
        "heads",
        "key_value_heads",
        "layers",
        "name",
        "positions",
        "vocabulary",
        "width",
    ];
    assert_eq!(keys, expected);
    assert_eq!(models[0]["vocabulary"], 256);
    // The same task is another one to another model.
    let short = json!({"id": "t", "template": "{x}={y}",
        "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
        "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}});
    let ask = |model: &str| {
        let answer = service.post("/v1/predict", &json!({"task": short, "model": model}));
        (answer.hit(), answer.report().1["report"]["prediction"]["icl"].clone())
    };
    let (first, second) = (ask("builtin"), ask(name));
    assert!(!first.0 && !second.0 && first.1 != second.1);
    assert_eq!(ask("builtin"), (true, first.1));
}

#[test]
fn a_connection_serves_many_requests() {
    let service = Service::start(&[]);
    let mut client = service.connect();
    for shift in 0..5 {
        assert_eq!(client.post("/v1/predict", &one(&task("a", shift))).status(), 200);
        assert_eq!(client.ask("GET", "/healthz", &[], b"").text(), "alive\n");
    }
    assert_eq!(service.metric("fewstep_connections_total"), 2);
}

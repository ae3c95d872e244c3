//! What is counted and written down, and that nothing of a request is in it.

use crate::serve::client::{Service, one, query};
use crate::support::task;
use serde_json::json;

/// Words that are in requests and nowhere else.
const SECRETS: [&str; 8] = [
    "SECRETID",
    "SECRETX",
    "SECRETQUERY",
    "SECRETLABEL",
    "SECRETTEMPLATE",
    "SECRETPATH",
    "SECRETFIELD",
    "SECRETTOKEN",
];

#[test]
fn nothing_of_a_request_is_in_metrics_or_on_standard_error() {
    let service = Service::start(&[]);
    let mut good = task("SECRETID", 7);
    good["examples"][0]["x"] = json!("SECRETX");
    good["query"]["x"] = json!("SECRETQUERY");
    good["template"] = json!("SECRETTEMPLATE {x}->{y}");
    assert_eq!(service.post("/v1/predict", &one(&good)).status(), 200);
    let mut bad = good.clone();
    bad["examples"][0]["y"] = json!("SECRETLABEL");
    assert!(service.post("/v1/predict", &one(&bad)).text().contains("SECRETLABEL"));
    let list = json!({"tasks": [good, bad]});
    assert_eq!(service.post("/v1/predict", &list).status(), 200);
    assert_eq!(service.post("/v1/predict", &json!({"SECRETFIELD": 1})).status(), 422);
    assert_eq!(service.get("/SECRETPATH?SECRETX=1").status(), 404);
    assert_eq!(service.get("/v1/models?SECRETX=1").status(), 200);
    let odd = service.connect().ask("SECRETMETHOD", "/v1/adapters/SECRETID", &[], b"");
    assert_eq!(odd.status(), 405);
    let given = [("Authorization", "Bearer SECRETTOKEN"), ("X-Secret", "SECRETX")];
    assert_eq!(service.connect().ask("GET", "/metrics", &given, b"").status(), 200);

    let text = service.get("/metrics").text();
    service.terminate();
    let (_, said) = service.wait();
    assert!(said.len() >= 9, "{said:?}");
    for text in [&text, &said.join("\n")] {
        for secret in SECRETS.into_iter().chain(["SECRETMETHOD", "t0"]) {
            assert!(!text.contains(secret), "{secret} in\n{text}");
        }
    }
    let line = said.iter().find(|line| line.contains(" POST /v1/predict 200 ")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words.len() == 6 && words[0].ends_with('Z') && words[5] == "ms", "{line}");
    assert!(said.iter().any(|line| line.contains(" GET none 404 ")), "{said:?}");
    assert!(said.iter().any(|line| line.contains(" OTHER /v1/adapters/{id} 405 ")));
}

#[test]
fn everything_that_happens_is_counted() {
    let service = Service::start(&[]);
    for x in ["4", "5", "6"] {
        service.post("/v1/predict", &one(&query("a", 7, x)));
    }
    service.post("/v1/decide", &one(&task("a", 7)));
    let mut wrong = task("a", 7);
    wrong["examples"][0]["y"] = json!("x");
    service.post("/v1/decide", &one(&wrong));
    service.get("/nowhere");
    let count = |route: &str, method: &str, status: u16| {
        let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
        service.metric(&format!("fewstep_requests_total{{{labels}}}"))
    };
    assert_eq!(count("/v1/predict", "POST", 200), 3);
    assert_eq!(count("/v1/decide", "POST", 200), 1);
    assert_eq!(count("/v1/decide", "POST", 422), 1);
    assert_eq!(count("none", "GET", 404), 1);
    assert_eq!(service.metric("fewstep_tasks_total{result=\"answered\"}"), 4);
    assert_eq!(service.metric("fewstep_tasks_total{result=\"failed\"}"), 1);
    assert_eq!(service.metric("fewstep_task_seconds_count"), 5);
    assert_eq!(service.metric("fewstep_request_seconds_count{route=\"/v1/predict\"}"), 3);
    assert_eq!(service.metric("fewstep_adapter_hits_total"), 2);
    assert_eq!(service.metric("fewstep_queue_requests"), 0);
    service.until("fewstep_connections", 1);

    // Every line is one that Prometheus reads.
    let text = service.get("/metrics").text();
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = name.split_once('{').map_or(name, |(name, _)| name);
        let parts = ["_bucket", "_sum", "_count"].iter();
        let family = parts.fold(name, |name, part| name.strip_suffix(part).unwrap_or(name));
        assert!(text.contains(&format!("# TYPE {family} ")), "{line}");
    }
}

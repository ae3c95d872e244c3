//! `/openapi.json` is held against what is answered.

use crate::serve::client::{Answer, Service, long_task, one, query, with};
use crate::support::task;
use serde_json::{Value, json};

/// As much of JSON Schema as the document uses; anything else in it fails the test.
struct Schemas(Value);

impl Schemas {
    fn named(&self, name: &str) -> &Value {
        let found = &self.0["components"]["schemas"][name];
        assert!(found.is_object(), "there is a schema {name}");
        found
    }

    /// What a value does not have of its schema.
    fn differs(&self, schema: &Value, value: &Value, place: &str) -> Option<String> {
        let mut wrong = None;
        let mut refuse = |why: String| {
            wrong.get_or_insert(format!("{place}: {why}"));
        };
        for (word, rule) in schema.as_object().unwrap() {
            match word.as_str() {
                "description" | "default" | "examples" => {}
                "$ref" => {
                    let name = rule.as_str().unwrap().rsplit_once('/').unwrap().1;
                    if let Some(why) = self.differs(self.named(name), value, place) {
                        return Some(why);
                    }
                }
                "type" => {
                    let allowed = match rule {
                        Value::Array(types) => types.clone(),
                        one => vec![one.clone()],
                    };
                    if !allowed.iter().any(|kind| is(value, kind.as_str().unwrap())) {
                        refuse(format!("{value} is no {rule}"));
                    }
                }
                "enum" => {
                    if !rule.as_array().unwrap().contains(value) {
                        refuse(format!("{value} is none of {rule}"));
                    }
                }
                "oneOf" | "anyOf" => {
                    let fits = |part: &&Value| self.differs(part, value, place).is_none();
                    let count = rule.as_array().unwrap().iter().filter(fits).count();
                    if count == 0 || (word == "oneOf" && count > 1) {
                        refuse(format!("{count} parts of {word} fit"));
                    }
                }
                "required" => {
                    for name in rule.as_array().unwrap() {
                        if value.get(name.as_str().unwrap()).is_none() {
                            refuse(format!("{name} is missing"));
                        }
                    }
                }
                "properties" | "additionalProperties" => {
                    if let Some(why) = self.differs_inside(schema, value, place) {
                        return Some(why);
                    }
                }
                "items" => {
                    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                        if let Some(why) = self.differs(rule, item, &format!("{place}[{at}]")) {
                            return Some(why);
                        }
                    }
                }
                "minItems" | "maxItems" | "minLength" | "minimum" | "maximum"
                | "exclusiveMinimum" | "exclusiveMaximum" => {
                    if !in_range(word, rule.as_f64().unwrap(), value) {
                        refuse(format!("{value} is beyond {word} {rule}"));
                    }
                }
                "pattern" => {
                    if let (Some(text), "^[0-9a-f]{32}$") =
                        (value.as_str(), rule.as_str().unwrap())
                    {
                        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                        if text.len() != 32 || !text.chars().all(hex) {
                            refuse(format!("{text} is no name of an update"));
                        }
                    }
                }
                other => panic!("{other} is not understood"),
            }
        }
        wrong
    }

    fn differs_inside(&self, schema: &Value, value: &Value, place: &str) -> Option<String> {
        for (name, inner) in value.as_object().into_iter().flatten() {
            let place = format!("{place}.{name}");
            let own = schema["properties"].get(name);
            match (own, schema.get("additionalProperties")) {
                (Some(own), _) => {
                    if let Some(why) = self.differs(own, inner, &place) {
                        return Some(why);
                    }
                }
                (None, Some(Value::Bool(false))) => {
                    return Some(format!("{place} is not known"));
                }
                (None, Some(more)) => {
                    if let Some(why) = self.differs(more, inner, &place) {
                        return Some(why);
                    }
                }
                (None, None) => {}
            }
        }
        None
    }

    fn hold(&self, name: &str, value: &Value) {
        if let Some(why) = self.differs(self.named(name), value, name) {
            panic!("{why}\nin {value}");
        }
    }

    /// That a status and a type of an answer are in the document, and its body fits.
    fn hold_answer(&self, method: &str, path: &str, answer: &Answer) {
        let operation = &self.0["paths"][path][method];
        let described = &operation["responses"][answer.status().to_string()];
        assert!(described.is_object(), "{method} {path} may say {}", answer.status());
        let Some(kind) = answer.header("content-type") else {
            assert!(described.get("content").is_none());
            return;
        };
        let kind = kind.split(';').next().unwrap();
        let schema = &described["content"][kind]["schema"];
        assert!(schema.is_object(), "{method} {path} {} may be {kind}", answer.status());
        let values: Vec<Value> = match kind {
            "text/plain" => vec![Value::String(answer.text())],
            "application/x-ndjson" => {
                answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
            }
            _ => vec![answer.json()],
        };
        for value in values {
            if let Some(why) = self.differs(schema, &value, path) {
                panic!("{why}\nin {value}");
            }
        }
        if answer.status() == 429 || answer.status() == 503 {
            assert!(described["headers"]["Retry-After"].is_object());
            assert!(answer.header("retry-after").is_some());
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("{other} is no type"),
    }
}

fn in_range(word: &str, rule: f64, value: &Value) -> bool {
    let size = value.as_array().map(|list| list.len() as f64);
    let length = value.as_str().map(|text| text.chars().count() as f64);
    let number = value.as_f64();
    match word {
        "minItems" => size.is_none_or(|size| size >= rule),
        "maxItems" => size.is_none_or(|size| size <= rule),
        "minLength" => length.is_none_or(|length| length >= rule),
        "minimum" => number.is_none_or(|number| number >= rule),
        "maximum" => number.is_none_or(|number| number <= rule),
        "exclusiveMinimum" => number.is_none_or(|number| number > rule),
        _ => number.is_none_or(|number| number < rule),
    }
}

fn schemas(service: &Service) -> Schemas {
    Schemas(service.get("/openapi.json").json())
}

#[test]
fn answers_of_every_kind_are_what_the_document_says() {
    let service = Service::start(&["--examples", "30", "--request-bytes", "200000"]);
    let schemas = schemas(&service);
    for options in [
        json!({}),
        json!({"full": true}),
        json!({"policy": "paper", "full": true}),
        json!({"policy": {"horizon": {"rule": "leave-one-out", "gate": 1}}, "full": true}),
        json!({"horizon": "evidence", "full": true}),
        json!({"horizon": "bayes-filter", "full": true}),
        json!({"horizon": "leave-one-out", "select": "random", "budget": 2}),
        json!({"horizon": 0, "full": true}),
        json!({"blocks": "lora-value,norm@all", "select": "query-aware", "budget": 2}),
        json!({"blocks": "mlp-up", "budget": 1}),
        json!({"budget": "x"}),
        json!({"tasks": []}),
    ] {
        for command in ["decide", "predict"] {
            let path = format!("/v1/{command}");
            for x in ["4", "7"] {
                let answer = service.post(&path, &with(&query("a", 7, x), &options));
                schemas.hold_answer("post", &path, &answer);
            }
        }
    }
    let mut broken = task("b", 1);
    broken["labels"] = json!([]);
    let mut listed = task("d", 1);
    listed.as_object_mut().unwrap().remove("query");
    listed["queries"] = json!([{"x": "1"}, {"x": " "}]);
    let list = json!({"tasks": [task("a", 1), 3, broken, long_task("c", 31), listed]});
    for path in ["/v1/decide", "/v1/predict"] {
        schemas.hold_answer("post", path, &service.post(path, &list));
        schemas.hold_answer("post", path, &service.post(path, &one(&long_task("c", 31))));
        let ask = |kind: &str, body: &[u8]| {
            service.connect().ask("POST", path, &[("Content-Type", kind)], body)
        };
        schemas.hold_answer("post", path, &ask("text/plain", b"{}"));
        schemas.hold_answer("post", path, &ask("application/json", b"{"));
        schemas.hold_answer("post", path, &ask("application/json", &[b' '; 200_001]));
    }
    for path in ["/v1/models", "/healthz", "/readyz", "/metrics", "/openapi.json"] {
        schemas.hold_answer("get", path, &service.get(path));
        let elsewhere = service.connect().ask("GET", path, &[("Host", "example.org")], b"");
        schemas.hold_answer("get", path, &elsewhere);
    }
    let made = service.post("/v1/predict", &one(&task("a", 1))).json();
    let id = made["adapter"]["id"].as_str().unwrap();
    for _ in 0..2 {
        let path = format!("/v1/adapters/{id}");
        let answer = service.connect().ask("DELETE", &path, &[], b"");
        schemas.hold_answer("delete", "/v1/adapters/{id}", &answer);
    }
}

#[test]
fn requests_that_are_answered_fit_the_document_and_others_do_not() {
    let service = Service::start(&[]);
    let schemas = schemas(&service);
    let all = json!({
        "model": "builtin", "blocks": "value@last2", "select": "trace-top", "budget": 2,
        "horizon": "evidence", "horizons": [0, 1, 2], "step_scale": 0.2, "seed": 3,
        "policy": {"selection": {"rule": "query-aware", "budget": 3}, "step_scale": 0.4},
        "dynamics": "linear", "coverage": 0.5, "confidence": 0.8, "adjoint": "whole", "residuals": "leave-one-out",
        "bos": "never", "max_tokens_per_example": 2, "loo_order": "tree", "full": true,
    });
    let body = with(&task("a", 1), &all);
    for (path, name) in [("/v1/decide", "DecideRequest"), ("/v1/predict", "PredictRequest")] {
        schemas.hold(name, &body);
        assert_eq!(service.post(path, &body).status(), 200);
        let known = schemas.named(name)["properties"].as_object().unwrap();
        let mut more = vec!["task", "tasks", "lora_rank", "lora_first", "orders", "shots"];
        if name == "PredictRequest" {
            more.push("reuse");
        }
        more.extend(all.as_object().unwrap().keys().map(String::as_str));
        more.sort_unstable();
        assert_eq!(known.keys().map(String::as_str).collect::<Vec<_>>(), more);
    }
    for policy in [
        json!({"residuals": "prefix", "shots": 8}),
        json!({"residuals": {"rule": "prefix"}, "shots": null}),
        json!({"residuals": {"rule": "prefix", "orders": 64}, "shots": {"most": null}}),
        json!({"residuals": {"rule": "leave-one-out"}, "shots": {"most": 8, "seed": u64::MAX}}),
    ] {
        assert!(fewstep::Policy::from_json(&policy.to_string()).is_ok());
        schemas.hold("Policy", &policy);
    }
    for wrong in [
        json!({"budget": 0}),
        json!({"adjoint": "none"}),
        json!({"residuals": {"rule": "prefix"}}),
        json!({"orders": 65}),
        json!({"shots": 0}),
        json!({"policy": {"adjoint": null}}),
        json!({"policy": {"residuals": "suffix"}}),
        json!({"policy": {"residuals": {"rule": "leave-one-out", "orders": 2}}}),
        json!({"policy": {"shots": 0}}),
        json!({"policy": {"shots": {"least": 2}}}),
        json!({"step_scale": 1}),
        json!({"horizon": 101}),
        json!({"bos": "maybe"}),
        json!({"more": 1}),
        json!({"policy": "best"}),
        json!({"policy": {"step_scale": 1}}),
        json!({"policy": {"selection": {"rule": "all", "budget": 2}}}),
        json!({"policy": {"horizon": {"rule": "gibbs", "gate": 1}}}),
        json!({"tasks": [task("a", 1)]}),
    ] {
        let body = with(&task("a", 1), &wrong);
        assert!(
            schemas.differs(schemas.named("PredictRequest"), &body, "").is_some(),
            "{wrong}"
        );
        assert!(service.post("/v1/predict", &body).status() >= 400, "{wrong}");
    }
}

#[test]
fn the_document_asks_for_a_token_where_one_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let service = Service::start(&["--token-file", file.to_str().unwrap()]);
    let schemas = schemas(&service);
    for (path, item) in schemas.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let asks = operation["security"].as_array().unwrap().len() == 1;
            let path_here = path.replace("{id}", &"0".repeat(32));
            let answer = service.connect().ask(&method.to_uppercase(), &path_here, &[], b"");
            assert_eq!(answer.status() == 401, asks, "{method} {path}");
            schemas.hold_answer(method, path, &answer);
        }
    }
}

//! Every request starts from the default policy, an override changes only what it names, and the
//! policy that a report prints is accepted back.

use crate::serve::client::{Service, with};
use crate::support::task;
use serde_json::{Value, json};

/// A named policy, as it is written.
fn named(policy: &fewstep::Policy) -> Value {
    serde_json::from_str(&policy.to_json()).unwrap()
}

/// A policy with some fields changed, under the name that such a policy has.
fn changed(policy: &Value, changes: &Value) -> Value {
    let mut policy = policy.clone();
    let fields = changes.as_object().unwrap().clone();
    policy.as_object_mut().unwrap().extend(fields);
    policy["name"] = json!("custom");
    policy
}

/// Requests of one override each, and what they change of the default policy.
fn overrides() -> Vec<(Value, Value)> {
    vec![
        (json!({"blocks": "value@last2"}), json!({"blocks": "value@last2"})),
        (json!({"select": "all"}), json!({"selection": {"rule": "all"}})),
        (
            json!({"select": "random", "budget": 2, "seed": 7}),
            json!({
                "selection": {"rule": "random", "budget": 2, "seed": 7},
                "shots": {"most": null, "seed": 7},
            }),
        ),
        (json!({"seed": 3}), json!({"shots": {"most": null, "seed": 3}})),
        (json!({"horizon": "evidence"}), json!({"horizon": {"rule": "evidence"}})),
        (json!({"horizon": 3}), json!({"horizon": {"rule": "fixed", "steps": 3}})),
        (json!({"horizons": "0..3"}), json!({"horizons": [0, 1, 2, 3]})),
        (json!({"step_scale": 0.3}), json!({"step_scale": 0.3})),
        (json!({"dynamics": "steps"}), json!({"dynamics": "steps"})),
        (json!({"coverage": 0.5}), json!({"coverage": 0.5})),
        (json!({"adjoint": other_adjoint()}), json!({"adjoint": other_adjoint()})),
        (json!({"residuals": "prefix"}), json!({"residuals": {"rule": "prefix", "orders": 2}})),
        (
            json!({"residuals": "prefix", "orders": 3}),
            json!({"residuals": {"rule": "prefix", "orders": 3}}),
        ),
        (json!({"shots": 2}), json!({"shots": {"most": 2, "seed": 0}})),
    ]
}

/// The adjoint that is not the default policy's.
fn other_adjoint() -> &'static str {
    match fewstep::Policy::default().adjoint {
        fewstep_core::Adjoint::Whole => "local",
        fewstep_core::Adjoint::Local => "whole",
    }
}

/// The policy of a report, to the byte.
fn policy_of(report: &str) -> &str {
    let start = report.find("\"policy\":").unwrap() + "\"policy\":".len();
    &report[start..report.find(",\"prediction\":").unwrap()]
}

/// Asks without what was kept from requests before.
fn report(service: &Service, path: &str, options: &Value) -> String {
    let mut body = with(&task("a", 7), options);
    if path == "/v1/predict" {
        body["reuse"] = json!(false);
    }
    service.post(path, &body).report().0
}

#[test]
fn a_request_changes_only_what_it_names() {
    let service = Service::start(&[]);
    let default = named(&fewstep::Policy::default());
    let paper = named(&fewstep::Policy::paper());
    for path in ["/v1/decide", "/v1/predict"] {
        let policy = |options: &Value| -> Value {
            let report = report(&service, path, options);
            serde_json::from_str::<Value>(&report).unwrap()["policy"].take()
        };
        assert_eq!(policy(&json!({})), default, "{path}");
        assert_eq!(policy(&json!({"policy": "default"})), default, "{path}");
        assert_eq!(policy(&json!({"policy": "paper"})), paper, "{path}");
        assert_eq!(policy(&json!({"policy": {}})), default, "{path}");
        for (options, changes) in overrides() {
            assert_eq!(policy(&options), changed(&default, &changes), "{path} {options}");
        }
        let slow = json!({"policy": "paper", "step_scale": 0.3});
        assert_eq!(policy(&slow), changed(&paper, &json!({"step_scale": 0.3})), "{path}");
        let both = json!({"policy": {"step_scale": 0.3, "coverage": 0.5}, "coverage": 0.7});
        let changes = json!({"step_scale": 0.3, "coverage": 0.7});
        assert_eq!(policy(&both), changed(&default, &changes), "{path}");
    }
}

#[test]
fn the_policy_of_a_report_gives_the_same_report_to_the_byte() {
    let service = Service::start(&[]);
    let mut all: Vec<Value> = overrides().into_iter().map(|(options, _)| options).collect();
    all.extend([json!({}), json!({"policy": "paper"}), json!({"full": true})]);
    for path in ["/v1/decide", "/v1/predict"] {
        for options in &all {
            let first = report(&service, path, options);
            let mut body = with(&task("a", 7), &json!({"policy": "its place"}));
            if path == "/v1/predict" {
                body["reuse"] = json!(false);
            }
            body["full"] = options.get("full").cloned().unwrap_or(json!(false));
            let body = body.to_string().replace("\"its place\"", policy_of(&first));
            let kind = [("Content-Type", "application/json")];
            let again = service.connect().ask("POST", path, &kind, body.as_bytes());
            assert_eq!(again.report().0, first, "{path} {options}");
        }
    }
}

#[test]
fn the_policies_with_a_name_are_those_of_the_library() {
    let service = Service::start(&["--steps", "5"]);
    let policies = &service.get("/v1/models").json()["policies"];
    assert_eq!(policies["default"], named(&fewstep::Policy::default()));
    assert_eq!(policies["paper"], named(&fewstep::Policy::paper()));
    assert_eq!(policies.as_object().unwrap().len(), 2);
    // They decide even where fewer steps than theirs may be asked for.
    for policy in [json!("default"), json!("paper"), policies["paper"].clone()] {
        let body = with(&task("a", 7), &json!({ "policy": policy }));
        assert_eq!(service.post("/v1/decide", &body).status(), 200, "{policy}");
    }
}

#[test]
fn a_policy_that_cannot_be_followed_is_refused_with_its_field() {
    let service = Service::start(&[]);
    let refused = |options: Value, status: u16, field: &str| {
        for path in ["/v1/decide", "/v1/predict"] {
            let answer = service.post(path, &with(&task("a", 1), &options));
            assert_eq!(answer.problem(), (status, Some(field.to_owned())), "{options}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(!detail.contains("--"), "flags have no place here: {detail}");
        }
    };
    let policy = |policy: Value, field: &str| {
        refused(json!({ "policy": policy }), 422, field);
    };
    for wrong in [json!("best"), json!(""), json!([]), json!([0.3]), json!(3), json!(null)] {
        policy(wrong, "policy");
    }
    policy(json!({"step_size": 0.3}), "policy.step_size");
    policy(json!({"averaging": "plain"}), "policy.averaging");
    policy(json!({"step_scale": "0.3"}), "policy.step_scale");
    policy(json!({"step_scale": 1}), "policy.step_scale");
    policy(json!({"coverage": 0}), "policy.coverage");
    policy(json!({"dynamics": "fast"}), "policy.dynamics");
    policy(json!({"blocks": 3}), "policy.blocks");
    policy(json!({"blocks": "nothing@all"}), "policy.blocks");
    policy(json!({"horizons": []}), "policy.horizons");
    policy(json!({"horizons": [3, 1]}), "policy.horizons");
    policy(json!({"horizons": "0..3"}), "policy.horizons");
    policy(json!({"horizons": [0, 1.5]}), "policy.horizons[1]");
    policy(json!({"horizon": "evidence"}), "policy.horizon");
    policy(json!({"horizon": []}), "policy.horizon");
    policy(json!({"horizon": {"rule": "evidence", "gate": 1}}), "policy.horizon");
    policy(json!({"horizon": {"steps": 3}}), "policy.horizon.rule");
    policy(json!({"horizon": {"rule": "leave-one-out", "gate": -1}}), "policy.horizon.gate");
    policy(
        json!({"horizon": {"rule": "gibbs", "inverse_temperature": 0}}),
        "policy.horizon.inverse_temperature",
    );
    policy(json!({"adjoint": "none"}), "policy.adjoint");
    policy(json!({"residuals": "suffix"}), "policy.residuals");
    policy(json!({"residuals": 2}), "policy.residuals");
    policy(json!({"residuals": {"orders": 2}}), "policy.residuals.rule");
    policy(json!({"residuals": {"rule": "leave-one-out", "orders": 2}}), "policy.residuals");
    policy(json!({"residuals": {"rule": "prefix", "orders": 65}}), "policy.residuals.orders");
    policy(json!({"residuals": {"rule": "prefix", "seed": 1}}), "policy.residuals.seed");
    policy(json!({"shots": 0}), "policy.shots");
    policy(json!({"shots": -1}), "policy.shots");
    policy(json!({"shots": {"most": 0}}), "policy.shots");
    policy(json!({"shots": {"most": "3"}}), "policy.shots.most");
    policy(json!({"shots": {"least": 3}}), "policy.shots.least");
    policy(json!({"selection": {"rule": "leave-one-out"}}), "policy.selection");
    policy(json!({"selection": {"rule": "trace-top"}}), "policy.selection");
    policy(
        json!({"selection": {"rule": "trace-top", "budget": 1000}}),
        "policy.selection.budget",
    );
    let far = json!({"rule": "fixed", "steps": 101});
    refused(json!({"policy": {"horizon": far}}), 413, "policy.horizon.steps");
    refused(json!({"policy": {"horizons": [0, 101]}}), 413, "policy.horizons");
    // What overrides it is named by its own name.
    let written = json!({"step_scale": 0.3});
    refused(json!({"policy": written, "horizon": 101}), 413, "horizon");
    refused(json!({"policy": written, "blocks": "nothing@all"}), 422, "blocks");
    refused(json!({"policy": written, "select": "trace-top"}), 422, "budget");
    refused(json!({"policy": "paper", "step_scale": 2}), 422, "step_scale");
    refused(json!({"policy": written, "orders": 3}), 422, "orders");
    refused(json!({"policy": written, "residuals": "prefix", "orders": 65}), 422, "orders");
    refused(json!({"policy": {"shots": 3}, "shots": 0}), 422, "shots");
}

//! The service as OpenAPI 3.1 describes it: every route, what goes in and what comes out.
//!
//! Written by hand in one place; tests hold it against what is answered.

use super::limits::Limits;
use super::problems::{PROBLEM_JSON, ProblemKind, ProblemWords};
use fewstep_core::{HorizonName, LONGEST_HORIZON, MOST_HORIZONS, MOST_ORDERS, SelectionName};
use fewstep_engine::Task;
use serde_json::{Map, Value, json};

mod reports;

/// The document as JSON.
pub(super) fn document(limits: &Limits, token: bool) -> String {
    let mut schemas = reports::schemas();
    schemas.extend(requests(limits));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fewstep",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "When to adapt a model to a few-shot prompt, how far, and in which \
                        directions",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths(token),
        "components": {"schemas": schemas},
    });
    if token {
        let scheme = json!({"type": "http", "scheme": "bearer"});
        document["components"]["securitySchemes"] = json!({ "token": scheme });
    }
    document.to_string()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn paths(token: bool) -> Value {
    let decide = "Observe and decide: the explanation";
    let predict =
        "Observe, decide and act, or apply an update that was made for the same examples";
    json!({
        "/v1/decide": {"post": work("decide", decide, "DecideRequest", token)},
        "/v1/predict": {"post": work("predict", predict, "PredictRequest", token)},
        "/v1/models": {"get": {
            "operationId": "models",
            "summary": "The models and the policies that requests may name",
            "security": security(token),
            "responses": answers(content("application/json", &reference("Models")), &[
                ProblemKind::Unauthorized, ProblemKind::OtherHost, ProblemKind::Draining,
            ]),
        }},
        "/v1/adapters/{id}": {"delete": {
            "operationId": "forget",
            "summary": "Forget an update that was made",
            "security": security(token),
            "parameters": [{
                "name": "id", "in": "path", "required": true,
                "description": "The id that an answer named",
                "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            }],
            "responses": statuses([("204", json!({"description": "It is forgotten"}))], &[
                ProblemKind::Unauthorized, ProblemKind::NotFound, ProblemKind::OtherHost,
            ]),
        }},
        "/healthz": {"get": plain("healthz", "Whether the process lives", &[ProblemKind::OtherHost])},
        "/readyz": {"get": plain(
            "readyz", "Whether work is taken", &[ProblemKind::OtherHost, ProblemKind::Draining],
        )},
        "/metrics": {"get": metrics(token)},
        "/openapi.json": {"get": {
            "operationId": "openapi",
            "summary": "This document",
            "security": [],
            "responses": answers(content("application/json", &json!({"type": "object"})), &[
                ProblemKind::OtherHost,
            ]),
        }},
    })
}

fn security(token: bool) -> Value {
    if token { json!([{"token": []}]) } else { json!([]) }
}

fn content(kind: &str, schema: &Value) -> Value {
    let mut content = Map::new();
    content.insert(kind.to_owned(), json!({ "schema": schema }));
    Value::Object(content)
}

/// A 200 with this content, and these problems.
fn answers(content: Value, problems: &[ProblemKind]) -> Value {
    statuses([("200", json!({"description": "Done", "content": content}))], problems)
}

fn statuses<const N: usize>(done: [(&str, Value); N], problems: &[ProblemKind]) -> Value {
    let mut all: Map<String, Value> =
        done.into_iter().map(|(status, answer)| (status.to_owned(), answer)).collect();
    for kind in problems {
        let ProblemWords { status, title, .. } = kind.words();
        let mut answer = json!({
            "description": title,
            "content": content(PROBLEM_JSON, &reference("Problem")),
        });
        if matches!(kind, ProblemKind::Busy | ProblemKind::Draining) {
            let seconds = json!({"type": "integer", "minimum": 1});
            answer["headers"] = json!({"Retry-After": {"schema": seconds}});
        }
        all.insert(status.as_str().to_owned(), answer);
    }
    Value::Object(all)
}

fn plain(id: &str, summary: &str, problems: &[ProblemKind]) -> Value {
    let text = content("text/plain", &json!({"type": "string"}));
    json!({
        "operationId": id, "summary": summary, "security": [],
        "responses": answers(text, problems),
    })
}

fn metrics(token: bool) -> Value {
    let text = content("text/plain", &json!({"type": "string"}));
    json!({
        "operationId": "metrics",
        "summary": "What was done, as Prometheus reads it",
        "security": security(token),
        "responses": answers(text, &[ProblemKind::Unauthorized, ProblemKind::OtherHost]),
    })
}

fn work(id: &str, summary: &str, request: &str, token: bool) -> Value {
    let mut answer = content("application/json", &reference("Answer"));
    // A line for each task.
    answer["application/x-ndjson"] = json!({"schema": reference("Line")});
    json!({
        "operationId": id,
        "summary": summary,
        "description": "One task is answered by one JSON object, tasks by one line of JSON for \
                        each of them, in their order, as they finish.",
        "security": security(token),
        "requestBody": {
            "required": true,
            "content": content("application/json", &reference(request)),
        },
        "responses": answers(answer, &[
            ProblemKind::NotJson, ProblemKind::Unauthorized, ProblemKind::SlowBody, ProblemKind::TooLarge, ProblemKind::NotJsonType,
            ProblemKind::OtherHost, ProblemKind::Wrong, ProblemKind::Busy, ProblemKind::Mistake, ProblemKind::Draining,
        ]),
    })
}

/// What clients send.
fn requests(limits: &Limits) -> Map<String, Value> {
    let text = || json!({"type": "string"});
    let largest = Task::LARGEST_VALUE;
    let mut schemas = Map::new();
    let mut add = |name: &str, schema: Value| schemas.insert(name.to_owned(), schema);
    add(
        "Label",
        object(
            json!({
                "text": {"type": "string", "minLength": 1},
                "value": {"type": "number", "minimum": -largest, "maximum": largest},
            }),
            &["text", "value"],
        ),
    );
    let class = json!({"type": "string", "minLength": 1});
    let written = object(json!({"text": class}), &["text"]);
    add("ClassLabel", json!({"anyOf": [class, written]}));
    add("Example", object(json!({"x": input(), "y": text()}), &["x", "y"]));
    let answer = json!({"type": ["string", "null"], "description": "Used for scoring only"});
    add("Query", object(json!({"x": input(), "y": answer}), &["x"]));
    let list = |name: &str, least: usize, most: usize| json!({"type": "array", "items": reference(name), "minItems": least, "maxItems": most});
    let template = json!({
        "type": "string",
        "description": "How an example is written: {x} once and, behind it, {y} once",
        "pattern": r"\{x\}[\s\S]*\{y\}",
    });
    let mut task = object(
        json!({
            "id": text(),
            "template": template,
            "separator": {"type": "string", "default": "\n"},
            "labels": {
                "description": "Labels with values ask for a number, labels without for a class; \
                                without a list the answers of the examples are the classes",
                "anyOf": [list("Label", 2, limits.labels), list("ClassLabel", 2, limits.labels)],
            },
            "examples": list("Example", 2, limits.examples),
            "query": reference("Query"),
            "queries": list("Query", 1, limits.tasks),
        }),
        &["id", "template", "examples"],
    );
    task["oneOf"] = json!([{"required": ["query"]}, {"required": ["queries"]}]);
    add("Task", task);
    let predict = json!({
        "reuse": {
            "type": "boolean", "default": true,
            "description": "Whether an update made before may be used, and this one kept",
        },
    });
    add("Policy", policy());
    add("DecideRequest", request(limits, &json!({})));
    add("PredictRequest", request(limits, &predict));
    schemas
}

/// A policy, as reports print it; a field that is missing is the default policy's.
fn policy() -> Value {
    let positive = || json!({"type": "number", "exclusiveMinimum": 0});
    let whole = |least: u64| json!({"type": "integer", "minimum": least});
    let steps = json!({"type": "integer", "minimum": 0, "maximum": LONGEST_HORIZON});
    let averaging =
        json!({"enum": ["plain", "trimmed", "median", "by-label", "query-weighted"]});
    let selection = json!({"oneOf": [
        rule(&["all"], json!({}), &[]),
        rule(
            &["query-score", "trace-top", "trace-bottom"],
            json!({"budget": whole(1)}),
            &["budget"],
        ),
        rule(
            &["query-aware"],
            json!({"budget": whole(1), "lookahead": whole(0)}),
            &["budget"],
        ),
        rule(
            &["random"],
            json!({"budget": whole(1), "seed": {"type": "integer", "minimum": 0, "maximum": u64::MAX}}),
            &["budget"],
        ),
        rule(&["depth"], json!({"averaging": averaging.clone()}), &[]),
    ]});
    let horizon = json!({"oneOf": [
        rule(&["fixed"], json!({"steps": steps.clone()}), &["steps"]),
        rule(
            &["evidence", "evidence-fixed", "bayes-gap", "bayes-filter"], json!({}), &[],
        ),
        rule(&["gibbs"], json!({"inverse_temperature": positive()}), &[]),
        rule(
            &["leave-one-out"],
            json!({"averaging": averaging.clone(), "gate": {"type": "number", "minimum": 0}}),
            &[],
        ),
        rule(
            &["leave-one-out-average"],
            json!({
                "averaging": averaging, "sharpness": positive(),
                "leave_alone_odds": positive(),
            }),
            &[],
        ),
    ]});
    object(
        json!({
            "name": {"type": "string"},
            "blocks": {"type": "string"},
            "selection": selection,
            "horizon": horizon,
            "horizons": {
                "type": "array", "items": steps, "minItems": 1, "maxItems": MOST_HORIZONS,
            },
            "step_scale": share(),
            "dynamics": {"enum": ["steps", "linear"]},
            "coverage": share(),
            "adjoint": {"enum": ["local", "whole"]},
            "residuals": {"oneOf": [
                {"enum": ["leave-one-out", "prefix"]},
                rule(&["leave-one-out"], json!({}), &[]),
                rule(&["prefix"], json!({ "orders": orders() }), &[]),
            ]},
            "shots": shots(),
            "classes": classes(),
        }),
        &[],
    )
}

/// A rule by its name, with its parameters.
fn rule(names: &[&str], parameters: Value, required: &[&str]) -> Value {
    let mut properties = parameters;
    properties["rule"] = json!({"enum": names});
    let required: Vec<&str> = required.iter().copied().chain(["rule"]).collect();
    object(properties, &required)
}

fn share() -> Value {
    json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})
}

/// How a task of classes is decided.
fn classes() -> Value {
    let arm = json!({
        "base": {"enum": ["few-shot", "zero-shot"]},
        "blocks": {"type": "string"},
        "depth": {"enum": ["all", "pooled", "best"]},
    });
    let count = |least: u64| json!({"type": "integer", "minimum": least});
    let seed = json!({"type": "integer", "minimum": 0, "maximum": u64::MAX});
    let folds = json!({"exact_up_to": count(0), "count": count(2), "seed": seed});
    let loss = json!({"oneOf": [
        {"enum": ["cross-entropy", "squared", "aitchison"]},
        rule(&["cross-entropy", "squared"], json!({}), &[]),
        rule(&["aitchison"], json!({"smoothing": share()}), &[]),
    ]});
    object(
        json!({
            "arms": {"type": "array", "items": object(arm, &["base", "blocks"])},
            "loss": loss,
            "rule": {"enum": ["leave-one-out", "laplace"]},
            "sharpness": {"type": "number", "exclusiveMinimum": 0},
            "leave_alone": share(),
            "step_scales": {"type": "array", "items": share()},
            "confidence": share(),
            "folds": object(folds, &[]),
        }),
        &[],
    )
}

/// The number of orders of prefix residuals.
fn orders() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": MOST_ORDERS})
}

/// How many examples a prompt shows; a number or `null` stands for an object with it.
fn shots() -> Value {
    let most = json!({"type": ["integer", "null"], "minimum": 1});
    let seed = json!({"type": "integer", "minimum": 0, "maximum": u64::MAX});
    let both = object(json!({"most": most.clone(), "seed": seed}), &[]);
    json!({"anyOf": [most, both]})
}

/// An `x`, which must not be blank.
fn input() -> Value {
    json!({"type": "string", "pattern": r"\S"})
}

fn request(limits: &Limits, more: &Value) -> Value {
    let mut properties = options(limits);
    let more = more.as_object().expect("it is an object");
    let of = properties.as_object_mut().expect("it is an object");
    of.extend(more.clone());
    let mut schema = object(properties, &[]);
    schema["oneOf"] = json!([{"required": ["task"]}, {"required": ["tasks"]}]);
    schema
}

/// The command line's options, and the tasks.
fn options(limits: &Limits) -> Value {
    let steps = limits.steps;
    let whole = |least: u64| json!({"type": "integer", "minimum": least});
    let selections = SelectionName::ALL.map(|name| name.to_string());
    let rules = HorizonName::ALL.map(|name| name.to_string());
    let number = json!({"type": "integer", "minimum": 0, "maximum": steps});
    json!({
        "task": reference("Task"),
        // Each stands for itself: one that is wrong fails in its place.
        "tasks": {
            "type": "array", "minItems": 1, "maxItems": limits.tasks,
            "items": reference("Task"),
        },
        "model": {"type": "string", "description": "One of GET /v1/models"},
        "policy": {
            "description": "The policy that decides; the other fields change only what they name",
            "anyOf": [{"enum": ["default", "paper"]}, reference("Policy")],
            "default": "default",
        },
        "blocks": {
            "type": "string",
            "examples": ["mlp-up@upper-half", "value@last4", "mlp-up,mlp-down@all"],
        },
        "select": {"enum": selections},
        "budget": whole(1),
        "horizon": {"anyOf": [number, {"enum": rules}, {"type": "string", "pattern": "^[0-9]+$"}]},
        "horizons": {"anyOf": [
            {"type": "string", "examples": ["0..30", "0,1,2,4,8"]},
            {"type": "array", "items": number, "minItems": 1},
        ]},
        "step_scale": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "dynamics": {
            "enum": ["steps", "linear"],
            "description": "How an update is carried out: in the model, or by the linearised model",
        },
        "coverage": share(),
        "confidence": share(),
        "adjoint": {
            "enum": ["local", "whole"],
            "description": "Which part of a derivative is taken: the term of the token where the \
                            prediction is read, or the sum over all tokens",
        },
        "residuals": {
            "enum": ["leave-one-out", "prefix"],
            "description": "What an example is predicted behind: all others, or those before it",
        },
        "orders": orders(),
        "shots": {
            "type": "integer", "minimum": 1,
            "description": "Show at most this number of examples in a prompt",
        },
        "seed": {"type": "integer", "minimum": 0, "maximum": u64::MAX, "default": 0},
        "lora_rank": whole(1),
        "lora_first": {"enum": ["random", "inputs"]},
        "bos": {"enum": ["auto", "always", "never"], "default": "auto"},
        "max_tokens_per_example": whole(1),
        "loo_order": {"enum": ["original", "tree"], "default": "original"},
        "full": {"type": "boolean", "default": false},
    })
}

/// An object with these fields and no others.
fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

//! What comes out: reports, failures, models and problems.

mod classes;

use super::super::problems::ProblemKind;
use super::{object, reference};
use serde_json::{Map, Value, json};

/// A number; one that is not finite becomes `null`.
fn number() -> Value {
    json!({"type": ["number", "null"]})
}

fn numbers() -> Value {
    json!({"type": "array", "items": number()})
}

fn matrix() -> Value {
    json!({"type": "array", "items": numbers()})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "array", "items": text()})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

/// The schemas of everything that is answered, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let all = [
        ("Report", report()),
        ("Prediction", prediction()),
        ("When", when()),
        ("HowFar", how_far()),
        ("Which", which()),
        ("Geometry", geometry()),
        ("ClassReport", classes::report()),
        (
            "Passes",
            object(json!({"forward": count(), "backward": count()}), &["forward", "backward"]),
        ),
        ("Adapter", adapter()),
        (
            "Answer",
            object(
                json!({
                    "report": {"oneOf": [reference("Report"), reference("ClassReport")]},
                    "adapter": reference("Adapter"),
                }),
                &["report"],
            ),
        ),
        (
            "Failure",
            object(
                json!({
                    "id": {"type": ["string", "null"]},
                    "line": {"type": "integer", "minimum": 1},
                    "query": count(),
                    "error": text(),
                }),
                &["id", "line", "error"],
            ),
        ),
        ("Line", json!({"oneOf": [reference("Answer"), reference("Failure")]})),
        ("Model", model()),
        (
            "Models",
            object(
                json!({
                    "models": {"type": "array", "items": reference("Model"), "minItems": 1},
                    "policies": policies(),
                }),
                &["models", "policies"],
            ),
        ),
        ("Problem", problem()),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn report() -> Value {
    object(
        json!({
            "id": text(),
            "query": count(),
            "policy": reference("Policy"),
            "prediction": reference("Prediction"),
            "when": reference("When"),
            "how_far": reference("HowFar"),
            "which": reference("Which"),
            "geometry": reference("Geometry"),
            "passes": reference("Passes"),
            "lines": lines(),
        }),
        &["id", "prediction", "which", "passes", "lines"],
    )
}

/// The same in sentences.
fn lines() -> Value {
    object(
        json!({
            "when": text(), "how_far": text(), "which": text(), "prediction": text(),
            "error": text(),
        }),
        &["which", "prediction"],
    )
}

fn prediction() -> Value {
    let interval = object(
        json!({"lower": number(), "upper": number(), "coverage": number()}),
        &["lower", "upper", "coverage"],
    );
    let path = object(json!({"linear": numbers(), "steps": numbers()}), &["linear"]);
    object(
        json!({
            "icl": number(),
            "adapted": number(),
            "linear": number(),
            "standard_deviation": number(),
            "interval": interval,
            "target": number(),
            "path": path,
        }),
        &["icl", "adapted", "linear", "standard_deviation"],
    )
}

fn when() -> Value {
    let errors = object(json!({"icl": number(), "adapted": number()}), &["icl", "adapted"]);
    object(
        json!({
            "adapt": flag(),
            "reason": text(),
            "weight": {"type": "number", "minimum": 0, "maximum": 1},
            "leave_one_out": errors,
            "gate": number(),
            "gap_icl": number(),
            "gap_adapted": number(),
        }),
        &["adapt", "reason", "weight"],
    )
}

fn how_far() -> Value {
    let guarantee = object(
        json!({"bound": number(), "slack": number(), "confidence": number()}),
        &["bound", "slack", "confidence"],
    );
    object(
        json!({
            "rule": text(),
            "horizon": count(),
            "at_edge": flag(),
            "step_size": number(),
            "noise_variance": number(),
            "degrees_of_freedom": number(),
            "horizons": {"type": "array", "items": count()},
            "evidence": numbers(),
            "evidence_fixed": numbers(),
            "posterior": numbers(),
            "leave_one_out": numbers(),
            "pac_bayes": guarantee,
        }),
        &[
            "rule",
            "horizon",
            "at_edge",
            "step_size",
            "noise_variance",
            "degrees_of_freedom",
            "evidence",
            "evidence_fixed",
            "posterior",
        ],
    )
}

fn which() -> Value {
    let block = object(
        json!({
            "name": text(),
            "trace": number(),
            "query": number(),
            "kernel": matrix(),
            "coupling": numbers(),
            "query_variance": number(),
        }),
        &["name", "trace", "query"],
    );
    object(
        json!({
            "rule": text(),
            "budget": count(),
            "seed": count(),
            "heads": {
                "type": "object",
                "additionalProperties": {"enum": ["query", "key-value"]},
            },
            "selected": texts(),
            "blocks": {"type": "array", "items": block},
        }),
        &["rule", "budget", "selected"],
    )
}

fn geometry() -> Value {
    object(
        json!({
            "residuals": numbers(),
            "shown": count(),
            "labels": {"type": "array", "items": count()},
            "room": matrix(),
            "eigenvalues": numbers(),
            "response": numbers(),
            "bayes_response": numbers(),
            "kernel": matrix(),
            "coupling": numbers(),
            "query_variance": number(),
        }),
        &["residuals", "eigenvalues", "query_variance"],
    )
}

fn adapter() -> Value {
    let mut adapter = object(
        json!({
            "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "hit": {"type": "boolean", "description": "Whether the update was there already"},
        }),
        &["id", "hit"],
    );
    adapter["description"] = json!("The update, for DELETE /v1/adapters/{id}");
    adapter
}

fn model() -> Value {
    let sizes = ["layers", "heads", "key_value_heads", "width", "positions", "vocabulary"];
    let mut properties = Map::new();
    properties.insert("name".to_owned(), text());
    properties.insert("default".to_owned(), flag());
    for size in sizes {
        properties.insert(size.to_owned(), json!({"type": "integer", "minimum": 1}));
    }
    let required: Vec<&str> = ["name", "default"].into_iter().chain(sizes).collect();
    object(Value::Object(properties), &required)
}

/// The policies that have a name.
fn policies() -> Value {
    object(
        json!({"default": reference("Policy"), "paper": reference("Policy")}),
        &["default", "paper"],
    )
}

fn problem() -> Value {
    let types: Vec<String> = ProblemKind::ALL
        .iter()
        .map(|kind| format!("/problems/{}", kind.words().name))
        .collect();
    object(
        json!({
            "type": {"enum": types},
            "title": text(),
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": text(),
            "field": {
                "type": ["string", "null"],
                "description": "The field at fault, such as task.examples[3].y",
            },
        }),
        &["type", "title", "status", "detail", "field"],
    )
}

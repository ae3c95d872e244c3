//! What comes out for a task of classes.

use super::super::{object, reference, share};
use super::{count, flag, lines, matrix, number, numbers, text, texts};
use serde_json::{Value, json};

/// The report of a query of a task of classes.
pub(super) fn report() -> Value {
    object(
        json!({
            "id": text(),
            "query": count(),
            "policy": reference("Policy"),
            "prediction": prediction(),
            "when": when(),
            "how_far": how_far(),
            "which": which(),
            "geometry": geometry(),
            "passes": reference("Passes"),
            "lines": lines(),
        }),
        &[
            "id",
            "policy",
            "prediction",
            "when",
            "how_far",
            "which",
            "geometry",
            "passes",
            "lines",
        ],
    )
}

/// A share of 1, both ends included.
fn weight() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1})
}

fn weights() -> Value {
    json!({"type": "array", "items": weight()})
}

fn counts() -> Value {
    json!({"type": "array", "items": count()})
}

fn prediction() -> Value {
    object(
        json!({
            "labels": texts(),
            "icl": weights(),
            "adapted": weights(),
            "label": text(),
            "set": {"type": "array", "items": text(), "minItems": 1},
            "confidence": share(),
            "abstention": weight(),
            "target": text(),
        }),
        &["labels", "icl", "adapted", "label", "set", "confidence", "abstention"],
    )
}

fn when() -> Value {
    let losses = object(json!({"icl": number(), "adapted": number()}), &["icl", "adapted"]);
    object(
        json!({
            "adapt": flag(), "reason": text(), "weight": weight(), "leave_one_out": losses,
        }),
        &["adapt", "reason", "weight", "leave_one_out"],
    )
}

fn how_far() -> Value {
    object(
        json!({
            "rule": {"enum": ["leave-one-out", "laplace"]},
            "horizon": count(),
            "mean_horizon": number(),
            "horizons": counts(),
            "posterior": weights(),
        }),
        &["rule", "horizon", "mean_horizon"],
    )
}

fn which() -> Value {
    let losses = object(json!({"best": number(), "average": number()}), &["best", "average"]);
    let path = object(
        json!({
            "layers": count(),
            "step_scale": number(),
            "step_size": number(),
            "horizons": counts(),
            "losses": numbers(),
            "evidence": numbers(),
            "weights": weights(),
        }),
        &["layers", "step_scale", "step_size", "horizons", "losses", "weights"],
    );
    let arm = object(
        json!({
            "name": text(),
            "base": {"enum": ["few-shot", "zero-shot"]},
            "blocks": texts(),
            "weight": weight(),
            "leave_one_out": losses,
            "left_out": text(),
            "paths": {"type": "array", "items": path},
        }),
        &["name", "base", "blocks", "weight"],
    );
    let alone = object(json!({"loss": number(), "weight": weight()}), &["loss", "weight"]);
    object(
        json!({
            "rule": {"enum": ["arms"]},
            "arms": {"type": "array", "items": arm},
            "zero_shot": alone,
        }),
        &["rule", "arms"],
    )
}

fn geometry() -> Value {
    object(
        json!({
            "examples": count(),
            "shown": count(),
            "folds": count(),
            "fold_of": counts(),
            "answers": counts(),
            "icl": matrix(),
            "probabilities": matrix(),
        }),
        &["examples", "folds"],
    )
}

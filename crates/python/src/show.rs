//! A decision in words: lines for terminals, a table for notebooks.
//!
//! The sentences are those of a report: the decision is put in the place of one.

use crate::report::without_style;
use fewstep::Report;
use fewstep::chart::Curve;
use fewstep::figure;
use fewstep::report::{
    BlockScore, Evidence, HowFar, LeaveOneOut, Lines, Passes, Prediction, When, Which,
};
use fewstep::text::number;
use fewstep_core::Decision;
use std::collections::BTreeMap;

/// The answers, each with its question.
fn answers(decision: &Decision) -> Vec<(&'static str, String)> {
    let Lines { when, how_far, which, .. } = Lines::of(&report(decision));
    let signal = &decision.signal;
    let (variance, noise) = (number(signal.signal_variance), number(signal.noise_variance));
    let residuals = format!("signal variance {variance}, noise variance {noise}");
    let answers = [
        ("when", when),
        ("how far", how_far),
        ("where", Some(which)),
        ("residuals", Some(residuals)),
        ("query", query(decision)),
    ];
    let given = |(question, answer): (_, Option<String>)| Some((question, printable(&answer?)));
    answers.into_iter().filter_map(given).collect()
}

/// What the decision means at the query, if there is one.
fn query(decision: &Decision) -> Option<String> {
    let query = decision.query.as_ref()?;
    let (correction, deviation) = (number(query.correction), number(query.standard_deviation));
    let mut text = format!("correction {correction} (standard deviation {deviation})");
    if let Some(interval) = &query.interval {
        let (lower, upper) = (end(interval.lower), end(interval.upper));
        text += &format!(", residual between {lower} and {upper}");
    }
    Some(text)
}

/// The end of an interval, which may be infinite.
fn end(value: f64) -> String {
    match value.is_infinite() {
        true if value > 0.0 => "∞".to_owned(),
        true => "−∞".to_owned(),
        false => number(value),
    }
}

/// A decision in the place of a report, with what sentences about it look at.
fn report(decision: &Decision) -> Report {
    let Decision { policy, when, how_far, which, .. } = decision;
    let leave_one_out = when.leave_one_out.map(|errors| {
        let fewstep_core::LeaveOneOutErrors { icl, adapted } = errors;
        LeaveOneOut { icl, adapted }
    });
    let evidence = when.evidence.map(|reasons| {
        let fewstep_core::EvidenceReasons { gate, gap_icl, gap_adapted } = reasons;
        Evidence { gate, gap_icl, gap_adapted }
    });
    let score = |score: &fewstep_core::BlockScore| BlockScore {
        name: score.name.clone(),
        trace: score.trace,
        query: score.query,
        kernel: None,
        coupling: None,
        query_variance: None,
    };
    Report {
        id: String::new(),
        query: None,
        policy: Some(policy.clone()),
        prediction: Prediction {
            icl: f64::NAN,
            adapted: None,
            linear: None,
            standard_deviation: None,
            interval: None,
            target: None,
            path: None,
        },
        when: Some(When {
            adapt: when.adapt,
            reason: when.reason.to_string(),
            weight: when.weight,
            leave_one_out,
            evidence,
        }),
        how_far: Some(HowFar {
            rule: how_far.rule,
            horizon: how_far.horizon,
            at_edge: how_far.at_edge,
            step_size: how_far.step_size,
            noise_variance: how_far.noise_variance,
            degrees_of_freedom: how_far.degrees_of_freedom,
            horizons: policy.horizons.clone(),
            evidence: how_far.evidence.clone(),
            evidence_fixed: how_far.evidence_fixed.clone(),
            posterior: how_far.posterior.clone(),
            leave_one_out: how_far.leave_one_out.clone(),
            pac_bayes: None,
        }),
        which: Which {
            rule: which.rule.to_string(),
            budget: which.budget,
            seed: None,
            heads: BTreeMap::new(),
            selected: which.selected.iter().map(|&at| which.blocks[at].name.clone()).collect(),
            blocks: which.blocks.iter().map(score).collect(),
        },
        geometry: None,
        passes: Passes::default(),
    }
}

/// Text without what could move the cursor or colour what follows; names come from callers.
fn printable(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { vec![c] };
    text.chars().flat_map(escape).collect()
}

/// The answers in lines.
pub(crate) fn text(decision: &Decision) -> String {
    let line = |(question, answer): (&str, String)| format!("{question:<10} {answer}");
    answers(decision).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The answers as a table, and below it the curve that chose the number of steps, as the tool draws
/// it. What cannot be drawn is left out.
pub(crate) fn html(decision: &Decision) -> String {
    let row = |(question, answer): (&str, String)| {
        format!(
            "<tr><th style=\"text-align: left\">{question}</th>\
             <td style=\"text-align: left\">{}</td></tr>",
            escaped(&answer)
        )
    };
    let rows: String = answers(decision).into_iter().map(row).collect();
    let curve = Curve::of_decision(decision);
    let drawn = curve.and_then(|curve| figure::evidence(&curve, "").ok());
    let drawn = drawn.map_or(String::new(), |svg| without_style(&svg));
    format!("<table>{rows}</table>{drawn}")
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! A decision in words: lines for terminals, a table for notebooks.

use crate::report::without_style;
use fewstep::chart::Curve;
use fewstep::figure;
use fewstep::text::number;
use fewstep_core::{Decision, HorizonRule, Update};

/// So many names of blocks are shown.
const NAMES: usize = 6;

/// The answers, each with its question.
fn answers(decision: &Decision) -> Vec<(&'static str, String)> {
    let mut answers = vec![
        ("when", when(decision)),
        ("how far", how_far(decision)),
        ("which", which(decision)),
        (
            "residuals",
            format!(
                "signal variance {}, noise variance {}",
                number(decision.signal.signal_variance),
                number(decision.signal.noise_variance)
            ),
        ),
    ];
    if let Some(query) = &decision.query {
        let (correction, deviation) =
            (number(query.correction), number(query.standard_deviation));
        let mut text = format!("correction {correction} (standard deviation {deviation})");
        if let Some(interval) = &query.interval {
            let (lower, upper) = (end(interval.lower), end(interval.upper));
            text += &format!(", residual between {lower} and {upper}");
        }
        answers.push(("query", text));
    }
    answers
}

/// The end of an interval, which may be infinite.
fn end(value: f64) -> String {
    match value.is_infinite() {
        true if value > 0.0 => "∞".to_owned(),
        true => "−∞".to_owned(),
        false => number(value),
    }
}

fn when(decision: &Decision) -> String {
    let when = &decision.when;
    let answer = if when.adapt { "adapt" } else { "leave it" };
    let (gate, before, after) =
        (number(when.gate), number(when.gap_icl), number(when.gap_adapted));
    format!("{answer}: {} (gate {gate}; expected gap {before} -> {after})", when.reason)
}

fn how_far(decision: &Decision) -> String {
    let how_far = &decision.how_far;
    let by = match how_far.rule {
        HorizonRule::Fixed(_) => "as asked".to_owned(),
        rule => format!("by {rule}"),
    };
    let (size, freedom) = (number(how_far.step_size), number(how_far.degrees_of_freedom));
    let steps = |count: u32| match count {
        1 => "1 step".to_owned(),
        _ => format!("{count} steps"),
    };
    let what = match &decision.update {
        Update::None => return format!("0 steps {by}"),
        Update::Steps(filter) => format!("{} of {size}", steps(filter.horizon)),
        Update::Average(mixture) | Update::AveragedSteps(mixture) => {
            let moved: f64 = mixture
                .parts()
                .iter()
                .filter(|(_, part)| part.horizon > 0)
                .map(|(weight, _)| weight)
                .sum();
            let share = 100.0 * moved;
            format!("an average with {share:.0} % of its weight on steps of {size}")
        }
        Update::Posterior(_) => "one update".to_owned(),
    };
    let edge = match (&decision.update, how_far.at_edge) {
        (Update::Steps(_), true) => "; the largest candidate: try longer horizons",
        _ => "",
    };
    format!("{what} {by} ({freedom} degrees of freedom){edge}")
}

fn which(decision: &Decision) -> String {
    let which = &decision.which;
    let (count, candidates) = (which.selected.len(), which.blocks.len());
    let names = which.selected.iter().filter_map(|&block| which.blocks.get(block));
    let shown: Vec<&str> = names.take(NAMES).map(|block| block.name.as_str()).collect();
    let rest = count - shown.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let plural = if candidates == 1 { "" } else { "s" };
    let (rule, shown) = (which.rule, printable(&shown.join(" ")));
    format!("{count} of {candidates} block{plural} by {rule}: {shown}{more}")
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
pub(crate) fn html(decision: &Decision, horizons: &[u32]) -> String {
    let row = |(question, answer): (&str, String)| {
        format!(
            "<tr><th style=\"text-align: left\">{question}</th>\
             <td style=\"text-align: left\">{}</td></tr>",
            escaped(&answer)
        )
    };
    let rows: String = answers(decision).into_iter().map(row).collect();
    let curve = Curve::of_decision(decision, horizons);
    let drawn = curve.and_then(|curve| figure::evidence(&curve, "").ok());
    let drawn = drawn.map_or(String::new(), |svg| without_style(&svg));
    format!("<table>{rows}</table>{drawn}")
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

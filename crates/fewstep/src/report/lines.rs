//! What is said about a report in sentences: one renderer for the terminal, the page and Python.

mod classes;

use super::{ClassReport, Evidence, HowFar, LeaveOneOut, Prediction, Report, When, Which};
use crate::numbers::number;
use fewstep_core::HorizonName;
use serde::Serialize;
use std::fmt::Write as _;

/// How many names of blocks are written out.
const NAMES: usize = 8;

/// What is said about a report, in sentences without the names in front of them: the same in the
/// terminal, on the page and in Python.
///
/// # Examples
///
/// ```
/// # use fewstep::{Action, Policy, Predictor};
/// # let task = fewstep::tasks::parse(
/// #     br#"{"id": "t1", "template": "{x}->{y}",
/// #          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
/// #          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// # )?;
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::paper(), Action::Act)?;
/// let lines = fewstep::report::Lines::of(&predictor.answer(&task)?.report);
/// assert!(lines.when.expect("it was decided").contains("evidence"));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// Whether to adapt, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How many steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how_far: Option<String>,
    /// Which blocks.
    pub which: String,
    /// The prediction, with and without adapting.
    pub prediction: String,
    /// The errors, if the answer is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Lines {
    /// The lines of a report that still has its lists per block.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        Self {
            when: report.when.as_ref().map(|when| when_line(report, when)),
            how_far: report.how_far.as_ref().map(|how_far| how_far_line(report, how_far)),
            which: where_line(&report.which),
            prediction: prediction_line(report),
            error: error_line(report),
        }
    }

    /// The lines of a report of classes that still has its lists per arm.
    #[must_use]
    pub fn of_classes(report: &ClassReport) -> Self {
        classes::lines(report)
    }
}

/// Whether anything is carried out: an average with next to no weight on steps is not.
fn updates(report: &Report) -> bool {
    report.how_far.as_ref().is_some_and(|how_far| how_far.degrees_of_freedom > 0.0)
}

fn when_line(report: &Report, when: &When) -> String {
    let answer = if when.adapt { "adapt" } else { "leave it alone" };
    let mut text = format!("{answer}: {}", when.reason);
    if let Some(LeaveOneOut { icl, adapted }) = &when.leave_one_out {
        let _ = write!(text, " ({} -> {}", number(*icl), number(*adapted));
        if !when.adapt && updates(report) {
            let _ = write!(text, "; the prediction still averages both");
        }
        text.push(')');
    }
    if let Some(Evidence { gate, gap_icl, gap_adapted }) = &when.evidence {
        let (gate, before, after) = (number(*gate), number(*gap_icl), number(*gap_adapted));
        let _ = write!(text, " (gate {gate}; expected gap {before} -> {after})");
    }
    text
}

fn how_far_line(report: &Report, how_far: &HowFar) -> String {
    let (rule, size) = (how_far.rule, number(how_far.step_size));
    let freedom = format!("{} degrees of freedom", number(how_far.degrees_of_freedom));
    let weight = report.when.as_ref().map_or(0.0, |when| when.weight);
    if !updates(report) {
        return "0 steps".to_owned();
    }
    if let Some(weights) = how_far.averaged() {
        let (first, last) = (how_far.horizons.first(), how_far.horizons.last());
        let (first, last) = (first.copied().unwrap_or(0), last.copied().unwrap_or(0));
        let most =
            weights.fold((0, 0.0), |most, next| if next.1 > most.1 { next } else { most });
        let by = match rule {
            HorizonName::Gibbs => "evidence",
            _ => "leave-one-out error",
        };
        return format!(
            "averaged over {first}–{last} steps of {size} by {by} (weight on updating {:.0} %, \
             most of it on {}; {freedom})",
            100.0 * weight,
            steps(most.0),
        );
    }
    let by = match rule {
        HorizonName::Fixed(_) => "as given".to_owned(),
        _ => format!("by {rule}"),
    };
    let what = match rule {
        HorizonName::BayesFilter => "one update".to_owned(),
        _ => format!("{} of {size}", steps(how_far.horizon)),
    };
    let edge = match how_far.at_edge {
        true => "; the largest candidate: more horizons might go further",
        false => "",
    };
    format!("{what} {by} ({freedom}{edge})")
}

fn steps(number: u32) -> String {
    if number == 1 { "1 step".to_owned() } else { format!("{number} steps") }
}

fn where_line(which: &Which) -> String {
    let heads: Vec<String> =
        which.heads.iter().map(|(kind, heads)| format!("{kind}: {heads} heads")).collect();
    if heads.is_empty() {
        return blocks_of(which);
    }
    format!("{} ({})", blocks_of(which), heads.join(", "))
}

fn blocks_of(which: &Which) -> String {
    let (count, selected) = (which.selected.len(), &which.selected);
    let all = count == which.blocks.len();
    if let ([first, .., last], true, true) = (&selected[..], all, count > NAMES) {
        return format!("all {count} blocks from {first} to {last}");
    }
    if all && count > 1 {
        return format!("all {count} blocks: {}", selected.join(" "));
    }
    let shown: Vec<&str> = selected.iter().take(NAMES).map(String::as_str).collect();
    let rest = count - shown.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let of = match which.blocks.len() {
        0 => String::new(),
        candidates => format!(" of {candidates}"),
    };
    let (rule, shown) = (&which.rule, shown.join(" "));
    let plural = if count == 1 && of.is_empty() { "" } else { "s" };
    format!("{count}{of} block{plural} by {rule}: {shown}{more}")
}

fn prediction_line(report: &Report) -> String {
    let prediction = &report.prediction;
    let mut text = format!("{} without adapting", number(prediction.icl));
    if let Some(geometry) = &report.geometry
        && let Some(shown) = geometry.shown
    {
        let _ = write!(text, " (behind {shown} of {} examples)", geometry.residuals.len());
    }
    if let Some(adapted) = prediction.adapted {
        let _ = write!(text, ", {} adapted", number(adapted));
    }
    if let Some(linear) = prediction.linear {
        let _ = write!(text, "{}", linearised(prediction, linear));
    }
    if let Some(deviation) = prediction.standard_deviation {
        let _ = write!(text, " (± {}", number(deviation));
        if let Some(within) = &prediction.interval {
            let (lower, upper) = (number(within.lower), number(within.upper));
            let _ = write!(text, "; {:.0} %: {lower} to {upper}", 100.0 * within.coverage);
        }
        text.push(')');
    }
    text
}

/// The linearised model's prediction; without its number if that has just been printed.
fn linearised(prediction: &Prediction, value: f64) -> String {
    match prediction.adapted == prediction.linear {
        true => " by the linearised model".to_owned(),
        false => format!(", {} by the linearised model", number(value)),
    }
}

/// The squared errors, if the answer is known.
fn error_line(report: &Report) -> Option<String> {
    let prediction = &report.prediction;
    let icl = prediction.squared_error(Some(prediction.icl))?;
    let mut text = format!("{} without adapting", number(icl));
    if let Some(adapted) = prediction.squared_error(prediction.adapted) {
        let _ = write!(text, ", {} adapted", number(adapted));
    }
    if let Some(linear) = prediction.squared_error(prediction.linear) {
        let _ = write!(text, "{}", linearised(prediction, linear));
    }
    let _ = write!(text, " (squared; the answer is {})", number(prediction.target?));
    Some(text)
}

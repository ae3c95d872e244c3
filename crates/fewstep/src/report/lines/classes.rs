//! What is said about a report of classes in sentences.

use super::{Lines, NAMES, steps};
use crate::metrics::{log_loss, most_probable};
use crate::numbers::number;
use crate::report::{Arm, ClassReport, ClassWhen, Probabilities};
use fewstep_core::ClassRule;
use std::fmt::Write as _;

/// A weight under half a per cent is not worth a word.
const LEAST_WEIGHT: f64 = 0.005;

/// The lines of a report that still has its lists per arm.
pub(super) fn lines(report: &ClassReport) -> Lines {
    Lines {
        when: Some(when(&report.when)),
        how_far: Some(how_far(report)),
        which: which(report),
        prediction: prediction(report),
        error: error(&report.prediction),
    }
}

fn when(when: &ClassWhen) -> String {
    let answer = if when.adapt { "adapt" } else { "leave it alone" };
    let errors = when.leave_one_out;
    let mut text = format!(
        "{answer}: {} ({} -> {}",
        when.reason,
        number(errors.icl),
        number(errors.adapted)
    );
    if !when.adapt && when.weight >= LEAST_WEIGHT {
        text.push_str("; the prediction still averages both");
    }
    text.push(')');
    text
}

fn how_far(report: &ClassReport) -> String {
    let how_far = &report.how_far;
    let pairs = || how_far.horizons.iter().copied().zip(how_far.posterior.iter().copied());
    let stepping = || pairs().filter(|(horizon, _)| *horizon > 0);
    let weight: f64 = stepping().map(|(_, weight)| weight).sum();
    if weight < LEAST_WEIGHT {
        return "0 steps".to_owned();
    }
    let most =
        stepping().fold((0, 0.0), |most, next| if next.1 > most.1 { next } else { most });
    let first = stepping().next().map_or(0, |(horizon, _)| horizon);
    let last = stepping().next_back().map_or(0, |(horizon, _)| horizon);
    let by = match how_far.rule {
        ClassRule::LeaveOneOut => "leave-one-out log-loss",
        ClassRule::Laplace => "evidence within each arm",
    };
    format!(
        "averaged over {first}–{last} steps by {by} (weight on steps {}, most of it on {}; mean {})",
        percent(weight),
        steps(most.0),
        number(how_far.mean_horizon),
    )
}

/// The arms by their weights, the largest first, and then what takes no part.
fn which(report: &ClassReport) -> String {
    let which = &report.which;
    let mut weights: Vec<(&str, f64)> =
        which.arms.iter().map(|arm| (arm.name.as_str(), arm.weight)).collect();
    weights.extend(which.zero_shot.map(|alone| ("zero-shot alone", alone.weight)));
    weights.push(("in-context learning alone", which.alone()));
    weights.retain(|(_, weight)| *weight >= LEAST_WEIGHT);
    // Equal weights stay in the order of the policy.
    weights.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let said = |&(name, weight): &(&str, f64)| format!("{name} {}", percent(weight));
    let shown: Vec<String> = weights.iter().take(NAMES).map(said).collect();
    let mut text = shown.join(", ");
    if weights.len() > NAMES {
        let rest: f64 = weights[NAMES..].iter().map(|(_, weight)| weight).sum();
        let _ = write!(text, " and {} more {}", weights.len() - NAMES, percent(rest));
    }
    let reason = |arm: &Arm| Some(format!("{}: {}", arm.name, arm.left_out.as_ref()?));
    let left_out: Vec<String> = which.arms.iter().filter_map(reason).collect();
    if !left_out.is_empty() {
        let _ = write!(text, " (left out: {})", left_out.join(", "));
    }
    text
}

fn prediction(report: &ClassReport) -> String {
    let Probabilities { labels, icl, adapted, label, set, confidence, .. } = &report.prediction;
    let (best, before) = (most_probable(adapted), most_probable(icl));
    let mut text = format!("{label} {} (", percent(adapted[best]));
    if best != before {
        let _ = write!(text, "{} {} and {label} ", labels[before], percent(icl[before]));
    }
    text += &percent(icl[best]);
    text.push_str(" without adapting");
    if let Some(shown) = report.geometry.shown {
        let _ = write!(text, ", behind {shown} of {} examples", report.geometry.examples);
    }
    let _ = write!(text, "); {}: {}", percent(*confidence), members(set, labels.len()));
    text
}

/// The labels of a set in words.
fn members(set: &[String], labels: usize) -> String {
    match set {
        _ if set.len() == labels => "any label".to_owned(),
        [one] => one.clone(),
        [first @ .., last] if set.len() <= NAMES + 1 => {
            format!("{} or {last}", first.join(", "))
        }
        _ => {
            let shown = set[..NAMES.min(set.len())].join(", ");
            format!("{shown} or one of {} more", set.len().saturating_sub(NAMES))
        }
    }
}

/// The log-losses, if the answer is known.
fn error(prediction: &Probabilities) -> Option<String> {
    let answer = prediction.answer()?;
    let (adapted, icl) = (prediction.adapted[answer], prediction.icl[answer]);
    Some(format!(
        "log-loss {} ({} without adapting); the answer is {}",
        number(log_loss(adapted)),
        number(log_loss(icl)),
        prediction.labels[answer]
    ))
}

/// A share in per cent; under one per cent and over 99 as precise as three digits are.
fn percent(share: f64) -> String {
    let whole = format!("{:.0} %", 100.0 * share);
    match whole.as_str() {
        "0 %" if share > 0.0 => format!("{} %", number(100.0 * share)),
        "100 %" if share < 0.999 => format!("{:.1} %", 100.0 * share),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_per_cents_unless_they_would_say_none_or_all() {
        let found = [0.0, 0.0012, 0.704, 0.996, 0.9996, 1.0].map(percent);
        assert_eq!(found, ["0 %", "0.120 %", "70 %", "99.6 %", "100 %", "100 %"]);
    }

    #[test]
    fn sets_are_read_out_like_a_list() {
        let set = |count: u8| -> Vec<String> {
            (b'a'..b'a' + count).map(|letter| char::from(letter).to_string()).collect()
        };
        assert_eq!(members(&set(1), 20), "a");
        assert_eq!(members(&set(2), 20), "a or b");
        assert_eq!(members(&set(3), 20), "a, b or c");
        assert_eq!(members(&set(9), 20), "a, b, c, d, e, f, g, h or i");
        assert_eq!(members(&set(10), 20), "a, b, c, d, e, f, g, h or one of 2 more");
        assert_eq!(members(&set(3), 3), "any label");
    }
}

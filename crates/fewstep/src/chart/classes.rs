//! Charts of a report of classes for a terminal: probabilities of the labels, what each number of
//! steps of each arm is worth, and the weights of the arms.

use crate::numbers::number;
use crate::report::{Arm, ClassReport, Descent};
use crate::text::Style;
use std::fmt::Write as _;

/// The length of a bar in columns.
const BAR: usize = 40;

/// The most labels that are drawn.
const MOST_LABELS: usize = 20;

/// The most numbers of steps that are shown in a table.
const MOST_COLUMNS: usize = 8;

/// The longest name of a label or an arm in columns.
const LONGEST_NAME: usize = 40;

/// The charts of a report of classes.
#[must_use]
pub fn charts(report: &ClassReport, style: Style) -> String {
    probabilities(report, style) + &losses(report, style) + &weights(report, style)
}

/// The labels that are drawn, in their order: if there are many, the most probable ones.
pub(crate) fn drawn_labels(report: &ClassReport, most: usize) -> Vec<usize> {
    let prediction = &report.prediction;
    let largest = |label: usize| prediction.icl[label].max(prediction.adapted[label]);
    let mut labels: Vec<usize> = (0..prediction.labels.len()).collect();
    labels.sort_by(|&a, &b| largest(b).total_cmp(&largest(a)));
    labels.truncate(most);
    labels.sort_unstable();
    labels
}

/// A descent and what it is called.
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    pub(crate) path: &'a Descent,
    /// The log-loss before any step.
    pub(crate) start: Option<f64>,
}

/// Every descent of every arm.
pub(crate) fn rows(report: &ClassReport) -> Vec<Row<'_>> {
    let which = &report.which;
    let start = |arm: &Arm| match arm.base {
        fewstep_core::Base::FewShot => Some(report.when.leave_one_out.icl),
        fewstep_core::Base::ZeroShot => which.zero_shot.map(|alone| alone.loss),
    };
    let of = |arm: &Arm, path: &Descent| {
        let differs = |get: fn(&Descent) -> f64| {
            arm.paths.iter().any(|other| get(other).to_bits() != get(path).to_bits())
        };
        let mut name = arm.name.clone();
        if differs(|path| path.layers as f64) {
            let _ = write!(name, ", {} layers", path.layers);
        }
        if differs(|path| path.step_scale) {
            let _ = write!(name, ", step scale {}", number(path.step_scale));
        }
        name
    };
    let all = which.arms.iter().flat_map(|arm| arm.paths.iter().map(move |path| (arm, path)));
    all.map(|(arm, path)| Row { name: of(arm, path), path, start: start(arm) }).collect()
}

/// The members of the average and their weights, in the order of the policy.
pub(crate) fn members(report: &ClassReport) -> Vec<(&str, f64)> {
    let which = &report.which;
    let mut members = vec![("in-context learning alone", which.alone())];
    members.extend(which.zero_shot.map(|alone| ("zero-shot alone", alone.weight)));
    let taking_part = which.arms.iter().filter(|arm| arm.left_out.is_none());
    members.extend(taking_part.map(|arm| (arm.name.as_str(), arm.weight)));
    members
}

/// What differs between queries on the same examples.
pub(crate) fn probabilities(report: &ClassReport, style: Style) -> String {
    let prediction = &report.prediction;
    let title = "probability of each label (█ adapted, ░ without adapting)";
    let mut text = format!("  {}\n", style.dim(title));
    let labels = drawn_labels(report, MOST_LABELS);
    let names: Vec<String> =
        labels.iter().map(|&label| shortened(&prediction.labels[label])).collect();
    let width = widest(&names);
    for (&label, name) in labels.iter().zip(&names) {
        let (icl, adapted) = (prediction.icl[label], prediction.adapted[label]);
        let _ = writeln!(text, "  {} {}", padded(name, width), bar('█', adapted));
        let _ = writeln!(text, "  {} {}", padded("", width), bar('░', icl));
    }
    let hidden = prediction.labels.len() - labels.len();
    if hidden > 0 {
        let _ = writeln!(text, "  and {hidden} less probable labels");
    }
    text
}

/// A bar and its share in per cent.
fn bar(sign: char, share: f64) -> String {
    let filled =
        (1..=BAR).take_while(|&column| share * BAR as f64 >= column as f64 - 0.5).count();
    let gap = if filled > 0 { " " } else { "" };
    format!("{}{gap}{:.1} %", sign.to_string().repeat(filled), 100.0 * share)
}

fn losses(report: &ClassReport, style: Style) -> String {
    let rows = rows(report);
    let Some(first) = rows.first() else { return String::new() };
    let count = first.path.horizons.len();
    let columns: Vec<usize> = match count {
        0..=MOST_COLUMNS => (0..count).collect(),
        _ => {
            (0..MOST_COLUMNS).map(|column| column * (count - 1) / (MOST_COLUMNS - 1)).collect()
        }
    };
    let best = rows.iter().flat_map(|row| row.path.losses.iter().copied()).reduce(f64::min);
    let names: Vec<String> = rows.iter().map(|row| shortened(&row.name)).collect();
    let title = "leave-one-out log-loss of T steps; [ ] is the smallest";
    let mut text = format!("  {}\n", style.dim(title));
    let width = widest(&names);
    let heads: String = std::iter::once(0)
        .chain(columns.iter().map(|&column| first.path.horizons[column]))
        .map(|horizon| format!("{horizon:>8} "))
        .collect();
    let _ = writeln!(text, "  {} {}", padded("", width), heads.trim_end());
    for (row, name) in rows.iter().zip(&names) {
        let mut line = format!(" {:>7} ", row.start.map_or_else(String::new, number));
        for &column in &columns {
            let loss = row.path.losses[column];
            let cell = format!("{:>7}", number(loss));
            let chosen = best.is_some_and(|best| loss.to_bits() == best.to_bits());
            line += &match chosen {
                true => style.warning(&format!("{:>9}", format!("[{}]", cell.trim_start()))),
                false => format!(" {cell} "),
            };
        }
        let _ = writeln!(text, "  {} {}", padded(name, width), line.trim_end());
    }
    text
}

fn weights(report: &ClassReport, style: Style) -> String {
    let members = members(report);
    let names: Vec<String> = members.iter().map(|(name, _)| shortened(name)).collect();
    let mut text = format!("  {}\n", style.dim("weight of each arm"));
    let width = widest(&names);
    for (name, (_, weight)) in names.iter().zip(&members) {
        let _ = writeln!(text, "  {} {}", padded(name, width), bar('█', *weight));
    }
    text
}

/// A name that fits, without what could move the cursor.
pub(crate) fn shortened(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
    if shown.chars().count() < name.chars().count() { shown + "…" } else { shown }
}

fn widest(names: &[String]) -> usize {
    names.iter().map(|name| name.chars().count()).max().unwrap_or(0)
}

fn padded(name: &str, width: usize) -> String {
    format!("{name:<width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_shares() {
        assert_eq!(bar('█', 0.0), "0.0 %");
        assert_eq!(bar('█', 0.1), "████ 10.0 %");
        assert_eq!(bar('░', 1.0).chars().filter(|&c| c == '░').count(), BAR);
        assert_eq!(shortened("a\u{1b}[2Jb"), "a[2Jb…");
        assert_eq!(shortened(&"é".repeat(50)).chars().count(), LONGEST_NAME + 1);
    }
}

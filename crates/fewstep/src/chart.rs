//! Charts for a terminal: how good each number of steps is, and what each head could do.
//!
//! In: a [`Report`]. Out: lines of text. [`Curve`] and [`Grid`] say what is drawn; drawings show
//! the same.

pub(crate) mod classes;

pub use classes::charts as charts_of_classes;

use crate::numbers::number;
use crate::report::{AnyReport, HowFar, Report, Which};
use crate::text::Style;
use fewstep_core::{Decision, HorizonName};
use fewstep_engine::{BlockId, BlockKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The height of a curve in lines.
const HEIGHT: usize = 7;

/// The largest width of a curve in columns.
const WIDTH: usize = 60;

/// Signs for scores from small to large.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The criterion that chose the number of steps, at every candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is.
    pub name: &'static str,
    /// The candidates for which it is finite, each with its value.
    pub points: Vec<(u32, f64)>,
    /// The horizon that was chosen.
    pub chosen: u32,
}

impl Curve {
    /// The curve of a report, unless it has none: residuals of 0 leave nothing to score.
    #[must_use]
    pub fn of(how_far: &HowFar) -> Option<Self> {
        let HowFar { horizon, horizons, evidence, evidence_fixed, leave_one_out, .. } = how_far;
        let values = [evidence, evidence_fixed, leave_one_out].map(Vec::as_slice);
        Self::by(how_far.rule, horizons, values, *horizon)
    }

    /// The curve of a decision.
    #[must_use]
    pub fn of_decision(decision: &Decision) -> Option<Self> {
        let how_far = &decision.how_far;
        let values = [&how_far.evidence, &how_far.evidence_fixed, &how_far.leave_one_out];
        let horizons = &decision.policy.horizons;
        Self::by(how_far.rule, horizons, values.map(Vec::as_slice), how_far.horizon)
    }

    fn by(
        rule: HorizonName,
        horizons: &[u32],
        [evidence, evidence_fixed, leave_one_out]: [&[f64]; 3],
        chosen: u32,
    ) -> Option<Self> {
        let (name, values) = match rule {
            HorizonName::EvidenceFixed => {
                ("negative log-evidence, fixed noise", evidence_fixed)
            }
            HorizonName::LeaveOneOut | HorizonName::LeaveOneOutAverage => {
                ("leave-one-out error", leave_one_out)
            }
            _ => ("negative log-evidence", evidence),
        };
        let points = horizons.iter().copied().zip(values.iter().copied());
        let points: Vec<_> = points.filter(|(_, value)| value.is_finite()).collect();
        (points.len() > 1).then_some(Self { name, points, chosen })
    }

    /// The smallest and the largest value.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        let values = self.points.iter().map(|&(_, value)| value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }

    /// The curve in lines; its smallest point is the best.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let (low, high) = self.range();
        let columns = self.points.len().min(WIDTH);
        let at = |column: usize| self.points[column * (self.points.len() - 1) / (columns - 1)];
        let row_of = |value: f64| {
            let share = if high > low { (high - value) / (high - low) } else { 1.0 };
            (0..HEIGHT - 1)
                .rev()
                .find(|&row| share * (HEIGHT - 1) as f64 >= row as f64 + 0.5)
                .map_or(0, |row| row + 1)
        };
        let mut lines = vec![vec![" ".to_owned(); columns]; HEIGHT];
        for (column, (horizon, value)) in (0..columns).map(|column| (column, at(column))) {
            let mark =
                if horizon == self.chosen { style.warning("◆") } else { "•".to_owned() };
            lines[row_of(value)][column] = mark;
        }
        let (top, bottom) = (number(high), number(low));
        let width = top.chars().count().max(bottom.chars().count());
        let mut text = format!("  {}\n", style.dim(&format!("{} of T steps", self.name)));
        for (row, line) in lines.iter().enumerate() {
            let label = match row {
                0 => &top,
                row if row == HEIGHT - 1 => &bottom,
                _ => "",
            };
            let line = line.concat();
            let _ = writeln!(text, "  {label:>width$} ┤{}", line.trim_end());
        }
        let (first, last) = (at(0).0.to_string(), at(columns - 1).0.to_string());
        let gap = columns.saturating_sub(first.len());
        let _ = writeln!(text, "  {:>width$} └{}", "", "─".repeat(columns));
        let _ = writeln!(text, "  {:>width$}  {first}{last:>gap$}", "");
        text
    }
}

/// The scores of one kind of block, by layer and head.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The kind of block.
    pub kind: BlockKind,
    /// What a column is: `head`, `query head` or `key-value head`.
    pub head: String,
    /// The layers, ascending, each with the score of every head and whether it was chosen. A
    /// kind without heads has one column.
    pub rows: Vec<(usize, Vec<(f64, bool)>)>,
}

impl Grid {
    /// One grid per kind of block: query scores, or trace scores if there are none.
    #[must_use]
    pub fn of(which: &Which) -> Vec<Self> {
        let chosen: BTreeSet<&str> = which.selected.iter().map(String::as_str).collect();
        let mut grids: Vec<Self> = Vec::new();
        for block in &which.blocks {
            let Ok(id) = block.name.parse::<BlockId>() else { continue };
            let cell =
                (block.query.unwrap_or(block.trace), chosen.contains(block.name.as_str()));
            if grids.last().is_none_or(|grid| grid.kind != id.kind()) {
                let kind = id.kind();
                let of = which.heads.get(&kind.to_string());
                let head = of.map_or_else(|| "head".to_owned(), |of| format!("{of} head"));
                grids.push(Self { kind, head, rows: Vec::new() });
            }
            let rows = &mut grids.last_mut().expect("there is one now").rows;
            match rows.last_mut() {
                Some((layer, cells)) if *layer == id.layer() => cells.push(cell),
                _ => rows.push((id.layer(), vec![cell])),
            }
        }
        grids
    }

    /// The largest score.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.cells().fold(0.0, |largest, (score, _)| largest.max(score))
    }

    /// Whether some blocks were chosen and others not.
    #[must_use]
    pub fn is_divided(&self) -> bool {
        self.cells().any(|(_, chosen)| chosen) && self.cells().any(|(_, chosen)| !chosen)
    }

    fn cells(&self) -> impl Iterator<Item = (f64, bool)> + '_ {
        self.rows.iter().flat_map(|(_, cells)| cells.iter().copied())
    }

    /// The grid in lines; `largest` is the score with the darkest sign.
    #[must_use]
    pub fn text(&self, largest: f64, style: Style) -> String {
        let title = match self.kind.per_head() {
            true => format!("layer, {}", self.head),
            false => "layer".to_owned(),
        };
        let marked = if self.is_divided() { "; [ ] is chosen" } else { "" };
        let title = format!("score of {} blocks ({title}{marked})", self.kind);
        let mut text = format!("  {}\n", style.dim(&title));
        let heads = self.rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
        if self.kind.per_head() {
            let names: String = (0..heads).map(|head| format!("{head:>2} ")).collect();
            let _ = writeln!(text, "       {}", names.trim_end());
        }
        for (layer, cells) in &self.rows {
            let line: String =
                cells.iter().map(|&cell| self.sign(cell, largest, style)).collect();
            let _ = writeln!(text, "  {layer:>4} {}", line.trim_end());
        }
        text
    }

    fn sign(&self, (score, chosen): (f64, bool), largest: f64, style: Style) -> String {
        let sign = SHADES[shade(score, largest)];
        if chosen && self.is_divided() {
            style.warning(&format!("[{sign}]"))
        } else {
            format!(" {sign} ")
        }
    }
}

/// Which of the shades a score gets.
fn shade(score: f64, largest: f64) -> usize {
    let share = if largest > 0.0 { score / largest } else { 0.0 };
    // The steps are equal: 0 to 0.2, to 0.4, and so on.
    (1..SHADES.len())
        .rev()
        .find(|&step| share * SHADES.len() as f64 >= step as f64)
        .unwrap_or(0)
}

/// The charts of a report: the curve, and a grid per kind of block.
#[must_use]
pub fn charts(report: &Report, style: Style) -> String {
    let curve = report.how_far.as_ref().and_then(Curve::of);
    let mut text = curve.map(|curve| curve.text(style)).unwrap_or_default();
    let grids = Grid::of(&report.which);
    let largest = grids.iter().map(Grid::largest).fold(0.0, f64::max);
    for grid in &grids {
        text.push_str(&grid.text(largest, style));
    }
    text
}

/// The charts of a report of either kind.
#[must_use]
pub fn any_charts(report: &AnyReport, style: Style) -> String {
    match report {
        AnyReport::Regression(report) => charts(report, style),
        AnyReport::Classes(report) => classes::charts(report, style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::BlockScore;

    #[test]
    fn the_lowest_point_is_on_the_last_line_and_marked() {
        let points = vec![(0, 4.0), (1, 2.0), (2, 1.0), (3, 2.5)];
        let curve = Curve { name: "risk", points, chosen: 2 };
        let expected = "  risk of T steps\n  4.00 ┤•\n       ┤\n       ┤\n       ┤   •\n       ┤ •\n       \
                        ┤\n  1.00 ┤  ◆\n       └────\n        0  3\n";
        assert_eq!(curve.text(Style::PLAIN), expected);
        // A flat curve has one line, and a long one keeps its ends.
        let points: Vec<_> = (0..1000).map(|horizon| (horizon, 1.0)).collect();
        let text = Curve { name: "risk", points, chosen: 0 }.text(Style::PLAIN);
        let last = text.lines().last().unwrap();
        assert!(last.trim_start().starts_with("0 ") && last.ends_with(" 999"), "{text}");
        assert!(text.lines().nth(7).unwrap().contains(&"•".repeat(59)), "{text}");
    }

    #[test]
    fn heads_stand_in_their_layer_and_the_chosen_ones_are_marked() {
        let block = |name: &str, score: f64| BlockScore {
            name: name.to_owned(),
            trace: 0.0,
            query: Some(score),
            kernel: None,
            coupling: None,
            query_variance: None,
        };
        let which = Which {
            rule: "query-score".to_owned(),
            budget: 1,
            seed: None,
            heads: [("value".to_owned(), "key-value")].into(),
            selected: vec!["value.5.1".to_owned()],
            blocks: vec![
                block("value.4.0", 0.0),
                block("value.4.1", 0.3),
                block("value.5.0", 0.5),
                block("value.5.1", 1.0),
                block("mlp-up.5", 0.9),
            ],
        };
        let grids = Grid::of(&which);
        assert_eq!(grids.len(), 2);
        let expected = "  score of value blocks (layer, key-value head; [ ] is chosen)\n        0  1\n     4  ·  ░\n\
                        \x20    5  ▒ [█]\n";
        assert_eq!(grids[0].text(1.0, Style::PLAIN), expected);
        assert_eq!(
            grids[1].text(1.0, Style::PLAIN),
            "  score of mlp-up blocks (layer)\n     5  █\n"
        );
    }
}

//! What was found, row by row, and the verdicts that follow.
//!
//! Rows are collected statement by statement; [`Findings::conclude`] turns those since the last
//! conclusion into one claim.

use super::super::document::{Claim, Figure, Section, Table, Verdict};
use crate::assessment::Mean;

/// A simulated mean further from its prediction than this many standard errors contradicts it. With
/// some 40 means, chance alone does so once in 400 runs.
pub(super) const FAR: f64 = 4.0;
/// A standard error larger than this share of what is measured says nothing.
const COARSE: f64 = 0.1;

/// Everything that was found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    means: Vec<Vec<String>>,
    identities: Vec<Vec<String>>,
    bounds: Vec<Vec<String>>,
    pub(super) figures: Vec<Figure>,
    claims: Vec<Claim>,
    open: Vec<Row>,
}

/// A row whose statement is not concluded yet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Row {
    /// Distance from the prediction in standard errors.
    Mean(f64, Verdict),
    /// Largest relative deviation.
    Identity(f64, Verdict),
    /// Largest share of a bound that was reached.
    Ratio(f64, Verdict),
    /// How often something happened, and how often it may.
    Frequency(f64, f64, Verdict),
}

impl Row {
    fn verdict(self) -> Verdict {
        match self {
            Self::Mean(_, verdict)
            | Self::Identity(_, verdict)
            | Self::Ratio(_, verdict)
            | Self::Frequency(_, _, verdict) => verdict,
        }
    }
}

impl Findings {
    /// A mean of samples against what it is predicted to be.
    pub(super) fn mean(&mut self, statement: &str, predicted: f64, samples: &[f64]) {
        self.estimate(statement, predicted, Mean::of(samples), predicted.abs());
    }

    /// The same for any estimate with a standard error; `scale` says what counts as small.
    pub(super) fn estimate(
        &mut self,
        statement: &str,
        predicted: f64,
        measured: Mean,
        scale: f64,
    ) {
        let distance = distance(measured.mean - predicted, measured.error);
        let verdict = match distance.abs() <= FAR {
            false => Verdict::NotHeld,
            true if measured.error > COARSE * scale => Verdict::Undecided,
            true => Verdict::Held,
        };
        self.means.push(vec![
            statement.to_owned(),
            number(predicted),
            number(measured.mean),
            number(measured.error),
            format!("{distance:+.1}").replace('-', "−"),
        ]);
        self.open.push(Row::Mean(distance, verdict));
    }

    /// Two routes to one quantity: pairs of what both give, and the size to which their
    /// difference is compared; `allowed` is what rounding may do.
    pub(super) fn identity(
        &mut self,
        statement: &str,
        pairs: &[(f64, f64, f64)],
        allowed: f64,
    ) {
        let apart = |&(a, b, scale): &(f64, f64, f64)| match (a - b).abs() {
            0.0 => 0.0,
            apart => apart / scale,
        };
        // A deviation that is no number is the largest.
        let larger =
            |most: f64, next: f64| if next > most || next.is_nan() { next } else { most };
        let largest = pairs.iter().map(apart).fold(0.0, larger);
        let verdict = if largest <= allowed { Verdict::Held } else { Verdict::NotHeld };
        let cells = [pairs.len().to_string(), number(largest), number(allowed)];
        self.identities.push(std::iter::once(statement.to_owned()).chain(cells).collect());
        self.open.push(Row::Identity(largest, verdict));
    }

    /// What was reached of a bound: pairs of what was measured and what it may be at most.
    pub(super) fn bound(&mut self, statement: &str, pairs: &[(f64, f64)]) {
        let ratio = |&(measured, bound): &(f64, f64)| match measured {
            0.0 => 0.0,
            measured => measured / bound,
        };
        let larger =
            |most: f64, next: f64| if next > most || next.is_nan() { next } else { most };
        let largest = pairs.iter().map(ratio).fold(0.0, larger);
        // Where a bound is attained, rounding decides.
        let verdict = if largest <= 1.0 + 1e-9 { Verdict::Held } else { Verdict::NotHeld };
        let (count, none) = (pairs.len().to_string(), "–".to_owned());
        let row = [statement.to_owned(), "1".to_owned(), number(largest), count, none];
        self.bounds.push(row.to_vec());
        self.open.push(Row::Ratio(largest, verdict));
    }

    /// How often something happened that may happen with some probability at most.
    pub(super) fn frequency(
        &mut self,
        statement: &str,
        allowed: f64,
        happened: usize,
        draws: usize,
    ) {
        let share = happened as f64 / draws as f64;
        let error = (allowed * (1.0 - allowed) / draws as f64).sqrt();
        let distance = distance(share - allowed, error);
        let verdict = match distance {
            distance if distance > FAR => Verdict::NotHeld,
            distance if distance <= 0.0 => Verdict::Held,
            _ => Verdict::Undecided,
        };
        self.bounds.push(vec![
            statement.to_owned(),
            chance(allowed),
            number(share),
            draws.to_string(),
            format!("{distance:+.1}").replace('-', "−"),
        ]);
        self.open.push(Row::Frequency(share, allowed, verdict));
    }

    /// Makes one claim of all rows since the last one.
    pub(super) fn conclude(&mut self, statement: &str, paper: &str) {
        let rows = std::mem::take(&mut self.open);
        let verdict = combine(rows.iter().map(|row| row.verdict()));
        self.conclude_with(statement, paper, &summary(&rows), verdict);
    }

    /// Makes a claim of something that no row can say, and forgets the rows since the last one.
    pub(super) fn conclude_with(
        &mut self,
        statement: &str,
        paper: &str,
        measured: &str,
        verdict: Verdict,
    ) {
        self.open.clear();
        self.claims.push(Claim {
            statement: statement.to_owned(),
            paper: paper.to_owned(),
            measured: measured.to_owned(),
            verdict,
        });
    }

    /// The whole section.
    pub(super) fn section(self, draws: usize) -> Section {
        let table = |caption: &str, header: &[&str], rows| Table {
            caption: caption.to_owned(),
            header: header.iter().map(|&name| name.to_owned()).collect(),
            rows,
        };
        let distance = "distance (standard errors)";
        let means = ["statement", "predicted", "measured", "standard error", distance];
        let bounds =
            ["statement", "allowed at most", "measured", "comparisons or draws", distance];
        Section {
            title: "Theory: the paper's statements, simulated".to_owned(),
            text: vec![
                format!(
                    "Predictions are the formulas of the paper. What they are compared with shares \
                     nothing with them: {draws} tasks drawn per statement, steps taken one by one in \
                     the weights, linear systems solved by elimination, and the model's own steps."
                ),
                format!(
                    "A mean contradicts its prediction when it is more than {FAR} standard errors \
                     away, and says nothing when its standard error is over a tenth of what is \
                     predicted. A frequency contradicts its bound when it is more than {FAR} standard \
                     errors above."
                ),
            ],
            tables: vec![
                table("Simulated means against their predictions", &means, self.means),
                table(
                    "Identities, computed by two routes: largest difference relative to the size of \
                     the terms",
                    &[
                        "statement",
                        "comparisons",
                        "largest relative deviation",
                        "allowed for rounding",
                    ],
                    self.identities,
                ),
                table(
                    "Bounds: the largest ratio to a bound, and how often a bound with a confidence \
                     failed",
                    &bounds,
                    self.bounds,
                ),
            ],
            figures: self.figures,
            claims: self.claims,
        }
    }
}

/// The worst verdict, and undecided if there is none at all.
fn combine(verdicts: impl Iterator<Item = Verdict> + Clone) -> Verdict {
    let any = |wanted: Verdict| verdicts.clone().any(|verdict| verdict == wanted);
    match () {
        () if any(Verdict::NotHeld) => Verdict::NotHeld,
        () if any(Verdict::Undecided) || !any(Verdict::Held) => Verdict::Undecided,
        () => Verdict::Held,
    }
}

/// Rows in words.
fn summary(rows: &[Row]) -> String {
    let largest = |pick: fn(&Row) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().filter_map(pick).collect();
        let most = values.iter().copied().reduce(f64::max);
        most.map(|most| (values.len(), most))
    };
    let mut parts = Vec::new();
    if let Some((count, most)) = largest(|row| match row {
        Row::Mean(distance, _) => Some(distance.abs()),
        _ => None,
    }) {
        parts.push(match count {
            1 => format!("a mean {most:.1} standard errors away"),
            _ => format!("{count} means at most {most:.1} standard errors away"),
        });
    }
    if let Some((_, most)) = largest(|row| match row {
        Row::Identity(deviation, _) => Some(*deviation),
        _ => None,
    }) {
        parts.push(match most {
            0.0 => "two routes without any difference".to_owned(),
            most => {
                format!("two routes at most {} apart, relative to their size", number(most))
            }
        });
    }
    if let Some((_, most)) = largest(|row| match row {
        Row::Ratio(ratio, _) => Some(*ratio),
        _ => None,
    }) {
        parts.push(format!("ratios of at most {} where 1 is the bound", number(most)));
    }
    let frequencies = || {
        rows.iter().filter_map(|row| match row {
            Row::Frequency(share, allowed, _) => Some((*share, *allowed)),
            _ => None,
        })
    };
    let worst = frequencies().max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    if let Some((share, allowed)) = worst {
        let (share, allowed) = (number(share), chance(allowed));
        parts.push(match frequencies().count() {
            1 => format!("failures with frequency {share} where {allowed} is allowed"),
            count => format!(
                "{count} frequencies of failure, the worst {share} where {allowed} is allowed"
            ),
        });
    }
    parts.join("; ")
}

/// In standard errors; 0 where there is no difference, and infinite where no error explains one.
fn distance(difference: f64, error: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { difference / error }
}

/// Four digits.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e5).contains(&size) => format!("{value:.2e}"),
        size if size < 0.01 => format!("{value:.6}"),
        size if size < 0.1 => format!("{value:.5}"),
        size if size < 1.0 => format!("{value:.4}"),
        size if size < 10.0 => format!("{value:.3}"),
        size if size < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    };
    text.replace('-', "−")
}

/// A probability as it is said, such as 0.1.
fn chance(probability: f64) -> String {
    number(probability).trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(fill: impl FnOnce(&mut Findings)) -> Verdict {
        let mut findings = Findings::default();
        fill(&mut findings);
        findings.conclude("statement", "paper");
        findings.claims[0].verdict
    }

    #[test]
    fn verdicts_follow_from_the_distance() {
        let samples = [0.9, 1.1, 1.0, 1.0];
        let error = Mean::of(&samples).error;
        let at = |predicted| verdict_of(|found| found.mean("m", predicted, &samples));
        assert_eq!(at(1.0 + 3.9 * error), Verdict::Held);
        assert_eq!(at(1.0 - 4.1 * error), Verdict::NotHeld);
        assert_eq!(verdict_of(|found| found.mean("m", 1.0, &[0.0, 2.0])), Verdict::Undecided);

        let often = |happened| verdict_of(|found| found.frequency("f", 0.1, happened, 900));
        assert_eq!(
            [90, 91, 127].map(often),
            [Verdict::Held, Verdict::Undecided, Verdict::NotHeld]
        );
    }

    #[test]
    fn one_wrong_row_is_enough() {
        let wrong = verdict_of(|found| {
            found.bound("b", &[(0.5, 1.0)]);
            found.identity("i", &[(1.0, 1.0, 1.0), (1.0, f64::NAN, 1.0)], 1e-9);
        });
        assert_eq!(wrong, Verdict::NotHeld);
        assert_eq!(verdict_of(|found| found.bound("b", &[(1.1, 1.0)])), Verdict::NotHeld);
        assert_eq!(verdict_of(|found| found.bound("b", &[(1.0, 1.0)])), Verdict::Held);
        assert_eq!(verdict_of(|_| ()), Verdict::Undecided);
    }

    #[test]
    fn numbers_keep_four_digits() {
        let shown = [0.0, 0.012_341, 1.234_56, 98.765, 4321.4, 1.5e-7].map(number);
        assert_eq!(shown, ["0", "0.01234", "1.235", "98.77", "4321", "1.50e−7"]);
    }
}

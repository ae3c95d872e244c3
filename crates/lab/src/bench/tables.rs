//! The tables of a report: text for a terminal, or a page.

use super::report::{Apart, PriceRow, Report, Row, SideRow, Spread, Unit};
use std::fmt::Write as _;

/// What stands where there is nothing to say.
const NOTHING: &str = "·";

/// Rows of words under a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&word| word.to_owned()).collect(), rows: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns side by side.
    pub(super) fn text(&self) -> String {
        let lines = || [&self.head].into_iter().chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let cells =
                line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = vec!["---".to_owned(); self.head.len()];
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.head) + &line(&rule) + &rows
    }
}

/// What two threads must give against one, and steps of the rate of a product.
const THREAD_GAIN: f64 = 1.85;
const STEP_SHARE: f64 = 0.8;

/// A ratio, what must be reached and whether it is.
fn judged(ratio: f64, sign: &str, target: Option<f64>, reached: Option<bool>) -> String {
    match (target, reached) {
        (Some(target), Some(true)) => format!("{ratio:.2} ({sign} {target}: reached)"),
        (Some(target), _) => format!("{ratio:.2} ({sign} {target}: MISSED)"),
        _ => format!("{ratio:.2}"),
    }
}

fn seconds(value: f64) -> String {
    match value {
        value if value >= 10.0 => format!("{value:.1} s"),
        value if value >= 1.0 => format!("{value:.2} s"),
        value if value >= 1e-3 => format!("{:.2} ms", value * 1e3),
        value => format!("{:.1} µs", value * 1e6),
    }
}

fn bytes(value: f64) -> String {
    format!("{:.1} MiB", value / f64::from(1 << 20))
}

/// The middle and the quarters around it.
fn spread(spread: &Spread, show: fn(f64) -> String) -> String {
    let Spread { median, lower, upper, runs } = *spread;
    format!("{} ({} – {}, {runs})", show(median), show(lower), show(upper))
}

/// A row in short, for those who wait for the others.
pub(super) fn line(row: &Row) -> String {
    let variants = row
        .variants
        .iter()
        .map(|variant| format!(", {} {:.2}", variant.variant, variant.ratio));
    format!("{}: {}{}", row.work, seconds(row.seconds.median), variants.collect::<String>())
}

/// The same for a row about the price of in-context learning.
pub(super) fn price_line(row: &PriceRow) -> String {
    let ratios = row
        .ratios
        .iter()
        .map(|ratio| format!("{} / {} {:.2}", ratio.of, ratio.to, ratio.ratio.median));
    format!("{}: {}", row.work, ratios.collect::<Vec<_>>().join(", "))
}

/// Against the three ways in PyTorch.
pub(super) fn times(report: &Report) -> Table {
    let mut table = Table::new(&["work", "fewstep", "plain", "best Hugging Face", "expert"]);
    for row in &report.rows {
        let mut cells = vec![row.title.to_owned(), seconds(row.seconds.median)];
        for name in ["plain", "hugging-face", "expert"] {
            let found = row.variants.iter().find(|variant| variant.variant == name);
            cells.push(found.map_or(NOTHING.to_owned(), |variant| {
                judged(variant.ratio, "≥", variant.target, variant.reached)
            }));
        }
        table.rows.push(cells);
    }
    table
}

/// Against the three ways in PyTorch.
pub(super) fn memory(report: &Report) -> Table {
    let mut table = Table::new(&["work", "fewstep", "plain", "best Hugging Face", "expert"]);
    for row in &report.memory {
        let mut cells = vec![row.title.to_owned(), bytes(row.bytes.median)];
        for name in ["plain", "hugging-face", "expert"] {
            let found = row.variants.iter().find(|variant| variant.variant == name);
            cells.push(found.map_or(NOTHING.to_owned(), |variant| {
                judged(variant.ratio, "≤", variant.target, variant.reached)
            }));
        }
        table.rows.push(cells);
    }
    table
}

/// What answers take against a plain forward pass, and what that takes against llama.cpp.
pub(super) fn ratios(report: &Report) -> Table {
    let mut table =
        Table::new(&["work", "what", "ratio", "threads", "found", "quarters, rounds"]);
    for row in &report.prices {
        for found in &row.ratios {
            let Spread { median, lower, upper, runs } = found.ratio;
            table.rows.push(vec![
                row.work.clone(),
                row.title.to_owned(),
                format!("{} / {}", found.of, found.to),
                found.threads.to_string(),
                judged(median, found.sign.unwrap_or_default(), found.target, found.reached),
                format!("{lower:.2} – {upper:.2}, {runs}"),
            ]);
        }
    }
    table
}

/// Who did it, and how far that is from what this engine does.
fn besides(side: &SideRow) -> String {
    let kernels = |apart: &Apart| apart.kernels.map(|found| format!(", kernels {found:.1e}"));
    let apart = side.apart.as_ref().map(|apart| {
        let kernels = kernels(apart).unwrap_or_default();
        format!("predictions {:.1e}{kernels} apart", apart.predictions)
    });
    let all: Vec<String> = side.by.iter().cloned().chain(apart).collect();
    word((!all.is_empty()).then(|| all.join("; ")))
}

/// What each side of these ratios took.
pub(super) fn sides(report: &Report) -> Table {
    let mut table = Table::new(&[
        "work",
        "tokens of the prompt",
        "side",
        "threads",
        "each (quarters, rounds)",
        "besides",
    ]);
    for row in &report.prices {
        for found in &row.sides {
            let show = match found.unit {
                Unit::Seconds => seconds,
                Unit::Bytes => bytes,
            };
            table.rows.push(vec![
                row.work.clone(),
                row.tokens.to_string(),
                found.side.to_owned(),
                found.threads.to_string(),
                spread(&found.taken, show),
                besides(found),
            ]);
        }
    }
    table
}

/// Threads, rates and counts.
pub(super) fn engine(report: &Report) -> Table {
    let mut table = Table::new(&[
        "work",
        "per task (quarters, runs)",
        "one thread",
        "gain of threads",
        "GFLOP/s",
        "of a product",
        "GFLOP/s in steps",
        "of a product",
        "operations of plain",
    ]);
    let of_product = |rate: f64| report.product_rate.map(|product| rate / product);
    let at_least = |value: f64, target: f64| {
        let target = (!report.quick).then_some(target);
        judged(value, "≥", target, target.map(|target| value >= target))
    };
    for row in &report.rows {
        table.rows.push(vec![
            row.work.clone(),
            spread(&row.seconds, seconds),
            spread(&row.one_thread, seconds),
            at_least(row.thread_gain, THREAD_GAIN),
            format!("{:.1}", row.rate / 1e9),
            word(of_product(row.rate).map(|share| format!("{share:.2}"))),
            word(row.step_rate.map(|rate| format!("{:.1}", rate / 1e9))),
            word(row.step_rate.and_then(of_product).map(|share| at_least(share, STEP_SHARE))),
            format!("{:.3}", row.operations / row.plain_operations),
        ]);
    }
    table
}

/// Operations of a way in PyTorch, and how many times ours: how much longer it would take if both
/// did as many in a second.
fn counts(theirs: Option<f64>, own: f64) -> [String; 2] {
    let text =
        |digits: usize, unit: f64| theirs.map(|count| format!("{:.digits$}", count / unit));
    [word(text(1, 1e9)), word(text(2, own))]
}

fn word(value: Option<String>) -> String {
    value.unwrap_or_else(|| NOTHING.to_owned())
}

/// One process with all threads, and several with one; or memory.
pub(super) fn settings(report: &Report) -> Table {
    let mut table = Table::new(&[
        "work",
        "variant",
        "one process (quarters, runs)",
        "several processes",
        "against fewstep",
        "GFLOP",
        "at equal rates",
    ]);
    for row in &report.rows {
        for variant in &row.variants {
            let [count, share] = counts(variant.operations, row.operations);
            table.rows.push(vec![
                row.work.clone(),
                variant.variant.to_owned(),
                spread(&variant.together, seconds),
                variant.apart.as_ref().map_or_else(
                    || format!("not run: counted as {} times as fast", report.threads),
                    |apart| spread(apart, seconds),
                ),
                format!("{:.2}", variant.ratio),
                count,
                share,
            ]);
        }
    }
    for row in &report.memory {
        let own = (row.work.clone(), "fewstep", row.bytes, row.before);
        let others = row
            .variants
            .iter()
            .map(|variant| (row.work.clone(), variant.variant, variant.bytes, variant.before));
        for (work, variant, peak, before) in [own].into_iter().chain(others) {
            let standing = bytes(before as f64 - row.weights as f64);
            table.rows.push(vec![
                work,
                variant.to_owned(),
                spread(&peak, bytes),
                format!("{standing} besides the weights before"),
                NOTHING.to_owned(),
                NOTHING.to_owned(),
                NOTHING.to_owned(),
            ]);
        }
    }
    table
}

/// How far both sides are apart.
pub(super) fn agreement(report: &Report) -> Table {
    let mut table = Table::new(&[
        "work",
        "variant",
        "predictions",
        "kernels",
        "adapted",
        "of the change",
        "horizon",
    ]);
    let share = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |v| format!("{v:.1e}"));
    for row in &report.rows {
        for variant in &row.variants {
            let found = &variant.agreement;
            table.rows.push(vec![
                row.work.clone(),
                variant.variant.to_owned(),
                share(Some(found.predictions)),
                share(found.kernels),
                share(found.adapted),
                share(found.adapted_of_change),
                found.horizon.map_or(NOTHING.to_owned(), |horizon| horizon.to_string()),
            ]);
        }
    }
    table
}

/// How time and memory grow.
pub(super) fn growth(report: &Report) -> Table {
    let mut table = Table::new(&[
        "against",
        "from",
        "to",
        "power of time",
        "power of memory",
        "steps, of distinct tokens",
        "file",
    ]);
    let power = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |v| format!("{v:.2}"));
    for curve in &report.curves {
        let end = |point: Option<&super::curves::Measured>| {
            point.map_or(NOTHING.to_owned(), |point| {
                format!("{}: {}", point.size, seconds(point.seconds))
            })
        };
        table.rows.push(vec![
            curve.title(),
            end(curve.points.first()),
            end(curve.points.last()),
            power(curve.time_power),
            power(curve.memory_power),
            power(curve.step_power),
            format!("{}.svg", curve.file),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_same_cells_in_both_forms() {
        let mut table = Table::new(&["work", "time"]);
        table.rows.push(vec!["… + 8".to_owned(), "1 ms".to_owned()]);
        assert_eq!(table.text(), "work   time\n… + 8  1 ms\n");
        assert_eq!(table.markdown(), "| work | time |\n| --- | --- |\n| … + 8 | 1 ms |\n");
    }

    #[test]
    fn what_others_found_is_written_beside_who_did_it() {
        let taken = Spread { median: 1.0, lower: 1.0, upper: 1.0, runs: 1 };
        let apart = Apart { predictions: 2e-6, kernels: Some(3e-5) };
        let mut side = SideRow {
            side: "PyTorch",
            threads: 1,
            unit: Unit::Seconds,
            taken,
            by: Some("PyTorch 2".to_owned()),
            apart: Some(apart),
        };
        assert_eq!(besides(&side), "PyTorch 2; predictions 2.0e-6, kernels 3.0e-5 apart");
        side.apart = Some(Apart { kernels: None, ..apart });
        assert_eq!(besides(&side), "PyTorch 2; predictions 2.0e-6 apart");
        (side.by, side.apart) = (None, None);
        assert_eq!(besides(&side), NOTHING);
        let farther = apart.worst(Apart { predictions: 1e-4, kernels: Some(1e-6) });
        assert_eq!(farther, Apart { predictions: 1e-4, kernels: Some(3e-5) });
    }

    #[test]
    fn counts_are_written_beside_what_they_are_of_ours() {
        assert_eq!(counts(Some(3e9), 2e9), ["3.0", "1.50"]);
        assert_eq!(counts(None, 2e9), [NOTHING; 2]);
    }

    #[test]
    fn times_are_written_with_their_units() {
        let shown = [12.34, 1.234, 0.012_34, 12.34e-6].map(seconds);
        assert_eq!(shown, ["12.3 s", "1.23 s", "12.34 ms", "12.3 µs"]);
        assert_eq!(judged(4.0, "≥", Some(5.0), Some(false)), "4.00 (≥ 5: MISSED)");
        assert_eq!(judged(0.2, "≤", Some(0.25), Some(true)), "0.20 (≤ 0.25: reached)");
    }
}

//! What a run found, as numbers and as tables.

use super::agreement::Agreement;
use super::curves::Curve;
use super::machine::Machine;
use super::tables::Table;
use serde::Serialize;

/// The middle of several runs, with the quarters around it.
///
/// # Examples
///
/// ```
/// use fewstep::bench::Spread;
///
/// let spread = Spread::of(&[3.0, 1.0, 2.0, 5.0, 4.0]).expect("there are runs");
/// assert_eq!((spread.lower, spread.median, spread.upper), (2.0, 3.0, 4.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the runs were under it.
    pub median: f64,
    /// A quarter was under it.
    pub lower: f64,
    /// A quarter was over it.
    pub upper: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Spread {
    /// Of some runs, unless there are none.
    #[must_use]
    pub fn of(runs: &[f64]) -> Option<Self> {
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        // Between the two runs next to it, in proportion.
        let at = |quarter: usize| {
            let (index, part) = (last * quarter / 4, (last * quarter % 4) as f64 / 4.0);
            sorted[index] + part * (sorted[(index + 1).min(last)] - sorted[index])
        };
        Some(Self { median: at(2), lower: at(1), upper: at(3), runs: runs.len() })
    }

    pub(super) fn divided(self, units: f64) -> Self {
        let Self { median, lower, upper, runs } = self;
        Self { median: median / units, lower: lower / units, upper: upper / units, runs }
    }
}

/// Everything that a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it was measured on.
    pub machine: Machine,
    /// This program.
    pub version: &'static str,
    /// The version of PyTorch, if there was one.
    pub torch: Option<String>,
    /// Rounds that were asked for; what takes over a minute runs once.
    pub rounds: usize,
    /// Tasks at the same time.
    pub threads: usize,
    /// Whether shapes were tiny: such times say nothing.
    pub quick: bool,
    /// Operations per second of a plain product by PyTorch on all threads, the better of one
    /// process and several.
    pub product_rate: Option<f64>,
    /// Times.
    pub rows: Vec<Row>,
    /// Memory.
    pub memory: Vec<MemoryRow>,
    /// How time and memory grow.
    pub curves: Vec<Curve>,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// A work and how long it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub work: String,
    /// What it is.
    pub title: &'static str,
    /// Seconds per task with all threads busy, each with tasks of its own.
    pub seconds: Spread,
    /// Seconds per task on one thread.
    pub one_thread: Spread,
    /// Operations per task.
    pub operations: f64,
    /// Operations of the plain way per task.
    pub plain_operations: f64,
    /// Seconds per task that the steps took by themselves, and their operations.
    pub steps: Option<(Spread, f64)>,
    /// The ways in PyTorch.
    pub variants: Vec<VariantRow>,
}

impl Row {
    /// How many times as much all threads do as one.
    #[must_use]
    pub fn thread_gain(&self) -> f64 {
        self.one_thread.median / self.seconds.median
    }

    /// Operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.operations / self.seconds.median
    }

    /// Operations per second during the steps.
    #[must_use]
    pub fn step_rate(&self) -> Option<f64> {
        self.steps.map(|(seconds, operations)| operations / seconds.median)
    }
}

/// A way in PyTorch and how long it takes.
#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    /// Its name.
    pub variant: &'static str,
    /// Seconds per task of one process with all threads.
    pub together: Spread,
    /// Seconds per task of several processes with one thread each, at the same time.
    pub apart: Spread,
    /// The better of the two medians against ours.
    pub ratio: f64,
    /// What must be reached.
    pub target: Option<f64>,
    /// Whether both sides found the same.
    pub agreement: Agreement,
}

impl VariantRow {
    /// Whether it is reached, if something must be.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        self.target.map(|target| self.ratio >= target)
    }
}

/// A work and how much memory it takes.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryRow {
    /// Its name.
    pub work: String,
    /// What it is.
    pub title: &'static str,
    /// Peak bytes above what is resident before.
    pub bytes: Spread,
    /// Resident before, with the weights and all that is made once.
    pub before: u64,
    /// The bytes of the weights.
    pub weights: u64,
    /// The ways in PyTorch.
    pub variants: Vec<MemoryVariant>,
}

/// A way in PyTorch and how much memory it takes.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryVariant {
    /// Its name.
    pub variant: &'static str,
    /// Peak bytes above what is resident before.
    pub bytes: Spread,
    /// Resident before.
    pub before: u64,
    /// Ours against it.
    pub ratio: f64,
    /// What must be reached.
    pub target: Option<f64>,
}

impl MemoryVariant {
    /// Whether it is reached, if something must be.
    #[must_use]
    pub fn reached(&self) -> Option<bool> {
        self.target.map(|target| self.ratio <= target)
    }
}

impl Report {
    /// All as text for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        self.render(|table| table.text(), "")
    }

    /// All as a page.
    #[must_use]
    pub fn markdown(&self) -> String {
        format!("# `fewstep bench`\n\n{}", self.render(|table| table.markdown(), "## "))
    }

    fn render(&self, show: impl Fn(&Table) -> String, mark: &str) -> String {
        let mut text = self.about() + "\n";
        for (title, table) in self.tables().iter().filter(|(_, table)| !table.is_empty()) {
            text.push_str(&format!("\n{mark}{title}\n\n{}", show(table)));
        }
        for line in &self.skipped {
            text.push_str(&format!("\nskipped: {line}\n"));
        }
        text
    }

    /// On what and how it was measured.
    fn about(&self) -> String {
        let Machine { cpu, cores, memory, features, target } = &self.machine;
        let memory = memory.map_or(String::new(), |bytes| {
            format!(", {:.0} GiB", bytes as f64 / f64::from(1 << 30))
        });
        let torch = self.torch.as_ref().map_or_else(
            || "without PyTorch".to_owned(),
            |version| format!("PyTorch {version}"),
        );
        let quick = if self.quick { " Tiny shapes: these times say nothing." } else { "" };
        format!(
            "{cpu}, {cores} cores{memory}, {target} {}; fewstep {}, {torch}; {} rounds, {} threads.{quick}",
            features.join(" "),
            self.version,
            self.rounds,
            self.threads
        )
    }

    fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut all = vec![
            (
                "Time per task, and how many times as long PyTorch takes",
                super::tables::times(self),
            ),
            (
                "Peak memory above the weights, and its share of PyTorch's",
                super::tables::memory(self),
            ),
            ("The engine by itself", super::tables::engine(self)),
        ];
        if self.torch.is_some() {
            all.push(("PyTorch in both settings", super::tables::settings(self)));
            all.push((
                "How far both sides are apart, relative to the norm",
                super::tables::agreement(self),
            ));
        }
        all.push((
            "Growth: the power of the size that time and memory grow with",
            super::tables::growth(self),
        ));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_lie_between_runs() {
        let spread = Spread::of(&[1.0, 2.0]).unwrap();
        let expected = Spread { median: 1.5, lower: 1.25, upper: 1.75, runs: 2 };
        assert_eq!(spread, expected);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[7.0]).unwrap().upper.to_bits(), 7.0_f64.to_bits());
    }
}

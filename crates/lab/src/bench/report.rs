//! What a run found, as numbers and as tables.

use super::agreement::Agreement;
use super::curves::Curve;
use super::machine::Machine;
use super::tables::Table;
use serde::Serialize;

/// The middle of several runs, with the quarters around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of the runs were under it.
    pub(crate) median: f64,
    /// A quarter was under it.
    pub(crate) lower: f64,
    /// A quarter was over it.
    pub(crate) upper: f64,
    /// The number of runs.
    pub(crate) runs: usize,
}

impl Spread {
    /// Of some runs, unless there are none.
    pub(crate) fn of(runs: &[f64]) -> Option<Self> {
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
pub(crate) struct Report {
    /// What it was measured on.
    pub(crate) machine: Machine,
    /// This program.
    pub(crate) version: &'static str,
    /// The version of PyTorch, if there was one.
    pub(crate) torch: Option<String>,
    /// Rounds that were asked for; what takes over a minute runs once.
    pub(crate) rounds: usize,
    /// Tasks at the same time.
    pub(crate) threads: usize,
    /// Whether shapes were tiny: such times say nothing.
    pub(crate) quick: bool,
    /// Operations per second of a plain product by PyTorch on all threads, the better of one
    /// process and several.
    pub(crate) product_rate: Option<f64>,
    /// Times.
    pub(crate) rows: Vec<Row>,
    /// Memory.
    pub(crate) memory: Vec<MemoryRow>,
    /// The price of in-context learning.
    pub(crate) prices: Vec<PriceRow>,
    /// How time and memory grow.
    pub(crate) curves: Vec<Curve>,
    /// What was left out, and why.
    pub(crate) skipped: Vec<String>,
    /// Whether the run was stopped: then the works before are here, and no others.
    pub(crate) interrupted: bool,
}

/// A work and how long it takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) work: String,
    /// What it is.
    pub(crate) title: &'static str,
    /// Seconds per task with all threads busy, each with tasks of its own.
    pub(crate) seconds: Spread,
    /// Seconds per task on one thread.
    pub(crate) one_thread: Spread,
    /// Operations per task.
    pub(crate) operations: f64,
    /// Operations of the plain way per task.
    pub(crate) plain_operations: f64,
    /// How many times as much all threads do as one.
    pub(crate) thread_gain: f64,
    /// Operations per second.
    pub(crate) rate: f64,
    /// Operations per second during the steps.
    pub(crate) step_rate: Option<f64>,
    /// The ways in PyTorch.
    pub(crate) variants: Vec<VariantRow>,
}

/// A way in PyTorch and how long it takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct VariantRow {
    /// Its name.
    pub(crate) variant: &'static str,
    /// Seconds per task of one process with all threads.
    pub(crate) together: Spread,
    /// Seconds per task of several processes with one thread each, at the same time.
    pub(crate) apart: Option<Spread>,
    /// The better of the two medians against ours.
    pub(crate) ratio: f64,
    /// Operations per task as PyTorch counts them, unless that takes too long.
    pub(crate) operations: Option<f64>,
    /// What must be reached, and whether it is.
    pub(crate) target: Option<f64>,
    pub(crate) reached: Option<bool>,
    /// Whether both sides found the same.
    pub(crate) agreement: Agreement,
}

/// A work and how much memory it takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemoryRow {
    /// Its name.
    pub(crate) work: String,
    /// What it is.
    pub(crate) title: &'static str,
    /// Peak bytes above what is resident before.
    pub(crate) bytes: Spread,
    /// Resident before, with the weights and all that is made once.
    pub(crate) before: u64,
    /// The bytes of the weights.
    pub(crate) weights: u64,
    /// The ways in PyTorch.
    pub(crate) variants: Vec<MemoryVariant>,
}

/// A way in PyTorch and how much memory it takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemoryVariant {
    /// Its name.
    pub(crate) variant: &'static str,
    /// Peak bytes above what is resident before.
    pub(crate) bytes: Spread,
    /// Resident before.
    pub(crate) before: u64,
    /// Ours against it.
    pub(crate) ratio: f64,
    /// What must be reached, and whether it is.
    pub(crate) target: Option<f64>,
    pub(crate) reached: Option<bool>,
}

/// A row about the price of in-context learning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PriceRow {
    /// Its name.
    pub(crate) work: String,
    /// What it is.
    pub(crate) title: &'static str,
    /// The tokens of the query's prompt.
    pub(crate) tokens: usize,
    /// What was measured.
    pub(crate) sides: Vec<SideRow>,
    /// What one side took against another.
    pub(crate) ratios: Vec<RatioRow>,
}

/// A side and what it took.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SideRow {
    /// Its name.
    pub(crate) side: &'static str,
    /// Threads of one task.
    pub(crate) threads: usize,
    /// Of what it took.
    pub(crate) unit: Unit,
    /// Per task or query.
    pub(crate) taken: Spread,
    /// Who did it and how, if it was not this engine.
    pub(crate) by: Option<String>,
    /// How far what it found is from what this engine did.
    pub(crate) apart: Option<Apart>,
}

/// How far numbers are apart, relative to their norm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Apart {
    /// Predictions without an update.
    pub(crate) predictions: f64,
    /// The block whose kernel differs most, where there are kernels.
    pub(crate) kernels: Option<f64>,
}

impl Apart {
    /// What is farther of each.
    pub(super) fn worst(self, other: Self) -> Self {
        let kernels = [self.kernels, other.kernels].into_iter().flatten();
        Self {
            predictions: self.predictions.max(other.predictions),
            kernels: kernels.reduce(f64::max),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Time.
    Seconds,
    /// Peak memory above what is resident before.
    Bytes,
}

/// What one side took against another, in the same round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RatioRow {
    /// The side above the line.
    pub(crate) of: &'static str,
    /// The side below it.
    pub(crate) to: &'static str,
    /// Threads of one task.
    pub(crate) threads: usize,
    /// Over rounds.
    pub(crate) ratio: Spread,
    /// Whether it must be at least or at most the target, as a sign.
    pub(crate) sign: Option<&'static str>,
    /// What must be reached, and whether it is.
    pub(crate) target: Option<f64>,
    pub(crate) reached: Option<bool>,
}

impl Report {
    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.memory.is_empty()
            && self.prices.is_empty()
            && self.curves.is_empty()
    }

    /// All as text for a terminal.
    pub(crate) fn text(&self) -> String {
        self.render(|table| table.text(), "")
    }

    /// All as a page.
    pub(crate) fn markdown(&self) -> String {
        format!("# `fewstep-lab bench`\n\n{}", self.render(|table| table.markdown(), "## "))
    }

    fn render(&self, show: impl Fn(&Table) -> String, mark: &str) -> String {
        let mut text = self.about() + "\n";
        for (title, table) in self.tables().iter().filter(|(_, table)| !table.is_empty()) {
            text.push_str(&format!("\n{mark}{title}\n\n{}", show(table)));
        }
        for line in &self.skipped {
            text.push_str(&format!("\nskipped: {line}\n"));
        }
        if self.interrupted {
            text.push_str("\nThe run was interrupted: what is not here was not measured.\n");
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
            "{cpu}, {cores} cores{memory}, {target} {}; fewstep {}, {torch}; rounds: {}, threads: \
             {}.{quick}",
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
            (
                "The price of in-context learning: ratios within a round",
                super::tables::ratios(self),
            ),
            ("What these ratios are made of", super::tables::sides(self)),
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

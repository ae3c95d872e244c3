//! What is written down of a task: all that the tables are made of, and no more.
//!
//! One JSON object per task. Predictions are kept, not errors, so that other losses can be taken
//! of them later.

use super::digit_shift::{Bayes, Regime};
use super::policies::PolicyOutcome;
use crate::error::Error;
use fewstep_core::{Answers, Block, Geometry};
use serde::{Deserialize, Serialize};

/// What came of a task: a line of a file of results.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::Line;
///
/// let failed: Line = serde_json::from_str(r#"{"task": 3, "error": "too long"}"#).unwrap();
/// assert_eq!(failed.task(), 3);
/// let json = r#"{"task": 4, "regime": "clean", "shift": 7, "target": 0.0,
///                "bayes": {"mean": 0.1, "variance": 0.01},
///                "heads": [{"method": "query-aware", "budget": 8,
///                           "query": [{"steps": 0.2, "linear": 0.3}],
///                           "fit": [{"steps": 0.05, "linear": 0.04}]}]}"#;
/// let Ok(Line::Measured(record)) = serde_json::from_str(json) else { panic!() };
/// assert_eq!((record.heads[0].method.title(), record.path), ("Query-Aware", None));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    /// It was measured.
    Measured(Box<Record>),
    /// It could not be.
    Failed(Failure),
}

/// Why a task could not be measured.
///
/// # Examples
///
/// See [`Line`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Its number.
    pub task: usize,
    /// What was wrong.
    pub error: String,
}

impl Line {
    /// The task's number.
    #[must_use]
    pub fn task(&self) -> usize {
        match self {
            Self::Measured(record) => record.task,
            Self::Failed(failure) => failure.task,
        }
    }
}

/// A measured task.
///
/// # Examples
///
/// See [`Line`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number.
    pub task: usize,
    /// Whether labels were replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regime: Option<Regime>,
    /// The hidden shift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<usize>,
    /// The value of the query's label.
    pub target: f64,
    /// The exact Bayes prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bayes: Option<Bayes>,
    /// Steps with all candidate blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<TaskPath>,
    /// Steps with chosen blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Choice>,
    /// All that rules may look at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// All that a rule may look at, and where steps led.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// `c`: the step size as a fraction of the largest stable one.
    pub step_scale: f64,
    /// The model's own prediction for the query.
    pub base: f64,
    /// One per example.
    pub residuals: Vec<f64>,
    /// The model's own predictions for the examples.
    pub predictions: Vec<f64>,
    /// The smallest and the largest value that a label stands for.
    pub labels: [f64; 2],
    /// For each example, the first that has the same answer; empty in runs that did not look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<usize>,
    /// The candidate blocks, in their order.
    pub blocks: Vec<SeenBlock>,
    /// Predictions for the query after `0, 1, …` steps in the model with all candidate blocks;
    /// empty if none were taken.
    pub steps: Vec<f64>,
    /// The same for each example, which steps have seen.
    pub examples: Vec<Vec<f32>>,
    /// Where whole policies led.
    #[serde(rename = "ways")]
    pub policies: Vec<PolicyOutcome>,
    /// Further queries on the same examples: residuals, kernels and updates are the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Further>,
}

/// A further query on the examples of a task.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Further {
    /// The value of its label.
    pub target: f64,
    /// The model's own prediction for it.
    pub base: f64,
    /// One number per example, for each of the candidate blocks.
    pub couplings: Vec<Vec<f32>>,
    /// At the query, one per candidate block.
    pub variances: Vec<f32>,
    /// Predictions after `0, 1, …` steps in the model with all candidate blocks; empty if none were
    /// taken.
    pub steps: Vec<f64>,
}

/// What a block does, in single precision, as it was computed.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenBlock {
    /// The lower half of its kernel with the diagonal, row by row.
    pub kernel: Vec<f32>,
    /// One number per example.
    pub coupling: Vec<f32>,
    /// At the query.
    pub variance: f32,
}

impl SeenBlock {
    /// What is kept of a block; without a query its coupling is 0.
    pub(crate) fn of(block: &Block) -> Self {
        let kernel = block.kernel();
        let lower = (0..kernel.rows()).flat_map(|row| kernel.row(row)[..=row].to_vec());
        let (coupling, variance) = match block.query() {
            Some(query) => (query.coupling.clone(), query.variance),
            None => (vec![0.0; kernel.rows()], 0.0),
        };
        Self {
            kernel: single(&lower.collect::<Vec<_>>()),
            coupling: single(&coupling),
            variance: single(&[variance])[0],
        }
    }

    /// What was kept, as a block.
    pub(crate) fn block(&self, name: String) -> Result<Block, Error> {
        let n = self.coupling.len();
        let place = |row: usize, column: usize| row * (row + 1) / 2 + column;
        let at = |row: usize, column: usize| {
            let value = self.kernel.get(place(row.max(column), row.min(column)));
            f64::from(value.copied().unwrap_or(f32::NAN))
        };
        let coupling = self.coupling.iter().copied().map(f64::from).collect();
        let rows = (0..n).map(|row| (0..n).map(|column| at(row, column)).collect());
        let block = Block::new(name, &rows.collect::<Vec<Vec<f64>>>())?;
        Ok(block.with_query(coupling, f64::from(self.variance))?)
    }
}

/// In single precision, as the model computes.
#[allow(clippy::cast_possible_truncation, reason = "they were computed in as few digits")]
pub(crate) fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

impl Trace {
    /// What was seen, as it is decided on.
    ///
    /// # Errors
    ///
    /// Those of [`Geometry::new`] for numbers that do not fit together.
    ///
    /// # Examples
    ///
    /// See [`Bench::trace`](super::measure::Bench::trace).
    pub fn geometry(&self) -> Result<Geometry, Error> {
        let blocks = self.blocks.iter().enumerate();
        let blocks = blocks.map(|(index, seen)| seen.block(index.to_string()));
        self.seeing(blocks.collect::<Result<_, _>>()?)
    }

    /// These blocks with the residuals and what is known of the answers.
    pub(crate) fn seeing(&self, blocks: Vec<Block>) -> Result<Geometry, Error> {
        let geometry = Geometry::new(self.residuals.clone(), blocks)?;
        if self.alike.is_empty() {
            return Ok(geometry);
        }
        let answers = Answers::new(self.alike.clone(), &self.predictions, self.labels)?;
        Ok(geometry.with_answers(answers)?)
    }

    /// The trace with one of the further queries in the place of its own, and the query's target;
    /// without what was seen of the examples on the way.
    pub(crate) fn asked_again(&self) -> impl Iterator<Item = (Self, f64)> {
        self.further.iter().enumerate().map(|(index, query)| {
            // What is missing in a damaged file is no coupling at all, which no kernel fits.
            let block = |(place, seen): (usize, &SeenBlock)| SeenBlock {
                kernel: seen.kernel.clone(),
                coupling: query.couplings.get(place).cloned().unwrap_or_default(),
                variance: query.variances.get(place).copied().unwrap_or(f32::NAN),
            };
            let trace = Self {
                step_scale: self.step_scale,
                base: query.base,
                residuals: self.residuals.clone(),
                predictions: self.predictions.clone(),
                labels: self.labels,
                alike: self.alike.clone(),
                blocks: self.blocks.iter().enumerate().map(block).collect(),
                steps: query.steps.clone(),
                examples: vec![],
                policies: self.policies.iter().filter_map(|p| p.asked_again(index)).collect(),
                further: vec![],
            };
            (trace, query.target)
        })
    }
}

/// A prediction by steps in the model, unless none were taken, and by the linearised model.
///
/// # Examples
///
/// See [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Both {
    /// In the model.
    pub steps: Option<f64>,
    /// By the linearised model.
    pub linear: f64,
}

/// Predictions for the query after `0, 1, …` steps with all candidate blocks.
///
/// # Examples
///
/// See [`Bench::path`](super::measure::Bench::path).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskPath {
    /// After steps in the model; empty if none were taken.
    pub steps: Vec<f64>,
    /// By the linearised model.
    pub linear: Vec<f64>,
    /// The mean squared error on the prompt after steps in the model.
    pub fit: Vec<f64>,
    /// What the rules choose.
    pub horizons: Horizons,
    /// Under the average over horizons, as one update.
    pub gibbs: Both,
    /// Under the posterior mean of fitted signal and noise, as one update.
    pub bayes_filter: Both,
}

/// How many steps each rule asks for.
///
/// # Examples
///
/// See [`Bench::path`](super::measure::Bench::path).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Horizons {
    /// Evidence, noise variance profiled.
    pub evidence: u32,
    /// Evidence, noise variance `‖r‖²/n`.
    pub evidence_fixed: u32,
    /// Evidence, noise variance of the two-parameter fit.
    pub evidence_fitted: u32,
    /// The plug-in Bayes gap at the query.
    pub bayes_gap: u32,
    /// The trimmed leave-one-out risk.
    pub leave_one_out: u32,
    /// The mean of the Gibbs posterior.
    pub gibbs_mean: f64,
}

/// How blocks are chosen.
///
/// # Examples
///
/// See [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The greedy rule of App. I.
    QueryAware,
    /// The quadratic form of Sec. 8.2.
    QueryScore,
    /// The largest trace scores.
    TraceTop,
    /// The smallest trace scores.
    TraceBottom,
    /// Blocks drawn at random, several times.
    Random,
    /// Every candidate block.
    All,
}

impl Method {
    /// All that choose within a budget.
    pub const CHOOSING: [Self; 5] =
        [Self::QueryAware, Self::QueryScore, Self::TraceTop, Self::TraceBottom, Self::Random];

    /// As it is called in tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::QueryAware => "Query-Aware",
            Self::QueryScore => "Query score",
            Self::TraceTop => "Trace-TopK",
            Self::TraceBottom => "Trace-BottomK",
            Self::Random => "Random",
            Self::All => "all candidate blocks",
        }
    }
}

/// What eight steps with some blocks led to, for each draw of them.
///
/// # Examples
///
/// See [`Line`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// How they were chosen.
    pub method: Method,
    /// How many.
    pub budget: usize,
    /// Predictions for the query.
    pub query: Vec<Both>,
    /// Mean squared errors on the prompt.
    pub fit: Vec<Both>,
}

//! What is kept of a prompt: scores, probabilities and weights, and no word of it.
//!
//! In: nothing; [`measure`](super::measure) fills it. Out: [`PromptLine`], one line of JSON.

use super::draw::PromptKey;
use serde::{Deserialize, Serialize};

/// Probabilities or scores, one row per prediction and a column per label.
pub(super) type Rows = Vec<Vec<f64>>;

/// The label scores of some predictions behind both base prompts.
///
/// # Examples
///
/// ```
/// assert!(fewstep_lab::reproduce::classes::Scores::default().zero_shot.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// Behind the examples; an example behind the others.
    pub few_shot: Vec<Vec<f64>>,
    /// Behind none.
    pub zero_shot: Vec<Vec<f64>>,
}

/// Everything that was found out about a prompt.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptRecord {
    /// Which prompt it is.
    pub key: PromptKey,
    /// The number of labels.
    pub classes: usize,
    /// The number of examples that the prompt shows; the others are learnt from alone.
    pub shown: usize,
    /// The label of each example.
    pub answers: Vec<usize>,
    /// The label of each query; none if it is out of scope.
    pub targets: Vec<Option<usize>>,
    /// Scores of the examples, each left out.
    pub examples: Scores,
    /// Scores of the queries.
    pub queries: Scores,
    /// Scores of inputs without content.
    pub content_free: Scores,
    /// Probabilities of the queries by a linear probe; none without hidden states of one token.
    pub probe: Option<Vec<Vec<f64>>>,
    /// What each judged policy decided.
    pub policies: Vec<PolicyRecord>,
    /// Every arm at every number of steps.
    pub candidates: Vec<CandidateRecord>,
    /// Seconds on one thread.
    pub seconds: Seconds,
    /// Passes through the model.
    pub passes: Passes,
}

/// Seconds on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seconds {
    /// Observing the examples and the first query for all judged policies together.
    pub observing: f64,
    /// Asking the other queries.
    pub asking: f64,
    /// Observing for the default policy alone; only of some prompts.
    pub default_observing: Option<f64>,
}

/// How much of the model was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passes {
    /// Sequences that went forward.
    pub forward: u64,
    /// Tokens that went forward.
    pub forward_tokens: u64,
    /// Tokens that went backward.
    pub backward_tokens: u64,
}

/// What a policy decided and answered.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRecord {
    /// Its name.
    pub name: String,
    /// Why it could not be followed; everything else is then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The probabilities of every query.
    pub probabilities: Vec<Vec<f64>>,
    /// The set of labels of every query.
    pub sets: Vec<Vec<usize>>,
    /// The abstention score of every query.
    pub abstention: Vec<f64>,
    /// The weight on updating.
    pub weight: f64,
    /// Mean leave-one-out log-loss of in-context learning and of the average.
    pub leave_one_out: [f64; 2],
    /// The weight of the zero-shot prompt left alone.
    pub zero_shot: f64,
    /// Its arms.
    pub arms: Vec<ArmRecord>,
    /// Seconds on one thread that deciding took.
    pub seconds: f64,
}

impl PolicyRecord {
    /// A policy that could not be followed.
    pub(super) fn refused(name: &str, problem: String) -> Self {
        Self {
            name: name.to_owned(),
            refused: Some(problem),
            probabilities: vec![],
            sets: vec![],
            abstention: vec![],
            weight: 0.0,
            leave_one_out: [0.0; 2],
            zero_shot: 0.0,
            arms: vec![],
            seconds: 0.0,
        }
    }
}

/// What a policy thought of an arm.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmRecord {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// The mean leave-one-out log-loss of its best number of steps.
    pub best: Option<f64>,
    /// That of the average over its numbers of steps.
    pub average: Option<f64>,
}

/// One arm at one number of steps, by itself.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateRecord {
    /// The arm.
    pub arm: String,
    /// The number of steps.
    pub horizon: u32,
    /// The mean leave-one-out log-loss.
    pub loss: f64,
    /// The probability that each held-out example's label was given.
    pub held_out: Vec<f64>,
    /// The probabilities of every query.
    pub probabilities: Vec<Vec<f64>>,
}

/// A line of results.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PromptLine {
    /// A prompt that was measured.
    Measured(Box<PromptRecord>),
    /// A prompt that was refused.
    Failed {
        /// Which one.
        key: PromptKey,
        /// What was wrong.
        error: String,
    },
}

impl PromptLine {
    /// Which prompt it is about.
    #[must_use]
    pub fn key(&self) -> PromptKey {
        match self {
            Self::Measured(record) => record.key,
            Self::Failed { key, .. } => *key,
        }
    }

    /// The same without what differs from run to run: its times.
    pub(super) fn timeless(&self) -> Self {
        let mut line = self.clone();
        if let Self::Measured(record) = &mut line {
            record.seconds = Seconds::default();
            record.policies.iter_mut().for_each(|policy| policy.seconds = 0.0);
        }
        line
    }
}

/// Digits behind the point that are kept of probabilities: a tenth of the least that losses tell apart.
const DIGITS: f64 = 1e7;

/// A number with the digits that are kept.
pub(super) fn kept(number: f64) -> f64 {
    (number * DIGITS).round() / DIGITS
}

/// Rows with the digits that are kept.
pub(super) fn kept_rows<'a>(rows: impl IntoIterator<Item = &'a [f64]>) -> Rows {
    rows.into_iter().map(|row| row.iter().map(|&number| kept(number)).collect()).collect()
}

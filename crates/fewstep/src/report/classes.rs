//! The report of a task of classes: the same questions as a [`Report`](super::Report) answers, with
//! probabilities of labels and averages over arms.
//!
//! In: what was observed, decided and predicted. Out: [`ClassReport`], one JSON object per query.
//! Nothing is computed here but sums of weights.

use super::{LeaveOneOut, Lines, Passes, Written};
use fewstep_core::{
    ArmBlocks, ArmDecision, ArmPath, Base, ClassDecision, ClassGeometry, ClassPrediction,
    ClassRule, Policy,
};
use fewstep_engine::{PassCount, Task};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is known about one query of a task of classes.
///
/// # Examples
///
/// See [`Predictor::answers`](crate::Predictor::answers).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// The task's id.
    pub id: String,
    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// The policy that decided, whole.
    pub policy: Policy,
    /// What is said for the query.
    pub prediction: Probabilities,
    /// Whether to adapt.
    pub when: ClassWhen,
    /// How many steps.
    pub how_far: ClassHowFar,
    /// Which arms.
    pub which: Arms,
    /// What the decision rests on.
    pub geometry: ClassBasis,
    /// What it cost.
    pub passes: Passes,
}

/// Probabilities of the labels of a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probabilities {
    /// The texts of the labels, in the order of the task.
    pub labels: Vec<String>,
    /// Their probabilities by in-context learning alone.
    pub icl: Vec<f64>,
    /// Their probabilities by the average over arms and numbers of steps. The linearised model gives
    /// them, so `decide` says them too.
    pub adapted: Vec<f64>,
    /// The most probable label of the average.
    pub label: String,
    /// Labels that hold the answer with `confidence`, most probable first.
    pub set: Vec<String>,
    /// How often such a set is meant to hold the answer.
    pub confidence: f64,
    /// From 0 to 1: how unusual it would be, among the examples, for an answer to be no more
    /// probable than the most probable label here.
    pub abstention: f64,
    /// `query.y`, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Whether to adapt, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassWhen {
    /// The answer: false where more weight is on leaving in-context learning alone than on everything
    /// else. The prediction is the average of both all the same.
    pub adapt: bool,
    /// Why, in words.
    pub reason: &'static str,
    /// The weight on everything but leaving in-context learning alone.
    pub weight: f64,
    /// Mean leave-one-out log-losses.
    pub leave_one_out: LeaveOneOut,
}

/// How many steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassHowFar {
    /// What weighs the numbers of steps of an arm among themselves.
    pub rule: ClassRule,
    /// The most likely number of steps over all arms; 0 stands for prompts that are left alone.
    pub horizon: u32,
    /// The mean number of steps over all arms.
    pub mean_horizon: f64,
    /// The numbers of steps, from 0; in JSON with `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub horizons: Vec<u32>,
    /// The weight of each, summed over the arms; in JSON with `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub posterior: Vec<f64>,
}

/// The arms of the average.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arms {
    /// Always `arms`: an average, not a choice of blocks.
    pub rule: &'static str,
    /// Every arm of the policy, in its order.
    pub arms: Vec<Arm>,
    /// The zero-shot prompt left alone, if it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zero_shot: Option<ZeroShot>,
}

/// A base prompt with the blocks that are updated behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arm {
    /// Its name, such as `few-shot bias`.
    pub name: String,
    /// The prompt that it starts from.
    pub base: Base,
    /// The names of its blocks.
    pub blocks: Vec<String>,
    /// Its share of the average.
    pub weight: f64,
    /// Its mean leave-one-out log-losses, if it takes part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leave_one_out: Option<ArmLosses>,
    /// Why it takes no part, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    /// Its descents, one per depth and step size; in JSON with `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<Descent>,
}

/// Mean leave-one-out log-losses of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ArmLosses {
    /// Of its best number of steps.
    pub best: f64,
    /// Of the average over its numbers of steps.
    pub average: f64,
}

/// One descent of an arm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Descent {
    /// The number of layers whose blocks are updated.
    pub layers: usize,
    /// The step size as a fraction of the largest stable one.
    pub step_scale: f64,
    /// `ρ`: the step size.
    pub step_size: f64,
    /// The numbers of steps.
    pub horizons: Vec<u32>,
    /// The mean leave-one-out log-loss at each of them.
    pub losses: Vec<f64>,
    /// The log-evidence of each of them, if that is the rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<f64>,
    /// The weight of each of them in the whole average.
    pub weights: Vec<f64>,
}

/// The zero-shot prompt, left alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ZeroShot {
    /// Its mean log-loss on the examples.
    pub loss: f64,
    /// Its share of the average.
    pub weight: f64,
}

/// What the decision rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassBasis {
    /// The number of examples that are learnt from.
    pub examples: usize,
    /// The number of examples that the prompt shows, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<usize>,
    /// The number of folds in which examples were held out: one per example where each was alone.
    pub folds: usize,
    /// The fold of each example; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_of: Option<Vec<usize>>,
    /// The position of each example's label; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<usize>>,
    /// Leave-one-out probabilities of in-context learning alone, one row per example; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icl: Option<Vec<Vec<f64>>>,
    /// Leave-one-out probabilities of the average; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probabilities: Option<Vec<Vec<f64>>>,
}

/// What was observed of the examples of a task of classes, and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct ClassesSeen<'a> {
    /// The examples in prompt space.
    pub geometry: &'a ClassGeometry,
    /// The blocks of each arm of the policy.
    pub arms: &'a [ArmBlocks],
    /// How many examples the prompt shows.
    pub shown: usize,
    /// What this query cost, with the examples if they were observed for it.
    pub passes: PassCount,
}

impl ClassReport {
    /// The report of a task's query. `full` adds the matrices.
    #[must_use]
    pub fn new(
        task: &Task,
        seen: &ClassesSeen<'_>,
        decision: &ClassDecision,
        prediction: &ClassPrediction,
        full: bool,
    ) -> Self {
        let arm =
            |(arm, blocks): (&ArmDecision, &ArmBlocks)| arm_of(arm, blocks, seen.geometry);
        Self {
            id: task.id.clone(),
            query: None,
            policy: decision.policy.clone(),
            prediction: probabilities(task, decision, prediction),
            when: when(decision),
            how_far: how_far(decision),
            which: Arms {
                rule: "arms",
                arms: decision.arms.iter().zip(seen.arms).map(arm).collect(),
                zero_shot: decision
                    .zero_shot
                    .map(|alone| ZeroShot { loss: alone.loss, weight: alone.weight }),
            },
            geometry: basis(seen, decision, full),
            passes: seen.passes.into(),
        }
    }

    /// The same report of one of several queries.
    #[must_use]
    pub(crate) fn asked(mut self, query: Option<usize>) -> Self {
        self.query = query;
        self
    }

    /// The report as one line of JSON, without a line break; `full` adds the descents of every arm,
    /// the weights of the numbers of steps and the matrices, as far as the report holds them.
    #[must_use]
    pub fn to_json(&self, full: bool) -> String {
        let lines = Lines::of_classes(self);
        let written = |report: &Self| {
            let written = Written { report, lines: lines.clone() };
            serde_json::to_string(&written).expect("every field can be written")
        };
        if full {
            return written(self);
        }
        let mut brief = self.clone();
        brief.which.arms.iter_mut().for_each(|arm| arm.paths.clear());
        brief.how_far.horizons.clear();
        brief.how_far.posterior.clear();
        let basis = &mut brief.geometry;
        (basis.fold_of, basis.answers) = (None, None);
        (basis.icl, basis.probabilities) = (None, None);
        written(&brief)
    }
}

impl Probabilities {
    /// The position of the answer among the labels, if it is known.
    #[must_use]
    pub fn answer(&self) -> Option<usize> {
        let target = self.target.as_ref()?;
        self.labels.iter().position(|label| label == target)
    }
}

impl Arms {
    /// The weight of leaving in-context learning alone.
    #[must_use]
    pub(crate) fn alone(&self) -> f64 {
        let others: f64 = self.arms.iter().map(|arm| arm.weight).sum();
        (1.0 - others - self.zero_shot.map_or(0.0, |alone| alone.weight)).max(0.0)
    }
}

fn probabilities(
    task: &Task,
    decision: &ClassDecision,
    prediction: &ClassPrediction,
) -> Probabilities {
    let text = |&label: &usize| task.labels[label].text.clone();
    Probabilities {
        labels: task.labels.iter().map(|label| label.text.clone()).collect(),
        icl: prediction.icl.clone(),
        adapted: prediction.adapted.clone(),
        label: text(&prediction.label),
        set: prediction.set.iter().map(text).collect(),
        confidence: decision.policy.classes.confidence,
        abstention: prediction.abstention,
        target: task.query.y.clone(),
    }
}

fn when(decision: &ClassDecision) -> ClassWhen {
    let from = &decision.when;
    let lowered = from.leave_one_out.adapted < from.leave_one_out.icl;
    let zero_shot = decision.zero_shot.map_or(0.0, |alone| alone.weight);
    ClassWhen {
        adapt: from.adapt,
        reason: match (from.adapt, lowered) {
            _ if from.weight <= 0.0 => "no arm can be updated",
            (true, _) if zero_shot > 0.5 => {
                "leave-one-out log-loss puts most weight on the zero-shot prompt, left alone"
            }
            (true, true) => "leave-one-out log-loss favours updating",
            (true, false) => {
                "most weight is on updating, though leave-one-out log-loss is no lower"
            }
            (false, _) => {
                "leave-one-out log-loss puts more weight on leaving in-context learning alone"
            }
        },
        weight: from.weight,
        leave_one_out: LeaveOneOut {
            icl: from.leave_one_out.icl,
            adapted: from.leave_one_out.adapted,
        },
    }
}

/// The weights of numbers of steps, summed over the arms; what is left is that of no step.
fn how_far(decision: &ClassDecision) -> ClassHowFar {
    let mut weights: BTreeMap<u32, f64> = BTreeMap::new();
    for path in decision.arms.iter().flat_map(|arm| &arm.paths) {
        for (&horizon, &weight) in path.horizons.iter().zip(&path.weights) {
            *weights.entry(horizon).or_default() += weight;
        }
    }
    let stepping: f64 = weights.values().sum();
    weights.insert(0, (1.0 - stepping).max(0.0));
    let most = weights.iter().fold((0, f64::NEG_INFINITY), |most, (&horizon, &weight)| {
        if weight > most.1 { (horizon, weight) } else { most }
    });
    ClassHowFar {
        rule: decision.policy.classes.rule,
        horizon: most.0,
        mean_horizon: weights.iter().map(|(&steps, weight)| f64::from(steps) * weight).sum(),
        horizons: weights.keys().copied().collect(),
        posterior: weights.values().map(|weight| weight.min(1.0)).collect(),
    }
}

fn arm_of(arm: &ArmDecision, blocks: &ArmBlocks, geometry: &ClassGeometry) -> Arm {
    // The base of an arm without blocks may not have been observed.
    let base = geometry.bases().get(blocks.base);
    let names = blocks.blocks.iter().filter_map(|&block| base?.blocks().get(block));
    let losses = arm.best.zip(arm.average);
    let descent = |path: &ArmPath| Descent {
        layers: path.layers,
        step_scale: path.step_scale,
        step_size: path.step_size,
        horizons: path.horizons.clone(),
        losses: path.losses.clone(),
        evidence: path.evidence.clone(),
        weights: path.weights.clone(),
    };
    Arm {
        name: arm.name.clone(),
        base: arm.base,
        blocks: names.map(|block| block.name().to_owned()).collect(),
        // Sums of shares may be over 1 by their rounding.
        weight: arm.weight.min(1.0),
        leave_one_out: losses.map(|(best, average)| ArmLosses { best, average }),
        left_out: arm.left_out.map(|reason| reason.to_string()),
        paths: arm.paths.iter().map(descent).collect(),
    }
}

fn basis(seen: &ClassesSeen<'_>, decision: &ClassDecision, full: bool) -> ClassBasis {
    let examples = seen.geometry.examples();
    ClassBasis {
        examples,
        shown: (seen.shown < examples).then_some(seen.shown),
        folds: decision.folds,
        fold_of: full.then(|| decision.fold_of.clone()),
        answers: full.then(|| seen.geometry.answers().to_vec()),
        icl: full.then(|| decision.icl.to_rows()),
        probabilities: full.then(|| decision.probabilities.to_rows()),
    }
}

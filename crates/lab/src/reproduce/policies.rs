//! Whole policies: which blocks, how far, and how an update is carried out.
//!
//! In: a model. Out: [`Policy`]s under the names they have in tables, and the
//! [outcome](PolicyOutcome) of each of them for a task. Rules about the number of steps are
//! compared on stored paths; which blocks are updated changes the path itself, so that policies are
//! followed one by one. What was seen of the chosen block is kept, so that error bars and gates can
//! be judged afterwards without the model.

use super::record::{SeenBlock, single};
use crate::error::Error;
use fewstep::{Dynamics, Policy};
use fewstep_core::{Adjoint, Decision, Filter, Plan, Residuals, Selection, decide};
use fewstep_engine::{Model, Observation, Prepared, Task, choose_blocks};
use serde::{Deserialize, Serialize};

/// What tables and results call the default policy.
pub(crate) const DEFAULT_POLICY: &str = "MLPs by depth";

/// The default policy, carried out in the model.
const IN_THE_MODEL: &str = "MLPs by depth, in the model";

/// Where a policy led.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyOutcome {
    /// The policy's name.
    #[serde(rename = "way")]
    pub policy: String,
    /// The answer for the query, by the model or, where the policy says so, by the linearised model,
    /// clamped to the labels; `None` if no steps were taken for any policy.
    pub prediction: Option<f64>,
    /// What the linearised model predicts.
    pub linear: f64,
    /// The first of the blocks that were chosen.
    pub block: String,
    /// The number of steps; of an average, the most probable.
    pub horizon: u32,
    /// The chosen blocks together.
    pub seen: SeenBlock,
    /// The same decision and update for further queries, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherOutcome>,
}

/// Where a policy led at a further query.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherOutcome {
    /// The answer, as that for the task's own query.
    pub prediction: Option<f64>,
    /// What the linearised model predicts.
    pub linear: f64,
    /// Of the chosen blocks together, one number per example.
    pub coupling: Vec<f32>,
    /// Of the chosen blocks together, at the query.
    pub variance: f32,
}

impl PolicyOutcome {
    /// Where it led at one of the further queries, if that is known.
    pub(crate) fn asked_again(&self, index: usize) -> Option<Self> {
        let FurtherOutcome { prediction, linear, coupling, variance } =
            self.further.get(index)?;
        let kernel = self.seen.kernel.clone();
        Some(Self {
            policy: self.policy.clone(),
            prediction: *prediction,
            linear: *linear,
            block: self.block.clone(),
            horizon: self.horizon,
            seen: SeenBlock { kernel, coupling: coupling.clone(), variance: *variance },
            further: vec![],
        })
    }
}

/// Those that are compared: the default policy, the same in the model, [the paper's](Policy::paper),
/// and the default rules with its blocks, which tells rules and blocks apart.
pub(crate) fn compared() -> Vec<Policy> {
    let (default, paper) = (Policy::default(), Policy::paper());
    let in_the_model = Policy { dynamics: Dynamics::Steps, ..default.clone() };
    let blocks = paper.blocks.clone();
    let elsewhere = Policy { blocks, selection: Selection::All, ..default.clone() };
    let named = [
        (DEFAULT_POLICY, default),
        (IN_THE_MODEL, in_the_model),
        ("the paper's, in the model", paper),
        ("the paper's blocks by the default rules", elsewhere),
    ];
    let own = named[0].1.clone();
    let others =
        observed().into_iter().filter(|(_, policy)| !policy.differences(&own).is_empty());
    let named = named.into_iter().chain(others);
    named.map(|(name, policy)| Policy { name: name.to_owned(), ..policy }).collect()
}

/// The default rules on what is observed in other ways; that of the default policy is among them.
pub(crate) fn observed() -> [(&'static str, Policy); 4] {
    let whole = Policy { adjoint: Adjoint::Whole, ..Policy::default() };
    let local = Policy { adjoint: Adjoint::Local, ..Policy::default() };
    let all = Policy { blocks: "mlp-up@all".to_owned(), ..local.clone() };
    let prefix = Policy { residuals: Residuals::Prefix { orders: 2 }, ..local.clone() };
    [
        ("whole adjoints", whole),
        ("local adjoints", local),
        ("local adjoints of all layers", all),
        ("local adjoints, prefix residuals", prefix),
    ]
}

/// Whether one observation serves both policies.
fn alike(one: &Policy, other: &Policy) -> bool {
    let of = |policy: &Policy| {
        (policy.blocks.clone(), policy.adjoint, policy.residuals, policy.shots)
    };
    of(one) == of(other)
}

/// Follows these policies; if it is not `real`, those alone that the linearised model answers by, and
/// without their answers. What is observed for one serves the next if it has the same candidates.
/// Further queries are prompts in tokens, as [`Prepared::further`] takes them.
pub(crate) fn follow(
    model: &Model,
    task: &Task,
    further: &[Vec<u32>],
    policies: &[Policy],
    real: bool,
) -> Result<Vec<PolicyOutcome>, Error> {
    // One decision and one update serve all queries.
    debug_assert!(further.is_empty() || policies.iter().all(|p| !p.looks_at_query()));
    let mut outcomes = Vec::with_capacity(policies.len());
    for alike in policies.chunk_by(alike) {
        let blocks = choose_blocks(&alike[0].blocks, model.config())?;
        let model = model.clone().with_policy(&alike[0]);
        let prepared = model.prepare(task, &blocks)?;
        let queries = Queries::of(&prepared, further)?;
        let base = prepared.observation().query_prediction;
        for policy in alike {
            let seen = prepared.observation();
            let steps = policy.dynamics == Dynamics::Steps;
            if steps && !real {
                continue;
            }
            let decision = decide(&seen.geometry, policy)?;
            let by_model =
                if steps { Some(carry_out(&prepared, &decision, &queries)?) } else { None };
            // The task's own query is the first.
            let answer = |index: usize, linear: f64| {
                let found = by_model.as_ref().map(|found| found[index]);
                real.then(|| found.unwrap_or_else(|| task.clamp_to_labels(linear)))
            };
            let linear = base + change(&decision, seen)?;
            outcomes.push(PolicyOutcome {
                policy: policy.name.clone(),
                prediction: answer(0, linear),
                linear,
                block: first_block(&decision),
                horizon: decision.how_far.horizon,
                seen: SeenBlock::of(&decision.block),
                further: queries.outcomes(&decision, answer)?,
            });
        }
    }
    Ok(outcomes)
}

/// What the model predicts after a decision, for the task's own query and then for the further ones.
fn carry_out(
    prepared: &Prepared,
    decision: &Decision,
    queries: &Queries<'_>,
) -> Result<Vec<f64>, Error> {
    let mut predictions = vec![prepared.observation().query_prediction];
    let mut update = None;
    if decision.plan != Plan::None {
        let outcome = prepared.clone().act_at_once(decision)?.1;
        (predictions[0], update) = (outcome.adapted, outcome.update);
    }
    predictions.extend(queries.predict(prepared, update.as_ref())?);
    Ok(predictions)
}

/// Further queries on the examples of a task, and what was seen of each.
struct Queries<'a> {
    tokens: &'a [Vec<u32>],
    seen: Vec<Observation>,
}

impl<'a> Queries<'a> {
    fn of(prepared: &Prepared, tokens: &'a [Vec<u32>]) -> Result<Self, Error> {
        let seen = if tokens.is_empty() { vec![] } else { prepared.further(tokens)? };
        Ok(Self { tokens, seen })
    }

    /// Predictions under an update, or without one the model's own.
    fn predict(
        &self,
        prepared: &Prepared,
        update: Option<&fewstep_engine::Update>,
    ) -> Result<Vec<f64>, Error> {
        match update {
            Some(update) if !self.tokens.is_empty() => {
                Ok(prepared.predict_further(self.tokens, update)?)
            }
            _ => Ok(self.seen.iter().map(|seen| seen.query_prediction).collect()),
        }
    }

    /// Where a decision leads at each of them, counted from 1; `answer` makes an answer of what the
    /// linearised model predicts.
    fn outcomes(
        &self,
        decision: &Decision,
        answer: impl Fn(usize, f64) -> Option<f64>,
    ) -> Result<Vec<FurtherOutcome>, Error> {
        let outcome = |(index, seen): (usize, &Observation)| {
            let block = seen.geometry.sum(&decision.which.selected)?;
            let quantity = "what a decision does at a further query";
            let query = block.query().ok_or(fewstep_core::Error::NoQuery { quantity })?;
            let residuals = seen.geometry.residuals();
            let correction = decision.plan.query_correction(
                &decision.spectrum,
                &query.coupling,
                residuals,
            )?;
            let linear = seen.query_prediction + correction;
            Ok(FurtherOutcome {
                prediction: answer(index + 1, linear),
                linear,
                coupling: single(&query.coupling),
                variance: single(&[query.variance])[0],
            })
        };
        self.seen.iter().enumerate().map(outcome).collect()
    }
}

/// By how much a decision changes the prediction for the task's own query, by the linearised model.
fn change(decision: &Decision, seen: &Observation) -> Result<f64, Error> {
    let Some(query) = decision.block.query() else { return Ok(0.0) };
    let residuals = seen.geometry.residuals();
    Ok(decision.plan.query_correction(&decision.spectrum, &query.coupling, residuals)?)
}

fn first_block(decision: &Decision) -> String {
    let which = &decision.which;
    which.selected.first().map(|&index| which.blocks[index].name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::digit_shift::draw;
    use super::*;
    use fewstep::{Action, Predictor};
    use fewstep_core::HorizonRule;
    use fewstep_core::leave_one_out::Averaging;

    /// Every policy is what the tool does when it is asked for it.
    #[test]
    fn policies_are_those_of_the_tool() {
        let model = fewstep::builtin().unwrap();
        let task = draw(0, 20, "\n").task;
        let policies = compared();
        let follow = |real| follow(&model, &task, &[], &policies, real).unwrap();
        let outcomes = follow(true);
        assert_eq!(policies.len(), outcomes.len());
        // By the linearised model alone there is nothing to carry out in the model.
        let linear =
            policies.iter().zip(&outcomes).filter(|(p, _)| p.dynamics == Dynamics::Linear);
        let linear =
            linear.map(|(_, outcome)| PolicyOutcome { prediction: None, ..outcome.clone() });
        assert_eq!(follow(false), linear.collect::<Vec<_>>());

        for (policy, outcome) in policies.iter().zip(&outcomes) {
            let predictor = Predictor::new(model.clone(), policy.clone(), Action::Act).unwrap();
            let answer = predictor.answer(&task).unwrap();
            let said = answer.report.prediction;
            let bits = outcome.prediction.map(f64::to_bits);
            assert_eq!(said.adapted.map(f64::to_bits), bits, "{policy:?}");
            assert_eq!(said.linear.unwrap().to_bits(), outcome.linear.to_bits(), "{policy:?}");
            assert_eq!(answer.report.which.selected[0], outcome.block, "{policy:?}");
        }
        let predictions = outcomes.iter().map(|outcome| outcome.prediction.unwrap().to_bits());
        let mut different: Vec<u64> = predictions.collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), policies.len(), "{outcomes:?}");
    }

    /// One decision serves all queries on a prompt because none of them looks at the query.
    #[test]
    fn no_policy_looks_at_the_query() {
        for policy in compared() {
            assert!(!policy.looks_at_query(), "{}", policy.name);
        }
        let averaging = Averaging::QueryWeighted;
        let (sharpness, leave_alone_odds) = (0.2, 1.0);
        let horizon =
            HorizonRule::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds };
        let selection = |selection| Policy { selection, ..Policy::default() };
        for policy in [
            selection(Selection::QueryAware { budget: 1, lookahead: 8 }),
            selection(Selection::QueryScore { budget: 1 }),
            Policy { horizon: HorizonRule::BayesGap, ..Policy::default() },
            Policy { horizon, ..Policy::default() },
        ] {
            assert!(policy.looks_at_query());
        }
    }
}

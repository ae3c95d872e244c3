//! Whole decisions: which blocks, how far, and how the way is gone.
//!
//! In: a model. Out: [`Way`]s, and what each of them [took](Taken) for a task. Rules about the number
//! of steps are compared on stored paths; which blocks move changes the path itself, so that ways are
//! gone one by one. What was seen of the chosen block is kept, so that error bars and gates can be
//! judged afterwards without the model.

use super::record::{SeenBlock, single};
use crate::error::Error;
use fewstep::{Dynamics, Way};
use fewstep_core::{Decision, Filter, Rules, Selection, Update, decide};
use fewstep_engine::{Config, Model, Observation, Prepared, Task, choose_blocks};
use serde::{Deserialize, Serialize};

/// How the usual way is called in tables.
pub(crate) const USUAL: &str = "MLPs by depth";

/// The usual decision, carried out in the model.
const IN_THE_MODEL: &str = "MLPs by depth, in the model";

/// A decision as a user would ask for it, and how it is called in tables.
pub(crate) type Named = (&'static str, Way);

/// Where a way led.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// The way's name.
    pub way: String,
    /// The answer for the query, by the model or, where that is the way, by the linear picture cut
    /// to the range of the labels; `None` if no steps were taken for any way.
    pub prediction: Option<f64>,
    /// What the linear picture says.
    pub linear: f64,
    /// The first of the blocks that were chosen.
    pub block: String,
    /// The number of steps; of an average, the most probable.
    pub horizon: u32,
    /// The chosen blocks together.
    pub seen: SeenBlock,
    /// The same decision and update for further queries, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<TakenFurther>,
}

/// Where a way led at a further query.
///
/// # Examples
///
/// See [`Bench::trace`](super::measure::Bench::trace).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenFurther {
    /// The answer, as that for the task's own query.
    pub prediction: Option<f64>,
    /// What the linear picture says.
    pub linear: f64,
    /// Of the chosen blocks together, one number per example.
    pub coupling: Vec<f32>,
    /// Of the chosen blocks together, at the query.
    pub variance: f32,
}

impl Taken {
    /// Where it led at one of the further queries, if that is known.
    pub(crate) fn asked_again(&self, index: usize) -> Option<Self> {
        let TakenFurther { prediction, linear, coupling, variance } =
            self.further.get(index)?;
        let kernel = self.seen.kernel.clone();
        Some(Self {
            way: self.way.clone(),
            prediction: *prediction,
            linear: *linear,
            block: self.block.clone(),
            horizon: self.horizon,
            seen: SeenBlock { kernel, coupling: coupling.clone(), variance: *variance },
            further: vec![],
        })
    }
}

/// Those that are compared: the [usual way](Way::usual), the same in the model,
/// [the paper's](Way::paper), and the usual rules with its blocks, which tells rules and blocks apart.
pub(crate) fn ways(config: &Config) -> Vec<Named> {
    let (usual, paper) = (Way::usual(config), Way::paper(config));
    let in_the_model = Way { dynamics: Dynamics::Steps, ..usual.clone() };
    let rules = Rules { select: Selection::All, ..usual.rules.clone() };
    let elsewhere = Way { blocks: paper.blocks.clone(), rules, ..usual.clone() };
    vec![
        (USUAL, usual),
        (IN_THE_MODEL, in_the_model),
        ("the paper's, in the model", paper),
        ("the paper's blocks by the usual rules", elsewhere),
    ]
}

/// Goes these ways; if it is not `real`, by the linear picture alone, and those not that are gone in
/// the model. What is observed for one serves the next if it has the same candidates. Further queries are prompts in tokens, as
/// [`Prepared::further`] takes them.
pub(crate) fn take(
    model: &Model,
    (task, further): (&Task, &[Vec<u32>]),
    ways: &[Named],
    real: bool,
) -> Result<Vec<Taken>, Error> {
    // One decision and one update serve all queries.
    debug_assert!(further.is_empty() || ways.iter().all(|(_, way)| !way.looks_at_query()));
    let mut taken = Vec::with_capacity(ways.len());
    for alike in ways.chunk_by(|(_, a), (_, b)| a.blocks == b.blocks) {
        let blocks = choose_blocks(&alike[0].1.blocks, model.config())?;
        let prepared = model.prepare(task, &blocks)?;
        let queries = Queries::of(&prepared, further)?;
        let base = prepared.observation().query_prediction;
        for (name, way) in alike {
            let seen = prepared.observation();
            let steps = way.dynamics == Dynamics::Steps;
            if steps && !real {
                continue;
            }
            let decision = decide(&seen.geometry, &way.rules)?;
            let by_model =
                if steps { Some(carry_out(&prepared, &decision, &queries)?) } else { None };
            // The task's own query is the first.
            let answer = |index: usize, linear: f64| {
                let found = by_model.as_ref().map(|found| found[index]);
                real.then(|| found.unwrap_or_else(|| task.clamp_to_labels(linear)))
            };
            let linear = base + change(&decision, seen)?;
            taken.push(Taken {
                way: (*name).to_owned(),
                prediction: answer(0, linear),
                linear,
                block: first_block(&decision),
                horizon: decision.how_far.horizon,
                seen: SeenBlock::of(&decision.block),
                further: queries.taken(&decision, answer)?,
            });
        }
    }
    Ok(taken)
}

/// What the model predicts after a decision, for the task's own query and then for the further ones.
fn carry_out(
    prepared: &Prepared<'_>,
    decision: &Decision,
    queries: &Queries<'_>,
) -> Result<Vec<f64>, Error> {
    let mut predictions = vec![prepared.observation().query_prediction];
    let mut update = None;
    if decision.update != Update::None {
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
    fn of(prepared: &Prepared<'_>, tokens: &'a [Vec<u32>]) -> Result<Self, Error> {
        let seen = if tokens.is_empty() { vec![] } else { prepared.further(tokens)? };
        Ok(Self { tokens, seen })
    }

    /// Predictions under an update, or without one the model's own.
    fn predict(
        &self,
        prepared: &Prepared<'_>,
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
    /// linear picture says.
    fn taken(
        &self,
        decision: &Decision,
        answer: impl Fn(usize, f64) -> Option<f64>,
    ) -> Result<Vec<TakenFurther>, Error> {
        let taken = |(index, seen): (usize, &Observation)| {
            let block = seen.geometry.sum(&decision.which.selected)?;
            let quantity = "what a decision does at a further query";
            let query = block.query().ok_or(fewstep_core::Error::NoQuery { quantity })?;
            let residuals = seen.geometry.residuals();
            let correction = decision.update.query_correction(
                &decision.spectrum,
                &query.coupling,
                residuals,
            )?;
            let linear = seen.query_prediction + correction;
            Ok(TakenFurther {
                prediction: answer(index + 1, linear),
                linear,
                coupling: single(&query.coupling),
                variance: single(&[query.variance])[0],
            })
        };
        self.seen.iter().enumerate().map(taken).collect()
    }
}

/// By how much a decision moves the prediction for the task's own query, by the linear picture.
fn change(decision: &Decision, seen: &Observation) -> Result<f64, Error> {
    let Some(query) = decision.block.query() else { return Ok(0.0) };
    let residuals = seen.geometry.residuals();
    Ok(decision.update.query_correction(&decision.spectrum, &query.coupling, residuals)?)
}

fn first_block(decision: &Decision) -> String {
    let which = &decision.which;
    which.selected.first().map(|&index| which.blocks[index].name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::digit_shift::draw;
    use super::*;
    use fewstep::{Action, Session};
    use fewstep_core::HorizonRule;
    use fewstep_core::leave_one_out::Averaging;

    /// Every way is what the tool does when it is asked for it.
    #[test]
    fn ways_are_those_of_the_tool() {
        let model = fewstep::builtin().unwrap();
        let task = draw(0, 20, "\n").task;
        let ways = ways(model.config());
        let take = |real| take(&model, (&task, &[]), &ways, real).unwrap();
        let taken = take(true);
        assert_eq!(ways.len(), taken.len());
        // By the linear picture alone there is nothing to carry out in the model.
        let linear =
            ways.iter().zip(&taken).filter(|((_, w), _)| w.dynamics == Dynamics::Linear);
        let linear = linear.map(|(_, taken)| Taken { prediction: None, ..taken.clone() });
        assert_eq!(take(false), linear.collect::<Vec<_>>());

        for ((_, way), taken) in ways.iter().zip(&taken) {
            let session = Session::new(model.clone(), Action::Act).unwrap();
            let answer = session.with_way(way.clone()).unwrap().answer(&task).unwrap();
            let said = answer.report.prediction;
            let bits = taken.prediction.map(f64::to_bits);
            assert_eq!(said.adapted.map(f64::to_bits), bits, "{way:?}");
            assert_eq!(said.linear.unwrap().to_bits(), taken.linear.to_bits(), "{way:?}");
            assert_eq!(answer.report.which.selected[0], taken.block, "{way:?}");
        }
        let predictions = taken.iter().map(|taken| taken.prediction.unwrap().to_bits());
        let mut different: Vec<u64> = predictions.collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ways.len(), "{taken:?}");
    }

    /// One decision serves all queries on a prompt because none of them looks at the query.
    #[test]
    fn no_way_looks_at_the_query() {
        let config = fewstep::builtin().unwrap().config().clone();
        for (name, way) in ways(&config) {
            assert!(!way.looks_at_query(), "{name}");
        }
        let with = |rules| Way { rules, ..Way::usual(&config) };
        let usual = fewstep::usual_rules;
        for rules in [
            Rules { select: Selection::QueryAware, ..usual() },
            Rules { select: Selection::QueryScore, ..usual() },
            Rules { horizon: HorizonRule::BayesGap, ..usual() },
            Rules { leave_one_out: Averaging::QueryWeighted, ..usual() },
        ] {
            assert!(with(rules).looks_at_query());
        }
    }
}

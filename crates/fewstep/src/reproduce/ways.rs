//! Whole decisions, each carried out in the model: which blocks, how far, and how the way is gone.
//!
//! In: a model. Out: [`Way`]s, and what each of them [took](Taken) for a task. Rules about the number
//! of steps are compared on stored paths; which blocks move changes the path itself, so that ways are
//! gone one by one.

use crate::error::Error;
use fewstep_core::{Decision, HorizonRule, Rules, Selection, Update, decide};
use fewstep_engine::{BlockId, Config, Model, Task, choose_blocks};
use serde::{Deserialize, Serialize};

/// The step size of ways that move one block, as a fraction of the largest stable one: thirty such
/// steps go as far as ninety of the usual ones.
const LARGE_STEP: f64 = 0.3;

/// A decision as a user would ask for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    /// As it is called in tables.
    pub(crate) name: &'static str,
    /// Candidate blocks.
    pub(crate) blocks: String,
    /// What is chosen of them, and how far.
    pub(crate) rules: Rules,
}

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
    /// The prediction for the query, by the model.
    pub prediction: f64,
    /// The same by the linear picture.
    pub linear: f64,
    /// The first of the blocks that were chosen.
    pub block: String,
    /// The number of steps; of an average, the most probable.
    pub horizon: u32,
}

/// All of them, for a model with so many layers.
pub(crate) fn ways(layers: usize) -> Vec<Way> {
    let upper = format!("mlp-up@last{}", layers.div_ceil(2));
    let one = |horizon, odds| Rules {
        horizon,
        selection: Selection::LeaveOneOut,
        budget: Some(1),
        step_scale: LARGE_STEP,
        leave_alone_odds: odds,
        ..Rules::default()
    };
    let way = |name, blocks: &str, rules| Way { name, blocks: blocks.to_owned(), rules };
    let paper = format!("value@last{}", layers.min(4));
    vec![
        way("the paper's", &paper, Rules::default()),
        way("one MLP, leave-one-out", &upper, one(HorizonRule::LeaveOneOut, 1.0)),
        way("one MLP, average", &upper, one(HorizonRule::LeaveOneOutAverage, 1.0)),
        way("one MLP, careful average", &upper, one(HorizonRule::LeaveOneOutAverage, 5.0)),
    ]
}

/// Goes all ways; what is observed for one serves the next if it has the same candidates.
pub(crate) fn take(model: &Model, task: &Task) -> Result<Vec<Taken>, Error> {
    let ways = ways(model.config().layers);
    let mut taken = Vec::with_capacity(ways.len());
    for alike in ways.chunk_by(|a, b| a.blocks == b.blocks) {
        let prepared = model.prepare(task, &blocks(&alike[0], model.config())?)?;
        for way in alike {
            let decision = decide(&prepared.observation().geometry, &way.rules)?;
            let base = prepared.observation().query_prediction;
            let prediction = match decision.update {
                Update::None => base,
                _ => prepared.clone().act_at_once(&decision)?.1.adapted,
            };
            taken.push(Taken {
                way: way.name.to_owned(),
                prediction,
                linear: base + decision.query.map_or(0.0, |query| query.correction),
                block: first_block(&decision),
                horizon: decision.how_far.horizon,
            });
        }
    }
    Ok(taken)
}

fn blocks(way: &Way, config: &Config) -> Result<Vec<BlockId>, Error> {
    Ok(choose_blocks(&way.blocks, config)?)
}

fn first_block(decision: &Decision) -> String {
    let which = &decision.which;
    which.selected.first().map(|&index| which.blocks[index].name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::digit_shift::draw;
    use super::*;
    use crate::{Action, Session};

    /// Every way is what the tool does when it is asked for it.
    #[test]
    fn ways_are_those_of_the_tool() {
        let model = crate::builtin().unwrap();
        let task = draw(0, 20, "\n").task;
        let (ways, taken) = (ways(6), take(&model, &task).unwrap());
        assert_eq!(ways.len(), taken.len());
        assert_eq!(ways[1].blocks, "mlp-up@last3");
        for (way, taken) in ways.iter().zip(&taken) {
            let session = Session::new(model.clone(), Action::Act).unwrap();
            let session = session.with_blocks(&way.blocks).unwrap();
            let answer = session.with_rules(way.rules.clone()).unwrap().answer(&task).unwrap();
            let said = answer.report.prediction;
            assert_eq!(said.adapted.unwrap().to_bits(), taken.prediction.to_bits(), "{way:?}");
            assert_eq!(said.linear.unwrap().to_bits(), taken.linear.to_bits(), "{way:?}");
            assert_eq!(answer.report.which.selected[0], taken.block, "{way:?}");
        }
        let predictions = taken.iter().map(|taken| taken.prediction.to_bits());
        let mut different: Vec<u64> = predictions.collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ways.len(), "{taken:?}");
    }
}

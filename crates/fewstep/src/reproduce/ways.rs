//! Whole decisions, each carried out in the model: which blocks, how far, and how the way is gone.
//!
//! In: a model. Out: [`Way`]s, and what each of them [took](Taken) for a task. Rules about the number
//! of steps are compared on stored paths; which blocks move changes the path itself, so that ways are
//! gone one by one. What was seen of the chosen block is kept, so that error bars and gates can be
//! judged afterwards without the model.

use super::record::SeenBlock;
use crate::error::Error;
use crate::way::Way;
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::{Decision, HorizonRule, Rules, Selection, Update, decide};
use fewstep_engine::{Config, Model, Task, choose_blocks};
use serde::{Deserialize, Serialize};

/// How the usual way is called in tables.
pub(crate) const USUAL: &str = "one MLP, careful average";

/// Candidate numbers of steps that grow by a third or so: a few steps are as likely to be best as
/// many.
const GROWING: [u32; 11] = [0, 1, 2, 3, 4, 6, 8, 11, 16, 22, 30];

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
    /// The prediction for the query, by the model; `None` if no steps were taken.
    pub prediction: Option<f64>,
    /// The same by the linear picture.
    pub linear: f64,
    /// The first of the blocks that were chosen.
    pub block: String,
    /// The number of steps; of an average, the most probable.
    pub horizon: u32,
    /// The chosen blocks together.
    pub seen: SeenBlock,
}

/// Those that are tried while decisions are developed, or the fewer ones that are judged on test
/// tasks: the [usual way](Way::usual), and variations of it.
pub(crate) fn ways(config: &Config, test: bool) -> Vec<Named> {
    let usual = Way::usual(config);
    let with = |rules| Way { rules, blocks: usual.blocks.clone() };
    let all = Rules { select: Selection::All, budget: None, ..usual.rules.clone() };
    // To choose one of many matrices by ten examples is a gamble that moving all of them avoids, and
    // a power of one half is what errors of a normal distribution deserve.
    let balanced = Rules {
        leave_one_out: Averaging::Balanced,
        inverse_temperature: 0.5,
        horizons: GROWING.to_vec(),
        ..all.clone()
    };
    let mut ways = vec![
        (USUAL, usual.clone()),
        ("all MLPs, careful average", with(all.clone())),
        ("all MLPs, balanced average", with(balanced)),
    ];
    if test {
        return ways;
    }
    let hard = Rules { horizon: HorizonRule::LeaveOneOut, ..usual.rules.clone() };
    let even = Rules { leave_alone_odds: 1.0, ..usual.rules.clone() };
    let Way { blocks, rules: Rules { step_scale, .. } } = Way::paper(config);
    let heads = Rules { budget: None, step_scale, ..usual.rules.clone() };
    let all_heads = Rules { step_scale, ..all };
    ways.extend([
        ("one MLP, leave-one-out", with(hard)),
        ("one MLP, average", with(even)),
        ("heads by left-out errors", Way { blocks: blocks.clone(), rules: heads }),
        ("all heads, careful average", Way { blocks, rules: all_heads }),
    ]);
    ways
}

/// Goes these ways, in the model if it is `real` and else by the linear picture alone; what is observed
/// for one serves the next if it has the same candidates.
pub(crate) fn take(
    model: &Model,
    task: &Task,
    ways: &[Named],
    real: bool,
) -> Result<Vec<Taken>, Error> {
    let mut taken = Vec::with_capacity(ways.len());
    for alike in ways.chunk_by(|(_, a), (_, b)| a.blocks == b.blocks) {
        let blocks = choose_blocks(&alike[0].1.blocks, model.config())?;
        let prepared = model.prepare(task, &blocks)?;
        let base = prepared.observation().query_prediction;
        for (name, way) in alike {
            let decision = decide(&prepared.observation().geometry, &way.rules)?;
            let prediction = match decision.update {
                _ if !real => None,
                Update::None => Some(base),
                _ => Some(prepared.clone().act_at_once(&decision)?.1.adapted),
            };
            taken.push(Taken {
                way: (*name).to_owned(),
                prediction,
                linear: base + decision.query.map_or(0.0, |query| query.correction),
                block: first_block(&decision),
                horizon: decision.how_far.horizon,
                seen: SeenBlock::of(&decision.block),
            });
        }
    }
    Ok(taken)
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
        let ways = ways(model.config(), false);
        let take = |real| take(&model, &task, &ways, real).unwrap();
        let taken = take(true);
        assert_eq!(ways.len(), taken.len());
        for (linear, taken) in take(false).iter().zip(&taken) {
            assert_eq!(linear, &Taken { prediction: None, ..taken.clone() });
        }

        for ((_, way), taken) in ways.iter().zip(&taken) {
            let session = Session::new(model.clone(), Action::Act).unwrap();
            let answer = session.with_way(way.clone()).unwrap().answer(&task).unwrap();
            let said = answer.report.prediction;
            let bits = taken.prediction.map(f64::to_bits);
            assert_eq!(said.adapted.map(f64::to_bits), bits, "{way:?}");
            assert_eq!(said.linear.unwrap().to_bits(), taken.linear.to_bits(), "{way:?}");
            assert_eq!(answer.report.which.selected[0], taken.block, "{way:?}");
        }
        let predictions = taken.iter().map(|taken| taken.linear.to_bits());
        let mut different: Vec<u64> = predictions.collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ways.len(), "{taken:?}");
    }

    /// What is judged on test tasks was tried before.
    #[test]
    fn test_tasks_see_fewer_ways() {
        let config = crate::builtin().unwrap().config().clone();
        assert_eq!(ways(&config, true), ways(&config, false)[..3]);
    }
}

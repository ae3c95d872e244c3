//! Carrying out a decision, and how far the linearised model that it was made from holds.

use super::Model;
use crate::blocks::BlockId;
use crate::error::Error;
use crate::linear::LinearPath;
use crate::observe::Observation;
use crate::passes::PassCount;
use crate::prepared::Prepared;
use crate::steps::{Applied, Descent, Follow, Steps, average_on, filter_on, steps_on};
use crate::tape::{Outputs, Tape};
use crate::task::Task;
use crate::token_task::TokenTask;
use crate::update::Update;
use fewstep_core::{Adjoint, Decision, Filter, GradientDescent, Mixture, Plan};

/// The share of all weight that steps far out must have together to be taken.
const NOT_WORTH: f64 = 0.01;

/// What carrying out a decision led to.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Outcome, PassCount};
///
/// // Two steps would have led to 0.7 if predictions were linear in the weights.
/// let outcome = Outcome {
///     icl: 0.5,
///     adapted: 0.75,
///     query_path: vec![0.5, 0.625, 0.75],
///     prompt_path: vec![vec![0.5], vec![0.625], vec![0.75]],
///     linear_path: vec![0.5, 0.6, 0.7],
///     followed: true,
///     update: None,
///     passes: PassCount::default(),
/// };
/// assert_eq!(outcome.query_path.len(), outcome.linear_path.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The prediction for the query without any update.
    pub icl: f64,
    /// The prediction for the query under the update.
    pub adapted: f64,
    /// The prediction for the query after `0, 1, …` steps, of an average over steps those that it
    /// averages; of an update that is applied at once, or steps whose path was not asked for,
    /// before and after.
    pub query_path: Vec<f64>,
    /// The predictions of the leave-one-out prompts after `0, 1, …` steps, or before and after an
    /// update that is applied at once or averages over steps.
    pub prompt_path: Vec<Vec<f64>>,
    /// The prediction for the query where [`Outcome::query_path`] has it, if predictions were
    /// linear in the weights.
    pub linear_path: Vec<f64>,
    /// Whether [`Outcome::query_path`] has every step that was taken.
    pub followed: bool,
    /// `θ`, if anything was updated.
    pub update: Option<Update>,
    /// What it cost.
    pub passes: PassCount,
}

impl Outcome {
    fn of(descent: Descent, follow: Follow) -> Self {
        let last = descent.query_predictions.last();
        Self {
            icl: descent.query_predictions[0],
            adapted: *last.expect("there is the prediction after no step"),
            query_path: descent.query_predictions,
            prompt_path: descent.predictions,
            linear_path: Vec::new(),
            followed: follow.has_query(),
            update: Some(descent.update),
            passes: descent.passes,
        }
    }

    /// Of an update that was applied at once.
    fn at_once(applied: Applied, task: &TokenTask, decision: &Decision) -> Result<Self, Error> {
        let residuals = task.residuals(&applied.base_predictions);
        let change = linear_change(&residuals, decision)?;
        let (icl, adapted) = (applied.base_query_prediction, applied.query_prediction);
        Ok(Self {
            icl,
            adapted,
            query_path: vec![icl, adapted],
            prompt_path: vec![applied.base_predictions, applied.predictions],
            linear_path: vec![icl, icl + change],
            followed: false,
            update: Some(applied.update),
            passes: applied.passes,
        })
    }
}

impl Model {
    /// Carries out a decision on a task, beside what the linearised model predicts.
    ///
    /// # Errors
    ///
    /// Those of [`Model::read`] and [`descend`](crate::descend); [`Error::ForeignBlock`] or
    /// [`Error::NoSuchBlock`] if the decision was made for another model,
    /// [`Error::SizeMismatch`] if it was made for a task of another size.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
    /// # use fewstep_core::{Policy, decide};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let geometry = model.observe(&task, &choose_blocks("value@all", model.config())?)?.geometry;
    /// let decision = decide(&geometry, &Policy::paper())?;
    /// // No update changes what a model without weights predicts, and none is made.
    /// let outcome = model.act(&task, &decision)?;
    /// assert_eq!((outcome.update, outcome.query_path), (None, vec![0.25]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn act(&self, task: &Task, decision: &Decision) -> Result<Outcome, Error> {
        let task = self.read(task)?;
        check_size(&task, decision)?;
        let blocks = selected_blocks(decision)?;
        let tape = match self.adjoint {
            Adjoint::Whole => Tape::of_task(&self.network, &task, &blocks)?,
            Adjoint::Local => Tape::local(&self.network, &task, &blocks, Outputs::Predictions)?,
        };
        carry_out(tape, &task, decision, Follow::Everything)
    }
}

impl Prepared {
    /// Carries out a decision, as [`Model::act`] does but for rounding, from what was observed; gives
    /// back what was seen.
    ///
    /// # Errors
    ///
    /// Those of [`Model::act`], and [`Error::BlockNotOnTape`] for a block that was not observed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
    /// # use fewstep_core::{Policy, decide};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let prepared = model.prepare(&task, &choose_blocks("value@all", model.config())?)?;
    /// let decision = decide(&prepared.observation().geometry, &Policy::paper())?;
    /// let (observation, outcome) = prepared.act(&decision)?;
    /// assert_eq!((observation.query_prediction, outcome.adapted), (0.25, 0.25));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn act(self, decision: &Decision) -> Result<(Observation, Outcome), Error> {
        self.carry_out(decision, Follow::QueryApart)
    }

    /// As [`Prepared::act`] to the bit, without predicting the query on the way, which is quicker: of
    /// its paths there are the first and the last point.
    ///
    /// # Errors
    ///
    /// As [`Prepared::act`].
    ///
    /// # Examples
    ///
    /// See [`Prepared::act`].
    pub fn act_at_once(self, decision: &Decision) -> Result<(Observation, Outcome), Error> {
        self.carry_out(decision, Follow::Prompts)
    }

    fn carry_out(
        self,
        decision: &Decision,
        follow: Follow,
    ) -> Result<(Observation, Outcome), Error> {
        let (tape, task, observation) = self.acting(&selected_blocks(decision)?)?;
        check_size(&task, decision)?;
        Ok((observation, carry_out(tape, &task, decision, follow)?))
    }
}

/// Whether a decision was made for a task of this size.
fn check_size(task: &TokenTask, decision: &Decision) -> Result<(), Error> {
    let (found, expected) = (decision.block.examples(), task.examples());
    if found == expected {
        return Ok(());
    }
    Err(Error::SizeMismatch { quantity: "the decision", found, expected })
}

/// Carries out a decision on a tape that was run for its blocks.
fn carry_out(
    tape: Tape,
    task: &TokenTask,
    decision: &Decision,
    follow: Follow,
) -> Result<Outcome, Error> {
    let steps = |horizon| Steps { follow, ..Steps::new(decision.how_far.step_size, horizon) };
    let descend = |tape: Tape, steps: &Steps| {
        let scales = steps.scales(tape.blocks())?;
        let descent = steps_on(tape, task, &scales, steps, |_, _| Ok(()))?;
        Ok::<_, Error>(Outcome::of(descent, follow))
    };
    match &decision.plan {
        Plan::None => {
            let outcome = descend(tape, &steps(0))?;
            let linear_path = vec![outcome.icl];
            Ok(Outcome { update: None, linear_path, followed: false, ..outcome })
        }
        Plan::Steps(chosen) => {
            let steps = steps(usize::try_from(chosen.horizon).unwrap_or(usize::MAX));
            let outcome = descend(tape, &steps)?;
            let mut linear_path = linear_path(&outcome, task, decision, &steps)?;
            if !follow.has_query() && linear_path.len() > 1 {
                linear_path.drain(1..linear_path.len() - 1);
            }
            Ok(Outcome { linear_path, ..outcome })
        }
        Plan::AveragedSteps(average) => {
            let scales = steps(0).scales(tape.blocks())?;
            let weights = by_steps(average);
            let (applied, query_path) = average_on(tape, task, &scales, &weights, follow)?;
            let outcome = Outcome::at_once(applied, task, decision)?;
            if !follow.has_query() {
                return Ok(outcome);
            }
            let steps = steps(query_path.len() - 1);
            let linear_path = linear_path(&outcome, task, decision, &steps)?;
            Ok(Outcome { query_path, linear_path, followed: true, ..outcome })
        }
        filter => {
            let applied = filter_on(tape, task, filter, &decision.spectrum)?;
            Outcome::at_once(applied, task, decision)
        }
    }
}

/// The prediction for the query after each of some steps, if predictions were linear in the weights.
fn linear_path(
    outcome: &Outcome,
    task: &TokenTask,
    decision: &Decision,
    steps: &Steps,
) -> Result<Vec<f64>, Error> {
    let residuals = task.residuals(&outcome.prompt_path[0]);
    let path = LinearPath::new(&decision.block, &residuals, steps)?;
    Ok(path.query_corrections.iter().map(|change| outcome.icl + change).collect())
}

/// Numbers of steps, ascending, with their weights, up to the last that matters: a hundredth of all
/// weight is not worth the way there, and goes to the last.
fn by_steps(average: &Mixture<GradientDescent>) -> Vec<(usize, f64)> {
    let part = |(weight, part): &(f64, GradientDescent)| {
        (usize::try_from(part.horizon).unwrap_or(usize::MAX), *weight)
    };
    let mut weights: Vec<(usize, f64)> = average.parts().iter().map(part).collect();
    weights.sort_by_key(|(horizon, _)| *horizon);
    let mut beyond = 0.0;
    while let [.., _, (_, last)] = weights[..]
        && beyond + last < NOT_WORTH
    {
        beyond += last;
        weights.pop();
    }
    if let Some((_, last)) = weights.last_mut() {
        *last += beyond;
    }
    weights
}

/// By how much an update changes the prediction for the query in the linearised model.
fn linear_change(residuals: &[f64], decision: &Decision) -> Result<f64, Error> {
    let quantity = "the linearised model of an update";
    let query = decision.block.query().ok_or(fewstep_core::Error::NoQuery { quantity })?;
    Ok(decision.plan.query_correction(&decision.spectrum, &query.coupling, residuals)?)
}

/// The blocks that a decision names.
fn selected_blocks(decision: &Decision) -> Result<Vec<BlockId>, Error> {
    let block = |&index: &usize| {
        let score = &decision.which.blocks[index];
        let id = score.id.and_then(BlockId::from_number);
        id.ok_or_else(|| Error::ForeignBlock { name: score.name.clone() })
    };
    decision.which.selected.iter().map(block).collect()
}

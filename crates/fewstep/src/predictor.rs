//! A model with a policy: one task in, one report out.
//!
//! In: a [`Task`]. Out: [`Predicted`]. A predictor is read-only, so that any number of threads may
//! use one at the same time. It neither reads nor writes files.

mod classes;
mod observed;

pub use classes::DecidedClasses;
pub use observed::Observed;

use crate::error::Error;
use crate::report::{AnyReport, Passes, Prediction, Report, Which};
use fewstep_core::{Adjoint, Decision, Dynamics, Field, Overrides, Plan, Policy, decide};
use fewstep_engine::{
    BlockId, BlockKind, Config, FirstFactor, Labels, Layout, Model, Observation, Outcome,
    PassCount, Prepared, Query, Steps, Tape, Task, TaskKind, Update, choose_blocks, descend,
    predict_linear, predict_linear_local,
};
use std::collections::BTreeMap;

/// What is done with a decision.
///
/// # Examples
///
/// ```
/// assert_ne!(fewstep::Action::Decide, fewstep::Action::Act);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is only explained.
    Decide,
    /// It is carried out, in the model or by the linearised model as the policy says.
    Act,
}

/// A model and how its tasks are answered.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
/// assert_eq!(predictor.policy().name, "default");
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor {
    model: Model,
    policy: Policy,
    blocks: Vec<BlockId>,
    action: Action,
    full: bool,
    keep: bool,
    /// A setting that was asked for and is about regression alone.
    regression_only: Option<Field>,
}

/// What is shown of further queries at once.
const QUERIES_AT_ONCE: usize = 32;

/// What was done with a decision, beside reporting it.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) outcome: Option<Outcome>,
    /// The update along which the linearised model answers, if it is kept.
    pub(crate) kept: Option<Update>,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// What is said about it.
    pub report: Report,
    /// `θ`: the update, if one was carried out in the model, or if the linearised model answered
    /// and updates are [kept](Predictor::with_updates); one block of zeros if the decision was to
    /// leave the model alone.
    pub update: Option<Update>,
}

/// What came of one query, of either kind of task.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// What is said about it.
    pub report: AnyReport,
    /// The update, as in [`Predicted`]; a task of classes has none, but an average over several.
    pub update: Option<Update>,
}

impl From<Predicted> for Answered {
    fn from(Predicted { report, update }: Predicted) -> Self {
        Self { report: report.into(), update }
    }
}

impl Predictor {
    /// A model that answers by a policy.
    ///
    /// # Errors
    ///
    /// Those of [`Policy::check`], of [`choose_blocks`] for candidate blocks that the model does not
    /// have, and of [`Policy::check_budget`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Action, Error, Policy, Predictor};
    /// use fewstep_core::Selection;
    ///
    /// let policy = Policy { selection: Selection::TraceTop { budget: 100 }, ..Policy::paper() };
    /// let refused = Predictor::new(fewstep::builtin()?, policy, Action::Decide).unwrap_err();
    /// assert_eq!(refused.field().map(|field| field.name()), Some("budget"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(model: Model, policy: Policy, action: Action) -> Result<Self, Error> {
        policy.check()?;
        let blocks = choose_blocks(&policy.blocks, model.config())?;
        policy.check_budget(blocks.len())?;
        let model = model.with_policy(&policy);
        Ok(Self {
            model,
            policy,
            blocks,
            action,
            full: false,
            keep: false,
            regression_only: None,
        })
    }

    /// The same predictor with or without matrices, filters and paths in its reports. With them the
    /// query is predicted after every step; nothing else in them changes, except the cost.
    #[must_use]
    pub fn with_matrices(mut self, full: bool) -> Self {
        self.full = full;
        self
    }

    /// The same predictor, which refuses tasks of classes if one of these overrides of its policy is
    /// about regression alone: what was asked for by name is not passed over.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Action, Error, Overrides, Policy, Predictor};
    ///
    /// let overrides = Overrides { blocks: Some("value@all".to_owned()), ..Overrides::default() };
    /// let policy = overrides.of(&Policy::default())?;
    /// let predictor = Predictor::new(fewstep::builtin()?, policy, Action::Act)?;
    /// let task = fewstep::tasks::parse(
    ///     br#"{"id": "t1", "template": "{x}->{y}", "labels": ["0", "1"],
    ///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#,
    /// )?;
    /// let refused = predictor.with_overrides(&overrides).answers(&task);
    /// assert!(matches!(refused, Err(Error::RegressionOnly { field }) if field.name() == "blocks"));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_overrides(mut self, overrides: &Overrides) -> Self {
        self.regression_only = regression_only(overrides);
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The candidate blocks.
    #[must_use]
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The same predictor, whose answers by the linearised model come with updates or without.
    /// Reports do not change.
    #[must_use]
    pub fn with_updates(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Observes a task, decides, and acts if the predictor is to act. Of a task with a list of queries
    /// the first is answered; [`Predictor::answers`] answers all.
    ///
    /// # Errors
    ///
    /// Those of [`Model::prepare`], [`decide`] and [`Prepared::act`].
    pub fn answer(&self, task: &Task) -> Result<Predicted, Error> {
        if self.action == Action::Decide {
            let seen = self.model.observe(task, &self.blocks)?;
            let decision = decide(&seen.geometry, &self.policy)?;
            return self.predicted(task, &seen, &decision, Done::default());
        }
        let prepared = self.model.prepare(task, &self.blocks)?;
        let decision = decide(&prepared.observation().geometry, &self.policy)?;
        self.carried_out(task, prepared, &decision)
    }

    /// Answers every query of a task of either kind, in order: what is observed of the examples serves
    /// all of them, and a further query costs its own tokens. An error about one query stands in its
    /// place.
    ///
    /// # Errors
    ///
    /// Those of [`Predictor::answer`] and [`Predictor::observe_classes`] for the examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep::{Action, Policy, Predictor};
    /// let task = fewstep::tasks::parse(
    ///     br#"{"id": "t1", "template": "{x}->{y}",
    ///          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    ///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}],
    ///          "queries": [{"x": "4"}, {"x": "6"}]}"#,
    /// )?;
    /// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
    /// let answers = predictor.answers(&task)?;
    /// assert_eq!(answers.len(), 2);
    /// assert_eq!(answers[1].as_ref().map(|answer| answer.report.query()), Ok(Some(1)));
    /// # Ok::<(), fewstep::Error>(())
    /// ```
    pub fn answers(&self, task: &Task) -> Result<Vec<Result<Answered, Error>>, Error> {
        if task.kind() == TaskKind::Classification {
            let answers = in_turn(
                task,
                |task| self.observe_classes(task),
                |decided, queries| decided.ask(self, task, queries),
            )?;
            let answered = |report| Answered { report: AnyReport::from(report), update: None };
            return Ok(numbered(task, answers, answered));
        }
        if task.further.is_none() {
            return Ok(vec![Ok(self.answer(task)?.into())]);
        }
        let answers = in_turn(
            task,
            |task| self.observe(task),
            |observed, queries| observed.ask(self, task, queries),
        )?;
        Ok(numbered(task, answers, Answered::from))
    }

    /// Answers a task's own query, and keeps what others on the same examples need.
    ///
    /// # Errors
    ///
    /// Those of [`Predictor::answer`].
    ///
    /// # Examples
    ///
    /// See [`Observed`].
    pub fn observe(&self, task: &Task) -> Result<(Predicted, Observed), Error> {
        let prepared = self.model.prepare(task, &self.blocks)?;
        let decision = decide(&prepared.observation().geometry, &self.policy)?;
        let (first, examples) = if self.action == Action::Decide {
            let first =
                self.predicted(task, prepared.observation(), &decision, Done::default());
            (first?, prepared.into_examples())
        } else if self.policy.dynamics == Dynamics::Linear && !self.keep {
            let seen = prepared.observation().clone();
            let first = self.predicted(task, &seen, &decision, Done::default())?;
            (first, prepared.into_examples())
        } else {
            let examples = prepared.clone().into_examples();
            (self.carried_out(task, prepared, &decision)?, examples)
        };
        let steps = (self.action, self.policy.dynamics) == (Action::Act, Dynamics::Steps);
        let update = first.update.as_ref().filter(|_| steps).cloned();
        Ok((first, Observed { examples, update }))
    }

    /// Acts on a decision as the policy says, and reports.
    fn carried_out(
        &self,
        task: &Task,
        prepared: Prepared,
        decision: &Decision,
    ) -> Result<Predicted, Error> {
        let (mut done, seen);
        match self.policy.dynamics {
            Dynamics::Steps => {
                let (found, outcome) = self.act(task, prepared, decision)?;
                (seen, done) = (found, Done { outcome: Some(outcome), kept: None });
            }
            Dynamics::Linear if self.keep => {
                let (found, made) = self.linear_update(task, prepared, decision)?;
                (seen, done) = (found, Done { outcome: None, kept: Some(made) });
            }
            Dynamics::Linear => (seen, done) = (prepared.into_observation(), Done::default()),
        }
        let update = done.outcome.as_mut().and_then(|outcome| outcome.update.take());
        let mut predicted = self.predicted(task, &seen, decision, done)?;
        predicted.update = update.or(predicted.update);
        Ok(predicted)
    }

    /// The report of what was seen, decided and done.
    pub(crate) fn predicted(
        &self,
        task: &Task,
        seen: &Observation,
        decision: &Decision,
        done: Done,
    ) -> Result<Predicted, Error> {
        let Done { outcome, kept } = done;
        let mut report = Report::new(task, seen, decision, outcome.as_ref(), self.full)?;
        report.which.heads = heads(self.model.config(), &self.blocks);
        if (self.action, self.policy.dynamics) == (Action::Act, Dynamics::Linear) {
            let linear = report.prediction.linear;
            report.prediction.adapted = linear.map(|found| task.clamp_to_labels(found));
        }
        Ok(Predicted { report, update: kept })
    }

    /// The update along which the linearised model changes predictions.
    fn linear_update(
        &self,
        task: &Task,
        prepared: Prepared,
        decision: &Decision,
    ) -> Result<(Observation, Update), Error> {
        let selected = &decision.which.selected;
        if decision.plan == Plan::None {
            let (update, _) = self.zeros(task, self.blocks[selected[0]])?;
            return Ok((prepared.into_observation(), update));
        }
        let blocks: Vec<BlockId> = selected.iter().map(|&index| self.blocks[index]).collect();
        Ok(prepared.filter_update(&blocks, &decision.plan, &decision.spectrum)?)
    }

    /// Carries the decision out. Leaving the model alone costs nothing: the prediction is known.
    fn act(
        &self,
        task: &Task,
        prepared: Prepared,
        decision: &Decision,
    ) -> Result<(Observation, Outcome), Error> {
        if decision.plan != Plan::None {
            let done =
                if self.full { prepared.act(decision) } else { prepared.act_at_once(decision) };
            return Ok(done?);
        }
        let seen = prepared.into_observation();
        let (update, passes) = self.zeros(task, self.blocks[decision.which.selected[0]])?;
        let icl = seen.query_prediction;
        let outcome = Outcome {
            icl,
            adapted: icl,
            query_path: vec![icl],
            prompt_path: vec![seen.predictions.clone()],
            linear_path: vec![icl],
            followed: false,
            update: Some(update),
            passes,
        };
        Ok((seen, outcome))
    }

    /// An update of one block that changes nothing, and what it cost: nothing, unless the block's
    /// first factor comes from the task.
    fn zeros(&self, task: &Task, block: BlockId) -> Result<(Update, PassCount), Error> {
        let network = self.model.network();
        if block.kind().is_lora() && network.lora().first == FirstFactor::Inputs {
            let steps = Steps::new(1.0, 0);
            let none = descend(network, &self.model.read(task)?, &[block], &steps)?;
            return Ok((none.update, none.passes));
        }
        Ok((Update::zeros(network, &[block])?, PassCount::default()))
    }

    /// Predicts a task's query with and without an update that was made before; nothing is
    /// decided.
    ///
    /// # Errors
    ///
    /// Those of [`Model::read`] and [`Tape::run`].
    pub fn apply(&self, task: &Task, update: &Update) -> Result<Report, Error> {
        let (layout, labels) = self.query_of(task)?;
        let mut tape = Tape::new(self.model.network(), layout, &labels, &blocks_of(update))?;
        let icl = finite(tape.predictions(), 0)?;
        let adapted = finite(tape.run(update)?, 1)?;
        Ok(self.applied(task, update, &Before { icl, adapted }, tape.passes()))
    }

    /// As [`Predictor::apply`] at half of its cost: the model is not asked without the update, whose
    /// prediction is not a number in the report.
    ///
    /// # Errors
    ///
    /// Those of [`Predictor::apply`].
    pub fn apply_alone(&self, task: &Task, update: &Update) -> Result<Report, Error> {
        let (layout, labels) = self.query_of(task)?;
        let tape = Tape::of_update(self.model.network(), layout, &labels, update)?;
        let adapted = finite(tape.predictions(), 1)?;
        let found = Before { icl: f64::NAN, adapted };
        Ok(self.applied(task, update, &found, tape.passes()))
    }

    /// Predicts a task's query by the linearised model along an update that was made before; nothing
    /// is decided.
    ///
    /// # Errors
    ///
    /// Those of [`Model::read`] and [`predict_linear`].
    pub fn apply_linear(&self, task: &Task, update: &Update) -> Result<Report, Error> {
        let (layout, labels) = self.query_of(task)?;
        let predict = match self.policy.adjoint {
            Adjoint::Whole => predict_linear,

            Adjoint::Local => predict_linear_local,
        };
        let found = predict(self.model.network(), layout, &labels, update)?;
        let (icl, linear) = (found.prediction, found.prediction + found.change);
        let predictions = Before { icl, adapted: task.clamp_to_labels(linear) };
        let mut report = self.applied(task, update, &predictions, found.passes);
        report.prediction.linear = Some(linear);
        Ok(report)
    }

    /// The prompt that ends in a task's query, and the labels.
    fn query_of(&self, task: &Task) -> Result<(Layout, Labels), Error> {
        let read = self.model.read(task)?;
        let query = read.sequences().last().cloned().expect("the query is the last sequence");
        Ok((Layout::shared(&[query])?, read.labels().clone()))
    }

    /// The report of a query under an update that was made before.
    fn applied(
        &self,
        task: &Task,
        update: &Update,
        predictions: &Before,
        passes: PassCount,
    ) -> Report {
        let blocks = blocks_of(update);
        Report {
            id: task.id.clone(),
            query: None,
            policy: None,
            prediction: Prediction {
                icl: predictions.icl,
                adapted: Some(predictions.adapted),
                linear: None,
                standard_deviation: None,
                interval: None,
                target: task.query.y.as_deref().and_then(|answer| task.value_of(answer)),
                path: None,
            },
            when: None,
            how_far: None,
            which: Which {
                rule: "adapter".to_owned(),
                budget: blocks.len(),
                seed: None,
                heads: heads(self.model.config(), &blocks),
                selected: blocks.iter().map(ToString::to_string).collect(),
                blocks: Vec::new(),
            },
            geometry: None,
            passes: Passes::from(passes),
        }
    }
}

/// Answers the queries of a task one after the other: the first that can be asked is observed together
/// with the examples, the others some at a time.
fn in_turn<R, O>(
    task: &Task,
    observe: impl Fn(&Task) -> Result<(R, O), Error>,
    ask: impl Fn(&O, &[Query]) -> Result<Vec<Result<R, Error>>, Error>,
) -> Result<Vec<Result<R, Error>>, Error> {
    if task.further.is_none() {
        return Ok(vec![Ok(observe(task)?.0)]);
    }
    let queries: Vec<Query> = task.queries().cloned().collect();
    let mut answers: Vec<Result<R, Error>> = Vec::with_capacity(queries.len());
    let mut observed = None;
    while let (None, Some(query)) = (&observed, queries.get(answers.len())) {
        match observe(&task.asking(query)) {
            Ok((first, kept)) => {
                answers.push(Ok(first));
                observed = Some(kept);
            }
            Err(Error::Engine(error)) if error.is_about_query() => {
                answers.push(Err(error.into()));
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(observed) = observed {
        let left = &queries[answers.len()..];
        for queries in left.chunks(QUERIES_AT_ONCE) {
            answers.extend(ask(&observed, queries)?);
        }
    }
    Ok(answers)
}

/// Answers with the number of their query, if the task has a list of them.
fn numbered<R>(
    task: &Task,
    answers: Vec<Result<R, Error>>,
    answered: impl Fn(R) -> Answered,
) -> Vec<Result<Answered, Error>> {
    let one = |(index, answer): (usize, Result<R, Error>)| {
        let Answered { report, update } = answered(answer?);
        Ok(Answered { report: report.asked(task.further.is_some().then_some(index)), update })
    };
    answers.into_iter().enumerate().map(one).collect()
}

/// The first override that a task of classes has no use for.
fn regression_only(overrides: &Overrides) -> Option<Field> {
    let Overrides { blocks, select, budget, horizon, adjoint, .. } = overrides;
    let given = [
        (blocks.is_some(), Field::BLOCKS),
        (select.is_some(), Field::SELECTION),
        (budget.is_some(), Field::BUDGET),
        (horizon.is_some(), Field::HORIZON),
        // Classes are looked at by local adjoints, whatever a policy says.
        (*adjoint == Some(Adjoint::Whole), Field::ADJOINT),
    ];
    given.into_iter().find_map(|(given, field)| given.then_some(field))
}

/// Predictions without an update and with one that was made before.
struct Before {
    icl: f64,
    adapted: f64,
}

/// The blocks of an update.
fn blocks_of(update: &Update) -> Vec<BlockId> {
    update.blocks().iter().map(|(block, _)| *block).collect()
}

/// What the heads of each kind of block are, if not every query head has keys and values of its own.
fn heads(config: &Config, blocks: &[BlockId]) -> BTreeMap<String, &'static str> {
    let shared = config.key_value_heads() < config.heads;
    let kinds = blocks.iter().map(BlockId::kind).filter(|kind| shared && kind.per_head());
    kinds
        .map(|kind| match kind {
            BlockKind::Value | BlockKind::Key => (kind.to_string(), "key-value"),
            _ => (kind.to_string(), "query"),
        })
        .collect()
}

/// The only prediction of a tape, if it is a number.
fn finite(predictions: &[f32], steps: usize) -> Result<f64, Error> {
    let prediction = f64::from(predictions[0]);
    if prediction.is_finite() {
        Ok(prediction)
    } else {
        Err(fewstep_engine::Error::NotFinite { sequence: 0, steps }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_core::{HorizonName, HorizonRule, Selection};

    #[test]
    fn policies_that_cannot_be_followed_are_refused_before_any_task() {
        let model = crate::builtin().unwrap();
        let refused = |policy: Policy| {
            Predictor::new(model.clone(), policy, Action::Decide).unwrap_err().field()
        };
        for budget in [0, 49] {
            let selection = Selection::TraceTop { budget };
            assert_eq!(refused(Policy { selection, ..Policy::paper() }), Some(Field::BUDGET));
        }
        let horizon = HorizonRule::Fixed { steps: 100_001 };
        assert_eq!(refused(Policy { horizon, ..Policy::paper() }), Some(Field::STEPS));
        let horizons = vec![0, 100_001];
        assert_eq!(refused(Policy { horizons, ..Policy::paper() }), Some(Field::HORIZONS));
        let blocks = "values@all".to_owned();
        assert_eq!(refused(Policy { blocks, ..Policy::paper() }), Some(Field::BLOCKS));
    }

    /// After many steps some linear predictions leave the range of the labels; the answer is clamped
    /// to it, and `linear` is not. Keeping updates does not change reports.
    #[test]
    fn linear_answers_are_clamped_to_the_labels() {
        let model = crate::builtin().unwrap();
        let predictor = |policy| Predictor::new(model.clone(), policy, Action::Act).unwrap();
        let horizon = HorizonRule::of_name(HorizonName::Fixed(1000));
        let far = Policy { dynamics: Dynamics::Linear, horizon, ..Policy::paper() };
        let mut outside = 0;
        for number in 0..20 {
            let task = digit_shift(number);
            for predictor in [predictor(Policy::default()), predictor(far.clone())] {
                let answer = predictor.answer(&task).unwrap();
                let said = answer.report.prediction.clone();
                let linear = said.linear.unwrap();
                assert_eq!(said.adapted, Some(linear.clamp(0.0, 1.0)));
                outside += usize::from(said.adapted != said.linear);
                let kept = predictor.clone().with_updates(true).answer(&task).unwrap();
                assert_eq!((answer.update, &kept.report), (None, &answer.report));
                let update = kept.update.unwrap();
                let again = predictor.apply_linear(&task, &update).unwrap().prediction;
                assert!((again.linear.unwrap() - linear).abs() < 1e-4, "{linear}");
                assert_eq!(again.adapted, Some(again.linear.unwrap().clamp(0.0, 1.0)));
            }
        }
        assert!(outside > 0);
    }

    /// Ten examples of `y = x + shift` modulo 10; in every other task most of the labels are wrong.
    fn digit_shift(number: usize) -> Task {
        let shift = number / 2;
        let examples = (0..10).map(|i| {
            let x = (7 * i + number) % 10;
            let wrong = if number % 2 == 1 && i % 2 == 0 { i + 1 } else { 0 };
            let y = (x + shift + wrong) % 10;
            serde_json::json!({"x": x.to_string(), "y": y.to_string()})
        });
        let labels = (0..10_u8).map(|digit| {
            serde_json::json!({"text": digit.to_string(), "value": f64::from(digit) / 9.0})
        });
        let task = serde_json::json!({
            "id": number.to_string(),
            "template": "{x}->{y}",
            "labels": labels.collect::<Vec<_>>(),
            "examples": examples.collect::<Vec<_>>(),
            "query": {"x": "4"},
        });
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn a_model_with_fewer_layers_takes_both_policies() {
        let config = fewstep_engine::Config::from_json(
            br#"{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 4,
                 "n_positions": 64, "vocab_size": 256}"#,
        )
        .unwrap();
        let parameters = fewstep_engine::Parameters::zeros(&config).unwrap();
        let tokenizer = fewstep_engine::Tokenizer::of_bytes();
        let model = Model::new(config, tokenizer, parameters).unwrap();
        let names = |policy| -> Vec<String> {
            let predictor = Predictor::new(model.clone(), policy, Action::Act).unwrap();
            predictor.blocks().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(Policy::default()), ["mlp-up.1"]);
        let all = ["value.0.0", "value.0.1", "value.1.0", "value.1.1"];
        assert_eq!(names(Policy::paper()), all);
    }
}

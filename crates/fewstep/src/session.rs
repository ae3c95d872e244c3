//! A model with the settings of a run: one task in, one report out.
//!
//! In: a [`Task`]. Out: an [`Answer`]. A session is read-only, so that any number of threads may
//! use one at the same time. It neither reads nor writes files.

use crate::error::Error;
use crate::report::{Passes, Prediction, Report, Which};
use crate::way::{Dynamics, Way};
use fewstep_core::{Decision, Rules, Selection, Update as Choice, decide};
use fewstep_engine::{
    BlockId, BlockKind, Config, FirstFactor, Labels, Layout, Model, Observation, Outcome,
    PassCount, Prepared, Steps, Tape, Task, Update, choose_blocks, descend, predict_linear,
};
use std::collections::BTreeMap;

/// The largest number of steps that may be asked for.
pub const LONGEST_HORIZON: u32 = 100_000;

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
    /// It is carried out, in the model or by the linear picture as the [way](Way::dynamics) says.
    Act,
}

/// A model and how its tasks are answered.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Session};
///
/// let session = Session::new(fewstep::builtin()?, Action::Act)?;
/// assert!(!session.blocks().is_empty());
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    model: Model,
    blocks: Vec<BlockId>,
    rules: Rules,
    dynamics: Dynamics,
    action: Action,
    full: bool,
    keep: bool,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What is said about it.
    pub report: Report,
    /// `θ`: the update, if one was carried out in the model, or if the linear picture answered and
    /// updates are [kept](Session::with_updates); one block of zeros if the decision was to leave the
    /// model alone.
    pub update: Option<Update>,
}

impl Session {
    /// A session that goes the [usual way](Way::usual).
    ///
    /// # Errors
    ///
    /// None for a model with at least one layer.
    pub fn new(model: Model, action: Action) -> Result<Self, Error> {
        let Way { blocks, rules, dynamics } = Way::usual(model.config());
        let blocks = choose_blocks(&blocks, model.config())?;
        Ok(Self { model, blocks, rules, dynamics, action, full: false, keep: false })
    }

    /// The same session with other candidate blocks and rules, carried out in another way.
    ///
    /// # Errors
    ///
    /// Those of [`choose_blocks`], [`Error::HorizonTooLarge`] for steps that no machine would
    /// finish, [`Error::NoBudget`] and [`Error::BadBudget`] for a selection that does not fit the
    /// blocks. What else is wrong with rules is said when a task is decided on.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Action, Error, Session, Way};
    /// use fewstep_core::{Rules, Selection};
    ///
    /// let session = Session::new(fewstep::builtin()?, Action::Decide)?;
    /// let rules = Rules { select: Selection::TraceTop, ..Rules::default() };
    /// let way = Way { blocks: "value@last1".to_owned(), rules, ..Way::paper(session.model().config()) };
    /// assert!(matches!(session.with_way(way), Err(Error::NoBudget { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_way(mut self, way: Way) -> Result<Self, Error> {
        self.blocks = choose_blocks(&way.blocks, self.model.config())?;
        self.dynamics = way.dynamics;
        let (rules, largest) = (way.rules, LONGEST_HORIZON);
        let asked = match rules.horizon {
            fewstep_core::HorizonRule::Fixed(horizon) => Some(horizon),
            _ => None,
        };
        if let Some(&found) =
            rules.horizons.iter().chain(asked.iter()).find(|&&horizon| horizon > largest)
        {
            return Err(Error::HorizonTooLarge { found, largest });
        }
        let (rule, blocks) = (rules.select.to_string(), self.blocks.len());
        match (rules.select, rules.budget) {
            (Selection::All | Selection::LeaveOneOut | Selection::Depth, None) => {}
            (_, None) => return Err(Error::NoBudget { rule, blocks }),
            (Selection::All | Selection::Depth, Some(budget)) => {
                let remedy = "leave it out, or add --select query-aware";
                return Err(Error::BadBudget { budget, rule, blocks, remedy });
            }
            (_, Some(budget)) if budget == 0 || budget > blocks => {
                let remedy = "ask for at least 1 and at most all of them";
                return Err(Error::BadBudget { budget, rule, blocks, remedy });
            }
            (_, Some(_)) => {}
        }
        self.rules = rules;
        Ok(self)
    }

    /// The same session with or without matrices, filters and paths in its reports. With them the
    /// query is predicted after every step; nothing else that is said changes, but what it cost.
    #[must_use]
    pub fn with_matrices(mut self, full: bool) -> Self {
        self.full = full;
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

    /// The same session, whose answers by the linear picture hold updates, too, or do not. Nothing that
    /// is said changes.
    #[must_use]
    pub fn with_updates(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// How decisions are carried out.
    #[must_use]
    pub fn dynamics(&self) -> Dynamics {
        self.dynamics
    }

    /// Observes a task, decides, and acts if the session is to act.
    ///
    /// # Errors
    ///
    /// Those of [`Model::prepare`], [`decide`] and [`Prepared::act`].
    pub fn answer(&self, task: &Task) -> Result<Answer, Error> {
        let (mut outcome, mut kept) = (None, None);
        let (seen, decision) = if self.action == Action::Decide {
            let seen = self.model.observe(task, &self.blocks)?;
            let decision = decide(&seen.geometry, &self.rules)?;
            (seen, decision)
        } else {
            let prepared = self.model.prepare(task, &self.blocks)?;
            let decision = decide(&prepared.observation().geometry, &self.rules)?;
            let seen = match self.dynamics {
                Dynamics::Steps => {
                    let (seen, done) = self.act(task, prepared, &decision)?;
                    outcome = Some(done);
                    seen
                }
                Dynamics::Linear if self.keep => {
                    let (seen, made) = self.linear_update(task, prepared, &decision)?;
                    kept = Some(made);
                    seen
                }
                Dynamics::Linear => prepared.into_observation(),
            };
            (seen, decision)
        };
        let reasons = (&self.rules, &decision);
        let mut report = Report::new(task, &seen, reasons, outcome.as_ref(), self.full)?;
        report.which.heads = heads(self.model.config(), &self.blocks);
        if (self.action, self.dynamics) == (Action::Act, Dynamics::Linear) {
            let linear = report.prediction.linear;
            report.prediction.adapted = linear.map(|found| task.clamp_to_labels(found));
        }
        let update = outcome.and_then(|outcome| outcome.update).or(kept);
        Ok(Answer { report, update })
    }

    /// The update that the linear picture moves predictions along.
    fn linear_update(
        &self,
        task: &Task,
        prepared: Prepared<'_>,
        decision: &Decision,
    ) -> Result<(Observation, Update), Error> {
        let selected = &decision.which.selected;
        if decision.update == Choice::None {
            let (update, _) = self.zeros(task, self.blocks[selected[0]])?;
            return Ok((prepared.into_observation(), update));
        }
        let blocks: Vec<BlockId> = selected.iter().map(|&index| self.blocks[index]).collect();
        Ok(prepared.filter_update(&blocks, &decision.update, &decision.spectrum)?)
    }

    /// Carries the decision out. To leave the model alone costs nothing: the prediction is known.
    fn act(
        &self,
        task: &Task,
        prepared: Prepared<'_>,
        decision: &Decision,
    ) -> Result<(Observation, Outcome), Error> {
        if decision.update != Choice::None {
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
            departures: Vec::new(),
            update: Some(update),
            passes,
        };
        Ok((seen, outcome))
    }

    /// An update of one block that does not move, and what it cost: nothing, unless the block's
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
        let mut tape = Tape::new(self.model.network(), layout, &labels, &moved(update))?;
        let icl = finite(tape.predictions(), 0)?;
        let adapted = finite(tape.run(update)?, 1)?;
        Ok(self.applied(task, update, (icl, adapted), tape.passes()))
    }

    /// As [`Session::apply`] at half of its cost: what the model says without the update is not
    /// asked, and no number in the report.
    ///
    /// # Errors
    ///
    /// Those of [`Session::apply`].
    pub fn apply_alone(&self, task: &Task, update: &Update) -> Result<Report, Error> {
        let (layout, labels) = self.query_of(task)?;
        let tape = Tape::of_update(self.model.network(), layout, &labels, update)?;
        let adapted = finite(tape.predictions(), 1)?;
        Ok(self.applied(task, update, (f64::NAN, adapted), tape.passes()))
    }

    /// Predicts a task's query as the linear picture moves it along an update that was made before;
    /// nothing is decided.
    ///
    /// # Errors
    ///
    /// Those of [`Model::read`] and [`predict_linear`].
    pub fn apply_linear(&self, task: &Task, update: &Update) -> Result<Report, Error> {
        let (layout, labels) = self.query_of(task)?;
        let found = predict_linear(self.model.network(), layout, &labels, update)?;
        let (icl, linear) = (found.prediction, found.prediction + found.change);
        let mut report =
            self.applied(task, update, (icl, task.clamp_to_labels(linear)), found.passes);
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
        (icl, adapted): (f64, f64),
        passes: PassCount,
    ) -> Report {
        let blocks = moved(update);
        Report {
            id: task.id.clone(),
            prediction: Prediction {
                icl,
                adapted: Some(adapted),
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

/// The blocks of an update.
fn moved(update: &Update) -> Vec<BlockId> {
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
    use fewstep_core::HorizonRule;

    #[test]
    fn rules_that_cannot_be_followed_are_refused_before_any_task() {
        let session = Session::new(crate::builtin().unwrap(), Action::Decide).unwrap();
        let blocks = 48;
        let refused = |rules: Rules| {
            let way = Way { rules, ..Way::paper(session.model().config()) };
            session.clone().with_way(way).unwrap_err()
        };
        let select = |selection, budget| {
            refused(Rules { select: selection, budget, ..Rules::default() })
        };
        let rule = |name: &str| name.to_owned();

        let none = Error::NoBudget { rule: rule("query-aware"), blocks };
        assert_eq!(select(Selection::QueryAware, None), none);
        for (selection, name, found) in [
            (Selection::All, "all", 1),
            (Selection::Depth, "depth", 1),
            (Selection::TraceTop, "trace-top", 0),
            (Selection::TraceTop, "trace-top", blocks + 1),
        ] {
            let error = select(selection, Some(found));
            assert!(matches!(
                error,
                Error::BadBudget { budget, rule, blocks: all, .. }
                    if budget == found && rule == name && all == blocks
            ));
        }
        let too_far = Error::HorizonTooLarge { found: 100_001, largest: LONGEST_HORIZON };
        let fixed = HorizonRule::Fixed(100_001);
        assert_eq!(refused(Rules { horizon: fixed, ..Rules::default() }), too_far);
        let horizons = vec![0, 100_001];
        assert_eq!(refused(Rules { horizons, ..Rules::default() }), too_far);
    }

    /// After many steps some linear predictions leave the labels, which an answer does not; what the
    /// linear picture says stays as it is. To keep an update changes nothing that is said.
    #[test]
    fn linear_answers_are_cut_to_the_labels() {
        let session = Session::new(crate::builtin().unwrap(), Action::Act).unwrap();
        assert_eq!(session.dynamics(), Dynamics::Linear);
        let config = session.model().config();
        let rules = Rules { horizon: HorizonRule::Fixed(1000), ..Rules::default() };
        let far = Way { dynamics: Dynamics::Linear, rules, ..Way::paper(config) };
        let far = session.clone().with_way(far).unwrap();
        let mut outside = 0;
        for seed in 0..20 {
            let task = crate::reproduce::digit_shift::draw(seed, 0, "\n").task;
            for session in [&session, &far] {
                let answer = session.answer(&task).unwrap();
                let said = answer.report.prediction.clone();
                let linear = said.linear.unwrap();
                assert_eq!(said.adapted, Some(linear.clamp(0.0, 1.0)));
                outside += usize::from(said.adapted != said.linear);
                let kept = session.clone().with_updates(true).answer(&task).unwrap();
                assert_eq!((answer.update, &kept.report), (None, &answer.report));
                let update = kept.update.unwrap();
                let again = session.apply_linear(&task, &update).unwrap().prediction;
                assert!((again.linear.unwrap() - linear).abs() < 1e-4, "{linear}");
                assert_eq!(again.adapted, Some(again.linear.unwrap().clamp(0.0, 1.0)));
            }
        }
        assert!(outside > 0);
    }

    #[test]
    fn a_model_with_fewer_layers_has_default_blocks_too() {
        let config = fewstep_engine::Config::from_json(
            br#"{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 4,
                 "n_positions": 64, "vocab_size": 256}"#,
        )
        .unwrap();
        let parameters = fewstep_engine::Parameters::zeros(&config).unwrap();
        let tokenizer = fewstep_engine::Tokenizer::of_bytes();
        let model = Model::new(config, tokenizer, parameters).unwrap();
        let session = Session::new(model, Action::Act).unwrap();
        let names = |session: &Session| -> Vec<String> {
            session.blocks().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(&session), ["mlp-up.1"]);
        let paper = Way::paper(session.model().config());
        let session = session.with_way(paper).unwrap();
        assert_eq!(names(&session), ["value.0.0", "value.0.1", "value.1.0", "value.1.1"]);
    }
}

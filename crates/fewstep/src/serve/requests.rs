//! What a body asks for: tasks, a model and options, each checked, with the field at fault if
//! something is not right.
//!
//! In: the bytes of a request. Out: [`Request`], a predictor and its tasks. Unknown and duplicate
//! fields are refused. In a list every task stands for itself: one that cannot be
//! read becomes a failure in its place.

use super::adapters::{UpdateKey, WrittenOptions};
use super::fields::{Value, fields};
use super::limits::Limits;
use super::problems::{Problem, ProblemKind};
use super::{Models, NamedModel};
use crate::error::Error;
use crate::options::Options;
use crate::predictor::{Action, Predictor};
use crate::report::Failure;
use crate::tasks;
use fewstep_core::{Adjoint, Dynamics, HorizonName, HorizonRule, Horizons, Overrides, Policy};
use fewstep_engine::{Bos, Task};
use std::str::FromStr;

/// What a route does with its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// `/v1/decide`.
    Decide,
    /// `/v1/predict`.
    Predict,
}

/// A request that can be answered.
pub(super) struct Request {
    pub(super) predictor: Predictor,
    /// Whether reports hold matrices.
    pub(super) full: bool,
    pub(super) tasks: Tasks,
}

/// The tasks of a request.
pub(super) enum Tasks {
    One(Box<Question>),
    Many(Vec<Result<Question, Failure>>),
}

/// A task to answer, and the key of its update if updates are kept.
pub(super) struct Question {
    pub(super) task: Task,
    /// Which of the queries it is, if the task was written with a list of them.
    pub(super) query: Option<usize>,
    pub(super) key: Option<UpdateKey>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its texts are nobody's business.
        formatter.debug_struct("Request").field("full", &self.full).finish_non_exhaustive()
    }
}

/// What the fields of a request say.
#[derive(Default)]
struct RequestFields<'a> {
    options: Options,
    /// Whether the policy is written out in the request.
    policy_written: bool,
    model: Option<String>,
    reuse: Option<bool>,
    task: Option<Value<'a>>,
    tasks: Option<Value<'a>>,
}

impl Request {
    /// Reads a body.
    pub(super) fn read(
        body: &[u8],
        verb: Verb,
        models: &Models,
        limits: &Limits,
    ) -> Result<Self, Problem> {
        let text = std::str::from_utf8(body).map_err(|error| {
            let detail = format!("invalid UTF-8 at byte {}", error.valid_up_to());
            Problem::new(ProblemKind::NotJson, detail)
        })?;
        let mut found = RequestFields::default();
        for value in fields(text)? {
            found.set(verb, value)?;
        }
        let action = if verb == Verb::Decide { Action::Decide } else { Action::Act };
        let NamedModel { name, model } = models.find(found.model.as_deref())?;
        let predictor = found.options.predictor(model.clone(), action);
        let predictor = predictor.map_err(|error| found.problem(&error))?;
        found.check_steps(predictor.policy(), limits)?;
        let RequestFields { options, reuse, task, tasks, .. } = found;
        let keeps = reuse.unwrap_or(true) && action == Action::Act;
        let written = keeps.then(|| WrittenOptions::new(name, &predictor, &options));
        let question = |task: Task, query: Option<usize>| {
            let key = written.as_ref().map(|written| UpdateKey::of(&task, written));
            Question { task, query, key }
        };
        let questions = |task: Task| -> Vec<Question> {
            let listed = task.further.is_some();
            let queries = task.queries().enumerate();
            let ask = |(index, query)| question(task.asking(query), listed.then_some(index));
            queries.map(ask).collect()
        };
        let tasks = match (task, tasks) {
            (Some(value), None) => {
                let task = one(value, limits)?;
                match task.further {
                    None => Tasks::One(Box::new(question(task, None))),
                    Some(_) => Tasks::Many(questions(task).into_iter().map(Ok).collect()),
                }
            }
            (None, Some(value)) => Tasks::Many(many(value, limits, questions)?),
            (Some(_), Some(_)) => {
                return Err(Problem::wrong("tasks", "expected task or tasks, found both"));
            }
            (None, None) => {
                return Err(Problem::wrong("task", "missing: give a task, or tasks"));
            }
        };
        Ok(Self { predictor, full: options.full, tasks })
    }
}

impl<'a> RequestFields<'a> {
    /// Takes note of a field.
    fn set(&mut self, verb: Verb, value: Value<'a>) -> Result<(), Problem> {
        let options = &mut self.options;
        let overrides = &mut options.overrides;
        match value.name() {
            "task" => self.task = Some(value),
            "tasks" => self.tasks = Some(value),
            "model" => self.model = Some(value.text()?),
            "blocks" => overrides.blocks = Some(value.text()?),
            "select" => overrides.select = Some(named(&value)?),
            "budget" => overrides.budget = Some(value.whole(1)?),
            "horizon" => overrides.horizon = Some(horizon(&value)?),
            "horizons" => overrides.horizons = Some(horizons(&value)?),
            "step_scale" => overrides.step_scale = Some(value.fraction()?),
            "seed" => overrides.seed = Some(value.whole(0)?),
            "coverage" => overrides.coverage = Some(value.fraction()?),
            "confidence" => overrides.confidence = Some(value.fraction()?),
            "policy" => {
                self.policy_written = !value.is_text();
                options.policy = policy(&value)?;
            }
            "lora_rank" => options.lora_rank = Some(value.whole(1)?),
            "lora_first" => options.lora_first = Some(named(&value)?),
            "bos" => {
                options.bos = value.choice(&[
                    ("auto", Bos::Auto),
                    ("always", Bos::Always),
                    ("never", Bos::Never),
                ])?;
            }
            "max_tokens_per_example" => {
                options.max_tokens_per_example = Some(value.whole(1)?);
            }
            "loo_order" => options.loo_order = named(&value)?,
            "full" => options.full = value.flag()?,
            "dynamics" => overrides.dynamics = Some(named::<Dynamics>(&value)?),
            "adjoint" => overrides.adjoint = Some(named::<Adjoint>(&value)?),
            "residuals" => overrides.residuals = Some(named(&value)?),
            "orders" => overrides.orders = Some(value.whole(1)?),
            "shots" => overrides.shots = Some(value.whole(1)?),
            "reuse" if verb == Verb::Predict => self.reuse = Some(value.flag()?),
            name => {
                let mut known = KNOWN_FIELDS.join(", ");
                if verb == Verb::Predict {
                    known += ", reuse";
                }
                let detail = format!("unknown field: expected one of {known}");
                return Err(Problem::wrong(shortened(name), detail));
            }
        }
        Ok(())
    }

    /// Where a setting stands in the request: in the policy, if that is written out and nothing
    /// overrides it.
    fn place(&self, setting: &'static str) -> String {
        let Overrides {
            blocks,
            select,
            budget,
            seed: _,
            horizon,
            horizons,
            step_scale,
            dynamics: _,
            coverage,
            confidence,
            adjoint,
            residuals,
            orders,
            shots,
        } = &self.options.overrides;
        let (inside, overridden) = match setting {
            "blocks" => ("", blocks.is_some()),
            "budget" => ("selection.", budget.is_some() || select.is_some()),
            "horizon" => ("", horizon.is_some()),
            "horizons" => ("", horizons.is_some()),
            "step_scale" => ("", step_scale.is_some()),
            "coverage" => ("", coverage.is_some()),
            "confidence" => ("classes.", confidence.is_some()),
            "adjoint" => ("", adjoint.is_some()),
            "residuals" => ("", residuals.is_some()),
            "orders" => ("residuals.", orders.is_some() || residuals.is_some()),
            "shots" => ("", shots.is_some()),
            // The parameters of a rule have no field of their own.
            "steps" | "inverse_temperature" | "gate" | "sharpness" | "leave_alone_odds" => {
                ("horizon.", horizon.is_some())
            }
            _ => return setting.to_owned(),
        };
        match (self.policy_written && !overridden, setting) {
            (true, _) => format!("policy.{inside}{setting}"),
            (false, "steps") => "horizon".to_owned(),
            (false, _) => setting.to_owned(),
        }
    }

    /// The problem of options that cannot be followed.
    fn problem(&self, error: &Error) -> Problem {
        let problem = Problem::new(ProblemKind::Wrong, error.to_string());
        match error.field() {
            Some(field) => problem.at(self.place(field.name())),
            None => problem,
        }
    }

    /// `Err` if a policy asks for more steps than this service takes. The candidates of policies
    /// that have a name are always taken.
    fn check_steps(&self, policy: &Policy, limits: &Limits) -> Result<(), Problem> {
        let fixed = match policy.horizon {
            HorizonRule::Fixed { steps } => Some(("steps", steps)),
            _ => None,
        };
        let named = [Policy::default(), Policy::paper()];
        let own = named.iter().any(|named| named.horizons == policy.horizons);
        let last = policy.horizons.last().filter(|_| !own).map(|&last| ("horizons", last));
        let most = limits.steps;
        match fixed.into_iter().chain(last).find(|(_, found)| *found > most) {
            None => Ok(()),
            Some((setting, found)) => {
                let detail =
                    format!("{found} steps were asked for; this service takes at most {most}");
                Err(Problem::new(ProblemKind::TooLarge, detail).at(self.place(setting)))
            }
        }
    }
}

/// The fields that every request may have.
const KNOWN_FIELDS: [&str; 24] = [
    "task",
    "tasks",
    "model",
    "policy",
    "blocks",
    "select",
    "budget",
    "horizon",
    "horizons",
    "step_scale",
    "dynamics",
    "coverage",
    "confidence",
    "adjoint",
    "residuals",
    "orders",
    "shots",
    "seed",
    "lora_rank",
    "lora_first",
    "bos",
    "max_tokens_per_example",
    "loo_order",
    "full",
];

/// The beginning of a name that a client made up.
fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

/// A field by the name of what it stands for, as on the command line.
fn named<T>(value: &Value<'_>) -> Result<T, Problem>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text = value.text()?;
    text.parse().map_err(|error: T::Err| Problem::wrong(value.name(), error.to_string()))
}

/// A policy by its name, or written out; what it asks for is checked once overrides are known.
fn policy(value: &Value<'_>) -> Result<Policy, Problem> {
    if value.is_text() {
        let found = Policy::named(&value.text()?);
        return found.map_err(|error| Problem::wrong(value.name(), error.to_string()));
    }
    value.check_object()?;
    value.nested()
}

/// A rule by its name, or a number of steps.
fn horizon(value: &Value<'_>) -> Result<HorizonName, Problem> {
    if value.is_text() { named(value) } else { Ok(HorizonName::Fixed(value.whole(0)?)) }
}

/// Candidate numbers of steps: the command line's text, or numbers.
fn horizons(value: &Value<'_>) -> Result<Horizons, Problem> {
    if value.is_text() {
        return named(value);
    }
    let found = Horizons::new(value.wholes()?);
    found.map_err(|error| Problem::wrong(value.name(), error.to_string()))
}

/// The only task of a request.
fn one(value: Value<'_>, limits: &Limits) -> Result<Task, Problem> {
    value.check_object()?;
    let task: Task = value.nested()?;
    match too_many(&task, limits) {
        None => Ok(task),
        Some(TooMany { field, detail }) => {
            Err(Problem::new(ProblemKind::TooLarge, detail).at(format!("task.{field}")))
        }
    }
}

/// The tasks of a list, each as the command line reads a line.
fn many(
    value: Value<'_>,
    limits: &Limits,
    questions: impl Fn(Task) -> Vec<Question>,
) -> Result<Vec<Result<Question, Failure>>, Problem> {
    let found = value.entries(limits.tasks + 1)?;
    if found.is_empty() {
        return Err(Problem::wrong("tasks", "the list is empty; give at least one task"));
    }
    if found.len() > limits.tasks {
        let detail =
            format!("there are more than {} tasks; send several requests", limits.tasks);
        return Err(Problem::new(ProblemKind::TooLarge, detail).at("tasks"));
    }
    let read = |(place, text): (usize, &str)| {
        let failure =
            |id, error| vec![Err(Failure { id, line: place as u64 + 1, query: None, error })];
        match tasks::parse(text.as_bytes()) {
            Err(Error::Json { ref id, column, ref problem }) => {
                failure(id.clone(), format!("column {column} of the task: {problem}"))
            }
            Err(error) => failure(None, error.to_string()),
            Ok(task) => match too_many(&task, limits) {
                None => questions(task).into_iter().map(Ok).collect(),
                Some(TooMany { detail, .. }) => failure(Some(task.id), detail),
            },
        }
    };
    Ok(found.into_iter().enumerate().flat_map(read).collect())
}

/// A field of a task that has more entries than this service takes.
struct TooMany {
    field: &'static str,
    detail: String,
}

fn too_many(task: &Task, limits: &Limits) -> Option<TooMany> {
    let counts = [
        ("examples", task.examples.len(), limits.examples),
        ("labels", task.labels.len(), limits.labels),
        ("queries", task.queries().count(), limits.tasks),
    ];
    let (field, found, most) = counts.into_iter().find(|(_, found, most)| found > most)?;
    let detail = format!("the task has {found} {field}; this service takes at most {most}");
    Some(TooMany { field, detail })
}

//! What a body asks for: tasks, a model and options, each checked, with the field at fault if
//! something is not right.
//!
//! In: the bytes of a request. Out: [`Request`], a predictor and its tasks. A field that nobody knows
//! or that is there twice is refused. In a list every task stands for itself: one that cannot be
//! read becomes a failure in its place.

use super::Models;
use super::adapters::{Key, Written};
use super::faults;
use super::fields::{Value, fields};
use super::limits::Limits;
use super::problems::{Kind, Problem};
use crate::error::Error;
use crate::options::Options;
use crate::predictor::{Action, Predictor};
use crate::report::Failure;
use crate::tasks;
use fewstep_core::{Dynamics, HorizonName, HorizonRule, Horizons, Policy};
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
    One(Box<Asked>),
    Many(Vec<Result<Asked, Failure>>),
}

/// A task, and the name of its update if updates are kept.
pub(super) struct Asked {
    pub(super) task: Task,
    pub(super) key: Option<Key>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its texts are nobody's business.
        formatter.debug_struct("Request").field("full", &self.full).finish_non_exhaustive()
    }
}

/// What the fields say beside tasks.
#[derive(Default)]
struct Said<'a> {
    options: Options,
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
            let detail = format!("the byte at {} is no UTF-8", error.valid_up_to());
            Problem::new(Kind::NotJson, detail)
        })?;
        let mut said = Said::default();
        for (name, value) in fields(text)? {
            said.set(verb, &name, value)?;
        }
        let Said { options, model, reuse, task, tasks } = said;
        let action = if verb == Verb::Decide { Action::Decide } else { Action::Act };
        let (name, model) = models.find(model.as_deref())?;
        let predictor = options.predictor(model.clone(), action);
        let predictor = predictor.map_err(|error| faults::of_options(&error))?;
        check_steps(predictor.policy(), limits)?;
        let keeps = reuse.unwrap_or(true) && action == Action::Act;
        let predictor = predictor.with_updates(keeps);
        let written = keeps.then(|| Written::new(name, &predictor, &options));
        let asked = |task: Task| {
            let key = written.as_ref().map(|written| Key::of(&task, written));
            Asked { task, key }
        };
        let tasks = match (task, tasks) {
            (Some(value), None) => Tasks::One(Box::new(asked(one(value, limits)?))),
            (None, Some(value)) => Tasks::Many(many(value, limits, asked)?),
            (Some(_), Some(_)) => {
                return Err(Problem::wrong(
                    "tasks",
                    "there is a task already; give one of both",
                ));
            }
            (None, None) => {
                return Err(Problem::wrong("task", "there is none; give a task, or tasks"));
            }
        };
        Ok(Self { predictor, full: options.full, tasks })
    }
}

impl<'a> Said<'a> {
    /// Takes note of a field.
    fn set(&mut self, verb: Verb, name: &str, value: Value<'a>) -> Result<(), Problem> {
        let options = &mut self.options;
        let overrides = &mut options.overrides;
        match name {
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
            "policy" => options.policy = policy(&value)?,
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
            "reuse" if verb == Verb::Predict => self.reuse = Some(value.flag()?),
            _ => {
                let mut known = OPTIONS.join(", ");
                if verb == Verb::Predict {
                    known += ", reuse";
                }
                let detail = format!("there is no such field here; there are {known}");
                return Err(Problem::wrong(shortened(name), detail));
            }
        }
        Ok(())
    }
}

/// The fields that every request may have.
const OPTIONS: [&str; 19] = [
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

/// A policy by its name, or written out.
fn policy(value: &Value<'_>) -> Result<Policy, Problem> {
    let found = match value.is_text() {
        true => Policy::named(&value.text()?),
        false => {
            value.check_object()?;
            Policy::from_json(value.json())
        }
    };
    found.map_err(|error| {
        let field = error.field().map_or(String::new(), |field| match field.name() {
            "policy" => String::new(),
            name => format!(".{name}"),
        });
        Problem::wrong(format!("policy{field}"), error.to_string())
    })
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

/// `Err` if a policy asks for more steps than this service takes.
fn check_steps(policy: &Policy, limits: &Limits) -> Result<(), Problem> {
    let most = limits.steps;
    let given = match policy.horizon {
        HorizonRule::Fixed { steps } => Some(("horizon", steps)),
        _ => None,
    };
    let last = policy.horizons.last().map(|&last| ("horizons", last));
    match given.into_iter().chain(last).find(|(_, found)| *found > most) {
        None => Ok(()),
        Some((field, found)) => {
            let detail =
                format!("{found} steps were asked for; this service takes at most {most}");
            Err(Problem::new(Kind::TooLarge, detail).at(field))
        }
    }
}

/// The only task of a request.
fn one(value: Value<'_>, limits: &Limits) -> Result<Task, Problem> {
    value.check_object()?;
    let task: Task = value.nested()?;
    match too_many(&task, limits) {
        None => Ok(task),
        Some((field, detail)) => {
            Err(Problem::new(Kind::TooLarge, detail).at(format!("task.{field}")))
        }
    }
}

/// The tasks of a list, each as the command line reads a line.
fn many(
    value: Value<'_>,
    limits: &Limits,
    asked: impl Fn(Task) -> Asked,
) -> Result<Vec<Result<Asked, Failure>>, Problem> {
    let found = value.entries(limits.tasks + 1)?;
    if found.is_empty() {
        return Err(Problem::wrong("tasks", "the list is empty; give at least one task"));
    }
    if found.len() > limits.tasks {
        let detail =
            format!("there are more than {} tasks; send several requests", limits.tasks);
        return Err(Problem::new(Kind::TooLarge, detail).at("tasks"));
    }
    let read = |(place, text): (usize, &str)| {
        let failure =
            |id: Option<String>, error: String| Failure { id, line: place as u64 + 1, error };
        match tasks::parse(text.as_bytes()) {
            Err(Error::Json { ref id, column, ref problem }) => {
                Err(failure(id.clone(), format!("column {column} of the task: {problem}")))
            }
            Err(error) => Err(failure(None, error.to_string())),
            Ok(task) => match too_many(&task, limits) {
                None => Ok(asked(task)),
                Some((_, detail)) => Err(failure(Some(task.id), detail)),
            },
        }
    };
    Ok(found.into_iter().enumerate().map(read).collect())
}

/// The field of a task that has more entries than this service takes.
fn too_many(task: &Task, limits: &Limits) -> Option<(&'static str, String)> {
    let counts = [
        ("examples", task.examples.len(), limits.examples),
        ("labels", task.labels.len(), limits.labels),
    ];
    let (name, found, most) = counts.into_iter().find(|(_, found, most)| found > most)?;
    Some((name, format!("the task has {found} {name}; this service takes at most {most}")))
}

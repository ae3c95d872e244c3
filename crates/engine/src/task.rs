//! A task: labelled examples, a query, and how they are written into a prompt.
//!
//! In: one JSON object. Out: [`Task`], whose text parts [`crate::Prompts`] puts together. What
//! can be said without a tokenizer is checked here.

use crate::error::{Error, Place};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// An answer the model may give, and in regression the number it stands for.
///
/// In JSON an object, or the text alone.
///
/// # Examples
///
/// ```
/// use fewstep_engine::Label;
///
/// let label = Label { text: "7".to_owned(), value: Some(7.0) };
/// assert_eq!(label.value, Some(7.0));
/// let place: Label = serde_json::from_str(r#""place""#).expect("a label");
/// assert_eq!(place, Label { text: "place".to_owned(), value: None });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Label {
    /// How it is written.
    pub text: String,
    /// The number it stands for; none in a task of classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelVisitor)
    }
}

/// Reads a label that is an object or a text.
struct LabelVisitor;

impl<'de> Visitor<'de> for LabelVisitor {
    type Value = Label;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a label: a text, or an object with `text` and perhaps `value`")
    }

    fn visit_str<E>(self, text: &str) -> Result<Label, E> {
        Ok(Label { text: text.to_owned(), value: None })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Label, A::Error> {
        let WrittenLabel { text, value } =
            WrittenLabel::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Label { text, value })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLabel {
    text: String,
    #[serde(default)]
    value: Option<f64>,
}

/// What a task asks for.
///
/// # Examples
///
/// See [`Task::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A number: every label has a value.
    Regression,
    /// A label: none has one.
    Classification,
}

/// An input with its answer.
///
/// # Examples
///
/// ```
/// let example = fewstep_engine::Example { x: "3".to_owned(), y: "7".to_owned() };
/// assert_eq!(example.y, "7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The input.
    pub x: String,
    /// The answer: the text of a label.
    pub y: String,
}

/// The input whose answer is wanted.
///
/// # Examples
///
/// ```
/// let query = fewstep_engine::Query { x: "4".to_owned(), y: None };
/// assert_eq!(query.y, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// The input.
    pub x: String,
    /// The answer, used for scoring only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
}

/// Labelled examples, a query, and how they are written.
///
/// An example is shown as the template with `{x}` and `{y}` filled in. The prefix of an input is
/// the template up to `{y}`: there the model is asked. What stands behind `{y}` belongs to the
/// examples that are shown.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Task};
///
/// let task: Task = serde_json::from_str(
///     r#"{"id": "t1", "template": "{x}->{y}",
///         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///         "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}],
///         "query": {"x": "4"}}"#,
/// )
/// .expect("this is a task");
/// assert_eq!(task.separator, "\n");
/// assert_eq!(task.template()?.shown("3", "1"), "3->1");
/// assert_eq!(task.template()?.prefix("4"), "4->");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTask", into = "WrittenTask")]
pub struct Task {
    /// The task's name, for reports and messages.
    pub id: String,
    /// How one example is written: text with `{x}` and, behind it, `{y}`.
    pub template: String,
    /// What stands between examples; a line break unless given.
    pub separator: String,
    /// The possible answers; if none are written, the answers of the examples in their order.
    pub labels: Vec<Label>,
    /// The labelled examples, in the order of the prompt.
    pub examples: Vec<Example>,
    /// The input whose answer is wanted; of several, the first.
    pub query: Query,
    /// The inputs after the first, if the task is written with a list of them, `queries`.
    pub further: Option<Vec<Query>>,
}

/// A task as it is written: one query, or a list of them.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTask {
    id: String,
    template: String,
    #[serde(default = "line_break")]
    separator: String,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    examples: Vec<Example>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Query>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queries: Option<Vec<Query>>,
}

fn line_break() -> String {
    "\n".to_owned()
}

impl TryFrom<WrittenTask> for Task {
    type Error = String;

    fn try_from(written: WrittenTask) -> Result<Self, String> {
        let WrittenTask { id, template, separator, labels, examples, query, queries } = written;
        let (query, further) = match (query, queries) {
            (Some(query), None) => (query, None),
            (None, Some(mut queries)) if !queries.is_empty() => {
                let further = queries.split_off(1);
                (queries.swap_remove(0), Some(further))
            }
            (None, Some(_)) => {
                return Err("`queries` is empty, expected at least one query".to_owned());
            }
            (Some(_), Some(_)) => {
                return Err("expected `query` or `queries`, found both".to_owned());
            }
            (None, None) => return Err("missing field `query`".to_owned()),
        };
        let labels = labels.unwrap_or_else(|| answers(&examples));
        Ok(Self { id, template, separator, labels, examples, query, further })
    }
}

/// The distinct answers of the examples, in their order, as labels without values.
fn answers(examples: &[Example]) -> Vec<Label> {
    let mut seen = BTreeSet::new();
    let new = examples.iter().filter(|example| seen.insert(example.y.as_str()));
    new.map(|example| Label { text: example.y.clone(), value: None }).collect()
}

impl From<Task> for WrittenTask {
    fn from(task: Task) -> Self {
        let Task { id, template, separator, labels, examples, query, further } = task;
        let (query, queries) = match further {
            None => (Some(query), None),
            Some(further) => (None, Some([vec![query], further].concat())),
        };
        let labels = Some(labels);
        Self { id, template, separator, labels, examples, query, queries }
    }
}

/// A template in its three parts: before `{x}`, between `{x}` and `{y}`, behind `{y}`.
///
/// # Examples
///
/// See [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template<'a> {
    pub(crate) before: &'a str,
    between: &'a str,
    pub(crate) behind: &'a str,
}

impl Template<'_> {
    /// The text up to where the answer is asked for.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Task};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!(task.template()?.prefix("c"), "c=");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn prefix(&self, x: &str) -> String {
        [self.before, x, self.between].concat()
    }

    /// The text of an example with its answer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Task};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!(task.template()?.shown("c", "1"), "c=1");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn shown(&self, x: &str, y: &str) -> String {
        [self.before, x, self.between, y, self.behind].concat()
    }
}

impl Task {
    /// The largest size of a label's value: kernels hold its square, in single precision.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Task::LARGEST_VALUE, 1e12);
    /// ```
    pub const LARGEST_VALUE: f64 = 1e12;

    /// The largest number of labels that a task of classes may have.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Task::MOST_CLASSES, 200);
    /// ```
    pub const MOST_CLASSES: usize = 200;

    /// What it asks for: a number if any label has a value, else a label.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Task, TaskKind};
    ///
    /// let task: Task = serde_json::from_str(
    ///     r#"{"id": "t1", "template": "{x} is a {y}",
    ///         "examples": [{"x": "Rome", "y": "place"}, {"x": "Ada", "y": "person"}],
    ///         "query": {"x": "Cairo"}}"#,
    /// )
    /// .expect("this is a task");
    /// assert_eq!(task.kind(), TaskKind::Classification);
    /// assert_eq!((task.labels[0].text.as_str(), task.labels.len()), ("place", 2));
    /// ```
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        match self.labels.iter().any(|label| label.value.is_some()) {
            true => TaskKind::Regression,
            false => TaskKind::Classification,
        }
    }

    /// The position of the label with this text.
    ///
    /// # Examples
    ///
    /// See [`Task::kind`].
    #[must_use]
    pub fn label_of(&self, answer: &str) -> Option<usize> {
        self.labels.iter().position(|label| label.text == answer)
    }

    /// Whether the task can be asked at all; its words are checked, its tokens are not. Of several
    /// queries the first is looked at: each of the others stands or falls by itself.
    ///
    /// # Errors
    ///
    /// Those of [`Task::template`]; [`Error::TooFewLabels`], [`Error::EmptyLabel`],
    /// [`Error::DuplicateLabel`] or [`Error::LabelValue`] for the labels;
    /// [`Error::TooFewExamples`], [`Error::EmptyInput`] or [`Error::UnknownLabel`] for the
    /// examples and the query.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Query, Task};
    /// let task = Task {
    ///     id: "t1".to_owned(),
    ///     template: "{x}".to_owned(),
    ///     separator: "\n".to_owned(),
    ///     labels: vec![],
    ///     examples: vec![],
    ///     query: Query { x: "4".to_owned(), y: None },
    ///     further: None,
    /// };
    /// assert!(matches!(task.check(), Err(Error::Placeholder { placeholder: "{y}", found: 0, .. })));
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        self.template()?;
        let labels = self.check_labels()?;
        let (task, found) = (self.id.clone(), self.examples.len());
        if found < 2 {
            return Err(Error::TooFewExamples { task, found });
        }
        for (index, example) in self.examples.iter().enumerate() {
            self.check_words(Place::Example(index), &example.x, Some(&example.y), &labels)?;
        }
        let Query { x, y } = &self.query;
        self.check_words(Place::Query, x, y.as_deref(), &labels)
    }

    /// The inputs whose answers are wanted, one after the other.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::Task;
    /// let task: Task = serde_json::from_str(
    ///     r#"{"id": "t1", "template": "{x}={y}",
    ///         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    ///         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    ///         "queries": [{"x": "c"}, {"x": "d"}]}"#,
    /// ).expect("this is a task");
    /// assert_eq!(task.queries().map(|query| query.x.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    /// ```
    pub fn queries(&self) -> impl Iterator<Item = &Query> {
        std::iter::once(&self.query).chain(self.further.iter().flatten())
    }

    /// The same examples with one other query, and no further ones.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Query, Task};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c"}}"#,
    /// # ).expect("this is a task");
    /// let other = task.asking(&Query { x: "e".to_owned(), y: None });
    /// assert_eq!((other.query.x.as_str(), other.queries().count()), ("e", 1));
    /// ```
    #[must_use]
    pub fn asking(&self, query: &Query) -> Self {
        let Self { id, template, separator, labels, examples, .. } = self;
        Self {
            id: id.clone(),
            template: template.clone(),
            separator: separator.clone(),
            labels: labels.clone(),
            examples: examples.clone(),
            query: query.clone(),
            further: None,
        }
    }

    /// Whether another input can be asked about, the task being one that can.
    pub(crate) fn check_query(&self, query: &Query) -> Result<(), Error> {
        let labels = self.labels.iter().map(|label| label.text.as_str()).collect();
        self.check_words(Place::Query, &query.x, query.y.as_deref(), &labels)
    }

    /// The texts of the labels, each of them once.
    fn check_labels(&self) -> Result<BTreeSet<&str>, Error> {
        let (task, found) = (self.id.clone(), self.labels.len());
        if found < 2 {
            return Err(Error::TooFewLabels { task, found });
        }
        let limit = Self::MOST_CLASSES;
        if self.kind() == TaskKind::Classification && found > limit {
            return Err(Error::TooManyLabels { task, found, limit });
        }
        let mut seen = BTreeSet::new();
        for (index, Label { text, value }) in self.labels.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::EmptyLabel { task, label: index });
            }
            let label = || text.clone();
            if !seen.insert(text.as_str()) {
                return Err(Error::DuplicateLabel { task, label: label() });
            }
            let limit = Self::LARGEST_VALUE;
            match *value {
                Some(value) if value.is_nan() || value.abs() > limit => {
                    return Err(Error::LabelValue { task, label: label(), value, limit });
                }
                None if self.kind() == TaskKind::Regression => {
                    return Err(Error::LabelWithoutValue { task, label: label() });
                }
                _ => {}
            }
        }
        Ok(seen)
    }

    fn check_words(
        &self,
        place: Place,
        x: &str,
        y: Option<&str>,
        labels: &BTreeSet<&str>,
    ) -> Result<(), Error> {
        if x.trim().is_empty() {
            return Err(Error::EmptyInput { task: self.id.clone(), place });
        }
        match y.filter(|&y| !labels.contains(y)) {
            Some(y) => Err(Error::UnknownLabel {
                task: self.id.clone(),
                place,
                found: y.to_owned(),
                allowed: self.labels.iter().map(|label| label.text.clone()).collect(),
            }),
            None => Ok(()),
        }
    }

    /// The template in its parts.
    ///
    /// # Errors
    ///
    /// [`Error::Placeholder`] unless it holds `{x}` once and `{y}` once, and
    /// [`Error::PlaceholderOrder`] unless `{x}` comes first.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Task};
    /// # let mut task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// task.template = "{y}={x}".to_owned();
    /// assert!(matches!(task.template(), Err(Error::PlaceholderOrder { .. })));
    /// ```
    pub fn template(&self) -> Result<Template<'_>, Error> {
        for placeholder in ["{x}", "{y}"] {
            let found = self.template.matches(placeholder).count();
            if found != 1 {
                let (task, template) = (self.id.clone(), self.template.clone());
                return Err(Error::Placeholder { task, template, placeholder, found });
            }
        }
        let parts = self.template.split_once("{x}").and_then(|(before, rest)| {
            rest.split_once("{y}").map(|(between, behind)| Template { before, between, behind })
        });
        parts.ok_or_else(|| Error::PlaceholderOrder {
            task: self.id.clone(),
            template: self.template.clone(),
        })
    }

    /// The number that an answer stands for, if it is a label.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::Task;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}->{y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    /// #         "examples": [], "query": {"x": "4"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!((task.value_of("1"), task.value_of("2")), (Some(1.0), None));
    /// ```
    #[must_use]
    pub fn value_of(&self, answer: &str) -> Option<f64> {
        self.labels.iter().find(|label| label.text == answer)?.value
    }

    /// The smallest and the largest number that a label stands for: no prediction of a model lies
    /// outside, being a mean of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::Task;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}->{y}",
    /// #         "labels": [{"text": "0", "value": 0.5}, {"text": "1", "value": -1.0}],
    /// #         "examples": [], "query": {"x": "4"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!(task.label_range(), [-1.0, 0.5]);
    /// ```
    #[must_use]
    pub fn label_range(&self) -> [f64; 2] {
        let values = || self.labels.iter().filter_map(|label| label.value);
        [values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
    }

    /// A number as an answer: the nearest one in the [range of the labels](Task::label_range).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::Task;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}->{y}",
    /// #         "labels": [{"text": "0", "value": 0.5}, {"text": "1", "value": -1.0}],
    /// #         "examples": [], "query": {"x": "4"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!([-2.0, 0.25, 1.0].map(|found| task.clamp_to_labels(found)), [-1.0, 0.25, 0.5]);
    /// ```
    #[must_use]
    pub fn clamp_to_labels(&self, value: f64) -> f64 {
        let [least, most] = self.label_range();
        value.max(least).min(most)
    }
}

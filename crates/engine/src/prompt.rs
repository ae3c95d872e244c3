//! The prompts of a task as token ids: one per example that leaves it out, and the query's.
//!
//! In: a [`Task`] and the model's [`Tokenizer`]. Out: [`Prompts`], the only form in which a task
//! reaches a model. Sec. 3's promise is kept here: prompt `i` is built without `y_i`.

use crate::arrangement::{Arrangement, spread};
use crate::error::{Error, Place};
use crate::order::Order;
use crate::task::{Query, Task, TaskKind, Template};
use crate::token_task::TokenTask;
use crate::tokens::{Bos, Tokenizer};
use fewstep_core::{Residuals, Shots};
use std::collections::BTreeMap;

/// How prompts are put together.
///
/// | name | default | meaning | range |
/// |---|---|---|---|
/// | `context` | | the longest prompt in tokens: the model's `positions` | |
/// | `bos` | [`Bos::Auto`] | whether a token is put before every prompt | |
/// | `order` | [`Order::Original`] | how leave-one-out prompts order the other examples | |
/// | `max_tokens_per_example` | no limit | every `x` is cut to this number of tokens, counted on the `x` alone | at least 1 |
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Bos, PromptSettings};
///
/// assert_eq!(PromptSettings::new(1024).bos, Bos::Auto);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSettings {
    /// The longest prompt in tokens.
    pub context: usize,
    /// Whether a token is put before every prompt.
    pub bos: Bos,
    /// In which order leave-one-out prompts show the other examples.
    pub order: Order,
    /// The most tokens that the `x` of an example or the query may have; the rest is cut off.
    pub max_tokens_per_example: Option<usize>,
    /// What each example that is shown is predicted behind.
    pub residuals: Residuals,
    /// How many examples a prompt shows at most, or as many as fit; the others are predicted behind
    /// these. `None`: all of them, and what does not fit is refused.
    pub shots: Option<Shots>,
}

impl PromptSettings {
    /// The defaults for a model that takes `context` tokens.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::PromptSettings;
    /// assert_eq!(PromptSettings::new(1024).max_tokens_per_example, None);
    /// ```
    #[must_use]
    pub fn new(context: usize) -> Self {
        Self {
            context,
            bos: Bos::Auto,
            order: Order::Original,
            max_tokens_per_example: None,
            residuals: Residuals::LeaveOneOut,
            shots: None,
        }
    }
}

/// A task as a model sees it.
///
/// Leave-one-out prompt `i` shows the other examples, in their order unless the settings say
/// otherwise, and ends with the prefix of example `i`; the query's prompt shows all examples in
/// their order. Where a prompt ends is decided in tokens: the text with each label is tokenised,
/// the leading tokens that all labels share are the prompt, and the one token that remains of
/// each label is the label's.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
///
/// let task: Task = serde_json::from_str(
///     r#"{"id": "t1", "template": "{x}={y}",
///         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
///         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
///         "query": {"x": "c"}}"#,
/// )
/// .expect("this is a task");
///
/// let tokenizer = Tokenizer::of_bytes();
/// let prompts = Prompts::build(&task, &tokenizer, &PromptSettings::new(64))?;
/// assert_eq!(prompts.leave_one_out()[0], b"b=0\na=".map(u32::from));
/// assert_eq!(prompts.leave_one_out()[1], b"a=1\nb=".map(u32::from));
/// assert_eq!(prompts.query(), b"a=1\nb=0\nc=".map(u32::from));
/// assert_eq!(prompts.label_tokens(), b"01".map(u32::from));
/// assert_eq!(prompts.targets(), [0.5, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    leave_one_out: Vec<Vec<u32>>,
    query: Vec<u32>,
    /// The examples in the order in which prompts lie side by side; the query comes last.
    packing: Vec<usize>,
    /// How many of its first tokens each of these may share with the next prompt in that order.
    shareable: Vec<usize>,
    /// The examples that the query's prompt shows.
    shots: Vec<usize>,
    label_tokens: Vec<u32>,
    label_values: Vec<f64>,
    targets: Vec<f64>,
    query_target: Option<f64>,
}

impl Prompts {
    /// The most tokens that all prompts of a task may have together; observing more would take
    /// more memory than machines have.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Prompts::MOST_TOKENS, 16 * 1024 * 1024);
    /// ```
    pub const MOST_TOKENS: usize = 1 << 24;

    /// Writes and tokenises all prompts of a task.
    ///
    /// # Errors
    ///
    /// Those of [`Task::check`], [`Tokenizer::encode`] and [`Tokenizer::start`];
    /// [`Error::NoTokensPerExample`] for a limit of 0; [`Error::LabelPieces`],
    /// [`Error::LabelsCollide`] or [`Error::LabelsDisagree`] unless every label is one token of
    /// its own, the same in all prompts; [`Error::EmptyPrompt`] if nothing stands before the
    /// labels; [`Error::ContextTooLong`] if a prompt does not fit; [`Error::TooManyTokens`] if all
    /// of them, each as long as the longest, pass [`Prompts::MOST_TOKENS`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Place, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let refused = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(5));
    /// let Err(Error::ContextTooLong { place, length, limit: 5, .. }) = refused else {
    ///     panic!("five tokens are too few");
    /// };
    /// assert_eq!((place, length), (Place::Example(0), 6)); // "b=0", a line break, "a="
    /// # Ok::<(), Error>(())
    /// ```
    pub fn build(
        task: &Task,
        tokenizer: &Tokenizer,
        settings: &PromptSettings,
    ) -> Result<Self, Error> {
        task.check()?;
        if task.kind() != TaskKind::Regression {
            return Err(Error::NotRegression { task: task.id.clone() });
        }
        arranged(task, tokenizer, settings, Self::of)
    }

    /// The prompts of further queries on the same examples, or what is wrong with each; `read` is
    /// the task as it was written before, with as many of its examples.
    pub(crate) fn further(
        task: &Task,
        tokenizer: &Tokenizer,
        settings: &PromptSettings,
        read: &TokenTask,
        queries: &[Query],
    ) -> Result<Vec<Result<Vec<u32>, Error>>, Error> {
        let mut writer = Writer::of_task(task, tokenizer, settings)?;
        writer.show(read.shots(), settings);
        let template = task.template()?;
        let query = task.examples.len();
        let prompt = |asked: &Query| {
            task.check_query(asked)?;
            let x = shortened(&asked.x, tokenizer, settings.max_tokens_per_example)?;
            writer.prefixes[query] = template.prefix(x);
            writer.prompt(Place::Query, &mut read.labels().tokens().to_vec())
        };
        Ok(queries.iter().map(prompt).collect())
    }

    fn of(writer: &Writer<'_>) -> Result<Self, Error> {
        let task = writer.task;
        let examples = task.examples.len();
        let mut leave_one_out = Vec::with_capacity(examples);
        let mut label_tokens = Vec::new();
        for index in 0..examples {
            leave_one_out.push(writer.prompt(Place::Example(index), &mut label_tokens)?);
        }
        let query = writer.prompt(Place::Query, &mut label_tokens)?;
        let (packing, shareable) = writer.packed()?;
        let value =
            |answer: &str| task.value_of(answer).expect("answers were found among labels");
        Ok(Self {
            leave_one_out,
            query,
            packing,
            shareable,
            shots: writer.arrangement.shots().to_vec(),
            label_tokens,
            label_values: task.labels.iter().filter_map(|label| label.value).collect(),
            targets: task.examples.iter().map(|example| value(&example.y)).collect(),
            query_target: task.query.y.as_deref().map(value),
        })
    }

    /// `P⁽⁻ⁱ⁾` and `x_i`: one prompt per example, without its answer (Sec. 3).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.leave_one_out()[0], b"b=0\na=".map(u32::from));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn leave_one_out(&self) -> &[Vec<u32>] {
        &self.leave_one_out
    }

    /// How many of its first tokens each leave-one-out prompt may share with the next, the last
    /// with the query's: those of examples that both show, whatever the answers of the two are.
    pub(crate) fn shareable(&self) -> &[usize] {
        &self.shareable
    }

    pub(crate) fn packing(&self) -> &[usize] {
        &self.packing
    }

    /// How many examples the query's prompt shows.
    ///
    /// # Examples
    ///
    /// See [`Prompts`].
    #[must_use]
    pub fn shown(&self) -> usize {
        self.shots.len()
    }

    pub(crate) fn shots(&self) -> &[usize] {
        &self.shots
    }

    /// The prompt of the query.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.query(), b"a=1\nb=0\nc=".map(u32::from));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn query(&self) -> &[u32] {
        &self.query
    }

    /// The token of each label, in the order of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.label_tokens(), b"01".map(u32::from));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn label_tokens(&self) -> &[u32] {
        &self.label_tokens
    }

    /// The value of each label, in the order of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.label_values(), [0.0, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn label_values(&self) -> &[f64] {
        &self.label_values
    }

    /// `y_i`: the value of each example's answer.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.targets(), [0.5, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }

    /// The value of the query's answer, if it is known; for scoring only.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// # let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(prompts.query_target(), Some(0.5));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn query_target(&self) -> Option<f64> {
        self.query_target
    }
}

/// What is built of a task's prompts: with the examples that a policy shows, or else as many as fit
/// into the context.
pub(crate) fn arranged<T>(
    task: &Task,
    tokenizer: &Tokenizer,
    settings: &PromptSettings,
    build: impl Fn(&Writer<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut writer = Writer::of_task(task, tokenizer, settings)?;
    let examples = task.examples.len();
    let shots = settings.shots.unwrap_or_default();
    match shots.most {
        Some(most) if most == 0 || most > examples => {
            return Err(Error::Shots { task: task.id.clone(), found: most, examples });
        }
        Some(most) if most < examples => {
            writer.show(&writer.spread(shots.seed)[..most], settings);
        }
        _ => {}
    }
    match build(&writer) {
        Err(Error::ContextTooLong { limit, .. })
            if settings.shots.is_some_and(|shots| shots.most.is_none()) =>
        {
            fitting(writer, limit, settings, build)
        }
        built => built,
    }
}

/// The same with as many examples as fit into the context.
fn fitting<T>(
    mut writer: Writer<'_>,
    limit: usize,
    settings: &PromptSettings,
    build: impl Fn(&Writer<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let order = writer.spread(settings.shots.unwrap_or_default().seed);
    let mut most = writer.fitting(&order, limit)?.min(order.len() - 1);
    loop {
        writer.show(&order[..most], settings);
        match build(&writer) {
            // Texts take a token more side by side than apart, sometimes.
            Err(Error::ContextTooLong { .. }) if most > 1 => most -= 1,
            built => return built,
        }
    }
}

/// The inputs of the examples and, last, of the query, cut to the limit.
fn inputs<'t>(
    task: &'t Task,
    tokenizer: &Tokenizer,
    limit: Option<usize>,
) -> Result<Vec<&'t str>, Error> {
    let all = task.examples.iter().map(|example| &example.x).chain([&task.query.x]);
    all.map(|x| shortened(x, tokenizer, limit)).collect()
}

/// An input, cut to the limit.
pub(crate) fn shortened<'t>(
    x: &'t str,
    tokenizer: &Tokenizer,
    limit: Option<usize>,
) -> Result<&'t str, Error> {
    match limit {
        None => Ok(x),
        Some(0) => Err(Error::NoTokensPerExample),
        Some(limit) => tokenizer.cut(x, limit),
    }
}

/// What all prompts of a task have in common.
pub(crate) struct Writer<'a> {
    task: &'a Task,
    tokenizer: &'a Tokenizer,
    context: usize,
    arrangement: Arrangement,
    /// Tokens before every prompt.
    start: Vec<u32>,
    /// Every example with its answer and the separator.
    shown: Vec<String>,
    /// The prefixes of the examples and, last, of the query.
    prefixes: Vec<String>,
}

impl<'a> Writer<'a> {
    /// A writer that shows all examples.
    pub(crate) fn of_task(
        task: &'a Task,
        tokenizer: &'a Tokenizer,
        settings: &PromptSettings,
    ) -> Result<Self, Error> {
        let inputs = inputs(task, tokenizer, settings.max_tokens_per_example)?;
        Self::new(task, tokenizer, settings, &inputs)
    }

    pub(crate) fn task(&self) -> &Task {
        self.task
    }

    pub(crate) fn examples(&self) -> usize {
        self.shown.len()
    }

    /// The examples that prompts show.
    pub(crate) fn shots(&self) -> &[usize] {
        self.arrangement.shots()
    }

    /// What is asked at a place, without any example before it.
    pub(crate) fn prefix(&self, place: Place) -> &str {
        match place {
            Place::Example(index) => &self.prefixes[index],
            Place::Query => &self.prefixes[self.shown.len()],
        }
    }

    /// Asks another query.
    pub(crate) fn ask(&mut self, prefix: String) {
        let query = self.shown.len();
        self.prefixes[query] = prefix;
    }

    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        self.tokenizer.encode(text)
    }

    /// Tokens behind those that every prompt starts with.
    pub(crate) fn started(&self, tokens: &[u32]) -> Vec<u32> {
        [&self.start[..], tokens].concat()
    }

    /// What stands behind a label where an example is shown.
    pub(crate) fn ending(&self) -> String {
        let behind = self.task.template().map_or("", |template| template.behind);
        [behind, &self.task.separator].concat()
    }

    /// The number of tokens that stand before every input.
    pub(crate) fn before_inputs(&self) -> Result<usize, Error> {
        let before = self.task.template()?.before;
        Ok(self.start.len() + self.tokenizer.encode(before)?.len())
    }

    /// The examples in the order in which their prompts share what they begin with, and how many
    /// tokens each may share with the next.
    pub(crate) fn packed(&self) -> Result<(Vec<usize>, Vec<usize>), Error> {
        let packing = self.arrangement.packing();
        let mut shareable = Vec::with_capacity(packing.len());
        for (at, &own) in packing.iter().enumerate() {
            let next = packing.get(at + 1).map_or(Place::Query, |&next| Place::Example(next));
            shareable.push(self.shareable(own, next)?);
        }
        Ok((packing, shareable))
    }

    fn new(
        task: &'a Task,
        tokenizer: &'a Tokenizer,
        settings: &PromptSettings,
        inputs: &[&str],
    ) -> Result<Self, Error> {
        let template = task.template()?;
        check_text(task, &template, inputs)?;
        let shown = task.examples.iter().zip(inputs);
        Ok(Self {
            task,
            tokenizer,
            context: settings.context,
            arrangement: Arrangement::new(
                (0..task.examples.len()).collect(),
                task.examples.len(),
                settings.residuals,
                settings.order,
            ),
            start: tokenizer.start(settings.bos)?,
            shown: shown.map(|(e, x)| template.shown(x, &e.y) + &task.separator).collect(),
            prefixes: inputs.iter().map(|x| template.prefix(x)).collect(),
        })
    }

    /// Shows these examples alone, whatever their order.
    pub(crate) fn show(&mut self, shots: &[usize], settings: &PromptSettings) {
        let (examples, PromptSettings { residuals, order, .. }) = (self.shown.len(), settings);
        self.arrangement = Arrangement::new(shots.to_vec(), examples, *residuals, *order);
    }

    /// The examples in an order that takes every answer in turn.
    fn spread(&self, seed: u64) -> Vec<usize> {
        let answers: Vec<&str> =
            self.task.examples.iter().map(|example| example.y.as_str()).collect();
        spread(&answers, seed)
    }

    /// How many examples from the front of a list a context has room for, at least one.
    fn fitting(&self, order: &[usize], limit: usize) -> Result<usize, Error> {
        let count = |text: &str| self.tokenizer.encode(text).map(|tokens| tokens.len());
        let mut longest = 0;
        for prefix in &self.prefixes {
            longest = longest.max(count(prefix)?);
        }
        let (mut total, mut fits) = (self.start.len() + longest, 0);
        for &example in order {
            total += count(&self.shown[example])?;
            if total > limit {
                break;
            }
            fits += 1;
        }
        Ok(fits.max(1))
    }

    /// The examples that a prompt shows, in their order.
    fn others(&self, place: Place) -> Vec<usize> {
        match place {
            Place::Example(index) => self.arrangement.before(index),
            Place::Query => self.arrangement.shots().to_vec(),
        }
    }

    /// How many tokens an example's prompt and the next one have in common because they show the same
    /// examples, or because the next one shows this one as well.
    fn shareable(&self, own: usize, next: Place) -> Result<usize, Error> {
        let (before, after) = (self.others(Place::Example(own)), self.others(next));
        if self.arrangement.begins_next() && after.split_last() == Some((&own, &before[..])) {
            return Ok(usize::MAX);
        }
        let pairs = before.into_iter().zip(after);
        let same = pairs.take_while(|(own, next)| own == next);
        let text: String = same.map(|(example, _)| self.shown[example].as_str()).collect();
        Ok(self.start.len() + self.tokenizer.encode(&text)?.len())
    }

    /// The text of a prompt up to where its answer is asked for.
    pub(crate) fn text(&self, place: Place) -> Result<String, Error> {
        let mut text = String::new();
        for other in self.others(place) {
            text.push_str(&self.shown[other]);
            if text.len() > Tokenizer::LONGEST_TEXT {
                let (length, limit) = (text.len(), Tokenizer::LONGEST_TEXT);
                return Err(Error::TextTooLong { length, limit });
            }
        }
        let own = match place {
            Place::Example(index) => index,
            Place::Query => self.shown.len(),
        };
        text.push_str(&self.prefixes[own]);
        Ok(text)
    }

    /// The tokens of a prompt. The first prompt also settles the tokens of the labels, with which
    /// all others must agree. What one label is refused for is noticed before the next is looked
    /// at, and no more than one label's tokens are held: a task may list any number of them.
    fn prompt(&self, place: Place, label_tokens: &mut Vec<u32>) -> Result<Vec<u32>, Error> {
        let text = self.text(place)?;
        let mut prompt = Vec::new();
        let (mut tokens, mut owners) = (Vec::new(), BTreeMap::new());
        for (index, label) in self.task.labels.iter().enumerate() {
            let mut ids = self.tokenizer.encode(&format!("{text}{}", label.text))?;
            if index > 0 {
                let shared = shared(&prompt, &ids);
                if shared < prompt.len() {
                    let pieces = [&prompt[shared..], &tokens[..1]].concat();
                    return Err(self.label_pieces(place, 0, &pieces));
                }
                ids.drain(..shared);
            } else if let Some((_, before)) = ids.split_last() {
                self.check_length(place, self.start.len() + before.len())?;
                prompt = before.to_vec();
                ids.drain(..prompt.len());
            }
            let [token] = ids[..] else { return Err(self.label_pieces(place, index, &ids)) };
            match label_tokens.get(index) {
                Some(&expected) => self.check_agreement(place, index, expected, token)?,
                None => self.check_distinct(owners.insert(token, index), index)?,
            }
            tokens.push(token);
        }
        *label_tokens = tokens;
        let prompt = [&self.start[..], &prompt].concat();
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt { task: self.task.id.clone(), place });
        }
        Ok(prompt)
    }

    /// `Err` unless a prompt fits the model and all prompts, if they were as long, fit a task.
    pub(crate) fn check_length(&self, place: Place, length: usize) -> Result<(), Error> {
        let (task, prompts) = (&self.task.id, self.prefixes.len());
        if length > self.context {
            let (task, limit) = (task.clone(), self.context);
            return Err(Error::ContextTooLong { task, place, length, limit });
        }
        if length.saturating_mul(prompts) > Prompts::MOST_TOKENS {
            let (task, limit) = (task.clone(), Prompts::MOST_TOKENS);
            return Err(Error::TooManyTokens { task, prompts, length, limit });
        }
        Ok(())
    }

    /// A label is not one token after what it shares with the others.
    fn label_pieces(&self, place: Place, label: usize, pieces: &[u32]) -> Error {
        Error::LabelPieces {
            task: self.task.id.clone(),
            place,
            label: self.task.labels[label].text.clone(),
            pieces: pieces.iter().map(|&id| self.piece(&[id])).collect(),
        }
    }

    fn check_distinct(&self, owner: Option<usize>, label: usize) -> Result<(), Error> {
        let Some(owner) = owner else { return Ok(()) };
        let [first, second] = [owner, label].map(|i| self.task.labels[i].text.clone());
        Err(Error::LabelsCollide { task: self.task.id.clone(), first, second })
    }

    fn check_agreement(
        &self,
        place: Place,
        label: usize,
        expected: u32,
        found: u32,
    ) -> Result<(), Error> {
        if expected == found {
            return Ok(());
        }
        Err(Error::LabelsDisagree {
            task: self.task.id.clone(),
            place,
            label: self.task.labels[label].text.clone(),
            found: self.piece(&[found]),
            expected: self.piece(&[expected]),
        })
    }

    pub(crate) fn piece(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids)
    }
}

/// `Err(Error::TextTooLong)` unless the examples, written out, can be tokenised at once, as they
/// are for the query. A template is written once per example: it may be long, or they be many.
fn check_text(task: &Task, template: &Template<'_>, inputs: &[&str]) -> Result<(), Error> {
    let each = template.shown("", "").len() + task.separator.len();
    let words = task.examples.iter().zip(inputs).map(|(example, x)| x.len() + example.y.len());
    let (length, limit) = (words.map(|words| each + words).sum(), Tokenizer::LONGEST_TEXT);
    if length <= limit { Ok(()) } else { Err(Error::TextTooLong { length, limit }) }
}

/// How many tokens of a prompt a sequence begins with, at least one of its own being left.
fn shared(prompt: &[u32], ids: &[u32]) -> usize {
    let own = &ids[..ids.len().saturating_sub(1)];
    prompt.iter().zip(own).take_while(|(a, b)| a == b).count()
}

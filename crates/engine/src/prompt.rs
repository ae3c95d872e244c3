//! The prompts of a task as token ids: one per example that leaves it out, and the query's.
//!
//! In: a [`Task`] and the model's [`Tokenizer`]. Out: [`Prompts`], the only form in which a task
//! reaches a model. Sec. 3's promise is kept here: prompt `i` is built without `y_i`.

use crate::error::{Error, Place};
use crate::order::Order;
use crate::task::Task;
use crate::tokens::{Bos, Tokenizer};

/// How prompts are put together.
///
/// | name | default | meaning | range |
/// |---|---|---|---|
/// | `context` | | the longest prompt in tokens: the model's `positions` | |
/// | `bos` | [`Bos::Auto`] | whether a token is put before every prompt | |
/// | `order` | [`Order::Original`] | how leave-one-out prompts order the other examples | |
/// | `max_tokens_per_example` | no limit | every `x` is cut to so many tokens, counted on the `x` alone | at least 1 |
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
        let (bos, order) = (Bos::Auto, Order::Original);
        Self { context, bos, order, max_tokens_per_example: None }
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
    /// How many of its first tokens each leave-one-out prompt may share with the next prompt.
    shareable: Vec<usize>,
    label_tokens: Vec<u32>,
    label_values: Vec<f64>,
    targets: Vec<f64>,
    query_target: Option<f64>,
}

impl Prompts {
    /// Writes and tokenises all prompts of a task.
    ///
    /// # Errors
    ///
    /// Those of [`Task::check`], [`Tokenizer::encode`] and [`Tokenizer::start`];
    /// [`Error::NoTokensPerExample`] for a limit of 0; [`Error::LabelPieces`],
    /// [`Error::LabelsCollide`] or [`Error::LabelsDisagree`] unless every label is one token of
    /// its own, the same in all prompts; [`Error::EmptyPrompt`] if nothing stands before the
    /// labels; [`Error::ContextTooLong`] if a prompt does not fit.
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
        let inputs = inputs(task, tokenizer, settings.max_tokens_per_example)?;
        let writer = Writer::new(task, tokenizer, settings, &inputs)?;
        let examples = task.examples.len();
        let mut leave_one_out = Vec::with_capacity(examples);
        let mut shareable = Vec::with_capacity(examples);
        let mut label_tokens = Vec::new();
        for index in 0..examples {
            leave_one_out.push(writer.prompt(Place::Example(index), &mut label_tokens)?);
            shareable.push(writer.shareable(index)?);
        }
        let query = writer.prompt(Place::Query, &mut label_tokens)?;
        let value =
            |answer: &str| task.value_of(answer).expect("answers were found among labels");
        Ok(Self {
            leave_one_out,
            query,
            shareable,
            label_tokens,
            label_values: task.labels.iter().map(|label| label.value).collect(),
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

/// The inputs of the examples and, last, of the query, cut to the limit.
fn inputs<'t>(
    task: &'t Task,
    tokenizer: &Tokenizer,
    limit: Option<usize>,
) -> Result<Vec<&'t str>, Error> {
    let all = task.examples.iter().map(|example| &example.x).chain([&task.query.x]);
    match limit {
        None => Ok(all.map(String::as_str).collect()),
        Some(0) => Err(Error::NoTokensPerExample),
        Some(limit) => all.map(|x| tokenizer.cut(x, limit)).collect(),
    }
}

/// What all prompts of a task have in common.
struct Writer<'a> {
    task: &'a Task,
    tokenizer: &'a Tokenizer,
    context: usize,
    order: Order,
    /// Tokens before every prompt.
    start: Vec<u32>,
    /// Every example with its answer and the separator.
    shown: Vec<String>,
    /// The prefixes of the examples and, last, of the query.
    prefixes: Vec<String>,
}

impl<'a> Writer<'a> {
    fn new(
        task: &'a Task,
        tokenizer: &'a Tokenizer,
        settings: &PromptSettings,
        inputs: &[&str],
    ) -> Result<Self, Error> {
        let template = task.template()?;
        let shown = task.examples.iter().zip(inputs);
        Ok(Self {
            task,
            tokenizer,
            context: settings.context,
            order: settings.order,
            start: tokenizer.start(settings.bos)?,
            shown: shown.map(|(e, x)| template.shown(x, &e.y) + &task.separator).collect(),
            prefixes: inputs.iter().map(|x| template.prefix(x)).collect(),
        })
    }

    /// The examples that a prompt shows, in its order; the place's own is not among them.
    fn others(&self, place: Place) -> Vec<usize> {
        match place {
            Place::Example(index) => self.order.others(index, self.shown.len()),
            Place::Query => (0..self.shown.len()).collect(),
        }
    }

    /// How many tokens a leave-one-out prompt and the next one begin with because they show the
    /// same examples there. What only reads alike further on may do so for an answer's sake.
    fn shareable(&self, index: usize) -> Result<usize, Error> {
        let next = match index + 1 {
            next if next < self.shown.len() => Place::Example(next),
            _ => Place::Query,
        };
        let pairs = self.others(Place::Example(index)).into_iter().zip(self.others(next));
        let same = pairs.take_while(|(own, next)| own == next);
        let text: String = same.map(|(example, _)| self.shown[example].as_str()).collect();
        Ok(self.start.len() + self.tokenizer.encode(&text)?.len())
    }

    /// The text of a prompt up to where its answer is asked for.
    fn text(&self, place: Place) -> Result<String, Error> {
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
    /// all others must agree.
    fn prompt(&self, place: Place, label_tokens: &mut Vec<u32>) -> Result<Vec<u32>, Error> {
        let text = self.text(place)?;
        let mut answered = Vec::with_capacity(self.task.labels.len());
        for label in &self.task.labels {
            answered.push(self.tokenizer.encode(&format!("{text}{}", label.text))?);
            // One token is the label's: a prompt that is too long is not written once per label.
            self.check_context(place, self.start.len() + shortest_prompt(&answered))?;
        }
        let shared = shared(&answered);
        let tokens = self.label_tokens(place, &answered, shared)?;
        if label_tokens.is_empty() {
            self.check_distinct(&tokens)?;
            *label_tokens = tokens;
        } else {
            self.check_agreement(place, label_tokens, &tokens)?;
        }
        let prompt = [&self.start, &answered[0][..shared]].concat();
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt { task: self.task.id.clone(), place });
        }
        Ok(prompt)
    }

    fn check_context(&self, place: Place, length: usize) -> Result<(), Error> {
        if length <= self.context {
            return Ok(());
        }
        let (task, limit) = (self.task.id.clone(), self.context);
        Err(Error::ContextTooLong { task, place, length, limit })
    }

    /// The one token that remains of each label after what all share.
    fn label_tokens(
        &self,
        place: Place,
        answered: &[Vec<u32>],
        shared: usize,
    ) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::with_capacity(answered.len());
        for (label, ids) in self.task.labels.iter().zip(answered) {
            let &[token] = &ids[shared..] else {
                return Err(Error::LabelPieces {
                    task: self.task.id.clone(),
                    place,
                    label: label.text.clone(),
                    pieces: ids[shared..].iter().map(|&id| self.piece(id)).collect(),
                });
            };
            tokens.push(token);
        }
        Ok(tokens)
    }

    fn check_distinct(&self, tokens: &[u32]) -> Result<(), Error> {
        for (second, token) in tokens.iter().enumerate() {
            if let Some(first) = tokens[..second].iter().position(|other| other == token) {
                let [first, second] = [first, second].map(|i| self.task.labels[i].text.clone());
                return Err(Error::LabelsCollide { task: self.task.id.clone(), first, second });
            }
        }
        Ok(())
    }

    fn check_agreement(
        &self,
        place: Place,
        expected: &[u32],
        found: &[u32],
    ) -> Result<(), Error> {
        let labels = self.task.labels.iter().zip(expected.iter().zip(found));
        for (label, (&expected, &found)) in labels {
            if expected != found {
                return Err(Error::LabelsDisagree {
                    task: self.task.id.clone(),
                    place,
                    label: label.text.clone(),
                    found: self.piece(found),
                    expected: self.piece(expected),
                });
            }
        }
        Ok(())
    }

    fn piece(&self, id: u32) -> String {
        self.tokenizer.decode(&[id])
    }
}

/// How many leading tokens all sequences share, at least one token of each being left.
fn shared(sequences: &[Vec<u32>]) -> usize {
    let most = shortest_prompt(sequences);
    let (first, others) = sequences.split_first().expect("a task has labels");
    (0..most).find(|&at| others.iter().any(|other| other[at] != first[at])).unwrap_or(most)
}

/// The length of the shortest sequence without its last token.
fn shortest_prompt(sequences: &[Vec<u32>]) -> usize {
    sequences.iter().map(Vec::len).min().unwrap_or(0).saturating_sub(1)
}

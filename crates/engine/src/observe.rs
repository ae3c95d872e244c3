//! Observing: one forward and one backward pass over a task, and no choice.
//!
//! In: a [`Network`], a [`TokenTask`] and the candidate blocks. Out: an [`Observation`], whose
//! [`Geometry`] is all that the decision looks at.

use crate::blocks::{BlockId, BlockKind};
use crate::error::Error;
use crate::factors::{KernelForm, kernels, single_position_kernels};
use crate::labels::Labels;
use crate::layout::Layout;
use crate::network::Network;
use crate::passes::PassCount;
use crate::prompt::Prompts;
use crate::real::Real;
use crate::tape::Tape;
use fewstep_core::leave_one_out::Answers;
use fewstep_core::{Block, Geometry, Matrix};

/// A task in tokens: the leave-one-out prompts, the query's prompt, labels and answers.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Labels, TokenTask};
///
/// let labels = Labels::new(vec![5, 6], vec![0.0, 1.0])?;
/// let task = TokenTask::new(vec![vec![1, 2], vec![1, 3]], vec![1, 4], labels, vec![0.0, 1.0])?;
/// assert_eq!(task.examples(), 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TokenTask {
    /// The leave-one-out prompts, then the query's.
    sequences: Vec<Vec<u32>>,
    /// How many of its first tokens each but the last may share with the next.
    shareable: Vec<usize>,
    labels: Labels,
    targets: Vec<f64>,
}

impl TokenTask {
    /// A task from its prompts in tokens and the values of the examples' answers.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples, [`Error::SizeMismatch`] unless there is one answer per
    /// leave-one-out prompt, [`Error::OutOfRange`] for an answer that is not finite.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// let refused = TokenTask::new(vec![], vec![1], labels, vec![]);
    /// assert_eq!(refused, Err(Error::Empty { quantity: "list of examples" }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        leave_one_out: Vec<Vec<u32>>,
        query: Vec<u32>,
        labels: Labels,
        targets: Vec<f64>,
    ) -> Result<Self, Error> {
        let (found, expected) = (targets.len(), leave_one_out.len());
        if expected == 0 {
            return Err(Error::Empty { quantity: "list of examples" });
        }
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "targets", found, expected });
        }
        if let Some(&found) = targets.iter().find(|target| !target.is_finite()) {
            return Err(Error::OutOfRange { quantity: "target", found, allowed: "finite" });
        }
        let mut sequences = leave_one_out;
        sequences.push(query);
        let shareable = vec![usize::MAX; expected];
        Ok(Self { sequences, shareable, labels, targets })
    }

    /// A task whose prompts were written and tokenised.
    ///
    /// # Errors
    ///
    /// As [`TokenTask::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, PromptSettings, Prompts, Task, TokenTask, Tokenizer};
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &PromptSettings::new(64))?;
    /// assert_eq!(TokenTask::of(&prompts)?.targets(), [0.5, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn of(prompts: &Prompts) -> Result<Self, Error> {
        let task = Self::new(
            prompts.leave_one_out().to_vec(),
            prompts.query().to_vec(),
            Labels::new(prompts.label_tokens().to_vec(), prompts.label_values().to_vec())?,
            prompts.targets().to_vec(),
        )?;
        // What an example's answer changes must not change how its own prompt is computed.
        Ok(Self { shareable: prompts.shareable().to_vec(), ..task })
    }

    /// `n`: the number of examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// assert_eq!(task.examples(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn examples(&self) -> usize {
        self.targets.len()
    }

    /// The leave-one-out prompts, then the query's.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// assert_eq!(task.sequences().last(), Some(&vec![0, 1, 2]));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }

    /// The labels.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// assert_eq!(task.labels().tokens(), [3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// `y`: the values of the examples' answers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// assert_eq!(task.targets(), [1.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        &self.targets
    }

    /// Which answers are alike, and how far these predictions can move: no prediction leaves the
    /// range of the labels.
    fn answers(&self, predictions: &[f64]) -> Result<Answers, Error> {
        let alike = |target: &f64| {
            let same = |other: &f64| other.to_bits() == target.to_bits();
            self.targets.iter().position(same).expect("it is among them")
        };
        let values = || self.labels.values().iter().copied();
        let range = [
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        ];
        Ok(Answers::new(self.targets.iter().map(alike).collect(), predictions, range)?)
    }

    /// All prompts in one tree. Prompts that were written from a task's text share the examples
    /// that they begin with, and nothing that only reads alike.
    ///
    /// # Errors
    ///
    /// As [`Layout::shared`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Labels, TokenTask};
    /// # let labels = Labels::new(vec![5, 6], vec![0.0, 1.0])?;
    /// let task = TokenTask::new(vec![vec![1, 2], vec![1, 3]], vec![1, 4], labels, vec![0.0, 1.0])?;
    /// assert_eq!(task.layout()?.rows(), 4);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn layout(&self) -> Result<Layout, Error> {
        Layout::shared_within(&self.sequences, &self.shareable)
    }

    /// `y_i − s_i` for the predictions of the leave-one-out prompts.
    pub(crate) fn residuals(&self, predictions: &[f64]) -> Vec<f64> {
        self.targets.iter().zip(predictions).map(|(target, s)| target - s).collect()
    }
}

/// What a task looks like to an update of a model.
///
/// # Examples
///
/// See [`observe`].
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Residuals, and per block its kernel, coupling and query variance.
    pub geometry: Geometry,
    /// The base prediction of each leave-one-out prompt.
    pub predictions: Vec<f64>,
    /// The base prediction for the query.
    pub query_prediction: f64,
    /// What it cost.
    pub passes: PassCount,
}

/// Looks at a task: base predictions, residuals and the kernels of the candidate blocks.
///
/// One forward and one backward pass over `n + 1` sequences serve all blocks and the query. On
/// the way forward prompts share what they begin with, as they do when the model
/// [acts](crate::descend): its predictions before any step are these, bit for bit.
///
/// # Errors
///
/// Those of [`Tape::new`] and [`Layout::shared`]; [`Error::NotFinite`] if a prediction is not;
/// [`Error::Core`] if the geometry is refused.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelForm, choose_blocks,
/// #     observe
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// // Without weights both labels are equally likely, and no update of a value block matters.
/// let blocks = choose_blocks("value@all", &config)?;
/// let seen = observe(&model, &task, &blocks, KernelForm::Cheapest)?;
/// assert_eq!((&seen.predictions[..], seen.query_prediction), (&[0.5, 0.5][..], 0.5));
/// assert_eq!(seen.geometry.residuals(), [0.5, -0.5]);
/// let answers = seen.geometry.answers().expect("a task has labels");
/// assert_eq!((answers.labels(), answers.room()[1].lower), (&[0, 1][..], -0.5));
/// assert_eq!(seen.geometry.total().kernel().values(), [0.0; 4]);
/// // Forward, 0 is there once and 0 1 too; backward, every prompt is by itself.
/// assert_eq!((seen.passes.forward_tokens, seen.passes.backward_tokens), (4, 7));
/// # Ok::<(), Error>(())
/// ```
pub fn observe<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
    form: KernelForm,
) -> Result<Observation, Error> {
    let (tape, predictions) = Tape::separate(model, task, blocks)?.differentiated()?;
    let kernels = kernels(&tape, form);
    observation(task, blocks, predictions, kernels, &tape)
}

/// As [`observe`], with the single-position kernels of Sec. 3.3; for `value` blocks alone.
///
/// # Errors
///
/// As [`observe`], and [`Error::NotAValueBlock`] for a block of another kind.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, choose_blocks,
/// #     observe_single_position
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// let blocks = choose_blocks("key@all", &config)?;
/// let refused = observe_single_position(&model, &task, &blocks);
/// assert_eq!(refused, Err(Error::NotAValueBlock { block: "key.0.0".to_owned() }));
/// # Ok::<(), Error>(())
/// ```
pub fn observe_single_position<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
) -> Result<Observation, Error> {
    if let Some(other) = blocks.iter().find(|block| block.kind() != BlockKind::Value) {
        return Err(Error::NotAValueBlock { block: other.to_string() });
    }
    // One output block keeps the adjoint of the whole projection.
    let outputs = blocks.iter().filter_map(|block| {
        block.head().and_then(|head| BlockId::of_head(BlockKind::Output, block.layer(), head))
    });
    let all: Vec<BlockId> = blocks.iter().copied().chain(outputs).collect();
    let (tape, predictions) = Tape::separate(model, task, &all)?.differentiated()?;
    let kernels = single_position_kernels(&tape, blocks);
    observation(task, blocks, predictions, kernels, &tape)
}

/// What a tape that was pulled back with all seeds 1 says about a task.
pub(crate) fn observation<R: Real>(
    task: &TokenTask,
    blocks: &[BlockId],
    mut predictions: Vec<f64>,
    kernels: Vec<Vec<f64>>,
    tape: &Tape<'_, R>,
) -> Result<Observation, Error> {
    let n = task.examples();
    let mut geometry = Vec::with_capacity(blocks.len());
    for (block, whole) in blocks.iter().zip(kernels) {
        let rows: Vec<&[f64]> = whole.chunks_exact(n + 1).collect();
        let inner: Vec<f64> = rows[..n].iter().flat_map(|row| &row[..n]).copied().collect();
        let place = tape.factor_place(block);
        let parameters = place.0.len() * place.1.len();
        let block = Block::new(block.to_string(), Matrix::new(n, n, inner)?)?
            .with_query(rows[n][..n].to_vec(), rows[n][n])?
            .with_parameters(parameters);
        geometry.push(block);
    }
    let query_prediction = predictions.pop().expect("the query is the last sequence");
    let residuals = task.residuals(&predictions);
    let geometry =
        Geometry::new(residuals, geometry)?.with_answers(task.answers(&predictions)?)?;
    Ok(Observation { geometry, predictions, query_prediction, passes: tape.passes() })
}

/// Predictions in double precision, or the first that is not finite.
pub(crate) fn finite<R: Real>(predictions: &[R], steps: usize) -> Result<Vec<f64>, Error> {
    match predictions.iter().position(|prediction| !prediction.finite()) {
        Some(sequence) => Err(Error::NotFinite { sequence, steps }),
        None => Ok(predictions.iter().map(|prediction| prediction.wide()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;
    use crate::prompt::PromptSettings;
    use crate::task::Task;
    use crate::tokens::Tokenizer;
    use fewstep_core::Rng;

    /// A task in bytes, with one letter and one digit per example.
    fn layout(examples: &[(char, char)], order: Order) -> Layout {
        let examples: Vec<_> = examples
            .iter()
            .map(|(x, y)| serde_json::json!({"x": x.to_string(), "y": y.to_string()}))
            .collect();
        let labels = ["0", "1"].map(|text| serde_json::json!({"text": text, "value": 0.5}));
        let task: Task = serde_json::from_value(serde_json::json!({
            "id": "t", "template": "{x}={y}", "labels": labels, "examples": examples,
            "query": {"x": "a"}
        }))
        .unwrap();
        let settings = PromptSettings { order, ..PromptSettings::new(256) };
        let prompts = Prompts::build(&task, &Tokenizer::of_bytes(), &settings).unwrap();
        TokenTask::of(&prompts).unwrap().layout().unwrap()
    }

    /// Who shares what with whom, and so in which order numbers are summed, is the same whatever
    /// the answers are, also where examples read alike.
    #[test]
    fn how_prompts_share_says_nothing_about_answers() {
        let mut rng = Rng::new(9);
        for order in [Order::Original, Order::Tree] {
            for n in 2..=9 {
                let different: Vec<(char, char)> = ('b'..).take(n).map(|x| (x, '0')).collect();
                let expected = layout(&different, order);
                for letters in [1, 2] {
                    for _ in 0..10 {
                        let alike: Vec<(char, char)> = (0..n)
                            .map(|_| (['a', 'b'][rng.below(letters)], ['0', '1'][rng.below(2)]))
                            .collect();
                        let found = layout(&alike, order);
                        assert_eq!(found.segments(), expected.segments(), "{order}, {alike:?}");
                        for sequence in 0..=n {
                            assert_eq!(found.seen_by(sequence), expected.seen_by(sequence));
                        }
                    }
                }
            }
        }
    }
}

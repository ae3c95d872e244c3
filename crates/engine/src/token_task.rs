//! A task as a model sees it: its prompts in tokens, its labels and the values of its answers.
//!
//! In: [`Prompts`], or tokens. Out: [`TokenTask`], and from it the [`Layout`] that passes run over.

use crate::error::Error;
use crate::labels::Labels;
use crate::layout::Layout;
use crate::prompt::Prompts;
use fewstep_core::Answers;

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
    /// The examples in the order in which their prompts lie side by side.
    packing: Vec<usize>,
    shareable: Vec<usize>,
    /// The examples that the query's prompt shows.
    shots: Vec<usize>,
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
        let (packing, shareable) = ((0..expected).collect(), vec![usize::MAX; expected]);
        let shots = (0..expected).collect();
        Ok(Self { sequences, packing, shareable, shots, labels, targets })
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
        let (packing, shareable) = (prompts.packing().to_vec(), prompts.shareable().to_vec());
        Ok(Self { packing, shareable, shots: prompts.shots().to_vec(), ..task })
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

    /// How many of the examples the query's prompt shows; the others are learnt from alone.
    pub(crate) fn shown(&self) -> usize {
        self.shots.len()
    }

    /// The examples that the query's prompt shows.
    pub(crate) fn shots(&self) -> &[usize] {
        &self.shots
    }

    /// Which answers are alike, and how far these predictions can change: no prediction leaves the
    /// range of the labels.
    pub(crate) fn answers(&self, predictions: &[f64]) -> Result<Answers, Error> {
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
        if self.packing.is_sorted() {
            return Layout::shared_within(&self.sequences, &self.shareable);
        }
        let query = self.sequences.len() - 1;
        let order: Vec<usize> = self.packing.iter().copied().chain([query]).collect();
        let packed: Vec<Vec<u32>> =
            order.iter().map(|&sequence| self.sequences[sequence].clone()).collect();
        Ok(Layout::shared_within(&packed, &self.shareable)?.renumbered(&order))
    }

    /// `y_i − s_i` for the predictions of the leave-one-out prompts.
    pub(crate) fn residuals(&self, predictions: &[f64]) -> Vec<f64> {
        self.targets.iter().zip(predictions).map(|(target, s)| target - s).collect()
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

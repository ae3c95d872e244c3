//! The examples of a task, observed once, for any number of queries.
//!
//! In: what a [`Predictor`] saw of a task. Out: for every further query a report with the same fields as
//! that of the first, at the price of the query's own tokens.

use super::{Done, Predicted, Predictor};
use crate::error::Error;
use fewstep_core::decide;
use fewstep_engine::{
    Examples, Layout, Observation, Outcome, PassCount, Query, Tape, Task, Update,
};

/// The examples of a task that was observed, and the update that was made in the model, if there is one.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let task = fewstep::tasks::parse(
///     br#"{"id": "t1", "template": "{x}->{y}",
///          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#,
/// )?;
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
/// let (first, observed) = predictor.observe(&task)?;
/// let again = observed.ask(&predictor, &task, &[task.query.clone()])?.remove(0)?;
/// let [one, other] = [first, again].map(|answer| answer.report.prediction);
/// assert!((one.icl - other.icl).abs() < 1e-5);
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Observed {
    pub(crate) examples: Examples,
    pub(crate) update: Option<Update>,
}

impl Observed {
    /// Answers further queries on the same examples, each or with what is wrong with it.
    ///
    /// # Errors
    ///
    /// Those of [`Model::read_further`](fewstep_engine::Model::read_further) for what the queries have
    /// in common.
    ///
    /// # Examples
    ///
    /// See [`Observed`].
    pub fn ask(
        &self,
        predictor: &Predictor,
        task: &Task,
        queries: &[Query],
    ) -> Result<Vec<Result<Predicted, Error>>, Error> {
        let policy = predictor.policy();
        if self.update.is_some() && policy.looks_at_query() {
            // The update is for one query alone.
            return Ok(queries.iter().map(|q| predictor.answer(&task.asking(q))).collect());
        }
        let prompts = predictor.model().read_further(task, self.examples.task(), queries)?;
        let fitting: Vec<Vec<u32>> =
            prompts.iter().filter_map(|prompt| prompt.as_ref().ok().cloned()).collect();
        let mut seen =
            if fitting.is_empty() { vec![] } else { self.look(&fitting) }.into_iter();
        let answer = |(query, prompt): (&Query, Result<Vec<u32>, fewstep_engine::Error>)| {
            let prompt = prompt?;
            let seen = seen.next().expect("there is one for every prompt that fits")?;
            self.answer(predictor, &task.asking(query), &prompt, &seen)
        };
        Ok(queries.iter().zip(prompts).map(answer).collect())
    }

    /// About how many bytes it holds beside the model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep::{Action, Policy, Predictor};
    /// # let task = fewstep::tasks::parse(
    /// #     br#"{"id": "t1", "template": "{x}->{y}",
    /// #          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    /// #          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "0"}], "query": {"x": "4"}}"#,
    /// # )?;
    /// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
    /// assert!(predictor.observe(&task)?.1.bytes() > 1000);
    /// # Ok::<(), fewstep::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.examples.bytes() + self.update.as_ref().map_or(0, Update::bytes)
    }

    /// What is seen of prompts: all at once, or, if that fails, one after the other.
    fn look(&self, prompts: &[Vec<u32>]) -> Vec<Result<Observation, Error>> {
        if let Ok(seen) = self.examples.further(prompts) {
            return seen.into_iter().map(Ok).collect();
        }
        let one = |prompt: &Vec<u32>| {
            let mut seen = self.examples.further(std::slice::from_ref(prompt))?;
            Ok(seen.swap_remove(0))
        };
        prompts.iter().map(one).collect()
    }

    fn answer(
        &self,
        predictor: &Predictor,
        task: &Task,
        prompt: &[u32],
        seen: &Observation,
    ) -> Result<Predicted, Error> {
        let decision = decide(&seen.geometry, predictor.policy())?;
        let outcome = match &self.update {
            Some(update) => Some(self.under(update, predictor, prompt, seen)?),
            None => None,
        };
        predictor.predicted(task, seen, &decision, Done { outcome, kept: None })
    }

    /// What the updated model says for a query.
    fn under(
        &self,
        update: &Update,
        predictor: &Predictor,
        prompt: &[u32],
        seen: &Observation,
    ) -> Result<Outcome, Error> {
        let (network, labels) = (predictor.model().network(), self.examples.task().labels());
        let layout = Layout::plain(&[prompt.to_vec()])?;
        let tape = Tape::of_update(network, layout, labels, update)?;
        let adapted = f64::from(tape.predictions()[0]);
        if !adapted.is_finite() {
            return Err(fewstep_engine::Error::NotFinite { sequence: 0, steps: 1 }.into());
        }
        let icl = seen.query_prediction;
        let passes: PassCount = tape.passes();
        Ok(Outcome {
            icl,
            adapted,
            query_path: vec![icl, adapted],
            prompt_path: Vec::new(),
            linear_path: Vec::new(),
            followed: false,
            update: None,
            passes,
        })
    }
}

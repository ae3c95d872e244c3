//! What was computed to observe a task, kept for what comes after: steps, and further queries.
//!
//! In: a [`TokenTask`], then steps on some of the blocks, or any number of further prompts that
//! ask about the same examples, of the model as it is or under an update. Out: what
//! [`descend`](crate::descend), [`observe`](crate::observe) and
//! [`predict_updated`](crate::predict_updated) would give. Steps begin with the forward pass that
//! observing took. A further query costs its own tokens forward, its prompt backward, and inner
//! products with what is kept of the examples.

use crate::blocks::BlockId;
use crate::error::Error;
use crate::factors::{KernelForm, couplings, kernels};
use crate::layout::Layout;
use crate::network::Network;
use crate::observe::{Observation, observation};
use crate::real::Real;
use crate::steps::{Applied, Descent, Steps, filter_on, steps_on, update_on};
use crate::tape::{Context, Outputs, Tape, finite};
use crate::token_task::TokenTask;
use crate::update::Update;
use fewstep_core::{Filter, Geometry, Spectrum};
use std::sync::Arc;

/// A task that was observed, with what its steps and further queries begin with.
///
/// # Examples
///
/// See [`Prepared::further`].
#[derive(Clone, Debug)]
pub struct Prepared<R: Real = f32> {
    task: TokenTask,
    tape: Tape<R>,
    observation: Observation,
    /// Keys and values of the query's prompt, with local adjoints.
    context: Option<Arc<Context<R>>>,
}

impl<R: Real> Prepared<R> {
    /// Observes a task with its own query, and keeps what further queries need.
    ///
    /// # Errors
    ///
    /// Those of [`observe`](crate::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, KernelForm, Labels, Network, Parameters, Prepared, TokenTask,
    /// #     choose_blocks, observe
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let seen = observe(&model, &task, &blocks, KernelForm::Cheapest)?;
    /// assert_eq!(*prepared.observation(), seen);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        let (tape, predictions) = Tape::separate(model, task, blocks)?.differentiated()?;
        let kernels = kernels(&tape, KernelForm::Cheapest);
        let observation = observation(task, blocks, predictions, kernels, &tape)?;
        Ok(Self { task: task.clone(), tape, observation, context: None })
    }

    /// As [`Prepared::new`], by local adjoints: see [`observe_local`](crate::observe_local).
    ///
    /// Keys and values of the query's prompt are kept, so that a further query that begins as it does
    /// costs its own tokens forward and one row back. Steps follow the local derivative.
    ///
    /// # Errors
    ///
    /// Those of [`observe_local`](crate::observe_local).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, Prepared, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// let prepared = Prepared::local(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
    /// let further = prepared.further(&[vec![0, 1, 3]])?;
    /// // The first two tokens are those of the query.
    /// assert_eq!((further[0].passes.forward_tokens, further[0].passes.backward_tokens), (1, 1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn local(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        let tape = Tape::local(model, task, blocks, Outputs::Predictions)?;
        let (mut tape, predictions) = tape.differentiated()?;
        let context = tape.take_context().map(Arc::new);
        let kernels = kernels(&tape, KernelForm::Cheapest);
        let observation = observation(task, blocks, predictions, kernels, &tape)?;
        Ok(Self { task: task.clone(), tape, observation, context })
    }

    /// The task in tokens.
    ///
    /// # Examples
    ///
    /// See [`Model::read_further`](crate::Model::read_further).
    #[must_use]
    pub fn task(&self) -> &TokenTask {
        &self.task
    }

    /// What was seen with the task's own query.
    ///
    /// # Examples
    ///
    /// See [`Prepared::new`].
    #[must_use]
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// What was seen, and nothing else.
    ///
    /// # Examples
    ///
    /// See [`Prepared::new`].
    #[must_use]
    pub fn into_observation(self) -> Observation {
        self.observation
    }

    /// The tape for steps on some of the blocks, and the rest.
    pub(crate) fn acting(
        self,
        blocks: &[BlockId],
    ) -> Result<(Tape<R>, TokenTask, Observation), Error> {
        let Self { task, tape, observation, .. } = self;
        Ok((tape.acting(task.labels(), blocks)?, task, observation))
    }

    /// Takes gradient steps on some of the blocks, as [`descend`](crate::descend) does up to
    /// rounding; the forward pass before the first step is that of the observation, and if the
    /// lowest layer is the same its gradient, too, is made of what was observed.
    ///
    /// # Errors
    ///
    /// Those of [`descend`](crate::descend), and [`Error::BlockNotOnTape`] for a block that was
    /// not observed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, Steps, TokenTask,
    /// #     choose_blocks, descend
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let steps = Steps::new(0.1, 2);
    /// let prepared = Prepared::new(&model, &task, &blocks)?.descend(&blocks, &steps)?;
    /// let fresh = descend(&model, &task, &blocks, &steps)?;
    /// assert_eq!(prepared.predictions, fresh.predictions);
    /// assert_eq!((prepared.passes.forward, fresh.passes.forward), (2 * 3, 3 * 3));
    /// assert_eq!((prepared.passes.backward, fresh.passes.backward), (2, 2 * 2));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn descend(self, blocks: &[BlockId], settings: &Steps) -> Result<Descent<R>, Error> {
        self.descend_with(blocks, settings, |_, _| Ok(()))
    }

    /// As [`Prepared::descend`] to the bit, and shows the update after `0, 1, …, T` steps to
    /// `visit`, with the number of steps; before the first one the update is 0. An error of
    /// `visit` ends the steps.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::descend`], and those of `visit`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, Steps, TokenTask, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let mut path = vec![];
    /// prepared.clone().descend_with(&blocks, &Steps::new(0.1, 2), |steps, update| {
    ///     path.push((steps, prepared.predict_further(&[vec![0, 1, 4]], update)?[0]));
    ///     Ok(())
    /// })?;
    /// assert_eq!(path, [(0, 0.5), (1, 0.5), (2, 0.5)]); // without weights no prediction changes
    /// # Ok::<(), Error>(())
    /// ```
    pub fn descend_with(
        self,
        blocks: &[BlockId],
        settings: &Steps,
        visit: impl FnMut(usize, &Update<R>) -> Result<(), Error>,
    ) -> Result<Descent<R>, Error> {
        let scales = settings.scales(blocks)?;
        let (tape, task, _) = self.acting(blocks)?;
        steps_on(tape, &task, &scales, settings, visit)
    }

    /// Applies a filter to the residuals as one update of some of the blocks, as
    /// [`apply_filter`](crate::apply_filter) does up to rounding, from what was observed.
    ///
    /// # Errors
    ///
    /// Those of [`apply_filter`](crate::apply_filter), and [`Error::BlockNotOnTape`] for a block
    /// that was not observed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
    /// # };
    /// # use fewstep_core::{GradientDescent, Spectrum, StepSize};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// # let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
    /// let filter = GradientDescent { step: StepSize::new(0.1, &spectrum)?, horizon: 8 };
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let applied = prepared.apply_filter(&blocks, &filter, &spectrum)?;
    /// assert_eq!((applied.passes.forward, applied.passes.backward), (3, 0));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn apply_filter(
        self,
        blocks: &[BlockId],
        filter: &dyn Filter,
        spectrum: &Spectrum,
    ) -> Result<Applied<R>, Error> {
        let (tape, task, _) = self.acting(blocks)?;
        filter_on(tape, &task, filter, spectrum)
    }

    /// The update of [`Prepared::apply_filter`], under which the model is not run: for predictions
    /// of other queries in the linearised model ([`predict_linear`](crate::predict_linear)). Returns
    /// the observation, too.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::apply_filter`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
    /// # };
    /// # use fewstep_core::{GradientDescent, Spectrum, StepSize};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// # let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
    /// let filter = GradientDescent { step: StepSize::new(0.1, &spectrum)?, horizon: 8 };
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let applied = prepared.clone().apply_filter(&blocks, &filter, &spectrum)?;
    /// let (seen, update) = prepared.filter_update(&blocks, &filter, &spectrum)?;
    /// assert_eq!((seen.query_prediction, update), (0.5, applied.update));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn filter_update(
        self,
        blocks: &[BlockId],
        filter: &dyn Filter,
        spectrum: &Spectrum,
    ) -> Result<(Observation, Update<R>), Error> {
        let (tape, task, observation) = self.acting(blocks)?;
        Ok((observation, update_on(tape, &task, filter, spectrum)?))
    }

    /// Looks at further queries, each a prompt that shows all examples; what these begin with in
    /// common goes forward once.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] or [`Error::EmptySequence`] without queries or tokens,
    /// [`Error::SequenceTooLong`] or [`Error::TokenOutOfRange`] for prompts that do not fit the
    /// model, [`Error::NotFinite`] if a prediction is not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let further = prepared.further(&[vec![0, 1, 4], vec![0, 1, 3]])?;
    /// assert_eq!(further[1].query_prediction, 0.5);
    /// assert_eq!(further[1].geometry.residuals(), prepared.observation().geometry.residuals());
    /// // Together they have four different tokens, and each is a sequence in the backward pass.
    /// assert_eq!((further[0].passes.forward_tokens, further[0].passes.backward), (4, 2));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn further(&self, queries: &[Vec<u32>]) -> Result<Vec<Observation>, Error> {
        let Self { task, tape, observation, context } = self;
        further(Known { task, tape, observation, context: context.as_ref() }, queries)
    }

    /// What further queries need of the examples, and nothing that steps would need.
    ///
    /// # Examples
    ///
    /// See [`Examples`].
    #[must_use]
    pub fn into_examples(self) -> Examples<R> {
        let Self { task, tape, observation, context } = self;
        Examples { task, tape: tape.at_rest(), observation, context }
    }

    /// The base prediction for each of further queries and nothing else: what
    /// [`Prepared::further`] sees of it, up to rounding, without a backward pass.
    ///
    /// With local adjoints a query costs its own tokens forward, behind the keys and values that are
    /// kept; with whole ones, what queries begin with in common goes forward once more.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::further`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// let prepared = Prepared::local(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
    /// assert_eq!(prepared.further_predictions(&[vec![0, 1, 4], vec![0, 1, 3]])?, [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn further_predictions(&self, queries: &[Vec<u32>]) -> Result<Vec<f64>, Error> {
        let (labels, model) = (self.task.labels(), self.tape.model());
        let predictions = match &self.context {
            Some(context) => self.tape.predict_behind(context, queries, labels)?,
            None => model.predict(Layout::shared(queries)?, labels)?,
        };
        finite(&predictions, 0)
    }

    /// The prediction for each of further queries, prompts that show all examples, under an update;
    /// what these begin with in common goes forward once. Without a change it is what
    /// [`Prepared::further`] sees of the query, up to rounding.
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::further`] for the prompts, those of [`Tape::of_update`] for an update
    /// that does not fit the model, [`Error::NotFinite`] if a prediction is not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, Update, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let prepared = Prepared::new(&model, &task, &blocks)?;
    /// let update = Update::zeros(&model, &blocks)?;
    /// let found = prepared.predict_further(&[vec![0, 1, 4], vec![0, 1, 3]], &update)?;
    /// assert_eq!(found, [0.5, 0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn predict_further(
        &self,
        queries: &[Vec<u32>],
        update: &Update<R>,
    ) -> Result<Vec<f64>, Error> {
        let layout = Layout::shared(queries)?;
        let tape = Tape::of_update(self.tape.model(), layout, self.task.labels(), update)?;
        finite(tape.predictions(), 1)
    }
}

/// The examples of a task that was observed, for further queries as long as somebody asks them.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// let prepared = Prepared::local(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
/// let expected = prepared.further(&[vec![0, 1, 3]])?;
/// let examples = prepared.into_examples();
/// drop(model);
/// assert_eq!(examples.further(&[vec![0, 1, 3]])?, expected);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Examples<R: Real = f32> {
    task: TokenTask,
    tape: Tape<R>,
    observation: Observation,
    context: Option<Arc<Context<R>>>,
}

impl<R: Real> Examples<R> {
    /// As [`Prepared::further`].
    ///
    /// # Errors
    ///
    /// Those of [`Prepared::further`].
    ///
    /// # Examples
    ///
    /// See [`Examples`].
    pub fn further(&self, queries: &[Vec<u32>]) -> Result<Vec<Observation>, Error> {
        let Self { task, tape, observation, context } = self;
        further(Known { task, tape, observation, context: context.as_ref() }, queries)
    }

    /// The task in tokens.
    ///
    /// # Examples
    ///
    /// See [`Model::read_further`](crate::Model::read_further).
    #[must_use]
    pub fn task(&self) -> &TokenTask {
        &self.task
    }

    /// About how many bytes it holds beside the model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, Prepared, TokenTask, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// let prepared = Prepared::local(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
    /// assert!(prepared.into_examples().bytes() > 0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        let context = self.context.as_ref().map_or(0, |context| context.bytes());
        let tokens: usize = self.task.sequences().iter().map(Vec::len).sum();
        let n = self.task.examples();
        let kernels = self.observation.geometry.blocks().len() * n * (n + 1);
        context + self.tape.bytes() + tokens * size_of::<u32>() + kernels * size_of::<f64>()
    }
}

/// What is known of the examples.
struct Known<'a, R: Real> {
    task: &'a TokenTask,
    tape: &'a Tape<R>,
    observation: &'a Observation,
    context: Option<&'a Arc<Context<R>>>,
}

/// Looks at further queries on the same examples.
fn further<R: Real>(
    examples: Known<'_, R>,
    queries: &[Vec<u32>],
) -> Result<Vec<Observation>, Error> {
    let labels = examples.task.labels();
    let tape = match examples.context {
        Some(context) => examples.tape.behind(context, queries, labels)?,
        None => examples.tape.for_queries(Layout::shared(queries)?, labels)?,
    };
    let (tape, predictions) = tape.differentiated()?;
    let couplings = couplings(&tape, examples.tape);
    let passes = tape.passes();
    let n = examples.task.examples();
    predictions
        .into_iter()
        .enumerate()
        .map(|(query, query_prediction)| {
            let known = examples.observation;
            let blocks = known.geometry.blocks().iter().zip(&couplings);
            let blocks = blocks.map(|(block, side)| {
                let coupling = &side.products[query * (n + 1)..][..n];
                let variance = side.variances[query];
                Ok(block.clone().with_query(coupling.to_vec(), variance)?)
            });
            let blocks = blocks.collect::<Result<Vec<_>, Error>>()?;
            let mut geometry = Geometry::new(known.geometry.residuals().to_vec(), blocks)?;
            if let Some(answers) = known.geometry.answers() {
                geometry = geometry.with_answers(answers.clone())?;
            }
            let predictions = known.predictions.clone();
            let shown = known.shown;
            Ok(Observation { geometry, predictions, query_prediction, shown, passes })
        })
        .collect()
}

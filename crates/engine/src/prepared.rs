//! What was computed to observe a task, kept for what comes after: steps, and further queries.
//!
//! In: a [`TokenTask`], then steps on some of the blocks, or any number of further prompts that
//! ask about the same examples. Out: what [`descend`](crate::descend) and
//! [`observe`](crate::observe) would give. Steps begin with the forward pass that observing took. A
//! further query costs its own tokens forward, its prompt backward, and inner products with what
//! is kept of the examples.

use crate::blocks::BlockId;
use crate::error::Error;
use crate::factors::{KernelForm, couplings, kernels};
use crate::layout::Layout;
use crate::network::Network;
use crate::observe::{Observation, TokenTask, observation};
use crate::real::Real;
use crate::steps::{Applied, Descent, Steps, filter_on, steps_on};
use crate::tape::Tape;
use fewstep_core::{Filter, Geometry, Spectrum};

/// A task that was observed, with what its steps and further queries begin with.
///
/// # Examples
///
/// See [`Prepared::further`].
#[derive(Clone, Debug)]
pub struct Prepared<'m, R: Real = f32> {
    task: TokenTask,
    tape: Tape<'m, R>,
    observation: Observation,
}

impl<'m, R: Real> Prepared<'m, R> {
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
        model: &'m Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        let (tape, predictions) = Tape::separate(model, task, blocks)?.differentiated()?;
        let kernels = kernels(&tape, KernelForm::Cheapest);
        let observation = observation(task, blocks, predictions, kernels, &tape)?;
        Ok(Self { task: task.clone(), tape, observation })
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
    ) -> Result<(Tape<'m, R>, TokenTask, Observation), Error> {
        let Self { task, tape, observation } = self;
        Ok((tape.acting(task.labels(), blocks)?, task, observation))
    }

    /// Takes gradient steps on some of the blocks, as [`descend`](crate::descend) does but for
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
        let scales = settings.scales(blocks)?;
        let (tape, task, _) = self.acting(blocks)?;
        steps_on(tape, &task, &scales, settings)
    }

    /// Applies a filter to the residuals as one update of some of the blocks, as
    /// [`apply_filter`](crate::apply_filter) does but for rounding, from what was observed.
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
    /// // Together they have four different tokens, and each is a sequence on the way back.
    /// assert_eq!((further[0].passes.forward_tokens, further[0].passes.backward), (4, 2));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn further(&self, queries: &[Vec<u32>]) -> Result<Vec<Observation>, Error> {
        let layout = Layout::shared(queries)?;
        let tape = self.tape.for_queries(layout, self.task.labels())?;
        let (tape, predictions) = tape.differentiated()?;
        let couplings = couplings(&tape, &self.tape);
        let passes = tape.passes();
        let n = self.task.examples();
        predictions
            .into_iter()
            .enumerate()
            .map(|(query, query_prediction)| {
                let known = &self.observation;
                let blocks = known.geometry.blocks().iter().zip(&couplings);
                let blocks = blocks.map(|(block, side)| {
                    let coupling = &side.products[query * (n + 1)..][..n];
                    let variance = side.variances[query];
                    Ok(block.clone().with_query(coupling.to_vec(), variance)?)
                });
                let blocks = blocks.collect::<Result<Vec<_>, Error>>()?;
                let geometry = Geometry::new(known.geometry.residuals().to_vec(), blocks)?;
                let predictions = known.predictions.clone();
                Ok(Observation { geometry, predictions, query_prediction, passes })
            })
            .collect()
    }
}

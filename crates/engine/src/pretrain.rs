//! Training a model of the GPT-2 family from nothing.
//!
//! In: a [`Config`], [`PretrainSettings`] and one [`Batch`] after the other. Out: [`Parameters`].
//! A run is fixed by its settings and batches, whatever the number of threads, and resumes from a
//! checkpoint as if it had never stopped. There is no dropout; where batches come from is the
//! caller's affair.

mod adamw;
mod batch;
mod buffers;
mod checkpoint;
mod chunk;
mod gradients;
mod layer;
mod places;
mod settings;

pub use batch::Batch;
pub use gradients::Gradients;
pub use settings::PretrainSettings;

use crate::config::Config;
use crate::error::Error;
use crate::parameters::Parameters;
use adamw::{Moments, State};
use gradients::Machine;
use std::path::Path;

/// A training run.
///
/// # Examples
///
/// A batch is a function of the step, so a resumed run needs nothing but the step's number.
///
/// ```
/// use fewstep_engine::{Batch, Config, Error, PretrainSettings, Pretraining};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4, "n_ctx": 3,
///          "vocab_size": 5}"#,
/// )?;
/// let settings = PretrainSettings { steps: 40, warmup_steps: 4, ..Default::default() };
/// let batch = |step: usize| Batch::next_token(vec![vec![(step % 4) as u32, 4]]);
///
/// let mut training = Pretraining::new(&config, settings)?;
/// let first = training.step(&batch(0)?)?;
/// while training.steps() < 40 {
///     training.step(&batch(training.steps())?)?;
/// }
/// assert!(training.step(&batch(40)?)?.loss < first.loss);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Pretraining {
    config: Config,
    settings: PretrainSettings,
    state: State,
    machine: Machine<f32>,
    threads: usize,
}

/// What a training step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// The mean cross-entropy of the batch in nats, before the step.
    pub loss: f64,
    /// The norm of its gradient, before it was shortened.
    pub gradient_norm: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
}

impl Pretraining {
    /// A run at its start, with [`Parameters::initial`] parameters.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`] and [`PretrainSettings::check`]; [`Error::CannotTrain`] for a
    /// model of another family than GPT-2.
    pub fn new(config: &Config, settings: PretrainSettings) -> Result<Self, Error> {
        settings.check()?;
        let parameters = Parameters::initial(config, settings.seed)?;
        let machine = Machine::new(config);
        let weights: Vec<f32> = machine.places.flatten(&parameters, config)?;
        let moments = Moments::zeros(weights.len());
        let state = State { steps: 0, weights, moments };
        Ok(Self { config: config.clone(), settings, state, machine, threads: 1 })
    }

    /// The run that was saved in a file; it continues exactly as if it had never stopped.
    ///
    /// # Errors
    ///
    /// As [`Pretraining::new`]; [`Error::NotACheckpoint`] for another kind of file, [`Error::OtherRun`] for a run with other settings; for a damaged one
    /// those of [`crate::Weights::open`], [`Error::UnknownTensor`] or [`Error::NegativeMoment`].
    pub fn resume(
        file: &Path,
        config: &Config,
        settings: PretrainSettings,
    ) -> Result<Self, Error> {
        places::check_trainable(config)?;
        settings.check()?;
        let machine = Machine::new(config);
        let state = checkpoint::resume(file, &machine.places, config, &settings)?;
        Ok(Self { config: config.clone(), settings, state, machine, threads: 1 })
    }

    /// Saves the run in one file, which replaces an older one only when it is complete.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be written, [`Error::WeightNotFinite`] if a parameter has
    /// overflown.
    pub fn save(&self, file: &Path) -> Result<(), Error> {
        let places = &self.machine.places;
        checkpoint::save(file, &self.state, places, &self.config, &self.settings)
    }

    /// The same run on up to `threads` threads (more than 4 do not help).
    ///
    /// It changes how long a step takes and not one bit of its result.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Takes one step down the gradient of the batch's mean loss.
    ///
    /// After an error the run is as it was.
    ///
    /// # Errors
    ///
    /// [`Error::SequenceTooLong`] or [`Error::TokenOutOfRange`] for a batch that the model cannot
    /// take, [`Error::Diverged`] if loss or gradient are not finite.
    pub fn step(&mut self, batch: &Batch) -> Result<StepReport, Error> {
        batch.check(&self.config)?;
        let Self { config, settings, state, machine, threads } = self;
        let loss = machine.run(config, &state.weights, batch, *threads);
        let gradient = machine.gradient();
        let gradient_norm = adamw::norm(gradient);
        if !(loss.is_finite() && gradient_norm.is_finite()) {
            return Err(Error::Diverged { steps: state.steps, loss, gradient_norm });
        }
        let factor = adamw::clip_factor(gradient_norm, settings.largest_gradient_norm);
        let learning_rate = settings.learning_rate_at(state.steps);
        adamw::update(state, gradient, factor, &machine.places, settings);
        state.steps = state.steps.saturating_add(1);
        Ok(StepReport { loss, gradient_norm, learning_rate })
    }

    /// Number of steps taken, which is the number of the next one, counted from 0.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.state.steps
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How the model is trained.
    #[must_use]
    pub fn settings(&self) -> &PretrainSettings {
        &self.settings
    }

    /// The parameters after the steps so far.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.machine.places.parameters(&self.state.weights, &self.config)
    }
}

//! A pretrained model that takes tasks: everything between a name and an outcome.
//!
//! In: where a model is, tasks as text, and a [`Decision`]. Out: an [`Observation`] for the
//! decision to look at, and an [`Outcome`] once it was carried out. The model is read-only: one
//! serves any number of tasks and threads, and there is nothing to restore between them.

use crate::blocks::BlockId;
use crate::config::Config;
use crate::error::Error;
use crate::factors::KernelForm;
use crate::hub::{HubSettings, Progress, locate};
use crate::layout::Layout;
use crate::memory::memory_plan;
use crate::network::Network;
use crate::observe::{Observation, TokenTask, observe};
use crate::parameters::{Parameters, Precision};
use crate::passes::PassCount;
use crate::prompt::{PromptSettings, Prompts};
use crate::steps::{Descent, LinearPath, Steps, apply_filter, descend, predict_updated};
use crate::task::Task;
use crate::tokens::Tokenizer;
use crate::update::Update;
use fewstep_core::drift::{self, Departure, Watch};
use fewstep_core::{Decision, Filter, GradientDescent, Update as Choice};
use std::path::Path;
use std::sync::Arc;

/// A pretrained Transformer with its tokenizer.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Rules, decide};
/// use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
///
/// // A model whose weights are all 0 predicts the mean of the labels and cannot be moved.
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4, "n_positions": 64,
///          "vocab_size": 256}"#,
/// )?;
/// let model = Model::new(config.clone(), Tokenizer::of_bytes(), Parameters::zeros(&config)?)?;
/// let task: Task = serde_json::from_str(
///     r#"{"id": "t1", "template": "{x}->{y}",
///         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///         "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// ).expect("it is a task");
///
/// let blocks = choose_blocks("value@all", 1, 2)?;
/// let observation = model.observe(&task, &blocks)?;
/// let decision = decide(&observation.geometry, &Rules::default())?;
/// let outcome = model.act(&task, &decision)?;
/// assert_eq!((observation.query_prediction, outcome.adapted), (0.5, 0.5));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    tokenizer: Tokenizer,
    network: Arc<Network>,
    prompts: PromptSettings,
    memory_limit: u64,
}

/// What carrying out a decision led to.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Outcome, PassCount};
///
/// // Two steps would have led to 0.7 if predictions were linear in the weights.
/// let outcome = Outcome {
///     icl: 0.5,
///     adapted: 0.75,
///     query_path: vec![0.5, 0.625, 0.75],
///     prompt_path: vec![vec![0.5], vec![0.625], vec![0.75]],
///     linear_path: vec![0.5, 0.6, 0.7],
///     departures: Vec::new(),
///     update: None,
///     passes: PassCount::default(),
/// };
/// assert_eq!(outcome.query_path.len(), outcome.linear_path.len());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The prediction for the query without any update.
    pub icl: f64,
    /// The prediction for the query under the update.
    pub adapted: f64,
    /// The prediction for the query after `0, 1, …` steps; under an update that is applied at
    /// once, before and after it.
    pub query_path: Vec<f64>,
    /// The predictions of the leave-one-out prompts at the same points.
    pub prompt_path: Vec<Vec<f64>>,
    /// The prediction for the query at the same points if predictions were linear in the weights.
    pub linear_path: Vec<f64>,
    /// How far the predictions of the leave-one-out prompts were from the linear picture after
    /// each real step; empty if no step was taken.
    pub departures: Vec<Departure>,
    /// `θ`, if anything was updated.
    pub update: Option<Update>,
    /// What it cost.
    pub passes: PassCount,
}

impl Outcome {
    fn of(descent: Descent) -> Self {
        let last = descent.query_predictions.last();
        Self {
            icl: descent.query_predictions[0],
            adapted: *last.expect("there is the prediction after no step"),
            query_path: descent.query_predictions,
            prompt_path: descent.predictions,
            linear_path: Vec::new(),
            departures: Vec::new(),
            update: Some(descent.update),
            passes: descent.passes,
        }
    }
}

impl Model {
    /// How many bytes observing may hold beside the model, unless another limit is set: 16 GiB.
    pub const MEMORY_LIMIT: u64 = 16 << 30;

    /// A model from its parts.
    ///
    /// # Errors
    ///
    /// Those of [`Network::new`].
    pub fn new(
        config: Config,
        tokenizer: Tokenizer,
        parameters: Parameters,
    ) -> Result<Self, Error> {
        let network = Arc::new(Network::new(&config, parameters)?);
        let prompts = PromptSettings::new(config.positions);
        let memory_limit = Self::MEMORY_LIMIT;
        Ok(Self { config, tokenizer, network, prompts, memory_limit })
    }

    /// Reads a model from a directory, or from the hub's cache or the hub itself by its id.
    ///
    /// # Errors
    ///
    /// Those of [`locate`], [`Config::load`], [`Tokenizer::load`] and [`Parameters::load`].
    pub fn load(
        name: &str,
        hub: &HubSettings,
        progress: impl FnMut(Progress),
    ) -> Result<Self, Error> {
        Self::open(&locate(name, hub, progress)?)
    }

    /// Reads a model from a directory.
    ///
    /// # Errors
    ///
    /// Those of [`Config::load`], [`Tokenizer::load`] and [`Parameters::load`].
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let config = Config::load(directory)?;
        let tokenizer = Tokenizer::load(directory, &config)?;
        let parameters = Parameters::load(directory, &config)?;
        Self::new(config, tokenizer, parameters)
    }

    /// A model from the bytes of its three files, for one that is part of a program.
    ///
    /// # Errors
    ///
    /// As [`Model::open`].
    pub fn from_bytes(config: &[u8], tokenizer: &[u8], weights: &[u8]) -> Result<Self, Error> {
        let config = Config::from_json(config)?;
        let tokenizer = Tokenizer::from_json(tokenizer, &config)?;
        let parameters = Parameters::from_bytes(weights, &config)?;
        Self::new(config, tokenizer, parameters)
    }

    /// The same model with other rules for putting prompts together; its context stays.
    #[must_use]
    pub fn with_prompts(mut self, settings: PromptSettings) -> Self {
        self.prompts = PromptSettings { context: self.config.positions, ..settings };
        self
    }

    /// The same model with another limit to the bytes that observing may hold beside it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
    /// # let config = Config::from_json(
    /// #     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #          "n_positions": 64, "vocab_size": 256}"#,
    /// # )?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}->{y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    /// #         "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
    /// # ).expect("it is a task");
    /// let model = Model::new(config, Tokenizer::of_bytes(), parameters)?.with_memory_limit(100);
    /// let refused = model.observe(&task, &choose_blocks("value@all", 1, 2)?);
    /// assert!(matches!(refused, Err(Error::TooMuchMemory { limit: 100, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights, in the form in which they compute.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A task in tokens.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`].
    pub fn read(&self, task: &Task) -> Result<TokenTask, Error> {
        TokenTask::of(&Prompts::build(task, &self.tokenizer, &self.prompts)?)
    }

    /// Looks at a task: predictions, residuals, and the kernels of the candidate blocks.
    ///
    /// # Errors
    ///
    /// [`Error::TooMuchMemory`] if [`memory_plan`] says that the limit would be passed, and those
    /// of [`Prompts::build`] and [`observe`].
    pub fn observe(&self, task: &Task, blocks: &[BlockId]) -> Result<Observation, Error> {
        let task = self.read(task)?;
        let layout = Layout::shared(task.sequences())?;
        let needed = memory_plan(&self.config, &layout, blocks, size_of::<f32>());
        if needed > self.memory_limit {
            return Err(Error::TooMuchMemory { needed, limit: self.memory_limit });
        }
        observe(&self.network, &task, blocks, KernelForm::Cheapest)
    }

    /// Carries out a decision on a task, and says how far the linear picture held.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`] and [`descend`]; [`Error::BadBlockName`] or
    /// [`Error::NoSuchBlock`] if the decision was made for another model,
    /// [`Error::SizeMismatch`] or [`Error::Core`] if it was made for a task of another size.
    pub fn act(&self, task: &Task, decision: &Decision) -> Result<Outcome, Error> {
        let task = self.read(task)?;
        let (found, expected) = (decision.block.examples(), task.examples());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "the decision", found, expected });
        }
        let blocks = selected_blocks(decision)?;
        let steps = |horizon| Steps::new(decision.how_far.step_size, horizon);
        match &decision.update {
            Choice::None => {
                let outcome = Outcome::of(descend(&self.network, &task, &blocks, &steps(0))?);
                Ok(Outcome { update: None, linear_path: vec![outcome.icl], ..outcome })
            }
            Choice::Steps(chosen) => {
                let horizon = usize::try_from(chosen.horizon).unwrap_or(usize::MAX);
                let steps = steps(horizon);
                let outcome = Outcome::of(descend(&self.network, &task, &blocks, &steps)?);
                let residuals = task.residuals(&outcome.prompt_path[0]);
                let linear = LinearPath::new(&decision.block, &residuals, &steps)?;
                let linear_path = linear
                    .query_corrections
                    .iter()
                    .map(|change| outcome.icl + change)
                    .collect();
                let departures =
                    departures(&residuals, decision, chosen, &outcome.prompt_path)?;
                Ok(Outcome { linear_path, departures, ..outcome })
            }
            filter @ (Choice::Average(_) | Choice::Posterior(_)) => {
                let applied =
                    apply_filter(&self.network, &task, &blocks, filter, &decision.spectrum)?;
                let residuals = task.residuals(&applied.base_predictions);
                let change = linear_change(&residuals, decision)?;
                Ok(Outcome {
                    icl: applied.base_query_prediction,
                    adapted: applied.query_prediction,
                    query_path: vec![applied.base_query_prediction, applied.query_prediction],
                    prompt_path: vec![applied.base_predictions, applied.predictions],
                    linear_path: vec![
                        applied.base_query_prediction,
                        applied.base_query_prediction + change,
                    ],
                    departures: Vec::new(),
                    update: Some(applied.update),
                    passes: applied.passes,
                })
            }
        }
    }

    /// Predicts a task's query under an update that was made before.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`] and [`predict_updated`].
    pub fn predict(&self, task: &Task, update: &Update) -> Result<f64, Error> {
        let predictions = predict_updated(&self.network, &self.read(task)?, update)?;
        Ok(predictions.last().copied().expect("the query is the last sequence"))
    }

    /// Writes the model with an update in its weights into an existing directory: `config.json`,
    /// `model.safetensors` and the tokenizer's files, for [`Model::open`] and other tools.
    ///
    /// # Errors
    ///
    /// Those of [`Update::merge`], [`Parameters::save`] and [`Tokenizer::save`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use fewstep_engine::{Error, Model, Update};
    ///
    /// let model = Model::open("distilgpt2".as_ref())?;
    /// let update = Update::load("update.safetensors".as_ref(), model.network())?;
    /// model.save_merged("adapted".as_ref(), &update)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save_merged(&self, directory: &Path, update: &Update) -> Result<(), Error> {
        let mut parameters = self.network.parameters();
        update.add_to(&mut parameters, &self.config)?;
        parameters.save(directory, &self.config, Precision::Single)?;
        self.tokenizer.save(directory)
    }
}

/// Every real step against the linear picture.
fn departures(
    residuals: &[f64],
    decision: &Decision,
    steps: &GradientDescent,
    path: &[Vec<f64>],
) -> Result<Vec<Departure>, Error> {
    let mut watch = Watch::new(&decision.spectrum, residuals, steps.step)?;
    for (horizon, predictions) in (0..).zip(path).skip(1) {
        let shift: Vec<f64> =
            predictions.iter().zip(&path[0]).map(|(s, base)| s - base).collect();
        watch.observe(drift::Observation::new(horizon, &shift))?;
    }
    Ok(watch.departures().to_vec())
}

/// By how much an update moves the prediction for the query under the linear picture.
fn linear_change(residuals: &[f64], decision: &Decision) -> Result<f64, Error> {
    let quantity = "the linear picture of an update";
    let query = decision.block.query().ok_or(fewstep_core::Error::NoQuery { quantity })?;
    Ok(decision.update.query_correction(&decision.spectrum, &query.coupling, residuals)?)
}

/// The blocks that a decision names.
fn selected_blocks(decision: &Decision) -> Result<Vec<BlockId>, Error> {
    let names = &decision.which.blocks;
    decision.which.selected.iter().map(|&index| names[index].name.parse()).collect()
}

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
use crate::network::Network;
use crate::observe::{Observation, TokenTask, observe};
use crate::parameters::Parameters;
use crate::passes::PassCount;
use crate::prompt::{PromptSettings, Prompts};
use crate::steps::{Descent, Steps, apply_filter, descend, predict_updated};
use crate::task::Task;
use crate::tokens::Tokenizer;
use crate::update::Update;
use fewstep_core::{Decision, Update as Choice};
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
}

/// What carrying out a decision led to.
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
            update: Some(descent.update),
            passes: descent.passes,
        }
    }
}

impl Model {
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
        Ok(Self { config, tokenizer, network, prompts })
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
    /// Those of [`Prompts::build`] and [`observe`].
    pub fn observe(&self, task: &Task, blocks: &[BlockId]) -> Result<Observation, Error> {
        observe(&self.network, &self.read(task)?, blocks, KernelForm::Cheapest)
    }

    /// Carries out a decision on a task.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`] and [`descend`]; [`Error::BadBlockName`] or
    /// [`Error::NoSuchBlock`] if the decision was made for another model.
    pub fn act(&self, task: &Task, decision: &Decision) -> Result<Outcome, Error> {
        let task = self.read(task)?;
        let blocks = selected_blocks(decision)?;
        let steps = |horizon| Steps::new(decision.how_far.step_size, horizon);
        match &decision.update {
            Choice::None => {
                let descent = descend(&self.network, &task, &blocks, &steps(0))?;
                Ok(Outcome { update: None, ..Outcome::of(descent) })
            }
            Choice::Steps(chosen) => {
                let horizon = usize::try_from(chosen.horizon).unwrap_or(usize::MAX);
                Ok(Outcome::of(descend(&self.network, &task, &blocks, &steps(horizon))?))
            }
            filter @ (Choice::Average(_) | Choice::Posterior(_)) => {
                let applied =
                    apply_filter(&self.network, &task, &blocks, filter, &decision.spectrum)?;
                Ok(Outcome {
                    icl: applied.base_query_prediction,
                    adapted: applied.query_prediction,
                    query_path: vec![applied.base_query_prediction, applied.query_prediction],
                    prompt_path: vec![applied.base_predictions, applied.predictions],
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
}

/// The blocks that a decision names.
fn selected_blocks(decision: &Decision) -> Result<Vec<BlockId>, Error> {
    let names = &decision.which.blocks;
    decision.which.selected.iter().map(|&index| names[index].name.parse()).collect()
}

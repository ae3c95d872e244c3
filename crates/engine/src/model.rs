//! A pretrained model that takes tasks: everything between a name and an outcome.
//!
//! In: where a model is, tasks as text, and a [`Decision`](fewstep_core::Decision). Out: an [`Observation`] for the
//! decision to look at, and an [`Outcome`] once it was carried out. The model is read-only: one
//! serves any number of tasks and threads, and there is nothing to restore between them.

use crate::blocks::BlockId;
use crate::classes::{ClassPrompts, ObservedClasses};
use crate::config::Config;
use crate::error::Error;
use crate::factors::KernelForm;
use crate::gguf::Gguf;
use crate::hub::{HubSettings, Progress, locate};
use crate::lora::Lora;
use crate::matrix::DEQUANTISED_AT_ONCE;
use crate::memory::{local_memory_plan, memory_plan};
use crate::network::Network;
use crate::observe::{Observation, observe, observe_local};
use crate::parameters::{Parameters, Precision};
use crate::passes::PassCount;
use crate::prepared::Prepared;
use crate::prompt::{PromptSettings, Prompts};
use crate::steps::predict_updated;
use crate::task::{Query, Task};
use crate::token_task::TokenTask;
use crate::tokens::Tokenizer;
use crate::update::Update;
use fewstep_core::{Adjoint, Base, ClassPolicy, ClassQuery, Policy};
use std::path::Path;
use std::sync::Arc;

mod outcome;

/// What dequantising weights on their way into a product takes beside them.
const DEQUANTISING_BYTES: u64 = (DEQUANTISED_AT_ONCE * size_of::<f32>()) as u64;

pub use outcome::Outcome;

/// A pretrained Transformer with its tokenizer.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Policy, decide};
/// use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
///
/// // A model whose weights are all 0 predicts the mean of the labels, whatever the update.
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
/// let blocks = choose_blocks("value@all", &config)?;
/// let observation = model.observe(&task, &blocks)?;
/// let decision = decide(&observation.geometry, &Policy::paper())?;
/// let outcome = model.act(&task, &decision)?;
/// assert_eq!((observation.query_prediction, outcome.adapted), (0.5, 0.5));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    tokenizer: Arc<Tokenizer>,
    network: Arc<Network>,
    prompts: PromptSettings,
    adjoint: Adjoint,
    memory_limit: u64,
}

impl Model {
    /// How many bytes observing may hold beside the model, unless another limit is set: 16 GiB.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Model::MEMORY_LIMIT, 16 * 1024 * 1024 * 1024);
    /// ```
    pub const MEMORY_LIMIT: u64 = 16 << 30;

    /// A model from its parts.
    ///
    /// # Errors
    ///
    /// Those of [`Network::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// let model = Model::new(config.clone(), Tokenizer::of_bytes(), parameters)?;
    /// assert_eq!(model.config(), &config);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        config: Config,
        tokenizer: Tokenizer,
        parameters: Parameters,
    ) -> Result<Self, Error> {
        let network = Network::new(&config, parameters)?;
        Ok(Self::of_network(config, tokenizer, network))
    }

    fn of_network(config: Config, tokenizer: Tokenizer, network: Network) -> Self {
        let prompts = PromptSettings::new(config.positions);
        let (adjoint, memory_limit) = (Adjoint::Whole, Self::MEMORY_LIMIT);
        let (tokenizer, network) = (Arc::new(tokenizer), Arc::new(network));
        Self { config, tokenizer, network, prompts, adjoint, memory_limit }
    }

    /// Reads a model from a directory or a GGUF file, or from the hub's cache or the hub itself by
    /// its id.
    ///
    /// # Errors
    ///
    /// Those of [`locate`] and [`Model::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, HubSettings, Model};
    /// let settings = HubSettings::from_variables(|name| {
    ///     (name == "HF_HUB_OFFLINE").then(|| "1".to_owned())
    /// });
    /// let refused = Model::load("no/such model", &settings, |_| {});
    /// assert!(matches!(refused, Err(Error::ModelNotFound { .. })));
    /// ```
    pub fn load(
        name: &str,
        hub: &HubSettings,
        progress: impl FnMut(Progress),
    ) -> Result<Self, Error> {
        Self::open(&locate(name, hub, progress)?)
    }

    /// Reads a model from a directory, or from a GGUF file, whose weights stay quantised.
    ///
    /// # Errors
    ///
    /// Those of [`Config::load`], [`Tokenizer::load`] and [`Parameters::load`]; for a file those
    /// of [`Gguf::open`] and [`Model::from_gguf`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Model};
    /// let refused = Model::open("no such directory".as_ref());
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    ///
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/qwen2.gguf");
    /// let model = Model::open(file.as_ref())?;
    /// assert!(model.config().key_value_heads() <= model.config().heads);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.is_file() {
            return Self::from_gguf(&Gguf::open(path)?);
        }
        let config = Config::load(path)?;
        let tokenizer = Tokenizer::load(path, &config)?;
        let parameters = Parameters::load(path, &config)?;
        Self::new(config, tokenizer, parameters)
    }

    /// A model in a GGUF file, whose weights stay quantised.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::config_json`], [`Config::from_json`], [`Gguf::tokenizer`] and
    /// [`Network::from_gguf`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf, Model};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/qwen2.gguf");
    /// let model = Model::from_gguf(&Gguf::open(file.as_ref())?)?;
    /// assert!(model.network().is_quantised());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        let config = Config::from_json(gguf.config_json()?.as_bytes())?;
        let tokenizer = gguf.tokenizer(&config)?;
        let network = Network::from_gguf(gguf, &config)?;
        Ok(Self::of_network(config, tokenizer, network))
    }

    /// A model from the bytes of its three files, for one that is part of a program.
    ///
    /// # Errors
    ///
    /// As [`Model::open`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Model};
    /// let refused = Model::from_bytes(b"no JSON", b"", b"");
    /// assert!(matches!(refused, Err(Error::Json { line: 1, .. })));
    /// ```
    pub fn from_bytes(config: &[u8], tokenizer: &[u8], weights: &[u8]) -> Result<Self, Error> {
        let config = Config::from_json(config)?;
        let tokenizer = Tokenizer::from_json(tokenizer, &config)?;
        let parameters = Parameters::from_bytes(weights, &config)?;
        Self::new(config, tokenizer, parameters)
    }

    /// The same model with its weights dequantised: four bytes each, and faster on short prompts.
    ///
    /// A model that is not quantised stays as it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Model};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/qwen2.gguf");
    /// let model = Model::open(file.as_ref())?;
    /// assert!(model.network().is_quantised());
    /// assert!(!model.dequantised().network().is_quantised());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn dequantised(mut self) -> Self {
        if self.network.is_quantised() {
            let network = Network::new(&self.config, self.network.parameters())
                .and_then(|network| network.with_lora(*self.network.lora()));
            self.network = Arc::new(network.expect("everything is that of the model"));
        }
        self
    }

    /// The same model with other rules for putting prompts together; its context stays.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, PromptSettings, Task, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let cut = PromptSettings { max_tokens_per_example: Some(0), ..PromptSettings::new(64) };
    /// let refused = model.with_prompts(cut).read(&task);
    /// assert_eq!(refused, Err(Error::NoTokensPerExample));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_prompts(mut self, settings: PromptSettings) -> Self {
        self.prompts = PromptSettings { context: self.prompts.context, ..settings };
        self
    }

    /// The same model, which looks at tasks as a policy says: by which adjoints, behind which examples
    /// each is predicted, and how many a prompt shows. Nothing else of the policy is read.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Adjoint, Policy};
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let model = model.with_policy(&Policy { adjoint: Adjoint::Local, ..Policy::paper() });
    /// let seen = model.observe(&task, &choose_blocks("mlp-up@all", model.config())?)?;
    /// assert_eq!(seen.passes.backward_tokens, 3); // one for each example, and the query's
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: &Policy) -> Self {
        let (residuals, shots) = (policy.residuals, Some(policy.shots));
        self.prompts = PromptSettings { residuals, shots, ..self.prompts };
        self.adjoint = policy.adjoint;
        self
    }

    /// The same model with other low-rank updates for its LoRA blocks.
    ///
    /// Copies of the model share their weights, whatever their low-rank updates are.
    ///
    /// # Errors
    ///
    /// As [`Network::with_lora`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Lora, Model, Parameters, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// let model = model.with_lora(Lora { rank: 2, seed: 7, ..Lora::default() })?;
    /// assert_eq!(model.network().lora().seed, 7);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_lora(mut self, lora: Lora) -> Result<Self, Error> {
        self.network = Arc::new(Arc::unwrap_or_clone(self.network).with_lora(lora)?);
        Ok(self)
    }

    /// The same model with a limit to the tokens of a prompt, if it would take more.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, PromptSettings, Task, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let model = model.with_longest_prompt(9).with_prompts(PromptSettings::new(64));
    /// // "a=1", a line break, "b=0", another one and "c="
    /// assert!(matches!(model.read(&task), Err(Error::ContextTooLong { length: 10, limit: 9, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_longest_prompt(mut self, tokens: usize) -> Self {
        self.prompts.context = self.config.positions.min(tokens);
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
    /// let refused = model.observe(&task, &choose_blocks("value@all", model.config())?);
    /// assert!(matches!(refused, Err(Error::TooMuchMemory { limit: 100, .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// The sizes of the model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// assert_eq!(model.config().heads, 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights, in the form in which they compute.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// assert_eq!(model.network().config(), model.config());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A task in tokens.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// assert_eq!(model.read(&task)?.sequences()[2], b"a=1\nb=0\nc=".map(u32::from));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn read(&self, task: &Task) -> Result<TokenTask, Error> {
        TokenTask::of(&Prompts::build(task, &self.tokenizer, &self.prompts)?)
    }

    /// Looks at a task: predictions, residuals, and the kernels of the candidate blocks.
    ///
    /// # Errors
    ///
    /// [`Error::TooMuchMemory`] if [`memory_plan`] says that the limit would be passed, and those
    /// of [`Prompts::build`] and [`observe`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// // Without weights both labels are equally likely: half of 0.5.
    /// let observation = model.observe(&task, &choose_blocks("value@all", model.config())?)?;
    /// assert_eq!(observation.predictions, [0.25, 0.25]);
    /// assert_eq!(observation.geometry.residuals(), [0.25, -0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn observe(&self, task: &Task, blocks: &[BlockId]) -> Result<Observation, Error> {
        let task = self.read_within(task, blocks)?;
        match self.adjoint {
            Adjoint::Whole => observe(&self.network, &task, blocks, KernelForm::Cheapest),
            Adjoint::Local => observe_local(&self.network, &task, blocks),
        }
    }

    /// As [`Model::observe`], and keeps what acting on the decision and further queries begin with.
    ///
    /// # Errors
    ///
    /// As [`Model::observe`].
    ///
    /// # Examples
    ///
    /// See [`Prepared::act`].
    pub fn prepare(&self, task: &Task, blocks: &[BlockId]) -> Result<Prepared, Error> {
        let task = self.read_within(task, blocks)?;
        match self.adjoint {
            Adjoint::Whole => Prepared::new(&self.network, &task, blocks),
            Adjoint::Local => Prepared::local(&self.network, &task, blocks),
        }
    }

    /// The prompts of further queries on the examples of a task that was prepared, or what is wrong
    /// with each of them, for [`Prepared::further`].
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`] for what the queries have in common.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Query, Task, Tokenizer, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let prepared = model.prepare(&task, &choose_blocks("value@all", model.config())?)?;
    /// let query = Query { x: "d".to_owned(), y: None };
    /// let prompts = model.read_further(&task, prepared.task(), &[query])?;
    /// assert_eq!(prompts, [Ok(b"a=1\nb=0\nd=".map(u32::from).to_vec())]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn read_further(
        &self,
        task: &Task,
        read: &TokenTask,
        queries: &[Query],
    ) -> Result<Vec<Result<Vec<u32>, Error>>, Error> {
        Prompts::further(task, &self.tokenizer, &self.prompts, read, queries)
    }

    /// Looks at a task of classes: label scores behind the examples and, if an arm asks for it, behind
    /// none, and how the blocks of all arms couple them.
    ///
    /// Labels may have any number of tokens; the score of one is the sum of the log-probabilities of its
    /// tokens. Derivatives are local, whatever a policy says of adjoints: each output of a prediction is a
    /// row of one backward pass. Arms that update weights are left without blocks where their outputs, the examples times the
    /// tokens of all labels, are more than 2048.
    ///
    /// # Errors
    ///
    /// [`Error::NotClassification`] for labels with values, else as [`Model::observe`];
    /// [`Error::LabelBegins`] for labels that nothing tells apart, [`Error::BadClassBlocks`] for blocks of
    /// an arm that the model does not have.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Model, Parameters, Task, Tokenizer};
    /// use fewstep_core::{Policy, decide_classes};
    ///
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// let task: Task = serde_json::from_str(
    ///     r#"{"id": "t1", "template": "{x} is a {y}",
    ///         "examples": [{"x": "Rome", "y": "place"}, {"x": "Ada", "y": "person"}],
    ///         "queries": [{"x": "Cairo"}, {"x": "Bob"}]}"#,
    /// )
    /// .expect("this is a task");
    /// let policy = Policy::default();
    /// let seen = model.observe_classes(&task, &policy.classes)?;
    /// let decision = decide_classes(seen.geometry(), seen.arms(), &policy)?;
    /// // Without weights all tokens are equally likely, and the longer label is less so.
    /// let first = decision.predict(seen.geometry(), seen.first())?;
    /// assert!((first.icl[0] - 256.0 / 257.0).abs() < 1e-5);
    ///
    /// let (further, _) = model.ask_classes(&task, &seen, &task.further.clone().unwrap())?;
    /// assert_eq!(further[0].as_ref().unwrap(), seen.first());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn observe_classes(
        &self,
        task: &Task,
        policy: &ClassPolicy,
    ) -> Result<ObservedClasses, Error> {
        let arms = policy.arms.iter().any(|arm| arm.base == Base::ZeroShot);
        let bases: &[Base] =
            if arms { &[Base::FewShot, Base::ZeroShot] } else { &[Base::FewShot] };
        let prompts = ClassPrompts::build(task, &self.tokenizer, &self.prompts, bases)?;
        ObservedClasses::new(&self.network, task, prompts, policy, self.room())
    }

    /// What was observed of a task of classes, of further queries behind the same examples: what the
    /// bases say of each, or what is wrong with it, and what they cost together.
    ///
    /// # Errors
    ///
    /// As [`Model::observe_classes`].
    ///
    /// # Examples
    ///
    /// See [`Model::observe_classes`].
    #[allow(clippy::type_complexity, reason = "one list and one count")]
    pub fn ask_classes(
        &self,
        task: &Task,
        seen: &ObservedClasses,
        queries: &[Query],
    ) -> Result<(Vec<Result<ClassQuery, Error>>, PassCount), Error> {
        seen.ask(task, &self.tokenizer, &self.prompts, queries)
    }

    /// The memory that passes may take.
    fn room(&self) -> u64 {
        let dequantised = if self.network.is_quantised() { DEQUANTISING_BYTES } else { 0 };
        self.memory_limit.saturating_sub(dequantised)
    }

    /// A task in tokens, if observing it stays within the memory limit.
    fn read_within(&self, task: &Task, blocks: &[BlockId]) -> Result<TokenTask, Error> {
        let task = self.read(task)?;
        let layout = task.layout()?;
        let dequantised = if self.network.is_quantised() { DEQUANTISING_BYTES } else { 0 };
        let lora = self.network.lora();
        let plan = match self.adjoint {
            Adjoint::Whole => memory_plan,
            Adjoint::Local => local_memory_plan,
        };
        let needed = plan(&self.config, &layout, blocks, lora, size_of::<f32>());
        let needed = needed.saturating_add(dequantised);
        if needed > self.memory_limit {
            return Err(Error::TooMuchMemory { needed, limit: self.memory_limit });
        }
        Ok(task)
    }

    /// Predicts a task's query under an update that was made before.
    ///
    /// # Errors
    ///
    /// Those of [`Prompts::build`] and [`predict_updated`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Model, Parameters, Task, Tokenizer, Update, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    /// #                 "n_positions": 64, "vocab_size": 256}"#;
    /// # let config = Config::from_json(json)?;
    /// # let parameters = Parameters::zeros(&config)?;
    /// # let model = Model::new(config, Tokenizer::of_bytes(), parameters)?;
    /// # let task: Task = serde_json::from_str(
    /// #     r#"{"id": "t1", "template": "{x}={y}",
    /// #         "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 0.5}],
    /// #         "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"}],
    /// #         "query": {"x": "c", "y": "1"}}"#,
    /// # ).expect("this is a task");
    /// let update = Update::zeros(model.network(), &choose_blocks("value@all", model.config())?)?;
    /// assert_eq!(model.predict(&task, &update)?, 0.25);
    /// # Ok::<(), Error>(())
    /// ```
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

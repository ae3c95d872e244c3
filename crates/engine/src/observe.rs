//! Observing: one forward and one backward pass over a task, and no choice.
//!
//! In: a [`Network`], a [`TokenTask`] and the candidate blocks. Out: an [`Observation`], whose
//! [`Geometry`] is all that the decision looks at.

use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::error::Error;
use crate::factors::{KernelForm, kernels, single_position_kernels};
use crate::network::Network;
use crate::passes::PassCount;
use crate::real::Real;
use crate::tape::{Outputs, Tape};
use crate::token_task::TokenTask;
use fewstep_core::{Block, Geometry, Matrix};

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
    /// How many examples the query's prompt shows; all of them are learnt from.
    pub shown: usize,
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
/// Those of [`Tape::new`] and [`Layout::shared`](crate::Layout::shared); [`Error::NotFinite`] if a prediction is not;
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

/// As [`observe`] by local adjoints: of every derivative only the term of the position where the
/// prediction is read, so that one row per prediction goes back instead of every token.
///
/// ```text
/// K_ij = Σ (a_i·a_j)(b_i·b_j)                                                   (Sec. 3.3)
/// ```
///
/// Other positions are constant in every layer. Values are the paper's single-position form, in which
/// a head's value matrix acts on the inputs that the head mixes; of a norm, only what it does to the
/// read-out position counts. In the last layer all kinds but norms are as with whole adjoints.
///
/// # Errors
///
/// As [`observe`], and [`Error::NoLocalForm`] for key blocks.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, choose_blocks, observe_local
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// let seen = observe_local(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
/// assert_eq!(seen.geometry.residuals(), [0.5, -0.5]);
/// // Forward as ever, backward one token per prompt.
/// assert_eq!((seen.passes.forward_tokens, seen.passes.backward_tokens), (4, 3));
///
/// let refused = observe_local(&model, &task, &choose_blocks("key@all", &config)?);
/// assert_eq!(refused, Err(Error::NoLocalForm { block: "key.0.0".to_owned() }));
/// # Ok::<(), Error>(())
/// ```
pub fn observe_local<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
) -> Result<Observation, Error> {
    let tape = Tape::local(model, task, blocks, Outputs::Predictions)?;
    let (tape, predictions) = tape.differentiated()?;
    let kernels = kernels(&tape, KernelForm::Cheapest);
    observation(task, blocks, predictions, kernels, &tape)
}

/// The kernels of the logits of all labels, by local adjoints: per block `[n · C, n · C]`, row by row,
/// for the prompts of all examples and of the query, each with its `C` labels.
///
/// The kernel of predictions, or of any other function of the logits, is a product with its
/// derivatives on both sides. All outputs of a prompt go back together, one row each.
///
/// # Errors
///
/// As [`observe_local`].
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, choose_blocks, label_kernels
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// let kernels = label_kernels(&model, &task, &choose_blocks("mlp-up@all", &config)?)?;
/// assert_eq!(kernels[0].len(), (3 * 2) * (3 * 2));
/// # Ok::<(), Error>(())
/// ```
pub fn label_kernels<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
) -> Result<Vec<Vec<f64>>, Error> {
    let (tape, _) = Tape::local(model, task, blocks, Outputs::Logits)?.differentiated()?;
    Ok(kernels(&tape, KernelForm::Cheapest))
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
    tape: &Tape<R>,
) -> Result<Observation, Error> {
    let n = task.examples();
    let mut geometry = Vec::with_capacity(blocks.len());
    for (block, whole) in blocks.iter().zip(kernels) {
        let rows: Vec<&[f64]> = whole.chunks_exact(n + 1).collect();
        let inner: Vec<f64> = rows[..n].iter().flat_map(|row| &row[..n]).copied().collect();
        let parameters = tape.factor_place(block).size();
        let block = Block::new(block.to_string(), Matrix::new(n, n, inner)?)?
            .in_layer(block.layer())
            .with_id(block.number())
            .with_query(rows[n][..n].to_vec(), rows[n][n])?
            .with_parameters(parameters);
        geometry.push(block);
    }
    let query_prediction = predictions.pop().expect("the query is the last sequence");
    let residuals = task.residuals(&predictions);
    let geometry =
        Geometry::new(residuals, geometry)?.with_answers(task.answers(&predictions)?)?;
    let (shown, passes) = (task.shown(), tape.passes());
    Ok(Observation { geometry, predictions, query_prediction, shown, passes })
}

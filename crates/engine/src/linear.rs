//! What an update would do if predictions were linear in the weights.
//!
//! In: the geometry of a task, or an update and a prompt. Out: [`LinearPath`], where steps would lead
//! without running the model, and [`LinearPrediction`], how one prediction changes along an update.

use crate::blocks::BlockId;
use crate::error::Error;
use crate::labels::Labels;
use crate::layout::Layout;
use crate::network::Network;
use crate::ops::dot;
use crate::passes::PassCount;
use crate::real::Real;
use crate::steps::{Steps, check_positive};
use crate::tape::{Tape, finite};
use crate::update::Update;
use fewstep_core::Block;

/// A prediction, and how an update would change it if predictions were linear in the weights.
///
/// # Examples
///
/// See [`predict_linear`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearPrediction {
    /// `s`, as the model is.
    pub prediction: f64,
    /// `∂s/∂θ · θ`: by how much the update changes it.
    pub change: f64,
    /// What it cost.
    pub passes: PassCount,
}

/// The prediction of one prompt, and how an update made before changes it in the linearised model.
///
/// The prompt may be that of any query: with the update of a
/// [filter](crate::Prepared::filter_update) the change is `k_xᵀ q(K) r`. It takes one forward and
/// one backward pass.
///
/// # Errors
///
/// Those of [`Tape::of_update`], [`Error::SizeMismatch`] unless there is one prompt, and
/// [`Error::NotFinite`] if a number is not.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Layout, Network, Parameters, Update, choose_blocks, predict_linear
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
/// let found = predict_linear(&model, Layout::plain(&[vec![0, 1, 2]])?, &labels, &update)?;
/// assert_eq!((found.prediction, found.change), (0.5, 0.0));
/// assert_eq!((found.passes.forward, found.passes.backward), (1, 1));
/// # Ok::<(), Error>(())
/// ```
pub fn predict_linear<R: Real>(
    model: &Network<R>,
    layout: Layout,
    labels: &Labels,
    update: &Update<R>,
) -> Result<LinearPrediction, Error> {
    // The model as it is, with the first factors that belong to the update.
    update.check(model.config())?;
    let blocks: Vec<BlockId> = update.blocks.iter().map(|(block, _)| *block).collect();
    let nothing = Update::with_firsts(model.config(), &blocks, &update.firsts);
    along(Tape::of_update(model, layout, labels, &nothing)?, update)
}

/// As [`predict_linear`] by local adjoints: of the derivative only the term of the position where the
/// prediction is read, which is what a local policy's linearised model is made of.
///
/// # Errors
///
/// As [`predict_linear`], and [`Error::NoLocalForm`] for key blocks.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Layout, Network, Parameters, Update, choose_blocks,
/// #     predict_linear_local
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// let update = Update::zeros(&model, &choose_blocks("mlp-up@all", &config)?)?;
/// let layout = Layout::plain(&[vec![0, 1, 2]])?;
/// let linear = predict_linear_local(&model, layout, &labels, &update)?;
/// assert_eq!((linear.prediction, linear.change), (0.5, 0.0));
/// # Ok::<(), Error>(())
/// ```
pub fn predict_linear_local<R: Real>(
    model: &Network<R>,
    layout: Layout,
    labels: &Labels,
    update: &Update<R>,
) -> Result<LinearPrediction, Error> {
    update.check(model.config())?;
    along(Tape::local_of_update(model, layout, labels, update)?, update)
}

/// The prediction of the only sequence, and how it changes along an update.
fn along<R: Real>(mut tape: Tape<R>, update: &Update<R>) -> Result<LinearPrediction, Error> {
    let prediction = finite(tape.predictions(), 0)?[0];
    tape.pull_back(&[R::ONE])?;
    let slopes = tape.gradient()?;
    let mut change = 0.0;
    for ((_, slopes), (_, theta)) in slopes.blocks.iter().zip(&update.blocks) {
        change += slopes.iter().zip(theta).map(|(a, b)| a.wide() * b.wide()).sum::<f64>();
    }
    if !change.is_finite() {
        return Err(Error::NotFinite { sequence: 0, steps: 1 });
    }
    Ok(LinearPrediction { prediction, change, passes: tape.passes() })
}

/// What steps would do if predictions were linear in the weights: from the geometry alone.
///
/// ```text
/// f ← f + ρK(r − f),   c ← c + ρ k_xᵀ(r − f)                                        (Sec. 4)
/// ```
///
/// Against [`Descent`](crate::Descent) it says how far the linearised model may be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearPath {
    /// `f`: the change of each prediction after `0, 1, …, T` steps.
    pub prompt_fits: Vec<Vec<f64>>,
    /// `c`: the change of the query's prediction.
    pub query_corrections: Vec<f64>,
}

impl LinearPath {
    /// Steps under the kernel of the chosen blocks. Variances of blocks belong into the kernel
    /// ([`Geometry::precondition`](fewstep_core::Geometry::precondition)) and are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a step size that is not over 0, [`Error::SizeMismatch`] unless
    /// there is one residual per example, [`Error::Core`] if the block knows no query.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Block, Filter, Spectrum};
    /// use fewstep_engine::{Error, LinearPath, Steps};
    ///
    /// // K = 4 and ρ = 1/8: every step closes half of what is left.
    /// let block = Block::new("head", [vec![4.0]].as_slice())?.with_query(vec![2.0], 1.0)?;
    /// let path = LinearPath::new(&block, &[1.0], &Steps::new(0.125, 2))?;
    /// assert_eq!(path.prompt_fits, [[0.0], [0.5], [0.75]]);
    /// assert_eq!(path.query_corrections, [0.0, 0.25, 0.375]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(block: &Block, residuals: &[f64], settings: &Steps) -> Result<Self, Error> {
        check_positive("step size", settings.step_size)?;
        let (found, expected) = (residuals.len(), block.examples());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "residuals", found, expected });
        }
        let query = block
            .query()
            .ok_or(fewstep_core::Error::NoQuery { quantity: "the path of linear steps" })?;
        let mut path =
            Self { prompt_fits: vec![vec![0.0; found]], query_corrections: vec![0.0] };
        let (mut fit, mut correction) = (vec![0.0; found], 0.0);
        for _ in 0..settings.horizon {
            let pull: Vec<f64> =
                residuals.iter().zip(&fit).map(|(r, f)| settings.step_size * (r - f)).collect();
            correction += dot(&query.coupling, &pull);
            for (fit, change) in fit.iter_mut().zip(block.kernel().multiply(&pull)?) {
                *fit += change;
            }
            path.prompt_fits.push(fit.clone());
            path.query_corrections.push(correction);
        }
        Ok(path)
    }
}

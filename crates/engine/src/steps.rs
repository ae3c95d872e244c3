//! Acting: gradient steps on the examples of a task, or one update that stands for many.
//!
//! In: a [`Network`], a [`TokenTask`], the chosen blocks and how far to go. Out: predictions after
//! every step and the [`Update`]. The model is not written to, so there is nothing to restore.

use crate::blocks::BlockId;
use crate::error::Error;
use crate::network::Network;
use crate::ops::dot;
use crate::passes::PassCount;
use crate::real::Real;
use crate::tape::{Outputs, Sequences, Tape, finite, write_gradient};
use crate::token_task::TokenTask;
use crate::update::Update;
use fewstep_core::{Filter, Spectrum};

/// How far to go.
///
/// | name | meaning | range |
/// |---|---|---|
/// | `step_size` | `ρ` | over 0 |
/// | `horizon` | `T`, the number of steps | from 0 |
/// | `variances` | what each block's gradient is multiplied with, or 1 | over 0, one per block |
/// | `follow` | what is predicted on the way | |
///
/// # Examples
///
/// ```
/// use fewstep_engine::Steps;
///
/// assert_eq!(Steps::new(0.01, 8).variances, None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// `ρ`: the step size.
    pub step_size: f64,
    /// `T`: the number of steps.
    pub horizon: usize,
    /// What each block's gradient is multiplied with.
    pub variances: Option<Vec<f64>>,
    /// What is predicted on the way.
    pub follow: Follow,
}

/// What is predicted on the way of some steps; the less, the quicker.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Follow, Steps};
///
/// assert_eq!(Steps::new(0.01, 8).follow, Follow::Everything);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// The query and the leave-one-out prompts, after every step.
    #[default]
    Everything,
    /// The same, with the query by itself until the last step: the steps are then those of
    /// [`Follow::Prompts`] to the bit. Sums over more rows may be taken in another order.
    QueryApart,
    /// The prompts after every step, and the query before the first and after the last.
    Prompts,
    /// What steps need: the prompts before every step; and the query before the first and after
    /// the last.
    Query,
}

impl Follow {
    /// Whether the query is predicted after every step.
    pub(crate) fn has_query(self) -> bool {
        matches!(self, Self::Everything | Self::QueryApart)
    }
}

impl Steps {
    /// Steps without a preconditioner.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Steps::new(0.01, 8).horizon, 8);
    /// ```
    #[must_use]
    pub fn new(step_size: f64, horizon: usize) -> Self {
        Self { step_size, horizon, variances: None, follow: Follow::Everything }
    }

    /// What the gradient of each block is multiplied with.
    pub(crate) fn scales(&self, blocks: &[BlockId]) -> Result<Vec<f64>, Error> {
        check_positive("step size", self.step_size)?;
        let variances = checked_variances(self.variances.as_deref(), blocks)?;
        Ok(variances.iter().map(|variance| variance * self.step_size).collect())
    }
}

/// What steps did, after `0, 1, …, T` of them, as far as that was [followed](Follow).
///
/// # Examples
///
/// See [`descend`].
#[derive(Clone, Debug, PartialEq)]
pub struct Descent<R = f32> {
    /// Predictions of the leave-one-out prompts.
    pub predictions: Vec<Vec<f64>>,
    /// Predictions for the query; if it was not followed, the first and, after any step, the last.
    pub query_predictions: Vec<f64>,
    /// `½ Σ_i (y_i − s_i)²`.
    pub losses: Vec<f64>,
    /// By how much each step would lower the loss if the loss were linear in the weights:
    /// `ρ Σ_b v_b ‖∇_b‖²`, one entry per step. Against the actual decrease it says how far the
    /// linearised model may be trusted.
    pub expected_decreases: Vec<f64>,
    /// `θ` after the last step.
    pub update: Update<R>,
    /// What it cost.
    pub passes: PassCount,
}

/// Takes full-batch gradient steps on `½ Σ_i (y_i − s_i)²` for the chosen blocks, from `θ = 0`.
///
/// ```text
/// θ_b ← θ_b + ρ v_b Σ_i (y_i − s_i) ∂s_i/∂θ_b
/// ```
///
/// Prompts share what they begin with, in both directions. With `T = 0` the predictions are those
/// of the model, bit for bit.
///
/// # Errors
///
/// [`Error::OutOfRange`] or [`Error::SizeMismatch`] for settings outside their range, those of
/// [`Tape::new`] and [`TokenTask::layout`], and [`Error::NotFinite`] if the steps diverge.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, Steps, choose_blocks, descend
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// // Without weights no prediction changes: both answers are off by a half, ½(¼ + ¼) after every step.
/// let blocks = choose_blocks("value@all", &config)?;
/// let descent = descend(&model, &task, &blocks, &Steps::new(0.1, 2))?;
/// assert_eq!(descent.query_predictions, [0.5, 0.5, 0.5]);
/// assert_eq!(descent.losses, [0.25, 0.25, 0.25]);
/// assert_eq!((descent.passes.forward, descent.passes.backward), (3 * 3, 2 * 2));
/// # Ok::<(), Error>(())
/// ```
pub fn descend<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
    settings: &Steps,
) -> Result<Descent<R>, Error> {
    let scales = settings.scales(blocks)?;
    steps_on(Tape::of_task(model, task, blocks)?, task, &scales, settings, |_, _| Ok(()))
}

/// As [`descend`] with local adjoints: each step follows the term of the position where a prediction is
/// read, and the model with the update in it is run on all tokens after each.
///
/// # Errors
///
/// As [`descend`], and [`Error::NoLocalForm`] for key blocks.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, Steps, TokenTask, choose_blocks,
/// #     descend_local
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// let blocks = choose_blocks("mlp-up@all", &config)?;
/// let descent = descend_local(&model, &task, &blocks, &Steps::new(0.1, 2))?;
/// assert_eq!(descent.query_predictions, [0.5; 3]); // without weights nothing changes
/// # Ok::<(), Error>(())
/// ```
pub fn descend_local<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
    settings: &Steps,
) -> Result<Descent<R>, Error> {
    let scales = settings.scales(blocks)?;
    let tape = Tape::local(model, task, blocks, Outputs::Predictions)?;
    steps_on(tape, task, &scales, settings, |_, _| Ok(()))
}

/// As [`descend`], on a tape that was run for the blocks; their gradients are multiplied with
/// `scales`, and `visit` sees the update after `0, 1, …, T` steps.
pub(crate) fn steps_on<R: Real>(
    tape: Tape<R>,
    task: &TokenTask,
    scales: &[f64],
    &Steps { horizon, follow, .. }: &Steps,
    mut visit: impl FnMut(usize, &Update<R>) -> Result<(), Error>,
) -> Result<Descent<R>, Error> {
    let mut tape = tape.of_examples();
    let mut descent = Descent {
        predictions: Vec::with_capacity(horizon + 1),
        query_predictions: Vec::with_capacity(horizon + 1),
        losses: Vec::with_capacity(horizon + 1),
        expected_decreases: Vec::with_capacity(horizon),
        update: tape.zero_update(),
        passes: PassCount::default(),
    };
    let mut scratch = Vec::new();
    let mut residuals = descent.record(task, tape.predictions(), 0)?;
    visit(0, &descent.update)?;
    for step_index in 0..horizon {
        tape.pull_back(&seeds(&residuals))?;
        let decrease = add_gradient(&tape, scales, &mut descent.update, &mut scratch);
        descent.expected_decreases.push(decrease);
        let steps = step_index + 1;
        match follow {
            Follow::Query if steps == horizon => {
                let query = query_alone(&mut tape, task, &descent.update, steps)?;
                descent.query_predictions.push(query);
            }
            Follow::QueryApart | Follow::Prompts | Follow::Query if steps < horizon => {
                let predictions = tape.run_for(Sequences::Examples, &descent.update)?;
                residuals = descent.record(task, &predictions[..task.examples()], steps)?;
                if follow == Follow::QueryApart {
                    let query = query_alone(&mut tape, task, &descent.update, steps)?;
                    descent.query_predictions.push(query);
                }
            }
            _ => residuals = descent.record(task, tape.run(&descent.update)?, steps)?,
        }
        visit(steps, &descent.update)?;
    }
    descent.passes = tape.passes();
    Ok(descent)
}

impl<R: Real> Descent<R> {
    /// Appends predictions, that of the query if it is there too, and loss; returns the residuals.
    fn record(
        &mut self,
        task: &TokenTask,
        predictions: &[R],
        steps: usize,
    ) -> Result<Vec<f64>, Error> {
        let mut predictions = finite(predictions, steps)?;
        self.query_predictions.extend(predictions.drain(task.examples()..));
        let residuals = task.residuals(&predictions);
        self.losses.push(0.5 * dot(&residuals, &residuals));
        self.predictions.push(predictions);
        Ok(residuals)
    }
}

/// The prediction for the query after some steps; the tape stays as it is.
fn query_alone<R: Real>(
    tape: &mut Tape<R>,
    task: &TokenTask,
    update: &Update<R>,
    steps: usize,
) -> Result<f64, Error> {
    let prediction = tape.run_last_alone(task.labels(), update)?.wide();
    if prediction.is_finite() {
        Ok(prediction)
    } else {
        Err(Error::NotFinite { sequence: task.examples(), steps })
    }
}

/// One weight per example, and none for the query.
fn seeds<R: Real>(weights: &[f64]) -> Vec<R> {
    weights.iter().map(|&weight| R::of(weight)).chain([R::ZERO]).collect()
}

/// `θ_b += scale_b ∇_b`; returns `Σ_b scale_b ‖∇_b‖²`.
fn add_gradient<R: Real>(
    tape: &Tape<R>,
    scales: &[f64],
    update: &mut Update<R>,
    scratch: &mut Vec<R>,
) -> f64 {
    let mut decrease = 0.0;
    tape.for_each_factor(|index, inputs, outputs| {
        let target = &mut update.blocks[index].1;
        scratch.resize(target.len(), R::ZERO);
        write_gradient(inputs, outputs, scratch);
        decrease += scales[index] * dot(scratch, scratch).wide();
        let scale = R::of(scales[index]);
        for (target, &slope) in target.iter_mut().zip(&*scratch) {
            *target += scale * slope;
        }
    });
    decrease
}

/// Takes gradient steps and applies the average of where they led: `θ̄ = Σ_t w_t θ_t`, from numbers
/// of steps, ascending, with their weights. Gives the predictions for the query on the way, too: if
/// it is followed, after `0, 1, …` steps, and else the first. Following changes nothing else.
pub(crate) fn average_on<R: Real>(
    tape: Tape<R>,
    task: &TokenTask,
    scales: &[f64],
    weights: &[(usize, f64)],
    follow: Follow,
) -> Result<(Applied<R>, Vec<f64>), Error> {
    let mut tape = tape.of_examples();
    let base = Predictions::of(finite(tape.predictions(), 0)?);
    let mut residuals = task.residuals(&base.examples);
    let (mut update, mut average) = (tape.zero_update(), tape.zero_update());
    let (mut scratch, mut taken, mut path) = (Vec::new(), 0, vec![base.query]);
    for &(horizon, weight) in weights {
        while taken < horizon {
            if taken > 0 {
                let predictions = tape.run_for(Sequences::Examples, &update)?;
                residuals = task.residuals(&finite(&predictions[..task.examples()], taken)?);
            }
            tape.pull_back(&seeds(&residuals))?;
            add_gradient(&tape, scales, &mut update, &mut scratch);
            taken += 1;
            if follow.has_query() {
                path.push(query_alone(&mut tape, task, &update, taken)?);
            }
        }
        average.add_scaled(R::of(weight), &update);
    }
    Ok((applied(tape, base, average, taken)?, path))
}

/// What an update does after some steps, beside what was predicted before it.
fn applied<R: Real>(
    mut tape: Tape<R>,
    base: Predictions,
    update: Update<R>,
    steps: usize,
) -> Result<Applied<R>, Error> {
    let updated = Predictions::of(finite(tape.run(&update)?, steps)?);
    let passes = tape.passes();
    Ok(Applied {
        predictions: updated.examples,
        query_prediction: updated.query,
        base_predictions: base.examples,
        base_query_prediction: base.query,
        update,
        passes,
    })
}

/// What one update did.
///
/// # Examples
///
/// See [`apply_weights`].
#[derive(Clone, Debug, PartialEq)]
pub struct Applied<R = f32> {
    /// Predictions of the leave-one-out prompts.
    pub predictions: Vec<f64>,
    /// Prediction for the query.
    pub query_prediction: f64,
    /// Predictions of the leave-one-out prompts before it.
    pub base_predictions: Vec<f64>,
    /// Prediction for the query before it.
    pub base_query_prediction: f64,
    /// `θ`.
    pub update: Update<R>,
    /// What it cost.
    pub passes: PassCount,
}

/// Applies `θ_b = v_b Σ_i w_i ∂s_i/∂θ_b`, one update that stands for a whole filter.
///
/// Any filter's update lies in the span of the examples' derivatives; its weights are
/// [`Filter::example_weights`](fewstep_core::Filter::example_weights). One backward pass.
///
/// # Errors
///
/// As [`descend`]; [`Error::SizeMismatch`] unless there is one weight per example.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, apply_weights, choose_blocks
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// # let blocks = choose_blocks("value@all", &config)?;
/// let applied = apply_weights(&model, &task, &blocks, &[0.1, -0.2], None)?;
/// assert_eq!(applied.query_prediction, applied.base_query_prediction); // without weights
/// let refused = apply_weights(&model, &task, &blocks, &[0.1], None);
/// let quantity = "example weights";
/// assert_eq!(refused, Err(Error::SizeMismatch { quantity, found: 1, expected: 2 }));
/// # Ok::<(), Error>(())
/// ```
pub fn apply_weights<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
    weights: &[f64],
    variances: Option<&[f64]>,
) -> Result<Applied<R>, Error> {
    let (found, expected) = (weights.len(), task.examples());
    if found != expected {
        return Err(Error::SizeMismatch { quantity: "example weights", found, expected });
    }
    if let Some(&found) = weights.iter().find(|weight| !weight.is_finite()) {
        return Err(Error::OutOfRange { quantity: "example weight", found, allowed: "finite" });
    }
    let scales = checked_variances(variances, blocks)?;
    apply(Tape::of_task(model, task, blocks)?, task, &scales, |_| Ok(weights.to_vec()))
}

/// Applies a filter to a task's residuals as one update, `θ = Φᵀ q(K) r`.
///
/// `spectrum` is that of the blocks' kernel. This is how averages over horizons and the Bayes
/// filter are carried out: no number of steps gives them.
///
/// # Errors
///
/// As [`descend`]; [`Error::Core`] unless the spectrum is one of this task.
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, apply_filter, choose_blocks
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// # let blocks = choose_blocks("value@all", &config)?;
/// # use fewstep_core::{GradientDescent, Spectrum, StepSize};
/// let spectrum = Spectrum::of(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
/// let filter = GradientDescent { step: StepSize::new(0.1, &spectrum)?, horizon: 8 };
/// let applied = apply_filter(&model, &task, &blocks, &filter, &spectrum)?;
/// assert_eq!((applied.passes.forward, applied.passes.backward), (2 * 3, 2));
/// # Ok::<(), Error>(())
/// ```
pub fn apply_filter<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    blocks: &[BlockId],
    filter: &dyn Filter,
    spectrum: &Spectrum,
) -> Result<Applied<R>, Error> {
    filter_on(Tape::of_task(model, task, blocks)?, task, filter, spectrum)
}

/// As [`apply_filter`], on a tape that was run for the blocks.
pub(crate) fn filter_on<R: Real>(
    tape: Tape<R>,
    task: &TokenTask,
    filter: &dyn Filter,
    spectrum: &Spectrum,
) -> Result<Applied<R>, Error> {
    let scales = vec![1.0; tape.blocks().len()];
    apply(tape, task, &scales, |residuals| Ok(filter.example_weights(spectrum, residuals)?))
}

/// The update of [`filter_on`], which is not applied.
pub(crate) fn update_on<R: Real>(
    tape: Tape<R>,
    task: &TokenTask,
    filter: &dyn Filter,
    spectrum: &Spectrum,
) -> Result<Update<R>, Error> {
    let scales = vec![1.0; tape.blocks().len()];
    let weigh = |residuals: &[f64]| Ok(filter.example_weights(spectrum, residuals)?);
    Ok(weighed(&mut tape.of_examples(), task, &scales, weigh)?.1)
}

/// One update from weights that may depend on the residuals.
fn apply<R: Real>(
    tape: Tape<R>,
    task: &TokenTask,
    scales: &[f64],
    weigh: impl FnOnce(&[f64]) -> Result<Vec<f64>, Error>,
) -> Result<Applied<R>, Error> {
    let mut tape = tape.of_examples();
    let (base, update) = weighed(&mut tape, task, scales, weigh)?;
    applied(tape, base, update, 1)
}

/// What a tape predicts before an update, and the update, which is not applied.
fn weighed<R: Real>(
    tape: &mut Tape<R>,
    task: &TokenTask,
    scales: &[f64],
    weigh: impl FnOnce(&[f64]) -> Result<Vec<f64>, Error>,
) -> Result<(Predictions, Update<R>), Error> {
    let base = Predictions::of(finite(tape.predictions(), 0)?);
    let weights = weigh(&task.residuals(&base.examples))?;
    tape.pull_back(&seeds(&weights))?;
    let mut update = tape.zero_update();
    add_gradient(tape, scales, &mut update, &mut Vec::new());
    Ok((base, update))
}

/// The predictions of the leave-one-out prompts, and that for the query.
struct Predictions {
    examples: Vec<f64>,
    query: f64,
}

impl Predictions {
    /// From those of all sequences of a task, of which the query is the last.
    fn of(mut all: Vec<f64>) -> Self {
        let query = all.pop().expect("the query is the last sequence");
        Self { examples: all, query }
    }
}

/// Predictions of a task under an update made before.
///
/// # Errors
///
/// As [`descend`].
///
/// # Examples
///
/// ```
/// # use fewstep_engine::{
/// #     Config, Error, Labels, Network, Parameters, TokenTask, Update, choose_blocks,
/// #     predict_updated
/// # };
/// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
/// #                 "n_ctx": 3, "vocab_size": 5}"#;
/// # let config = Config::from_json(json)?;
/// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
/// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// # let prompts = vec![vec![0, 1], vec![0, 2]];
/// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
/// # let blocks = choose_blocks("value@all", &config)?;
/// let update = Update::zeros(&model, &blocks)?;
/// assert_eq!(predict_updated(&model, &task, &update)?, [0.5, 0.5, 0.5]);
/// # Ok::<(), Error>(())
/// ```
pub fn predict_updated<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    update: &Update<R>,
) -> Result<Vec<f64>, Error> {
    let tape = Tape::of_update(model, task.layout()?, task.labels(), update)?;
    finite(tape.predictions(), 1)
}

fn checked_variances(variances: Option<&[f64]>, blocks: &[BlockId]) -> Result<Vec<f64>, Error> {
    let Some(variances) = variances else { return Ok(vec![1.0; blocks.len()]) };
    let (found, expected) = (variances.len(), blocks.len());
    if found != expected {
        return Err(Error::SizeMismatch { quantity: "block variances", found, expected });
    }
    for &variance in variances {
        check_positive("block variance", variance)?;
    }
    Ok(variances.to_vec())
}

pub(crate) fn check_positive(quantity: &'static str, found: f64) -> Result<(), Error> {
    if found > 0.0 && found.is_finite() {
        Ok(())
    } else {
        Err(Error::OutOfRange { quantity, found, allowed: "finite and over 0" })
    }
}

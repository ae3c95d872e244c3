//! The gradient of the mean loss of a batch for every parameter, on several threads.
//!
//! A batch is always cut into the same shards, and their gradients are added in the same order.
//! So the number of threads changes how long it takes and not one bit of the result.

use crate::attention::{AttentionPlan, HeadCounts};
use crate::config::Config;
use crate::error::Error;
use crate::layout::Layout;
use crate::ops::add;
use crate::parameters::Parameters;
use crate::pretrain::adamw::norm;
use crate::pretrain::batch::Batch;
use crate::pretrain::buffers::Buffers;
use crate::pretrain::chunk::{Chunk, Pass};
use crate::pretrain::places::{Places, check_trainable};
use crate::real::Real;
use std::ops::Range;

/// Number of parts that a batch is cut into, and so of threads that can be of use.
pub(crate) const SHARDS: usize = 4;

/// Sequences are passed together until they have this many tokens: enough for long products, few
/// enough that what they leave behind stays near the processor.
const CHUNK_TOKENS: usize = 512;

/// A part of every batch.
#[derive(Debug, Default)]
struct Shard<R> {
    gradient: Vec<R>,
    loss: f64,
    buffers: Buffers<R>,
}

impl<R: Real> Shard<R> {
    /// The summed loss of its sequences and `weight` times its gradient.
    fn run(&mut self, pass: Pass<'_, R>, batch: &Batch, shard: usize, weight: f64) {
        self.gradient.clear();
        self.gradient.resize(pass.weights.len(), R::ZERO);
        self.loss = 0.0;
        let count = batch.sequences().len();
        let mut rest = count * shard / SHARDS..count * (shard + 1) / SHARDS;
        while !rest.is_empty() {
            let chunk = chunk(batch, &mut rest, pass.config);
            self.loss += pass.run(&chunk, weight, &mut self.buffers, &mut self.gradient);
        }
    }
}

/// Takes sequences from the front of `rest`.
fn chunk(batch: &Batch, rest: &mut Range<usize>, config: &Config) -> Chunk {
    let first = rest.start;
    let (mut rows, mut tokens, mut length) = (Vec::new(), Vec::new(), 0);
    while length < CHUNK_TOKENS && rest.start < rest.end {
        for &(position, token) in &batch.targets()[rest.start] {
            rows.push(length + position);
            tokens.push(token);
        }
        length += batch.sequences()[rest.start].len();
        rest.start += 1;
    }
    let layout = Layout::plain(&batch.sequences()[first..rest.start])
        .expect("a batch has no empty sequence");
    let plan = AttentionPlan::everywhere(&layout, HeadCounts::of(config));
    Chunk { layout, plan, rows, tokens }
}

/// What computes gradients, with its memory.
#[derive(Debug)]
pub(crate) struct Machine<R> {
    pub(crate) places: Places,
    shards: Vec<Shard<R>>,
}

impl<R: Real> Machine<R> {
    /// For a model whose sizes have been checked.
    pub(crate) fn new(config: &Config) -> Self {
        let shards = std::iter::repeat_with(|| Shard {
            gradient: Vec::new(),
            loss: 0.0,
            buffers: Buffers::default(),
        });
        Self { places: Places::new(config), shards: shards.take(SHARDS).collect() }
    }

    /// Computes the mean loss of a checked batch and, for [`Machine::gradient`], its gradient.
    pub(crate) fn run(
        &mut self,
        config: &Config,
        weights: &[R],
        batch: &Batch,
        threads: usize,
    ) -> f64 {
        let pass = Pass { config, places: &self.places, weights };
        let weight = 1.0 / batch.target_count() as f64;
        let share = SHARDS.div_ceil(threads.clamp(1, SHARDS));
        std::thread::scope(|scope| {
            for (thread, shards) in self.shards.chunks_mut(share).enumerate() {
                scope.spawn(move || {
                    for (index, shard) in shards.iter_mut().enumerate() {
                        shard.run(pass, batch, thread * share + index, weight);
                    }
                });
            }
        });
        let (first, others) = self.shards.split_first_mut().expect("there are shards");
        for other in &*others {
            first.loss += other.loss;
            add(&mut first.gradient, &other.gradient);
        }
        first.loss * weight
    }

    /// The gradient of the last run.
    pub(crate) fn gradient(&self) -> &[R] {
        &self.shards[0].gradient
    }
}

/// The mean cross-entropy of a batch and its derivative for every parameter of a model.
///
/// ```text
/// loss = mean over targets of −log softmax(logits at the position)_token
/// ```
///
/// # Examples
///
/// Without weights every token is equally likely, and the final norm's shift alone can change it.
///
/// ```
/// use fewstep_engine::{Batch, Config, Error, Gradients, Parameters};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_ctx": 3,
///          "vocab_size": 5}"#,
/// )?;
/// let batch = Batch::next_token(vec![vec![0, 1, 2]])?;
/// let gradients: Gradients<f64> =
///     Gradients::of(&config, &Parameters::zeros(&config)?, &batch, 1)?;
/// assert!((gradients.loss() - 5.0_f64.ln()).abs() < 1e-15);
/// assert_eq!(gradients.tensor("transformer.ln_f.bias"), Some(&[0.0, 0.0][..]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gradients<R = f32> {
    loss: f64,
    places: Places,
    values: Vec<R>,
}

impl<R: Real> Gradients<R> {
    /// The loss of a batch and its gradient, on up to `threads` threads.
    ///
    /// The number of threads does not change the result.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`]; [`Error::CannotTrain`] for a model of another family than
    /// GPT-2; [`Error::SizeMismatch`] for parameters of another model;
    /// [`Error::SequenceTooLong`] or [`Error::TokenOutOfRange`] for a batch that the model cannot
    /// take.
    pub fn of(
        config: &Config,
        parameters: &Parameters,
        batch: &Batch,
        threads: usize,
    ) -> Result<Self, Error> {
        check_trainable(config)?;
        batch.check(config)?;
        let mut machine = Machine::new(config);
        let weights = machine.places.flatten(parameters, config)?;
        let loss = machine.run(config, &weights, batch, threads);
        let values = machine.gradient().to_vec();
        Ok(Self { loss, places: machine.places, values })
    }

    /// The mean cross-entropy over all targets, in nats.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// The names of all tensors, as in a checkpoint.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.tensors.iter().map(|tensor| tensor.name.as_str())
    }

    /// The derivative for one tensor, row by row.
    ///
    /// That of a token embedding contains its use as output embedding if the two are tied.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&[R]> {
        let tensor = self.places.tensors.iter().find(|tensor| tensor.name == name)?;
        Some(&self.values[tensor.range.clone()])
    }

    /// The Euclidean norm of all derivatives together.
    #[must_use]
    pub fn norm(&self) -> f64 {
        norm(&self.values)
    }
}

#[cfg(test)]
mod tests;

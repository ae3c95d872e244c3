//! All that may be asked of a model beside its tasks, and the predictor that it asks for.
//!
//! In: what a caller asks for, on the command line or in a request, under the same names. Out: a
//! [`Predictor`], which shares the model's weights with other predictors.

use crate::error::Error;
use crate::predictor::{Action, Predictor};
use fewstep_core::{Field, Overrides, Policy};
use fewstep_engine::{Bos, FirstFactor, Lora, Model, Order, PromptSettings};

/// How a model is to read tasks and to decide on them: the flags of the command line under the
/// same names.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Options, Overrides};
///
/// let overrides = Overrides { blocks: Some("value@last1".to_owned()), ..Overrides::default() };
/// let options = Options { overrides, full: true, ..Options::default() };
/// let predictor = options.predictor(fewstep::builtin()?, Action::Decide)?;
/// assert_eq!(predictor.blocks().len(), predictor.model().config().heads);
/// assert_eq!(predictor.policy().step_scale, 0.6);
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The policy to start from.
    pub policy: Policy,
    /// What is changed of it.
    pub overrides: Overrides,
    /// Rank of the updates of `lora-value` and `lora-query` blocks.
    pub lora_rank: Option<usize>,
    /// Where their fixed first factor comes from.
    pub lora_first: Option<FirstFactor>,
    /// Whether a token is put before every prompt.
    pub bos: Bos,
    /// The number of tokens to which an `x` is truncated.
    pub max_tokens_per_example: Option<usize>,
    /// How a leave-one-out prompt orders its examples.
    pub loo_order: Order,
    /// Whether reports hold matrices.
    pub full: bool,
}

impl Options {
    /// The model with these settings.
    ///
    /// # Errors
    ///
    /// Those of [`Overrides::of`], [`Model::with_lora`] and [`Predictor::new`], and
    /// [`Error::NoLowRankBlocks`] if low-rank updates are described and none is a candidate.
    pub fn predictor(&self, model: Model, action: Action) -> Result<Predictor, Error> {
        let policy = self.overrides.of(&self.policy)?;
        let lora = self.lora(model.network().lora());
        let mut prompts = PromptSettings::new(model.config().positions);
        prompts.bos = self.bos;
        prompts.order = self.loo_order;
        prompts.max_tokens_per_example = self.max_tokens_per_example;
        let model = model.with_prompts(prompts).with_lora(lora)?;
        let predictor = Predictor::new(model, policy, action)?;
        let rank = self.lora_rank.map(|_| Field::LORA_RANK);
        if let Some(field) = rank.or(self.lora_first.map(|_| Field::LORA_FIRST))
            && !predictor.blocks().iter().any(|block| block.kind().is_lora())
        {
            return Err(Error::NoLowRankBlocks { field });
        }
        let predictor = predictor.with_overrides(&self.overrides);
        Ok(predictor.with_matrices(self.full))
    }

    /// The low-rank updates that are asked for, of a model that has others.
    pub(crate) fn lora(&self, own: &Lora) -> Lora {
        Lora {
            rank: self.lora_rank.unwrap_or(own.rank),
            first: self.lora_first.unwrap_or(own.first),
            seed: self.overrides.seed.unwrap_or_default(),
        }
    }
}

//! All that may be asked of a model beside its tasks, and the session that it asks for.
//!
//! In: what a caller says, on the command line or in a request, under the same names. Out: a
//! [`Session`]. The model's weights are shared with whoever holds it.

use crate::error::Error;
use crate::session::{Action, Session};
use crate::way::Asked;
use fewstep_engine::{Bos, FirstFactor, Lora, Model, Order, PromptSettings};

/// How a model is to read tasks and to decide on them: the flags of the command line under the
/// same names, each as it is unless somebody says otherwise.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Asked, Options};
///
/// let model = fewstep::builtin()?;
/// let asked = Asked { blocks: Some("value@last1".to_owned()), ..Asked::default() };
/// let options = Options { asked, full: true, ..Options::default() };
/// let session = options.session(model, Action::Decide)?;
/// assert_eq!(session.blocks().len(), session.model().config().heads);
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What is said about the decision.
    pub asked: Asked,
    /// Rank of the updates of `lora-value` and `lora-query` blocks.
    pub lora_rank: Option<usize>,
    /// Where their fixed first factor comes from.
    pub lora_first: Option<FirstFactor>,
    /// Whether a token is put before every prompt.
    pub bos: Bos,
    /// How many tokens an `x` may have; the rest is cut off.
    pub max_tokens_per_example: Option<usize>,
    /// How a prompt that leaves one example out orders the others.
    pub loo_order: Order,
    /// Whether reports hold matrices.
    pub full: bool,
}

impl Options {
    /// The model with these settings.
    ///
    /// # Errors
    ///
    /// Those of [`Model::with_lora`] and [`Session::with_way`], and [`Error::NoLowRankBlocks`] if
    /// low-rank updates are described and none is a candidate.
    pub fn session(&self, model: Model, action: Action) -> Result<Session, Error> {
        let lora = self.lora(model.network().lora());
        let mut prompts = PromptSettings::new(model.config().positions);
        prompts.bos = self.bos;
        prompts.order = self.loo_order;
        prompts.max_tokens_per_example = self.max_tokens_per_example;
        let model = model.with_prompts(prompts).with_lora(lora)?;
        let way = self.asked.way(model.config());
        let session = Session::new(model, action)?.with_way(way)?;
        let rank = self.lora_rank.map(|_| "--lora-rank");
        if let Some(flag) = rank.or(self.lora_first.map(|_| "--lora-first"))
            && !session.blocks().iter().any(|block| block.kind().is_lora())
        {
            return Err(Error::NoLowRankBlocks { flag });
        }
        Ok(session.with_matrices(self.full))
    }

    /// The low-rank updates that are asked for, of a model that has others.
    pub(crate) fn lora(&self, own: &Lora) -> Lora {
        Lora {
            rank: self.lora_rank.unwrap_or(own.rank),
            first: self.lora_first.unwrap_or(own.first),
            seed: self.asked.seed,
        }
    }
}

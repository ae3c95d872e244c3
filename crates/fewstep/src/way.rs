//! What is asked of every prompt: candidate blocks, and the rules that choose among them.
//!
//! In: the shape of a model. Out: a [`Way`], the usual one or the paper's. Blocks and rules belong
//! together: a step size that suits one matrix overshoots in fifty heads.

use fewstep_core::{HorizonRule, Rules, Selection};
use fewstep_engine::Config;

/// The step size of the usual way, as a fraction of the largest stable one: thirty such steps go as
/// far as ninety of the paper's.
const LARGE_STEP: f64 = 0.3;

/// How many of the last layers the paper looks at.
const PAPER_LAYERS: usize = 4;

/// Candidate blocks, and what is chosen of them.
///
/// # Examples
///
/// ```
/// use fewstep::Way;
///
/// let model = fewstep::builtin()?;
/// assert_eq!(Way::usual(model.config()).blocks, "mlp-up@last3");
/// assert_eq!(Way::paper(model.config()).blocks, "value@last4");
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Candidate blocks, as [`choose_blocks`](fewstep_engine::choose_blocks) reads them.
    pub blocks: String,
    /// What is chosen of them, and how far it is moved.
    pub rules: Rules,
}

impl Way {
    /// What is done unless something else is asked for: of the first MLP matrices of the upper half
    /// of the layers, the one that predicts left-out examples best; averaged over up to thirty
    /// steps by the same errors, and left alone unless they speak clearly for moving it.
    ///
    /// It was found on development tasks and judged on others, as `fewstep reproduce rules` does.
    #[must_use]
    pub fn usual(config: &Config) -> Self {
        let blocks = format!("mlp-up@last{}", config.layers.div_ceil(2));
        Self { blocks, rules: usual_rules() }
    }

    /// The paper's: all value heads of the last four layers, steps by evidence (App. I).
    #[must_use]
    pub fn paper(config: &Config) -> Self {
        let blocks = format!("value@last{}", config.layers.min(PAPER_LAYERS));
        Self { blocks, rules: Rules::default() }
    }
}

/// The rules of the usual way, which are the same for every model.
pub(crate) fn usual_rules() -> Rules {
    Rules {
        horizon: HorizonRule::LeaveOneOutAverage,
        selection: Selection::LeaveOneOut,
        budget: Some(1),
        step_scale: LARGE_STEP,
        ..Rules::default()
    }
}

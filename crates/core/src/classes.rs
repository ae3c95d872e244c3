//! Classification: calibration, probing and adaptation as one decision with different blocks.
//!
//! In: a [`ClassGeometry`] and a [`Policy`](crate::Policy). Out: a [`ClassDecision`], which answers
//! queries. A task has `C` labels and no numbers; the outputs are the `C` label scores of every
//! prediction, the loss is cross-entropy, and everything happens in prompt space with `n·C` outputs.
//! Nothing here touches a model or parses the names of blocks.

mod answer;
mod arms;
mod decide;
mod decision;
mod descent;
mod evidence;
mod folds;
mod geometry;
mod kernel;
mod loss;
mod operator;
mod pool;
mod query;
mod sets;
mod step;

pub use decide::decide_classes;
pub use decision::{
    ArmBlocks, ArmDecision, ArmPath, ClassDecision, ClassPrediction, ClassWhen, LeftOut,
    ZeroShotAlone,
};
pub use geometry::{ClassBase, ClassGeometry};
pub use kernel::{ClassBlock, ClassKernel};
pub use query::{ClassCoupling, ClassQuery, QueryBase};

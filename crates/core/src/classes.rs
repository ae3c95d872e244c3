//! Classification: calibration, probing and adaptation as one decision with different blocks.
//!
//! In: a [`ClassGeometry`] and a [`Policy`](crate::Policy). Out: a [`ClassDecision`], which answers
//! queries. A task has `C` labels and no numbers; the outputs are the `C` label scores of every
//! prediction, the loss is cross-entropy, and everything happens in prompt space with `n·C` outputs.
//! Nothing here touches a model or parses the names of blocks.

mod decision;
mod geometry;
mod kernel;
mod query;

pub use decision::{
    ArmBlocks, ArmDecision, ArmPath, ClassDecision, ClassPrediction, ClassWhen, LeftOut,
};
pub use geometry::{Base, ClassBase, ClassGeometry};
pub use kernel::{ClassBlock, ClassKernel};
pub use query::{ClassCoupling, ClassQuery, QueryBase};

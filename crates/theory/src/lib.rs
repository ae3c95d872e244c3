//! What *A Decision-Theoretic View of Test-Time Training* proves beyond what a decision needs.
//!
//! This crate decides nothing, and `fewstep_core` calls nothing of it: it explains, bounds and
//! checks what [`decide`](fewstep_core::decide()) does. Like the core it works in prompt space, on
//! numbers that any framework can provide; it loads no model and takes no step. Citations such as
//! Thm. 7.2 point to the paper, and `PAPER.md` lists each statement with the test that checks it.
//!
//! *When?* [`risk`] says what no fixed number of steps can avoid, and splits the error of any
//! predictor on tasks whose Bayes predictions are known. [`drift::Watch`] tells whether real steps
//! still follow the linearised model.
//!
//! *How far?* [`pac_bayes::guarantee`] bounds what a decision's number of steps was chosen by, and
//! [`pac_bayes::PacBayes`] is the family of bounds behind it. [`flow`] and [`random`] explain what a
//! spectrum means for the number of steps, with the filters [`GradientFlow`], [`ExponentialTime`],
//! [`Projection`] and [`JamesStein`].
//!
//! *Which directions?* [`design::QueryInformation`] finds the best subspace of the weights
//! themselves, and [`design::PlugIn`] the price of having learned it from prompts.
//!
//! [`matfree`] does evidence and scores for prompts too large for a matrix.

pub mod design;
pub mod drift;
mod estimate;
mod filters;
pub mod flow;
pub mod matfree;
pub mod pac_bayes;
pub mod random;
pub mod risk;

pub use estimate::Estimate;
pub use fewstep_core::Error;
pub use filters::{ExponentialTime, GradientFlow, JamesStein, Projection};

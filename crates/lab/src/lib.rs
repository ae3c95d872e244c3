//! The laboratory: what `fewstep` rests on was measured here.
//!
//! [`reproduce`] runs the paper's experiments and compares rules, `bench` measures time and memory
//! beside PyTorch, and [`pretraining`] makes the built-in model out of [`digit_maps`], which
//! [`assessment`] measures and [`model_card`] describes. The program `fewstep-lab` is [`cli`].
//! Nothing depends on this crate, and it is not published.

pub mod assessment;
mod bench;
pub mod cli;
pub mod digit_maps;
mod error;
pub mod model_card;
pub mod pretraining;
pub mod reproduce;

pub use error::Error;

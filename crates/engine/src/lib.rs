//! The Transformer side of fewstep: from a model's files and a task to token ids and weights.
//!
//! A model is [located](locate), its [`Config`] and [`Tokenizer`] read and its [`Parameters`]
//! loaded; a [`Task`] then becomes [`Prompts`], the only form in which text reaches the model.

mod config;
mod error;
mod files;
mod hub;
mod parameters;
mod prompt;
mod task;
mod tokens;
mod weights;

pub use config::Config;
pub use error::{Error, Place};
pub use hub::{HubSettings, Progress, locate};
pub use parameters::{Layer, Linear, Norm, Parameters, Precision};
pub use prompt::{PromptSettings, Prompts};
pub use task::{Example, Label, Query, Task, Template};
pub use tokens::{Bos, Tokenizer};
pub use weights::Weights;

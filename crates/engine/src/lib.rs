//! The Transformer side of fewstep: what an update sees of a prompt, and the update itself.
//!
//! A model is [located](locate), its [`Config`] and [`Tokenizer`] read and its [`Parameters`]
//! loaded; a [`Task`] becomes [`Prompts`], the only form in which text reaches the model. A
//! [`Network`] then runs forward over a [`Layout`] and remembers on a [`Tape`] what derivatives
//! need. [`Model`] puts these together: it observes tasks and acts on them.
//!
//! An [`Update`] leaves in the forms that other tools load: [`Update::save_peft`] writes a LoRA
//! adapter for the Python package PEFT, [`Update::save_lora_gguf`] one for llama.cpp, and
//! [`Model::save_merged`] the whole model. [`Update::load_peft`] reads adapters that PEFT made.

mod adapter;
mod arrangement;
mod attention;
mod block_kind;
mod blocks;
mod buffer;
mod classes;
mod config;
mod error;
mod factors;
mod files;
mod gguf;
mod hub;
mod label_tree;
mod labels;
mod layer;
mod layout;
mod linear;
mod lora;
mod matrix;
mod memory;
mod model;
mod modules;
mod network;
mod observe;
mod operator;
mod ops;
mod order;
mod overlay;
mod parameters;
mod passes;
mod prepared;
mod pretrain;
mod prompt;
mod quantised;
mod real;
mod rotary;
mod spare;
mod steps;
mod tape;
mod task;
#[cfg(test)]
mod testing;
mod token_task;
mod tokens;
mod update;
mod weights;

pub use block_kind::BlockKind;
pub use blocks::{BlockId, choose_blocks};
pub use buffer::release_buffers;
pub use classes::ObservedClasses;
pub use config::{Config, Family, Llama, Variant};
pub use error::{Error, Place};
pub use factors::KernelForm;
pub use gguf::Gguf;
pub use hub::{HubSettings, Progress, locate};
pub use labels::Labels;
pub use layout::Layout;
pub use linear::{LinearPath, LinearPrediction, predict_linear, predict_linear_local};
pub use lora::{FirstFactor, Lora};
pub use memory::{local_memory_plan, memory_plan};
pub use model::{Model, Outcome};
pub use network::Network;
pub use observe::{
    Observation, label_kernels, observe, observe_local, observe_single_position,
};
pub use operator::KernelOperator;
pub use ops::count_operations;
pub use order::Order;
pub use parameters::{Layer, Linear, Norm, Parameters, Precision};
pub use passes::PassCount;
pub use prepared::{Examples, Prepared};
pub use pretrain::{Batch, Gradients, PretrainSettings, Pretraining, StepReport};
pub use prompt::{PromptSettings, Prompts};
pub use quantised::{Encoding, QuantisedMatrix};
pub use real::Real;
pub use rotary::{Rotary, Scaling, Yarn};
pub use steps::{
    Applied, Descent, Follow, Steps, apply_filter, apply_weights, descend, descend_local,
    predict_updated,
};
pub use tape::Tape;
pub use task::{Example, Label, Query, Task, TaskKind, Template};
pub use token_task::TokenTask;
pub use tokens::{Bos, Tokenizer};
pub use update::Update;
pub use weights::Weights;

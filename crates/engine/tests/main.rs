//! What the engine does, seen from outside. One program, so that its generic code is compiled once.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

mod adapters;
mod dynamics;
mod finite_difference;
mod gguf;
mod kept;
mod loading;
mod local;
mod low_rank;
mod model;
mod observation;
mod operations;
mod parity;
mod pretrain;
mod prompts;
mod readouts;
mod refusals;
mod support;
mod tree;

//! GGUF files: what they hold, how it is shown, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod blocks;
mod damage;
mod models;
#[path = "../support/obtained.rs"]
mod obtained;
mod smollm2;
mod support;
mod texts;
mod tokenizers;

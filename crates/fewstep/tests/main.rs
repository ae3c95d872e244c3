//! The program and the library as their users meet them.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

mod adapters;
mod bad_tasks;
mod classes;
mod kept;
mod low_rank;
mod paths;
mod policies;
mod program;
mod queries;
mod recompute;
mod resume;
mod serve;
mod support;
#[path = "support/transcript.rs"]
mod transcript;
mod transcripts;

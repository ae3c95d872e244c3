//! The laboratory: what its commands write and what they refuse.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

mod bench;
mod modules;
mod pretrain;
mod program;
mod reproduce;
mod reproduce_classes;
mod reproduce_report;
mod reproduce_theory;
mod support;
#[path = "../../fewstep/tests/support/transcript.rs"]
mod transcript;
mod transcripts;

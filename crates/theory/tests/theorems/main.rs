//! The numbered statements of the paper that no decision rests on, checked by two routes that share
//! nothing; the others are in `crates/core/tests/theorems`, and what both need stands there.
//!
//! One file per section, or a folder with a file per question where a section has many;
//! `cargo test thm_7_2` answers "is it true here?". `PAPER.md` lists which test checks which
//! statement, and `paper_map` keeps list and code in step.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

#[allow(dead_code, reason = "each section uses a part of it")]
#[path = "../../../core/tests/theorems/support.rs"]
mod support;

#[allow(dead_code, reason = "each section uses a part of it")]
#[path = "../../../core/tests/theorems/cut.rs"]
mod cut;

mod design;
mod drift;
mod filters;
mod flow;
mod matfree;
mod pac_bayes;
mod random;
mod risk;

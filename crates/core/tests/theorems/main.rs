//! The numbered statements of the paper that a decision rests on, checked by two routes that share
//! nothing; the others are in `crates/theory/tests/theorems`.
//!
//! One file per section, or a folder with a file per question where a section has many;
//! `cargo test thm_5_2` answers "is it true here?". `PAPER.md` lists which test checks which
//! statement, and `paper_map` keeps list and code in step.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]
#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

#[allow(dead_code, reason = "each section uses a part of it")]
mod support;

mod cut;
mod evidence;
mod geometry;
mod gibbs;
mod leave_one_out;
mod risk;
mod signal;
mod spectral;
mod subspace;

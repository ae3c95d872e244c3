//! Low-rank updates: what their blocks are to the matrices that they update, and their files.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

mod directions;
#[path = "../support/mod.rs"]
mod support;
mod updates;
mod whole;

//! Low-rank updates: what their blocks are to the matrices that they update, and their files.

#![allow(clippy::float_cmp, reason = "exact claims get exact tests")]

mod directions;
mod updates;
mod whole;

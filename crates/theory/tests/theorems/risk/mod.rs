//! What an error is made of and what no number of steps avoids: Secs. 2 and 6, App. E.4, F.2, and
//! App. G.2 for filters of every kind.

#[allow(dead_code, reason = "each crate's sections use a part of it")]
#[path = "../../../../core/tests/theorems/risk/literal.rs"]
mod literal;

mod any_filter;
mod bad_input;
mod decomposition;
mod floor;
mod prior_shift;
mod projection;
mod shrinkage;

//! When adapting helps: Sec. 5 and App. E.3.

#[allow(dead_code, reason = "each crate's sections use a part of it")]
pub(crate) mod literal;

mod bad_input;
mod prompt;
mod query;

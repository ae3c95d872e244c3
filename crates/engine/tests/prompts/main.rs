//! From text to ids: tokenizers against ids worked out by hand, prompts against literal text.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod arrangement;
mod prompts;
mod support;
mod tokens;

//! From text to ids: tokenizers against ids worked out by hand, prompts against literal text.

mod arrangement;
mod support;
mod tokens;
mod whole;

//! GGUF files: what they hold, how it is shown, and what is refused.

mod blocks;
mod damage;
mod models;
mod smollm2;
mod support;
mod texts;
mod tokenizers;

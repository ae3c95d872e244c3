//! Model files: what is read from good ones, and how every bad one is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod config;
mod damage;
mod hub;
mod llama;
mod support;
mod weights;

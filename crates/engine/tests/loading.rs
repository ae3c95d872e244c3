//! Model files: what is read from good ones, and how every bad one is refused.

mod config;
mod damage;
mod hub;
mod llama;
mod support;
mod weights;

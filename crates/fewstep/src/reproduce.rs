//! The paper's experiments, and what they say about its claims.
//!
//! [`theory`] checks the paper's statements by simulation; a [`document::Document`] puts what was
//! found on a page, with drawings made by [`plot`].

pub mod document;
mod html;
mod markdown;
pub mod plot;
pub mod theory;

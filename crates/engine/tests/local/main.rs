//! Local adjoints: the references in `fixtures/`, and what the whole derivative says about them.
//!
//! Differences of predictions are taken where the references are made (`fixtures/local.py`): an
//! update acts at all positions, so that no public function moves the last position alone.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod parity;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod whole;

use fewstep_engine::{BlockId, BlockKind, Config};

/// All blocks that have a local form.
fn local_blocks(config: &Config) -> Vec<BlockId> {
    let mut all = support::all_blocks(config);
    all.retain(|block| block.kind() != BlockKind::Key);
    all
}

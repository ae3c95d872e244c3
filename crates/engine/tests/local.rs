//! Local adjoints: the references in `fixtures/`, and what the whole derivative says about them.
//!
//! Differences of predictions are taken where the references are made (`fixtures/local.py`): an
//! update acts at all positions, so that no public function moves the last position alone.

mod parity;
mod refusals;
mod whole;

use crate::support;
use fewstep_engine::{BlockId, BlockKind, Config};

/// All blocks that have a local form.
fn local_blocks(config: &Config) -> Vec<BlockId> {
    let mut all = support::all_blocks(config);
    all.retain(|block| block.kind() != BlockKind::Key);
    all
}

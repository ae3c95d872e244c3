//! How much memory observing by local adjoints takes.
//!
//! Every token goes forward in buffers that serve all layers; only keys, values and the rows of the
//! read-outs stay, layer by layer.

use super::{
    BOOKKEEPING, Rows, SMALL, Widths, direction_buffers, first_factors, needs, packed_factors,
};
use crate::attention::GROUP;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::config::Config;
use crate::layout::Layout;
use crate::lora::Lora;
use crate::network::Network;
use crate::ops::FEW_ROWS;
use crate::real::Real;

/// Numbers of the vocabulary's logits that are held at once.
pub(crate) const LOGITS_AT_ONCE: usize = 1 << 24;

/// As [`memory_plan`](super::memory_plan), for [`observe_local`](crate::observe_local).
///
/// # Examples
///
/// ```
/// use fewstep_engine::{
///     Config, Layout, Lora, choose_blocks, local_memory_plan, memory_plan
/// };
///
/// # let json = br#"{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32,
/// #                 "n_ctx": 64, "vocab_size": 5}"#;
/// let config = Config::from_json(json)?;
/// let blocks = choose_blocks("mlp-up@all", &config)?;
/// let layout = Layout::shared(&[vec![1; 50], vec![2; 50], vec![3; 50]])?;
/// let local = local_memory_plan(&config, &layout, &blocks, &Lora::default(), 4);
/// assert!(local < memory_plan(&config, &layout, &blocks, &Lora::default(), 4));
/// # Ok::<(), fewstep_engine::Error>(())
/// ```
#[must_use]
pub fn local_memory_plan(
    config: &Config,
    layout: &Layout,
    blocks: &[BlockId],
    lora: &Lora,
    number: usize,
) -> u64 {
    if config.check().is_err() {
        return u64::MAX;
    }
    let outputs = layout.sequences();
    plan(config, layout, blocks, Outputs { lora, number, outputs })
}

/// As [`local_memory_plan`], for the label scores of a task of classes: with this number of outputs, and
/// the logits of the vocabulary for some of them at a time.
pub(crate) fn class_memory_plan<R: Real>(
    model: &Network<R>,
    layout: &Layout,
    blocks: &[BlockId],
    outputs: usize,
) -> u64 {
    let (config, number) = (model.config(), size_of::<R>());
    let logits = LOGITS_AT_ONCE.min(outputs * config.vocabulary);
    let rows = 2 * outputs * config.width;
    let more = ((logits + rows) * number) as u64;
    let outputs = if blocks.is_empty() { layout.sequences() } else { outputs };
    let of = Outputs { lora: model.lora(), number, outputs };
    plan(config, layout, blocks, of).saturating_add(more)
}

/// What derivatives are of, and in which form.
struct Outputs<'a> {
    lora: &'a Lora,
    number: usize,
    outputs: usize,
}

fn plan(config: &Config, layout: &Layout, blocks: &[BlockId], of: Outputs<'_>) -> u64 {
    let Outputs { lora, number, outputs } = of;
    let [forward, ..] = Rows::of(layout);
    let outputs = outputs as f64;
    let lowest = blocks.iter().map(BlockId::layer).min().unwrap_or(0).min(config.layers);
    let size = number as f64;
    let kept = kept(config, &forward, blocks, lowest) + first_factors(config, blocks, lora);
    let passing = passing(config, &forward);
    let directions = direction_buffers(config, &forward, blocks, lora, size);
    let back = adjoints(config, Rows { sequences: outputs, ..forward }, blocks, lowest)
        + repeated(config, &forward, outputs);
    let kernels = 3.0 * blocks.len() as f64 * (outputs + 1.0).powi(2);
    let bytes = kept * size
        + (passing * size).max(directions).max(back * size)
        + kernels * 8.0
        + (forward.rows + 2.0 * blocks.len() as f64) * BOOKKEEPING
        + 2.0 * SMALL;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let bytes = bytes.ceil() as u64;
    bytes
}

/// What stays while a task is observed: the stream, what every layer writes over, and per layer keys,
/// values and the rows of the read-outs.
fn kept(config: &Config, forward: &Rows, blocks: &[BlockId], lowest: usize) -> f64 {
    let Widths { stream, attention, key_values, slopes } = Widths::of(config);
    let inner = config.inner as f64;
    let (rows, sequences) = (forward.rows, forward.sequences);
    let mut total = rows * (2.0 * stream + stream.max(attention) + inner)
        + 4.0 * sequences * stream
        + forward.longest * config.head_width() as f64;
    for layer in lowest..config.layers {
        total += 2.0 * rows * key_values
            + sequences * (2.0 * stream + attention + slopes + 2.0)
            + config.heads as f64 * forward.at_readouts;
        if needs(blocks, layer, BlockKind::Output) {
            total += sequences * attention;
        }
        if needs(blocks, layer, BlockKind::MlpDown) {
            total += sequences * inner;
        }
        if needs(blocks, layer, BlockKind::Value) {
            total += forward.folded(config);
        }
    }
    // The query's prompt, for further ones.
    let path = 2.0 * key_values * config.layers as f64;
    let values = (0..config.layers).filter(|&layer| needs(blocks, layer, BlockKind::Value));
    total + forward.longest * (path + values.count() as f64 * stream)
}

/// What a layer writes over on the way forward.
fn passing(config: &Config, forward: &Rows) -> f64 {
    let Widths { stream, attention, key_values, slopes } = Widths::of(config);
    let group = GROUP as f64 * forward.longest;
    forward.rows * (2.0 * stream + attention + slopes + 2.0 + 2.0 * key_values)
        + group
        + forward.folded(config)
        + packed(forward.rows, packed_factors(config, forward.rows) / 2.0)
}

/// What a product copies of its factors, which it does not do for a few rows.
fn packed(rows: f64, factors: f64) -> f64 {
    if rows <= FEW_ROWS as f64 { 0.0 } else { factors }
}

/// What was kept of the read-outs of one layer, once for each of their outputs.
fn repeated(config: &Config, forward: &Rows, outputs: f64) -> f64 {
    if outputs <= forward.sequences {
        return 0.0;
    }
    let Widths { stream, attention, slopes, .. } = Widths::of(config);
    let probabilities = config.heads as f64 * forward.longest;
    outputs * (2.0 * stream + attention + slopes + 2.0 + probabilities)
}

/// The backward pass of one row per output, and the factors that it leaves.
fn adjoints(config: &Config, forward: Rows, blocks: &[BlockId], lowest: usize) -> f64 {
    let Widths { stream, attention, key_values, slopes } = Widths::of(config);
    let rows = forward.sequences;
    let total = rows * (4.0 * stream + 2.0 * attention + 2.0 * key_values + slopes)
        + config.heads as f64 * forward.longest;
    let (mut largest, mut factors) = (0.0_f64, 0.0);
    for layer in lowest..config.layers {
        for kind in BlockKind::MATRICES.into_iter().chain([BlockKind::Norm]) {
            if !needs(blocks, layer, kind) {
                continue;
            }
            let (inputs, outputs) = config.shape(kind);
            let (inputs, outputs) = (inputs as f64, outputs as f64);
            let folded = if kind == BlockKind::Value { config.heads as f64 } else { 1.0 };
            factors += rows * if kind == BlockKind::Value { attention } else { outputs };
            let gram = 2.0 * rows * folded * folded;
            largest = largest.max(rows * folded * (2.0 * inputs + outputs) + gram);
        }
    }
    total + factors + largest + packed(rows, packed_factors(config, rows))
}

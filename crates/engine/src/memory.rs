//! How much memory observing takes, counted before anything is allocated.

use crate::attention::GROUP;
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::config::Config;
use crate::factors::EXPLICIT_BUFFER;
use crate::layer::Depth;
use crate::layout::{Layout, parts};
use crate::lora::{FirstFactor, Lora};
use crate::ops::{FEW_ROWS, SMALL_FACTOR};
use crate::tape::PART_ROWS;
use std::ops::Range;

mod local;

pub use local::local_memory_plan;
pub(crate) use local::{LOGITS_AT_ONCE, class_memory_plan};

/// Bytes per row for its token, its position, and where it is a copy of, and for its place among a
/// few sequences; and twice per block, for its name, and for its place in lists of the blocks of a
/// matrix.
const BOOKKEEPING: f64 = 64.0;

/// Bytes for what does not grow with the prompts, such as a few labels.
const SMALL: f64 = 12288.0;

/// How many matrices of the size of a Gram matrix its decomposition takes, with itself.
const GRAM_COPIES: f64 = 7.0;

/// Rows of a pass, in floating point: what is too large for memory may be too large for integers.
#[derive(Clone, Copy)]
struct Rows {
    rows: f64,
    sequences: f64,
    /// Probabilities of one head, for all tokens and for the last of each sequence.
    everywhere: f64,
    at_readouts: f64,
    /// Tokens of the longest sequence, and the most probabilities of one head that are handled at
    /// once.
    longest: f64,
    largest: f64,
}

impl Rows {
    /// Of a forward pass, of an adjoint that keeps sequences apart, and of the most that it takes
    /// at once.
    fn of(layout: &Layout) -> [Self; 3] {
        let count = |value: usize| value as f64;
        let lengths = layout.lengths();
        let total: f64 = lengths.iter().map(|&length| count(length)).sum();
        let groups = layout.segments().iter().flat_map(|segment| {
            let above = segment.ancestors.iter().map(Range::len).sum();
            attended(above, segment.rows.len())
        });
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let forward = Self {
            rows: count(layout.rows()),
            sequences: count(lengths.len()),
            everywhere: groups.sum(),
            at_readouts: total,
            longest: count(longest),
            largest: attended(0, longest).fold(0.0, f64::max),
        };
        let apart = |lengths: &[usize]| {
            let everywhere = lengths.iter().flat_map(|&length| attended(0, length)).sum();
            let rows = lengths.iter().map(|&length| count(length)).sum();
            let sequences = count(lengths.len());
            Self { rows, sequences, everywhere, at_readouts: rows, ..forward }
        };
        let few = parts(lengths, PART_ROWS).map(|few| apart(&lengths[few]));
        let part = few.reduce(Self::larger).unwrap_or(forward);
        [forward, apart(lengths), part]
    }

    /// As much as each of both.
    fn larger(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            sequences: self.sequences.max(other.sequences),
            everywhere: self.everywhere.max(other.everywhere),
            at_readouts: self.at_readouts.max(other.at_readouts),
            ..self
        }
    }

    /// Rows of the queries and their probabilities.
    fn asked(&self, last: bool) -> (f64, f64) {
        if last { (self.sequences, self.at_readouts) } else { (self.rows, self.everywhere) }
    }

    /// The numbers of a layer that its adjoint needs.
    fn layer(&self, config: &Config, last: bool) -> f64 {
        let Widths { stream, attention, key_values, slopes } = Widths::of(config);
        let (asked, probabilities) = self.asked(last);
        let made = match (last, config.rotary().is_some()) {
            (false, _) => 2.0 * key_values,
            (true, made) => {
                if made {
                    key_values
                } else {
                    0.0
                }
            }
        };
        self.rows * (stream + made + 1.0)
            + asked * (attention + stream + slopes + 1.0)
            + config.heads as f64 * probabilities
            + if last { self.asking(config) } else { 0.0 }
    }

    /// In the last layer, a vector as wide as the stream for each sequence and head.
    fn folded(&self, config: &Config) -> f64 {
        self.sequences * config.heads as f64 * config.width as f64
    }

    /// The same if it stands for keys.
    fn asking(&self, config: &Config) -> f64 {
        if config.rotary().is_some() { 0.0 } else { self.folded(config) }
    }
}

/// The probabilities of one head of each group of a run of tokens.
fn attended(above: usize, length: usize) -> impl Iterator<Item = f64> {
    (0..length).step_by(GROUP).map(move |first| {
        let end = length.min(first + GROUP);
        (end - first) as f64 * (above + end) as f64
    })
}

/// Numbers per token, in floating point.
struct Widths {
    stream: f64,
    /// Of all query heads, and of all key-value heads.
    attention: f64,
    key_values: f64,
    /// Derivatives inside the MLP, with those of its gate.
    slopes: f64,
}

impl Widths {
    fn of(config: &Config) -> Self {
        let inner = config.inner as f64;
        Self {
            stream: config.width as f64,
            attention: config.attention_width() as f64,
            key_values: config.key_value_width() as f64,
            slopes: if config.gated() { 2.0 * inner } else { inner },
        }
    }
}

/// How many bytes observing will hold at once, beside the model, before anything is allocated.
///
/// `layout` is the [shared](Layout::shared) one of all prompts, the query's included; `lora` says
/// what LoRA blocks are like; `number` is the size of one number in bytes (4 for `f32`). All buffers that grow with the prompts are
/// counted, as if each kernel took its larger form; so the count is a little too high. What the
/// model makes once, the transposes of GPT-2's matrices, belongs to the model. A configuration
/// outside its ranges counts as endless.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Layout, Lora, choose_blocks, memory_plan};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 6, "n_head": 12, "n_embd": 768,
///          "n_positions": 1024, "vocab_size": 50257}"#,
/// )?;
/// let blocks = choose_blocks("value@last4", &config)?;
/// let plan = |prompts: &[Vec<u32>]| -> Result<u64, Error> {
///     Ok(memory_plan(&config, &Layout::shared(prompts)?, &blocks, &Lora::default(), 4))
/// };
/// assert!(plan(&[vec![1; 100]])? < plan(&[vec![1; 100], vec![2; 100]])?);
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn memory_plan(
    config: &Config,
    layout: &Layout,
    blocks: &[BlockId],
    lora: &Lora,
    number: usize,
) -> u64 {
    if config.check().is_err() {
        return u64::MAX;
    }
    let [forward, adjoint, part] = Rows::of(layout);
    let lowest = blocks.iter().map(BlockId::layer).min().unwrap_or(0).min(config.layers);
    let size = number as f64;
    let kept =
        kept_forward(config, &forward, blocks, lowest) + first_factors(config, blocks, lora);
    // What is given back serves what comes next: lower layers, then the directions of inputs, then
    // the adjoint, then kernels.
    let below = if lowest > 0 { layers_below(config, &forward) } else { 0.0 };
    let directions = direction_buffers(config, &forward, blocks, lora, size);
    let stream = Widths::of(config).stream;
    // What the forward pass lends to the adjoint may need room for more rows there.
    let beyond = (part.rows - forward.rows).max(0.0) * (stream + config.inner as f64);
    let adjoints =
        kept_adjoints(config, &adjoint, blocks, lowest) + beyond + adjoint.sequences * stream;
    let above = adjoint_buffers(config, &part, blocks, lowest);
    let factors = kernel_buffers(config, lora, &forward, &adjoint, blocks);
    let again = packed_adjoints(config, &adjoint, blocks);
    let apart =
        (adjoints + above.max(factors) + again) * size + 2.0 * adjoint.rows * BOOKKEEPING;
    let most = (below * size).max(directions).max(apart);
    let kernels = 3.0 * blocks.len() as f64 * (forward.sequences + 1.0).powi(2);
    // The kernels are in double precision.
    let bytes = kept * size
        + most
        + kernels * 8.0
        + (forward.rows + 2.0 * blocks.len() as f64) * BOOKKEEPING
        + SMALL;
    // A float-to-integer conversion saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let bytes = bytes.ceil() as u64;
    bytes
}

/// What a forward pass leaves, with its streams and scratch.
fn kept_forward(config: &Config, forward: &Rows, blocks: &[BlockId], lowest: usize) -> f64 {
    let Widths { stream, attention, .. } = Widths::of(config);
    let inner = config.inner as f64;
    let mut total = forward.rows * (2.0 * stream + stream.max(attention) + inner)
        + 4.0 * forward.sequences * stream;
    if config.rotary().is_some() {
        total += forward.longest * config.head_width() as f64;
    }
    for layer in lowest..config.layers {
        let last = layer + 1 == config.layers;
        let (asked, _) = forward.asked(last);
        total += forward.layer(config, last);
        if keeps_mixed(blocks, layer, lowest) {
            total += asked * attention;
        }
        if last {
            total += forward.folded(config);
        }
        if needs(blocks, layer, BlockKind::MlpDown) {
            total += asked * inner;
        }
    }
    total
}

/// Whether what heads mix is kept.
fn keeps_mixed(blocks: &[BlockId], layer: usize, lowest: usize) -> bool {
    let depths = blocks.iter().filter(|block| block.layer() == layer);
    let deepest = depths.map(|block| Depth::of(block.kind())).max();
    needs(blocks, layer, BlockKind::Output)
        || layer == lowest && deepest.is_some_and(|depth| depth <= Depth::Output)
}

/// Whether a block that updates this matrix, or these norms, is asked for.
fn needs(blocks: &[BlockId], layer: usize, kind: BlockKind) -> bool {
    blocks.iter().any(|block| block.updates(layer, kind))
}

/// The first factors of all LoRA blocks.
fn first_factors(config: &Config, blocks: &[BlockId], lora: &Lora) -> f64 {
    let all = blocks.iter().filter(|block| block.kind().is_lora()).count() as f64;
    all * config.width as f64 * lora.rank as f64
}

/// Bytes for the directions of the inputs of one matrix: the inputs in both precisions, and their
/// Gram matrix with its decomposition.
fn direction_buffers(
    config: &Config,
    forward: &Rows,
    blocks: &[BlockId],
    lora: &Lora,
    size: f64,
) -> f64 {
    if lora.first == FirstFactor::Random || !blocks.iter().any(|block| block.kind().is_lora()) {
        return 0.0;
    }
    let width = config.width as f64;
    let gram = forward.rows.min(width).powi(2);
    let directions = (lora.rank as f64 + 2.0) * width;
    forward.rows * width * size + 8.0 * (forward.rows * width + GRAM_COPIES * gram + directions)
}

/// What the largest product holds of its factors a second time.
fn packed_factors(config: &Config, rows: f64) -> f64 {
    let width = config.width as f64;
    (config.inner as f64 + rows) * width
}

/// One layer, which those below the lowest block take in turn.
fn layers_below(config: &Config, forward: &Rows) -> f64 {
    forward.layer(config, false) + packed_factors(config, forward.rows)
}

/// One layer of a few sequences, what is found for them, streams and scratch.
fn adjoint_buffers(config: &Config, part: &Rows, blocks: &[BlockId], lowest: usize) -> f64 {
    let Widths { stream, attention, key_values, slopes } = Widths::of(config);
    let only_last = lowest + 1 >= config.layers;
    // A norm's output and the activations of the MLP are lent by the forward pass.
    let own_slopes = slopes - config.inner as f64;
    let mut total = part.layer(config, only_last)
        + part.rows * (stream + 2.0 * attention + 2.0 * key_values + own_slopes)
        + 2.0 * part.sequences * stream
        + part.largest.max(config.heads as f64 * part.longest);
    if !only_last {
        total += part.asking(config);
    }
    if !only_last || blocks.iter().any(|block| Depth::of(block.kind()) > Depth::Value) {
        total += part.rows * stream + part.asking(config) + part.folded(config);
    }
    total + kept_adjoints(config, part, blocks, lowest)
}

/// The adjoints that blocks need.
fn kept_adjoints(config: &Config, adjoint: &Rows, blocks: &[BlockId], lowest: usize) -> f64 {
    let attention = Widths::of(config).attention;
    let mut total = 0.0;
    if needs(blocks, config.layers - 1, BlockKind::Key) {
        total += adjoint.asking(config);
    }
    for layer in lowest..config.layers {
        let last = layer + 1 == config.layers;
        let (asked, _) = adjoint.asked(last);
        let kinds = BlockKind::MATRICES.into_iter().chain([BlockKind::Norm]);
        for kind in kinds.filter(|&kind| needs(blocks, layer, kind)) {
            let outputs = config.shape(kind).1 as f64;
            total += match kind {
                BlockKind::Value if last => asked * attention,
                BlockKind::Key if last && config.rotary().is_none() => asked * outputs,
                BlockKind::Value | BlockKind::Key => adjoint.rows * outputs,
                BlockKind::Norm => adjoint.sequences * outputs,
                _ => asked * outputs,
            };
        }
    }
    total
}

/// What a product of `rows` rows holds of its right factor a second time: all, unless it is small.
fn packed(rows: f64, factor: f64) -> f64 {
    if rows <= FEW_ROWS as f64 && factor <= SMALL_FACTOR as f64 { 0.0 } else { factor }
}

/// The adjoints of whole MLP matrices, which a product of tokens may hold a second time, beside
/// memory that earlier buffers left: machines differ in whether it does.
fn packed_adjoints(config: &Config, adjoint: &Rows, blocks: &[BlockId]) -> f64 {
    let whole = |block: &BlockId| {
        block.layer() < config.layers.saturating_sub(1)
            && matches!(block.kind(), BlockKind::MlpUp | BlockKind::MlpGate)
    };
    if blocks.iter().any(whole) { adjoint.rows * config.inner as f64 } else { 0.0 }
}

/// The rows that a sequence has in the last layer for a block whose inputs are mixed first.
fn folded_rows(config: &Config, block: &BlockId) -> Option<f64> {
    let folds = match block.kind().matrix() {
        Some(BlockKind::Value) => true,
        Some(BlockKind::Key) => config.rotary().is_none(),
        _ => false,
    };
    let shared = if block.kind().per_head() { config.key_value_heads() } else { 1 };
    folds.then_some(config.heads as f64 / shared as f64)
}

/// The inputs of one matrix, and products of tokens or a part of all derivatives.
fn kernel_buffers(
    config: &Config,
    lora: &Lora,
    forward: &Rows,
    adjoint: &Rows,
    blocks: &[BlockId],
) -> f64 {
    let head_width = config.head_width() as f64;
    let mut largest = 0.0_f64;
    for block in blocks.iter().filter(|block| block.layer() < config.layers) {
        let (inputs, outputs) = config.shape(block.kind());
        let (inputs, outputs) = (inputs as f64, outputs as f64);
        let rank = lora.rank as f64;
        let (common, own) = match (block.head(), block.kind()) {
            (None, kind) if kind.is_lora() => (rank, outputs),
            (None, _) => (inputs, outputs),
            (Some(_), BlockKind::Output) => (outputs, head_width),
            (Some(_), _) => (inputs, head_width),
        };
        let least = adjoint.sequences * own;
        let explicit = (least * common).min(least.max(EXPLICIT_BUFFER as f64));
        let last = block.layer() + 1 == config.layers;
        let served = folded_rows(config, block).filter(|_| last);
        let one_row_each = match block.kind().matrix() {
            Some(BlockKind::Value | BlockKind::Key) => false,
            None => true,
            _ => last,
        };
        let (rows, longest) = match served {
            Some(served) => (adjoint.sequences * served, served),
            None if one_row_each => (adjoint.sequences, 1.0),
            None => (adjoint.rows, adjoint.longest),
        };
        // Inputs that are kept are copied to the rows of the adjoint; others are computed first.
        let copies = match (block.kind(), one_row_each) {
            // All heads at once, or nothing if each key-value head serves one.
            (BlockKind::Value, _) if last && longest > 1.0 => {
                adjoint.sequences * config.heads as f64
            }
            (BlockKind::Value | BlockKind::Key, _) if served.is_some() => 0.0,
            (BlockKind::Output | BlockKind::MlpDown, true) => 0.0,
            (BlockKind::Output | BlockKind::MlpDown, false) => rows,
            (BlockKind::MlpUp | BlockKind::MlpGate | BlockKind::Norm, true) => rows,
            _ => forward.rows + rows,
        };
        let products = explicit.max(2.0 * longest * rows);
        let found = if block.kind().is_lora() {
            // All inputs go before those that their first factor leaves are copied.
            let gathered = if one_row_each { rows } else { 0.0 };
            let projected = match served {
                Some(_) => rows * (rank + outputs),
                None => (forward.rows + gathered) * inputs + forward.rows * rank,
            };
            let outputs_too = if served.is_some() { rows * outputs } else { 0.0 };
            let packed = packed(longest, rows * rank.max(outputs));
            projected.max(rows * rank + outputs_too + packed + products)
        } else {
            copies * inputs + packed(longest, longest * (own + common)) + products
        };
        largest = largest.max(found);
    }
    largest
}

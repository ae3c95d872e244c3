//! Which groups of weights an update may change: their names, and how people choose them.
//!
//! A block is a matrix of the model, the part of it that belongs to one attention head, a low-rank
//! change of a whole matrix, or the norms of a layer. Its name is `kind.layer.head` or, where there
//! is one per layer, `kind.layer`, counted from 0. Where several query heads share keys and values, the head of a `value` or `key`
//! block is the key-value head, that of a `query` or `output` block the query head.

use crate::block_kind::BlockKind;
use crate::config::Config;
use crate::error::Error;
use crate::matrix::Submatrix;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// In the number of a block the head stands in the lowest bits, then the layer, then the kind.
const LAYER_BITS: u32 = 24;
const KIND_BITS: u32 = 48;
const PART: u64 = (1 << LAYER_BITS) - 1;

/// The name of one block of weights.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{BlockId, BlockKind, Error};
///
/// let block: BlockId = "value.5.3".parse()?;
/// assert_eq!((block.kind(), block.layer(), block.head()), (BlockKind::Value, 5, Some(3)));
/// assert_eq!(block.to_string(), "value.5.3");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    kind: BlockKind,
    layer: usize,
    head: Option<usize>,
}

impl BlockId {
    /// A head's block of an attention matrix, or `None` for a kind that is not split by head.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{BlockId, BlockKind};
    ///
    /// assert_eq!(BlockId::of_head(BlockKind::Key, 0, 2).unwrap().to_string(), "key.0.2");
    /// assert_eq!(BlockId::of_head(BlockKind::MlpUp, 0, 2), None);
    /// ```
    #[must_use]
    pub fn of_head(kind: BlockKind, layer: usize, head: usize) -> Option<Self> {
        kind.per_head().then_some(Self { kind, layer, head: Some(head) })
    }

    /// The block of a whole layer, or `None` for a kind that is split by head.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{BlockId, BlockKind};
    ///
    /// assert_eq!(BlockId::of_layer(BlockKind::MlpDown, 4).unwrap().to_string(), "mlp-down.4");
    /// assert_eq!(BlockId::of_layer(BlockKind::Value, 4), None);
    /// ```
    #[must_use]
    pub fn of_layer(kind: BlockKind, layer: usize) -> Option<Self> {
        (!kind.per_head()).then_some(Self { kind, layer, head: None })
    }

    /// The kind of weights.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{BlockId, BlockKind, Error};
    /// assert_eq!("key.1.0".parse::<BlockId>()?.kind(), BlockKind::Key);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The layer, counted from 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{BlockId, Error};
    /// assert_eq!("key.1.0".parse::<BlockId>()?.layer(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn layer(&self) -> usize {
        self.layer
    }

    /// The head, counted from 0, if there is one block per head.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{BlockId, Error};
    /// assert_eq!("key.1.0".parse::<BlockId>()?.head(), Some(0));
    /// assert_eq!("mlp-up.1".parse::<BlockId>()?.head(), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn head(&self) -> Option<usize> {
        self.head
    }

    /// A number that stands for the block and no other, for a decision to carry.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{BlockId, Error};
    /// let block: BlockId = "key.1.0".parse()?;
    /// assert_eq!(BlockId::from_number(block.number()), Some(block));
    /// assert_eq!(BlockId::from_number(u64::MAX), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn number(&self) -> u64 {
        let head = self.head.map_or(0, |head| head as u64 + 1);
        (self.kind as u64) << KIND_BITS | (self.layer as u64) << LAYER_BITS | head
    }

    /// The block that a number stands for.
    ///
    /// # Examples
    ///
    /// See [`BlockId::number`].
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        let part = |from: u32| usize::try_from(number >> from & PART).ok();
        let kind = *BlockKind::ALL.get(part(KIND_BITS)?)?;
        match (part(LAYER_BITS)?, part(0)?) {
            (layer, 0) => Self::of_layer(kind, layer),
            (layer, head) => Self::of_head(kind, layer, head - 1),
        }
    }

    /// Whether it updates a matrix of a layer, or for [`BlockKind::Norm`] its norms.
    pub(crate) fn updates(&self, layer: usize, kind: BlockKind) -> bool {
        self.layer == layer && self.kind.matrix() == kind.matrix()
    }

    /// The rows and columns of the matrix `[in, out]` that the block takes, or updates by a
    /// product of low rank; norms are one row.
    pub(crate) fn place(&self, config: &Config) -> Submatrix {
        let ((inputs, outputs), head_width) = (config.shape(self.kind), config.head_width());
        let own = self.head.map(|head| head * head_width..(head + 1) * head_width);
        match own {
            None => Submatrix { rows: 0..inputs, columns: 0..outputs },
            Some(rows) if self.kind == BlockKind::Output => {
                Submatrix { rows, columns: 0..outputs }
            }
            Some(columns) => Submatrix { rows: 0..inputs, columns },
        }
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.kind, self.layer)?;
        self.head.map_or(Ok(()), |head| write!(formatter, ".{head}"))
    }
}

impl FromStr for BlockId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadBlockName { found: text.to_owned() };
        let parts: Vec<&str> = text.split('.').collect();
        let number = |part: &str| -> Result<usize, Error> {
            // Digits only: `+1` and `01` are other spellings of names, which must be unique.
            let plain = part.bytes().all(|byte| byte.is_ascii_digit());
            let canonical = plain && (part.len() == 1 || !part.starts_with('0'));
            part.parse().ok().filter(|_| canonical).ok_or_else(bad)
        };
        match parts[..] {
            [kind, layer, head] => {
                Self::of_head(kind.parse()?, number(layer)?, number(head)?).ok_or_else(bad)
            }
            [kind, layer] => Self::of_layer(kind.parse()?, number(layer)?).ok_or_else(bad),
            _ => Err(bad()),
        }
    }
}

/// The blocks that a choice such as `value@last4`, `query,key@0..2` or `lora-value,norm@all`
/// names.
///
/// Kinds are separated by commas. Layers are `all`, `upper-half`, `lastN` (all of a model with
/// fewer), or `A..B` without `B`. The order is
/// that of the kinds, then of layers, then of heads. Values and keys have one block per key-value
/// head of the model, queries and outputs one per query head, the other kinds one per layer. Blocks
/// may update the same weights (`value,lora-value@all`); their changes add up.
///
/// # Errors
///
/// [`Error::BadChoice`] without exactly one `@`, [`Error::UnknownKind`], [`Error::BadLayers`],
/// [`Error::NoGate`] for `mlp-gate` in a model without gates, and [`Error::DuplicateBlock`] if a
/// kind is named twice.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, choose_blocks};
///
/// // Two query heads share one head of keys and values.
/// let config = Config::from_json(
///     br#"{"model_type": "llama", "num_hidden_layers": 6, "num_attention_heads": 2,
///          "num_key_value_heads": 1, "hidden_size": 8, "intermediate_size": 12,
///          "max_position_embeddings": 8, "vocab_size": 256}"#,
/// )?;
/// let blocks = choose_blocks("value,output,mlp-up@last1", &config)?;
/// let names: Vec<String> = blocks.iter().map(ToString::to_string).collect();
/// assert_eq!(names, ["value.5.0", "output.5.0", "output.5.1", "mlp-up.5"]);
/// # Ok::<(), Error>(())
/// ```
pub fn choose_blocks(choice: &str, config: &Config) -> Result<Vec<BlockId>, Error> {
    let bad = || Error::BadChoice { found: choice.to_owned() };
    let (kinds, chosen) = choice.split_once('@').ok_or_else(bad)?;
    if chosen.contains('@') {
        return Err(bad());
    }
    let chosen = choose_layers(chosen, config.layers)?;
    let mut blocks = Vec::new();
    for kind in kinds.split(',') {
        let kind: BlockKind = kind.trim().parse()?;
        if !config.has(kind) {
            return Err(Error::NoGate { block: kind.to_string() });
        }
        for layer in chosen.clone() {
            match config.heads_of(kind) {
                None => blocks.push(BlockId { kind, layer, head: None }),
                Some(heads) => blocks.extend((0..heads).map(|head| BlockId {
                    kind,
                    layer,
                    head: Some(head),
                })),
            }
        }
    }
    check_distinct(&blocks)?;
    Ok(blocks)
}

fn choose_layers(text: &str, layers: usize) -> Result<Range<usize>, Error> {
    let bad = || Error::BadLayers { found: text.to_owned(), layers };
    let text_of = text.trim();
    let number = |text: &str| text.parse::<usize>().map_err(|_| bad());
    let range = if text_of == "all" {
        0..layers
    } else if text_of == "upper-half" {
        layers / 2..layers
    } else if let Some(count) = text_of.strip_prefix("last") {
        layers.saturating_sub(number(count)?)..layers
    } else {
        let (first, end) = text_of.split_once("..").ok_or_else(bad)?;
        number(first)?..number(end)?
    };
    if range.is_empty() || range.end > layers { Err(bad()) } else { Ok(range) }
}

/// `Err` unless there are blocks, each once, and a model of these sizes has them.
pub(crate) fn check_blocks(config: &Config, blocks: &[BlockId]) -> Result<(), Error> {
    if blocks.is_empty() {
        return Err(Error::Empty { quantity: "list of blocks" });
    }
    for block in blocks {
        if !config.has(block.kind) {
            return Err(Error::NoGate { block: block.to_string() });
        }
        let heads = config.heads_of(block.kind).unwrap_or(config.heads);
        let layers = config.layers;
        if block.layer >= layers || block.head.is_some_and(|head| head >= heads) {
            return Err(Error::NoSuchBlock { block: block.to_string(), layers, heads });
        }
    }
    check_distinct(blocks)
}

/// `Err(Error::DuplicateBlock)` if a block is there twice.
fn check_distinct(blocks: &[BlockId]) -> Result<(), Error> {
    let mut sorted = blocks.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::DuplicateBlock { block: pair[0].to_string() }),
        None => Ok(()),
    }
}

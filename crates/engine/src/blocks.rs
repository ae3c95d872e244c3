//! Which groups of weights an update may move: their names, and how people choose them.
//!
//! A block is a matrix of the model or the part of it that belongs to one attention head. Its
//! name is `kind.layer.head` or, for the MLP, `kind.layer`, counted from 0.

use crate::error::Error;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The kind of matrix that a block is taken from.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{BlockKind, Error};
///
/// assert_eq!("mlp-up".parse(), Ok(BlockKind::MlpUp));
/// assert_eq!(
///     "gate".parse::<BlockKind>(),
///     Err(Error::UnknownKind { found: "gate".to_owned() })
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockKind {
    /// `W_V` of one head: what an attended token passes on.
    Value,
    /// `W_O` of one head: how a head's result enters the stream.
    Output,
    /// `W_Q` of one head: what a token looks for.
    Query,
    /// `W_K` of one head: what a token is found by.
    Key,
    /// The matrix into an MLP.
    MlpUp,
    /// The matrix out of an MLP.
    MlpDown,
}

impl BlockKind {
    /// All kinds, in the order of their declaration.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::BlockKind::ALL[5].to_string(), "mlp-down");
    /// ```
    pub const ALL: [Self; 6] =
        [Self::Value, Self::Output, Self::Query, Self::Key, Self::MlpUp, Self::MlpDown];

    /// Whether there is one block per head.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::BlockKind;
    ///
    /// assert!(BlockKind::Value.per_head() && !BlockKind::MlpUp.per_head());
    /// ```
    #[must_use]
    pub fn per_head(self) -> bool {
        !matches!(self, Self::MlpUp | Self::MlpDown)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Output => "output",
            Self::Query => "query",
            Self::Key => "key",
            Self::MlpUp => "mlp-up",
            Self::MlpDown => "mlp-down",
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for BlockKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| Error::UnknownKind { found: text.to_owned() })
    }
}

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

    /// A whole MLP matrix, or `None` for a kind that is split by head.
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

    /// The kind of matrix.
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

    /// The rows and columns of the matrix `[in, out]` that the block takes.
    pub(crate) fn place(
        &self,
        (inputs, outputs): (usize, usize),
        head_width: usize,
    ) -> (Range<usize>, Range<usize>) {
        match self.head {
            None => (0..inputs, 0..outputs),
            Some(head) => {
                let part = head * head_width..(head + 1) * head_width;
                if self.kind == BlockKind::Output {
                    (part, 0..outputs)
                } else {
                    (0..inputs, part)
                }
            }
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

/// The blocks that a choice such as `value@last4` or `query,key@0..2` names.
///
/// Kinds are separated by commas. Layers are `all`, `lastN`, or `A..B` without `B`. The order is
/// that of the kinds, then of layers, then of heads.
///
/// # Errors
///
/// [`Error::BadChoice`] without exactly one `@`, [`Error::UnknownKind`], [`Error::BadLayers`],
/// and [`Error::DuplicateBlock`] if a kind is named twice.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, choose_blocks};
///
/// let blocks = choose_blocks("value,mlp-up@last1", 6, 2)?;
/// let names: Vec<String> = blocks.iter().map(ToString::to_string).collect();
/// assert_eq!(names, ["value.5.0", "value.5.1", "mlp-up.5"]);
/// # Ok::<(), Error>(())
/// ```
pub fn choose_blocks(choice: &str, layers: usize, heads: usize) -> Result<Vec<BlockId>, Error> {
    let bad = || Error::BadChoice { found: choice.to_owned() };
    let (kinds, chosen) = choice.split_once('@').ok_or_else(bad)?;
    if chosen.contains('@') {
        return Err(bad());
    }
    let chosen = choose_layers(chosen, layers)?;
    let mut blocks = Vec::new();
    for kind in kinds.split(',') {
        let kind: BlockKind = kind.trim().parse()?;
        for layer in chosen.clone() {
            match BlockId::of_layer(kind, layer) {
                Some(block) => blocks.push(block),
                None => blocks.extend((0..heads).map(|head| BlockId {
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
    } else if let Some(count) = text_of.strip_prefix("last") {
        layers.checked_sub(number(count)?).ok_or_else(bad)?..layers
    } else {
        let (first, end) = text_of.split_once("..").ok_or_else(bad)?;
        number(first)?..number(end)?
    };
    if range.is_empty() || range.end > layers { Err(bad()) } else { Ok(range) }
}

/// `Err(Error::DuplicateBlock)` if a block is there twice.
pub(crate) fn check_distinct(blocks: &[BlockId]) -> Result<(), Error> {
    let mut sorted = blocks.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::DuplicateBlock { block: pair[0].to_string() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_the_blocks_they_name() {
        for kind in BlockKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for choice in ["value,output,query,key,mlp-up,mlp-down@all", "key@1..3"] {
            for block in choose_blocks(choice, 11, 12).unwrap() {
                assert_eq!(block.to_string().parse(), Ok(block));
            }
        }
    }

    #[test]
    fn choices_name_layers_from_either_end() {
        let layers = |choice: &str| -> Vec<usize> {
            choose_blocks(choice, 5, 1).unwrap().iter().map(BlockId::layer).collect()
        };
        assert_eq!(layers("value@all"), [0, 1, 2, 3, 4]);
        assert_eq!(layers("value@last2"), [3, 4]);
        assert_eq!(layers("mlp-up@1..3"), [1, 2]);
    }

    #[test]
    fn what_cannot_be_read_is_named_in_the_error() {
        for name in ["value.1", "mlp-up.1.2", "value", "value.x.1", "value.1.2.3", "value.01.0"]
        {
            let refused = name.parse::<BlockId>();
            assert_eq!(refused, Err(Error::BadBlockName { found: name.to_owned() }));
        }
        for layers in
            ["", "last0", "last6", "3..3", "4..2", "0..6", "2", "lastx", "..", "-1..2"]
        {
            let refused = choose_blocks(&format!("value@{layers}"), 5, 2);
            assert_eq!(refused, Err(Error::BadLayers { found: layers.to_owned(), layers: 5 }));
        }
        for choice in ["value", "value@all@all", ""] {
            let refused = choose_blocks(choice, 5, 2);
            assert_eq!(refused, Err(Error::BadChoice { found: choice.to_owned() }));
        }
        let refused = choose_blocks("values@all", 5, 2);
        assert_eq!(refused, Err(Error::UnknownKind { found: "values".to_owned() }));
        let refused = choose_blocks("key,key@last1", 5, 2);
        assert_eq!(refused, Err(Error::DuplicateBlock { block: "key.4.0".to_owned() }));
    }
}

//! The kinds of weights that a model has, by which blocks and configurations name them.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// The kind of weights that a block updates.
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
    /// `W_V` of one key-value head: what an attended token passes on.
    Value,
    /// `W_O` of one query head: how a head's result enters the stream.
    Output,
    /// `W_Q` of one query head: what a token looks for.
    Query,
    /// `W_K` of one key-value head: what a token is found by.
    Key,
    /// The matrix into an MLP.
    MlpUp,
    /// The matrix out of an MLP.
    MlpDown,
    /// The matrix into the gate of an MLP that has one.
    MlpGate,
    /// `W_V` of all heads, changed by a product of low rank `Aθ`: the block is `θ`, and `A` is
    /// fixed by [`Lora`](crate::Lora).
    LoraValue,
    /// `W_Q` of all heads, changed likewise.
    LoraQuery,
    /// Scale and, where there is one, shift of the two norms of a layer: that in front of
    /// attention, then that in front of the MLP. The norm after the last layer is in no block.
    Norm,
}

impl BlockKind {
    /// All kinds, in the order of their declaration.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::BlockKind::ALL[5].to_string(), "mlp-down");
    /// ```
    pub const ALL: [Self; 10] = [
        Self::Value,
        Self::Output,
        Self::Query,
        Self::Key,
        Self::MlpUp,
        Self::MlpDown,
        Self::MlpGate,
        Self::LoraValue,
        Self::LoraQuery,
        Self::Norm,
    ];

    /// The kinds of matrices that a layer has: the first ones, in the order of their declaration.
    pub(crate) const MATRICES: [Self; 7] =
        *Self::ALL.first_chunk().expect("there are more kinds than matrices");

    /// The kind of matrix that blocks of this kind update, if they update one.
    pub(crate) fn matrix(self) -> Option<Self> {
        match self {
            Self::LoraValue => Some(Self::Value),
            Self::LoraQuery => Some(Self::Query),
            Self::Norm => None,
            matrix => Some(matrix),
        }
    }

    /// Whether blocks of this kind change a matrix by a product of low rank.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::BlockKind;
    ///
    /// assert!(BlockKind::LoraValue.is_lora() && !BlockKind::Value.is_lora());
    /// ```
    #[must_use]
    pub fn is_lora(self) -> bool {
        matches!(self, Self::LoraValue | Self::LoraQuery)
    }

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
        matches!(self, Self::Value | Self::Output | Self::Query | Self::Key)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Output => "output",
            Self::Query => "query",
            Self::Key => "key",
            Self::MlpUp => "mlp-up",
            Self::MlpDown => "mlp-down",
            Self::MlpGate => "mlp-gate",
            Self::LoraValue => "lora-value",
            Self::LoraQuery => "lora-query",
            Self::Norm => "norm",
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

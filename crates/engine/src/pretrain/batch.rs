//! What a training step looks at: sequences, and at some positions the token that should follow.

use crate::config::Config;
use crate::error::Error;

/// Sequences of tokens and their targets.
///
/// # Examples
///
/// Only the answer counts here, not the question:
///
/// ```
/// use fewstep_engine::{Batch, Error};
///
/// let batch = Batch::new(vec![vec![7, 8, 9]], vec![vec![(2, 4)]])?;
/// assert_eq!(batch.target_count(), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    sequences: Vec<Vec<u32>>,
    targets: Vec<Vec<(usize, u32)>>,
}

impl Batch {
    /// A batch from sequences and, for each, pairs of a position and the token that should be
    /// predicted there, that is, the token after it.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without sequences or without any target, [`Error::SizeMismatch`] unless
    /// there is a list of targets for each sequence, [`Error::EmptySequence`] for a sequence
    /// without tokens, [`Error::TargetOutOfRange`] for a position that is not in its sequence.
    pub fn new(
        sequences: Vec<Vec<u32>>,
        targets: Vec<Vec<(usize, u32)>>,
    ) -> Result<Self, Error> {
        if sequences.is_empty() {
            return Err(Error::Empty { quantity: "list of sequences" });
        }
        let (found, expected) = (targets.len(), sequences.len());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: "list of targets", found, expected });
        }
        for (sequence, (tokens, targets)) in sequences.iter().zip(&targets).enumerate() {
            let length = tokens.len();
            if length == 0 {
                return Err(Error::EmptySequence { sequence });
            }
            if let Some(&(position, _)) = targets.iter().find(|target| target.0 >= length) {
                return Err(Error::TargetOutOfRange { sequence, position, length });
            }
        }
        if targets.iter().all(Vec::is_empty) {
            return Err(Error::Empty { quantity: "list of targets" });
        }
        Ok(Self { sequences, targets })
    }

    /// A batch in which every token of a sequence but the first is a target.
    ///
    /// The last token is predicted and not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without sequences, [`Error::EmptySequence`] for one of fewer than two
    /// tokens, since nothing is left to predict from.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Batch, Error};
    /// let batch = Batch::next_token(vec![vec![1, 2, 3]])?;
    /// assert_eq!(batch, Batch::new(vec![vec![1, 2]], vec![vec![(0, 2), (1, 3)]])?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn next_token(mut sequences: Vec<Vec<u32>>) -> Result<Self, Error> {
        let targets = sequences.iter().map(|tokens| {
            tokens.iter().skip(1).enumerate().map(|(place, &token)| (place, token)).collect()
        });
        let targets = targets.collect();
        for tokens in &mut sequences {
            tokens.pop();
        }
        Self::new(sequences, targets)
    }

    /// The sequences.
    #[must_use]
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }

    /// The targets of each sequence.
    #[must_use]
    pub fn targets(&self) -> &[Vec<(usize, u32)>] {
        &self.targets
    }

    /// Number of targets of all sequences.
    #[must_use]
    pub fn target_count(&self) -> usize {
        self.targets.iter().map(Vec::len).sum()
    }

    /// `Err` unless the model can take every sequence and has every token.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Error> {
        let (limit, vocabulary) = (config.positions, config.vocabulary);
        for (sequence, tokens) in self.sequences.iter().enumerate() {
            let found = tokens.len();
            if found > limit {
                return Err(Error::SequenceTooLong { sequence, found, limit });
            }
        }
        let targets = self.targets.iter().flatten().map(|&(_, token)| token);
        let mut tokens = self.sequences.iter().flatten().copied().chain(targets);
        match tokens.find(|&token| token as usize >= vocabulary) {
            Some(token) => Err(Error::TokenOutOfRange { token, vocabulary }),
            None => Ok(()),
        }
    }
}

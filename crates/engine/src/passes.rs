//! How much of the model was run: the cost that does not depend on the machine.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Passes through a model, counted in sequences and in tokens.
///
/// A sequence counts once per pass, whether its beginning was shared or not; tokens are the rows
/// that were computed. Activations below the lowest updated layer are computed once and count
/// with the first pass.
///
/// # Examples
///
/// ```
/// use fewstep_engine::PassCount;
///
/// let one = PassCount { forward: 11, backward: 10, forward_tokens: 400, backward_tokens: 400 };
/// assert_eq!((one + one).forward, 22);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassCount {
    /// Sequences that went forward.
    pub forward: u64,
    /// Sequences whose prediction was differentiated.
    pub backward: u64,
    /// Tokens that went forward.
    pub forward_tokens: u64,
    /// Tokens that went backward.
    pub backward_tokens: u64,
}

impl Add for PassCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            forward: self.forward + other.forward,
            backward: self.backward + other.backward,
            forward_tokens: self.forward_tokens + other.forward_tokens,
            backward_tokens: self.backward_tokens + other.backward_tokens,
        }
    }
}

impl AddAssign for PassCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for PassCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

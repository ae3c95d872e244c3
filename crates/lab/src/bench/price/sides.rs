//! What is measured about the price of in-context learning, by name, and what is taken of it.
//!
//! In: nothing. Out: [`Side`], and ratios of two sides with what they must reach.

use crate::error::Error;
use fewstep_core::{Adjoint, Policy, Residuals, ResidualsName, Shots};
use std::str::FromStr;

/// How many examples a prompt shows where it does not show all.
pub(super) const SHOTS: usize = 8;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The forward pass of the query's prompt, with the labels' logits at its end.
    Plain,
    /// The same with weights as the file holds them.
    Quantised,
    /// Observing a task, deciding and answering.
    Answer(Answering),
    /// The forward pass of prompts behind the keys and values of what they begin with, of which
    /// nothing is kept.
    Behind(Asking),
    /// Observing further queries of a task that was observed, and deciding on each, by local
    /// adjoints.
    Further(Asking),
    /// llama.cpp's forward pass of the query's prompt, with logits at its end.
    Llama,
    /// What PyTorch does to observe a task by local adjoints; no decision.
    Torch,
}

/// How tasks are answered: the default policy, with what is compared said in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    /// By local adjoints and leave-one-out prompts.
    Local,
    /// By local adjoints, every example behind those before it.
    LocalPrefix,
    /// By local adjoints; a prompt shows a few of the examples.
    LocalShots,
    /// By whole adjoints and leave-one-out prompts.
    Whole,
}

/// How many prompts a pass is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// All of them.
    Together,
    /// One, as often as there are prompts.
    Alone,
}

impl Answering {
    pub(super) fn policy(self) -> Policy {
        let adjoint = if self == Self::Whole { Adjoint::Whole } else { Adjoint::Local };
        let residuals = match self {
            Self::LocalPrefix => Residuals::of_name(ResidualsName::Prefix),
            _ => Residuals::LeaveOneOut,
        };
        let most = (self == Self::LocalShots).then_some(SHOTS);
        let shots = Shots { most, ..Shots::default() };
        Policy { adjoint, residuals, shots, ..Policy::default() }
    }
}

impl Side {
    /// What is measured in a process of its own, which is told by name.
    const OF_MEMORY: [Self; 3] =
        [Self::Plain, Self::Answer(Answering::Local), Self::Answer(Answering::Whole)];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Quantised => "plain, quantised",
            Self::Answer(Answering::Local) => "local",
            Self::Answer(Answering::LocalPrefix) => "local, prefix",
            Self::Answer(Answering::LocalShots) => "local, shots",
            Self::Answer(Answering::Whole) => "whole",
            Self::Behind(Asking::Together) => "plain behind the cache",
            Self::Behind(Asking::Alone) => "plain behind the cache, alone",
            Self::Further(Asking::Together) => "further",
            Self::Further(Asking::Alone) => "further, alone",
            Self::Llama => "llama.cpp",
            Self::Torch => "PyTorch",
        }
    }

    /// How its task is answered, if it is.
    pub(super) fn answering(self) -> Option<Answering> {
        match self {
            Self::Answer(by) => Some(by),
            _ => None,
        }
    }
}

impl FromStr for Side {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::OF_MEMORY.into_iter().find(|side| side.name() == text);
        found.ok_or_else(|| Error::UnknownWork { found: text.to_owned() })
    }
}

/// How many threads one task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    One,
    All,
}

impl Threads {
    pub(super) fn count(self, all: usize) -> usize {
        match self {
            Self::One => 1,
            Self::All => all,
        }
    }
}

/// What a ratio must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Less than a number, and not the number itself.
    Under(f64),
}

impl Target {
    pub(super) fn is_reached(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
            Self::Under(limit) => ratio < limit,
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::AtMost(_) => "≤",
            Self::AtLeast(_) => "≥",
            Self::Under(_) => "<",
        }
    }

    pub(super) fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) | Self::Under(value) => value,
        }
    }
}

/// What one side takes against another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) of: Side,
    pub(super) to: Side,
    pub(super) threads: Threads,
    pub(super) target: Option<Target>,
}

impl Ratio {
    /// On one thread.
    pub(super) fn new(of: Side, to: Side, target: Option<Target>) -> Self {
        Self { of, to, threads: Threads::One, target }
    }

    /// The same on all threads.
    pub(super) fn on_all(self) -> Self {
        Self { threads: Threads::All, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is compared does not depend on what the default policy says of it.
    #[test]
    fn policies_say_what_is_compared() {
        use Answering::{Local, LocalPrefix, LocalShots, Whole};
        let of = |by: Answering| {
            let Policy { adjoint, residuals, shots, .. } = by.policy();
            (adjoint.to_string(), residuals.name().to_string(), shots.most)
        };
        let [local, loo] = ["local", "leave-one-out"].map(str::to_owned);
        assert_eq!(of(Local), (local.clone(), loo.clone(), None));
        assert_eq!(of(LocalPrefix), (local.clone(), "prefix".to_owned(), None));
        assert_eq!(of(LocalShots), (local, loo.clone(), Some(SHOTS)));
        assert_eq!(of(Whole), ("whole".to_owned(), loo, None));
        for by in [Local, LocalPrefix, LocalShots, Whole] {
            let other = by.policy().differences(&Policy::default());
            let observed = ["adjoint", "residuals", "shots"];
            assert!(other.iter().all(|field| observed.contains(field)), "{other:?}");
        }
    }

    #[test]
    fn targets_are_reached_on_their_own_side() {
        assert!(Target::AtMost(4.5).is_reached(4.5) && !Target::AtMost(4.5).is_reached(4.6));
        assert!(Target::AtLeast(1.8).is_reached(1.8) && !Target::AtLeast(1.8).is_reached(1.7));
        assert!(Target::Under(3.0).is_reached(2.9) && !Target::Under(3.0).is_reached(3.0));
    }
}

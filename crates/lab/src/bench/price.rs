//! The price of in-context learning: what an answer takes against a plain forward pass of the
//! query's prompt by this engine, and what that pass takes against llama.cpp.
//!
//! In: nothing but this list. Out: the rows, what is measured for each, which ratios are taken and
//! what they must reach. `run` measures them, on what `ready` holds.

mod llama;
mod peak;
mod ready;
mod run;
mod words;

pub(crate) use peak::child;
pub(super) use ready::Models;
pub(super) use run::Priced;

use super::works::Work;
use crate::error::Error;
use fewstep_core::Policy;
use std::fmt;
use std::str::FromStr;
use words::Sizes;

/// A row about the price of in-context learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    /// 10 examples of 30 tokens.
    Ten,
    /// 64 examples of 20 tokens.
    SixtyFour,
    /// Further queries behind 10 examples of 30 tokens.
    Further,
    /// A plain forward pass here and in llama.cpp.
    Llama,
    /// Peak memory, 10 examples of 30 tokens.
    Memory,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The forward pass of the query's prompt, with the labels' logits at its end.
    Plain,
    /// The same with weights as the file holds them.
    Quantised,
    /// Observing a task, deciding and answering.
    Answer(Answering),
    /// The forward pass of further queries, which goes through the examples once.
    PlainFurther,
    /// Observing further queries of a task that was observed, and deciding on each.
    Further(Answering),
    /// llama.cpp's forward pass of the query's prompt, with logits at its end.
    Llama,
}

/// A policy that tasks are answered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    /// The default policy.
    Default,
}

impl Answering {
    fn policy(self) -> Policy {
        match self {
            Self::Default => Policy::default(),
        }
    }
}

impl Side {
    /// What is measured in a process of its own, which is told by name.
    const OF_MEMORY: [Self; 2] = [Self::Plain, Self::Answer(Answering::Default)];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Quantised => "plain, quantised",
            Self::Answer(Answering::Default) => "default",
            Self::PlainFurther => "plain, further query",
            Self::Further(Answering::Default) => "default, further query",
            Self::Llama => "llama.cpp",
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
enum Threads {
    One,
    All,
}

impl Threads {
    fn count(self, all: usize) -> usize {
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
}

impl Target {
    pub(super) fn is_reached(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::AtMost(_) => "≤",
            Self::AtLeast(_) => "≥",
        }
    }

    pub(super) fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }
}

/// What one side takes against another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    of: Side,
    to: Side,
    threads: Threads,
    target: Option<Target>,
}

fn ratio(of: Side, to: Side, threads: Threads, target: Option<Target>) -> Ratio {
    Ratio { of, to, threads, target }
}

impl Price {
    /// All rows, as they stand in the table.
    pub(crate) const ALL: [Self; 5] =
        [Self::Ten, Self::SixtyFour, Self::Further, Self::Llama, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Ten => "icl-10",
            Self::SixtyFour => "icl-64",
            Self::Further => "icl-further",
            Self::Llama => "icl-llama",
            Self::Memory => "icl-memory",
        }
    }

    /// What it is, for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Ten => "10 examples of 30 tokens, tree",
            Self::SixtyFour => "64 examples of 20 tokens, tree",
            Self::Further => "further queries, 10 examples of 30 tokens",
            Self::Llama => "a prompt of 300 tokens",
            Self::Memory => "peak memory, 10 examples of 30 tokens",
        }
    }

    /// The ratios that are taken; what they are made of is measured.
    fn ratios(self) -> Vec<Ratio> {
        use Answering::Default;
        use Side::{Answer, Further, Llama, Plain, PlainFurther, Quantised};
        use Target::{AtLeast, AtMost};
        use Threads::{All, One};
        match self {
            Self::Ten => vec![ratio(Answer(Default), Plain, One, Some(AtMost(4.5)))],
            Self::SixtyFour => vec![ratio(Answer(Default), Plain, One, Some(AtMost(8.0)))],
            Self::Further => {
                vec![ratio(Further(Default), PlainFurther, One, Some(AtMost(1.3)))]
            }
            Self::Llama => vec![
                ratio(Llama, Plain, One, Some(AtLeast(1.8))),
                ratio(Llama, Plain, All, Some(AtLeast(1.8))),
                ratio(Llama, Quantised, One, None),
                ratio(Llama, Quantised, All, None),
            ],
            Self::Memory => vec![ratio(Answer(Default), Plain, One, None)],
        }
    }

    fn is_memory(self) -> bool {
        self == Self::Memory
    }

    /// Its sizes.
    fn sizes(self, quick: bool) -> Sizes {
        let (examples, tokens) = match (self, quick) {
            (Self::SixtyFour, false) => (64, 20),
            (_, false) => (10, 30),
            (_, true) => (4, 5),
        };
        let further = match (self, quick) {
            (Self::Further, false) => 50,
            (Self::Further, true) => 3,
            _ => 0,
        };
        Sizes { examples, tokens, further }
    }

    /// The tokens after which the query's prompt ends here, if it is cut.
    fn cut(self, quick: bool) -> Option<usize> {
        let tokens = if quick { 20 } else { 300 };
        (self == Self::Llama).then_some(tokens)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What may be asked for by name: a row, or all rows about the price of in-context learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Work(Work),
    Price(Price),
    Prices,
}

impl FromStr for Asked {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "icl" {
            return Ok(Self::Prices);
        }
        let price = Price::ALL.into_iter().find(|price| price.name() == text);
        price.map_or_else(|| text.parse().map(Self::Work), |price| Ok(Self::Price(price)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_asked_for_by_name_alone_or_together() {
        for price in Price::ALL {
            assert_eq!(price.to_string().parse(), Ok(Asked::Price(price)));
        }
        assert_eq!("icl".parse(), Ok(Asked::Prices));
        assert_eq!("many".parse(), Ok(Asked::Work(Work::Many)));
        let refused = "icl-9".parse::<Asked>();
        assert_eq!(refused, Err(Error::UnknownWork { found: "icl-9".to_owned() }));
    }

    /// A process that measures memory is told by name which side it measures.
    #[test]
    fn every_side_of_a_row_about_memory_has_a_name_that_is_read() {
        for price in Price::ALL.into_iter().filter(|price| price.is_memory()) {
            for side in price.ratios().into_iter().flat_map(|ratio| [ratio.of, ratio.to]) {
                assert_eq!(side.name().parse(), Ok(side));
            }
        }
    }

    #[test]
    fn targets_are_reached_on_their_own_side() {
        assert!(Target::AtMost(4.5).is_reached(4.5) && !Target::AtMost(4.5).is_reached(4.6));
        assert!(Target::AtLeast(1.8).is_reached(1.8) && !Target::AtLeast(1.8).is_reached(1.7));
    }
}

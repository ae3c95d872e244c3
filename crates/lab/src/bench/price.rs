//! The price of in-context learning: what an answer takes against a plain forward pass of the
//! query's prompt by this engine, against other ways to answer, and against llama.cpp and PyTorch.
//!
//! In: nothing but this list. Out: the rows, which ratios of which sides are taken and what they
//! must reach. `run` measures them, on what `ready` holds.

mod cached;
mod llama;
mod peak;
mod ready;
mod run;
mod sides;
mod torch;
mod words;

pub(crate) use peak::child;
pub(super) use ready::Models;
pub(super) use run::Priced;
pub(crate) use sides::Side;

use super::works::Work;
use crate::error::Error;
use sides::{Answering, Asking, Ratio};
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
    /// 500 examples of 20 tokens, of which a prompt shows a few.
    Rows,
    /// 10 examples of 30 tokens, here and in PyTorch.
    Torch,
    /// A plain forward pass here and in llama.cpp.
    Llama,
    /// Peak memory, 10 examples of 30 tokens.
    Memory,
}

impl Price {
    /// All rows, as they stand in the table.
    pub(crate) const ALL: [Self; 7] = [
        Self::Ten,
        Self::SixtyFour,
        Self::Further,
        Self::Rows,
        Self::Torch,
        Self::Llama,
        Self::Memory,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ten => "icl-10",
            Self::SixtyFour => "icl-64",
            Self::Further => "icl-further",
            Self::Rows => "icl-rows",
            Self::Torch => "icl-torch",
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
            Self::Rows => "500 examples of 20 tokens, 8 of them shown",
            Self::Torch => "10 examples of 30 tokens, tree, in PyTorch",
            Self::Llama => "a prompt of 300 tokens",
            Self::Memory => "peak memory, 10 examples of 30 tokens",
        }
    }

    /// The ratios that are taken; what they are made of is measured.
    fn ratios(self) -> Vec<Ratio> {
        use Answering::{Local, LocalPrefix, LocalShots, Whole};
        use Asking::{Alone, Together};
        use Side::{Answer, Behind, Further, Llama, Plain, Quantised, Torch};
        use sides::Target::{AtLeast, AtMost, Under};
        let answers = |plain: f64, whole: f64| {
            vec![
                Ratio::new(Answer(Local), Plain, Some(AtMost(plain))),
                Ratio::new(Answer(LocalPrefix), Plain, Some(AtMost(2.5))),
                Ratio::new(Answer(Whole), Answer(Local), Some(AtLeast(whole))),
            ]
        };
        match self {
            Self::Ten => answers(4.5, 2.5),
            Self::SixtyFour => answers(8.0, 5.0),
            Self::Further => vec![
                Ratio::new(Further(Together), Behind(Together), Some(AtMost(1.3))),
                Ratio::new(Further(Alone), Behind(Alone), Some(AtMost(1.3))),
            ],
            Self::Rows => {
                vec![Ratio::new(Answer(LocalShots), Behind(Together), Some(Under(3.0)))]
            }
            Self::Torch => {
                let ratio = Ratio::new(Torch, Answer(Local), None);
                vec![ratio, ratio.on_all()]
            }
            Self::Llama => {
                let dequantised = Ratio::new(Llama, Plain, Some(AtLeast(1.8)));
                let quantised = Ratio::new(Llama, Quantised, None);
                vec![dequantised, dequantised.on_all(), quantised, quantised.on_all()]
            }
            Self::Memory => vec![
                Ratio::new(Answer(Local), Answer(Whole), Some(AtMost(0.5))),
                Ratio::new(Answer(Local), Plain, None),
            ],
        }
    }

    fn is_memory(self) -> bool {
        self == Self::Memory
    }

    /// Its sizes.
    fn sizes(self, quick: bool) -> Sizes {
        let (examples, tokens) = match (self, quick) {
            (Self::SixtyFour, false) => (64, 20),
            (Self::Rows, false) => (500, 20),
            (_, false) => (10, 30),
            (Self::Rows, true) => (12, 5),
            (_, true) => (4, 5),
        };
        let further = match (self, quick) {
            (Self::Further, false) => 50,
            (Self::Further, true) => 3,
            _ => 0,
        };
        Sizes { examples, tokens, further }
    }

    /// How its prompts are put together.
    fn reading(self) -> Answering {
        if self == Self::Rows { Answering::LocalShots } else { Answering::Local }
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
pub(crate) enum RowName {
    Work(Work),
    Price(Price),
    Prices,
}

impl FromStr for RowName {
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
            assert_eq!(price.to_string().parse(), Ok(RowName::Price(price)));
        }
        assert_eq!("icl".parse(), Ok(RowName::Prices));
        assert_eq!("many".parse(), Ok(RowName::Work(Work::Many)));
        let refused = "icl-9".parse::<RowName>();
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
}

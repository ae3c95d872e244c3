//! What is measured: the rows of the table, their shapes and what must be reached.

use crate::error::Error;
use fewstep_engine::Order;
use std::fmt;
use std::str::FromStr;

/// The number of steps of every work that takes some.
pub(super) const STEPS: usize = 8;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Observe and decide, prompts of about 40 tokens.
    Observe,
    /// The same and eight steps, examples in the order of the task.
    Steps,
    /// The same in tree order.
    StepsTree,
    /// Observe, decide, and the steps of the linearised model.
    Linear,
    /// SmolLM2 with prompts of about 250 tokens, in tree order.
    SmolLm2,
    /// 64 examples of 20 tokens, in tree order.
    Many,
    /// 100 further queries on one prompt, under the update.
    Further,
    /// Peak memory for prompts of about 40 tokens.
    Memory40,
    /// Peak memory for prompts of about 250 tokens.
    Memory250,
}

impl Work {
    /// All rows, as they stand in the table.
    pub(crate) const ALL: [Self; 9] = [
        Self::Observe,
        Self::Steps,
        Self::StepsTree,
        Self::Linear,
        Self::SmolLm2,
        Self::Many,
        Self::Further,
        Self::Memory40,
        Self::Memory250,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Steps => "steps",
            Self::StepsTree => "steps-tree",
            Self::Linear => "linear",
            Self::SmolLm2 => "smollm2",
            Self::Many => "many",
            Self::Further => "further",
            Self::Memory40 => "memory-40",
            Self::Memory250 => "memory-250",
        }
    }

    /// What it is, for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Observe => "observe + decide, 40-token prompts",
            Self::Steps => "… + 8 steps, original order",
            Self::StepsTree => "… + 8 steps, tree order",
            Self::Linear => "… linear dynamics for steps",
            Self::SmolLm2 => "SmolLM2, 250 tokens, 8 steps, tree",
            Self::Many => "n = 64, 20 tokens each, 8 steps, tree",
            Self::Further => "100 further queries, each",
            Self::Memory40 => "peak memory, 40-token prompts",
            Self::Memory250 => "peak memory, 250-token prompts",
        }
    }

    /// Whether it is about memory, and not about time.
    pub(super) fn is_memory(self) -> bool {
        matches!(self, Self::Memory40 | Self::Memory250)
    }

    /// The ways in PyTorch that it is compared with and what must be reached: so many times as
    /// fast, or at most so much of the memory. Without a number nothing is asked.
    pub(super) fn targets(self) -> &'static [(Variant, Option<f64>)] {
        use Variant::{Expert, HuggingFace, HuggingFaceCache, Plain};
        match self {
            Self::Observe => {
                &[(Plain, Some(5.0)), (HuggingFace, Some(1.6)), (Expert, Some(1.5))]
            }
            Self::Steps => &[(Plain, Some(3.5)), (HuggingFace, Some(2.4)), (Expert, Some(1.7))],
            Self::StepsTree => {
                &[(Plain, Some(5.0)), (HuggingFace, Some(3.2)), (Expert, Some(2.3))]
            }
            Self::Linear => {
                &[(Plain, Some(12.0)), (HuggingFace, Some(8.0)), (Expert, Some(5.0))]
            }
            Self::SmolLm2 => &[(HuggingFace, Some(3.0))],
            Self::Many => &[(HuggingFace, Some(5.0))],
            Self::Further => &[(HuggingFace, Some(10.0)), (HuggingFaceCache, None)],
            Self::Memory40 | Self::Memory250 => {
                &[(Plain, Some(0.25)), (HuggingFace, Some(0.5)), (Expert, Some(1.0))]
            }
        }
    }

    /// Its sizes.
    pub(super) fn shape(self, quick: bool) -> Shape {
        let order = match self {
            Self::StepsTree | Self::SmolLm2 | Self::Many => Order::Tree,
            _ => Order::Original,
        };
        let action = match self {
            Self::Observe => Action::Observe,
            Self::Linear => Action::Linear,
            Self::Further => Action::Further,
            _ => Action::Steps,
        };
        let model = if self == Self::SmolLm2 { ModelKind::SmolLm2 } else { ModelKind::Gpt2 };
        let (examples, tokens) = match (self, quick) {
            (Self::SmolLm2 | Self::Memory250, false) => (10, 25),
            (Self::Many, false) => (64, 20),
            (_, false) => (10, 4),
            (Self::Many, true) => (6, 3),
            (Self::SmolLm2 | Self::Memory250, true) => (4, 6),
            (_, true) => (4, 4),
        };
        let further = match (self, quick) {
            (Self::Further, false) => 100,
            (Self::Further, true) => 5,
            _ => 0,
        };
        Shape { model, examples, tokens, order, action, further }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|work| work.name() == text);
        found.ok_or_else(|| Error::UnknownWork { found: text.to_owned() })
    }
}

/// A way to do the work in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    HuggingFace,
    /// With a cache of keys and values, for further queries.
    HuggingFaceCache,
    Expert,
}

impl Variant {
    /// What the worker calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::HuggingFace => "hugging-face",
            Self::HuggingFaceCache => "hugging-face-cache",
            Self::Expert => "expert",
        }
    }
}

/// Which model a work runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelKind {
    /// Random weights in the shape of distilgpt2.
    Gpt2,
    /// SmolLM2-135M, or random weights in the Llama family where that is too large.
    SmolLm2,
}

/// What is done with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Observe,
    Steps,
    Linear,
    Further,
}

impl Action {
    /// What the worker calls that with which it is compared.
    pub(super) fn of_worker(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Steps | Self::Linear => "steps",
            Self::Further => "further",
        }
    }
}

/// The sizes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) model: ModelKind,
    pub(super) examples: usize,
    /// Of each example, its label included.
    pub(super) tokens: usize,
    pub(super) order: Order,
    pub(super) action: Action,
    /// Further queries.
    pub(super) further: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_are_read_by_their_names() {
        for work in Work::ALL {
            assert_eq!(work.to_string().parse::<Work>(), Ok(work));
        }
        let refused = "step".parse::<Work>();
        assert_eq!(refused, Err(Error::UnknownWork { found: "step".to_owned() }));
    }
}

//! In which order a leave-one-out prompt shows the other examples.
//!
//! In: the number of examples, and which one is held out. Out: the others in the order they are
//! shown in. The query's prompt is not built here: it shows all examples in the order of the task.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// In which order leave-one-out prompts show the other examples.
///
/// | name | order |
/// |---|---|
/// | `original` | that of the task |
/// | `tree` | far ones first: the prompts of each half begin with the whole other half, and so on within the half |
///
/// Prompts are computed once where they begin with the same examples. In the order of the task
/// that leaves about `n²/2` of the `n²` examples in all prompts, in tree order about `n log₂ n`.
/// Every prompt shows the same examples in both orders, but a model may answer differently.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Order};
///
/// assert_eq!("tree".parse::<Order>()?, Order::Tree);
/// assert_eq!(Order::default().to_string(), "original");
/// assert_eq!("half".parse::<Order>(), Err(Error::UnknownOrder { found: "half".to_owned() }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the task.
    #[default]
    Original,
    /// Half by half, so that prompts begin alike for as long as they can.
    Tree,
}

impl Order {
    const ALL: [Self; 2] = [Self::Original, Self::Tree];

    fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Tree => "tree",
        }
    }

    /// The examples `0..examples` without `own`, in the order its prompt shows them in.
    pub(crate) fn others(self, own: usize, examples: usize) -> Vec<usize> {
        match self {
            Self::Original => (0..own).chain(own + 1..examples).collect(),
            Self::Tree => {
                let mut others = Vec::with_capacity(examples);
                let mut rest = 0..examples;
                while rest.len() > 1 {
                    let middle = rest.start + rest.len() / 2;
                    if own < middle {
                        others.extend(middle..rest.end);
                        rest.end = middle;
                    } else {
                        others.extend(rest.start..middle);
                        rest.start = middle;
                    }
                }
                others
            }
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|order| order.name() == text);
        found.ok_or_else(|| Error::UnknownOrder { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(order: Order, examples: usize) -> Vec<Vec<usize>> {
        (0..examples).map(|own| order.others(own, examples)).collect()
    }

    #[test]
    fn orders_are_those_written_by_hand() {
        let five = [[1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3]];
        assert_eq!(orders(Order::Original, 5), five);
        let five = [[2, 3, 4, 1], [2, 3, 4, 0], [0, 1, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3]];
        assert_eq!(orders(Order::Tree, 5), five);
        // Two or three examples leave nothing to choose.
        for few in [2, 3] {
            assert_eq!(orders(Order::Tree, few), orders(Order::Original, few));
        }
    }

    /// Halves of halves of a power of two: who is how far away is the highest bit that differs.
    #[test]
    fn far_examples_come_first() {
        for examples in [2, 4, 8, 64] {
            for (own, found) in orders(Order::Tree, examples).iter().enumerate() {
                let mut expected: Vec<usize> =
                    (0..examples).filter(|&other| other != own).collect();
                expected.sort_by_key(|other| ((other ^ own).leading_zeros(), *other));
                assert_eq!(*found, expected, "{own} of {examples}");
            }
        }
    }

    #[test]
    fn a_prompt_shows_every_other_example_once() {
        for order in Order::ALL {
            assert_eq!(order.to_string().parse(), Ok(order));
            for examples in 2..70 {
                for (own, mut others) in orders(order, examples).into_iter().enumerate() {
                    others.push(own);
                    others.sort_unstable();
                    assert!(others.into_iter().eq(0..examples), "{order}, {own} of {examples}");
                }
            }
        }
    }
}

//! Which examples each prompt of a task shows, and in which order.
//!
//! In: the examples' answers, and what is asked for: how many examples a prompt may show, and what an
//! example is predicted behind. Out: [`Arrangement`], for every example and the query the list of
//! examples before it. No example is ever before itself.

use crate::order::Order;
use fewstep_core::{Residuals, Rng};
use std::collections::BTreeMap;

/// What every prompt shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrangement {
    /// The examples that the query's prompt shows, in the order of the task.
    shots: Vec<usize>,
    examples: usize,
    residuals: Residuals,
    order: Order,
}

impl Arrangement {
    pub(crate) fn new(
        mut shots: Vec<usize>,
        examples: usize,
        residuals: Residuals,
        order: Order,
    ) -> Self {
        shots.sort_unstable();
        Self { shots, examples, residuals, order }
    }

    /// What stands before the query, and before examples that are not shown.
    pub(crate) fn shots(&self) -> &[usize] {
        &self.shots
    }

    /// What stands before an example.
    pub(crate) fn before(&self, example: usize) -> Vec<usize> {
        let Ok(place) = self.shots.binary_search(&example) else { return self.shots.clone() };
        let places = match self.residuals {
            Residuals::LeaveOneOut => self.order.others(place, self.shots.len()),
            Residuals::Prefix { orders } => behind(place, self.shots.len(), orders),
        };
        places.into_iter().map(|place| self.shots[place]).collect()
    }

    /// Whether an example's prompt may serve as the beginning of the next one, which shows it.
    ///
    /// Leave-one-out prompts share nothing of an example's own, so that no answer changes how its
    /// prediction is summed.
    pub(crate) fn begins_next(&self) -> bool {
        matches!(self.residuals, Residuals::Prefix { .. })
    }

    /// The examples in the order in which neighbours share most: those that are shown, then the
    /// others, which all stand behind the same.
    pub(crate) fn packing(&self) -> Vec<usize> {
        let others =
            (0..self.examples).filter(|other| self.shots.binary_search(other).is_err());
        self.shots.iter().copied().chain(others).collect()
    }
}

/// The places before one of `count`, if they are taken in `orders` orders: each puts another stretch of
/// them last, and a place is looked up in the order that has its own stretch there.
///
/// With one order these are the places before it; with two, the second half exchanged with the first.
fn behind(place: usize, count: usize, orders: usize) -> Vec<usize> {
    let orders = orders.clamp(1, count);
    let first = |stretch: usize| stretch * count / orders;
    let own = (0..orders).rfind(|&stretch| first(stretch) <= place).unwrap_or(0);
    let after = first(own + 1)..count;
    after.chain(0..place).collect()
}

/// Examples in a random order that takes every answer in turn, so that however many of them are taken
/// from the front, all answers are there about equally often.
pub(crate) fn spread(answers: &[&str], seed: u64) -> Vec<usize> {
    let mut rng = Rng::new(seed);
    let mut by_answer: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (example, answer) in answers.iter().enumerate() {
        by_answer.entry(answer).or_default().push(example);
    }
    let mut groups: Vec<Vec<usize>> = by_answer.into_values().collect();
    shuffle(&mut groups, &mut rng);
    for group in &mut groups {
        shuffle(group, &mut rng);
    }
    let longest = groups.iter().map(Vec::len).max().unwrap_or(0);
    let turn = |round: usize| groups.iter().filter_map(move |group| group.get(round).copied());
    (0..longest).flat_map(turn).collect()
}

fn shuffle<T>(values: &mut [T], rng: &mut Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, rng.below(last + 1));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod tests {
    use super::*;

    fn prefix(count: usize, orders: usize) -> Arrangement {
        let residuals = Residuals::Prefix { orders };
        Arrangement::new((0..count).collect(), count, residuals, Order::Original)
    }

    #[test]
    fn two_orders_exchange_the_halves() {
        let all: Vec<Vec<usize>> = (0..5).map(|place| prefix(5, 2).before(place)).collect();
        let expected: [&[usize]; 5] =
            [&[2, 3, 4], &[2, 3, 4, 0], &[0, 1], &[0, 1, 2], &[0, 1, 2, 3]];
        assert_eq!(all, expected);
        assert_eq!(prefix(4, 1).before(2), [0, 1]);
    }

    /// With `k` orders every example stands behind at least `1 − 1/k` of the others, and with as many
    /// orders as examples behind all of them.
    #[test]
    fn more_orders_put_more_before_each() {
        for count in 1..20 {
            for orders in 1..=count + 2 {
                for place in 0..count {
                    let mut before = prefix(count, orders).before(place);
                    assert!(!before.contains(&place));
                    let most = count.div_ceil(orders.min(count));
                    assert!(before.len() >= count - most, "{count} {orders} {place}");
                    if orders >= count {
                        assert_eq!(before.len(), count - 1);
                    }
                    before.sort_unstable();
                    before.dedup();
                    assert!(before.len() < count, "each is there once");
                }
            }
        }
    }

    #[test]
    fn what_is_not_shown_stands_behind_all_that_is() {
        let shots = vec![4, 1];
        let some = Arrangement::new(shots, 5, Residuals::LeaveOneOut, Order::Original);
        assert_eq!((some.before(4), some.before(1)), (vec![1], vec![4]));
        for other in [0, 2, 3] {
            assert_eq!(some.before(other), [1, 4]);
        }
        assert_eq!(some.packing(), [1, 4, 0, 2, 3]);
    }

    #[test]
    fn answers_take_turns() {
        let answers = ["a", "b", "a", "a", "c", "b", "a"];
        for seed in 0..20 {
            let order = spread(&answers, seed);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
            let mut first: Vec<&str> = order[..3].iter().map(|&at| answers[at]).collect();
            first.sort_unstable();
            assert_eq!(first, ["a", "b", "c"]);
        }
        assert_ne!(spread(&answers, 1), spread(&answers, 2));
    }
}

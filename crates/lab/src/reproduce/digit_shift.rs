//! The tasks of Exp. 1 and 2: a hidden shift, ten pairs of digits, clean or noisy (App. I).
//!
//! In: a seed and the number of a task. Out: [`Drawn`], with the prediction that no other beats.

use super::settings::{Stream, rng};
use crate::digit_maps::{DIGITS, DigitMap, Prior, value};
use fewstep_core::Rng;
use fewstep_engine::{Query, Task};
use serde::{Deserialize, Serialize};

/// Examples per task.
pub const EXAMPLES: usize = 10;

/// How many of a task's labels are replaced.
///
/// # Examples
///
/// See [`draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    /// None.
    Clean,
    /// Each with probability 0.55.
    Noisy,
}

/// The exact Bayes prediction of a task: its value and what is left of its error.
///
/// # Examples
///
/// See [`draw`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bayes {
    /// `E(Y | prompt, query)`.
    pub mean: f64,
    /// `Var(Y | prompt, query)`.
    pub variance: f64,
}

/// A task with all that is known about it.
///
/// # Examples
///
/// See [`draw`].
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// What the model sees; the query's label is clean.
    pub task: Task,
    /// Further queries on the same examples, with their labels; each another one.
    pub further: Vec<Query>,
    /// The value of the query's label.
    pub target: f64,
    /// Whether labels were replaced; `None` for sentences.
    pub regime: Option<Regime>,
    /// The shift, if there is one.
    pub shift: Option<usize>,
    /// The best prediction, where it is known.
    pub bayes: Option<Bayes>,
}

/// Draws a test task by its number.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::digit_shift::draw;
///
/// let drawn = draw(0, 17, ", ");
/// assert_eq!(drawn.task.examples.len(), 10);
/// assert_eq!(drawn, draw(0, 17, ", "));
/// assert_ne!(drawn.task, draw(1, 17, ", ").task);
/// // What the pairs say about the shift is weighed exactly.
/// let bayes = drawn.bayes.expect("digits have an exact prediction");
/// assert!((0.0..=1.0).contains(&bayes.mean) && bayes.variance >= 0.0);
/// assert!(drawn.regime.is_some());
/// ```
#[must_use]
pub fn draw(seed: u64, number: usize, separator: &str) -> Drawn {
    draw_from(seed, Stream::Test, number, separator)
}

/// Draws a task that is no test task.
pub(crate) fn draw_from(seed: u64, stream: Stream, number: usize, separator: &str) -> Drawn {
    let mut rng = rng(seed, stream, number);
    let prior = Prior::paper();
    let map: DigitMap = prior.draw(EXAMPLES, &mut rng);
    let x = rng.below(DIGITS);
    let (mean, variance) = prior.predict_clean(&map.pairs, x);
    let mut task = map.task(&format!("digit-shift-{seed}-{number}"), x);
    task.separator = separator.to_owned();
    Drawn {
        task,
        further: vec![],
        target: value((x + map.shift) % DIGITS),
        regime: Some(if map.noise > 0.0 { Regime::Noisy } else { Regime::Clean }),
        shift: Some(map.shift),
        bayes: Some(Bayes { mean, variance }),
    }
}

/// So many different numbers out of `0..limit`, in random order, none of which is taken; as many as
/// there are if these are fewer.
pub(super) fn others(count: usize, limit: usize, taken: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut taken = taken.to_vec();
    taken.sort_unstable();
    // Numbers among those that are left, moved past every taken one from the lowest on.
    let past = |number| taken.iter().fold(number, |at, &other| at + usize::from(at >= other));
    rng.choose(count, limit - taken.len()).into_iter().map(past).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digit(text: &str) -> usize {
        text.parse().unwrap()
    }

    /// The difference of a count from what is expected, in standard errors.
    fn apart(count: usize, of: usize, share: f64) -> f64 {
        let of = of as f64;
        (count as f64 - of * share).abs() / (of * share * (1.0 - share)).sqrt()
    }

    /// App. I: shifts and digits are uniform, regimes and templates are coins, 55 % of noisy
    /// labels are replaced by a uniform digit, and queries are clean.
    #[test]
    fn tasks_are_drawn_as_stated() {
        let tasks: Vec<Drawn> = (0..4000).map(|number| draw(3, number, "\n")).collect();
        let count = |of: &dyn Fn(&Drawn) -> bool| tasks.iter().filter(|task| of(task)).count();
        for wanted in 0..DIGITS {
            assert!(apart(count(&|t| t.shift == Some(wanted)), 4000, 0.1) < 4.0);
            assert!(apart(count(&|t| digit(&t.task.query.x) == wanted), 4000, 0.1) < 4.0);
        }
        let noisy = count(&|t| t.regime == Some(Regime::Noisy));
        assert!(apart(noisy, 4000, 0.5) < 4.0, "{noisy} noisy");
        let arrows = count(&|t| t.task.template == "{x}->{y}");
        let colons = count(&|t| t.task.template == "{x}:{y}");
        assert!(apart(arrows, 4000, 0.5) < 4.0 && arrows + colons == 4000);
        let (mut right, mut pairs, mut wrong) = (0, 0, [0_usize; DIGITS]);
        for drawn in &tasks {
            let shift = drawn.shift.unwrap();
            let asked = digit(&drawn.task.query.x);
            let answer = digit(drawn.task.query.y.as_ref().unwrap());
            assert_eq!(answer, (asked + shift) % DIGITS, "the query is clean");
            assert_eq!(drawn.target.to_bits(), value(answer).to_bits());
            for example in &drawn.task.examples {
                let (x, y) = (digit(&example.x), digit(&example.y));
                let difference = (y + 2 * DIGITS - x - shift) % DIGITS;
                if drawn.regime == Some(Regime::Clean) {
                    assert_eq!(difference, 0);
                    continue;
                }
                pairs += 1;
                right += usize::from(difference == 0);
                wrong[difference] += 1;
            }
        }
        // A tenth of the replacements hits the right digit.
        assert!(apart(right, pairs, 0.45 + 0.055) < 4.0, "{right} of {pairs}");
        for (difference, &count) in wrong.iter().enumerate().skip(1) {
            assert!(apart(count, pairs, 0.055) < 4.0, "{difference}: {count} of {pairs}");
        }
    }

    /// Digits within a prompt are independent: two neighbours agree in one of ten prompts.
    #[test]
    fn inputs_are_drawn_with_replacement() {
        let agree = (0..4000)
            .filter(|&number| {
                let examples = draw(9, number, "\n").task.examples;
                examples[0].x == examples[1].x
            })
            .count();
        assert!(apart(agree, 4000, 0.1) < 4.0, "{agree}");
    }

    #[test]
    fn other_numbers_are_none_that_is_taken_and_every_other_one() {
        let taken = [7, 0, 3, 4];
        let mut met = [0_usize; 10];
        for seed in 0..600 {
            let mut found = others(3, 10, &taken, &mut Rng::new(seed));
            found.iter().for_each(|&number| met[number] += 1);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 3);
        }
        assert!(taken.iter().all(|&number| met[number] == 0), "{met:?}");
        for number in [1, 2, 5, 6, 8, 9] {
            assert!(apart(met[number], 600, 0.5) < 4.0, "{met:?}");
        }
        let mut all = others(6, 10, &taken, &mut Rng::new(0));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 5, 6, 8, 9]);
    }

    #[test]
    fn pilot_and_test_tasks_differ_and_only_the_text_depends_on_the_separator() {
        let test = draw(0, 0, "\n");
        assert_ne!(test.task, draw_from(0, Stream::Pilot, 0, "\n").task);
        let mut other = draw(0, 0, ", ");
        other.task.separator = "\n".to_owned();
        assert_eq!(other, test);
    }

    /// Over many tasks (Prop. 2.1) the exact prediction errs by its own variance.
    #[test]
    fn the_bayes_prediction_errs_by_the_posterior_variance() {
        let differences: Vec<f64> = (0..20_000)
            .map(|number| {
                let drawn = draw(1, number, "\n");
                let bayes = drawn.bayes.unwrap();
                (drawn.target - bayes.mean).powi(2) - bayes.variance
            })
            .collect();
        let mean = crate::assessment::Mean::of(&differences);
        assert!(mean.mean.abs() < 4.0 * mean.error, "{mean:?}");
    }
}

//! Which examples are held out together.
//!
//! In: the examples' answers and [`Folds`]. Out: a fold for each example.

use crate::policy::Folds;
use crate::rng::Rng;

/// The fold of each example, and their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldOut {
    pub(super) fold_of: Vec<usize>,
    pub(super) folds: usize,
}

impl HeldOut {
    /// Each example alone where they are few; else folds with about the same number of examples of
    /// every label, and of examples in all.
    pub(super) fn of(answers: &[usize], classes: usize, rule: Folds) -> Self {
        let n = answers.len();
        let folds = rule.of(n);
        if folds == n {
            return Self { fold_of: (0..n).collect(), folds };
        }
        let mut rng = Rng::new(rule.seed);
        let mut fold_of = vec![0; n];
        // Dealt round, label by label, without starting again: sizes differ by one at most.
        let mut dealt = 0;
        for label in 0..classes {
            let those: Vec<usize> = (0..n).filter(|&i| answers[i] == label).collect();
            for place in rng.choose(those.len(), those.len()) {
                fold_of[those[place]] = dealt % folds;
                dealt += 1;
            }
        }
        Self { fold_of, folds }
    }
}

//! Rules on the tasks of one kind: what each gains, what it risks, and against what.
//!
//! In: [`Case`]s. Out: [`Judged`] per rule. Gains are shares of what the best number of steps for
//! each single task would gain over no adaptation: nobody can know it, so a share of 1 is out of
//! reach; it makes kinds with large and small errors comparable.

use super::super::methods::Dynamics;
use super::super::statistics::Paired;
use super::candidates::{Past, Rule};
use super::case::Case;
use crate::error::Error;

/// The paper's rule: the best evidence up to thirty steps.
const PAPER: Rule = Rule::Evidence(30);

/// The cases of one kind, with what every rule is measured by.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    cases: Vec<&'a Case>,
    dynamics: Dynamics,
    /// Squared errors without adaptation, task by task.
    pub(crate) untouched: Vec<f64>,
    /// With the best number of steps for each task.
    pub(crate) oracle: Vec<f64>,
    /// The best number of steps for all, and its errors.
    pub(crate) hindsight: (usize, Vec<f64>),
    /// With the paper's rule.
    pub(crate) paper: Vec<f64>,
}

/// A rule or a whole decision on the tasks of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// The share of the oracle's gain.
    pub(crate) share: f64,
    /// By how much it errs less than no adaptation.
    pub(crate) gain: Paired,
    /// By how much it errs less than the best fixed number of steps.
    pub(crate) over_hindsight: Paired,
    /// By how much it errs less than the paper's rule.
    pub(crate) over_paper: Paired,
    /// The share of tasks on which it errs more than no adaptation.
    pub(crate) hurt: f64,
}

impl<'a> Field<'a> {
    pub(crate) fn new(cases: &'a [Case], dynamics: Dynamics) -> Result<Self, Error> {
        let cases: Vec<&Case> =
            cases.iter().filter(|case| !case.errors(dynamics).is_empty()).collect();
        let errors: Vec<Vec<f64>> = cases.iter().map(|case| case.errors(dynamics)).collect();
        let longest = errors.iter().map(Vec::len).min().unwrap_or(1);
        let total = |steps: usize| errors.iter().map(|task| task[steps]).sum::<f64>();
        let best = (0..longest).min_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0);
        let at = |steps: usize| errors.iter().map(|task| task[steps]).collect();
        let least = |task: &Vec<f64>| task.iter().copied().fold(f64::INFINITY, f64::min);
        let mut field = Self {
            dynamics,
            untouched: at(0),
            oracle: errors.iter().map(least).collect(),
            hindsight: (best, at(best)),
            paper: vec![],
            cases,
        };
        field.paper = field.errors(PAPER)?;
        Ok(field)
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.cases.len()
    }

    /// Squared errors of a rule, task by task.
    pub(crate) fn errors(&self, rule: Rule) -> Result<Vec<f64>, Error> {
        let cases = self.cases.iter().zip(&self.untouched);
        let mut past = Past::default();
        let error = |(case, untouched): (&&Case, &f64)| match &case.seen {
            Some(seen) => Ok(case.error(&rule.weights_after(&mut past, seen)?, self.dynamics)),
            None => Ok(*untouched),
        };
        cases.map(error).collect()
    }

    /// The share of the oracle's gain that errors like these are.
    pub(crate) fn share(&self, errors: &[f64]) -> f64 {
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        let possible = sum(&self.untouched) - sum(&self.oracle);
        if possible > 0.0 { (sum(&self.untouched) - sum(errors)) / possible } else { 0.0 }
    }

    /// The names of whole decisions that were carried out for all tasks.
    pub(crate) fn ways(&self) -> Vec<String> {
        let Some(first) = self.cases.first() else { return vec![] };
        let went = |case: &&Case, way: &str| case.way_error(way, self.dynamics).is_some();
        let all = |way: &&str| self.cases.iter().all(|case| went(case, way));
        first.ways().filter(all).map(str::to_owned).collect()
    }

    /// Squared errors of one of them, task by task.
    pub(crate) fn way_errors(&self, way: &str) -> Vec<f64> {
        self.cases.iter().filter_map(|case| case.way_error(way, self.dynamics)).collect()
    }

    /// Everything about errors like these.
    pub(crate) fn judge(&self, errors: &[f64], seed: u64) -> Judged {
        let count = self.len().max(1) as f64;
        let worse = errors.iter().zip(&self.untouched).filter(|(error, base)| error > base);
        Judged {
            share: self.share(errors),
            gain: Paired::improvement(&self.untouched, errors, seed),
            over_hindsight: Paired::improvement(&self.hindsight.1, errors, seed),
            over_paper: Paired::improvement(&self.paper, errors, seed),
            hurt: worse.count() as f64 / count,
        }
    }
}

impl Judged {
    /// The upper end of what it may cost, as a share of the error without adaptation.
    pub(crate) fn harm(&self, field: &Field<'_>) -> f64 {
        let error = field.untouched.iter().sum::<f64>() / field.len().max(1) as f64;
        if error > 0.0 { -self.gain.low / error } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::case;
    use super::*;

    /// Two tasks whose prediction moves from 0 by a tenth per step; one should stop at 0.2, the
    /// other at 0.4.
    #[test]
    fn gains_are_shares_of_what_the_best_steps_of_each_task_gain() {
        let cases = [case(0.2, 0.1, 4), case(0.4, 0.1, 4)];
        let field = Field::new(&cases, Dynamics::Steps).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(field.untouched[0], 0.04) && close(field.untouched[1], 0.16));
        assert!(field.oracle.iter().all(|&error| close(error, 0.0)));
        // (0.2 − T/10)² + (0.4 − T/10)² is smallest at 3.
        assert_eq!(field.hindsight.0, 3);
        assert!(close(field.share(&field.hindsight.1), 0.9));
        let judge = |field: &Field<'_>, rule| field.judge(&field.errors(rule).unwrap(), 0);
        let two = judge(&field, Rule::Fixed(2));
        assert!(close(two.share, 0.8) && close(two.gain.difference.mean, 0.08));
        assert!(close(two.over_hindsight.difference.mean, -0.01));
        assert!(close(two.hurt, 0.0) && two.harm(&field) < 0.0);
        let none = judge(&field, Rule::Fixed(0));
        assert!(close(none.share, 0.0) && close(none.harm(&field), 0.0));
        // Too far for the first: 0.5 instead of 0.2.
        let one = [case(0.2, 0.1, 6)];
        let five = judge(&Field::new(&one, Dynamics::Steps).unwrap(), Rule::Fixed(5));
        assert!(close(five.hurt, 1.0) && close(five.gain.difference.mean, 0.04 - 0.09));
    }

    /// A decision that led to 0.25 errs by 0.05² and 0.15²; the paper's rule as its own steps do.
    #[test]
    fn whole_decisions_are_judged_beside_rules() {
        let cases = [case(0.2, 0.1, 4), case(0.4, 0.1, 4)];
        let field = Field::new(&cases, Dynamics::Steps).unwrap();
        assert_eq!(field.ways(), ["straight"]);
        let linear = Field::new(&cases, Dynamics::Linear).unwrap().way_errors("straight");
        assert!(linear[0].abs() < 1e-12 && (linear[1] - 0.04).abs() < 1e-12);
        let errors = field.way_errors("straight");
        assert!((errors[0] - 0.0025).abs() < 1e-12 && (errors[1] - 0.0225).abs() < 1e-12);
        let (judged, paper) = (field.judge(&errors, 0), field.errors(PAPER).unwrap());
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / 2.0;
        let over = judged.over_paper.difference.mean;
        assert!((over - (mean(&paper) - 0.0125)).abs() < 1e-12, "{paper:?}");
        let own = field.judge(&paper, 0).over_paper.difference.mean;
        assert!(own.abs() < 1e-15 && over.abs() > 1e-3);
    }

    #[test]
    fn tasks_without_steps_are_judged_by_linear_dynamics_alone() {
        let mut bare = case(0.2, 0.1, 4);
        bare.forget_steps();
        let cases = [bare];
        assert_eq!(Field::new(&cases, Dynamics::Steps).unwrap().len(), 0);
        assert_eq!(Field::new(&cases, Dynamics::Linear).unwrap().len(), 1);
    }
}

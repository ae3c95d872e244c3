//! Rules on the tasks of one family: what each gains, what it risks, and against what.
//!
//! In: [`Case`]s. Out: [`Judged`] per rule. Gains are shares of the per-query oracle's gain over no
//! adaptation: nobody can know it, so a share of 1 is out of reach; it makes families with large
//! and small errors comparable.

use super::super::statistics::Paired;
use super::candidates::Rule;
use super::case::Case;
use crate::error::Error;
use fewstep::Dynamics;

/// The paper's rule: the best evidence up to thirty steps.
const PAPER: Rule = Rule::Evidence;

/// Squared errors of every single query, prompt by prompt.
pub(crate) type Errors = Vec<Vec<f64>>;

/// The mean over the queries of each prompt. Queries on one prompt err alike; prompts are drawn
/// independently, and they are what intervals draw again.
pub(crate) fn means(errors: &[Vec<f64>]) -> Vec<f64> {
    let mean = |prompt: &Vec<f64>| prompt.iter().sum::<f64>() / prompt.len().max(1) as f64;
    errors.iter().map(mean).collect()
}

/// The cases of one family, with what every rule is measured by: means over the queries of a prompt.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// The queries of every prompt.
    prompts: Vec<Vec<&'a Case>>,
    dynamics: Dynamics,
    /// Squared errors without adaptation, query by query.
    alone: Errors,
    /// The same, prompt by prompt.
    pub(crate) untouched: Vec<f64>,
    /// With the best number of steps for each single query.
    pub(crate) oracle: Vec<f64>,
    /// With the best number of steps for each prompt, the same for all its queries: as far as a rule
    /// can come that sees the prompt alone.
    pub(crate) prompt_oracle: Vec<f64>,
    /// With the number of steps that is best for the other half of the queries of each prompt: what
    /// there is to gain by a number that is found with as many further answers, none of them the one
    /// that is asked for. Of a single query there is no other half, and the model is left alone.
    pub(crate) half_known: Vec<f64>,
    /// The best number of steps for all, and its errors.
    pub(crate) hindsight: (usize, Vec<f64>),
    /// With the paper's rule.
    pub(crate) paper: Vec<f64>,
}

/// A rule or a whole policy on the tasks of one family.
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
    /// The share of single predictions that err more than without adaptation.
    pub(crate) hurt: f64,
}

impl<'a> Field<'a> {
    pub(crate) fn new(cases: &'a [Case], dynamics: Dynamics) -> Result<Self, Error> {
        let cases: Vec<&Case> =
            cases.iter().filter(|case| !case.errors(dynamics).is_empty()).collect();
        let prompts = cases.chunk_by(|_, next| next.further);
        let prompts: Vec<Vec<&Case>> = prompts.map(<[&Case]>::to_vec).collect();
        // Squared errors by prompt, query and number of steps.
        let errors: Vec<Vec<Vec<f64>>> = prompts
            .iter()
            .map(|prompt| prompt.iter().map(|case| case.errors(dynamics)).collect())
            .collect();
        let longest = errors.iter().flatten().map(Vec::len).min().unwrap_or(1);
        let of_each = |of: &dyn Fn(&[f64]) -> f64| -> Errors {
            errors.iter().map(|prompt| prompt.iter().map(|query| of(query)).collect()).collect()
        };
        let at = |steps: usize| of_each(&|query| query[steps]);
        let total = |steps: usize| means(&at(steps)).iter().sum::<f64>();
        let best = (0..longest).min_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0);
        let least = |query: &[f64]| query.iter().copied().fold(f64::INFINITY, f64::min);
        let together = |prompt: &Vec<Vec<f64>>| -> Vec<f64> {
            let mean = |steps| prompt.iter().map(|query| query[steps]).sum::<f64>();
            (0..longest).map(|steps| mean(steps) / prompt.len().max(1) as f64).collect()
        };
        let alone = at(0);
        let mut field = Self {
            dynamics,
            untouched: means(&alone),
            oracle: means(&of_each(&least)),
            prompt_oracle: errors.iter().map(|prompt| least(&together(prompt))).collect(),
            half_known: errors.iter().map(|prompt| by_other_half(prompt, longest)).collect(),
            hindsight: (best, means(&at(best))),
            paper: vec![],
            prompts,
            alone,
        };
        field.paper = means(&field.errors(PAPER)?);
        Ok(field)
    }

    /// How many prompts there are.
    pub(crate) fn len(&self) -> usize {
        self.prompts.len()
    }

    /// Squared errors of a rule, query by query.
    pub(crate) fn errors(&self, rule: Rule) -> Result<Errors, Error> {
        let error = |(case, &untouched): (&&Case, &f64)| match &case.seen {
            Some(seen) => Ok(case.error(&rule.weights(seen)?, self.dynamics)),
            None => Ok(untouched),
        };
        let prompts = self.prompts.iter().zip(&self.alone);
        prompts.map(|(prompt, alone)| prompt.iter().zip(alone).map(error).collect()).collect()
    }

    /// The share of the oracle's gain that errors like these are.
    pub(crate) fn share(&self, errors: &[f64]) -> f64 {
        self.share_of(&self.oracle, errors)
    }

    /// The same for the best number of steps of each prompt.
    pub(crate) fn prompt_share(&self, errors: &[f64]) -> f64 {
        self.share_of(&self.prompt_oracle, errors)
    }

    fn share_of(&self, best: &[f64], errors: &[f64]) -> f64 {
        let sum = |values: &[f64]| values.iter().sum::<f64>();
        let possible = sum(&self.untouched) - sum(best);
        if possible > 0.0 { (sum(&self.untouched) - sum(errors)) / possible } else { 0.0 }
    }

    /// The names of the policies that were followed for all tasks.
    pub(crate) fn policies(&self) -> Vec<String> {
        let cases = self.prompts.iter().flatten();
        let Some(first) = cases.clone().next() else { return vec![] };
        let known = |case: &Case, name: &str| case.policy_error(name, self.dynamics).is_some();
        let all = |name: &&str| cases.clone().all(|case| known(case, name));
        first.policies().filter(all).map(str::to_owned).collect()
    }

    /// Squared errors of one of them, query by query.
    pub(crate) fn policy_errors(&self, policy: &str) -> Errors {
        let error = |case: &&Case| case.policy_error(policy, self.dynamics);
        self.prompts.iter().map(|prompt| prompt.iter().filter_map(error).collect()).collect()
    }

    /// Everything about errors like these.
    pub(crate) fn judge(&self, errors: &[Vec<f64>], seed: u64) -> Judged {
        let each = || errors.iter().flatten().zip(self.alone.iter().flatten());
        let worse = each().filter(|(error, alone)| error > alone).count() as f64;
        let errors = means(errors);
        Judged {
            share: self.share(&errors),
            gain: Paired::improvement(&self.untouched, &errors, seed),
            over_hindsight: Paired::improvement(&self.hindsight.1, &errors, seed),
            over_paper: Paired::improvement(&self.paper, &errors, seed),
            hurt: worse / each().count().max(1) as f64,
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

/// The mean error of queries, each with the number of steps that is best for those at odd places if its
/// own is even, and the other way round.
fn by_other_half(queries: &[Vec<f64>], longest: usize) -> f64 {
    let error = |(place, query): (usize, &Vec<f64>)| {
        let others = || queries.iter().skip((place + 1) % 2).step_by(2);
        let total = |steps: usize| others().map(|other| other[steps]).sum::<f64>();
        let best = (0..longest).min_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0);
        query[best]
    };
    queries.iter().enumerate().map(error).sum::<f64>() / queries.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::{case, two_cases};
    use super::*;

    /// Two tasks whose prediction goes from 0 by a tenth per step; one should stop at 0.2, the
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

    /// A policy that led to 0.25 errs by 0.05² and 0.15²; the paper's rule as its own steps do.
    #[test]
    fn whole_policies_are_judged_beside_rules() {
        let cases = [case(0.2, 0.1, 4), case(0.4, 0.1, 4)];
        let field = Field::new(&cases, Dynamics::Steps).unwrap();
        assert_eq!(field.policies(), ["straight"]);
        let linear = Field::new(&cases, Dynamics::Linear).unwrap();
        let linear = means(&linear.policy_errors("straight"));
        assert!(linear[0].abs() < 1e-12 && (linear[1] - 0.04).abs() < 1e-12);
        let errors = field.policy_errors("straight");
        let each = means(&errors);
        assert!((each[0] - 0.0025).abs() < 1e-12 && (each[1] - 0.0225).abs() < 1e-12);
        let (judged, paper) = (field.judge(&errors, 0), field.errors(PAPER).unwrap());
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / 2.0;
        let over = judged.over_paper.difference.mean;
        assert!((over - (mean(&means(&paper)) - 0.0125)).abs() < 1e-12, "{paper:?}");
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

    /// Two queries on one prompt, whose predictions go from 0 by a tenth and by a fifth per step,
    /// with answers of 0.2 and 0.8; and one query on another prompt, like the first.
    #[test]
    fn queries_are_averaged_and_prompts_are_counted() {
        let mut cases = two_cases("straight", [0.2, 0.8], [0.1, 0.2]);
        cases.push(case(0.2, 0.1, 4));
        let field = Field::new(&cases, Dynamics::Steps).unwrap();
        let close = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
        };
        assert_eq!(field.len(), 2);
        assert!(close(&field.untouched, &[(0.04 + 0.64) / 2.0, 0.04]));
        // Two steps are best for the first query and four for the other: each has its own.
        assert!(close(&field.oracle, &[0.0, 0.0]), "{:?}", field.oracle);
        // Together they err by 0.025 at three steps and by 0.02 at four; the other prompt by 0 at two.
        assert!(close(&field.prompt_oracle, &[0.02, 0.0]), "{:?}", field.prompt_oracle);
        // With four steps, the best number for the other, the first errs by 0.2, and the second with
        // two by 0.4; the other prompt has no other.
        assert!(
            close(&field.half_known, &[(0.04 + 0.16) / 2.0, 0.04]),
            "{:?}",
            field.half_known
        );
        let possible = 0.34 + 0.04 - 0.02;
        let halfway = field.prompt_share(&[0.34 - possible / 2.0, 0.04]);
        assert!(close(&[halfway], &[0.5]) && field.share(&[0.02, 0.0]) < 1.0);
        // (0.2 − T/10)²·3/2 + (0.8 − T/5)²/2 is smallest between 2 and 4: at 3 it is 0.035.
        assert_eq!(field.hindsight.0, 3);
        assert!(close(&field.hindsight.1, &[(0.01 + 0.04) / 2.0, 0.01]));
        // The policy led to 0.25, 0.75 and 0.25.
        let errors = field.policy_errors("straight");
        assert!(close(&means(&errors), &[0.0025, 0.0025]));
        let four = field.judge(&field.errors(Rule::Fixed(4)).unwrap(), 0);
        // 0.4, 0.8 and 0.4 for 0.2, 0.8 and 0.2: the prompts gain 0.32 and nothing.
        assert!(close(&[four.gain.difference.mean], &[0.32 / 2.0]));
        // Of single predictions one is worse, though its prompt is better in the mean.
        let far = vec![vec![0.16, 0.0], vec![0.01]];
        assert!(close(&[field.judge(&far, 0).hurt], &[1.0 / 3.0]));
    }
}

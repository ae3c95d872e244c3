//! The rules that are compared: from what was seen to weights over the numbers of steps.
//!
//! A number of steps is a weight of one; averages are weights too. So every rule is judged on the
//! same stored paths, by real steps and by linear ones.

use super::super::settings::PAPER_LONGEST;
use super::case::Seen;
use crate::error::Error;
use fewstep_core::best_horizon;
use fewstep_core::gibbs::GibbsPosterior;
use fewstep_core::leave_one_out::Averaging;
use std::fmt;

/// How sharply weights follow leave-one-out errors, as the default policy does it.
const SHARPNESS: f64 = 0.2;

/// Prior odds of leaving the model alone, as the default policy has them.
const LEAVE_ALONE_ODDS: f64 = 1.0;

/// How weights are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// A fixed number of steps, whatever was observed.
    Fixed(u32),
    /// The best evidence, noise variance profiled, among the paper's numbers of steps.
    Evidence,
    /// The best evidence, noise variance `‖r‖²/n`.
    EvidenceFixed,
    /// All numbers of steps, weighted by their evidence.
    Gibbs,
    /// The smallest plug-in Bayes gap at the query.
    BayesGap,
    /// The smallest leave-one-out risk.
    LeaveOneOut,
    /// All numbers of steps, weighted by their leave-one-out errors as the default policy does.
    LeaveOneOutAverage,
}

impl Rule {
    /// Weights over the numbers of steps, which add up to one.
    pub(crate) fn weights(self, seen: &Seen) -> Result<Vec<f64>, Error> {
        let point = |horizon: u32| seen.point(horizon);
        Ok(match self {
            Self::Fixed(horizon) => point(horizon),
            Self::Evidence => {
                let few = seen.horizons.len().min(PAPER_LONGEST as usize + 1);
                point(best_horizon(&seen.horizons[..few], &seen.evidence[..few])?.horizon)
            }
            Self::EvidenceFixed => {
                point(best_horizon(&seen.horizons, &seen.evidence_fixed)?.horizon)
            }
            Self::Gibbs => {
                let (n, inverse_temperature) = (seen.geometry.residuals().len(), 1.0);
                GibbsPosterior::new(&seen.horizons, &seen.evidence, n, inverse_temperature)?
                    .weights()
                    .to_vec()
            }
            Self::BayesGap => match seen.block.query() {
                Some(query) => {
                    let found = seen.signal.bayes_gap_horizon(
                        &seen.spectrum,
                        &query.coupling,
                        seen.step,
                        &seen.horizons,
                    )?;
                    point(found.1.horizon)
                }
                None => point(0),
            },
            Self::LeaveOneOut => {
                point(seen.leave_one_out.choose(Averaging::Trimmed, 0.0)?.horizon)
            }
            Self::LeaveOneOutAverage => {
                seen.leave_one_out.posterior(Averaging::ByLabel, SHARPNESS, LEAVE_ALONE_ODDS)?
            }
        })
    }
}

impl Seen {
    /// A fixed number of steps, or the largest candidate if that is smaller.
    fn point(&self, horizon: u32) -> Vec<f64> {
        let mut weights = vec![0.0; self.horizons.len()];
        let last = weights.len() - 1;
        weights[last.min(horizon as usize)] = 1.0;
        weights
    }
}

/// The rules that are shown on the tasks for development.
pub(crate) const SHOWN: [Rule; 10] = [
    Rule::Fixed(0),
    Rule::Fixed(8),
    Rule::Fixed(30),
    Rule::Fixed(100),
    Rule::Evidence,
    Rule::EvidenceFixed,
    Rule::Gibbs,
    Rule::BayesGap,
    Rule::LeaveOneOut,
    Rule::LeaveOneOutAverage,
];

/// The rules that are judged.
pub(crate) const FINALISTS: [Rule; 4] =
    [Rule::Fixed(0), Rule::Fixed(8), Rule::Evidence, Rule::LeaveOneOutAverage];

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed(0) => write!(formatter, "no adaptation"),
            Self::Fixed(horizon) => write!(formatter, "fixed T = {horizon}"),
            Self::Evidence => write!(formatter, "evidence, T ≤ {PAPER_LONGEST} (the paper's)"),
            Self::EvidenceFixed => write!(formatter, "evidence, fixed σ"),
            Self::Gibbs => write!(formatter, "average by evidence (Gibbs)"),
            Self::BayesGap => write!(formatter, "query Bayes gap"),
            Self::LeaveOneOut => write!(formatter, "leave-one-out"),
            Self::LeaveOneOutAverage => {
                write!(formatter, "average by leave-one-out, as by default")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::tests::case;
    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_weights_that_add_up_to_one() {
        let case = case(0.3, 0.1, 40);
        let seen = case.seen.as_ref().unwrap();
        let mut names = vec![];
        for rule in SHOWN {
            let weights = rule.weights(seen).unwrap();
            assert_eq!(weights.len(), 41, "{rule}");
            assert!(weights.iter().all(|&weight| weight >= 0.0), "{rule}: {weights:?}");
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{rule}");
            names.push(rule.to_string());
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SHOWN.len());
        assert!(FINALISTS.iter().all(|rule| SHOWN.contains(rule)));
    }

    /// Rules of the tool, asked for by name, choose the same.
    #[test]
    fn rules_that_the_tool_has_decide_as_the_tool_does() {
        use fewstep_core::{HorizonName, HorizonRule, Policy, decide};
        let case = case(0.3, 0.1, 30);
        let seen = case.seen.as_ref().unwrap();
        for (rule, name) in [
            (Rule::Evidence, HorizonName::Evidence),
            (Rule::EvidenceFixed, HorizonName::EvidenceFixed),
            (Rule::BayesGap, HorizonName::BayesGap),
            (Rule::LeaveOneOut, HorizonName::LeaveOneOut),
        ] {
            let policy = Policy { horizon: HorizonRule::of_name(name), ..Policy::paper() };
            let expected = decide(&seen.geometry, &policy).unwrap().how_far.horizon;
            let found = rule.weights(seen).unwrap();
            assert!((found[expected as usize] - 1.0).abs() < 1e-12, "{rule}: {expected}");
        }
        let gibbs = HorizonRule::of_name(HorizonName::Gibbs);
        let average = Policy::default().horizon;
        for (rule, horizon) in [(Rule::Gibbs, gibbs), (Rule::LeaveOneOutAverage, average)] {
            let policy = Policy { horizon, ..Policy::paper() };
            let expected = decide(&seen.geometry, &policy).unwrap().how_far.posterior;
            let found = rule.weights(seen).unwrap();
            assert_eq!(found.len(), expected.len());
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{rule}");
        }
    }
}

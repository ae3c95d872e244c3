//! What a caller changes of a policy: each override changes only what it names.

use super::names::{Dynamics, HorizonName, SelectionName};
use super::observation::{Adjoint, ResidualsName};
use super::rules::Selection;
use super::{MOST_HORIZONS, Policy, bad, bad_horizons, check_horizons};
use crate::error::Error;
use crate::field::Field;
use std::str::FromStr;

/// Single fields of a policy that a caller sets: the flags of the command line, the fields of a
/// request and the keywords of Python, under the same names.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, HorizonName, HorizonRule, Overrides, Policy};
///
/// let overrides = Overrides { step_scale: Some(0.3), ..Overrides::default() };
/// let policy = overrides.of(&Policy::default())?;
/// assert_eq!(policy.differences(&Policy::default()), ["step_scale"]);
///
/// // The value in force changes nothing, not even the name.
/// let same = Overrides { horizon: Some(HorizonName::LeaveOneOutAverage), ..Overrides::default() };
/// assert_eq!(same.of(&Policy::default())?, Policy::default());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Candidate blocks.
    pub blocks: Option<String>,
    /// How blocks are chosen among them.
    pub select: Option<SelectionName>,
    /// The number of blocks that is chosen.
    pub budget: Option<usize>,
    /// Seed of what is drawn: the random selection, and shots.
    pub seed: Option<u64>,
    /// How the number of steps is found.
    pub horizon: Option<HorizonName>,
    /// Candidate numbers of steps.
    pub horizons: Option<Horizons>,
    /// Step size as a fraction of the largest stable one.
    pub step_scale: Option<f64>,
    /// How the update is carried out.
    pub dynamics: Option<Dynamics>,
    /// Intended coverage of the interval for the query's answer.
    pub coverage: Option<f64>,
    /// Which part of a prediction's derivative is taken.
    pub adjoint: Option<Adjoint>,
    /// What an example is predicted behind.
    pub residuals: Option<ResidualsName>,
    /// The number of orders in which examples are predicted behind those before them.
    pub orders: Option<usize>,
    /// The largest number of examples in a prompt.
    pub shots: Option<usize>,
    /// How often a set of labels is to hold the answer.
    pub confidence: Option<f64>,
}

impl Overrides {
    /// A policy with these fields in place of its own, checked.
    ///
    /// A selection that needs a budget takes the one that is given, or that of the policy. A seed is
    /// that of every draw of the policy: of the shots, and of the random selection.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] for a budget that is missing or that the selection does not take, for
    /// orders that the residuals do not take, and those of [`Policy::check`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Overrides, Policy};
    ///
    /// let refused = Overrides { budget: Some(8), ..Overrides::default() }.of(&Policy::default());
    /// assert!(matches!(refused, Err(Error::Policy { field, .. }) if field.name() == "budget"));
    /// ```
    pub fn of(&self, policy: &Policy) -> Result<Policy, Error> {
        let horizons = self.horizons.as_ref().map(|Horizons(horizons)| horizons);
        let policy = Policy {
            name: policy.name.clone(),
            blocks: self.blocks.as_ref().unwrap_or(&policy.blocks).clone(),
            selection: self.selection(&policy.selection)?,
            horizon: match self.horizon {
                Some(name) => policy.horizon.renamed(name),
                None => policy.horizon,
            },
            horizons: horizons.unwrap_or(&policy.horizons).clone(),
            step_scale: self.step_scale.unwrap_or(policy.step_scale),
            dynamics: self.dynamics.unwrap_or(policy.dynamics),
            coverage: self.coverage.unwrap_or(policy.coverage),
            adjoint: self.adjoint.unwrap_or(policy.adjoint),
            residuals: policy.residuals.with(self.residuals, self.orders)?,
            shots: policy.shots.with(self.shots, self.seed),
            classes: policy.classes.with(self.confidence),
        };
        policy.check()?;
        Ok(policy.renamed())
    }

    fn selection(&self, in_force: &Selection) -> Result<Selection, Error> {
        let name = self.select.unwrap_or(in_force.name());
        if let (false, Some(budget)) = (name.needs_budget(), self.budget) {
            let allowed = format!("omitted: the rule {name} takes no budget");
            return Err(bad(Field::BUDGET, budget, &allowed));
        }
        let mut selection = if name == in_force.name() {
            self.budget.map_or(*in_force, |budget| in_force.with_budget(budget))
        } else {
            Selection::of_name(name, self.budget.or(in_force.budget()))?
        };
        if let (Selection::Random { seed, .. }, Some(given)) = (&mut selection, self.seed) {
            *seed = given;
        }
        Ok(selection)
    }
}

/// Candidate numbers of steps: ascending, and neither too many nor too large.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Horizons};
///
/// assert_eq!("0..3".parse::<Horizons>()?, Horizons::new([0, 1, 2, 3])?);
/// assert_eq!("0,1,8".parse::<Horizons>()?.get(), [0, 1, 8]);
/// assert!(matches!("8,1".parse::<Horizons>(), Err(Error::Policy { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizons(Vec<u32>);

impl Horizons {
    /// Some numbers, once they are known to be candidates. No more are asked for than may be taken.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] unless they are ascending, not empty, and within the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::Horizons::new([2, 1]).is_err());
    /// ```
    pub fn new(horizons: impl IntoIterator<Item = u32>) -> Result<Self, Error> {
        let horizons: Vec<u32> = horizons.into_iter().take(MOST_HORIZONS + 1).collect();
        check_horizons(&horizons)?;
        Ok(Self(horizons))
    }

    /// The numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Horizons};
    /// assert_eq!(Horizons::new([0, 8])?.get(), [0, 8]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn get(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for Horizons {
    type Err = Error;

    /// `A..B`, both included, or a list.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| bad_horizons(text));
        let read = match text.split_once("..") {
            Some((first, last)) => Self::new(number(first)?..=number(last)?),
            None => Self::new(text.split(',').map(number).collect::<Result<Vec<_>, _>>()?),
        };
        read.map_err(|_| bad_horizons(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{HorizonRule, LONGEST_HORIZON, Residuals, Shots};

    /// Every override alone changes its own field of every policy, and no other.
    #[test]
    fn an_override_changes_only_what_it_names() {
        let none = Overrides::default;
        let cases = [
            ("blocks", Overrides { blocks: Some("key@all".to_owned()), ..none() }),
            (
                "selection",
                Overrides { select: Some(SelectionName::Random), budget: Some(2), ..none() },
            ),
            ("horizon", Overrides { horizon: Some(HorizonName::Gibbs), ..none() }),
            ("horizons", Overrides { horizons: Some("0..7".parse().unwrap()), ..none() }),
            ("step_scale", Overrides { step_scale: Some(0.2), ..none() }),
            ("coverage", Overrides { coverage: Some(0.5), ..none() }),
            ("residuals", Overrides { residuals: Some(ResidualsName::Prefix), ..none() }),
            ("shots", Overrides { shots: Some(3), ..none() }),
            ("shots", Overrides { seed: Some(3), ..none() }),
            ("classes", Overrides { confidence: Some(0.8), ..none() }),
        ];
        for policy in [Policy::default(), Policy::paper()] {
            assert_eq!(none().of(&policy).unwrap(), policy);
            for (field, overrides) in &cases {
                assert_eq!(overrides.of(&policy).unwrap().differences(&policy), [*field]);
                assert_eq!(overrides.of(&policy).unwrap().name, "custom");
            }
            for dynamics in [Dynamics::Steps, Dynamics::Linear] {
                let found =
                    Overrides { dynamics: Some(dynamics), ..none() }.of(&policy).unwrap();
                assert_eq!(found.differences(&policy).is_empty(), dynamics == policy.dynamics);
            }
            for adjoint in [Adjoint::Local, Adjoint::Whole] {
                let found = Overrides { adjoint: Some(adjoint), ..none() }.of(&policy).unwrap();
                let expected: &[&str] =
                    if adjoint == policy.adjoint { &[] } else { &["adjoint"] };
                assert_eq!(
                    (found.adjoint, &found.differences(&policy)[..]),
                    (adjoint, expected)
                );
            }
        }
    }

    #[test]
    fn a_rule_that_is_in_force_keeps_its_parameters() {
        let name = |horizon| Overrides { horizon: Some(horizon), ..Overrides::default() };
        let sharp = HorizonRule::Gibbs { inverse_temperature: 3.0 };
        let policy = Policy { horizon: sharp, ..Policy::paper() };
        assert_eq!(name(HorizonName::Gibbs).of(&policy).unwrap().horizon, sharp);
        let one = name(HorizonName::LeaveOneOut).of(&Policy::default()).unwrap().horizon;
        assert_eq!(one.averaging(), Policy::default().horizon.averaging());
        let drawn =
            Policy { selection: Selection::Random { budget: 3, seed: 7 }, ..Policy::paper() };
        let more = Overrides { budget: Some(4), ..Overrides::default() }.of(&drawn).unwrap();
        assert_eq!(more.selection, Selection::Random { budget: 4, seed: 7 });
        let top = Overrides { select: Some(SelectionName::TraceTop), ..Overrides::default() };
        assert_eq!(top.of(&drawn).unwrap().selection, Selection::TraceTop { budget: 3 });
    }

    #[test]
    fn budgets_are_for_rules_that_take_one() {
        let refused = |select, budget| {
            let overrides = Overrides { select, budget, ..Overrides::default() };
            match overrides.of(&Policy::default()) {
                Err(Error::Policy { field, found, .. }) => (field.name(), found),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            refused(Some(SelectionName::QueryAware), None),
            ("budget", "missing".to_owned())
        );
        assert_eq!(refused(None, Some(2)), ("budget", "2".to_owned()));
        assert_eq!(refused(Some(SelectionName::All), Some(2)), ("budget", "2".to_owned()));
    }

    #[test]
    fn orders_are_for_prefix_residuals() {
        let prefix = Some(ResidualsName::Prefix);
        let of = |residuals, orders, policy: &Policy| {
            let overrides = Overrides { residuals, orders, ..Overrides::default() };
            overrides.of(policy).map(|policy| policy.residuals)
        };
        let mine = Policy { residuals: Residuals::Prefix { orders: 5 }, ..Policy::default() };
        assert_eq!(of(prefix, None, &Policy::paper()), Ok(Residuals::Prefix { orders: 2 }));
        assert_eq!(of(prefix, Some(3), &Policy::paper()), Ok(Residuals::Prefix { orders: 3 }));
        assert_eq!(of(prefix, None, &mine), Ok(Residuals::Prefix { orders: 5 }));
        assert_eq!(of(None, Some(3), &mine), Ok(Residuals::Prefix { orders: 3 }));
        let leave_one_out = Some(ResidualsName::LeaveOneOut);
        assert_eq!(of(leave_one_out, None, &mine), Ok(Residuals::LeaveOneOut));
        for (residuals, orders, policy) in [
            (None, 3, &Policy::paper()),
            (leave_one_out, 3, &mine),
            (prefix, 0, &mine),
            (prefix, 65, &Policy::paper()),
        ] {
            match of(residuals, Some(orders), policy) {
                Err(Error::Policy { field, found, .. }) => {
                    assert_eq!((field.flag(), found), ("--orders", orders.to_string()));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn shots_and_their_seed_are_set_one_by_one() {
        let mine = Policy { shots: Shots { most: Some(8), seed: 5 }, ..Policy::default() };
        let of = |shots, seed| {
            let overrides = Overrides { shots, seed, ..Overrides::default() };
            overrides.of(&mine).map(|policy| policy.shots)
        };
        assert_eq!(of(Some(3), None), Ok(Shots { most: Some(3), seed: 5 }));
        assert_eq!(of(None, Some(7)), Ok(Shots { most: Some(8), seed: 7 }));
        let refused = of(Some(0), None).unwrap_err();
        assert_eq!(refused.field(), Some(Field::SHOTS));
        assert!(refused.to_string().contains("from 1"), "{refused}");
    }

    #[test]
    fn horizons_are_ranges_with_both_ends_or_lists() {
        let read = |text: &str| text.parse::<Horizons>().map(|horizons| horizons.0);
        assert_eq!(read("0..3").unwrap(), [0, 1, 2, 3]);
        assert_eq!(read("0, 1,8").unwrap(), [0, 1, 8]);
        assert_eq!(read("5").unwrap(), [5]);
        assert_eq!(read("0..9999").unwrap().len(), MOST_HORIZONS);
        let large = (LONGEST_HORIZON + 1).to_string();
        for text in
            ["", "3..1", "0,0", "2,1", "a", "0..10000", "0..4294967295", &large, "-1..2"]
        {
            assert_eq!(read(text), Err(bad_horizons(text)));
        }
    }
}

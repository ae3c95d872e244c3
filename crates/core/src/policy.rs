//! What a decision depends on, as one value that can be named, printed and read back.
//!
//! In: what a caller asks for. Out: a [`Policy`], which every interface starts from and every report
//! prints in full. [`Overrides`] change only what they name. Nothing here computes.

mod classes;
mod names;
mod observation;
mod overrides;
mod rules;

pub use classes::{Base, ClassArm, ClassDepth, ClassLoss, ClassPolicy, ClassRule, Folds};
pub use names::{Dynamics, HorizonName, SelectionName};
pub use observation::{Adjoint, MOST_ORDERS, Residuals, ResidualsName, Shots};
pub use overrides::{Horizons, Overrides};
pub use rules::{HorizonRule, Selection};

use crate::error::Error;
use crate::field::Field;
use crate::leave_one_out::Averaging;
use serde::{Deserialize, Serialize};

/// The largest number of steps that may be asked for.
pub const LONGEST_HORIZON: u32 = 100_000;

/// The largest number of candidate horizons.
pub const MOST_HORIZONS: usize = 10_000;

/// The name of a policy that is neither of the two that have one.
const CUSTOM: &str = "custom";

/// Everything that a decision depends on.
///
/// | field | default | meaning | range |
/// |---|---|---|---|
/// | `name` | `default` | what reports call it | any text |
/// | `blocks` | `mlp-up@upper-half` | candidate blocks, by kind and layers | parsed once there is a model |
/// | `selection` | `depth` | how blocks are chosen among the candidates | [`Selection`] |
/// | `horizon` | `leave-one-out-average` | how the number of steps is found | [`HorizonRule`] |
/// | `horizons` | 0, 1, 2, 4, …, 64 | candidate numbers of steps | ascending, not empty |
/// | `step_scale` | 0.6 | step size as a fraction of the largest stable one | over 0, under 1 |
/// | `dynamics` | `linear` | how the update is carried out | [`Dynamics`] |
/// | `coverage` | 0.8 | intended coverage of the interval for the query's answer | over 0, under 1 |
/// | `adjoint` | `local` | which part of a derivative is taken | [`Adjoint`] |
/// | `residuals` | `leave-one-out` | what an example is predicted behind | [`Residuals`] |
/// | `shots` | as many as fit | the number of examples that a prompt shows | [`Shots`] |
/// | `classes` | five arms | how a task of classes is decided | [`ClassPolicy`] |
///
/// In JSON, omitted fields are those of the default policy.
///
/// # Examples
///
/// ```
/// use fewstep_core::{HorizonRule, Policy};
///
/// let policy = Policy { horizon: HorizonRule::Fixed { steps: 8 }, ..Policy::paper() };
/// assert_eq!((policy.step_scale, policy.horizons.len()), (0.1, 31));
/// assert_eq!(Policy::default().blocks, "mlp-up@upper-half");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// What reports call it.
    pub name: String,
    /// Candidate blocks, such as `value@last4`: parsed once there is a model.
    pub blocks: String,
    /// How blocks are chosen among the candidates.
    pub selection: Selection,
    /// How the number of steps is found.
    pub horizon: HorizonRule,
    /// `𝒯`: candidate numbers of steps, ascending.
    pub horizons: Vec<u32>,
    /// `c`: step size as a fraction of the largest stable one, `ρ = c/λ_max`.
    pub step_scale: f64,
    /// How the update is carried out.
    pub dynamics: Dynamics,
    /// `1 − α`: the intended coverage of the interval for the query's answer.
    pub coverage: f64,
    /// Which part of a prediction's derivative is taken.
    pub adjoint: Adjoint,
    /// What an example is predicted behind.
    pub residuals: Residuals,
    /// How many examples a prompt shows.
    pub shots: Shots,
    /// How a task of classes is decided.
    pub classes: ClassPolicy,
}

impl Default for Policy {
    /// The first MLP matrices of the last layers, from one to the upper half of all, updated
    /// together by an average over up to 64 steps. Leave-one-out errors choose the number of
    /// layers and weigh the steps; the linearised model answers, as these errors are its own. Of every
    /// derivative the term of the read-out is taken, which gains as much as all of it and costs little
    /// more than the forward pass.
    ///
    /// It was chosen on development tasks and evaluated on others; `docs/results` has the reports.
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            blocks: "mlp-up@upper-half".to_owned(),
            selection: Selection::Depth { averaging: Averaging::ByLabel },
            horizon: HorizonRule::of_name(HorizonName::LeaveOneOutAverage),
            horizons: vec![0, 1, 2, 4, 8, 16, 32, 64],
            step_scale: 0.6,
            dynamics: Dynamics::Linear,
            coverage: 0.8,
            adjoint: Adjoint::Local,
            residuals: Residuals::LeaveOneOut,
            shots: Shots::default(),
            classes: ClassPolicy::default(),
        }
    }
}

impl Policy {
    /// The paper's policy: all value heads of the last four layers, and a number of steps by
    /// evidence (App. I), taken in the model.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{HorizonRule, Policy, Selection};
    ///
    /// let paper = Policy::paper();
    /// assert_eq!((paper.horizon, paper.selection), (HorizonRule::Evidence, Selection::All));
    /// ```
    #[must_use]
    pub fn paper() -> Self {
        Self {
            name: "paper".to_owned(),
            blocks: "value@last4".to_owned(),
            selection: Selection::All,
            horizon: HorizonRule::Evidence,
            horizons: (0..=30).collect(),
            step_scale: 0.1,
            dynamics: Dynamics::Steps,
            coverage: 0.8,
            adjoint: Adjoint::Whole,
            residuals: Residuals::LeaveOneOut,
            shots: Shots::default(),
            classes: ClassPolicy::default(),
        }
    }

    /// A policy that has a name of its own: `default` or `paper`.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] for any other name.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Policy};
    ///
    /// assert_eq!(Policy::named("paper")?, Policy::paper());
    /// assert!(Policy::named("best").is_err());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, Error> {
        let named = [Self::default(), Self::paper()];
        named.into_iter().find(|policy| policy.name == name).ok_or_else(|| Error::Policy {
            field: Field::POLICY,
            found: name.to_owned(),
            allowed: "default, paper, or a policy in JSON".to_owned(),
        })
    }

    /// A policy from JSON, checked; omitted fields are those of the default policy.
    ///
    /// # Errors
    ///
    /// [`Error::PolicyJson`] for text that is not a policy, and those of [`Policy::check`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Policy};
    ///
    /// let policy = Policy::from_json(r#"{"step_scale": 0.3}"#)?;
    /// assert_eq!(policy, Policy { name: "custom".to_owned(), step_scale: 0.3, ..Policy::default() });
    /// assert_eq!(Policy::from_json(&Policy::paper().to_json())?, Policy::paper());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_json(json: &str) -> Result<Self, Error> {
        // A list of values would be taken for an object, too.
        if !json.trim_start().starts_with('{') {
            let problem = "a policy is an object such as {\"step_scale\": 0.3}".to_owned();
            return Err(Error::PolicyJson { line: 1, column: 1, problem });
        }
        let policy: Self = serde_json::from_str(json).map_err(|error| Error::PolicyJson {
            line: error.line(),
            column: error.column(),
            problem: without_place(&error.to_string()),
        })?;
        policy.check()?;
        Ok(policy.renamed())
    }

    /// The policy as one line of JSON, every field written out.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Policy;
    ///
    /// assert!(Policy::paper().to_json().contains(r#""horizon":{"rule":"evidence"}"#));
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every field can be written")
    }

    /// Refuses settings out of their range; candidate blocks are not looked at.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] with the field at fault.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Policy};
    ///
    /// let refused = Policy { step_scale: 1.5, ..Policy::default() }.check();
    /// let Err(Error::Policy { field, found, .. }) = refused else { panic!() };
    /// assert_eq!((field.name(), found.as_str()), ("step_scale", "1.5"));
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        check_horizons(&self.horizons)?;
        check_open(Field::STEP_SCALE, self.step_scale)?;
        check_open(Field::COVERAGE, self.coverage)?;
        self.residuals.check()?;
        self.shots.check()?;
        self.classes.check()?;
        self.horizon.check()
    }

    /// Refuses a budget, where the selection has one, that exceeds the number of candidate blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Policy, Selection};
    ///
    /// let policy = Policy { selection: Selection::TraceTop { budget: 3 }, ..Policy::paper() };
    /// assert!(policy.check_budget(3).is_ok() && policy.check_budget(2).is_err());
    /// ```
    pub fn check_budget(&self, blocks: usize) -> Result<(), Error> {
        match self.selection.budget() {
            Some(budget) if budget == 0 || budget > blocks => Err(Error::Policy {
                field: Field::BUDGET,
                found: budget.to_string(),
                allowed: format!("from 1 to {blocks}, the number of candidate blocks"),
            }),
            _ => Ok(()),
        }
    }

    /// Whether the decision depends on the query, so that queries on the same examples may be
    /// decided differently.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{HorizonRule, Policy};
    ///
    /// let policy = Policy { horizon: HorizonRule::BayesGap, ..Policy::paper() };
    /// assert!(policy.looks_at_query() && !Policy::paper().looks_at_query());
    /// ```
    #[must_use]
    pub fn looks_at_query(&self) -> bool {
        matches!(self.selection, Selection::QueryAware { .. } | Selection::QueryScore { .. })
            || self.horizon == HorizonRule::BayesGap
            || self.horizon.averaging() == Some(Averaging::QueryWeighted)
            || self.selection.averaging() == Some(Averaging::QueryWeighted)
    }

    /// The names of the fields in which it differs from another policy, but for the name itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Policy;
    ///
    /// let policy = Policy { step_scale: 0.3, ..Policy::default() };
    /// assert_eq!(policy.differences(&Policy::default()), ["step_scale"]);
    /// ```
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let Self { name: _, blocks, selection, horizon, horizons, step_scale, .. } = self;
        let same = [
            (Field::BLOCKS, *blocks == other.blocks),
            (Field::SELECTION, *selection == other.selection),
            (Field::HORIZON, *horizon == other.horizon),
            (Field::HORIZONS, *horizons == other.horizons),
            (Field::STEP_SCALE, step_scale.to_bits() == other.step_scale.to_bits()),
            (Field::DYNAMICS, self.dynamics == other.dynamics),
            (Field::COVERAGE, self.coverage.to_bits() == other.coverage.to_bits()),
            (Field::ADJOINT, self.adjoint == other.adjoint),
            (Field::RESIDUALS, self.residuals == other.residuals),
            (Field::SHOTS, self.shots == other.shots),
            (Field::CLASSES, self.classes == other.classes),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(field, _)| field.name()).collect()
    }

    /// The same under its right name: only the two policies with names of their own are called
    /// `default` and `paper`.
    pub(crate) fn renamed(mut self) -> Self {
        let named = [Self::default(), Self::paper()];
        if let Some(same) = named.iter().find(|named| self.differences(named).is_empty()) {
            self.name.clone_from(&same.name);
        } else if named.iter().any(|named| self.name == named.name) {
            CUSTOM.clone_into(&mut self.name);
        }
        self
    }
}

/// Refuses candidate numbers of steps that are not ascending, too many, or too large.
pub(crate) fn check_horizons(horizons: &[u32]) -> Result<(), Error> {
    let ascending = horizons.windows(2).all(|pair| pair[0] < pair[1]);
    let fits = horizons.last().is_some_and(|&last| last <= LONGEST_HORIZON);
    if ascending && fits && horizons.len() <= MOST_HORIZONS {
        return Ok(());
    }
    let shown: Vec<String> = horizons.iter().take(4).map(ToString::to_string).collect();
    let more = if horizons.len() > 4 { ", …" } else { "" };
    Err(bad_horizons(&format!("[{}{more}]", shown.join(", "))))
}

fn bad_horizons(found: &str) -> Error {
    Error::Policy {
        field: Field::HORIZONS,
        found: found.to_owned(),
        allowed: format!(
            "a range such as 0..30 or an ascending list such as 0,1,2,4,8, of at most \
             {MOST_HORIZONS} numbers up to {LONGEST_HORIZON}"
        ),
    }
}

/// Refuses a number that does not lie strictly between 0 and 1.
fn check_open(field: Field, found: f64) -> Result<(), Error> {
    if 0.0 < found && found < 1.0 {
        Ok(())
    } else {
        Err(bad(field, found, "over 0 and under 1"))
    }
}

fn bad(field: Field, found: impl ToString, allowed: &str) -> Error {
    Error::Policy { field, found: found.to_string(), allowed: allowed.to_owned() }
}

/// What a parser says, without the place that it adds.
fn without_place(problem: &str) -> String {
    problem[..problem.rfind(" at line ").unwrap_or(problem.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_back_as_it_was_written() {
        let rules = HorizonName::ALL.map(HorizonRule::of_name);
        for horizon in rules.into_iter().chain([HorizonRule::Fixed { steps: 8 }]) {
            for selection in
                SelectionName::ALL.map(|name| Selection::of_name(name, Some(2)).unwrap())
            {
                for dynamics in [Dynamics::Steps, Dynamics::Linear] {
                    let policy = Policy { horizon, selection, dynamics, ..Policy::default() };
                    let again = Policy::from_json(&policy.to_json()).unwrap();
                    assert_eq!(again, policy.renamed());
                    assert_eq!(
                        again.to_json(),
                        Policy::from_json(&again.to_json()).unwrap().to_json()
                    );
                }
            }
        }
    }

    #[test]
    fn how_a_task_is_looked_at_is_read_back_too() {
        for adjoint in [Adjoint::Local, Adjoint::Whole] {
            for residuals in [Residuals::LeaveOneOut, Residuals::Prefix { orders: 5 }] {
                for shots in [Shots::default(), Shots { most: Some(8), seed: 3 }] {
                    let policy = Policy { adjoint, residuals, shots, ..Policy::paper() };
                    let again = Policy::from_json(&policy.to_json()).unwrap();
                    assert_eq!(again, policy.clone().renamed());
                    assert_eq!(again.differences(&policy), [""; 0]);
                }
            }
        }
    }

    #[test]
    fn names_tell_the_truth() {
        let slow = Policy { step_scale: 0.3, ..Policy::default() };
        assert_eq!(slow.clone().renamed().name, "custom");
        assert_eq!(Policy { name: "mine".to_owned(), ..slow }.renamed().name, "mine");
        let same = Policy { name: "mine".to_owned(), ..Policy::paper() };
        assert_eq!(same.renamed().name, "paper");
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_its_field() {
        let field = |json: &str| match Policy::from_json(json) {
            Err(Error::Policy { field, .. }) => field.name(),
            other => panic!("{json}: {other:?}"),
        };
        assert_eq!(field(r#"{"step_scale": 0}"#), "step_scale");
        assert_eq!(field(r#"{"coverage": 1}"#), "coverage");
        for horizons in ["[]", "[1, 1]", "[2, 1]", "[0, 100001]"] {
            assert_eq!(field(&format!(r#"{{"horizons": {horizons}}}"#)), "horizons");
        }
        let rule = |rest: &str| field(&format!(r#"{{"horizon": {{"rule": {rest}}}}}"#));
        assert_eq!(rule(r#""fixed", "steps": 100001"#), "steps");
        assert_eq!(rule(r#""gibbs", "inverse_temperature": 0"#), "inverse_temperature");
        assert_eq!(rule(r#""leave-one-out", "gate": -1"#), "gate");
        assert_eq!(rule(r#""leave-one-out-average", "sharpness": 0"#), "sharpness");
        assert_eq!(
            rule(r#""leave-one-out-average", "leave_alone_odds": 0"#),
            "leave_alone_odds"
        );
    }

    #[test]
    fn a_rule_takes_its_own_parameters_and_no_others() {
        for json in [
            r#"{"horizon": {"rule": "evidence", "sharpness": 1}}"#,
            r#"{"horizon": {"rule": "fixed"}}"#,
            r#"{"horizon": {"rule": "best"}}"#,
            r#"{"horizon": "evidence"}"#,
            r#"{"selection": {"rule": "all", "budget": 2}}"#,
            r#"{"selection": {"rule": "query-aware"}}"#,
            r#"{"selection": {"rule": "depth", "seed": 2}}"#,
            r#"{"step_size": 0.1}"#,
            r#"{"dynamics": "fast"}"#,
            r#"{"step_scale": 0.1"#,
            "[]",
        ] {
            let refused = Policy::from_json(json);
            assert!(matches!(refused, Err(Error::PolicyJson { .. })), "{json}: {refused:?}");
        }
    }
}

//! Rules with their own parameters: how the number of steps is found, and which blocks are updated.

use super::names::{HorizonName, SelectionName};
use super::{LONGEST_HORIZON, bad};
use crate::error::Error;
use crate::field::Field;
use crate::leave_one_out::Averaging;
use serde::{Deserialize, Serialize};

/// Steps that `query-aware` looks ahead (App. I).
const LOOKAHEAD: u32 = 8;

/// How sharply the default policy follows leave-one-out errors: two fifths of what it would be if
/// they were independent, which errors on the same ten examples are not.
const SHARPNESS: f64 = 0.2;

/// How the number of steps is found, with the parameters of that rule and no others.
///
/// In JSON an object whose `rule` is a [`HorizonName`], or `fixed` with `steps`; omitted parameters
/// have the values below.
///
/// | rule | parameters |
/// |---|---|
/// | `fixed` | `steps` |
/// | `gibbs` | `inverse_temperature` (1): how sharply weights follow evidence |
/// | `leave-one-out` | `averaging` (`trimmed`), `gate` (0): standard errors by which updating must win |
/// | `leave-one-out-average` | `averaging` (`by-label`), `sharpness` (0.2), `leave_alone_odds` (1): prior odds of leaving the model alone against all steps together |
///
/// # Examples
///
/// ```
/// use fewstep_core::{HorizonName, HorizonRule};
///
/// let rule = HorizonRule::of_name(HorizonName::Gibbs);
/// assert_eq!(rule, HorizonRule::Gibbs { inverse_temperature: 1.0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", try_from = "HorizonFields")]
pub enum HorizonRule {
    /// A number of steps given in advance.
    Fixed {
        /// The number.
        steps: u32,
    },
    /// The smallest negative log-evidence, noise variance profiled out.
    Evidence,
    /// The smallest negative log-evidence, noise variance set to the mean squared residual.
    EvidenceFixed,
    /// The average over candidate horizons under the Gibbs posterior.
    Gibbs {
        /// `β`: how sharply weights follow evidence.
        inverse_temperature: f64,
    },
    /// The smallest plug-in Bayes gap at the query.
    BayesGap,
    /// The smallest leave-one-out risk.
    LeaveOneOut {
        /// How leave-one-out errors are averaged.
        averaging: Averaging,
        /// By how many standard errors updating must win.
        gate: f64,
    },
    /// The average over candidate horizons, weighted by their leave-one-out risk.
    LeaveOneOutAverage {
        /// How leave-one-out errors are averaged.
        averaging: Averaging,
        /// `β`: how sharply weights follow these errors.
        sharpness: f64,
        /// Prior odds of leaving the model alone.
        leave_alone_odds: f64,
    },
    /// No steps: the posterior mean under the fitted signal and noise variances.
    BayesFilter,
}

impl HorizonRule {
    /// The rule of a name, with the parameters it has unless they are given.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{HorizonName, HorizonRule};
    ///
    /// assert_eq!(HorizonRule::of_name(HorizonName::Fixed(8)), HorizonRule::Fixed { steps: 8 });
    /// ```
    #[must_use]
    pub fn of_name(name: HorizonName) -> Self {
        match name {
            HorizonName::Fixed(steps) => Self::Fixed { steps },
            HorizonName::Evidence => Self::Evidence,
            HorizonName::EvidenceFixed => Self::EvidenceFixed,
            HorizonName::Gibbs => Self::Gibbs { inverse_temperature: 1.0 },
            HorizonName::BayesGap => Self::BayesGap,
            HorizonName::LeaveOneOut => {
                Self::LeaveOneOut { averaging: Averaging::Trimmed, gate: 0.0 }
            }
            HorizonName::LeaveOneOutAverage => Self::LeaveOneOutAverage {
                averaging: Averaging::ByLabel,
                sharpness: SHARPNESS,
                leave_alone_odds: 1.0,
            },
            HorizonName::BayesFilter => Self::BayesFilter,
        }
    }

    /// The rule's name.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{HorizonName, Policy};
    ///
    /// assert_eq!(Policy::paper().horizon.name(), HorizonName::Evidence);
    /// ```
    #[must_use]
    pub fn name(&self) -> HorizonName {
        match *self {
            Self::Fixed { steps } => HorizonName::Fixed(steps),
            Self::Evidence => HorizonName::Evidence,
            Self::EvidenceFixed => HorizonName::EvidenceFixed,
            Self::Gibbs { .. } => HorizonName::Gibbs,
            Self::BayesGap => HorizonName::BayesGap,
            Self::LeaveOneOut { .. } => HorizonName::LeaveOneOut,
            Self::LeaveOneOutAverage { .. } => HorizonName::LeaveOneOutAverage,
            Self::BayesFilter => HorizonName::BayesFilter,
        }
    }

    /// How leave-one-out errors are averaged, if the rule looks at them.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Policy::paper().horizon.averaging(), None);
    /// ```
    #[must_use]
    pub fn averaging(&self) -> Option<Averaging> {
        match *self {
            Self::LeaveOneOut { averaging, .. }
            | Self::LeaveOneOutAverage { averaging, .. } => Some(averaging),
            _ => None,
        }
    }

    /// The rule of a name: the present rule if it is its own, and otherwise a new one, which keeps
    /// the averaging of leave-one-out errors if both have one.
    pub(super) fn renamed(&self, name: HorizonName) -> Self {
        match (Self::of_name(name), self.averaging()) {
            (rule, _) if rule.name() == self.name() => *self,
            (Self::LeaveOneOut { gate, .. }, Some(averaging)) => {
                Self::LeaveOneOut { averaging, gate }
            }
            (Self::LeaveOneOutAverage { sharpness, leave_alone_odds, .. }, Some(averaging)) => {
                Self::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds }
            }
            (rule, _) => rule,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let positive = |field, number: f64| match number > 0.0 && number.is_finite() {
            true => Ok(()),
            false => Err(bad(field, number, "finite and over 0")),
        };
        match *self {
            Self::Fixed { steps } if steps > LONGEST_HORIZON => {
                Err(bad(Field::STEPS, steps, &format!("at most {LONGEST_HORIZON} steps")))
            }
            Self::Gibbs { inverse_temperature } => {
                positive(Field::INVERSE_TEMPERATURE, inverse_temperature)
            }
            Self::LeaveOneOut { gate, .. } if !(gate >= 0.0 && gate.is_finite()) => {
                Err(bad(Field::GATE, gate, "finite and at least 0"))
            }
            Self::LeaveOneOutAverage { sharpness, leave_alone_odds, .. } => {
                positive(Field::SHARPNESS, sharpness)?;
                positive(Field::LEAVE_ALONE_ODDS, leave_alone_odds)
            }
            _ => Ok(()),
        }
    }
}

/// A rule as it is written: the parameters of all rules, of which each takes its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object such as {\"rule\": \"evidence\"}")]
struct HorizonFields {
    rule: String,
    steps: Option<u32>,
    inverse_temperature: Option<f64>,
    averaging: Option<Averaging>,
    gate: Option<f64>,
    sharpness: Option<f64>,
    leave_alone_odds: Option<f64>,
}

impl TryFrom<HorizonFields> for HorizonRule {
    type Error = String;

    fn try_from(mut fields: HorizonFields) -> Result<Self, String> {
        let mut rule = if fields.rule == "fixed" {
            let steps = fields.steps.take().ok_or("the rule fixed needs \"steps\"")?;
            Self::Fixed { steps }
        } else {
            match fields.rule.parse() {
                Ok(HorizonName::Fixed(_)) | Err(_) => {
                    let names: Vec<String> =
                        HorizonName::ALL.iter().map(ToString::to_string).collect();
                    let (found, names) = (&fields.rule, names.join(", "));
                    return Err(format!(
                        "unknown horizon rule `{found}`, expected fixed, {names}"
                    ));
                }
                Ok(name) => Self::of_name(name),
            }
        };
        let take = |given: &mut Option<f64>, place: &mut f64| {
            *place = given.take().unwrap_or(*place);
        };
        match &mut rule {
            Self::Gibbs { inverse_temperature } => {
                take(&mut fields.inverse_temperature, inverse_temperature);
            }
            Self::LeaveOneOut { averaging, gate } => {
                *averaging = fields.averaging.take().unwrap_or(*averaging);
                take(&mut fields.gate, gate);
            }
            Self::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds } => {
                *averaging = fields.averaging.take().unwrap_or(*averaging);
                take(&mut fields.sharpness, sharpness);
                take(&mut fields.leave_alone_odds, leave_alone_odds);
            }
            _ => {}
        }
        let left = [
            ("steps", fields.steps.is_some()),
            ("inverse_temperature", fields.inverse_temperature.is_some()),
            ("averaging", fields.averaging.is_some()),
            ("gate", fields.gate.is_some()),
            ("sharpness", fields.sharpness.is_some()),
            ("leave_alone_odds", fields.leave_alone_odds.is_some()),
        ];
        refuse_others(&fields.rule, &left)?;
        Ok(rule)
    }
}

/// How blocks are chosen among the candidates, with the parameters of that rule and no others.
///
/// In JSON an object whose `rule` is a [`SelectionName`]; all parameters but the budget are optional.
///
/// | rule | parameters |
/// |---|---|
/// | `query-aware` | `budget`: the number of blocks; `lookahead` (8): steps it looks ahead |
/// | `query-score`, `trace-top`, `trace-bottom` | `budget` |
/// | `random` | `budget`, `seed` (0) |
/// | `depth` | `averaging` (`by-label`): how leave-one-out errors are averaged |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Selection, SelectionName};
///
/// let rule = Selection::of_name(SelectionName::Random, Some(3))?;
/// assert_eq!(rule, Selection::Random { budget: 3, seed: 0 });
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", try_from = "SelectionFields")]
pub enum Selection {
    /// Every candidate block.
    All,
    /// The greedy rule of App. I.
    QueryAware {
        /// `k_budget`: the number of blocks.
        budget: usize,
        /// Steps that it looks ahead.
        lookahead: u32,
    },
    /// The largest quadratic forms of Sec. 8.2.
    QueryScore {
        /// `k_budget`: the number of blocks.
        budget: usize,
    },
    /// The largest trace scores.
    TraceTop {
        /// `k_budget`: the number of blocks.
        budget: usize,
    },
    /// The smallest trace scores.
    TraceBottom {
        /// `k_budget`: the number of blocks.
        budget: usize,
    },
    /// Blocks drawn at random.
    Random {
        /// `k_budget`: the number of blocks.
        budget: usize,
        /// Seed of the draw.
        seed: u64,
    },
    /// The number of last layers with the smallest leave-one-out risk.
    Depth {
        /// How leave-one-out errors are averaged.
        averaging: Averaging,
    },
}

impl Selection {
    /// The rule of a name with a budget, and the other parameters it has unless they are given.
    ///
    /// A rule that takes no budget ignores it here; [`Overrides`](crate::Overrides) refuse it.
    ///
    /// # Errors
    ///
    /// [`Error::Policy`] if the rule needs a budget and `budget` is `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Selection, SelectionName};
    ///
    /// assert!(Selection::of_name(SelectionName::TraceTop, None).is_err());
    /// ```
    pub fn of_name(name: SelectionName, budget: Option<usize>) -> Result<Self, Error> {
        let needed = || {
            let allowed = format!("the number of blocks that the rule {name} chooses");
            budget.ok_or_else(|| bad(Field::BUDGET, "missing", &allowed))
        };
        Ok(match name {
            SelectionName::All => Self::All,
            SelectionName::QueryAware => {
                Self::QueryAware { budget: needed()?, lookahead: LOOKAHEAD }
            }
            SelectionName::QueryScore => Self::QueryScore { budget: needed()? },
            SelectionName::TraceTop => Self::TraceTop { budget: needed()? },
            SelectionName::TraceBottom => Self::TraceBottom { budget: needed()? },
            SelectionName::Random => Self::Random { budget: needed()?, seed: 0 },
            SelectionName::Depth => Self::Depth { averaging: Averaging::ByLabel },
        })
    }

    /// The rule's name.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Policy, SelectionName};
    ///
    /// assert_eq!(Policy::default().selection.name(), SelectionName::Depth);
    /// ```
    #[must_use]
    pub fn name(&self) -> SelectionName {
        match self {
            Self::All => SelectionName::All,
            Self::QueryAware { .. } => SelectionName::QueryAware,
            Self::QueryScore { .. } => SelectionName::QueryScore,
            Self::TraceTop { .. } => SelectionName::TraceTop,
            Self::TraceBottom { .. } => SelectionName::TraceBottom,
            Self::Random { .. } => SelectionName::Random,
            Self::Depth { .. } => SelectionName::Depth,
        }
    }

    /// The number of blocks that was asked for, if the rule takes one.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Selection::TraceTop { budget: 3 }.budget(), Some(3));
    /// ```
    #[must_use]
    pub fn budget(&self) -> Option<usize> {
        match *self {
            Self::QueryAware { budget, .. }
            | Self::QueryScore { budget }
            | Self::TraceTop { budget }
            | Self::TraceBottom { budget }
            | Self::Random { budget, .. } => Some(budget),
            Self::All | Self::Depth { .. } => None,
        }
    }

    /// How leave-one-out errors are averaged, if the rule looks at them.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Policy::paper().selection.averaging(), None);
    /// ```
    #[must_use]
    pub fn averaging(&self) -> Option<Averaging> {
        match *self {
            Self::Depth { averaging } => Some(averaging),
            _ => None,
        }
    }

    /// The same rule with another budget; as it is if it takes none.
    pub(super) fn with_budget(mut self, new: usize) -> Self {
        match &mut self {
            Self::QueryAware { budget, .. }
            | Self::QueryScore { budget }
            | Self::TraceTop { budget }
            | Self::TraceBottom { budget }
            | Self::Random { budget, .. } => *budget = new,
            Self::All | Self::Depth { .. } => {}
        }
        self
    }
}

/// A rule as it is written: the parameters of all rules, of which each takes its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object such as {\"rule\": \"all\"}")]
struct SelectionFields {
    rule: String,
    budget: Option<usize>,
    lookahead: Option<u32>,
    seed: Option<u64>,
    averaging: Option<Averaging>,
}

impl TryFrom<SelectionFields> for Selection {
    type Error = String;

    fn try_from(mut fields: SelectionFields) -> Result<Self, String> {
        let name: SelectionName =
            fields.rule.parse().map_err(|error: Error| error.to_string())?;
        let budget = if name.needs_budget() { fields.budget.take() } else { None };
        let mut rule = Self::of_name(name, budget).map_err(|error| error.to_string())?;
        match &mut rule {
            Self::QueryAware { lookahead, .. } => {
                *lookahead = fields.lookahead.take().unwrap_or(*lookahead);
            }
            Self::Random { seed, .. } => *seed = fields.seed.take().unwrap_or(*seed),
            Self::Depth { averaging } => {
                *averaging = fields.averaging.take().unwrap_or(*averaging);
            }
            _ => {}
        }
        let left = [
            ("budget", fields.budget.is_some()),
            ("lookahead", fields.lookahead.is_some()),
            ("seed", fields.seed.is_some()),
            ("averaging", fields.averaging.is_some()),
        ];
        refuse_others(&fields.rule, &left)?;
        Ok(rule)
    }
}

/// `Err` with the first parameter that is given and not the rule's own.
pub(super) fn refuse_others(rule: &str, given: &[(&str, bool)]) -> Result<(), String> {
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(format!("the rule {rule} takes no `{name}`")),
        None => Ok(()),
    }
}

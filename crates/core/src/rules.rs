//! Which rule answers which question: the choices a caller may make, and their names.
//!
//! The names are the same on the command line, in reports and in Python; they are read once, at
//! the border, and are an enum from there on. Nothing here computes.

use crate::checks::{check_fraction, check_not_negative, check_positive};
use crate::error::Error;
use crate::leave_one_out::Averaging;
use std::fmt;
use std::str::FromStr;

/// How the number of steps is found.
///
/// | name | rule |
/// |---|---|
/// | a number | that many steps |
/// | `evidence` | the smallest negative log-evidence, noise variance profiled (App. I) |
/// | `evidence-fixed` | the same with the noise variance set to `‖r‖²/n` (App. I) |
/// | `gibbs` | the average over all candidate horizons, weighted by their evidence (Sec. 7) |
/// | `bayes-gap` | the smallest expected gap to the Bayes prediction at the query (Thm. 5.2) |
/// | `leave-one-out` | the smallest error on examples left out |
/// | `leave-one-out-average` | the average over the way of all steps, weighted by these errors |
/// | `bayes-filter` | no steps: the posterior mean under the fitted signal and noise |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, HorizonRule};
///
/// assert_eq!("8".parse::<HorizonRule>()?, HorizonRule::Fixed(8));
/// assert_eq!(HorizonRule::EvidenceFixed.to_string(), "evidence-fixed");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HorizonRule {
    /// A number of steps given in advance.
    Fixed(u32),
    /// Evidence with the noise variance profiled out, "MLE-σ".
    Evidence,
    /// Evidence with the noise variance set to the mean squared residual, "fixed-σ".
    EvidenceFixed,
    /// The average over candidate horizons under the Gibbs posterior.
    Gibbs,
    /// The horizon with the smallest plug-in Bayes gap at the query.
    BayesGap,
    /// The horizon with the smallest leave-one-out risk.
    LeaveOneOut,
    /// The average over candidate horizons, weighted by their leave-one-out risk.
    LeaveOneOutAverage,
    /// The Bayes filter under the fitted signal and noise variances.
    BayesFilter,
}

/// Every horizon rule but the fixed ones, with its name.
const HORIZON_RULES: [(&str, HorizonRule); 7] = [
    ("evidence", HorizonRule::Evidence),
    ("evidence-fixed", HorizonRule::EvidenceFixed),
    ("gibbs", HorizonRule::Gibbs),
    ("bayes-gap", HorizonRule::BayesGap),
    ("leave-one-out", HorizonRule::LeaveOneOut),
    ("leave-one-out-average", HorizonRule::LeaveOneOutAverage),
    ("bayes-filter", HorizonRule::BayesFilter),
];

impl fmt::Display for HorizonRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Fixed(horizon) = self {
            return write!(f, "{horizon}");
        }
        let found = HORIZON_RULES.iter().find(|(_, rule)| rule == self);
        f.write_str(found.expect("every other rule is in the table").0)
    }
}

impl FromStr for HorizonRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some((_, rule)) = HORIZON_RULES.iter().find(|(name, _)| *name == text) {
            return Ok(*rule);
        }
        text.parse().map(Self::Fixed).map_err(|_| Error::UnknownName {
            quantity: "horizon rule",
            found: text.to_owned(),
            allowed: "a number of steps, evidence, evidence-fixed, gibbs, bayes-gap, \
                      leave-one-out, leave-one-out-average or bayes-filter",
        })
    }
}

/// How the blocks that are updated are found.
///
/// | name | rule |
/// |---|---|
/// | `all` | every candidate block |
/// | `query-aware` | greedy: the block that makes the predicted correction largest (App. I) |
/// | `query-score` | the largest `k_bᵀ(K_full + σ²I)⁻¹k_b` (Sec. 8.2) |
/// | `trace-top` | the largest `tr(K_b(K_full + σ²I)⁻¹)` (Sec. 8.2) |
/// | `trace-bottom` | the smallest of these: a control |
/// | `random` | a random choice: another control |
/// | `leave-one-out` | greedy: the block that makes errors on examples left out smallest |
/// | `depth` | the last 1, 2, 4, … layers or all, whichever makes these errors smallest |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Selection};
///
/// assert_eq!("trace-top".parse::<Selection>()?, Selection::TraceTop);
/// assert!("best".parse::<Selection>().is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every candidate block.
    All,
    /// The greedy rule of App. I.
    QueryAware,
    /// The quadratic form of Sec. 8.2.
    QueryScore,
    /// The largest trace scores.
    TraceTop,
    /// The smallest trace scores.
    TraceBottom,
    /// Blocks drawn at random.
    Random,
    /// Greedy by the leave-one-out risk, while it falls.
    LeaveOneOut,
    /// The last layers, of as many as have the smallest leave-one-out risk.
    Depth,
}

const SELECTIONS: [(&str, Selection); 8] = [
    ("all", Selection::All),
    ("query-aware", Selection::QueryAware),
    ("query-score", Selection::QueryScore),
    ("trace-top", Selection::TraceTop),
    ("trace-bottom", Selection::TraceBottom),
    ("random", Selection::Random),
    ("leave-one-out", Selection::LeaveOneOut),
    ("depth", Selection::Depth),
];

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = SELECTIONS.iter().find(|(_, rule)| rule == self);
        f.write_str(found.expect("every rule is in the table").0)
    }
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = SELECTIONS.iter().find(|(name, _)| *name == text);
        found.map(|(_, rule)| *rule).ok_or_else(|| Error::UnknownName {
            quantity: "selection rule",
            found: text.to_owned(),
            allowed: "all, query-aware, query-score, trace-top, trace-bottom, random, \
                      leave-one-out or depth",
        })
    }
}

/// Everything a caller may set before [`decide`](crate::decide()).
///
/// | field | default | meaning | range |
/// |---|---|---|---|
/// | `horizon` | `evidence` | how the number of steps is found | [`HorizonRule`] |
/// | `horizons` | 0, 1, …, 30 | candidate numbers of steps | ascending, not empty |
/// | `step_scale` | 0.1 | step size as a fraction of the largest stable one | over 0, under 1 |
/// | `select` | `all` | how the blocks are found | [`Selection`] |
/// | `budget` | none | how many blocks; needed by every selection but `all`, `leave-one-out` and `depth` | 1 to all |
/// | `selection_horizon` | 8 | steps that `query-aware` looks ahead | any |
/// | `inverse_temperature` | 1 | how sharply averages follow evidence or left-out errors | over 0 |
/// | `leave_one_out` | trimmed | how left-out errors are averaged | [`Averaging`] |
/// | `leave_one_out_gate` | 0 | standard errors by which adapting must win | at least 0 |
/// | `leave_alone_odds` | 5 | how many times as likely as all steps together it is, before anything is seen, that no step is best; for `leave-one-out-average` | over 0 |
/// | `coverage` | 0.8 | how often the interval for the query's answer is meant to hold it | over 0, under 1 |
/// | `seed` | 0 | of the random selection | any |
///
/// # Examples
///
/// ```
/// use fewstep_core::{HorizonRule, Rules};
///
/// let rules = Rules { horizon: HorizonRule::Fixed(8), ..Rules::default() };
/// assert_eq!(rules.horizons.len(), 31);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// How the number of steps is found.
    pub horizon: HorizonRule,
    /// `𝒯`: candidate numbers of steps, ascending.
    pub horizons: Vec<u32>,
    /// `c`: step size as a fraction of the largest stable one, `ρ = c/λ_max`.
    pub step_scale: f64,
    /// How the blocks are found.
    pub select: Selection,
    /// `k_budget`: how many blocks to choose.
    pub budget: Option<usize>,
    /// How many steps the greedy rule looks ahead.
    pub selection_horizon: u32,
    /// `β`: how sharply averages follow evidence or left-out errors.
    pub inverse_temperature: f64,
    /// How left-out errors are averaged.
    pub leave_one_out: Averaging,
    /// By how many standard errors adapting must win on left-out examples.
    pub leave_one_out_gate: f64,
    /// Prior odds of leaving the model alone, for the average by left-out errors.
    pub leave_alone_odds: f64,
    /// `1 − α`: how often the interval for the query's answer is meant to hold it.
    pub coverage: f64,
    /// Seed of the random selection.
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            horizon: HorizonRule::Evidence,
            horizons: (0..=30).collect(),
            step_scale: 0.1,
            select: Selection::All,
            budget: None,
            selection_horizon: 8,
            inverse_temperature: 1.0,
            leave_one_out: Averaging::Trimmed,
            leave_one_out_gate: 0.0,
            leave_alone_odds: 5.0,
            coverage: 0.8,
            seed: 0,
        }
    }
}

impl Rules {
    /// `Ok` if every setting is in its range for this many candidate blocks.
    pub(crate) fn check(&self, blocks: usize) -> Result<(), Error> {
        if self.horizons.is_empty() {
            return Err(Error::Empty { quantity: "candidate horizons" });
        }
        if let Some(pair) = self.horizons.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(Error::OutOfRange {
                quantity: "candidate horizon",
                found: f64::from(pair[1]),
                allowed: "larger than the one before it",
            });
        }
        check_fraction("step scale", self.step_scale)?;
        check_positive("inverse temperature", self.inverse_temperature)?;
        check_not_negative("leave-one-out gate", self.leave_one_out_gate)?;
        check_positive("odds of leaving the model alone", self.leave_alone_odds)?;
        check_fraction("coverage", self.coverage)?;
        match (self.select, self.budget) {
            (_, Some(budget)) if budget == 0 || budget > blocks => {
                Err(Error::BudgetOutOfRange { budget, blocks })
            }
            (Selection::All | Selection::LeaveOneOut | Selection::Depth, _) | (_, Some(_)) => {
                Ok(())
            }
            (_, None) => Err(Error::BudgetOutOfRange { budget: 0, blocks }),
        }
    }
}

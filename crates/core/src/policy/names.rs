//! The names of rules and dynamics: the same on the command line, in reports, in HTTP and in
//! Python. They are parsed once, where they come in, and are an enum from there on.

use crate::error::Error;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The name of a rule for the number of steps, or a number of steps.
///
/// | name | rule |
/// |---|---|
/// | a number | that number of steps |
/// | `evidence` | the smallest negative log-evidence, noise variance profiled (App. I) |
/// | `evidence-fixed` | the same with the noise variance set to `‖r‖²/n` (App. I) |
/// | `gibbs` | the average over all candidate horizons, weighted by their evidence (Sec. 7) |
/// | `bayes-gap` | the smallest expected gap to the Bayes prediction at the query (Thm. 5.2) |
/// | `leave-one-out` | the smallest leave-one-out error |
/// | `leave-one-out-average` | the average over all candidate horizons, weighted by these errors |
/// | `bayes-filter` | no steps: the posterior mean under the fitted signal and noise |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, HorizonName};
///
/// assert_eq!("8".parse::<HorizonName>()?, HorizonName::Fixed(8));
/// assert_eq!(HorizonName::EvidenceFixed.to_string(), "evidence-fixed");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HorizonName {
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

impl HorizonName {
    /// Every rule but the fixed ones.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::HorizonName::ALL[0].to_string(), "evidence");
    /// ```
    pub const ALL: [Self; 7] = [
        Self::Evidence,
        Self::EvidenceFixed,
        Self::Gibbs,
        Self::BayesGap,
        Self::LeaveOneOut,
        Self::LeaveOneOutAverage,
        Self::BayesFilter,
    ];

    /// Whether the rule averages over numbers of steps.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::HorizonName;
    ///
    /// assert!(HorizonName::Gibbs.averages() && !HorizonName::Evidence.averages());
    /// ```
    #[must_use]
    pub fn averages(self) -> bool {
        matches!(self, Self::Gibbs | Self::LeaveOneOutAverage)
    }
}

impl Serialize for HorizonName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for HorizonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(steps) => write!(f, "{steps}"),
            Self::Evidence => f.write_str("evidence"),
            Self::EvidenceFixed => f.write_str("evidence-fixed"),
            Self::Gibbs => f.write_str("gibbs"),
            Self::BayesGap => f.write_str("bayes-gap"),
            Self::LeaveOneOut => f.write_str("leave-one-out"),
            Self::LeaveOneOutAverage => f.write_str("leave-one-out-average"),
            Self::BayesFilter => f.write_str("bayes-filter"),
        }
    }
}

impl FromStr for HorizonName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(rule) = Self::ALL.into_iter().find(|rule| rule.to_string() == text) {
            return Ok(rule);
        }
        text.parse().map(Self::Fixed).map_err(|_| Error::UnknownName {
            quantity: "horizon rule",
            found: text.to_owned(),
            allowed: "a number of steps, evidence, evidence-fixed, gibbs, bayes-gap, \
                      leave-one-out, leave-one-out-average or bayes-filter",
        })
    }
}

/// The name of a rule that chooses blocks.
///
/// | name | rule |
/// |---|---|
/// | `all` | every candidate block |
/// | `query-aware` | greedy: the block that makes the predicted correction largest (App. I) |
/// | `query-score` | the largest `k_bᵀ(K_full + σ²I)⁻¹k_b` (Sec. 8.2) |
/// | `trace-top` | the largest `tr(K_b(K_full + σ²I)⁻¹)` (Sec. 8.2) |
/// | `trace-bottom` | the smallest of these: a control |
/// | `random` | a random choice: another control |
/// | `depth` | the last 1, 2, 4, … layers or all, whichever has the smallest leave-one-out error |
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, SelectionName};
///
/// assert_eq!("trace-top".parse::<SelectionName>()?, SelectionName::TraceTop);
/// assert!("best".parse::<SelectionName>().is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionName {
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
    /// The number of last layers with the smallest leave-one-out risk.
    Depth,
}

impl SelectionName {
    /// Every rule.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::SelectionName::ALL[0].to_string(), "all");
    /// ```
    pub const ALL: [Self; 7] = [
        Self::All,
        Self::QueryAware,
        Self::QueryScore,
        Self::TraceTop,
        Self::TraceBottom,
        Self::Random,
        Self::Depth,
    ];

    /// Whether the rule chooses a number of blocks that is given in advance.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::SelectionName;
    ///
    /// assert!(SelectionName::Random.needs_budget() && !SelectionName::Depth.needs_budget());
    /// ```
    #[must_use]
    pub fn needs_budget(self) -> bool {
        !matches!(self, Self::All | Self::Depth)
    }
}

impl fmt::Display for SelectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::QueryAware => "query-aware",
            Self::QueryScore => "query-score",
            Self::TraceTop => "trace-top",
            Self::TraceBottom => "trace-bottom",
            Self::Random => "random",
            Self::Depth => "depth",
        })
    }
}

impl FromStr for SelectionName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|rule| rule.to_string() == text);
        found.ok_or_else(|| Error::UnknownName {
            quantity: "selection rule",
            found: text.to_owned(),
            allowed: "all, query-aware, query-score, trace-top, trace-bottom, random or depth",
        })
    }
}

/// How an update is carried out.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Dynamics, Error, Policy};
///
/// assert_eq!("steps".parse::<Dynamics>()?, Policy::paper().dynamics);
/// assert_eq!(Policy::default().dynamics.to_string(), "linear");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dynamics {
    /// In the model: gradient steps, or one update for an average of them.
    Steps,
    /// By the linearised model; the model is not run again.
    Linear,
}

impl fmt::Display for Dynamics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::Linear => "linear",
        })
    }
}

impl FromStr for Dynamics {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = [Self::Steps, Self::Linear].into_iter().find(|all| all.to_string() == text);
        found.ok_or_else(|| Error::UnknownName {
            quantity: "dynamics",
            found: text.to_owned(),
            allowed: "steps or linear",
        })
    }
}

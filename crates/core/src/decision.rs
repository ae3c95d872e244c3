//! A decision: the three answers, what they rest on, and what to carry out.
//!
//! Data alone; [`decide`](crate::decide()) makes it and the model's owner carries it out.

use crate::answers::Interval;
use crate::filter::{Filter, GradientDescent, Mixture, NoUpdate};
use crate::geometry::Block;
use crate::policy::{HorizonName, Policy, SelectionName};
use crate::risk::Benchmark;
use crate::signal::SignalFit;
use crate::spectrum::Spectrum;
use crate::subspace::DepthChoice;
use std::fmt;

/// What to do with a prompt, and why.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, Policy, Reason, decide};
///
/// // The model is right on every example already.
/// let block = Block::from_features("value.0.0", &[vec![1.0], vec![2.0]], Some(&[1.0]))?;
/// let decision = decide(&Geometry::new(vec![0.0, 0.0], vec![block])?, &Policy::default())?;
/// assert!(!decision.when.adapt);
/// assert_eq!(decision.when.reason, Reason::NothingToCorrect);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The policy it was made by.
    pub policy: Policy,
    /// Whether to adapt at all.
    pub when: When,
    /// How many steps, of which size.
    pub how_far: HowFar,
    /// Which blocks.
    pub which: Which,
    /// What to carry out.
    pub plan: Plan,
    /// The selected blocks together: their kernel, coupling and query variance.
    pub block: Block,
    /// The modes of the selected blocks' kernel.
    pub spectrum: Spectrum,
    /// Signal and noise variances fitted to the residuals.
    pub signal: SignalFit,
    /// What the decision means at the query, if there is one.
    pub query: Option<QueryOutlook>,
}

/// Whether adapting is worth it, with the reasons that decided and no others.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let when = decide(&geometry, &Policy::paper())?.when;
/// let gaps = when.evidence.expect("evidence decided");
/// assert!(when.adapt && gaps.gap_adapted < gaps.gap_icl && when.leave_one_out.is_none());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct When {
    /// The answer: false where more weight is on leaving the model alone than on updating it. The
    /// prediction is that of the [plan](Decision::plan) all the same, which averages both.
    pub adapt: bool,
    /// Why.
    pub reason: Reason,
    /// The weight on updating: a share of 1 under an average, else 0 or 1.
    pub weight: f64,
    /// Leave-one-out errors before and after, if a rule that looks at them decided.
    pub leave_one_out: Option<LeaveOneOutErrors>,
    /// What evidence says, if a rule that looks at it decided.
    pub evidence: Option<EvidenceReasons>,
}

/// Errors on held-out examples: squared errors, averaged as the policy says, or mean log-losses for a
/// task of classes.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// // Two examples that are alike: each predicts the other.
/// let block = Block::from_features("value.0.0", &[vec![1.0], vec![1.0]], None)?;
/// let when = decide(&Geometry::new(vec![1.0, 1.0], vec![block])?, &Policy::default())?.when;
/// let errors = when.leave_one_out.expect("leave-one-out errors decided");
/// assert!(errors.icl == 1.0 && errors.adapted < 0.1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeaveOneOutErrors {
    /// Without an update.
    pub icl: f64,
    /// With the chosen one: slightly optimistic, as the same examples chose it.
    pub adapted: f64,
}

/// What evidence says about updating.
///
/// # Examples
///
/// See [`When`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvidenceReasons {
    /// Over 1, evidence asks for some adaptation (see [`Evidence::gate`](crate::Evidence::gate)).
    pub gate: f64,
    /// Expected squared distance to the Bayes prediction without adapting, under the fitted
    /// signal and noise: at the query, or summed over the prompt if there is no query.
    pub gap_icl: f64,
    /// The same with the chosen update.
    pub gap_adapted: f64,
}

/// Why a prompt is adapted to or left alone.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, Reason, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// assert_eq!(decision.when.reason, Reason::EvidenceForUpdating);
/// assert_eq!(decision.when.reason.to_string(), "evidence favours updating");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The number of steps was given in advance.
    Given,
    /// Leave-one-out errors favour updating.
    LeaveOneOutForUpdating,
    /// Leave-one-out errors favour leaving the model alone.
    LeaveOneOutAgainst,
    /// Evidence favours updating.
    EvidenceForUpdating,
    /// Evidence favours leaving the model alone.
    EvidenceAgainst,
    /// Every residual is 0.
    NothingToCorrect,
    /// The selected blocks' kernel is 0: no step would change any prediction.
    NothingChanges,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "the number of steps was given",
            Self::LeaveOneOutForUpdating => "leave-one-out error favours updating",
            Self::LeaveOneOutAgainst => {
                "leave-one-out error puts more weight on leaving the model alone"
            }
            Self::EvidenceForUpdating => "evidence favours updating",
            Self::EvidenceAgainst => "evidence favours leaving the model alone",
            Self::NothingToCorrect => "every residual is 0: there is nothing to correct",
            Self::NothingChanges => {
                "the selected kernel is 0: no step would change a prediction"
            }
        })
    }
}

/// How many steps of which size, and what the choice rests on.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// assert_eq!((decision.how_far.horizon, decision.how_far.step_size), (10, 0.025));
/// assert_eq!(decision.how_far.evidence.len(), 31);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HowFar {
    /// The rule that chose.
    pub rule: HorizonName,
    /// `T`: the number of steps; of an average, its most probable horizon; 0 for the Bayes filter.
    pub horizon: u32,
    /// Whether the choice is the largest candidate, so that a longer grid might choose more.
    pub at_edge: bool,
    /// `ρ`: the step size.
    pub step_size: f64,
    /// `σ²`: the noise variance the rule worked with.
    pub noise_variance: f64,
    /// Degrees of freedom of the chosen update, `Σ g(λ_i)`.
    pub degrees_of_freedom: f64,
    /// Negative log-evidence per example, `ℓ_T`, with the noise variance profiled out, at every
    /// candidate; empty if residuals are 0.
    pub evidence: Vec<f64>,
    /// The same with the noise variance set to the mean squared residual, `‖r‖²/n`.
    pub evidence_fixed: Vec<f64>,
    /// The weights of the candidates, by leave-one-out errors if an average over these was chosen
    /// and else the Gibbs posterior; empty if residuals are 0.
    pub posterior: Vec<f64>,
    /// The leave-one-out risk at every candidate, if a rule that looks at it chose.
    pub leave_one_out: Vec<f64>,
}

/// Which blocks, and how each scored.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, SelectionName, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// assert_eq!((decision.which.rule, decision.which.budget), (SelectionName::All, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Which {
    /// The rule that chose.
    pub rule: SelectionName,
    /// The number of blocks that might be chosen.
    pub budget: usize,
    /// Positions of the chosen blocks in the geometry, in the order they were chosen.
    pub selected: Vec<usize>,
    /// The scores of every candidate block.
    pub blocks: Vec<BlockScore>,
    /// The numbers of layers that were tried and their leave-one-out risks, if `depth` chose.
    pub depth: Option<DepthChoice>,
}

/// How much a block could do.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// // σ² = 1.625: 4/5.625 + 1/2.625.
/// let trace = 4.0 / 5.625 + 1.0 / 2.625;
/// assert!((decision.which.blocks[0].trace - trace).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BlockScore {
    /// The block's name.
    pub name: String,
    /// The caller's own number for it, if it has one.
    pub id: Option<u64>,
    /// How much the prompt tells about it: `tr(K_b(K_full + σ²I)⁻¹)`.
    pub trace: f64,
    /// How much of that matters at the query: `k_bᵀ(K_full + σ²I)⁻¹k_b`.
    pub query: Option<f64>,
}

/// What to carry out on the selected blocks.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Plan, Policy, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// assert!(matches!(decision.plan, Plan::Steps(steps) if steps.horizon == 10));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Leave the model alone.
    None,
    /// Take gradient steps.
    Steps(GradientDescent),
    /// Apply the average over horizons as one update.
    Average(Mixture<GradientDescent>),
    /// Take gradient steps, and apply the average of the updates reached at each horizon.
    AveragedSteps(Mixture<GradientDescent>),
    /// Apply the posterior mean as one update.
    Posterior(Benchmark),
}

impl Filter for Plan {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.filter().response(eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.filter().gain(eigenvalue)
    }
}

impl Plan {
    /// The filter that the plan applies.
    fn filter(&self) -> &dyn Filter {
        match self {
            Self::None => &NoUpdate,
            Self::Steps(filter) => filter,
            Self::Average(filter) | Self::AveragedSteps(filter) => filter,
            Self::Posterior(filter) => filter,
        }
    }
}

/// What the decision means at the query.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Policy, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Policy::paper())?;
/// // k_x = (2, 0) and q_10(4) = (1 − 0.9^10)/4.
/// let correction = 2.0 * (1.0 - 0.9_f64.powi(10)) / 4.0 * 1.5;
/// let query = decision.query.expect("there is a query");
/// assert!((query.correction - correction).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryOutlook {
    /// `ĥ(x)`: the correction that the update makes in the linearised model.
    pub correction: f64,
    /// Standard deviation of the ideal correction given the residuals, under the fitted signal
    /// and noise.
    pub standard_deviation: f64,
    /// An interval for the query's residual by leave-one-out errors (jackknife+), if a rule that
    /// looks at them chose. The same examples chose blocks and horizon, which the theorem does not
    /// allow for, so that its coverage has to be measured.
    pub interval: Option<Interval>,
}

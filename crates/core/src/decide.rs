//! The three answers: when to adapt, how far, and which blocks.
//!
//! In: what was observed, a [`Geometry`], and the caller's [`Rules`]. Out: a [`Decision`] that
//! whoever holds the model can carry out, with every number it rests on. This is the only file
//! that composes the others; it computes nothing that they do not.

use crate::error::Error;
use crate::evidence::{Evidence, HorizonChoice, Noise, best_horizon};
use crate::filter::{Filter, GradientDescent, Mixture, NoUpdate};
use crate::geometry::{Block, Geometry};
use crate::gibbs::GibbsPosterior;
use crate::leave_one_out::{Interval, LeaveOneOut};
use crate::linalg::mean_square;
use crate::risk::{self, Benchmark};
use crate::rng::Rng;
use crate::rules::{HorizonRule, Rules, Selection};
use crate::signal::SignalFit;
use crate::spectrum::{Spectrum, StepSize};
use crate::subspace::{self, LeftOut};

/// An average with less weight than this on all steps together is no update: it would cost as much
/// as any other.
const LEAST_MOVED: f64 = 0.01;

/// What to do with a prompt, and why.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, Reason, Rules, decide};
///
/// // The model is right on every example already.
/// let block = Block::from_features("value.0.0", &[vec![1.0], vec![2.0]], Some(&[1.0]))?;
/// let decision = decide(&Geometry::new(vec![0.0, 0.0], vec![block])?, &Rules::default())?;
/// assert!(!decision.when.adapt);
/// assert_eq!(decision.when.reason, Reason::NothingToCorrect);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Whether to adapt at all.
    pub when: When,
    /// How many steps, of which size.
    pub how_far: HowFar,
    /// Which blocks.
    pub which: Which,
    /// What to carry out.
    pub update: Update,
    /// The selected blocks together: their kernel, coupling and query variance.
    pub block: Block,
    /// The modes of the selected blocks' kernel.
    pub spectrum: Spectrum,
    /// Signal and noise variances fitted to the residuals.
    pub signal: SignalFit,
    /// What the decision means at the query, if there is one.
    pub query: Option<QueryOutlook>,
}

/// Whether adapting is worth it.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// assert!(decision.when.adapt && decision.when.gap_adapted < decision.when.gap_icl);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct When {
    /// The answer.
    pub adapt: bool,
    /// Why.
    pub reason: Reason,
    /// Over 1, evidence asks for some adaptation (see [`Evidence::gate`]).
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
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// assert_eq!(decision.when.reason, Reason::RuleAsksForIt);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The rule found a horizon over 0.
    RuleAsksForIt,
    /// The rule found that no step is best.
    RuleAdvisesAgainst,
    /// Every residual is 0.
    NothingToCorrect,
    /// The selected blocks' kernel is 0: no step would move any prediction.
    NothingMoves,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::RuleAsksForIt => "the rule asks for it",
            Self::RuleAdvisesAgainst => "the rule finds no step best",
            Self::NothingToCorrect => "every residual is 0: there is nothing to correct",
            Self::NothingMoves => "the selected kernel is 0: no step would move a prediction",
        })
    }
}

/// How many steps of which size, and what the choice rests on.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// assert_eq!((decision.how_far.horizon, decision.how_far.step_size), (10, 0.025));
/// assert_eq!(decision.how_far.evidence.len(), 31);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HowFar {
    /// The rule that chose.
    pub rule: HorizonRule,
    /// `T`: the number of steps; of an average, its most probable horizon; 0 for the Bayes filter.
    pub horizon: u32,
    /// Whether the choice is the largest candidate, so that a longer grid might choose more.
    pub at_edge: bool,
    /// `ρ`: the step size.
    pub step_size: f64,
    /// `σ²`: the noise variance the rule worked with.
    pub noise_variance: f64,
    /// `Σ g(λ_i)` of the chosen update.
    pub degrees_of_freedom: f64,
    /// `ℓ_T` with the noise variance profiled, at every candidate; empty if residuals are 0.
    pub evidence: Vec<f64>,
    /// `ℓ_T` with the noise variance set to `‖r‖²/n`, at every candidate; empty if residuals
    /// are 0.
    pub evidence_fixed: Vec<f64>,
    /// The weights of the candidates, by left-out errors if that rule chose and else the Gibbs
    /// posterior; empty if residuals are 0.
    pub posterior: Vec<f64>,
    /// The leave-one-out risk at every candidate, if a rule by left-out errors chose.
    pub left_out_risk: Vec<f64>,
}

/// Which blocks, and how each scored.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// assert_eq!((decision.which.rule, decision.which.budget), (Selection::All, 1));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Which {
    /// The rule that chose.
    pub rule: Selection,
    /// How many blocks were asked for; `leave-one-out` may take fewer.
    pub budget: usize,
    /// Positions of the chosen blocks in the geometry, in the order they were chosen.
    pub selected: Vec<usize>,
    /// The scores of every candidate block.
    pub blocks: Vec<BlockScore>,
}

/// How much a block could do.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// // σ² = 1.625: 4/5.625 + 1/2.625.
/// let trace = 4.0 / 5.625 + 1.0 / 2.625;
/// assert!((decision.which.blocks[0].trace - trace).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BlockScore {
    /// The block's name.
    pub name: String,
    /// `tr(K_b(K_full + σ²I)⁻¹)`: how much the prompt tells about it.
    pub trace: f64,
    /// `k_bᵀ(K_full + σ²I)⁻¹k_b`: how much of that matters at the query.
    pub query: Option<f64>,
}

/// What to carry out on the selected blocks.
///
/// # Examples
///
/// ```
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// assert!(matches!(decision.update, Update::Steps(steps) if steps.horizon == 10));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Leave the model alone.
    None,
    /// Take gradient steps.
    Steps(GradientDescent),
    /// Apply the average over horizons as one update.
    Average(Mixture<GradientDescent>),
    /// Take gradient steps, and apply the average of where they led after each horizon.
    AveragedSteps(Mixture<GradientDescent>),
    /// Apply the posterior mean as one update.
    Posterior(Benchmark),
}

impl Filter for Update {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.filter().response(eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.filter().gain(eigenvalue)
    }
}

impl Update {
    /// The update as the filter that it is.
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
/// # use fewstep_core::{Block, Error, Geometry, Reason, Rules, Selection, Update, decide};
/// # let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// # let geometry = Geometry::new(vec![1.5, 1.0], vec![block])?;
/// let decision = decide(&geometry, &Rules::default())?;
/// // k_x = (2, 0) and q_10(4) = (1 − 0.9^10)/4.
/// let correction = 2.0 * (1.0 - 0.9_f64.powi(10)) / 4.0 * 1.5;
/// let query = decision.query.expect("there is a query");
/// assert!((query.correction - correction).abs() < 1e-14);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryOutlook {
    /// `ĥ(x)`: the correction that the update makes under the linear picture.
    pub correction: f64,
    /// Standard deviation of the ideal correction given the residuals, under the fitted signal
    /// and noise.
    pub standard_deviation: f64,
    /// Where the query's residual is meant to lie, by left-out examples (jackknife+), if a rule by
    /// left-out errors chose. Blocks and horizon were chosen from the same examples, which the
    /// theorem does not allow for: how often it holds is for measurements to say.
    pub interval: Option<Interval>,
}

/// Decides when, how far and in which blocks to adapt.
///
/// Blocks are chosen first, then the step size for their kernel, then the horizon.
///
/// # Errors
///
/// [`Error::OutOfRange`], [`Error::Empty`] or [`Error::BudgetOutOfRange`] for rules that cannot be
/// followed, [`Error::NoQuery`] if a rule needs a query and there is none, and the errors of
/// [`Spectrum::of`] for kernels that are none.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, Rules, decide};
///
/// // Two modes of eigenvalue 4 and 1; the faster one carries more of the residual.
/// let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// let decision = decide(&Geometry::new(vec![1.5, 1.0], vec![block])?, &Rules::default())?;
///
/// assert!(decision.when.adapt && decision.when.gate > 1.0);
/// assert_eq!(decision.how_far.horizon, 10); // 1.5² · 0.9^T = 0.975^T at T ≈ 10.1
/// assert_eq!(decision.which.selected, [0]);
/// # Ok::<(), Error>(())
/// ```
pub fn decide(geometry: &Geometry, rules: &Rules) -> Result<Decision, Error> {
    rules.check(geometry.blocks().len())?;
    let total = geometry.total();
    let total_spectrum = Spectrum::of(total.kernel())?;
    let which = choose_blocks(geometry, &total_spectrum, rules)?;
    let (block, spectrum) = if which.selected.iter().copied().eq(0..geometry.blocks().len()) {
        (total, total_spectrum)
    } else {
        let block = geometry.sum(&which.selected)?;
        let spectrum = Spectrum::of(block.kernel())?;
        (block, spectrum)
    };
    let residuals = geometry.residuals();
    let step = StepSize::fraction(rules.step_scale, &spectrum)?;
    let signal = SignalFit::of(&spectrum, residuals)?;

    let prompt =
        Prompt { geometry, residuals, block: &block, spectrum: &spectrum, step, signal };
    let (update, how_far, gate, interval) = prompt.choose_horizon(rules)?;
    let (gap_icl, gap_adapted) = prompt.gaps(&update)?;
    let adapt = update != Update::None;
    let reason = match prompt.nothing_to_do() {
        Some(reason) => reason,
        None if adapt => Reason::RuleAsksForIt,
        None => Reason::RuleAdvisesAgainst,
    };
    let query = prompt.outlook(&update, interval)?;
    let when = When { adapt, reason, gate, gap_icl, gap_adapted };
    Ok(Decision { when, how_far, which, update, block, spectrum, signal, query })
}

/// Scores every block and chooses within the budget.
fn choose_blocks(
    geometry: &Geometry,
    spectrum: &Spectrum,
    rules: &Rules,
) -> Result<Which, Error> {
    let blocks = geometry.blocks().len();
    // Perfect predictions leave no noise to weigh scores by; any positive number ranks them.
    let noise_variance = match mean_square(geometry.residuals()) {
        0.0 => 1.0,
        variance => variance,
    };
    let (traces, queries) = subspace::scores(geometry, spectrum, noise_variance)?;
    let budget = rules.budget.unwrap_or(blocks);
    let steps = LeftOut {
        step_scale: rules.step_scale,
        horizons: &rules.horizons,
        averaging: rules.leave_one_out,
    };
    let selected = match rules.select {
        Selection::All => (0..blocks).collect(),
        Selection::TraceTop => subspace::top(&traces, budget)?,
        Selection::TraceBottom => subspace::bottom(&traces, budget)?,
        Selection::Random => subspace::random(blocks, budget, &mut Rng::new(rules.seed))?,
        Selection::QueryScore => match &queries {
            Some(scores) => subspace::top(scores, budget)?,
            None => return Err(Error::NoQuery { quantity: "selection by query score" }),
        },
        Selection::QueryAware => {
            let horizon = rules.selection_horizon;
            subspace::greedy_correction(geometry, budget, rules.step_scale, horizon)?.blocks
        }
        Selection::LeaveOneOut => subspace::greedy_left_out(geometry, budget, &steps)?.blocks,
        Selection::Depth => subspace::last_layers(geometry, &steps)?.blocks,
    };
    let score = |(index, block): (usize, &Block)| BlockScore {
        name: block.name().to_owned(),
        trace: traces[index],
        query: queries.as_ref().map(|scores| scores[index]),
    };
    let scores = geometry.blocks().iter().enumerate().map(score).collect();
    Ok(Which { rule: rules.select, budget, selected, blocks: scores })
}

/// A prompt once its blocks are chosen.
struct Prompt<'a> {
    geometry: &'a Geometry,
    residuals: &'a [f64],
    block: &'a Block,
    spectrum: &'a Spectrum,
    step: StepSize,
    signal: SignalFit,
}

/// What a horizon rule found.
struct Found {
    update: Update,
    horizon: u32,
    at_edge: bool,
    noise_variance: f64,
    left_out_risk: Vec<f64>,
    /// Over the candidates, if the rule averages by left-out errors.
    weights: Vec<f64>,
    interval: Option<Interval>,
}

/// The update, the numbers behind it, the gate, and an interval for the query.
type Chosen = (Update, HowFar, f64, Option<Interval>);

impl Prompt<'_> {
    /// Why no rule needs to be asked, if so.
    fn nothing_to_do(&self) -> Option<Reason> {
        if self.residuals.iter().all(|&residual| residual == 0.0) {
            Some(Reason::NothingToCorrect)
        } else if self.spectrum.largest() == 0.0 {
            Some(Reason::NothingMoves)
        } else {
            None
        }
    }

    /// The fitted signal and noise, the noise kept over 0 so that every gap exists.
    fn benchmark(&self) -> Result<Benchmark, Error> {
        self.signal.benchmark(self.residuals)
    }

    fn coupling(&self, quantity: &'static str) -> Result<&[f64], Error> {
        let query = self.block.query().ok_or(Error::NoQuery { quantity })?;
        Ok(&query.coupling)
    }

    /// The update, the numbers behind it, the gate, and an interval for the query.
    fn choose_horizon(&self, rules: &Rules) -> Result<Chosen, Error> {
        if rules.horizon == HorizonRule::BayesGap {
            self.coupling("the horizon rule bayes-gap")?;
        }
        let mut how_far = HowFar {
            rule: rules.horizon,
            horizon: 0,
            at_edge: false,
            step_size: self.step.get(),
            noise_variance: mean_square(self.residuals),
            degrees_of_freedom: 0.0,
            evidence: Vec::new(),
            evidence_fixed: Vec::new(),
            posterior: Vec::new(),
            left_out_risk: Vec::new(),
        };
        if self.nothing_to_do() == Some(Reason::NothingToCorrect) {
            return Ok((Update::None, how_far, 0.0, None));
        }
        let evidence = Evidence::of(self.spectrum, self.residuals, self.step)?;
        how_far.evidence = evidence.curve(&rules.horizons, Noise::Profiled)?;
        how_far.evidence_fixed = evidence.curve(&rules.horizons, Noise::PlugIn)?;
        let posterior = GibbsPosterior::new(
            &rules.horizons,
            &how_far.evidence,
            self.residuals.len(),
            rules.inverse_temperature,
        )?;
        how_far.posterior = posterior.weights().to_vec();
        if self.nothing_to_do().is_none() {
            let found = self.follow(rules, &evidence, &how_far, &posterior)?;
            how_far.horizon = found.horizon;
            how_far.at_edge = found.at_edge;
            how_far.noise_variance = found.noise_variance;
            how_far.left_out_risk = found.left_out_risk;
            if !found.weights.is_empty() {
                how_far.posterior = found.weights;
            }
            how_far.degrees_of_freedom = found.update.degrees_of_freedom(self.spectrum);
            return Ok((found.update, how_far, evidence.gate(), found.interval));
        }
        Ok((Update::None, how_far, evidence.gate(), None))
    }

    /// Asks the rule.
    fn follow(
        &self,
        rules: &Rules,
        evidence: &Evidence,
        how_far: &HowFar,
        posterior: &GibbsPosterior,
    ) -> Result<Found, Error> {
        let candidates = &rules.horizons;
        let (mut left_out_risk, mut weights, mut interval) = (Vec::new(), Vec::new(), None);
        let choice = match rules.horizon {
            HorizonRule::Fixed(horizon) => HorizonChoice { horizon, index: 0, at_edge: false },
            HorizonRule::Evidence | HorizonRule::Gibbs => {
                best_horizon(candidates, &how_far.evidence)?
            }
            HorizonRule::EvidenceFixed => best_horizon(candidates, &how_far.evidence_fixed)?,
            HorizonRule::BayesGap => {
                let coupling = self.coupling("the horizon rule bayes-gap")?;
                self.signal.bayes_gap_horizon(self.spectrum, coupling, self.step, candidates)?.1
            }
            HorizonRule::LeaveOneOut => {
                let left_out =
                    LeaveOneOut::within(self.geometry, self.block, self.step, candidates)?;
                left_out_risk = left_out.risk(rules.leave_one_out)?;
                let choice = left_out.choose(rules.leave_one_out, rules.leave_one_out_gate)?;
                if self.block.query().is_some() {
                    interval = Some(left_out.interval(choice.index, rules.coverage)?);
                }
                choice
            }
            HorizonRule::LeaveOneOutAverage => {
                let left_out =
                    LeaveOneOut::within(self.geometry, self.block, self.step, candidates)?;
                left_out_risk = left_out.risk(rules.leave_one_out)?;
                weights = left_out.posterior(
                    rules.leave_one_out,
                    rules.inverse_temperature,
                    rules.leave_alone_odds,
                )?;
                if self.block.query().is_some() {
                    interval = Some(left_out.interval_of_average(&weights, rules.coverage)?);
                }
                let less: Vec<f64> = weights.iter().map(|weight| -weight).collect();
                best_horizon(candidates, &less)?
            }
            HorizonRule::BayesFilter => HorizonChoice { horizon: 0, index: 0, at_edge: false },
        };
        let update = match rules.horizon {
            HorizonRule::Gibbs => Update::Average(posterior.average(self.step)),
            HorizonRule::LeaveOneOutAverage => self.averaged(candidates, &weights)?,
            HorizonRule::BayesFilter if self.signal.signal_variance == 0.0 => Update::None,
            HorizonRule::BayesFilter => Update::Posterior(self.benchmark()?),
            _ if choice.horizon == 0 => Update::None,
            _ => Update::Steps(GradientDescent { step: self.step, horizon: choice.horizon }),
        };
        let noise_variance = match rules.horizon {
            HorizonRule::Evidence => evidence.noise_variance(f64::from(choice.horizon))?,
            HorizonRule::BayesGap | HorizonRule::BayesFilter => self.signal.noise_variance,
            _ => mean_square(self.residuals),
        };
        let HorizonChoice { horizon, at_edge, .. } = choice;
        Ok(Found { update, horizon, at_edge, noise_variance, left_out_risk, weights, interval })
    }

    /// The average over horizons, unless nearly all weight is on no step.
    fn averaged(&self, horizons: &[u32], weights: &[f64]) -> Result<Update, Error> {
        let parts =
            || weights.iter().zip(horizons).map(|(&weight, &horizon)| (weight, horizon));
        let moved: f64 =
            parts().filter(|(_, horizon)| *horizon > 0).map(|(weight, _)| weight).sum();
        if moved < LEAST_MOVED {
            return Ok(Update::None);
        }
        let filter = |(weight, horizon)| (weight, GradientDescent { step: self.step, horizon });
        Ok(Update::AveragedSteps(Mixture::new(parts().map(filter).collect())?))
    }

    /// The Bayes gaps without and with the update.
    fn gaps(&self, update: &Update) -> Result<(f64, f64), Error> {
        let benchmark = self.benchmark()?;
        let benefit = match self.block.query() {
            Some(query) => {
                risk::query_benefit(self.spectrum, &query.coupling, update, &benchmark)?
            }
            None => risk::prompt_benefit(self.spectrum, update, &benchmark),
        };
        Ok((benefit.gap_icl, benefit.gap_adapted))
    }

    /// The correction at the query and its error bars.
    fn outlook(
        &self,
        update: &Update,
        interval: Option<Interval>,
    ) -> Result<Option<QueryOutlook>, Error> {
        let Some(query) = self.block.query() else { return Ok(None) };
        let benchmark = self.benchmark()?;
        let variance = risk::query_posterior_variance(
            self.spectrum,
            &query.coupling,
            query.variance,
            &benchmark,
        )?;
        Ok(Some(QueryOutlook {
            correction: update.query_correction(
                self.spectrum,
                &query.coupling,
                self.residuals,
            )?,
            standard_deviation: variance.sqrt(),
            interval,
        }))
    }
}

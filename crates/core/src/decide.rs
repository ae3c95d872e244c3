//! The three answers: when to adapt, how far, and which blocks.
//!
//! In: what was observed, a [`Geometry`], and the caller's [`Policy`]. Out: a [`Decision`] that
//! the model's owner can carry out, with every number it rests on. This is the only file
//! that composes the others, one function per rule; it computes nothing that they do not.

use crate::answers::Interval;
use crate::decision::{
    BlockScore, Decision, EvidenceReasons, HowFar, LeaveOneOutErrors, Plan, QueryOutlook,
    Reason, When, Which,
};
use crate::error::Error;
use crate::evidence::{Evidence, HorizonChoice, Noise, best_horizon};
use crate::filter::{Filter, GradientDescent, Mixture};
use crate::geometry::{Block, Geometry};
use crate::gibbs::GibbsPosterior;
use crate::leave_one_out::{Averaging, LeaveOneOut};
use crate::policy::{HorizonRule, Policy, Selection};
use crate::risk::{self, Benchmark};
use crate::rng::Rng;
use crate::signal::SignalFit;
use crate::spectrum::{Spectrum, StepSize};
use crate::subspace::{self, DepthSettings};
use crate::vectors::mean_square;

/// An average with less weight than this on all steps together is not carried out: it would change
/// next to nothing and cost as much as any other.
const LEAST_WEIGHT: f64 = 0.01;

/// Decides when, how far and in which blocks to adapt.
///
/// Blocks are chosen first, then the step size for their kernel, then the horizon. The policy's
/// candidate blocks and dynamics are ignored here, as are its adjoint, residuals and shots: they
/// concern observing and acting. A task of classes is decided by
/// [`decide_classes`](crate::decide_classes()).
///
/// # Errors
///
/// [`Error::Policy`] for a policy that cannot be followed, [`Error::NoQuery`] if a rule needs a query
/// and the geometry has none, and the errors of [`Spectrum::of`] for matrices that are not kernels.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry, Policy, decide};
///
/// // Two modes of eigenvalue 4 and 1; the faster one carries more of the residual.
/// let block = Block::from_features("value.0.0", &[vec![2.0, 0.0], vec![0.0, 1.0]], Some(&[1.0, 0.0]))?;
/// let decision = decide(&Geometry::new(vec![1.5, 1.0], vec![block])?, &Policy::paper())?;
///
/// assert!(decision.when.adapt && decision.when.weight == 1.0);
/// assert_eq!(decision.how_far.horizon, 10); // 1.5² · 0.9^T = 0.975^T at T ≈ 10.1
/// assert_eq!(decision.which.selected, [0]);
/// # Ok::<(), Error>(())
/// ```
pub fn decide(geometry: &Geometry, policy: &Policy) -> Result<Decision, Error> {
    policy.check()?;
    policy.check_budget(geometry.blocks().len())?;
    let total = geometry.total();
    let total_spectrum = Spectrum::of(total.kernel())?;
    let which = choose_blocks(geometry, &total_spectrum, policy)?;
    let (block, spectrum) = if which.selected.iter().copied().eq(0..geometry.blocks().len()) {
        (total, total_spectrum)
    } else {
        let block = geometry.sum(&which.selected)?;
        let spectrum = Spectrum::of(block.kernel())?;
        (block, spectrum)
    };
    let step = StepSize::fraction(policy.step_scale, &spectrum)?;
    let signal = SignalFit::of(&spectrum, geometry.residuals())?;
    let prompt = Prompt { geometry, policy, block: &block, spectrum: &spectrum, step, signal };
    let (found, curves) = prompt.choose_horizon()?;
    let query = prompt.outlook(&found)?;
    let how_far = HowFar {
        rule: policy.horizon.name(),
        horizon: found.horizon,
        at_edge: found.at_edge,
        step_size: step.get(),
        noise_variance: found.noise_variance,
        degrees_of_freedom: found.plan.degrees_of_freedom(&spectrum),
        evidence: curves.profiled,
        evidence_fixed: curves.plug_in,
        posterior: if found.weights.is_empty() { curves.posterior } else { found.weights },
        leave_one_out: found.risks,
    };
    let (policy, when, plan) = (policy.clone(), found.when, found.plan);
    Ok(Decision { policy, when, how_far, which, plan, block, spectrum, signal, query })
}

/// Scores every block and chooses within the budget.
fn choose_blocks(
    geometry: &Geometry,
    spectrum: &Spectrum,
    policy: &Policy,
) -> Result<Which, Error> {
    let blocks = geometry.blocks().len();
    // Perfect predictions leave no noise to weigh scores by; any positive number ranks them.
    let noise_variance = match mean_square(geometry.residuals()) {
        0.0 => 1.0,
        variance => variance,
    };
    let (traces, queries) = subspace::scores(geometry, spectrum, noise_variance)?;
    let mut depth = None;
    let selected = match policy.selection {
        Selection::All => (0..blocks).collect(),
        Selection::TraceTop { budget } => subspace::top(&traces, budget)?,
        Selection::TraceBottom { budget } => subspace::bottom(&traces, budget)?,
        Selection::Random { budget, seed } => {
            subspace::random(blocks, budget, &mut Rng::new(seed))?
        }
        Selection::QueryScore { budget } => match &queries {
            Some(scores) => subspace::top(scores, budget)?,
            None => return Err(Error::NoQuery { quantity: "selection by query score" }),
        },
        Selection::QueryAware { budget, lookahead } => {
            subspace::greedy_correction(geometry, budget, policy.step_scale, lookahead)?.blocks
        }
        Selection::Depth { averaging } => {
            let Policy { step_scale, ref horizons, .. } = *policy;
            let settings = DepthSettings { step_scale, horizons, averaging };
            depth.insert(subspace::last_layers(geometry, &settings)?).blocks.clone()
        }
    };
    let score = |(index, block): (usize, &Block)| BlockScore {
        name: block.name().to_owned(),
        id: block.id(),
        trace: traces[index],
        query: queries.as_ref().map(|scores| scores[index]),
    };
    let scores = geometry.blocks().iter().enumerate().map(score).collect();
    let (rule, budget) = (policy.selection.name(), policy.selection.budget().unwrap_or(blocks));
    Ok(Which { rule, budget, selected, blocks: scores, depth })
}

/// A prompt once its blocks are chosen.
struct Prompt<'a> {
    geometry: &'a Geometry,
    policy: &'a Policy,
    block: &'a Block,
    spectrum: &'a Spectrum,
    step: StepSize,
    signal: SignalFit,
}

/// What evidence says at every candidate; empty if there is nothing to correct.
#[derive(Default)]
struct Curves {
    profiled: Vec<f64>,
    plug_in: Vec<f64>,
    posterior: Vec<f64>,
}

/// What a horizon rule found.
struct Found {
    plan: Plan,
    when: When,
    horizon: u32,
    at_edge: bool,
    noise_variance: f64,
    /// The leave-one-out risk at every candidate, if the rule looks at it.
    risks: Vec<f64>,
    /// Over the candidates, if the rule averages by leave-one-out errors.
    weights: Vec<f64>,
    interval: Option<Interval>,
}

impl Prompt<'_> {
    /// Applies the policy's rule, unless there is nothing to decide.
    fn choose_horizon(&self) -> Result<(Found, Curves), Error> {
        if self.policy.horizon == HorizonRule::BayesGap {
            self.coupling("the horizon rule bayes-gap")?;
        }
        if self.residuals().iter().all(|&residual| residual == 0.0) {
            return Ok((self.nothing(Reason::NothingToCorrect), Curves::default()));
        }
        let evidence = Evidence::of(self.spectrum, self.residuals(), self.step)?;
        let candidates = &self.policy.horizons;
        let mut curves = Curves {
            profiled: evidence.curve(candidates, Noise::Profiled)?,
            plug_in: evidence.curve(candidates, Noise::PlugIn)?,
            posterior: Vec::new(),
        };
        let gibbs = self.gibbs_posterior(&curves)?;
        curves.posterior = gibbs.weights().to_vec();
        if self.spectrum.largest() == 0.0 {
            return Ok((self.nothing(Reason::NothingChanges), curves));
        }
        let found = match self.policy.horizon {
            HorizonRule::Fixed { steps } => Ok(self.fixed(steps)),
            HorizonRule::Evidence => self.evidence(&evidence, &curves),
            HorizonRule::EvidenceFixed => self.evidence_fixed(&evidence, &curves),
            HorizonRule::Gibbs { .. } => self.gibbs(&evidence, &curves, &gibbs),
            HorizonRule::BayesGap => self.bayes_gap(&evidence),
            HorizonRule::LeaveOneOut { averaging, gate } => self.leave_one_out(averaging, gate),
            HorizonRule::LeaveOneOutAverage { averaging, sharpness, leave_alone_odds } => {
                self.leave_one_out_average(averaging, sharpness, leave_alone_odds)
            }
            HorizonRule::BayesFilter => self.bayes_filter(&evidence),
        };
        Ok((found?, curves))
    }

    /// No update, for a reason that needs no rule.
    fn nothing(&self, reason: Reason) -> Found {
        self.found(Plan::None, HorizonChoice { horizon: 0, index: 0, at_edge: false }, reason)
    }

    /// A number of steps that was given.
    fn fixed(&self, steps: u32) -> Found {
        let choice = HorizonChoice { horizon: steps, index: 0, at_edge: false };
        self.found(self.steps(steps), choice, Reason::Given)
    }

    /// The best evidence, noise profiled out.
    fn evidence(&self, evidence: &Evidence, curves: &Curves) -> Result<Found, Error> {
        let choice = best_horizon(&self.policy.horizons, &curves.profiled)?;
        let noise_variance = evidence.noise_variance(f64::from(choice.horizon))?;
        let found = self.by_evidence(evidence, self.steps(choice.horizon), choice)?;
        Ok(Found { noise_variance, ..found })
    }

    /// The best evidence, noise set to the mean squared residual.
    fn evidence_fixed(&self, evidence: &Evidence, curves: &Curves) -> Result<Found, Error> {
        let choice = best_horizon(&self.policy.horizons, &curves.plug_in)?;
        self.by_evidence(evidence, self.steps(choice.horizon), choice)
    }

    /// An average over horizons under the Gibbs posterior.
    fn gibbs(
        &self,
        evidence: &Evidence,
        curves: &Curves,
        posterior: &GibbsPosterior,
    ) -> Result<Found, Error> {
        let choice = best_horizon(&self.policy.horizons, &curves.profiled)?;
        let plan = Plan::Average(posterior.average(self.step));
        let found = self.by_evidence(evidence, plan, choice)?;
        let weight = self.weight_on_steps(posterior.weights());
        Ok(found.weighing(weight, Reason::EvidenceForUpdating, Reason::EvidenceAgainst))
    }

    /// The smallest plug-in Bayes gap at the query.
    fn bayes_gap(&self, evidence: &Evidence) -> Result<Found, Error> {
        let coupling = self.coupling("the horizon rule bayes-gap")?;
        let candidates = &self.policy.horizons;
        let (_, choice) =
            self.signal.bayes_gap_horizon(self.spectrum, coupling, self.step, candidates)?;
        let found = self.by_evidence(evidence, self.steps(choice.horizon), choice)?;
        Ok(Found { noise_variance: self.signal.noise_variance, ..found })
    }

    /// The posterior mean under the fitted signal and noise.
    fn bayes_filter(&self, evidence: &Evidence) -> Result<Found, Error> {
        let plan = match self.signal.signal_variance {
            0.0 => Plan::None,
            _ => Plan::Posterior(self.benchmark()?),
        };
        let choice = HorizonChoice { horizon: 0, index: 0, at_edge: false };
        let found = self.by_evidence(evidence, plan, choice)?;
        Ok(Found { noise_variance: self.signal.noise_variance, ..found })
    }

    /// The smallest leave-one-out risk.
    fn leave_one_out(&self, averaging: Averaging, gate: f64) -> Result<Found, Error> {
        let errors = self.errors()?;
        let choice = errors.choose(averaging, gate)?;
        let mut weights = vec![0.0; self.policy.horizons.len()];
        weights[choice.index] = 1.0;
        let found = self.by_leave_one_out(&errors, &weights, averaging)?;
        let plan = self.steps(choice.horizon);
        let HorizonChoice { horizon, at_edge, .. } = choice;
        Ok(Found { plan, horizon, at_edge, ..found })
    }

    /// An average over horizons, weighted by leave-one-out risk.
    fn leave_one_out_average(
        &self,
        averaging: Averaging,
        sharpness: f64,
        leave_alone_odds: f64,
    ) -> Result<Found, Error> {
        let errors = self.errors()?;
        let weights = errors.posterior(averaging, sharpness, leave_alone_odds)?;
        let less: Vec<f64> = weights.iter().map(|weight| -weight).collect();
        let HorizonChoice { horizon, at_edge, .. } =
            best_horizon(&self.policy.horizons, &less)?;
        let found = self.by_leave_one_out(&errors, &weights, averaging)?;
        let plan = self.averaged(&weights)?;
        Ok(Found { plan, horizon, at_edge, weights, ..found })
    }

    /// A plan with its reason, and defaults for everything else.
    fn found(&self, plan: Plan, choice: HorizonChoice, reason: Reason) -> Found {
        let adapt = plan != Plan::None;
        let weight = f64::from(u8::from(adapt));
        Found {
            plan,
            when: When { adapt, reason, weight, leave_one_out: None, evidence: None },
            horizon: choice.horizon,
            at_edge: choice.at_edge,
            noise_variance: mean_square(self.residuals()),
            risks: Vec::new(),
            weights: Vec::new(),
            interval: None,
        }
    }

    /// A plan chosen by evidence, with the gate and the expected gaps.
    fn by_evidence(
        &self,
        evidence: &Evidence,
        plan: Plan,
        choice: HorizonChoice,
    ) -> Result<Found, Error> {
        let benchmark = self.benchmark()?;
        let benefit = match self.block.query() {
            Some(query) => {
                risk::query_benefit(self.spectrum, &query.coupling, &plan, &benchmark)?
            }
            None => risk::prompt_benefit(self.spectrum, &plan, &benchmark),
        };
        let gaps = EvidenceReasons {
            gate: evidence.gate(),
            gap_icl: benefit.gap_icl,
            gap_adapted: benefit.gap_adapted,
        };
        let reason = match plan {
            Plan::None => Reason::EvidenceAgainst,
            _ => Reason::EvidenceForUpdating,
        };
        let mut found = self.found(plan, choice, reason);
        found.when.evidence = Some(gaps);
        Ok(found)
    }

    /// Everything that follows from leave-one-out errors for an average over the candidates, except
    /// the plan.
    fn by_leave_one_out(
        &self,
        errors: &LeaveOneOut,
        weights: &[f64],
        averaging: Averaging,
    ) -> Result<Found, Error> {
        let (icl, adapted) = errors.before_and_after(self.geometry, weights, averaging)?;
        let mut found = self.nothing(Reason::LeaveOneOutAgainst);
        found.when.leave_one_out = Some(LeaveOneOutErrors { icl, adapted });
        found.risks = errors.risk(averaging)?;
        if self.block.query().is_some() {
            let coverage = self.policy.coverage;
            found.interval = Some(errors.interval_of_average(weights, coverage)?);
        }
        let weight = self.weight_on_steps(weights);
        Ok(found.weighing(weight, Reason::LeaveOneOutForUpdating, Reason::LeaveOneOutAgainst))
    }

    fn residuals(&self) -> &[f64] {
        self.geometry.residuals()
    }

    /// The fitted signal and noise, the noise kept over 0 so that every gap exists.
    fn benchmark(&self) -> Result<Benchmark, Error> {
        self.signal.benchmark(self.residuals())
    }

    fn coupling(&self, quantity: &'static str) -> Result<&[f64], Error> {
        let query = self.block.query().ok_or(Error::NoQuery { quantity })?;
        Ok(&query.coupling)
    }

    /// The leave-one-out errors of every candidate.
    fn errors(&self) -> Result<LeaveOneOut, Error> {
        LeaveOneOut::within(self.geometry, self.block, self.step, &self.policy.horizons)
    }

    fn gibbs_posterior(&self, curves: &Curves) -> Result<GibbsPosterior, Error> {
        let inverse_temperature = match self.policy.horizon {
            HorizonRule::Gibbs { inverse_temperature } => inverse_temperature,
            _ => 1.0,
        };
        let (horizons, n) = (&self.policy.horizons, self.residuals().len());
        GibbsPosterior::new(horizons, &curves.profiled, n, inverse_temperature)
    }

    /// The weight on all steps together.
    fn weight_on_steps(&self, weights: &[f64]) -> f64 {
        let parts = weights.iter().zip(&self.policy.horizons);
        parts.filter(|(_, horizon)| **horizon > 0).map(|(weight, _)| weight).sum()
    }

    fn steps(&self, horizon: u32) -> Plan {
        match horizon {
            0 => Plan::None,
            _ => Plan::Steps(GradientDescent { step: self.step, horizon }),
        }
    }

    /// The average over horizons, unless nearly all weight is on no step.
    fn averaged(&self, weights: &[f64]) -> Result<Plan, Error> {
        if self.weight_on_steps(weights) < LEAST_WEIGHT {
            return Ok(Plan::None);
        }
        let parts = weights.iter().zip(&self.policy.horizons);
        let filter = |(&weight, &horizon): (&f64, &u32)| {
            (weight, GradientDescent { step: self.step, horizon })
        };
        Ok(Plan::AveragedSteps(Mixture::new(parts.map(filter).collect())?))
    }

    /// The correction at the query and its error bars.
    fn outlook(&self, found: &Found) -> Result<Option<QueryOutlook>, Error> {
        let Some(query) = self.block.query() else { return Ok(None) };
        let variance = risk::query_posterior_variance(
            self.spectrum,
            &query.coupling,
            query.variance,
            &self.benchmark()?,
        )?;
        let coupling = &query.coupling;
        Ok(Some(QueryOutlook {
            correction: found.plan.query_correction(
                self.spectrum,
                coupling,
                self.residuals(),
            )?,
            standard_deviation: variance.sqrt(),
            interval: found.interval,
        }))
    }
}

impl Found {
    /// The same with the weight on updating, and the reason that follows from it.
    fn weighing(mut self, weight: f64, for_updating: Reason, against: Reason) -> Self {
        self.when.adapt = weight >= 0.5;
        self.when.weight = weight;
        self.when.reason = if self.when.adapt { for_updating } else { against };
        self
    }
}

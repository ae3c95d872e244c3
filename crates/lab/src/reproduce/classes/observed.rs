//! One prompt, observed once and decided by every policy.
//!
//! In: a model and a drawn prompt. Out: a [`PromptRecord`].

use super::draw::{DrawnPrompt, PromptKey};
use super::logistic;
use super::record::{
    ArmRecord, CandidateRecord, Passes, PolicyRecord, PromptRecord, Rows, Scores, Seconds,
    kept, kept_rows,
};
use super::settings::ClassSettings;
use super::variants::{place, union};
use crate::error::Error;
use fewstep_core::{
    ArmBlocks, Base, ClassArm, ClassBase, ClassCoupling, ClassDecision, ClassDepth,
    ClassGeometry, ClassKernel, ClassPolicy, ClassQuery, Policy, QueryBase, decide_classes,
};
use fewstep_engine::{Model, ObservedClasses, Order, PassCount, PromptSettings, Query};
use std::time::Instant;

/// Inputs without content, by which contextual calibration measures what a prompt favours: those of Zhao
/// et al. 2021 but for the empty one, which no task takes.
const CONTENT_FREE: [&str; 2] = ["N/A", "[MASK]"];

/// For the first prompts of each set, size and seed the default policy's own observation is timed, too.
const TIMED: usize = 1;

/// What observes and decides.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    model: Model,
    policies: Vec<Policy>,
    union: ClassPolicy,
}

/// A prompt as every policy sees it.
struct Seen {
    observed: ObservedClasses,
    /// One per query, the first one's first.
    queries: Vec<ClassQuery>,
    content_free: Vec<ClassQuery>,
    passes: PassCount,
    seconds: Seconds,
}

impl Observer {
    /// The first policy says how prompts are observed, and is judged with the others.
    pub(super) fn new(model: &Model, settings: &ClassSettings) -> Self {
        let mut prompts = PromptSettings::new(model.config().positions);
        prompts.order = if settings.tree_order { Order::Tree } else { Order::Original };
        let (policies, model) =
            (settings.policies.clone(), model.clone().with_prompts(prompts));
        let model = match policies.first() {
            Some(first) => model.with_policy(first),
            None => model,
        };
        Self { model, union: union(&policies), policies }
    }

    /// Everything that is kept of a prompt.
    pub(super) fn record(
        &self,
        key: PromptKey,
        drawn: &DrawnPrompt,
    ) -> Result<PromptRecord, Error> {
        let seen = self.observe(key, drawn)?;
        let geometry = seen.observed.geometry();
        let policies = self.policies.iter().map(|policy| self.decided(policy, &seen)).collect();
        let mut candidates = Vec::new();
        for (arm, blocks) in self.union.arms.iter().zip(seen.observed.arms()) {
            candidates.extend(self.candidates(arm, blocks, &seen)?);
        }
        Ok(PromptRecord {
            key,
            classes: geometry.classes(),
            shown: seen.observed.shown(),
            answers: geometry.answers().to_vec(),
            targets: drawn.targets.clone(),
            examples: of_examples(geometry),
            queries: of_queries(&seen.queries),
            content_free: of_queries(&seen.content_free),
            probe: probe(geometry, &seen.queries)?,
            policies,
            candidates,
            seconds: seen.seconds,
            passes: Passes {
                forward: seen.passes.forward,
                forward_tokens: seen.passes.forward_tokens,
                backward_tokens: seen.passes.backward_tokens,
            },
        })
    }

    fn observe(&self, key: PromptKey, drawn: &DrawnPrompt) -> Result<Seen, Error> {
        let (task, model) = (&drawn.task, &self.model);
        let (observed, observing) = timed(|| model.observe_classes(task, &self.union));
        let observed = observed?;
        let free = CONTENT_FREE.map(|text| Query { x: text.to_owned(), y: None });
        let asked = [&drawn.further[..], &free].concat();
        let (answers, asking) = timed(|| model.ask_classes(task, &observed, &asked));
        let (mut answers, passes) = answers?;
        let free = answers.split_off(drawn.further.len());
        let further = answers.into_iter().collect::<Result<Vec<ClassQuery>, _>>()?;
        let default_observing = match self.policies.first() {
            Some(first) if key.number < TIMED => {
                let (alone, seconds) = timed(|| model.observe_classes(task, &first.classes));
                alone.map(|_| Some(seconds))?
            }
            _ => None,
        };
        Ok(Seen {
            queries: [vec![observed.first().clone()], further].concat(),
            content_free: free.into_iter().collect::<Result<_, _>>()?,
            passes: observed.passes() + passes,
            seconds: Seconds { observing, asking, default_observing },
            observed,
        })
    }

    /// What a policy makes of the prompt; what it cannot follow is written down in its place.
    fn decided(&self, policy: &Policy, seen: &Seen) -> PolicyRecord {
        let arms = policy.classes.arms.iter().map(|arm| {
            let place = place(&self.union.arms, arm).expect("the union holds every arm");
            seen.observed.arms()[place].clone()
        });
        let arms: Vec<ArmBlocks> = arms.collect();
        let geometry = seen.observed.geometry();
        let (decision, seconds) = timed(|| decide_classes(geometry, &arms, policy));
        let answered = decision.and_then(|decision| answered(&decision, seen, seconds));
        answered.unwrap_or_else(|error| PolicyRecord::refused(&policy.name, error.to_string()))
    }

    /// An arm by itself, at every number of steps: its base is the only one, and almost all of the
    /// prior is on it.
    fn candidates(
        &self,
        arm: &ClassArm,
        blocks: &ArmBlocks,
        seen: &Seen,
    ) -> Result<Vec<CandidateRecord>, Error> {
        if blocks.blocks.is_empty() {
            return Ok(vec![]);
        }
        let geometry = seen.observed.geometry();
        let own = alone(geometry, blocks)?;
        let queries: Vec<ClassQuery> =
            seen.queries.iter().map(|query| asked_alone(query, blocks)).collect();
        let only = ArmBlocks { base: 0, blocks: (0..blocks.blocks.len()).collect() };
        let fallback = Policy::default();
        let judged = self.policies.first().unwrap_or(&fallback);
        let mut found = Vec::new();
        for &horizon in judged.horizons.iter().filter(|&&horizon| horizon > 0) {
            let policy = by_itself(judged, arm, horizon);
            let decision = decide_classes(&own, std::slice::from_ref(&only), &policy)?;
            let Some(loss) = decision.arms[0].best else { continue };
            let answers = queries.iter().map(|query| decision.predict(&own, query));
            let answers = answers.collect::<Result<Vec<_>, _>>()?;
            let held = own.answers().iter().enumerate();
            found.push(CandidateRecord {
                arm: arm.to_string(),
                horizon,
                loss: kept(loss),
                held_out: held.map(|(i, &a)| kept(decision.probabilities[(i, a)])).collect(),
                probabilities: kept_rows(answers.iter().map(|answer| &answer.adapted[..])),
            });
        }
        Ok(found)
    }
}

/// A policy that leaves nothing but one arm at one number of steps.
fn by_itself(judged: &Policy, arm: &ClassArm, horizon: u32) -> Policy {
    let (base, depth) = (Base::FewShot, ClassDepth::All);
    let classes = ClassPolicy {
        arms: vec![ClassArm { base, depth, blocks: arm.blocks.clone() }],
        // Neither the prior nor the losses of the other member count.
        leave_alone: 1e-9,
        sharpness: 1e-6,
        ..ClassPolicy::default()
    };
    Policy { horizons: vec![horizon], classes, ..judged.clone() }
}

/// The base of an arm with its blocks alone, as if there were no other prompt.
fn alone(geometry: &ClassGeometry, blocks: &ArmBlocks) -> Result<ClassGeometry, Error> {
    let base = &geometry.bases()[blocks.base];
    let own = blocks.blocks.iter().map(|&block| base.blocks()[block].clone()).collect();
    let base = ClassBase::new(Base::FewShot, base.scores().clone(), own)?;
    Ok(ClassGeometry::new(geometry.classes(), geometry.answers().to_vec(), vec![base])?)
}

/// The same of a query.
fn asked_alone(query: &ClassQuery, blocks: &ArmBlocks) -> ClassQuery {
    let base = &query.bases[blocks.base];
    let couplings = blocks.blocks.iter().map(|&block| base.couplings[block].clone()).collect();
    ClassQuery { bases: vec![QueryBase { scores: base.scores.clone(), couplings }] }
}

fn answered(
    decision: &ClassDecision,
    seen: &Seen,
    seconds: f64,
) -> Result<PolicyRecord, fewstep_core::Error> {
    let geometry = seen.observed.geometry();
    let answers = seen.queries.iter().map(|query| decision.predict(geometry, query));
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    let losses = decision.when.leave_one_out;
    let arm = |arm: &fewstep_core::ArmDecision| ArmRecord {
        name: arm.name.clone(),
        weight: kept(arm.weight),
        best: arm.best.map(kept),
        average: arm.average.map(kept),
    };
    Ok(PolicyRecord {
        name: decision.policy.name.clone(),
        refused: None,
        probabilities: kept_rows(answers.iter().map(|answer| &answer.adapted[..])),
        sets: answers.iter().map(|answer| answer.set.clone()).collect(),
        abstention: answers.iter().map(|answer| kept(answer.abstention)).collect(),
        weight: kept(decision.when.weight),
        leave_one_out: [kept(losses.icl), kept(losses.adapted)],
        zero_shot: decision.zero_shot.map_or(0.0, |alone| kept(alone.weight)),
        arms: decision.arms.iter().map(arm).collect(),
        seconds,
    })
}

fn of_examples(geometry: &ClassGeometry) -> Scores {
    let rows = |base: Base| {
        let found = geometry.bases().iter().find(|other| other.base() == base);
        found.map_or_else(Rows::new, |base| {
            kept_rows((0..base.scores().rows()).map(|row| base.scores().row(row)))
        })
    };
    Scores { few_shot: rows(Base::FewShot), zero_shot: rows(Base::ZeroShot) }
}

/// The few-shot base comes first in every geometry.
fn of_queries(queries: &[ClassQuery]) -> Scores {
    let rows = |base: usize| {
        kept_rows(
            queries.iter().filter_map(|query| query.bases.get(base)).map(|b| &b.scores[..]),
        )
    };
    Scores { few_shot: rows(0), zero_shot: rows(1) }
}

/// A linear probe on the hidden states that the few-shot readout sees, where each is that of one
/// token: then its kernel is one number per pair of examples.
fn probe(geometry: &ClassGeometry, queries: &[ClassQuery]) -> Result<Option<Rows>, Error> {
    let blocks = geometry.bases()[0].blocks();
    let Some(place) = blocks.iter().position(|block| block.name() == "readout") else {
        return Ok(None);
    };
    let ClassKernel::Shared(gram) = blocks[place].kernel() else { return Ok(None) };
    let coupling = |query: &'_ ClassQuery| match &query.bases[0].couplings[place] {
        ClassCoupling::Shared(coupling) => Some(coupling.clone()),
        _ => None,
    };
    let Some(couplings) = queries.iter().map(coupling).collect::<Option<Rows>>() else {
        return Ok(None);
    };
    let couplings: Vec<&[f64]> = couplings.iter().map(Vec::as_slice).collect();
    let found = logistic::probe(gram, &couplings, geometry.answers(), geometry.classes())?;
    Ok(Some(kept_rows(found.iter().map(Vec::as_slice))))
}

/// What some work found, and how many seconds it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    #[allow(clippy::disallowed_methods, reason = "what choosing costs is measured")]
    let start = Instant::now();
    let found = work();
    (found, start.elapsed().as_secs_f64())
}

//! What the descents of one arm come to: its depths, its step sizes, its numbers of steps.
//!
//! In: an arm's blocks behind its base. Out: [`Walk`]s with held-out predictions, or the reason why
//! there are none.

use super::decision::LeftOut;
use super::descent::{Problem, Reached};
use super::evidence::{MOST_OUTPUTS, Normal};
use super::geometry::ClassBase;
use super::operator::Operator;
use super::pool::{Candidate, Pool, mean_loss};
use crate::error::Error;
use crate::field::Field;
use crate::matrix::Matrix;
use crate::policy::{ClassDepth, ClassRule, Policy};

/// One descent: a depth and a step size.
pub(super) struct Walk {
    pub(super) blocks: Vec<usize>,
    pub(super) layers: usize,
    pub(super) step_scale: f64,
    pub(super) step_size: f64,
    /// One entry per number of steps.
    pub(super) reached: Vec<Reached>,
    /// The log-evidence of each, where the policy asks for it.
    pub(super) evidence: Vec<f64>,
}

/// The descents of an arm.
pub(super) struct Walks {
    pub(super) walks: Vec<Walk>,
    pub(super) left_out: Option<LeftOut>,
    /// By evidence: the weights of the candidates within the arm, and their average.
    pub(super) averaged: Option<(Vec<f64>, Matrix)>,
    pub(super) multiplications: u64,
}

impl Walks {
    fn none(reason: LeftOut) -> Self {
        Self { walks: Vec::new(), left_out: Some(reason), averaged: None, multiplications: 0 }
    }

    /// Takes the steps of every depth and step size, and keeps the best depth where the arm says so.
    pub(super) fn of(
        problem: &Problem<'_>,
        base: &ClassBase,
        blocks: &[usize],
        depth: ClassDepth,
        policy: &Policy,
    ) -> Result<Self, Error> {
        let horizons: Vec<u32> = policy.horizons.iter().copied().filter(|&t| t > 0).collect();
        if blocks.is_empty() {
            return Ok(Self::none(LeftOut::NoBlocks));
        }
        if horizons.is_empty() {
            return Ok(Self::none(LeftOut::NoSteps));
        }
        let (mut by_depth, mut multiplications) = (Vec::new(), 0);
        for (layers, kept) in depths(base, blocks, depth) {
            let chosen = kept.iter().map(|&block| &base.blocks()[block]);
            let operator = Operator::of(chosen, base.scores().columns());
            let mut walks = Vec::new();
            let scales = policy.classes.scales(&policy.step_scale);
            for (step_scale, step) in problem.steps(&operator, scales)? {
                let reached = problem.descend(&operator, step, &horizons);
                let (blocks, step_size, evidence) = (kept.clone(), step.get(), Vec::new());
                walks.push(Walk { blocks, layers, step_scale, step_size, reached, evidence });
            }
            if policy.classes.rule == ClassRule::Laplace {
                add_evidence(&mut walks, &operator, (base, problem.answers()), &horizons)?;
            }
            multiplications += operator.multiplications();
            if !walks.is_empty() {
                by_depth.push(walks);
            }
        }
        if depth == ClassDepth::Best {
            by_depth = best(by_depth, problem.answers(), policy.classes.sharpness);
        }
        let walks: Vec<Walk> = by_depth.into_iter().flatten().collect();
        let left_out = walks.is_empty().then_some(LeftOut::NothingChanges);
        let averaged = (policy.classes.rule == ClassRule::Laplace && left_out.is_none())
            .then(|| by_evidence(&walks));
        Ok(Self { walks, left_out, averaged, multiplications })
    }

    /// Held-out probabilities of its members of the pool: every candidate, or their average by
    /// evidence.
    pub(super) fn members(&self) -> Vec<&Matrix> {
        match &self.averaged {
            Some((_, average)) => vec![average],
            None => {
                let reached = self.walks.iter().flat_map(|walk| &walk.reached);
                reached.map(|one| &one.probabilities).collect()
            }
        }
    }

    /// The weights of its candidates, from those of its members.
    pub(super) fn spread(&self, members: &[f64]) -> Vec<f64> {
        match &self.averaged {
            Some((within, _)) => within.iter().map(|share| members[0] * share).collect(),
            None => members.to_vec(),
        }
    }

    /// The mean held-out log-loss of the average over its candidates, if there are any.
    pub(super) fn average(&self, answers: &[usize], sharpness: f64) -> Option<f64> {
        if let Some((_, average)) = &self.averaged {
            return Some(mean_loss(average, answers));
        }
        let candidates = candidates(&self.walks);
        let pool = || Pool::of(&candidates, answers, sharpness);
        (!candidates.is_empty()).then(|| mean_loss(&pool().probabilities, answers))
    }
}

/// Log-evidence of every number of steps, as a prior: `T` steps of `ρ` move a weak mode as far as a
/// prior of variance `ρT` would, `q_T(0) = ρT`.
fn add_evidence(
    walks: &mut [Walk],
    operator: &Operator,
    (base, answers): (&ClassBase, &[usize]),
    horizons: &[u32],
) -> Result<(), Error> {
    let outputs = base.scores().values().len();
    if outputs > MOST_OUTPUTS {
        return Err(Error::Policy {
            field: Field::RULE,
            found: format!("laplace for {outputs} outputs (examples times labels)"),
            allowed: format!("leave-one-out beyond {MOST_OUTPUTS} outputs"),
        });
    }
    if walks.is_empty() {
        return Ok(());
    }
    let normal = Normal::of(operator, base.scores(), answers)?;
    for walk in walks {
        let variances: Vec<f64> =
            horizons.iter().map(|&steps| walk.step_size * f64::from(steps)).collect();
        walk.evidence = normal.evidence(&variances)?;
    }
    Ok(())
}

/// Weights of an arm's candidates by their evidence alone, and the average of what they predict.
fn by_evidence(walks: &[Walk]) -> (Vec<f64>, Matrix) {
    // Of answers that scores near the largest numbers rule out it may be infinite.
    let evidence = walks.iter().flat_map(|walk| &walk.evidence);
    let all: Vec<f64> = evidence.map(|evidence| evidence.max(f64::MIN)).collect();
    let weights = super::loss::softmax(&all);
    let reached = walks.iter().flat_map(|walk| &walk.reached);
    let mut average: Option<Matrix> = None;
    for (one, &weight) in reached.zip(&weights) {
        let probabilities = &one.probabilities;
        average
            .get_or_insert_with(|| Matrix::zeros(probabilities.rows(), probabilities.columns()))
            .add_scaled(weight, probabilities);
    }
    (weights, average.unwrap_or_else(|| Matrix::zeros(0, 0)))
}

/// Candidates of even prior.
fn candidates<'a>(walks: impl IntoIterator<Item = &'a Walk>) -> Vec<Candidate<'a>> {
    let reached = walks.into_iter().flat_map(|walk| &walk.reached);
    reached.map(|one| Candidate { prior: 1.0, probabilities: &one.probabilities }).collect()
}

/// The depth whose average over step sizes and numbers of steps has the smallest held-out log-loss,
/// the deeper of equals.
fn best(by_depth: Vec<Vec<Walk>>, answers: &[usize], sharpness: f64) -> Vec<Vec<Walk>> {
    let loss = |walks: &Vec<Walk>| {
        mean_loss(&Pool::of(&candidates(walks), answers, sharpness).probabilities, answers)
    };
    let losses: Vec<f64> = by_depth.iter().map(loss).collect();
    let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let last = losses.iter().rposition(|&loss| loss <= least);
    by_depth.into_iter().enumerate().filter(|(i, _)| Some(*i) == last).map(|(_, w)| w).collect()
}

/// The sets of blocks of each depth, with the number of layers in it.
fn depths(base: &ClassBase, blocks: &[usize], depth: ClassDepth) -> Vec<(usize, Vec<usize>)> {
    let layer = |block: usize| base.blocks()[block].layer();
    let mut layers: Vec<usize> = blocks.iter().filter_map(|&block| layer(block)).collect();
    layers.sort_unstable();
    layers.dedup();
    let all = layers.len();
    if depth == ClassDepth::All || all == 0 {
        return vec![(all, blocks.to_vec())];
    }
    let numbers = crate::subspace::doubling(all);
    let last = |count: usize| {
        let first = layers[all - count];
        let is_in = |block: &usize| layer(*block).is_none_or(|layer| layer >= first);
        (count, blocks.iter().copied().filter(is_in).collect())
    };
    numbers.map(last).collect()
}

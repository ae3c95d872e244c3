//! The three answers for a task of classes: when to adapt, how far, and which arms.
//!
//! In: a [`ClassGeometry`], the blocks of each arm and a [`Policy`]. Out: a [`ClassDecision`]. This is
//! the only file of this folder that composes the others.

use super::answer::Path;
use super::arms::{Walk, Walks};
use super::decision::{
    ArmBlocks, ArmDecision, ArmPath, ClassDecision, ClassWhen, ZeroShotAlone,
};
use super::descent::Problem;
use super::folds::HeldOut;
use super::geometry::ClassGeometry;
use super::pool::{Candidate, Pool, mean_loss};
use super::sets::Held;
use crate::checks::check_size;
use crate::decision::LeaveOneOutErrors;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::policy::{Base, ClassPolicy, Policy};

/// Decides whether to adapt to a task of classes, and averages over arms and numbers of steps.
///
/// Every arm takes steps of gradient descent in the linearised model of its base's label scores,
/// without each example (or fold) in turn, and predicts what was held out. The pool then holds
/// in-context learning left alone, the zero-shot prompt left alone where it was observed, and every
/// (arm, depth, step size, number of steps).
///
/// ```text
/// a ← a + ρ (Y − softmax(z₀ + K a)),    ρ = step scale · 2/λ_max(K)
/// w ∝ prior · exp(−sharpness · Σ_i leave-one-out log-loss of example i)
/// ```
///
/// The prior of leaving in-context learning alone is the policy's; the rest is spread evenly over the
/// arms that take part, and within an arm over its candidates, among which a zero-shot arm counts its
/// prompt left alone. Where no zero-shot arm takes part, the zero-shot prompt left alone counts as an
/// arm. By the rule `laplace` evidence weighs the candidates of an arm among themselves, and the pool
/// holds their average as one member.
///
/// Costs, per depth and step size, one product of the arm's kernel with `R` vectors per step, `R` the
/// number of folds (the number `n` of examples where each is held out alone) plus 1:
/// `(n·C)²·R` multiplications for dense blocks, `n²·C·R` for shared and `2·n·C·p·R` for features, and
/// `n·C·R` exponentials. Finding the step takes 10 to 60 products with one vector. No matrix larger
/// than the blocks is formed.
///
/// # Errors
///
/// [`Error::Policy`] for a policy that cannot be followed; [`Error::SizeMismatch`],
/// [`Error::BadBlock`] or [`Error::OutOfRange`] for arms that are not those of the policy or name what
/// the geometry does not have; [`Error::NotPositiveSemidefinite`], [`Error::NotFinite`] or
/// [`Error::NotConverged`] for kernels without a stable step.
///
/// # Examples
///
/// In-context learning prefers the first label on every example, whatever the answer: a bias mends
/// that.
///
/// ```
/// use fewstep_core::{
///     ArmBlocks, Base, ClassArm, ClassBase, ClassBlock, ClassCoupling, ClassDepth, ClassGeometry,
///     ClassPolicy, ClassQuery, Error, Matrix, Policy, QueryBase, decide_classes,
/// };
///
/// // z₀ = 2 ± 1 for the first label: only what lies under 2 is meant for the second.
/// let scores = Matrix::from_rows(&[vec![3.0, 0.0], vec![1.0, 0.0], vec![3.0, 0.0], vec![1.0, 0.0]])?;
/// let few_shot = ClassBase::new(Base::FewShot, scores, vec![ClassBlock::bias(4)?])?;
/// let geometry = ClassGeometry::new(2, vec![0, 1, 0, 1], vec![few_shot])?;
///
/// let bias = ClassArm { base: Base::FewShot, blocks: "bias".to_owned(), depth: ClassDepth::All };
/// let classes = ClassPolicy { arms: vec![bias], ..ClassPolicy::default() };
/// let policy = Policy { classes, ..Policy::default() };
/// let arms = [ArmBlocks { base: 0, blocks: vec![0] }];
/// let decision = decide_classes(&geometry, &arms, &policy)?;
///
/// // When? The bias lowers the leave-one-out log-loss, so almost all weight is on updating.
/// assert!(decision.when.adapt && decision.when.weight > 0.9);
/// let losses = decision.when.leave_one_out;
/// assert!(losses.adapted < losses.icl);
/// // How far? The weights of the arm's numbers of steps.
/// assert_eq!(decision.arms[0].paths[0].horizons, [1, 2, 4, 8, 16, 32, 64]);
///
/// // A query whose scores favour the first label by less than the examples of that label.
/// let seen = QueryBase { scores: vec![1.0, 0.0], couplings: vec![ClassCoupling::bias(4)] };
/// let answer = decision.predict(&geometry, &ClassQuery { bases: vec![seen] })?;
/// assert!(answer.icl[0] > 0.7 && answer.label == 1);
/// // Four examples are too few for a set that holds the answer with a confidence of 90 %.
/// assert_eq!(answer.set, [1, 0]);
///
/// // What an update is made of: every example asks for more of the second label.
/// let coefficients = decision.coefficients(0).expect("the arm has weight");
/// assert!((0..4).map(|i| coefficients[(i, 1)]).sum::<f64>() > 0.0);
/// # Ok::<(), Error>(())
/// ```
pub fn decide_classes(
    geometry: &ClassGeometry,
    arms: &[ArmBlocks],
    policy: &Policy,
) -> Result<ClassDecision, Error> {
    policy.check()?;
    check_arms(geometry, arms, &policy.classes)?;
    let held_out = HeldOut::of(geometry.answers(), geometry.classes(), policy.classes.folds);
    let walked = walk(geometry, arms, policy, &held_out)?;
    let alone: Vec<Matrix> =
        geometry.bases().iter().map(|base| Problem::before(base.scores())).collect();
    let members = Members::of(&walked, &alone, &policy.classes);
    let answers = geometry.answers();
    let pool =
        Pool::of(&members.candidates(&walked, &alone), answers, policy.classes.sharpness);
    let weight = 1.0 - pool.weights[0];
    let leave_one_out = LeaveOneOutErrors {
        icl: mean_loss(&alone[0], answers),
        adapted: mean_loss(&pool.probabilities, answers),
    };
    let held = answers.iter().enumerate().map(|(i, &answer)| pool.probabilities[(i, answer)]);
    let zero_shot = alone.get(1).map(|alone| ZeroShotAlone {
        loss: mean_loss(alone, answers),
        weight: pool.weights[1],
    });
    let (arms, paths) = weighed(geometry, arms, policy, &walked, &pool.weights[alone.len()..]);
    Ok(ClassDecision {
        when: ClassWhen { adapt: weight > pool.weights[0], weight, leave_one_out },
        arms,
        zero_shot,
        held: Held::of(held, policy.classes.confidence),
        probabilities: pool.probabilities,
        icl: alone[0].clone(),
        folds: held_out.folds,
        fold_of: held_out.fold_of,
        multiplications: walked.iter().map(|walks| walks.multiplications).sum(),
        paths,
        policy: policy.clone(),
    })
}

/// Refuses arms that are not the policy's, or name what the geometry does not have.
fn check_arms(
    geometry: &ClassGeometry,
    arms: &[ArmBlocks],
    policy: &ClassPolicy,
) -> Result<(), Error> {
    check_size("list of arms", arms.len(), policy.arms.len())?;
    let taking_part = arms.iter().zip(&policy.arms).filter(|(arm, _)| !arm.blocks.is_empty());
    for (arm, meant) in taking_part {
        let base = geometry.bases().get(arm.base).filter(|base| base.base() == meant.base);
        let Some(base) = base else {
            return Err(Error::OutOfRange {
                quantity: "position of an arm's base",
                found: arm.base as f64,
                allowed: "that of a base prompt of the geometry, of the kind the policy names",
            });
        };
        let blocks = base.blocks().len();
        for (place, &index) in arm.blocks.iter().enumerate() {
            if index >= blocks || arm.blocks[..place].contains(&index) {
                return Err(Error::BadBlock { index, blocks });
            }
        }
    }
    Ok(())
}

/// The descents of every arm.
fn walk(
    geometry: &ClassGeometry,
    arms: &[ArmBlocks],
    policy: &Policy,
    held_out: &HeldOut,
) -> Result<Vec<Walks>, Error> {
    let loss = policy.classes.loss;
    let of = |base: &super::geometry::ClassBase| {
        Problem::new(base.scores(), geometry.answers(), held_out, loss)
    };
    let problems: Vec<Problem<'_>> = geometry.bases().iter().map(of).collect();
    let pairs = arms.iter().zip(&policy.classes.arms);
    pairs
        .map(|(arm, meant)| {
            // An arm without blocks may belong to a base that was not observed.
            let base = if arm.blocks.is_empty() { 0 } else { arm.base };
            let (problem, base) = (&problems[base], &geometry.bases()[base]);
            Walks::of(problem, base, &arm.blocks, meant.depth, policy)
        })
        .collect()
}

/// Priors of the members of the pool: the bases left alone, then the candidates of each arm.
struct Members {
    alone: Vec<f64>,
    /// The prior of each candidate of an arm.
    each: Vec<f64>,
}

impl Members {
    fn of(walked: &[Walks], alone: &[Matrix], policy: &ClassPolicy) -> Self {
        let counts: Vec<usize> = walked.iter().map(|walks| walks.members().len()).collect();
        let zero_shot = |arm: usize| policy.arms[arm].base == Base::ZeroShot;
        let taking_part: Vec<usize> =
            (0..counts.len()).filter(|&arm| counts[arm] > 0).collect();
        let has_zero_shot = alone.len() > 1;
        let single = has_zero_shot && !taking_part.iter().any(|&arm| zero_shot(arm));
        let shares = taking_part.len() + usize::from(single);
        if shares == 0 {
            return Self { alone: vec![1.0], each: vec![0.0; counts.len()] };
        }
        let share = (1.0 - policy.leave_alone) / shares as f64;
        let mut priors = vec![policy.leave_alone];
        priors.extend(has_zero_shot.then_some(if single { share } else { 0.0 }));
        let mut each = vec![0.0; counts.len()];
        for arm in taking_part {
            let with_alone = counts[arm] + usize::from(zero_shot(arm));
            each[arm] = share / with_alone as f64;
            if zero_shot(arm) {
                priors[1] += each[arm];
            }
        }
        Self { alone: priors, each }
    }

    fn candidates<'a>(&self, walked: &'a [Walks], alone: &'a [Matrix]) -> Vec<Candidate<'a>> {
        let pairs = self.alone.iter().zip(alone);
        let mut candidates: Vec<Candidate<'_>> =
            pairs.map(|(&prior, probabilities)| Candidate { prior, probabilities }).collect();
        for (walks, &prior) in walked.iter().zip(&self.each) {
            let members = walks.members().into_iter();
            candidates.extend(members.map(|probabilities| Candidate { prior, probabilities }));
        }
        candidates
    }
}

/// What each arm is worth, and what predictions need of it.
fn weighed(
    geometry: &ClassGeometry,
    arms: &[ArmBlocks],
    policy: &Policy,
    walked: &[Walks],
    mut weights: &[f64],
) -> (Vec<ArmDecision>, Vec<Path>) {
    let (mut decided, mut paths) = (Vec::new(), Vec::new());
    for (index, (arm, walks)) in arms.iter().zip(walked).enumerate() {
        let (own, others) = weights.split_at(walks.members().len());
        weights = others;
        let spread = walks.spread(own);
        let mut rest = &spread[..];
        let mut reported = Vec::new();
        for walk in &walks.walks {
            let (weights, after) = rest.split_at(walk.reached.len());
            rest = after;
            let members =
                weights.iter().copied().zip(walk.reached.iter().map(|r| &r.coefficients));
            paths.extend(Path::of((index, arm.base), geometry, &walk.blocks, members));
            reported.push(report(walk, weights, geometry.answers(), &policy.horizons));
        }
        let meant = &policy.classes.arms[index];
        let losses = reported.iter().flat_map(|path| &path.losses);
        decided.push(ArmDecision {
            name: meant.to_string(),
            base: meant.base,
            blocks: arm.blocks.clone(),
            left_out: walks.left_out,
            weight: own.iter().sum(),
            best: losses.copied().reduce(f64::min),
            average: walks.average(geometry.answers(), policy.classes.sharpness),
            paths: reported,
        });
    }
    (decided, paths)
}

fn report(walk: &Walk, weights: &[f64], answers: &[usize], horizons: &[u32]) -> ArmPath {
    ArmPath {
        blocks: walk.blocks.clone(),
        layers: walk.layers,
        step_scale: walk.step_scale,
        step_size: walk.step_size,
        horizons: horizons.iter().copied().filter(|&horizon| horizon > 0).collect(),
        evidence: walk.evidence.clone(),
        losses: walk.reached.iter().map(|one| mean_loss(&one.probabilities, answers)).collect(),
        weights: weights.to_vec(),
    }
}

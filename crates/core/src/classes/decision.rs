//! What is decided for a task of classes, and what it rests on.
//!
//! In: nothing; [`decide_classes`](crate::decide_classes()) makes it. Out: a [`ClassDecision`], which
//! answers queries by [`predict`](ClassDecision::predict).

use super::answer::Path;
use super::sets::Held;
use crate::decision::LeaveOneOutErrors;
use crate::matrix::Matrix;
use crate::policy::{Base, Policy};
use std::fmt;

/// The blocks of one arm of a policy, found in the geometry.
///
/// # Examples
///
/// ```
/// use fewstep_core::ArmBlocks;
///
/// // The first base's blocks 0 and 2.
/// let arm = ArmBlocks { base: 0, blocks: vec![0, 2] };
/// assert_eq!(arm.blocks.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmBlocks {
    /// Position of its base in the geometry.
    pub base: usize,
    /// Positions of its blocks in that base; an arm without blocks is left out.
    pub blocks: Vec<usize>,
}

/// What to do with a task of classes, and why.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDecision {
    /// The policy it was made by.
    pub policy: Policy,
    /// Whether to adapt at all.
    pub when: ClassWhen,
    /// The arms, in the order of the policy.
    pub arms: Vec<ArmDecision>,
    /// The zero-shot prompt left alone, if there is one.
    pub zero_shot: Option<ZeroShotAlone>,
    /// Leave-one-out probabilities of the average, one row per example.
    pub probabilities: Matrix,
    /// The same of in-context learning alone.
    pub icl: Matrix,
    /// The number of folds in which examples were held out; that of the examples if one by one.
    pub folds: usize,
    /// The fold of each example.
    pub fold_of: Vec<usize>,
    /// Multiplications that choosing took, in products with kernels.
    pub multiplications: u64,
    pub(super) paths: Vec<Path>,
    pub(super) held: Held,
}

/// The zero-shot prompt without an update, a member of the average where it was observed.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZeroShotAlone {
    /// Its mean log-loss on the examples.
    pub loss: f64,
    /// Its weight.
    pub weight: f64,
}

/// Whether adapting is worth it, by leave-one-out log-losses.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassWhen {
    /// The answer: whether there is more weight on updating than on leaving in-context learning
    /// alone. The prediction averages both all the same.
    pub adapt: bool,
    /// The weight on everything but leaving in-context learning alone.
    pub weight: f64,
    /// Mean leave-one-out log-losses of in-context learning alone and of the average.
    pub leave_one_out: LeaveOneOutErrors,
}

/// What one arm is worth.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Debug, PartialEq)]
pub struct ArmDecision {
    /// Its name, such as `few-shot bias`.
    pub name: String,
    /// The prompt that it starts from.
    pub base: Base,
    /// Positions of its blocks in that base.
    pub blocks: Vec<usize>,
    /// Why it takes no part, if it does not.
    pub left_out: Option<LeftOut>,
    /// Its weight: the sum of its paths' weights.
    pub weight: f64,
    /// The mean leave-one-out log-loss of its best candidate, if it takes part.
    pub best: Option<f64>,
    /// That of the average over its candidates.
    pub average: Option<f64>,
    /// Its descents, one per depth and step size.
    pub paths: Vec<ArmPath>,
}

/// Why an arm takes no part in the average.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_core::LeftOut::NoBlocks.to_string(), "it has no blocks");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOut {
    /// It has no blocks.
    NoBlocks,
    /// Its kernel is 0: no step would change a prediction.
    NothingChanges,
    /// The policy asks for no step at all.
    NoSteps,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBlocks => "it has no blocks",
            Self::NothingChanges => "its kernel is 0: no step would change a prediction",
            Self::NoSteps => "no number of steps over 0 is a candidate",
        })
    }
}

/// One descent of an arm, with what each number of steps is worth.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Debug, PartialEq)]
pub struct ArmPath {
    /// Positions of the blocks that are updated.
    pub blocks: Vec<usize>,
    /// The number of layers they belong to; blocks of no layer are not counted.
    pub layers: usize,
    /// The step size as a fraction of the largest stable one.
    pub step_scale: f64,
    /// `ρ`: the step size.
    pub step_size: f64,
    /// The numbers of steps.
    pub horizons: Vec<u32>,
    /// The mean leave-one-out log-loss at each of them.
    pub losses: Vec<f64>,
    /// The log-evidence of each of them, where the policy's rule is evidence; else empty.
    pub evidence: Vec<f64>,
    /// The weight of each of them.
    pub weights: Vec<f64>,
}

/// The answer to a query.
///
/// # Examples
///
/// See [`decide_classes`](crate::decide_classes()).
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPrediction {
    /// Probabilities of the labels by in-context learning alone.
    pub icl: Vec<f64>,
    /// Those of the average.
    pub adapted: Vec<f64>,
    /// The most probable label of the average.
    pub label: usize,
    /// The labels of a set that holds the answer with the policy's confidence, most probable first.
    pub set: Vec<usize>,
    /// From 0 to 1: how unusual it would be, among the examples, for an answer to be no more probable
    /// than the most probable label here.
    pub abstention: f64,
}

//! Blocks that predict examples which were left out: one by one, or layer by layer from the last.

use crate::checks::check_budget;
use crate::error::Error;
use crate::geometry::{Block, Geometry};
use crate::leave_one_out::{Averaging, LeaveOneOut};
use crate::spectrum::{Spectrum, StepSize};

/// How errors on examples left out are measured for a choice of blocks.
///
/// # Examples
///
/// See [`greedy_left_out`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut<'a> {
    /// `c`: the step size as a fraction of the largest stable one of the blocks together.
    pub step_scale: f64,
    /// Candidate numbers of steps, ascending.
    pub horizons: &'a [u32],
    /// How left-out errors are averaged.
    pub averaging: Averaging,
}

/// Blocks in the order in which they were taken, and what is left of the error.
///
/// # Examples
///
/// See [`greedy_left_out`].
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOutChoice {
    /// The blocks' positions.
    pub blocks: Vec<usize>,
    /// The smallest leave-one-out risk over the horizons once the block was in.
    pub risks: Vec<f64>,
}

/// Adds blocks one by one, each time the one with which examples left out are predicted best, as
/// long as that makes their error smaller.
///
/// ```text
/// b = argmin_b min_T risk(T; K_cur + K^(b)),   ρ = c/λ_max(K_cur + K^(b))
/// ```
///
/// Beyond the paper, whose rules look at how far a block moves the query and not at whether that is
/// the right way. The first block is always taken; of equal ones the first. Of many candidate
/// horizons some are looked at, each about √2 times the one before: the risk changes slowly.
///
/// Every candidate costs a decomposition per example.
///
/// # Errors
///
/// [`Error::BudgetOutOfRange`] for a budget of 0 or more than there are blocks,
/// [`Error::OutOfRange`] unless the step scale is over 0 and under 1, and those of
/// [`LeaveOneOut::of`] and [`LeaveOneOut::risk`].
///
/// # Examples
///
/// ```
/// use fewstep_core::leave_one_out::Averaging;
/// use fewstep_core::subspace::{LeftOut, greedy_left_out};
/// use fewstep_core::{Block, Error, Geometry};
///
/// // The first block takes the two examples for alike, which they are; the second for opposite.
/// let alike = Block::from_features("value.0.0", &[vec![1.0], vec![1.0]], None)?;
/// let opposite = Block::from_features("value.0.1", &[vec![2.0], vec![-2.0]], None)?;
/// let geometry = Geometry::new(vec![1.0, 1.0], vec![opposite, alike])?;
/// let steps = LeftOut { step_scale: 0.5, horizons: &[0, 1], averaging: Averaging::Plain };
/// let choice = greedy_left_out(&geometry, 2, &steps)?;
/// // One step closes a quarter of the gap: ½ of λ_max = 2.
/// assert_eq!((choice.blocks, choice.risks), (vec![1], vec![0.75 * 0.75]));
/// # Ok::<(), Error>(())
/// ```
pub fn greedy_left_out(
    geometry: &Geometry,
    budget: usize,
    steps: &LeftOut<'_>,
) -> Result<LeftOutChoice, Error> {
    let blocks = geometry.blocks().len();
    check_budget(budget, blocks)?;
    let horizons = thinned(steps.horizons);
    let mut choice = LeftOutChoice { blocks: Vec::new(), risks: Vec::new() };
    while choice.blocks.len() < budget {
        let mut best: Option<(usize, f64)> = None;
        for block in (0..blocks).filter(|block| !choice.blocks.contains(block)) {
            let mut together = choice.blocks.clone();
            together.push(block);
            let risk = left_out_risk(&geometry.sum(&together)?, geometry, steps, &horizons)?;
            if best.is_none_or(|(_, least)| risk < least) {
                best = Some((block, risk));
            }
        }
        let (block, risk) = best.expect("the budget leaves a block");
        if choice.risks.last().is_some_and(|&least| risk >= least) {
            break;
        }
        choice.blocks.push(block);
        choice.risks.push(risk);
    }
    Ok(choice)
}

/// The last layers, as many as predict examples left out best, and what every number of them leaves
/// of the error.
///
/// # Examples
///
/// See [`last_layers`].
#[derive(Clone, Debug, PartialEq)]
pub struct DepthChoice {
    /// The blocks' positions, in their own order.
    pub blocks: Vec<usize>,
    /// Numbers of layers that were tried: 1, 2, 4, … and all.
    pub layers: Vec<usize>,
    /// The smallest leave-one-out risk over the horizons with each.
    pub risks: Vec<f64>,
}

/// Blocks of the last layers, of as many as predict examples left out best.
///
/// ```text
/// d = argmin_d min_T risk(T; Σ_{b in the last d layers} K^(b)),   d = 1, 2, 4, …, all
/// ```
///
/// Beyond the paper. Updates of the last layer see what a small model has worked out by then; in a
/// large one, layers before it do the work that a prompt asks for, and the prompt itself says which.
/// Few nested sets are told apart more surely by a handful of examples than any choice of blocks. Of
/// equal ones the one with the most layers is taken. Only layers with candidate blocks are counted,
/// and blocks whose names tell no layer are always in.
///
/// Every number of layers costs as much as one block in [`greedy_left_out`].
///
/// # Errors
///
/// [`Error::OutOfRange`] unless the step scale is over 0 and under 1, and those of
/// [`LeaveOneOut::of`] and [`LeaveOneOut::risk`].
///
/// # Examples
///
/// ```
/// use fewstep_core::leave_one_out::Averaging;
/// use fewstep_core::subspace::{LeftOut, last_layers};
/// use fewstep_core::{Block, Error, Geometry};
///
/// // The last layer takes the two examples for alike, which they are; the one before for opposite.
/// let before = Block::from_features("mlp-up.4", &[vec![2.0], vec![-2.0]], None)?;
/// let last = Block::from_features("mlp-up.5", &[vec![1.0], vec![1.0]], None)?;
/// let geometry = Geometry::new(vec![1.0, 1.0], vec![before, last])?;
/// let steps = LeftOut { step_scale: 0.5, horizons: &[0, 1], averaging: Averaging::Plain };
/// let choice = last_layers(&geometry, &steps)?;
/// assert_eq!((choice.blocks, choice.layers), (vec![1], vec![1, 2]));
/// assert_eq!(choice.risks, [0.75 * 0.75, 1.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn last_layers(geometry: &Geometry, steps: &LeftOut<'_>) -> Result<DepthChoice, Error> {
    let blocks = geometry.blocks();
    let mut found: Vec<usize> = blocks.iter().filter_map(Block::layer).collect();
    found.sort_unstable();
    found.dedup();
    let horizons = thinned(steps.horizons);
    let mut choice = DepthChoice { blocks: vec![], layers: vec![], risks: vec![] };
    let mut least = f64::INFINITY;
    for layers in doubling(found.len()) {
        let first = found.len() - layers;
        let is_in = |block: &Block| block.layer().is_none_or(|layer| layer >= found[first]);
        let set: Vec<usize> = (0..blocks.len()).filter(|&b| is_in(&blocks[b])).collect();
        let risk = left_out_risk(&geometry.sum(&set)?, geometry, steps, &horizons)?;
        if risk <= least {
            (choice.blocks, least) = (set, risk);
        }
        choice.layers.push(layers);
        choice.risks.push(risk);
    }
    Ok(choice)
}

/// 1, 2, 4, … as long as they are under the last, and the last.
fn doubling(last: usize) -> impl Iterator<Item = usize> {
    let next = move |&before: &usize| (before < last).then(|| (2 * before).min(last));
    std::iter::successors(Some(last.min(1)), next)
}

/// The smallest leave-one-out risk over the horizons.
fn left_out_risk(
    block: &Block,
    geometry: &Geometry,
    steps: &LeftOut<'_>,
    horizons: &[u32],
) -> Result<f64, Error> {
    let spectrum = Spectrum::of(block.kernel())?;
    let step = StepSize::fraction(steps.step_scale, &spectrum)?;
    let left_out = LeaveOneOut::within(geometry, block, step, horizons)?;
    Ok(left_out.risk(steps.averaging)?.into_iter().fold(f64::INFINITY, f64::min))
}

/// The first of the horizons, then each that is at least √2 times the one kept before, and the last.
fn thinned(horizons: &[u32]) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::new();
    for &horizon in horizons {
        let far =
            |&last: &u32| f64::from(horizon) >= std::f64::consts::SQRT_2 * f64::from(last);
        if kept.last().is_none_or(far) {
            kept.push(horizon);
        }
    }
    kept.extend(horizons.last().filter(|&&last| kept.last() != Some(&last)));
    kept
}

#[cfg(test)]
mod tests {
    use super::{doubling, thinned};

    #[test]
    fn fewer_horizons_are_as_far_apart_as_said() {
        let all: Vec<u32> = (0..=30).collect();
        assert_eq!(thinned(&all), [0, 1, 2, 3, 5, 8, 12, 17, 25, 30]);
        assert_eq!(thinned(&[4, 5, 6]), [4, 6]);
        assert!(thinned(&[]).is_empty());
    }

    #[test]
    fn numbers_of_layers_double() {
        let of = |last| doubling(last).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(3), [1, 2, 3]);
        assert_eq!(of(15), [1, 2, 4, 8, 15]);
        assert_eq!(of(16), [1, 2, 4, 8, 16]);
        // Blocks without a layer are one set.
        assert_eq!(of(0), [0]);
    }
}

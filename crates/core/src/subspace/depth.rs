//! How many of the last layers to update, by leave-one-out errors.

use crate::error::Error;
use crate::geometry::{Block, Geometry};
use crate::leave_one_out::{Averaging, LeaveOneOut};
use crate::spectrum::{Spectrum, StepSize};

/// How leave-one-out errors are measured for a set of blocks.
///
/// # Examples
///
/// See [`last_layers`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DepthSettings<'a> {
    /// `c`: the step size as a fraction of the largest stable one of the blocks together.
    pub step_scale: f64,
    /// Candidate numbers of steps, ascending.
    pub horizons: &'a [u32],
    /// How leave-one-out errors are averaged.
    pub averaging: Averaging,
}

/// The blocks of the last layers with the smallest leave-one-out error, and that error for every
/// number of layers that was tried.
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

/// The blocks of the last layers whose update predicts held-out examples best.
///
/// ```text
/// d = argmin_d min_T risk(T; Σ_{b in the last d layers} K^(b)),   d = 1, 2, 4, …, all
/// ```
///
/// Beyond the paper. In a small model the last layer suffices; in a larger one earlier layers matter
/// too, and the prompt tells how many. A handful of examples distinguishes a few nested sets more
/// reliably than arbitrary sets of blocks. Of equal ones the one with the most layers is taken. Only
/// layers with candidate blocks are counted, and blocks without a layer are always included: if none
/// has one there is one set, of 0 layers. Of many candidate horizons some are looked at, each about
/// √2 times the one before, as the risk changes slowly.
///
/// Every number of layers costs a decomposition, and the steps of every example.
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
/// use fewstep_core::subspace::{DepthSettings, last_layers};
/// use fewstep_core::{Block, Error, Geometry};
///
/// // The last layer takes the two examples for alike, which they are; the one before for opposite.
/// let before = Block::from_features("mlp-up.4", &[vec![2.0], vec![-2.0]], None)?.in_layer(4);
/// let last = Block::from_features("mlp-up.5", &[vec![1.0], vec![1.0]], None)?.in_layer(5);
/// let geometry = Geometry::new(vec![1.0, 1.0], vec![before, last])?;
/// let steps = DepthSettings { step_scale: 0.5, horizons: &[0, 1], averaging: Averaging::Plain };
/// let choice = last_layers(&geometry, &steps)?;
/// assert_eq!((choice.blocks, choice.layers), (vec![1], vec![1, 2]));
/// assert_eq!(choice.risks, [0.75 * 0.75, 1.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn last_layers(
    geometry: &Geometry,
    steps: &DepthSettings<'_>,
) -> Result<DepthChoice, Error> {
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
        let risk = leave_one_out_risk(&geometry.sum(&set)?, geometry, steps, &horizons)?;
        if risk <= least {
            (choice.blocks, least) = (set, risk);
        }
        choice.layers.push(layers);
        choice.risks.push(risk);
    }
    Ok(choice)
}

/// 1, 2, 4, … as long as they are under the last, and the last.
pub(crate) fn doubling(last: usize) -> impl Iterator<Item = usize> {
    let next = move |&before: &usize| (before < last).then(|| (2 * before).min(last));
    std::iter::successors(Some(last.min(1)), next)
}

/// The smallest leave-one-out risk over the horizons.
fn leave_one_out_risk(
    block: &Block,
    geometry: &Geometry,
    steps: &DepthSettings<'_>,
    horizons: &[u32],
) -> Result<f64, Error> {
    let spectrum = Spectrum::of(block.kernel())?;
    let step = StepSize::fraction(steps.step_scale, &spectrum)?;
    let leave_one_out = LeaveOneOut::within(geometry, block, step, horizons)?;
    Ok(leave_one_out.risk(steps.averaging)?.into_iter().fold(f64::INFINITY, f64::min))
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

//! A prompt's features as blocks, for the tests of block scores.

use crate::support::Prompt;
use fewstep_core::{Block, Geometry};
use std::ops::Range;

/// The prompt's features cut into at most five blocks of consecutive columns.
pub(crate) fn cut(prompt: &Prompt) -> (Vec<Range<usize>>, Geometry) {
    let width = prompt.query.len();
    let count = width.min(5);
    let ranges: Vec<Range<usize>> =
        (0..count).map(|b| b * width / count..(b + 1) * width / count).collect();
    let blocks = ranges.iter().map(|range| {
        let features = columns(prompt, range);
        let query = &prompt.query[range.clone()];
        Block::from_features(format!("{range:?}"), &features, Some(query)).unwrap()
    });
    let geometry = Geometry::new(prompt.residuals.clone(), blocks.collect()).unwrap();
    (ranges, geometry)
}

pub(crate) fn columns(prompt: &Prompt, range: &Range<usize>) -> Vec<Vec<f64>> {
    prompt.features.iter().map(|row| row[range.clone()].to_vec()).collect()
}

/// A noise variance of the kernel's own size.
pub(crate) fn noise(prompt: &Prompt) -> f64 {
    let kernel = prompt.kernel();
    let mean = (0..prompt.n()).map(|i| kernel[i][i]).sum::<f64>() / prompt.n() as f64;
    if mean > 0.0 { 0.2 * mean } else { 1.0 }
}

//! Which blocks to update.

use crate::{Lines, inputs, leave_one_out};
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::subspace::{self, DepthSettings};
use fewstep_core::{Block, Error, Geometry, Rng};

pub(crate) fn geometry() -> Result<Geometry, Error> {
    let block = |index: usize| {
        let query = inputs::features(index + 5, 1, 3).remove(0);
        let features = inputs::features(index, inputs::EXAMPLES, 3);
        let (layer, head) = (index / 2, index % 2);
        let name = format!("value.{layer}.{head}");
        Ok(Block::from_features(name, &features, Some(&query))?.in_layer(layer))
    };
    Geometry::new(inputs::residuals(), (0..4).map(block).collect::<Result<_, Error>>()?)
}

fn positions(found: Vec<usize>) -> impl Iterator<Item = f64> {
    found.into_iter().map(|position| position as f64)
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let geometry = &geometry()?;
    let scores = subspace::trace_scores(geometry, 0.375)?;
    lines.add("subspace.per_weight", subspace::per_weight(&scores, geometry)?);
    lines.add("subspace.top", positions(subspace::top(&scores, 3)?));
    lines.add("subspace.bottom", positions(subspace::bottom(&scores, 3)?));
    lines.add("subspace.trace_scores", scores);
    lines.add("subspace.query_scores", subspace::query_scores(geometry, 0.375)?);
    lines.add("subspace.random", positions(subspace::random(9, 4, &mut Rng::new(5))?));
    let greedy = subspace::greedy_correction(geometry, 3, 0.25, 4)?;
    lines.add("subspace.greedy_correction.blocks", positions(greedy.blocks));
    lines.add("subspace.greedy_correction.corrections", greedy.corrections);
    let geometry = &geometry.clone().with_answers(leave_one_out::answers()?)?;
    let horizons: Vec<u32> = (0..=12).collect();
    for (name, averaging) in [
        ("plain", Averaging::Plain),
        ("trimmed", Averaging::Trimmed),
        ("median", Averaging::Median),
        ("by-label", Averaging::ByLabel),
        ("query-weighted", Averaging::QueryWeighted),
    ] {
        let steps = DepthSettings { step_scale: 0.25, horizons: &horizons, averaging };
        let choice = subspace::last_layers(geometry, &steps)?;
        let blocks = format!("subspace.last_layers.blocks.{name}");
        lines.add(&blocks, positions(choice.blocks));
        let layers = format!("subspace.last_layers.layers.{name}");
        lines.add(&layers, positions(choice.layers));
        lines.add(&format!("subspace.last_layers.risks.{name}"), choice.risks);
    }
    Ok(())
}

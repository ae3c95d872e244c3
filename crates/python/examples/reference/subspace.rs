//! Which blocks to update.

use crate::{Lines, inputs, leave_one_out};
use fewstep_core::leave_one_out::Averaging;
use fewstep_core::subspace::{self, LeftOut};
use fewstep_core::{Block, Error, Geometry, Rng};

pub(crate) fn geometry() -> Result<Geometry, Error> {
    let block = |index: usize| {
        let query = inputs::features(index + 5, 1, 3).remove(0);
        let features = inputs::features(index, inputs::EXAMPLES, 3);
        Block::from_features(
            format!("value.{}.{}", index / 2, index % 2),
            &features,
            Some(&query),
        )
    };
    Geometry::new(inputs::residuals(), (0..4).map(block).collect::<Result<_, _>>()?)
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
        ("balanced", Averaging::Balanced),
        ("by-label", Averaging::ByLabel),
        ("query-weighted", Averaging::QueryWeighted),
    ] {
        let steps = LeftOut { step_scale: 0.25, horizons: &horizons, averaging };
        let choice = subspace::greedy_left_out(geometry, 3, &steps)?;
        let blocks = format!("subspace.greedy_left_out.blocks.{name}");
        lines.add(&blocks, positions(choice.blocks));
        lines.add(&format!("subspace.greedy_left_out.risks.{name}"), choice.risks);
        let choice = subspace::last_layers(geometry, &steps)?;
        let blocks = format!("subspace.last_layers.blocks.{name}");
        lines.add(&blocks, positions(choice.blocks));
        let layers = format!("subspace.last_layers.layers.{name}");
        lines.add(&layers, positions(choice.layers));
        lines.add(&format!("subspace.last_layers.risks.{name}"), choice.risks);
    }
    Ok(())
}

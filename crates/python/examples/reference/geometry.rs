//! Blocks from features, factors and priors, and their sums.

use crate::inputs::{self, EXAMPLES, features};
use crate::{Lines, leave_one_out};
use fewstep_core::{Block, Error, Factors, Geometry, Matrix};

/// Three blocks with a query, each in a layer of its own.
pub(crate) fn geometry() -> Result<Geometry, Error> {
    let block = |index: usize| {
        let query = &features(index, EXAMPLES + 1, 3)[EXAMPLES];
        let rows = features(index, EXAMPLES, 3);
        let block = Block::from_features(format!("value.{index}.5"), &rows, Some(query));
        block.map(|block| block.in_layer(index))
    };
    Geometry::new(inputs::residuals(), vec![block(0)?, block(1)?, block(2)?])
}

fn lines_of(lines: &mut Lines, name: &str, block: &Block) {
    lines.add(&format!("{name}.kernel"), block.kernel().values().to_vec());
    let query = block.query().into_iter();
    let values = query.flat_map(|query| query.coupling.iter().copied().chain([query.variance]));
    lines.add(&format!("{name} query"), values);
    lines.add(&format!("{name}.parameters"), block.parameters().map(|count| count as f64));
}

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let geometry = geometry()?;
    let given = Block::new("c", &inputs::kernel())?
        .with_query(vec![0.5, -0.25, 0.125, 0.0], 2.0)?
        .with_parameters(3);
    lines_of(lines, "Block", &given);
    lines.add("Block.name", given.name().bytes().map(f64::from));
    let layers = geometry.blocks().iter().filter_map(Block::layer);
    lines.add("Block.layer", layers.map(|layer| layer as f64));
    lines_of(lines, "Block.from_features", &geometry.blocks()[1]);
    let rows = features(0, EXAMPLES, 3);
    let prior = vec![vec![2.0, 0.5, 0.0], vec![0.5, 1.0, 0.25], vec![0.0, 0.25, 3.0]];
    let prior = Matrix::from_rows(&prior)?;
    lines_of(
        lines,
        "Block.from_prior",
        &Block::from_prior("a", &rows, &prior, Some(&rows[0]))?,
    );
    let factors = |index: usize| {
        let inputs = Matrix::from_rows(&features(index, 2, 3))?;
        Factors::new(inputs, Matrix::from_rows(&features(index + 1, 2, 2))?)
    };
    let examples = [factors(0)?, factors(1)?, factors(2)?];
    let block = Block::from_factors("b", &examples, Some(&factors(3)?))?;
    lines_of(lines, "Block.from_factors", &block);
    let twice = |name| Block::from_factors(name, &examples, Some(&factors(3)?));
    let layers = Geometry::new(vec![0.5, -0.25, 1.0], vec![twice("first")?, twice("second")?])?;
    lines_of(lines, "Geometry.from_factors", &layers.total());
    lines_of(lines, "Block.intercept", &Block::intercept(3)?);
    lines_of(lines, "Geometry.sum", &geometry.sum(&[2, 0])?);
    lines_of(lines, "Geometry.total", &geometry.total());
    let answered = geometry.clone().with_answers(leave_one_out::answers()?)?;
    let answers = answered.answers().into_iter().flat_map(|answers| answers.labels());
    lines.add("Geometry.answers", answers.map(|&label| label as f64));
    let scaled = geometry.precondition(&[0.3, 1.0, 2.7])?;
    lines_of(lines, "Geometry.precondition", &scaled.total());
    Ok(())
}

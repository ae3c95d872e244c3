//! What a seeded generator draws.

use crate::Lines;
use fewstep_core::{Error, Rng};

pub(crate) fn add(lines: &mut Lines) -> Result<(), Error> {
    let mut rng = Rng::new(7);
    lines.add("Rng.uniform", (0..5).map(|_| rng.uniform()));
    lines.add("Rng.sign", (0..5).map(|_| rng.sign()));
    lines.add("Rng.normal", (0..5).map(|_| rng.normal()));
    lines.add("Rng.below", (0..5).map(|_| rng.below(1000) as f64));
    lines.add("Rng.choose", rng.choose(4, 9).into_iter().map(|drawn| drawn as f64));
    Ok(())
}

//! Derivatives of the whole model against differences of its own predictions, in `f64`.

use crate::support::{FAMILIES, all_blocks, blocks, kinds, norm, random_case_of};
use fewstep_core::Rng;
use fewstep_engine::{BlockId, FirstFactor, Layout, Lora, Network, Tape, Update};

/// `Σ_i seed_i s_i` at an update.
fn value(tape: &mut Tape<f64>, update: &Update<f64>, seeds: &[f64]) -> f64 {
    let predictions = tape.run(update).unwrap();
    predictions.iter().zip(seeds).map(|(s, seed)| s * seed).sum()
}

/// A random update of the blocks of a tape, of the size of the weights or smaller.
fn random_update(tape: &Tape<f64>, spread: f64, rng: &mut Rng) -> Update<f64> {
    let mut update = tape.zero_update();
    let chosen: Vec<BlockId> = update.blocks().iter().map(|(block, _)| *block).collect();
    for block in chosen {
        for value in update.block_mut(block).unwrap() {
            *value = spread * rng.normal();
        }
    }
    update
}

/// With first factors of both kinds in turn.
fn low_rank(model: Network<f64>, number: u64) -> Network<f64> {
    let first =
        if number.is_multiple_of(2) { FirstFactor::Random } else { FirstFactor::Inputs };
    model.with_lora(Lora { rank: 2, first, seed: number }).unwrap()
}

/// A direction in one block: five-point difference against the gradient, away from θ = 0.
fn check_blocks(
    model: &Network<f64>,
    layout: &Layout,
    family: u64,
    case: u64,
    chosen: &[BlockId],
) {
    let (_, _, task) = random_case_of(family, case);
    let mut rng = Rng::new(100 + case);
    let mut tape = Tape::new(model, layout.clone(), task.labels(), chosen).unwrap();
    let at = random_update(&tape, 0.2, &mut rng);
    let seeds: Vec<f64> = (0..layout.sequences()).map(|_| rng.normal()).collect();
    tape.run(&at).unwrap();
    tape.pull_back(&seeds).unwrap();
    let gradient = tape.gradient().unwrap();
    for (block, slope) in gradient.blocks() {
        let direction: Vec<f64> = slope.iter().map(|_| rng.normal()).collect();
        let width = 1e-4 / norm(&direction);
        let mut moved = |offset: f64| {
            let mut update = at.clone();
            let change = update.block_mut(*block).unwrap();
            for (change, direction) in change.iter_mut().zip(&direction) {
                *change += offset * width * direction;
            }
            value(&mut tape, &update, &seeds)
        };
        let difference = moved(-2.0) - 8.0 * moved(-1.0) + 8.0 * moved(1.0) - moved(2.0);
        let found: f64 = slope.iter().zip(&direction).map(|(a, b)| a * b).sum();
        let gap = (found - difference / (12.0 * width)).abs();
        // Rounding of the predictions over the width, and the fifth derivative.
        let allowed = 1e-10 * norm(&direction) * (1.0 + norm(slope));
        assert!(
            gap <= allowed,
            "family {family}, case {case}, {block}: off by {gap:e}, allowed {allowed:e}"
        );
    }
}

#[test]
fn gradients_of_every_kind_and_layer_match_differences() {
    for family in 0..FAMILIES {
        for case in 0..4 {
            let (config, parameters, task) = random_case_of(family, case);
            let model = low_rank(Network::new(&config, parameters).unwrap(), case);
            for layout in [Layout::plain(task.sequences()), Layout::shared(task.sequences())] {
                let layout = layout.unwrap();
                check_blocks(&model, &layout, family, case, &all_blocks(&config));
            }
        }
    }
}

/// One kind at a time: the adjoint stops as early as that kind allows, in every layer.
#[test]
fn gradients_match_differences_when_the_adjoint_stops_early() {
    for family in 0..FAMILIES {
        let (config, parameters, task) = random_case_of(family, 7);
        let model = low_rank(Network::new(&config, parameters).unwrap(), family);
        let layout = task.layout().unwrap();
        for kind in kinds(&config).split(',') {
            for layers in ["0..1", "1..2", "last1", "last2", "all"] {
                let chosen = blocks(&format!("{kind}@{layers}"), &config);
                check_blocks(&model, &layout, family, 7, &chosen);
            }
        }
    }
}

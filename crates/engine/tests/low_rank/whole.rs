//! The whole matrix that a low-rank update changes, put together from the blocks of its heads.

use crate::support::random_case_of;
use fewstep_engine::{
    BlockId, FirstFactor, Lora, Network, Real, Steps, Tape, TokenTask, Update, descend,
};

/// A model of a family with low-rank updates, and a task.
pub(crate) fn case(family: u64, lora: Lora) -> (Network<f64>, TokenTask) {
    let (config, parameters, task) = random_case_of(family, family);
    (Network::new(&config, parameters).unwrap().with_lora(lora).unwrap(), task)
}

/// The settings that the tests run through.
pub(crate) fn settings() -> [Lora; 3] {
    [
        Lora { rank: 2, first: FirstFactor::Random, seed: 5 },
        Lora { rank: 3, first: FirstFactor::Inputs, seed: 0 },
        Lora { rank: 6, first: FirstFactor::Inputs, seed: 0 },
    ]
}

/// The first factors of a task: those of an update that is still 0.
pub(crate) fn firsts<R: Real>(
    model: &Network<R>,
    task: &TokenTask,
    chosen: &[BlockId],
) -> Update<R> {
    descend(model, task, chosen, &Steps::new(1.0, 0)).unwrap().update
}

/// Derivatives of some predictions for the whole matrix of a kind in a layer, `[in, out]` each,
/// put together from those of its heads.
pub(crate) fn whole_derivatives(tape: &Tape<f64>, width: usize) -> Vec<f64> {
    let gradient = tape.gradient().unwrap();
    let heads: Vec<&[f64]> = gradient.blocks().iter().map(|(_, part)| &part[..]).collect();
    let row = |row: usize| {
        heads.iter().flat_map(move |head| {
            let columns = head.len() / width;
            head[row * columns..][..columns].to_vec()
        })
    };
    (0..width).flat_map(row).collect()
}

/// `Aᵀ G` for `A [in, rank]` and `G [in, out]`.
pub(crate) fn project(first: &[f64], whole: &[f64], width: usize) -> Vec<f64> {
    let (rank, outputs) = (first.len() / width, whole.len() / width);
    let entry = |at: usize| {
        let (row, column) = (at / outputs, at % outputs);
        (0..width).map(|i| first[i * rank + row] * whole[i * outputs + column]).sum()
    };
    (0..rank * outputs).map(entry).collect()
}

/// `A θ`.
pub(crate) fn expand(first: &[f64], theta: &[f64], width: usize) -> Vec<f64> {
    let rank = first.len() / width;
    let outputs = theta.len() / rank;
    let entry = |at: usize| {
        let (row, column) = (at / outputs, at % outputs);
        (0..rank).map(|k| first[row * rank + k] * theta[k * outputs + column]).sum()
    };
    (0..width * outputs).map(entry).collect()
}

/// An update of all heads of a matrix by a change of the whole, `[in, out]`.
pub(crate) fn by_heads(model: &Network<f64>, chosen: &[BlockId], whole: &[f64]) -> Update<f64> {
    let (width, size) = (model.config().width, model.config().head_width());
    let mut update = Update::zeros(model, chosen).unwrap();
    for &block in chosen {
        let first = block.head().unwrap() * size;
        let rows = whole.chunks_exact(whole.len() / width);
        let part: Vec<f64> = rows.flat_map(|row| row[first..first + size].to_vec()).collect();
        update.block_mut(block).unwrap().copy_from_slice(&part);
    }
    update
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

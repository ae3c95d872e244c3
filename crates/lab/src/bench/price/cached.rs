//! Prompts behind keys and values that were computed before.
//!
//! In: a task in tokens. Out: [`Cached`], which runs what its prompts have of their own, plainly or
//! as further queries of the task.

use super::sides::{Asking, SHOTS};
use crate::error::Error;
use fewstep_core::{Policy, decide};
use fewstep_engine::{BlockId, Network, Prepared, TokenTask};
use std::cmp::Reverse;
use std::hint::black_box;
use std::slice;

/// Prompts, and a task that was observed and whose query begins as they do.
pub(super) struct Cached {
    prepared: Prepared,
    pub(super) prompts: Vec<Vec<u32>>,
}

impl Cached {
    /// Further queries of a task.
    pub(super) fn queries(
        network: &Network,
        task: &TokenTask,
        blocks: &[BlockId],
        prompts: Vec<Vec<u32>>,
    ) -> Result<Self, Error> {
        Ok(Self { prepared: Prepared::local(network, task, blocks)?, prompts })
    }

    /// The rows of a task whose prompts show few of its examples.
    pub(super) fn rows(
        network: &Network,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        let prompts = behind_shots(task, SHOTS);
        // Only the keys and values of its query count.
        let (first, query) = (prompts[..1].to_vec(), prompts[prompts.len() - 1].clone());
        let targets = task.targets()[..1].to_vec();
        let few = TokenTask::new(first, query, task.labels().clone(), targets)?;
        Self::queries(network, &few, blocks, prompts)
    }

    /// The base prediction of the last prompt; all of them are run forward and nothing else.
    pub(super) fn predict(&self, asking: Asking) -> Result<f64, Error> {
        let mut last = f64::NAN;
        for prompts in self.asked(asking) {
            let found = black_box(self.prepared.further_predictions(prompts)?);
            last = found.last().copied().unwrap_or(last);
        }
        Ok(last)
    }

    /// The same; all of them are observed and decided on.
    pub(super) fn decide(&self, policy: &Policy, asking: Asking) -> Result<f64, Error> {
        let mut last = f64::NAN;
        for prompts in self.asked(asking) {
            for seen in self.prepared.further(prompts)? {
                black_box(decide(&seen.geometry, policy)?);
                last = seen.query_prediction;
            }
        }
        Ok(last)
    }

    /// The prompts of each pass.
    fn asked(&self, asking: Asking) -> slice::Chunks<'_, Vec<u32>> {
        self.prompts.chunks(match asking {
            Asking::Together => self.prompts.len(),
            Asking::Alone => 1,
        })
    }
}

/// As many prompts as there are examples, each behind all shots: those of examples that are not
/// shown, some of them again in the place of those that are, and the query's as the last.
fn behind_shots(task: &TokenTask, shots: usize) -> Vec<Vec<u32>> {
    let (query, rows) = task.sequences().split_last().expect("a task has a query");
    let shared = |row: &Vec<u32>| row.iter().zip(query).take_while(|(a, b)| a == b).count();
    let mut behind: Vec<&Vec<u32>> = rows.iter().collect();
    // Prompts of shown examples leave one of the shots out.
    behind.sort_by_key(|row| Reverse(shared(row)));
    behind.truncate(rows.len().saturating_sub(shots));
    let rows = behind.into_iter().cycle().take(rows.len() - 1);
    rows.chain([query]).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_engine::Labels;

    #[test]
    fn every_row_stands_behind_all_shots() {
        // Two shots, [1] and [2]; rows 0 and 2 are shown.
        let rows = [vec![2, 9], vec![1, 2, 4], vec![1, 9], vec![1, 2, 5], vec![1, 2, 3, 6]];
        let labels = Labels::new(vec![7, 8], vec![0.0, 1.0]).unwrap();
        let query = vec![1, 2, 3];
        let task = TokenTask::new(rows.to_vec(), query, labels, vec![0.0; 5]).unwrap();
        let found = behind_shots(&task, 2);
        let expected: [&[u32]; 5] =
            [&[1, 2, 3, 6], &[1, 2, 4], &[1, 2, 5], &[1, 2, 3, 6], &[1, 2, 3]];
        assert_eq!(found, expected);
    }
}

//! What is measured, and on what: enough to make every number again.
//!
//! [`ClassSettings`] are written beside the results. A run is continued only where they are the same;
//! a report may be made of runs that looked at other sets, sizes or seeds.

use super::super::settings::{DataSource, Shard};
use super::draw::{PromptKey, Size};
use super::rows::Half;
use super::sets::DataSet;
use crate::error::Error;
use fewstep_core::Policy;
use serde::{Deserialize, Serialize};

/// All that fixes the numbers of a run.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSettings {
    /// The program and its version.
    pub program: String,
    /// The model's name.
    pub model: String,
    /// Its family, layers, heads and width.
    pub shape: String,
    /// Which half of the rows.
    pub half: Half,
    /// How many queries each prompt is asked.
    pub queries: usize,
    /// How many labels a prompt is about, if not all.
    pub labels: Option<usize>,
    /// Whether leave-one-out prompts show the other examples in tree order.
    pub tree_order: bool,
    /// What observing goes by, and everything that is judged; the first is held against the targets.
    pub policies: Vec<Policy>,
    /// The files.
    pub data: Vec<DataSource>,
    /// The sets.
    pub sets: Vec<DataSet>,
    /// How many examples.
    pub sizes: Vec<Size>,
    /// How many prompts of each set, size and seed.
    pub prompts: usize,
    /// Where they come from.
    pub seeds: Vec<u64>,
}

impl ClassSettings {
    /// Every prompt, numbers first, so that a run that is stopped has seen all sets.
    #[must_use]
    pub fn keys(&self) -> Vec<PromptKey> {
        let mut keys = Vec::new();
        for number in 0..self.prompts {
            for &seed in &self.seeds {
                for &size in &self.sizes {
                    for &set in &self.sets {
                        keys.push(PromptKey { set, size, seed, number });
                    }
                }
            }
        }
        keys
    }

    /// The prompts of a share.
    pub(super) fn share(&self, shard: Shard) -> Vec<PromptKey> {
        // By number, so that every share has prompts of every set.
        self.keys().into_iter().filter(|key| shard.holds(key.number)).collect()
    }

    /// Adds the sets, sizes, seeds and prompts of another run of the same model and policies.
    pub(super) fn join(&mut self, other: &Self) -> Result<(), (&'static str, String, String)> {
        let json = |value: &dyn Fn(&Self) -> String| (value(self), value(other));
        let told = [
            ("program", json(&|it| it.program.clone())),
            ("model", json(&|it| it.model.clone())),
            ("shape", json(&|it| it.shape.clone())),
            ("half", json(&|it| it.half.to_string())),
            ("queries", json(&|it| it.queries.to_string())),
            ("labels", json(&|it| format!("{:?}", it.labels))),
            ("tree_order", json(&|it| it.tree_order.to_string())),
            ("policies", json(&|it| names(&it.policies))),
        ];
        if let Some((name, (known, found))) = told.into_iter().find(|(_, (a, b))| a != b) {
            return Err((name, found, known));
        }
        if self.policies != other.policies {
            let known = self.policies.iter().zip(&other.policies).find(|(a, b)| a != b);
            let (known, found) = known.expect("names agree in number");
            return Err(("policies", found.to_json(), known.to_json()));
        }
        for source in &other.data {
            match self.data.iter().find(|known| known.file == source.file) {
                Some(known) if known != source => {
                    return Err(("data", format!("{source:?}"), format!("{known:?}")));
                }
                Some(_) => {}
                None => self.data.push(source.clone()),
            }
        }
        add(&mut self.sets, &other.sets);
        add(&mut self.sizes, &other.sizes);
        add(&mut self.seeds, &other.seeds);
        self.prompts = self.prompts.max(other.prompts);
        Ok(())
    }

    /// Refuses what cannot be measured.
    ///
    /// # Errors
    ///
    /// [`Error::BadQueries`] for no query, [`Error::Core`] for a policy that cannot be followed.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=Self::MOST_QUERIES).contains(&self.queries) {
            return Err(Error::BadQueries { found: self.queries, most: Self::MOST_QUERIES });
        }
        Ok(self.policies.iter().try_for_each(Policy::check)?)
    }

    /// The most queries of a prompt.
    pub const MOST_QUERIES: usize = 1000;
}

fn names(policies: &[Policy]) -> String {
    policies.iter().map(|policy| &*policy.name).collect::<Vec<_>>().join(", ")
}

/// Adds what is not known yet.
fn add<T: PartialEq + Copy>(known: &mut Vec<T>, found: &[T]) {
    for &one in found {
        if !known.contains(&one) {
            known.push(one);
        }
    }
}

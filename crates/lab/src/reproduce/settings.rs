//! What is run, and on what: enough to make every number again.
//!
//! [`Settings`] are written beside the results. Runs are continued, and results put together, only
//! where they agree.

use super::families::Family;
use fewstep_core::Rng;
use fewstep_engine::{Bos, Model, Order, PromptSettings};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The number of steps of the fixed baseline, and of every selection of blocks.
pub const FIXED_HORIZON: u32 = 8;

/// The paper's largest candidate horizon.
pub const PAPER_LONGEST: u32 = 30;

/// The largest candidate horizon of the sweep.
pub const SWEEP_LONGEST: u32 = 60;

/// The largest candidate horizon when rules are compared.
pub const RULES_LONGEST: u32 = 100;

/// The most queries that a prompt is asked about: there are ten digits.
pub const MOST_QUERIES: usize = 10;

/// The paper's numbers of blocks.
pub const BUDGETS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// What is measured.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::Experiment;
///
/// assert_eq!(Experiment::DigitShift.to_string(), "digit-shift");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// How far to go on digit-shift tasks (Exp. 1).
    DigitShift,
    /// Which heads to update on digit-shift tasks (Exp. 2).
    Heads,
    /// Both questions on labelled sentences (App. J).
    Sst2,
    /// Everything that rules may look at, on tasks that differ.
    Rules,
}

impl Experiment {
    /// How many tasks the paper measures.
    #[must_use]
    pub fn paper_tasks(self) -> usize {
        match self {
            Self::DigitShift => 2000,
            Self::Heads => 500,
            Self::Sst2 | Self::Rules => 50,
        }
    }

    /// How many tasks are measured in a tour through all experiments, which is to end within
    /// minutes on the built-in model.
    #[must_use]
    pub fn tour_tasks(self) -> usize {
        match self {
            Self::DigitShift => 500,
            Self::Heads => 100,
            Self::Sst2 | Self::Rules => 50,
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::DigitShift => "digit-shift",
            Self::Heads => "heads",
            Self::Sst2 => "sst2",
            Self::Rules => "rules",
        })
    }
}

/// Which derivatives the kernels are made of.
///
/// # Examples
///
/// See [`Request::settings`](super::Request::settings).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Those of all tokens: what steps really follow.
    #[default]
    AllTokens,
    /// Those at the last token alone, in the Hadamard form of Sec. 3.3.
    SinglePosition,
}

/// What the paper leaves open, and what is taken.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `blocks` | `value@last4` | candidate blocks |
/// | `separator` | a line break | what stands between examples |
/// | `bos` | none | whether a token is put before prompts; none: if the tokenizer does |
/// | `tree_order` | false | whether leave-one-out prompts order examples to begin alike |
/// | `step_scale` | none | `c`; none: by the pilot of App. I |
/// | `longest` | 30 | the largest candidate horizon |
/// | `kernel` | all tokens | which derivatives the kernels are made of |
/// | `max_tokens_per_example` | none | to how many tokens an input is cut |
/// | `linear_only` | false | whether no step is taken in the model |
/// | `queries` | 1 | how many queries every prompt is asked about, for rules |
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::Choices;
///
/// assert_eq!((Choices::default().longest, Choices::default().queries), (30, 1));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choices {
    /// The candidate blocks.
    pub blocks: String,
    /// What stands between examples.
    pub separator: String,
    /// Whether a token is put before every prompt.
    pub bos: Option<bool>,
    /// Whether leave-one-out prompts show the other examples in tree order.
    pub tree_order: bool,
    /// `c`: the step size as a fraction of the largest stable one.
    pub step_scale: Option<f64>,
    /// The largest candidate horizon.
    pub longest: u32,
    /// Which derivatives the kernels are made of.
    pub kernel: Kernel,
    /// To how many tokens an input is cut.
    pub max_tokens_per_example: Option<usize>,
    /// Whether no step is taken in the model.
    pub linear_only: bool,
    /// How many queries every prompt is asked about; only rules are compared on more than one.
    #[serde(default = "one")]
    pub queries: usize,
}

/// Runs before there was a choice asked one query.
fn one() -> usize {
    1
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            blocks: "value@last4".to_owned(),
            separator: "\n".to_owned(),
            bos: None,
            tree_order: false,
            step_scale: None,
            longest: PAPER_LONGEST,
            kernel: Kernel::AllTokens,
            max_tokens_per_example: None,
            linear_only: false,
            queries: one(),
        }
    }
}

impl Choices {
    /// Whether prompts can be asked about as many queries as is chosen, `most` being the most.
    pub(crate) fn check_queries(&self, most: usize) -> Result<(), Error> {
        match self.queries {
            found if (1..=most).contains(&found) => Ok(()),
            found => Err(Error::BadQueries { found, most }),
        }
    }

    /// A model that writes prompts as is chosen.
    #[must_use]
    pub fn prepare(&self, model: &Model) -> Model {
        let mut settings = PromptSettings::new(model.config().positions);
        settings.bos = match self.bos {
            None => Bos::Auto,
            Some(true) => Bos::Always,
            Some(false) => Bos::Never,
        };
        settings.order = if self.tree_order { Order::Tree } else { Order::Original };
        settings.max_tokens_per_example = self.max_tokens_per_example;
        model.clone().with_prompts(settings)
    }
}

/// What a part of a run is for.
///
/// # Examples
///
/// See [`Request::settings`](super::Request::settings).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The tables and figures.
    Main,
    /// One open choice taken otherwise.
    Sweep {
        /// The choice.
        axis: String,
        /// What it is here.
        value: String,
    },
    /// Rules are developed on them.
    Development,
    /// Rules are judged on them.
    Test,
}

/// Tasks that are measured in the same way.
///
/// # Examples
///
/// See [`Request::settings`](super::Request::settings).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name of its file of results.
    pub name: String,
    /// What is measured.
    pub experiment: Experiment,
    /// What tasks hide, if the experiment leaves it open.
    #[serde(default, rename = "kind", skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// What it is for.
    pub role: Role,
    /// How many tasks.
    pub tasks: usize,
    /// Where the tasks come from.
    pub seed: u64,
    /// What the paper leaves open.
    pub choices: Choices,
}

/// A file of labelled sentences, by what is in it.
///
/// # Examples
///
/// See [`Request::settings`](super::Request::settings).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSource {
    /// The name of the file.
    pub file: String,
    /// How many sentences it holds.
    pub sentences: usize,
    /// What tells it from others.
    pub fingerprint: String,
}

/// All that fixes the numbers of a run.
///
/// # Examples
///
/// See [`Request::settings`](super::Request::settings).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its version.
    pub program: String,
    /// The model's name.
    pub model: String,
    /// Its family, layers, heads and width.
    pub shape: String,
    /// Where the pilot's tasks come from.
    pub pilot_seed: u64,
    /// The labelled sentences, if there are some.
    pub data: Option<DataSource>,
    /// What is measured.
    pub parts: Vec<Part>,
}

/// One of several processes that share the tasks among them.
///
/// # Examples
///
/// ```
/// use fewstep_lab::{Error, reproduce::Shard};
///
/// let shard: Shard = "2/3".parse()?;
/// assert_eq!((0..7).filter(|&task| shard.holds(task)).collect::<Vec<_>>(), [1, 4]);
/// assert!(matches!("4/3".parse::<Shard>(), Err(Error::BadShard { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// All tasks.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether it holds a task.
    #[must_use]
    pub fn holds(self, task: usize) -> bool {
        task % self.count == self.index
    }

    /// Whether it holds all of them.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.count == 1
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            Some((index.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
        });
        match numbers {
            Some((index, count)) if 0 < index && index <= count => {
                Ok(Self { index: index - 1, count })
            }
            _ => Err(Error::BadShard { found: text.to_owned() }),
        }
    }
}

/// Tasks for different purposes, which never share a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Test = 1,
    Pilot = 2,
    Sentences = 3,
    Selection = 4,
    Development = 5,
    Trial = 6,
    ClassesDevelopment = 7,
    ClassesTest = 8,
}

/// Which task of which stream is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) seed: u64,
    pub(crate) stream: Stream,
    pub(crate) number: usize,
}

impl TaskKey {
    pub(crate) fn rng(self) -> Rng {
        rng(self.seed, self.stream, self.number)
    }
}

/// The randomness of one task: the same whichever tasks are drawn beside it.
pub(crate) fn rng(seed: u64, stream: Stream, task: usize) -> Rng {
    // The finaliser of SplitMix64 after every part.
    let mix = |so_far: u64, part: u64| {
        let mut z = (so_far ^ part).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    Rng::new(mix(mix(mix(0, seed), stream as u64), task as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_divide_the_tasks() {
        for count in 1..5 {
            let shards: Vec<Shard> =
                (1..=count).map(|index| format!("{index}/{count}").parse().unwrap()).collect();
            for task in 0..20 {
                assert_eq!(shards.iter().filter(|shard| shard.holds(task)).count(), 1);
            }
        }
        for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3"] {
            let found = text.to_owned();
            assert_eq!(text.parse::<Shard>(), Err(Error::BadShard { found }));
        }
    }

    /// Settings that were written before prompts had further queries are those with one.
    #[test]
    fn settings_of_earlier_runs_asked_one_query() {
        let default = Choices::default();
        let mut json = serde_json::to_value(&default).unwrap();
        assert_eq!(json["queries"], 1);
        json.as_object_mut().unwrap().remove("queries");
        assert_eq!(serde_json::from_value::<Choices>(json).unwrap(), default);
        let with = |queries| Choices { queries, ..default.clone() };
        for queries in [1, MOST_QUERIES] {
            assert_eq!(with(queries).check_queries(MOST_QUERIES), Ok(()));
        }
        for found in [0, 11] {
            let refused = Err(Error::BadQueries { found, most: MOST_QUERIES });
            assert_eq!(with(found).check_queries(MOST_QUERIES), refused);
        }
        let refused = with(11).check_queries(MOST_QUERIES).unwrap_err().to_string();
        assert!(refused.contains("11") && refused.contains("from 1 to 10"), "{refused}");
        let refused = with(2).check_queries(1).unwrap_err().to_string();
        assert!(refused.contains("1 here"), "{refused}");
    }

    #[test]
    fn every_task_has_its_own_randomness() {
        let streams = [
            Stream::Test,
            Stream::Pilot,
            Stream::Sentences,
            Stream::Selection,
            Stream::Development,
            Stream::Trial,
            Stream::ClassesDevelopment,
            Stream::ClassesTest,
        ];
        let mut firsts = vec![];
        for seed in 0..5 {
            for stream in streams {
                firsts.extend((0..50).map(|task| rng(seed, stream, task).uniform().to_bits()));
            }
        }
        let count = firsts.len();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), count);
    }
}

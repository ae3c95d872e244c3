//! What can be wrong with an experiment, a benchmark or the making of a model.
//!
//! Each error carries what was found, what is allowed and what to do.

use std::path::{Path, PathBuf};

/// Everything that can go wrong in this crate.
///
/// # Examples
///
/// ```
/// use fewstep_lab::{Error, reproduce::Shard};
///
/// let refused = "5/4".parse::<Shard>();
/// assert_eq!(refused, Err(Error::BadShard { found: "5/4".to_owned() }));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Pretraining.
    /// A directory holds a model, or a run that makes one, already.
    #[error(
        "{} already holds a model, or a run that trains one; add --resume to continue it, or name \
         another directory",
        directory.display()
    )]
    WorkshopInUse {
        /// The directory.
        directory: PathBuf,
    },
    /// A run is to be continued by another recipe than it began with.
    #[error(
        "{} is a different recipe; use the numbers in that file, or name another directory",
        file.display()
    )]
    OtherRecipe {
        /// The file with the recipe.
        file: PathBuf,
    },
    /// The record of a run's loss does not reach as far as the run.
    #[error(
        "{} holds the loss of {found} steps, and the run has taken {steps}; train the model again in another directory",
        file.display()
    )]
    BadLosses {
        /// The file.
        file: PathBuf,
        /// The number of steps in it.
        found: usize,
        /// The number of steps that were taken.
        steps: usize,
    },

    // The benchmark.
    /// A row of the benchmark's table is asked for that it does not have.
    #[error("unknown row {found:?} of the benchmark: fewstep-lab bench --help lists them all")]
    UnknownWork {
        /// What was asked for.
        found: String,
    },
    /// A process that the benchmark started did not do its work.
    #[error("{} failed during the benchmark: {problem}", program.display())]
    Worker {
        /// The program.
        program: PathBuf,
        /// What it said, or what became of it.
        problem: String,
    },
    /// Both sides of the benchmark found different numbers, so that their times say nothing.
    #[error(
        "{work}: {quantity} of {variant} differ from ours by {found:e}, and {allowed:e} is allowed; one of them is wrong"
    )]
    Disagree {
        /// The row.
        work: String,
        /// The variant in PyTorch.
        variant: &'static str,
        /// What differs.
        quantity: &'static str,
        /// By how much, relative to its norm.
        found: f64,
        /// By how much it may.
        allowed: f64,
    },
    /// There is no directory to keep large models in.
    #[error("no cache directory is known; set HOME or XDG_CACHE_HOME")]
    NoCache,

    // Experiments.
    /// A share of the tasks cannot be read.
    #[error("invalid shard {found:?}: expected I/N with I from 1 to N, for example 2/4")]
    BadShard {
        /// What was given.
        found: String,
    },
    /// Prompts cannot be asked about this number of queries.
    #[error(
        "{found} queries per prompt are asked for; there {}", match most {
            1 => "can be 1 here: only rules are compared on more".to_owned(),
            most => format!("may be from 1 to {most}"),
        }
    )]
    BadQueries {
        /// How many are asked for.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// A directory holds results already.
    #[error(
        "{} already holds results; {remedy}",
        directory.display()
    )]
    ResultsInUse {
        /// The directory.
        directory: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// A directory holds no results.
    #[error(
        "{} holds no results: settings.json is not there; name directories that fewstep-lab reproduce \
         has written",
        directory.display()
    )]
    NoResults {
        /// The directory.
        directory: PathBuf,
    },
    /// Results were made with other settings.
    #[error(
        "{} was made with other settings: {name} is {found}, and {expected} here; only results of \
         the same settings belong together, so give the same flags or name another directory",
        file.display()
    )]
    OtherSettings {
        /// The file with the settings.
        file: PathBuf,
        /// The first setting that differs.
        name: String,
        /// What the file says.
        found: String,
        /// What is asked for.
        expected: String,
    },
    /// Settings cannot be read.
    #[error("{} cannot be read ({problem}); name another directory", file.display())]
    BadSettings {
        /// The file.
        file: PathBuf,
        /// What the parser found.
        problem: String,
    },
    /// The same task was measured twice with different numbers.
    #[error(
        "task {task} of {} differs from the one in {}; one of them is damaged or comes from \
         another machine, so make it again",
        file.display(),
        first.display()
    )]
    DifferentResults {
        /// The task.
        task: usize,
        /// The file that was read second.
        file: PathBuf,
        /// The file that was read first.
        first: PathBuf,
    },
    /// No task could be measured.
    #[error("none of {tasks} tasks could be measured; the first: {problem}")]
    AllFailed {
        /// How many were tried.
        tasks: usize,
        /// What was wrong with the first.
        problem: String,
    },
    /// Sentences are needed and none are named.
    #[error(
        "labelled sentences are needed: add --data FILE.tsv, the validation split of SST-2 with \
         the columns sentence and label; fewstep-lab reproduce --help says where it comes from"
    )]
    NoData,
    /// The same prompt was measured twice with different numbers.
    #[error(
        "prompt {prompt} of {} differs from the one in {}; one of them is damaged or comes from \
         another machine, so make it again",
        file.display(),
        first.display()
    )]
    DifferentPrompts {
        /// The prompt.
        prompt: String,
        /// The file that was read second.
        file: PathBuf,
        /// The file that was read first.
        first: PathBuf,
    },
    /// There is no such data set.
    #[error("there is no data set {found:?}; there are {allowed}")]
    UnknownSet {
        /// What was asked for.
        found: String,
        /// All sets.
        allowed: String,
    },
    /// There is no such policy.
    #[error("there is no policy {found:?} among those that are judged; there are {allowed}")]
    UnknownPolicy {
        /// What was asked for.
        found: String,
        /// All that there are.
        allowed: String,
    },
    /// Two policies have one name.
    #[error("{}: there is a policy {name:?} already; name this one otherwise", file.display())]
    TwicePolicy {
        /// The file of the second.
        file: PathBuf,
        /// Their name.
        name: String,
    },
    /// Probabilities of another method cannot be read.
    #[error("{}: line {line}: {problem}", file.display())]
    BadPeer {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there, and what is allowed.
        problem: String,
    },
    /// There is no such family of tasks.
    #[error("unknown task family {found:?}: expected one of {allowed}")]
    UnknownFamily {
        /// What was asked for.
        found: String,
        /// All families.
        allowed: String,
    },
    /// A table of sentences cannot be read.
    #[error("{}: line {line}: {problem}", file.display())]
    BadTable {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there, and what is allowed.
        problem: &'static str,
    },
    /// A table holds too few sentences, or is too large.
    #[error("{} holds {found} {what}; it must be {allowed}", file.display())]
    BadTableSize {
        /// The file.
        file: PathBuf,
        /// How many there are.
        found: u64,
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        allowed: String,
    },

    // Below.
    /// A file, a policy or a thread pool was refused.
    #[error(transparent)]
    Fewstep(#[from] fewstep::Error),
    /// The model or the task's text was refused.
    #[error(transparent)]
    Engine(#[from] fewstep_engine::Error),
    /// The decision refused its input.
    #[error(transparent)]
    Core(#[from] fewstep_core::Error),
}

/// What an operating system's refusal becomes.
pub(crate) fn refused(
    file: &Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> Error {
    let refused = fewstep::refused(file, action);
    move |error| refused(error).into()
}

//! What can be wrong with a run of the tool.
//!
//! Errors of a task become records beside the answers; the others end the run. Both carry what
//! was found, what is allowed and what to do.

use fewstep_core::Field;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Everything that can go wrong in this crate.
///
/// # Examples
///
/// ```
/// use fewstep::{Error, tasks::parse};
///
/// let refused = parse(br#"{"id": "t1", "examples": ]}"#);
/// assert!(matches!(refused, Err(Error::Json { id: None, column: 26, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The machine.
    /// Threads cannot be started.
    #[error("{threads} threads cannot be started ({reason}); ask for fewer with --threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system says.
        reason: String,
    },

    // Tasks.
    /// A line is no JSON object, or not one that is a task.
    #[error("column {column}: {problem}; a task is one JSON object on one line")]
    Json {
        /// The task's id, if it could be read.
        id: Option<String>,
        /// Where the problem was noticed, in bytes, counted from 1.
        column: usize,
        /// What the parser found or expected there.
        problem: String,
    },
    /// A line is not text.
    #[error("column {column}: the byte 0x{byte:02x} is no UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// Where it stands, in bytes, counted from 1.
        column: usize,
        /// The byte.
        byte: u8,
    },
    /// A line is longer than any task that a model could take.
    #[error("the line has more than {limit} bytes; shorten the examples or use fewer")]
    LineTooLong {
        /// The longest line that is read.
        limit: usize,
    },
    /// Two tasks have the same id.
    #[error(
        "the id {id:?} was used in line {first} of {} already; give every task its own",
        file.display()
    )]
    DuplicateId {
        /// The id.
        id: String,
        /// The file that used it first.
        file: PathBuf,
        /// The line in that file, counted from 1.
        first: u64,
    },
    /// A file of tasks holds none.
    #[error("{} holds no task; write one JSON object per line", file.display())]
    NoTasks {
        /// The file.
        file: PathBuf,
    },
    /// A task was stopped by a mistake in the program.
    #[error(
        "the program made a mistake on this task ({problem}); please report it with the task"
    )]
    Mistake {
        /// What it said.
        problem: String,
    },

    // Settings.
    /// A field concerns low-rank updates, and none is among the candidates.
    #[error(
        "{field} concerns low-rank updates, and none is a candidate: choose blocks with lora-value \
         or lora-query, or leave it out"
    )]
    NoLowRankBlocks {
        /// The field; every door has its own spelling for it.
        field: Field,
    },
    // Files.
    /// The operating system refused something.
    #[error("cannot {action} {}: {kind}", file.display())]
    File {
        /// The file or directory.
        file: PathBuf,
        /// What was tried, such as `read`.
        action: &'static str,
        /// Why it was refused.
        kind: ErrorKind,
    },
    /// A file of answers is there already.
    #[error(
        "{} holds answers already; add --resume to go on with it, or name another file",
        file.display()
    )]
    OutExists {
        /// The file.
        file: PathBuf,
    },
    /// Another run writes to the same file of answers.
    #[error("{} is being written by another run; wait for it or name another file", file.display())]
    OutBusy {
        /// The file.
        file: PathBuf,
    },
    /// A line in a file of answers is no record.
    #[error(
        "line {line} of {} is no answer of fewstep; name another file, or remove the line",
        file.display()
    )]
    OutLine {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: u64,
    },
    /// A task has no saved update.
    #[error(
        "there is no update for task {id:?}: {} does not exist; make it with predict \
         --save-adapter, or give --adapter the file to use for every task",
        file.display()
    )]
    NoAdapter {
        /// The task's id.
        id: String,
        /// The file that was looked for.
        file: PathBuf,
    },
    /// A directory that an update would replace holds something else than such an update.
    #[error(
        "{} is there already and is no update of this kind: {name:?} makes the difference; remove \
         the directory, or give --save-adapter another one",
        directory.display()
    )]
    AdapterInTheWay {
        /// The directory.
        directory: PathBuf,
        /// A file that only one of them has.
        name: String,
    },
    /// Updates are to be saved, but none are made.
    #[error(
        "--save-adapter {} has nothing to save with --dynamics linear, which makes no update; \
         leave one of them out",
        directory.display()
    )]
    NothingToSave {
        /// The directory.
        directory: PathBuf,
    },
    /// A figure could not be drawn.
    #[error("cannot draw {}: {problem}", file.display())]
    Figure {
        /// The file.
        file: PathBuf,
        /// What the drawing reported.
        problem: String,
    },

    // Pretraining.
    /// A directory holds a model, or a run that makes one, already.
    #[error(
        "{} holds a model or a run that makes one already; add --resume to go on with it, or name \
         another directory",
        directory.display()
    )]
    WorkshopInUse {
        /// The directory.
        directory: PathBuf,
    },
    /// A run is to go on by another recipe than it began with.
    #[error(
        "{} is another recipe than this one; give the same numbers as in that file, or name \
         another directory",
        file.display()
    )]
    OtherRecipe {
        /// The file with the recipe.
        file: PathBuf,
    },
    /// The record of a run's loss does not reach as far as the run.
    #[error(
        "{} holds the loss of {found} steps, and the run has taken {steps}; make the model anew in \
         another directory",
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
    #[error("the benchmark has no work {found:?}; fewstep bench --help names all")]
    UnknownWork {
        /// What was asked for.
        found: String,
    },
    /// A process that the benchmark started did not do its work.
    #[error("{} could not do its part of the benchmark: {problem}", program.display())]
    Worker {
        /// The program.
        program: PathBuf,
        /// What it said, or what became of it.
        problem: String,
    },
    /// Both sides of the benchmark found different numbers, so that their times say nothing.
    #[error(
        "{work}: {quantity} of {variant} are {found:e} apart from ours, and {allowed:e} is \
         allowed; one of them is wrong"
    )]
    Disagree {
        /// The row.
        work: String,
        /// The way in PyTorch.
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

    // The service.
    /// The service could be reached from elsewhere, by anybody.
    #[error(
        "{address} can be reached by others: give --token-file FILE with a token that clients must \
         send, or --allow-anonymous to let everybody in"
    )]
    OpenToAll {
        /// The address.
        address: SocketAddr,
    },
    /// The address of the service cannot be had.
    #[error("cannot listen on {address}: {kind}; end what uses it, or give another --bind")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why it was refused.
        kind: ErrorKind,
    },
    /// A file holds no token.
    #[error(
        "{} holds no token; write one line of 1 to {longest} visible ASCII characters",
        file.display()
    )]
    BadToken {
        /// The file.
        file: PathBuf,
        /// The longest token in bytes.
        longest: u64,
    },
    /// Two models of the service have the same name.
    #[error("the model {name:?} is named twice; name every model once")]
    SameModel {
        /// The name.
        name: String,
    },

    // Experiments.
    /// A share of the tasks cannot be read.
    #[error("the shard {found:?} is none; write I/N with I from 1 to N, such as 2/4")]
    BadShard {
        /// What was given.
        found: String,
    },
    /// Prompts cannot be asked about so many queries.
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
        "{} holds results already; {remedy}",
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
        "{} holds no results: settings.json is not there; name directories that fewstep reproduce \
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
         the columns sentence and label; fewstep reproduce --help says where it comes from"
    )]
    NoData,
    /// There is no such kind of task.
    #[error("there is no kind of task {found:?}; there are {allowed}")]
    UnknownKind {
        /// What was asked for.
        found: String,
        /// All kinds.
        allowed: String,
    },
    /// A table of sentences is none.
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
    /// The model or the task's text was refused.
    #[error(transparent)]
    Engine(#[from] fewstep_engine::Error),
    /// The decision refused its input.
    #[error(transparent)]
    Core(#[from] fewstep_core::Error),
}

impl Error {
    /// The field of a policy, or of the settings beside it, that is wrong, if one is.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        use fewstep_engine::Error as Refused;
        match self {
            Self::NoLowRankBlocks { field } => Some(*field),
            Self::Core(error) => error.field(),
            Self::Engine(Refused::LoraRank { .. }) => Some(Field::LORA_RANK),
            Self::Engine(
                Refused::BadChoice { .. }
                | Refused::UnknownKind { .. }
                | Refused::BadLayers { .. }
                | Refused::NoGate { .. }
                | Refused::DuplicateBlock { .. },
            ) => Some(Field::BLOCKS),
            _ => None,
        }
    }

    /// The message with flags of the command line in place of the names of fields.
    #[must_use]
    pub fn with_flags(&self) -> String {
        match self {
            Self::Core(error) => error.with_flags(),
            Self::NoLowRankBlocks { field } => {
                self.to_string().replacen(field.name(), &field.flag(), 1)
            }
            other => other.to_string(),
        }
    }
}

/// What an operating system's refusal becomes.
pub(crate) fn refused(
    file: &std::path::Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::File { file: file.to_path_buf(), action, kind: error.kind() }
}

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
    /// A line is not a task in JSON.
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
    #[error("column {column}: invalid UTF-8: found byte 0x{byte:02x}; save the file as UTF-8")]
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
    /// A field concerns low-rank updates, but no low-rank block is a candidate.
    #[error("{}", no_low_rank_blocks(field.name()))]
    NoLowRankBlocks {
        /// The field; every interface has its own spelling for it.
        field: Field,
    },
    /// Steps are to be taken in the model for a task of classes.
    #[error("{}", steps_for_classes(Field::DYNAMICS.name()))]
    StepsForClasses,
    /// A setting of regression was given, and a task is of classes.
    #[error("{}", regression_only(field.name()))]
    RegressionOnly {
        /// The field.
        field: Field,
    },
    /// An update is to be saved, or a saved one applied, for a task of classes.
    #[error(
        "{flag} concerns tasks of regression: the answer to a task of classes averages over several \
         updates; omit it, or give every label a value"
    )]
    AdapterForClasses {
        /// The flag.
        flag: &'static str,
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
    /// A file of answers exists already.
    #[error(
        "{} holds answers already; add --resume to continue it, or name another file",
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
    /// A line in a file of answers is not a record.
    #[error(
        "invalid line {line} of {}: expected an answer of fewstep; name another file, or remove \
         the line",
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
        "no update for task {id:?}: {} does not exist; make it with predict \
         --save-adapter, or give --adapter the file to use for every task",
        file.display()
    )]
    NoAdapter {
        /// The task's id.
        id: String,
        /// The file that was looked for.
        file: PathBuf,
    },
    /// A directory that an update would replace holds something other than such an update.
    #[error(
        "{} exists already and is not an update of this kind: {name:?} differs; remove the \
         directory, or give --save-adapter another one",
        directory.display()
    )]
    AdapterInTheWay {
        /// The directory.
        directory: PathBuf,
        /// A file that only one of them has.
        name: String,
    },
    /// A figure could not be drawn.
    #[error("cannot draw {}: {problem}", file.display())]
    Figure {
        /// The file.
        file: PathBuf,
        /// What the drawing reported.
        problem: String,
    },

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
    /// The address of the service is not available.
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

    // Crates below.
    /// The model or the task's text was refused.
    #[error(transparent)]
    Engine(#[from] fewstep_engine::Error),
    /// The decision refused its input.
    #[error(transparent)]
    Core(#[from] fewstep_core::Error),
}

/// What is wrong with a setting of low-rank updates, by the name that a door gives it.
fn no_low_rank_blocks(name: &str) -> String {
    format!(
        "{name} concerns low-rank updates, but no low-rank block is a candidate: choose blocks \
         with lora-value or lora-query, or omit it"
    )
}

/// Why no steps are taken for a task of classes, by the name that a door gives the field.
fn steps_for_classes(name: &str) -> String {
    format!(
        "{name} is steps; it must be linear for a task of classes, which the linearised model \
         answers"
    )
}

/// Why a setting does not concern classes, by the name that a door gives it.
fn regression_only(name: &str) -> String {
    format!(
        "{name} is about tasks of regression; omit it for a task of classes, or write arms under \
         classes in a policy"
    )
}

impl Error {
    /// The field of a policy, or of the settings beside it, that is wrong, if one is.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        use fewstep_engine::Error as Refused;
        match self {
            Self::NoLowRankBlocks { field } | Self::RegressionOnly { field } => Some(*field),
            Self::StepsForClasses => Some(Field::DYNAMICS),
            Self::Core(error) => error.field(),
            Self::Engine(Refused::LoraRank { .. }) => Some(Field::LORA_RANK),
            Self::Engine(
                Refused::BadChoice { .. }
                | Refused::UnknownKind { .. }
                | Refused::BadLayers { .. }
                | Refused::NoGate { .. }
                | Refused::DuplicateBlock { .. },
            ) => Some(Field::BLOCKS),
            Self::Engine(
                Refused::BadClassBlocks { .. } | Refused::DuplicateClassBlock { .. },
            ) => Some(Field::ARMS),
            _ => None,
        }
    }

    /// The message with flags of the command line in place of the names of fields.
    #[must_use]
    pub fn with_flags(&self) -> String {
        match self {
            Self::Core(error) => error.with_flags(),
            Self::NoLowRankBlocks { field } => no_low_rank_blocks(field.flag()),
            Self::RegressionOnly { field } => regression_only(field.flag()),
            Self::StepsForClasses => steps_for_classes(Field::DYNAMICS.flag()),
            other => other.to_string(),
        }
    }
}

/// What an operating system's refusal becomes.
pub fn refused(
    file: &std::path::Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::File { file: file.to_path_buf(), action, kind: error.kind() }
}

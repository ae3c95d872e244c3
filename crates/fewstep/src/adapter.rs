//! Updates on disk: one file or directory per task, found by the task's id.

use crate::error::{Error, refused};
use crate::tasks::Fingerprint;
use fewstep_engine::{Model, Network, Task, Update};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The longest file name that is made from an id, without its ending.
const LONGEST_NAME: usize = 120;

/// The file by which a PEFT adapter is known.
const PEFT: &str = "adapter_config.json";

/// The file that says where a merged model comes from.
const ORIGIN: &str = "fewstep.json";

/// A file name that belongs to one id alone.
///
/// Letters, digits, `-`, `_` and inner dots stay; other bytes become `%` and two digits. A long
/// name is truncated and ends with a fingerprint.
///
/// # Examples
///
/// ```
/// use fewstep::adapter::file_name;
///
/// assert_eq!(file_name("shift-3.clean"), "shift-3.clean");
/// assert_eq!(file_name("../a b"), "%2e%2e%2fa%20b");
/// assert_eq!(file_name(&"é".repeat(500)).len(), 120 + 1 + 32);
/// ```
#[must_use]
pub fn file_name(id: &str) -> String {
    let mut name = String::new();
    let mut inner = false;
    for byte in id.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if plain || (byte == b'.' && inner) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
        inner |= plain;
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME);
        let _ = write!(name, "-{}", Fingerprint::of(id));
    }
    name
}

/// Makes a directory and those above it, unless it is there.
///
/// # Errors
///
/// [`Error::File`] if it cannot be made.
pub fn make_directory(directory: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(directory).map_err(refused(directory, "make the directory"))
}

/// The form in which an update is written.
///
/// # Examples
///
/// ```
/// use fewstep::adapter::Format;
///
/// assert_ne!(Format::default(), Format::Peft);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A file of this program, which names every block.
    #[default]
    Fewstep,
    /// A directory with a LoRA adapter for the Python package PEFT.
    Peft,
    /// A file with a LoRA adapter for llama.cpp.
    Gguf,
    /// A directory with the whole model, the update in its weights.
    Merged,
}

/// Where and how the updates of a run are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The directory, one entry per task in it.
    pub directory: PathBuf,
    /// The form.
    pub format: Format,
    /// What the model was asked for as, for tools that load it by that name.
    pub base: Option<String>,
}

impl Saving {
    /// Writes a task's update under its id.
    ///
    /// A file is replaced once the new one is whole. So is a directory if it is empty or holds
    /// files of the same names and nothing else, as one from an earlier run does.
    ///
    /// # Errors
    ///
    /// [`Error::AdapterInTheWay`] for a directory that holds something else, and those of
    /// [`Update::save`], [`Update::save_peft`], [`Update::save_lora_gguf`] and
    /// [`Model::save_merged`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Error, adapter::{Format, Saving}};
    /// use fewstep_engine::{Update, choose_blocks};
    ///
    /// let model = fewstep::builtin()?;
    /// let blocks = choose_blocks("value@last1", model.config())?;
    /// let update = Update::zeros(model.network(), &blocks)?;
    /// # let task = fewstep::tasks::parse(
    /// #     br#"{"id": "t1", "template": "{x}->{y}",
    /// #          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
    /// #          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
    /// # )?;
    /// let directory = "no such directory".into();
    /// let saving = Saving { directory, format: Format::Peft, base: None };
    /// assert!(matches!(saving.save(&task, &update, &model), Err(Error::File { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save(&self, task: &Task, update: &Update, model: &Model) -> Result<(), Error> {
        let name = file_name(&task.id);
        let (directory, network) = (self.directory.join(&name), model.network());
        match self.format {
            Format::Fewstep => Ok(update.save(&path(&self.directory, task), network)?),
            Format::Gguf => {
                let file = self.directory.join(format!("{name}.gguf"));
                Ok(update.save_lora_gguf(&file, network)?)
            }
            Format::Peft => whole(&directory, |inside| {
                Ok(update.save_peft(inside, network, self.base.as_deref())?)
            }),
            Format::Merged => whole(&directory, |inside| {
                model.save_merged(inside, update)?;
                let origin = self.origin(task, update);
                let file = inside.join(ORIGIN);
                std::fs::write(&file, origin).map_err(refused(&file, "write"))
            }),
        }
    }

    /// Where a merged model comes from. It also marks the directory as one that this program made:
    /// a model of another origin is never replaced.
    fn origin(&self, task: &Task, update: &Update) -> String {
        let blocks: Vec<String> =
            update.blocks().iter().map(|(block, _)| block.to_string()).collect();
        let origin = serde_json::json!({"base": self.base, "task": task.id, "blocks": blocks});
        format!("{origin:#}\n")
    }
}

/// Fills a directory under another name, which no id gives, and renames it once it is whole.
fn whole(directory: &Path, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let [partial, old] = ["partial", "old"].map(|end| {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        directory.with_file_name(format!(".{name}.{end}"))
    });
    let filled = clear(&partial)
        .and_then(|()| std::fs::create_dir(&partial).map_err(refused(&partial, "write")))
        .and_then(|()| fill(&partial))
        .and_then(|()| may_replace(directory, &partial));
    let swapped = filled.and_then(|()| {
        clear(&old)?;
        if directory.exists() {
            std::fs::rename(directory, &old).map_err(refused(directory, "write"))?;
        }
        std::fs::rename(&partial, directory).map_err(refused(directory, "write"))?;
        clear(&old)
    });
    if swapped.is_err() {
        // What is left of the attempt is of no use; the first error is the one to report.
        let _ = clear(&partial);
    }
    swapped
}

/// `Err` if a directory holds something that one of the same kind would not.
fn may_replace(directory: &Path, by: &Path) -> Result<(), Error> {
    let names = |directory: &Path| -> Result<BTreeSet<OsString>, Error> {
        let entries = std::fs::read_dir(directory).map_err(refused(directory, "read"))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        names.collect::<Result<_, _>>().map_err(refused(directory, "read"))
    };
    if !directory.exists() {
        return Ok(());
    }
    let (found, expected) = (names(directory)?, names(by)?);
    if found.is_empty() || found == expected {
        return Ok(());
    }
    let differs = found.symmetric_difference(&expected).next();
    let name = differs.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Err(Error::AdapterInTheWay { directory: directory.to_path_buf(), name })
}

/// Removes a directory that a run before has left behind.
fn clear(directory: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(refused(directory, "write")(error))
        }
        _ => Ok(()),
    }
}

fn path(directory: &Path, task: &Task) -> PathBuf {
    directory.join(format!("{}.safetensors", file_name(&task.id)))
}

/// Whether a directory is a PEFT adapter.
fn is_peft(directory: &Path) -> bool {
    directory.join(PEFT).is_file()
}

/// Where the updates of tasks come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Adapters {
    /// One update for every task.
    One(Update),
    /// A directory with a file or a PEFT adapter per task.
    Each(PathBuf),
}

impl Adapters {
    /// A file or a PEFT adapter, which serves every task, or a directory, where each task has
    /// its own.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if there is neither, those of [`Update::load`] for a file and of
    /// [`Update::load_peft`] for a PEFT adapter.
    pub fn open(path: &Path, model: &Network) -> Result<Self, Error> {
        let found = std::fs::metadata(path).map_err(refused(path, "read"))?;
        if is_peft(path) {
            Ok(Self::One(Update::load_peft(path, model)?))
        } else if found.is_dir() {
            Ok(Self::Each(path.to_path_buf()))
        } else {
            Ok(Self::One(Update::load(path, model)?))
        }
    }

    /// The update for a task; of a file and a PEFT adapter with its id, the file.
    ///
    /// # Errors
    ///
    /// [`Error::NoAdapter`] if the directory has none for it, and those of [`Update::load`] and
    /// [`Update::load_peft`].
    pub fn of(&self, task: &Task, model: &Network) -> Result<Update, Error> {
        match self {
            Self::One(update) => Ok(update.clone()),
            Self::Each(directory) => {
                let file = path(directory, task);
                let adapter = directory.join(file_name(&task.id));
                if file.exists() {
                    Ok(Update::load(&file, model)?)
                } else if is_peft(&adapter) {
                    Ok(Update::load_peft(&adapter, model)?)
                } else {
                    Err(Error::NoAdapter { id: task.id.clone(), file })
                }
            }
        }
    }
}

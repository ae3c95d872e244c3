//! Updates on disk: one file per task, and the way from a task's id to its file.

use crate::error::{Error, refused};
use crate::tasks::Fingerprint;
use fewstep_engine::{Network, Task, Update};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The longest file name that is made from an id, without its ending.
const LONGEST_NAME: usize = 120;

/// A file name that belongs to one id alone.
///
/// Letters, digits, `-`, `_` and inner dots stay; other bytes become `%` and two digits. A long
/// name is cut and ends with a fingerprint.
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

/// Writes a task's update to its file in a directory.
///
/// # Errors
///
/// Those of [`Update::save`].
pub fn save(
    directory: &Path,
    task: &Task,
    update: &Update,
    model: &Network,
) -> Result<(), Error> {
    Ok(update.save(&path(directory, task), model)?)
}

fn path(directory: &Path, task: &Task) -> PathBuf {
    directory.join(format!("{}.safetensors", file_name(&task.id)))
}

/// Where the updates of tasks come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Adapters {
    /// One update for every task.
    One(Update),
    /// A directory with a file per task.
    Each(PathBuf),
}

impl Adapters {
    /// A file, which serves every task, or a directory, where each task has its own.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if there is neither, those of [`Update::load`] for a file.
    pub fn open(path: &Path, model: &Network) -> Result<Self, Error> {
        let found = std::fs::metadata(path).map_err(refused(path, "read"))?;
        if found.is_dir() {
            Ok(Self::Each(path.to_path_buf()))
        } else {
            Ok(Self::One(Update::load(path, model)?))
        }
    }

    /// The update for a task.
    ///
    /// # Errors
    ///
    /// [`Error::NoAdapter`] if the directory has none for it, and those of [`Update::load`].
    pub fn of(&self, task: &Task, model: &Network) -> Result<Update, Error> {
        match self {
            Self::One(update) => Ok(update.clone()),
            Self::Each(directory) => {
                let file = path(directory, task);
                if !file.exists() {
                    return Err(Error::NoAdapter { id: task.id.clone(), file });
                }
                Ok(Update::load(&file, model)?)
            }
        }
    }
}

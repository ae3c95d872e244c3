//! A directory of results: `settings.json`, and `prompts.jsonl` with a line per prompt.
//!
//! Lines are written at once and in full, in the order in which prompts were done; what is made of
//! them does not depend on it.

use super::super::store::{Store, agree, read_json, write_json};
use super::draw::PromptKey;
use super::record::PromptLine;
use super::settings::ClassSettings;
use crate::error::{Error, refused};
use fewstep::out::{Lines, read_lines};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const SETTINGS: &str = "settings.json";
const PROMPTS: &str = "prompts.jsonl";

/// Results by prompt.
pub(super) type Found = BTreeMap<PromptKey, PromptLine>;

/// A directory of results that a run adds to.
///
/// # Examples
///
/// See [`measure`](super::measure).
#[derive(Debug)]
pub struct ClassStore {
    directory: PathBuf,
    settings: ClassSettings,
    resume: bool,
}

impl ClassStore {
    /// Opens a directory for the results of these settings; with `resume` it may hold some.
    ///
    /// # Errors
    ///
    /// [`Error::ResultsInUse`] if it holds results and `resume` is false, [`Error::OtherSettings`]
    /// if they are of other settings, [`fewstep::Error::File`] if it cannot be written to.
    pub fn open(
        directory: &Path,
        settings: &ClassSettings,
        resume: bool,
    ) -> Result<Self, Error> {
        Store::check(directory, resume)?;
        let file = directory.join(SETTINGS);
        if file.exists() {
            agree(&file, &read_json(&file)?, settings)?;
        }
        write_json(directory, SETTINGS, settings)?;
        let (directory, settings) = (directory.to_path_buf(), settings.clone());
        Ok(Self { directory, settings, resume })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &ClassSettings {
        &self.settings
    }

    /// Opens its lines: the file, the prompts that it holds, and how many bytes were cut off.
    pub(super) fn lines(&self) -> Result<(Lines, Vec<PromptKey>, u64), Error> {
        let mut known = Vec::new();
        let (lines, dropped) =
            Lines::open(&self.directory.join(PROMPTS), self.resume, |text| {
                let line: PromptLine = serde_json::from_str(text).ok()?;
                known.push(line.key());
                Some(())
            })?;
        Ok((lines, known, dropped))
    }

    /// The results of several directories, whose runs may have looked at other sets, sizes and seeds.
    pub(super) fn gather(directories: &[PathBuf]) -> Result<(ClassSettings, Found), Error> {
        let mut known: Option<ClassSettings> = None;
        let mut found: BTreeMap<PromptKey, (PromptLine, PathBuf)> = BTreeMap::new();
        for directory in directories {
            let file = directory.join(SETTINGS);
            if !file.exists() {
                return Err(Error::NoResults { directory: directory.clone() });
            }
            let settings: ClassSettings = read_json(&file)?;
            match &mut known {
                None => known = Some(settings),
                Some(known) => known.join(&settings).map_err(|(name, found, expected)| {
                    Error::OtherSettings { file, name: name.to_owned(), found, expected }
                })?,
            }
            add_lines(&directory.join(PROMPTS), &mut found)?;
        }
        let found = found.into_iter().map(|(key, (line, _))| (key, line)).collect();
        Ok((known.expect("at least one directory is named"), found))
    }
}

/// Adds the lines of a file; one prompt has one result, whenever it was made.
fn add_lines(
    path: &Path,
    found: &mut BTreeMap<PromptKey, (PromptLine, PathBuf)>,
) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    let mut different = None;
    let file = File::open(path).map_err(refused(path, "read"))?;
    read_lines(&file, path, |text| {
        let line: PromptLine = serde_json::from_str(text).ok()?;
        let key = line.key();
        match found.get(&key) {
            Some((known, first)) if known.timeless() != line.timeless() => {
                different.get_or_insert((key, first.clone()));
            }
            Some(_) => {}
            None => {
                found.insert(key, (line, path.to_path_buf()));
            }
        }
        Some(())
    })?;
    match different {
        Some((prompt, first)) => Err(Error::DifferentPrompts {
            prompt: prompt.to_string(),
            file: path.to_path_buf(),
            first,
        }),
        None => Ok(()),
    }
}

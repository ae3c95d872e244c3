//! A directory of results: what is in it stays, whatever happens to the run that wrote it.
//!
//! `settings.json` says what is measured, `pilot.json` what the pilot found, and for every part
//! there is one file with a line per task. Lines stand in the order in which tasks were done; what
//! is made of them does not depend on it.

use super::pilot::Pilot;
use super::record::Line;
use super::settings::{Part, Settings};
use crate::error::{Error, refused};
use fewstep::adapter::make_directory;
use fewstep::out::{Lines, read_lines};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const SETTINGS: &str = "settings.json";
const PILOT: &str = "pilot.json";
/// A file that is made and removed, to see whether one can be made.
const PROBE: &str = "fewstep.probe";

/// The results of a part, by task.
pub type Lined = BTreeMap<usize, Line>;

/// A directory of results that a run adds to.
///
/// # Examples
///
/// See [`measure`](super::run::measure).
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    settings: Settings,
    resume: bool,
}

impl Store {
    /// Opens a directory for the results of these settings; with `resume` it may hold some.
    ///
    /// # Errors
    ///
    /// [`Error::ResultsInUse`] if it holds results and `resume` is false, [`Error::OtherSettings`]
    /// if they are of other settings, [`fewstep::Error::File`] if it cannot be written to.
    pub fn open(directory: &Path, settings: &Settings, resume: bool) -> Result<Self, Error> {
        Self::check(directory, resume)?;
        let file = directory.join(SETTINGS);
        if file.exists() {
            agree(&file, &read_json(&file)?, settings)?;
        }
        let store =
            Self { directory: directory.to_path_buf(), settings: settings.clone(), resume };
        write_json(directory, SETTINGS, settings)?;
        Ok(store)
    }

    /// Whether results may be written into a directory, before there is anything to write.
    ///
    /// # Errors
    ///
    /// [`Error::ResultsInUse`] if it holds results and `resume` is false, [`fewstep::Error::File`] if it
    /// cannot be written to.
    pub fn check(directory: &Path, resume: bool) -> Result<(), Error> {
        make_directory(directory)?;
        if !resume && directory.join(SETTINGS).exists() {
            let remedy = "add --resume to continue, or name another directory";
            return Err(Error::ResultsInUse { directory: directory.to_path_buf(), remedy });
        }
        let probe = directory.join(PROBE);
        std::fs::write(&probe, "").map_err(refused(&probe, "write"))?;
        std::fs::remove_file(&probe).map_err(refused(&probe, "remove"))
    }

    /// Opens the results of finished runs, or parts of runs, of the same settings. Runs that compare
    /// rules may have looked at tasks of different families, or seeds.
    ///
    /// # Errors
    ///
    /// [`Error::NoResults`] for a directory without results, [`Error::OtherSettings`] if they do
    /// not agree.
    pub fn settings_of(directories: &[PathBuf]) -> Result<(Settings, Option<Pilot>), Error> {
        let mut first: Option<(Settings, Option<Pilot>)> = None;
        for directory in directories {
            let file = directory.join(SETTINGS);
            if !file.exists() {
                return Err(Error::NoResults { directory: directory.clone() });
            }
            let settings: Settings = read_json(&file)?;
            let pilot = pilot_of(directory)?;
            match &mut first {
                None => first = Some((settings, pilot)),
                Some((known, known_pilot)) => {
                    add_families(known, &settings);
                    let found =
                        Settings { parts: same_parts(settings.parts, known), ..settings };
                    agree(&file, &found, known)?;
                    agree(&directory.join(PILOT), &pilot, known_pilot)?;
                }
            }
        }
        Ok(first.expect("at least one directory is named"))
    }

    /// What the pilot found before, if there was one.
    ///
    /// # Errors
    ///
    /// [`Error::BadSettings`] if its file is damaged.
    pub fn pilot(&self) -> Result<Option<Pilot>, Error> {
        if self.resume { pilot_of(&self.directory) } else { Ok(None) }
    }

    /// Keeps what the pilot found.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] if it cannot be written.
    pub fn keep_pilot(&self, pilot: &Pilot) -> Result<(), Error> {
        write_json(&self.directory, PILOT, pilot)
    }

    /// Opens the file of a part; returns what it holds, and how many bytes were cut off.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::OutBusy`] if another run adds to it, [`fewstep::Error::OutExists`] or
    /// [`fewstep::Error::OutLine`] if it holds what does not belong there, [`fewstep::Error::File`] if
    /// it cannot be read or written.
    pub fn lines(&self, part: &Part) -> Result<(Writer, Lined, u64), Error> {
        let mut known = Lined::new();
        let path = file_of(&self.directory, part);
        let (lines, dropped) = Lines::open(&path, self.resume, |text| {
            let line: Line = serde_json::from_str(text).ok()?;
            known.insert(line.task(), line);
            Some(())
        })?;
        Ok((Writer { lines }, known, dropped))
    }

    /// Everything that was measured for a part.
    ///
    /// # Errors
    ///
    /// As [`gather`].
    pub fn results(&self, part: &Part) -> Result<Lined, Error> {
        gather(std::slice::from_ref(&self.directory), part)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// A file of results that is being written.
///
/// # Examples
///
/// See [`measure`](super::run::measure).
#[derive(Debug)]
pub struct Writer {
    lines: Lines,
}

impl Writer {
    /// Adds the result of a task.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] if it cannot be written.
    pub fn write(&mut self, line: &Line) -> Result<(), Error> {
        let line = serde_json::to_string(line).expect("results become JSON");
        Ok(self.lines.write(&line)?)
    }
}

/// All results of a part in some directories.
///
/// # Errors
///
/// [`fewstep::Error::OutLine`] if a file holds something else, [`Error::DifferentResults`] if two say
/// different things about one task.
pub fn gather(directories: &[PathBuf], part: &Part) -> Result<Lined, Error> {
    let mut found: BTreeMap<usize, (Line, PathBuf)> = BTreeMap::new();
    for directory in directories {
        let path = file_of(directory, part);
        if !path.exists() {
            continue;
        }
        let mut different = None;
        let file = File::open(&path).map_err(refused(&path, "read"))?;
        read_lines(&file, &path, |text| {
            let line: Line = serde_json::from_str(text).ok()?;
            let task = line.task();
            match found.get(&task) {
                Some((known, first)) if *known != line => {
                    different.get_or_insert((task, first.clone()));
                }
                Some(_) => {}
                None => {
                    found.insert(task, (line, path.clone()));
                }
            }
            Some(())
        })?;
        if let Some((task, first)) = different {
            return Err(Error::DifferentResults { task, file: path, first });
        }
    }
    Ok(found.into_iter().map(|(task, (line, _))| (task, line)).collect())
}

/// Adds the families of tasks for rules that are not known yet.
fn add_families(known: &mut Settings, found: &Settings) {
    for part in &found.parts {
        let name = |other: &Part| other.name == part.name;
        if part.family.is_some() && !known.parts.iter().any(name) {
            known.parts.push(part.clone());
        }
    }
}

/// Parts in the order of those that are known, with the known ones among them for families that were
/// not looked at.
fn same_parts(mut found: Vec<Part>, known: &Settings) -> Vec<Part> {
    let mut parts = vec![];
    for part in &known.parts {
        match found.iter().position(|other| other.name == part.name) {
            Some(place) => parts.push(found.remove(place)),
            None if part.family.is_some() => parts.push(part.clone()),
            None => {}
        }
    }
    parts.extend(found);
    parts
}

fn file_of(directory: &Path, part: &Part) -> PathBuf {
    directory.join(format!("{}.jsonl", part.name))
}

fn pilot_of(directory: &Path) -> Result<Option<Pilot>, Error> {
    let file = directory.join(PILOT);
    if file.exists() { read_json(&file).map(Some) } else { Ok(None) }
}

/// Writes a file in one piece: half of one is never seen.
pub(super) fn write_json(
    directory: &Path,
    name: &str,
    value: &impl serde::Serialize,
) -> Result<(), Error> {
    let (file, half) = (directory.join(name), directory.join(format!("{name}.part")));
    let text = serde_json::to_string_pretty(value).expect("settings become JSON") + "\n";
    std::fs::write(&half, text).map_err(refused(&half, "write"))?;
    std::fs::rename(&half, &file).map_err(refused(&file, "write"))
}

pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(file).map_err(refused(file, "read"))?;
    serde_json::from_str(&text).map_err(|error| Error::BadSettings {
        file: file.to_path_buf(),
        problem: error.to_string(),
    })
}

/// `Ok` if both are the same; otherwise the first difference by its name.
pub(super) fn agree<T: serde::Serialize>(
    file: &Path,
    found: &T,
    expected: &T,
) -> Result<(), Error> {
    let json = |value: &T| serde_json::to_value(value).expect("settings become JSON");
    match difference("", &json(found), &json(expected)) {
        None => Ok(()),
        Some((name, found, expected)) => {
            Err(Error::OtherSettings { file: file.to_path_buf(), name, found, expected })
        }
    }
}

/// The first place where two values differ, and what stands there.
fn difference(name: &str, a: &Value, b: &Value) -> Option<(String, String, String)> {
    let within =
        |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            let at = |map: &serde_json::Map<String, Value>, key: &String| {
                map.get(key).cloned().unwrap_or(Value::Null)
            };
            keys.into_iter().find_map(|key| difference(&within(key), &at(a, key), &at(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (a, b))| difference(&within(&index.to_string()), a, b))
        }
        (Value::Array(a), Value::Array(b)) => {
            let count = |list: &Vec<Value>| format!("a list of {}", list.len());
            Some((name.to_owned(), count(a), count(b)))
        }
        _ if a == b => None,
        _ => Some((name.to_owned(), a.to_string(), b.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::Family;
    use super::super::record::Failure;
    use super::super::settings::{Choices, Experiment, Role};
    use super::*;

    fn settings(seed: u64) -> Settings {
        let part = Part {
            name: "digit-shift".to_owned(),
            experiment: Experiment::DigitShift,
            family: None,
            role: Role::Main,
            tasks: 4,
            seed,
            choices: Choices::default(),
        };
        Settings {
            program: "fewstep".to_owned(),
            model: "builtin".to_owned(),
            shape: "small".to_owned(),
            pilot_seed: 0,
            data: None,
            parts: vec![part],
        }
    }

    fn line(task: usize, error: &str) -> Line {
        Line::Failed(Failure { task, error: error.to_owned() })
    }

    #[test]
    fn results_of_other_settings_are_neither_gone_on_with_nor_put_together() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        Store::open(&a, &settings(0), false).unwrap();
        Store::open(&b, &settings(1), false).unwrap();
        let busy = Store::open(&a, &settings(0), false).unwrap_err();
        assert!(matches!(busy, Error::ResultsInUse { directory, .. } if directory == a));
        assert!(Store::open(&a, &settings(0), true).is_ok());
        let other = |file: &Path, found: &str, expected: &str| Error::OtherSettings {
            file: file.join(SETTINGS),
            name: "parts.0.seed".to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        };
        let refused = Store::open(&a, &settings(1), true).unwrap_err();
        assert_eq!(refused, other(&a, "0", "1"));
        let refused = Store::settings_of(&[a.clone(), b.clone()]).unwrap_err();
        assert_eq!(refused, other(&b, "1", "0"));
        let missing = directory.path().join("c");
        let refused = Store::settings_of(&[a.clone(), missing.clone()]).unwrap_err();
        assert_eq!(refused, Error::NoResults { directory: missing });
        std::fs::write(a.join(SETTINGS), "{").unwrap();
        let refused = Store::settings_of(std::slice::from_ref(&a)).unwrap_err();
        assert!(matches!(refused, Error::BadSettings { file, .. } if file == a.join(SETTINGS)));
    }

    /// Kinds may be measured apart; what has one name must be one thing.
    #[test]
    fn runs_over_other_families_are_put_together() {
        let directory = tempfile::tempdir().unwrap();
        let of = |place: &str, family: Family, tasks: usize| {
            let mut settings = settings(0);
            let part = &mut settings.parts[0];
            (part.family, part.tasks) = (Some(family), tasks);
            part.name = format!("rules-{family}");
            let place = directory.path().join(place);
            Store::open(&place, &settings, false).unwrap();
            place
        };
        let (swap, near) = (of("swap", Family::Swap, 7), of("near", Family::ShiftNear, 5));
        let together =
            Store::settings_of(&[swap.clone(), near.clone(), swap.clone()]).unwrap().0;
        let names: Vec<&str> = together.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["rules-swap", "rules-shift-near"]);
        let refused = Store::settings_of(&[swap.clone(), near, of("more", Family::Swap, 8)]);
        assert!(matches!(
            refused,
            Err(Error::OtherSettings { name, .. }) if name == "parts.0.tasks"
        ));
        let main = directory.path().join("main");
        Store::open(&main, &settings(0), false).unwrap();
        let refused = Store::settings_of(&[swap, main]);
        assert!(matches!(refused, Err(Error::OtherSettings { name, .. }) if name == "parts"));
    }

    #[test]
    fn lines_are_kept_and_half_lines_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(0);
        let part = &settings.parts[0];
        let store = Store::open(directory.path(), &settings, false).unwrap();
        let (mut writer, known, _) = store.lines(part).unwrap();
        assert!(known.is_empty());
        writer.write(&line(2, "x")).unwrap();
        writer.write(&line(0, "y")).unwrap();
        drop(writer);
        let file = directory.path().join("digit-shift.jsonl");
        let whole = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, whole.clone() + "{\"task\":3,\"err").unwrap();
        // What is cut off is no result, neither for a report nor for the next run.
        assert_eq!(store.results(part).unwrap().len(), 2);
        let store = Store::open(directory.path(), &settings, true).unwrap();
        let (_, known, dropped) = store.lines(part).unwrap();
        assert_eq!((known.keys().copied().collect::<Vec<_>>(), dropped), (vec![0, 2], 14));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);
        std::fs::write(&file, whole + "{}\n").unwrap();
        let damaged = fewstep::Error::OutLine { file: file.clone(), line: 3 }.into();
        assert_eq!(store.results(part).unwrap_err(), damaged);
    }

    #[test]
    fn one_task_has_one_result() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        let settings = settings(0);
        let part = &settings.parts[0];
        for (place, lines) in [(&a, ["x", "y"]), (&b, ["x", "z"])] {
            let store = Store::open(place, &settings, false).unwrap();
            let mut writer = store.lines(part).unwrap().0;
            for (task, error) in lines.iter().enumerate() {
                writer.write(&line(task, error)).unwrap();
            }
        }
        assert_eq!(gather(&[a.clone(), a.clone()], part).unwrap().len(), 2);
        let refused = gather(&[a.clone(), b.clone()], part).unwrap_err();
        let name = "digit-shift.jsonl";
        let (first, file) = (a.join(name), b.join(name));
        assert_eq!(refused, Error::DifferentResults { task: 1, file, first });
    }
}

//! The file of answers: what is in it stays, whatever happens to the run that wrote it.
//!
//! In: one record per line. A line is written at once and in full; a run that is killed in the
//! middle of one leaves a part without a line break, which the next run drops.

use crate::error::{Error, refused};
use crate::tasks::Fingerprint;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file of answers that is being written.
#[derive(Debug)]
pub struct Out {
    lines: Lines,
}

/// What a file of answers holds already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    answered: HashSet<Fingerprint>,
    /// How many queries of a task with a list of them were answered, or failed.
    queries: HashMap<Fingerprint, usize>,
    failed: HashSet<Fingerprint>,
    /// Bytes of an incomplete last line that were dropped.
    pub dropped: u64,
}

impl Done {
    /// Whether the task with this id was answered.
    #[must_use]
    pub fn answered(&self, id: &str) -> bool {
        self.answered.contains(&Fingerprint::of(id))
    }

    /// How many queries of the task with this id have their record, in order.
    #[must_use]
    pub fn queries(&self, id: &str) -> usize {
        self.queries.get(&Fingerprint::of(id)).copied().unwrap_or(0)
    }

    /// Whether this very failure was recorded.
    #[must_use]
    pub fn failed(&self, record: &str) -> bool {
        self.failed.contains(&Fingerprint::of(record))
    }

    /// Takes note of a record; `None` if the line is not a record.
    fn note(&mut self, text: &str) -> Option<()> {
        match serde_json::from_str(text).ok()? {
            Record { id: Some(id), query: Some(_), .. } => {
                *self.queries.entry(Fingerprint::of(&id)).or_default() += 1;
                true
            }
            Record { error: Some(_), .. } => self.failed.insert(Fingerprint::of(text)),
            Record { id: Some(id), .. } => self.answered.insert(Fingerprint::of(&id)),
            Record { id: None, error: None, .. } => return None,
        };
        Some(())
    }
}

/// The part of a record that resuming needs.
#[derive(Deserialize)]
struct Record {
    id: Option<String>,
    query: Option<usize>,
    error: Option<String>,
}

impl Out {
    /// Opens a file for answers. With `resume` it may hold some already; they are kept.
    ///
    /// # Errors
    ///
    /// [`Error::OutExists`] if it is not empty and `resume` is false, [`Error::OutBusy`] if
    /// another run writes to it, [`Error::OutLine`] if it holds something else than answers,
    /// [`Error::File`] if it cannot be read or written.
    pub fn open(path: &Path, resume: bool) -> Result<(Self, Done), Error> {
        let mut done = Done::default();
        let (lines, dropped) = Lines::open(path, resume, |text| done.note(text))?;
        done.dropped = dropped;
        Ok((Self { lines }, done))
    }

    /// Appends a record and its line break in one piece.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be written.
    pub fn write(&mut self, record: &str) -> Result<(), Error> {
        self.lines.write(record)
    }
}

/// A file of lines that one run at a time adds to.
#[derive(Debug)]
pub struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens a file. With `resume` it may hold lines already: `note` hears them, and says `None`
    /// to one that does not belong there. Also returns the bytes dropped of an incomplete line.
    ///
    /// # Errors
    ///
    /// [`Error::OutExists`] without `resume`, [`Error::OutBusy`] while another run writes to it,
    /// [`Error::OutLine`] if `note` refuses a line, and [`Error::File`].
    pub fn open(
        path: &Path,
        resume: bool,
        note: impl FnMut(&str) -> Option<()>,
    ) -> Result<(Self, u64), Error> {
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let file = options.open(path).map_err(refused(path, "write"))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Error::OutBusy { file: path.to_path_buf() });
            }
            // Run without a lock on file systems that have none.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let regular = file.metadata().map_err(refused(path, "read"))?;
        let lines = Self { file, path: path.to_path_buf() };
        if !regular.is_file() || regular.len() == 0 {
            return Ok((lines, 0));
        }
        if !resume {
            return Err(Error::OutExists { file: lines.path });
        }
        let (whole, dropped) = read_lines(&lines.file, path, note)?;
        if dropped > 0 {
            lines.file.set_len(whole).map_err(refused(path, "write"))?;
        }
        Ok((lines, dropped))
    }

    /// Appends a line and its line break in one piece.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if it cannot be written.
    pub fn write(&mut self, line: &str) -> Result<(), Error> {
        let line = format!("{line}\n");
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush());
        written.map_err(refused(&self.path, "write"))
    }
}

/// Hands on every whole line; returns the bytes of these, and of what is left.
///
/// # Errors
///
/// [`Error::OutLine`] if `note` refuses a line, and [`Error::File`] if it cannot be read.
pub fn read_lines(
    file: &File,
    path: &Path,
    mut note: impl FnMut(&str) -> Option<()>,
) -> Result<(u64, u64), Error> {
    let (mut whole, mut number) = (0, 0);
    let mut line = Vec::new();
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(0)).map_err(refused(path, "read"))?;
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(refused(path, "read"))? as u64;
        number += 1;
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            return Ok((whole, length));
        }
        whole += length;
        let text = std::str::from_utf8(&line).ok();
        text.and_then(&mut note)
            .ok_or_else(|| Error::OutLine { file: path.to_path_buf(), line: number })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("answers.jsonl");
        std::fs::write(&file, text).unwrap();
        (directory, file)
    }

    #[test]
    fn a_half_line_is_dropped_wherever_it_was_cut() {
        let whole =
            "{\"id\":\"a\",\"prediction\":{}}\n{\"id\":null,\"line\":2,\"error\":\"é\"}\n";
        let last = "{\"id\":\"b\",\"é\":1}";
        for cut in 1..=last.len() {
            let bytes = [whole.as_bytes(), &last.as_bytes()[..cut]].concat();
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("answers.jsonl");
            std::fs::write(&file, bytes).unwrap();
            let (mut out, done) = Out::open(&file, true).unwrap();
            assert_eq!(done.dropped, cut as u64);
            assert!(done.answered("a") && !done.answered("b"));
            assert!(done.failed("{\"id\":null,\"line\":2,\"error\":\"é\"}"));
            out.write("{\"id\":\"c\"}").unwrap();
            assert_eq!(
                std::fs::read_to_string(&file).unwrap(),
                format!("{whole}{{\"id\":\"c\"}}\n")
            );
        }
    }

    #[test]
    fn answers_that_are_there_are_neither_lost_nor_mixed() {
        let (_keep, file) = write("{\"id\":\"a\"}\n");
        let refused = Out::open(&file, false).unwrap_err();
        assert_eq!(refused, Error::OutExists { file: file.clone() });
        let (_first, _) = Out::open(&file, true).unwrap();
        assert_eq!(Out::open(&file, true).unwrap_err(), Error::OutBusy { file: file.clone() });
        for other in ["{\"id\":\"a\"}\nhello\n", "{\"id\":\"a\"}\n\n", "{\"id\":\"a\"}\n{}\n"] {
            let (_keep, file) = write(other);
            let refused = Out::open(&file, true).unwrap_err();
            assert_eq!(refused, Error::OutLine { file: file.clone(), line: 2 });
            assert_eq!(std::fs::read_to_string(&file).unwrap(), other);
        }
        let missing = Path::new("no such directory").join("answers.jsonl");
        let refused = Out::open(&missing, true).unwrap_err();
        assert!(
            matches!(refused, Error::File { file, action: "write", .. } if file == missing)
        );
    }
}

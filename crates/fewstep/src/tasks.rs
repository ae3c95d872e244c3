//! Tasks from files: one JSON object per line, read one at a time.
//!
//! In: bytes. Out: [`Line`], each a task or what is wrong with it. Lines are read only when they
//! are asked for, and none is held that is longer than a model could take; what stays in memory
//! of a task is a fingerprint of its id.

use crate::error::{Error, refused};
use fewstep_engine::Task;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line, in bytes, that is read.
pub const LONGEST_LINE: usize = 1 << 24;

/// The name that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// A line of a file of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The file, if there are several.
    pub file: Option<PathBuf>,
    /// Where it stands in its file, counted from 1.
    pub number: u64,
    /// The bytes of all files up to the end of this line.
    pub end: u64,
    /// The task's id, if it could be read.
    pub id: Option<String>,
    /// The task, or what is wrong with it.
    pub task: Result<Task, Error>,
}

/// 128 bits that stand for a text.
///
/// Two texts among a million share one with a probability of about `10⁻²⁷`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// The fingerprint of a text; the same in every run of one version of the program.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::tasks::Fingerprint;
    ///
    /// assert_eq!(Fingerprint::of("a"), Fingerprint::of("a"));
    /// assert_ne!(Fingerprint::of("a"), Fingerprint::of("b"));
    /// ```
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self([0_u8, 1].map(|half| {
            let mut hasher = DefaultHasher::new();
            (half, text).hash(&mut hasher);
            hasher.finish()
        }))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// A task from the bytes of a line; what is wrong comes with the id, if that can be read.
///
/// # Errors
///
/// [`Error::NotUtf8`] or [`Error::Json`].
///
/// # Examples
///
/// ```
/// use fewstep::{Error, tasks::parse};
///
/// let refused = parse(br#"{"id": "t1", "tempalte": "{x}->{y}"}"#);
/// let Err(Error::Json { id: Some(id), column: 23, problem }) = refused else { panic!() };
/// assert_eq!(id, "t1");
/// assert!(problem.starts_with("unknown field `tempalte`, expected one of `id`, `template`"));
/// ```
pub fn parse(bytes: &[u8]) -> Result<Task, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Error::NotUtf8 { column: at + 1, byte: bytes[at] }
    })?;
    serde_json::from_str(text).map_err(|error| {
        let problem = error.to_string();
        let end = problem.rfind(" at line ").unwrap_or(problem.len());
        let problem = problem[..end].to_owned();
        Error::Json { id: read_id(text), column: error.column(), problem }
    })
}

/// The id of what may not be a task otherwise.
fn read_id(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    serde_json::from_str(text).ok().map(|Named { id }| id)
}

/// The tasks of some files, one after the other.
///
/// Blank lines are passed over; a byte-order mark and carriage returns are no part of a task. An
/// id that was used before makes a task an error.
#[derive(Debug)]
pub struct Tasks {
    files: std::vec::IntoIter<PathBuf>,
    names: Vec<PathBuf>,
    current: Option<Source>,
    seen: HashMap<Fingerprint, (usize, u64)>,
    consumed: u64,
}

/// A file that is being read.
struct Source {
    reader: Box<dyn BufRead + Send>,
    number: u64,
    tasks: u64,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Source").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Makes ready to read some files; `-` is standard input.
    ///
    /// # Errors
    ///
    /// [`Error::File`] for the first one that cannot be opened.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep::{Error, tasks::Tasks};
    ///
    /// let refused = Tasks::open(vec!["no such file".into()]);
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    /// ```
    pub fn open(files: Vec<PathBuf>) -> Result<Self, Error> {
        for file in files.iter().filter(|file| !is_standard_input(file)) {
            let opened = File::open(file).map_err(refused(file, "read"))?;
            if opened.metadata().map_err(refused(file, "read"))?.is_dir() {
                let kind = io::ErrorKind::IsADirectory;
                return Err(Error::File { file: file.clone(), action: "read", kind });
            }
        }
        let names = files.clone();
        let files = files.into_iter();
        Ok(Self { files, names, current: None, seen: HashMap::new(), consumed: 0 })
    }

    /// How many bytes all files have, unless one of them does not say.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if one has vanished.
    pub fn bytes(&self) -> Result<Option<u64>, Error> {
        let mut total = 0;
        for file in &self.names {
            if is_standard_input(file) {
                return Ok(None);
            }
            let metadata = std::fs::metadata(file).map_err(refused(file, "read"))?;
            if !metadata.is_file() {
                return Ok(None);
            }
            total += metadata.len();
        }
        Ok(Some(total))
    }

    fn start(&mut self) -> Option<Result<Source, Error>> {
        let file = self.files.next()?;
        let reader: Result<Box<dyn BufRead + Send>, Error> = if is_standard_input(&file) {
            Ok(Box::new(BufReader::new(io::stdin())))
        } else {
            let opened = File::open(&file).map_err(refused(&file, "read"));
            opened.map(|opened| Box::new(BufReader::new(opened)) as Box<dyn BufRead + Send>)
        };
        Some(reader.map(|reader| Source { reader, number: 0, tasks: 0 }))
    }

    /// The file that is being read, or was read last.
    fn place(&self) -> usize {
        self.names.len() - self.files.len() - 1
    }

    /// The same, if that needs to be said.
    fn file(&self) -> Option<PathBuf> {
        (self.names.len() > 1).then(|| self.names[self.place()].clone())
    }

    /// What a line holds, unless it is blank.
    fn understand(&mut self, number: u64, bytes: Result<Vec<u8>, Error>) -> Option<Line> {
        let read = match bytes {
            Ok(bytes) => {
                let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| number == 1);
                let text = unmarked.unwrap_or(&bytes);
                if text.trim_ascii().is_empty() {
                    return None;
                }
                parse(text)
            }
            Err(error) => Err(error),
        };
        let (id, task) = match read {
            Ok(task) => (Some(task.id.clone()), self.note(task, number)),
            Err(Error::Json { ref id, .. }) => (id.clone(), read),
            Err(error) => (None, Err(error)),
        };
        Some(Line { file: self.file(), number, end: self.consumed, id, task })
    }

    /// The task, unless its id was used before.
    fn note(&mut self, task: Task, number: u64) -> Result<Task, Error> {
        let place = self.place();
        match self.seen.insert(Fingerprint::of(&task.id), (place, number)) {
            None => Ok(task),
            Some((file, first)) => {
                self.seen.insert(Fingerprint::of(&task.id), (file, first));
                Err(Error::DuplicateId { id: task.id, file: self.names[file].clone(), first })
            }
        }
    }

    /// A problem of the file itself, in place of a line.
    fn problem(&self, number: u64, error: Error) -> Line {
        Line { file: self.file(), number, end: self.consumed, id: None, task: Err(error) }
    }
}

impl Iterator for Tasks {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let mut source = match self.current.take() {
                Some(source) => source,
                None => match self.start()? {
                    Ok(source) => source,
                    Err(error) => return Some(self.problem(1, error)),
                },
            };
            source.number += 1;
            let number = source.number;
            match read_line(&mut source.reader) {
                Ok(None) if source.tasks == 0 => {
                    let file = self.names[self.place()].clone();
                    return Some(self.problem(number, Error::NoTasks { file }));
                }
                Ok(None) => {}
                Ok(Some((bytes, length))) => {
                    self.consumed += length;
                    let line = self.understand(number, bytes);
                    source.tasks += u64::from(line.is_some());
                    self.current = Some(source);
                    if line.is_some() {
                        return line;
                    }
                }
                Err(error) => {
                    let file = self.names[self.place()].clone();
                    return Some(self.problem(number, refused(&file, "read")(error)));
                }
            }
        }
    }
}

/// A line and how many bytes it took; its text is refused, and not kept, if it is too long.
type Taken = (Result<Vec<u8>, Error>, u64);

/// The next line, or `None` at the end.
fn read_line(reader: &mut dyn BufRead) -> io::Result<Option<Taken>> {
    let mut bytes = Vec::new();
    let most = LONGEST_LINE as u64 + 1;
    let mut length = reader.take(most).read_until(b'\n', &mut bytes)? as u64;
    if length == 0 {
        return Ok(None);
    }
    let ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
    if ended || length < most {
        return Ok(Some((Ok(bytes), length)));
    }
    drop(bytes);
    length += reader.skip_until(b'\n')? as u64;
    Ok(Some((Err(Error::LineTooLong { limit: LONGEST_LINE }), length)))
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == STANDARD_INPUT
}

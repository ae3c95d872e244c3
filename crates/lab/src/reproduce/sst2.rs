//! Labelled sentences as tasks (App. J): ten to learn from and one to ask about.
//!
//! In: a table of sentences with the labels 0 and 1, as SST-2 is distributed. Out: [`Drawn`]. The
//! file is somebody else's: it is read with a limit, and every line is checked.

use super::digit_shift::{Drawn, EXAMPLES, others};
use super::settings::{DataSource, Stream, rng};
use crate::error::{Error, refused};
use fewstep::tasks::Fingerprint;
use fewstep_core::Rng;
use fewstep_engine::{Example, Label, Query, Task};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest table, in bytes, that is read.
pub const LARGEST_TABLE: u64 = 1 << 26;

/// The bytes of a table, if it is not too large.
pub(super) fn read_table(path: &Path) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(refused(path, "read"))?;
    let mut bytes = Vec::new();
    let length = file.take(LARGEST_TABLE + 1).read_to_end(&mut bytes);
    let length = length.map_err(refused(path, "read"))? as u64;
    if length > LARGEST_TABLE {
        return Err(Error::BadTableSize {
            file: path.to_path_buf(),
            found: length,
            what: "bytes or more",
            allowed: format!("at most {LARGEST_TABLE}"),
        });
    }
    Ok(bytes)
}

/// To how many tokens a sentence is cut unless said otherwise; App. J does not say.
pub const DEFAULT_TOKENS: usize = 64;

/// How a sentence is shown (App. J).
const TEMPLATE: &str = "Text: {x} Label: {y}";

/// Sentences with their labels.
///
/// # Examples
///
/// See [`Sentences::read`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sentences {
    rows: Vec<(String, bool)>,
    source: DataSource,
}

impl Sentences {
    /// Reads a table with the columns `sentence` and `label`, divided by tabs.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] if it cannot be read, [`Error::BadTable`] for an invalid line,
    /// [`Error::BadTableSize`] if it is too large or holds fewer than eleven sentences.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::{Error, reproduce::sst2::Sentences};
    ///
    /// # let table = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sentences.tsv").as_ref();
    /// let sentences = Sentences::read(table)?;
    /// let drawn = sentences.draw(0, 0, "\n");
    /// assert_eq!((sentences.source().sentences, drawn.task.examples.len()), (16, 10));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(path, &read_table(path)?)
    }

    /// A table from its bytes; `path` is what messages call it.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let bad = |line: usize, problem: &'static str| Error::BadTable {
            file: path.to_path_buf(),
            line,
            problem,
        };
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            bad(line, "invalid UTF-8; save the file as UTF-8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().enumerate();
        let header = lines.next().map_or("", |(_, line)| line);
        let column = |name: &str| header.split('\t').position(|cell| cell.trim() == name);
        let (Some(sentence), Some(label)) = (column("sentence"), column("label")) else {
            return Err(bad(
                1,
                "there must be the columns sentence and label, divided by a tab",
            ));
        };
        let mut rows = Vec::new();
        for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('\t').collect();
            let (Some(sentence), Some(label)) = (cells.get(sentence), cells.get(label)) else {
                return Err(bad(index + 1, "there are fewer columns than in the first line"));
            };
            let positive = match label.trim() {
                "0" => false,
                "1" => true,
                _ => return Err(bad(index + 1, "the label is neither 0 nor 1")),
            };
            let sentence = sentence.trim();
            if sentence.is_empty() {
                return Err(bad(index + 1, "the sentence is empty"));
            }
            rows.push((sentence.to_owned(), positive));
        }
        if rows.len() <= EXAMPLES {
            return Err(Error::BadTableSize {
                file: path.to_path_buf(),
                found: rows.len() as u64,
                what: "sentences",
                allowed: format!("at least {}", EXAMPLES + 1),
            });
        }
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let fingerprint = Fingerprint::of(text).to_string();
        let source = DataSource { file, sentences: rows.len(), fingerprint };
        Ok(Self { rows, source })
    }

    /// What tells this table from others.
    #[must_use]
    pub fn source(&self) -> &DataSource {
        &self.source
    }

    /// Draws eleven different sentences as a task, by its number.
    #[must_use]
    pub fn draw(&self, seed: u64, number: usize, separator: &str) -> Drawn {
        let mut rng = rng(seed, Stream::Sentences, number);
        let drawn = self.labelled(["0", "1"], false, 1, &mut rng);
        let mut drawn = drawn.expect("a table holds at least eleven sentences");
        drawn.task.id = format!("sst2-{seed}-{number}");
        separator.clone_into(&mut drawn.task.separator);
        drawn
    }

    /// Whether there are sentences for as many queries beside the examples.
    pub(super) fn check_queries(&self, queries: usize) -> Result<(), Error> {
        if self.rows.len() >= EXAMPLES + queries {
            return Ok(());
        }
        let least = EXAMPLES + queries;
        Err(Error::BadTableSize {
            file: self.source.file.clone().into(),
            found: self.rows.len() as u64,
            what: "sentences",
            allowed: format!("at least {least} for {queries} queries per prompt"),
        })
    }

    /// Draws eleven different sentences as a task without a name, with these labels for negative
    /// and positive ones, or the other way round, and others for further queries.
    pub(super) fn labelled(
        &self,
        texts: [&str; 2],
        turned: bool,
        queries: usize,
        rng: &mut Rng,
    ) -> Result<Drawn, Error> {
        self.check_queries(queries)?;
        let chosen = rng.choose(EXAMPLES + 1, self.rows.len());
        let shown = |positive: bool| usize::from(positive != turned);
        let example = |&row: &usize| {
            let (x, positive) = self.rows[row].clone();
            Example { x, y: texts[shown(positive)].to_owned() }
        };
        let query = |row: &usize| {
            let Example { x, y } = example(row);
            Query { x, y: Some(y) }
        };
        let (asked, examples) = chosen.split_last().expect("eleven sentences were drawn");
        let answer = shown(self.rows[*asked].1);
        let label =
            |index: usize| Label { text: texts[index].to_owned(), value: Some(index as f64) };
        let task = Task {
            id: String::new(),
            template: TEMPLATE.to_owned(),
            separator: String::new(),
            labels: vec![label(0), label(1)],
            examples: examples.iter().map(example).collect(),
            query: query(asked),
            further: None,
        };
        let further = others(queries.saturating_sub(1), self.rows.len(), &chosen, rng);
        let further = further.iter().map(query).collect();
        let target = answer as f64;
        Ok(Drawn { task, further, target, regime: None, shift: None, bayes: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Sentences, Error> {
        Sentences::parse(Path::new("some/table.tsv"), text.as_bytes())
    }

    fn table(rows: usize) -> String {
        let row = |index| format!("sentence number {index}\t{}\n", index % 2);
        "sentence\tlabel\n".to_owned() + &(0..rows).map(row).collect::<String>()
    }

    #[test]
    fn a_task_shows_ten_sentences_and_asks_about_another() {
        let sentences = parse(&table(40)).unwrap();
        assert_eq!(
            (sentences.source().sentences, &*sentences.source().file),
            (40, "table.tsv")
        );
        let mut asked = [0_usize; 2];
        for number in 0..400 {
            let Drawn { task, target, .. } = sentences.draw(0, number, "\n");
            assert!(task.check().is_ok());
            let mut all: Vec<&str> = task.examples.iter().map(|e| e.x.as_str()).collect();
            all.push(&task.query.x);
            for example in &task.examples {
                let index: usize = example.x.rsplit(' ').next().unwrap().parse().unwrap();
                assert_eq!(example.y, (index % 2).to_string());
            }
            assert_eq!(task.query.y.as_deref(), Some(if target > 0.5 { "1" } else { "0" }));
            asked[usize::from(target > 0.5)] += 1;
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 11);
        }
        // Half of the sentences are positive: 200 of 400 with a standard error of 10.
        assert!(asked[1].abs_diff(200) < 40, "{asked:?}");
        let task = sentences.draw(0, 0, "\n").task;
        assert_eq!(task.template().unwrap().prefix("a"), "Text: a Label: ");
        assert_eq!(sentences.draw(0, 3, "\n"), sentences.draw(0, 3, "\n"));
    }

    #[test]
    fn columns_may_stand_in_any_order_and_lines_may_end_as_they_like() {
        let text = table(12);
        let turned: String = text
            .lines()
            .map(|line| {
                let (sentence, label) = line.split_once('\t').unwrap();
                format!("{label}\tmore\t{sentence}\r\n")
            })
            .collect();
        let (plain, turned) =
            (parse(&text).unwrap(), parse(&("\u{feff}".to_owned() + &turned)));
        assert_eq!(turned.unwrap().rows, plain.rows);
    }

    #[test]
    fn what_is_no_table_is_refused_by_its_line() {
        let bad = |text: &str| match parse(text) {
            Err(Error::BadTable { line, .. }) => line,
            other => panic!("{text:?}: {other:?}"),
        };
        assert_eq!(bad(""), 1);
        assert_eq!(bad("text\tlabel\n"), 1);
        assert_eq!(bad("sentence\tlabel\na\t0\nb\n"), 3);
        assert_eq!(bad("sentence\tlabel\na\t0\nb\t2\n"), 3);
        assert_eq!(bad("sentence\tlabel\n \t0\n"), 2);
        let bytes = b"sentence\tlabel\na\t0\n\xff\t1\n";
        let refused = Sentences::parse(Path::new("t"), bytes).unwrap_err();
        assert!(matches!(refused, Error::BadTable { line: 3, .. }), "{refused}");
        let few = parse(&table(10)).unwrap_err();
        assert!(matches!(few, Error::BadTableSize { found: 10, what: "sentences", .. }));
        assert!(parse(&table(11)).is_ok());
        let missing = Sentences::read(Path::new("no such table")).unwrap_err();
        assert!(matches!(missing, Error::Fewstep(fewstep::Error::File { action: "read", .. })));
    }
}

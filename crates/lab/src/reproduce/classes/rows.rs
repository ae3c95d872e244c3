//! The rows of a data set, read from somebody else's files and divided for good into two halves.
//!
//! In: a folder. Out: [`LabelledRows`]. A row belongs to the half that a hash of its text says, so
//! that no text is in both, whatever the order of files.

use super::super::settings::DataSource;
use super::super::sst2::read_table;
use super::sets::DataSet;
use crate::error::Error;
use fewstep::tasks::Fingerprint;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// What rows are for: policies are made on one half and judged on the other.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::classes::Half;
///
/// assert_eq!("dev".parse(), Ok(Half::Development));
/// let texts = ["a sentence", "a sentence!", "a sentence?"].map(Half::of);
/// assert_eq!(texts[0], Half::of("a sentence"));
/// assert!(texts.contains(&Half::Development));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// Policies are made on it.
    Development,
    /// Policies are judged on it.
    Test,
}

impl Half {
    /// The half that a row with this text belongs to: by the last bit of its hash.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if hash(text) & 1 == 0 { Self::Development } else { Self::Test }
    }
}

/// A hash that is the same in every version: FNV-1a, and the finaliser of SplitMix64 for its low bits.
pub(super) fn hash(text: &str) -> u64 {
    let fnv = text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let z = (fnv ^ (fnv >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl fmt::Display for Half {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Development => "dev",
            Self::Test => "test",
        })
    }
}

impl FromStr for Half {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dev" => Ok(Self::Development),
            "test" => Ok(Self::Test),
            _ => Err(format!("expected dev or test, found {text:?}")),
        }
    }
}

/// The rows of one half of a set.
///
/// # Examples
///
/// ```no_run
/// use fewstep_lab::{Error, reproduce::classes::{DataSet, Half, LabelledRows}};
///
/// let rows = LabelledRows::read("../shared/data".as_ref(), DataSet::Trec, Half::Development)?;
/// assert_eq!(rows.labels()[4], " place");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledRows {
    pub(super) set: DataSet,
    pub(super) half: Half,
    labels: Vec<String>,
    /// Texts with the position of their label.
    pub(super) rows: Vec<(String, usize)>,
    /// Texts that belong to none of the labels: out of scope.
    pub(super) outside: Vec<String>,
    sources: Vec<DataSource>,
}

impl LabelledRows {
    /// Reads the files of a set, and keeps the rows of one half; of equal texts the first.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] for a file that cannot be read, [`Error::BadTableSize`] for one that is
    /// too large, [`Error::BadTable`] for a row that is none, with its line.
    pub fn read(folder: &Path, set: DataSet, half: Half) -> Result<Self, Error> {
        let (mut all, mut sources) = (Vec::new(), Vec::new());
        for name in set.files() {
            let file = folder.join(name);
            let text = read_text(&file)?;
            let table = parse(&file, &text)?;
            sources.push(DataSource {
                file: (*name).to_owned(),
                sentences: table.len(),
                fingerprint: Fingerprint::of(&text).to_string(),
            });
            all.extend(table);
        }
        Ok(Self { sources, ..Self::of(set, half, all, &folder.join(set.files()[0]))? })
    }

    /// Rows from texts and what files call their labels.
    fn of(
        set: DataSet,
        half: Half,
        all: Vec<(String, String)>,
        file: &Path,
    ) -> Result<Self, Error> {
        let mut names: Vec<String> =
            set.labels().iter().map(|pair| pair.0.to_owned()).collect();
        let outside = set.out_of_scope();
        if names.is_empty() {
            let found: BTreeSet<&String> = all.iter().map(|row| &row.1).collect();
            names =
                found.into_iter().filter(|&name| Some(&**name) != outside).cloned().collect();
        }
        let text_of = |(index, name): (usize, &String)| {
            set.labels().get(index).map_or_else(|| format!(" {name}"), |pair| pair.1.to_owned())
        };
        let labels = names.iter().enumerate().map(text_of).collect();
        let mut found =
            Self { set, half, labels, rows: vec![], outside: vec![], sources: vec![] };
        let mut seen = HashSet::new();
        for (index, (text, name)) in all.into_iter().enumerate() {
            let label = names.iter().position(|other| *other == name);
            if label.is_none() && Some(&*name) != outside {
                let problem = "the label is none of this set; is it the right file?";
                return Err(Error::BadTable {
                    file: file.to_path_buf(),
                    line: index + 2,
                    problem,
                });
            }
            let text = shortened(&text);
            if Half::of(&text) != half || !seen.insert(text.clone()) {
                continue;
            }
            match label {
                Some(label) => found.rows.push((text, label)),
                None => found.outside.push(text),
            }
        }
        Ok(found)
    }

    /// The texts of the labels, each with the blank before it.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The files it was read from.
    #[must_use]
    pub fn sources(&self) -> &[DataSource] {
        &self.sources
    }
}

/// The first words of a text, with one blank between them.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(DataSet::MOST_WORDS).collect();
    words.join(" ")
}

fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read_table(path)?).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let problem = "invalid UTF-8; save the file as UTF-8";
        Error::BadTable { file: path.to_path_buf(), line, problem }
    })
}

/// Texts and labels of a table: columns `text` (or `sentence`) and `label`, divided by commas
/// (RFC 4180), or by tabs and without quotes in a file that ends in `.tsv`.
fn parse(path: &Path, text: &str) -> Result<Vec<(String, String)>, Error> {
    let bad =
        |line: usize, problem| Error::BadTable { file: path.to_path_buf(), line, problem };
    let tabs = path.extension().is_some_and(|ending| ending == "tsv");
    let mut reader = csv::ReaderBuilder::new();
    reader.delimiter(if tabs { b'\t' } else { b',' }).quoting(!tabs);
    let mut reader = reader.from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let missing = "there must be the columns text (or sentence) and label";
    let header = reader.headers().map_err(|_| bad(1, missing))?.clone();
    let column = |names: &[&str]| header.iter().position(|cell| names.contains(&cell.trim()));
    let (Some(text), Some(label)) = (column(&["text", "sentence"]), column(&["label"])) else {
        return Err(bad(1, missing));
    };
    let mut rows = Vec::new();
    for (index, row) in reader.records().enumerate() {
        let uneven = "the number of columns differs from that of the first line";
        let row = row.map_err(|error| {
            let line = line_of(error.position(), index);
            bad(line, uneven)
        })?;
        let line = line_of(row.position(), index);
        let (text, label) = (row[text].trim(), row[label].trim());
        if text.is_empty() || label.is_empty() {
            return Err(bad(line, "the text or its label is empty"));
        }
        rows.push((text.to_owned(), label.to_owned()));
    }
    Ok(rows)
}

/// The line where a row begins, counted from 1.
fn line_of(place: Option<&csv::Position>, index: usize) -> usize {
    place.and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(index + 2)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One half of made-up rows, whose labels take turns; some are out of scope where a set has such.
    pub(in super::super) fn rows(set: DataSet, half: Half, count: usize) -> LabelledRows {
        let names: Vec<&str> = match set.labels() {
            [] => ["w", "x", "y"].into_iter().chain(set.out_of_scope()).collect(),
            labels => labels.iter().map(|pair| pair.0).collect(),
        };
        let row =
            |index: usize| (format!("text {index}"), names[index % names.len()].to_owned());
        LabelledRows::of(set, half, (0..count).map(row).collect(), Path::new("t")).unwrap()
    }

    fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(text, label)| ((*text).to_owned(), (*label).to_owned())).collect()
    }

    #[test]
    fn tables_are_read_as_the_standard_says() {
        let csv = Path::new("t.csv");
        let text = "\u{feff}text,label\r\n\"a, \"\"b\"\"\nc\",x\r\nd,y\r\n";
        assert_eq!(parse(csv, text).unwrap(), owned(&[("a, \"b\"\nc", "x"), ("d", "y")]));
        let tsv = "sentence\tlabel\n\"a\" , b\t1\n";
        assert_eq!(parse(Path::new("t.tsv"), tsv).unwrap(), owned(&[("\"a\" , b", "1")]));
        let line = |text: &str| match parse(csv, text) {
            Err(Error::BadTable { line, .. }) => line,
            other => panic!("{text:?}: {other:?}"),
        };
        assert_eq!(line("text,class\na,b\n"), 1);
        assert_eq!(line("text,label\na,b\nc\n"), 3);
        assert_eq!(line("text,label\na,b\n ,c\n"), 3);
        assert_eq!(line("text,label\n\"a\nb\",c\nd,\n"), 4);
    }

    #[test]
    fn halves_share_no_text_and_hold_every_row() {
        let row = |index: usize| (format!("text {index}"), ["0", "1"][index % 2].to_owned());
        let mut all: Vec<(String, String)> = (0..2000).map(row).collect();
        // The same text again, and once more with other blanks.
        all.push(row(7));
        all.push((" text  9 ".to_owned(), "0".to_owned()));
        let half = |half| LabelledRows::of(DataSet::Sst2, half, all.clone(), Path::new("t"));
        let (dev, test) = (half(Half::Development).unwrap(), half(Half::Test).unwrap());
        let texts: HashSet<&String> =
            dev.rows.iter().chain(&test.rows).map(|row| &row.0).collect();
        assert_eq!((texts.len(), dev.rows.len() + test.rows.len()), (2000, 2000));
        // 1000 with a standard error of 22.
        assert!(dev.rows.len().abs_diff(1000) < 90, "{}", dev.rows.len());
        assert_eq!(dev.labels(), [" negative", " positive"]);
    }

    /// Known values, so that halves stay what they are.
    #[test]
    fn a_hash_stays_what_it_is() {
        // The published FNV-1a of "a"; the rest is the finaliser, written out.
        let mut z: u64 = 0xAF63_DC4C_8601_EC8C;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        assert_eq!(hash("a"), z ^ (z >> 31));
        let halves: String = ["a", "b", "c", "d", "e", "f", "g", "h"]
            .map(|text| if Half::of(text) == Half::Test { 't' } else { 'd' })
            .iter()
            .collect();
        assert_eq!(halves, "dtdtttdt");
    }

    #[test]
    fn labels_that_are_none_are_refused_and_those_out_of_scope_kept_apart() {
        let all = owned(&[("a", "x"), ("b", "oos"), ("c", "w"), ("d", "x"), ("e", "oos")]);
        let read = |set, half| LabelledRows::of(set, half, all.clone(), Path::new("t"));
        let (dev, test) = (
            read(DataSet::Clinc150, Half::Development).unwrap(),
            read(DataSet::Clinc150, Half::Test).unwrap(),
        );
        assert_eq!(dev.labels(), [" w", " x"]);
        assert_eq!(
            (dev.rows.len() + test.rows.len(), dev.outside.len() + test.outside.len()),
            (3, 2)
        );
        let refused = read(DataSet::Sst2, Half::Test).unwrap_err();
        assert!(matches!(refused, Error::BadTable { line: 2, .. }), "{refused}");
    }

    #[test]
    fn long_texts_are_cut_to_a_number_of_words() {
        let long: Vec<String> = (0..100).map(|word| word.to_string()).collect();
        let cut = shortened(&long.join("  "));
        assert_eq!(cut.split(' ').count(), DataSet::MOST_WORDS);
        assert!(cut.ends_with(" 31"));
    }
}

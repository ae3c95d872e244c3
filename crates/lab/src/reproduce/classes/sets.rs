//! The data sets: their files, how a row is written into a prompt, and the words for its labels.
//!
//! In: nothing. Out: [`DataSet`]. Prompts hold no instruction; label texts are words that a reader
//! would use.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A data set for classification.
///
/// | name | files in the folder | template | labels |
/// |---|---|---|---|
/// | `sst2` | `sst2-dev.tsv` | `Review: {x}\nSentiment:{y}` | negative, positive |
/// | `sst5` | `classes/sst5-{train,dev,test}.csv` | `Review: {x}\nIt was{y}` | terrible, bad, okay, good, great |
/// | `trec` | `classes/trec-{train,test}.csv` | `Question: {x}\nType:{y}` | six, with place for location |
/// | `subj` | `classes/subj.csv` | `Sentence: {x}\nType:{y}` | subjective, objective |
/// | `agnews` | `classes/agnews-test.csv` | `News: {x}\nTopic:{y}` | world, sports, business, technology |
/// | `banking77` | `classes/banking77-{train,test}.csv` | `Question: {x}\nIntent:{y}` | those of the files |
/// | `clinc150` | `classes/clinc150-{train,test}.csv` | `Request: {x}\nIntent:{y}` | those of the files; `oos` is out of scope |
/// | `digits` | `digits.csv` | `{x}->{y}` | 0, 1: for the built-in model and a table made by hand |
///
/// # Examples
///
/// ```
/// use fewstep_lab::{Error, reproduce::classes::DataSet};
///
/// assert_eq!("trec".parse::<DataSet>()?, DataSet::Trec);
/// assert!(matches!("cola".parse::<DataSet>(), Err(Error::UnknownSet { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataSet {
    /// Sentences of film reviews, two classes.
    Sst2,
    /// The same in five grades.
    Sst5,
    /// Questions by the kind of their answer.
    Trec,
    /// Sentences of reviews and of plots.
    Subj,
    /// News by topic.
    Agnews,
    /// Questions to a bank by intent.
    Banking77,
    /// Requests to an assistant by intent, and some that are none.
    Clinc150,
    /// Numbers, by a table of one's own.
    Digits,
}

/// Everything about a set that is written down here.
struct Described {
    name: &'static str,
    files: &'static [&'static str],
    template: &'static str,
    /// What a file calls a label, and its text; none: the labels of the files, in alphabetical order.
    labels: &'static [(&'static str, &'static str)],
    /// What a file calls rows that are out of scope.
    out_of_scope: Option<&'static str>,
}

const SST2: Described = Described {
    name: "sst2",
    files: &["sst2-dev.tsv"],
    template: "Review: {x}\nSentiment:{y}",
    labels: &[("0", " negative"), ("1", " positive")],
    out_of_scope: None,
};

const SST5: Described = Described {
    name: "sst5",
    files: &["classes/sst5-train.csv", "classes/sst5-dev.csv", "classes/sst5-test.csv"],
    template: "Review: {x}\nIt was{y}",
    labels: &[
        ("very negative", " terrible"),
        ("negative", " bad"),
        ("neutral", " okay"),
        ("positive", " good"),
        ("very positive", " great"),
    ],
    out_of_scope: None,
};

const TREC: Described = Described {
    name: "trec",
    files: &["classes/trec-train.csv", "classes/trec-test.csv"],
    template: "Question: {x}\nType:{y}",
    labels: &[
        ("abbreviation", " abbreviation"),
        ("entity", " entity"),
        ("description", " description"),
        ("person", " person"),
        ("location", " place"),
        ("number", " number"),
    ],
    out_of_scope: None,
};

const SUBJ: Described = Described {
    name: "subj",
    files: &["classes/subj.csv"],
    template: "Sentence: {x}\nType:{y}",
    labels: &[("subjective", " subjective"), ("objective", " objective")],
    out_of_scope: None,
};

const AGNEWS: Described = Described {
    name: "agnews",
    files: &["classes/agnews-test.csv"],
    template: "News: {x}\nTopic:{y}",
    labels: &[
        ("world", " world"),
        ("sports", " sports"),
        ("business", " business"),
        ("technology", " technology"),
    ],
    out_of_scope: None,
};

const BANKING77: Described = Described {
    name: "banking77",
    files: &["classes/banking77-train.csv", "classes/banking77-test.csv"],
    template: "Question: {x}\nIntent:{y}",
    labels: &[],
    out_of_scope: None,
};

const CLINC150: Described = Described {
    name: "clinc150",
    files: &["classes/clinc150-train.csv", "classes/clinc150-test.csv"],
    template: "Request: {x}\nIntent:{y}",
    labels: &[],
    out_of_scope: Some("oos"),
};

const DIGITS: Described = Described {
    name: "digits",
    files: &["digits.csv"],
    template: "{x}->{y}",
    labels: &[("0", "0"), ("1", "1")],
    out_of_scope: None,
};

impl DataSet {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Sst2,
        Self::Sst5,
        Self::Trec,
        Self::Subj,
        Self::Agnews,
        Self::Banking77,
        Self::Clinc150,
        Self::Digits,
    ];

    /// Those that the default policy is judged on.
    pub const JUDGED: [Self; 5] =
        [Self::Sst2, Self::Sst5, Self::Trec, Self::Subj, Self::Agnews];

    /// The largest number of words of an input: more are cut off, so that 64 examples fit into a
    /// prompt. Only news is often longer, whose first words are the title.
    pub const MOST_WORDS: usize = 32;

    fn described(self) -> &'static Described {
        match self {
            Self::Sst2 => &SST2,
            Self::Sst5 => &SST5,
            Self::Trec => &TREC,
            Self::Subj => &SUBJ,
            Self::Agnews => &AGNEWS,
            Self::Banking77 => &BANKING77,
            Self::Clinc150 => &CLINC150,
            Self::Digits => &DIGITS,
        }
    }

    /// Its files, as they are called in the folder.
    #[must_use]
    pub fn files(self) -> &'static [&'static str] {
        self.described().files
    }

    /// How a row is written into a prompt.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_lab::reproduce::classes::DataSet;
    /// assert_eq!(DataSet::Trec.template(), "Question: {x}\nType:{y}");
    /// ```
    #[must_use]
    pub fn template(self) -> &'static str {
        self.described().template
    }

    /// What stands between examples.
    #[must_use]
    pub fn separator(self) -> &'static str {
        if self == Self::Digits { "\n" } else { "\n\n" }
    }

    /// What the files call its labels, and their texts; empty where the files say both.
    pub(super) fn labels(self) -> &'static [(&'static str, &'static str)] {
        self.described().labels
    }

    /// What the files call rows that are out of scope.
    pub(super) fn out_of_scope(self) -> Option<&'static str> {
        self.described().out_of_scope
    }
}

impl fmt::Display for DataSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.described().name)
    }
}

impl FromStr for DataSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|set| set.to_string() == text).ok_or_else(|| {
            let names = Self::ALL.map(|set| set.to_string());
            Error::UnknownSet { found: text.to_owned(), allowed: names.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_one_name_everywhere() {
        for set in DataSet::ALL {
            assert_eq!(set.to_string().parse::<DataSet>(), Ok(set));
            assert_eq!(serde_json::to_string(&set).unwrap(), format!("\"{set}\""));
            assert!(set.template().ends_with("{y}") && !set.files().is_empty());
        }
        let refused = "cola".parse::<DataSet>().unwrap_err().to_string();
        assert!(refused.contains("\"cola\"") && refused.contains("sst2, sst5"), "{refused}");
    }
}

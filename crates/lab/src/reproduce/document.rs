//! The report of a reproduction, before it becomes a page: words, tables, drawings and claims.
//!
//! Whoever runs an experiment fills a [`Section`]; [`Document::write`] makes `report.html`, which
//! needs nothing beside it, and `report.md` with the drawings under `figures/`. Both hold the same
//! numbers, because both are written from the same strings.

use super::{html, markdown};
use crate::error::{Error, refused};
use fewstep::adapter::file_name;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// A report: what was run, what was found, and what that says about the paper's claims.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::Document;
///
/// let document = Document {
///     title: "Digit maps".to_owned(),
///     summary: vec!["Adapting helps.".to_owned()],
///     settings: vec![("seed".to_owned(), "7".to_owned())],
///     sections: Vec::new(),
/// };
/// assert!(document.html().contains("<h1>Digit maps</h1>"));
/// assert!(document.markdown().starts_with("# Digit maps"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What the report is about.
    pub title: String,
    /// What was found, in a few paragraphs.
    pub summary: Vec<String>,
    /// What was run: names and values, such as the seed and the command line.
    pub settings: Vec<(String, String)>,
    /// One part per experiment.
    pub sections: Vec<Section>,
}

/// One experiment: words, then claims, tables and drawings.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::Section;
///
/// let section = Section { title: "Theory".to_owned(), ..Section::default() };
/// assert!(section.claims.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// What was looked at.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables, in the order in which they are read.
    pub tables: Vec<Table>,
    /// Drawings.
    pub figures: Vec<Figure>,
    /// What the paper says, beside what was measured.
    pub claims: Vec<Claim>,
}

/// Numbers in rows: the first column is to the left, the others to the right.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::Table;
///
/// let row = vec!["clean".to_owned(), "0.07".to_owned()];
/// let table = Table { caption: "Errors".to_owned(), header: vec!["tasks".to_owned(), "error".to_owned()], rows: vec![row] };
/// assert_eq!(table.rows[0].len(), table.header.len());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the numbers are, with their unit.
    pub caption: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

/// A drawing, with its meaning in words.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::Figure;
///
/// let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_owned();
/// let figure = Figure { name: "gap".to_owned(), svg, ..Figure::default() };
/// assert_eq!(figure.name, "gap");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// The name of its file, without `.svg`.
    pub name: String,
    /// What is drawn and how to read it.
    pub caption: String,
    /// What it shows, for those who cannot see it.
    pub alternative: String,
    /// The drawing itself; it is put on the page as it is.
    pub svg: String,
}

/// What the paper says, beside what was measured.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::{Claim, Verdict};
///
/// let claim = Claim {
///     statement: "evidence beats eight steps (Table 1)".to_owned(),
///     paper: "0.0719".to_owned(),
///     measured: "0.0731 ± 0.0004".to_owned(),
///     verdict: Verdict::NotHeld,
/// };
/// assert_eq!(claim.verdict.to_string(), "not held");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What the paper says, with its place in it.
    pub statement: String,
    /// The paper's figure.
    pub paper: String,
    /// Ours.
    pub measured: String,
    /// Whether they agree.
    pub verdict: Verdict,
}

/// What became of a claim.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::document::Verdict;
///
/// assert_eq!(Verdict::Undecided.to_string(), "undecided at this sample size");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is true of what was measured.
    Held,
    /// It is not.
    NotHeld,
    /// More draws or tasks would be needed to tell.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::NotHeld => "not held",
            Self::Undecided => "undecided at this sample size",
        })
    }
}

impl Document {
    /// Writes `report.html`, `report.md` and `figures/*.svg` into a directory, which is made.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] if the directory cannot be made or one of the files not written.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::document::Document;
    ///
    /// # let place = std::env::temp_dir().join(format!("fewstep-document-{}", std::process::id()));
    /// Document { title: "Empty".to_owned(), ..Document::default() }.write(&place)?;
    /// assert!(place.join("report.html").exists() && place.join("report.md").exists());
    /// # std::fs::remove_dir_all(&place).expect("it was just made");
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let figures = directory.join("figures");
        std::fs::create_dir_all(&figures).map_err(refused(&figures, "create"))?;
        let write = |name: &str, text: &str| {
            let file = directory.join(name);
            std::fs::write(&file, text).map_err(refused(&file, "write"))
        };
        for (figure, file) in self.figures().zip(self.figure_files()) {
            write(&file, &figure.svg)?;
        }
        write("report.html", &self.html())?;
        write("report.md", &self.markdown())
    }

    /// The report as one page that needs nothing beside it.
    ///
    /// # Examples
    ///
    /// See [`Document`].
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The report as Markdown, which names its drawings by their files.
    ///
    /// # Examples
    ///
    /// See [`Document`].
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(self, &self.figure_files())
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// Where each drawing goes, in their order; no two share a file.
    fn figure_files(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        self.figures()
            .map(|figure| {
                let name = file_name(&figure.name);
                let numbered = (2_u32..).map(|count| format!("{name}-{count}"));
                let free = std::iter::once(name.clone())
                    .chain(numbered)
                    .find(|name| taken.insert(name.to_lowercase()))
                    .expect("some number is free");
                format!("figures/{free}.svg")
            })
            .collect()
    }

    /// How many claims met which end, in words; nothing without claims.
    pub(super) fn tally(&self) -> Option<String> {
        let claims = || self.sections.iter().flat_map(|section| &section.claims);
        let total = claims().count();
        let count = |verdict| claims().filter(|claim| claim.verdict == verdict).count();
        (total > 0).then(|| {
            format!(
                "Of {total} claims {} held, {} did not hold, and {} stayed undecided at this \
                 sample size.",
                count(Verdict::Held),
                count(Verdict::NotHeld),
                count(Verdict::Undecided)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawings_of_the_same_name_do_not_share_a_file() {
        let named = |name: &str| Figure { name: name.to_owned(), ..Figure::default() };
        let figures = vec![named("a"), named("A"), named("a-2"), named("../b"), named("a")];
        let section = Section { figures, ..Section::default() };
        let document = Document { sections: vec![section], ..Document::default() };
        let files = document.figure_files();
        let expected = ["a", "A-2", "a-2-2", "%2e%2e%2fb", "a-3"];
        assert_eq!(files, expected.map(|name| format!("figures/{name}.svg")));
    }
}

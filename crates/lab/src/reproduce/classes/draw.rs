//! Prompts: examples and queries drawn from the rows of a set.
//!
//! In: [`LabelledRows`] and a [`PromptKey`]. Out: [`DrawnPrompt`]. The draw depends on the set, the
//! half, the seed and the number alone. Queries are drawn first and examples after them, so that
//! prompts of different sizes ask the same queries and larger ones hold the examples of smaller ones.

use super::super::settings::{Stream, rng};
use super::rows::{Half, LabelledRows, hash};
use super::sets::DataSet;
use crate::error::Error;
use fewstep_core::Rng;
use fewstep_engine::{Example, Label, Query, Task};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many examples a prompt has.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::classes::Size;
///
/// assert_eq!((Size::Examples(16).to_string(), Size::PerClass(3).to_string()), ("16".into(), "3-per-class".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// A number in all, drawn without a look at their labels.
    Examples(usize),
    /// A number of every label.
    PerClass(usize),
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Examples(count) => write!(formatter, "{count}"),
            Self::PerClass(count) => write!(formatter, "{count}-per-class"),
        }
    }
}

/// What tells a prompt from others.
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::classes::{DataSet, PromptKey, Size};
///
/// let key = PromptKey { set: DataSet::Trec, size: Size::Examples(16), seed: 1, number: 7 };
/// assert_eq!(key.to_string(), "trec-16-1-7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PromptKey {
    /// The data set.
    pub set: DataSet,
    /// How many examples.
    pub size: Size,
    /// Where it comes from.
    pub seed: u64,
    /// Its number.
    pub number: usize,
}

impl fmt::Display for PromptKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, size, seed, number } = self;
        write!(formatter, "{set}-{size}-{seed}-{number}")
    }
}

/// A prompt with what is asked and the answers.
///
/// # Examples
///
/// See [`LabelledRows::draw`].
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnPrompt {
    /// The task; its query is the first.
    pub task: Task,
    /// The queries after the first.
    pub further: Vec<Query>,
    /// The label of each example.
    pub answers: Vec<usize>,
    /// That of each query, the first one's first; none for what is out of scope.
    pub targets: Vec<Option<usize>>,
}

impl LabelledRows {
    /// Draws a prompt: `queries` queries, the examples, and as many queries that are out of scope
    /// where the set has them. With `labels` the prompt is about that many labels, drawn first.
    ///
    /// # Errors
    ///
    /// [`Error::BadTableSize`] if the half holds too few rows.
    pub fn draw(
        &self,
        key: &PromptKey,
        queries: usize,
        labels: Option<usize>,
    ) -> Result<DrawnPrompt, Error> {
        let stream = match self.half {
            Half::Development => Stream::ClassesDevelopment,
            Half::Test => Stream::ClassesTest,
        };
        // A set of its own randomness; the number of examples takes no part.
        let mut rng = rng(key.seed ^ hash(&self.set.to_string()), stream, key.number);
        let kept = self.kept(labels, &mut rng);
        let deck = self.shuffled(&kept, &mut rng);
        if deck.len() < queries {
            return Err(self.too_few(deck.len(), queries));
        }
        let (asked, rest) = deck.split_at(queries);
        let shown = match key.size {
            Size::Examples(count) => rest.iter().copied().take(count).collect(),
            Size::PerClass(count) => self.balanced(rest, count, self.labels().len()),
        };
        let expected = match key.size {
            Size::Examples(count) => count,
            Size::PerClass(count) => count * kept.len(),
        };
        if shown.len() < expected {
            return Err(self.too_few(deck.len(), queries + expected));
        }
        let outside = rng.choose(queries, self.outside.len());
        Ok(self.written(key, &kept, (asked, &shown, &outside)))
    }

    /// The labels that a prompt is about.
    fn kept(&self, labels: Option<usize>, rng: &mut Rng) -> Vec<usize> {
        let all = self.labels().len();
        let mut kept = match labels {
            Some(count) if count < all => rng.choose(count, all),
            _ => (0..all).collect(),
        };
        kept.sort_unstable();
        kept
    }

    /// The rows with these labels in random order.
    fn shuffled(&self, kept: &[usize], rng: &mut Rng) -> Vec<usize> {
        let of: Vec<usize> =
            (0..self.rows.len()).filter(|&row| kept.contains(&self.rows[row].1)).collect();
        rng.choose(of.len(), of.len()).into_iter().map(|place| of[place]).collect()
    }

    /// The first rows of every label, in their order.
    fn balanced(&self, rows: &[usize], count: usize, labels: usize) -> Vec<usize> {
        let mut taken = vec![0; labels];
        let wanted = |row: &usize| {
            let taken = &mut taken[self.rows[*row].1];
            *taken += 1;
            *taken <= count
        };
        rows.iter().copied().filter(wanted).collect()
    }

    /// A prompt of rows: those that are asked, those that are shown, and those out of scope.
    fn written(
        &self,
        key: &PromptKey,
        kept: &[usize],
        (asked, shown, outside): (&[usize], &[usize], &[usize]),
    ) -> DrawnPrompt {
        let place = |row: usize| {
            let label = self.rows[row].1;
            kept.iter().position(|&other| other == label).expect("only rows of these are drawn")
        };
        let text = |row: usize| self.labels()[self.rows[row].1].clone();
        let example = |&row: &usize| Example { x: self.rows[row].0.clone(), y: text(row) };
        let inside =
            asked.iter().map(|&row| Query { x: self.rows[row].0.clone(), y: Some(text(row)) });
        let out = outside.iter().map(|&row| Query { x: self.outside[row].clone(), y: None });
        let mut queries: Vec<Query> = inside.chain(out).collect();
        let further = queries.split_off(1);
        let label = |&label: &usize| Label { text: self.labels()[label].clone(), value: None };
        let task = Task {
            id: key.to_string(),
            template: self.set.template().to_owned(),
            separator: self.set.separator().to_owned(),
            labels: kept.iter().map(label).collect(),
            examples: shown.iter().map(example).collect(),
            query: queries.swap_remove(0),
            further: None,
        };
        let targets = asked.iter().map(|&row| Some(place(row)));
        let targets = targets.chain(outside.iter().map(|_| None)).collect();
        DrawnPrompt {
            task,
            further,
            answers: shown.iter().map(|&row| place(row)).collect(),
            targets,
        }
    }

    fn too_few(&self, found: usize, least: usize) -> Error {
        Error::BadTableSize {
            file: self.set.files()[0].into(),
            found: found as u64,
            what: "rows of this half with these labels",
            allowed: format!("at least {least} for the examples and queries of a prompt"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::rows;
    use super::*;
    use std::collections::BTreeSet;

    fn key(size: Size, seed: u64, number: usize) -> PromptKey {
        PromptKey { set: DataSet::Trec, size, seed, number }
    }

    fn texts(drawn: &DrawnPrompt) -> Vec<String> {
        drawn.task.examples.iter().map(|example| example.x.clone()).collect()
    }

    fn asked(drawn: &DrawnPrompt) -> Vec<String> {
        std::iter::once(&drawn.task.query).chain(&drawn.further).map(|q| q.x.clone()).collect()
    }

    #[test]
    fn a_draw_is_fixed_by_seed_and_number_and_repeats_no_text() {
        let rows = rows(DataSet::Trec, Half::Development, 400);
        let sixteen = Size::Examples(16);
        let mut seen = BTreeSet::new();
        for number in 0..50 {
            let drawn = rows.draw(&key(sixteen, 1, number), 6, None).unwrap();
            assert_eq!(drawn, rows.draw(&key(sixteen, 1, number), 6, None).unwrap());
            assert!(drawn.task.check().is_ok());
            let mut all = texts(&drawn);
            assert_eq!((all.len(), drawn.answers.len(), drawn.targets.len()), (16, 16, 6));
            all.extend(asked(&drawn));
            let different: BTreeSet<&String> = all.iter().collect();
            assert_eq!(different.len(), 22);
            for (example, &answer) in drawn.task.examples.iter().zip(&drawn.answers) {
                assert_eq!(example.y, drawn.task.labels[answer].text);
            }
            seen.insert(texts(&drawn));
        }
        assert_eq!(seen.len(), 50);
        let other = rows.draw(&key(sixteen, 2, 0), 6, None).unwrap();
        assert!(!seen.contains(&texts(&other)));
    }

    #[test]
    fn development_and_test_prompts_share_no_text() {
        let drawn = |half| -> BTreeSet<String> {
            let rows = rows(DataSet::Trec, half, 400);
            let draw =
                |number| rows.draw(&key(Size::Examples(16), 0, number), 6, None).unwrap();
            let prompts: Vec<DrawnPrompt> = (0..60).map(draw).collect();
            prompts.iter().flat_map(|drawn| [texts(drawn), asked(drawn)].concat()).collect()
        };
        let (dev, test) = (drawn(Half::Development), drawn(Half::Test));
        assert!(dev.len() > 100 && test.len() > 100 && dev.is_disjoint(&test));
    }

    /// More examples are the same and some more, and the queries stay.
    #[test]
    fn larger_prompts_hold_the_smaller_ones() {
        let rows = rows(DataSet::Trec, Half::Test, 400);
        let draw = |size| rows.draw(&key(size, 3, 5), 4, None).unwrap();
        let (few, many) = (draw(Size::Examples(4)), draw(Size::Examples(64)));
        assert_eq!(texts(&few), texts(&many)[..4]);
        assert_eq!(asked(&few), asked(&many));
        let (two, three) = (draw(Size::PerClass(2)), draw(Size::PerClass(3)));
        for (drawn, count) in [(&two, 2), (&three, 3)] {
            for label in 0..6 {
                let of = drawn.answers.iter().filter(|&&answer| answer == label).count();
                assert_eq!(of, count);
            }
        }
        assert!(texts(&two).iter().all(|text| texts(&three).contains(text)));
    }

    #[test]
    fn a_prompt_may_be_about_some_of_the_labels_and_ask_what_is_out_of_scope() {
        let rows = rows(DataSet::Clinc150, Half::Development, 400);
        let key = PromptKey { set: DataSet::Clinc150, ..key(Size::Examples(8), 0, 2) };
        let drawn = rows.draw(&key, 3, Some(2)).unwrap();
        assert_eq!(drawn.task.labels.len(), 2);
        assert_eq!(drawn.targets.iter().filter(|target| target.is_none()).count(), 3);
        assert!(drawn.further[2..].iter().all(|query| query.y.is_none()));
        assert!(drawn.answers.iter().all(|&answer| answer < 2));
        let refused = rows.draw(&key, 1000, None).unwrap_err();
        assert!(matches!(refused, Error::BadTableSize { .. }), "{refused}");
    }
}

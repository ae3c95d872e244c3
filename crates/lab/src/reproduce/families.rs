//! Tasks that differ: maps of digits, sentences and numbers in words, on which rules are compared.
//!
//! In: a [`Family`], a seed and the number of a task. Out: [`Drawn`]. A rule that is good on one family
//! alone is good by accident; these differ in the map that is hidden, in how labels go wrong, in
//! the number of examples, and in whether a model can have seen such a map before.

use super::digit_shift::{Drawn, EXAMPLES, others};
use super::settings::TaskKey;
use super::sst2::Sentences;
use crate::digit_maps::{ARROWS, DIGITS, value};
use crate::error::Error;
use fewstep_core::Rng;
use fewstep_engine::{Example, Label, Query, Task};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The probability with which a noisy label is replaced (App. I).
const REPLACED: f64 = 0.55;

/// The probability with which a label is a neighbour of the right one.
const MISSED: f64 = 0.4;

/// The smallest and the largest number of examples, where it is drawn.
const EXAMPLES_FROM: usize = 3;
const EXAMPLES_TO: usize = 32;

/// Numbers in words, from zero on.
const WORDS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

/// What a task hides.
///
/// | name | hidden | labels |
/// |---|---|---|
/// | `shift-clean` | `y = x + s` modulo 10 | right |
/// | `shift-noisy` | the same | 55 % are replaced by any digit |
/// | `shift-near` | the same | 40 % are off by one |
/// | `shift-length` | the same, 3 to 32 examples | right, or 55 % are replaced: a coin per task |
/// | `reflection` | `y = s − x` modulo 10 | right |
/// | `multiplication` | `y = a x` modulo 10, `a` from 2 to 9 | right |
/// | `swap` | `y = x` but for two digits that change places | right |
/// | `number-words` | a line through number words, rounded | right |
/// | `sentiment` | of sentences | `negative`, `positive` |
/// | `sentiment-flipped` | the same | the other word |
/// | `sentiment-digits` | the same | `0`, `1`; which is which: a coin per task |
/// | `sentiment-letters` | the same | `A`, `B`; which is which: a coin per task |
///
/// # Examples
///
/// ```
/// use fewstep_lab::reproduce::Family;
///
/// let family: Family = "shift-near".parse()?;
/// assert_eq!((family, family.needs_sentences()), (Family::ShiftNear, false));
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A shift, shown rightly.
    ShiftClean,
    /// A shift, most labels replaced.
    ShiftNoisy,
    /// A shift, some labels off by one.
    ShiftNear,
    /// A shift, shown by few or many examples.
    ShiftLength,
    /// `s − x`.
    Reflection,
    /// `a x`.
    Multiplication,
    /// Two digits change places.
    Swap,
    /// A line through number words.
    NumberWords,
    /// Words for sentiment.
    Sentiment,
    /// The wrong words.
    SentimentFlipped,
    /// Digits in their place.
    SentimentDigits,
    /// Letters in their place.
    SentimentLetters,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ShiftClean,
        Self::ShiftNoisy,
        Self::ShiftNear,
        Self::ShiftLength,
        Self::Reflection,
        Self::Multiplication,
        Self::Swap,
        Self::NumberWords,
        Self::Sentiment,
        Self::SentimentFlipped,
        Self::SentimentDigits,
        Self::SentimentLetters,
    ];

    /// As it is called everywhere.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ShiftClean => "shift-clean",
            Self::ShiftNoisy => "shift-noisy",
            Self::ShiftNear => "shift-near",
            Self::ShiftLength => "shift-length",
            Self::Reflection => "reflection",
            Self::Multiplication => "multiplication",
            Self::Swap => "swap",
            Self::NumberWords => "number-words",
            Self::Sentiment => "sentiment",
            Self::SentimentFlipped => "sentiment-flipped",
            Self::SentimentDigits => "sentiment-digits",
            Self::SentimentLetters => "sentiment-letters",
        }
    }

    /// Whether tasks are made of labelled sentences.
    #[must_use]
    pub fn needs_sentences(self) -> bool {
        matches!(
            self,
            Self::Sentiment
                | Self::SentimentFlipped
                | Self::SentimentDigits
                | Self::SentimentLetters
        )
    }

    /// Whether tasks are digits alone, which the built-in model reads.
    #[must_use]
    pub fn is_digits(self) -> bool {
        !self.needs_sentences() && self != Self::NumberWords
    }

    /// Draws a task by its number, with so many queries on its examples; examples and first query
    /// are the same whatever their number.
    pub(crate) fn draw(
        self,
        key: TaskKey,
        queries: usize,
        separator: &str,
        sentences: Option<&Sentences>,
    ) -> Result<Drawn, Error> {
        let mut rng = key.rng();
        let mut drawn = if self.is_digits() {
            self.digits(queries, &mut rng)
        } else if self == Self::NumberWords {
            number_words(queries, &mut rng)
        } else {
            self.sentiment(queries, sentences.ok_or(Error::NoData)?, &mut rng)?
        };
        drawn.task.id = format!("{self}-{}-{}", key.seed, key.number);
        separator.clone_into(&mut drawn.task.separator);
        Ok(drawn)
    }

    /// A map of digits, shown by pairs.
    fn digits(self, queries: usize, rng: &mut Rng) -> Drawn {
        let map = self.map(rng);
        let noisy = match self {
            Self::ShiftNoisy => true,
            Self::ShiftLength => rng.uniform() < 0.5,
            _ => false,
        };
        let count = match self {
            Self::ShiftLength => EXAMPLES_FROM + rng.below(EXAMPLES_TO - EXAMPLES_FROM + 1),
            _ => EXAMPLES,
        };
        let arrow = ARROWS[rng.below(ARROWS.len())];
        let pair = |rng: &mut Rng| {
            let x = rng.below(DIGITS);
            let y = match self {
                _ if noisy && rng.uniform() < REPLACED => rng.below(DIGITS),
                Self::ShiftNear if rng.uniform() < MISSED => {
                    (map[x] + if rng.uniform() < 0.5 { 1 } else { DIGITS - 1 }) % DIGITS
                }
                _ => map[x],
            };
            Example { x: x.to_string(), y: y.to_string() }
        };
        let examples = (0..count).map(|_| pair(rng)).collect();
        let asked = asked(queries, DIGITS, rng);
        let asked = asked.into_iter().map(|x| (x.to_string(), map[x])).collect();
        numbered(&format!("{{x}}{arrow}{{y}}"), examples, asked)
    }

    /// The hidden map.
    fn map(self, rng: &mut Rng) -> [usize; DIGITS] {
        let mut map = std::array::from_fn(|x| x);
        match self {
            Self::Reflection => {
                let sum = rng.below(DIGITS);
                map.map(|x| (sum + DIGITS - x) % DIGITS)
            }
            Self::Multiplication => {
                let factor = 2 + rng.below(DIGITS - 2);
                map.map(|x| factor * x % DIGITS)
            }
            Self::Swap => {
                let two = rng.choose(2, DIGITS);
                map.swap(two[0], two[1]);
                map
            }
            _ => {
                let shift = rng.below(DIGITS);
                map.map(|x| (x + shift) % DIGITS)
            }
        }
    }

    /// Ten labelled sentences and others to ask about.
    fn sentiment(
        self,
        queries: usize,
        sentences: &Sentences,
        rng: &mut Rng,
    ) -> Result<Drawn, Error> {
        let texts = match self {
            Self::SentimentDigits => ["0", "1"],
            Self::SentimentLetters => ["A", "B"],
            _ => ["negative", "positive"],
        };
        let turned = match self {
            Self::Sentiment => false,
            Self::SentimentFlipped => true,
            _ => rng.uniform() < 0.5,
        };
        sentences.labelled(texts, turned, queries, rng)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|family| family.name() == text);
        found.ok_or_else(|| Error::UnknownFamily {
            found: text.to_owned(),
            allowed: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// What is asked about, out of `0..limit`: the first, and others after it.
fn asked(queries: usize, limit: usize, rng: &mut Rng) -> Vec<usize> {
    let mut asked = vec![rng.below(limit)];
    asked.extend(others(queries.saturating_sub(1), limit, &asked, rng));
    asked
}

/// A task whose labels are digits, with what is asked about and the answers.
fn numbered(template: &str, examples: Vec<Example>, asked: Vec<(String, usize)>) -> Drawn {
    let target = value(asked[0].1);
    let query = |(x, answer): (String, usize)| Query { x, y: Some(answer.to_string()) };
    let mut queries = asked.into_iter().map(query);
    let label = |digit: usize| Label { text: digit.to_string(), value: Some(value(digit)) };
    let task = Task {
        id: String::new(),
        template: template.to_owned(),
        separator: String::new(),
        labels: (0..DIGITS).map(label).collect(),
        examples,
        query: queries.next().expect("at least one query is drawn"),
        further: None,
    };
    let further = queries.collect();
    Drawn { task, further, target, regime: None, shift: None, bayes: None }
}

/// Prices of things: a line between two digits, at number words.
fn number_words(queries: usize, rng: &mut Rng) -> Drawn {
    let [first, last] = [rng.below(DIGITS), rng.below(DIGITS)].map(|digit| digit as f64);
    let price = |number: usize| {
        let share = number as f64 / (WORDS.len() - 1) as f64;
        let line = first + (last - first) * share;
        (0..DIGITS).min_by(|&a, &b| (a as f64 - line).abs().total_cmp(&(b as f64 - line).abs()))
    };
    let price = |number| price(number).expect("there are digits");
    let example =
        |number: usize| Example { x: WORDS[number].to_owned(), y: price(number).to_string() };
    let examples = (0..EXAMPLES).map(|_| example(rng.below(WORDS.len()))).collect();
    let asked = asked(queries, WORDS.len(), rng);
    let asked = asked.into_iter().map(|number| (WORDS[number].to_owned(), price(number)));
    numbered("{x} apples: {y}", examples, asked.collect())
}

#[cfg(test)]
mod tests {
    use super::super::settings::Stream;
    use super::*;

    const TRIAL: TaskKey = TaskKey { seed: 0, stream: Stream::Trial, number: 0 };

    fn drawn(family: Family, count: usize) -> Vec<Drawn> {
        asking(family, 1, count)
    }

    fn asking(family: Family, queries: usize, count: usize) -> Vec<Drawn> {
        let table = (0..40).map(|index| format!("sentence {index}\t{}\n", index % 2));
        let table = "sentence\tlabel\n".to_owned() + &table.collect::<String>();
        let sentences = Sentences::parse("table".as_ref(), table.as_bytes()).unwrap();
        let place = |number| TaskKey { seed: 5, stream: Stream::Development, number };
        let draw = |number| family.draw(place(number), queries, "\n", Some(&sentences));
        (0..count).map(|number| draw(number).unwrap()).collect()
    }

    fn digit(text: &str) -> usize {
        text.parse().unwrap()
    }

    /// Pairs of digits, with the query's last, which is always right.
    fn pairs(drawn: &Drawn) -> Vec<(usize, usize)> {
        let query = (digit(&drawn.task.query.x), digit(drawn.task.query.y.as_ref().unwrap()));
        let shown = drawn.task.examples.iter().map(|pair| (digit(&pair.x), digit(&pair.y)));
        shown.chain([query]).collect()
    }

    #[test]
    fn every_family_draws_tasks_that_are_tasks_and_the_same_again() {
        for family in Family::ALL {
            assert_eq!(family.name().parse::<Family>().unwrap(), family);
            let tasks = drawn(family, 50);
            assert_eq!(tasks, drawn(family, 50));
            for Drawn { task, target, .. } in &tasks {
                assert!(task.check().is_ok(), "{family}: {task:?}");
                assert_eq!(task.value_of(task.query.y.as_ref().unwrap()), Some(*target));
                assert_eq!(
                    (task.separator.as_str(), &task.id[..family.name().len()]),
                    ("\n", family.name())
                );
            }
            assert_ne!(tasks[0].task.examples, tasks[1].task.examples);
            if family.needs_sentences() {
                let refused = family.draw(TRIAL, 1, "\n", None);
                assert_eq!(refused, Err(Error::NoData));
            }
        }
        let refused = "shifts".parse::<Family>().unwrap_err().to_string();
        assert!(refused.contains("\"shifts\"") && refused.contains("swap"), "{refused}");
    }

    /// Examples and first query do not depend on how many queries there are, and the others are
    /// other ones, with the answers that the first would have.
    #[test]
    fn further_queries_ask_something_else_about_the_same_examples() {
        for family in Family::ALL {
            let (alone, few) = (asking(family, 1, 40), asking(family, 4, 40));
            assert_eq!(few, asking(family, 4, 40));
            let mut met = std::collections::BTreeSet::new();
            for (one, more) in alone.iter().zip(&few) {
                assert!(one.further.is_empty());
                assert_eq!(Drawn { further: vec![], ..more.clone() }, *one, "{family}");
                let mut asked: Vec<&str> = more.further.iter().map(|q| q.x.as_str()).collect();
                met.extend(asked.iter().map(|&x| x.to_owned()));
                asked.push(&more.task.query.x);
                if family.needs_sentences() {
                    asked.extend(more.task.examples.iter().map(|example| example.x.as_str()));
                }
                let count = asked.len();
                asked.sort_unstable();
                asked.dedup();
                assert_eq!(asked.len(), count, "{family}: {asked:?}");
                for query in &more.further {
                    let task = Task { query: query.clone(), ..more.task.clone() };
                    assert!(task.check().is_ok() && query.y.is_some(), "{family}: {task:?}");
                    check_answer(family, &task, &more.task.query);
                }
            }
            assert!(met.len() >= 10, "{family}: {met:?}");
        }
        let all = asking(Family::Swap, DIGITS, 1);
        assert_eq!(all[0].further.len(), DIGITS - 1);
    }

    /// The query's answer is what the hidden map gives: what the first query says about it, or an
    /// example that happens to be the same.
    fn check_answer(family: Family, task: &Task, first: &Query) {
        let answer = |query: &Query| digit(query.y.as_ref().unwrap());
        match family {
            Family::ShiftClean
            | Family::ShiftNoisy
            | Family::ShiftNear
            | Family::ShiftLength => {
                let shift = |query: &Query| (answer(query) + DIGITS - digit(&query.x)) % DIGITS;
                assert_eq!(shift(&task.query), shift(first), "{family}");
            }
            Family::Sentiment | Family::SentimentFlipped => {
                let positive = digit(task.query.x.rsplit(' ').next().unwrap()) % 2 == 1;
                let right = task.query.y.as_deref() == Some("positive");
                assert_eq!(positive == right, family == Family::Sentiment);
            }
            _ => {
                let shown = task.examples.iter().find(|example| example.x == task.query.x);
                assert!(shown.is_none_or(|example| Some(&example.y) == task.query.y.as_ref()));
            }
        }
    }

    #[test]
    fn a_table_must_hold_a_sentence_for_every_query() {
        let table: String = (0..13).map(|index| format!("sentence {index}\t0\n")).collect();
        let table = "sentence\tlabel\n".to_owned() + &table;
        let sentences = Sentences::parse("table".as_ref(), table.as_bytes()).unwrap();
        let draw = |queries| Family::Sentiment.draw(TRIAL, queries, "\n", Some(&sentences));
        assert_eq!(draw(3).unwrap().further.len(), 2);
        let refused = Error::BadTableSize {
            file: "table".into(),
            found: 13,
            what: "sentences",
            allowed: "at least 14 for 4 queries per prompt".to_owned(),
        };
        assert_eq!(draw(4), Err(refused));
    }

    /// One parameter explains all pairs, and over many tasks every parameter is met.
    #[test]
    fn maps_are_what_their_names_say() {
        let sums = |drawn: &Drawn| pairs(drawn).iter().map(|(x, y)| (x + y) % DIGITS).collect();
        let shifts = |drawn: &Drawn| {
            pairs(drawn).iter().map(|(x, y)| (y + DIGITS - x) % DIGITS).collect()
        };
        for (family, parameters) in [
            (Family::Reflection, &sums as &dyn Fn(&Drawn) -> Vec<usize>),
            (Family::ShiftClean, &shifts),
        ] {
            let mut met = [false; DIGITS];
            for task in drawn(family, 200) {
                let found = parameters(&task);
                assert!(found.iter().all(|&parameter| parameter == found[0]), "{family}");
                met[found[0]] = true;
            }
            assert!(met.iter().all(|&met| met), "{family}");
        }
        let mut met = [false; DIGITS];
        for task in drawn(Family::Multiplication, 200) {
            let fits =
                |factor: &usize| pairs(&task).iter().all(|(x, y)| factor * x % DIGITS == *y);
            let factors: Vec<usize> = (2..DIGITS).filter(fits).collect();
            assert!(!factors.is_empty());
            factors.iter().for_each(|&factor| met[factor] = true);
        }
        assert!(met[2..].iter().all(|&met| met));
        let mut moved = 0;
        for task in drawn(Family::Swap, 400) {
            let other: Vec<(usize, usize)> =
                pairs(&task).into_iter().filter(|(x, y)| x != y).collect();
            let mut two: Vec<usize> = other.iter().flat_map(|&(x, y)| [x, y]).collect();
            two.sort_unstable();
            two.dedup();
            assert!(two.len() <= 2, "{other:?}");
            let (x, y) = *pairs(&task).last().unwrap();
            moved += usize::from(x != y);
        }
        // Two of ten digits change places: 80 of 400 with a standard error of 8.
        assert!(moved.abs_diff(80) < 32, "{moved}");
    }

    /// Of all labels 55 % are replaced, by the right one too; of the near ones 40 % are off by one.
    #[test]
    fn labels_go_wrong_as_often_as_stated() {
        let wrong = |family: Family| {
            let (mut all, mut wrong, mut far) = (0.0, 0.0, 0.0);
            for task in drawn(family, 400) {
                let pairs = pairs(&task);
                let (query, shown) = pairs.split_last().unwrap();
                let shift = (query.1 + DIGITS - query.0) % DIGITS;
                for (x, y) in shown {
                    let off = (y + 2 * DIGITS - x - shift) % DIGITS;
                    all += 1.0;
                    wrong += f64::from(u8::from(off != 0));
                    far += f64::from(u8::from(off.min(DIGITS - off) > 1));
                }
            }
            (all, wrong / all, far / all)
        };
        let error = |share: f64, all: f64| (share * (1.0 - share) / all).sqrt();
        let (all, share, far) = wrong(Family::ShiftNoisy);
        assert!((share - 0.495).abs() < 4.0 * error(0.495, all), "{share}");
        assert!((far - 0.385).abs() < 4.0 * error(0.385, all), "{far}");
        let (all, share, far) = wrong(Family::ShiftNear);
        assert!((share - 0.4).abs() < 4.0 * error(0.4, all), "{share}");
        assert!(far == 0.0);
        assert!(wrong(Family::ShiftClean).1 == 0.0);
        // Half of the tasks of any length are noisy; their labels have different weights.
        let (_, share, _) = wrong(Family::ShiftLength);
        assert!((share - 0.2475).abs() < 0.06, "{share}");
        let mut lengths: Vec<usize> = drawn(Family::ShiftLength, 400)
            .iter()
            .map(|task| task.task.examples.len())
            .collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!(lengths, (EXAMPLES_FROM..=EXAMPLES_TO).collect::<Vec<_>>());
    }

    #[test]
    fn sentences_have_the_labels_that_their_family_says() {
        let positive = |x: &str| digit(x.rsplit(' ').next().unwrap()) % 2 == 1;
        let right = |drawn: &Drawn| {
            let task = &drawn.task;
            let shown = task.examples.iter().map(|pair| (&pair.x, &pair.y));
            let all = shown.chain([(&task.query.x, task.query.y.as_ref().unwrap())]);
            let last = &task.labels[1].text;
            let right: Vec<bool> = all.map(|(x, y)| positive(x) == (y == last)).collect();
            // All are right or all are wrong.
            assert!(right.iter().all(|&each| each == right[0]));
            right[0]
        };
        assert!(drawn(Family::Sentiment, 30).iter().all(right));
        assert!(!drawn(Family::SentimentFlipped, 30).iter().any(right));
        for family in [Family::SentimentDigits, Family::SentimentLetters] {
            let tasks = drawn(family, 100);
            let count = tasks.iter().filter(|task| right(task)).count();
            assert!(count.abs_diff(50) < 20, "{family}: {count}");
        }
        assert_eq!(drawn(Family::SentimentLetters, 1)[0].task.labels[0].text, "A");
    }

    /// Prices rise or fall with the number, all the way, and by the same amount per piece.
    #[test]
    fn prices_lie_on_a_line() {
        for task in drawn(Family::NumberWords, 100) {
            let number = |x: &str| WORDS.iter().position(|&word| word == x).unwrap();
            let mut prices: Vec<(usize, usize)> = task
                .task
                .examples
                .iter()
                .map(|pair| (number(&pair.x), digit(&pair.y)))
                .collect();
            prices
                .push((number(&task.task.query.x), digit(task.task.query.y.as_ref().unwrap())));
            prices.sort_unstable();
            let (first, last) = (prices[0], *prices.last().unwrap());
            let slope =
                (last.1 as f64 - first.1 as f64) / (last.0 as f64 - first.0 as f64).max(1.0);
            for (number, price) in prices {
                let line = first.1 as f64 + slope * (number - first.0) as f64;
                assert!((price as f64 - line).abs() <= 1.0, "{number}: {price}, not {line}");
            }
        }
    }
}

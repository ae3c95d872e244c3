//! Tasks in words whose examples have a given number of tokens.

use fewstep_core::Rng;
use fewstep_engine::{Example, Label, Query, Task};

/// Words that are one token of SmolLM2's tokenizer each, with the blank before them.
const WORDS: [&str; 32] = [
    "time", "people", "world", "water", "house", "light", "paper", "music", "river", "table",
    "story", "garden", "window", "morning", "summer", "winter", "letter", "school", "doctor",
    "market", "mountain", "village", "kitchen", "animal", "weather", "number", "color",
    "engine", "bridge", "forest", "island", "family",
];

/// What an example has besides its words: the colon, the label and the line break.
const AROUND: usize = 3;

const SEED: u64 = 11;

/// The sizes of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) examples: usize,
    /// Of each example, its label and the line break behind it included.
    pub(super) tokens: usize,
    /// Queries beside the first.
    pub(super) further: usize,
}

/// A task of two labels, and the same with other queries.
pub(super) fn tasks(sizes: &Sizes) -> (Task, Vec<Task>) {
    let mut rng = Rng::new(SEED);
    let mut text = || {
        let words = (AROUND..sizes.tokens).map(|_| WORDS[rng.below(WORDS.len())]);
        words.collect::<Vec<_>>().join(" ")
    };
    let label = |text: &str, value| Label { text: text.to_owned(), value: Some(value) };
    // Labels in pairs, so that residuals have no trend along the prompt.
    let answer = |index: usize| if index % 4 < 2 { " y" } else { " n" };
    let examples =
        (0..sizes.examples).map(|index| Example { x: text(), y: answer(index).into() });
    let examples = examples.collect();
    let task = Task {
        id: "words".to_owned(),
        template: " {x}:{y}".to_owned(),
        separator: "\n".to_owned(),
        labels: vec![label(" n", 0.0), label(" y", 1.0)],
        examples,
        query: Query { x: text(), y: None },
        further: None,
    };
    let further = (0..sizes.further)
        .map(|_| Task { query: Query { x: text(), y: None }, ..task.clone() })
        .collect();
    (task, further)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_so_many_words_and_queries_differ() {
        let (task, further) = tasks(&Sizes { examples: 6, tokens: 30, further: 2 });
        let words = |x: &str| x.split(' ').count() + AROUND;
        assert!(task.examples.iter().all(|example| words(&example.x) == 30));
        assert_eq!((task.examples.len(), further.len()), (6, 2));
        assert_eq!(further[0].examples, task.examples);
        assert_ne!(further[0].query, task.query);
        assert_ne!(further[0].query, further[1].query);
    }
}

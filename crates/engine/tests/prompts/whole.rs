//! Tasks and prompts: literal text written out by hand, and every task that is refused.

use crate::prompts::support::{END, config, from, tokenizer, tokenizer_json};
use fewstep_engine::{
    Bos, Error, Example, Label, Order, Place, PromptSettings, Prompts, Query, Task, Tokenizer,
};
use proptest::prelude::*;
use serde_json::json;

fn label(text: &str, value: f64) -> Label {
    Label { text: text.to_owned(), value: Some(value) }
}

fn example(x: &str, y: &str) -> Example {
    Example { x: x.to_owned(), y: y.to_owned() }
}

/// Three examples, two labels, a known answer.
fn task() -> Task {
    Task {
        id: "t".to_owned(),
        template: "{x}->{y}".to_owned(),
        separator: "\n".to_owned(),
        labels: vec![label("0", -1.0), label("1", 0.5)],
        examples: vec![example("a", "1"), example("b", "0"), example("c", "0")],
        query: Query { x: "d".to_owned(), y: Some("1".to_owned()) },
        further: None,
    }
}

fn settings() -> PromptSettings {
    PromptSettings::new(config().positions)
}

fn build(task: &Task) -> Result<Prompts, Error> {
    Prompts::build(task, &tokenizer(), &settings())
}

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[test]
fn a_task_is_read_strictly() {
    let text = r#"{"id": "t", "template": "{x}->{y}", "labels": [{"text": "0", "value": -1},
        {"text": "1", "value": 0.5}], "examples": [{"x": "a", "y": "1"}, {"x": "b", "y": "0"},
        {"x": "c", "y": "0"}], "query": {"x": "d", "y": "1"}}"#;
    let read: Task = serde_json::from_str(text).unwrap();
    assert_eq!(read, task());
    assert_eq!(serde_json::from_value::<Task>(json!(read)).unwrap(), read);
    for (from, to) in [
        ("\"id\"", "\"name\""),
        ("\"query\": {", "\"query\": {\"z\": 1, "),
        ("\"value\": -1", "\"value\": \"-1\""),
        ("{\"x\": \"a\", ", "{"),
        ("\"value\": 0.5}", "\"value\": 0.5, \"token\": 3}"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        assert!(serde_json::from_str::<Task>(&changed).is_err(), "{changed}");
    }
}

#[test]
fn prompts_are_those_written_by_hand() {
    let prompts = build(&task()).unwrap();
    let expected = ["b->0\nc->0\na->", "a->1\nc->0\nb->", "a->1\nb->0\nc->"].map(ids);
    assert_eq!(prompts.leave_one_out(), expected);
    assert_eq!(prompts.query(), ids("a->1\nb->0\nc->0\nd->"));
    assert_eq!(prompts.label_tokens(), ids("01"));
    assert_eq!(prompts.label_values(), [-1.0, 0.5]);
    assert_eq!(prompts.targets(), [0.5, -1.0, -1.0]);
    assert_eq!(prompts.query_target(), Some(0.5));
    let unknown = Task { query: Query { x: "d".to_owned(), y: None }, ..task() };
    let other = build(&unknown).unwrap();
    assert_eq!((other.query_target(), other.query()), (None, prompts.query()));
}

/// Half by half, the other half first; the query's prompt is the same in both orders.
#[test]
fn tree_order_is_the_one_written_by_hand() {
    let settings = PromptSettings { order: Order::Tree, ..settings() };
    let mut task = task();
    // Three examples leave nothing to choose.
    assert_eq!(Prompts::build(&task, &tokenizer(), &settings), build(&task));
    task.examples.push(example("e", "1"));
    let (original, tree) = (build(&task), Prompts::build(&task, &tokenizer(), &settings));
    let expected = [
        "c->0\ne->1\nb->0\na->",
        "c->0\ne->1\na->1\nb->",
        "a->1\nb->0\ne->1\nc->",
        "a->1\nb->0\nc->0\ne->",
    ];
    assert_eq!(tree.as_ref().unwrap().leave_one_out(), expected.map(ids));
    assert_eq!(tree.unwrap().query(), original.unwrap().query());
}

#[test]
fn a_blank_before_the_label_is_part_of_it_where_the_tokenizer_joins_them() {
    let blank = Task { template: "{x}: {y}.".to_owned(), ..task() };
    // " 0" and " 1" are one token each: the prompt ends before the blank.
    let joined = build(&blank).unwrap();
    let shown = |x: &str, label: u32| [ids(x), vec![58, label, 46, 10]].concat();
    let expected = [shown("b", 260), shown("c", 260), ids("a:")].concat();
    assert_eq!(joined.leave_one_out()[0], expected);
    assert_eq!(joined.label_tokens(), [260, 261]);

    // Where they are two tokens, the shared blank belongs to the prompt.
    let apart = Prompts::build(&blank, &Tokenizer::of_bytes(), &settings()).unwrap();
    assert_eq!(apart.leave_one_out()[0], ids("b: 0.\nc: 0.\na: "));
    assert_eq!(apart.label_tokens(), ids("01"));

    // The blank may as well stand in the labels.
    let mut own = Task { template: "{x}:{y}.".to_owned(), ..task() };
    own.labels = vec![label(" 0", -1.0), label(" 1", 0.5)];
    for example in &mut own.examples {
        example.y.insert(0, ' ');
    }
    own.query.y = None;
    assert_eq!(build(&own).unwrap().leave_one_out(), joined.leave_one_out());
}

#[test]
fn placeholders_in_the_data_are_data() {
    let mut odd = task();
    odd.examples[1].x = "{y}{x}".to_owned();
    let prompts = build(&odd).unwrap();
    assert_eq!(prompts.leave_one_out()[0], ids("{y}{x}->0\nc->0\na->"));
}

#[test]
fn the_start_token_stands_before_every_prompt() {
    let with =
        |bos| Prompts::build(&task(), &tokenizer(), &PromptSettings { bos, ..settings() });
    let (plain, started) = (with(Bos::Never).unwrap(), with(Bos::Always).unwrap());
    for (plain, started) in plain.leave_one_out().iter().zip(started.leave_one_out()) {
        assert_eq!(*started, [&[END], &plain[..]].concat());
    }
    assert_eq!(started.query(), [&[END], plain.query()].concat());
    assert_eq!(started.label_tokens(), plain.label_tokens());
    let refused = Prompts::build(
        &task(),
        &Tokenizer::of_bytes(),
        &PromptSettings { bos: Bos::Always, ..settings() },
    );
    assert_eq!(refused, Err(Error::NoBos));
}

/// Sec. 3: no answer reaches its own prompt, and every other prompt sees it.
#[test]
fn sec_3_an_answer_never_enters_its_own_prompt() {
    for order in [Order::Original, Order::Tree] {
        let settings = PromptSettings { order, ..settings() };
        let build = |task: &Task| Prompts::build(task, &tokenizer(), &settings).unwrap();
        let mut task = task();
        task.examples.extend([example("e", "1"), example("f", "0")]);
        let original = build(&task);
        for own in 0..5 {
            let mut changed = task.clone();
            let y = &mut changed.examples[own].y;
            *y = if y == "0" { "1".to_owned() } else { "0".to_owned() };
            let changed = build(&changed);
            for other in 0..5 {
                let same = changed.leave_one_out()[other] == original.leave_one_out()[other];
                assert_eq!(same, other == own, "{order}, answer {own}, prompt {other}");
            }
            assert_ne!(changed.query(), original.query());
        }
        task.query.y = Some("0".to_owned());
        assert_eq!(build(&task).query(), original.query());
    }
}

#[test]
fn a_task_that_cannot_be_asked_is_refused() {
    let with = |change: &dyn Fn(&mut Task)| {
        let mut task = task();
        change(&mut task);
        assert_eq!(task.check().err(), build(&task).err());
        task.check().unwrap_err()
    };
    let t = || "t".to_owned();

    for (template, placeholder, found) in
        [("{y}", "{x}", 0), ("{x}", "{y}", 0), ("{x}{x}{y}", "{x}", 2), ("{x}{y}{y}", "{y}", 2)]
    {
        let refused = with(&|task| task.template = template.to_owned());
        let template = template.to_owned();
        assert_eq!(refused, Error::Placeholder { task: t(), template, placeholder, found });
    }
    let refused = with(&|task| task.template = "{y}<-{x}".to_owned());
    let template = "{y}<-{x}".to_owned();
    assert_eq!(refused, Error::PlaceholderOrder { task: t(), template });

    for found in [0, 1] {
        let refused = with(&|task| task.examples.truncate(found));
        assert_eq!(refused, Error::TooFewExamples { task: t(), found });
        let refused = with(&|task| task.labels.truncate(found));
        assert_eq!(refused, Error::TooFewLabels { task: t(), found });
    }
    let refused = with(&|task| task.labels[1].text.clear());
    assert_eq!(refused, Error::EmptyLabel { task: t(), label: 1 });
    let refused = with(&|task| task.labels.push(label("0", 3.0)));
    assert_eq!(refused, Error::DuplicateLabel { task: t(), label: "0".to_owned() });
    for bad in [f64::NAN, f64::INFINITY] {
        let mut task = task();
        task.labels[1].value = Some(bad);
        let Err(Error::LabelValue { label, value, .. }) = task.check() else {
            panic!("{bad} was accepted");
        };
        assert_eq!((label.as_str(), value.to_bits()), ("1", bad.to_bits()));
    }

    let refused = with(&|task| task.examples[2].x = " \n".to_owned());
    assert_eq!(refused, Error::EmptyInput { task: t(), place: Place::Example(2) });
    let refused = with(&|task| task.query.x.clear());
    assert_eq!(refused, Error::EmptyInput { task: t(), place: Place::Query });
    for place in [Place::Example(1), Place::Query] {
        let refused = with(&|task| match place {
            Place::Example(index) => task.examples[index].y = "2".to_owned(),
            Place::Query => task.query.y = Some("2".to_owned()),
        });
        let (found, allowed) = ("2".to_owned(), vec!["0".to_owned(), "1".to_owned()]);
        assert_eq!(refused, Error::UnknownLabel { task: t(), place, found, allowed });
    }
}

#[test]
fn labels_that_are_not_one_token_are_named_with_their_pieces() {
    let pieces_of = |labels: [&str; 2]| {
        let mut task = task();
        task.labels = labels.map(|text| label(text, 0.0)).to_vec();
        for example in &mut task.examples {
            example.y = labels[0].to_owned();
        }
        task.query.y = None;
        match build(&task).unwrap_err() {
            Error::LabelPieces { label, pieces, place: Place::Example(0), .. } => {
                (label, pieces)
            }
            other => panic!("{other}"),
        }
    };
    let expected = |label: &str, pieces: &[&str]| {
        (label.to_owned(), pieces.iter().map(|&piece| piece.to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(pieces_of(["hello", "help"]), expected("help", &["he", "l", "p"]));
    // One label begins like the other: what they share is not taken for the prompt.
    assert_eq!(pieces_of(["1", "10"]), expected("10", &["1", "0"]));
}

#[test]
fn what_all_labels_begin_with_belongs_to_the_prompt() {
    let mut task = task();
    task.labels = vec![label("hello x", 0.0), label("hello y", 1.0)];
    task.examples.iter_mut().for_each(|example| example.y = "hello x".to_owned());
    task.query.y = None;
    let prompts = build(&task).unwrap();
    assert_eq!(prompts.label_tokens(), ids("xy"));
    assert!(prompts.leave_one_out()[0].ends_with(&[97, 45, 62, 259, 32]));
}

#[test]
fn labels_must_be_tokens_of_their_own_in_every_prompt() {
    // To a tokenizer that composes characters, both labels are the same.
    let mut json = tokenizer_json();
    json["normalizer"] = json!({"type": "NFKC"});
    let mut same = task();
    same.labels = vec![label("0", 0.0), label("\u{ff10}", 1.0)];
    same.examples.iter_mut().for_each(|example| example.y = "0".to_owned());
    same.query.y = None;
    let refused = Prompts::build(&same, &from(&json), &settings());
    let (first, second) = ("0".to_owned(), "\u{ff10}".to_owned());
    assert_eq!(refused, Err(Error::LabelsCollide { task: "t".to_owned(), first, second }));

    // After "he" the label "ll" joins the input, and "o" does not.
    let mut joins = Task { template: "{x}{y}".to_owned(), ..task() };
    joins.labels = vec![label("o", 0.0), label("ll", 1.0)];
    joins.examples.iter_mut().for_each(|example| example.y = "o".to_owned());
    joins.query = Query { x: "he".to_owned(), y: None };
    let Err(Error::LabelPieces { place, label, pieces, .. }) = build(&joins) else {
        panic!("\"hell\" is one token and \"heo\" is two");
    };
    assert_eq!((place, label.as_str()), (Place::Query, "o"));
    assert_eq!(pieces, ["he", "o"]);
}

#[test]
fn a_label_that_changes_its_token_is_refused() {
    // A blank at the end of one input makes " 0" out of "0".
    let mut task = Task { template: "{x}{y}".to_owned(), ..task() };
    task.examples[1].x = "b ".to_owned();
    let refused = build(&task);
    let (found, expected) = (" 0".to_owned(), "0".to_owned());
    let (place, label) = (Place::Example(1), "0".to_owned());
    let task = "t".to_owned();
    assert_eq!(refused, Err(Error::LabelsDisagree { task, place, label, found, expected }));
}

#[test]
fn a_prompt_without_tokens_is_refused() {
    // Whole texts that are one token each.
    let mut json = tokenizer_json();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    let merges: Vec<(&str, &str)> =
        vec![("b", "c"), ("bc", "a"), ("bca", "c"), ("bca", "d"), ("a", "c"), ("ac", "b")];
    for (index, (left, right)) in merges.iter().enumerate() {
        vocabulary.insert(format!("{left}{right}"), (263 + index).into());
    }
    json["model"]["merges"] = json!(merges);
    let task = Task {
        id: "t".to_owned(),
        template: "{x}{y}".to_owned(),
        separator: String::new(),
        labels: vec![label("c", 0.0), label("d", 1.0)],
        examples: vec![example("a", "c"), example("b", "c")],
        query: Query { x: "e".to_owned(), y: None },
        further: None,
    };
    let refused = Prompts::build(&task, &from(&json), &settings());
    let place = Place::Example(0);
    assert_eq!(refused, Err(Error::EmptyPrompt { task: "t".to_owned(), place }));
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_or_cut() {
    let mut long = task();
    long.examples[1].x = "hello".repeat(9);
    // "b->0\nc->0\na->" with nine tokens for b: 9 + 4 + 5 + 3.
    let lengths = [21, 10 + 9 + 2, 10 + 9 + 2 + 3];
    let fits = |context| Prompts::build(&long, &tokenizer(), &PromptSettings::new(context));
    let prompts = fits(64).unwrap();
    let longest = prompts.query().len();
    assert_eq!(prompts.leave_one_out()[0].len(), lengths[0]);
    assert_eq!(fits(longest).unwrap(), prompts);
    let Err(Error::ContextTooLong { task: id, place, length, limit }) = fits(longest - 1)
    else {
        panic!("the query does not fit");
    };
    assert_eq!((id.as_str(), place), ("t", Place::Query));
    assert_eq!((length, limit), (longest, longest - 1));
    let refused = fits(20).unwrap_err();
    assert!(matches!(
        refused,
        Error::ContextTooLong { place: Place::Example(0), length: 21, .. }
    ));

    let cut = |limit| {
        let max_tokens_per_example = Some(limit);
        let settings = PromptSettings { max_tokens_per_example, ..settings() };
        Prompts::build(&long, &tokenizer(), &settings)
    };
    let mut by_hand = long.clone();
    by_hand.examples[1].x = "hello".repeat(2);
    assert_eq!(cut(2), build(&by_hand));
    assert_eq!(cut(9).as_ref(), Ok(&prompts));
    assert_eq!(cut(0), Err(Error::NoTokensPerExample));

    // Many examples are refused before any prompt grows large.
    let mut many = task();
    many.examples = vec![example(&"a".repeat(1000), "1"); 3000];
    assert!(matches!(build(&many), Err(Error::TextTooLong { .. })));
}

/// The text of a prompt, by replacing placeholders in the template.
fn literal(task: &Task, shown: impl Iterator<Item = usize>, x: &str) -> String {
    let mut text = String::new();
    for index in shown {
        let Example { x, y } = &task.examples[index];
        text += &task.template.replace("{x}", x).replace("{y}", y);
        text += &task.separator;
    }
    let (prefix, _) = task.template.split_once("{y}").unwrap();
    text + &prefix.replace("{x}", x)
}

fn tasks() -> impl Strategy<Value = Task> {
    let template = ("[a-z:\n ]{0,6}", "[=>:] ?", "[.!\n]?")
        .prop_map(|(before, between, behind)| format!("{before}{{x}}{between}{{y}}{behind}"));
    let x = "[^{}]{0,6}[a-zé\u{1f600}]";
    let examples = prop::collection::vec((x, "[01]"), 2..6);
    (template, "[\n;#]{1,2}", examples, x).prop_map(|(template, separator, examples, x)| Task {
        template,
        separator,
        examples: examples.into_iter().map(|(x, y)| Example { x, y }).collect(),
        query: Query { x, y: None },
        further: None,
        ..task()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The tokens of every prompt say what the task says, up to a blank that is the label's.
    #[test]
    fn tokens_say_the_literal_text(task in tasks()) {
        for tokenizer in [tokenizer(), Tokenizer::of_bytes()] {
            let prompts = Prompts::build(&task, &tokenizer, &PromptSettings::new(4096)).unwrap();
            let n = task.examples.len();
            let mut pairs: Vec<(&[u32], String)> = (0..n)
                .map(|own| {
                    let others = (0..n).filter(|&other| other != own);
                    (&prompts.leave_one_out()[own][..], literal(&task, others, &task.examples[own].x))
                })
                .collect();
            pairs.push((prompts.query(), literal(&task, 0..n, &task.query.x)));
            for (ids, text) in pairs {
                let said = tokenizer.decode(ids);
                prop_assert!(said == text || said == text.strip_suffix(' ').unwrap_or(&text));
                for (label, token) in task.labels.iter().zip(prompts.label_tokens()) {
                    let answered = tokenizer.decode(&[ids, &[*token]].concat());
                    prop_assert_eq!(answered, format!("{text}{}", label.text));
                }
            }
        }
    }
}

//! Which examples a prompt shows: written out by hand, and how many tokens that leaves.

use crate::prompts::support::tokenizer;
use fewstep_core::{Residuals, Shots};
use fewstep_engine::{
    Error, Example, Label, Layout, Order, PromptSettings, Prompts, Query, Task, TokenTask,
    Tokenizer,
};

/// Examples of one letter with answers that alternate.
fn task(examples: u8) -> Task {
    let label = |text: &str, value: f64| Label { text: text.to_owned(), value: Some(value) };
    let example = |index: u8| Example {
        x: char::from(b'a' + index % 26).to_string(),
        y: (index % 2).to_string(),
    };
    Task {
        id: "t".to_owned(),
        template: "{x}={y}".to_owned(),
        separator: ";".to_owned(),
        labels: vec![label("0", 0.0), label("1", 1.0)],
        examples: (0..examples).map(example).collect(),
        query: Query { x: "?".to_owned(), y: None },
        further: None,
    }
}

fn settings(residuals: Residuals, most: Option<usize>) -> PromptSettings {
    let shots = Some(Shots { most, seed: 0 });
    PromptSettings { residuals, shots, ..PromptSettings::new(4096) }
}

fn ids(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

fn texts(prompts: &Prompts) -> Vec<String> {
    let text = |ids: &Vec<u32>| ids.iter().map(|&id| char::from_u32(id).unwrap()).collect();
    prompts.leave_one_out().iter().map(text).collect()
}

#[test]
fn prefix_prompts_are_those_written_by_hand() {
    let prefix = |orders| settings(Residuals::Prefix { orders }, None);
    let one = Prompts::build(&task(4), &tokenizer(), &prefix(1)).unwrap();
    assert_eq!(texts(&one), ["a=", "a=0;b=", "a=0;b=1;c=", "a=0;b=1;c=0;d="]);
    let two = Prompts::build(&task(4), &tokenizer(), &prefix(2)).unwrap();
    let exchanged = ["c=0;d=1;a=", "c=0;d=1;a=0;b=", "a=0;b=1;c=", "a=0;b=1;c=0;d="];
    assert_eq!(texts(&two), exchanged);
    assert_eq!(two.query(), ids("a=0;b=1;c=0;d=1;?="));
    // As many orders as examples: every one behind all the others.
    let all = Prompts::build(&task(3), &tokenizer(), &prefix(9)).unwrap();
    assert_eq!(texts(&all), ["b=1;c=0;a=", "c=0;a=0;b=", "a=0;b=1;c="]);
}

/// The prompts of one order are beginnings of each other, so that it costs one prompt of all examples;
/// the last order is that of the query.
#[test]
fn an_order_costs_one_prompt() {
    for n in [4_u8, 10, 33] {
        for orders in 1..=4 {
            let settings = settings(Residuals::Prefix { orders }, None);
            let prompts = Prompts::build(&task(n), &Tokenizer::of_bytes(), &settings).unwrap();
            let rows = TokenTask::of(&prompts).unwrap().layout().unwrap().rows();
            let n = usize::from(n);
            // All but the answer of the last example of a stretch, and the query with what is before it.
            let shown = orders * n * 4 - (orders - 1) * 2;
            assert_eq!(rows, shown + 2, "{n} examples in {orders} orders");
        }
    }
}

#[test]
fn examples_beyond_the_shots_stand_behind_them() {
    let leave_one_out = settings(Residuals::LeaveOneOut, Some(2));
    let prompts = Prompts::build(&task(5), &tokenizer(), &leave_one_out).unwrap();
    assert_eq!(prompts.shown(), 2);
    let query = prompts.query().iter();
    let text: String = query.map(|&id| char::from_u32(id).unwrap()).collect();
    let shots: Vec<&str> = text.split_terminator(';').take(2).collect();
    // One of each answer, in the order of the task.
    assert!(shots.is_sorted() && shots.concat().contains('0') && shots.concat().contains('1'));
    for (example, found) in texts(&prompts).iter().enumerate() {
        let own = char::from(b'a' + u8::try_from(example).unwrap());
        let others: Vec<&str> =
            shots.iter().copied().filter(|shot| !shot.starts_with(own)).collect();
        let expected: String = others.iter().map(|shot| format!("{shot};")).collect();
        assert_eq!(*found, format!("{expected}{own}="));
    }
    // Another seed shows others; the same one the same.
    let seeded = |seed| {
        let shots = Some(Shots { most: Some(3), seed });
        let settings = PromptSettings { shots, ..leave_one_out };
        Prompts::build(&task(26), &tokenizer(), &settings).unwrap().query().to_vec()
    };
    assert_eq!(seeded(1), seeded(1));
    assert!((2..12).any(|seed| seeded(seed) != seeded(1)));
}

/// Rows behind shots cost their own tokens: the count is linear in their number.
#[test]
fn rows_behind_shots_cost_their_own_tokens() {
    for order in [Order::Original, Order::Tree] {
        for most in [1, 2, 8] {
            let rows = |n: u8| {
                let mut settings = settings(Residuals::LeaveOneOut, Some(most));
                settings.order = order;
                let prompts =
                    Prompts::build(&task(n), &Tokenizer::of_bytes(), &settings).unwrap();
                let task = TokenTask::of(&prompts).unwrap();
                let layout = task.layout().unwrap();
                let plain = Layout::plain(task.sequences()).unwrap();
                assert_eq!(layout.sequences(), plain.sequences());
                layout.rows()
            };
            assert_eq!(rows(40) - rows(20), 20 * 2, "{order}, {most} shots");
        }
    }
}

#[test]
fn as_many_are_shown_as_fit() {
    // Every example takes four tokens, and the query's own part two.
    for (context, shown) in [(4 * 7 + 2, 7), (4 * 7 + 1, 6), (4 * 3 + 2, 3), (6, 1)] {
        let settings =
            PromptSettings { shots: Some(Shots::default()), ..PromptSettings::new(context) };
        let prompts = Prompts::build(&task(7), &tokenizer(), &settings).unwrap();
        assert_eq!(prompts.shown(), shown, "{context}");
        let lengths = prompts.leave_one_out().iter().map(Vec::len);
        assert!(lengths.chain([prompts.query().len()]).max().unwrap() <= context);
        assert_eq!(prompts.leave_one_out().len(), 7);
    }
}

#[test]
fn shots_that_cannot_be_are_refused() {
    let refused = |most, context| {
        let shots = Some(Shots { most: Some(most), seed: 0 });
        let settings = PromptSettings { shots, ..PromptSettings::new(context) };
        Prompts::build(&task(5), &tokenizer(), &settings).unwrap_err()
    };
    let shots = |found| Error::Shots { task: "t".to_owned(), found, examples: 5 };
    assert_eq!((refused(0, 99), refused(6, 99)), (shots(0), shots(6)));
    assert!(matches!(refused(3, 13), Error::ContextTooLong { limit: 13, length: 14, .. }));
    // Not even one example fits.
    let some = PromptSettings { shots: Some(Shots::default()), ..PromptSettings::new(5) };
    let one = Prompts::build(&task(5), &tokenizer(), &some).unwrap_err();
    assert!(matches!(one, Error::ContextTooLong { limit: 5, .. }));
    // Nor are fewer shown where nobody asked for fewer.
    let all = Prompts::build(&task(5), &tokenizer(), &PromptSettings::new(13)).unwrap_err();
    assert!(matches!(all, Error::ContextTooLong { limit: 13, .. }));
}

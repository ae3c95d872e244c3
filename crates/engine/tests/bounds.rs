//! Short files can ask for much: what they get is bounded, and bounded by little.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up should stop")]

#[path = "support/allocations.rs"]
mod allocations;

use allocations::{MOST, NOW};
use fewstep_engine::{
    Config, Error, Example, Label, PromptSettings, Prompts, Query, Task, Tokenizer,
};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// What a call returns, and the most bytes that it held.
fn measured<T>(call: impl FnOnce() -> T) -> (T, usize) {
    // The counters are those of the whole program: one at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = call();
    (result, MOST.load(Ordering::Relaxed) - before)
}

fn task(examples: usize) -> Task {
    let label = |text: &str, value| Label { text: text.to_owned(), value: Some(value) };
    Task {
        id: "t".to_owned(),
        template: "{x}->{y}".to_owned(),
        separator: "\n".to_owned(),
        labels: vec![label("0", 0.0), label("1", 1.0)],
        examples: vec![Example { x: "a".to_owned(), y: "1".to_owned() }; examples],
        query: Query { x: "b".to_owned(), y: None },
        further: None,
    }
}

/// The prompts of a task for a model of a million positions.
fn build(task: &Task) -> (Result<Prompts, Error>, usize) {
    let (tokenizer, settings) = (Tokenizer::of_bytes(), PromptSettings::new(1 << 20));
    measured(|| Prompts::build(task, &tokenizer, &settings))
}

/// A template is written once per example, so a line of 16 megabytes could ask for terabytes.
#[test]
fn a_long_template_is_not_written_out_for_many_examples() {
    let mut long = task(2000);
    long.template = format!("{}{{x}}->{{y}}", "a".repeat(100_000));
    let (refused, held) = build(&long);
    let length = 2000 * (100_000 + "a->1\n".len());
    assert_eq!(refused, Err(Error::TextTooLong { length, limit: Tokenizer::LONGEST_TEXT }));
    assert!(held < 1 << 20, "{held} bytes");
}

/// Every label is tokenised behind the whole prompt.
#[test]
fn many_labels_do_not_multiply_the_prompt() {
    let mut many = task(2);
    many.query.x = "b".repeat(20_000);
    many.examples[0].x = "a".repeat(20_000);
    // 17 blanks and one further byte: the longest list of labels that bytes can tell apart.
    let text = |byte: u8| format!("{}{}", " ".repeat(17), char::from(byte));
    many.labels =
        (b' '..=b'~').map(|byte| Label { text: text(byte), value: Some(0.0) }).collect();
    many.examples.iter_mut().for_each(|example| example.y = text(b'a'));
    let (built, held) = build(&many);
    assert_eq!(built.unwrap().label_tokens(), (32..=126).collect::<Vec<u32>>());
    // The tokens of one text and what the tokenizer needs for it, but not 95 times as much.
    assert!(held < 95 * 4 * 20_000, "{held} bytes");

    // Texts beyond what bytes can tell apart are refused as soon as that is clear.
    let text = |index: usize| format!("{index:06}");
    many.labels =
        (0..200_000).map(|index| Label { text: text(index), value: Some(0.0) }).collect();
    many.examples.iter_mut().for_each(|example| example.y = text(7));
    let (refused, held) = build(&many);
    let Err(Error::LabelPieces { label, pieces, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((label.as_str(), pieces.concat().as_str()), ("000000", "00"));
    assert!(held < 64 << 20, "{held} bytes");
}

/// Each of `n` leave-one-out prompts is nearly as long as the examples together.
#[test]
fn many_examples_do_not_square_the_prompt() {
    let (refused, held) = build(&task(100_000));
    let length = 99_999 * "a->1\n".len() + "a->".len();
    let (task, prompts, limit) = ("t".to_owned(), 100_001, Prompts::MOST_TOKENS);
    assert_eq!(refused, Err(Error::TooManyTokens { task, prompts, length, limit }));
    assert!(held < 256 << 20, "{held} bytes");
}

/// A tokenizer of bytes with one part replaced.
fn tokenizer(part: &str, value: Value) -> Result<Tokenizer, Error> {
    let config = Config::from_json(
        br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 1, "n_ctx": 64,
             "vocab_size": 4}"#,
    );
    let mut json = json!({
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2}, "merges": []},
    });
    json[part] = value;
    Tokenizer::from_json(json.to_string().as_bytes(), &config?)
}

fn assert_unsupported(refused: Result<Tokenizer, Error>, expected: &str) {
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::Unsupported { setting, .. } if setting == expected));
}

/// Byte-level steps double most texts: forty of them would make a terabyte of a blank.
#[test]
fn bytes_are_spelled_once() {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false});
    let digits = json!({"type": "Digits", "individual_digits": true});
    let steps = |steps: &[&Value]| {
        tokenizer("pre_tokenizer", json!({"type": "Sequence", "pretokenizers": steps}))
    };
    assert_eq!(steps(&[&digits, &byte_level]).unwrap().encode("a b"), Ok(vec![0, 2, 1]));
    assert_unsupported(steps(&[&byte_level; 2]), "pre_tokenizer");
    assert_unsupported(steps(&[&byte_level, &digits, &byte_level]), "pre_tokenizer");
    assert_unsupported(steps(&[&byte_level, &digits]), "pre_tokenizer");
}

/// A template names lists of tokens: ten thousand names of ten thousand tokens are 400 megabytes.
#[test]
fn few_tokens_are_put_before_a_text() {
    let template = |names: usize, tokens: usize| {
        let mut single = vec![json!({"SpecialToken": {"id": "s"}}); names];
        single.push(json!({"Sequence": {"id": "A"}}));
        let special_tokens = json!({"s": {"ids": vec![3; tokens]}});
        let template = json!({"type": "TemplateProcessing", "single": single,
                              "special_tokens": special_tokens});
        tokenizer("post_processor", template)
    };
    let start = template(4, 4).unwrap().start(fewstep_engine::Bos::Auto);
    assert_eq!(start, Ok(vec![3; 16]));
    assert_unsupported(template(17, 1), "post_processor");
    assert_unsupported(template(1, 17), "post_processor");
    let (refused, held) = measured(|| template(10_000, 10_000));
    assert_unsupported(refused, "post_processor");
    assert!(held < 100_000_000, "{held} bytes");
}

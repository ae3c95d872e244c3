//! The three files of a model: refused, or able to take a task.
//!
//! An input is the configuration, the tokenizer and the weights, with a byte 0xff between them,
//! which no JSON text holds. The third part also serves as the merges of a `vocab.json`.
#![no_main]

use fewstep::tasks::parse;
use fewstep_engine::{Bos, Config, Model, Task, Tokenizer};
use fewstep_fuzz::{MEMORY_LIMIT, answer, assert_refusal};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::LazyLock;

const BETWEEN: u8 = 0xff;

/// The bytes in front of a safetensors header, which hold its length.
const LENGTH_BYTES: usize = 8;

const TEXTS: [&str; 4] = ["0", "3->7\n3->", " a\u{301}<|endoftext|>  x12345", "the\u{1f600}\0"];

static TASKS: LazyLock<[Task; 2]> = LazyLock::new(|| {
    [
        &br#"{"id": "a", "template": "{x}->{y}", "query": {"x": "0"},
              "labels": [{"text": "0", "value": 0}, {"text": "1", "value": 1}],
              "examples": [{"x": "0", "y": "1"}, {"x": "1", "y": "0"}, {"x": "10", "y": "1"}]}"#
            [..],
        br#"{"id": "f", "template": "{x}: {y}", "separator": " ", "query": {"x": "a"},
              "labels": [{"text": "a", "value": -1e9}, {"text": "b", "value": 0.5}],
              "examples": [{"x": "aa", "y": "b"}, {"x": "b", "y": "b"}]}"#,
    ]
    .map(|json| parse(json).expect("this is a task"))
});

fuzz_target!(|data: &[u8]| {
    let [config, tokenizer, weights] = parts(data);
    if let Ok(config) = Config::from_json(config) {
        check_tokenizer(&config, Tokenizer::from_json(tokenizer, &config));
        check_tokenizer(&config, Tokenizer::from_vocabulary(tokenizer, weights, &config));
    }
    match Model::from_bytes(config, tokenizer, weights) {
        Ok(model) => {
            let model = model.with_memory_limit(MEMORY_LIMIT);
            TASKS.iter().for_each(|task| answer(&model, task));
        }
        Err(refused) => assert_refusal(&refused),
    }
});

/// What a tokenizer makes of a text are ids that the model has, always the same.
fn check_tokenizer(config: &Config, read: Result<Tokenizer, fewstep_engine::Error>) {
    let tokenizer = match read {
        Ok(tokenizer) => tokenizer,
        Err(refused) => return assert_refusal(&refused),
    };
    for bos in [Bos::Auto, Bos::Always, Bos::Never] {
        check_ids(config, tokenizer.start(bos).as_deref().unwrap_or_default());
    }
    for text in TEXTS {
        match tokenizer.encode(text) {
            Ok(ids) => {
                check_ids(config, &ids);
                assert_eq!(tokenizer.encode(text).as_ref(), Ok(&ids));
                let _ = tokenizer.decode(&ids);
            }
            Err(refused) => assert_refusal(&refused),
        }
        let cut = tokenizer.cut(text, 2).expect("the text is short");
        assert!(text.starts_with(cut));
    }
}

fn check_ids(config: &Config, ids: &[u32]) {
    assert!(ids.iter().all(|&id| (id as usize) < config.vocabulary));
}

/// The three parts of an input; those that are not there are empty.
fn parts(data: &[u8]) -> [&[u8]; 3] {
    let mut parts = data.splitn(3, |&byte| byte == BETWEEN);
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

// Changes one part at a time and, mostly, sets the length of the header right again: else hardly
// any change to a header would be looked at.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let [config, tokenizer, weights] = parts(&data[..size]).map(<[u8]>::to_vec);
    let (header, numbers) = split_weights(&weights);
    let mut parts = [config, tokenizer, header, numbers];
    if seed % 16 == 0 || size + LENGTH_BYTES > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    let chosen = &mut parts[(seed / 16 % 4) as usize];
    let length = chosen.len();
    let room = max_size - size + length - LENGTH_BYTES;
    chosen.resize(room, 0);
    let length = fuzzer_mutate(chosen, length, room);
    chosen.truncate(length);
    let [config, tokenizer, header, numbers] = &parts;
    let stated = (header.len() as u64).to_le_bytes();
    let joined =
        [config, &[BETWEEN][..], tokenizer, &[BETWEEN], &stated, header, numbers].concat();
    let size = joined.len().min(max_size);
    data[..size].copy_from_slice(&joined[..size]);
    size
});

/// The header without its length, and the numbers; all is header where there is no length.
fn split_weights(weights: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let Some((length, rest)) = weights.split_first_chunk::<LENGTH_BYTES>() else {
        return (weights.to_vec(), Vec::new());
    };
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (header, numbers) = rest.split_at(length.min(rest.len()));
    (header.to_vec(), numbers.to_vec())
}

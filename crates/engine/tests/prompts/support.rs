//! A tokenizer small enough to work out its ids by hand.

use fewstep_engine::{Config, Tokenizer};
use serde_json::{Map, Value, json};

/// The 256 characters of a byte-level vocabulary, as GPT-2's `vocab.json` lists them: first the
/// bytes that can be seen, in order, and then the others, from U+0100 on.
pub(crate) fn characters() -> Vec<(u8, char)> {
    let seen = (0x21..=0x7e).chain(0xa1..=0xac).chain(0xae..=0xff);
    let mut characters: Vec<(u8, char)> = seen.map(|byte: u8| (byte, byte as char)).collect();
    let hidden = (0x00..=0x20).chain(0x7f..=0xa0).chain([0xad]);
    characters.extend(hidden.zip('\u{100}'..));
    characters
}

/// Merged tokens get the ids from 256 on, in this order. `Ġ` is a blank.
pub(crate) const MERGES: [(&str, &str); 6] =
    [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "0"), ("Ġ", "1")];

pub(crate) const END: u32 = 262;

/// One id per byte (the byte itself), the merges, and `<|endoftext|>`.
pub(crate) fn vocabulary() -> Map<String, Value> {
    let mut vocabulary: Map<String, Value> =
        characters().into_iter().map(|(byte, c)| (c.to_string(), byte.into())).collect();
    for (index, (left, right)) in MERGES.iter().enumerate() {
        vocabulary.insert(format!("{left}{right}"), (256 + index).into());
    }
    vocabulary.insert("<|endoftext|>".to_owned(), END.into());
    vocabulary
}

pub(crate) fn tokenizer_json() -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [{"id": END, "content": "<|endoftext|>", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": true, "special": true}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": false,
            "vocab": vocabulary(), "merges": MERGES.map(|(l, r)| format!("{l} {r}"))},
    })
}

/// A model with room for 300 tokens.
pub(crate) fn config() -> Config {
    Config::from_json(
        br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 1, "n_ctx": 64,
             "vocab_size": 300, "bos_token_id": 262}"#,
    )
    .unwrap()
}

pub(crate) fn tokenizer() -> Tokenizer {
    from(&tokenizer_json())
}

pub(crate) fn from(json: &Value) -> Tokenizer {
    Tokenizer::from_json(json.to_string().as_bytes(), &config()).unwrap()
}

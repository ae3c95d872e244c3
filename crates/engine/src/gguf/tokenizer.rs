//! From a GGUF file's metadata to the text of the `tokenizer.json` that it was made from.
//!
//! Two models are known: byte-level BPE, whose merges are listed and whose way of splitting has a
//! name, and SentencePiece BPE, whose merges follow from the scores of its pieces. The text goes
//! the same way as one from a checkpoint, so that it is checked, and saved, as one.

use super::Architecture;
use super::metadata::Metadata;
use crate::error::Error;
use crate::tokens::patterns;
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::HashMap;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";

/// The longest piece of a SentencePiece vocabulary, in bytes.
const LONGEST_PIECE: usize = 256;

/// The most merges that may follow from a SentencePiece vocabulary.
const MOST_MERGES: usize = 1 << 20;

const NORMAL: i128 = 1;
const UNKNOWN: i128 = 2;
const CONTROL: i128 = 3;
const USER_DEFINED: i128 = 4;

/// The text of a `tokenizer.json`.
pub(crate) fn json(
    metadata: &Metadata,
    bytes: &[u8],
    architecture: Architecture,
) -> Result<Vec<u8>, Error> {
    let vocabulary = Vocabulary::read(metadata, bytes)?;
    let file = match metadata.text(bytes, MODEL)? {
        Some("gpt2") => byte_level(&vocabulary, architecture)?,
        Some("llama") => sentence_piece(&vocabulary)?,
        Some(other) => {
            let allowed = "gpt2 or llama";
            return Err(vocabulary.unsupported(MODEL, other, allowed));
        }
        None => return Err(metadata.absent(MODEL, "gpt2 or llama")),
    };
    Ok(serde_json::to_vec(&file).expect("texts and numbers are JSON"))
}

/// The tokens of a file.
struct Vocabulary<'a> {
    metadata: &'a Metadata,
    bytes: &'a [u8],
    tokens: Vec<&'a str>,
    types: Vec<i128>,
    ids: HashMap<&'a str, usize>,
}

/// A `tokenizer.json`.
#[derive(serde::Serialize)]
struct File<'a> {
    version: &'static str,
    truncation: Value,
    padding: Value,
    added_tokens: Vec<Value>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Model<'a>,
}

#[derive(serde::Serialize)]
struct Model<'a> {
    r#type: &'static str,
    unk_token: Option<&'a str>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: Ids<'a>,
    merges: Vec<[&'a str; 2]>,
}

/// Tokens and their positions as one object.
struct Ids<'a>(&'a [&'a str]);

impl Serialize for Ids<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().enumerate().map(|(id, token)| (token, id)))
    }
}

impl<'a> Vocabulary<'a> {
    fn read(metadata: &'a Metadata, bytes: &'a [u8]) -> Result<Self, Error> {
        let tokens = metadata.texts(bytes, TOKENS)?;
        let tokens = tokens.ok_or_else(|| metadata.absent(TOKENS, "a list of texts"))?;
        let types =
            metadata.integers(bytes, TYPES)?.unwrap_or_else(|| vec![NORMAL; tokens.len()]);
        if types.len() != tokens.len() {
            let found = format!("a list of {} for {} tokens", types.len(), tokens.len());
            return Err(metadata.refused(TYPES, found, "as long as the list of tokens"));
        }
        let mut ids = HashMap::with_capacity(tokens.len());
        for (id, token) in tokens.iter().enumerate() {
            if let Some(first) = ids.insert(*token, id) {
                let found = format!("{token:?} at {first} and at {id}");
                return Err(metadata.refused(TOKENS, found, "every token once"));
            }
        }
        Ok(Self { metadata, bytes, tokens, types, ids })
    }

    fn unsupported(&self, setting: &'static str, found: &str, allowed: &'static str) -> Error {
        let (file, found) = (self.metadata.file().to_path_buf(), found.to_owned());
        Error::Unsupported { file, setting, found, allowed }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        let key = format!("tokenizer.ggml.{name}");
        Ok(self.metadata.flag(self.bytes, &key)?.unwrap_or(default))
    }

    /// The tokens that are found in a text before anything else.
    fn added(&self) -> Vec<Value> {
        let tokens = self.tokens.iter().zip(&self.types).enumerate();
        tokens
            .filter(|(_, (_, kind))| [UNKNOWN, CONTROL, USER_DEFINED].contains(kind))
            .map(|(id, (token, &kind))| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": kind != USER_DEFINED})
            })
            .collect()
    }

    /// What puts the start token before every text, if one is to be there.
    fn post_processor(&self, default: bool) -> Result<Value, Error> {
        const BOS: &str = "tokenizer.ggml.bos_token_id";
        if !self.flag("add_bos_token", default)? {
            return Ok(Value::Null);
        }
        let id = self.metadata.integer(self.bytes, BOS)?;
        let token = id.and_then(|id| self.tokens.get(usize::try_from(id).ok()?));
        let Some(token) = token else {
            let found = id.map_or("absent".to_owned(), |id| id.to_string());
            let allowed = "the position of a token, since one is put before every text";
            return Err(self.metadata.refused(BOS, found, allowed));
        };
        let (start, text) = (json!({"SpecialToken": {"id": token, "type_id": 0}}), "Sequence");
        Ok(json!({
            "type": "TemplateProcessing",
            "single": [start.clone(), {text: {"id": "A", "type_id": 0}}],
            "pair": [start.clone(), {text: {"id": "A", "type_id": 0}}, start,
                     {text: {"id": "B", "type_id": 1}}],
            "special_tokens": {*token: {"id": token, "ids": [id], "tokens": [token]}},
        }))
    }

    fn file(&self, merges: Vec<[&'a str; 2]>) -> File<'_> {
        File {
            version: "1.0",
            truncation: Value::Null,
            padding: Value::Null,
            added_tokens: self.added(),
            normalizer: Value::Null,
            pre_tokenizer: Value::Null,
            post_processor: Value::Null,
            decoder: Value::Null,
            model: Model {
                r#type: "BPE",
                unk_token: None,
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: false,
                vocab: Ids(&self.tokens),
                merges,
            },
        }
    }
}

/// How the models with a named way of splitting cut texts into words.
enum Split {
    /// GPT-2's pattern.
    Plain,
    /// Every digit alone, then GPT-2's pattern.
    Digits,
    /// Another pattern.
    Pattern(&'static str),
}

fn byte_level<'a>(
    vocabulary: &'a Vocabulary<'_>,
    architecture: Architecture,
) -> Result<File<'a>, Error> {
    let pre = vocabulary.metadata.text(vocabulary.bytes, PRE)?;
    let split = match (pre, architecture) {
        (Some("gpt-2"), _) | (None | Some("default"), Architecture::Gpt2) => Split::Plain,
        (Some("smollm" | "starcoder" | "refact"), _) => Split::Digits,
        (Some("llama-bpe" | "llama3" | "llama-v3"), _) => Split::Pattern(patterns::LLAMA3),
        (Some("qwen2"), _) => Split::Pattern(patterns::QWEN2),
        (Some("tekken"), _) => Split::Pattern(patterns::TEKKEN),
        (other, _) => {
            let allowed = "gpt-2, smollm, llama-bpe, qwen2 or tekken; default in gpt2 models";
            return Err(vocabulary.unsupported(PRE, other.unwrap_or("absent"), allowed));
        }
    };
    // Models of these two splits take a word that is a token whole, and start with a token.
    let whole = matches!(split, Split::Pattern(patterns::LLAMA3 | patterns::TEKKEN));
    let merges = vocabulary.metadata.texts(vocabulary.bytes, MERGES)?;
    let lines = merges.ok_or_else(|| vocabulary.metadata.absent(MERGES, "a list of texts"))?;
    let merges = lines.into_iter().map(|line| match line.split_once(' ') {
        Some((left, right)) => [left, right],
        None => [line, ""],
    });
    let prefix = vocabulary.flag("add_space_prefix", false)?;
    let level = |regex: bool| {
        json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true,
            "use_regex": regex})
    };
    let mut file = vocabulary.file(merges.collect());
    file.pre_tokenizer = match split {
        Split::Plain => level(true),
        Split::Digits => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true}, level(true)]}),
        Split::Pattern(pattern) => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
             "invert": false}, level(false)]}),
    };
    if pre == Some("qwen2") {
        file.normalizer = json!({"type": "NFC"});
    }
    file.model.ignore_merges = whole;
    file.post_processor = vocabulary.post_processor(whole)?;
    file.decoder = level(true);
    Ok(file)
}

fn sentence_piece<'a>(vocabulary: &'a Vocabulary<'_>) -> Result<File<'a>, Error> {
    if vocabulary.flag("remove_extra_whitespaces", false)? {
        let (key, allowed) = ("tokenizer.ggml.remove_extra_whitespaces", "absent or false");
        return Err(vocabulary.metadata.refused(key, "true".to_owned(), allowed));
    }
    let charsmap = "tokenizer.ggml.precompiled_charsmap";
    if vocabulary.metadata.keys().any(|key| key == charsmap) {
        return Err(vocabulary.metadata.refused(charsmap, "given".to_owned(), "absent"));
    }
    let mut file = vocabulary.file(merges(vocabulary)?);
    let blanks = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let steps = match vocabulary.flag("add_space_prefix", true)? {
        true => vec![json!({"type": "Prepend", "prepend": "▁"}), blanks],
        false => vec![blanks],
    };
    let prefixed = steps.len() == 2;
    file.normalizer = json!({"type": "Sequence", "normalizers": steps});
    file.post_processor = vocabulary.post_processor(true)?;
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefixed {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    file.decoder = json!({"type": "Sequence", "decoders": decoders});
    file.model.byte_fallback = true;
    file.model.fuse_unk = true;
    let unknown = vocabulary.types.iter().position(|&kind| kind == UNKNOWN);
    file.model.unk_token = unknown.map(|id| vocabulary.tokens[id]);
    Ok(file)
}

/// Every way to put a piece together from two others, the best piece first.
fn merges<'a>(vocabulary: &'a Vocabulary<'_>) -> Result<Vec<[&'a str; 2]>, Error> {
    let metadata = vocabulary.metadata;
    let scores = metadata.numbers(vocabulary.bytes, SCORES)?;
    let scores = scores.ok_or_else(|| metadata.absent(SCORES, "a list of numbers"))?;
    if scores.len() != vocabulary.tokens.len() || scores.iter().any(|score| score.is_nan()) {
        let found =
            format!("a list of {} for {} tokens", scores.len(), vocabulary.tokens.len());
        return Err(metadata.refused(SCORES, found, "one number per token"));
    }
    let normal = |piece: &str| {
        let id = vocabulary.ids.get(piece).copied();
        id.filter(|&id| vocabulary.types[id] == NORMAL)
    };
    let mut merges = Vec::new();
    for (id, &token) in vocabulary.tokens.iter().enumerate() {
        if vocabulary.types[id] != NORMAL {
            continue;
        }
        if token.len() > LONGEST_PIECE {
            let found = format!("a piece of {} bytes at {id}", token.len());
            return Err(metadata.refused(TOKENS, found, "pieces of at most 256 bytes"));
        }
        let mut own = Vec::new();
        for (characters, (place, _)) in token.char_indices().enumerate().skip(1) {
            let (left, right) = token.split_at(place);
            if let (Some(first), Some(second)) = (normal(left), normal(right)) {
                own.push(((first, second), characters, [left, right]));
            }
        }
        own.sort_by_key(|(ids, ..)| *ids);
        merges.extend(own.into_iter().map(|(_, characters, parts)| (id, characters, parts)));
        if merges.len() > MOST_MERGES {
            let found = format!("pieces of {} merges", merges.len());
            return Err(metadata.refused(TOKENS, found, "pieces of at most 1048576 merges"));
        }
    }
    // Of one piece the merge with the longer first part comes first; sorting keeps other ties.
    merges.sort_by(|(first, left, _), (second, right, _)| {
        scores[*second].total_cmp(&scores[*first]).then(right.cmp(left))
    });
    Ok(merges.into_iter().map(|(.., parts)| parts).collect())
}

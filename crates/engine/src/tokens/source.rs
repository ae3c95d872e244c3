//! What is read from `tokenizer.json`, or from `vocab.json` and `merges.txt`, and what is refused.
//!
//! The files are checked here, before the `tokenizers` crate sees them: it would panic on a merge
//! that is longer than any token, let patterns and replacements of a hostile file run without
//! bound, and cut or pad every text where the file asks for it.

use super::patterns;
use crate::error::Error;
use crate::files::{self, UniqueNames};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tokenizers::normalizers::unicode::{NFC, NFD, NFKC, NFKD};
use tokenizers::normalizers::{Prepend, Replace};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::{byte_level::ByteLevel, digits::Digits, sequence::Sequence};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

/// What stands for a blank in the pieces of SentencePiece.
pub(crate) const BLANK: &str = "▁";

/// How the tokens of a vocabulary spell texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One character per byte.
    Bytes,
    /// Characters, with `▁` for blanks, and `<0x0A>` for bytes of characters without a token.
    Pieces {
        /// Whether a blank is put before every text.
        prefixed: bool,
    },
}

/// Everything about a BPE tokenizer, checked.
pub(crate) struct Source {
    pub(crate) vocabulary: BTreeMap<String, u32>,
    pub(crate) merges: Vec<(String, String)>,
    /// Whether a word that is a token is taken whole, even if no merges lead to it.
    pub(crate) ignore_merges: bool,
    /// Tokens that are found in the text before anything else, by id.
    pub(crate) added: Vec<(u32, AddedToken)>,
    pub(crate) spelling: Spelling,
    /// Whether characters without a token become the tokens of their bytes.
    pub(crate) byte_fallback: bool,
    pub(crate) normalizer: Option<NormalizerWrapper>,
    pub(crate) pre_tokenizer: Option<PreTokenizerWrapper>,
    /// The tokens that the tokenizer puts before every text.
    pub(crate) leading: Vec<u32>,
}

/// The kinds of a tokenizer's parts, read first so that a foreign kind is refused by name.
#[derive(Deserialize)]
struct Outline {
    model: ModelOutline,
    normalizer: Option<Value>,
}

#[derive(Deserialize)]
struct ModelOutline {
    r#type: Option<String>,
}

#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    added_tokens: Vec<Added>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: UniqueNames<u32>,
    merges: Vec<Merge>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    ignore_merges: Option<bool>,
    byte_fallback: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Line(String),
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

fn unsupported(
    file: &Path,
    setting: &'static str,
    found: String,
    allowed: &'static str,
) -> Error {
    Error::Unsupported { file: file.to_path_buf(), setting, found, allowed }
}

impl Source {
    /// Reads the text of a `tokenizer.json`.
    pub(crate) fn from_json(file: &Path, json: &[u8]) -> Result<Self, Error> {
        let outline: Outline = files::parse(file, json)?;
        // Files from before models had types are all byte-pair encodings.
        if let Some(found) = outline.model.r#type.filter(|kind| kind != "BPE") {
            return Err(unsupported(file, "model", found, "BPE"));
        }
        let (normalizer, blanks) = normalizer(file, outline.normalizer.as_ref())?;
        let TokenizerFile { added_tokens, pre_tokenizer, post_processor, model } =
            files::parse(file, json)?;
        for (setting, value) in [
            ("continuing_subword_prefix", model.continuing_subword_prefix),
            ("end_of_word_suffix", model.end_of_word_suffix),
        ] {
            if let Some(found) = value.filter(|text| !text.is_empty()) {
                return Err(unsupported(file, setting, found, "absent or empty"));
            }
        }
        let (pre_tokenizer, spelling) = match (blanks, pre_tokenizer.as_ref()) {
            (Some(spelling), None) => (None, spelling),
            (None, Some(part)) if kind(part) == "Metaspace" => metaspace(file, part)?,
            (None, part) => (Some(pre_tokenizers(file, part)?), Spelling::Bytes),
            (Some(_), Some(part)) => {
                let allowed = "absent where the normalizer writes blanks as ▁";
                return Err(unsupported(file, "pre_tokenizer", shown(part), allowed));
            }
        };
        Ok(Self {
            vocabulary: model.vocab.0,
            merges: model.merges.into_iter().map(Merge::parts).collect(),
            ignore_merges: model.ignore_merges.unwrap_or(false),
            added: added_tokens.into_iter().map(|added| (added.id, added.token)).collect(),
            spelling,
            byte_fallback: model.byte_fallback.unwrap_or(false),
            normalizer,
            pre_tokenizer,
            leading: leading_tokens(file, post_processor.as_ref())?,
        })
    }

    /// Reads the texts of a `vocab.json` and a `merges.txt`, the form GPT-2 was published in.
    pub(crate) fn from_pair(file: &Path, json: &[u8], merges: &str) -> Result<Self, Error> {
        let UniqueNames(vocabulary) = files::parse::<UniqueNames<u32>>(file, json)?;
        let merges = merges
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with("#version"))
            .map(|line| Merge::Line(line.to_owned()).parts())
            .collect();
        let end = "<|endoftext|>";
        let added = vocabulary.get(end).map(|&id| (id, AddedToken::from(end, true)));
        Ok(Self {
            vocabulary,
            merges,
            ignore_merges: false,
            added: added.into_iter().collect(),
            spelling: Spelling::Bytes,
            byte_fallback: false,
            normalizer: None,
            pre_tokenizer: Some(ByteLevel::new(false, true, true).into()),
            leading: Vec::new(),
        })
    }

    /// Refuses merges and ids that cannot be, and ids that the model does not have.
    pub(crate) fn check(&self, file: &Path, size: usize) -> Result<(), Error> {
        for (index, (left, right)) in self.merges.iter().enumerate() {
            let known = |token: &str| self.vocabulary.contains_key(token);
            if !(known(left) && known(right) && known(&format!("{left}{right}"))) {
                let (left, right) = (left.clone(), right.clone());
                return Err(Error::BadMerge { file: file.to_path_buf(), index, left, right });
            }
        }
        let mut tokens: BTreeMap<u32, &str> = BTreeMap::new();
        let added = self.added.iter().map(|(id, token)| (token.content.as_str(), *id));
        let all = self.vocabulary.iter().map(|(token, &id)| (token.as_str(), id)).chain(added);
        for (token, id) in all {
            if id as usize >= size {
                return Err(beyond(file, token, id, size));
            }
            if let Some(first) = tokens.insert(id, token).filter(|&first| first != token) {
                let (first, second) = (first.to_owned(), token.to_owned());
                return Err(Error::DuplicateToken {
                    file: file.to_path_buf(),
                    first,
                    second,
                    id,
                });
            }
        }
        match self.leading.iter().find(|&&id| id as usize >= size) {
            Some(&id) => Err(beyond(file, "post_processor", id, size)),
            None => Ok(()),
        }
    }
}

fn beyond(file: &Path, token: &str, id: u32, vocabulary: usize) -> Error {
    let (file, token) = (file.to_path_buf(), token.to_owned());
    Error::TokenBeyondVocabulary { file, token, id, vocabulary }
}

impl Merge {
    /// Both parts; the second is empty if there are not exactly two.
    fn parts(self) -> (String, String) {
        match self {
            Self::Pair(left, right) => (left, right),
            Self::Line(line) => match line.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => {
                    (left.to_owned(), right.to_owned())
                }
                _ => (line, String::new()),
            },
        }
    }
}

/// What is done to a text first, and how it spells blanks if that settles it.
fn normalizer(
    file: &Path,
    part: Option<&Value>,
) -> Result<(Option<NormalizerWrapper>, Option<Spelling>), Error> {
    let Some(part) = part else { return Ok((None, None)) };
    let form: NormalizerWrapper = match (kind(part), &part["normalizers"]) {
        ("NFC", _) => NFC.into(),
        ("NFD", _) => NFD.into(),
        ("NFKC", _) => NFKC.into(),
        ("NFKD", _) => NFKD.into(),
        ("Sequence", Value::Array(steps)) if steps.is_empty() => return Ok((None, None)),
        ("Sequence", Value::Array(steps)) => return blanks(file, part, steps),
        _ => return Err(foreign_normalizer(file, part)),
    };
    Ok((Some(form), None))
}

/// `▁` for blanks, with or without one before the text: all that SentencePiece asks for.
fn blanks(
    file: &Path,
    part: &Value,
    steps: &[Value],
) -> Result<(Option<NormalizerWrapper>, Option<Spelling>), Error> {
    let prepend = serde_json::json!({"type": "Prepend", "prepend": BLANK});
    let replace =
        serde_json::json!({"type": "Replace", "pattern": {"String": " "}, "content": BLANK});
    let prefixed = match steps {
        [first, second] if *first == prepend && *second == replace => true,
        [only] if *only == replace => false,
        _ => return Err(foreign_normalizer(file, part)),
    };
    let mut normalizers: Vec<NormalizerWrapper> = Vec::with_capacity(2);
    if prefixed {
        normalizers.push(Prepend::new(BLANK.to_owned()).into());
    }
    normalizers.push(Replace::new(" ", BLANK).expect("a blank is a pattern").into());
    let all = tokenizers::normalizers::Sequence::new(normalizers);
    Ok((Some(all.into()), Some(Spelling::Pieces { prefixed })))
}

fn foreign_normalizer(file: &Path, part: &Value) -> Error {
    let allowed = "absent, a Unicode form (NFC, NFD, NFKC, NFKD), or ▁ before the text and for \
                   blanks";
    unsupported(file, "normalizer", shown(part), allowed)
}

/// `▁` for blanks, as a step of its own.
fn metaspace(
    file: &Path,
    part: &Value,
) -> Result<(Option<PreTokenizerWrapper>, Spelling), Error> {
    let allowed = "ByteLevel, or Metaspace with the replacement ▁";
    let step: Metaspace = serde_json::from_value(part.clone())
        .map_err(|_| unsupported(file, "pre_tokenizer", shown(part), allowed))?;
    if !BLANK.starts_with(step.get_replacement()) {
        let found = format!("Metaspace with {:?}", step.get_replacement());
        return Err(unsupported(file, "pre_tokenizer", found, allowed));
    }
    let prefixed = step.get_prepend_scheme() != PrependScheme::Never;
    Ok((Some(step.into()), Spelling::Pieces { prefixed }))
}

/// The type of a part; empty if it has none.
fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or("")
}

/// A boolean setting of a part.
fn flag(part: &Value, name: &str, default: bool) -> bool {
    part[name].as_bool().unwrap_or(default)
}

fn pre_tokenizers(file: &Path, part: Option<&Value>) -> Result<PreTokenizerWrapper, Error> {
    let part = part.unwrap_or(&Value::Null);
    let parts = match (kind(part), &part["pretokenizers"]) {
        ("Sequence", Value::Array(parts)) => parts.as_slice(),
        _ => std::slice::from_ref(part),
    };
    let mut steps: Vec<PreTokenizerWrapper> = Vec::with_capacity(parts.len());
    for part in parts {
        steps.push(match kind(part) {
            "ByteLevel" => {
                let prefix = flag(part, "add_prefix_space", true);
                ByteLevel::new(prefix, true, flag(part, "use_regex", true)).into()
            }
            "Digits" => Digits::new(flag(part, "individual_digits", false)).into(),
            "Split" => known_split(file, part)?.into(),
            _ => return Err(foreign_step(file, part)),
        });
    }
    // ByteLevel writes two bytes for most: each further one would double a text again.
    match steps.iter().position(|step| matches!(step, PreTokenizerWrapper::ByteLevel(_))) {
        Some(first) if first + 1 == steps.len() => Ok(Sequence::new(steps).into()),
        _ => Err(foreign_step(file, part)),
    }
}

fn foreign_step(file: &Path, part: &Value) -> Error {
    let allowed = "ByteLevel, Metaspace, or a Sequence of Digits and Split that ends with \
                   ByteLevel";
    unsupported(file, "pre_tokenizer", shown(part), allowed)
}

/// A split by one of the known patterns, whose words stand alone.
fn known_split(file: &Path, part: &Value) -> Result<Split, Error> {
    let (found, isolated) = (part["pattern"]["Regex"].as_str(), part["behavior"] == "Isolated");
    let Some(pattern) = found.filter(|_| isolated && !flag(part, "invert", false)) else {
        return Err(foreign_step(file, part));
    };
    if !patterns::KNOWN.contains(&pattern) {
        let allowed = "the pattern of Llama 3, of Qwen 2 or of Mistral's tekken";
        let shown = format!("Split by {pattern:?}").chars().take(200).collect();
        return Err(unsupported(file, "pre_tokenizer", shown, allowed));
    }
    let pattern = SplitPattern::Regex(pattern.to_owned());
    Ok(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .expect("the known patterns are patterns"))
}

/// A part in an error message: its type, or its start if it has none.
fn shown(part: &Value) -> String {
    match kind(part) {
        "" => part.to_string().chars().take(80).collect(),
        name => name.to_owned(),
    }
}

/// The most tokens that may be put before a text. A short file can name one list many times.
const MOST_LEADING: usize = 16;

/// The tokens that a post-processor puts before a text; those behind it are never wanted, since
/// the model is asked to go on.
fn leading_tokens(file: &Path, part: Option<&Value>) -> Result<Vec<u32>, Error> {
    let Some(part) = part else { return Ok(Vec::new()) };
    match (kind(part), &part["processors"]) {
        ("ByteLevel", _) => Ok(Vec::new()),
        ("TemplateProcessing", _) => template_start(file, part),
        ("Sequence", Value::Array(parts)) => {
            let mut leading = Vec::new();
            for part in parts {
                // One level is all there is in practice; deeper ones are refused.
                match kind(part) {
                    "Sequence" => return Err(foreign_processor(file, part)),
                    _ => leading.extend(leading_tokens(file, Some(part))?),
                }
            }
            Ok(leading)
        }
        _ => Err(foreign_processor(file, part)),
    }
}

fn foreign_processor(file: &Path, part: &Value) -> Error {
    let allowed = "absent, ByteLevel, TemplateProcessing with listed special tokens, at most 16 \
                   before the text, or a Sequence of them";
    unsupported(file, "post_processor", shown(part), allowed)
}

fn template_start(file: &Path, part: &Value) -> Result<Vec<u32>, Error> {
    let mut leading = Vec::new();
    for piece in part["single"].as_array().into_iter().flatten() {
        if !piece["Sequence"].is_null() {
            return Ok(leading);
        }
        let ids = piece["SpecialToken"]["id"]
            .as_str()
            .and_then(|name| part["special_tokens"][name]["ids"].as_array())
            .ok_or_else(|| foreign_processor(file, part))?;
        for id in ids {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.filter(|_| leading.len() < MOST_LEADING);
            leading.push(id.ok_or_else(|| foreign_processor(file, part))?);
        }
    }
    Err(foreign_processor(file, part))
}

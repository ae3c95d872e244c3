//! From text to token ids and back, for byte-level and SentencePiece BPE tokenizers.
//!
//! In: `tokenizer.json`, or GPT-2's `vocab.json` and `merges.txt`. Out: [`Tokenizer`]. The same
//! text always gives the same ids: cutting, padding and dropout that a file may ask for are not
//! done, and what would be lost without a word is an error.

pub(crate) mod patterns;
mod source;

use crate::config::Config;
use crate::error::Error;
use crate::files;
use serde_json::{Map, json};
use source::{BLANK, Source, Spelling};
use std::path::{Path, PathBuf};
use tokenizers::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::Replace;

/// The longest file of a tokenizer that is read.
const LONGEST_FILE: u64 = 1 << 25;

const WHOLE: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.json";
const MERGES: &str = "merges.txt";

/// Whether a token is put before every prompt.
///
/// # Examples
///
/// ```
/// assert_eq!(fewstep_engine::Bos::default(), fewstep_engine::Bos::Auto);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bos {
    /// If the model's tokenizer does so by itself.
    #[default]
    Auto,
    /// Yes: what the tokenizer puts there, or else the token that `config.json` names.
    Always,
    /// No.
    Never,
}

/// A BPE tokenizer, byte-level or of SentencePiece's kind.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Tokenizer};
///
/// let tokenizer = Tokenizer::of_bytes();
/// assert_eq!(tokenizer.encode("A\n")?, [65, 10]);
/// assert_eq!(tokenizer.decode(&[65, 10]), "A\n");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// What the tokenizer puts before a text by itself.
    leading: Vec<u32>,
    /// What the model's configuration names, if the model has it.
    bos: Option<u32>,
    /// Whether every byte has a token, so that no text can be lost.
    complete: bool,
    /// The files it was read from, unchanged.
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Tokenizer {
    /// The longest text, in bytes, that is tokenised at once.
    ///
    /// The patterns that split texts into words follow a run of blanks for a million characters at
    /// most, and do not split what comes behind a longer one; no text is that long.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_engine::Tokenizer::LONGEST_TEXT, 512 * 1024);
    /// ```
    pub const LONGEST_TEXT: usize = 1 << 19;

    /// Reads the tokenizer in a model's directory: `tokenizer.json`, or `vocab.json` and
    /// `merges.txt`.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokenizer`] if there is neither, [`Error::File`] or [`Error::FileTooLarge`] if
    /// it cannot be read, and those of [`Tokenizer::from_json`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let refused = Tokenizer::load("no such directory".as_ref(), &config);
    /// assert!(matches!(refused, Err(Error::NoTokenizer { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn load(directory: &Path, config: &Config) -> Result<Self, Error> {
        let [whole, vocabulary, merges] =
            [WHOLE, VOCABULARY, MERGES].map(|name| directory.join(name));
        if whole.exists() {
            let json = files::read(&whole, LONGEST_FILE)?;
            Self::parse_whole(&whole, json, config)
        } else if vocabulary.exists() && merges.exists() {
            let texts = [&vocabulary, &merges].map(|file| files::read(file, LONGEST_FILE));
            let [json, lines] = texts;
            Self::parse_pair(&vocabulary, &merges, json?, lines?, config)
        } else {
            Err(Error::NoTokenizer { directory: directory.to_path_buf() })
        }
    }

    /// A tokenizer from the text of a `tokenizer.json`, such as one inside a program.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] for invalid JSON; [`Error::Unsupported`] for one that is neither
    /// byte-level nor SentencePiece BPE, or that splits by an unknown pattern; [`Error::BadMerge`], [`Error::DuplicateToken`] or
    /// [`Error::TokenBeyondVocabulary`] for one that contradicts itself or the model.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error, Tokenizer};
    ///
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let refused = Tokenizer::from_json(br#"{"model": {"type": "WordPiece"}}"#, &config);
    /// assert!(matches!(refused, Err(Error::Unsupported { setting: "model", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_json(json: &[u8], config: &Config) -> Result<Self, Error> {
        Self::parse_whole(Path::new(WHOLE), json.to_vec(), config)
    }

    /// A tokenizer from the texts of GPT-2's `vocab.json` and `merges.txt`.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::from_json`], and [`Error::File`] for merges that are not UTF-8.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Tokenizer};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let tokens = br#"{"a": 0, "b": 1, "ab": 2}"#;
    /// let tokenizer = Tokenizer::from_vocabulary(tokens, b"a b\n", &config)?;
    /// assert_eq!(tokenizer.encode("aab")?, [0, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_vocabulary(json: &[u8], merges: &[u8], config: &Config) -> Result<Self, Error> {
        let (file, lines) = (Path::new(VOCABULARY), Path::new(MERGES));
        Self::parse_pair(file, lines, json.to_vec(), merges.to_vec(), config)
    }

    pub(crate) fn parse_whole(
        file: &Path,
        json: Vec<u8>,
        config: &Config,
    ) -> Result<Self, Error> {
        let source = Source::from_json(file, &json)?;
        Self::new(file, source, config.vocabulary, config.bos, vec![(WHOLE, json)])
    }

    fn parse_pair(
        file: &Path,
        merges: &Path,
        json: Vec<u8>,
        lines: Vec<u8>,
        config: &Config,
    ) -> Result<Self, Error> {
        let text = std::str::from_utf8(&lines).map_err(|_| Error::File {
            file: merges.to_path_buf(),
            action: "read",
            kind: std::io::ErrorKind::InvalidData,
        })?;
        let source = Source::from_pair(file, &json, text)?;
        let files = vec![(VOCABULARY, json), (MERGES, lines)];
        Self::new(file, source, config.vocabulary, config.bos, files)
    }

    /// A tokenizer with one token per byte, whose id is the byte.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Tokenizer};
    /// assert_eq!(Tokenizer::of_bytes().encode("é")?, [0xc3, 0xa9]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn of_bytes() -> Self {
        let vocabulary: Map<_, _> = byte_characters()
            .iter()
            .enumerate()
            .map(|(byte, character)| (character.to_string(), json!(byte)))
            .collect();
        let json = json!({
            "version": "1.0",
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
            "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        });
        let (file, json) = (PathBuf::from(WHOLE), json.to_string().into_bytes());
        Source::from_json(&file, &json)
            .and_then(|source| Self::new(&file, source, 256, None, vec![(WHOLE, json)]))
            .expect("256 different bytes are a vocabulary")
    }

    #[allow(clippy::too_many_arguments, reason = "private; each is one line of its callers")]
    fn new(
        file: &Path,
        source: Source,
        vocabulary: usize,
        bos: Option<u32>,
        files: Vec<(&'static str, Vec<u8>)>,
    ) -> Result<Self, Error> {
        source.check(file, vocabulary)?;
        let complete = is_complete(&source);
        if !complete {
            check_incomplete(file, &source)?;
        }
        let Source { vocabulary: tokens, merges, ignore_merges, added, .. } = source;
        let model = BPE::builder()
            .vocab_and_merges(tokens.into_iter().collect::<Vocab>(), merges)
            .ignore_merges(ignore_merges)
            .byte_fallback(source.byte_fallback)
            .build()
            .expect("every merge was found in the vocabulary");
        let mut inner = tokenizers::Tokenizer::new(model);
        inner
            .with_pre_tokenizer(source.pre_tokenizer)
            .with_decoder(Some(decoder(source.spelling)));
        inner.with_normalizer(source.normalizer).expect("no token has been added yet");
        add_tokens(file, &mut inner, added)?;
        let bos = bos.filter(|&id| (id as usize) < vocabulary);
        Ok(Self { inner, leading: source.leading, bos, complete, files })
    }

    /// The ids of a text, with nothing before or behind it.
    ///
    /// # Errors
    ///
    /// [`Error::TextTooLong`] beyond [`Tokenizer::LONGEST_TEXT`], and [`Error::UnknownText`] if
    /// the tokenizer has no tokens for part of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Tokenizer};
    /// assert_eq!(Tokenizer::of_bytes().encode("0 1")?, [48, 32, 49]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        check_length(text)?;
        let encoding = self.inner.encode_fast(text, false);
        let ids = encoding.expect("BPE takes any text").get_ids().to_vec();
        if !self.complete {
            self.check_nothing_lost(text, &ids)?;
        }
        Ok(ids)
    }

    /// The text of some ids; invalid UTF-8 becomes `�`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::Tokenizer;
    /// assert_eq!(Tokenizer::of_bytes().decode(&[0xc3]), "\u{fffd}");
    /// ```
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, false).expect("the decoders take any tokens")
    }

    /// The tokens to put before a prompt.
    ///
    /// # Errors
    ///
    /// [`Error::NoBos`] if one is asked for and the model names none.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Bos, Error, Tokenizer};
    ///
    /// assert!(Tokenizer::of_bytes().start(Bos::Auto)?.is_empty());
    /// assert_eq!(Tokenizer::of_bytes().start(Bos::Always), Err(Error::NoBos));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn start(&self, bos: Bos) -> Result<Vec<u32>, Error> {
        match bos {
            Bos::Never => Ok(Vec::new()),
            Bos::Always if self.leading.is_empty() => {
                self.bos.map(|id| vec![id]).ok_or(Error::NoBos)
            }
            Bos::Auto | Bos::Always => Ok(self.leading.clone()),
        }
    }

    /// The longest start of a text, in whole characters, that the first `tokens` tokens cover and
    /// that has at most that number of tokens itself.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::encode`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Tokenizer};
    /// assert_eq!(Tokenizer::of_bytes().cut("aéb", 2)?, "a");
    /// assert_eq!(Tokenizer::of_bytes().cut("aéb", 3)?, "aé");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn cut<'t>(&self, text: &'t str, tokens: usize) -> Result<&'t str, Error> {
        check_length(text)?;
        let mut kept = text;
        // Each round drops at least one byte, and nearly always one round is enough.
        while !kept.is_empty() {
            let encoding = self.inner.encode(kept, false);
            let encoding = encoding.expect("BPE takes any text");
            let Some(&(start, _)) = encoding.get_offsets().get(tokens) else { break };
            kept = &kept[..kept.floor_char_boundary(start.min(kept.len() - 1))];
        }
        Ok(kept)
    }

    /// Writes the tokenizer's files, as they were read, into an existing directory.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if one cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Tokenizer};
    /// let refused = Tokenizer::of_bytes().save("no such directory".as_ref());
    /// assert!(matches!(refused, Err(Error::File { action: "write", .. })));
    /// ```
    pub fn save(&self, directory: &Path) -> Result<(), Error> {
        self.files
            .iter()
            .try_for_each(|(name, bytes)| files::write(&directory.join(name), bytes))
    }

    /// `Err(Error::UnknownText)` unless the ids give back the text (after a blank that the
    /// tokenizer may put in front).
    fn check_nothing_lost(&self, text: &str, ids: &[u32]) -> Result<(), Error> {
        let decoded = self.decode(ids);
        if decoded == text || decoded.strip_prefix(' ') == Some(text) {
            return Ok(());
        }
        let same = text.bytes().zip(decoded.bytes()).take_while(|(a, b)| a == b).count();
        let position = text.floor_char_boundary(same.min(text.len().saturating_sub(1)));
        let character = text[position..].chars().next().unwrap_or(' ');
        Err(Error::UnknownText { position, character })
    }
}

/// Whether every byte has a token, so that no text can be lost.
fn is_complete(source: &Source) -> bool {
    let has = |token: &str| source.vocabulary.contains_key(token);
    match source.spelling {
        Spelling::Bytes => byte_characters().iter().all(|c| has(c.encode_utf8(&mut [0; 4]))),
        Spelling::Pieces { .. } => {
            source.byte_fallback && (0..=255_u8).all(|byte| has(&format!("<{byte:#04X}>")))
        }
    }
}

/// Refuses what could lose text without a word where not every byte has a token.
fn check_incomplete(file: &Path, source: &Source) -> Result<(), Error> {
    let (setting, found, allowed) = match (source.spelling, &source.normalizer) {
        (Spelling::Bytes, None) => return Ok(()),
        (Spelling::Bytes, Some(_)) => {
            let found = "a normalizer with tokens for some bytes only";
            ("normalizer", found, "absent unless every byte has a token")
        }
        (Spelling::Pieces { .. }, _) => {
            let found = "without a token for some bytes, or not used";
            ("byte_fallback", found, "used, with the tokens <0x00> to <0xFF>")
        }
    };
    let (file, found) = (file.to_path_buf(), found.to_owned());
    Err(Error::Unsupported { file, setting, found, allowed })
}

/// What turns tokens back into text.
fn decoder(spelling: Spelling) -> DecoderWrapper {
    let Spelling::Pieces { prefixed } = spelling else { return ByteLevel::default().into() };
    let blanks = Replace::new(BLANK, " ").expect("a character is a pattern");
    let mut steps: Vec<DecoderWrapper> =
        vec![blanks.into(), ByteFallback::new().into(), Fuse::new().into()];
    if prefixed {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Sequence::new(steps).into()
}

fn check_length(text: &str) -> Result<(), Error> {
    let (length, limit) = (text.len(), Tokenizer::LONGEST_TEXT);
    if length <= limit { Ok(()) } else { Err(Error::TextTooLong { length, limit }) }
}

/// Adds the tokens that are found before anything else and checks that they keep their ids.
fn add_tokens(
    file: &Path,
    inner: &mut tokenizers::Tokenizer,
    mut added: Vec<(u32, tokenizers::AddedToken)>,
) -> Result<(), Error> {
    added.sort_by_key(|(id, _)| *id);
    let tokens = added.iter().map(|(_, token)| token.clone());
    let added_all = inner.add_tokens(tokens).is_ok();
    for (id, token) in added {
        if !added_all || inner.token_to_id(&token.content) != Some(id) {
            return Err(Error::Unsupported {
                file: file.to_path_buf(),
                setting: "added_tokens",
                found: format!("{:?} with id {id}", token.content),
                allowed: "tokens with text, whose ids are those of the vocabulary or follow it",
            });
        }
    }
    Ok(())
}

/// The character that stands for each byte in a byte-level vocabulary: itself if it can be seen,
/// else the next one from U+0100 on.
fn byte_characters() -> [char; 256] {
    let mut hidden = 0x100_u32;
    std::array::from_fn(|byte| {
        let byte = u8::try_from(byte).expect("there are 256 bytes");
        match byte {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
            _ => {
                hidden += 1;
                char::from_u32(hidden - 1).expect("U+0100 to U+0143 are characters")
            }
        }
    })
}

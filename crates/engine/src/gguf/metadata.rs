//! What a file says about itself: names and values, read from their places when asked for.

use crate::error::Error;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest list, in bytes, that is read; a vocabulary of 256 thousand tokens takes a quarter.
const LONGEST_LIST: usize = 1 << 24;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Unsigned(u8),
    Signed(u8),
    Single,
    Double,
    Flag,
    Text,
    List,
}

impl Value {
    /// The type with a number in a file.
    pub(crate) fn of_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Unsigned(1),
            1 => Self::Signed(1),
            2 => Self::Unsigned(2),
            3 => Self::Signed(2),
            4 => Self::Unsigned(4),
            5 => Self::Signed(4),
            6 => Self::Single,
            7 => Self::Flag,
            8 => Self::Text,
            9 => Self::List,
            10 => Self::Unsigned(8),
            11 => Self::Signed(8),
            12 => Self::Double,
            _ => return None,
        })
    }

    fn shown(self) -> &'static str {
        match self {
            Self::Unsigned(_) | Self::Signed(_) => "an integer",
            Self::Single | Self::Double => "a number",
            Self::Flag => "true or false",
            Self::Text => "a text",
            Self::List => "a list",
        }
    }
}

/// Bytes of a value whose type fixes them.
pub(crate) fn fixed_bytes(value: Value) -> Option<u64> {
    match value {
        Value::Unsigned(bytes) | Value::Signed(bytes) => Some(u64::from(bytes)),
        Value::Single => Some(4),
        Value::Double => Some(8),
        Value::Flag => Some(1),
        Value::Text | Value::List => None,
    }
}

/// A value's type and place.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    /// The type of a list's elements; otherwise that of the value.
    pub(crate) element: Value,
    /// How many elements a list has; otherwise 1.
    pub(crate) count: u64,
    pub(crate) place: Range<usize>,
}

/// All entries by name. Each method takes the bytes of the file that it was read from.
#[derive(Debug)]
pub(crate) struct Metadata {
    file: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Metadata {
    pub(crate) fn new(file: &Path) -> Self {
        Self { file: file.to_path_buf(), entries: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, key: String, entry: Entry) -> Option<Entry> {
        self.entries.insert(key, entry)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The error for a value that cannot be used.
    pub(crate) fn refused(&self, key: &str, found: String, allowed: &'static str) -> Error {
        let (file, key) = (self.file.clone(), key.chars().take(100).collect());
        Error::Metadata { file, key, found, allowed }
    }

    /// The error for an entry that is needed and not there.
    pub(crate) fn absent(&self, key: &str, allowed: &'static str) -> Error {
        self.refused(key, "absent".to_owned(), allowed)
    }

    /// An entry of a type.
    fn entry(
        &self,
        key: &str,
        allowed: &'static str,
        fits: impl Fn(Value) -> bool,
    ) -> Result<Option<&Entry>, Error> {
        match self.entries.get(key) {
            Some(entry) if !fits(entry.value) => {
                Err(self.refused(key, entry.value.shown().to_owned(), allowed))
            }
            found => Ok(found),
        }
    }

    /// A whole number of any type that is not negative.
    pub(crate) fn integer(&self, bytes: &[u8], key: &str) -> Result<Option<u64>, Error> {
        const ALLOWED: &str = "an integer from 0 on";
        let fits = |value| matches!(value, Value::Unsigned(_) | Value::Signed(_));
        let Some(entry) = self.entry(key, ALLOWED, fits)? else { return Ok(None) };
        let found = integer(entry.value, &bytes[entry.place.clone()]);
        match u64::try_from(found) {
            Ok(found) => Ok(Some(found)),
            Err(_) => Err(self.refused(key, found.to_string(), ALLOWED)),
        }
    }

    /// A finite number. One of 32 bits becomes the shortest decimal that is written for it: what
    /// was `1e-5` before it was stored is `1e-5` again.
    pub(crate) fn number(&self, bytes: &[u8], key: &str) -> Result<Option<f64>, Error> {
        const ALLOWED: &str = "a finite number";
        let fits = |value| matches!(value, Value::Single | Value::Double);
        let Some(entry) = self.entry(key, ALLOWED, fits)? else { return Ok(None) };
        let found = number(entry.value, &bytes[entry.place.clone()]);
        if found.is_finite() {
            let single = entry.value == Value::Single;
            #[allow(clippy::cast_possible_truncation, reason = "it was read from 32 bits")]
            let shortest = || (found as f32).to_string().parse().unwrap_or(found);
            return Ok(Some(if single { shortest() } else { found }));
        }
        Err(self.refused(key, found.to_string(), ALLOWED))
    }

    pub(crate) fn flag(&self, bytes: &[u8], key: &str) -> Result<Option<bool>, Error> {
        const ALLOWED: &str = "true or false";
        let entry = self.entry(key, ALLOWED, |value| value == Value::Flag)?;
        match entry.map(|entry| bytes[entry.place.start]) {
            None => Ok(None),
            Some(0) => Ok(Some(false)),
            Some(1) => Ok(Some(true)),
            Some(other) => Err(self.refused(key, format!("the byte {other}"), ALLOWED)),
        }
    }

    pub(crate) fn text<'b>(
        &self,
        bytes: &'b [u8],
        key: &str,
    ) -> Result<Option<&'b str>, Error> {
        const ALLOWED: &str = "a text";
        let entry = self.entry(key, ALLOWED, |value| value == Value::Text)?;
        let Some(entry) = entry else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[entry.place.start + 8..entry.place.end]);
        text.map(Some).map_err(|_| self.refused(key, "no UTF-8".to_owned(), ALLOWED))
    }

    /// A list of texts.
    pub(crate) fn texts<'b>(
        &self,
        bytes: &'b [u8],
        key: &str,
    ) -> Result<Option<Vec<&'b str>>, Error> {
        const ALLOWED: &str = "a list of texts";
        let Some(entry) = self.list(key, ALLOWED, |element| element == Value::Text)? else {
            return Ok(None);
        };
        let mut rest = &bytes[entry.place.clone()];
        let mut texts = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<8>() {
            let length = usize::try_from(u64::from_le_bytes(*length))
                .expect("every text was found within the file");
            let (text, behind) = behind.split_at(length);
            texts.push(
                std::str::from_utf8(text)
                    .map_err(|_| self.refused(key, "no UTF-8".to_owned(), ALLOWED))?,
            );
            rest = behind;
        }
        Ok(Some(texts))
    }

    /// A list of whole numbers.
    pub(crate) fn integers(&self, bytes: &[u8], key: &str) -> Result<Option<Vec<i128>>, Error> {
        const ALLOWED: &str = "a list of integers";
        let fits = |element| matches!(element, Value::Unsigned(_) | Value::Signed(_));
        let Some(entry) = self.list(key, ALLOWED, fits)? else { return Ok(None) };
        Ok(Some(elements(entry, bytes).map(|bytes| integer(entry.element, bytes)).collect()))
    }

    /// A list of numbers, which may be anything.
    pub(crate) fn numbers(&self, bytes: &[u8], key: &str) -> Result<Option<Vec<f64>>, Error> {
        const ALLOWED: &str = "a list of numbers";
        let fits = |element| matches!(element, Value::Single | Value::Double);
        let Some(entry) = self.list(key, ALLOWED, fits)? else { return Ok(None) };
        Ok(Some(elements(entry, bytes).map(|bytes| number(entry.element, bytes)).collect()))
    }

    fn list(
        &self,
        key: &str,
        allowed: &'static str,
        fits: impl Fn(Value) -> bool,
    ) -> Result<Option<&Entry>, Error> {
        match self.entry(key, allowed, |value| value == Value::List)? {
            // An empty list may claim any type for its elements.
            Some(entry) if entry.count > 0 && !fits(entry.element) => {
                Err(self.refused(key, format!("a list of {}", entry.element.shown()), allowed))
            }
            Some(entry) if entry.place.len() > LONGEST_LIST => {
                let found = format!("a list of {} bytes", entry.place.len());
                Err(self.refused(key, found, "a list of at most 16777216 bytes"))
            }
            found => Ok(found),
        }
    }
}

/// The bytes of each element of a list whose elements have a fixed length.
fn elements<'b>(entry: &Entry, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    let size = fixed_bytes(entry.element).and_then(|size| usize::try_from(size).ok());
    bytes[entry.place.clone()].chunks_exact(size.unwrap_or(1))
}

/// A whole number from its bytes; 0 for a type that is not an integer.
fn integer(value: Value, bytes: &[u8]) -> i128 {
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    let found = i128::from_le_bytes(all);
    let bits = 8 * bytes.len();
    match value {
        // Moved up and down again, the highest bit becomes the sign.
        Value::Signed(_) => (found << (128 - bits)) >> (128 - bits),
        Value::Unsigned(_) => found,
        _ => 0,
    }
}

/// A number from its bytes; NaN for a type that is not a number.
fn number(value: Value, bytes: &[u8]) -> f64 {
    match (value, bytes) {
        (Value::Single, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (Value::Double, bytes) => bytes.try_into().map_or(f64::NAN, f64::from_le_bytes),
        _ => f64::NAN,
    }
}

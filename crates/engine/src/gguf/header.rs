//! The front of a file: metadata and the list of tensors, every length checked before it is used.
//!
//! In: all bytes of the file. Out: [`Header`], in which every place lies within the bytes. Values
//! of metadata are not copied: their places are kept and read when they are asked for.

use super::metadata::{Entry, Metadata, Value, fixed_bytes};
use crate::error::Error;
use crate::quantised::{Encoding, foreign_name};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const MAGIC: &[u8; 4] = b"GGUF";

/// The most entries of metadata, and the most tensors, that are read.
const MOST: u64 = 1 << 16;

/// The longest name of an entry, in bytes.
const LONGEST_KEY: u64 = (1 << 16) - 1;

/// The longest name of a tensor, in bytes.
const LONGEST_NAME: u64 = 64;

/// The most dimensions of a tensor.
const MOST_DIMENSIONS: u64 = 4;

/// How deep lists may lie within lists.
const DEEPEST: u64 = 4;

const ALIGNMENT: &str = "general.alignment";

/// Metadata and tensors of a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: Metadata,
    /// By the file's own names.
    pub(crate) tensors: BTreeMap<String, Tensor>,
}

/// Where a tensor lies and how it is encoded.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) encoding: Encoding,
    /// Outermost first, as in other formats; the file lists the innermost first.
    pub(crate) shape: Vec<usize>,
    /// Its bytes, counted from the start of the file.
    pub(crate) bytes: Range<usize>,
}

/// A tensor as the file lists it.
struct Listed {
    name: String,
    encoding: Encoding,
    shape: Vec<usize>,
    /// First byte, counted from the start of the data.
    start: u64,
    /// How many bytes its shape asks for; the largest number if that overflows.
    length: u64,
}

impl Header {
    /// Reads and checks everything in front of the data.
    pub(crate) fn read(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor { file, bytes, at: 0 };
        if bytes.get(..4) != Some(MAGIC) {
            return Err(Error::NotGguf { file: file.to_path_buf() });
        }
        cursor.at = 4;
        let found = cursor.u32("the version")?;
        if !(2..=3).contains(&found) {
            return Err(Error::GgufVersion { file: file.to_path_buf(), found });
        }
        let tensors = cursor.u64("the number of tensors")?;
        let entries = cursor.u64("the number of metadata entries")?;
        cursor.limit("number of tensors", tensors, MOST)?;
        cursor.limit("number of metadata entries", entries, MOST)?;
        let metadata = cursor.metadata(entries)?;
        let mut listed = Vec::new();
        for _ in 0..tensors {
            listed.push(cursor.tensor()?);
        }
        let alignment = alignment(&metadata, bytes)?;
        let start = (cursor.at as u64).next_multiple_of(alignment);
        let tensors = place(file, listed, start..bytes.len() as u64, alignment)?;
        Ok(Self { metadata, tensors })
    }
}

/// The multiple of bytes at which the data and each tensor in it begin.
fn alignment(metadata: &Metadata, bytes: &[u8]) -> Result<u64, Error> {
    match metadata.integer(bytes, ALIGNMENT)? {
        None => Ok(32),
        Some(found) if found.is_power_of_two() && (8..=1 << 16).contains(&found) => Ok(found),
        Some(found) => {
            let allowed = "a power of 2 from 8 to 65536";
            Err(metadata.refused(ALIGNMENT, found.to_string(), allowed))
        }
    }
}

/// Checks that the tensors, in the order of their places, fill the data, except for the bytes
/// that pad each to its alignment.
fn place(
    file: &Path,
    mut listed: Vec<Listed>,
    data: Range<u64>,
    alignment: u64,
) -> Result<BTreeMap<String, Tensor>, Error> {
    listed.sort_by_key(|tensor| tensor.start);
    let available = data.end.saturating_sub(data.start);
    let mut tensors = BTreeMap::new();
    let (mut covered, mut earliest) = (0_u64, 0_u64);
    for Listed { name, encoding, shape, start: first, length } in listed {
        let last = first.saturating_add(length);
        if first != earliest || last > available || length == u64::MAX {
            return Err(Error::TensorBytes {
                file: file.to_path_buf(),
                tensor: name,
                start: first,
                end: last,
                earliest,
                expected: length,
                available,
            });
        }
        if tensors.contains_key(&name) {
            let (first, second) = (file.to_path_buf(), file.to_path_buf());
            return Err(Error::DuplicateTensor { tensor: name, first, second });
        }
        let inside = |offset: u64| {
            usize::try_from(data.start + offset)
                .expect("an offset within a slice fits its length")
        };
        tensors.insert(name, Tensor { encoding, shape, bytes: inside(first)..inside(last) });
        (covered, earliest) = (last, last.next_multiple_of(alignment));
    }
    if available > earliest {
        let file = file.to_path_buf();
        return Err(Error::UncoveredBytes { file, found: available, expected: covered });
    }
    Ok(tensors)
}

/// A place in the file that moves on as it is read.
struct Cursor<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, what: &'static str, needed: u64) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(needed).ok().and_then(|length| rest.get(..length));
        let Some(taken) = taken else {
            let (file, position) = (self.file.to_path_buf(), self.at as u64);
            let available = rest.len() as u64;
            return Err(Error::GgufCut { file, what, position, needed, available });
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        let bytes = self.take(what, N as u64)?;
        Ok(bytes.try_into().expect("the number of bytes is the one asked for"))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn limit(&self, what: &'static str, found: u64, limit: u64) -> Result<(), Error> {
        if found <= limit {
            return Ok(());
        }
        Err(Error::GgufCount { file: self.file.to_path_buf(), what, found, limit })
    }

    /// A name: its length and its characters; invalid UTF-8 is shown as `�`.
    fn name(&mut self, what: &'static str, limit: u64) -> Result<String, Error> {
        let length = self.u64(what)?;
        self.limit(what, length, limit)?;
        Ok(String::from_utf8_lossy(self.take(what, length)?).into_owned())
    }

    fn metadata(&mut self, entries: u64) -> Result<Metadata, Error> {
        let mut metadata = Metadata::new(self.file);
        for _ in 0..entries {
            let key = self.name("name of a metadata entry", LONGEST_KEY)?;
            let kind = self.u32("the type of a metadata entry")?;
            let entry = self.entry(&key, kind, 0)?;
            if metadata.insert(key.clone(), entry).is_some() {
                return Err(metadata.refused(&key, "given twice".to_owned(), "given once"));
            }
        }
        Ok(metadata)
    }

    /// Passes over a value and keeps its place.
    fn entry(&mut self, key: &str, kind: u32, depth: u64) -> Result<Entry, Error> {
        const WHAT: &str = "a metadata value";
        let Some(value) = Value::of_code(kind) else {
            let allowed = "of a type from 0 to 12";
            return Err(Metadata::new(self.file).refused(key, format!("type {kind}"), allowed));
        };
        let start = self.at;
        let (mut element, mut count) = (value, 1);
        match value {
            Value::Text => {
                let length = self.u64(WHAT)?;
                self.take(WHAT, length)?;
            }
            Value::List => {
                self.limit("depth of a metadata list", depth + 1, DEEPEST)?;
                let inner = self.u32(WHAT)?;
                count = self.u64(WHAT)?;
                let first = self.at;
                element = self.elements(key, inner, count, depth)?;
                let place = first..self.at;
                return Ok(Entry { value, element, count, place });
            }
            fixed => {
                let bytes = fixed_bytes(fixed).expect("only texts and lists vary in length");
                self.take(WHAT, bytes)?;
            }
        }
        Ok(Entry { value, element, count, place: start..self.at })
    }

    /// Passes over the elements of a list and gives their type.
    fn elements(
        &mut self,
        key: &str,
        kind: u32,
        count: u64,
        depth: u64,
    ) -> Result<Value, Error> {
        if let Some(value) = Value::of_code(kind)
            && let Some(bytes) = fixed_bytes(value)
        {
            self.take("a metadata list", bytes.saturating_mul(count))?;
            return Ok(value);
        }
        // Every element takes bytes, so a count that lies ends with the file.
        for _ in 0..count {
            self.entry(key, kind, depth + 1)?;
        }
        Ok(Value::of_code(kind).unwrap_or(Value::List))
    }

    fn tensor(&mut self) -> Result<Listed, Error> {
        const WHAT: &str = "the list of tensors";
        let name = self.name("name of a tensor", LONGEST_NAME)?;
        let dimensions = u64::from(self.u32(WHAT)?);
        self.limit("number of dimensions of a tensor", dimensions, MOST_DIMENSIONS)?;
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let side = self.u64(WHAT)?;
            // A side that does not fit is no place in memory either; its size overflows below.
            shape.push(usize::try_from(side).unwrap_or(usize::MAX));
        }
        let (code, start) = (self.u32(WHAT)?, self.u64(WHAT)?);
        let file = || self.file.to_path_buf();
        let Some(encoding) = Encoding::of_code(code) else {
            return Err(Error::TensorEncoding {
                file: file(),
                tensor: name,
                found: foreign_name(code),
            });
        };
        let (columns, block) = (shape.first().copied().unwrap_or(0), encoding.block_numbers());
        if shape.contains(&0) || shape.is_empty() || !columns.is_multiple_of(block) {
            shape.reverse();
            return Err(Error::TensorBlocks { file: file(), tensor: name, shape, block });
        }
        let length = shape[1..]
            .iter()
            .try_fold((columns / block) as u64, |blocks, &side| blocks.checked_mul(side as u64))
            .and_then(|blocks| blocks.checked_mul(encoding.block_bytes() as u64))
            .unwrap_or(u64::MAX);
        shape.reverse();
        Ok(Listed { name, encoding, shape, start, length })
    }
}

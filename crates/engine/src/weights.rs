//! The tensors of a checkpoint: memory-mapped safetensors files, in one piece or in shards.
//!
//! In: a directory, or the bytes of one file. Out: [`Weights`], from which tensors are taken as
//! `f32` with checked shapes. Nothing in a file is believed before it is checked. The header is
//! read here and not by the `safetensors` crate, whose reader keeps the last of two tensors with
//! one name and does not say which tensor's size is a lie.

use crate::error::Error;
use crate::files::{self, NamesVisitor, UniqueNames};
use half::{bf16, f16};
use memmap2::Mmap;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest header, and the longest index, that are read.
pub(crate) const LONGEST_HEADER: u64 = 1 << 24;

/// The most shards that one model may have.
const MOST_SHARDS: usize = 1024;

/// The bytes in front of the header, which hold its length.
pub(crate) const LENGTH_BYTES: usize = 8;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// All tensors of a checkpoint, by name.
///
/// The files stay mapped, so only what is taken with [`Weights::tensor`] uses memory.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Weights};
///
/// let header = br#"{"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
/// let length = (header.len() as u64).to_le_bytes();
/// let file = [&length[..], header, &2.5_f32.to_le_bytes()].concat();
///
/// let weights = Weights::from_bytes(&file)?;
/// assert_eq!(weights.tensor("bias", &[1])?, [2.5]);
/// assert!(matches!(weights.tensor("bias", &[2]), Err(Error::TensorShape { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Weights<'a> {
    /// The file or directory that was opened, for messages.
    origin: PathBuf,
    files: Vec<(PathBuf, Bytes<'a>)>,
    tensors: BTreeMap<String, Tensor>,
}

#[derive(Debug)]
enum Bytes<'a> {
    Mapped(Mmap),
    Borrowed(&'a [u8]),
}

impl Bytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Borrowed(bytes) => bytes,
        }
    }
}

/// Where a tensor lies and how to read it.
#[derive(Debug)]
struct Tensor {
    file: usize,
    dtype: String,
    shape: Vec<usize>,
    bytes: Range<usize>,
}

/// One entry of a safetensors header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// A safetensors header: its tensors, without the free text under `__metadata__`.
struct Header(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = NamesVisitor { skipped: Some("__metadata__"), value: PhantomData };
        deserializer.deserialize_map(names).map(Self)
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: UniqueNames<String>,
}

impl Weights<'static> {
    /// Maps the weights in a model's directory: `model.safetensors`, or the shards that
    /// `model.safetensors.index.json` lists.
    ///
    /// The files must not be changed or shortened while they are mapped.
    ///
    /// # Errors
    ///
    /// [`Error::NoWeights`] if there is neither; [`Error::ShardName`], [`Error::ShardCount`] or
    /// [`Error::MissingTensor`] for an index that does not describe its shards;
    /// [`Error::DuplicateTensor`] if two shards hold the same; [`Error::HeaderLength`],
    /// [`Error::Json`], [`Error::TensorBytes`] or [`Error::UncoveredBytes`] for a file that is
    /// cut off or damaged; [`Error::File`] if one cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Weights};
    /// let refused = Weights::open("no such directory".as_ref()).map(|_| ());
    /// assert!(matches!(refused, Err(Error::NoWeights { .. })));
    /// ```
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let (whole, index) = (directory.join(WHOLE), directory.join(INDEX));
        let mut weights =
            Self { origin: whole.clone(), files: Vec::new(), tensors: BTreeMap::new() };
        if whole.exists() {
            weights.add(whole)?;
        } else if index.exists() {
            weights.origin = directory.to_path_buf();
            weights.add_shards(directory, &index)?;
        } else {
            return Err(Error::NoWeights { directory: directory.to_path_buf() });
        }
        Ok(weights)
    }

    fn add_shards(&mut self, directory: &Path, index: &Path) -> Result<(), Error> {
        let map = read_index(index)?;
        for shard in map.values().collect::<BTreeSet<_>>() {
            self.add(directory.join(shard))?;
        }
        for (name, shard) in &map {
            let file = directory.join(shard);
            if self.tensors.get(name).is_none_or(|tensor| self.files[tensor.file].0 != file) {
                return Err(Error::MissingTensor { file, tensor: name.clone() });
            }
        }
        Ok(())
    }

    fn add(&mut self, file: PathBuf) -> Result<(), Error> {
        let (opened, length) = files::open(&file)?;
        let needed = LENGTH_BYTES as u64;
        if length < needed {
            return Err(header_length(&file, needed, length));
        }
        let map = map(&opened).map_err(files::refused(&file, "read"))?;
        self.add_bytes(file, Bytes::Mapped(map))
    }
}

/// The shards of an index by tensor, all of them plain names.
pub(crate) fn read_index(index: &Path) -> Result<BTreeMap<String, String>, Error> {
    let UniqueNames(map) =
        files::parse::<Index>(index, &files::read(index, LONGEST_HEADER)?)?.weight_map;
    let shards: BTreeSet<_> = map.values().collect();
    let (file, found) = (index.to_path_buf(), shards.len());
    if !(1..=MOST_SHARDS).contains(&found) {
        return Err(Error::ShardCount { file, found, limit: MOST_SHARDS });
    }
    if let Some(shard) = shards.iter().find(|shard| !files::is_plain_name(shard)) {
        return Err(Error::ShardName { file, shard: (*shard).clone() });
    }
    Ok(map)
}

#[allow(unsafe_code, reason = "a memory map is the only way to open large files at once")]
pub(crate) fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is read-only and private to this crate, which copies numbers out of it
    // and keeps no reference. It is sound as long as no one shortens or rewrites the file while
    // it is mapped, which `Weights::open` and `Gguf::open` ask of their callers.
    unsafe { Mmap::map(file) }
}

fn header_length(file: &Path, claimed: u64, available: u64) -> Error {
    let (file, limit) = (file.to_path_buf(), LONGEST_HEADER);
    Error::HeaderLength { file, claimed, available, limit }
}

impl<'a> Weights<'a> {
    /// The tensors in the bytes of one safetensors file.
    ///
    /// # Errors
    ///
    /// Those of [`Weights::open`] that concern a single file.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Weights};
    /// let refused = Weights::from_bytes(b"short").map(|_| ());
    /// assert!(matches!(refused, Err(Error::HeaderLength { available: 5, .. })));
    /// ```
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::of_file(Path::new(WHOLE), bytes)
    }

    /// The tensors in the bytes of one safetensors file; `file` is its name in messages.
    pub(crate) fn of_file(file: &Path, bytes: &'a [u8]) -> Result<Self, Error> {
        let origin = file.to_path_buf();
        let mut weights =
            Self { origin: origin.clone(), files: Vec::new(), tensors: BTreeMap::new() };
        weights.add_bytes(origin, Bytes::Borrowed(bytes))?;
        Ok(weights)
    }

    /// The names of all tensors, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Weights};
    /// let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
    /// assert_eq!(Weights::from_bytes(&empty)?.names().count(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The file that holds a tensor, or what was opened if there is no such tensor.
    /// The shape of a tensor, if it is there.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| &tensor.shape[..])
    }

    pub(crate) fn file_of(&self, name: &str) -> &Path {
        self.tensors.get(name).map_or(&self.origin, |tensor| &self.files[tensor.file].0)
    }

    /// The numbers of a tensor, row by row, whatever their precision in the file.
    ///
    /// # Errors
    ///
    /// [`Error::MissingTensor`], [`Error::TensorShape`] unless it has the expected shape,
    /// [`Error::TensorType`] unless it holds `F32`, `F16` or `BF16`, and
    /// [`Error::WeightNotFinite`] for NaN or infinite entries.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Weights};
    /// let header = br#"{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}"#;
    /// let length = u64::try_from(header.len()).expect("it is short");
    /// let numbers = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
    /// let bytes = [&length.to_le_bytes()[..], header, &numbers].concat();
    /// assert_eq!(Weights::from_bytes(&bytes)?.tensor("w", &[2])?, [1.5, -2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn tensor(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, Error> {
        let file = self.file_of(name).to_path_buf();
        let Some(tensor) = self.tensors.get(name) else {
            return Err(Error::MissingTensor { file, tensor: name.to_owned() });
        };
        if tensor.shape != expected {
            let (found, expected) = (tensor.shape.clone(), expected.to_vec());
            return Err(Error::TensorShape { file, tensor: name.to_owned(), found, expected });
        }
        let bytes = &self.files[tensor.file].1.as_slice()[tensor.bytes.clone()];
        let values: Vec<f32> = match tensor.dtype.as_str() {
            "F32" => numbers(bytes, f32::from_le_bytes),
            "F16" => numbers(bytes, |pair| f16::from_le_bytes(pair).to_f32()),
            "BF16" => numbers(bytes, |pair| bf16::from_le_bytes(pair).to_f32()),
            other => {
                let (tensor, found) = (name.to_owned(), other.to_owned());
                return Err(Error::TensorType { file, tensor, found });
            }
        };
        check_finite(&file, name, &values)?;
        Ok(values)
    }

    fn add_bytes(&mut self, file: PathBuf, bytes: Bytes<'a>) -> Result<(), Error> {
        for (name, tensor) in read_header(&file, bytes.as_slice(), self.files.len())? {
            if let Some(other) = self.tensors.get(&name) {
                let first = self.files[other.file].0.clone();
                return Err(Error::DuplicateTensor { tensor: name, first, second: file });
            }
            self.tensors.insert(name, tensor);
        }
        self.files.push((file, bytes));
        Ok(())
    }
}

/// The numbers of a tensor from `SIZE` little-endian bytes each.
fn numbers<const SIZE: usize>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<SIZE>().0.iter().map(|&chunk| number(chunk)).collect()
}

/// `Err(Error::WeightNotFinite)` for the first entry that is NaN or infinite.
pub(crate) fn check_finite(file: &Path, tensor: &str, values: &[f32]) -> Result<(), Error> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::WeightNotFinite {
            file: file.to_path_buf(),
            tensor: tensor.to_owned(),
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// The tensors of one file: 8 bytes of header length, a JSON header, and the data, which the
/// tensors must cover without gap or overlap.
fn read_header(
    file: &Path,
    bytes: &[u8],
    position: usize,
) -> Result<Vec<(String, Tensor)>, Error> {
    let all = bytes.len() as u64;
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Err(header_length(file, LENGTH_BYTES as u64, all));
    };
    let length = u64::from_le_bytes(*length);
    let header = usize::try_from(length)
        .ok()
        .filter(|_| length <= LONGEST_HEADER)
        .and_then(|length| rest.get(..length))
        .ok_or_else(|| header_length(file, length.saturating_add(LENGTH_BYTES as u64), all))?;
    let mut entries: Vec<_> = files::parse::<Header>(file, header)?.0.into_iter().collect();
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    place(file, entries, LENGTH_BYTES + header.len(), bytes.len()).map(|tensors| {
        tensors
            .into_iter()
            .map(|(name, tensor)| (name, Tensor { file: position, ..tensor }))
            .collect()
    })
}

/// Checks that the entries, sorted by place, fill the data from `start` to `end`.
fn place(
    file: &Path,
    entries: Vec<(String, Entry)>,
    start: usize,
    end: usize,
) -> Result<Vec<(String, Tensor)>, Error> {
    let available = (end - start) as u64;
    let mut covered = 0_u64;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, Entry { dtype, shape, data_offsets: (first, last) }) in entries {
        let expected = match type_bytes(&dtype) {
            Some(size) => shape
                .iter()
                .try_fold(size, |bytes, &side| bytes.checked_mul(side as u64))
                .unwrap_or(u64::MAX),
            // A type that is not read can still be skipped: its size is what it says.
            None => last.saturating_sub(first),
        };
        if first != covered || last > available || first.checked_add(expected) != Some(last) {
            return Err(Error::TensorBytes {
                file: file.to_path_buf(),
                tensor: name,
                start: first,
                end: last,
                earliest: covered,
                expected,
                available,
            });
        }
        let inside = |offset: u64| {
            start + usize::try_from(offset).expect("an offset within a slice fits its length")
        };
        let bytes = inside(first)..inside(last);
        tensors.push((name, Tensor { file: 0, dtype, shape, bytes }));
        covered = last;
    }
    if covered != available {
        let file = file.to_path_buf();
        return Err(Error::UncoveredBytes { file, found: available, expected: covered });
    }
    Ok(tensors)
}

/// Bytes per number of a type, if it is one that is read.
fn type_bytes(dtype: &str) -> Option<u64> {
    match dtype {
        "F32" => Some(4),
        "F16" | "BF16" => Some(2),
        _ => None,
    }
}

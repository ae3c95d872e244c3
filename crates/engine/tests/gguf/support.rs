//! Reading the fixtures, and writing files by hand.

use fewstep_engine::{Encoding, Gguf};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/gguf").join(name)
}

pub(crate) fn json(file: &PathBuf) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

pub(crate) fn open(name: &str) -> Gguf {
    Gguf::open(&fixture(name)).unwrap()
}

pub(crate) fn encoding(name: &str) -> Encoding {
    use Encoding::*;
    let all = [F32, F16, Bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K];
    all.into_iter().find(|encoding| encoding.to_string() == name).unwrap()
}

/// The checksum of zlib, bit by bit.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256)
        .map(|byte| {
            (0..8)
                .fold(byte, |sum: u32, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
        })
        .collect();
    !bytes
        .iter()
        .fold(!0, |sum, &byte| table[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8))
}

pub(crate) fn checksum(numbers: &[f32]) -> u32 {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    crc32(&bytes)
}

/// A value of metadata.
#[derive(Clone, Debug)]
pub(crate) enum Meta {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(u8),
    Text(Vec<u8>),
    U64(u64),
    I64(i64),
    F64(f64),
    /// The type of the elements, the count that is claimed, and the elements.
    List(u32, u64, Vec<Meta>),
    /// A type that does not exist.
    Other(u32),
}

pub(crate) fn text(text: &str) -> Meta {
    Meta::Text(text.as_bytes().to_vec())
}

pub(crate) fn texts(all: &[&str]) -> Meta {
    Meta::List(8, all.len() as u64, all.iter().map(|one| text(one)).collect())
}

impl Meta {
    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::Text(_) => 8,
            Self::List(..) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
            Self::Other(code) => *code,
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(value) | Self::Bool(value) => vec![*value],
            Self::I8(value) => value.to_le_bytes().to_vec(),
            Self::U16(value) => value.to_le_bytes().to_vec(),
            Self::I16(value) => value.to_le_bytes().to_vec(),
            Self::U32(value) => value.to_le_bytes().to_vec(),
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::U64(value) => value.to_le_bytes().to_vec(),
            Self::I64(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
            Self::Text(text) => [&(text.len() as u64).to_le_bytes()[..], text].concat(),
            Self::List(kind, count, elements) => {
                let mut bytes = kind.to_le_bytes().to_vec();
                bytes.extend(count.to_le_bytes());
                bytes.extend(elements.iter().flat_map(Self::bytes));
                bytes
            }
            Self::Other(_) => Vec::new(),
        }
    }
}

/// A tensor as a file lists it: name, sides (innermost first), type, place.
pub(crate) type Info = (&'static str, Vec<u64>, u32, u64);

/// A file written by hand, right or wrong.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) version: u32,
    pub(crate) tensor_count: Option<u64>,
    pub(crate) entry_count: Option<u64>,
    pub(crate) entries: Vec<(String, Meta)>,
    pub(crate) tensors: Vec<Info>,
    pub(crate) alignment: usize,
    pub(crate) data: Vec<u8>,
}

impl Draft {
    /// A Llama model of one layer with two tensors, which leaves most of it out.
    pub(crate) fn sound() -> Self {
        let mut entries = vec![("general.architecture".to_owned(), text("llama"))];
        for (name, value) in [
            ("block_count", 1),
            ("context_length", 16),
            ("embedding_length", 4),
            ("feed_forward_length", 8),
            ("attention.head_count", 2),
        ] {
            entries.push((format!("llama.{name}"), Meta::U32(value)));
        }
        let epsilon = "llama.attention.layer_norm_rms_epsilon".to_owned();
        entries.push((epsilon, Meta::F32(1e-5)));
        let tensors = vec![
            ("token_embd.weight", vec![4, 3], 0, 0),
            ("output_norm.weight", vec![4], 0, 64),
        ];
        let data = (0..20).flat_map(|value| (value as f32).to_le_bytes()).collect();
        Self {
            version: 3,
            tensor_count: None,
            entry_count: None,
            entries,
            tensors,
            alignment: 32,
            data,
        }
    }

    pub(crate) fn with(mut self, key: &str, value: Meta) -> Self {
        self.entries.retain(|(name, _)| name != key);
        self.entries.push((key.to_owned(), value));
        self
    }

    pub(crate) fn without(mut self, key: &str) -> Self {
        self.entries.retain(|(name, _)| name != key);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        let tensors = self.tensor_count.unwrap_or(self.tensors.len() as u64);
        let entries = self.entry_count.unwrap_or(self.entries.len() as u64);
        bytes.extend([tensors, entries].map(u64::to_le_bytes).concat());
        for (key, value) in &self.entries {
            bytes.extend(text(key).bytes());
            bytes.extend(value.code().to_le_bytes());
            bytes.extend(value.bytes());
        }
        for (name, sides, kind, place) in &self.tensors {
            bytes.extend(text(name).bytes());
            bytes.extend((u32::try_from(sides.len()).unwrap()).to_le_bytes());
            bytes.extend(sides.iter().flat_map(|side| side.to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(place.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(&self.data);
        bytes
    }

    pub(crate) fn read(&self) -> Result<Gguf, fewstep_engine::Error> {
        Gguf::from_bytes(self.bytes())
    }
}

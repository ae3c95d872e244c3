//! Models in one GGUF file: metadata, tokenizer and quantised weights, memory-mapped.
//!
//! In: a file, or its bytes. Out: [`Gguf`], which shows the file as the Hugging Face checkpoint
//! that it was made from: the text of a `config.json`, a [`Tokenizer`], and tensors under the
//! checkpoint's names, as numbers or as [`QuantisedMatrix`]. Nothing in a file is believed before
//! it is checked, and what is not understood is refused by name.

mod config;
pub(crate) mod header;
mod metadata;
pub(crate) mod names;
mod tokenizer;

use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::quantised::{QuantisedMatrix, RowOrder, Store};
use crate::tokens::Tokenizer;
use crate::weights;
use header::{Header, Tensor};
use metadata::Metadata;
use names::{Rows, target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Factors for the rotary frequencies, which some files carry as a tensor.
const ROTARY_FACTORS: &str = "rope_freqs.weight";

/// The architectures that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Llama,
    Qwen2,
    Gpt2,
}

impl Architecture {
    /// Its name in a file, with which the names of its metadata start.
    fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Gpt2 => "gpt2",
        }
    }
}

/// A model in a GGUF file.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Error, Gguf};
///
/// let refused = Gguf::from_bytes(b"GGUF\x01\0\0\0".to_vec()).map(|_| ());
/// assert!(matches!(refused, Err(Error::GgufVersion { found: 1, .. })));
/// ```
#[derive(Debug)]
pub struct Gguf {
    store: Arc<Store>,
    metadata: Metadata,
    architecture: Architecture,
    /// By the names of a checkpoint.
    tensors: BTreeMap<String, Placed>,
    rotary_factors: Option<Tensor>,
}

/// A tensor and how its numbers get to their places in a checkpoint.
#[derive(Debug)]
struct Placed {
    tensor: Tensor,
    order: RowOrder,
    transposed: bool,
}

impl Gguf {
    /// Maps a GGUF file.
    ///
    /// The file must not be changed or shortened while it is mapped.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::NotAFile`] if it cannot be read; [`Error::NotGguf`],
    /// [`Error::GgufVersion`], [`Error::GgufCut`], [`Error::GgufCount`], [`Error::TensorEncoding`],
    /// [`Error::TensorBlocks`], [`Error::TensorBytes`], [`Error::DuplicateTensor`] or
    /// [`Error::UncoveredBytes`] for one that is foreign, cut off or damaged;
    /// [`Error::Unsupported`] for another architecture than `llama`, `qwen2` and `gpt2`;
    /// [`Error::Metadata`] for an entry that is missing or not understood, and
    /// [`Error::UnknownTensor`] for a tensor that the architecture does not have.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf};
    /// let refused = Gguf::open("no such file.gguf".as_ref()).map(|_| ());
    /// assert!(matches!(refused, Err(Error::File { action: "read", .. })));
    /// ```
    pub fn open(file: &Path) -> Result<Self, Error> {
        let (opened, length) = files::open(file)?;
        if length == 0 {
            return Err(Error::NotGguf { file: file.to_path_buf() });
        }
        let map = weights::map(&opened).map_err(files::refused(file, "read"))?;
        Self::read(file, Store::Mapped(map))
    }

    /// A model from the bytes of a GGUF file.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::open`] that do not concern the reading itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf};
    /// let refused = Gguf::from_bytes(b"other".to_vec()).map(|_| ());
    /// assert!(matches!(refused, Err(Error::NotGguf { .. })));
    /// ```
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::read(Path::new("model.gguf"), Store::Owned(bytes))
    }

    fn read(file: &Path, store: Store) -> Result<Self, Error> {
        let Header { metadata, mut tensors } = Header::read(file, store.as_slice())?;
        let bytes = store.as_slice();
        let architecture = config::architecture(&metadata, bytes)?;
        let sizes = config::Sizes::read(&metadata, bytes, architecture)?;
        let rotary_factors = match architecture {
            Architecture::Llama => tensors.remove(ROTARY_FACTORS),
            Architecture::Qwen2 | Architecture::Gpt2 => None,
        };
        let mut placed = BTreeMap::new();
        for (own, tensor) in tensors {
            let Some(target) = target(architecture, sizes.layers, &own) else {
                return Err(Error::UnknownTensor { file: file.to_path_buf(), tensor: own });
            };
            let order = match target.rows {
                Rows::Plain => RowOrder::Plain,
                Rows::Query => interleaved(&metadata, architecture, sizes.heads, &tensor)?,
                Rows::Key => {
                    interleaved(&metadata, architecture, sizes.key_value_heads, &tensor)?
                }
            };
            let transposed = target.transposed;
            placed.insert(target.name, Placed { tensor, order, transposed });
        }
        let store = Arc::new(store);
        Ok(Self { store, metadata, architecture, tensors: placed, rotary_factors })
    }

    /// The text of a `config.json` that describes the model, for [`Config::from_json`].
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`] for an entry that is missing or not understood, and
    /// [`Error::MissingTensor`] without a token embedding.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Gguf};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/gpt2.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// let config = Config::from_json(gguf.config_json()?.as_bytes())?;
    /// assert_eq!((config.layers, config.heads, config.width), (1, 4, 32));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn config_json(&self) -> Result<String, Error> {
        config::json(self)
    }

    /// The tokenizer in the file.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for one that is neither byte-level BPE with a known way of
    /// splitting nor SentencePiece; [`Error::Metadata`] for lists that are missing or do not fit
    /// each other, and those of [`Tokenizer::from_json`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Gguf};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/gpt2.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// let config = Config::from_json(gguf.config_json()?.as_bytes())?;
    /// let tokenizer = gguf.tokenizer(&config)?;
    /// let ids = tokenizer.encode("The capital of France is")?;
    /// assert_eq!(tokenizer.decode(&ids), "The capital of France is");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn tokenizer(&self, config: &Config) -> Result<Tokenizer, Error> {
        let json = tokenizer::json(&self.metadata, self.store.as_slice(), self.architecture)?;
        Tokenizer::parse_whole(self.metadata.file(), json, config)
    }

    /// The names of all tensors, as in a checkpoint, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/gpt2.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// assert!(gguf.names().any(|name| name == "h.0.attn.c_attn.weight"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The numbers of a tensor, row by row, with the layout that a checkpoint has.
    ///
    /// # Errors
    ///
    /// [`Error::MissingTensor`], [`Error::TensorShape`] unless it has the expected shape, and
    /// [`Error::WeightNotFinite`] for NaN or infinite entries.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/gpt2.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// assert_eq!(gguf.tensor("ln_f.weight", &[32])?.len(), 32);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn tensor(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, Error> {
        let placed = self.placed(name)?;
        let mut shape = placed.tensor.shape.clone();
        if placed.transposed {
            shape.reverse();
        }
        if shape != expected {
            return Err(self.wrong_shape(name, shape, expected.to_vec()));
        }
        let columns = placed.tensor.shape.last().copied().unwrap_or(1);
        let rows = placed.tensor.shape.iter().product::<usize>() / columns;
        if placed.tensor.shape.len() > 1 {
            let matrix = self.quantised(name, placed, [rows, columns], placed.order)?;
            return Ok(match placed.transposed {
                true => matrix.dequantise_transposed(),
                false => matrix.dequantise(),
            });
        }
        // The entries of a bias are ordered as the rows of its matrix are.
        let stored = self.quantised(name, placed, [1, columns], RowOrder::Plain)?.dequantise();
        Ok((0..columns).map(|index| stored[placed.order.place(index)]).collect())
    }

    /// A tensor as a quantised matrix: rows are the layer's outputs, columns its inputs, also where
    /// a checkpoint keeps them the other way round.
    ///
    /// # Errors
    ///
    /// Those of [`Gguf::tensor`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Error, Gguf};
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/gpt2.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// let up = gguf.matrix("h.0.mlp.c_fc.weight", [64, 32])?;
    /// assert_eq!((up.rows(), up.columns()), (64, 32));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn matrix(&self, name: &str, expected: [usize; 2]) -> Result<QuantisedMatrix, Error> {
        let placed = self.placed(name)?;
        if placed.tensor.shape != expected {
            return Err(self.wrong_shape(name, placed.tensor.shape.clone(), expected.to_vec()));
        }
        self.quantised(name, placed, expected, placed.order)
    }

    fn quantised(
        &self,
        name: &str,
        Placed { tensor, .. }: &Placed,
        shape: [usize; 2],
        order: RowOrder,
    ) -> Result<QuantisedMatrix, Error> {
        let (store, bytes) = (Arc::clone(&self.store), tensor.bytes.clone());
        let matrix = QuantisedMatrix::in_store(store, bytes, tensor.encoding, shape, order);
        match matrix.first_not_finite() {
            None => Ok(matrix),
            Some((index, value)) => {
                let (file, tensor) = (self.file(), name.to_owned());
                Err(Error::WeightNotFinite { file, tensor, index, value })
            }
        }
    }

    fn placed(&self, name: &str) -> Result<&Placed, Error> {
        self.tensors.get(name).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        Error::MissingTensor { file: self.file(), tensor: name.to_owned() }
    }

    fn wrong_shape(&self, name: &str, found: Vec<usize>, expected: Vec<usize>) -> Error {
        let (file, tensor) = (self.file(), name.to_owned());
        Error::TensorShape { file, tensor, found, expected }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.metadata.file().to_path_buf()
    }
}

/// The order of rows that are stored as rotary pairs, if `heads` heads can share them.
fn interleaved(
    metadata: &Metadata,
    architecture: Architecture,
    heads: u64,
    tensor: &Tensor,
) -> Result<RowOrder, Error> {
    let rows = tensor.shape.first().copied().unwrap_or(0) as u64;
    let width = rows.checked_div(heads).unwrap_or(0);
    match usize::try_from(width) {
        Ok(head_width) if width > 0 && width.is_multiple_of(2) && width * heads == rows => {
            Ok(RowOrder::Interleaved { head_width })
        }
        _ => {
            let key = format!("{}.attention.head_count", architecture.name());
            let found = format!("{heads} heads for {rows} rows");
            Err(metadata.refused(&key, found, "a number of heads with an even width each"))
        }
    }
}

//! LoRA adapters as the Python package PEFT writes and reads them.
//!
//! A directory with `adapter_config.json` and `adapter_model.safetensors`, in which a matrix has
//! the tensors `base_model.model.PATH.lora_A.weight` (`[rank, inputs]`) and `….lora_B.weight`
//! (`[outputs, rank]`). Updated norms are stored whole, as `PATH.weight` and `PATH.bias`, and are
//! named in `modules_to_save`. A file is not trusted: shapes are checked before memory is taken.

use super::blocks_of;
use super::peft_config::{self, LoraSettings};
use crate::block_kind::BlockKind;
use crate::blocks::BlockId;
use crate::config::Config;
use crate::error::Error;
use crate::files;
use crate::matrix::{WeightOrder, for_block};
use crate::modules::{Module, layers_name, modules, norm_paths, prefix};
use crate::network::Network;
use crate::ops::{View, ViewMut, Write, product};
use crate::parameters::{Precision, Stored};
use crate::update::Update;
use crate::weights::{self, Weights, check_finite};
use safetensors::serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
const START: &str = "base_model.model.";
const FIRST: &str = ".lora_A.weight";
const SECOND: &str = ".lora_B.weight";
/// The ends of a norm's tensors.
const SCALE: &str = ".weight";
const SHIFT: &str = ".bias";

impl Update<f32> {
    /// Writes the update of a model as a PEFT LoRA adapter into an existing directory.
    ///
    /// The adapter is the update, not an approximation: each matrix gets the rank that its change
    /// has in single precision, which is at most the width of a head for every updated head.
    /// Matrices without an update are omitted. `base` is what users call the model, a hub id or a
    /// directory, for tools that load it by that name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchBlock`] or [`Error::SizeMismatch`] if it belongs to another model,
    /// [`Error::WeightNotFinite`] if a change is not finite, [`Error::NotFactorised`] if it cannot
    /// be written as a product, [`Error::File`] if a file cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let update = Update::zeros(&model, &choose_blocks("value@all", &config)?)?;
    /// let refused = update.save_peft("no such directory".as_ref(), &model, Some("gpt2"));
    /// assert!(matches!(refused, Err(Error::File { action: "write", .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn save_peft(
        &self,
        directory: &Path,
        model: &Network<f32>,
        base: Option<&str>,
    ) -> Result<(), Error> {
        let (config, file) = (model.config(), directory.join(WEIGHTS));
        let names: Vec<BlockId> = self.blocks.iter().map(|(block, _)| *block).collect();
        model.check_blocks(&names)?;
        let pairs = self.pairs(&file, config)?;
        let mut tensors = Vec::with_capacity(2 * pairs.len());
        for pair in &pairs {
            let path = pair.module.path(config, pair.layer);
            let (inputs, outputs) = pair.module.shape(config);
            for (end, shape, values) in [
                (FIRST, vec![pair.rank, inputs], &pair.first),
                (SECOND, vec![outputs, pair.rank], &pair.second),
            ] {
                let (values, precision) = (Cow::Borrowed(&values[..]), Precision::Single);
                tensors
                    .push((format!("{START}{path}{end}"), Stored { shape, values, precision }));
            }
        }
        let norms = self.updated_norms(model);
        for (path, values) in &norms {
            check_finite(&file, path, values)?;
            let (shape, precision) = (vec![config.width], Precision::Single);
            let values = Cow::Borrowed(&values[..]);
            tensors.push((format!("{START}{path}"), Stored { shape, values, precision }));
        }
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        let bytes = serialize(tensors, Some(metadata.into_iter().collect()))
            .expect("every tensor is valid by itself");
        files::write(&file, &bytes)?;
        let mut whole: Vec<&str> =
            norms.iter().filter_map(|(path, _)| path.strip_suffix(SCALE)).collect();
        whole.sort_unstable();
        let json = peft_config::json(config, &pairs, &whole, base);
        files::write(&directory.join(CONFIG), json.as_bytes())
    }

    /// Reads a PEFT LoRA adapter as an update of a model's matrices and norms.
    ///
    /// Any adapter of the matrices in a model's layers is read, with its scaling (`lora_alpha`,
    /// `use_rslora`) and with ranks and scalings of single matrices. Blocks that it leaves as they
    /// are do not become part of the update. The files must not be changed while they are read.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::FileTooLarge`] or [`Error::Json`] if the files cannot be read;
    /// [`Error::Unsupported`], [`Error::UnknownSetting`] or [`Error::BadPattern`] for an adapter
    /// of a kind that is not implemented, such as one with DoRA or biases;
    /// [`Error::SizeOutOfRange`] for a rank of 0 or beyond reason; [`Error::NotAdaptable`] for a
    /// tensor that is not a factor of one of the model's matrices, [`Error::DuplicateTensor`] or
    /// [`Error::MissingTensor`] for a factor that is there twice or not at all;
    /// [`Error::Empty`] without any, and those of [`Weights::from_bytes`] and [`Weights::tensor`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters, Update, choose_blocks};
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    /// # let directory = std::path::Path::new(folder).join("gpt2-plain");
    /// # let config = Config::load(&directory)?;
    /// # let model: Network = Network::new(&config, Parameters::load(&directory, &config)?)?;
    /// # let adapter = std::path::Path::new(folder).join("adapters/gpt2-plain");
    /// let update = Update::load_peft(&adapter, &model)?;
    /// assert_eq!(update.blocks()[0].0.to_string(), "value.0.0");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn load_peft(directory: &Path, model: &Network<f32>) -> Result<Self, Error> {
        let (config, file) = (model.config(), directory.join(WEIGHTS));
        let settings = LoraSettings::read(&directory.join(CONFIG))?;
        let (opened, length) = files::open(&file)?;
        if length == 0 {
            // An empty file cannot be mapped.
            return Weights::of_file(&file, &[]).and(Err(Error::Empty { quantity: "adapter" }));
        }
        let map = weights::map(&opened).map_err(files::refused(&file, "read"))?;
        let weights = Weights::of_file(&file, &map)?;
        let mut blocks = changed_norms(&weights, model)?;
        for ((layer, module), path) in adapted(&file, &weights, config)? {
            let module = &modules(config)[module];
            let (rank, scale) = settings.of(&directory.join(CONFIG), &path)?;
            let adapted = Adapted { module, path: &path, rank, scale };
            let change = adapted.change(&weights, config)?;
            check_finite(&file, &format!("{START}{path}"), &change)?;
            blocks.extend(cut(&change, config, layer, module));
        }
        Self::without_zeros(blocks)
    }

    /// The norms that the update changes, with the update added: names and numbers of their tensors.
    fn updated_norms(&self, model: &Network<f32>) -> Vec<(String, Vec<f32>)> {
        let mut updated = Vec::new();
        for (block, change) in self.blocks.iter().filter(|(b, _)| b.kind() == BlockKind::Norm) {
            let mut rest = &change[..];
            for (name, own) in norm_tensors(model, block.layer()) {
                let (change, next) = rest.split_at(own.len());
                rest = next;
                updated.push((name, own.iter().zip(change).map(|(a, b)| a + b).collect()));
            }
        }
        updated
    }
}

/// Name and numbers of every tensor of a layer's norms, in the order of a block's change.
fn norm_tensors(model: &Network<f32>, layer: usize) -> Vec<(String, &[f32])> {
    let config = model.config();
    let weights = &model.layers[layer];
    let norms = [&weights.attention_norm, &weights.mlp_norm];
    let mut tensors = Vec::new();
    for (path, norm) in norm_paths(config, layer).into_iter().zip(norms) {
        for (end, values) in [(SCALE, &norm.scale), (SHIFT, &norm.shift)] {
            if !values.is_empty() {
                tensors.push((format!("{}{path}{end}", prefix(config)), &values[..]));
            }
        }
    }
    tensors
}

/// The layers whose norms an adapter has, each with how they differ from the model's; a tensor
/// that is missing stands for one without an update.
fn changed_norms(
    weights: &Weights<'_>,
    model: &Network<f32>,
) -> Result<Vec<(BlockId, Vec<f32>)>, Error> {
    let config = model.config();
    let there: BTreeSet<&str> = weights.names().collect();
    let mut blocks = Vec::new();
    for layer in 0..config.layers {
        let tensors = norm_tensors(model, layer);
        let name = |name: &str| format!("{START}{name}");
        if !tensors.iter().any(|(own, _)| there.contains(name(own).as_str())) {
            continue;
        }
        let mut change = Vec::new();
        for (own_name, own) in tensors {
            let found = name(&own_name);
            if there.contains(found.as_str()) {
                let values = weights.tensor(&found, &[config.width])?;
                change.extend(values.iter().zip(own).map(|(a, b)| a - b));
            } else {
                change.resize(change.len() + own.len(), 0.0);
            }
        }
        let block = BlockId::of_layer(BlockKind::Norm, layer);
        blocks.push((block.expect("norms are not split by head"), change));
    }
    Ok(blocks)
}

/// The modules that an adapter has tensors for: by layer and number, with the path in the file.
fn adapted(
    file: &Path,
    weights: &Weights<'_>,
    config: &Config,
) -> Result<BTreeMap<(usize, usize), String>, Error> {
    let mut found: BTreeMap<(usize, usize), String> = BTreeMap::new();
    for name in weights.names().filter(|name| !is_norm(name, config)) {
        let path = name
            .strip_prefix(START)
            .and_then(|rest| rest.strip_suffix(FIRST).or_else(|| rest.strip_suffix(SECOND)));
        let place = path.and_then(|path| place(path, config));
        let (Some(path), Some(place)) = (path, place) else {
            let (file, tensor) = (file.to_path_buf(), name.to_owned());
            return Err(Error::NotAdaptable { file, tensor, allowed: allowed(config) });
        };
        let other = found.entry(place).or_insert_with(|| path.to_owned());
        if other != path {
            let (first, second) = (file.to_path_buf(), file.to_path_buf());
            return Err(Error::DuplicateTensor { tensor: name.to_owned(), first, second });
        }
    }
    Ok(found)
}

/// Whether a tensor is one of a norm of the model's layers.
fn is_norm(name: &str, config: &Config) -> bool {
    let path = name.strip_prefix(START).and_then(|rest| rest.strip_prefix(prefix(config)));
    let path = path.and_then(|rest| {
        let shift = rest.strip_suffix(SHIFT).filter(|_| config.rotary().is_none());
        shift.or_else(|| rest.strip_suffix(SCALE))
    });
    path.is_some_and(|path| {
        (0..config.layers).any(|layer| norm_paths(config, layer).iter().any(|own| own == path))
    })
}

/// The layer and the number of the module that a path leads to, with or without the prefix of a
/// model's body.
fn place(path: &str, config: &Config) -> Option<(usize, usize)> {
    let bare = path.strip_prefix(prefix(config)).unwrap_or(path);
    let rest = bare.strip_prefix(layers_name(config))?.strip_prefix('.')?;
    let (number, name) = rest.split_once('.')?;
    let layer: usize = number.parse().ok()?;
    let module = modules(config).iter().position(|module| module.name == name)?;
    (layer < config.layers && layer.to_string() == number).then_some((layer, module))
}

/// The paths of a model's matrices, in words.
fn allowed(config: &Config) -> String {
    let names: Vec<&str> = modules(config).iter().map(|module| module.name).collect();
    let (start, last) =
        (format!("{}{}", prefix(config), layers_name(config)), config.layers - 1);
    format!("{start}. with a layer from 0 to {last}, one of {}", names.join(", "))
}

/// A module that an adapter changes.
struct Adapted<'a> {
    module: &'a Module,
    /// Its path in the file.
    path: &'a str,
    rank: usize,
    scale: f64,
}

impl Adapted<'_> {
    /// `scale · Aᵀ Bᵀ`: the change of the module, `[inputs, outputs]`.
    fn change(&self, weights: &Weights<'_>, config: &Config) -> Result<Vec<f32>, Error> {
        let &Self { module, path, rank, scale } = self;
        let (inputs, outputs) = module.shape(config);
        let first = weights.tensor(&format!("{START}{path}{FIRST}"), &[rank, inputs])?;
        let second = weights.tensor(&format!("{START}{path}{SECOND}"), &[outputs, rank])?;
        let mut change = vec![0.0; inputs * outputs];
        #[allow(clippy::cast_possible_truncation, reason = "weights are in single precision")]
        let scale = scale as f32;
        product(
            Write::Over,
            ViewMut::new(&mut change, inputs, outputs),
            View::new(&first, rank, inputs).transposed(),
            View::new(&second, outputs, rank).transposed(),
            scale,
        );
        Ok(change)
    }
}

/// The blocks of a module, each with its part of the change `[inputs, outputs]`.
fn cut(
    change: &[f32],
    config: &Config,
    layer: usize,
    module: &Module,
) -> Vec<(BlockId, Vec<f32>)> {
    let (inputs, outputs) = module.shape(config);
    let mut blocks = Vec::new();
    for (kind, start) in module.parts(config) {
        for block in blocks_of(config, kind, layer) {
            let mut place = block.place(config);
            let mut part = vec![0.0; place.size()];
            place.columns = start + place.columns.start..start + place.columns.end;
            for_block(inputs, outputs, WeightOrder::InputsFirst, place, |index, to| {
                part[to] = change[index];
            });
            blocks.push((block, part));
        }
    }
    blocks
}

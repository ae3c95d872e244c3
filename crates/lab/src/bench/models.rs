//! The models that both sides read: random weights, and SmolLM2 as a checkpoint directory.
//!
//! Large ones are made once and kept in the user's cache; a directory appears there under its
//! name only when it is complete.

use super::works::ModelKind;
use crate::error::{Error, refused};
use fewstep::adapter::make_directory;
use fewstep_core::Rng;
use fewstep_engine::{
    Config, Layer, Linear, Model, Network, Norm, Parameters, Precision, Update, choose_blocks,
};
use std::path::{Path, PathBuf};

/// The seed of all random weights.
const SEED: u64 = 6;

/// The deviation of random weights: large enough for kernels that differ, too small to saturate.
const DEVIATION: f64 = 0.03;

/// The file that `models/smollm2` brings.
const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

const GPT2_SHAPE: &str = r#"{"model_type": "gpt2", "n_layer": 6, "n_head": 12, "n_embd": 768,
    "n_positions": 2048, "vocab_size": 50257}"#;
const QUICK_GPT2: &str = r#"{"model_type": "gpt2", "n_layer": 3, "n_head": 2, "n_embd": 16,
    "n_positions": 128, "vocab_size": 64}"#;
const QUICK_LLAMA: &str = r#"{"model_type": "llama", "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 16,
    "intermediate_size": 32, "max_position_embeddings": 128, "vocab_size": 64,
    "tie_word_embeddings": true}"#;

/// Where the models of a run are.
#[derive(Debug)]
pub(super) struct Shelf {
    /// The user's cache directory of this program.
    cache: PathBuf,
    /// A directory of this run, for small models.
    scratch: PathBuf,
    quick: bool,
}

impl Shelf {
    pub(super) fn new(cache: &Path, scratch: &Path, quick: bool) -> Self {
        Self { cache: cache.to_path_buf(), scratch: scratch.to_path_buf(), quick }
    }

    /// The directory of a model, which is made if need be; `None` for SmolLM2 where its file is
    /// not there.
    pub(super) fn directory(&self, kind: ModelKind) -> Result<Option<PathBuf>, Error> {
        match (kind, self.quick) {
            (ModelKind::Gpt2, true) => self.random(&self.scratch, "gpt2", QUICK_GPT2).map(Some),
            (ModelKind::SmolLm2, true) => {
                self.random(&self.scratch, "llama", QUICK_LLAMA).map(Some)
            }
            (ModelKind::Gpt2, false) => {
                let models = self.cache.join("bench-models");
                self.random(&models, "distilgpt2-shape-1", GPT2_SHAPE).map(Some)
            }
            (ModelKind::SmolLm2, false) => self.smollm2(),
        }
    }

    /// The file that SmolLM2 is made of.
    pub(super) fn smollm2_file(&self) -> PathBuf {
        self.cache.join(SMOLLM2)
    }

    fn random(&self, within: &Path, name: &str, shape: &str) -> Result<PathBuf, Error> {
        let config = Config::from_json(shape.as_bytes())?;
        complete(within, name, |part| {
            let parameters = random_parameters(&config)?;
            Ok(parameters.save(part, &config, Precision::Single)?)
        })
    }

    fn smollm2(&self) -> Result<Option<PathBuf>, Error> {
        let file = self.smollm2_file();
        if !file.is_file() {
            return Ok(None);
        }
        let directory = complete(&self.cache.join("bench-models"), "smollm2-1", |part| {
            let model = Model::open(&file)?.dequantised();
            let blocks = choose_blocks("value@last1", model.config())?;
            let update = Update::zeros(model.network(), &blocks)?;
            Ok(model.save_merged(part, &update)?)
        })?;
        Ok(Some(directory))
    }
}

/// A directory that `make` fills, unless it is there; it gets its name when it is complete.
fn complete(
    within: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let directory = within.join(name);
    if directory.is_dir() {
        return Ok(directory);
    }
    let part = within.join(format!(".{name}-{}", std::process::id()));
    make_directory(&part)?;
    let made = make(&part);
    let named = made.and_then(|()| {
        std::fs::rename(&part, &directory).map_err(refused(&directory, "write"))
    });
    if named.is_err() {
        let _ = std::fs::remove_dir_all(&part);
    }
    // Another run may have been faster.
    if directory.is_dir() { Ok(directory) } else { named.map(|()| directory) }
}

/// The model in a directory, without its tokenizer.
pub(super) fn open(directory: &Path) -> Result<Network, Error> {
    let config = Config::load(directory)?;
    let parameters = Parameters::load(directory, &config)?;
    Ok(Network::new(&config, parameters)?)
}

fn random_parameters(config: &Config) -> Result<Parameters, Error> {
    let mut parameters = Parameters::zeros(config)?;
    let mut rng = Rng::new(SEED);
    let mut fill = |values: &mut [f32], mean: f64| {
        for value in values {
            #[allow(clippy::cast_possible_truncation, reason = "any nearby number will do")]
            let drawn = (mean + DEVIATION * rng.normal()) as f32;
            *value = drawn;
        }
    };
    let Parameters { token_embedding, position_embedding, layers, final_norm, unembedding } =
        &mut parameters;
    fill(token_embedding, 0.0);
    fill(position_embedding, 0.0);
    let mut norms = vec![final_norm];
    for layer in layers {
        let Layer {
            attention_norm,
            query,
            key,
            value,
            output,
            mlp_norm,
            mlp_gate,
            mlp_up,
            mlp_down,
        } = layer;
        norms.extend([attention_norm, mlp_norm]);
        let matrices = [query, key, value, output, mlp_up, mlp_down].into_iter();
        for Linear { weight, bias } in matrices.chain(mlp_gate) {
            fill(weight, 0.0);
            fill(bias, 0.0);
        }
    }
    for Norm { scale, shift } in norms {
        fill(scale, 1.0);
        fill(shift, 0.0);
    }
    if let Some(unembedding) = unembedding {
        fill(unembedding, 0.0);
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_made_once_and_nothing_half_made_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), folder.path(), true);
        let first = shelf.directory(ModelKind::SmolLm2).unwrap().unwrap();
        let written = std::fs::metadata(first.join("model.safetensors")).unwrap().modified();
        assert_eq!(shelf.directory(ModelKind::SmolLm2), Ok(Some(first.clone())));
        let again = std::fs::metadata(first.join("model.safetensors")).unwrap().modified();
        assert_eq!(written.unwrap(), again.unwrap());
        assert_eq!(open(&first).unwrap().config().key_value_heads(), 2);

        let failed = complete(folder.path(), "other", |part| {
            std::fs::write(part.join("half"), "").unwrap();
            Err(Error::UnknownWork { found: "any error".to_owned() })
        });
        assert!(matches!(failed, Err(Error::UnknownWork { .. })));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn smollm2_is_left_out_where_its_file_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path(), folder.path(), false);
        assert_eq!(shelf.directory(ModelKind::SmolLm2), Ok(None));
    }
}

//! A model's weights as passes read them, and updates to them that leave them as they are.
//!
//! In: [`Config`] and [`Parameters`]. Out: [`Network`], read-only and shared between tasks and
//! threads. An [`Update`] is kept apart; an `Overlay` holds the sum for the matrices it touches.

use crate::blocks::{BlockId, BlockKind, check_distinct};
use crate::config::Config;
use crate::error::Error;
use crate::layout::Layout;
use crate::ops::{NormWeights, View};
use crate::parameters::{Layer, Norm, Parameters};
use crate::real::Real;
use crate::update::Update;
use std::sync::OnceLock;

/// A linear layer, `weight [in, out]` and `bias [out]`.
#[derive(Debug)]
struct Linear<R> {
    weight: Vec<R>,
    bias: Vec<R>,
}

/// The weights of one layer.
#[derive(Debug)]
pub(crate) struct LayerWeights<R> {
    pub(crate) attention_norm: NormWeights<R>,
    pub(crate) mlp_norm: NormWeights<R>,
    /// In the order of [`BlockKind::ALL`].
    matrices: [Linear<R>; 6],
    /// The matrices transposed, made when a backward pass first comes through this layer.
    transposes: OnceLock<[Vec<R>; 6]>,
}

/// A Transformer of the GPT-2 family, ready for passes in one precision.
///
/// It is never written to: any number of tasks and threads may share it.
///
/// # Examples
///
/// ```
/// use fewstep_engine::{Config, Error, Labels, Layout, Network, Parameters};
///
/// let config = Config::from_json(
///     br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2, "n_ctx": 3,
///          "vocab_size": 5}"#,
/// )?;
/// let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
///
/// // Without weights all labels are equally likely.
/// let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
/// let layout = Layout::plain(&[vec![0, 1, 2]])?;
/// assert_eq!(model.predict(layout, &labels)?, [0.5]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Network<R = f32> {
    config: Config,
    token_embedding: Vec<R>,
    position_embedding: Vec<R>,
    pub(crate) layers: Vec<LayerWeights<R>>,
    pub(crate) final_norm: NormWeights<R>,
    unembedding: Option<Vec<R>>,
}

impl<R: Real> Network<R> {
    /// A model from its configuration and parameters.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`], and [`Error::SizeMismatch`] for parameters of other sizes than
    /// the configuration asks for.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let mut parameters = Parameters::zeros(&config)?;
    /// parameters.final_norm.scale.pop();
    /// let refused = Network::<f32>::new(&config, parameters).expect_err("one is missing");
    /// let quantity = "final norm scale";
    /// assert_eq!(refused, Error::SizeMismatch { quantity, found: 1, expected: 2 });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(config: &Config, parameters: Parameters) -> Result<Self, Error> {
        config.check()?;
        check_sizes(config, &parameters)?;
        let Parameters { token_embedding, position_embedding, layers, final_norm, unembedding } =
            parameters;
        Ok(Self {
            config: config.clone(),
            token_embedding: R::of_weights(token_embedding),
            position_embedding: R::of_weights(position_embedding),
            layers: layers.into_iter().map(|layer| LayerWeights::new(layer, config)).collect(),
            final_norm: norm(final_norm),
            unembedding: unembedding.map(R::of_weights),
        })
    }

    /// The sizes of the model.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// assert_eq!(model.config().vocabulary, 5);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of inputs and outputs of a matrix.
    pub(crate) fn shape(&self, kind: BlockKind) -> (usize, usize) {
        shape(&self.config, kind)
    }

    /// `Err` unless every sequence fits into the model and every token is in its vocabulary.
    pub(crate) fn check_layout(&self, layout: &Layout) -> Result<(), Error> {
        let limit = self.config.positions;
        let lengths = layout.lengths();
        if let Some(sequence) = lengths.iter().position(|&length| length > limit) {
            let found = lengths[sequence];
            return Err(Error::SequenceTooLong { sequence, found, limit });
        }
        self.check_tokens(layout.tokens())
    }

    /// `Err` unless every token is in the vocabulary.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocabulary = self.config.vocabulary;
        match tokens.iter().find(|&&token| token as usize >= vocabulary) {
            Some(&token) => Err(Error::TokenOutOfRange { token, vocabulary }),
            None => Ok(()),
        }
    }

    /// `Err` unless there are blocks, each once, and the model has them.
    pub(crate) fn check_blocks(&self, blocks: &[BlockId]) -> Result<(), Error> {
        check_blocks(&self.config, blocks)
    }

    /// Token plus position, for every row of a layout: `stream [rows, width]`.
    pub(crate) fn embed(&self, layout: &Layout, stream: &mut [R]) {
        let width = self.config.width;
        let rows = layout.tokens().iter().zip(layout.positions());
        for ((&token, &position), row) in rows.zip(stream.chunks_exact_mut(width)) {
            row.copy_from_slice(&self.token_embedding[token as usize * width..][..width]);
            crate::ops::add(row, &self.position_embedding[position * width..][..width]);
        }
    }

    /// The output embedding, `[vocabulary, width]`.
    pub(crate) fn unembedding(&self) -> View<'_, R> {
        let table = self.unembedding.as_ref().unwrap_or(&self.token_embedding);
        View::new(table, self.config.vocabulary, self.config.width)
    }

    /// The rows of the output embedding that belong to some tokens: `[tokens, width]`.
    pub(crate) fn unembedding_of(&self, tokens: &[u32]) -> Vec<R> {
        let table = self.unembedding();
        tokens.iter().flat_map(|&token| table.row(token as usize)).copied().collect()
    }

    pub(crate) fn bias(&self, layer: usize, kind: BlockKind) -> &[R] {
        &self.layers[layer].matrices[kind as usize].bias
    }

    /// The matrix `[in, out]`, as updated.
    pub(crate) fn weight<'a>(
        &'a self,
        overlay: &'a Overlay<R>,
        layer: usize,
        kind: BlockKind,
    ) -> View<'a, R> {
        let (inputs, outputs) = self.shape(kind);
        let own = &self.layers[layer].matrices[kind as usize].weight;
        View::new(overlay.get(layer, kind).unwrap_or(own), inputs, outputs)
    }

    /// The transposed matrix `[out, in]`, as updated.
    pub(crate) fn transposed<'a>(
        &'a self,
        overlay: &'a Overlay<R>,
        layer: usize,
        kind: BlockKind,
    ) -> View<'a, R> {
        let (inputs, outputs) = self.shape(kind);
        if let Some(updated) = overlay.get(layer, kind) {
            return View::new(updated, inputs, outputs).transposed();
        }
        let weights = &self.layers[layer];
        let transposes = weights.transposes.get_or_init(|| {
            BlockKind::ALL.map(|kind| {
                let (inputs, outputs) = self.shape(kind);
                transpose(&weights.matrices[kind as usize].weight, inputs, outputs)
            })
        });
        View::new(&transposes[kind as usize], outputs, inputs)
    }
}

/// `Err` unless there are blocks, each once, and a model of these sizes has them.
pub(crate) fn check_blocks(config: &Config, blocks: &[BlockId]) -> Result<(), Error> {
    if blocks.is_empty() {
        return Err(Error::Empty { quantity: "list of blocks" });
    }
    let &Config { layers, heads, .. } = config;
    for block in blocks {
        if block.layer() >= layers || block.head().is_some_and(|head| head >= heads) {
            return Err(Error::NoSuchBlock { block: block.to_string(), layers, heads });
        }
    }
    check_distinct(blocks)
}

/// Number of inputs and outputs of a matrix.
pub(crate) fn shape(config: &Config, kind: BlockKind) -> (usize, usize) {
    match kind {
        BlockKind::MlpUp => (config.width, config.inner),
        BlockKind::MlpDown => (config.inner, config.width),
        _ => (config.width, config.width),
    }
}

impl Network<f32> {
    /// The parameters that it was made of.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let mut parameters = Parameters::zeros(&config)?;
    /// parameters.layers[0].attention_input.weight[5] = 1.0;
    /// let model: Network = Network::new(&config, parameters.clone())?;
    /// assert_eq!(model.parameters(), parameters);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        Parameters {
            token_embedding: self.token_embedding.clone(),
            position_embedding: self.position_embedding.clone(),
            layers: self.layers.iter().map(|layer| layer.joined(self.config.width)).collect(),
            final_norm: plain_norm(&self.final_norm),
            unembedding: self.unembedding.clone(),
        }
    }
}

impl LayerWeights<f32> {
    /// As a checkpoint has them, with queries, keys and values side by side.
    fn joined(&self, width: usize) -> Layer {
        let [values, output, queries, keys, up, down] = &self.matrices;
        let parts = [queries, keys, values];
        let rows = (0..width).flat_map(|row| {
            parts.iter().flat_map(move |part| &part.weight[row * width..(row + 1) * width])
        });
        let whole = |linear: &Linear<f32>| crate::parameters::Linear {
            weight: linear.weight.clone(),
            bias: linear.bias.clone(),
        };
        Layer {
            attention_norm: plain_norm(&self.attention_norm),
            attention_input: crate::parameters::Linear {
                weight: rows.copied().collect(),
                bias: parts.iter().flat_map(|part| &part.bias).copied().collect(),
            },
            attention_output: whole(output),
            mlp_norm: plain_norm(&self.mlp_norm),
            mlp_up: whole(up),
            mlp_down: whole(down),
        }
    }
}

fn plain_norm(norm: &NormWeights<f32>) -> Norm {
    Norm { scale: norm.scale.clone(), shift: norm.shift.clone() }
}

impl<R: Real> LayerWeights<R> {
    fn new(layer: Layer, config: &Config) -> Self {
        let width = config.width;
        // [width, 3 · width] holds queries, keys and values side by side.
        let part = |index: usize| {
            let columns = index * width..(index + 1) * width;
            let rows = layer.attention_input.weight.chunks_exact(3 * width);
            let weight = rows.flat_map(|row| &row[columns.clone()]);
            Linear {
                weight: weight.map(|&value| R::of_weight(value)).collect(),
                bias: layer.attention_input.bias[columns.clone()]
                    .iter()
                    .map(|&value| R::of_weight(value))
                    .collect(),
            }
        };
        let (queries, keys, values) = (part(0), part(1), part(2));
        let whole = |linear: crate::parameters::Linear| Linear {
            weight: R::of_weights(linear.weight),
            bias: R::of_weights(linear.bias),
        };
        Self {
            attention_norm: norm(layer.attention_norm),
            mlp_norm: norm(layer.mlp_norm),
            matrices: [
                values,
                whole(layer.attention_output),
                queries,
                keys,
                whole(layer.mlp_up),
                whole(layer.mlp_down),
            ],
            transposes: OnceLock::new(),
        }
    }
}

fn norm<R: Real>(norm: Norm) -> NormWeights<R> {
    NormWeights { scale: R::of_weights(norm.scale), shift: R::of_weights(norm.shift) }
}

/// `[rows, columns]` to `[columns, rows]`.
fn transpose<R: Real>(values: &[R], rows: usize, columns: usize) -> Vec<R> {
    let mut transposed = vec![R::ZERO; values.len()];
    // Square tiles: both sides stay in cache.
    const TILE: usize = 32;
    for row in (0..rows).step_by(TILE) {
        for column in (0..columns).step_by(TILE) {
            for r in row..rows.min(row + TILE) {
                for c in column..columns.min(column + TILE) {
                    transposed[c * rows + r] = values[r * columns + c];
                }
            }
        }
    }
    transposed
}

/// `Err(Error::SizeMismatch)` for the first parameter of another size than it should have.
pub(crate) fn check_sizes(config: &Config, parameters: &Parameters) -> Result<(), Error> {
    let &Config { layers, width, inner, positions, vocabulary, tied, .. } = config;
    let check = |quantity, found: usize, expected: usize| {
        if found == expected {
            Ok(())
        } else {
            Err(Error::SizeMismatch { quantity, found, expected })
        }
    };
    check("token embedding", parameters.token_embedding.len(), vocabulary * width)?;
    check("position embedding", parameters.position_embedding.len(), positions * width)?;
    check("list of layers", parameters.layers.len(), layers)?;
    check("final norm scale", parameters.final_norm.scale.len(), width)?;
    check("final norm shift", parameters.final_norm.shift.len(), width)?;
    let own = parameters.unembedding.as_ref().map_or(0, Vec::len);
    check("output embedding", own, if tied { 0 } else { vocabulary * width })?;
    for layer in &parameters.layers {
        for (quantity, linear, inputs, outputs) in [
            ("attention input", &layer.attention_input, width, 3 * width),
            ("attention output", &layer.attention_output, width, width),
            ("mlp up", &layer.mlp_up, width, inner),
            ("mlp down", &layer.mlp_down, inner, width),
        ] {
            check(quantity, linear.weight.len(), inputs * outputs)?;
            check(quantity, linear.bias.len(), outputs)?;
        }
        for norm in [&layer.attention_norm, &layer.mlp_norm] {
            check("norm scale", norm.scale.len(), width)?;
            check("norm shift", norm.shift.len(), width)?;
        }
    }
    Ok(())
}

/// Number of weights of a block.
pub(crate) fn block_size(config: &Config, block: &BlockId) -> usize {
    let (rows, columns) = block.place(shape(config, block.kind()), config.head_width());
    rows.len() * columns.len()
}

/// Copies of the matrices that an update touches, with the update added.
#[derive(Clone, Debug)]
pub(crate) struct Overlay<R> {
    /// By layer, then kind.
    matrices: Vec<Option<Vec<R>>>,
}

impl<R: Real> Overlay<R> {
    /// The weights as they are.
    pub(crate) fn none(model: &Network<R>) -> Self {
        Self { matrices: vec![None; model.layers.len() * BlockKind::ALL.len()] }
    }

    /// The matrix with its update, if it has one.
    pub(crate) fn get(&self, layer: usize, kind: BlockKind) -> Option<&[R]> {
        self.matrices[layer * BlockKind::ALL.len() + kind as usize].as_deref()
    }

    /// `W + θ` for the blocks of an update.
    pub(crate) fn set(&mut self, model: &Network<R>, update: &Update<R>) {
        for (block, change) in &update.blocks {
            let own = &model.layers[block.layer()].matrices[block.kind() as usize].weight;
            let index = block.layer() * BlockKind::ALL.len() + block.kind() as usize;
            let updated = self.matrices[index].get_or_insert_with(|| own.clone());
            let shape = model.shape(block.kind());
            let (rows, columns) = block.place(shape, model.config.head_width());
            for (row, change) in rows.zip(change.chunks_exact(columns.len())) {
                let place = row * shape.1 + columns.start..row * shape.1 + columns.end;
                let own = &own[place.clone()];
                for ((target, &weight), &change) in
                    updated[place].iter_mut().zip(own).zip(change)
                {
                    *target = weight + change;
                }
            }
        }
    }
}

//! A model's weights as passes read them, and updates to them that leave them as they are.
//!
//! In: [`Config`] and [`Parameters`]. Out: [`Network`], read-only and shared between tasks and
//! threads. An [`Update`](crate::Update) is kept apart; an `Overlay` holds the sum for the matrices it touches.

use crate::block_kind::BlockKind;
use crate::blocks::{BlockId, check_blocks};
use crate::config::Config;
use crate::error::Error;
use crate::gguf::Gguf;
use crate::layout::Layout;
use crate::lora::Lora;
use crate::matrix::{Matrix, WeightOrder};
use crate::ops::NormWeights;
use crate::parameters::{self, Layer, Norm, Parameters, QuantisedTensors, check_sizes};
use crate::real::Real;
use std::sync::Arc;

/// How many kinds of matrices there are.
pub(crate) const KINDS: usize = BlockKind::MATRICES.len();

/// A linear layer; without a bias `bias` is empty, else `[out]`.
#[derive(Clone, Debug)]
pub(crate) struct Linear<R> {
    pub(crate) weight: Matrix<R>,
    bias: Vec<R>,
}

/// The weights of one layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerWeights<R> {
    pub(crate) attention_norm: NormWeights<R>,
    pub(crate) mlp_norm: NormWeights<R>,
    /// In the order of [`BlockKind::MATRICES`].
    matrices: [Option<Linear<R>>; KINDS],
}

/// A Transformer, ready for passes in one precision.
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
#[derive(Clone, Debug)]
pub struct Network<R = f32> {
    config: Config,
    // Copies differ in their low-rank updates alone.
    token_embedding: Arc<Matrix<R>>,
    position_embedding: Arc<[R]>,
    pub(crate) layers: Arc<[LayerWeights<R>]>,
    pub(crate) final_norm: NormWeights<R>,
    unembedding: Option<Arc<Matrix<R>>>,
    lora: Lora,
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
        let table = |values: Vec<f32>| {
            let (inputs, outputs) = (config.width, config.vocabulary);
            Matrix::new(R::of_weights(values), inputs, outputs, WeightOrder::OutputsFirst)
        };
        Ok(Self {
            config: config.clone(),
            token_embedding: Arc::new(table(token_embedding)),
            position_embedding: R::of_weights(position_embedding).into(),
            layers: layers.into_iter().map(|layer| LayerWeights::new(layer, config)).collect(),
            final_norm: norm(final_norm),
            unembedding: unembedding.map(table).map(Arc::new),
            lora: Lora::of(config),
        })
    }

    /// A model whose matrices stay quantised as they are in a GGUF file.
    ///
    /// Each is dequantised a few rows at a time when a pass comes to it. Numbers are those of
    /// [`Parameters::from_gguf`] up to the order in which products are summed.
    ///
    /// # Errors
    ///
    /// Those of [`Parameters::from_gguf`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_engine::{Config, Error, Gguf, Layout, Network};
    ///
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/gguf/llama.gguf");
    /// let gguf = Gguf::open(file.as_ref())?;
    /// let config = Config::from_json(gguf.config_json()?.as_bytes())?;
    /// let model: Network = Network::from_gguf(&gguf, &config)?;
    /// assert!(model.is_quantised());
    /// assert_eq!(model.logits(Layout::plain(&[vec![1, 2]])?)?.len(), config.vocabulary);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_gguf(gguf: &Gguf, config: &Config) -> Result<Self, Error> {
        config.check()?;
        let tensors = QuantisedTensors::new(gguf, config)?;
        let layers = (0..config.layers).map(|layer| LayerWeights::quantised(&tensors, layer));
        Ok(Self {
            config: config.clone(),
            token_embedding: Arc::new(Matrix::quantised(tensors.token_embedding()?)),
            position_embedding: R::of_weights(tensors.position_embedding()?).into(),
            layers: layers.collect::<Result<_, _>>()?,
            final_norm: norm(tensors.final_norm()?),
            unembedding: tensors.unembedding()?.map(|own| Arc::new(Matrix::quantised(own))),
            lora: Lora::of(config),
        })
    }

    /// Whether its matrices are quantised.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// assert!(!model.is_quantised());
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn is_quantised(&self) -> bool {
        self.token_embedding.is_quantised()
    }

    /// The same model with other low-rank updates for its LoRA blocks.
    ///
    /// # Errors
    ///
    /// [`Error::LoraRank`] for a rank that is 0 or larger than the number of inputs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Lora, Network, Parameters, Update, choose_blocks};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// let model = model.with_lora(Lora { rank: 2, ..Lora::default() })?;
    /// let update = Update::zeros(&model, &choose_blocks("lora-query@all", &config)?)?;
    /// assert_eq!(update.blocks()[0].1.len(), 2 * 4); // not 4 · 4
    ///
    /// let refused = model.with_lora(Lora { rank: 5, ..Lora::default() });
    /// assert_eq!(refused.err(), Some(Error::LoraRank { found: 5, largest: 4 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_lora(mut self, lora: Lora) -> Result<Self, Error> {
        lora.check(&self.config)?;
        self.lora = lora;
        Ok(self)
    }

    /// What its LoRA blocks look like.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Lora, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// assert_eq!(*model.lora(), Lora { rank: 4, ..Lora::default() }); // as wide as the model
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn lora(&self) -> &Lora {
        &self.lora
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

    /// `Err` unless every sequence fits into the model and every token is in its vocabulary.
    pub(crate) fn check_layout(&self, layout: &Layout) -> Result<(), Error> {
        let (limit, lengths) = (self.config.positions, layout.lengths());
        let longer = |limit| lengths.iter().position(|&length| length > limit);
        if let Some(sequence) = longer(limit) {
            let found = lengths[sequence];
            return Err(Error::SequenceTooLong { sequence, found, limit });
        }
        if let Some((window, sequence)) = self
            .config
            .window()
            .and_then(|window| longer(window).map(|sequence| (window, sequence)))
        {
            let found = lengths[sequence];
            return Err(Error::BeyondWindow { sequence, found, window });
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

    /// Token plus position, if it is learned, for every row of a layout: `stream [rows, width]`.
    pub(crate) fn embed(&self, layout: &Layout, stream: &mut [R]) {
        let width = self.config.width;
        let rows = layout.tokens().iter().zip(layout.positions());
        for ((&token, &position), row) in rows.zip(stream.chunks_exact_mut(width)) {
            self.token_embedding.write_output(token as usize, row);
            if !self.position_embedding.is_empty() {
                crate::ops::add(row, &self.position_embedding[position * width..][..width]);
            }
        }
    }

    /// The output embedding: from the stream to the logits of all tokens.
    pub(crate) fn unembedding(&self) -> &Matrix<R> {
        self.unembedding.as_ref().unwrap_or(&self.token_embedding)
    }

    /// The rows of the output embedding that belong to some tokens: `[tokens, width]`.
    pub(crate) fn unembedding_of(&self, tokens: &[u32]) -> Vec<R> {
        let width = self.config.width;
        let mut rows = vec![R::ZERO; tokens.len() * width];
        for (&token, row) in tokens.iter().zip(rows.chunks_exact_mut(width)) {
            self.unembedding().write_output(token as usize, row);
        }
        rows
    }

    /// The bias of a matrix; empty without one.
    pub(crate) fn bias(&self, layer: usize, kind: BlockKind) -> &[R] {
        &self.layers[layer].linear(kind).bias
    }
}

impl Network<f32> {
    /// The parameters that it was made of, dequantised.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{Config, Error, Network, Parameters};
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// let config = Config::from_json(json)?;
    /// let mut parameters = Parameters::zeros(&config)?;
    /// parameters.layers[0].mlp_up.weight[5] = 1.0;
    /// let model: Network = Network::new(&config, parameters.clone())?;
    /// assert_eq!(model.parameters(), parameters);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        Parameters {
            token_embedding: self.token_embedding.numbers(WeightOrder::OutputsFirst),
            position_embedding: self.position_embedding.to_vec(),
            layers: self.layers.iter().map(|layer| layer.plain(self.config.order())).collect(),
            final_norm: plain_norm(&self.final_norm),
            unembedding: self
                .unembedding
                .as_ref()
                .map(|own| own.numbers(WeightOrder::OutputsFirst)),
        }
    }
}

impl LayerWeights<f32> {
    fn plain(&self, order: WeightOrder) -> Layer {
        let copy = |linear: &Linear<f32>| parameters::Linear {
            weight: linear.weight.numbers(order),
            bias: linear.bias.clone(),
        };
        let whole = |kind: BlockKind| copy(self.linear(kind));
        Layer {
            attention_norm: plain_norm(&self.attention_norm),
            query: whole(BlockKind::Query),
            key: whole(BlockKind::Key),
            value: whole(BlockKind::Value),
            output: whole(BlockKind::Output),
            mlp_norm: plain_norm(&self.mlp_norm),
            mlp_gate: self.matrices[BlockKind::MlpGate as usize].as_ref().map(copy),
            mlp_up: whole(BlockKind::MlpUp),
            mlp_down: whole(BlockKind::MlpDown),
        }
    }
}

fn plain_norm(norm: &NormWeights<f32>) -> Norm {
    Norm { scale: norm.scale.clone(), shift: norm.shift.clone() }
}

impl<R: Real> LayerWeights<R> {
    fn new(layer: Layer, config: &Config) -> Self {
        let linear = |kind: BlockKind, linear: parameters::Linear| {
            let weight = R::of_weights(linear.weight);
            let (inputs, outputs) = config.shape(kind);
            Linear {
                weight: Matrix::new(weight, inputs, outputs, config.order()),
                bias: R::of_weights(linear.bias),
            }
        };
        let matrices = [
            Some(linear(BlockKind::Value, layer.value)),
            Some(linear(BlockKind::Output, layer.output)),
            Some(linear(BlockKind::Query, layer.query)),
            Some(linear(BlockKind::Key, layer.key)),
            Some(linear(BlockKind::MlpUp, layer.mlp_up)),
            Some(linear(BlockKind::MlpDown, layer.mlp_down)),
            layer.mlp_gate.map(|gate| linear(BlockKind::MlpGate, gate)),
        ];
        Self {
            attention_norm: norm(layer.attention_norm),
            mlp_norm: norm(layer.mlp_norm),
            matrices,
        }
    }

    fn quantised(tensors: &QuantisedTensors<'_>, layer: usize) -> Result<Self, Error> {
        let mut matrices = [const { None }; KINDS];
        for kind in BlockKind::MATRICES.into_iter().filter(|&kind| tensors.config.has(kind)) {
            let (weight, bias) = tensors.linear(layer, kind)?;
            let (weight, bias) = (Matrix::quantised(weight), R::of_weights(bias));
            matrices[kind as usize] = Some(Linear { weight, bias });
        }
        let [attention, mlp] = tensors.norms(layer)?;
        Ok(Self { attention_norm: norm(attention), mlp_norm: norm(mlp), matrices })
    }

    pub(crate) fn linear(&self, kind: BlockKind) -> &Linear<R> {
        let linear = self.matrices[kind as usize].as_ref();
        linear.expect("only matrices that the configuration has are asked for")
    }
}

fn norm<R: Real>(norm: Norm) -> NormWeights<R> {
    NormWeights { scale: R::of_weights(norm.scale), shift: R::of_weights(norm.shift) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_with_other_low_rank_updates_share_their_weights() {
        let config = Config::from_json(
            br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 4, "n_ctx": 3,
                 "vocab_size": 5}"#,
        )
        .unwrap();
        let model: Network =
            Network::new(&config, Parameters::zeros(&config).unwrap()).unwrap();
        let other = model.clone().with_lora(Lora { rank: 2, ..Lora::default() }).unwrap();
        assert!(Arc::ptr_eq(&model.layers, &other.layers));
        assert!(Arc::ptr_eq(&model.token_embedding, &other.token_embedding));
        assert_ne!(model.lora(), other.lora());
    }
}

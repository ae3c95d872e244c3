//! The kernel as a product: `Kv` from the factors, with neither kernel nor derivatives in memory.
//!
//! In: a [`Network`], a [`TokenTask`] and blocks. Out: [`KernelOperator`], whose size and products are
//! all that `fewstep_theory`'s matrix-free solvers ask for. One product costs as much as the gradient of the blocks, twice.

use crate::blocks::BlockId;
use crate::error::Error;
use crate::network::Network;
use crate::ops::{View, ViewMut, Write, dot, product};
use crate::passes::PassCount;
use crate::real::Real;
use crate::tape::{Tape, write_gradient};
use crate::token_task::TokenTask;

/// The kernel of all chosen blocks together, known by its products alone.
///
/// ```text
/// Kv = J (Jᵀv),   Jᵀv = Σ_t v_t a_t b_tᵀ,   (Jθ)_i = Σ_t a_itᵀ θ b_it
/// ```
///
/// # Examples
///
/// See [`KernelOperator::new`].
#[derive(Debug)]
pub struct KernelOperator<R: Real = f32> {
    tape: Tape<R>,
    examples: usize,
    residuals: Vec<f64>,
}

impl<R: Real> KernelOperator<R> {
    /// Runs one forward and one backward pass and keeps the factors.
    ///
    /// # Errors
    ///
    /// As [`observe`](crate::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelOperator, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let kernel = KernelOperator::new(&model, &task, &blocks)?;
    /// let mut product = [1.0, 1.0];
    /// kernel.apply(&[1.0, 2.0], &mut product);
    /// assert_eq!(product, [0.0, 0.0]); // without weights no prediction changes
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new(
        model: &Network<R>,
        task: &TokenTask,
        blocks: &[BlockId],
    ) -> Result<Self, Error> {
        let (tape, predictions) = Tape::separate(model, task, blocks)?.differentiated()?;
        let residuals = task.residuals(&predictions);
        Ok(Self { tape, examples: task.examples(), residuals })
    }

    /// `r`: the leave-one-out residuals.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelOperator, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// assert_eq!(KernelOperator::new(&model, &task, &blocks)?.residuals(), [0.5, -0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn residuals(&self) -> &[f64] {
        &self.residuals
    }

    /// What it cost to make; products cost no further pass.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelOperator, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// assert_eq!(KernelOperator::new(&model, &task, &blocks)?.passes().backward, 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn passes(&self) -> PassCount {
        self.tape.passes()
    }

    /// `k_x` and `κ_x`: the coupling to the query and the query variance, by one product.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelOperator, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// let (coupling, variance) = KernelOperator::new(&model, &task, &blocks)?.query();
    /// assert_eq!((coupling, variance), (vec![0.0, 0.0], 0.0));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn query(&self) -> (Vec<f64>, f64) {
        let mut unit = vec![0.0; self.examples + 1];
        unit[self.examples] = 1.0;
        let mut coupling = self.multiply(&unit);
        let variance = coupling.pop().expect("the query is the last sequence");
        (coupling, variance)
    }

    /// The product with a vector over the examples and the query.
    fn multiply(&self, vector: &[f64]) -> Vec<f64> {
        let mut result = vec![0.0; vector.len()];
        let (mut weighted, mut theta, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        self.tape.for_each_factor(|index, inputs, outputs| {
            let block = &self.tape.blocks()[index];
            let ranges = self.tape.ranges(block.layer(), block.kind());
            let ((rows, width), columns) = (inputs.shape(), outputs.shape().1);
            weighted.clear();
            for (range, &weight) in ranges.iter().zip(vector) {
                let weight = R::of(weight);
                for row in range.clone() {
                    weighted.extend(outputs.row(row).iter().map(|&value| weight * value));
                }
            }
            theta.resize(width * columns, R::ZERO);
            write_gradient(inputs, View::new(&weighted, rows, columns), &mut theta);
            moved.resize(rows * columns, R::ZERO);
            let target = ViewMut::new(&mut moved, rows, columns);
            product(Write::Over, target, inputs, View::new(&theta, width, columns), R::ONE);
            let moved = View::new(&moved, rows, columns);
            for (range, result) in ranges.iter().zip(&mut result) {
                let terms = range.clone().map(|row| dot(moved.row(row), outputs.row(row)));
                *result += terms.map(R::wide).sum::<f64>();
            }
        });
        result
    }

    /// `n`: the number of examples, and of the kernel's rows and columns.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_engine::{
    /// #     Config, Error, Labels, Network, Parameters, TokenTask, KernelOperator, choose_blocks
    /// # };
    /// # let json = br#"{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 2,
    /// #                 "n_ctx": 3, "vocab_size": 5}"#;
    /// # let config = Config::from_json(json)?;
    /// # let model: Network = Network::new(&config, Parameters::zeros(&config)?)?;
    /// # let labels = Labels::new(vec![3, 4], vec![0.0, 1.0])?;
    /// # let prompts = vec![vec![0, 1], vec![0, 2]];
    /// # let task = TokenTask::new(prompts, vec![0, 1, 2], labels, vec![1.0, 0.0])?;
    /// # let blocks = choose_blocks("value@all", &config)?;
    /// assert_eq!(KernelOperator::new(&model, &task, &blocks)?.size(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn size(&self) -> usize {
        self.examples
    }

    /// Writes `Kv` to `result`.
    ///
    /// # Panics
    ///
    /// Unless `vector` and `result` have one entry per example.
    ///
    /// # Examples
    ///
    /// See [`KernelOperator::new`].
    pub fn apply(&self, vector: &[f64], result: &mut [f64]) {
        let mut whole = vector.to_vec();
        whole.push(0.0);
        result.copy_from_slice(&self.multiply(&whole)[..self.examples]);
    }
}

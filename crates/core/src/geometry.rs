//! What a prompt looks like to an update: the only thing that observing a model must deliver.
//!
//! Answers "what can an update change" (Sec. 3, App. F.3, App. H). Out: [`Geometry`], the leave-one-out
//! residuals and, per candidate [`Block`] of weights, its kernel, its coupling to the query and
//! its query variance. All three add over blocks. Nothing here chooses.

use crate::answers::Answers;
use crate::checks::{
    check_finite, check_not_negative, check_positive, check_size, check_vector,
};
use crate::error::Error;
use crate::linalg;
use crate::matrix::{IntoMatrix, Matrix};
use crate::vectors::{dot, squared_norm};

/// How a block couples the query to the examples, and how far it can change the query's prediction.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error};
///
/// let block = Block::from_features("value.0.0", &[vec![1.0, 2.0]], Some(&[3.0, 1.0]))?;
/// let query = block.query().expect("query features were given");
/// assert_eq!((query.coupling[0], query.variance), (5.0, 10.0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct QueryCoupling {
    /// Inner products of the query's features with each example's, `k_x = Φ φ(x)`.
    pub coupling: Vec<f64>,
    /// Squared length of the query's features, `κ_x = ‖φ(x)‖²`.
    pub variance: f64,
}

/// One group of weights that may be updated, as it appears in prompt space.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error};
///
/// let block = Block::new("value.5.3", &[vec![2.0, 1.0], vec![1.0, 2.0]])?
///     .with_query(vec![1.0, 0.0], 1.0)?;
/// assert_eq!(block.name(), "value.5.3");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    name: String,
    id: Option<u64>,
    layer: Option<usize>,
    kernel: Matrix,
    query: Option<QueryCoupling>,
    parameters: Option<usize>,
}

/// The two factors of one sequence's Jacobian in a linear layer `y = W x`: what went in at each
/// token, and how the output reacts to what comes out there.
///
/// ```text
/// ∂s/∂W = Σ_t b_t a_tᵀ                                     (Lem. H.1, summed over tokens)
/// ```
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Factors, Matrix};
///
/// let inputs = Matrix::from_rows(&[vec![1.0, 2.0]])?;
/// let adjoints = Matrix::from_rows(&[vec![3.0]])?;
/// let factors = Factors::new(inputs, adjoints)?;
/// assert_eq!(factors.tokens(), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    inputs: Matrix,
    adjoints: Matrix,
}

impl Factors {
    /// Factors from the layer's inputs `a_t` and the adjoints `b_t` of its outputs, one row per
    /// token each.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless both have one row per token.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Factors, Matrix};
    ///
    /// assert!(Factors::new(Matrix::zeros(2, 4), Matrix::zeros(3, 4)).is_err());
    /// ```
    pub fn new(inputs: Matrix, adjoints: Matrix) -> Result<Self, Error> {
        check_size("adjoints", adjoints.rows(), inputs.rows())?;
        Ok(Self { inputs, adjoints })
    }

    /// Number of tokens.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Error, Factors, Matrix};
    /// assert_eq!(Factors::new(Matrix::zeros(2, 4), Matrix::zeros(2, 3))?.tokens(), 2);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.inputs.rows()
    }

    /// `Σ_{t,t'} (a_t · a'_t') (b_t · b'_t')`: the inner product of two Jacobians, which are
    /// never formed.
    fn inner(&self, other: &Self) -> f64 {
        let inputs = linalg::product_transposed(&self.inputs, &other.inputs);
        let adjoints = linalg::product_transposed(&self.adjoints, &other.adjoints);
        dot(inputs.values(), adjoints.values())
    }
}

impl Block {
    /// A block from its kernel: a [`Matrix`] or its rows.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::SizeMismatch`] or [`Error::NotFinite`] unless it is a square
    /// matrix of finite numbers. Symmetry and definiteness are checked where it is decomposed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fewstep_core::Block::new("wide", &[vec![1.0, 2.0]]).is_err());
    /// ```
    pub fn new(name: impl Into<String>, kernel: impl IntoMatrix) -> Result<Self, Error> {
        let kernel = kernel.into_matrix()?;
        if kernel.rows() == 0 {
            return Err(Error::Empty { quantity: "kernel" });
        }
        check_size("kernel row", kernel.columns(), kernel.rows())?;
        let name = name.into();
        Ok(Self { name, id: None, layer: None, kernel, query: None, parameters: None })
    }

    /// The same block with its coupling `k_x` to a query and the query variance `κ_x`.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`], [`Error::NotFinite`] or [`Error::OutOfRange`] for numbers that do
    /// not fit, and [`Error::CouplingTooLarge`] if no features can have this kernel and this
    /// coupling (`k_x,i² ≤ K_ii κ_x` fails by more than rounding).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// let block = Block::new("value.0.0", &[vec![1.0]])?;
    /// assert!(matches!(
    ///     block.with_query(vec![2.0], 1.0),
    ///     Err(Error::CouplingTooLarge { example: 0, .. })
    /// ));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_query(mut self, coupling: Vec<f64>, variance: f64) -> Result<Self, Error> {
        check_vector("coupling", &coupling, self.examples())?;
        check_not_negative("query variance", variance)?;
        let largest =
            (0..self.examples()).fold(0.0_f64, |most, i| most.max(self.kernel[(i, i)]));
        // Each of the three may carry single-precision rounding of its own scale.
        let rounding = 1e-5 * largest * variance;
        for (example, &value) in coupling.iter().enumerate() {
            let limit = self.kernel[(example, example)].max(0.0) * variance;
            if value * value > limit + rounding {
                return Err(Error::CouplingTooLarge { example, coupling: value, limit });
            }
        }
        self.query = Some(QueryCoupling { coupling, variance });
        Ok(self)
    }

    /// The same block in a layer, which the selection `depth` counts by.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// let block = Block::new("mlp-up.5", &[vec![1.0]])?.in_layer(5);
    /// assert_eq!(block.layer(), Some(5));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn in_layer(mut self, layer: usize) -> Self {
        self.layer = Some(layer);
        self
    }

    /// The same block with a number by which its owner finds it again in a decision.
    ///
    /// # Examples
    ///
    /// See [`Block::id`].
    #[must_use]
    pub fn with_id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// The same block with its number of weights, for scores per weight.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// let block = Block::new("value.0.0", &[vec![1.0]])?.with_parameters(64);
    /// assert_eq!(block.parameters(), Some(64));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn with_parameters(mut self, parameters: usize) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// A block from explicit Jacobian features, one row per example, and those of the query.
    ///
    /// ```text
    /// K = ΦΦᵀ     k_x = Φ φ(x)     κ_x = ‖φ(x)‖²                                       (Sec. 3)
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::SizeMismatch`] or [`Error::NotFinite`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// let block = Block::from_features("value.0.0", &[vec![1.0, 0.0], vec![1.0, 1.0]], None)?;
    /// assert_eq!(block.kernel().to_rows(), [[1.0, 1.0], [1.0, 2.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_features(
        name: impl Into<String>,
        features: impl IntoMatrix,
        query_features: Option<&[f64]>,
    ) -> Result<Self, Error> {
        let features = features.into_matrix()?;
        let mut block = Self::new(name, linalg::gram(&features))?;
        block.parameters = Some(features.columns());
        if let Some(query) = query_features {
            check_vector("query features", query, features.columns())?;
            let (coupling, variance) = (features.multiply(query)?, squared_norm(query));
            block.query = Some(QueryCoupling { coupling, variance });
        }
        Ok(block)
    }

    /// A block from features, with a prior covariance of its weights' corrections.
    ///
    /// ```text
    /// K̃ = ΦΣΦᵀ     k̃_x = ΦΣ φ(x)     κ̃_x = φ(x)ᵀΣ φ(x)              (Prop. F.10, Thm. F.11)
    /// ```
    ///
    /// `Σ` is the covariance of the weights' corrections, and at the same time the
    /// preconditioner that makes gradient steps respect it.
    ///
    /// # Errors
    ///
    /// As [`Block::from_features`], and [`Error::NotSymmetric`] or
    /// [`Error::NotPositiveSemidefinite`] unless `Σ` is a covariance.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Matrix};
    /// let prior = Matrix::from_rows(&[vec![4.0, 0.0], vec![0.0, 1.0]])?;
    /// let block = Block::from_prior("value.0.0", &[vec![1.0, 1.0]], &prior, None)?;
    /// assert_eq!(block.kernel()[(0, 0)], 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_prior(
        name: impl Into<String>,
        features: impl IntoMatrix,
        prior: &Matrix,
        query_features: Option<&[f64]>,
    ) -> Result<Self, Error> {
        let features = features.into_matrix()?;
        check_size("prior covariance", prior.rows(), features.columns())?;
        // Φ Σ^(1/2) are features of an isotropic block with the same kernel.
        let spectrum = crate::spectrum::Spectrum::of(prior)?;
        let root = |vector: &[f64]| -> Vec<f64> {
            let mut amounts = spectrum.amounts(vector);
            for (amount, eigenvalue) in amounts.iter_mut().zip(spectrum.eigenvalues()) {
                *amount *= eigenvalue.sqrt();
            }
            amounts
        };
        let whitened: Vec<f64> =
            (0..features.rows()).flat_map(|row| root(features.row(row))).collect();
        let whitened = Matrix::new(features.rows(), features.columns(), whitened)?;
        match query_features {
            None => Self::from_features(name, whitened, None),
            Some(query) => {
                check_vector("query features", query, features.columns())?;
                Self::from_features(name, whitened, Some(&root(query)))
            }
        }
    }

    /// A block from the factors of each example's Jacobian in one linear layer, and of the
    /// query's.
    ///
    /// ```text
    /// K_ij = Σ_{t,t'} (a_it · a_jt') (b_it · b_jt')                        (Sec. 3.3, Lem. H.1)
    /// ```
    ///
    /// With one token per example this is the paper's Hadamard form `(MMᵀ) ∘ (BBᵀ)`.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples, [`Error::SizeMismatch`] if the layer's widths differ
    /// between examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Factors, Matrix};
    /// let row = |values: &[f64]| Matrix::new(1, values.len(), values.to_vec());
    /// let first = Factors::new(row(&[1.0, 2.0])?, row(&[3.0])?)?;
    /// let second = Factors::new(row(&[0.0, 1.0])?, row(&[-1.0])?)?;
    /// let block = Block::from_factors("value.0.0", &[first, second], None)?;
    /// assert_eq!(block.kernel().to_rows(), [[45.0, -6.0], [-6.0, 1.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_factors(
        name: impl Into<String>,
        examples: &[Factors],
        query: Option<&Factors>,
    ) -> Result<Self, Error> {
        let Some(first) = examples.first() else {
            return Err(Error::Empty { quantity: "examples" });
        };
        for factors in examples.iter().chain(query) {
            check_size("inputs", factors.inputs.columns(), first.inputs.columns())?;
            check_size("adjoints", factors.adjoints.columns(), first.adjoints.columns())?;
        }
        let n = examples.len();
        let lower: Vec<Vec<f64>> = (0..n)
            .map(|i| (0..=i).map(|j| examples[i].inner(&examples[j])).collect())
            .collect();
        let kernel = Matrix::from_fn(n, n, |i, j| lower[i.max(j)][i.min(j)]);
        check_finite("kernel", kernel.values())?;
        let mut block = Self::new(name, kernel)?
            .with_parameters(first.inputs.columns() * first.adjoints.columns());
        if let Some(query) = query {
            let coupling: Vec<f64> =
                examples.iter().map(|example| example.inner(query)).collect();
            let variance = query.inner(query);
            check_vector("coupling", &coupling, n)?;
            check_not_negative("query variance", variance)?;
            block.query = Some(QueryCoupling { coupling, variance });
        }
        Ok(block)
    }

    /// A block that changes every prediction by the same amount: `K = 11ᵀ`, `k_x = 1`, `κ_x = 1`.
    ///
    /// Beside the real blocks it accounts for a constant bias of the base predictor.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for no examples.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(2)?.kernel().to_rows(), [[1.0, 1.0], [1.0, 1.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn intercept(examples: usize) -> Result<Self, Error> {
        Self::from_features("intercept", Matrix::from_fn(examples, 1, |_, _| 1.0), Some(&[1.0]))
    }

    /// The layer that the block belongs to, if it was [given](Block::in_layer).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(1)?.layer(), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn layer(&self) -> Option<usize> {
        self.layer
    }

    /// The caller's own number for the block, if it was [given](Block::with_id).
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(1)?.with_id(7).id(), Some(7));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The block's name, such as `value.5.3`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(1)?.name(), "intercept");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `K^(b)`: the block's kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(1)?.kernel()[(0, 0)], 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn kernel(&self) -> &Matrix {
        &self.kernel
    }

    /// `k_x^(b)` and `κ_x^(b)`, if there is a query.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::new("value.0.0", &[vec![1.0]])?.query(), None);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn query(&self) -> Option<&QueryCoupling> {
        self.query.as_ref()
    }

    /// Number of weights in the block, if it is known.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(3)?.parameters(), Some(1));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn parameters(&self) -> Option<usize> {
        self.parameters
    }

    /// Number of prompt examples, `n`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error};
    /// assert_eq!(Block::intercept(3)?.examples(), 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn examples(&self) -> usize {
        self.kernel.rows()
    }
}

/// Everything about a prompt that a decision needs.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Block, Error, Geometry};
///
/// let first = Block::from_features("value.0.0", &[vec![1.0], vec![2.0]], Some(&[1.0]))?;
/// let second = Block::from_features("value.0.1", &[vec![1.0], vec![0.0]], Some(&[3.0]))?;
/// let geometry = Geometry::new(vec![0.3, -0.1], vec![first, second])?;
///
/// let total = geometry.total();
/// assert_eq!(total.kernel().to_rows(), [[2.0, 2.0], [2.0, 4.0]]);
/// assert_eq!(total.query().expect("both blocks have one").coupling, [4.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    residuals: Vec<f64>,
    blocks: Vec<Block>,
    answers: Option<Answers>,
}

impl Geometry {
    /// A geometry from leave-one-out residuals and candidate blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] without examples or blocks, [`Error::SizeMismatch`] if a block was
    /// observed on another number of examples, [`Error::NotFinite`] for bad residuals,
    /// [`Error::DuplicateBlock`] for a repeated name, and [`Error::NoQuery`] if only some blocks
    /// have a query.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Error, Geometry};
    ///
    /// let refused = Geometry::new(vec![0.1], vec![]);
    /// assert_eq!(refused, Err(Error::Empty { quantity: "candidate blocks" }));
    /// ```
    pub fn new(residuals: Vec<f64>, blocks: Vec<Block>) -> Result<Self, Error> {
        if residuals.is_empty() {
            return Err(Error::Empty { quantity: "prompt" });
        }
        check_finite("residuals", &residuals)?;
        let Some(first) = blocks.first() else {
            return Err(Error::Empty { quantity: "candidate blocks" });
        };
        let mut names: Vec<&str> = Vec::with_capacity(blocks.len());
        for block in &blocks {
            check_size("kernel", block.examples(), residuals.len())?;
            if block.query.is_some() != first.query.is_some() {
                return Err(Error::NoQuery {
                    quantity: "a geometry in which another block has a query",
                });
            }
            names.push(&block.name);
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::DuplicateBlock { name: pair[0].to_owned() });
        }
        Ok(Self { residuals, blocks, answers: None })
    }

    /// The same with what is known of the examples' answers, for rules by leave-one-out error.
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless the number of examples is the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::{Answers, Block, Error, Geometry};
    ///
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// let answers = Answers::new(vec![1], &[0.7], [0.0, 1.0])?;
    /// assert_eq!(geometry.with_answers(answers.clone())?.answers(), Some(&answers));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_answers(mut self, answers: Answers) -> Result<Self, Error> {
        check_size("answers", answers.labels().len(), self.examples())?;
        self.answers = Some(answers);
        Ok(self)
    }

    /// What is known of the examples' answers, if it was given.
    ///
    /// # Examples
    ///
    /// See [`Geometry::with_answers`].
    #[must_use]
    pub fn answers(&self) -> Option<&Answers> {
        self.answers.as_ref()
    }

    /// `r`: each example's label minus its leave-one-out prediction.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// assert_eq!(geometry.residuals(), [0.3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn residuals(&self) -> &[f64] {
        &self.residuals
    }

    /// The candidate blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// assert_eq!(geometry.blocks().len(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Number of prompt examples, `n`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// assert_eq!(Geometry::new(vec![0.3], vec![Block::intercept(1)?])?.examples(), 1);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn examples(&self) -> usize {
        self.residuals.len()
    }

    /// `K = Σ_b K^(b)`, with coupling and query variance, over the chosen blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for no block, [`Error::BadBlock`] for one that does not exist or is
    /// named twice.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// assert_eq!(geometry.sum(&[0])?.kernel()[(0, 0)], 1.0);
    /// assert_eq!(geometry.sum(&[0, 0]), Err(Error::BadBlock { index: 0, blocks: 1 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn sum(&self, chosen: &[usize]) -> Result<Block, Error> {
        if chosen.is_empty() {
            return Err(Error::Empty { quantity: "choice of blocks" });
        }
        let mut seen = vec![false; self.blocks.len()];
        for &index in chosen {
            match seen.get_mut(index) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(Error::BadBlock { index, blocks: self.blocks.len() }),
            }
        }
        Ok(add(chosen.iter().map(|&index| (1.0, &self.blocks[index]))))
    }

    /// `K_full`, with coupling and query variance: the sum over all candidate blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// assert_eq!(geometry.total().kernel()[(0, 0)], 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn total(&self) -> Block {
        add(self.blocks.iter().map(|block| (1.0, block)))
    }

    /// The same prompt with a prior variance for each block, by which its steps are scaled:
    /// `K^(b) → s_b K^(b)` (Thm. F.11 with `Σ` constant on each block).
    ///
    /// # Errors
    ///
    /// [`Error::SizeMismatch`] unless there is one variance per block, [`Error::OutOfRange`]
    /// unless all are finite and over 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fewstep_core::{Block, Error, Geometry};
    /// let geometry = Geometry::new(vec![0.3], vec![Block::intercept(1)?])?;
    /// assert_eq!(geometry.precondition(&[2.0])?.total().kernel()[(0, 0)], 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn precondition(&self, variances: &[f64]) -> Result<Self, Error> {
        check_size("block variances", variances.len(), self.blocks.len())?;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (&variance, block) in variances.iter().zip(&self.blocks) {
            check_positive("block variance", variance)?;
            let scaled = add(std::iter::once((variance, block)));
            blocks.push(Block {
                name: block.name.clone(),
                id: block.id,
                layer: block.layer,
                parameters: block.parameters,
                ..scaled
            });
        }
        Ok(Self { answers: self.answers.clone(), ..Self::new(self.residuals.clone(), blocks)? })
    }
}

/// A weighted sum of blocks.
fn add<'a>(parts: impl Iterator<Item = (f64, &'a Block)>) -> Block {
    let mut sum: Option<Block> = None;
    for (weight, block) in parts {
        let sum = sum.get_or_insert_with(|| Block {
            name: "sum".to_owned(),
            id: None,
            layer: None,
            kernel: Matrix::zeros(block.examples(), block.examples()),
            query: block.query.as_ref().map(|query| QueryCoupling {
                coupling: vec![0.0; query.coupling.len()],
                variance: 0.0,
            }),
            parameters: Some(0),
        });
        sum.kernel.add_scaled(weight, &block.kernel);
        if let (Some(total), Some(part)) = (&mut sum.query, &block.query) {
            crate::vectors::add_scaled(&mut total.coupling, weight, &part.coupling);
            total.variance += weight * part.variance;
        }
        sum.parameters = sum.parameters.zip(block.parameters).map(|(a, b)| a + b);
    }
    sum.expect("callers pass at least one block")
}

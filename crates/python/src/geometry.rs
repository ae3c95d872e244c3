//! Blocks of weights and the geometry of a prompt, from arrays.

use crate::arrays::{array, matrix, numbers, table, type_name};
use crate::errors::{OrRaise, named};
use crate::leave_one_out::Answers;
use fewstep_core::{self as core, Factors};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyType};

/// One group of weights that may be updated, as it appears in prompt space.
///
/// `kernel` says how the block couples the examples, `coupling` how it ties the query to them and
/// `query_variance` how far it can move the query; the last two are given together or not at all.
/// Symmetry and definiteness are checked where the kernel is decomposed. `layer` is the layer that
/// its weights are in, counted from 0, which the selection "depth" looks at; a block without one is
/// in every set of layers.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Block(pub(crate) core::Block);

/// A block from its parts.
pub(crate) fn block(
    name: &str,
    kernel: &Bound<'_, PyAny>,
    coupling: Option<&Bound<'_, PyAny>>,
    query_variance: Option<f64>,
) -> PyResult<core::Block> {
    let py = kernel.py();
    let found = core::Block::new(name, matrix(kernel, "kernel")?).or_raise(py)?;
    match (coupling, query_variance) {
        (None, None) => Ok(found),
        (Some(coupling), Some(variance)) => {
            found.with_query(numbers(coupling, "coupling")?, variance).or_raise(py)
        }
        (coupling, _) => {
            let (given, missing) = match coupling {
                Some(_) => ("coupling", "query_variance"),
                None => ("query_variance", "coupling"),
            };
            let message =
                format!("{given} is given without {missing}; a query needs both, or neither");
            Err(named(py, "WrongType", message))
        }
    }
}

/// A block in the layer that was given for it.
fn placed(block: core::Block, layer: Option<usize>) -> Block {
    Block(match layer {
        Some(layer) => block.in_layer(layer),
        None => block,
    })
}

#[pymethods]
impl Block {
    #[new]
    #[pyo3(
        signature = (name, kernel, coupling=None, query_variance=None, parameters=None, layer=None)
    )]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn new(
        name: &str,
        kernel: &Bound<'_, PyAny>,
        coupling: Option<&Bound<'_, PyAny>>,
        query_variance: Option<f64>,
        parameters: Option<usize>,
        layer: Option<usize>,
    ) -> PyResult<Self> {
        let found = block(name, kernel, coupling, query_variance)?;
        let found = match parameters {
            Some(parameters) => found.with_parameters(parameters),
            None => found,
        };
        Ok(placed(found, layer))
    }

    /// A block from the gradient of each prediction with respect to its weights, one row per
    /// example, and that of the query.
    #[classmethod]
    #[pyo3(signature = (name, features, query=None, layer=None))]
    fn from_features(
        class: &Bound<'_, PyType>,
        name: &str,
        features: &Bound<'_, PyAny>,
        query: Option<&Bound<'_, PyAny>>,
        layer: Option<usize>,
    ) -> PyResult<Self> {
        let py = class.py();
        let features = matrix(features, "features")?;
        let query = query.map(|query| numbers(query, "query features")).transpose()?;
        let found = py.detach(|| core::Block::from_features(name, features, query.as_deref()));
        Ok(placed(found.or_raise(py)?, layer))
    }

    /// A block from features whose weights differ in how far they are expected to move.
    ///
    /// `prior` is the covariance of the weights' corrections, and at the same time the
    /// preconditioner that makes gradient steps respect it.
    #[classmethod]
    #[pyo3(signature = (name, features, prior, query=None, layer=None))]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn from_prior(
        class: &Bound<'_, PyType>,
        name: &str,
        features: &Bound<'_, PyAny>,
        prior: &Bound<'_, PyAny>,
        query: Option<&Bound<'_, PyAny>>,
        layer: Option<usize>,
    ) -> PyResult<Self> {
        let py = class.py();
        let (features, prior) = (matrix(features, "features")?, matrix(prior, "prior")?);
        let query = query.map(|query| numbers(query, "query features")).transpose()?;
        let found =
            py.detach(|| core::Block::from_prior(name, features, &prior, query.as_deref()));
        Ok(placed(found.or_raise(py)?, layer))
    }

    /// A block from the two factors of each example's Jacobian in one linear layer.
    ///
    /// `examples` are pairs of matrices with one row per token: what went into the layer, and how
    /// the prediction reacts to what comes out. `query` is such a pair, too.
    #[classmethod]
    #[pyo3(signature = (name, examples, query=None, layer=None))]
    fn from_factors(
        class: &Bound<'_, PyType>,
        name: &str,
        examples: &Bound<'_, PyAny>,
        query: Option<&Bound<'_, PyAny>>,
        layer: Option<usize>,
    ) -> PyResult<Self> {
        let py = class.py();
        let examples =
            examples.try_iter()?.map(|pair| factors(&pair?)).collect::<PyResult<Vec<_>>>()?;
        let query = query.map(factors).transpose()?;
        let found = py.detach(|| core::Block::from_factors(name, &examples, query.as_ref()));
        Ok(placed(found.or_raise(py)?, layer))
    }

    /// A block that changes every prediction by the same amount.
    ///
    /// Beside the real blocks it lets a constant bias of the model be explained as what it is.
    #[classmethod]
    fn intercept(class: &Bound<'_, PyType>, examples: usize) -> PyResult<Self> {
        let py = class.py();
        if examples > MOST_EXAMPLES {
            let message = format!("examples is {examples}; it must be at most {MOST_EXAMPLES}");
            return Err(named(py, "OutOfRange", message));
        }
        Ok(Self(core::Block::intercept(examples).or_raise(py)?))
    }

    /// The block's name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The layer that its weights are in, counted from 0, if that was said.
    #[getter]
    fn layer(&self) -> Option<usize> {
        self.0.layer()
    }

    /// The number by which a model that observed it finds it again, if one did.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.0.id()
    }

    /// How the block couples the examples, one row per example.
    #[getter]
    fn kernel<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, self.0.kernel())
    }

    /// How the block ties the query to each example, if there is a query.
    #[getter]
    fn coupling<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.0.query().map(|query| array(py, &query.coupling))
    }

    /// How far the block can move the query, if there is one.
    #[getter]
    fn query_variance(&self) -> Option<f64> {
        self.0.query().map(|query| query.variance)
    }

    /// The number of weights that the block has, if that is known.
    #[getter]
    fn parameters(&self) -> Option<usize> {
        self.0.parameters()
    }

    /// The number of examples that the block was observed on.
    #[getter]
    fn examples(&self) -> usize {
        self.0.examples()
    }

    /// The fields as plain Python values: numbers and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("name", self.0.name())?;
        fields.set_item("layer", self.0.layer())?;
        fields.set_item("id", self.0.id())?;
        fields.set_item("kernel", self.0.kernel().to_rows())?;
        fields.set_item("coupling", self.0.query().map(|query| query.coupling.clone()))?;
        fields.set_item("query_variance", self.query_variance())?;
        fields.set_item("parameters", self.0.parameters())?;
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        let query = if self.0.query().is_some() { "with" } else { "without" };
        format!("Block({:?}, {} examples, {query} a query)", self.0.name(), self.0.examples())
    }
}

/// The kernel of this many examples already takes hundreds of megabytes.
const MOST_EXAMPLES: usize = 10_000;

/// The two factors of one Jacobian.
fn factors(pair: &Bound<'_, PyAny>) -> PyResult<Factors> {
    let (inputs, adjoints): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
    let factors = Factors::new(matrix(&inputs, "inputs")?, matrix(&adjoints, "adjoints")?);
    factors.or_raise(pair.py())
}

/// What maps names to something.
fn mapping<'py>(object: &Bound<'py, PyAny>, quantity: &str) -> PyResult<Bound<'py, PyMapping>> {
    object.cast::<PyMapping>().cloned().map_err(|_| {
        let found = type_name(object);
        let message =
            format!("{quantity} is {found}; a dictionary by names of blocks is needed");
        named(object.py(), "WrongType", message)
    })
}

/// Refuses queries of blocks that are not there; what has none is refused by core.
fn check_names(blocks: &Bound<'_, PyMapping>, queries: &Bound<'_, PyMapping>) -> PyResult<()> {
    for name in queries.keys()?.iter() {
        if !blocks.contains(&name)? {
            let message = format!("queries has {}, which is no block", name.repr()?);
            return Err(named(name.py(), "UnknownName", message));
        }
    }
    Ok(())
}

/// Everything about a prompt that a decision needs: for each example the residual that the model
/// leaves when the example is held out, and the blocks of weights that may be updated.
///
/// Either all blocks have a query or none has; their names differ. `with_answers` adds what is known
/// of the examples' answers, which rules by leave-one-out errors look at.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Geometry(pub(crate) core::Geometry);

/// The name of the only block of a geometry that was given as one kernel.
const ONLY: &str = "kernel";

/// A geometry with a single block.
pub(crate) fn single(
    kernel: &Bound<'_, PyAny>,
    residuals: &Bound<'_, PyAny>,
    coupling: Option<&Bound<'_, PyAny>>,
    query_variance: Option<f64>,
) -> PyResult<core::Geometry> {
    let residuals = numbers(residuals, "residuals")?;
    let block = block(ONLY, kernel, coupling, query_variance)?;
    core::Geometry::new(residuals, vec![block]).or_raise(kernel.py())
}

#[pymethods]
impl Geometry {
    #[new]
    fn new(residuals: &Bound<'_, PyAny>, blocks: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = residuals.py();
        let residuals = numbers(residuals, "residuals")?;
        let mut found = Vec::new();
        for block in blocks.try_iter()? {
            found.push(block?.cast::<Block>()?.get().0.clone());
        }
        Ok(Self(core::Geometry::new(residuals, found).or_raise(py)?))
    }

    /// A geometry with one block, named "kernel".
    #[classmethod]
    #[pyo3(signature = (kernel, residuals, coupling=None, query_variance=None))]
    fn from_kernel(
        _class: &Bound<'_, PyType>,
        kernel: &Bound<'_, PyAny>,
        residuals: &Bound<'_, PyAny>,
        coupling: Option<&Bound<'_, PyAny>>,
        query_variance: Option<f64>,
    ) -> PyResult<Self> {
        Ok(Self(single(kernel, residuals, coupling, query_variance)?))
    }

    /// A geometry with one block, named "features", from the gradient of each prediction with
    /// respect to its weights, one row per example, and that of the query.
    #[classmethod]
    #[pyo3(signature = (features, residuals, query=None))]
    fn from_features(
        class: &Bound<'_, PyType>,
        features: &Bound<'_, PyAny>,
        residuals: &Bound<'_, PyAny>,
        query: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let residuals = numbers(residuals, "residuals")?;
        let block = Block::from_features(class, "features", features, query, None)?;
        Ok(Self(core::Geometry::new(residuals, vec![block.0]).or_raise(class.py())?))
    }

    /// A geometry whose blocks are linear layers, from the two factors of each example's Jacobian.
    ///
    /// `blocks` maps the name of each block to its pairs `(inputs, adjoints)`, one per example, and
    /// `queries`, if given, maps each name to the query's pair; see `Block.from_factors`.
    #[classmethod]
    #[pyo3(signature = (blocks, residuals, queries=None))]
    fn from_factors(
        class: &Bound<'_, PyType>,
        blocks: &Bound<'_, PyAny>,
        residuals: &Bound<'_, PyAny>,
        queries: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = class.py();
        let residuals = numbers(residuals, "residuals")?;
        let (blocks, queries) = (
            mapping(blocks, "blocks")?,
            queries.map(|all| mapping(all, "queries")).transpose()?,
        );
        if let Some(queries) = &queries {
            check_names(&blocks, queries)?;
        }
        let mut found = Vec::new();
        for entry in blocks.items()?.iter() {
            let (name, examples): (String, Bound<'_, PyAny>) = entry.extract()?;
            let query = match &queries {
                Some(queries) if queries.contains(&name)? => Some(queries.get_item(&name)?),
                _ => None,
            };
            found.push(Block::from_factors(class, &name, &examples, query.as_ref(), None)?.0);
        }
        Ok(Self(core::Geometry::new(residuals, found).or_raise(py)?))
    }

    /// Each example's label minus the prediction made for it when it is held out.
    #[getter]
    fn residuals<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, self.0.residuals())
    }

    /// The candidate blocks.
    #[getter]
    fn blocks(&self) -> Vec<Block> {
        self.0.blocks().iter().map(|block| Block(block.clone())).collect()
    }

    /// The number of examples in the prompt.
    #[getter]
    fn examples(&self) -> usize {
        self.0.examples()
    }

    /// What is known of the examples' answers, if it was given.
    #[getter]
    fn answers(&self) -> Option<Answers> {
        self.0.answers().cloned().map(Answers)
    }

    /// The same with what is known of the examples' answers.
    fn with_answers(&self, py: Python<'_>, answers: &Answers) -> PyResult<Self> {
        Ok(Self(self.0.clone().with_answers(answers.0.clone()).or_raise(py)?))
    }

    /// The chosen blocks together, as one block; blocks are named by their positions.
    fn sum(&self, chosen: &Bound<'_, PyAny>) -> PyResult<Block> {
        let py = chosen.py();
        // One more than there are blocks names one of them twice, whatever follows.
        let chosen = chosen
            .try_iter()?
            .take(self.0.blocks().len() + 1)
            .map(|position| position?.extract())
            .collect::<PyResult<Vec<usize>>>()?;
        Ok(Block(py.detach(|| self.0.sum(&chosen)).or_raise(py)?))
    }

    /// All blocks together, as one block.
    fn total(&self, py: Python<'_>) -> Block {
        Block(py.detach(|| self.0.total()))
    }

    /// The same prompt, with each block's weights expected to move (and stepped) by a variance
    /// of its own.
    fn precondition(&self, variances: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = variances.py();
        let variances = numbers(variances, "block variances")?;
        Ok(Self(py.detach(|| self.0.precondition(&variances)).or_raise(py)?))
    }

    /// The fields as plain Python values: numbers, lists, dictionaries.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &["residuals", "blocks", "answers"])
    }

    fn __repr__(&self) -> String {
        let (examples, blocks) = (self.0.examples(), self.0.blocks().len());
        format!("Geometry({examples} examples, {blocks} blocks)")
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Block>()?;
    module.add_class::<Geometry>()
}

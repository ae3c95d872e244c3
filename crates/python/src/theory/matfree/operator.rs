//! Operators: kernels that are known by their products, made in Rust or in Python.

use crate::arrays::{array, matrix, numbers, type_name, vector};
use crate::errors::{OrRaise, named};
use crate::rng::room;
use fewstep_core::Error;
use fewstep_theory::matfree::{self as core, LinearOperator};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};

/// An operator and what it is made of.
struct Node {
    kind: OperatorKind,
    size: usize,
    /// How many operators stand inside each other, and how many there are in all: both are
    /// limited, since products walk through them.
    depth: usize,
    parts: usize,
}

enum OperatorKind {
    Dense(core::DenseKernel),
    Factor(core::FactorKernel),
    Sum(Vec<Arc<Node>>),
    Shifted(Arc<Node>, f64),
    Python(Product),
}

/// A product that Python computes.
struct Product {
    object: Py<PyAny>,
    /// Whether the object is called, not multiplied.
    called: bool,
}

impl Product {
    /// Writes the product with a vector over `result`.
    fn compute(&self, py: Python<'_>, given: &[f64], result: &mut [f64]) -> PyResult<()> {
        let object = self.object.bind(py);
        let given = array(py, given);
        let found = if self.called { object.call1((given,))? } else { object.matmul(given)? };
        let found = vector(&found, QUANTITY)?;
        let values = found.as_slice()?;
        let (found, expected) = (values.len(), result.len());
        if found != expected {
            return Err(Error::SizeMismatch { quantity: QUANTITY, found, expected })
                .or_raise(py);
        }
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            let value = values[index];
            return Err(Error::NotFinite { quantity: QUANTITY, index, value }).or_raise(py);
        }
        result.copy_from_slice(values);
        Ok(())
    }
}

/// What core calls the result of a product, too.
const QUANTITY: &str = "operator product";

/// The first exception that was raised while Rust was at work.
type Failure = Mutex<Option<PyErr>>;

/// A product of Python while a solver runs: after an exception it is no number any more, at which
/// every solver stops.
struct Calling<'a> {
    product: &'a Product,
    size: usize,
    failure: &'a Failure,
}

impl LinearOperator for Calling<'_> {
    fn size(&self) -> usize {
        self.size
    }

    fn apply(&self, vector: &[f64], result: &mut [f64]) {
        let failed = self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !failed {
            let computed = Python::attach(|py| self.product.compute(py, vector, result));
            let Err(error) = computed else { return };
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        result.fill(f64::NAN);
    }
}

/// An operator that core can use.
pub(super) type Running<'a> = Box<dyn LinearOperator + 'a>;

impl Node {
    fn new(kind: OperatorKind, size: usize) -> Self {
        Self { kind, size, depth: 1, parts: 1 }
    }

    /// An operator made of others.
    fn of(py: Python<'_>, kind: OperatorKind, parts: &[Arc<Self>]) -> PyResult<Self> {
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let all = parts.iter().fold(1, |all: usize, part| all.saturating_add(part.parts));
        let limits = [
            ("depth of operators inside each other", depth, 64, "at most 64"),
            ("number of operators in a sum", all, 65_536, "at most 65536"),
        ];
        for (quantity, found, limit, allowed) in limits {
            if found > limit {
                let found = found as f64;
                return Err(Error::OutOfRange { quantity, found, allowed }).or_raise(py);
            }
        }
        let size = parts.first().map_or(0, |part| part.size);
        Ok(Self { kind, size, depth, parts: all })
    }

    /// The operator as core uses it; exceptions of Python go to `failure`.
    fn running<'a>(&'a self, failure: &'a Failure) -> Result<Running<'a>, Error> {
        Ok(match &self.kind {
            OperatorKind::Dense(kernel) => Box::new(kernel),
            OperatorKind::Factor(kernel) => Box::new(kernel),
            OperatorKind::Sum(parts) => {
                Box::new(core::BlockSum::new(all_running(parts, failure)?)?)
            }
            OperatorKind::Shifted(inner, shift) => {
                Box::new(core::Shifted::new(inner.running(failure)?, *shift)?)
            }
            OperatorKind::Python(product) => {
                Box::new(Calling { product, size: self.size, failure })
            }
        })
    }
}

fn all_running<'a>(
    nodes: &'a [Arc<Node>],
    failure: &'a Failure,
) -> Result<Vec<Running<'a>>, Error> {
    nodes.iter().map(|node| node.running(failure)).collect()
}

/// Operators that were given to a function.
pub(super) struct Given(Vec<Arc<Node>>);

impl Given {
    /// One operator, or what can serve as one.
    pub(super) fn one(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(vec![node(object)?]))
    }

    /// Any number of operators.
    pub(super) fn several(objects: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(objects.try_iter()?.map(|object| node(&object?)).collect::<PyResult<_>>()?))
    }

    /// The result of some work with the operators, during which other threads of Python may run.
    ///
    /// An exception that a product raised comes out as it is.
    pub(super) fn solve<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&[Running<'_>]) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let failure = Failure::default();
        let result = py.detach(|| work(&all_running(&self.0, &failure)?));
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => result.or_raise(py),
        }
    }
}

/// The operator that an object is or can serve as.
fn node(object: &Bound<'_, PyAny>) -> PyResult<Arc<Node>> {
    let py = object.py();
    if let Ok(operator) = object.cast::<Operator>() {
        return Ok(Arc::clone(&operator.get().0));
    }
    let array = object.hasattr("__array__")?
        || object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>();
    if array {
        return Ok(Arc::new(dense(object, "operator")?));
    }
    if object.hasattr("__matmul__")? && object.hasattr("shape")? {
        return Ok(Arc::new(product(object, None)?));
    }
    let message = format!(
        "operator is {}; give a kernel, an object with shape and @, or \
         fewstep.matfree.operator(function, size)",
        type_name(object)
    );
    Err(named(py, "WrongType", message))
}

fn dense(kernel: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Node> {
    let py = kernel.py();
    let kernel = matrix(kernel, quantity)?;
    let kernel = py.detach(|| core::DenseKernel::new(kernel)).or_raise(py)?;
    let size = kernel.size();
    Ok(Node::new(OperatorKind::Dense(kernel), size))
}

/// An operator from an object that Python can multiply or call.
fn product(object: &Bound<'_, PyAny>, size: Option<usize>) -> PyResult<Node> {
    let py = object.py();
    let called = !object.hasattr("__matmul__")?;
    if called && !object.is_callable() {
        let message = format!(
            "operator is {}; it must be a function of a vector or have @",
            type_name(object)
        );
        return Err(named(py, "WrongType", message));
    }
    let shape = if called { None } else { object.getattr_opt("shape")? };
    let size = match (shape, size) {
        (Some(shape), wanted) => {
            let (rows, columns): (usize, usize) = shape.extract().map_err(|_| {
                let message = format!("operator has the shape {shape}; (size, size) is needed");
                named(py, "WrongShape", message)
            })?;
            for (found, expected) in [(columns, rows), (wanted.unwrap_or(rows), rows)] {
                if found != expected {
                    let quantity = "operator";
                    return Err(Error::SizeMismatch { quantity, found, expected }).or_raise(py);
                }
            }
            rows
        }
        (None, Some(size)) => size,
        (None, None) => {
            let message = "operator has no shape; give its size, the number of examples";
            return Err(named(py, "WrongType", message.to_owned()));
        }
    };
    room(py, "size of the operator", size)?;
    let object = object.clone().unbind();
    Ok(Node::new(OperatorKind::Python(Product { object, called }), size))
}

/// A symmetric positive semidefinite map on vectors over the examples, known by its products.
///
/// What all operators share; make one with `DenseKernel`, `FactorKernel`, `BlockSum`, `Shifted`
/// or `operator`. `operator @ vector` is `operator.apply(vector)`.
#[pyclass(frozen, subclass, module = "fewstep.theory.matfree")]
pub(super) struct Operator(Arc<Node>);

#[pymethods]
impl Operator {
    /// How many examples there are.
    #[getter]
    fn size(&self) -> usize {
        self.0.size
    }

    /// The size twice, as matrices have it.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.size, self.0.size)
    }

    /// The product with a vector that has one entry per example.
    fn apply<'py>(&self, vector: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let py = vector.py();
        let values = numbers(vector, "vector")?;
        let (found, expected) = (values.len(), self.0.size);
        if found != expected {
            let quantity = "vector";
            return Err(Error::SizeMismatch { quantity, found, expected }).or_raise(py);
        }
        let product = Given(vec![Arc::clone(&self.0)]).solve(py, |operators| {
            let mut product = vec![0.0; values.len()];
            operators[0].apply(&values, &mut product);
            Ok(product)
        })?;
        Ok(array(py, &product))
    }

    fn __matmul__<'py>(
        &self,
        vector: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.apply(vector)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        format!("{}({} examples)", type_name(slf.as_any()), slf.get().0.size)
    }
}

/// An object of an operator's own class.
fn class<T: pyo3::PyClass<BaseType = Operator>>(own: T, node: Node) -> PyClassInitializer<T> {
    PyClassInitializer::from(Operator(Arc::new(node))).add_subclass(own)
}

/// A kernel that is written down after all.
#[pyclass(frozen, extends = Operator, module = "fewstep.theory.matfree")]
pub(super) struct DenseKernel;

#[pymethods]
impl DenseKernel {
    #[new]
    fn new(kernel: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        Ok(class(Self, dense(kernel, "kernel")?))
    }
}

/// A kernel that is kept as the features it comes from, one row per example: Kv = Φ(Φᵀv).
///
/// The memory is that of the features, whatever the number of examples.
#[pyclass(frozen, extends = Operator, module = "fewstep.theory.matfree")]
pub(super) struct FactorKernel;

#[pymethods]
impl FactorKernel {
    #[new]
    fn new(features: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let py = features.py();
        let kernel = core::FactorKernel::new(matrix(features, "features")?).or_raise(py)?;
        let size = kernel.size();
        Ok(class(Self, Node::new(OperatorKind::Factor(kernel), size)))
    }
}

/// The sum of the kernels of several blocks, given as a list of operators.
#[pyclass(frozen, extends = Operator, module = "fewstep.theory.matfree")]
pub(super) struct BlockSum;

#[pymethods]
impl BlockSum {
    #[new]
    fn new(operators: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let py = operators.py();
        let parts = Given::several(operators)?;
        // Core refuses what does not fit together.
        parts.solve(py, |running| core::BlockSum::new(running.iter().collect()).map(|_| ()))?;
        let Given(parts) = parts;
        Ok(class(Self, Node::of(py, OperatorKind::Sum(parts.clone()), &parts)?))
    }
}

/// A kernel plus the same number on every diagonal entry, K + σ²I.
#[pyclass(frozen, extends = Operator, module = "fewstep.theory.matfree")]
pub(super) struct Shifted;

#[pymethods]
impl Shifted {
    #[new]
    fn new(operator: &Bound<'_, PyAny>, shift: f64) -> PyResult<PyClassInitializer<Self>> {
        let py = operator.py();
        let inner = node(operator)?;
        Given(vec![Arc::clone(&inner)])
            .solve(py, |running| core::Shifted::new(&running[0], shift).map(|_| ()))?;
        let kind = OperatorKind::Shifted(Arc::clone(&inner), shift);
        Ok(class(Self, Node::of(py, kind, &[inner])?))
    }
}

/// An operator from a model of one's own: all that is needed is a product.
///
/// `function` takes an array with one entry per example and gives one, or it has `@`, such as a
/// sparse matrix. `size` is the number of examples; what has a square shape knows it. The product
/// must be symmetric and positive semidefinite: one backward and one forward product with a
/// model's Jacobian is. An exception raised inside comes out of every solver as it is.
#[pyfunction]
#[pyo3(signature = (function, size=None))]
pub(super) fn operator(function: &Bound<'_, PyAny>, size: Option<usize>) -> PyResult<Operator> {
    Ok(Operator(Arc::new(product(function, size)?)))
}

//! What numpy can view, as numbers of core; and numbers of core as numpy arrays.
//!
//! Arrays of f64 and f32 are read where they lie, whatever their strides and whoever may write to
//! them, and so are tensors of PyTorch and JAX in the processor's memory, which numpy views. Anything
//! else that is real numbers (lists, integers, half precision, another byte order) is converted by
//! numpy first. What core keeps is its own: writing to an array afterwards changes nothing.

use crate::errors::{OrRaise, named};
use fewstep_core::Matrix;
use numpy::{
    Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyInt;

/// What numpy makes of an object, once it is known to be real numbers along this many axes; what
/// refuses it says `quantity`.
fn real<'py>(
    object: &Bound<'py, PyAny>,
    quantity: &str,
    axes: usize,
) -> PyResult<Bound<'py, PyAny>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let asarray = ASARRAY.import(py, "numpy", "asarray")?;
    let found = asarray.call1((object,)).map_err(|error| {
        let message = format!(
            "{quantity} is {}, which numpy cannot view ({error}); give an array or nested lists of numbers",
            type_name(object)
        );
        named(py, "WrongType", message)
    })?;
    let dtype = found.getattr(intern!(py, "dtype"))?;
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !matches!(kind.as_str(), "f" | "i" | "u") {
        let message =
            format!("{quantity} has entries of type {dtype}; real numbers are needed");
        return Err(named(py, "WrongType", message));
    }
    let found_axes: usize = found.getattr(intern!(py, "ndim"))?.extract()?;
    if found_axes != axes {
        let message = format!(
            "{quantity} has {found_axes} axes (shape {}); {axes} {} needed",
            found.getattr(intern!(py, "shape"))?,
            if axes == 1 { "is" } else { "are" }
        );
        return Err(named(py, "WrongShape", message));
    }
    let masked = object.hasattr(intern!(py, "mask"))?
        && py.import("numpy.ma")?.call_method1("is_masked", (object,))?.is_truthy()?;
    if masked {
        let message = format!("{quantity} has masked entries; fill them in or leave them out");
        return Err(named(py, "WrongType", message));
    }
    Ok(found)
}

/// Whether an object is numpy's own array, not a kind of it that means more than its entries.
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.get_type().is(object.py().get_type::<PyUntypedArray>())
}

/// An array as f64 in C order, where the processor may read it.
fn converted<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static REQUIRE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = array.py();
    let require = REQUIRE.import(py, "numpy", "require")?;
    require.call1((array, intern!(py, "float64"), intern!(py, "CA")))
}

/// The name of an object's class.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// A list of numbers that Rust may read while Python holds it.
pub(crate) fn vector<'py>(
    object: &Bound<'py, PyAny>,
    quantity: &str,
) -> PyResult<PyReadonlyArray1<'py, f64>> {
    if is_plain(object)
        && let Ok(array) = object.cast::<PyArray1<f64>>()
        && array.is_contiguous()
        && array.is_aligned()
    {
        return Ok(array.try_readonly()?);
    }
    let array = converted(&real(object, quantity, 1)?)?;
    Ok(array.cast_into::<PyArray1<f64>>()?.try_readonly()?)
}

/// A list of numbers of its own.
pub(crate) fn numbers(object: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Vec<f64>> {
    if is_plain(object)
        && let Some(values) = entries::<f64>(object)?
    {
        return Ok(values);
    }
    let found = real(object, quantity, 1)?;
    if let Some(values) = entries::<f64>(&found)? {
        return Ok(values);
    }
    if let Some(values) = entries::<f32>(&found)? {
        return Ok(values);
    }
    Ok(vector(&found, quantity)?.as_slice()?.to_vec())
}

/// The entries of an array of this type, read with its strides; `None` if it is another object, or
/// lies where the processor cannot read it.
fn entries<T: Element + Copy + Into<f64>>(
    object: &Bound<'_, PyAny>,
) -> PyResult<Option<Vec<f64>>> {
    match object.cast::<PyArray1<T>>() {
        Ok(array) if array.is_aligned() => {
            let array = array.try_readonly()?;
            Ok(Some(array.as_array().iter().map(|&value| value.into()).collect()))
        }
        _ => Ok(None),
    }
}

/// More integers than anyone gives; a generator need not end.
const MOST_INTEGERS: usize = 1_000_000;

/// How integers of a kind are called where they are refused.
pub(crate) struct Integers {
    /// One of them.
    pub(crate) one: &'static str,
    /// Several of them.
    pub(crate) many: &'static str,
    /// The largest that its type holds.
    pub(crate) largest: u64,
}

/// Integers of a kind from any iterable: a range, a list, an array.
pub(crate) fn integers<'py, T: FromPyObjectOwned<'py>>(
    object: &Bound<'py, PyAny>,
    quantity: &str,
    kind: &Integers,
) -> PyResult<Vec<T>> {
    let py = object.py();
    let mut found = Vec::new();
    let entries = object.try_iter().map_err(|_| {
        let (given, many) = (type_name(object), kind.many);
        let message = format!("{quantity} is {given}; give a range or a list of {many}");
        named(py, "WrongType", message)
    })?;
    for entry in entries {
        if found.len() == MOST_INTEGERS {
            let message = format!("{quantity} has over {MOST_INTEGERS} entries; give fewer");
            return Err(named(py, "OutOfRange", message));
        }
        let entry = entry?;
        found.push(entry.extract().map_err(|_| not_of_the_kind(&entry, quantity, kind))?);
    }
    Ok(found)
}

/// Why an entry is none of these integers.
fn not_of_the_kind(entry: &Bound<'_, PyAny>, quantity: &str, kind: &Integers) -> PyErr {
    let (py, Integers { one, many, largest }) = (entry.py(), kind);
    if entry.is_instance_of::<PyInt>() {
        // A number of any length may stand here.
        let shown =
            entry.str().map_or_else(|_| "a long number".to_owned(), |it| it.to_string());
        let shown: String = shown.chars().take(40).collect();
        let message = format!("{quantity} holds {shown}; {one} lies between 0 and {largest}");
        return named(py, "OutOfRange", message);
    }
    let message = format!("{quantity} holds {}; {many} are integers", type_name(entry));
    named(py, "WrongType", message)
}

/// A matrix.
pub(crate) fn matrix(object: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Matrix> {
    if is_plain(object)
        && let Some(matrix) = rows::<f64>(object)?
    {
        return Ok(matrix);
    }
    let found = real(object, quantity, 2)?;
    if let Some(matrix) = rows::<f64>(&found)? {
        return Ok(matrix);
    }
    if let Some(matrix) = rows::<f32>(&found)? {
        return Ok(matrix);
    }
    let array = converted(&found)?;
    let found = rows::<f64>(&array)?;
    Ok(found.expect("numpy gives what it is asked for"))
}

/// The rows of an array of this type, as [`entries`].
fn rows<T: Element + Copy + Into<f64>>(object: &Bound<'_, PyAny>) -> PyResult<Option<Matrix>> {
    match object.cast::<PyArray2<T>>() {
        Ok(array) if array.is_aligned() => {
            let array = array.try_readonly()?;
            let view = array.as_array();
            let (rows, columns) = view.dim();
            // Row by row, whatever the order in memory.
            let values = view.iter().map(|&value| value.into()).collect();
            Ok(Some(Matrix::new(rows, columns, values).or_raise(object.py())?))
        }
        _ => Ok(None),
    }
}

/// A list of numbers as an array.
pub(crate) fn array<'py>(py: Python<'py>, values: &[f64]) -> Bound<'py, PyArray1<f64>> {
    PyArray1::from_slice(py, values)
}

/// A matrix as an array with two axes.
pub(crate) fn table<'py>(
    py: Python<'py>,
    matrix: &Matrix,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let flat = PyArray1::from_slice(py, matrix.values());
    flat.reshape([matrix.rows(), matrix.columns()])
}

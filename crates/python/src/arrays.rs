//! What numpy can view, as numbers of core; and numbers of core as numpy arrays.
//!
//! Arrays of f64 in C order are read where they lie. Anything else that numpy turns into real
//! numbers (lists, f32, integers, other strides, tensors of PyTorch or JAX in the processor's
//! memory) is converted once.

use crate::errors::named;
use fewstep_core::Matrix;
use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// `object` as an array of f64 in C order with this many axes; what refuses it says `quantity`.
fn view<'py>(
    object: &Bound<'py, PyAny>,
    quantity: &str,
    axes: usize,
) -> PyResult<Bound<'py, PyAny>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static ASCONTIGUOUS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
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
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "dtype"), intern!(py, "float64"))?;
    ASCONTIGUOUS.import(py, "numpy", "ascontiguousarray")?.call((found,), Some(&keywords))
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
    if let Ok(array) = object.cast::<PyArray1<f64>>()
        && array.is_contiguous()
    {
        return Ok(array.try_readonly()?);
    }
    let array = view(object, quantity, 1)?;
    Ok(array.cast_into::<PyArray1<f64>>()?.try_readonly()?)
}

/// A list of numbers of its own.
pub(crate) fn numbers(object: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Vec<f64>> {
    Ok(vector(object, quantity)?.as_slice()?.to_vec())
}

/// A matrix.
pub(crate) fn matrix(object: &Bound<'_, PyAny>, quantity: &str) -> PyResult<Matrix> {
    let found: PyReadonlyArray2<'_, f64> = match object.cast::<PyArray2<f64>>() {
        Ok(array) if array.is_c_contiguous() => array.try_readonly()?,
        _ => view(object, quantity, 2)?.cast_into::<PyArray2<f64>>()?.try_readonly()?,
    };
    let (rows, columns) = found.as_array().dim();
    let values = found.as_slice()?.to_vec();
    crate::errors::OrRaise::or_raise(Matrix::new(rows, columns, values), object.py())
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

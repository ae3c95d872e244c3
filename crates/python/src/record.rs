//! Results as small Python objects: named fields, a readable `repr`, and `to_dict`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString};

/// A value as people read it: numbers of numpy as numbers, long lists cut.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(fewstep::text::number(number.extract()?));
    }
    if value.cast::<PyString>().is_ok() {
        return Ok(value.repr()?.to_string());
    }
    if value.hasattr("ndim")? {
        let shape: Vec<usize> = value.getattr("shape")?.extract()?;
        let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
        return Ok(format!("array of {}", lengths.join(" × ")));
    }
    if let Ok(list) = value.cast::<PyList>()
        && list.len() > 6
    {
        return Ok(format!("list of {}", list.len()));
    }
    Ok(value.repr()?.to_string())
}

/// An object's fields as `Name(first=…, second=…)`.
pub(crate) fn repr(name: &str, fields: &Bound<'_, PyDict>) -> PyResult<String> {
    let mut parts = Vec::new();
    for (key, value) in fields.iter() {
        parts.push(format!("{key}={}", shown(&value)?));
    }
    Ok(format!("{name}({})", parts.join(", ")))
}

/// A value as it stands in a dictionary: other records as dictionaries, arrays as lists.
pub(crate) fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if value.hasattr("to_dict")? {
        return value.call_method0("to_dict");
    }
    if value.hasattr("tolist")? {
        return value.call_method0("tolist");
    }
    if let Ok(list) = value.cast::<PyList>() {
        let entries = list.iter().map(|entry| plain(&entry)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, entries)?.into_any());
    }
    Ok(value.clone())
}

/// Some attributes of an object as a dictionary of plain values.
pub(crate) fn dictionary<'py>(
    object: &Bound<'py, PyAny>,
    names: &[&str],
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(object.py());
    for name in names {
        fields.set_item(name, plain(&object.getattr(*name)?)?)?;
    }
    Ok(fields)
}

/// A frozen class with these fields, its `repr`, equality by fields and `to_dict`.
///
/// A field's type says what Python sees; it is filled from the Rust value by the expression
/// behind it, in which the Rust value has the name given after `from`. Fields behind `also` can be
/// read and are in no dictionary: other names for what the fields before them say.
#[macro_export]
macro_rules! record {
    (
        $(#[$meta:meta])*
        $name:ident from $value:ident : $source:ty {
            $( $(#[$field_meta:meta])* $field:ident : $kind:ty = $expression:expr ),+ $(,)?
        }
        $( also {
            $( $(#[$also_meta:meta])* $also:ident : $also_kind:ty = $also_expression:expr ),+ $(,)?
        } )?
    ) => {
        $(#[$meta])*
        #[pyo3::pyclass(frozen, module = "fewstep")]
        pub(crate) struct $name {
            $( $(#[$field_meta])* #[pyo3(get)] pub(crate) $field: $kind, )+
            $( $( $(#[$also_meta])* #[pyo3(get)] pub(crate) $also: $also_kind, )+ )?
        }

        impl $name {
            /// The record of this value.
            pub(crate) fn of(py: pyo3::Python<'_>, $value: &$source) -> pyo3::PyResult<Self> {
                let _ = py;
                Ok(Self {
                    $( $field: $crate::record::Field::field($expression, py)?, )+
                    $( $( $also: $crate::record::Field::field($also_expression, py)?, )+ )?
                })
            }

            fn fields<'py>(
                slf: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyDict>> {
                use pyo3::types::{PyAnyMethods, PyDictMethods};
                let fields = pyo3::types::PyDict::new(slf.py());
                $( fields.set_item(stringify!($field), slf.getattr(stringify!($field))?)?; )+
                Ok(fields)
            }
        }

        #[pyo3::pymethods]
        impl $name {
            fn __repr__(slf: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                $crate::record::repr(stringify!($name), &Self::fields(slf)?)
            }

            /// The fields as plain Python values: numbers, lists, dictionaries.
            fn to_dict<'py>(
                slf: &pyo3::Bound<'py, Self>,
            ) -> pyo3::PyResult<pyo3::Bound<'py, pyo3::types::PyDict>> {
                use pyo3::types::PyDictMethods;
                let fields = Self::fields(slf)?;
                let plain = pyo3::types::PyDict::new(slf.py());
                for (key, value) in fields.iter() {
                    plain.set_item(key, $crate::record::plain(&value)?)?;
                }
                Ok(plain)
            }
        }
    };
}

/// What may fill a field.
pub(crate) trait Field<T> {
    /// The value that the object holds.
    fn field(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Field<T> for T {
    fn field(self, _: Python<'_>) -> PyResult<T> {
        Ok(self)
    }
}

impl Field<Py<PyAny>> for &[f64] {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(crate::arrays::array(py, self).into_any().unbind())
    }
}

impl Field<Py<PyAny>> for &fewstep_core::Matrix {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(crate::arrays::table(py, self)?.into_any().unbind())
    }
}

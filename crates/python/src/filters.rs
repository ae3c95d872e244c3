//! Filters: how far an update goes in each mode, one Python class for each kind.
//!
//! They share the class `Filter`, which holds the Rust filter and has all methods; what takes a
//! filter takes any of them through [`filter`].

mod kinds;

pub(crate) use kinds::{BayesFilter, Benchmark, GradientDescent, Mixture, NoUpdate};

use crate::arrays::{array, numbers, type_name, vector};
use crate::errors::{OrRaise, named};
use crate::spectrum::Spectrum;
use crate::theory::filters::{ExponentialTime, GradientFlow, JamesStein, Projection};
use fewstep::text::number;
use fewstep_core as core;
use fewstep_core::Filter as _;
use fewstep_theory as theory;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt};
use std::sync::Arc;

/// Any of the filters of core and theory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnyFilter {
    NoUpdate(core::NoUpdate),
    GradientDescent(core::GradientDescent),
    GradientFlow(theory::GradientFlow),
    BayesFilter(core::BayesFilter),
    /// With its rate, which the filter does not give back.
    ExponentialTime(theory::ExponentialTime, f64),
    Projection(theory::Projection),
    JamesStein(theory::JamesStein),
    Benchmark(core::risk::Benchmark),
    /// Shared, not copied: a mixture may have thousands of parts.
    Mixture(Arc<core::Mixture<AnyFilter>>),
    /// As a decision holds it: its weights must not be divided by their sum once more.
    Horizons(Arc<core::Mixture<core::GradientDescent>>),
}

impl AnyFilter {
    fn inner(&self) -> &dyn core::Filter {
        match self {
            Self::NoUpdate(filter) => filter,
            Self::GradientDescent(filter) => filter,
            Self::GradientFlow(filter) => filter,
            Self::BayesFilter(filter) => filter,
            Self::ExponentialTime(filter, _) => filter,
            Self::Projection(filter) => filter,
            Self::JamesStein(filter) => filter,
            Self::Benchmark(filter) => filter,
            Self::Mixture(filter) => filter.as_ref(),
            Self::Horizons(filter) => filter.as_ref(),
        }
    }

    /// The class and the fields that can be read back.
    fn parts(&self) -> (&'static str, Vec<(&'static str, f64)>) {
        match self {
            Self::NoUpdate(_) => ("NoUpdate", vec![]),
            Self::GradientDescent(filter) => {
                let horizon = f64::from(filter.horizon);
                ("GradientDescent", vec![("step", filter.step.get()), ("horizon", horizon)])
            }
            Self::GradientFlow(filter) => ("GradientFlow", vec![("time", filter.time())]),
            Self::BayesFilter(filter) => {
                ("BayesFilter", vec![("noise_to_signal", filter.noise_to_signal())])
            }
            Self::ExponentialTime(_, rate) => ("ExponentialTime", vec![("rate", *rate)]),
            Self::Projection(_) => ("Projection", vec![]),
            Self::JamesStein(_) => ("JamesStein", vec![]),
            Self::Benchmark(filter) => {
                let (signal, noise) = (filter.signal_variance(), filter.noise_variance());
                ("Benchmark", vec![("signal_variance", signal), ("noise_variance", noise)])
            }
            Self::Mixture(_) | Self::Horizons(_) => ("Mixture", vec![]),
        }
    }

    /// The weights and filters of a mixture; none for every other filter.
    fn mixed(&self) -> Vec<(f64, Self)> {
        match self {
            Self::Mixture(filter) => filter.parts().to_vec(),
            Self::Horizons(filter) => filter
                .parts()
                .iter()
                .map(|&(weight, part)| (weight, Self::GradientDescent(part)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The Python object of the filter's own class.
    pub(crate) fn object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let any = self.clone();
        Ok(match self {
            Self::NoUpdate(_) => Py::new(py, class(NoUpdate, any))?.into_any(),
            Self::GradientDescent(own) => {
                Py::new(py, class(GradientDescent(own), any))?.into_any()
            }
            Self::GradientFlow(own) => Py::new(py, class(GradientFlow(own), any))?.into_any(),
            Self::BayesFilter(own) => Py::new(py, class(BayesFilter(own), any))?.into_any(),
            Self::ExponentialTime(_, rate) => {
                Py::new(py, class(ExponentialTime(rate), any))?.into_any()
            }
            Self::Projection(_) => Py::new(py, class(Projection, any))?.into_any(),
            Self::JamesStein(_) => Py::new(py, class(JamesStein, any))?.into_any(),
            Self::Benchmark(own) => Py::new(py, class(Benchmark(own), any))?.into_any(),
            Self::Mixture(_) | Self::Horizons(_) => {
                Py::new(py, class(Mixture, any))?.into_any()
            }
        })
    }
}

impl core::Filter for AnyFilter {
    fn response(&self, eigenvalue: f64) -> f64 {
        self.inner().response(eigenvalue)
    }

    fn gain(&self, eigenvalue: f64) -> f64 {
        self.inner().gain(eigenvalue)
    }
}

/// Any of the filters, from the object that Python holds.
pub(crate) fn filter(object: &Bound<'_, PyAny>) -> PyResult<AnyFilter> {
    match object.cast::<Filter>() {
        Ok(found) => Ok(found.get().0.clone()),
        Err(_) => {
            let message = format!(
                "filter is {}; give one of fewstep's filters, such as GradientDescent",
                type_name(object)
            );
            Err(named(object.py(), "WrongType", message))
        }
    }
}

/// An estimator of the correction that treats each mode by its eigenvalue alone.
///
/// What all filters share; make one with `NoUpdate`, `GradientDescent`, `BayesFilter`, `Mixture` or
/// `Benchmark`, or with one of those of `fewstep.theory`.
#[pyclass(frozen, eq, subclass, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Filter(pub(crate) AnyFilter);

#[pymethods]
impl Filter {
    /// The share of a mode's residual that is fitted on the prompt, g(λ).
    ///
    /// A number gives a number, an array of eigenvalues an array.
    fn response<'py>(&self, eigenvalue: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        each(eigenvalue, |value| self.0.response(value))
    }

    /// What multiplies a mode's residual on its way to the query, q(λ) = g(λ)/λ.
    ///
    /// A number gives a number, an array of eigenvalues an array.
    fn gain<'py>(&self, eigenvalue: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        each(eigenvalue, |value| self.0.gain(value))
    }

    /// How many free numbers the fit spends on the prompt: the sum of all responses.
    fn degrees_of_freedom(&self, spectrum: &Spectrum) -> f64 {
        self.0.degrees_of_freedom(&spectrum.0)
    }

    /// The correction on the prompt's own examples, g(K) r.
    fn prompt_fit<'py>(
        &self,
        py: Python<'py>,
        spectrum: &Spectrum,
        residuals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let residuals = numbers(residuals, "residuals")?;
        let fit = py.detach(|| self.0.prompt_fit(&spectrum.0, &residuals));
        Ok(array(py, &fit.or_raise(py)?))
    }

    /// The weights with which the examples' features add up to the update, q(K) r.
    fn example_weights<'py>(
        &self,
        py: Python<'py>,
        spectrum: &Spectrum,
        residuals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let residuals = numbers(residuals, "residuals")?;
        let weights = py.detach(|| self.0.example_weights(&spectrum.0, &residuals));
        Ok(array(py, &weights.or_raise(py)?))
    }

    /// The correction at the query, the coupling times the example weights.
    fn query_correction(
        &self,
        py: Python<'_>,
        spectrum: &Spectrum,
        coupling: &Bound<'_, PyAny>,
        residuals: &Bound<'_, PyAny>,
    ) -> PyResult<f64> {
        let (coupling, residuals) =
            (numbers(coupling, "coupling")?, numbers(residuals, "residuals")?);
        py.detach(|| self.0.query_correction(&spectrum.0, &coupling, &residuals)).or_raise(py)
    }

    /// The filter's class as `kind`, and its fields, as plain Python values.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (name, fields) = self.0.parts();
        let plain = PyDict::new(py);
        plain.set_item("kind", name)?;
        for (field, value) in fields {
            plain.set_item(field, value)?;
        }
        if let AnyFilter::GradientDescent(filter) = &self.0 {
            plain.set_item("horizon", filter.horizon)?;
        }
        if name == "Mixture" {
            let part = |(weight, part): (f64, AnyFilter)| -> PyResult<Bound<'py, PyDict>> {
                let fields = Self(part).to_dict(py)?;
                fields.set_item("weight", weight)?;
                Ok(fields)
            };
            let parts = self.0.mixed().into_iter().map(part).collect::<PyResult<Vec<_>>>()?;
            plain.set_item("parts", parts)?;
        }
        Ok(plain)
    }

    fn __repr__(&self) -> String {
        let (name, fields) = self.0.parts();
        if name == "Mixture" {
            return format!("Mixture({} filters)", self.0.mixed().len());
        }
        let shown = |&(field, value): &(&str, f64)| match field {
            "horizon" => format!("{field}={value}"),
            _ => format!("{field}={}", number(value)),
        };
        format!("{name}({})", fields.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

/// An object of a filter's own class.
pub(crate) fn class<T: pyo3::PyClass<BaseType = Filter>>(
    own: T,
    any: AnyFilter,
) -> PyClassInitializer<T> {
    PyClassInitializer::from(Filter(any)).add_subclass(own)
}

/// A function of a number, at a number or at every entry of an array.
fn each<'py>(
    eigenvalue: &Bound<'py, PyAny>,
    function: impl Fn(f64) -> f64,
) -> PyResult<Bound<'py, PyAny>> {
    let py = eigenvalue.py();
    let scalar = eigenvalue.is_instance_of::<PyFloat>()
        || eigenvalue.is_instance_of::<PyInt>()
        || eigenvalue
            .getattr_opt("ndim")?
            .is_some_and(|axes| axes.extract::<usize>().is_ok_and(|axes| axes == 0));
    if scalar {
        return Ok(PyFloat::new(py, function(eigenvalue.extract()?)).into_any());
    }
    let values: PyReadonlyArray1<'py, f64> = vector(eigenvalue, "eigenvalue")?;
    let results: Vec<f64> = values.as_slice()?.iter().map(|&value| function(value)).collect();
    Ok(array(py, &results).into_any())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Filter>()?;
    module.add_class::<NoUpdate>()?;
    module.add_class::<GradientDescent>()?;
    module.add_class::<BayesFilter>()?;
    module.add_class::<Mixture>()?;
    module.add_class::<Benchmark>()
}

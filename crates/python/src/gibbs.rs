//! A distribution over numbers of steps: `fewstep.gibbs`.

use crate::arrays::{array, vector};
use crate::errors::OrRaise;
use crate::evidence::horizons;
use crate::filters::AnyFilter;
use crate::spectrum::StepSize;
use fewstep_core::gibbs;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::sync::Arc;

/// Weights over candidate horizons: a prior, tilted towards horizons with good evidence.
///
/// `evidence` is the negative log-evidence per example of each candidate, `examples` the number of
/// examples. A small inverse temperature stays near the prior, a large one takes the best horizon
/// alone; 1 is Bayes' rule.
#[pyclass(frozen, eq, module = "fewstep.gibbs")]
#[derive(PartialEq)]
pub(crate) struct GibbsPosterior(gibbs::GibbsPosterior);

#[pymethods]
impl GibbsPosterior {
    #[new]
    fn new(
        horizons: &Bound<'_, PyAny>,
        evidence: &Bound<'_, PyAny>,
        examples: usize,
        inverse_temperature: f64,
    ) -> PyResult<Self> {
        let py = horizons.py();
        let horizons = self::horizons(horizons, "horizons")?;
        let evidence = vector(evidence, "evidence")?;
        let found = gibbs::GibbsPosterior::new(
            &horizons,
            evidence.as_slice()?,
            examples,
            inverse_temperature,
        );
        Ok(Self(found.or_raise(py)?))
    }

    /// The posterior for any prior that excludes no candidate; it is divided by its sum.
    #[classmethod]
    #[pyo3(signature = (horizons, prior, evidence, examples, inverse_temperature))]
    // The parameters are those of the Rust function.
    #[allow(clippy::too_many_arguments)]
    fn with_prior(
        class: &Bound<'_, PyType>,
        horizons: &Bound<'_, PyAny>,
        prior: &Bound<'_, PyAny>,
        evidence: &Bound<'_, PyAny>,
        examples: usize,
        inverse_temperature: f64,
    ) -> PyResult<Self> {
        let horizons = self::horizons(horizons, "horizons")?;
        let (prior, evidence) = (vector(prior, "prior")?, vector(evidence, "evidence")?);
        let found = gibbs::GibbsPosterior::with_prior(
            &horizons,
            prior.as_slice()?,
            evidence.as_slice()?,
            examples,
            inverse_temperature,
        );
        Ok(Self(found.or_raise(class.py())?))
    }

    /// The candidate horizons, in the order in which they were given.
    #[getter]
    fn horizons(&self) -> Vec<u32> {
        self.0.horizons().to_vec()
    }

    /// The prior weights, which sum to 1.
    #[getter]
    fn prior<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, self.0.prior())
    }

    /// The weights, which sum to 1.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        array(py, self.0.weights())
    }

    /// The most likely horizon; of equally likely ones, the smallest.
    fn map(&self) -> u32 {
        self.0.map()
    }

    /// The average horizon.
    fn mean_horizon(&self) -> f64 {
        self.0.mean_horizon()
    }

    /// The average of anything that is known for each candidate horizon.
    fn expectation(&self, values: &Bound<'_, PyAny>) -> PyResult<f64> {
        let py = values.py();
        let values = vector(values, "values per horizon")?;
        self.0.expectation(values.as_slice()?).or_raise(py)
    }

    /// How far the evidence has moved the weights away from the prior, in nats.
    fn relative_entropy(&self) -> f64 {
        self.0.relative_entropy()
    }

    /// The filter that averages over horizons instead of choosing one, a `Mixture`.
    fn average(&self, py: Python<'_>, step: &StepSize) -> PyResult<Py<PyAny>> {
        AnyFilter::Horizons(Arc::new(self.0.average(step.0))).object(py)
    }

    /// The fields as plain Python values: numbers and lists.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &["horizons", "prior", "weights"])
    }

    fn __repr__(&self) -> String {
        let (count, best) = (self.0.horizons().len(), self.0.map());
        format!("GibbsPosterior({count} horizons, most likely {best})")
    }
}

/// How far a distribution over candidates is from a prior, in nats; both are divided by their
/// sums.
#[pyfunction]
fn relative_entropy(weights: &Bound<'_, PyAny>, prior: &Bound<'_, PyAny>) -> PyResult<f64> {
    let py = weights.py();
    let (weights, prior) = (vector(weights, "weights")?, vector(prior, "prior")?);
    gibbs::relative_entropy(weights.as_slice()?, prior.as_slice()?).or_raise(py)
}

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "gibbs")?;
    module.add_class::<GibbsPosterior>()?;
    module.add_function(wrap_pyfunction!(relative_entropy, &module)?)
}

//! Reproducible randomness, and a look at memory before a number from Python asks for much of it.

use crate::errors::named;
use pyo3::prelude::*;

/// A seeded source of random numbers: the same seed gives the same numbers on every machine.
///
/// Not for secrets.
#[pyclass(module = "fewstep")]
pub(crate) struct Rng(pub(crate) fewstep_core::Rng);

#[pymethods]
impl Rng {
    #[new]
    fn new(seed: u64) -> Self {
        Self(fewstep_core::Rng::new(seed))
    }

    /// A number drawn uniformly between 0 (included) and 1 (not included).
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// Plus or minus 1 with equal probability.
    fn sign(&mut self) -> f64 {
        self.0.sign()
    }

    /// A standard normal number: mean 0, variance 1.
    fn normal(&mut self) -> f64 {
        self.0.normal()
    }

    /// A whole number drawn uniformly from those below a limit; 0 if the limit is 0.
    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit)
    }

    /// Different whole numbers below a limit, in random order: `count` of them, or all.
    fn choose(&mut self, py: Python<'_>, count: usize, limit: usize) -> PyResult<Vec<usize>> {
        room(py, "limit", limit)?;
        Ok(self.0.choose(count, limit))
    }

    fn __repr__(&self) -> &'static str {
        "Rng(seeded)"
    }
}

/// Refuses a size for which there is no memory, where Rust would end the whole process.
pub(crate) fn room(py: Python<'_>, quantity: &str, entries: usize) -> PyResult<()> {
    if Vec::<f64>::new().try_reserve_exact(entries).is_ok() {
        return Ok(());
    }
    let message = format!(
        "{quantity} is {entries}, for which there is not enough memory; give a smaller one"
    );
    Err(named(py, "TooMuchMemory", message))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Rng>()
}

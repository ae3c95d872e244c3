//! The module `theory`: what the paper proves beyond what a decision needs.

mod design;
mod drift;
pub(crate) mod filters;
mod flow;
mod matfree;
pub(crate) mod pac_bayes;
mod random;
pub(crate) mod risk;

use pyo3::prelude::*;

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = &crate::submodule(parent, "theory")?;
    filters::register(module)?;
    risk::register(module)?;
    flow::register(module)?;
    random::register(module)?;
    drift::register(module)?;
    design::register(module)?;
    pac_bayes::register(module)?;
    matfree::register(module)
}

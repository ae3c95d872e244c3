//! `import fewstep`: the tool's words in Python, numpy in and out.
//!
//! No arithmetic of its own: every number comes from the crates below, to the last bit. Python code
//! beside it (`python/fewstep`) names what is here, knows data frames, PyTorch and Ray.

mod arrays;
mod class_parts;
mod class_report;
mod decide;
mod errors;
mod evidence;
mod filters;
mod geometry;
mod gibbs;
mod leave_one_out;
mod loading;
mod metrics;
mod model;
mod options;
mod parts;
mod policy;
mod record;
mod report;
mod reports;
mod risk;
mod rng;
mod show;
mod signal;
mod spectrum;
mod subspace;
mod task;
mod theory;
mod update;
mod work;

use pyo3::prelude::*;

/// What the modules are for, as `help` says it.
const PURPOSES: &[(&str, &str)] = &[
    ("errors", "What can go wrong: one class per error, all of them `FewstepError`."),
    (
        "evidence",
        "How probable the residuals are after each number of steps, and where that is best.",
    ),
    ("gibbs", "An average over numbers of steps instead of one of them."),
    ("leave_one_out", "What held-out examples say about each number of steps."),
    (
        "metrics",
        "How good probabilities of labels are, over any number of answers that are known.",
    ),
    ("risk", "The expected distance to the best prediction, and what makes it smaller."),
    ("signal", "How much of the residuals is signal and how much is noise."),
    ("subspace", "Scores of blocks, and rules that choose among them."),
    ("theory", "What is proved beyond what a decision needs, by module and by filter."),
    (
        "theory.design",
        "The best subspace of the weights themselves to update, for queries that are known.",
    ),
    ("theory.drift", "Whether real gradient steps still follow the linearised model."),
    ("theory.flow", "Steps as time: when a spectrum asks to stop."),
    ("theory.matfree", "Evidence and scores for prompts too large for a matrix, by products."),
    ("theory.pac_bayes", "What is guaranteed for a number of steps chosen by evidence."),
    ("theory.random", "What random features would look like: the law of their spectrum."),
    ("theory.risk", "What no number of steps can avoid, and what an error is made of."),
];

/// A module of the package that Python can import by its full name.
pub(crate) fn submodule<'py>(
    parent: &Bound<'py, PyModule>,
    name: &str,
) -> PyResult<Bound<'py, PyModule>> {
    let py = parent.py();
    // The compiled module itself stands for the package.
    let path = match parent.name()?.to_cow()?.strip_prefix("fewstep.") {
        Some(within) if within != "_native" => format!("{within}.{name}"),
        _ => name.to_owned(),
    };
    let full = format!("fewstep.{path}");
    let module = PyModule::new(py, &full)?;
    let purpose = PURPOSES.iter().find(|(known, _)| *known == path);
    module.setattr("__doc__", purpose.map(|(_, purpose)| *purpose))?;
    parent.add(name, &module)?;
    // `import fewstep.risk` looks here before it looks for a file.
    py.import("sys")?.getattr("modules")?.set_item(full, &module)?;
    Ok(module)
}

/// The compiled part of `fewstep`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::register(&submodule(module, "errors")?)?;
    spectrum::register(module)?;
    filters::register(module)?;
    geometry::register(module)?;
    evidence::register(module)?;
    gibbs::register(module)?;
    leave_one_out::register(module)?;
    signal::register(module)?;
    policy::register(module)?;
    decide::register(module)?;
    rng::register(module)?;
    risk::register(module)?;
    subspace::register(module)?;
    theory::register(module)?;
    task::register(module)?;
    report::register(module)?;
    class_report::register(module)?;
    metrics::register(module)?;
    reports::register(module)?;
    update::register(module)?;
    model::register(module)?;
    Ok(())
}

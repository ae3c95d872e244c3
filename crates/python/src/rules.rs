//! Which rule answers which question: `Rules`, and the keyword arguments that are the same.

use crate::errors::OrRaise;
use crate::evidence::horizons;
use crate::leave_one_out::{averaging, averaging_name};
use fewstep_core::{self as core, HorizonRule};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::borrow::Cow;
use std::sync::LazyLock;

/// What most calls use; made once, because a decision takes only some microseconds.
static DEFAULT: LazyLock<core::Rules> = LazyLock::new(core::Rules::default);

/// The fields of [`Rules`], as they stand in its signature.
const FIELDS: [&str; 12] = [
    "horizon",
    "horizons",
    "step_scale",
    "select",
    "budget",
    "selection_horizon",
    "inverse_temperature",
    "leave_one_out",
    "leave_one_out_gate",
    "leave_alone_odds",
    "coverage",
    "seed",
];

/// Everything that may be set before `decide`; all fields are keyword arguments.
///
/// horizon: how the number of steps is found: a number of steps, "evidence", "evidence-fixed",
///     "gibbs", "bayes-gap", "leave-one-out", "leave-one-out-average" or "bayes-filter".
/// horizons: candidate numbers of steps, ascending; 0 to 30 if None.
/// step_scale: step size as a fraction of the largest stable one, over 0 and under 1.
/// select: how the blocks are found: "all", "query-aware", "query-score", "trace-top",
///     "trace-bottom", "random", "leave-one-out" or "depth".
/// budget: how many blocks; needed by every selection but "all", "leave-one-out" and "depth".
/// selection_horizon: steps that "query-aware" looks ahead.
/// inverse_temperature: how sharply averages follow evidence or left-out errors.
/// leave_one_out: how left-out errors are averaged: "plain", "trimmed", "median", "balanced",
///     "by-label" (which needs a geometry with answers) or "query-weighted".
/// leave_one_out_gate: standard errors by which adapting must win on left-out examples.
/// leave_alone_odds: how many times as likely as all steps together it is, before anything is
///     seen, that no step is best; for "leave-one-out-average".
/// coverage: how often the interval for the query's answer is meant to hold it.
/// seed: of the random selection.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Rules(pub(crate) core::Rules);

#[pymethods]
impl Rules {
    #[new]
    #[pyo3(
        signature = (**fields),
        text_signature = "(*, horizon='evidence', horizons=None, step_scale=0.1, select='all', \
                          budget=None, selection_horizon=8, inverse_temperature=1.0, \
                          leave_one_out='trimmed', leave_one_out_gate=0.0, leave_alone_odds=5.0, \
                          coverage=0.8, seed=0)"
    )]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut rules = DEFAULT.clone();
        for (name, value) in fields.into_iter().flatten() {
            set(&mut rules, "Rules", name.cast::<PyString>()?, &value)?;
        }
        Ok(Self(rules))
    }

    /// How the number of steps is found.
    #[getter]
    fn horizon(&self) -> String {
        self.0.horizon.to_string()
    }

    /// Candidate numbers of steps, ascending.
    #[getter]
    fn horizons(&self) -> Vec<u32> {
        self.0.horizons.clone()
    }

    /// Step size as a fraction of the largest stable one.
    #[getter]
    fn step_scale(&self) -> f64 {
        self.0.step_scale
    }

    /// How the blocks are found.
    #[getter]
    fn select(&self) -> String {
        self.0.select.to_string()
    }

    /// How many blocks to choose.
    #[getter]
    fn budget(&self) -> Option<usize> {
        self.0.budget
    }

    /// How many steps the greedy rule looks ahead.
    #[getter]
    fn selection_horizon(&self) -> u32 {
        self.0.selection_horizon
    }

    /// How sharply averages follow evidence or left-out errors.
    #[getter]
    fn inverse_temperature(&self) -> f64 {
        self.0.inverse_temperature
    }

    /// How left-out errors are averaged.
    #[getter]
    fn leave_one_out(&self) -> &'static str {
        averaging_name(self.0.leave_one_out)
    }

    /// By how many standard errors adapting must win on left-out examples.
    #[getter]
    fn leave_one_out_gate(&self) -> f64 {
        self.0.leave_one_out_gate
    }

    /// Prior odds of leaving the model alone, for the average by left-out errors.
    #[getter]
    fn leave_alone_odds(&self) -> f64 {
        self.0.leave_alone_odds
    }

    /// How often the interval for the query's answer is meant to hold it.
    #[getter]
    fn coverage(&self) -> f64 {
        self.0.coverage
    }

    /// Seed of the random selection.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The fields as plain Python values; `Rules(**fields)` makes the same rules again.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(slf.py());
        for name in FIELDS {
            fields.set_item(name, slf.getattr(name)?)?;
        }
        Ok(fields)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        crate::record::repr("Rules", &Self::to_dict(slf)?)
    }
}

/// The rules that keyword arguments of `function` ask for: those of `rules=`, or the defaults,
/// with single fields replaced.
pub(crate) fn rules(
    function: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Cow<'static, core::Rules>> {
    let Some(keywords) = keywords.filter(|keywords| !keywords.is_empty()) else {
        return Ok(Cow::Borrowed(&DEFAULT));
    };
    let mut rules = match keywords.get_item("rules")? {
        Some(given) if !given.is_none() => given.cast::<Rules>()?.get().0.clone(),
        _ => DEFAULT.clone(),
    };
    for (name, value) in keywords {
        let name = name.cast::<PyString>()?;
        if name.to_cow()? != "rules" {
            set(&mut rules, function, name, &value)?;
        }
    }
    Ok(Cow::Owned(rules))
}

/// Sets one field.
fn set(
    rules: &mut core::Rules,
    function: &str,
    name: &Bound<'_, PyString>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = value.py();
    let name = name.to_cow()?;
    match name.as_ref() {
        "horizon" => rules.horizon = horizon_rule(value)?,
        "horizons" if value.is_none() => rules.horizons.clone_from(&DEFAULT.horizons),
        "horizons" => rules.horizons = horizons(value, "horizons")?,
        "step_scale" => rules.step_scale = value.extract()?,
        "select" => {
            rules.select = value.extract::<Cow<'_, str>>()?.parse().or_raise(py)?;
        }
        "budget" => rules.budget = value.extract()?,
        "selection_horizon" => rules.selection_horizon = value.extract()?,
        "inverse_temperature" => rules.inverse_temperature = value.extract()?,
        "leave_one_out" => {
            rules.leave_one_out = averaging(py, &value.extract::<Cow<'_, str>>()?)?;
        }
        "leave_one_out_gate" => rules.leave_one_out_gate = value.extract()?,
        "leave_alone_odds" => rules.leave_alone_odds = value.extract()?,
        "coverage" => rules.coverage = value.extract()?,
        "seed" => rules.seed = value.extract()?,
        unknown => {
            // As Python says it of its own functions.
            let message =
                format!("{function}() got an unexpected keyword argument '{unknown}'");
            return Err(PyTypeError::new_err(message));
        }
    }
    Ok(())
}

/// A rule by its name, or a number of steps.
fn horizon_rule(value: &Bound<'_, PyAny>) -> PyResult<HorizonRule> {
    match value.cast::<PyString>() {
        Ok(name) => name.to_cow()?.parse().or_raise(value.py()),
        Err(_) => Ok(HorizonRule::Fixed(value.extract()?)),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Rules>()
}

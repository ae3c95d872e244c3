//! What a decision depends on: `Policy`, and the keywords that choose one and change it.
//!
//! Every door of the package reads these keywords here; core's [`Overrides`] apply them.

use crate::arrays::type_name;
use crate::errors::{OrRaise, named, of_field};
use fewstep_core::{
    self as core, HorizonName, HorizonRule, Horizons, MOST_HORIZONS, Overrides, Residuals,
    Selection, SelectionName, Shots,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyMapping, PyString, PyTuple, PyType};
use std::str::FromStr;

/// The fields of a policy, as they stand in its JSON.
const FIELDS: [&str; 12] = [
    "name",
    "blocks",
    "selection",
    "horizon",
    "horizons",
    "step_scale",
    "dynamics",
    "coverage",
    "adjoint",
    "residuals",
    "shots",
    "classes",
];

/// The keywords that choose a policy and change it.
pub(crate) const KEYWORDS: [&str; 15] = [
    "policy",
    "blocks",
    "select",
    "budget",
    "horizon",
    "horizons",
    "step_scale",
    "dynamics",
    "coverage",
    "adjoint",
    "residuals",
    "orders",
    "shots",
    "confidence",
    "seed",
];

/// Everything that a decision depends on, as one value that can be named, printed and read back.
///
/// `Policy(**fields)` is the default policy with these fields in place of its own:
///
/// name: what reports call it.
/// blocks: candidate blocks, such as "value@last4".
/// selection: how blocks are chosen among the candidates: a dictionary such as {"rule":
///     "trace-top", "budget": 3}, or the name of a rule that needs no budget: "all" or "depth".
/// horizon: how the number of steps is found: a dictionary such as {"rule": "gibbs",
///     "inverse_temperature": 2.0}, a number of steps, or the name of a rule: "evidence",
///     "evidence-fixed", "gibbs", "bayes-gap", "leave-one-out", "leave-one-out-average" or
///     "bayes-filter".
/// horizons: candidate numbers of steps, ascending, or a text such as "0..30".
/// step_scale: step size as a fraction of the largest stable one, over 0 and under 1.
/// dynamics: how the update is carried out: "linear" by the linearised model, "steps" in the
///     model.
/// coverage: how often the interval for the query's answer is meant to hold it.
/// adjoint: which part of a prediction's derivative is taken: "whole", the sum over all tokens, or
///     "local", the term of the token where the prediction is read.
/// residuals: what an example is predicted behind: "leave-one-out", all other examples, or
///     "prefix", those before it, or a dictionary such as {"rule": "prefix", "orders": 2}.
/// shots: how many examples a prompt shows at most, or a dictionary such as {"most": 8, "seed": 0};
///     as many as fit unless given. All examples are learnt from.
/// classes: how a task of classes is decided: a dictionary such as {"arms": [{"base": "few-shot",
///     "blocks": "bias"}], "confidence": 0.8}; what it leaves out is that of the default policy.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Policy(pub(crate) core::Policy);

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(
        signature = (**fields),
        text_signature = "(*, name=None, blocks=None, selection=None, horizon=None, \
                          horizons=None, step_scale=None, dynamics=None, coverage=None, \
                          adjoint=None, residuals=None, shots=None, \
                          classes=None)"
    )]
    fn new(py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut policy = core::Policy::default();
        for (name, value) in fields.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_cow()?;
            if !FIELDS.contains(&&*name) {
                return Err(unexpected("Policy", &name));
            }
            if !value.is_none() {
                replace(&mut policy, &name, &value)
                    .map_err(|error| of_field(py, error, &name))?;
            }
        }
        policy.check().or_raise(py)?;
        // `default` and `paper` name what they are and nothing else: reading it back sees to it.
        Ok(Self(core::Policy::from_json(&policy.to_json()).or_raise(py)?))
    }

    /// The default policy: the first MLP matrices of the last layers are updated by an average
    /// over up to 64 steps, which leave-one-out errors weigh.
    #[staticmethod]
    fn default() -> Self {
        Self(core::Policy::default())
    }

    /// The paper's: all value heads of the last four layers, steps by evidence, in the model.
    #[staticmethod]
    fn paper() -> Self {
        Self(core::Policy::paper())
    }

    /// A policy that has a name of its own: "default" or "paper".
    #[staticmethod]
    fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(Self(core::Policy::named(name).or_raise(py)?))
    }

    /// A policy from JSON; fields that are left out are those of the default policy.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        Ok(Self(core::Policy::from_json(text).or_raise(py)?))
    }

    /// What every `policy=` takes: a policy, "default", "paper", a dictionary with the fields of
    /// its JSON, or that JSON.
    #[staticmethod]
    fn of(policy: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(read(policy)?))
    }

    /// The same policy with single fields changed, each of them alone: the keywords that every
    /// door takes beside `policy=`.
    #[pyo3(
        signature = (**overrides),
        text_signature = "($self, *, blocks=None, select=None, budget=None, horizon=None, \
                          horizons=None, step_scale=None, dynamics=None, coverage=None, \
                          adjoint=None, residuals=None, orders=None, shots=None, \
                          confidence=None, seed=None)"
    )]
    fn with_overrides(
        &self,
        py: Python<'_>,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut asked =
            RequestedPolicy { policy: self.0.clone(), overrides: Overrides::default() };
        for (name, value) in overrides.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_cow()?;
            if name == "policy" || !asked.set(&name, &value)? {
                return Err(unexpected("with_overrides", &name));
            }
        }
        Ok(Self(asked.policy().or_raise(py)?))
    }

    /// The policy as one line of JSON, every field written out.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The policy as a dictionary with the fields of its JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::task::parsed(py, &self.0.to_json())
    }

    /// The names of the fields in which it differs from another policy, or from the default one,
    /// but for the name itself.
    #[pyo3(signature = (other=None))]
    fn differences(&self, other: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<&'static str>> {
        let other = other.map_or_else(|| Ok(core::Policy::default()), read)?;
        Ok(self.0.differences(&other))
    }

    /// Whether the decision looks at the query, so that it may be another one for another query
    /// on the same examples.
    #[getter]
    fn looks_at_query(&self) -> bool {
        self.0.looks_at_query()
    }

    /// What reports call it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Candidate blocks, such as "value@last4".
    #[getter]
    fn blocks(&self) -> &str {
        &self.0.blocks
    }

    /// How blocks are chosen among the candidates: the rule and its parameters.
    #[getter]
    fn selection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("selection")
    }

    /// How the number of steps is found: the rule and its parameters.
    #[getter]
    fn horizon<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("horizon")
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

    /// How the update is carried out: "linear" or "steps".
    #[getter]
    fn dynamics(&self) -> String {
        self.0.dynamics.to_string()
    }

    /// How often the interval for the query's answer is meant to hold it.
    #[getter]
    fn coverage(&self) -> f64 {
        self.0.coverage
    }

    /// Which part of a prediction's derivative is taken: "local" or "whole".
    #[getter]
    fn adjoint(&self) -> String {
        self.0.adjoint.to_string()
    }

    /// What an example is predicted behind: the rule and its parameters.
    #[getter]
    fn residuals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("residuals")
    }

    /// How many examples a prompt shows at most, and the seed of their draw.
    #[getter]
    fn shots<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("shots")
    }

    /// How a task of classes is decided: arms, their weights, and the set of labels.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("classes")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let fields = self.to_dict(py)?;
        crate::record::repr("Policy", fields.cast::<PyDict>()?)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.getattr("from_json")?, PyTuple::new(slf.py(), [slf.get().to_json()])?))
    }
}

/// A policy to start from, and what is changed of it: the keywords of every door.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestedPolicy {
    policy: core::Policy,
    pub(crate) overrides: Overrides,
}

impl RequestedPolicy {
    /// What the keywords of a function say that takes no others.
    pub(crate) fn of(function: &str, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut asked = Self::default();
        for (name, value) in keywords.into_iter().flatten() {
            let name = name.cast::<PyString>()?.to_cow()?;
            if !asked.set(&name, &value)? {
                return Err(unexpected(function, &name));
            }
        }
        Ok(asked)
    }

    /// Takes in a keyword, for which `None` stands as if it were not given; false if it is none
    /// of [`KEYWORDS`].
    pub(crate) fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if !KEYWORDS.contains(&name) {
            return Ok(false);
        }
        // The one keyword that JSON calls otherwise.
        let field = if name == "select" { "selection" } else { name };
        if !value.is_none() {
            let set = self.set_given(name, value);
            set.map_err(|error| of_field(value.py(), error, field))?;
        }
        Ok(true)
    }

    fn set_given(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let overrides = &mut self.overrides;
        match name {
            "policy" => self.policy = read(value)?,
            "blocks" => overrides.blocks = Some(words(value, name)?),
            "select" => overrides.select = Some(parsed(value, name)?),
            "budget" => overrides.budget = Some(value.extract()?),
            "horizon" => overrides.horizon = Some(horizon(value)?),
            "horizons" => overrides.horizons = Some(horizons(value)?),
            "step_scale" => overrides.step_scale = Some(number(value, name)?),
            "dynamics" => overrides.dynamics = Some(parsed(value, name)?),
            "coverage" => overrides.coverage = Some(number(value, name)?),
            "adjoint" => overrides.adjoint = Some(parsed(value, name)?),
            "residuals" => overrides.residuals = Some(parsed(value, name)?),
            "orders" => overrides.orders = Some(value.extract()?),
            "shots" => overrides.shots = Some(value.extract()?),
            "confidence" => overrides.confidence = Some(number(value, name)?),
            _ => overrides.seed = Some(value.extract()?),
        }
        Ok(())
    }

    /// The policy that is asked for, checked.
    pub(crate) fn policy(&self) -> Result<core::Policy, core::Error> {
        self.overrides.of(&self.policy)
    }
}

/// The policy that an object stands for.
fn read(object: &Bound<'_, PyAny>) -> PyResult<core::Policy> {
    let py = object.py();
    if let Ok(policy) = object.cast::<Policy>() {
        return Ok(policy.get().0.clone());
    }
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_cow()?;
        return match text.trim_start().starts_with('{') {
            true => core::Policy::from_json(&text).or_raise(py),
            false => core::Policy::named(&text).or_raise(py),
        };
    }
    match object.cast::<PyMapping>() {
        Ok(fields) => core::Policy::from_json(&json(fields)?).or_raise(py),
        Err(_) => {
            let found = type_name(object);
            let message =
                format!("policy is {found}; give a Policy, default, paper, or a dictionary");
            Err(named(py, "WrongType", message))
        }
    }
}

/// A dictionary as JSON.
fn json(fields: &Bound<'_, PyMapping>) -> PyResult<String> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = fields.py();
    let keywords = PyDict::new(py);
    keywords.set_item("default", wrap_pyfunction!(plain, py)?)?;
    let text = DUMPS.import(py, "json", "dumps")?.call((fields,), Some(&keywords))?;
    Ok(text.cast::<PyString>()?.to_cow()?.into_owned())
}

/// Something in a policy that JSON does not know as something that it does.
#[pyfunction]
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    crate::task::known_to_json(object, "a policy")
}

/// Replaces one field of a policy by what stands for it in Python.
fn replace(policy: &mut core::Policy, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = value.py();
    // A policy with this field alone, as JSON has it.
    let alone = |rule: &Bound<'_, PyMapping>| {
        core::Policy::from_json(&format!("{{\"{name}\": {}}}", json(rule)?)).or_raise(py)
    };
    match name {
        "name" => policy.name = words(value, name)?,
        "blocks" => policy.blocks = words(value, name)?,
        "selection" => {
            policy.selection = match value.cast::<PyMapping>() {
                Ok(rule) => alone(rule)?.selection,
                Err(_) => {
                    let rule: SelectionName = parsed(value, name)?;
                    Selection::of_name(rule, None).or_raise(py)?
                }
            }
        }
        "horizon" => {
            policy.horizon = match value.cast::<PyMapping>() {
                Ok(rule) => alone(rule)?.horizon,
                Err(_) => HorizonRule::of_name(horizon(value)?),
            }
        }
        "horizons" => policy.horizons = horizons(value)?.get().to_vec(),
        "step_scale" => policy.step_scale = number(value, name)?,
        "dynamics" => policy.dynamics = parsed(value, name)?,
        "adjoint" => policy.adjoint = parsed(value, name)?,
        "residuals" => {
            policy.residuals = match value.cast::<PyMapping>() {
                Ok(rule) => alone(rule)?.residuals,
                Err(_) => Residuals::of_name(parsed(value, name)?),
            }
        }
        "shots" => {
            policy.shots = match value.cast::<PyMapping>() {
                Ok(shots) => alone(shots)?.shots,
                Err(_) => Shots { most: Some(value.extract()?), seed: 0 },
            }
        }
        "classes" => match value.cast::<PyMapping>() {
            Ok(classes) => policy.classes = alone(classes)?.classes,
            Err(_) => {
                let message =
                    format!("classes is {}; a dictionary is needed", type_name(value));
                return Err(named(py, "WrongType", message));
            }
        },
        _ => policy.coverage = number(value, name)?,
    }
    Ok(())
}

/// As Python says it of its own functions.
fn unexpected(function: &str, name: &str) -> PyErr {
    let message = format!("{function}() got an unexpected keyword argument '{name}'");
    PyTypeError::new_err(message)
}

/// A keyword that is a text.
pub(crate) fn words(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    match value.cast::<PyString>() {
        Ok(text) => Ok(text.to_cow()?.into_owned()),
        Err(_) => {
            let message = format!("{name} is {}; text is needed", type_name(value));
            Err(named(value.py(), "WrongType", message))
        }
    }
}

/// A keyword that names something.
pub(crate) fn parsed<T>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<T>
where
    T: FromStr,
    T::Err: Into<fewstep::Error>,
{
    words(value, name)?.parse::<T>().or_raise(value.py())
}

/// A keyword that is a number.
fn number(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    value.extract().map_err(|_| {
        let message = format!("{name} is {}; a number is needed", type_name(value));
        named(value.py(), "WrongType", message)
    })
}

/// A rule by its name, or a number of steps.
fn horizon(value: &Bound<'_, PyAny>) -> PyResult<HorizonName> {
    if value.is_instance_of::<PyString>() {
        return parsed(value, "horizon");
    }
    Ok(HorizonName::Fixed(value.extract()?))
}

/// Candidate numbers of steps: the command line's text, or numbers. Of an endless iterator no more
/// are asked for than may be taken.
fn horizons(value: &Bound<'_, PyAny>) -> PyResult<Horizons> {
    if value.is_instance_of::<PyString>() {
        return parsed(value, "horizons");
    }
    let entries = match value.try_iter() {
        Ok(entries) => {
            let entries = entries.take(MOST_HORIZONS + 1).collect::<PyResult<Vec<_>>>()?;
            PyList::new(value.py(), entries)?.into_any()
        }
        // It is refused for what it is.
        Err(_) => value.clone(),
    };
    Horizons::new(crate::evidence::horizons(&entries, "horizons")?).or_raise(value.py())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Policy>()
}

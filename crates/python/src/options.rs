//! What may be asked of a task, as keywords with the names and the meaning of the command line's
//! flags.

use crate::arrays::type_name;
use crate::errors::{OrRaise, named};
use fewstep::{Action, Asked, Dynamics, Error, Horizons, Session};
use fewstep_core::HorizonRule;
use fewstep_engine::{Bos, FirstFactor, Lora, Model};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::str::FromStr;

/// More candidate horizons than may be taken; of an endless iterator no more are asked for.
const MOST_HORIZONS: usize = 10_001;

/// The most threads: no machine has more processors, and every thread has a price.
const MOST_THREADS: usize = 4096;

/// What every method that decides takes.
const NAMES: &str = "blocks, select, budget, horizon, horizons, step_scale, seed, full, lora_rank, \
                     lora_first, progress and threads";

/// How tasks are answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    action: Action,
    asked: Asked,
    seed: Option<u64>,
    lora_rank: Option<usize>,
    lora_first: Option<FirstFactor>,
    /// Whether reports hold matrices.
    pub(crate) full: bool,
}

impl Options {
    /// Reads the keywords of a method; `None` stands for one that is not given. Only a method
    /// that acts takes `dynamics`.
    pub(crate) fn of(
        py: Python<'_>,
        acts: bool,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut options = Self {
            action: if acts { Action::Act } else { Action::Decide },
            asked: Asked::default(),
            seed: None,
            lora_rank: None,
            lora_first: None,
            full: false,
        };
        for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
            let name: String = name.extract()?;
            let given = (!value.is_none()).then_some(&value);
            options.set(py, &name, given)?;
        }
        Ok(options)
    }

    fn set(
        &mut self,
        py: Python<'_>,
        name: &str,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let acts = self.action != Action::Decide;
        let text = |value: Option<&Bound<'_, PyAny>>| -> PyResult<Option<String>> {
            value.map(|value| words(value, name)).transpose()
        };
        let asked = &mut self.asked;
        match name {
            "blocks" => asked.blocks = text(value)?,
            "select" => asked.select = parsed(py, text(value)?)?,
            "budget" => asked.budget = value.map(PyAnyMethods::extract).transpose()?,
            "horizon" => asked.horizon = value.map(horizon).transpose()?,
            "horizons" => asked.horizons = value.map(horizons).transpose()?,
            "step_scale" => {
                asked.step_scale =
                    value.map(|value| fraction(value, "step scale")).transpose()?;
            }
            "seed" => {
                self.seed = value.map(PyAnyMethods::extract).transpose()?;
                asked.seed = self.seed.unwrap_or_default();
            }
            "full" => {
                self.full = value.map(PyAnyMethods::extract).transpose()?.unwrap_or(false)
            }
            "lora_rank" => self.lora_rank = value.map(PyAnyMethods::extract).transpose()?,
            "lora_first" => self.lora_first = parsed(py, text(value)?)?,
            "dynamics" if acts => match text(value)?.as_deref() {
                None => asked.dynamics = None,
                Some("steps") => asked.dynamics = Some(Dynamics::Steps),
                Some("linear") => asked.dynamics = Some(Dynamics::Linear),
                Some(found) => return Err(unknown(py, "dynamics", found, "steps or linear")),
            },
            _ => {
                let more = if acts { "; dynamics too" } else { "" };
                let message =
                    format!("{name:?} is no keyword here; this method takes {NAMES}{more}");
                return Err(PyTypeError::new_err(message));
            }
        }
        Ok(())
    }

    /// The model with these settings. Its weights are shared.
    pub(crate) fn session(&self, model: &Model) -> Result<Session, Error> {
        let way = self.asked.way(model.config());
        let session = Session::new(model.clone(), self.action)?.with_way(way.clone())?;
        let low_rank = session.blocks().iter().any(|block| block.kind().is_lora());
        let flag = self.lora_rank.map(|_| "lora_rank");
        if let (false, Some(flag)) = (low_rank, flag.or(self.lora_first.map(|_| "lora_first")))
        {
            return Err(Error::NoLowRankBlocks { flag });
        }
        let own = model.network().lora();
        let lora = Lora {
            rank: self.lora_rank.unwrap_or(own.rank),
            first: self.lora_first.unwrap_or(own.first),
            seed: self.seed.unwrap_or(own.seed),
        };
        if !low_rank || lora == *own {
            return Ok(session.with_matrices(self.full));
        }
        let session = Session::new(model.clone().with_lora(lora)?, self.action)?;
        Ok(session.with_way(way)?.with_matrices(self.full))
    }
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

/// A text as what it names.
pub(crate) fn parsed<T>(py: Python<'_>, text: Option<String>) -> PyResult<Option<T>>
where
    T: FromStr,
    T::Err: Into<Error>,
{
    text.map(|text| text.parse::<T>().or_raise(py)).transpose()
}

/// A name that stands for nothing.
fn unknown(
    py: Python<'_>,
    quantity: &'static str,
    found: &str,
    allowed: &'static str,
) -> PyErr {
    let found = found.to_owned();
    crate::errors::refused(py, fewstep_core::Error::UnknownName { quantity, found, allowed })
}

/// Whether a token is put before every prompt, by the command line's names.
pub(crate) fn bos(py: Python<'_>, name: &str) -> PyResult<Bos> {
    match name {
        "auto" => Ok(Bos::Auto),
        "always" => Ok(Bos::Always),
        "never" => Ok(Bos::Never),
        found => Err(unknown(py, "bos", found, "auto, always or never")),
    }
}

/// How many threads: as many as asked for, or one per processor.
pub(crate) fn threads(py: Python<'_>, asked: Option<usize>) -> PyResult<usize> {
    match asked {
        None => Ok(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)),
        Some(threads @ 1..=MOST_THREADS) => Ok(threads),
        Some(found) => {
            let (quantity, allowed) = ("number of threads", "from 1 to 4096");
            let found = found as f64;
            Err(fewstep_core::Error::OutOfRange { quantity, found, allowed }).or_raise(py)
        }
    }
}

fn fraction(value: &Bound<'_, PyAny>, quantity: &'static str) -> PyResult<f64> {
    let found: f64 = value.extract()?;
    if 0.0 < found && found < 1.0 {
        return Ok(found);
    }
    let allowed = "over 0 and under 1";
    Err(fewstep_core::Error::OutOfRange { quantity, found, allowed }).or_raise(value.py())
}

/// A rule by its name, or a number of steps.
fn horizon(value: &Bound<'_, PyAny>) -> PyResult<HorizonRule> {
    if value.is_instance_of::<PyString>() {
        return words(value, "horizon")?.parse::<HorizonRule>().or_raise(value.py());
    }
    Ok(HorizonRule::Fixed(value.extract()?))
}

/// Candidate numbers of steps: the command line's text, or numbers.
fn horizons(value: &Bound<'_, PyAny>) -> PyResult<Horizons> {
    let py = value.py();
    if value.is_instance_of::<PyString>() {
        return words(value, "horizons")?.parse::<Horizons>().or_raise(py);
    }
    let mut found = Vec::new();
    for entry in value.try_iter()?.take(MOST_HORIZONS) {
        found.push(entry?.extract()?);
    }
    let shown: String = value.repr()?.to_string().chars().take(80).collect();
    Horizons::new(found, &shown).or_raise(py)
}

//! What may be asked of a task, as keywords with the names and the meaning of the command line's
//! flags.

use crate::errors::OrRaise;
use crate::policy::{KEYWORDS, RequestedPolicy, parsed};
use fewstep::{Action, Error, Predictor};
use fewstep_core::Field;
use fewstep_engine::{Bos, FirstFactor, Lora, Model};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The most threads: no machine has more processors, and every thread has a price.
const MOST_THREADS: usize = 4096;

/// How tasks are answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    action: Action,
    asked: RequestedPolicy,
    lora_rank: Option<usize>,
    lora_first: Option<FirstFactor>,
    /// Whether reports hold matrices.
    pub(crate) full: bool,
}

impl Options {
    /// Reads the keywords of a method; `None` stands for one that is not given.
    pub(crate) fn of(action: Action, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let asked = RequestedPolicy::default();
        let mut options =
            Self { action, asked, lora_rank: None, lora_first: None, full: false };
        for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
            options.set(&name.extract::<String>()?, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let given = !value.is_none();
        match name {
            "full" => self.full = given && value.extract()?,
            "lora_rank" => self.lora_rank = given.then(|| value.extract()).transpose()?,
            "lora_first" => self.lora_first = given.then(|| parsed(value, name)).transpose()?,
            _ if self.asked.set(name, value)? => {}
            _ => {
                let message = format!(
                    "{name:?} is no keyword here; this method takes {}, full, lora_rank, \
                     lora_first, progress and threads",
                    KEYWORDS.join(", ")
                );
                return Err(PyTypeError::new_err(message));
            }
        }
        Ok(())
    }

    /// The model with these settings. Its weights are shared.
    pub(crate) fn predictor(&self, model: &Model) -> Result<Predictor, Error> {
        let policy = self.asked.policy()?;
        let own = *model.network().lora();
        let lora = Lora {
            rank: self.lora_rank.unwrap_or(own.rank),
            first: self.lora_first.unwrap_or(own.first),
            seed: self.asked.overrides.seed.unwrap_or(own.seed),
        };
        let predictor = Predictor::new(model.clone(), policy.clone(), self.action)?;
        let low_rank = predictor.blocks().iter().any(|block| block.kind().is_lora());
        let rank = self.lora_rank.map(|_| Field::LORA_RANK);
        let described = rank.or(self.lora_first.map(|_| Field::LORA_FIRST));
        let predictor = match described {
            Some(field) if !low_rank => return Err(Error::NoLowRankBlocks { field }),
            _ if low_rank && lora != own => {
                Predictor::new(model.clone().with_lora(lora)?, policy, self.action)?
            }
            _ => predictor,
        };
        Ok(predictor.with_overrides(&self.asked.overrides).with_matrices(self.full))
    }
}

/// Whether a token is put before every prompt, by the command line's names.
pub(crate) fn bos(py: Python<'_>, name: &str) -> PyResult<Bos> {
    match name {
        "auto" => Ok(Bos::Auto),
        "always" => Ok(Bos::Always),
        "never" => Ok(Bos::Never),
        found => Err(fewstep_core::Error::UnknownName {
            quantity: "bos",
            found: found.to_owned(),
            allowed: "auto, always or never",
        })
        .or_raise(py),
    }
}

/// The number of threads that is asked for, or one per processor.
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

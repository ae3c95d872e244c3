//! Where a model comes from, and how it reads tasks.

use crate::errors::named;
use crate::options::bos;
use crate::policy::{parsed, words};
use crate::work::{elsewhere, lock, own_thread};
use fewstep_engine::{FirstFactor, HubSettings, Lora, Model, Order, PromptSettings};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule};
use std::sync::{Arc, Mutex};

/// What `Model.load` takes besides the source.
const NAMES: &str = "expand, bos, loo_order, max_tokens_per_example, memory_limit, lora_rank, \
                     lora_first, lora_seed and progress";

/// How a model is loaded.
pub(crate) struct LoadSettings {
    expand: bool,
    prompts: PromptSettings,
    memory_limit: Option<u64>,
    lora_rank: Option<usize>,
    lora_first: Option<FirstFactor>,
    lora_seed: Option<u64>,
}

impl LoadSettings {
    /// Reads the keywords of `Model.load`; `None` stands for one that is not given.
    pub(crate) fn of(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut settings = Self {
            expand: false,
            // The model puts its own context in.
            prompts: PromptSettings::new(1),
            memory_limit: None,
            lora_rank: None,
            lora_first: None,
            lora_seed: None,
        };
        for (name, value) in keywords.into_iter().flat_map(|keywords| keywords.iter()) {
            let name: String = name.extract()?;
            if let Some(value) = (!value.is_none()).then_some(&value) {
                settings.set(&name, value)?;
            } else if !NAMES.split([',', ' ']).any(|known| known == name) {
                return Err(unknown(&name));
            }
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        match name {
            "expand" => self.expand = value.extract()?,
            "bos" => self.prompts.bos = bos(py, &words(value, name)?)?,
            "loo_order" => self.prompts.order = parsed::<Order>(value, name)?,
            "max_tokens_per_example" => {
                self.prompts.max_tokens_per_example = Some(value.extract()?);
            }
            "memory_limit" => self.memory_limit = Some(value.extract()?),
            "lora_rank" => self.lora_rank = Some(value.extract()?),
            "lora_first" => self.lora_first = Some(parsed(value, name)?),
            "lora_seed" => self.lora_seed = Some(value.extract()?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn apply(&self, model: Model) -> Result<Model, fewstep::Error> {
        let model = if self.expand { model.dequantised() } else { model };
        let own = *model.network().lora();
        let lora = Lora {
            rank: self.lora_rank.unwrap_or(own.rank),
            first: self.lora_first.unwrap_or(own.first),
            seed: self.lora_seed.unwrap_or(own.seed),
        };
        let model = model.with_prompts(self.prompts).with_lora(lora)?;
        Ok(match self.memory_limit {
            Some(bytes) => model.with_memory_limit(bytes),
            None => model,
        })
    }
}

fn unknown(name: &str) -> PyErr {
    let message = format!("{name:?} is no keyword of Model.load, which takes {NAMES}");
    PyTypeError::new_err(message)
}

/// The name of a model: text, or a path.
pub(crate) fn source(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = object.py();
    let path = PyModule::import(py, "os")?.call_method1("fspath", (object,));
    let text = path.and_then(|path| path.extract::<String>());
    text.map_err(|_| {
        let found = crate::arrays::type_name(object);
        let message = format!("source is {found}; the name or the path of a model is needed");
        named(py, "WrongType", message)
    })
}

/// A download: the file, how many bytes there are, and how many there will be.
type Download = (String, u64, u64);

/// Reads a model, on a thread of its own; `progress` hears of downloads.
pub(crate) fn load(
    py: Python<'_>,
    source: String,
    settings: LoadSettings,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Model> {
    let heard: Arc<Mutex<Option<Download>>> = Arc::default();
    let telling = Arc::clone(&heard);
    let work = move || {
        let model = fewstep::load(&source, &HubSettings::from_environment(), |told| {
            *lock(&telling) = Some((told.file.to_owned(), told.done, told.total));
        })?;
        settings.apply(model)
    };
    elsewhere(py, work, own_thread, || {
        let told = lock(&heard).take();
        match (progress, told) {
            (Some(progress), Some(told)) => {
                progress.call_method1(py, "download", told).map(drop)
            }
            _ => Ok(()),
        }
    })
}

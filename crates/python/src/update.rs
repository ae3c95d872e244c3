//! Updates: what a decision changed, kept apart from the model.

use crate::errors::OrRaise;
use crate::parts::{Passes, Rows};
use crate::record;
use crate::record::Field;
use fewstep::BUILTIN;
use fewstep_engine::{Model, Outcome as Done};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;

/// What a decision changed in a model: the difference of some blocks, apart from the weights.
///
/// `model.predict_with` answers further queries with it. It can be saved for this package, for
/// PEFT and for llama.cpp.
#[pyclass(frozen, module = "fewstep")]
pub(crate) struct Update {
    pub(crate) update: fewstep_engine::Update,
    /// The model that it belongs to.
    pub(crate) model: Arc<Model>,
    /// What that model was loaded as.
    pub(crate) source: String,
}

#[pymethods]
impl Update {
    /// The names of the blocks that it updates.
    #[getter]
    fn blocks(&self) -> Vec<String> {
        self.update.blocks().iter().map(|(block, _)| block.to_string()).collect()
    }

    /// The changes of the blocks' weights, as the engine holds them: name to numbers in one row.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let changes = PyDict::new(py);
        for (block, change) in self.update.blocks() {
            changes.set_item(block.to_string(), PyArray1::from_slice(py, change))?;
        }
        Ok(changes)
    }

    /// Writes the update to a file that this package and the tool read.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.update.save(&path, self.model.network())).or_raise(py)
    }

    /// Writes the update into a directory as a LoRA adapter for PEFT; the directory is made if it
    /// is not there.
    fn save_peft(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let base = (self.source != BUILTIN).then_some(self.source.as_str());
        py.detach(|| {
            fewstep::adapter::make_directory(&path)?;
            Ok::<_, fewstep::Error>(self.update.save_peft(&path, self.model.network(), base)?)
        })
        .or_raise(py)
    }

    /// Writes the update to a file as a LoRA adapter for llama.cpp.
    fn save_lora_gguf(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.update.save_lora_gguf(&path, self.model.network())).or_raise(py)
    }

    fn __repr__(&self) -> String {
        let blocks = self.blocks();
        let shown: Vec<&str> = blocks.iter().take(8).map(String::as_str).collect();
        let rest = blocks.len() - shown.len();
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        format!("Update({}{more})", shown.join(" "))
    }
}

/// An outcome, and the model it is of.
pub(crate) struct Acted {
    pub(crate) outcome: Done,
    pub(crate) model: Arc<Model>,
    pub(crate) source: String,
}

record! {
    /// What came of carrying out a decision.
    Outcome from acted: Acted {
        /// The query's prediction without adapting.
        icl: f64 = acted.outcome.icl,
        /// The query's prediction with the update.
        adapted: f64 = acted.outcome.adapted,
        /// The query's prediction after each step, also of those that an average averages, or
        /// before and after an update at once.
        query_path: Py<PyAny> = acted.outcome.query_path.as_slice(),
        /// The same by the linearised model.
        linear_path: Py<PyAny> = acted.outcome.linear_path.as_slice(),
        /// The examples' predictions after each step, one row each time, or before and after an
        /// average or an update at once.
        prompt_path: Py<PyAny> = Rows(Some(&acted.outcome.prompt_path)),
        /// The update; `None` if the decision was to leave the model alone.
        update: Option<Py<Update>> = Moved(acted),
        /// What it cost.
        passes: Py<Passes> = fewstep::report::Passes::from(acted.outcome.passes),
    }
}

/// The update of an outcome.
struct Moved<'a>(&'a Acted);

impl Field<Option<Py<Update>>> for Moved<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Option<Py<Update>>> {
        let Acted { outcome, model, source } = self.0;
        let made = outcome.update.clone().map(|update| {
            let (model, source) = (Arc::clone(model), source.clone());
            Py::new(py, Update { update, model, source })
        });
        made.transpose()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Update>()?;
    module.add_class::<Outcome>()
}

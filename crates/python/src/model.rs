//! A pretrained model: tasks in, reports out.

use crate::decide::Decision;
use crate::errors::{OrRaise, named};
use crate::geometry::Geometry;
use crate::loading::{self, LoadSettings};
use crate::options::{Options, threads};
use crate::parts::Passes;
use crate::policy::RequestedPolicy;
use crate::record;
use crate::record::Field;
use crate::reports::{Reports, Stream, answer_object, answers, report_object};
use crate::task::{is_one, task};
use crate::update::{Acted, Outcome, Update};
use crate::work::{Pool, lock};
use fewstep::{Action, Predictor};
use fewstep_core::Policy;
use fewstep_engine::{BlockId, choose_blocks};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The number of predictors that are kept ready.
const KEPT_PREDICTORS: usize = 4;

/// A pretrained Transformer that answers tasks; `Model.load` reads one.
///
/// It is read-only: any number of threads may use one at the same time. `close`, or the end of a
/// `with` block, lets go of it.
#[pyclass(frozen, module = "fewstep")]
pub(crate) struct Model {
    open: Mutex<Option<Arc<Open>>>,
    source: String,
    settings: Py<PyDict>,
}

/// A model that is not closed.
struct Open {
    model: Arc<fewstep_engine::Model>,
    pool: Pool,
    predictors: Mutex<Vec<(Options, Arc<Predictor>)>>,
}

/// Blocks that may be updated, and the policy that they were chosen by.
struct Candidates {
    policy: Policy,
    blocks: Vec<BlockId>,
}

impl Open {
    /// The model with these options, made once.
    fn predictor(&self, py: Python<'_>, options: &Options) -> PyResult<Arc<Predictor>> {
        let kept = lock(&self.predictors).iter().find(|(known, _)| known == options).cloned();
        if let Some((_, predictor)) = kept {
            return Ok(predictor);
        }
        let predictor = Arc::new(py.detach(|| options.predictor(&self.model)).or_raise(py)?);
        let mut predictors = lock(&self.predictors);
        predictors.truncate(KEPT_PREDICTORS - 1);
        predictors.insert(0, (options.clone(), Arc::clone(&predictor)));
        Ok(predictor)
    }

    /// Blocks by their names if there is a list of these, else the candidates of a policy, for
    /// which a choice such as `value@last4` may be given.
    fn blocks(
        &self,
        py: Python<'_>,
        choice: Option<&Bound<'_, PyAny>>,
        function: &str,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Candidates> {
        let mut asked = RequestedPolicy::of(function, keywords)?;
        let named = match choice {
            Some(choice) if !choice.is_instance_of::<PyString>() => Some(choice),
            Some(choice) => asked.set("blocks", choice).map(|_| None)?,
            None => None,
        };
        let policy = asked.policy().or_raise(py)?;
        let Some(names) = named else {
            let blocks = choose_blocks(&policy.blocks, self.model.config()).or_raise(py)?;
            return Ok(Candidates { policy, blocks });
        };
        let names: Vec<String> = names.extract()?;
        let parse = |name: &String| name.parse::<BlockId>();
        let blocks = names.iter().map(parse).collect::<Result<_, _>>().or_raise(py)?;
        Ok(Candidates { policy, blocks })
    }
}

impl Model {
    fn open(&self, py: Python<'_>) -> PyResult<Arc<Open>> {
        lock(&self.open).clone().ok_or_else(|| {
            let message = format!("the model {:?} is closed; load it again", self.source);
            named(py, "Closed", message)
        })
    }

    /// Answers one task, many, or a table of them.
    fn answer<'py>(
        slf: &Bound<'py, Self>,
        tasks: &Bound<'py, PyAny>,
        asked: Call<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, open) = (slf.py(), slf.get().open(slf.py())?);
        let options = Options::of(asked.action, asked.options)?;
        let count = threads(py, asked.threads)?;
        if is_frame(tasks)? {
            return asked.of_frame(slf, tasks);
        }
        if !is_one(tasks) {
            let mut stream = slf.get().stream(tasks, &asked)?;
            let answers = PyList::empty(py);
            while let Some(answer) = stream.next(py).inspect_err(|_| open.pool.leave())? {
                answers.append(answer)?;
            }
            return Ok(answers.into_any());
        }
        let task = task(tasks)?;
        let predictor = open.predictor(py, &options)?;
        if task.further.is_some() {
            let found = open.pool.run(py, count, move || Ok(answers(&predictor, &task, 1)))?;
            let objects = found.into_iter().map(|one| answer_object(py, one, options.full));
            return Ok(PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any());
        }
        // A task without a list of queries has one answer.
        let only = move || Ok(predictor.answers(&task)?.remove(0)?.report);
        let answer = open.pool.run(py, count, only)?;
        Ok(report_object(py, answer, options.full)?.into_bound(py))
    }

    fn stream<'py>(
        &self,
        tasks: &Bound<'py, PyAny>,
        asked: &Call<'_, 'py>,
    ) -> PyResult<Stream> {
        let (py, open) = (tasks.py(), self.open(tasks.py())?);
        let options = Options::of(asked.action, asked.options)?;
        let pool = open.pool.of(py, threads(py, asked.threads)?)?;
        let predictor = open.predictor(py, &options)?;
        let total = tasks.len().ok();
        let rows = if is_frame(tasks)? {
            frames(py)?.call_method1("tasks", (tasks,))?
        } else {
            tasks.clone()
        };
        let stream = Stream::new(&rows.try_iter()?, predictor, pool, options.full)?;
        Ok(stream.with_progress(shown(py, asked.progress, total)?))
    }
}

/// How tasks are to be answered.
struct Call<'a, 'py> {
    action: Action,
    progress: Option<&'a Bound<'py, PyAny>>,
    threads: Option<usize>,
    options: Option<&'a Bound<'py, PyDict>>,
}

impl<'py> Call<'_, 'py> {
    /// Answers a table by a table.
    fn of_frame(
        &self,
        model: &Bound<'py, Model>,
        frame: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = model.py();
        let keywords = PyDict::new(py);
        if let Some(options) = self.options {
            keywords.update(options.as_mapping())?;
        }
        keywords.set_item("progress", self.progress)?;
        keywords.set_item("threads", self.threads)?;
        let method = model.getattr(match self.action {
            Action::Act => "predict",
            Action::Decide => "decide",
        })?;
        frames(py)?.call_method("answer", (method, frame), Some(&keywords))
    }
}

/// What knows data frames.
fn frames(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    PyModule::import(py, "fewstep.frames")
}

/// Whether an object is a table of pandas or polars, neither of which need be installed.
fn is_frame(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = object.get_type();
    let module = class.module()?;
    let module = module.to_cow()?;
    let library = module.split('.').next().unwrap_or_default();
    let name = class.name()?;
    Ok(matches!(library, "pandas" | "polars")
        && matches!(&*name.to_cow()?, "DataFrame" | "LazyFrame"))
}

/// What shows how far a call is, if it is to be shown.
fn shown(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    total: Option<usize>,
) -> PyResult<Option<Py<PyAny>>> {
    let Some(progress) = progress else { return Ok(None) };
    let shown =
        PyModule::import(py, "fewstep.progress")?.call_method1("show", (progress, total))?;
    Ok((!shown.is_none()).then(|| shown.unbind()))
}

record! {
    /// What was seen of a task, before anything is chosen.
    Observation from seen: fewstep_engine::Observation {
        /// The model's prediction for each example when it is held out.
        predictions: Py<PyAny> = seen.predictions.as_slice(),
        /// What these predictions leave of the answers.
        residuals: Py<PyAny> = seen.geometry.residuals(),
        /// The model's prediction for the query.
        query_prediction: f64 = seen.query_prediction,
        /// Residuals and blocks, all that a decision looks at.
        geometry: Py<Geometry> = Seen(&seen.geometry),
        /// What it cost.
        passes: Py<Passes> = fewstep::report::Passes::from(seen.passes),
    }
}

/// A geometry, for the object of its own.
struct Seen<'a>(&'a fewstep_core::Geometry);

impl Field<Py<Geometry>> for Seen<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<Geometry>> {
        Py::new(py, Geometry(self.0.clone()))
    }
}

#[pymethods]
impl Model {
    /// Reads a model: `builtin`, a directory, a GGUF file, or an id on the hub.
    ///
    /// `expand` dequantises a GGUF file's weights, four bytes each; `bos` says whether a token is put
    /// before every prompt (`auto`, `always`, `never`); `loo_order` is how a prompt that leaves an
    /// example out orders the others (`original`, `tree`); `max_tokens_per_example` cuts every x;
    /// `memory_limit` is how many bytes observing may take beside the model; `lora_rank`,
    /// `lora_first` (`random`, `inputs`) and `lora_seed` say what low-rank blocks look like.
    #[classmethod]
    #[pyo3(
        signature = (source = None, *, progress = None, **settings),
        text_signature = "(source='builtin', *, expand=False, bos='auto', loo_order='original', max_tokens_per_example=None, memory_limit=None, lora_rank=None, lora_first=None, lora_seed=0, progress=False)"
    )]
    fn load(
        class: &Bound<'_, PyType>,
        source: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = class.py();
        let read = LoadSettings::of(settings)?;
        let source = match source {
            Some(source) => loading::source(source)?,
            None => fewstep::BUILTIN.to_owned(),
        };
        let progress = shown(py, progress, None)?;
        let model = loading::load(py, source.clone(), read, progress.as_ref());
        if let Some(progress) = progress {
            progress.call_method0(py, "close")?;
        }
        let (pool, predictors) = (Pool::default(), Mutex::default());
        let open = Open { model: Arc::new(model?), pool, predictors };
        let settings = settings.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())?;
        Ok(Self { open: Mutex::new(Some(Arc::new(open))), source, settings: settings.unbind() })
    }

    /// What the model was loaded as.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// The sizes of the model.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let open = self.open(py)?;
        let config = open.model.config();
        let json = crate::task::parsed(py, &config.to_json())?;
        let sizes = PyDict::new(py);
        sizes.set_item("family", json.get_item("model_type")?)?;
        for (name, size) in [
            ("layers", config.layers),
            ("heads", config.heads),
            ("key_value_heads", config.key_value_heads()),
            ("head_width", config.head_width()),
            ("width", config.width),
            ("inner", config.inner),
            ("positions", config.positions),
            ("vocabulary", config.vocabulary),
        ] {
            sizes.set_item(name, size)?;
        }
        sizes.set_item("norm_epsilon", config.norm_epsilon)?;
        sizes.set_item("tied", config.tied)?;
        sizes.set_item("bos", config.bos)?;
        Ok(sizes)
    }

    /// The names of a policy's candidate blocks, or of those that a choice such as `value@last4`
    /// stands for.
    ///
    /// The keywords are those of `predict` that choose a policy and change it.
    #[pyo3(
        signature = (choice = None, **policy),
        text_signature = "($self, choice=None, *, policy='default', select=None, budget=None, horizon=None, horizons=None, step_scale=None, dynamics=None, coverage=None, adjoint=None, residuals=None, orders=None, shots=None, confidence=None, seed=None)"
    )]
    fn blocks(
        &self,
        py: Python<'_>,
        choice: Option<&Bound<'_, PyAny>>,
        policy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<String>> {
        let Candidates { blocks, .. } = self.open(py)?.blocks(py, choice, "blocks", policy)?;
        Ok(blocks.iter().map(ToString::to_string).collect())
    }

    /// Looks at a task and chooses nothing: predictions, residuals, and the blocks' kernels.
    ///
    /// The blocks are the candidates of the policy; `blocks` is another choice, such as
    /// `value@last4`, or a list of names. The keywords are those of `predict` that choose a policy
    /// and change it; `fewstep.decide` with the same ones decides as `decide` here.
    #[pyo3(
        signature = (task, blocks = None, **policy),
        text_signature = "($self, task, blocks=None, *, policy='default', select=None, budget=None, horizon=None, horizons=None, step_scale=None, dynamics=None, coverage=None, adjoint=None, residuals=None, orders=None, shots=None, confidence=None, seed=None)"
    )]
    fn observe(
        &self,
        py: Python<'_>,
        task: &Bound<'_, PyAny>,
        blocks: Option<&Bound<'_, PyAny>>,
        policy: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Observation> {
        let open = self.open(py)?;
        let Candidates { policy, blocks } = open.blocks(py, blocks, "observe", policy)?;
        let model = fewstep_engine::Model::clone(&open.model).with_policy(&policy);
        let task = crate::task::task(task)?;
        let work = move || Ok(model.observe(&task, &blocks)?);
        Observation::of(py, &open.pool.run(py, threads(py, None)?, work)?)
    }

    /// Explains tasks and leaves the model alone: a report for one, a list for many, a table for
    /// a table.
    ///
    /// The keywords are those of `predict`.
    #[pyo3(
        signature = (tasks, *, progress = None, threads = None, **options),
        text_signature = "($self, tasks, *, policy='default', blocks=None, select=None, budget=None, horizon=None, horizons=None, step_scale=None, dynamics=None, coverage=None, adjoint=None, residuals=None, orders=None, shots=None, confidence=None, seed=None, full=False, lora_rank=None, lora_first=None, progress=False, threads=None)"
    )]
    fn decide<'py>(
        slf: &Bound<'py, Self>,
        tasks: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::answer(slf, tasks, Call { action: Action::Decide, progress, threads, options })
    }

    /// Answers tasks: a report for one, a list for many, a table for a table of pandas or polars.
    ///
    /// A task of classes, whose labels have no values, is answered by a `ClassReport`, any other by a
    /// `Report`. A task with a list of `queries` has a report for each, in order: its examples are observed once.
    /// A task is a `Task`, a dictionary or a line of JSON. One that cannot be answered raises; among
    /// many it becomes a `Failure` in its place. The keywords are the flags of the command line:
    /// `policy` is a `Policy`, "default", "paper", a dictionary with the fields of its JSON, or that
    /// JSON, and `blocks`, `select`, `budget`, `horizon`, `horizons`, `step_scale`, `dynamics`,
    /// `coverage`, `adjoint`, `residuals`, `orders`, `shots`, `confidence` and `seed` each change only what
    /// they name of it. `full` adds the matrices; `progress` shows a line on a terminal (`"always"`: anywhere); `threads` is the number of tasks
    /// at the same time, one per processor unless given.
    #[pyo3(
        signature = (tasks, *, progress = None, threads = None, **options),
        text_signature = "($self, tasks, *, policy='default', blocks=None, select=None, budget=None, horizon=None, horizons=None, step_scale=None, dynamics=None, coverage=None, adjoint=None, residuals=None, orders=None, shots=None, confidence=None, seed=None, full=False, lora_rank=None, lora_first=None, progress=False, threads=None)"
    )]
    fn predict<'py>(
        slf: &Bound<'py, Self>,
        tasks: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::answer(slf, tasks, Call { action: Action::Act, progress, threads, options })
    }

    /// Answers many tasks one after the other: an iterator over reports and failures, in order.
    ///
    /// Tasks are read when there is room for their answers, a few per thread ahead, so they may
    /// come from a source without end. The keywords are those of `predict`.
    #[pyo3(
        signature = (tasks, *, progress = None, threads = None, **options),
        text_signature = "($self, tasks, *, policy='default', blocks=None, select=None, budget=None, horizon=None, horizons=None, step_scale=None, dynamics=None, coverage=None, adjoint=None, residuals=None, orders=None, shots=None, confidence=None, seed=None, full=False, lora_rank=None, lora_first=None, progress=False, threads=None)"
    )]
    fn predict_iter<'py>(
        &self,
        tasks: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Reports> {
        if is_one(tasks) {
            let message = "tasks is one task; give a list, or use predict".to_owned();
            return Err(named(tasks.py(), "WrongType", message));
        }
        let asked = Call { action: Action::Act, progress, threads, options };
        Ok(Reports::new(self.stream(tasks, &asked)?))
    }

    /// Carries out a decision in the model, whatever its dynamics: it was made for what the model
    /// observed of this task.
    fn act(
        &self,
        py: Python<'_>,
        task: &Bound<'_, PyAny>,
        decision: &Bound<'_, Decision>,
    ) -> PyResult<Outcome> {
        let open = self.open(py)?;
        let task = crate::task::task(task)?;
        let (model, chosen) = (Arc::clone(&open.model), decision.get().decision.clone());
        let work = move || {
            let model = fewstep_engine::Model::clone(&model).with_policy(&chosen.policy);
            Ok(model.act(&task, &chosen)?)
        };
        let outcome = open.pool.run(py, threads(py, None)?, work)?;
        let (model, source) = (Arc::clone(&open.model), self.source.clone());
        Outcome::of(py, &Acted { outcome, model, source })
    }

    /// The prediction for a task's query under an update that was made before.
    fn predict_with(
        &self,
        py: Python<'_>,
        task: &Bound<'_, PyAny>,
        update: &Bound<'_, Update>,
    ) -> PyResult<f64> {
        let open = self.open(py)?;
        let task = crate::task::task(task)?;
        let (model, update) = (Arc::clone(&open.model), update.get().update.clone());
        open.pool.run(py, threads(py, None)?, move || Ok(model.predict(&task, &update)?))
    }

    /// Reads an update: a file of this package, or a directory with a LoRA adapter of PEFT.
    fn load_update(&self, py: Python<'_>, path: PathBuf) -> PyResult<Update> {
        let open = self.open(py)?;
        let network = open.model.network();
        let read = py.detach(|| match path.is_dir() {
            true => fewstep_engine::Update::load_peft(&path, network),
            false => fewstep_engine::Update::load(&path, network),
        });
        let (model, source) = (Arc::clone(&open.model), self.source.clone());
        Ok(Update { update: read.or_raise(py)?, model, source })
    }

    /// Lets go of the model; every method refuses to work from then on.
    fn close(&self) {
        let open = lock(&self.open).take();
        drop(open);
    }

    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        slf.get().open(py)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let source = PyString::new(py, &self.source).repr()?;
        let Some(open) = lock(&self.open).clone() else {
            return Ok(format!("Model({source}, closed)"));
        };
        let config = open.model.config();
        let (layers, heads, width) = (config.layers, config.heads, config.width);
        Ok(format!("Model({source}, {layers} layers, {heads} heads, width {width})"))
    }

    /// A copy in another process reads the model again.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, model) = (slf.py(), slf.get());
        model.open(py)?;
        let load = slf.get_type().getattr("load")?;
        let partial = PyModule::import(py, "functools")?.getattr("partial")?;
        let settings = model.settings.bind(py);
        let again = partial.call((load, &model.source), Some(settings))?;
        Ok((again, PyTuple::empty(py)))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Model>()?;
    module.add_class::<Observation>()
}

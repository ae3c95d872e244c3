//! Tasks: labelled examples, a query, and how they are written.
//!
//! Whatever Python holds a task in becomes the JSON that the tool reads, so that both refuse the
//! same things with the same words.

use crate::arrays::type_name;
use crate::errors::{OrRaise, named};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple, PyType};

/// Labelled examples, a query, and how they are written into a prompt.
///
/// `template` is how one example is written, text with `{x}` and, behind it, `{y}`. `examples` are
/// dictionaries `{"x": …, "y": …}` or pairs; `query` is a text or a dictionary with an `x` and
/// maybe a `y`, which is used for scoring only; `queries`, in its place, is a list of these. `labels`
/// are the possible answers with the numbers they stand for, dictionaries `{"text": …, "value": …}` or
/// pairs. Labels without values, texts or dictionaries `{"text": …}`, make a task of classes; without
/// `labels` the answers of the examples are the classes, in their order. `separator` stands between
/// examples. What the words say is checked when the task is asked, or by `check`.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(Clone, PartialEq)]
pub(crate) struct Task(pub(crate) fewstep_engine::Task);

#[pymethods]
impl Task {
    #[new]
    #[pyo3(
        signature = (id, template, examples, query = None, labels = None, separator = None, queries = None),
        text_signature = "(id, template, examples, query=None, labels=None, separator='\\n', queries=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "Python names them")]
    fn new<'py>(
        id: &Bound<'py, PyAny>,
        template: &Bound<'py, PyAny>,
        examples: Bound<'py, PyAny>,
        query: Option<Bound<'py, PyAny>>,
        labels: Option<Bound<'py, PyAny>>,
        separator: Option<&Bound<'py, PyAny>>,
        queries: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let py = id.py();
        let fields = PyDict::new(py);
        fields.set_item("id", id)?;
        fields.set_item("template", template)?;
        if let Some(separator) = separator {
            fields.set_item("separator", separator)?;
        }
        if let Some(labels) = labels {
            fields.set_item("labels", each(listed(labels)?, label)?)?;
        }
        fields.set_item("examples", listed(examples)?)?;
        if let Some(query) = query {
            fields.set_item("query", asked(query)?)?;
        }
        if let Some(queries) = queries {
            fields.set_item("queries", each(listed(queries)?, asked)?)?;
        }
        Ok(Self(read(fields.as_any())?.or_raise(py)?))
    }

    /// A task from a dictionary with the fields of its JSON.
    #[staticmethod]
    fn from_dict(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = fields.py();
        if fields.cast::<PyMapping>().is_err() {
            let message = format!("a task is {}; a dictionary is needed", type_name(fields));
            return Err(named(py, "WrongType", message));
        }
        Ok(Self(read(fields)?.or_raise(py)?))
    }

    /// A task from one line of a file of tasks.
    #[staticmethod]
    fn from_json(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = text.py();
        if !is_text(text) {
            let message = format!("a task is {}; text is needed", type_name(text));
            return Err(named(py, "WrongType", message));
        }
        Ok(Self(read(text)?.or_raise(py)?))
    }

    /// The task's name, for reports and messages.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// How one example is written.
    #[getter]
    fn template(&self) -> &str {
        &self.0.template
    }

    /// What stands between examples.
    #[getter]
    fn separator(&self) -> &str {
        &self.0.separator
    }

    /// The possible answers, each a dictionary with a text and, unless they are classes, a value.
    #[getter]
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("labels")
    }

    /// The labelled examples, in the order of the prompt.
    #[getter]
    fn examples<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item("examples")
    }

    /// The input whose answer is wanted; of several, the first.
    #[getter]
    fn query<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.further {
            None => self.to_dict(py)?.get_item("query"),
            Some(_) => self.to_dict(py)?.get_item("queries")?.get_item(0),
        }
    }

    /// The inputs whose answers are wanted, if the task has a list of them.
    #[getter]
    fn queries<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.0.further {
            None => Ok(None),
            Some(_) => self.to_dict(py)?.get_item("queries").map(Some),
        }
    }

    /// Refuses a task that cannot be asked at all; its words are checked, its tokens are not.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.check().or_raise(py)
    }

    /// The task as one line of JSON, without a line break.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("every field can be written")
    }

    /// The task as a dictionary with the fields of its JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &self.to_json())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let Self(task) = slf.get();
        let id = PyString::new(slf.py(), &task.id).repr()?;
        let (examples, labels) = (task.examples.len(), task.labels.len());
        Ok(format!("Task({id}, {examples} examples, {labels} labels)"))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.getattr("from_json")?, PyTuple::new(slf.py(), [slf.get().to_json()])?))
    }
}

/// A query: a text stands for its input.
fn asked(query: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    if !query.is_instance_of::<PyString>() {
        return Ok(query);
    }
    let alone = PyDict::new(query.py());
    alone.set_item("x", query)?;
    Ok(alone.into_any())
}

/// A label: a pair stands for a text and its value.
fn label(label: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let pair = label.is_instance_of::<PyTuple>() || label.is_instance_of::<PyList>();
    if !pair || label.len()? != 2 {
        return Ok(label);
    }
    let fields = PyDict::new(label.py());
    fields.set_item("text", label.get_item(0)?)?;
    fields.set_item("value", label.get_item(1)?)?;
    Ok(fields.into_any())
}

/// Every entry of a list as something else; what is no list is refused with the tool's words.
fn each<'py>(
    list: Bound<'py, PyAny>,
    entry: fn(Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match list.cast::<PyList>() {
        Ok(entries) => {
            let entries = entries.iter().map(entry).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(list.py(), entries)?.into_any())
        }
        Err(_) => Ok(list),
    }
}

/// A list of what an object holds: generators and arrays as well as lists.
fn listed(object: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let whole = object.is_instance_of::<PyString>() || object.cast::<PyMapping>().is_ok();
    match object.try_iter() {
        Ok(entries) if !whole => {
            let entries = entries.collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(object.py(), entries)?.into_any())
        }
        // What is no list is refused with the tool's words.
        _ => Ok(object),
    }
}

/// Text of JSON as Python's values.
pub(crate) fn parsed<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    LOADS.import(py, "json", "loads")?.call1((json,))
}

/// Something in a task that JSON does not know as something that it does.
#[pyfunction]
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    known_to_json(object, "a task")
}

/// Something that JSON does not know as something that it does; `place` is where it stands.
pub(crate) fn known_to_json<'py>(
    object: &Bound<'py, PyAny>,
    place: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let dictionary = PyDict::new(py);
        dictionary.update(mapping)?;
        return Ok(dictionary.into_any());
    }
    for method in ["tolist", "to_list"] {
        if object.hasattr(method)? {
            return object.call_method0(method);
        }
    }
    let found = type_name(object);
    let message =
        format!("{place} holds {found}; texts, numbers, lists and dictionaries can be read");
    Err(named(py, "WrongType", message))
}

fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>()
}

/// Whether an object is one task, not many.
pub(crate) fn is_one(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<Task>() || is_text(object) || object.cast::<PyMapping>().is_ok()
}

/// The task that an object stands for: a [`Task`], a dictionary, or a line of JSON. What Python
/// cannot hand over raises; what the tool refuses is the inner error.
pub(crate) fn read(
    object: &Bound<'_, PyAny>,
) -> PyResult<Result<fewstep_engine::Task, fewstep::Error>> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    if let Ok(task) = object.cast::<Task>() {
        return Ok(Ok(task.get().0.clone()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(fewstep::tasks::parse(bytes.as_bytes().trim_ascii_end()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(fewstep::tasks::parse(text.to_cow()?.trim_ascii_end().as_bytes()));
    }
    let Ok(mapping) = object.cast::<PyMapping>() else {
        let found = type_name(object);
        let message = format!("a task is {found}; give a Task, a dictionary or a line of JSON");
        return Err(named(py, "WrongType", message));
    };
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "default"), wrap_pyfunction!(plain, py)?)?;
    let text = DUMPS.import(py, "json", "dumps")?.call((mapping,), Some(&keywords))?;
    Ok(fewstep::tasks::parse(text.cast::<PyString>()?.to_cow()?.as_bytes()))
}

/// As [`read`], for one task: what is wrong with it raises.
pub(crate) fn task(object: &Bound<'_, PyAny>) -> PyResult<fewstep_engine::Task> {
    read(object)?.or_raise(object.py())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Task>()
}

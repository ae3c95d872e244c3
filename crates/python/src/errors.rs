//! One Python exception per error variant, made from the lists below when the module is loaded.
//!
//! A variant's name is its class; classes of the same name in several crates are one. Every class
//! is a [`FewstepError`] and the built-in exception that Python programmers expect.

use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::collections::BTreeMap;

pyo3::create_exception!(
    fewstep,
    FewstepError,
    PyException,
    "What every error of fewstep is: its message says what was found, what is allowed and what to do; \
     `field` names the field of a policy that is at fault, if one is."
);

/// Which built-in exception a class is besides.
#[derive(Clone, Copy)]
enum Kind {
    Value,
    Type,
    File,
    Runtime,
}

/// Every variant of the three crates' errors, and what only the border between Rust and Python
/// refuses. A test compares this list with the enumerations.
const CLASSES: &[(&str, Kind)] = &[
    ("Empty", Kind::Value),
    ("SizeMismatch", Kind::Value),
    ("NotFinite", Kind::Value),
    ("NotSymmetric", Kind::Value),
    ("NotPositiveSemidefinite", Kind::Value),
    ("CouplingTooLarge", Kind::Value),
    ("StepTooLarge", Kind::Value),
    ("OutOfRange", Kind::Value),
    ("BudgetOutOfRange", Kind::Value),
    ("BadBlock", Kind::Value),
    ("DuplicateBlock", Kind::Value),
    ("NoQuery", Kind::Value),
    ("Policy", Kind::Value),
    ("PolicyJson", Kind::Value),
    ("UnknownName", Kind::Value),
    ("Decomposition", Kind::Runtime),
    ("NotConverged", Kind::Runtime),
    ("File", Kind::File),
    ("NotAFile", Kind::File),
    ("FileTooLarge", Kind::File),
    ("Json", Kind::Value),
    ("Unsupported", Kind::Value),
    ("SizeOutOfRange", Kind::Value),
    ("EpsilonOutOfRange", Kind::Value),
    ("HeadsDoNotDivide", Kind::Value),
    ("KeyValueHeadsDoNotDivide", Kind::Value),
    ("NoWeights", Kind::File),
    ("ShardName", Kind::Value),
    ("ShardCount", Kind::Value),
    ("HeaderLength", Kind::Value),
    ("TensorBytes", Kind::Value),
    ("UncoveredBytes", Kind::Value),
    ("DuplicateTensor", Kind::Value),
    ("MissingTensor", Kind::Value),
    ("UnknownTensor", Kind::Value),
    ("TensorShape", Kind::Value),
    ("TensorType", Kind::Value),
    ("WeightNotFinite", Kind::Value),
    ("TiedWeightsDiffer", Kind::Value),
    ("NotGguf", Kind::Value),
    ("GgufVersion", Kind::Value),
    ("GgufCut", Kind::Value),
    ("GgufCount", Kind::Value),
    ("Metadata", Kind::Value),
    ("TensorEncoding", Kind::Value),
    ("TensorBlocks", Kind::Value),
    ("UnknownSetting", Kind::Value),
    ("BadPattern", Kind::Value),
    ("NotAdaptable", Kind::Value),
    ("NotFactorised", Kind::Value),
    ("ModelNotFound", Kind::File),
    ("NotInCache", Kind::File),
    ("NotOnHub", Kind::File),
    ("Download", Kind::File),
    ("NoTokenizer", Kind::File),
    ("BadMerge", Kind::Value),
    ("DuplicateToken", Kind::Value),
    ("TokenBeyondVocabulary", Kind::Value),
    ("TextTooLong", Kind::Value),
    ("UnknownText", Kind::Value),
    ("NoBos", Kind::Value),
    ("Placeholder", Kind::Value),
    ("PlaceholderOrder", Kind::Value),
    ("TooFewExamples", Kind::Value),
    ("TooFewLabels", Kind::Value),
    ("EmptyLabel", Kind::Value),
    ("DuplicateLabel", Kind::Value),
    ("LabelWithoutValue", Kind::Value),
    ("TooManyLabels", Kind::Value),
    ("NotRegression", Kind::Value),
    ("NotClassification", Kind::Value),
    ("LabelValue", Kind::Value),
    ("EmptyInput", Kind::Value),
    ("UnknownLabel", Kind::Value),
    ("NoTokensPerExample", Kind::Value),
    ("LabelPieces", Kind::Value),
    ("BadClassBlocks", Kind::Value),
    ("DuplicateClassBlock", Kind::Value),
    ("LabelBegins", Kind::Value),
    ("LabelsCollide", Kind::Value),
    ("LabelsDisagree", Kind::Value),
    ("EmptyPrompt", Kind::Value),
    ("ContextTooLong", Kind::Value),
    ("TooManyTokens", Kind::Value),
    ("CannotTrain", Kind::Value),
    ("TargetOutOfRange", Kind::Value),
    ("Diverged", Kind::Runtime),
    ("NotACheckpoint", Kind::Value),
    ("OtherRun", Kind::Value),
    ("NegativeMoment", Kind::Value),
    ("Shots", Kind::Value),
    ("NoLocalForm", Kind::Value),
    ("EmptySequence", Kind::Value),
    ("SequenceTooLong", Kind::Value),
    ("BeyondWindow", Kind::Value),
    ("TokenOutOfRange", Kind::Value),
    ("UnknownKind", Kind::Value),
    ("UnknownFirstFactor", Kind::Value),
    ("LoraRank", Kind::Value),
    ("FirstFactorOfPrompts", Kind::Value),
    ("ForeignBlock", Kind::Value),
    ("UnknownOrder", Kind::Value),
    ("BadLayers", Kind::Value),
    ("BadChoice", Kind::Value),
    ("BadBlockName", Kind::Value),
    ("NoSuchBlock", Kind::Value),
    ("NoGate", Kind::Value),
    ("BlockNotOnTape", Kind::Value),
    ("NotAValueBlock", Kind::Value),
    ("TooMuchMemory", Kind::Runtime),
    ("Threads", Kind::Runtime),
    ("NotUtf8", Kind::Value),
    ("LineTooLong", Kind::Value),
    ("DuplicateId", Kind::Value),
    ("NoTasks", Kind::Value),
    ("Mistake", Kind::Value),
    ("NoLowRankBlocks", Kind::Value),
    ("StepsForClasses", Kind::Value),
    ("RegressionOnly", Kind::Value),
    ("AdapterForClasses", Kind::Value),
    ("OutExists", Kind::File),
    ("OutBusy", Kind::File),
    ("OutLine", Kind::File),
    ("NoAdapter", Kind::File),
    ("AdapterInTheWay", Kind::File),
    ("Figure", Kind::Runtime),
    ("OpenToAll", Kind::Value),
    ("Listen", Kind::File),
    ("BadToken", Kind::Value),
    ("SameModel", Kind::Value),
    ("WrongType", Kind::Type),
    ("WrongShape", Kind::Value),
    ("Closed", Kind::Runtime),
    ("OtherSettings", Kind::Value),
    ("NothingToSave", Kind::Value),
];

/// Where the variants are described.
const SOURCES: [&str; 3] = [
    include_str!("../../core/src/error.rs"),
    include_str!("../../engine/src/error.rs"),
    include_str!("../../fewstep/src/error.rs"),
];

/// What the classes of the border are, which no source describes.
const BORDER: [(&str, &str); 5] = [
    ("Closed", "Something was asked of a model that was closed."),
    ("NothingToSave", "An update is to be written, and no block was chosen."),
    ("OtherSettings", "A directory holds answers that another model or policy gave."),
    ("WrongShape", "An array has more or fewer axes than are needed."),
    ("WrongType", "An object is of a kind that cannot be used here."),
];

/// The description of every variant, as `help` shows it.
fn descriptions() -> BTreeMap<&'static str, String> {
    let mut found: BTreeMap<_, _> =
        BORDER.iter().map(|&(name, text)| (name, text.to_owned())).collect();
    for source in SOURCES {
        let mut lines = Vec::new();
        let variants = source.lines().skip_while(|line| !line.starts_with("pub enum Error {"));
        for line in variants.skip(1).take_while(|line| *line != "}") {
            let Some(line) = line.strip_prefix("    ") else { continue };
            if let Some(text) = line.strip_prefix("/// ") {
                lines.push(text);
            } else if line.starts_with(char::is_uppercase) {
                let name = line.split(|c: char| !c.is_alphanumeric()).next();
                found.entry(name.unwrap_or_default()).or_insert_with(|| lines.join(" "));
                lines.clear();
            }
        }
    }
    found
}

static TABLE: PyOnceLock<BTreeMap<&'static str, Py<PyType>>> = PyOnceLock::new();

fn table(py: Python<'_>) -> PyResult<&BTreeMap<&'static str, Py<PyType>>> {
    TABLE.get_or_try_init(py, || {
        let base = py.get_type::<FewstepError>();
        let described = descriptions();
        let class = |&(name, kind): &(&'static str, Kind)| {
            let built_in = match kind {
                Kind::Value => py.get_type::<PyValueError>(),
                Kind::Type => py.get_type::<PyTypeError>(),
                Kind::File => py.get_type::<PyOSError>(),
                Kind::Runtime => py.get_type::<PyRuntimeError>(),
            };
            let bases = PyTuple::new(py, [base.clone(), built_in])?;
            // A class with two bases is made as Python would make it.
            let members = PyDict::new(py);
            members.set_item("__module__", "fewstep.errors")?;
            members.set_item("__doc__", described.get(name))?;
            let class = py.get_type::<PyType>().call1((name, bases, members))?;
            Ok((name, class.cast_into::<PyType>()?.unbind()))
        };
        CLASSES.iter().map(class).collect()
    })
}

/// Puts every class into the module `errors`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = py.get_type::<FewstepError>();
    // Of a policy or of the keywords beside it, under its name in JSON.
    base.setattr(intern!(py, "field"), py.None())?;
    module.add("FewstepError", base)?;
    for (name, class) in table(py)? {
        module.add(*name, class.bind(py))?;
    }
    Ok(())
}

/// An error of the class with this name.
pub(crate) fn named(py: Python<'_>, name: &str, message: String) -> PyErr {
    match table(py) {
        Ok(table) => match table.get(name) {
            Some(class) => PyErr::from_type(class.bind(py).clone(), message),
            None => FewstepError::new_err(message),
        },
        Err(error) => error,
    }
}

/// What the tool refuses, as the exception of its innermost variant.
pub(crate) fn refused(py: Python<'_>, error: impl Into<fewstep::Error>) -> PyErr {
    let error = error.into();
    let message = error.to_string();
    let shown = match &error {
        fewstep::Error::Core(inner)
        | fewstep::Error::Engine(fewstep_engine::Error::Core(inner)) => {
            format!("{inner:?}")
        }
        fewstep::Error::Engine(inner) => format!("{inner:?}"),
        other => format!("{other:?}"),
    };
    // A derived Debug begins with the variant's name.
    let name = shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let raised = named(py, name, message);
    match error.field() {
        Some(field) => of_field(py, raised, field.name()),
        None => raised,
    }
}

/// The same exception as one about a field, unless it is about one already.
pub(crate) fn of_field(py: Python<'_>, error: PyErr, field: &str) -> PyErr {
    let name = intern!(py, "field");
    let value = error.value(py);
    let known = value.getattr(name).is_ok_and(|known| !known.is_none());
    if known || !error.is_instance_of::<FewstepError>(py) {
        return error;
    }
    match value.setattr(name, field) {
        Ok(()) => error,
        Err(refused) => refused,
    }
}

/// Lets `?` work on results of the three crates where Python is at hand.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error's variant.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<fewstep::Error>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| refused(py, error))
    }
}

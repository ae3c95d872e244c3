//! How good probabilities of labels are: `fewstep.metrics`.

use crate::arrays::{matrix, numbers, type_name};
use crate::class_report::ClassReport;
use crate::errors::named;
use crate::record::{dictionary, repr};
use crate::report::{Failure, Report};
use crate::submodule;
use fewstep::metrics;
use fewstep::text::ClassSummary;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

/// Accuracy, macro-F1, log-loss, Brier score and calibration error of answers that are known.
///
/// `add` counts one query after the other; `ClassScores.of` counts the rows of an array. Counts and
/// sums are kept, no query is.
#[pyclass(eq, module = "fewstep.metrics")]
#[derive(Clone, Default, PartialEq)]
pub(crate) struct ClassScores(metrics::ClassScores);

impl ClassScores {
    /// Counts a query, once it is known to be one.
    fn count_in(
        &mut self,
        py: Python<'_>,
        labels: &[String],
        probabilities: &[f64],
        answer: usize,
    ) -> PyResult<()> {
        let (named_labels, given) = (labels.len(), probabilities.len());
        if named_labels != given {
            let message = format!("there are {given} probabilities for {named_labels} labels");
            return Err(named(py, "SizeMismatch", message));
        }
        if given == 0 {
            return Err(named(
                py,
                "Empty",
                "there are no labels; give at least one".to_owned(),
            ));
        }
        if answer >= given {
            let message = format!(
                "the answer {answer} is no label; labels are counted from 0 to {}",
                given - 1
            );
            return Err(named(py, "OutOfRange", message));
        }
        if let Some(found) = probabilities.iter().find(|found| !(0.0..=1.0).contains(*found)) {
            let message = format!("a probability is {found}; it must lie between 0 and 1");
            return Err(named(py, "OutOfRange", message));
        }
        self.0.add(labels, probabilities, answer);
        Ok(())
    }
}

#[pymethods]
impl ClassScores {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The scores of many queries: one row of probabilities for each, and which label is its answer.
    ///
    /// `answers` are positions of labels, or their texts if `labels` are given.
    #[classmethod]
    #[pyo3(signature = (probabilities, answers, labels = None))]
    fn of(
        _class: &Bound<'_, PyType>,
        probabilities: &Bound<'_, PyAny>,
        answers: &Bound<'_, PyAny>,
        labels: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = probabilities.py();
        let rows = matrix(probabilities, "probabilities")?;
        let labels = match labels {
            Some(labels) => texts(labels)?,
            None => (0..rows.columns()).map(|label| label.to_string()).collect(),
        };
        let answers = answers.try_iter().map_err(|_| {
            let message = format!("answers is {}; give a list of them", type_name(answers));
            named(py, "WrongType", message)
        })?;
        let answers: Vec<_> = answers.collect::<PyResult<_>>()?;
        if answers.len() != rows.rows() {
            let (given, needed) = (answers.len(), rows.rows());
            let message =
                format!("there are {given} answers for {needed} rows of probabilities");
            return Err(named(py, "SizeMismatch", message));
        }
        let mut scores = Self::default();
        for (row, answer) in answers.iter().enumerate() {
            scores.count_in(py, &labels, rows.row(row), position(answer, &labels)?)?;
        }
        Ok(scores)
    }

    /// Counts a query: the texts of its labels, their probabilities, and its answer, which is the text
    /// of a label or its position.
    ///
    /// The first of equally probable labels counts as predicted.
    fn add(
        &mut self,
        labels: &Bound<'_, PyAny>,
        probabilities: &Bound<'_, PyAny>,
        answer: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let labels = texts(labels)?;
        let probabilities = numbers(probabilities, "probabilities")?;
        let position = position(answer, &labels)?;
        self.count_in(answer.py(), &labels, &probabilities, position)
    }

    /// The number of queries that were counted.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The share of queries whose most probable label is the answer; not a number without any.
    #[getter]
    fn accuracy(&self) -> f64 {
        self.0.accuracy()
    }

    /// F1 averaged over the labels that were an answer or predicted, each counting the same.
    ///
    ///     F1 = 2 · both / (predicted + answer)
    #[getter]
    fn macro_f1(&self) -> f64 {
        self.0.macro_f1()
    }

    /// The mean log-loss, −log p of the answer, clipped at p = 1e-6.
    #[getter]
    fn log_loss(&self) -> f64 {
        self.0.log_loss()
    }

    /// The mean Brier score, from 0 to 2: Σ_c (p_c − [c is the answer])².
    #[getter]
    fn brier(&self) -> f64 {
        self.0.brier()
    }

    /// Expected calibration error: how far the largest probability is from the share of correct
    /// answers.
    ///
    ///     Σ_b |Σ_{i in b} (p_i − correct_i)| / n,    ten bins [0, 0.1), …, [0.9, 1] of p_i
    #[getter]
    fn calibration_error(&self) -> f64 {
        self.0.calibration_error()
    }

    /// The scores by their names.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        dictionary(slf.as_any(), &SCORES)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        repr("ClassScores", &Self::to_dict(slf)?)
    }
}

/// The names of the scores.
const SCORES: [&str; 6] =
    ["count", "accuracy", "macro_f1", "log_loss", "brier", "calibration_error"];

/// The texts of labels.
fn texts(labels: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let refused = |object: &Bound<'_, PyAny>| {
        let message = format!("labels is {}; give a list of texts", type_name(object));
        named(labels.py(), "WrongType", message)
    };
    if labels.is_instance_of::<PyString>() {
        return Err(refused(labels));
    }
    let entries = labels.try_iter().map_err(|_| refused(labels))?;
    let text = |entry: PyResult<Bound<'_, PyAny>>| {
        let entry = entry?;
        entry.extract::<String>().map_err(|_| {
            let message = format!("labels holds {}; labels are texts", type_name(&entry));
            named(labels.py(), "WrongType", message)
        })
    };
    entries.map(text).collect()
}

/// The position of an answer among the labels: it is the text of one, or a position.
fn position(answer: &Bound<'_, PyAny>, labels: &[String]) -> PyResult<usize> {
    let py = answer.py();
    let Ok(text) = answer.cast::<PyString>() else {
        return answer.extract().map_err(|_| {
            let found = type_name(answer);
            let message =
                format!("an answer is {found}; give the text of a label or its position");
            named(py, "WrongType", message)
        });
    };
    let text = text.to_cow()?;
    labels.iter().position(|label| *label == *text).ok_or_else(|| {
        let message = format!("the answer {text:?} is none of the labels {labels:?}");
        named(py, "UnknownLabel", message)
    })
}

/// The log-loss of an answer that was given this probability, −log p, clipped at p = 1e-6.
#[pyfunction]
fn log_loss(probability: f64) -> f64 {
    metrics::log_loss(probability)
}

/// How good the reports' probabilities are of the answers that are known, without adapting (`icl`) and
/// adapted (`adapted`).
///
/// Reports of queries without a known answer, reports of regression and failures are left out.
#[pyfunction]
fn of_reports<'py>(reports: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = reports.py();
    let entries = reports.try_iter().map_err(|_| {
        let message = format!("reports is {}; give a list of reports", type_name(reports));
        named(py, "WrongType", message)
    })?;
    let mut summary = ClassSummary::default();
    for entry in entries {
        let entry = entry?;
        if let Ok(report) = entry.cast::<ClassReport>() {
            summary.add(&report.get().report.prediction);
        } else if !entry.is_instance_of::<Report>() && !entry.is_instance_of::<Failure>() {
            let message = format!("reports holds {}; give reports", type_name(&entry));
            return Err(named(py, "WrongType", message));
        }
    }
    let both = PyDict::new(py);
    both.set_item("icl", Bound::new(py, ClassScores(summary.icl))?)?;
    both.set_item("adapted", Bound::new(py, ClassScores(summary.adapted))?)?;
    Ok(both)
}

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = submodule(parent, "metrics")?;
    module.add_class::<ClassScores>()?;
    module.add_function(wrap_pyfunction!(log_loss, &module)?)?;
    module.add_function(wrap_pyfunction!(of_reports, &module)?)
}

//! Reports of tasks of classes: probabilities of labels, and an average over arms.

use crate::class_parts::{
    self, ClassReportGeometry, ClassReportHowFar, ClassReportPrediction, ClassReportWhen,
    ClassReportWhich,
};
use crate::parts::{Passes, ReportLines};
use crate::policy::Policy;
use crate::report::notebook;
use crate::task::parsed;
use fewstep::report::Lines;
use fewstep::text::{self, Style};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// All that is said about one query of a task of classes: the probability of every label, whether
/// to adapt, how far, and which arms.
///
/// The attributes are the fields of the tool's JSON. `str()` is the tool's text.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct ClassReport {
    pub(crate) report: fewstep::ClassReport,
    full: bool,
}

impl ClassReport {
    /// The object of a report; with `full` its JSON holds the matrices.
    pub(crate) fn new(report: fewstep::ClassReport, full: bool) -> Self {
        Self { report, full }
    }
}

#[pymethods]
impl ClassReport {
    /// The task's id.
    #[getter]
    fn id(&self) -> &str {
        &self.report.id
    }

    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[getter]
    fn query(&self) -> Option<usize> {
        self.report.query
    }

    /// The policy that decided, whole.
    #[getter]
    fn policy(&self) -> Policy {
        Policy(self.report.policy.clone())
    }

    /// What is said for the query.
    #[getter]
    fn prediction(&self, py: Python<'_>) -> PyResult<ClassReportPrediction> {
        ClassReportPrediction::of(py, &self.report.prediction)
    }

    /// Whether to adapt.
    #[getter]
    fn when(&self, py: Python<'_>) -> PyResult<ClassReportWhen> {
        ClassReportWhen::of(py, &self.report.when)
    }

    /// How many steps.
    #[getter]
    fn how_far(&self, py: Python<'_>) -> PyResult<ClassReportHowFar> {
        ClassReportHowFar::of(py, &self.report.how_far)
    }

    /// Which arms.
    #[getter]
    fn which(&self, py: Python<'_>) -> PyResult<ClassReportWhich> {
        ClassReportWhich::of(py, &self.report.which)
    }

    /// What the decision rests on.
    #[getter]
    fn geometry(&self, py: Python<'_>) -> PyResult<ClassReportGeometry> {
        ClassReportGeometry::of(py, &self.report.geometry)
    }

    /// What it cost.
    #[getter]
    fn passes(&self, py: Python<'_>) -> PyResult<Passes> {
        Passes::of(py, &self.report.passes)
    }

    /// The same in sentences, those of `str()`.
    #[getter]
    fn lines(&self, py: Python<'_>) -> PyResult<ReportLines> {
        ReportLines::of(py, &Lines::of_classes(&self.report))
    }

    /// The report as the line of JSON that the tool writes, without a line break.
    fn to_json(&self) -> String {
        self.report.to_json(self.full)
    }

    /// The report as a dictionary with the fields of the tool's JSON.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &self.to_json())
    }

    fn __str__(&self) -> String {
        text::report_of_classes(&self.report, Style::PLAIN).trim_end().to_owned()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = PyString::new(py, &self.report.id).repr()?;
        let label = PyString::new(py, &self.report.prediction.label).repr()?;
        let adapt = if self.report.when.adapt { "True" } else { "False" };
        Ok(format!("ClassReport({id}, label={label}, adapt={adapt})"))
    }

    /// The tool's text and its drawings, for notebooks.
    fn _repr_html_(&self) -> String {
        // What cannot be drawn is left out: a page with the text alone is better than none.
        let drawings = fewstep::figure::drawings_of_classes(&self.report).unwrap_or_default();
        notebook(&self.__str__(), &drawings)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ClassReport>()?;
    class_parts::register(module)
}

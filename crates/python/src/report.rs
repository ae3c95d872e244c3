//! Reports: all that is said about a task.

use crate::parts::{
    Passes, ReportBlockScore, ReportEvidence, ReportGeometry, ReportHowFar, ReportInterval,
    ReportLeaveOneOut, ReportLines, ReportPacBayes, ReportPath, ReportPrediction, ReportWhen,
    ReportWhich,
};
use crate::policy::Policy;
use crate::task::parsed;
use fewstep::report::Lines;
use fewstep::text::{self, Style};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyString};

/// All that is said about one task: whether to adapt, how far, where, and what it changes.
///
/// The attributes are the fields of the tool's JSON. `str()` is the tool's text.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Report {
    report: fewstep::Report,
    full: bool,
}

/// A task that could not be answered, in the place of its report.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Failure(pub(crate) fewstep::report::Failure);

#[pymethods]
impl Failure {
    /// The task's id, if it could be read.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// Which of the tasks it is, counted from 1.
    #[getter]
    fn line(&self) -> u64 {
        self.0.line
    }

    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[getter]
    fn query(&self) -> Option<usize> {
        self.0.query
    }

    /// What is wrong and what to do.
    #[getter]
    fn error(&self) -> &str {
        &self.0.error
    }

    /// The failure as the record that the tool writes in the place of a report.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        parsed(py, &self.0.to_json())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let fields = self.to_dict(py)?;
        crate::record::repr("Failure", fields.cast::<PyDict>()?)
    }
}

impl Report {
    /// The object of a report; with `full` its JSON holds the matrices.
    pub(crate) fn new(report: fewstep::Report, full: bool) -> Self {
        Self { report, full }
    }
}

#[pymethods]
impl Report {
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

    /// The policy that decided, whole; `None` if an update made before was applied.
    #[getter]
    fn policy(&self) -> Option<Policy> {
        self.report.policy.clone().map(Policy)
    }

    /// What the model says for the query.
    #[getter]
    fn prediction(&self, py: Python<'_>) -> PyResult<ReportPrediction> {
        ReportPrediction::of(py, &self.report.prediction)
    }

    /// Whether to adapt; `None` if an update made before was applied.
    #[getter]
    fn when(&self, py: Python<'_>) -> PyResult<Option<ReportWhen>> {
        self.report.when.as_ref().map(|part| ReportWhen::of(py, part)).transpose()
    }

    /// How many steps; `None` if an update made before was applied.
    #[getter]
    fn how_far(&self, py: Python<'_>) -> PyResult<Option<ReportHowFar>> {
        self.report.how_far.as_ref().map(|part| ReportHowFar::of(py, part)).transpose()
    }

    /// Which blocks.
    #[getter]
    fn which(&self, py: Python<'_>) -> PyResult<ReportWhich> {
        ReportWhich::of(py, &self.report.which)
    }

    /// What the decision rests on; `None` if an update made before was applied.
    #[getter]
    fn geometry(&self, py: Python<'_>) -> PyResult<Option<ReportGeometry>> {
        self.report.geometry.as_ref().map(|part| ReportGeometry::of(py, part)).transpose()
    }

    /// What it cost.
    #[getter]
    fn passes(&self, py: Python<'_>) -> PyResult<Passes> {
        Passes::of(py, &self.report.passes)
    }

    /// The same in sentences, those of `str()`.
    #[getter]
    fn lines(&self, py: Python<'_>) -> PyResult<ReportLines> {
        ReportLines::of(py, &Lines::of(&self.report))
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
        text::report(&self.report, Style::PLAIN).trim_end().to_owned()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id = PyString::new(py, &self.report.id).repr()?;
        let prediction = &self.report.prediction;
        let mut shown = format!("Report({id}, icl={}", text::number(prediction.icl));
        if let Some(adapted) = prediction.adapted {
            shown += &format!(", adapted={}", text::number(adapted));
        }
        if let Some(when) = &self.report.when {
            shown += if when.adapt { ", adapt=True" } else { ", adapt=False" };
        }
        Ok(shown + ")")
    }

    /// The tool's text and its drawings, for notebooks.
    fn _repr_html_(&self) -> String {
        // What cannot be drawn is left out: a page with the text alone is better than none.
        let drawings = fewstep::figure::drawings(&self.report).unwrap_or_default();
        notebook(&self.__str__(), &drawings)
    }
}

/// Text that a page shows as it is.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text and the tool's drawings, one after the other, as they may stand inside a page.
pub(crate) fn notebook(text: &str, drawings: &[(String, String)]) -> String {
    let drawn: String = drawings.iter().map(|(_, svg)| without_style(svg)).collect();
    format!("<pre>{}</pre>{drawn}", escaped(text))
}

/// A drawing without its style, which would recolour every other drawing of a page.
pub(crate) fn without_style(svg: &str) -> String {
    match (svg.find("<style>"), svg.find("</style>")) {
        (Some(from), Some(to)) if from < to => {
            [&svg[..from], &svg[to + "</style>".len()..]].concat()
        }
        _ => svg.to_owned(),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Report>()?;
    module.add_class::<ReportPrediction>()?;
    module.add_class::<ReportPath>()?;
    module.add_class::<ReportInterval>()?;
    module.add_class::<ReportWhen>()?;
    module.add_class::<ReportLeaveOneOut>()?;
    module.add_class::<ReportEvidence>()?;
    module.add_class::<ReportLines>()?;
    module.add_class::<ReportHowFar>()?;
    module.add_class::<ReportPacBayes>()?;
    module.add_class::<ReportWhich>()?;
    module.add_class::<ReportBlockScore>()?;
    module.add_class::<ReportGeometry>()?;
    module.add_class::<Passes>()?;
    module.add_class::<Failure>()
}

//! A report of either kind of task.

use super::{ClassReport, Lines, Report};
use fewstep_engine::Task;

/// What is known about one query, of a task of regression or of classes.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
/// let task = fewstep::tasks::parse(
///     br#"{"id": "t1", "template": "{x}->{y}",
///          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// )?;
/// let report = predictor.answers(&task)?.remove(0)?.report;
/// assert!(report.regression().is_some() && report.classes().is_none());
/// assert_eq!((report.id(), report.query()), ("t1", None));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AnyReport {
    /// Of a task of regression.
    Regression(Box<Report>),
    /// Of a task of classes.
    Classes(Box<ClassReport>),
}

impl AnyReport {
    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Regression(report) => &report.id,
            Self::Classes(report) => &report.id,
        }
    }

    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[must_use]
    pub fn query(&self) -> Option<usize> {
        match self {
            Self::Regression(report) => report.query,
            Self::Classes(report) => report.query,
        }
    }

    /// The report of a task of regression.
    #[must_use]
    pub fn regression(&self) -> Option<&Report> {
        match self {
            Self::Regression(report) => Some(report),
            Self::Classes(_) => None,
        }
    }

    /// The report of a task of classes.
    #[must_use]
    pub fn classes(&self) -> Option<&ClassReport> {
        match self {
            Self::Regression(_) => None,
            Self::Classes(report) => Some(report),
        }
    }

    /// The report as one line of JSON, without a line break; `full` as in [`Report::to_json`] and
    /// [`ClassReport::to_json`].
    #[must_use]
    pub fn to_json(&self, full: bool) -> String {
        match self {
            Self::Regression(report) => report.to_json(full),
            Self::Classes(report) => report.to_json(full),
        }
    }

    /// What is said about it, in sentences.
    #[must_use]
    pub fn lines(&self) -> Lines {
        match self {
            Self::Regression(report) => Lines::of(report),
            Self::Classes(report) => Lines::of_classes(report),
        }
    }

    /// The same report of one of several queries.
    #[must_use]
    pub(crate) fn asked(self, query: Option<usize>) -> Self {
        match self {
            Self::Regression(report) => Self::Regression(Box::new(report.asked(query))),
            Self::Classes(report) => Self::Classes(Box::new(report.asked(query))),
        }
    }

    /// The same report for a task that asks the same under another id, or knows another answer.
    #[must_use]
    pub(crate) fn renamed(mut self, task: &Task) -> Self {
        let answer = task.query.y.as_deref();
        match &mut self {
            Self::Regression(report) => {
                report.id.clone_from(&task.id);
                report.prediction.target = answer.and_then(|answer| task.value_of(answer));
            }
            Self::Classes(report) => {
                report.id.clone_from(&task.id);
                report.prediction.target.clone_from(&task.query.y);
            }
        }
        self
    }
}

impl From<Report> for AnyReport {
    fn from(report: Report) -> Self {
        Self::Regression(Box::new(report))
    }
}

impl From<ClassReport> for AnyReport {
    fn from(report: ClassReport) -> Self {
        Self::Classes(Box::new(report))
    }
}

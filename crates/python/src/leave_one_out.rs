//! Numbers of steps judged by the examples themselves: `fewstep.leave_one_out`.

use crate::arrays::{Integers, array, integers, matrix, numbers, table};
use crate::errors::{OrRaise, named};
use crate::evidence::{HorizonChoice, horizons};
use crate::record;
use crate::spectrum::StepSize;
use fewstep_core::leave_one_out::{self, Averaging};
use fewstep_core::{self as core};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::collections::BTreeSet;

const AVERAGINGS: [(&str, Averaging); 5] = [
    ("plain", Averaging::Plain),
    ("trimmed", Averaging::Trimmed),
    ("median", Averaging::Median),
    ("by-label", Averaging::ByLabel),
    ("query-weighted", Averaging::QueryWeighted),
];

/// How squared errors are averaged, by name.
pub(crate) fn averaging(py: Python<'_>, name: &str) -> PyResult<Averaging> {
    let found = AVERAGINGS.iter().find(|(known, _)| *known == name);
    let unknown = || core::Error::UnknownName {
        quantity: "kind of average",
        found: name.to_owned(),
        allowed: "plain, trimmed, median, by-label or query-weighted",
    };
    found.map(|(_, averaging)| *averaging).ok_or_else(unknown).or_raise(py)
}

record! {
    /// An interval of numbers; its ends may be infinite.
    Interval from value: core::Interval {
        /// The lower end.
        lower: f64 = value.lower,
        /// The upper end.
        upper: f64 = value.upper,
    }
}

/// What a label is called, and the largest one.
const LABELS: Integers =
    Integers { one: "a label", many: "labels", largest: usize::MAX as u64 };

/// What is known of the examples' answers beside the residuals: which are alike, and how far a
/// prediction can move before it leaves the range of the labels.
///
/// `labels` says which label each example has, as an integer from 0 on of which only matters
/// whether two are the same; `predictions` what was predicted for each; `range` is the pair of the
/// smallest and the largest value of a label.
#[pyclass(frozen, eq, module = "fewstep")]
#[derive(PartialEq)]
pub(crate) struct Answers(pub(crate) core::Answers);

#[pymethods]
impl Answers {
    #[new]
    fn new(
        labels: &Bound<'_, PyAny>,
        predictions: &Bound<'_, PyAny>,
        range: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let py = labels.py();
        let labels = integers(labels, "labels", &LABELS)?;
        let predictions = numbers(predictions, "predictions")?;
        let quantity = "range of the labels";
        let ends = numbers(range, quantity)?;
        let range = <[f64; 2]>::try_from(ends.as_slice()).map_err(|_| {
            core::Error::SizeMismatch { quantity, found: ends.len(), expected: 2 }
        });
        let found = core::Answers::new(labels, &predictions, range.or_raise(py)?);
        Ok(Self(found.or_raise(py)?))
    }

    /// Which label each example has; only whether two are the same matters.
    #[getter]
    fn labels(&self) -> Vec<usize> {
        self.0.labels().to_vec()
    }

    /// How far each prediction can move down, a negative number, and up.
    #[getter]
    fn room(&self, py: Python<'_>) -> PyResult<Vec<Interval>> {
        self.0.room().iter().map(|room| Interval::of(py, room)).collect()
    }

    /// The fields as plain Python values: numbers, lists, dictionaries.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        record::dictionary(slf, &["labels", "room"])
    }

    fn __repr__(&self) -> String {
        let labels: BTreeSet<_> = self.0.labels().iter().collect();
        format!("Answers({} examples, {} labels)", self.0.labels().len(), labels.len())
    }
}

/// So many errors take four hundred megabytes.
const MOST_ERRORS: usize = 50_000_000;

/// What every candidate number of steps predicts for each example from the others.
///
/// The query is exchangeable with the examples, so the errors estimate the risk at the query.
/// `averaging` is "plain", "trimmed" (without the smallest and the largest), "median", "by-label"
/// (with predictions clamped to the range of the labels; the root of the mean of fourth powers, every
/// label counting the same, if there are at most three labels, and else the fourth power of the mean
/// of roots) or "query-weighted" (by how much examples are aligned with the query). The coupling is
/// needed for the last one and for intervals only; without `with_answers`, "by-label" takes labels
/// for numbers of any size.
#[pyclass(frozen, eq, module = "fewstep.leave_one_out")]
#[derive(PartialEq)]
pub(crate) struct LeaveOneOut(leave_one_out::LeaveOneOut);

#[pymethods]
impl LeaveOneOut {
    #[new]
    #[pyo3(signature = (kernel, residuals, step, candidates, coupling=None))]
    fn new(
        kernel: &Bound<'_, PyAny>,
        residuals: &Bound<'_, PyAny>,
        step: &StepSize,
        candidates: &Bound<'_, PyAny>,
        coupling: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = kernel.py();
        let (kernel, step) = (matrix(kernel, "kernel")?, step.0);
        let residuals = numbers(residuals, "residuals")?;
        let candidates = horizons(candidates, "candidates")?;
        let coupling = coupling.map(|coupling| numbers(coupling, "coupling")).transpose()?;
        if candidates.len().saturating_mul(residuals.len()) > MOST_ERRORS {
            let message = format!(
                "{} candidates for {} examples make over {MOST_ERRORS} errors; give fewer \
                 candidates",
                candidates.len(),
                residuals.len()
            );
            return Err(named(py, "OutOfRange", message));
        }
        let found = py.detach(|| {
            let coupling = coupling.as_deref();
            leave_one_out::LeaveOneOut::of(&kernel, &residuals, step, &candidates, coupling)
        });
        Ok(Self(found.or_raise(py)?))
    }

    /// From errors that were found otherwise, such as by steps in a model: one row per candidate, one
    /// column per example.
    #[classmethod]
    fn from_errors(
        class: &Bound<'_, PyType>,
        candidates: &Bound<'_, PyAny>,
        errors: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let candidates = horizons(candidates, "candidates")?;
        let errors = matrix(errors, "leave-one-out errors")?;
        let found = leave_one_out::LeaveOneOut::from_errors(&candidates, errors);
        Ok(Self(found.or_raise(class.py())?))
    }

    /// The same, with what is known of the answers, for "by-label"; the residuals are those that it
    /// was made of.
    fn with_answers(&self, residuals: &Bound<'_, PyAny>, answers: &Answers) -> PyResult<Self> {
        let py = residuals.py();
        let residuals = numbers(residuals, "residuals")?;
        let found = py.detach(|| self.0.clone().with_answers(&residuals, &answers.0));
        Ok(Self(found.or_raise(py)?))
    }

    /// The candidate horizons, in the order of every curve and of the rows of the errors.
    #[getter]
    fn candidates(&self) -> Vec<u32> {
        self.0.candidates().to_vec()
    }

    /// What the prediction of each example from the others leaves, one row per candidate and one
    /// column per example.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        table(py, self.0.errors())
    }

    /// The estimated risk at every candidate: the averaged squares of the errors.
    #[pyo3(signature = (averaging))]
    fn risk<'py>(
        &self,
        py: Python<'py>,
        averaging: &str,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let averaging = self::averaging(py, averaging)?;
        Ok(array(py, &py.detach(|| self.0.risk(averaging)).or_raise(py)?))
    }

    /// The candidate with the smallest risk, if it beats the shortest one by more than `gate`
    /// standard errors; otherwise the shortest.
    fn choose(&self, py: Python<'_>, averaging: &str, gate: f64) -> PyResult<HorizonChoice> {
        let averaging = self::averaging(py, averaging)?;
        let choice = py.detach(|| self.0.choose(averaging, gate));
        HorizonChoice::of(py, &choice.or_raise(py)?)
    }

    /// The weight of each candidate, by its leave-one-out errors.
    ///
    /// `sharpness` says how strongly weights follow the risk, `odds` how many times as likely as
    /// all other candidates together the shortest one is before anything is seen.
    fn posterior<'py>(
        &self,
        py: Python<'py>,
        averaging: &str,
        sharpness: f64,
        odds: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let averaging = self::averaging(py, averaging)?;
        let weights = py.detach(|| self.0.posterior(averaging, sharpness, odds));
        Ok(array(py, &weights.or_raise(py)?))
    }

    /// The jackknife+ interval for the query's residual after the steps of one candidate, which is
    /// named by its position.
    fn interval(&self, py: Python<'_>, candidate: usize, coverage: f64) -> PyResult<Interval> {
        let found = py.detach(|| self.0.interval(candidate, coverage));
        Interval::of(py, &found.or_raise(py)?)
    }

    /// The same interval for an average over the candidates.
    fn interval_of_average(
        &self,
        weights: &Bound<'_, PyAny>,
        coverage: f64,
    ) -> PyResult<Interval> {
        let py = weights.py();
        let weights = numbers(weights, "weights")?;
        let found = py.detach(|| self.0.interval_of_average(&weights, coverage));
        Interval::of(py, &found.or_raise(py)?)
    }

    fn __repr__(&self) -> String {
        let (candidates, examples) = (self.0.candidates().len(), self.0.errors().columns());
        format!("LeaveOneOut({candidates} candidates, {examples} examples)")
    }
}

pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    parent.add_class::<Answers>()?;
    parent.add_class::<Interval>()?;
    crate::submodule(parent, "leave_one_out")?.add_class::<LeaveOneOut>()
}

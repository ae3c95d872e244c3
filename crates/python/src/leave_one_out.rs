//! Numbers of steps judged by the examples themselves: `fewstep.leave_one_out`.

use crate::arrays::{array, matrix, numbers, table};
use crate::errors::{OrRaise, named};
use crate::evidence::{HorizonChoice, horizons};
use crate::record;
use crate::spectrum::StepSize;
use fewstep_core::leave_one_out::{self, Averaging};
use fewstep_core::{self as core};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

const AVERAGINGS: [(&str, Averaging); 5] = [
    ("plain", Averaging::Plain),
    ("trimmed", Averaging::Trimmed),
    ("median", Averaging::Median),
    ("balanced", Averaging::Balanced),
    ("query-weighted", Averaging::QueryWeighted),
];

/// How squared errors are averaged, by name.
pub(crate) fn averaging(py: Python<'_>, name: &str) -> PyResult<Averaging> {
    let found = AVERAGINGS.iter().find(|(known, _)| *known == name);
    let unknown = || core::Error::UnknownName {
        quantity: "kind of average",
        found: name.to_owned(),
        allowed: "plain, trimmed, median, balanced or query-weighted",
    };
    found.map(|(_, averaging)| *averaging).ok_or_else(unknown).or_raise(py)
}

/// The name of a kind of average.
pub(crate) fn averaging_name(averaging: Averaging) -> &'static str {
    let found = AVERAGINGS.iter().find(|(_, known)| *known == averaging);
    found.map_or("", |(name, _)| name)
}

record! {
    /// An interval of numbers; its ends may be infinite.
    Interval from value: leave_one_out::Interval {
        /// The lower end.
        lower: f64 = value.lower,
        /// The upper end.
        upper: f64 = value.upper,
    }
}

/// So many errors take four hundred megabytes.
const MOST_ERRORS: usize = 50_000_000;

/// What every candidate number of steps predicts for each example from the others.
///
/// The query is exchangeable with the examples, so the errors estimate the risk at the query.
/// `averaging` is "plain", "trimmed" (without the smallest and the largest), "median", "balanced"
/// (the geometric mean of "plain" and "median") or "query-weighted" (by how much examples are
/// aligned with the query). The coupling is needed for the last one and for intervals only.
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

    /// How much weight each candidate deserves, by its errors on examples left out.
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
    let module = crate::submodule(parent, "leave_one_out")?;
    module.add_class::<LeaveOneOut>()?;
    module.add_class::<Interval>()
}

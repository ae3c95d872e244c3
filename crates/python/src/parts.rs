//! The parts of a report as small objects, with the fields of its JSON.

use crate::record;
use crate::record::Field;
use fewstep::report;
use numpy::PyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::BTreeMap;

/// Numbers that may be absent.
pub(crate) struct Numbers<'a>(pub(crate) Option<&'a Vec<f64>>);

impl Field<Py<PyAny>> for Numbers<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.0 {
            Some(values) => values.as_slice().field(py),
            None => Ok(py.None()),
        }
    }
}

/// Rows of numbers that may be absent.
pub(crate) struct Rows<'a>(pub(crate) Option<&'a Vec<Vec<f64>>>);

impl Field<Py<PyAny>> for Rows<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(rows) = self.0 else { return Ok(py.None()) };
        let array = PyArray2::from_vec2(py, rows);
        let array = array.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(array.into_any().unbind())
    }
}

/// Fills a field with the record of a part that may be absent.
macro_rules! optional_part {
    ($record:ident, $part:ty) => {
        impl Field<Option<Py<$record>>> for Option<$part> {
            fn field(self, py: Python<'_>) -> PyResult<Option<Py<$record>>> {
                self.map(|part| Py::new(py, $record::of(py, &part)?)).transpose()
            }
        }
    };
}

record! {
    /// What the model says for the query.
    ReportPrediction from part: report::Prediction {
        /// Without adapting.
        icl: f64 = part.icl,
        /// With the chosen update: carried out in the model or, if the linearised model answers,
        /// `linear` clamped to the range of the labels; `None` if nothing was carried out.
        adapted: Option<f64> = part.adapted,
        /// With the chosen update, by the linearised model.
        linear: Option<f64> = part.linear,
        /// Standard deviation of the ideal correction under the fitted signal and noise.
        standard_deviation: Option<f64> = part.standard_deviation,
        /// Where the answer is meant to lie, if leave-one-out errors decided.
        interval: Option<Py<ReportInterval>> = part.interval,
        /// The value of the query's own answer, if it was given.
        target: Option<f64> = part.target,
        /// After every number of steps, if matrices were asked for.
        path: Option<Py<ReportPath>> = part.path.clone(),
    }
}

record! {
    /// The prediction for the query after 0, 1, 2, … steps.
    ReportPath from part: report::PredictionPath {
        /// By the linearised model, up to the largest candidate, or to the number of steps if that
        /// is larger.
        linear: Py<PyAny> = part.linear.as_slice(),
        /// Carried out in the model, as far as steps were taken; of an average over steps, those
        /// that it averages. `None` if none was taken.
        steps: Py<PyAny> = Numbers(part.steps.as_ref()),
    }
}
optional_part!(ReportPath, report::PredictionPath);

record! {
    /// An interval for the query's answer, by leave-one-out errors.
    ReportInterval from part: report::Interval {
        /// Its lower end, no lower than any label.
        lower: f64 = part.lower,
        /// Its upper end, no higher than any label.
        upper: f64 = part.upper,
        /// How often it is meant to hold the answer.
        coverage: f64 = part.coverage,
    }
}
optional_part!(ReportInterval, report::Interval);

record! {
    /// Whether to adapt, with the reasons that decided and no others.
    ReportWhen from part: report::When {
        /// The answer: false where more weight is on leaving the model alone than on updating it.
        adapt: bool = part.adapt,
        /// Why, in words.
        reason: String = part.reason.clone(),
        /// The weight on updating: a share of 1 under an average over steps, else 0 or 1.
        weight: f64 = part.weight,
        /// Leave-one-out errors before and after, if they decided.
        leave_one_out: Option<Py<ReportLeaveOneOut>> = part.leave_one_out,
        /// Over 1, evidence asks for some adaptation; `None` if evidence did not decide.
        gate: Option<f64> = part.evidence.map(|evidence| evidence.gate),
        /// Expected squared distance to the Bayes prediction without adapting; `None` if evidence
        /// did not decide.
        gap_icl: Option<f64> = part.evidence.map(|evidence| evidence.gap_icl),
        /// The same with the chosen update.
        gap_adapted: Option<f64> = part.evidence.map(|evidence| evidence.gap_adapted),
    }
    also {
        /// What evidence says, if it decided.
        evidence: Option<Py<ReportEvidence>> = part.evidence,
    }
}

record! {
    /// Squared errors on held-out examples, averaged as the policy says.
    ReportLeaveOneOut from part: report::LeaveOneOut {
        /// Without an update.
        icl: f64 = part.icl,
        /// With the chosen one.
        adapted: f64 = part.adapted,
    }
}
optional_part!(ReportLeaveOneOut, report::LeaveOneOut);

record! {
    /// What evidence says about updating.
    ReportEvidence from part: report::Evidence {
        /// Over 1, evidence asks for some adaptation.
        gate: f64 = part.gate,
        /// Expected squared distance to the Bayes prediction without adapting.
        gap_icl: f64 = part.gap_icl,
        /// The same with the chosen update.
        gap_adapted: f64 = part.gap_adapted,
    }
}
optional_part!(ReportEvidence, report::Evidence);

record! {
    /// How many steps.
    ReportHowFar from part: report::HowFar {
        /// The rule that chose.
        rule: String = part.rule.to_string(),
        /// The number of steps.
        horizon: u32 = part.horizon,
        /// Whether it is the largest candidate.
        at_edge: bool = part.at_edge,
        /// The step size.
        step_size: f64 = part.step_size,
        /// The noise variance that the rule worked with.
        noise_variance: f64 = part.noise_variance,
        /// How many directions of the prompt the update follows, in sum.
        degrees_of_freedom: f64 = part.degrees_of_freedom,
        /// The candidates.
        horizons: Vec<u32> = part.horizons.clone(),
        /// Negative log-evidence with the noise variance profiled, at every candidate.
        evidence: Py<PyAny> = part.evidence.as_slice(),
        /// Negative log-evidence with the noise variance of the residuals, at every candidate.
        evidence_fixed: Py<PyAny> = part.evidence_fixed.as_slice(),
        /// The weights of the candidates.
        posterior: Py<PyAny> = part.posterior.as_slice(),
        /// The leave-one-out risk at every candidate, if a rule that looks at it chose.
        leave_one_out: Py<PyAny> = part.leave_one_out.as_slice(),
        /// What is guaranteed about the evidence, not about the query.
        pac_bayes: Option<Py<ReportPacBayes>> = part.pac_bayes,
    }
}

record! {
    /// A guarantee on the evidence.
    ReportPacBayes from part: report::PacBayes {
        /// Evidence plus slack.
        bound: f64 = part.bound,
        /// What is added to the evidence.
        slack: f64 = part.slack,
        /// How often the bound holds, at least.
        confidence: f64 = part.confidence,
    }
}
optional_part!(ReportPacBayes, report::PacBayes);

record! {
    /// Which blocks.
    ReportWhich from part: report::Which {
        /// The rule that chose.
        rule: String = part.rule.clone(),
        /// How many blocks were chosen.
        budget: usize = part.budget,
        /// The seed of the draw, if the rule was to draw.
        seed: Option<u64> = part.seed,
        /// What the head in a name is, by kind, where query heads share keys and values.
        heads: BTreeMap<String, String> =
            part.heads.iter().map(|(kind, heads)| (kind.clone(), (*heads).to_owned()))
                .collect::<BTreeMap<String, String>>(),
        /// The names of the chosen blocks, in the order they were chosen.
        selected: Vec<String> = part.selected.clone(),
        /// The scores of every candidate block.
        blocks: Py<PyList> = Scores(&part.blocks),
    }
}

/// The scores of blocks, for a list of records.
struct Scores<'a>(&'a [report::BlockScore]);

impl Field<Py<PyList>> for Scores<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyList>> {
        let score = |score| Py::new(py, ReportBlockScore::of(py, score)?);
        let scores = self.0.iter().map(score).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, scores)?.unbind())
    }
}

record! {
    /// How much a block could do.
    ReportBlockScore from part: report::BlockScore {
        /// Its name.
        name: String = part.name.clone(),
        /// How much the prompt tells about it.
        trace: f64 = part.trace,
        /// How much of that matters at the query.
        query: Option<f64> = part.query,
        /// Its kernel, if matrices were asked for.
        kernel: Py<PyAny> = Rows(part.kernel.as_ref()),
        /// Its coupling to the query, if matrices were asked for.
        coupling: Py<PyAny> = Numbers(part.coupling.as_ref()),
        /// Its variance at the query, if matrices were asked for.
        query_variance: Option<f64> = part.query_variance,
    }
}

record! {
    /// What the decision rests on.
    ReportGeometry from part: report::Geometry {
        /// What the model leaves on each example when it is held out.
        residuals: Py<PyAny> = part.residuals.as_slice(),
        /// How many examples the prompt shows, if not all of them; all are learnt from.
        shown: Option<usize> = part.shown,
        /// Which label each example has, by the first example that has it, if matrices were asked
        /// for.
        labels: Option<Vec<usize>> = part.labels.clone(),
        /// How far the prediction for each example can move, down and up, before it leaves the
        /// range of the labels, if matrices were asked for.
        room: Option<Vec<[f64; 2]>> = part.room.clone(),
        /// The eigenvalues of the chosen blocks' kernel, largest first.
        eigenvalues: Py<PyAny> = part.eigenvalues.as_slice(),
        /// The share of each of these modes that the chosen update fits, if matrices were asked
        /// for.
        response: Py<PyAny> = Numbers(part.response.as_ref()),
        /// The share that is best under the fitted signal and noise, if matrices were asked for
        /// and any residual is not 0.
        bayes_response: Py<PyAny> = Numbers(part.bayes_response.as_ref()),
        /// The kernel of the chosen blocks, if matrices were asked for.
        kernel: Py<PyAny> = Rows(part.kernel.as_ref()),
        /// Their coupling to the query, if matrices were asked for.
        coupling: Py<PyAny> = Numbers(part.coupling.as_ref()),
        /// Their variance at the query.
        query_variance: f64 = part.query_variance,
    }
}

record! {
    /// Sequences that went through the model.
    Passes from part: report::Passes {
        /// Forward.
        forward: u64 = part.forward,
        /// Backward.
        backward: u64 = part.backward,
    }
}

impl Field<Py<Passes>> for report::Passes {
    fn field(self, py: Python<'_>) -> PyResult<Py<Passes>> {
        Py::new(py, Passes::of(py, &self)?)
    }
}

record! {
    /// What is said about a report in sentences, as the tool says it.
    ReportLines from lines: report::Lines {
        /// Whether to adapt, and why; `None` if an update made before was applied.
        when: Option<String> = lines.when.clone(),
        /// How many steps; `None` if an update made before was applied.
        how_far: Option<String> = lines.how_far.clone(),
        /// Which blocks.
        which: String = lines.which.clone(),
        /// The prediction, with and without adapting.
        prediction: String = lines.prediction.clone(),
        /// The errors, if the answer is known.
        error: Option<String> = lines.error.clone(),
    }
}

//! The parts of a report of classes as small objects, with the fields of its JSON.

use crate::parts::{Numbers, ReportLeaveOneOut, Rows};
use crate::record;
use crate::record::Field;
use fewstep::report;
use fewstep_core::ClassRule;
use pyo3::prelude::*;
use pyo3::types::PyList;

record! {
    /// Probabilities of the labels of a query.
    ClassReportPrediction from part: report::Probabilities {
        /// The texts of the labels, in the order of the task.
        labels: Vec<String> = part.labels.clone(),
        /// Their probabilities by in-context learning alone.
        icl: Py<PyAny> = part.icl.as_slice(),
        /// Their probabilities by the average over arms and numbers of steps, which the linearised
        /// model gives: `decide` says them, too.
        adapted: Py<PyAny> = part.adapted.as_slice(),
        /// The most probable label of the average.
        label: String = part.label.clone(),
        /// Labels that hold the answer with `confidence`, most probable first.
        set: Vec<String> = part.set.clone(),
        /// How often such a set is meant to hold the answer.
        confidence: f64 = part.confidence,
        /// From 0 to 1: how unusual it would be, among the examples, for an answer to be no more
        /// probable than the most probable label here.
        abstention: f64 = part.abstention,
        /// The answer, if it was given.
        target: Option<String> = part.target.clone(),
    }
}

record! {
    /// Whether to adapt, and why.
    ClassReportWhen from part: report::ClassWhen {
        /// The answer: false where more weight is on leaving in-context learning alone than on
        /// everything else.
        adapt: bool = part.adapt,
        /// Why, in words.
        reason: String = part.reason.to_owned(),
        /// The weight on everything but leaving in-context learning alone.
        weight: f64 = part.weight,
        /// Mean leave-one-out log-losses.
        leave_one_out: Py<ReportLeaveOneOut> = Losses(part.leave_one_out),
    }
}

/// Log-losses, for the record of errors.
struct Losses(report::LeaveOneOut);

impl Field<Py<ReportLeaveOneOut>> for Losses {
    fn field(self, py: Python<'_>) -> PyResult<Py<ReportLeaveOneOut>> {
        Py::new(py, ReportLeaveOneOut::of(py, &self.0)?)
    }
}

record! {
    /// How many steps.
    ClassReportHowFar from part: report::ClassHowFar {
        /// What weighs the numbers of steps of an arm among themselves.
        rule: String = name_of(part.rule).to_owned(),
        /// The most likely number of steps over all arms; 0 stands for prompts that are left alone.
        horizon: u32 = part.horizon,
        /// The mean number of steps over all arms.
        mean_horizon: f64 = part.mean_horizon,
        /// The numbers of steps, from 0.
        horizons: Vec<u32> = part.horizons.clone(),
        /// The weight of each, summed over the arms.
        posterior: Py<PyAny> = part.posterior.as_slice(),
    }
}

/// The name of a rule, as JSON has it.
fn name_of(rule: ClassRule) -> &'static str {
    match rule {
        ClassRule::LeaveOneOut => "leave-one-out",
        ClassRule::Laplace => "laplace",
    }
}

record! {
    /// The arms of the average.
    ClassReportWhich from part: report::Arms {
        /// Always "arms": an average, not a choice of blocks.
        rule: String = part.rule.to_owned(),
        /// Every arm of the policy, in its order.
        arms: Py<PyList> = Arms(&part.arms),
        /// The zero-shot prompt left alone, if it was observed.
        zero_shot: Option<Py<ClassReportZeroShot>> = part.zero_shot,
    }
}

/// Arms, for a list of records.
struct Arms<'a>(&'a [report::Arm]);

impl Field<Py<PyList>> for Arms<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyList>> {
        let arm = |arm| Py::new(py, ClassReportArm::of(py, arm)?);
        let arms = self.0.iter().map(arm).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, arms)?.unbind())
    }
}

record! {
    /// A base prompt with the blocks that are updated behind it.
    ClassReportArm from part: report::Arm {
        /// Its name, such as "few-shot bias".
        name: String = part.name.clone(),
        /// The prompt that it starts from: "few-shot" or "zero-shot".
        base: String = part.base.to_string(),
        /// The names of its blocks.
        blocks: Vec<String> = part.blocks.clone(),
        /// Its share of the average.
        weight: f64 = part.weight,
        /// Its mean leave-one-out log-losses, if it takes part.
        leave_one_out: Option<Py<ClassReportLosses>> = part.leave_one_out,
        /// Why it takes no part, if it does not.
        left_out: Option<String> = part.left_out.clone(),
        /// Its descents, one per depth and step size.
        paths: Py<PyList> = Paths(&part.paths),
    }
}

/// Descents, for a list of records.
struct Paths<'a>(&'a [report::Descent]);

impl Field<Py<PyList>> for Paths<'_> {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyList>> {
        let path = |path| Py::new(py, ClassReportPath::of(py, path)?);
        let paths = self.0.iter().map(path).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, paths)?.unbind())
    }
}

record! {
    /// Mean leave-one-out log-losses of an arm.
    ClassReportLosses from part: report::ArmLosses {
        /// Of its best number of steps.
        best: f64 = part.best,
        /// Of the average over its numbers of steps.
        average: f64 = part.average,
    }
}

impl Field<Option<Py<ClassReportLosses>>> for Option<report::ArmLosses> {
    fn field(self, py: Python<'_>) -> PyResult<Option<Py<ClassReportLosses>>> {
        self.map(|part| Py::new(py, ClassReportLosses::of(py, &part)?)).transpose()
    }
}

record! {
    /// One descent of an arm.
    ClassReportPath from part: report::Descent {
        /// The number of layers whose blocks are updated.
        layers: usize = part.layers,
        /// The step size as a fraction of the largest stable one.
        step_scale: f64 = part.step_scale,
        /// The step size.
        step_size: f64 = part.step_size,
        /// The numbers of steps.
        horizons: Vec<u32> = part.horizons.clone(),
        /// The mean leave-one-out log-loss at each of them.
        losses: Py<PyAny> = part.losses.as_slice(),
        /// The log-evidence of each of them; `None` unless that is the rule.
        evidence: Py<PyAny> =
            Numbers((!part.evidence.is_empty()).then_some(&part.evidence)),
        /// The weight of each of them in the whole average.
        weights: Py<PyAny> = part.weights.as_slice(),
    }
}

record! {
    /// The zero-shot prompt, left alone.
    ClassReportZeroShot from part: report::ZeroShot {
        /// Its mean log-loss on the examples.
        loss: f64 = part.loss,
        /// Its share of the average.
        weight: f64 = part.weight,
    }
}

impl Field<Option<Py<ClassReportZeroShot>>> for Option<report::ZeroShot> {
    fn field(self, py: Python<'_>) -> PyResult<Option<Py<ClassReportZeroShot>>> {
        self.map(|part| Py::new(py, ClassReportZeroShot::of(py, &part)?)).transpose()
    }
}

record! {
    /// What the decision rests on.
    ClassReportGeometry from part: report::ClassBasis {
        /// The number of examples that are learnt from.
        examples: usize = part.examples,
        /// The number of examples that the prompt shows, if not all.
        shown: Option<usize> = part.shown,
        /// The number of folds in which examples were held out: one per example where each was
        /// alone.
        folds: usize = part.folds,
        /// The fold of each example, if matrices were asked for.
        fold_of: Option<Vec<usize>> = part.fold_of.clone(),
        /// The position of each example's label, if matrices were asked for.
        answers: Option<Vec<usize>> = part.answers.clone(),
        /// Leave-one-out probabilities of in-context learning alone, one row per example, if
        /// matrices were asked for.
        icl: Py<PyAny> = Rows(part.icl.as_ref()),
        /// Leave-one-out probabilities of the average, if matrices were asked for.
        probabilities: Py<PyAny> = Rows(part.probabilities.as_ref()),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ClassReportPrediction>()?;
    module.add_class::<ClassReportWhen>()?;
    module.add_class::<ClassReportHowFar>()?;
    module.add_class::<ClassReportWhich>()?;
    module.add_class::<ClassReportArm>()?;
    module.add_class::<ClassReportLosses>()?;
    module.add_class::<ClassReportPath>()?;
    module.add_class::<ClassReportZeroShot>()?;
    module.add_class::<ClassReportGeometry>()
}

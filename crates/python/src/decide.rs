//! The three answers: `decide` on arrays, and the `Decision` it gives.

use crate::errors::{OrRaise, named};
use crate::filters::AnyFilter;
use crate::geometry::{Block, Geometry, single};
use crate::leave_one_out::Interval;
use crate::policy::{Policy, RequestedPolicy};
use crate::record;
use crate::record::Field;
use crate::signal::SignalFit;
use crate::spectrum::Spectrum;
use crate::subspace::DepthChoice;
use crate::theory::pac_bayes::records::Bound as Guarantee;
use fewstep_core::{self as core};
use fewstep_theory::pac_bayes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::Arc;

/// Decides when, how far and in which blocks to adapt.
///
/// The first argument is a kernel, with one residual per example, or a `Geometry`, which holds its
/// residuals and may have many blocks. `coupling` and `query_variance` describe the query and are
/// given together or not at all; without them nothing is said about the query, and rules that look
/// at it are refused. `policy` is a `Policy`, "default", "paper", a dictionary with the fields of its
/// JSON, or that JSON; the other keywords each change only what they name of it, and `residuals` does
/// where it is a name and not numbers. Candidate blocks,
/// dynamics, adjoint, residuals and shots are not looked at: they are for whoever observes and acts.
#[pyfunction]
#[pyo3(
    signature = (kernel, residuals=None, coupling=None, query_variance=None, **policy),
    text_signature = "(kernel, residuals=None, coupling=None, query_variance=None, *, \
                      policy='default', blocks=None, select=None, budget=None, horizon=None, \
                      horizons=None, step_scale=None, dynamics=None, coverage=None, \
                      adjoint=None, orders=None, shots=None, confidence=None, seed=None)"
)]
fn decide(
    kernel: &Bound<'_, PyAny>,
    residuals: Option<&Bound<'_, PyAny>>,
    coupling: Option<&Bound<'_, PyAny>>,
    query_variance: Option<f64>,
    policy: Option<&Bound<'_, PyDict>>,
) -> PyResult<Decision> {
    let py = kernel.py();
    let mut asked = RequestedPolicy::of("decide", policy)?;
    // A text is the policy's rule, and no numbers.
    let rule = residuals.filter(|given| given.is_instance_of::<PyString>());
    let residuals = if rule.is_some() { None } else { residuals };
    if let Some(rule) = rule {
        asked.set("residuals", rule)?;
    }
    let policy = asked.policy().or_raise(py)?;
    let made = |geometry: &core::Geometry| -> PyResult<Decision> {
        let decision = py.detach(|| core::decide(geometry, &policy)).or_raise(py)?;
        Ok(Decision { decision, residuals: geometry.residuals().to_vec() })
    };
    match (kernel.cast::<Geometry>(), residuals) {
        (Ok(geometry), None) if coupling.is_none() && query_variance.is_none() => {
            made(&geometry.get().0)
        }
        (Ok(_), _) => {
            let message = "a Geometry holds residuals, coupling and query variance already; give \
                           only a policy with it";
            Err(named(py, "WrongType", message.to_owned()))
        }
        (Err(_), Some(residuals)) => {
            made(&single(kernel, residuals, coupling, query_variance)?)
        }
        (Err(_), None) => {
            let message = "decide() missing 1 required positional argument: 'residuals'";
            Err(PyTypeError::new_err(message))
        }
    }
}

/// What to do with a prompt, and why: when to adapt, how far, and which blocks.
///
/// Parts are made when they are asked for. `print(decision)` says the answers in words.
#[pyclass(frozen, module = "fewstep")]
pub(crate) struct Decision {
    pub(crate) decision: core::Decision,
    /// Those it was made for, which a guarantee looks at.
    pub(crate) residuals: Vec<f64>,
}

#[pymethods]
impl Decision {
    /// The policy it was made by.
    #[getter]
    fn policy(&self) -> Policy {
        Policy(self.decision.policy.clone())
    }

    /// Whether to adapt at all.
    #[getter]
    fn when(&self, py: Python<'_>) -> PyResult<When> {
        When::of(py, &self.decision.when)
    }

    /// How many steps, of which size.
    #[getter]
    fn how_far(&self, py: Python<'_>) -> PyResult<HowFar> {
        HowFar::of(py, &self.decision)
    }

    /// Which blocks.
    #[getter]
    fn which(&self, py: Python<'_>) -> PyResult<Which> {
        Which::of(py, &self.decision.which)
    }

    /// What to carry out.
    #[getter]
    fn plan(&self, py: Python<'_>) -> PyResult<Plan> {
        Plan::of(py, &self.decision.plan)
    }

    /// The selected blocks together: their kernel, coupling and query variance.
    #[getter]
    fn block(&self) -> Block {
        Block(self.decision.block.clone())
    }

    /// The modes of the selected blocks' kernel.
    #[getter]
    fn spectrum(&self) -> Spectrum {
        Spectrum(self.decision.spectrum.clone())
    }

    /// Signal and noise variances fitted to the residuals.
    #[getter]
    fn signal(&self) -> SignalFit {
        SignalFit(self.decision.signal)
    }

    /// What the decision means at the query, if there is one.
    #[getter]
    fn query(&self, py: Python<'_>) -> PyResult<Option<QueryOutlook>> {
        self.decision.query.as_ref().map(|query| QueryOutlook::of(py, query)).transpose()
    }

    /// What is guaranteed for the evidence of the best number of steps at fixed noise, with this
    /// probability (Thm. 7.2); None if every residual is 0.
    ///
    /// The fitted signal and noise stand in for the unknown covariance. Computed when asked for.
    #[pyo3(signature = (confidence=0.95))]
    fn pac_bayes(&self, py: Python<'_>, confidence: f64) -> PyResult<Option<Guarantee>> {
        let Self { decision, residuals } = self;
        let bound = py.detach(|| pac_bayes::guarantee(residuals, decision, confidence));
        bound.or_raise(py)?.map(|bound| Guarantee::of(py, &bound)).transpose()
    }

    /// Everything as plain Python values: numbers, lists, dictionaries.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        crate::record::dictionary(slf, &PARTS)
    }

    fn __repr__(&self) -> String {
        let (when, how_far) = (&self.decision.when, &self.decision.how_far);
        let adapt = if when.adapt { "True" } else { "False" };
        format!(
            "Decision(adapt={adapt}, horizon={}, blocks={} of {})",
            how_far.horizon,
            self.decision.which.selected.len(),
            self.decision.which.blocks.len()
        )
    }

    fn __str__(&self) -> String {
        crate::show::text(&self.decision)
    }

    /// The three answers as a table, for notebooks.
    fn _repr_html_(&self) -> String {
        crate::show::html(&self.decision)
    }
}

/// The parts of a decision, as they stand in its dictionary.
const PARTS: [&str; 9] =
    ["policy", "when", "how_far", "which", "plan", "block", "spectrum", "signal", "query"];

record! {
    /// Whether adapting is worth it, with the reasons that decided and no others.
    When from value: core::When {
        /// The answer: false where more weight is on leaving the model alone than on updating it.
        adapt: bool = value.adapt,
        /// Why, in words.
        reason: String = value.reason.to_string(),
        /// The weight on updating: a share of 1 under an average, else 0 or 1.
        weight: f64 = value.weight,
        /// Leave-one-out errors before and after, if a rule that looks at them decided.
        leave_one_out: Option<Py<LeaveOneOutErrors>> = value.leave_one_out.as_ref(),
        /// Over 1, evidence asks for some adaptation; `None` if evidence did not decide.
        gate: Option<f64> = value.evidence.map(|evidence| evidence.gate),
        /// Expected squared distance to the Bayes prediction without adapting, under the fitted
        /// signal and noise: at the query, or summed over the prompt if there is no query. `None`
        /// if evidence did not decide.
        gap_icl: Option<f64> = value.evidence.map(|evidence| evidence.gap_icl),
        /// The same with the chosen update.
        gap_adapted: Option<f64> = value.evidence.map(|evidence| evidence.gap_adapted),
    }
    also {
        /// What evidence says, if a rule that looks at it decided.
        evidence: Option<Py<EvidenceReasons>> = value.evidence.as_ref(),
    }
}

record! {
    /// Squared errors on held-out examples, averaged as the policy says.
    LeaveOneOutErrors from value: core::LeaveOneOutErrors {
        /// Without an update.
        icl: f64 = value.icl,
        /// With the chosen one, which the same examples chose, so that it looks a little better
        /// than it is.
        adapted: f64 = value.adapted,
    }
}

record! {
    /// What evidence says about updating.
    EvidenceReasons from value: core::EvidenceReasons {
        /// Over 1, evidence asks for some adaptation.
        gate: f64 = value.gate,
        /// Expected squared distance to the Bayes prediction without adapting, under the fitted
        /// signal and noise: at the query, or summed over the prompt if there is no query.
        gap_icl: f64 = value.gap_icl,
        /// The same with the chosen update.
        gap_adapted: f64 = value.gap_adapted,
    }
}

record! {
    /// How many steps of which size, and what the choice rests on.
    HowFar from value: core::Decision {
        /// The rule that chose.
        rule: String = value.how_far.rule.to_string(),
        /// The number of steps; of an average, its most probable horizon; 0 for the Bayes filter.
        horizon: u32 = value.how_far.horizon,
        /// Whether the choice is the largest candidate, so that a longer grid might choose more.
        at_edge: bool = value.how_far.at_edge,
        /// The step size.
        step_size: f64 = value.how_far.step_size,
        /// The noise variance the rule worked with.
        noise_variance: f64 = value.how_far.noise_variance,
        /// How many free numbers the chosen update spends on the prompt.
        degrees_of_freedom: f64 = value.how_far.degrees_of_freedom,
        /// The candidate numbers of steps.
        horizons: Vec<u32> = value.policy.horizons.clone(),
        /// Negative log-evidence per example with the noise variance profiled, at every candidate;
        /// empty if residuals are 0.
        evidence: Py<PyAny> = value.how_far.evidence.as_slice(),
        /// The same with the noise variance set to the mean squared residual.
        evidence_fixed: Py<PyAny> = value.how_far.evidence_fixed.as_slice(),
        /// The weights of the candidates, by leave-one-out errors if an average over these was
        /// chosen and else the Gibbs posterior; empty if residuals are 0.
        posterior: Py<PyAny> = value.how_far.posterior.as_slice(),
        /// The leave-one-out risk at every candidate, if a rule that looks at it chose.
        leave_one_out: Py<PyAny> = value.how_far.leave_one_out.as_slice(),
    }
}

record! {
    /// Which blocks, and how each scored.
    Which from value: core::Which {
        /// The rule that chose.
        rule: String = value.rule.to_string(),
        /// The number of blocks that might be chosen.
        budget: usize = value.budget,
        /// Positions of the chosen blocks in the geometry, in the order they were chosen.
        selected: Vec<usize> = value.selected.clone(),
        /// The scores of every candidate block.
        blocks: Vec<Py<BlockScore>> = value.blocks.as_slice(),
        /// The numbers of layers that were tried and their leave-one-out risks, if "depth" chose.
        depth: Option<Py<DepthChoice>> = value.depth.as_ref(),
    }
}

record! {
    /// How much a block could do.
    BlockScore from value: core::BlockScore {
        /// The block's name.
        name: String = value.name.clone(),
        /// The number by which a model that observed it finds it again, if one did.
        id: Option<u64> = value.id,
        /// How much the prompt tells about it.
        trace: f64 = value.trace,
        /// How much of that matters at the query.
        query: Option<f64> = value.query,
    }
}

record! {
    /// What to carry out on the selected blocks.
    Plan from value: core::Plan {
        /// "none", "steps" (take gradient steps), "average" (apply the average over horizons as
        /// one update), "averaged-steps" (take gradient steps, and apply the average of where they
        /// led after each horizon) or "posterior" (apply the posterior mean as one update).
        kind: &'static str = kind(value),
        /// The plan as the filter that it is.
        filter: Py<PyAny> = value,
    }
}

record! {
    /// What the decision means at the query.
    QueryOutlook from value: core::QueryOutlook {
        /// The correction that the update makes in the linearised model.
        correction: f64 = value.correction,
        /// Standard deviation of the ideal correction given the residuals, under the fitted signal
        /// and noise.
        standard_deviation: f64 = value.standard_deviation,
        /// Where the query's residual is meant to lie, by leave-one-out errors (jackknife+), if a
        /// rule that looks at them chose.
        interval: Option<Py<Interval>> = value.interval.as_ref(),
    }
}

fn kind(plan: &core::Plan) -> &'static str {
    match plan {
        core::Plan::None => "none",
        core::Plan::Steps(_) => "steps",
        core::Plan::Average(_) => "average",
        core::Plan::AveragedSteps(_) => "averaged-steps",
        core::Plan::Posterior(_) => "posterior",
    }
}

impl Field<Py<PyAny>> for &core::Plan {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let filter = match self {
            core::Plan::None => AnyFilter::NoUpdate(core::NoUpdate),
            core::Plan::Steps(filter) => AnyFilter::GradientDescent(*filter),
            core::Plan::Average(filter) | core::Plan::AveragedSteps(filter) => {
                AnyFilter::Horizons(Arc::new(filter.clone()))
            }
            core::Plan::Posterior(filter) => AnyFilter::Benchmark(*filter),
        };
        filter.object(py)
    }
}

/// Fills a field with the record of a part that may be absent.
macro_rules! optional_part {
    ($record:ident, $part:ty) => {
        impl Field<Option<Py<$record>>> for Option<&$part> {
            fn field(self, py: Python<'_>) -> PyResult<Option<Py<$record>>> {
                self.map(|part| Py::new(py, $record::of(py, part)?)).transpose()
            }
        }
    };
}

optional_part!(Interval, core::Interval);
optional_part!(LeaveOneOutErrors, core::LeaveOneOutErrors);
optional_part!(EvidenceReasons, core::EvidenceReasons);
optional_part!(DepthChoice, core::subspace::DepthChoice);

impl Field<Vec<Py<BlockScore>>> for &[core::BlockScore] {
    fn field(self, py: Python<'_>) -> PyResult<Vec<Py<BlockScore>>> {
        self.iter().map(|score| Py::new(py, BlockScore::of(py, score)?)).collect()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Decision>()?;
    module.add_class::<When>()?;
    module.add_class::<LeaveOneOutErrors>()?;
    module.add_class::<EvidenceReasons>()?;
    module.add_class::<HowFar>()?;
    module.add_class::<Which>()?;
    module.add_class::<BlockScore>()?;
    module.add_class::<Plan>()?;
    module.add_class::<QueryOutlook>()?;
    module.add_function(wrap_pyfunction!(decide, module)?)
}

//! The three answers: `decide` on arrays, and the `Decision` it gives.

use crate::errors::{OrRaise, named};
use crate::filters::AnyFilter;
use crate::geometry::{Block, Geometry, single};
use crate::leave_one_out::Interval;
use crate::record;
use crate::record::Field;
use crate::signal::SignalFit;
use crate::spectrum::Spectrum;
use crate::theory::pac_bayes::records::Bound as Guarantee;
use fewstep_core::{self as core};
use fewstep_theory::pac_bayes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Decides when, how far and in which blocks to adapt.
///
/// The first argument is a kernel, with one residual per example, or a `Geometry`, which holds its
/// residuals and may have many blocks. `coupling` and `query_variance` describe the query and are
/// given together or not at all; without them nothing is said about the query, and rules that look
/// at it are refused. Every field of `Rules` may be given as a keyword argument; with `rules=` they
/// replace those of the rules.
#[pyfunction]
#[pyo3(
    signature = (kernel, residuals=None, coupling=None, query_variance=None, **rules),
    text_signature = "(kernel, residuals=None, coupling=None, query_variance=None, *, rules=None, \
                      horizon='evidence', horizons=None, step_scale=0.1, select='all', \
                      budget=None, selection_horizon=8, inverse_temperature=1.0, \
                      leave_one_out='trimmed', leave_one_out_gate=0.0, leave_alone_odds=5.0, \
                      coverage=0.8, seed=0)"
)]
fn decide(
    kernel: &Bound<'_, PyAny>,
    residuals: Option<&Bound<'_, PyAny>>,
    coupling: Option<&Bound<'_, PyAny>>,
    query_variance: Option<f64>,
    rules: Option<&Bound<'_, PyDict>>,
) -> PyResult<Decision> {
    let py = kernel.py();
    let rules = crate::rules::rules("decide", rules)?;
    let made = |geometry: &core::Geometry| -> PyResult<Decision> {
        let decision = py.detach(|| core::decide(geometry, &rules)).or_raise(py)?;
        let (horizons, residuals) = (rules.horizons.clone(), geometry.residuals().to_vec());
        Ok(Decision { decision, horizons, residuals })
    };
    match (kernel.cast::<Geometry>(), residuals) {
        (Ok(geometry), None) if coupling.is_none() && query_variance.is_none() => {
            made(&geometry.get().0)
        }
        (Ok(_), _) => {
            let message = "a Geometry holds residuals, coupling and query variance already; give \
                           only rules with it";
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
    /// The candidates, which curves go along.
    pub(crate) horizons: Vec<u32>,
    /// Those it was made for, which a guarantee looks at.
    pub(crate) residuals: Vec<f64>,
}

#[pymethods]
impl Decision {
    /// Whether to adapt at all.
    #[getter]
    fn when(&self, py: Python<'_>) -> PyResult<When> {
        When::of(py, &self.decision.when)
    }

    /// How many steps, of which size.
    #[getter]
    fn how_far(&self, py: Python<'_>) -> PyResult<HowFar> {
        HowFar::of(py, self)
    }

    /// Which blocks.
    #[getter]
    fn which(&self, py: Python<'_>) -> PyResult<Which> {
        Which::of(py, &self.decision.which)
    }

    /// What to carry out.
    #[getter]
    fn update(&self, py: Python<'_>) -> PyResult<ChosenUpdate> {
        ChosenUpdate::of(py, &self.decision.update)
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
        let Self { decision, horizons, residuals } = self;
        let bound = py
            .detach(|| pac_bayes::guarantee(residuals, decision, horizons, confidence))
            .or_raise(py)?;
        bound.map(|bound| Guarantee::of(py, &bound)).transpose()
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
        crate::show::html(&self.decision, &self.horizons)
    }
}

/// The parts of a decision, as they stand in its dictionary.
const PARTS: [&str; 8] =
    ["when", "how_far", "which", "update", "block", "spectrum", "signal", "query"];

record! {
    /// Whether adapting is worth it.
    When from value: core::When {
        /// The answer.
        adapt: bool = value.adapt,
        /// Why, in words.
        reason: String = value.reason.to_string(),
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
    HowFar from value: Decision {
        /// The rule that chose.
        rule: String = value.decision.how_far.rule.to_string(),
        /// The number of steps; of an average, its most probable horizon; 0 for the Bayes filter.
        horizon: u32 = value.decision.how_far.horizon,
        /// Whether the choice is the largest candidate, so that a longer grid might choose more.
        at_edge: bool = value.decision.how_far.at_edge,
        /// The step size.
        step_size: f64 = value.decision.how_far.step_size,
        /// The noise variance the rule worked with.
        noise_variance: f64 = value.decision.how_far.noise_variance,
        /// How many free numbers the chosen update spends on the prompt.
        degrees_of_freedom: f64 = value.decision.how_far.degrees_of_freedom,
        /// The candidate numbers of steps.
        horizons: Vec<u32> = value.horizons.clone(),
        /// Negative log-evidence per example with the noise variance profiled, at every candidate;
        /// empty if residuals are 0.
        evidence: Py<PyAny> = value.decision.how_far.evidence.as_slice(),
        /// The same with the noise variance set to the mean squared residual.
        evidence_fixed: Py<PyAny> = value.decision.how_far.evidence_fixed.as_slice(),
        /// The weights of the candidates, by left-out errors if that rule chose and else the Gibbs
        /// posterior; empty if residuals are 0.
        posterior: Py<PyAny> = value.decision.how_far.posterior.as_slice(),
        /// The leave-one-out risk at every candidate, if a rule by left-out errors chose.
        left_out_risk: Py<PyAny> = value.decision.how_far.left_out_risk.as_slice(),
    }
}

record! {
    /// Which blocks, and how each scored.
    Which from value: core::Which {
        /// The rule that chose.
        rule: String = value.rule.to_string(),
        /// How many blocks were asked for; "leave-one-out" may take fewer.
        budget: usize = value.budget,
        /// Positions of the chosen blocks in the geometry, in the order they were chosen.
        selected: Vec<usize> = value.selected.clone(),
        /// The scores of every candidate block.
        blocks: Vec<Py<BlockScore>> = value.blocks.as_slice(),
    }
}

record! {
    /// How much a block could do.
    BlockScore from value: core::BlockScore {
        /// The block's name.
        name: String = value.name.clone(),
        /// How much the prompt tells about it.
        trace: f64 = value.trace,
        /// How much of that matters at the query.
        query: Option<f64> = value.query,
    }
}

record! {
    /// What to carry out on the selected blocks.
    ChosenUpdate from value: core::Update {
        /// "none", "steps" (take gradient steps), "average" (apply the average over horizons as
        /// one update), "averaged-steps" (take gradient steps, and apply the average of where they
        /// led after each horizon) or "posterior" (apply the posterior mean as one update).
        kind: &'static str = kind(value),
        /// The update as the filter that it is.
        filter: Py<PyAny> = value,
    }
}

record! {
    /// What the decision means at the query.
    QueryOutlook from value: core::QueryOutlook {
        /// The correction that the update makes under the linear picture.
        correction: f64 = value.correction,
        /// Standard deviation of the ideal correction given the residuals, under the fitted signal
        /// and noise.
        standard_deviation: f64 = value.standard_deviation,
        /// Where the query's residual is meant to lie, by left-out examples (jackknife+), if a
        /// rule by left-out errors chose.
        interval: Option<Py<Interval>> = &value.interval,
    }
}

fn kind(update: &core::Update) -> &'static str {
    match update {
        core::Update::None => "none",
        core::Update::Steps(_) => "steps",
        core::Update::Average(_) => "average",
        core::Update::AveragedSteps(_) => "averaged-steps",
        core::Update::Posterior(_) => "posterior",
    }
}

impl Field<Py<PyAny>> for &core::Update {
    fn field(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let filter = match self {
            core::Update::None => AnyFilter::NoUpdate(core::NoUpdate),
            core::Update::Steps(filter) => AnyFilter::GradientDescent(*filter),
            core::Update::Average(filter) | core::Update::AveragedSteps(filter) => {
                AnyFilter::Horizons(Arc::new(filter.clone()))
            }
            core::Update::Posterior(filter) => AnyFilter::Benchmark(*filter),
        };
        filter.object(py)
    }
}

impl Field<Option<Py<Interval>>> for &Option<core::leave_one_out::Interval> {
    fn field(self, py: Python<'_>) -> PyResult<Option<Py<Interval>>> {
        self.as_ref().map(|interval| Py::new(py, Interval::of(py, interval)?)).transpose()
    }
}

impl Field<Vec<Py<BlockScore>>> for &[core::BlockScore] {
    fn field(self, py: Python<'_>) -> PyResult<Vec<Py<BlockScore>>> {
        self.iter().map(|score| Py::new(py, BlockScore::of(py, score)?)).collect()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Decision>()?;
    module.add_class::<When>()?;
    module.add_class::<HowFar>()?;
    module.add_class::<Which>()?;
    module.add_class::<BlockScore>()?;
    module.add_class::<ChosenUpdate>()?;
    module.add_class::<QueryOutlook>()?;
    module.add_function(wrap_pyfunction!(decide, module)?)
}

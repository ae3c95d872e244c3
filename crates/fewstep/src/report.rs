//! The report: all that is said about a task, in the form in which every reader gets it.
//!
//! In: what was observed, decided and done. Out: [`Report`], one JSON object per task; text and
//! figures show the same fields. Nothing is computed here but differences, and what filters do at
//! eigenvalues. Numbers that are not finite become `null`.

mod any;
mod classes;
mod lines;
mod path;

pub use any::AnyReport;
pub use classes::{
    Arm, ArmLosses, Arms, ClassBasis, ClassHowFar, ClassReport, ClassWhen, ClassesSeen,
    Descent, Probabilities, ZeroShot,
};
pub use lines::Lines;
pub use path::Path;

use fewstep_core::{Block, Decision, Filter, HorizonName, Policy, Reason, Selection};
use fewstep_engine::{Observation, Outcome, PassCount, Task};
use fewstep_theory::pac_bayes::guarantee;
use serde::Serialize;
use std::collections::BTreeMap;

/// How often the guarantee on the evidence holds, at least.
const CONFIDENCE: f64 = 0.95;

/// What is known about one task.
///
/// # Examples
///
/// ```
/// use fewstep::{Action, Policy, Predictor};
///
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Decide)?;
/// let task = fewstep::tasks::parse(
///     br#"{"id": "t1", "template": "{x}->{y}",
///          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
///          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// )?;
/// let report = predictor.answer(&task)?.report;
/// assert_eq!((report.id.as_str(), report.prediction.adapted), ("t1", None));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The task's id.
    pub id: String,
    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// The policy that decided, whole; absent if an update made before was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// What the model says for the query.
    pub prediction: Prediction,
    /// Whether to adapt; absent if an update made before was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How many steps; absent if an update made before was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how_far: Option<HowFar>,
    /// Which blocks.
    pub which: Which,
    /// What the decision rests on; absent if an update made before was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
    /// What it cost.
    pub passes: Passes,
}

/// Predictions for the query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Without adapting; not a number if only the updated model was asked.
    pub icl: f64,
    /// With the chosen update: carried out in the model or, if the linearised model answers,
    /// `linear` clamped to the range of the labels; `None` if nothing was carried out.
    pub adapted: Option<f64>,
    /// With the chosen update, by the linearised model.
    pub linear: Option<f64>,
    /// Standard deviation of the ideal correction under the fitted signal and noise.
    pub standard_deviation: Option<f64>,
    /// An interval for the answer, if leave-one-out errors decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The value of `query.y`, if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// After every number of steps; with `--full`, unless an update made before was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

/// An interval for the query's answer, by leave-one-out errors (jackknife+).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end, no lower than any label.
    pub lower: f64,
    /// Its upper end, no higher than any label.
    pub upper: f64,
    /// Its intended coverage.
    pub coverage: f64,
}

/// Whether to adapt, with the reasons that decided and no others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct When {
    /// The answer: false where more weight is on leaving the model alone than on updating it. The
    /// prediction is the average of both all the same.
    pub adapt: bool,
    /// Why, in words.
    pub reason: String,
    /// The weight on updating: a share of 1 under an average over steps, else 0 or 1.
    pub weight: f64,
    /// Leave-one-out errors, if they decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leave_one_out: Option<LeaveOneOut>,
    /// What evidence says, if it decided.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// Squared errors on held-out examples, averaged as the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LeaveOneOut {
    /// Without an update.
    pub icl: f64,
    /// With the chosen one.
    pub adapted: f64,
}

/// What evidence says about updating.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Over 1, evidence asks for some adaptation.
    pub gate: f64,
    /// Expected squared distance to the Bayes prediction without adapting.
    pub gap_icl: f64,
    /// The same with the chosen update.
    pub gap_adapted: f64,
}

/// How many steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HowFar {
    /// The rule that chose.
    pub rule: HorizonName,
    /// `T`: the number of steps; of an average, the most likely one.
    pub horizon: u32,
    /// Whether it is the largest candidate.
    pub at_edge: bool,
    /// `ρ`: the step size.
    pub step_size: f64,
    /// `σ²`: the noise variance the rule worked with.
    pub noise_variance: f64,
    /// Degrees of freedom of the chosen update, `Σ g(λ_i)`.
    pub degrees_of_freedom: f64,
    /// The candidates; in JSON with `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub horizons: Vec<u32>,
    /// Negative log-evidence per example, `ℓ_T`, with the noise variance profiled out, at every
    /// candidate.
    pub evidence: Vec<f64>,
    /// The same with the noise variance set to the mean squared residual, `‖r‖²/n`.
    pub evidence_fixed: Vec<f64>,
    /// The weights of the candidates: by leave-one-out errors if an average over these was chosen,
    /// else the Gibbs posterior.
    pub posterior: Vec<f64>,
    /// The leave-one-out risk at every candidate, if a rule that looks at it chose; in JSON with
    /// `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leave_one_out: Vec<f64>,
    /// What is guaranteed about the evidence (not about the query); with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pac_bayes: Option<PacBayes>,
}

/// A guarantee on the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PacBayes {
    /// Evidence plus slack.
    pub bound: f64,
    /// What is added to the evidence.
    pub slack: f64,
    /// How often the bound holds, at least.
    pub confidence: f64,
}

/// Which blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Which {
    /// The rule that chose.
    pub rule: String,
    /// How many blocks were chosen.
    pub budget: usize,
    /// The seed of the draw, if the rule was to draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What the head in a name is, by kind, where query heads share keys and values: `query` or
    /// `key-value`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub heads: BTreeMap<String, &'static str>,
    /// The names of the chosen blocks, in the order they were chosen.
    pub selected: Vec<String>,
    /// The scores of every candidate block; in JSON with `--full`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockScore>,
}

/// How much a block could do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockScore {
    /// Its name.
    pub name: String,
    /// How much the prompt tells about it: `tr(K_b(K_full + σ²I)⁻¹)`.
    pub trace: f64,
    /// How much of that matters at the query: `k_bᵀ(K_full + σ²I)⁻¹k_b`.
    pub query: Option<f64>,
    /// Its kernel, `K_b`; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Vec<Vec<f64>>>,
    /// Its coupling to the query, `k_b`; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<Vec<f64>>,
    /// Its query variance, `κ_b`; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_variance: Option<f64>,
}

/// What the decision rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Geometry {
    /// `r`: what the model leaves on each example when it is held out.
    pub residuals: Vec<f64>,
    /// How many examples the prompt shows, if not all of them; all are learnt from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<usize>,
    /// Which label each example has, by the first example that has it; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<usize>>,
    /// How far the prediction for each example can fall and rise before it leaves the range of the
    /// labels; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Vec<[f64; 2]>>,
    /// The eigenvalues of the chosen blocks' kernel, largest first.
    pub eigenvalues: Vec<f64>,
    /// `g(λ_i)`: the share of each of these modes that the chosen update fits; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Vec<f64>>,
    /// `g★(λ_i) = λ_i/(λ_i + λ★)`: the share that is best under the fitted signal and noise; with
    /// `--full`, unless all residuals are 0, which fit anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bayes_response: Option<Vec<f64>>,
    /// Kernel of the chosen blocks together, `K`; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Vec<Vec<f64>>>,
    /// Their coupling to the query, `k_x`; with `--full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupling: Option<Vec<f64>>,
    /// Their query variance, `κ_x`.
    pub query_variance: f64,
}

/// Sequences that went through the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passes {
    /// Forward.
    pub forward: u64,
    /// Backward.
    pub backward: u64,
}

impl From<PassCount> for Passes {
    fn from(count: PassCount) -> Self {
        Self { forward: count.forward, backward: count.backward }
    }
}

impl Report {
    /// The report of a task that was observed, decided on and, maybe, acted on. `full` adds the
    /// matrices, the filters and the paths; that of steps which were taken only if the query was
    /// followed, as [`Prepared::act`](fewstep_engine::Prepared::act) does.
    ///
    /// # Errors
    ///
    /// [`fewstep_core::Error`] if the decision was made for another geometry.
    pub fn new(
        task: &Task,
        seen: &Observation,
        decision: &Decision,
        outcome: Option<&Outcome>,
        full: bool,
    ) -> Result<Self, fewstep_core::Error> {
        let passes = seen.passes + outcome.map(|outcome| outcome.passes).unwrap_or_default();
        let mut prediction = prediction(task, seen, decision, outcome);
        if full {
            prediction.path = Path::of(seen, decision, outcome)?;
        }
        Ok(Self {
            id: task.id.clone(),
            query: None,
            policy: Some(decision.policy.clone()),
            prediction,
            when: Some(when(decision)),
            how_far: Some(how_far(seen, decision, full)?),
            which: which(seen, decision, full),
            geometry: Some(geometry(seen, decision, full)?),
            passes: passes.into(),
        })
    }

    /// The same report of one of several queries.
    #[must_use]
    pub(crate) fn asked(mut self, query: Option<usize>) -> Self {
        self.query = query;
        self
    }

    /// The report as one line of JSON, without a line break; `full` adds the lists per block, the
    /// matrices, the filters and the paths, as far as the report holds them.
    #[must_use]
    pub fn to_json(&self, full: bool) -> String {
        let written = |report: &Self| {
            // The lines need lists that a brief report does not show.
            let written = Written { report, lines: Lines::of(self) };
            serde_json::to_string(&written).expect("every field can be written")
        };
        if full {
            return written(self);
        }
        let mut brief = self.clone();
        brief.which.blocks.clear();
        brief.prediction.path = None;
        if let Some(how_far) = &mut brief.how_far {
            how_far.horizons.clear();
            how_far.leave_one_out.clear();
            how_far.pac_bayes = None;
        }
        if let Some(geometry) = &mut brief.geometry {
            (geometry.kernel, geometry.coupling) = (None, None);
            (geometry.response, geometry.bayes_response) = (None, None);
            (geometry.labels, geometry.room) = (None, None);
        }
        written(&brief)
    }
}

/// A report as it is written: with the lines that people read.
#[derive(Serialize)]
struct Written<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    lines: Lines,
}

impl HowFar {
    /// The weights of numbers of steps over 0, if an average over them was chosen; with `--full`
    /// or before lists were removed from the report.
    pub(crate) fn averaged(&self) -> Option<impl Iterator<Item = (u32, f64)>> {
        let all = self.horizons.iter().copied().zip(self.posterior.iter().copied());
        self.rule.averages().then(|| all.filter(|(horizon, _)| *horizon > 0))
    }

    /// The number of steps; of an average, its mean.
    pub(crate) fn mean_horizon(&self) -> f64 {
        let mean = self.averaged().map(|all| all.map(|(steps, w)| f64::from(steps) * w).sum());
        mean.unwrap_or(f64::from(self.horizon))
    }
}

impl Prediction {
    /// The squared error of a prediction, if the answer is known.
    #[must_use]
    pub fn squared_error(&self, prediction: Option<f64>) -> Option<f64> {
        Some((prediction? - self.target?).powi(2))
    }
}

fn prediction(
    task: &Task,
    seen: &Observation,
    decision: &Decision,
    outcome: Option<&Outcome>,
) -> Prediction {
    let icl = outcome.map_or(seen.query_prediction, |outcome| outcome.icl);
    let interval = decision.query.and_then(|query| query.interval).map(|around| Interval {
        lower: task.clamp_to_labels(icl + around.lower),
        upper: task.clamp_to_labels(icl + around.upper),
        coverage: decision.policy.coverage,
    });
    Prediction {
        icl,
        adapted: outcome.map(|outcome| outcome.adapted),
        linear: decision.query.map(|query| icl + query.correction),
        standard_deviation: decision.query.map(|query| query.standard_deviation),
        interval,
        target: task.query.y.as_deref().and_then(|answer| task.value_of(answer)),
        path: None,
    }
}

fn geometry(
    seen: &Observation,
    decision: &Decision,
    full: bool,
) -> Result<Geometry, fewstep_core::Error> {
    let (residuals, modes) = (seen.geometry.residuals(), decision.spectrum.eigenvalues());
    let chosen = seen.geometry.sum(&decision.which.selected)?;
    let at_modes = |filter: &dyn Filter| modes.iter().map(|&at| filter.response(at)).collect();
    let fitted = full && decision.when.reason != Reason::NothingToCorrect;
    let bayes = fitted.then(|| decision.signal.benchmark(residuals)).transpose()?;
    let answers = seen.geometry.answers().filter(|_| full);
    let ends = |room: &fewstep_core::Interval| [room.lower, room.upper];
    Ok(Geometry {
        residuals: residuals.to_vec(),
        shown: (seen.shown < residuals.len()).then_some(seen.shown),
        labels: answers.map(|answers| answers.labels().to_vec()),
        room: answers.map(|answers| answers.room().iter().map(ends).collect()),
        eigenvalues: modes.to_vec(),
        response: full.then(|| at_modes(&decision.plan)),
        bayes_response: bayes.map(|bayes| at_modes(&bayes)),
        kernel: full.then(|| chosen.kernel().to_rows()),
        coupling: chosen.query().filter(|_| full).map(|query| query.coupling.clone()),
        query_variance: chosen.query().map_or(f64::NAN, |query| query.variance),
    })
}

fn when(decision: &Decision) -> When {
    let from = &decision.when;
    When {
        adapt: from.adapt,
        reason: from.reason.to_string(),
        weight: from.weight,
        leave_one_out: from
            .leave_one_out
            .map(|errors| LeaveOneOut { icl: errors.icl, adapted: errors.adapted }),
        evidence: from.evidence.map(|reasons| Evidence {
            gate: reasons.gate,
            gap_icl: reasons.gap_icl,
            gap_adapted: reasons.gap_adapted,
        }),
    }
}

fn how_far(
    seen: &Observation,
    decision: &Decision,
    full: bool,
) -> Result<HowFar, fewstep_core::Error> {
    let from = &decision.how_far;
    let bound = match full {
        true => guarantee(seen.geometry.residuals(), decision, CONFIDENCE)?,
        false => None,
    };
    Ok(HowFar {
        rule: from.rule,
        horizon: from.horizon,
        at_edge: from.at_edge,
        step_size: from.step_size,
        noise_variance: from.noise_variance,
        degrees_of_freedom: from.degrees_of_freedom,
        horizons: decision.policy.horizons.clone(),
        evidence: from.evidence.clone(),
        evidence_fixed: from.evidence_fixed.clone(),
        posterior: from.posterior.clone(),
        leave_one_out: from.leave_one_out.clone(),
        pac_bayes: bound.map(|bound| PacBayes {
            bound: bound.bound,
            slack: bound.slack,
            confidence: bound.confidence,
        }),
    })
}

fn which(seen: &Observation, decision: &Decision, full: bool) -> Which {
    let from = &decision.which;
    let score = |(score, block): (&fewstep_core::BlockScore, &Block)| BlockScore {
        name: score.name.clone(),
        trace: score.trace,
        query: score.query,
        kernel: full.then(|| block.kernel().to_rows()),
        coupling: block.query().filter(|_| full).map(|query| query.coupling.clone()),
        query_variance: block.query().filter(|_| full).map(|query| query.variance),
    };
    Which {
        rule: from.rule.to_string(),
        budget: from.budget,
        seed: match decision.policy.selection {
            Selection::Random { seed, .. } => Some(seed),
            _ => None,
        },
        heads: BTreeMap::new(),
        selected: from.selected.iter().map(|&index| from.blocks[index].name.clone()).collect(),
        blocks: from.blocks.iter().zip(seen.geometry.blocks()).map(score).collect(),
    }
}

/// A task that could not be answered, in the place of its report.
///
/// # Examples
///
/// ```
/// use fewstep::report::Failure;
///
/// let failure = Failure { id: None, line: 3, query: None, error: "column 1: …".to_owned() };
/// assert_eq!(failure.to_json(), r#"{"id":null,"line":3,"error":"column 1: …"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The task's id, if it could be read.
    pub id: Option<String>,
    /// The line in its file, counted from 1.
    pub line: u64,
    /// Which query of the task it is about, counted from 0, if the task has a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<usize>,
    /// What is wrong and what to do.
    pub error: String,
}

impl Failure {
    /// The failure as one line of JSON, without a line break.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every field can be written")
    }
}

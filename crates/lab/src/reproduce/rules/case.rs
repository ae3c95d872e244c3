//! A measured task as rules see it, and the predictions that they choose between.
//!
//! In: a [`Record`] with a trace. Out: a [`Case`] for each of its queries, whose [`Seen`] holds curves
//! over the numbers of steps, computed once and looked at by every rule. Rules never get the answer.

use super::super::policies::{DEFAULT_POLICY, PolicyOutcome};
use super::super::record::{Record, Trace};
use crate::error::Error;
use fewstep::{Dynamics, Policy};
use fewstep_core::leave_one_out::LeaveOneOut;
use fewstep_core::signal::SignalFit;
use fewstep_core::{Block, Evidence, Geometry, Noise, Selection, Spectrum, StepSize, decide};
use fewstep_engine::{LinearPath, Steps};

/// What a rule may look at.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) geometry: Geometry,
    /// All candidate blocks together.
    pub(crate) block: Block,
    pub(crate) spectrum: Spectrum,
    pub(crate) step: StepSize,
    /// 0, 1, …, the numbers of steps.
    pub(crate) horizons: Vec<u32>,
    /// One value per number of steps.
    pub(crate) evidence: Vec<f64>,
    pub(crate) evidence_fixed: Vec<f64>,
    pub(crate) leave_one_out: LeaveOneOut,
    pub(crate) signal: SignalFit,
}

/// A query of a task, what was seen of it, and where steps lead.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Whether it asks something else about the prompt of the case before it.
    pub(crate) further: bool,
    /// `None` if there is nothing to correct or nothing can change: all predictions are the model's.
    pub(crate) seen: Option<Seen>,
    target: f64,
    base: f64,
    /// Residuals and what is known of the answers, without candidate blocks.
    trace: Trace,
    steps: Vec<f64>,
    linear: Vec<f64>,
    /// Where whole policies led.
    policies: Vec<PolicyOutcome>,
}

/// What the default policy did for a task, and how sure it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outlook {
    /// The prediction without adaptation.
    pub(crate) base: f64,
    /// The prediction that the decision led to.
    pub(crate) adapted: f64,
    target: f64,
    /// Whether it asks something else about the prompt of the one before it.
    pub(crate) further: bool,
    /// How much of the weight is on steps.
    pub(crate) weight: f64,
    /// Posterior standard deviation of the ideal correction.
    pub(crate) deviation: f64,
    /// Where the answer is meant to lie, for every coverage that was asked for.
    pub(crate) intervals: Vec<[f64; 2]>,
}

impl Outlook {
    /// The squared error without adaptation.
    pub(crate) fn untouched(&self) -> f64 {
        (self.base - self.target).powi(2)
    }

    /// The squared error of the decision.
    pub(crate) fn error(&self) -> f64 {
        (self.adapted - self.target).powi(2)
    }

    /// Whether the answer lies between two ends.
    pub(crate) fn holds(&self, [low, high]: [f64; 2]) -> bool {
        // Predictions and labels are sums of rounded numbers.
        let room = 1e-9;
        (low - room..=high + room).contains(&self.target)
    }
}

impl Case {
    /// Every query of a record with a trace of so many steps, its own first.
    pub(crate) fn all(record: &Record, longest: u32) -> Result<Vec<Self>, Error> {
        let Some(trace) = &record.trace else { return Ok(vec![]) };
        let mut cases = vec![Self::new(trace, record.target, longest)?];
        for (trace, target) in trace.asked_again() {
            cases.push(Self { further: true, ..Self::new(&trace, target, longest)? });
        }
        Ok(cases)
    }

    /// A trace of so many steps with its own query.
    fn new(trace: &Trace, target: f64, longest: u32) -> Result<Self, Error> {
        let seen = Seen::new(trace.geometry()?, trace.step_scale, longest)?;
        let mut linear = vec![trace.base; longest as usize + 1];
        if let Some(seen) = &seen {
            let steps = Steps::new(seen.step.get(), longest as usize);
            let path = LinearPath::new(&seen.block, &trace.residuals, &steps)?;
            for (prediction, change) in linear.iter_mut().zip(path.query_corrections) {
                *prediction += change;
            }
        }
        Ok(Self {
            further: false,
            seen,
            target,
            base: trace.base,
            trace: Trace {
                blocks: vec![],
                steps: vec![],
                examples: vec![],
                policies: vec![],
                further: vec![],
                ..trace.clone()
            },
            steps: trace.steps.clone(),
            linear,
            policies: trace.policies.clone(),
        })
    }

    /// A prediction as it is judged: linear ones can leave the range of the labels, which no model
    /// does, and are clamped to it.
    fn clamp(&self, prediction: f64, dynamics: Dynamics) -> f64 {
        let [least, most] = self.trace.labels;
        match dynamics {
            Dynamics::Steps => prediction,
            Dynamics::Linear => prediction.max(least).min(most),
        }
    }

    /// What the default policy did, if it was followed by these dynamics, with intervals of these
    /// coverages.
    pub(crate) fn outlook(
        &self,
        dynamics: Dynamics,
        coverages: &[f64],
    ) -> Result<Option<Outlook>, Error> {
        let Some(outcome) = self.outcome(DEFAULT_POLICY) else { return Ok(None) };
        let Some(adapted) = outcome.by(dynamics) else { return Ok(None) };
        let [base, adapted] = [self.base, adapted].map(|found| self.clamp(found, dynamics));
        // The block is chosen already.
        let policy = Policy { selection: Selection::All, ..Policy::default() };
        let block = outcome.seen.block(outcome.block.clone())?;
        let geometry = self.trace.seeing(vec![block])?;
        let (mut intervals, mut weight, mut deviation) = (vec![], 0.0, 0.0);
        for &coverage in coverages {
            let decision = decide(&geometry, &Policy { coverage, ..policy.clone() })?;
            weight = decision.how_far.posterior.iter().skip(1).sum();
            let Some(query) = decision.query else { continue };
            deviation = query.standard_deviation;
            let [least, most] = self.trace.labels;
            // Without anything to correct there is no interval: the prediction stands alone.
            let ends = query.interval.map_or([0.0, 0.0], |found| [found.lower, found.upper]);
            intervals.push(ends.map(|end| (self.base + end).max(least).min(most)));
        }
        let (target, further) = (self.target, self.further);
        Ok(Some(Outlook { base, adapted, target, further, weight, deviation, intervals }))
    }

    /// Predictions after 0, 1, … steps.
    fn path(&self, dynamics: Dynamics) -> &[f64] {
        match dynamics {
            Dynamics::Steps => &self.steps,
            Dynamics::Linear => &self.linear,
        }
    }

    /// The names of the policies that were followed.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|outcome| outcome.policy.as_str())
    }

    fn outcome(&self, policy: &str) -> Option<&PolicyOutcome> {
        self.policies.iter().find(|outcome| outcome.policy == policy)
    }

    /// The squared error of one of them, if it was followed by these dynamics.
    pub(crate) fn policy_error(&self, policy: &str, dynamics: Dynamics) -> Option<f64> {
        Some(self.squared_error(self.outcome(policy)?.by(dynamics)?, dynamics))
    }

    /// Squared errors after 0, 1, … steps.
    pub(crate) fn errors(&self, dynamics: Dynamics) -> Vec<f64> {
        self.path(dynamics).iter().map(|&found| self.squared_error(found, dynamics)).collect()
    }

    /// The squared error of an average over the numbers of steps.
    pub(crate) fn error(&self, weights: &[f64], dynamics: Dynamics) -> f64 {
        let found: f64 = weights.iter().zip(self.path(dynamics)).map(|(w, s)| w * s).sum();
        self.squared_error(found, dynamics)
    }

    fn squared_error(&self, prediction: f64, dynamics: Dynamics) -> f64 {
        (self.clamp(prediction, dynamics) - self.target).powi(2)
    }
}

impl PolicyOutcome {
    /// The prediction by some dynamics, if it was made.
    fn by(&self, dynamics: Dynamics) -> Option<f64> {
        match dynamics {
            Dynamics::Steps => self.prediction,
            Dynamics::Linear => Some(self.linear),
        }
    }
}

impl Seen {
    fn new(geometry: Geometry, scale: f64, longest: u32) -> Result<Option<Self>, Error> {
        let block = geometry.total();
        let spectrum = Spectrum::of(block.kernel())?;
        let residuals = geometry.residuals();
        if spectrum.largest() == 0.0 || residuals.iter().all(|&residual| residual == 0.0) {
            return Ok(None);
        }
        let step = StepSize::fraction(scale, &spectrum)?;
        let horizons: Vec<u32> = (0..=longest).collect();
        let curves = Evidence::of(&spectrum, residuals, step)?;
        let (evidence, evidence_fixed) = (
            curves.curve(&horizons, Noise::Profiled)?,
            curves.curve(&horizons, Noise::PlugIn)?,
        );
        let coupling = block.query().map(|query| query.coupling.as_slice());
        let mut leave_one_out =
            LeaveOneOut::of(block.kernel(), residuals, step, &horizons, coupling)?;
        if let Some(answers) = geometry.answers() {
            leave_one_out = leave_one_out.with_answers(residuals, answers)?;
        }
        let signal = SignalFit::of(&spectrum, residuals)?;
        Ok(Some(Self {
            block,
            spectrum,
            step,
            horizons,
            evidence,
            evidence_fixed,
            leave_one_out,
            signal,
            geometry,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::super::policies::FurtherOutcome;
    use super::super::super::record::{Further, SeenBlock};
    use super::*;

    /// Three examples with different kernels and a query like the first; real predictions begin
    /// at 0 and change by `slope` per step.
    pub(crate) fn record(target: f64, slope: f64, longest: u32) -> Record {
        let trace = Trace {
            step_scale: 0.1,
            base: 0.0,
            residuals: vec![0.5, 0.25, -0.25],
            predictions: vec![0.5, 0.0, 0.25],
            labels: [0.0, 1.0],
            alike: vec![0, 1, 2],
            blocks: vec![
                SeenBlock {
                    kernel: vec![1.0, 0.5, 1.0, 0.0, 0.0, 1.0],
                    coupling: vec![1.0, 0.5, 0.0],
                    variance: 1.0,
                },
                SeenBlock {
                    kernel: vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.5],
                    coupling: vec![1.0, 0.0, 0.0],
                    variance: 1.0,
                },
            ],
            steps: (0..=longest).map(|step| slope * f64::from(step)).collect(),
            examples: vec![],
            policies: vec![PolicyOutcome {
                policy: "straight".to_owned(),
                prediction: Some(0.25),
                linear: 0.2,
                block: "mlp-up.0".to_owned(),
                horizon: 1,
                seen: SeenBlock {
                    kernel: vec![1.0, 0.5, 1.0, 0.0, 0.0, 1.0],
                    coupling: vec![1.0, 0.5, 0.0],
                    variance: 1.0,
                },
                further: vec![],
            }],
            further: vec![],
        };
        Record {
            task: 0,
            regime: None,
            shift: None,
            target,
            bayes: None,
            path: None,
            heads: vec![],
            trace: Some(trace),
        }
    }

    pub(crate) fn case(target: f64, slope: f64, longest: u32) -> Case {
        case_of("straight", target, slope, longest)
    }

    /// The same with another name for its policy.
    pub(crate) fn case_of(policy: &str, target: f64, slope: f64, longest: u32) -> Case {
        let mut record = record(target, slope, longest);
        policy.clone_into(&mut record.trace.as_mut().unwrap().policies[0].policy);
        Case::all(&record, longest).unwrap().remove(0)
    }

    /// The same with a further query that is like the third example, with another answer and other
    /// steps; its policy led to 0.75, and by the linearised model to 0.5.
    pub(crate) fn two_cases(policy: &str, targets: [f64; 2], slopes: [f64; 2]) -> Vec<Case> {
        let mut record = record(targets[0], slopes[0], 4);
        let trace = record.trace.as_mut().unwrap();
        policy.clone_into(&mut trace.policies[0].policy);
        let coupling = vec![0.0, 0.0, 1.0];
        trace.policies[0].further = vec![FurtherOutcome {
            prediction: Some(0.75),
            linear: 0.5,
            coupling: coupling.clone(),
            variance: 1.0,
        }];
        trace.further = vec![Further {
            target: targets[1],
            base: 0.0,
            couplings: vec![coupling, vec![0.0, 0.0, 0.5]],
            variances: vec![1.0, 0.5],
            steps: (0..=4).map(|step| slopes[1] * f64::from(step)).collect(),
        }];
        Case::all(&record, 4).unwrap()
    }

    impl Case {
        pub(crate) fn forget_steps(&mut self) {
            self.steps.clear();
        }
    }

    #[test]
    fn a_case_is_what_was_stored() {
        let case = case(0.3, 0.1, 2);
        let seen = case.seen.as_ref().unwrap();
        assert_eq!(
            seen.block.kernel().to_rows(),
            [[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.5]]
        );
        assert_eq!(seen.block.query().unwrap().coupling, [2.0, 0.5, 0.0]);
        // One linear step: ρ k_xᵀ r.
        let first = seen.step.get() * (2.0 * 0.5 + 0.5 * 0.25);
        assert!((case.linear[1] - first).abs() < 1e-12 && case.linear[0] == 0.0);
        let (errors, half) =
            (case.errors(Dynamics::Steps), case.error(&[0.5, 0.0, 0.5], Dynamics::Steps));
        assert!((errors[2] - 0.01).abs() < 1e-12 && (half - 0.04).abs() < 1e-12);
    }

    #[test]
    fn where_nothing_changes_there_is_nothing_to_see() {
        let mut record = record(0.3, 0.0, 2);
        record.trace.as_mut().unwrap().residuals = vec![0.0; 3];
        let cases = Case::all(&record, 2).unwrap();
        assert!(cases.len() == 1 && cases[0].seen.is_none());
        assert_eq!(cases[0].errors(Dynamics::Linear), [0.09; 3]);
        record.trace = None;
        assert!(Case::all(&record, 2).unwrap().is_empty());
    }

    /// A further query shares residuals and kernels, and has everything else for itself.
    #[test]
    fn every_query_is_a_case() {
        let cases = two_cases(DEFAULT_POLICY, [0.3, 0.8], [0.1, 0.2]);
        assert_eq!(cases.iter().map(|case| case.further).collect::<Vec<_>>(), [false, true]);
        let [first, second] = [0, 1].map(|index| cases[index].seen.as_ref().unwrap());
        assert_eq!(first.block.kernel(), second.block.kernel());
        assert_eq!(first.leave_one_out.errors(), second.leave_one_out.errors());
        assert_eq!(second.block.query().unwrap().coupling, [0.0, 0.0, 1.5]);
        // One linear step: ρ k_xᵀ r, here with the third residual alone.
        let step = second.step.get() * 1.5 * -0.25;
        assert!((cases[1].linear[1] - step).abs() < 1e-12);
        let errors = cases[1].errors(Dynamics::Steps);
        assert!((errors[0] - 0.64).abs() < 1e-12 && errors[4] < 1e-24);
        let error = |dynamics| cases[1].policy_error(DEFAULT_POLICY, dynamics).unwrap();
        assert!((error(Dynamics::Steps) - 0.0025).abs() < 1e-12);
        assert!((error(Dynamics::Linear) - 0.09).abs() < 1e-12);
        let outlook = cases[1].outlook(Dynamics::Steps, &[0.5]).unwrap().unwrap();
        assert!(outlook.further && (outlook.adapted - 0.75).abs() < 1e-12);
        let alone = case_of(DEFAULT_POLICY, 0.3, 0.1, 4);
        assert_eq!(alone.errors(Dynamics::Linear), cases[0].errors(Dynamics::Linear));
    }

    #[test]
    fn a_query_without_all_couplings_is_refused() {
        let mut record = record(0.3, 0.1, 2);
        let trace = record.trace.as_mut().unwrap();
        let (target, base, steps) = (0.3, 0.0, vec![]);
        let couplings = vec![vec![0.0, 0.0, 1.0]];
        trace.further = vec![Further { target, base, couplings, variances: vec![1.0], steps }];
        assert!(Case::all(&record, 2).is_err());
    }

    /// Labels reach from 0 to 1, and linear predictions are clamped to that, averages after
    /// averaging.
    #[test]
    fn linear_predictions_are_clamped_to_the_labels() {
        let mut case = case(1.0, 0.5, 2);
        case.linear = vec![0.5, 1.5, -0.5];
        case.policies[0].linear = 3.0;
        assert_eq!(case.errors(Dynamics::Linear), [0.25, 0.0, 1.0]);
        // (1.5 + 0.5)/2 is 1; the clamped ones would be 0.75 in the mean.
        assert!(case.error(&[0.5, 0.5, 0.0], Dynamics::Linear) < 1e-24);
        assert!(case.error(&[0.25, 0.75, 0.0], Dynamics::Linear) < 1e-24);
        assert!(case.policy_error("straight", Dynamics::Linear).unwrap() < 1e-24);
        DEFAULT_POLICY.clone_into(&mut case.policies[0].policy);
        let outlook = case.outlook(Dynamics::Linear, &[0.5]).unwrap().unwrap();
        assert!((outlook.adapted - 1.0).abs() < 1e-12);
        // Steps in the model are what they are.
        case.steps = vec![0.5, 1.5, -0.5];
        assert_eq!(case.errors(Dynamics::Steps), [0.25, 0.25, 2.25]);
    }
}

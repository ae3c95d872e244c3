//! A measured task as rules see it, and the predictions that they choose between.
//!
//! In: a [`Record`] with a trace. Out: [`Case`], whose [`Seen`] holds curves over the numbers of
//! steps, computed once and looked at by every rule. Rules never get the answer.

use super::super::methods::Dynamics;
use super::super::record::Record;
use super::super::ways::{Taken, USUAL};
use crate::error::Error;
use crate::way::usual_rules;
use fewstep_core::leave_one_out::LeaveOneOut;
use fewstep_core::signal::SignalFit;
use fewstep_core::{
    Block, Evidence, Geometry, Matrix, Noise, Rules, Selection, Spectrum, StepSize, decide,
};
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
    pub(crate) left_out: LeaveOneOut,
    pub(crate) signal: SignalFit,
}

/// A task, what was seen of it, and where steps lead.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// `None` if there is nothing to correct or nothing moves: all predictions are the model's.
    pub(crate) seen: Option<Seen>,
    target: f64,
    base: f64,
    residuals: Vec<f64>,
    /// The smallest and the largest value of a label.
    labels: [f64; 2],
    steps: Vec<f64>,
    linear: Vec<f64>,
    /// Where whole decisions led.
    ways: Vec<Taken>,
}

/// The usual decision for a task, and how sure it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outlook {
    /// The prediction without adaptation.
    pub(crate) base: f64,
    /// The prediction that the decision led to.
    pub(crate) adapted: f64,
    target: f64,
    /// How much of the weight is on steps.
    pub(crate) moved: f64,
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
    /// A record with a trace of so many steps, if it is one.
    pub(crate) fn new(record: &Record, longest: u32) -> Result<Option<Self>, Error> {
        let Some(trace) = &record.trace else { return Ok(None) };
        let seen = Seen::new(trace.geometry()?, trace.step_scale, longest)?;
        let mut linear = vec![trace.base; longest as usize + 1];
        if let Some(seen) = &seen {
            let steps = Steps::new(seen.step.get(), longest as usize);
            let path = LinearPath::new(&seen.block, &trace.residuals, &steps)?;
            for (prediction, change) in linear.iter_mut().zip(path.query_corrections) {
                *prediction += change;
            }
        }
        Ok(Some(Self {
            seen,
            target: record.target,
            base: trace.base,
            residuals: trace.residuals.clone(),
            labels: trace.labels,
            steps: trace.steps.clone(),
            linear,
            ways: trace.ways.clone(),
        }))
    }

    /// The usual decision, if it was carried out in this way, with intervals meant to hold the
    /// answer so often.
    pub(crate) fn outlook(
        &self,
        dynamics: Dynamics,
        coverages: &[f64],
    ) -> Result<Option<Outlook>, Error> {
        let Some(taken) = self.ways.iter().find(|taken| taken.way == USUAL) else {
            return Ok(None);
        };
        let Some(adapted) = taken.by(dynamics) else { return Ok(None) };
        // The block is chosen already.
        let rules = Rules { select: Selection::All, budget: None, ..usual_rules() };
        let block = taken.seen.block(taken.block.clone())?;
        let geometry = Geometry::new(self.residuals.clone(), vec![block])?;
        let (mut intervals, mut moved, mut deviation) = (vec![], 0.0, 0.0);
        for &coverage in coverages {
            let decision = decide(&geometry, &Rules { coverage, ..rules.clone() })?;
            moved = decision.how_far.posterior.iter().skip(1).sum();
            let Some(query) = decision.query else { continue };
            deviation = query.standard_deviation;
            let [least, most] = self.labels;
            // Without anything to correct there is no interval: the prediction stands alone.
            let ends = query.interval.map_or([0.0, 0.0], |found| [found.lower, found.upper]);
            intervals.push(ends.map(|end| (self.base + end).max(least).min(most)));
        }
        let (base, target) = (self.base, self.target);
        Ok(Some(Outlook { base, adapted, target, moved, deviation, intervals }))
    }

    /// Predictions after 0, 1, … steps.
    fn path(&self, dynamics: Dynamics) -> &[f64] {
        match dynamics {
            Dynamics::Steps => &self.steps,
            Dynamics::Linear => &self.linear,
        }
    }

    /// The names of whole decisions that were carried out.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &str> {
        self.ways.iter().map(|taken| taken.way.as_str())
    }

    /// The squared error of one of them, if it was carried out in this way.
    pub(crate) fn way_error(&self, way: &str, dynamics: Dynamics) -> Option<f64> {
        let taken = self.ways.iter().find(|taken| taken.way == way)?;
        Some((taken.by(dynamics)? - self.target).powi(2))
    }

    /// Squared errors after 0, 1, … steps.
    pub(crate) fn errors(&self, dynamics: Dynamics) -> Vec<f64> {
        self.path(dynamics).iter().map(|found| (found - self.target).powi(2)).collect()
    }

    /// The squared error of an average over the numbers of steps.
    pub(crate) fn error(&self, weights: &[f64], dynamics: Dynamics) -> f64 {
        let found: f64 = weights.iter().zip(self.path(dynamics)).map(|(w, s)| w * s).sum();
        (found - self.target).powi(2)
    }
}

impl Taken {
    /// The prediction, if it was made in this way.
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
        let left_out = LeaveOneOut::of(block.kernel(), residuals, step, &horizons, coupling)?;
        let signal = SignalFit::of(&spectrum, residuals)?;
        Ok(Some(Self {
            block,
            spectrum,
            step,
            horizons,
            evidence,
            evidence_fixed,
            left_out,
            signal,
            geometry,
        }))
    }

    /// How many examples there are.
    pub(crate) fn examples(&self) -> usize {
        self.geometry.residuals().len()
    }

    /// Squared errors at each example, left out, of an average over the numbers of steps.
    pub(crate) fn left_out_errors(&self, weights: &[f64]) -> Vec<f64> {
        let errors: &Matrix = self.left_out.errors();
        let mut found = vec![0.0; self.examples()];
        for (horizon, weight) in
            weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0)
        {
            for (found, error) in found.iter_mut().zip(errors.row(horizon)) {
                *found += weight * error;
            }
        }
        found.into_iter().map(|error| error * error).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::super::record::{SeenBlock, Trace};
    use super::*;

    /// Three examples with different kernels and a query like the first; real predictions begin
    /// at 0 and move by `slope` per step.
    pub(crate) fn record(target: f64, slope: f64, longest: u32) -> Record {
        let trace = Trace {
            step_scale: 0.1,
            base: 0.0,
            residuals: vec![0.5, 0.25, -0.25],
            predictions: vec![0.5, 0.0, 0.25],
            labels: [0.0, 1.0],
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
            ways: vec![Taken {
                way: "straight".to_owned(),
                prediction: Some(0.25),
                linear: 0.2,
                block: "mlp-up.0".to_owned(),
                horizon: 1,
                seen: SeenBlock {
                    kernel: vec![1.0, 0.5, 1.0, 0.0, 0.0, 1.0],
                    coupling: vec![1.0, 0.5, 0.0],
                    variance: 1.0,
                },
            }],
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

    /// The same with another name for its decision.
    pub(crate) fn case_of(way: &str, target: f64, slope: f64, longest: u32) -> Case {
        let mut record = record(target, slope, longest);
        way.clone_into(&mut record.trace.as_mut().unwrap().ways[0].way);
        Case::new(&record, longest).unwrap().unwrap()
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
        // Of an average, left-out errors are averaged before they are squared.
        let (none, two) =
            (seen.left_out.errors().row(0).to_vec(), seen.left_out.errors().row(2).to_vec());
        for (found, (a, b)) in
            seen.left_out_errors(&[0.5, 0.0, 0.5]).iter().zip(none.iter().zip(two))
        {
            assert!((found - ((a + b) / 2.0).powi(2)).abs() < 1e-12);
        }
    }

    #[test]
    fn where_nothing_moves_there_is_nothing_to_see() {
        let mut record = record(0.3, 0.0, 2);
        record.trace.as_mut().unwrap().residuals = vec![0.0; 3];
        let case = Case::new(&record, 2).unwrap().unwrap();
        assert!(case.seen.is_none());
        assert_eq!(case.errors(Dynamics::Linear), [0.09; 3]);
        record.trace = None;
        assert!(Case::new(&record, 2).unwrap().is_none());
    }
}

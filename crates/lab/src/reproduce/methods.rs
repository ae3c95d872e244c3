//! Methods to answer a task, compared on the same records.
//!
//! In: [`Record`]s with paths. Out: for every method its error and its number of steps on every
//! task. What looks at the answers says so in its name.

use super::record::{Both, Record, TaskPath};
use super::settings::FIXED_HORIZON;
use fewstep::Dynamics;

impl Both {
    /// The prediction by some dynamics, if it was made.
    pub(crate) fn by(self, dynamics: Dynamics) -> Option<f64> {
        match dynamics {
            Dynamics::Steps => self.steps,
            Dynamics::Linear => Some(self.linear),
        }
    }
}

impl TaskPath {
    fn by(&self, dynamics: Dynamics) -> &[f64] {
        match dynamics {
            Dynamics::Steps => &self.steps,
            Dynamics::Linear => &self.linear,
        }
    }
}

/// A method to answer a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HorizonMethod {
    /// No update.
    Icl,
    /// Eight steps.
    Eight,
    /// Evidence, noise variance `‖r‖²/n`.
    EvidenceFixed,
    /// Evidence, noise variance profiled.
    Evidence,
    /// The average over horizons.
    Gibbs,
    /// The plug-in Bayes gap at the query.
    BayesGap,
    /// The leave-one-out risk.
    LeaveOneOut,
    /// The posterior mean under fitted signal and noise.
    BayesFilter,
    /// The one number of steps that is best on all these tasks.
    Hindsight,
    /// The number of steps that is best on the task.
    Oracle,
    /// The exact Bayes prediction.
    Bayes,
}

impl HorizonMethod {
    /// All of them, as they stand in tables.
    pub(crate) const ALL: [Self; 11] = [
        Self::Icl,
        Self::Eight,
        Self::EvidenceFixed,
        Self::Evidence,
        Self::Gibbs,
        Self::BayesGap,
        Self::LeaveOneOut,
        Self::BayesFilter,
        Self::Hindsight,
        Self::Oracle,
        Self::Bayes,
    ];

    /// As it is called in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Icl => "ICL (T = 0)",
            Self::Eight => "fixed T = 8",
            Self::EvidenceFixed => "evidence, fixed σ",
            Self::Evidence => "evidence, MLE σ",
            Self::Gibbs => "Gibbs average over T",
            Self::BayesGap => "query Bayes gap",
            Self::LeaveOneOut => "leave-one-out",
            Self::BayesFilter => "two-parameter Bayes filter",
            Self::Hindsight => "best fixed T in hindsight",
            Self::Oracle => "oracle T of each task",
            Self::Bayes => "exact Bayes predictor",
        }
    }
}

/// Tasks of one family, all with a path.
#[derive(Clone, Debug)]
pub(crate) struct Sample<'a> {
    records: Vec<(&'a Record, &'a TaskPath)>,
    dynamics: Dynamics,
}

impl<'a> Sample<'a> {
    /// The records that hold a path by these dynamics.
    pub(crate) fn new(
        records: impl IntoIterator<Item = &'a Record>,
        dynamics: Dynamics,
    ) -> Self {
        let with_path = |record: &'a Record| {
            let path = record.path.as_ref()?;
            (!path.by(dynamics).is_empty()).then_some((record, path))
        };
        Self { records: records.into_iter().filter_map(with_path).collect(), dynamics }
    }

    /// Steps in the model where some record holds them, and the linearised model otherwise.
    pub(crate) fn preferred(records: &'a [Record]) -> Self {
        let steps = Self::new(records, Dynamics::Steps);
        if steps.is_empty() { Self::new(records, Dynamics::Linear) } else { steps }
    }

    /// The same sample without the records for which this is false.
    pub(crate) fn only(&self, wanted: impl Fn(&Record) -> bool) -> Self {
        let records = self.records.iter().copied().filter(|(record, _)| wanted(record));
        Self { records: records.collect(), dynamics: self.dynamics }
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The largest number of steps that every task has a prediction for.
    pub(crate) fn longest(&self) -> usize {
        let lengths = self.records.iter().map(|(_, path)| path.by(self.dynamics).len() - 1);
        lengths.min().unwrap_or(0)
    }

    /// Squared errors after a number of steps, task by task.
    pub(crate) fn errors_at(&self, horizon: usize) -> Vec<f64> {
        self.records.iter().map(|(record, path)| self.error_at(record, path, horizon)).collect()
    }

    fn error_at(&self, record: &Record, path: &TaskPath, horizon: usize) -> f64 {
        let path = path.by(self.dynamics);
        let prediction = path[horizon.min(path.len() - 1)];
        (prediction - record.target).powi(2)
    }

    /// The one number of steps with the smallest mean error; of equal ones the smallest.
    pub(crate) fn hindsight(&self) -> usize {
        let mean = |horizon| self.errors_at(horizon).iter().sum::<f64>();
        let totals: Vec<f64> = (0..=self.longest()).map(mean).collect();
        (0..totals.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b])).unwrap_or(0)
    }

    /// The smallest error over all numbers of steps, and the number, task by task.
    fn oracle(&self) -> Vec<(usize, f64)> {
        let best = |(record, path): &(&Record, &TaskPath)| {
            let errors = (0..=self.longest())
                .map(|horizon| (horizon, self.error_at(record, path, horizon)));
            errors.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is the horizon 0")
        };
        self.records.iter().map(best).collect()
    }

    /// Squared errors of a method, task by task; `None` if it is not known for them.
    pub(crate) fn errors(&self, method: HorizonMethod) -> Option<Vec<f64>> {
        if method == HorizonMethod::Oracle {
            return Some(self.oracle().into_iter().map(|(_, error)| error).collect());
        }
        let predictions = self.predictions(method)?;
        let pairs = predictions.iter().zip(&self.records);
        Some(pairs.map(|(found, (record, _))| (found - record.target).powi(2)).collect())
    }

    /// Predictions of a method, task by task; `None` if it is not known for them.
    pub(crate) fn predictions(&self, method: HorizonMethod) -> Option<Vec<f64>> {
        let steps = self.steps(method);
        let predict = |(index, (record, path)): (usize, &(&Record, &TaskPath))| {
            let at = |horizon: usize| {
                let path = path.by(self.dynamics);
                path[horizon.min(path.len() - 1)]
            };
            match method {
                HorizonMethod::Gibbs => path.gibbs.by(self.dynamics),
                HorizonMethod::BayesFilter => path.bayes_filter.by(self.dynamics),
                HorizonMethod::Bayes => record.bayes.map(|bayes| bayes.mean),
                _ => steps.as_ref().map(|steps| at(steps[index])),
            }
        };
        self.records.iter().enumerate().map(predict).collect()
    }

    /// Numbers of steps, task by task; `None` for methods that take none or an average.
    fn steps(&self, method: HorizonMethod) -> Option<Vec<usize>> {
        let all = |number: usize| Some(vec![number; self.len()]);
        let of = |number: &dyn Fn(&TaskPath) -> u32| {
            Some(self.records.iter().map(|(_, path)| number(path) as usize).collect())
        };
        match method {
            HorizonMethod::Icl => all(0),
            HorizonMethod::Eight => all(FIXED_HORIZON as usize),
            HorizonMethod::Hindsight => all(self.hindsight()),
            HorizonMethod::EvidenceFixed => of(&|path| path.horizons.evidence_fixed),
            HorizonMethod::Evidence => of(&|path| path.horizons.evidence),
            HorizonMethod::BayesGap => of(&|path| path.horizons.bayes_gap),
            HorizonMethod::LeaveOneOut => of(&|path| path.horizons.leave_one_out),
            HorizonMethod::Oracle => {
                Some(self.oracle().into_iter().map(|(steps, _)| steps).collect())
            }
            HorizonMethod::Gibbs | HorizonMethod::BayesFilter | HorizonMethod::Bayes => None,
        }
    }

    /// Numbers of steps, task by task; means for the average over horizons, `None` for methods that
    /// take no steps.
    pub(crate) fn horizons(&self, method: HorizonMethod) -> Option<Vec<f64>> {
        if method == HorizonMethod::Gibbs {
            let mean = |(_, path): &(&Record, &TaskPath)| path.horizons.gibbs_mean;
            return Some(self.records.iter().map(mean).collect());
        }
        let steps = self.steps(method)?;
        Some(steps.into_iter().map(|steps| steps as f64).collect())
    }

    /// Squared errors after as many steps as evidence with the fitted noise asks for.
    pub(crate) fn fitted_evidence_errors(&self) -> Vec<f64> {
        let error = |(record, path): &(&Record, &TaskPath)| {
            self.error_at(record, path, path.horizons.evidence_fitted as usize)
        };
        self.records.iter().map(error).collect()
    }

    /// Values of the labels, task by task.
    pub(crate) fn targets(&self) -> Vec<f64> {
        self.records.iter().map(|(record, _)| record.target).collect()
    }

    /// The variances that the exact predictor leaves, where it is known.
    pub(crate) fn posterior_variances(&self) -> Vec<f64> {
        let variance = |(record, _): &(&Record, &TaskPath)| Some(record.bayes?.variance);
        self.records.iter().filter_map(variance).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::digit_shift::{Bayes, Regime};
    use super::super::record::Horizons;
    use super::*;

    /// A task whose prediction after `T` steps is `first + T·slope`, with the target 0.
    pub(crate) fn record(task: usize, first: f64, slope: f64, chosen: u32) -> Record {
        let line = |slope: f64| (0..=30).map(|step| first + slope * f64::from(step)).collect();
        let both = Both { steps: Some(first / 2.0), linear: first / 4.0 };
        let horizons = Horizons {
            evidence: chosen,
            evidence_fixed: chosen / 2,
            evidence_fitted: chosen,
            bayes_gap: 1,
            leave_one_out: 2,
            gibbs_mean: 4.5,
        };
        Record {
            task,
            regime: Some(if task.is_multiple_of(2) { Regime::Clean } else { Regime::Noisy }),
            shift: Some(task % 10),
            target: 0.0,
            bayes: Some(Bayes { mean: 0.1, variance: 0.01 }),
            path: Some(TaskPath {
                steps: line(slope),
                linear: line(2.0 * slope),
                fit: line(0.0),
                horizons,
                gibbs: both,
                bayes_filter: both,
            }),
            heads: vec![],
            trace: None,
        }
    }

    fn close(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn every_method_reads_its_own_number() {
        let records = [record(0, 1.0, -0.1, 10), record(1, 1.0, 0.1, 4)];
        let steps = Sample::new(&records, Dynamics::Steps);
        let errors = |method| steps.errors(method).unwrap();
        assert!(close(&errors(HorizonMethod::Icl), &[1.0, 1.0]));
        assert!(close(&errors(HorizonMethod::Eight), &[0.04, 1.8_f64.powi(2)]));
        assert!(close(&errors(HorizonMethod::Evidence), &[0.0, 1.96]));
        assert!(close(&errors(HorizonMethod::EvidenceFixed), &[0.25, 1.44]));
        assert!(close(&errors(HorizonMethod::BayesGap), &[0.81, 1.21]));
        assert!(close(&errors(HorizonMethod::LeaveOneOut), &[0.64, 1.44]));
        assert!(close(&errors(HorizonMethod::Gibbs), &[0.25, 0.25]));
        assert!(close(&errors(HorizonMethod::Oracle), &[0.0, 1.0]));
        assert!(close(&errors(HorizonMethod::Bayes), &[0.01, 0.01]));
        assert_eq!(steps.horizons(HorizonMethod::Oracle), Some(vec![10.0, 0.0]));
        assert_eq!(steps.horizons(HorizonMethod::Gibbs), Some(vec![4.5, 4.5]));
        assert_eq!(steps.horizons(HorizonMethod::Bayes), None);
        // (1 − T/10)² + (1 + T/10)² is smallest at 0.
        assert_eq!(steps.hindsight(), 0);
        assert_eq!(steps.only(|record| record.task == 0).hindsight(), 10);
        let linear = Sample::new(&records, Dynamics::Linear);
        assert!(close(&linear.errors(HorizonMethod::Eight).unwrap(), &[0.36, 2.6_f64.powi(2)]));
        assert!(close(&linear.errors(HorizonMethod::Gibbs).unwrap(), &[0.0625, 0.0625]));
    }

    #[test]
    fn what_was_not_measured_is_not_made_up() {
        let mut records = [record(0, 1.0, 0.0, 1)];
        let path = records[0].path.as_mut().unwrap();
        path.steps.clear();
        path.gibbs.steps = None;
        records[0].bayes = None;
        assert!(Sample::new(&records, Dynamics::Steps).is_empty());
        let linear = Sample::new(&records, Dynamics::Linear);
        assert_eq!((linear.len(), linear.errors(HorizonMethod::Bayes)), (1, None));
    }
}

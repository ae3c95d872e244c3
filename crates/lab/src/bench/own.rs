//! The work as the engine does it, on one task or on several at the same time.

use super::cases::Case;
use super::works::Action;
use crate::error::Error;
use fewstep_core::{Decision, Policy, decide};
use fewstep_engine::{
    BlockId, LinearPath, Network, Observation, Prepared, TokenTask, Update, descend,
    predict_updated,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A task that is ready to be worked on any number of times.
#[derive(Debug)]
pub(super) struct Job<'a> {
    network: &'a Network,
    case: &'a Case,
    task: TokenTask,
    blocks: Vec<BlockId>,
    action: Action,
    /// Further queries and the update under which they are predicted.
    further: Option<(TokenTask, Update)>,
}

/// What came of a task.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) observation: Option<Observation>,
    pub(super) decision: Option<Decision>,
    /// The query's prediction after the steps.
    pub(super) adapted: Option<f64>,
    /// Predictions of the further queries.
    pub(super) further: Vec<f64>,
    /// How long the steps took by themselves.
    pub(super) steps: Duration,
}

/// How long a task took, in seconds, and its steps by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timing {
    pub(crate) task: f64,
    pub(crate) steps: f64,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        network: &'a Network,
        case: &'a Case,
        action: Action,
    ) -> Result<Self, Error> {
        let (task, blocks) = (case.task()?, case.blocks(network.config())?);
        let further = match (action, case.further_task()?) {
            (Action::Further, Some(further)) => {
                let update = descend(network, &task, &blocks, &case.settings())?.update;
                Some((further, update))
            }
            _ => None,
        };
        Ok(Self { network, case, task, blocks, action, further })
    }

    /// Does the work once.
    pub(super) fn run(&self) -> Result<Found, Error> {
        let mut found = Found {
            observation: None,
            decision: None,
            adapted: None,
            further: Vec::new(),
            steps: Duration::ZERO,
        };
        if let Some((further, update)) = &self.further {
            found.further = predict_updated(self.network, further, update)?;
            return Ok(found);
        }
        let prepared = Prepared::new(self.network, &self.task, &self.blocks)?;
        let seen = prepared.observation().clone();
        let decision = decide(&seen.geometry, &Policy::paper())?;
        let (settings, started) = (self.case.settings(), now());
        if self.action == Action::Steps {
            let descent = prepared.descend(&self.blocks, &settings)?;
            found.adapted = descent.query_predictions.last().copied();
            found.steps = started.elapsed();
        } else if self.action == Action::Linear {
            let path = LinearPath::new(&decision.block, seen.geometry.residuals(), &settings)?;
            let correction = path.query_corrections.last();
            found.adapted = correction.map(|correction| seen.query_prediction + correction);
        }
        found.decision = Some(decision);
        found.observation = Some(seen);
        Ok(found)
    }

    /// Does the work `repeats` times on each of `threads` threads; the time per task is that of
    /// all divided by their number.
    pub(super) fn time(&self, threads: usize, repeats: usize) -> Result<Timing, Error> {
        let all = || -> Result<Duration, Error> {
            (0..repeats).map(|_| self.run().map(|found| found.steps)).sum()
        };
        let started = now();
        let steps: Vec<Result<Duration, Error>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(all)).collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("the engine does not panic"))
                .collect()
        });
        let (wall, count) = (started.elapsed().as_secs_f64(), (threads * repeats) as f64);
        let steps: Duration = steps.into_iter().sum::<Result<_, Error>>()?;
        // Steps of different threads overlap.
        let steps = steps.as_secs_f64() / count / threads as f64;
        Ok(Timing { task: wall / count, steps })
    }

    /// How many results one run of the work gives: further queries, or one task.
    pub(super) fn units(&self) -> usize {
        if self.further.is_some() { self.case.further.len() } else { 1 }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is about time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

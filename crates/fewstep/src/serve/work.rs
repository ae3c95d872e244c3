//! The workers: one job at a time each, from a task to the JSON of its answer.

use super::Shared;
use super::adapters::{Known, Made, UpdateKey};
use super::queue::Turn;
use super::requests::Question;
use crate::error::Error;
use crate::predictor::{Predicted, Predictor};
use crate::report::AnyReport;
use crate::stream::guarded;
use fewstep_core::{Adjoint, Dynamics};
use fewstep_engine::{Task, TaskKind};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;

/// What jobs of one request have in common.
pub(super) struct Common {
    pub(super) predictor: Predictor,
    pub(super) full: bool,
}

/// A task to answer.
pub(super) struct Job {
    pub(super) common: Arc<Common>,
    pub(super) question: Question,
    /// Its place in the request.
    pub(super) place: usize,
    pub(super) reply: UnboundedSender<Reply>,
}

/// What came of a job.
pub(super) struct Reply {
    pub(super) place: usize,
    /// The answer as JSON.
    pub(super) answer: Result<String, Unanswered>,
}

/// A task that could not be answered, and why.
pub(super) struct Unanswered {
    pub(super) error: Error,
    pub(super) task: Task,
    pub(super) query: Option<usize>,
}

/// Starts one worker per thread; they end when the queue is closed.
pub(super) fn start(shared: &Arc<Shared>) -> Result<(), Error> {
    let threads = shared.threads;
    let failed = |reason: String| Error::Threads { threads, reason };
    // Workers share one pool, as tasks of the command line do: where fewer of them are busy than
    // there are threads, large products are divided, and no number changes by it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(pool.map_err(|error| failed(error.to_string()))?);
    for number in 0..threads {
        let (shared, pool) = (Arc::clone(shared), Arc::clone(&pool));
        let named = std::thread::Builder::new().name(format!("worker {number}"));
        let started = named.spawn(move || {
            while let Some(turn) = shared.queue.next(|name| shared.adapters.holds(name)) {
                pool.install(|| answer(&shared, &turn));
                shared.queue.finish(turn);
            }
        });
        started.map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

/// Answers a job, unless nobody waits for it.
fn answer(shared: &Shared, turn: &Turn<Job>) {
    let Job { common, question, place, reply } = &turn.job;
    if reply.is_closed() {
        shared.metrics.dropped(1);
        return;
    }
    #[allow(clippy::disallowed_methods, reason = "the service tells how long things took")]
    let started = Instant::now();
    let answer = guarded(|| report(shared, common, question));
    shared.metrics.task(answer.is_ok(), started.elapsed());
    let answer = answer.map_err(|error| {
        let (task, query) = (question.task.clone(), question.query);
        Unanswered { error, task, query }
    });
    // A client that has gone away wants no answer.
    let _ = reply.send(Reply { place: *place, answer });
}

/// The JSON of an answer.
fn report(shared: &Shared, common: &Common, question: &Question) -> Result<String, Error> {
    let Common { predictor, full } = common;
    let Question { task, query, key } = question;
    let Some(key) = key else {
        let answer = predictor.answers(task)?.swap_remove(0)?;
        let report = answer.report.asked(*query).to_json(*full);
        return Ok(format!("{{\"report\":{report}}}"));
    };
    // What is kept was made for other words that are no part of its key.
    task.check()?;
    let queries = std::slice::from_ref(&task.query);
    let (report, hit): (AnyReport, bool) = match shared.adapters.find(key, &task.query.x) {
        Some(Known::Report(report)) => (report.renamed(task), true),
        Some(Known::Classes(decided)) => {
            (decided.ask(predictor, task, queries)?.swap_remove(0)?.into(), true)
        }
        Some(Known::Observed(observed)) => {
            (observed.ask(predictor, task, queries)?.swap_remove(0)?.report.into(), true)
        }
        Some(Known::Update(update)) if predictor.policy().dynamics == Dynamics::Linear => {
            (predictor.apply_linear(task, &update)?.into(), true)
        }
        // To say what the model says without the update, too, would take another pass.
        Some(Known::Update(update)) if *full => (predictor.apply(task, &update)?.into(), true),
        Some(Known::Update(update)) => (predictor.apply_alone(task, &update)?.into(), true),
        None => (made(shared, predictor, task, key)?, false),
    };
    let (report, name) = (report.asked(*query).to_json(*full), key.name());
    Ok(format!("{{\"report\":{report},\"adapter\":{{\"id\":\"{name}\",\"hit\":{hit}}}}}"))
}

/// Makes an update and keeps it.
fn made(
    shared: &Shared,
    predictor: &Predictor,
    task: &Task,
    key: &UpdateKey,
) -> Result<AnyReport, Error> {
    let policy = predictor.policy();
    let (report, made): (AnyReport, _) = if task.kind() == TaskKind::Classification {
        let (report, decided) = predictor.observe_classes(task)?;
        (report.into(), Some(Made::Classes(Box::new(decided))))
    } else if (policy.dynamics, policy.adjoint) == (Dynamics::Linear, Adjoint::Local) {
        // Smaller than the update, and all that is said about another query follows from it.
        let (Predicted { report, .. }, observed) = predictor.observe(task)?;
        (report.into(), Some(Made::Observed(Box::new(observed))))
    } else {
        let Predicted { report, update } = predictor.clone().with_updates(true).answer(task)?;
        (report.into(), update.map(Made::Update))
    };
    if let Some(made) = made {
        shared.adapters.keep(key.clone(), &task.query.x, report.clone(), made);
    }
    Ok(report)
}

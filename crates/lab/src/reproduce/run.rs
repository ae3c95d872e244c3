//! A run: every task of every part, in parallel, each written down as soon as it is done.

use super::digit_shift::{self, Drawn};
use super::families::Family;
use super::measure::Bench;
use super::pilot::{DEFAULT_SCALE, Pilot};
use super::record::{Failure, Line, Record};
use super::settings::{Experiment, Part, Role, Shard, Stream, TaskKey, rng};
use super::sst2::Sentences;
use super::store::Store;
use crate::error::Error;
use fewstep::stream::in_order;
use fewstep_engine::Model;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What tasks are measured with.
///
/// # Examples
///
/// See [`measure`].
#[derive(Clone, Debug)]
pub struct Means {
    /// The model.
    pub model: Model,
    /// The labelled sentences, if an experiment needs them.
    pub sentences: Option<Arc<Sentences>>,
    /// How many tasks at the same time.
    pub threads: usize,
    /// Which tasks.
    pub shard: Shard,
    /// Raised to stop: tasks under way are finished.
    pub stop: Arc<AtomicBool>,
}

/// What a run has to say while it goes on.
///
/// # Examples
///
/// See [`measure`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// So many tasks are done, of so many.
    Tasks {
        /// The part that is under way.
        part: &'a str,
        /// How many are done, all parts together.
        done: usize,
        /// How many there are.
        total: usize,
    },
    /// Something else.
    Note(String),
}

/// Measures what is not yet measured; returns whether everything is.
///
/// # Errors
///
/// Those of [`Pilot::run`], and of [`Store`] if results cannot be written. What is wrong with
/// single tasks is written down in their place.
///
/// # Examples
///
/// ```no_run
/// use fewstep_lab::reproduce::run::{Means, measure};
/// use fewstep_lab::reproduce::{Choices, Experiment, Findings, Request, Shard, Store};
///
/// let request = Request {
///     experiments: vec![Experiment::DigitShift],
///     tasks: Some(200),
///     tour: false,
///     seed: 0,
///     seeds: 1,
///     sweep: None,
///     choices: Choices::default(),
/// };
/// let model = fewstep::builtin()?;
/// let settings = request.settings("builtin", &model, None)?;
/// let store = Store::open("reproduced".as_ref(), &settings, false)?;
/// let (threads, shard, stop) = (2, Shard::WHOLE, Default::default());
/// let means = Means { model, sentences: None, threads, shard, stop };
/// assert!(measure(&store, &means, |_| {})?);
/// let findings = Findings::read(&["reproduced".into()])?;
/// findings.document("my program", "1.0", vec![])?.write("reproduced".as_ref())?;
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
pub fn measure(
    store: &Store,
    means: &Means,
    mut tell: impl FnMut(Event<'_>) + Send,
) -> Result<bool, Error> {
    let parts = &store.settings().parts;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(means.threads).build();
    let pool = pool.map_err(|error| fewstep::Error::Threads {
        threads: means.threads,
        reason: error.to_string(),
    })?;
    let pool = Arc::new(pool);
    let pilot = pool.install(|| pilot(store, means, &mut tell))?;
    let share = |part: &Part| (0..part.tasks).filter(|&task| means.shard.holds(task)).count();
    let total = parts.iter().map(share).sum();
    let mut done = 0;
    for part in parts {
        let (mut writer, known, dropped) = store.lines(part)?;
        if dropped > 0 {
            let name = &part.name;
            tell(Event::Note(format!(
                "the last line of {name} was cut off; its task is measured again"
            )));
        }
        let open: Vec<usize> = (0..part.tasks)
            .filter(|task| means.shard.holds(*task) && !known.contains_key(task))
            .collect();
        done += share(part) - open.len();
        tell(Event::Tasks { part: &part.name, done, total });
        if open.is_empty() {
            continue;
        }
        let worker = Worker::new(part, means, scale(part, pilot.as_ref()))?;
        let pool = Arc::clone(&pool);
        let work = move |task| pool.install(|| worker.measure(task));
        let mut refused = None;
        let stop = Arc::clone(&means.stop);
        in_order(open.into_iter(), work, means.threads, stop, |line: Line| {
            if let Err(error) = writer.write(&line) {
                refused = Some(error);
                return ControlFlow::Break(());
            }
            done += 1;
            tell(Event::Tasks { part: &part.name, done, total });
            ControlFlow::Continue(())
        });
        if let Some(error) = refused {
            return Err(error);
        }
        if means.stop.load(Ordering::SeqCst) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The step size: as before, or by a pilot now, or by no pilot at all.
fn pilot(
    store: &Store,
    means: &Means,
    tell: &mut (impl FnMut(Event<'_>) + Send),
) -> Result<Option<Pilot>, Error> {
    let settings = store.settings();
    let Some(part) = settings.parts.iter().find(|part| by_pilot(part)) else { return Ok(None) };
    if let Some(known) = store.pilot()? {
        return Ok(Some(known));
    }
    tell(Event::Note("pilot: how large a step is, on 20 separate tasks".to_owned()));
    let found = Pilot::run(&means.model, &part.choices, settings.pilot_seed)?;
    store.keep_pilot(&found)?;
    Ok(Some(found))
}

/// Whether a part takes its step size from the pilot; App. J fixes it for sentences, and rules
/// are to work without one.
pub(crate) fn by_pilot(part: &Part) -> bool {
    let fixed = matches!(part.experiment, Experiment::Sst2 | Experiment::Rules);
    part.choices.step_scale.is_none() && !fixed
}

/// `c` of a part.
pub(crate) fn scale(part: &Part, pilot: Option<&Pilot>) -> f64 {
    let found = pilot.filter(|_| by_pilot(part)).map(|pilot| pilot.step_scale);
    part.choices.step_scale.or(found).unwrap_or(DEFAULT_SCALE)
}

/// What measures the tasks of one part.
struct Worker {
    bench: Bench,
    part: Part,
    sentences: Option<Arc<Sentences>>,
}

impl Worker {
    fn new(part: &Part, means: &Means, scale: f64) -> Result<Self, Error> {
        let bench = Bench::new(&means.model, &part.choices, scale)?;
        Ok(Self { bench, part: part.clone(), sentences: means.sentences.clone() })
    }

    /// What came of a task, whatever that is.
    fn measure(&self, task: usize) -> Line {
        let found = catch_unwind(AssertUnwindSafe(|| self.record(task)));
        let error = match found {
            Ok(Ok(record)) => return Line::Measured(Box::new(record)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "internal error on this task".to_owned(),
        };
        Line::Failed(Failure { task, error })
    }

    fn record(&self, task: usize) -> Result<Record, Error> {
        let (seed, separator) = (self.part.seed, &self.part.choices.separator);
        if let Some(family) = self.part.family {
            return self.traced(family, task);
        }
        let drawn = match (self.part.experiment, &self.sentences) {
            (Experiment::Sst2, Some(sentences)) => sentences.draw(seed, task, separator),
            (Experiment::Sst2, None) => return Err(Error::NoData),
            _ => digit_shift::draw(seed, task, separator),
        };
        let (mut path, mut heads) = (None, vec![]);
        if self.part.experiment != Experiment::Heads {
            path = Some(self.bench.path(&drawn.task)?);
        }
        if self.part.experiment != Experiment::DigitShift {
            let mut rng = rng(seed, Stream::Selection, task);
            heads = self.bench.choices(&drawn.task, &mut rng)?;
        }
        let Drawn { target, regime, shift, bayes, .. } = drawn;
        Ok(Record { task, regime, shift, target, bayes, path, heads, trace: None })
    }

    /// All that rules may look at.
    fn traced(&self, family: Family, task: usize) -> Result<Record, Error> {
        let stream = match self.part.role {
            Role::Test => Stream::Trial,
            _ => Stream::Development,
        };
        let key = TaskKey { seed: self.part.seed, stream, number: task };
        let separator = &self.part.choices.separator;
        let queries = self.part.choices.queries;
        let drawn = family.draw(key, queries, separator, self.sentences.as_deref())?;
        let trace = Some(self.bench.trace(&drawn.task, &drawn.further)?);
        let Drawn { target, regime, shift, bayes, .. } = drawn;
        Ok(Record { task, regime, shift, target, bayes, path: None, heads: vec![], trace })
    }
}

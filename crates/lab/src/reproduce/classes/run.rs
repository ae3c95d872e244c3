//! A run: every prompt that is not yet measured, each written down as soon as it is done.

use super::super::run::Event;
use super::super::settings::Shard;
use super::draw::PromptKey;
use super::observed::Observer;
use super::record::{PromptLine, PromptRecord};
use super::rows::LabelledRows;
use super::settings::ClassSettings;
use super::store::ClassStore;
use crate::error::{Error, refused};
use fewstep::stream::{guarded, in_order};
use fewstep_engine::Model;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What prompts are measured with.
///
/// # Examples
///
/// See [`measure`].
#[derive(Clone, Debug)]
pub struct ClassMeans {
    /// The model.
    pub model: Model,
    /// The rows of every set.
    pub rows: Arc<Vec<LabelledRows>>,
    /// How many prompts at the same time, each on one thread.
    pub threads: usize,
    /// Which prompts.
    pub shard: Shard,
    /// Raised to stop: prompts under way are finished.
    pub stop: Arc<AtomicBool>,
}

/// Measures what is not yet measured; returns whether everything is.
///
/// # Errors
///
/// [`Error::Fewstep`] if results cannot be written or threads not started. What is wrong with single
/// prompts is written down in their place.
///
/// # Examples
///
/// ```no_run
/// use fewstep_lab::reproduce::Shard;
/// use fewstep_lab::reproduce::classes::{
///     ClassFindings, ClassMeans, ClassSettings, ClassStore, DataSet, Half, LabelledRows, Size, measure,
///     variants,
/// };
///
/// let rows = LabelledRows::read("../shared/data".as_ref(), DataSet::Trec, Half::Development)?;
/// let model = fewstep::builtin()?;
/// let settings = ClassSettings {
///     program: "fewstep".to_owned(),
///     model: "builtin".to_owned(),
///     shape: String::new(),
///     half: Half::Development,
///     queries: 6,
///     labels: None,
///     tree_order: false,
///     policies: variants(),
///     data: rows.sources().to_vec(),
///     sets: vec![DataSet::Trec],
///     sizes: vec![Size::Examples(16)],
///     prompts: 24,
///     seeds: vec![1],
/// };
/// let store = ClassStore::open("classes".as_ref(), &settings, false)?;
/// let (rows, shard, stop) = (vec![rows].into(), Shard::WHOLE, Default::default());
/// let means = ClassMeans { model, rows, threads: 2, shard, stop };
/// assert!(measure(&store, &means, |_| {})?);
/// let findings = ClassFindings::read(&["classes".into()], &[])?;
/// findings.document("my program", "1.0")?.write("classes".as_ref())?;
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
pub fn measure(
    store: &ClassStore,
    means: &ClassMeans,
    mut tell: impl FnMut(Event<'_>) + Send,
) -> Result<bool, Error> {
    let settings = store.settings();
    let (mut lines, known, dropped) = store.lines()?;
    if dropped > 0 {
        let text = "the last line of the results was cut off; its prompt is measured again";
        tell(Event::Note(text.to_owned()));
    }
    let known: BTreeSet<PromptKey> = known.into_iter().collect();
    let share = settings.share(means.shard);
    let total = share.len();
    let open: Vec<PromptKey> = share.into_iter().filter(|key| !known.contains(key)).collect();
    let mut done = total - open.len();
    tell(Event::Tasks { part: "classes", done, total });
    let pools = Pools::new(means.threads)?;
    let worker = Worker {
        observer: Observer::new(&means.model, settings),
        rows: Arc::clone(&means.rows),
        settings: settings.clone(),
    };
    let work = move |key| pools.run(|| worker.line(key));
    let mut failed = None;
    let stop = Arc::clone(&means.stop);
    in_order(open.into_iter(), work, means.threads, stop, |line: PromptLine| {
        let text = serde_json::to_string(&line).expect("results become JSON");
        if let Err(error) = lines.write(&text) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        done += 1;
        let part = line.key().set.to_string();
        tell(Event::Tasks { part: &part, done, total });
        ControlFlow::Continue(())
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(!means.stop.load(Ordering::SeqCst)),
    }
}

/// Writes the prompts themselves, a task per line, for methods outside of this program. They hold
/// sentences of the data: keep the file apart from what is published.
///
/// # Errors
///
/// [`fewstep::Error::File`] if the file cannot be written, and those of [`LabelledRows::draw`].
pub fn write_tasks(
    settings: &ClassSettings,
    rows: &[LabelledRows],
    path: &Path,
) -> Result<(), Error> {
    let file = File::create(path).map_err(refused(path, "create"))?;
    let mut file = BufWriter::new(file);
    for key in settings.keys() {
        let mut drawn = draw(rows, settings, &key)?;
        drawn.task.further = Some(drawn.further);
        let line = serde_json::to_string(&drawn.task).expect("tasks become JSON");
        writeln!(file, "{line}").map_err(refused(path, "write"))?;
    }
    file.flush().map_err(refused(path, "write"))
}

/// A prompt by its key.
fn draw(
    rows: &[LabelledRows],
    settings: &ClassSettings,
    key: &PromptKey,
) -> Result<super::draw::DrawnPrompt, Error> {
    let rows = rows.iter().find(|rows| rows.set == key.set).expect("every set was read");
    rows.draw(key, settings.queries, settings.labels)
}

/// Pools of one thread each, so that what a prompt takes can be timed beside others.
struct Pools(Mutex<Vec<ThreadPool>>);

impl Pools {
    fn new(threads: usize) -> Result<Self, Error> {
        let pool = || {
            ThreadPoolBuilder::new().num_threads(1).build().map_err(|error| {
                let reason = error.to_string();
                Error::from(fewstep::Error::Threads { threads, reason })
            })
        };
        let pools = (0..threads.max(1)).map(|_| pool()).collect::<Result<_, _>>()?;
        Ok(Self(Mutex::new(pools)))
    }

    fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let lock = || self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pool = lock().pop().expect("no more jobs than threads are under way");
        let found = pool.install(work);
        lock().push(pool);
        found
    }
}

/// What measures one prompt.
struct Worker {
    observer: Observer,
    rows: Arc<Vec<LabelledRows>>,
    settings: ClassSettings,
}

impl Worker {
    /// What came of a prompt, whatever that is.
    fn line(&self, key: PromptKey) -> PromptLine {
        // An error of this crate is words here, as it will be in the file.
        let record = guarded(|| Ok(self.record(key).map_err(|error| error.to_string())));
        let error = match record {
            Ok(Ok(record)) => return PromptLine::Measured(Box::new(record)),
            Ok(Err(error)) => error,
            Err(error) => error.to_string(),
        };
        PromptLine::Failed { key, error }
    }

    fn record(&self, key: PromptKey) -> Result<PromptRecord, Error> {
        let drawn = draw(&self.rows, &self.settings, &key)?;
        self.observer.record(key, &drawn)
    }
}

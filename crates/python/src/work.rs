//! Work beside Python: other threads compute, and the one that called listens for Ctrl-C.

use crate::errors::{OrRaise, named};
use fewstep::Error;
use fewstep::stream::guarded;
use pyo3::prelude::*;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a call that waits looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Takes a lock; what a thread left behind that panicked is as good as before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next answer of other threads, or what a signal raises meanwhile; `look` is called whenever
/// there is none for a while. `None` if they are gone.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    answers: &mut Receiver<T>,
    mut look: impl FnMut() -> PyResult<()>,
) -> PyResult<Option<T>> {
    loop {
        // A receiver may be handed to a thread, but not shared.
        let alone = &mut *answers;
        match py.detach(move || alone.recv_timeout(PATIENCE)) {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                look()?;
            }
        }
    }
}

/// Does something on a thread that `start` puts it on, and waits for it. If a signal raises, the
/// thread is left to finish by itself.
pub(crate) fn elsewhere<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    start: impl FnOnce(Box<dyn FnOnce() + Send>) -> std::io::Result<()>,
    look: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let (answered, mut answers) = mpsc::channel();
    // Nobody may be waiting any more.
    let job = Box::new(move || drop(answered.send(guarded(work))));
    start(job).map_err(|error| {
        let message = format!("a thread cannot be started ({error})");
        named(py, "Threads", message)
    })?;
    let answer = wait(py, &mut answers, look)?;
    let gone =
        || Err(Error::Mistake { problem: "a thread ended without an answer".to_owned() });
    answer.unwrap_or_else(gone).or_raise(py)
}

/// Starts a thread of its own.
pub(crate) fn own_thread(job: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    std::thread::Builder::new().name("fewstep".to_owned()).spawn(job).map(drop)
}

/// The threads that work on tasks, kept from call to call.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Option<Threads>>);

/// Some threads, and the process that they are in.
struct Threads {
    process: u32,
    count: usize,
    threads: Arc<rayon::ThreadPool>,
}

impl Pool {
    /// So many threads: those of the last call if they are as many.
    pub(crate) fn of(&self, py: Python<'_>, count: usize) -> PyResult<Arc<rayon::ThreadPool>> {
        let mut kept = lock(&self.0);
        let process = std::process::id();
        if let Some(found) = kept.as_ref()
            && (found.process, found.count) == (process, count)
        {
            return Ok(Arc::clone(&found.threads));
        }
        // A fork has none of its parent's threads, so nothing there would hear that they are to end.
        if let Some(other) = kept.take_if(|found| found.process != process) {
            std::mem::forget(other);
        }
        let name = |place| format!("fewstep-{place}");
        let built =
            rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(name).build();
        let threads =
            built.map_err(|error| Error::Threads { threads: count, reason: error.to_string() });
        let threads = Arc::new(threads.or_raise(py)?);
        *kept = Some(Threads { process, count, threads: Arc::clone(&threads) });
        Ok(threads)
    }

    /// Lets go of the threads: they end when their work is done.
    pub(crate) fn leave(&self) {
        lock(&self.0).take();
    }

    /// Does something on these threads. If a signal raises, they finish by themselves, and the
    /// next call gets others.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        count: usize,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let threads = self.of(py, count)?;
        let start = |job| {
            threads.spawn(job);
            Ok(())
        };
        // What the work refuses is no reason to leave the threads; a signal is.
        let answer = elsewhere(py, move || Ok(guarded(work)), start, || Ok(()));
        if answer.is_err() {
            self.leave();
        }
        answer?.or_raise(py)
    }
}

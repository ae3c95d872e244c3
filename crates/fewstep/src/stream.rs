//! Many jobs at once, answers in the order of the jobs, and no more of either in memory than a
//! window.
//!
//! In: an iterator of jobs, what to do with one, and where answers go. Jobs are taken only when
//! there is room for their answer. After a request to stop, the jobs under way are finished.

use crate::error::Error;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a run that waits looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// How many jobs per thread may be taken before the first of them is answered.
const WINDOW: usize = 4;

/// Does something and makes an error of a panic, so that one task cannot end a run.
///
/// # Errors
///
/// Those of the work, and [`Error::Mistake`] if it panics.
///
/// # Examples
///
/// ```
/// use fewstep::{Error, stream::guarded};
///
/// let found = guarded(|| -> Result<(), Error> { panic!("a mistake") });
/// assert_eq!(found, Err(Error::Mistake { problem: "a mistake".to_owned() }));
/// ```
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let said = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::Mistake { problem: said.unwrap_or("no message").to_owned() })
    })
}

/// Does every job and hands the answers on in the order of the jobs.
///
/// The jobs, and what they need, are left behind if `sink` breaks or if `stop` becomes true while
/// no more jobs come; so they must own what they use. Once `stop` is true no job is begun, and the
/// answers of those that were begun are handed on.
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
/// use std::sync::{Arc, atomic::AtomicBool};
///
/// let mut squares = Vec::new();
/// let stop = Arc::new(AtomicBool::new(false));
/// fewstep::stream::in_order(0..100, |job| job * job, 2, stop, |square: i32| {
///     squares.push(square);
///     ControlFlow::Continue(())
/// });
/// assert_eq!(squares, (0..100).map(|job| job * job).collect::<Vec<_>>());
/// ```
pub fn in_order<J, A>(
    jobs: impl Iterator<Item = J> + Send + 'static,
    work: impl Fn(J) -> A + Send + Sync + 'static,
    threads: usize,
    stop: Arc<AtomicBool>,
    mut sink: impl FnMut(A) -> ControlFlow<()>,
) where
    J: Send + 'static,
    A: Send + 'static,
{
    let threads = threads.max(1);
    let (room, rooms) = mpsc::sync_channel(threads * WINDOW);
    let (queue, queued) = mpsc::channel();
    let (answered, answers) = mpsc::channel();
    let taken = Arc::new(AtomicU64::new(0));
    for _ in 0..threads * WINDOW {
        room.send(()).expect("there is room for every mark of room");
    }
    let queued = Arc::new(Mutex::new(queued));
    let work = Arc::new(work);
    for _ in 0..threads {
        let (queued, answered) = (Arc::clone(&queued), answered.clone());
        let (work, stop) = (Arc::clone(&work), Arc::clone(&stop));
        thread::spawn(move || answer_jobs(&queued, &answered, &*work, &stop));
    }
    drop(answered);
    let (number, stopped) = (Arc::clone(&taken), Arc::clone(&stop));
    thread::spawn(move || take_jobs(jobs, &rooms, &queue, &number, &stopped));

    let mut waiting = BTreeMap::new();
    let mut handed_on = 0;
    loop {
        match answers.recv_timeout(PATIENCE) {
            Ok((place, answer)) => {
                waiting.insert(place, answer);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::SeqCst) && taken.load(Ordering::SeqCst) == handed_on {
                    return;
                }
            }
        }
        while let Some(answer) = waiting.remove(&handed_on) {
            handed_on += 1;
            if answer.is_some_and(|answer| sink(answer).is_break()) {
                return;
            }
            // The reader may be gone, if there were no more jobs.
            let _ = room.try_send(());
        }
    }
}

/// Takes jobs while there is room for their answers.
fn take_jobs<J>(
    mut jobs: impl Iterator<Item = J>,
    rooms: &Receiver<()>,
    queue: &Sender<(u64, J)>,
    taken: &AtomicU64,
    stop: &AtomicBool,
) {
    while rooms.recv().is_ok() {
        let Some(job) = jobs.next() else { return };
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let place = taken.fetch_add(1, Ordering::SeqCst);
        if queue.send((place, job)).is_err() {
            return;
        }
    }
}

/// Answers jobs until there are no more; passes over them once it is to stop.
fn answer_jobs<J, A>(
    queued: &Mutex<Receiver<(u64, J)>>,
    answered: &Sender<(u64, Option<A>)>,
    work: &impl Fn(J) -> A,
    stop: &AtomicBool,
) {
    loop {
        let next = queued.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((place, job)) = next else { return };
        let answer = (!stop.load(Ordering::SeqCst)).then(|| work(job));
        if answered.send((place, answer)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn run(
        jobs: impl Iterator<Item = usize> + Send + 'static,
        work: impl Fn(usize) -> usize + Send + Sync + 'static,
        stop: &Arc<AtomicBool>,
        sink: impl FnMut(usize) -> ControlFlow<()>,
    ) {
        in_order(jobs, work, 3, Arc::clone(stop), sink);
    }

    #[test]
    fn slow_jobs_do_not_change_the_order_and_the_window_holds() {
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun_by_reader, ended_by_sink) = (Arc::clone(&begun), Arc::clone(&ended));
        let jobs = (0..200).inspect(move |_| {
            let ahead = begun_by_reader.fetch_add(1, Ordering::SeqCst) + 1
                - ended.load(Ordering::SeqCst);
            assert!(ahead <= 3 * WINDOW, "{ahead} jobs were held at once");
        });
        let mut seen = Vec::new();
        let slow_first = |job: usize| {
            thread::sleep(Duration::from_millis(if job.is_multiple_of(20) { 20 } else { 0 }));
            job
        };
        run(jobs, slow_first, &stop, |answer| {
            seen.push(answer);
            ended_by_sink.fetch_add(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        });
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn stopping_hands_on_what_was_begun_even_if_the_source_waits_for_ever() {
        let stop = Arc::new(AtomicBool::new(false));
        let (hold, held) = mpsc::channel::<()>();
        let jobs = (0..5).chain(std::iter::from_fn(move || held.recv().ok().map(|()| 9)));
        let mut seen = Vec::new();
        run(
            jobs,
            |job| job,
            &stop,
            |answer| {
                seen.push(answer);
                if seen.len() == 5 {
                    stop.store(true, Ordering::SeqCst);
                }
                ControlFlow::Continue(())
            },
        );
        drop(hold);
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_sink_that_breaks_ends_the_run_at_once() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut seen = 0;
        run(
            0..,
            |job| job,
            &stop,
            |_| {
                seen += 1;
                if seen == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(seen, 7);
    }
}

//! What waits for a worker, and whose turn it is.
//!
//! In: requests, each with some jobs. Out: one job at a time to each worker. A request that has not
//! been looked at and one that has take turns, and within both everybody does: so a long list
//! never keeps a short request waiting for more than a job, nor many short ones a list. Requests
//! beyond a limit are not taken, and a request gives way while its client does not take answers.
//! Jobs that would make the same update wait for the first of them.

use crate::tasks::Fingerprint;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How far behind a job that must wait another one of its request is looked for.
const LOOK_AHEAD: usize = 64;

/// A job and the update that it needs, if updates are kept for it.
pub(super) struct Item<J> {
    pub(super) key: Option<Fingerprint>,
    pub(super) job: J,
}

/// Requests that are not answered yet.
pub(super) struct Queue<J> {
    state: Mutex<QueueState<J>>,
    /// There may be something to do.
    work: Condvar,
    /// A request is gone.
    gone: Condvar,
    most: usize,
    /// How many jobs of a request may be begun before its client takes the first answer.
    window: usize,
}

struct QueueState<J> {
    requests: BTreeMap<u64, WaitingRequest<J>>,
    /// Requests of which no job was begun, and others that have some left; first come first.
    fresh: VecDeque<u64>,
    begun: VecDeque<u64>,
    /// Whether it is the turn of a request that was begun.
    begun_next: bool,
    /// Updates that are being made.
    making: HashSet<Fingerprint>,
    running: usize,
    number: u64,
    closed: bool,
}

struct WaitingRequest<J> {
    waiting: VecDeque<Item<J>>,
    /// Jobs that were begun and whose answers were not taken.
    ahead: usize,
}

/// What waits and what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueLength {
    pub(super) requests: usize,
    pub(super) waiting: usize,
    pub(super) running: usize,
}

/// A place in the queue; what still waits there is forgotten with it.
pub(super) struct Ticket<J> {
    queue: Arc<Queue<J>>,
    number: u64,
}

/// A job that was begun.
pub(super) struct Turn<J> {
    pub(super) job: J,
    making: Option<Fingerprint>,
}

impl<J> Queue<J> {
    /// A queue for at most `most` requests; each may be `window` jobs ahead of its client.
    pub(super) fn new(most: usize, window: usize) -> Self {
        let state = QueueState {
            requests: BTreeMap::new(),
            fresh: VecDeque::new(),
            begun: VecDeque::new(),
            begun_next: false,
            making: HashSet::new(),
            running: 0,
            number: 0,
            closed: false,
        };
        let state = Mutex::new(state);
        Self { state, work: Condvar::new(), gone: Condvar::new(), most, window }
    }

    fn state(&self) -> MutexGuard<'_, QueueState<J>> {
        // No job runs under the lock, so that what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request, unless there are too many.
    pub(super) fn admit(self: &Arc<Self>, items: Vec<Item<J>>) -> Option<Ticket<J>> {
        let mut state = self.state();
        if state.requests.len() >= self.most || state.closed {
            return None;
        }
        let number = state.number;
        state.number += 1;
        if !items.is_empty() {
            state.fresh.push_back(number);
        }
        state.requests.insert(number, WaitingRequest { waiting: items.into(), ahead: 0 });
        self.work.notify_all();
        Some(Ticket { queue: Arc::clone(self), number })
    }

    /// The next job, or `None` once the queue is closed. `kept` says whether an update is there
    /// already, and need not be waited for.
    pub(super) fn next(&self, kept: impl Fn(Fingerprint) -> bool) -> Option<Turn<J>> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(turn) = state.take(self.window, &kept) {
                return Some(turn);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives back what a job held; whoever waited for its update may go on.
    pub(super) fn finish(&self, turn: Turn<J>) {
        let mut state = self.state();
        state.running -= 1;
        if let Some(key) = turn.making {
            state.making.remove(&key);
        }
        self.work.notify_all();
    }

    /// What waits and what runs.
    pub(super) fn length(&self) -> QueueLength {
        let state = self.state();
        QueueLength {
            requests: state.requests.len(),
            waiting: state.requests.values().map(|request| request.waiting.len()).sum(),
            running: state.running,
        }
    }

    /// Waits until every request is gone; `false` if that takes too long.
    pub(super) fn drained(&self, patience: Duration) -> bool {
        let waited = self
            .gone
            .wait_timeout_while(self.state(), patience, |state| !state.requests.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.requests.is_empty()
    }

    /// Ends: what waits is forgotten, and no job is handed out any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let forgotten: Vec<_> = state
            .requests
            .values_mut()
            .map(|request| std::mem::take(&mut request.waiting))
            .collect();
        drop(state);
        drop(forgotten);
        self.work.notify_all();
    }
}

/// Where a job was found.
struct Found {
    /// The place of its request in the ring.
    place: usize,
    /// Its own place in the request.
    item: usize,
}

impl<J> QueueState<J> {
    /// The next job, if there is one that may begin.
    fn take(&mut self, window: usize, kept: &impl Fn(Fingerprint) -> bool) -> Option<Turn<J>> {
        let rings = if self.begun_next { [true, false] } else { [false, true] };
        for begun in rings {
            let Some(Found { place, item }) = self.find(begun, window, kept) else { continue };
            let ring = if begun { &mut self.begun } else { &mut self.fresh };
            let number = ring.remove(place).expect("it was found there");
            let request = self.requests.get_mut(&number).expect("rings name requests");
            let Item { key, job } = request.waiting.remove(item).expect("it was found there");
            request.ahead += 1;
            if !request.waiting.is_empty() {
                self.begun.push_back(number);
            }
            self.begun_next = !begun;
            self.running += 1;
            let making = key.filter(|&key| !kept(key) && self.making.insert(key));
            return Some(Turn { job, making });
        }
        None
    }

    /// The first job of a ring that may begin.
    fn find(
        &self,
        begun: bool,
        window: usize,
        kept: &impl Fn(Fingerprint) -> bool,
    ) -> Option<Found> {
        let ring = if begun { &self.begun } else { &self.fresh };
        let may = |item: &Item<J>| {
            item.key.is_none_or(|key| !self.making.contains(&key) || kept(key))
        };
        ring.iter().enumerate().find_map(|(place, number)| {
            let request = &self.requests[number];
            if request.ahead >= window {
                return None;
            }
            let item = request.waiting.iter().take(LOOK_AHEAD).position(may)?;
            Some(Found { place, item })
        })
    }
}

impl<J> Ticket<J> {
    /// The client has taken an answer, so that there is room for another.
    pub(super) fn taken(&self) {
        let mut state = self.queue.state();
        if let Some(request) = state.requests.get_mut(&self.number) {
            request.ahead = request.ahead.saturating_sub(1);
        }
        self.queue.work.notify_all();
    }

    /// Forgets what still waits; returns how many jobs that were.
    pub(super) fn forget(&self) -> usize {
        let mut state = self.queue.state();
        let number = self.number;
        state.fresh.retain(|&other| other != number);
        state.begun.retain(|&other| other != number);
        let request = state.requests.get_mut(&number);
        let waiting = request.map(|request| std::mem::take(&mut request.waiting));
        drop(state);
        waiting.map_or(0, |waiting| waiting.len())
    }
}

impl<J> Drop for Ticket<J> {
    fn drop(&mut self) {
        self.forget();
        self.queue.state().requests.remove(&self.number);
        self.queue.gone.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(jobs: &[&'static str]) -> Vec<Item<&'static str>> {
        jobs.iter().map(|&job| Item { key: None, job }).collect()
    }

    /// Takes `count` jobs, one worker after the other, each done at once.
    fn order(queue: &Queue<&'static str>, count: usize) -> Vec<&'static str> {
        let mut seen = Vec::new();
        for _ in 0..count {
            let turn = queue.next(|_| false).unwrap();
            seen.push(turn.job);
            queue.finish(turn);
        }
        seen
    }

    #[test]
    fn lists_and_short_requests_take_turns() {
        let queue = Arc::new(Queue::new(9, 9));
        let _list = queue.admit(items(&["a1", "a2", "a3", "a4"])).unwrap();
        let _other = queue.admit(items(&["b1", "b2"])).unwrap();
        assert_eq!(order(&queue, 2), ["a1", "a2"]);
        let _short: Vec<_> =
            ["c", "d", "e"].map(|job| queue.admit(items(&[job])).unwrap()).into();
        assert_eq!(order(&queue, 7), ["b1", "a3", "c", "b2", "d", "a4", "e"]);
    }

    #[test]
    fn no_more_requests_are_taken_than_fit() {
        let queue = Arc::new(Queue::new(2, 9));
        let first = queue.admit(items(&["a"])).unwrap();
        let _second = queue.admit(items(&["b1", "b2"])).unwrap();
        assert!(queue.admit(items(&["c"])).is_none());
        assert_eq!(order(&queue, 1), ["a"]);
        assert!(queue.admit(items(&["c"])).is_none(), "it is not answered yet");
        drop(first);
        assert_eq!(queue.length(), QueueLength { requests: 1, waiting: 2, running: 0 });
        assert!(queue.admit(items(&["c"])).is_some());
    }

    #[test]
    fn a_client_that_goes_away_or_does_not_read_holds_nobody_up() {
        let queue = Arc::new(Queue::new(9, 2));
        let slow = queue.admit(items(&["a1", "a2", "a3"])).unwrap();
        let gone = queue.admit(items(&["b1", "b2"])).unwrap();
        assert_eq!(order(&queue, 3), ["a1", "a2", "b1"]);
        drop(gone);
        let _last = queue.admit(items(&["c"])).unwrap();
        assert_eq!(order(&queue, 1), ["c"], "a has two answers that nobody took");
        slow.taken();
        assert_eq!(order(&queue, 1), ["a3"]);
        assert_eq!(queue.length(), QueueLength { requests: 2, waiting: 0, running: 0 });
    }

    #[test]
    fn an_update_is_made_once() {
        let queue = Arc::new(Queue::new(9, 9));
        let key = |name: &str| Some(Fingerprint::of(name));
        let jobs = [("x", "a1"), ("x", "a2"), ("y", "a3"), ("x", "a4")];
        let items = jobs.map(|(name, job)| Item { key: key(name), job });
        let _ticket = queue.admit(items.into()).unwrap();
        let first = queue.next(|_| false).unwrap();
        let second = queue.next(|_| false).unwrap();
        assert_eq!((first.job, second.job), ("a1", "a3"), "a2 waits for the update of a1");
        queue.finish(first);
        let third = queue.next(|_| true).unwrap();
        let fourth = queue.next(|_| true).unwrap();
        assert_eq!((third.job, fourth.job), ("a2", "a4"), "the update is there for both");
        queue.finish(second);
        queue.finish(third);
        queue.finish(fourth);
        assert!(queue.state().making.is_empty());
    }

    #[test]
    fn a_queue_that_is_closed_hands_nothing_out_and_forgets_what_waits() {
        let queue = Arc::new(Queue::new(9, 9));
        let ticket = queue.admit(items(&["a"])).unwrap();
        assert!(!queue.drained(Duration::ZERO));
        queue.close();
        assert!(queue.next(|_| false).is_none() && queue.admit(items(&["b"])).is_none());
        assert_eq!(ticket.forget(), 0);
        drop(ticket);
        assert!(queue.drained(Duration::ZERO));
    }
}

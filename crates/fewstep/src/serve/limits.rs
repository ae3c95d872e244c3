//! How much of everything the service takes, so that no client can take more than its share.

use std::time::Duration;

/// What the service takes at most.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `request_bytes` | 1 MiB | the body of a request |
/// | `waiting_bytes` | 16 MiB | the bodies of all requests that are not answered yet |
/// | `tasks` | 1000 | tasks in a request |
/// | `examples` | 100 | examples of a task |
/// | `labels` | 100 | labels of a task |
/// | `tokens` | 2048 | tokens of a prompt, unless the model takes fewer |
/// | `steps` | 100 | steps that may be asked for |
/// | `memory` | 1 GiB | bytes that observing a task may hold beside the model |
/// | `queue` | 64 | requests that wait or are under way |
/// | `answer_time` | 60 s | from the end of a request to the end of its answer |
/// | `receive_time` | 10 s | for the head of a request, for its body, and for a client to take what it is sent |
/// | `grace` | 30 s | for what is under way when the service is to end |
/// | `connections` | 256 | open connections |
/// | `cache_entries` | 1000 | updates that are kept |
/// | `cache_bytes` | 256 MiB | what they take together |
///
/// # Examples
///
/// ```
/// use fewstep::serve::Limits;
///
/// let limits = Limits { queue: 8, ..Limits::default() };
/// assert_eq!((limits.queue, limits.examples), (8, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub request_bytes: usize,
    /// Bytes of the bodies of all requests that are not answered yet.
    pub waiting_bytes: usize,
    /// Tasks in a request.
    pub tasks: usize,
    /// Examples of a task.
    pub examples: usize,
    /// Labels of a task.
    pub labels: usize,
    /// Tokens of a prompt.
    pub tokens: usize,
    /// Steps that may be asked for.
    pub steps: u32,
    /// Bytes that observing a task may hold beside the model.
    pub memory: u64,
    /// Requests that wait or are under way.
    pub queue: usize,
    /// How long an answer may take.
    pub answer_time: Duration,
    /// How long a client may take to send a head or a body, or to take what it is sent.
    pub receive_time: Duration,
    /// How long what is under way may take when the service is to end.
    pub grace: Duration,
    /// Open connections.
    pub connections: usize,
    /// Updates that are kept.
    pub cache_entries: usize,
    /// Bytes of all updates that are kept.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 1 << 20,
            waiting_bytes: 1 << 24,
            tasks: 1000,
            examples: 100,
            labels: 100,
            tokens: 2048,
            steps: 100,
            memory: 1 << 30,
            queue: 64,
            answer_time: Duration::from_secs(60),
            receive_time: Duration::from_secs(10),
            grace: Duration::from_secs(30),
            connections: 256,
            cache_entries: 1000,
            cache_bytes: 1 << 28,
        }
    }
}

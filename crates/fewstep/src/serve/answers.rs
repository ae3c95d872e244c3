//! How answers reach their client: one, or a line for each task in the order of the tasks, as
//! they finish.

use super::Shared;
use super::faults;
use super::metrics::Refusal;
use super::problems::{Problem, ProblemKind};
use super::queue::{Item, Ticket};
use super::requests::{Question, Request, Tasks};
use super::work::{Common, Job, Reply, Unanswered};
use crate::report::Failure;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse;
use hyper::body::Frame;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// The type of many answers.
const JSON_LINES: &str = "application/x-ndjson";

/// The longest time that a client is told to wait, in seconds.
const LONGEST_WAIT: f64 = 60.0;

/// Puts a request into the queue and answers it; `held` is given back with the last answer.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    request: Request,
    held: OwnedSemaphorePermit,
) -> Result<Response<Body>, Problem> {
    let Request { predictor, full, tasks } = request;
    let common = Arc::new(Common { predictor, full });
    let (reply, replies) = unbounded_channel();
    let item = |place: usize, question: Question| Item {
        key: question.key.as_ref().map(super::adapters::UpdateKey::name),
        job: Job { common: Arc::clone(&common), question, place, reply: reply.clone() },
    };
    let until = Instant::now() + shared.limits.answer_time;
    match tasks {
        Tasks::One(question) => {
            let ticket = admit(shared, vec![item(0, *question)])?;
            drop(reply);
            one(shared, ticket, replies, until).await
        }
        Tasks::Many(found) => {
            let mut lines = BTreeMap::new();
            let (mut items, mut ids) = (Vec::new(), Vec::new());
            for (place, question) in found.into_iter().enumerate() {
                match question {
                    Ok(question) => {
                        ids.push(question.task.id.clone());
                        items.push(item(place, question));
                    }
                    Err(failure) => {
                        ids.push(String::new());
                        lines.insert(place, Line { json: failure.to_json(), made: false });
                    }
                }
            }
            let ticket = admit(shared, items)?;
            drop(reply);
            let (shared, sleep) = (Arc::clone(shared), Box::pin(sleep_until(until)));
            let lines =
                LineBody { shared, ticket, replies, lines, ids, next: 0, sleep, _held: held };
            let mut response = Body::new(lines).into_response();
            let kind = HeaderValue::from_static(JSON_LINES);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            Ok(response)
        }
    }
}

fn admit(shared: &Arc<Shared>, items: Vec<Item<Job>>) -> Result<Ticket<Job>, Problem> {
    if shared.draining.load(Ordering::SeqCst) {
        return Err(draining(shared));
    }
    shared.queue.admit(items).ok_or_else(|| {
        shared.metrics.refused(Refusal::Queue);
        let detail = format!("{} requests wait or are under way already", shared.limits.queue);
        Problem::new(ProblemKind::Busy, detail).again_in(wait(shared))
    })
}

/// The service is about to end.
pub(super) fn draining(shared: &Shared) -> Problem {
    shared.metrics.refused(Refusal::Draining);
    Problem::new(ProblemKind::Draining, "new work is refused; ask another instance").again_in(1)
}

/// When there may be room again, in seconds: what waits, at the rate of what was done.
pub(super) fn wait(shared: &Shared) -> u64 {
    let length = shared.queue.length();
    let tasks = (length.waiting + length.running) as f64 / shared.threads as f64;
    let seconds = (tasks * shared.metrics.mean_task()).ceil().clamp(1.0, LONGEST_WAIT);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 60")]
    let seconds = seconds as u64;
    seconds
}

/// Waits for the only answer of a request. Whoever stops waiting drops the ticket, and with it a
/// task that was not begun.
async fn one(
    shared: &Shared,
    ticket: Ticket<Job>,
    mut replies: UnboundedReceiver<Reply>,
    until: Instant,
) -> Result<Response<Body>, Problem> {
    let _waiting = Waiting { shared, ticket };
    match timeout_at(until, replies.recv()).await {
        Ok(Some(Reply { answer: Ok(json), .. })) => Ok(json_response(json)),
        Ok(Some(Reply { answer: Err(Unanswered { error, task, .. }), .. })) => {
            Err(faults::of_task(&error, &task))
        }
        Ok(None) => Err(draining(shared)),
        Err(_) => {
            shared.metrics.refused(Refusal::Time);
            let seconds = shared.limits.answer_time.as_secs_f64();
            let detail = format!("there was no answer within {seconds} s; {ADVICE}");
            Err(Problem::new(ProblemKind::TooSlow, detail).again_in(wait(shared)))
        }
    }
}

/// What to do about an answer that takes too long.
const ADVICE: &str = "use fewer or shorter examples or fewer steps, or try again later";

/// A request that waits for its only answer; if it goes, what was not begun is counted.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket<Job>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.metrics.dropped(self.ticket.forget());
    }
}

/// An answer of one JSON object.
pub(super) fn json_response(json: String) -> Response<Body> {
    let kind = HeaderValue::from_static("application/json");
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The body of an answer to many tasks.
struct LineBody {
    shared: Arc<Shared>,
    ticket: Ticket<Job>,
    replies: UnboundedReceiver<Reply>,
    /// Lines whose turn has not come.
    lines: BTreeMap<usize, Line>,
    /// The ids of the tasks, for those that are not answered.
    ids: Vec<String>,
    /// The line whose turn it is.
    next: usize,
    sleep: Pin<Box<Sleep>>,
    _held: OwnedSemaphorePermit,
}

/// The answer to one of many tasks.
struct Line {
    json: String,
    /// Whether a worker made it.
    made: bool,
}

impl LineBody {
    fn take(&mut self, Reply { place, answer }: Reply) {
        let json = answer.unwrap_or_else(|Unanswered { error, task, query }| {
            let id = Some(task.id);
            let (line, error) = (place as u64 + 1, faults::message(&error));
            Failure { id, line, query, error }.to_json()
        });
        self.lines.insert(place, Line { json, made: true });
    }

    /// Every task that was not answered fails.
    fn give_up(&mut self, error: &str) {
        self.shared.metrics.dropped(self.ticket.forget());
        self.replies.close();
        for place in self.next..self.ids.len() {
            let (ids, line) = (&mut self.ids, place as u64 + 1);
            self.lines.entry(place).or_insert_with(|| {
                let id = Some(std::mem::take(&mut ids[place]));
                let json = Failure { id, line, query: None, error: error.to_owned() }.to_json();
                Line { json, made: false }
            });
        }
    }
}

impl HttpBody for LineBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            if this.next == this.ids.len() {
                return Poll::Ready(None);
            }
            if let Some(Line { mut json, made }) = this.lines.remove(&this.next) {
                this.next += 1;
                if made {
                    this.ticket.taken();
                }
                json.push('\n');
                return Poll::Ready(Some(Ok(Frame::data(json.into()))));
            }
            match this.replies.poll_recv(context) {
                Poll::Ready(Some(reply)) => this.take(reply),
                Poll::Ready(None) => {
                    this.give_up("the service ended before the task was begun")
                }
                Poll::Pending if this.sleep.as_mut().poll(context).is_ready() => {
                    this.shared.metrics.refused(Refusal::Time);
                    let seconds = this.shared.limits.answer_time.as_secs_f64();
                    let late = format!("there was no answer within {seconds} s of the request");
                    this.give_up(&format!("{late}; {ADVICE}"));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for LineBody {
    fn drop(&mut self) {
        self.shared.metrics.dropped(self.ticket.forget());
    }
}

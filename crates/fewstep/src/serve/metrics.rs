//! What the service did, in numbers, as Prometheus reads them.
//!
//! In: requests and tasks that ended. Out: text. Labels are routes, methods, statuses and reasons
//! from fixed lists; nothing that a client wrote is among them.

use super::adapters::UpdateCounts;
use super::queue::QueueLength;
use axum::http::{Method, StatusCode};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Every route.
pub(super) const ROUTES: [&str; 12] = [
    "/",
    "/page.js",
    "/page.css",
    "/page/{file}",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/models",
    "/v1/decide",
    "/v1/predict",
    "/v1/adapters/{id}",
];

/// What a request for anything else counts as.
const NO_ROUTE: &str = "none";

/// Upper ends of the intervals that durations are counted in, in seconds.
const BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The route of a request, from the list.
pub(super) fn route_name(route: Option<&str>) -> &'static str {
    let known = ROUTES.into_iter().find(|&known| Some(known) == route);
    known.unwrap_or(NO_ROUTE)
}

/// The method of a request; a client may make up others.
pub(super) fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
    known.into_iter().find(|&known| known == method.as_str()).unwrap_or("OTHER")
}

/// Why work was not taken or not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too many requests waited.
    Queue,
    /// All bodies together were too large.
    Bytes,
    /// The service was about to end.
    Draining,
    /// The answer took too long.
    Time,
}

impl Refusal {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Queue, "queue"),
        (Self::Bytes, "bytes"),
        (Self::Draining, "draining"),
        (Self::Time, "time"),
    ];
}

/// Durations, counted.
#[derive(Clone, Debug, Default)]
struct Histogram {
    counts: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (count, end) in self.counts.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= end);
        }
        self.count += 1;
        self.seconds += seconds;
    }

    fn write(&self, name: &str, label: &str, text: &mut String) {
        let comma = if label.is_empty() { "" } else { "," };
        let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        for (count, end) in self.counts.iter().zip(BUCKETS) {
            line(text, &format!("{name}_bucket{{{label}{comma}le=\"{end}\"}} {count}"));
        }
        line(text, &format!("{name}_bucket{{{label}{comma}le=\"+Inf\"}} {}", self.count));
        line(text, &format!("{name}_sum{braces} {}", self.seconds));
        line(text, &format!("{name}_count{braces} {}", self.count));
    }
}

#[derive(Default)]
struct Requests {
    /// By route, method and status.
    ended: BTreeMap<(&'static str, &'static str, u16), u64>,
    durations: BTreeMap<&'static str, Histogram>,
    tasks: Histogram,
}

/// Everything that is counted.
#[derive(Default)]
pub(super) struct Metrics {
    requests: Mutex<Requests>,
    answered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
    connections: AtomicU64,
}

/// What others count.
pub(super) struct Elsewhere {
    pub(super) queue: QueueLength,
    pub(super) adapters: UpdateCounts,
    pub(super) connections: usize,
    pub(super) waiting_bytes: usize,
}

impl Metrics {
    /// A request ended.
    pub(super) fn request(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        took: Duration,
    ) {
        let (method, route) = (method_name(method), route_name(route));
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.ended.entry((route, method, status.as_u16())).or_default() += 1;
        requests.durations.entry(route).or_default().add(took);
    }

    /// A worker is done with a task.
    pub(super) fn task(&self, answered: bool, took: Duration) {
        let count = if answered { &self.answered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.tasks.add(took);
    }

    /// Nobody waits for some tasks any more.
    pub(super) fn dropped(&self, tasks: usize) {
        self.dropped.fetch_add(tasks as u64, Ordering::Relaxed);
    }

    /// A request was not taken, or not finished.
    pub(super) fn refused(&self, why: Refusal) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A client connected.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// How long a task takes on average, in seconds.
    pub(super) fn mean_task(&self) -> f64 {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.tasks.seconds / requests.tasks.count.max(1) as f64
    }

    /// All numbers, as text.
    pub(super) fn text(&self, elsewhere: &Elsewhere) -> String {
        let mut text = String::new();
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        head(&mut text, "fewstep_requests_total", "counter", "Requests that were answered.");
        for ((route, method, status), count) in &requests.ended {
            let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
            line(&mut text, &format!("fewstep_requests_total{{{labels}}} {count}"));
        }
        let name = "fewstep_request_seconds";
        head(
            &mut text,
            name,
            "histogram",
            "From the head of a request to the end of its answer.",
        );
        for (route, histogram) in &requests.durations {
            histogram.write(name, &format!("route=\"{route}\""), &mut text);
        }
        let name = "fewstep_task_seconds";
        head(&mut text, name, "histogram", "How long a worker was busy with a task.");
        requests.tasks.write(name, "", &mut text);
        drop(requests);
        self.write_counts(&mut text);
        write_elsewhere(&mut text, elsewhere);
        text
    }

    fn write_counts(&self, text: &mut String) {
        let name = "fewstep_tasks_total";
        head(text, name, "counter", "Tasks, by what became of them.");
        let results = [
            ("answered", &self.answered),
            ("failed", &self.failed),
            ("dropped", &self.dropped),
        ];
        for (result, count) in results {
            let count = count.load(Ordering::Relaxed);
            line(text, &format!("{name}{{result=\"{result}\"}} {count}"));
        }
        let name = "fewstep_refused_total";
        head(text, name, "counter", "Requests that were not taken or not finished.");
        for ((_, reason), count) in Refusal::ALL.iter().zip(&self.refused) {
            let count = count.load(Ordering::Relaxed);
            line(text, &format!("{name}{{reason=\"{reason}\"}} {count}"));
        }
        let count = self.connections.load(Ordering::Relaxed);
        plain(text, ("fewstep_connections_total", "counter"), "Connections ever.", count);
    }
}

fn write_elsewhere(text: &mut String, elsewhere: &Elsewhere) {
    let Elsewhere { queue, adapters, connections, waiting_bytes } = elsewhere;
    let mut gauge = |name: &str, help: &str, value: usize| {
        plain(text, (&format!("fewstep_{name}"), "gauge"), help, value as u64);
    };
    gauge("connections", "Open connections.", *connections);
    gauge("queue_requests", "Requests that wait or are under way.", queue.requests);
    gauge("queue_tasks", "Tasks that wait for a worker.", queue.waiting);
    gauge("tasks_under_way", "Tasks that a worker is busy with.", queue.running);
    gauge("waiting_bytes", "Bytes of bodies of requests not answered yet.", *waiting_bytes);
    gauge("adapters", "Updates that are kept.", adapters.entries);
    gauge("adapter_bytes", "Bytes of updates that are kept.", adapters.bytes);
    let mut counter = |name: &str, help: &str, value: u64| {
        plain(text, (&format!("fewstep_adapter_{name}_total"), "counter"), help, value);
    };
    counter("hits", "Tasks whose update was there.", adapters.hits);
    counter("misses", "Tasks whose update had to be made.", adapters.misses);
    counter("evicted", "Updates that had to go for others.", adapters.evicted);
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, &format!("# HELP {name} {help}\n# TYPE {name} {kind}"));
}

fn plain(text: &mut String, (name, kind): (&str, &str), help: &str, value: u64) {
    head(text, name, kind, help);
    line(text, &format!("{name} {value}"));
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a text takes every line");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_lists_whatever_a_client_writes() {
        assert_eq!(route_name(Some("/v1/predict")), "/v1/predict");
        assert_eq!(route_name(Some("/v1/secret")), "none");
        assert_eq!(route_name(None), "none");
        assert_eq!(method_name(&Method::DELETE), "DELETE");
        assert_eq!(method_name(&Method::from_bytes(b"SECRET").unwrap()), "OTHER");
    }

    #[test]
    fn durations_are_counted_up_to_each_end() {
        let metrics = Metrics::default();
        for milliseconds in [2, 30, 30, 100_000] {
            metrics.task(true, Duration::from_millis(milliseconds));
        }
        metrics.task(false, Duration::ZERO);
        metrics.refused(Refusal::Time);
        let elsewhere = Elsewhere {
            queue: QueueLength { requests: 3, waiting: 2, running: 1 },
            adapters: UpdateCounts { entries: 4, bytes: 5, hits: 6, misses: 7, evicted: 8 },
            connections: 9,
            waiting_bytes: 10,
        };
        let text = metrics.text(&elsewhere);
        for expected in [
            "fewstep_task_seconds_bucket{le=\"0.001\"} 1",
            "fewstep_task_seconds_bucket{le=\"0.0025\"} 2",
            "fewstep_task_seconds_bucket{le=\"0.05\"} 4",
            "fewstep_task_seconds_bucket{le=\"60\"} 4",
            "fewstep_task_seconds_bucket{le=\"+Inf\"} 5",
            "fewstep_task_seconds_count 5",
            "fewstep_tasks_total{result=\"failed\"} 1",
            "fewstep_refused_total{reason=\"time\"} 1",
            "fewstep_queue_requests 3",
            "fewstep_adapter_misses_total 7",
            "fewstep_waiting_bytes 10",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} in\n{text}");
        }
    }
}

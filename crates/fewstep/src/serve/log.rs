//! One line per request on standard error: when, what, how it ended and how long it took.
//!
//! Nothing that a client wrote is in it: routes and methods are named from lists. A thread of its
//! own writes, so that whoever reads slowly holds nobody up; what it cannot take is dropped.

use super::metrics::{method_name, route_name};
use axum::http::{Method, StatusCode};
use std::io::Write;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many lines may wait to be written.
const WAITING: usize = 1024;

/// Where lines go.
#[derive(Debug)]
pub(super) struct Log {
    lines: SyncSender<String>,
}

impl Log {
    /// A log that is written to standard error.
    pub(super) fn to_standard_error() -> Self {
        let (lines, received) = sync_channel::<String>(WAITING);
        std::thread::spawn(move || {
            for line in received {
                // Nobody may be listening; requests are answered all the same.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
        });
        Self { lines }
    }

    /// Writes a line about a request.
    pub(super) fn request(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        took: Duration,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (method, route) = (method_name(method), route_name(route));
        let milliseconds = took.as_secs_f64() * 1e3;
        let time = time_of(now.as_secs());
        let line =
            format!("{time} {method} {route} {} {milliseconds:.1} ms\n", status.as_u16());
        let _ = self.lines.try_send(line);
    }
}

/// A time in seconds since 1970, as RFC 3339 has it, in UTC.
fn time_of(seconds: u64) -> String {
    let day = crate::text::day(seconds);
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{day}T{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everywhere() {
        assert_eq!(time_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_of(1_709_210_096), "2024-02-29T12:34:56Z");
    }
}

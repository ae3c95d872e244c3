//! A program at a terminal: what it says beside its answers, how it is interrupted, how it ends.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every task was answered.
    Done,
    /// Some task was not.
    SomeFailed,
    /// Nothing could run.
    NothingRan,
    /// The user asked to stop.
    Interrupted,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        Self::from(match end {
            End::Done => 0,
            End::SomeFailed => 1,
            End::NothingRan => 2,
            End::Interrupted => 130,
        })
    }
}

/// A program, by the name that stands before everything it says beside its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name.
    pub name: &'static str,
}

impl Program {
    /// Says something on standard error.
    pub fn note(self, text: impl Display) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.name);
    }

    /// A flag that an interrupt raises; `what` says what is still done then, and the second
    /// interrupt ends the program at once.
    #[must_use]
    pub fn listen(self, what: &'static str) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&stop);
        let listening = ctrlc::set_handler(move || {
            if raised.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            self.note(format!("{what}; interrupt again to end at once"));
        });
        if listening.is_err() {
            self.note("interrupts cannot be noticed here and will end the run at once");
        }
        stop
    }

    /// The code to end with; an error is said, and means that nothing could run.
    pub fn end(self, end: Result<End, impl Display>) -> ExitCode {
        let end = end.unwrap_or_else(|error| {
            self.note(error);
            End::NothingRan
        });
        end.into()
    }
}

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=@,:+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// How many threads this machine runs at the same time.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("value,key@last4"), "value,key@last4");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}

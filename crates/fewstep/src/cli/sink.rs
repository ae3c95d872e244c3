//! Where answers go: to a file, or to standard output as JSON or as text.

use super::progress::Bar;
use super::run::{Answer, Work};
use crate::chart;
use crate::error::Error;
use crate::out::Out;
use crate::report::{AnyReport, Failure};
use crate::text::{self, Style, Summary};
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A place for answers.
pub(super) enum Place {
    /// A file, as JSON.
    File(Out),
    /// Standard output, as JSON.
    Json,
    /// Standard output, as text.
    Text(Style),
}

/// Takes answers in their order and counts them.
pub(super) struct Sink {
    place: Place,
    work: Arc<Work>,
    bar: Bar,
    summary: Summary,
    /// What ended the run before its time: `None` is a reader that has gone away.
    ended: Option<Option<Error>>,
    /// Whether JSON holds matrices.
    pub(super) full: bool,
    /// Whether text comes with charts.
    pub(super) charts: bool,
    /// The task of classes whose arms were drawn last: its other queries rest on the same.
    drawn: Option<String>,
}

impl Sink {
    /// Nothing has been answered yet.
    pub(super) fn new(place: Place, work: Arc<Work>, bar: Bar) -> Self {
        let (summary, ended) = (Summary::default(), None);
        Self { place, work, bar, summary, ended, full: false, charts: false, drawn: None }
    }

    /// Takes the answers of a line; breaks if there is nowhere to put them.
    pub(super) fn take_all(&mut self, end: u64, answers: Vec<Answer>) -> ControlFlow<()> {
        answers.into_iter().try_for_each(|answer| self.take(answer))?;
        self.bar.advance(end);
        ControlFlow::Continue(())
    }

    fn take(&mut self, answer: Answer) -> ControlFlow<()> {
        let written = match answer {
            Answer::Skipped => {
                self.summary.skipped += 1;
                Ok(())
            }
            Answer::Report(report) => {
                self.summary.add_any(&report);
                match &mut self.place {
                    Place::File(out) => out.write(&report.to_json(self.full)).map_err(Some),
                    Place::Json => print(&self.bar, &(report.to_json(self.full) + "\n")),
                    Place::Text(style) => {
                        let mut text = text::any_report(&report, *style);
                        if self.charts {
                            text.push_str(&charts(&report, &mut self.drawn, *style));
                        }
                        text.push('\n');
                        print(&self.bar, &text)
                    }
                }
            }
            Answer::Failure(failure, nothing) => {
                self.summary.failed += 1;
                self.summary.empty += u64::from(nothing);
                self.take_failure(&failure)
            }
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(ended) => {
                self.ended = Some(ended);
                ControlFlow::Break(())
            }
        }
    }

    fn take_failure(&mut self, failure: &Failure) -> Result<(), Option<Error>> {
        let json = failure.to_json();
        match &mut self.place {
            Place::File(_) if self.work.done.failed(&json) => Ok(()),
            Place::File(out) => out.write(&json).map_err(Some),
            Place::Json => print(&self.bar, &(json + "\n")),
            Place::Text(style) => print(&self.bar, &(text::failure(failure, *style) + "\n")),
        }
    }

    /// Ends the run; says what it came to if it is told how long it took. `None` if the reader
    /// of the answers went away.
    pub(super) fn close(
        self,
        took: Option<Duration>,
        style: Style,
    ) -> Result<Option<Summary>, Error> {
        self.bar.finish();
        match self.ended {
            Some(Some(error)) => return Err(error),
            Some(None) => return Ok(None),
            None => {}
        }
        let printed = took.map(|took| print(&self.bar, &self.summary.text(took, style)));
        if let Some(Err(Some(error))) = printed {
            return Err(error);
        }
        Ok(Some(self.summary))
    }
}

/// The charts of a report; of further queries of a task of classes only what is about them.
fn charts(report: &AnyReport, drawn: &mut Option<String>, style: Style) -> String {
    match report {
        AnyReport::Classes(report) if drawn.as_ref() == Some(&report.id) => {
            chart::classes::probabilities(report, style)
        }
        AnyReport::Classes(of) => {
            *drawn = Some(of.id.clone());
            chart::any_charts(report, style)
        }
        AnyReport::Regression(_) => chart::any_charts(report, style),
    }
}

/// Prints to standard output; `Err(None)` if nobody reads it any more.
fn print(bar: &Bar, text: &str) -> Result<(), Option<Error>> {
    let printed = bar.aside(|| {
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush())
    });
    printed.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => None,
        kind => {
            let file = Path::new("standard output").to_path_buf();
            Some(Error::File { file, action: "write", kind })
        }
    })
}

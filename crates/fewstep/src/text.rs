//! Reports as text: when, how far, where, and what it changes; a summary at the end.
//!
//! In: [`Report`]s and [`Failure`]s. Out: lines for a person. The numbers are those of the report,
//! to three digits.

mod classes;

pub use crate::numbers::number;
pub use classes::ClassSummary;

use crate::report::{AnyReport, ClassReport, Failure, Lines, Report};
use std::fmt::Write as _;
use std::time::Duration;

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True on a terminal whose user does not object.
    pub colour: bool,
}

impl Style {
    /// No colours.
    pub const PLAIN: Self = Self { colour: false };

    /// Text in bold.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that stands back.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Text that warns.
    #[must_use]
    pub fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A report in lines: the id, the three answers, the prediction, and errors if they are known.
#[must_use]
pub fn report(report: &Report, style: Style) -> String {
    written(&titled(&report.id, report.query), Lines::of(report), style)
}

/// A report of classes in lines.
#[must_use]
pub fn report_of_classes(report: &ClassReport, style: Style) -> String {
    written(&titled(&report.id, report.query), Lines::of_classes(report), style)
}

/// A report of either kind in lines.
#[must_use]
pub fn any_report(report: &AnyReport, style: Style) -> String {
    written(&titled(report.id(), report.query()), report.lines(), style)
}

fn written(title: &str, lines: Lines, style: Style) -> String {
    let mut text = style.bold(title);
    let Lines { when, how_far, which, prediction, error } = lines;
    let lines = [
        ("when", when),
        ("how far", how_far),
        ("where", Some(which)),
        ("prediction", Some(prediction)),
        ("error", error),
    ];
    for (name, content) in lines {
        if let Some(content) = content {
            // The sentences about classes quote labels.
            let content = printable(&content);
            let _ = write!(text, "\n  {} {content}", style.dim(&format!("{name:<10}")));
        }
    }
    text.push('\n');
    text
}

/// A failure in lines.
#[must_use]
pub fn failure(failure: &Failure, style: Style) -> String {
    let id = failure.id.as_deref().map_or("(no id)".to_owned(), |id| titled(id, failure.query));
    let (id, line) = (style.bold(&id), failure.line);
    let name = style.warning(&format!("{:<10}", "failed"));
    format!("{id}\n  {name} line {line}: {}\n", printable(&failure.error))
}

/// A task's id, and which of its queries is meant.
fn titled(id: &str, query: Option<usize>) -> String {
    let query = query.map_or(String::new(), |query| format!(" query {query}"));
    printable(id) + &query
}

/// Text without what could move the cursor or colour what follows.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// What a run came to.
///
/// # Examples
///
/// ```
/// let summary = fewstep::text::Summary::default();
/// assert_eq!(summary.tasks(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Tasks that were answered.
    pub answered: u64,
    /// Lines that became failures.
    pub failed: u64,
    /// Those among them that stand for files without any task.
    pub empty: u64,
    /// Tasks that were answered by a run before.
    pub skipped: u64,
    /// Tasks that were decided on, and those among them for which adapting was chosen.
    pub decided: u64,
    /// Tasks for which adapting was chosen.
    pub adapted: u64,
    /// The sum of the horizons of the decided ones; of averages, their means.
    pub steps: f64,
    /// Sum and count of the squared errors: without adapting, adapted, linear.
    pub errors: [(f64, u64); 3],
    /// What is known about tasks of classes.
    pub classes: ClassSummary,
}

impl Summary {
    /// Counts a report of either kind.
    pub fn add_any(&mut self, report: &AnyReport) {
        match report {
            AnyReport::Regression(report) => self.add(report),
            AnyReport::Classes(report) => {
                self.answered += 1;
                self.decided += 1;
                self.adapted += u64::from(report.when.adapt);
                self.steps += report.how_far.mean_horizon;
                self.classes.add(&report.prediction);
            }
        }
    }

    /// Counts a report.
    pub fn add(&mut self, report: &Report) {
        self.answered += 1;
        if let (Some(when), Some(how_far)) = (&report.when, &report.how_far) {
            self.decided += 1;
            self.adapted += u64::from(when.adapt);
            self.steps += how_far.mean_horizon();
        }
        let prediction = &report.prediction;
        let forms = [Some(prediction.icl), prediction.adapted, prediction.linear];
        for (sum, form) in self.errors.iter_mut().zip(forms) {
            if let Some(error) =
                prediction.squared_error(form).filter(|error| error.is_finite())
            {
                *sum = (sum.0 + error, sum.1 + 1);
            }
        }
    }

    /// All lines that held a task or should have.
    #[must_use]
    pub fn tasks(&self) -> u64 {
        self.answered + self.failed + self.skipped
    }

    /// The summary in lines.
    #[must_use]
    pub fn text(&self, took: Duration, style: Style) -> String {
        let plural = if self.tasks() == 1 { "" } else { "s" };
        let mut text = style.bold(&format!("{} task{plural}", self.tasks()));
        let _ = write!(text, ": {} answered, {} failed", self.answered, self.failed);
        if self.skipped > 0 {
            let _ = write!(text, ", {} answered before", self.skipped);
        }
        if self.decided > 0 {
            let mean = self.steps / self.decided as f64;
            let _ = write!(text, "; adapted to {}, mean horizon {mean:.1}", self.adapted);
        }
        text.push('\n');
        self.write_errors(&mut text, style);
        text.push_str(&self.classes.text(style));
        if self.answered > 0 {
            let each = took.as_secs_f64() * 1e3 / self.answered as f64;
            let _ = writeln!(text, "  {} {each:.1} ms per task", style.dim("time      "));
        }
        text
    }

    fn write_errors(&self, text: &mut String, style: Style) {
        let names = [" without adapting", " adapted", " by the linearised model"];
        let [icl, adapted, linear] = self.errors;
        let (shown, names) = match adapted == linear && adapted.1 > 0 {
            true => (vec![icl, linear], vec![names[0], " adapted by the linearised model"]),
            false => (vec![icl, adapted, linear], names.to_vec()),
        };
        let known = shown.iter().zip(names).filter(|((_, count), _)| *count > 0);
        let means: Vec<String> = known
            .map(|((sum, count), name)| format!("{}{name}", number(sum / *count as f64)))
            .collect();
        if !means.is_empty() {
            let (name, count) = (style.dim("error     "), self.errors[0].1);
            let means = means.join(", ");
            let _ =
                writeln!(text, "  {name} {means} (mean squared, over {count} known answers)");
        }
    }
}

/// The day of a time in seconds since 1970, as `YYYY-MM-DD`.
#[must_use]
pub fn day(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let mut year = 1970_u64;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_782_400, "2000-02-29"),
            (1_709_251_200, "2024-03-01"),
            (1_735_689_599, "2024-12-31"),
            (1_794_787_200, "2026-11-16"),
        ] {
            assert_eq!(day(seconds), expected);
        }
    }
}

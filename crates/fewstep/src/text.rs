//! Reports as text: when, how far, where, and what it changes; a summary at the end.
//!
//! In: [`Report`]s and [`Failure`]s. Out: lines for a person. The numbers are those of the report,
//! to three digits.

use crate::report::{Evidence, Failure, HowFar, LeaveOneOut, Prediction, Report, When, Which};
use fewstep_core::HorizonName;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// How many names of blocks are written out.
const NAMES: usize = 8;

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

/// A number to three digits, as a person would write it.
///
/// # Examples
///
/// ```
/// use fewstep::text::number;
///
/// assert_eq!(number(0.41237), "0.412");
/// assert_eq!(number(0.00182), "0.00182");
/// assert_eq!(number(0.09999), "0.100");
/// assert_eq!(number(-12.0), "-12.0");
/// assert_eq!(number(12_345.0), "12345");
/// assert_eq!(number(2.5e-7), "2.50e-7");
/// assert_eq!(number(0.0), "0");
/// assert_eq!(number(f64::NAN), "–");
/// ```
#[must_use]
pub fn number(value: f64) -> String {
    let exponential = format!("{value:.2e}");
    // After rounding: 0.09999 is 1.00e-1.
    let power = exponential.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok());
    match power {
        _ if value == 0.0 => "0".to_owned(),
        None => "–".to_owned(),
        Some(power @ -4..=4) => {
            let decimals = usize::try_from(2 - power).unwrap_or(0);
            format!("{value:.decimals$}")
        }
        Some(_) => exponential,
    }
}

/// What is said about a report, in sentences without the names in front of them: the same in the
/// terminal, on the page and in Python.
///
/// # Examples
///
/// ```
/// # use fewstep::{Action, Policy, Predictor};
/// # let task = fewstep::tasks::parse(
/// #     br#"{"id": "t1", "template": "{x}->{y}",
/// #          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
/// #          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
/// # )?;
/// let predictor = Predictor::new(fewstep::builtin()?, Policy::paper(), Action::Act)?;
/// let lines = fewstep::text::Lines::of(&predictor.answer(&task)?.report);
/// assert!(lines.when.expect("it was decided").contains("evidence"));
/// # Ok::<(), fewstep::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// Whether to adapt, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How many steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how_far: Option<String>,
    /// Which blocks.
    pub which: String,
    /// The prediction, with and without adapting.
    pub prediction: String,
    /// The errors, if the answer is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Lines {
    /// The lines of a report that still has its lists per block.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        Self {
            when: report.when.as_ref().map(|when| when_line(report, when)),
            how_far: report.how_far.as_ref().map(|how_far| how_far_line(report, how_far)),
            which: where_line(&report.which),
            prediction: prediction_line(report),
            error: error_line(report),
        }
    }
}

/// A report in lines: the id, the three answers, the prediction, and errors if they are known.
#[must_use]
pub fn report(report: &Report, style: Style) -> String {
    let mut text = style.bold(&printable(&report.id));
    let Lines { when, how_far, which, prediction, error } = Lines::of(report);
    let lines = [
        ("when", when),
        ("how far", how_far),
        ("where", Some(which)),
        ("prediction", Some(prediction)),
        ("error", error),
    ];
    for (name, content) in lines {
        if let Some(content) = content {
            let _ = write!(text, "\n  {} {content}", style.dim(&format!("{name:<10}")));
        }
    }
    text.push('\n');
    text
}

/// A failure in lines.
#[must_use]
pub fn failure(failure: &Failure, style: Style) -> String {
    let id = failure.id.as_deref().map_or("(no id)".to_owned(), printable);
    let (id, line) = (style.bold(&id), failure.line);
    let name = style.warning(&format!("{:<10}", "failed"));
    format!("{id}\n  {name} line {line}: {}\n", printable(&failure.error))
}

/// Text without what could move the cursor or colour what follows.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// Whether anything is carried out: an average with next to no weight on steps is not.
fn updates(report: &Report) -> bool {
    report.how_far.as_ref().is_some_and(|how_far| how_far.degrees_of_freedom > 0.0)
}

fn when_line(report: &Report, when: &When) -> String {
    let answer = if when.adapt { "adapt" } else { "leave it alone" };
    let mut text = format!("{answer}: {}", when.reason);
    if let Some(LeaveOneOut { icl, adapted }) = &when.leave_one_out {
        let _ = write!(text, " ({} -> {}", number(*icl), number(*adapted));
        if !when.adapt && updates(report) {
            let _ = write!(text, "; the prediction still averages both");
        }
        text.push(')');
    }
    if let Some(Evidence { gate, gap_icl, gap_adapted }) = &when.evidence {
        let (gate, before, after) = (number(*gate), number(*gap_icl), number(*gap_adapted));
        let _ = write!(text, " (gate {gate}; expected gap {before} -> {after})");
    }
    text
}

fn how_far_line(report: &Report, how_far: &HowFar) -> String {
    let (rule, size) = (how_far.rule, number(how_far.step_size));
    let freedom = format!("{} degrees of freedom", number(how_far.degrees_of_freedom));
    let weight = report.when.as_ref().map_or(0.0, |when| when.weight);
    if !updates(report) {
        return "0 steps".to_owned();
    }
    if let Some(weights) = how_far.averaged() {
        let (first, last) = (how_far.horizons.first(), how_far.horizons.last());
        let (first, last) = (first.copied().unwrap_or(0), last.copied().unwrap_or(0));
        let most =
            weights.fold((0, 0.0), |most, next| if next.1 > most.1 { next } else { most });
        let by = match rule {
            HorizonName::Gibbs => "evidence",
            _ => "leave-one-out error",
        };
        return format!(
            "averaged over {first}–{last} steps of {size} by {by} (weight on updating {:.0} %, \
             most of it on {}; {freedom})",
            100.0 * weight,
            steps(most.0),
        );
    }
    let by = match rule {
        HorizonName::Fixed(_) => "as given".to_owned(),
        _ => format!("by {rule}"),
    };
    let what = match rule {
        HorizonName::BayesFilter => "one update".to_owned(),
        _ => format!("{} of {size}", steps(how_far.horizon)),
    };
    let edge = match how_far.at_edge {
        true => "; the largest candidate: more horizons might go further",
        false => "",
    };
    format!("{what} {by} ({freedom}{edge})")
}

fn steps(number: u32) -> String {
    if number == 1 { "1 step".to_owned() } else { format!("{number} steps") }
}

fn where_line(which: &Which) -> String {
    let heads: Vec<String> =
        which.heads.iter().map(|(kind, heads)| format!("{kind}: {heads} heads")).collect();
    if heads.is_empty() {
        return blocks_of(which);
    }
    format!("{} ({})", blocks_of(which), heads.join(", "))
}

fn blocks_of(which: &Which) -> String {
    let (count, selected) = (which.selected.len(), &which.selected);
    let all = count == which.blocks.len();
    if let ([first, .., last], true, true) = (&selected[..], all, count > NAMES) {
        return format!("all {count} blocks from {first} to {last}");
    }
    if all && count > 1 {
        return format!("all {count} blocks: {}", selected.join(" "));
    }
    let shown: Vec<&str> = selected.iter().take(NAMES).map(String::as_str).collect();
    let rest = count - shown.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let of = match which.blocks.len() {
        0 => String::new(),
        candidates => format!(" of {candidates}"),
    };
    let (rule, shown) = (&which.rule, shown.join(" "));
    let plural = if count == 1 && of.is_empty() { "" } else { "s" };
    format!("{count}{of} block{plural} by {rule}: {shown}{more}")
}

fn prediction_line(report: &Report) -> String {
    let prediction = &report.prediction;
    let mut text = format!("{} without adapting", number(prediction.icl));
    if let Some(adapted) = prediction.adapted {
        let _ = write!(text, ", {} adapted", number(adapted));
    }
    if let Some(linear) = prediction.linear {
        let _ = write!(text, "{}", linearised(prediction, linear));
    }
    if let Some(deviation) = prediction.standard_deviation {
        let _ = write!(text, " (± {}", number(deviation));
        if let Some(within) = &prediction.interval {
            let (lower, upper) = (number(within.lower), number(within.upper));
            let _ = write!(text, "; {:.0} %: {lower} to {upper}", 100.0 * within.coverage);
        }
        text.push(')');
    }
    text
}

/// What is said of the linearised model; of its number nothing if it is the one that was just said.
fn linearised(prediction: &Prediction, value: f64) -> String {
    match prediction.adapted == prediction.linear {
        true => " by the linearised model".to_owned(),
        false => format!(", {} by the linearised model", number(value)),
    }
}

/// The squared errors, if the answer is known.
fn error_line(report: &Report) -> Option<String> {
    let prediction = &report.prediction;
    let icl = prediction.squared_error(Some(prediction.icl))?;
    let mut text = format!("{} without adapting", number(icl));
    if let Some(adapted) = prediction.squared_error(prediction.adapted) {
        let _ = write!(text, ", {} adapted", number(adapted));
    }
    if let Some(linear) = prediction.squared_error(prediction.linear) {
        let _ = write!(text, "{}", linearised(prediction, linear));
    }
    let _ = write!(text, " (squared; the answer is {})", number(prediction.target?));
    Some(text)
}

/// What a run came to.
///
/// # Examples
///
/// ```
/// let summary = fewstep::text::Summary::default();
/// assert_eq!(summary.tasks(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
}

impl Summary {
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

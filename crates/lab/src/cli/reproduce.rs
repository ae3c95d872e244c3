//! `fewstep-lab reproduce`: measures what the paper measured, and says what held.

pub(super) mod arguments;
mod classes;

use super::LAB;
use crate::error::Error;
use crate::reproduce::document::{Document, Section, Table, Verdict};
use crate::reproduce::findings::short;
use crate::reproduce::run::{Event, Means, measure};
use crate::reproduce::sst2::Sentences;
use crate::reproduce::theory::{TheorySettings, theory};
use crate::reproduce::{Experiment, Findings, Request, Settings, Shard, Store, Traces};
use arguments::{Merge, Place, Tasks, Theory, What};
use fewstep::cli::{Bar, End, load, processors, quoted};
use fewstep_engine::Model;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a run without a bar says where it is.
const SILENCE: Duration = Duration::from_secs(60);

/// Does what is asked for.
pub(super) fn reproduce(what: What, version: &str) -> Result<End, Error> {
    use Experiment::{DigitShift, Heads, Sst2};
    match what {
        What::DigitShift(flags) => {
            let request =
                flags.tasks.request(vec![DigitShift], flags.place.seed, flags.sweep.sweep);
            let run = Run { place: flags.place, tasks: flags.tasks, version, draws: None };
            run.run(&Plan::Paper(request), None)
        }
        What::Heads(flags) => {
            let request = flags.tasks.request(vec![Heads], flags.place.seed, flags.sweep.sweep);
            let run = Run { place: flags.place, tasks: flags.tasks, version, draws: None };
            run.run(&Plan::Paper(request), None)
        }
        What::Sst2(flags) => {
            let request = flags.tasks.request(vec![Sst2], flags.place.seed, None);
            let data = flags.data.ok_or(Error::NoData)?;
            let run = Run { place: flags.place, tasks: flags.tasks, version, draws: None };
            run.run(&Plan::Paper(request), Some(&data))
        }
        What::Rules(flags) => {
            let traces = flags.traces();
            let run = Run { place: flags.place, tasks: flags.tasks, version, draws: None };
            run.run(&Plan::Rules(traces), flags.data.as_deref())
        }
        What::Classes(flags) => classes::classes(&flags, version),
        What::All(flags) => {
            let mut experiments = vec![DigitShift, Heads];
            experiments.extend(flags.data.as_ref().map(|_| Sst2));
            let request = flags.tasks.request(experiments, flags.place.seed, flags.sweep.sweep);
            let request = Request { tour: true, ..request };
            let draws = Some(flags.draws.draws);
            let run = Run { place: flags.place, tasks: flags.tasks, version, draws };
            run.run(&Plan::Paper(request), flags.data.as_deref())
        }
        What::Theory(flags) => only_theory(&flags, version),
        What::Merge(flags) => merge(&flags, version),
    }
}

/// What is measured.
enum Plan {
    Paper(Request),
    Rules(Traces),
}

impl Plan {
    fn settings(
        &self,
        name: &str,
        model: &Model,
        sentences: Option<&Sentences>,
    ) -> Result<Settings, Error> {
        match self {
            Self::Paper(request) => request.settings(name, model, sentences),
            Self::Rules(traces) => traces.settings(name, model, sentences),
        }
    }
}

/// A run of experiments.
struct Run<'a> {
    place: Place,
    tasks: Tasks,
    version: &'a str,
    /// How many prompts are simulated for the theory, if it is asked for.
    draws: Option<u32>,
}

impl Run<'_> {
    fn run(&self, plan: &Plan, data: Option<&Path>) -> Result<End, Error> {
        // Whatever can be refused is refused before the model is fetched.
        let sentences = data.map(Sentences::read).transpose()?.map(Arc::new);
        let out = &self.place.out;
        Store::check(out, self.tasks.resume)?;
        let model = load(&self.place.model, self.place.expand)?;
        let name = model_name(&self.place.model);
        let settings = plan.settings(&name, &model, sentences.as_deref())?;
        let store = Store::open(out, &settings, self.tasks.resume)?;
        let shard = self.tasks.shard.unwrap_or(Shard::WHOLE);
        let means = Means {
            model: model.clone(),
            sentences,
            threads: self.tasks.threads.unwrap_or_else(processors),
            shard,
            stop: LAB.listen("finishing the tasks under way"),
        };
        let mut progress = Progress::new();
        let finished = measure(&store, &means, |event| progress.tell(event));
        progress.bar.finish();
        if !finished? {
            return Ok(interrupted(out, self.tasks.resume));
        }
        if !shard.is_whole() {
            LAB.note(format!(
                "this share of the tasks is in {}; fewstep-lab reproduce merge puts all together",
                out.display()
            ));
            if self.draws.is_some() {
                LAB.note("theory has no shares; fewstep-lab reproduce theory measures it");
            }
            return Ok(End::Done);
        }
        let further = match self.draws {
            Some(draws) => vec![theory_section(&model, self.place.seed, draws)?],
            None => vec![],
        };
        let findings = Findings::read(std::slice::from_ref(out))?;
        finish(&findings, self.version, further, out)
    }
}

/// Writes and prints the report.
fn finish(
    findings: &Findings,
    version: &str,
    further: Vec<Section>,
    out: &Path,
) -> Result<End, Error> {
    let document = findings.document(&command(), version, further)?;
    publish(&document, out)?;
    Ok(if findings.failed() + findings.missing() > 0 { End::SomeFailed } else { End::Done })
}

fn publish(document: &Document, out: &Path) -> Result<(), Error> {
    document.write(out)?;
    say(&text(document));
    LAB.note(format!("the report is {}", out.join("report.html").display()));
    Ok(())
}

fn only_theory(flags: &Theory, version: &str) -> Result<End, Error> {
    let out = &flags.place.out;
    // What it finds is the same every time, so that an older report may go; results may not.
    Store::check(out, false).map_err(|error| match error {
        Error::ResultsInUse { directory, .. } => {
            Error::ResultsInUse { directory, remedy: "name another directory" }
        }
        other => other,
    })?;
    let model = load(&flags.place.model, flags.place.expand)?;
    let section = theory_section(&model, flags.place.seed, flags.draws.draws)?;
    let document = Document {
        title: "A Decision-Theoretic View of Test-Time Training: its theory, measured"
            .to_owned(),
        summary: vec![],
        settings: vec![
            ("command".to_owned(), command()),
            ("program".to_owned(), format!("fewstep {version}")),
            ("model".to_owned(), model_name(&flags.place.model)),
        ],
        sections: vec![section],
    };
    publish(&document, out)?;
    Ok(End::Done)
}

fn theory_section(model: &Model, seed: u64, draws: u32) -> Result<Section, Error> {
    let bar = Bar::of_steps(0, 0);
    let draws = draws as usize;
    let settings = TheorySettings { seed, draws, model: model.clone() };
    let section = theory(&settings, |what| bar.show_part(what, 0, 0));
    bar.finish();
    section
}

/// Puts the results of several runs together.
fn merge(flags: &Merge, version: &str) -> Result<End, Error> {
    let findings = Findings::read(&flags.directories)?;
    let store = Store::open(&flags.out, findings.settings(), false)?;
    if let Some(pilot) = findings.pilot() {
        store.keep_pilot(pilot)?;
    }
    for (part, lines) in findings.parts() {
        let (mut writer, _, _) = store.lines(part)?;
        for line in lines.values() {
            writer.write(line)?;
        }
    }
    if findings.missing() > 0 {
        LAB.note(format!("{} tasks are missing; the report says so", findings.missing()));
    }
    finish(&findings, version, vec![], &flags.out)
}

/// A model's name without the place where it happens to lie.
fn model_name(name: &str) -> String {
    let path = Path::new(name);
    let file = path.file_name().filter(|_| path.exists());
    file.map_or(name.to_owned(), |file| file.to_string_lossy().into_owned())
}

/// Where a run is: a bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Bar,
    started: Instant,
    spoken: Instant,
    /// How many tasks were done when the run began.
    before: Option<usize>,
}

impl Progress {
    fn new() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the tool tells how long it takes")]
        let now = Instant::now();
        Self { bar: Bar::of_steps(0, 0), started: now, spoken: now, before: None }
    }

    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Note(text) => self.bar.aside(|| LAB.note(text)),
            Event::Tasks { part, done, total } => {
                if self.before.is_none() {
                    self.bar.begin_at(done);
                }
                let before = *self.before.get_or_insert(done);
                self.bar.show_part(part, done, total);
                if !io::stderr().is_terminal() && self.spoken.elapsed() > SILENCE {
                    self.spoken += self.spoken.elapsed();
                    let each = self.started.elapsed()
                        / u32::try_from(done - before).unwrap_or(1).max(1);
                    let left = each * u32::try_from(total - done).unwrap_or(u32::MAX);
                    LAB.note(format!(
                        "{part}: {done} of {total} tasks, {} min left",
                        left.as_secs().div_ceil(60)
                    ));
                }
            }
        }
    }
}

/// What was typed.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once(LAB.name.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Says where an interrupted run is and how to continue it.
fn interrupted(out: &Path, resumed: bool) -> End {
    LAB.note(format!(
        "interrupted; what is measured is in {}; to continue: {}",
        out.display(),
        again(resumed)
    ));
    End::Interrupted
}

/// What to type after an interrupt.
fn again(resumed: bool) -> String {
    let flag = if resumed { "" } else { " --resume" };
    command() + flag
}

/// The report in a few lines: the first table of every section, and all claims.
fn text(document: &Document) -> String {
    let claims = || document.sections.iter().flat_map(|section| &section.claims);
    let count = |verdict| claims().filter(|claim| claim.verdict == verdict).count();
    let mut text = document.summary.join("\n") + "\n";
    if claims().count() > 0 {
        text += &format!(
            "Of {} claims {} held, {} did not, and {} are undecided at this sample size.\n",
            claims().count(),
            count(Verdict::Held),
            count(Verdict::NotHeld),
            count(Verdict::Undecided)
        );
    }
    for section in &document.sections {
        text += &format!("\n{}\n", section.title);
        for table in section.tables.iter().take(1) {
            text += &aligned(table);
        }
        for claim in &section.claims {
            let verdict = short(claim.verdict);
            text += &format!(
                "{verdict:>9}  {}\n           here  {}\n           paper {}\n",
                claim.statement, claim.measured, claim.paper
            );
        }
    }
    text
}

/// A table in columns.
fn aligned(table: &Table) -> String {
    let lines = || std::iter::once(&table.header).chain(&table.rows);
    let width = |column: usize| {
        lines().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> =
        (0..table.header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = format!("{}\n", table.caption);
    for row in lines() {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// A result.
fn say(text: &str) {
    // A reader that has gone away has seen what it wanted.
    let _ = io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_called_by_its_name_not_its_place() {
        assert_eq!(model_name("builtin"), "builtin");
        assert_eq!(model_name("some/hub-id"), "some/hub-id");
        let here = env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml";
        assert_eq!(model_name(&here), "Cargo.toml");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let table = Table {
            caption: "numbers".to_owned(),
            header: row(["σ²", "n"]),
            rows: vec![row(["a", "10"]), row(["long", "9"])],
        };
        assert_eq!(aligned(&table), "numbers\n  σ²     n\n  a     10\n  long   9\n");
    }
}

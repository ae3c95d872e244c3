//! A run: from the flags to the last answer.

use super::FEWSTEP;
use super::arguments::{Predict, Shared};
use super::console::{End, processors, quoted};
use super::progress::Bar;
use super::sink::{Place, Sink};
use crate::adapter::{self, Adapters, Saving};
use crate::builtin::{self, BUILTIN};
use crate::error::Error;
use crate::figure;
use crate::out::{Done, Out};
use crate::predictor::{Action, Answered, Predictor};
use crate::report::{AnyReport, Failure};
use crate::stream::{guarded, in_order};
use crate::tasks::{Line, Tasks};
use crate::text::{Style, Summary};
use fewstep_engine::{HubSettings, Model, Query, Task, TaskKind};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What a run does with each task, besides reporting.
pub(super) struct Work {
    predictor: Predictor,
    adapters: Option<Adapters>,
    save: Option<Saving>,
    figures: Option<PathBuf>,
    /// What a run before has answered.
    pub(super) done: Done,
}

/// What came of a line.
pub(super) enum Answer {
    /// An answer.
    Report(AnyReport),
    /// Why there is no answer, and whether there was no task at all.
    Failure(Failure, bool),
    /// A run before has answered it.
    Skipped,
}

/// The command `fewstep predict`.
pub(super) fn predict(arguments: Predict) -> Result<End, Error> {
    let Predict { shared, save_adapter, adapter_format, adapter } = arguments;
    let predictor = predictor(&shared, Action::Act)?.with_updates(save_adapter.is_some());
    let adapters =
        adapter.as_deref().map(|path| Adapters::open(path, predictor.model().network()));
    let adapters = adapters.transpose()?;
    save_adapter.as_deref().map_or(Ok(()), adapter::make_directory)?;
    let save = save_adapter.map(|directory| Saving {
        directory,
        format: adapter_format.into(),
        base: (shared.model != BUILTIN).then(|| shared.model.clone()),
    });
    let work = Work { adapters, save, ..Work::new(predictor, &shared)? };
    run(&shared, work, false)
}

/// The command `fewstep decide`.
pub(super) fn decide(shared: Shared) -> Result<End, Error> {
    let predictor = predictor(&shared, Action::Decide)?;
    let work = Work::new(predictor, &shared)?;
    run(&shared, work, true)
}

/// The model with the settings that the flags ask for.
fn predictor(shared: &Shared, action: Action) -> Result<Predictor, Error> {
    let options = shared.options()?;
    options.predictor(load(&shared.model, shared.expand)?, action)
}

/// A model by its name, with a bar for what is downloaded; with `expand`, dequantised.
///
/// # Errors
///
/// Those of [`load`](crate::load).
pub fn load(name: &str, expand: bool) -> Result<Model, Error> {
    let mut bar: Option<Bar> = None;
    let model = builtin::load(name, &HubSettings::from_environment(), |progress| {
        let bar = bar.get_or_insert_with(|| Bar::of_download(progress.total));
        bar.show_download(progress.file, progress.done);
        if progress.done >= progress.total {
            bar.finish();
        }
    })?;
    Ok(if expand { model.dequantised() } else { model })
}

impl Work {
    fn new(predictor: Predictor, shared: &Shared) -> Result<Self, Error> {
        let figures = shared.figures.clone();
        figures.as_deref().map_or(Ok(()), adapter::make_directory)?;
        Ok(Self { predictor, adapters: None, save: None, figures, done: Done::default() })
    }

    /// Answers a line, whatever it holds: a task with a list of queries has an answer for each.
    fn answer(&self, line: Line) -> (u64, Vec<Answer>) {
        let Line { file, number, end, id, task } = line;
        if id.as_deref().is_some_and(|id| task.is_ok() && self.done.answered(id)) {
            return (end, vec![Answer::Skipped]);
        }
        let listed = task.as_ref().ok().and_then(|task| task.further.as_ref()).is_some();
        let before = id.as_deref().filter(|_| listed).map_or(0, |id| self.done.queries(id));
        if task.as_ref().is_ok_and(|task| before > 0 && before >= task.queries().count()) {
            return (end, (0..before).map(|_| Answer::Skipped).collect());
        }
        let failed = |error: Error, query: Option<usize>| {
            let nothing = matches!(error, Error::NoTasks { .. });
            let error = match &file {
                Some(file) => format!("{}: {}", file.display(), error.with_flags()),
                None => error.with_flags(),
            };
            Answer::Failure(Failure { id: id.clone(), line: number, query, error }, nothing)
        };
        let answers = match task.and_then(|task| guarded(|| self.reports(&task))) {
            Err(error) => vec![failed(error, None)],
            Ok(reports) => {
                let answer = |(index, report): (usize, Result<AnyReport, Error>)| match report {
                    _ if index < before => Answer::Skipped,
                    Ok(report) => Answer::Report(report),
                    Err(error) => failed(error, listed.then_some(index)),
                };
                reports.into_iter().enumerate().map(answer).collect()
            }
        };
        (end, answers)
    }

    /// A report for each query of a task.
    fn reports(&self, task: &Task) -> Result<Vec<Result<AnyReport, Error>>, Error> {
        if task.kind() == TaskKind::Classification {
            let flags = [
                (self.adapters.is_some(), "--adapter"),
                (self.save.is_some(), "--save-adapter"),
            ];
            if let Some((_, flag)) = flags.into_iter().find(|(asked, _)| *asked) {
                return Err(Error::AdapterForClasses { flag });
            }
        }
        if let Some(adapters) = &self.adapters {
            let update = adapters.of(task, self.predictor.model().network())?;
            let apply = |(index, query): (usize, &Query)| {
                let mut report = self.predictor.apply(&task.asking(query), &update)?;
                report.query = task.further.is_some().then_some(index);
                Ok(report.into())
            };
            return Ok(task.queries().enumerate().map(apply).collect());
        }
        let answers = self.predictor.answers(task)?;
        let report = |answer: Result<Answered, Error>| {
            let Answered { report, update } = answer?;
            if let (Some(saving), Some(update)) = (&self.save, &update) {
                saving.save(task, update, self.predictor.model())?;
            }
            if let Some(directory) = &self.figures {
                figure::draw(&report, directory)?;
            }
            Ok(report)
        };
        Ok(answers.into_iter().map(report).collect())
    }
}

/// Answers all tasks.
fn run(shared: &Shared, mut work: Work, charts: bool) -> Result<End, Error> {
    #[allow(clippy::disallowed_methods, reason = "the tool tells how long it took")]
    let started = Instant::now();
    let tasks = Tasks::open(shared.tasks.clone())?;
    let (out, done) = match &shared.out {
        Some(path) => Out::open(path, shared.resume).map(|(out, done)| (Some(out), done))?,
        None => (None, Done::default()),
    };
    if done.dropped > 0 {
        FEWSTEP.note("the last line of the answers was incomplete; its task is answered again");
    }
    work.done = done;
    let work = Arc::new(work);
    let place = match out {
        Some(out) => Place::File(out),
        None if shared.json => Place::Json,
        None => Place::Text(style()),
    };
    let mut sink = Sink::new(place, Arc::clone(&work), Bar::new(tasks.bytes()?));
    sink.full = shared.full;
    sink.charts = charts;
    let stop = FEWSTEP.listen("finishing the tasks under way");
    let threads = shared.threads.unwrap_or_else(processors);
    // Tasks share one pool: where there are fewer of them than threads, their products are
    // divided, and no number changes by it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Error::Threads { threads, reason: error.to_string() })?;
    let answer = move |line| pool.install(|| work.answer(line));
    in_order(tasks, answer, threads, Arc::clone(&stop), |(end, answers)| {
        sink.take_all(end, answers)
    });
    let interrupted = stop.load(Ordering::SeqCst);
    let summary = match sink.close((!shared.json).then(|| started.elapsed()), style()) {
        Ok(Some(summary)) => summary,
        Ok(None) => return Ok(End::Done),
        Err(error) => {
            FEWSTEP.note(error);
            return Ok(End::SomeFailed);
        }
    };
    if interrupted {
        FEWSTEP.note(how_to_go_on(shared, summary.answered));
        return Ok(End::Interrupted);
    }
    Ok(match summary {
        Summary { failed: 0, .. } => End::Done,
        Summary { answered: 0, skipped: 0, failed, empty, .. } if failed == empty => {
            End::NothingRan
        }
        _ => End::SomeFailed,
    })
}

/// What to type after an interrupt.
fn how_to_go_on(shared: &Shared, answered: u64) -> String {
    let begin = format!("interrupted after {answered} answers");
    let Some(out) = &shared.out else {
        return format!("{begin}; with --out FILE a run can be continued by --resume");
    };
    let mut words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
    if !shared.resume {
        words.push("--resume".to_owned());
    }
    format!("{begin}, all of them in {}; to continue: {}", out.display(), words.join(" "))
}

/// Colours if standard output is a terminal and nobody objects.
fn style() -> Style {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let dumb = variable("TERM").is_some_and(|terminal| terminal == "dumb");
    let colour = io::stdout().is_terminal() && variable("NO_COLOR").is_none() && !dumb;
    Style { colour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_its_task() {
        let numbers: Vec<u32> = Vec::new();
        let found = guarded(|| Ok(numbers[numbers.len()]));
        let problem = "index out of bounds: the len is 0 but the index is 0".to_owned();
        assert_eq!(found, Err(Error::Mistake { problem }));
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }
}

//! `fewstep-lab bench`: measures the engine, and PyTorch beside it, and writes down what came out.

use super::arguments::Bench;
use super::{LAB, say};
use crate::bench::{self, BenchSettings, Curve, Event, Machine, Price, Report, RowName, Work};
use crate::error::{Error, refused};
use fewstep::adapter::make_directory;
use fewstep::cli::{Bar, End};
use fewstep::text::day;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rounds without `--rounds`, and with `--quick`.
const ROUNDS: usize = 5;

/// Rounds of long rows end after this time without `--rounds`.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures and reports.
pub(super) fn bench(arguments: &Bench, version: &'static str) -> Result<End, Error> {
    if let [model, case, rest @ ..] = &arguments.child[..] {
        let peak = bench::child(model, case, !rest.is_empty())?;
        say(&serde_json::to_string(&peak).expect("numbers become JSON"));
        return Ok(End::Done);
    }
    let (quick, cache) = (arguments.quick, cache()?);
    if let Some(side) = arguments.peak {
        let peak = bench::peak(side, &bench::smollm2_file(&cache), quick)?;
        say(&serde_json::to_string(&peak).expect("numbers become JSON"));
        return Ok(End::Done);
    }
    let settings = BenchSettings {
        torch: arguments.torch.clone(),
        works: works(&arguments.work),
        prices: prices(&arguments.work),
        llama: arguments.llama.clone().unwrap_or_else(|| cache.join("bench-llama")),
        rounds: arguments.rounds.unwrap_or(if quick { 1 } else { ROUNDS }),
        // Who asks for a number of rounds waits for them.
        patience: arguments.rounds.is_none().then_some(PATIENCE),
        quick,
        curves: arguments.curves,
        threads: arguments.threads,
        cache,
        program: std::env::current_exe().map_err(refused(Path::new("fewstep-lab"), "find"))?,
        version,
    };
    let stop = LAB.listen("ending the benchmark after this run");
    let bar = Bar::of_steps(0, 0);
    let found = bench::run(&settings, &stop, &mut |event| match event {
        Event::Doing { what, done, total } => bar.show_part(what, done, total),
        Event::Note(text) => bar.aside(|| LAB.note(text)),
    });
    bar.finish();
    let report = found?;
    if report.interrupted && report.is_empty() {
        LAB.note("interrupted; nothing was measured");
        return Ok(End::Interrupted);
    }
    say(report.text().trim_end());
    if let Some(directory) = out(arguments, &report.machine) {
        write(&report, &directory)?;
        LAB.note(format!("the report is in {}", directory.display()));
    }
    Ok(if report.interrupted { End::Interrupted } else { End::Done })
}

/// The rows that are asked for, each once, as they stand in the table.
fn works(asked: &[RowName]) -> Vec<Work> {
    let wanted = |&work: &Work| asked.is_empty() || asked.contains(&RowName::Work(work));
    Work::ALL.into_iter().filter(wanted).collect()
}

/// The same for the rows about the price of in-context learning.
fn prices(asked: &[RowName]) -> Vec<Price> {
    let all = asked.is_empty() || asked.contains(&RowName::Prices);
    let wanted = |&price: &Price| all || asked.contains(&RowName::Price(price));
    Price::ALL.into_iter().filter(wanted).collect()
}

/// This program's directory in the user's cache.
fn cache() -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    cache.map(|cache| cache.join("fewstep")).ok_or(Error::NoCache)
}

/// Where the report goes; tiny shapes are not worth a place of their own.
fn out(arguments: &Bench, machine: &Machine) -> Option<PathBuf> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let default = || format!("bench/runs/{}-{}", day(seconds), machine.slug()).into();
    arguments.out.clone().or_else(|| (!arguments.quick).then(default))
}

/// Each file appears when it is complete.
fn write(report: &Report, directory: &Path) -> Result<(), Error> {
    make_directory(directory)?;
    let mut files = vec![
        (
            "report.json".to_owned(),
            serde_json::to_string_pretty(report).expect("it becomes JSON") + "\n",
        ),
        ("report.md".to_owned(), report.markdown()),
    ];
    files.extend(report.curves.iter().flat_map(Curve::drawings));
    for (name, text) in files {
        let (file, part) = (directory.join(&name), directory.join(format!("{name}.part")));
        std::fs::write(&part, text).map_err(refused(&part, "write"))?;
        std::fs::rename(&part, &file).map_err(refused(&file, "write"))?;
    }
    Ok(())
}

//! The benchmark: how long the work takes here and in PyTorch, on the same weights and prompts, and
//! what an answer costs against a plain forward pass here and in llama.cpp.
//!
//! In: [`BenchSettings`]. Out: a [`Report`] with times, ratios, rates, memory and growth. Models and
//! tasks are random and the same each time; `bench/README.md` says what is measured.
//!
//! Only `fewstep-lab bench` uses this: it starts processes and measures this machine.

mod agreement;
mod cases;
mod count;
mod curves;
mod grow;
mod machine;
mod measure;
mod memory;
mod models;
mod own;
mod price;
mod report;
mod tables;
mod torch;
mod works;

pub(crate) use curves::Curve;
pub(crate) use machine::Machine;
pub(crate) use memory::child;
pub(crate) use price::{Price, RowName, Side, child as peak};
pub(crate) use report::Report;
pub(crate) use works::Work;

use crate::error::Error;
use curves::Growing;
use measure::{Bench, Held};
use models::Shelf;
use price::{Models, Priced};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What to measure, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BenchSettings {
    /// A Python that has PyTorch; without one only the engine is measured.
    pub(crate) torch: Option<PathBuf>,
    /// The rows, in this order.
    pub(crate) works: Vec<Work>,
    /// The rows about the price of in-context learning, in this order.
    pub(crate) prices: Vec<Price>,
    /// Where `node-llama-cpp` is installed.
    pub(crate) llama: PathBuf,
    /// Timed runs of each side.
    pub(crate) rounds: usize,
    /// How long the rounds of a row about the price of in-context learning may take; at least one is
    /// run.
    pub(crate) patience: Option<Duration>,
    /// Tiny shapes, to see that everything works.
    pub(crate) quick: bool,
    /// Whether growth curves are measured too.
    pub(crate) curves: bool,
    /// Tasks at the same time.
    pub(crate) threads: usize,
    /// This program's directory in the user's cache, for large models.
    pub(crate) cache: PathBuf,
    /// This program, which measures its memory in a process of its own.
    pub(crate) program: PathBuf,
    /// The version to report.
    pub(crate) version: &'static str,
}

/// What a run tells while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A part begins.
    Doing {
        /// What it is.
        what: &'a str,
        /// Parts before it.
        done: usize,
        /// All parts.
        total: usize,
    },
    /// Something to know.
    Note(&'a str),
}

/// Measures everything, or what is done when `stop` is raised.
///
/// # Errors
///
/// [`Error::Disagree`] if both sides find different numbers, [`Error::Worker`] if a process fails,
/// and those of reading and running models.
pub(crate) fn run(
    settings: &BenchSettings,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Report, Error> {
    let mut bench = Bench::new(settings, stop, tell, parts(settings))?;
    let mut report = Report {
        machine: Machine::here(),
        version: settings.version,
        torch: None,
        rounds: settings.rounds,
        threads: settings.threads,
        quick: settings.quick,
        product_rate: bench.product_rate()?,
        rows: Vec::new(),
        memory: Vec::new(),
        prices: Vec::new(),
        curves: Vec::new(),
        skipped: Vec::new(),
        interrupted: false,
    };
    let found = measure(settings, &mut bench, &mut report);
    report.torch = bench.torch.clone();
    report.interrupted = bench.stopped();
    // Workers hear of an interrupt, too, and may end in the middle of an answer.
    found.or_else(|error| if report.interrupted { Ok(()) } else { Err(error) })?;
    Ok(report)
}

/// Everything that is asked for, as far as the run is not stopped.
fn measure(
    settings: &BenchSettings,
    bench: &mut Bench<'_>,
    report: &mut Report,
) -> Result<(), Error> {
    let mut held: Option<Held> = None;
    for &work in &settings.works {
        let kind = work.shape(settings.quick).model;
        if held.as_ref().is_none_or(|held| held.kind != kind) {
            // One model at a time.
            drop(held.take());
            held = Held::open(bench, kind)?;
        }
        let Some(held) = &held else {
            let reason = without_file(&bench.shelf);
            skip(bench, report, format!("{work}: {reason}"));
            continue;
        };
        if work.is_memory() {
            report.memory.extend(bench.memory_row(work, held)?);
        } else {
            let row = bench.row(work, held)?;
            row.iter().for_each(|row| bench.note(&tables::line(row)));
            report.rows.extend(row);
        }
        if bench.stopped() {
            return Ok(());
        }
    }
    bench.end_pools();
    drop(held.take());
    price(settings, bench, report)?;
    if settings.curves
        && !bench.stopped()
        && let Some(held) = Held::open(bench, works::ModelKind::Gpt2)?
    {
        report.curves = bench.grow(&held)?;
    }
    Ok(())
}

/// The rows about the price of in-context learning, as far as the run is not stopped.
fn price(
    settings: &BenchSettings,
    bench: &mut Bench<'_>,
    report: &mut Report,
) -> Result<(), Error> {
    if settings.prices.is_empty() {
        return Ok(());
    }
    let models = Models::open(&bench.shelf.smollm2_file(), settings.quick)?;
    for &price in &settings.prices {
        let Some(models) = &models else {
            let reason = without_file(&bench.shelf);
            skip(bench, report, format!("{price}: {reason}"));
            continue;
        };
        match bench.price(price, models)? {
            Priced::Row(row) => {
                bench.note(&tables::price_line(&row));
                report.prices.push(row);
            }
            Priced::Skipped(reason) => skip(bench, report, format!("{price}: {reason}")),
            Priced::Stopped => return Ok(()),
        }
    }
    Ok(())
}

fn without_file(shelf: &Shelf) -> String {
    format!("{} is not there; run models/smollm2", shelf.smollm2_file().display())
}

/// Leaves a row out and says so.
fn skip(bench: &mut Bench<'_>, report: &mut Report, line: String) {
    bench.note(&format!("skipped {line}"));
    report.skipped.push(line);
}

/// The file of SmolLM2 in a cache directory of this program.
pub(crate) fn smollm2_file(cache: &Path) -> PathBuf {
    Shelf::new(cache, cache, false).smollm2_file()
}

/// How many parts a run tells of.
fn parts(settings: &BenchSettings) -> usize {
    let curves = Growing::ALL.into_iter().map(|axis| {
        let threads = if axis == Growing::Tasks { 2 } else { 1 };
        threads * axis.sizes(settings.quick).len()
    });
    let curves = if settings.curves { curves.sum() } else { 0 };
    (settings.works.len() + settings.prices.len()) * (settings.rounds + 1) + curves
}

//! Peak memory above the weights, each time in a process of its own.

use super::cases::Case;
use super::machine;
use super::measure::{Bench, Held};
use super::models;
use super::own::{Job, Timing, now};
use super::report::{MemoryRow, MemoryVariant, Spread};
use super::torch::{Request, Worker};
use super::works::{Action, Work};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;

/// Memory is much the same each time.
pub(super) const MOST_ROUNDS: usize = 3;

/// Resident memory in bytes before a work and at its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peak {
    /// With the weights and all that is made once.
    pub(crate) before: u64,
    /// The most during the work.
    pub(crate) peak: u64,
}

impl Peak {
    /// What the work took.
    pub(crate) fn above(self) -> u64 {
        self.peak.saturating_sub(self.before)
    }
}

/// What one run of a work took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Its memory; `None` where the operating system does not say how much is resident.
    pub(crate) peak: Option<Peak>,
    /// Its time.
    pub(crate) timing: Timing,
}

/// What a worker reads: a model, the short task that it works on first, and the one that counts.
#[derive(Clone, Copy, Debug)]
struct WorkerFiles<'a> {
    model: &'a Path,
    first: &'a Path,
    case: &'a Path,
}

/// Works on a task in this process, which does nothing else.
///
/// A short task is worked on first, so that what is made once is there before.
///
/// # Errors
///
/// Those of reading the model and the task, and of the work.
pub(crate) fn child(model: &Path, case: &Path, further: bool) -> Result<Taken, Error> {
    let network = models::open(model)?;
    let case = Case::read(case)?;
    Job::new(&network, &case.cut(), Action::Steps)?.run()?;
    let action = if further { Action::Further } else { Action::Steps };
    let job = Job::new(&network, &case, action)?;
    let before = machine::forget_peak().and_then(|()| machine::resident());
    // In the thread that did the short task, as in PyTorch: what it keeps for later serves here.
    let started = now();
    let steps = job.run()?.steps.as_secs_f64();
    let timing = Timing { task: started.elapsed().as_secs_f64(), steps };
    let peak = before.zip(machine::peak()).map(|(before, peak)| Peak { before, peak });
    Ok(Taken { peak, timing })
}

impl Bench<'_> {
    /// Memory of a work on both sides; `None` where it cannot be measured.
    pub(super) fn memory_row(
        &mut self,
        work: Work,
        held: &Held,
    ) -> Result<Option<MemoryRow>, Error> {
        self.end_pools();
        let shape = work.shape(self.settings.quick);
        self.begin(&format!("{work}: making it ready"));
        let case = Case::new(&shape, self.layers(), &held.network)?;
        let (file, first) = (self.file(&format!("{work}.json")), self.file("first.json"));
        case.write(&file)?;
        case.cut().write(&first)?;
        let rounds = self.settings.rounds.min(MOST_ROUNDS);
        let mut own = Vec::new();
        let mut others = vec![Vec::new(); work.targets().len()];
        for round in 1..=self.settings.rounds {
            self.begin(&format!("{work}: round {round}"));
            if round > rounds {
                continue;
            }
            let Some(peak) = self.child(&held.directory, &file, shape.action)?.peak else {
                self.note(&format!("{work}: how much memory is taken is not known here"));
                return Ok(None);
            };
            own.push(peak);
            let variants = work.targets().iter().filter(|_| self.settings.torch.is_some());
            for (peaks, (variant, _)) in others.iter_mut().zip(variants) {
                let files = WorkerFiles { model: &held.directory, first: &first, case: &file };
                peaks.extend(self.worker_peak(variant.name(), files)?);
            }
            if self.stopped() {
                return Ok(None);
            }
        }
        let weights = std::fs::metadata(held.directory.join("model.safetensors"));
        let Some((bytes, before)) = middle(&own) else { return Ok(None) };
        let quick = self.settings.quick;
        let variants = work.targets().iter().zip(&others).filter_map(|(target, peaks)| {
            let (other, before) = middle(peaks)?;
            let ratio = bytes.median / other.median;
            let (variant, target) = (target.0.name(), target.1.filter(|_| !quick));
            let reached = target.map(|target| ratio <= target);
            Some(MemoryVariant { variant, bytes: other, before, ratio, target, reached })
        });
        Ok(Some(MemoryRow {
            work: work.to_string(),
            title: work.title(),
            bytes,
            before,
            weights: weights.map_or(0, |file| file.len()),
            variants: variants.collect(),
        }))
    }

    /// Runs this program once more on one task.
    pub(super) fn child(
        &self,
        model: &Path,
        case: &Path,
        action: Action,
    ) -> Result<Taken, Error> {
        let program = &self.settings.program;
        let failed = |problem: String| Error::Worker { program: program.clone(), problem };
        let mut command = Command::new(program);
        command.arg("bench").arg("--child").arg(model).arg(case);
        if action == Action::Further {
            command.arg("further");
        }
        let output = command.output().map_err(|error| failed(error.kind().to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
    }

    /// A fresh worker with one thread, on a short task first.
    fn worker_peak(
        &self,
        variant: &'static str,
        files: WorkerFiles<'_>,
    ) -> Result<Option<Peak>, Error> {
        let Some(python) = &self.settings.torch else { return Ok(None) };
        let mut worker = Worker::start(python, self.scripts(), 1)?;
        let request = |case: &Path| Request::Work {
            model: files.model.to_path_buf(),
            case: case.to_path_buf(),
            variant,
            work: "steps",
            repeats: 1,
            numbers: false,
            count: false,
        };
        worker.ask(&request(files.first))?;
        let answer = worker.ask(&request(files.case))?;
        Ok(answer.before.zip(answer.peak).map(|(before, peak)| Peak { before, peak }))
    }
}

/// The middle of what was taken, and of what was there before.
fn middle(peaks: &[Peak]) -> Option<(Spread, u64)> {
    let above: Vec<f64> = peaks.iter().map(|peak| peak.above() as f64).collect();
    let mut before: Vec<u64> = peaks.iter().map(|peak| peak.before).collect();
    before.sort_unstable();
    Some((Spread::of(&above)?, before[before.len() / 2]))
}

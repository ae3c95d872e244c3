//! Measures the growth curves; the engine alone, since only its own growth is asked for.

use super::cases::Case;
use super::curves::{Curve, Growing, Measured, title};
use super::measure::{Bench, Held, repeats};
use super::memory::Peak;
use super::own::{Job, Timing};
use super::report::Spread;
use crate::error::Error;
use fewstep_engine::{Lora, memory_plan};

/// What a task may take of the machine's memory.
const SHARE: f64 = 0.5;

/// Runs of each size; one that takes longer, in seconds, is the only one.
const ROUNDS: usize = 3;
const LONG: f64 = 5.0;

impl Bench<'_> {
    /// All curves, as far as the run is not stopped.
    pub(super) fn grow(&mut self, held: &Held) -> Result<Vec<Curve>, Error> {
        let mut curves = Vec::new();
        for axis in Growing::ALL {
            let threads = match axis {
                Growing::Tasks => vec![1, self.settings.threads],
                _ => vec![1],
            };
            for threads in threads {
                let mut points = Vec::new();
                for &size in axis.sizes(self.settings.quick) {
                    self.begin(&format!("{} {size}", title(axis, threads)));
                    if self.stopped() {
                        break;
                    }
                    let found = self.point(held, axis, threads, size)?;
                    found.iter().for_each(|point| self.note(&point.line(axis, threads)));
                    points.extend(found);
                }
                if !points.is_empty() {
                    curves.push(Curve::new(axis, threads, points));
                }
            }
        }
        Ok(curves)
    }

    /// One size; `None` if it does not fit.
    fn point(
        &mut self,
        held: &Held,
        axis: Growing,
        threads: usize,
        size: usize,
    ) -> Result<Option<Measured>, Error> {
        let (shape, layers, steps) = axis.task(size);
        let config = held.network.config();
        let layers = layers.min(config.layers);
        if let Some(problem) = self.too_large(held, &Case::drawn(&shape, layers, config))? {
            self.note(&format!("{} {size} is left out: {problem}", axis.name()));
            return Ok(None);
        }
        let case = Case::new(&shape, layers, &held.network)?.with_steps(steps);
        let rows = case.task()?.layout()?.rows();
        let job = Job::new(&held.network, &case, shape.action)?;
        if axis == Growing::Tasks {
            // Tasks are spread evenly over the threads.
            let tasks = size.div_ceil(threads);
            let Timing { task: seconds, steps: step_seconds } =
                self.middle(&job, threads, tasks, job.time(threads, tasks)?)?;
            let size = threads * tasks;
            return Ok(Some(Measured { size, seconds, step_seconds, rows, bytes: None }));
        }
        let file = self.file("growth.json");
        case.write(&file)?;
        let taken = self.child(&held.directory, &file, shape.action)?;
        let Timing { task: seconds, steps: step_seconds } =
            self.middle(&job, threads, 1, taken.timing)?;
        let bytes = taken.peak.map(Peak::above);
        Ok(Some(Measured { size, seconds, step_seconds, rows, bytes }))
    }

    /// How long all tasks take: the middle of some runs, or the first run if it took long.
    fn middle(
        &self,
        job: &Job<'_>,
        threads: usize,
        tasks: usize,
        first: Timing,
    ) -> Result<Timing, Error> {
        let all = (threads * tasks) as f64;
        let of_all =
            |timing: Timing| Timing { task: timing.task * all, steps: timing.steps * all };
        let first = of_all(first);
        if first.task > LONG {
            return Ok(first);
        }
        let (rounds, repeats) =
            if self.settings.quick { (1, 1) } else { (ROUNDS, repeats(first.task)) };
        let runs = (0..rounds).map(|_| Ok(of_all(job.time(threads, tasks * repeats)?)));
        let runs: Vec<Timing> = runs.collect::<Result<_, Error>>()?;
        let middle = |part: fn(&Timing) -> f64| {
            let values: Vec<f64> = runs.iter().map(part).collect();
            Spread::of(&values).map_or(0.0, |spread| spread.median)
        };
        Ok(Timing { task: middle(|run| run.task), steps: middle(|run| run.steps) })
    }

    /// Why a task cannot be worked on here, if it cannot.
    fn too_large(&self, held: &Held, case: &Case) -> Result<Option<String>, Error> {
        let config = held.network.config();
        let longest = case.sequences().iter().map(|sequence| sequence.len()).max().unwrap_or(0);
        if longest > config.positions {
            return Ok(Some(format!("{longest} tokens are more than the model takes")));
        }
        let (layout, blocks) = (case.task()?.layout()?, case.blocks(config)?);
        let needed = memory_plan(config, &layout, &blocks, &Lora::default(), size_of::<f32>());
        let memory = super::machine::Machine::here().memory.unwrap_or(u64::MAX);
        let fits = needed as f64 <= SHARE * memory as f64;
        Ok((!fits).then(|| format!("{} MiB are more than half of the memory", needed >> 20)))
    }
}

//! Measures the growth curves; the engine alone, since only its own growth is asked for.

use super::cases::Case;
use super::curves::{Curve, Growing, Measured, title};
use super::measure::{Bench, Held, repeats};
use super::own::Job;
use super::report::Spread;
use crate::error::Error;
use fewstep_engine::{Lora, memory_plan};

/// What a task may take of the machine's memory.
const SHARE: f64 = 0.5;

/// Runs of each size; long ones run once.
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
                        return Ok(curves);
                    }
                    points.extend(self.point(held, axis, threads, size)?);
                }
                curves.push(Curve::new(axis, threads, points));
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
        let job = Job::new(&held.network, &case, shape.action)?;
        // Tasks are spread evenly over the threads.
        let tasks = if axis == Growing::Tasks { size.div_ceil(threads) } else { 1 };
        let warm = job.time(threads, tasks)?;
        let all = (threads * tasks) as f64;
        let short = repeats(warm.task * all);
        let rounds = if warm.task * all > LONG || self.settings.quick { 1 } else { ROUNDS };
        let (mut seconds, mut step_seconds) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let timing =
                job.time(threads, tasks * if self.settings.quick { 1 } else { short })?;
            seconds.push(timing.task * all);
            step_seconds.push(timing.steps * all);
        }
        let middle = |runs: &[f64]| Spread::of(runs).map_or(0.0, |spread| spread.median);
        let bytes = match axis {
            Growing::Tasks => None,
            _ => {
                let file = self.file("growth.json");
                case.write(&file)?;
                self.child(&held.directory, &file, shape.action)?.map(|peak| peak.above())
            }
        };
        let rows = case.task()?.layout()?.rows();
        let (seconds, step_seconds) = (middle(&seconds), middle(&step_seconds));
        let size = if axis == Growing::Tasks { threads * tasks } else { size };
        Ok(Some(Measured { size, seconds, step_seconds, rows, bytes }))
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

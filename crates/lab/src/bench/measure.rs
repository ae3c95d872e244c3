//! The run itself: both sides in turn, never two pools of threads at the same time.

use super::agreement::{Agreement, Compared, compare};
use super::cases::{Case, LAYERS};
use super::count::{Formulas, Operations};
use super::models::{self, Shelf};
use super::own::{Job, Timing};
use super::report::{Row, Spread, VariantRow};
use super::torch::{Pools, Request, write_scripts};
use super::works::{Action, ModelKind, Variant, Work};
use super::{BenchSettings, Event};
use crate::error::Error;
use fewstep::adapter::make_directory;
use fewstep_engine::Network;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a timed run should take at least; short work is repeated.
const LEAST: f64 = 0.3;

/// The most repeats.
const MOST_REPEATS: usize = 50;

/// Work that takes longer, in seconds, is run once.
const LONG: f64 = 60.0;

/// Threads of PyTorch go on spinning for a while after their work.
const PAUSE: Duration = Duration::from_millis(300);

/// The product whose rate is that of the machine.
const PRODUCT: [usize; 3] = [512, 768, 3072];

/// A directory of this run, which goes with it.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("fewstep-bench-{}", std::process::id()));
        make_directory(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A run that is under way.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a BenchSettings,
    stop: &'a AtomicBool,
    tell: &'a mut dyn FnMut(Event<'_>),
    pub(super) shelf: Shelf,
    scratch: Scratch,
    /// Processes that have one model read, and which.
    pools: Option<(ModelKind, Pools)>,
    pub(super) torch: Option<String>,
    done: usize,
    total: usize,
}

/// Who works, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Own { threads: usize },
    Together(Variant),
    Apart(Variant),
}

/// The runs of one of them.
struct Side {
    runner: Runner,
    repeats: usize,
    /// Seconds of the first run.
    first: f64,
    /// A run takes so long that the first counts and is the only one.
    once: bool,
    seconds: Vec<f64>,
    steps: Vec<f64>,
}

/// All runs of a work, how far each way in PyTorch is apart from ours, and what it takes.
struct Runs {
    sides: Vec<Side>,
    agreements: Vec<Agreement>,
    operations: Vec<Option<f64>>,
}

/// A work, ready for both sides.
pub(super) struct Ready<'a> {
    pub(super) work: Work,
    pub(super) job: Job<'a>,
    pub(super) case: &'a Case,
    action: Action,
    model: &'a Path,
    file: PathBuf,
}

impl Ready<'_> {
    pub(super) fn request(&self, variant: Variant, repeats: usize, numbers: bool) -> Request {
        Request::Work {
            model: self.model.to_path_buf(),
            case: self.file.clone(),
            variant: variant.name(),
            work: self.action.of_worker(),
            repeats,
            numbers,
            count: false,
        }
    }

    fn count(&self, variant: Variant) -> Request {
        let mut request = self.request(variant, 1, false);
        if let Request::Work { count, .. } = &mut request {
            *count = true;
        }
        request
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        settings: &'a BenchSettings,
        stop: &'a AtomicBool,
        tell: &'a mut dyn FnMut(Event<'_>),
        total: usize,
    ) -> Result<Self, Error> {
        let scratch = Scratch::new()?;
        write_scripts(&scratch.0)?;
        let shelf = Shelf::new(&settings.cache, &scratch.0, settings.quick);
        let (pools, torch) = (None, None);
        Ok(Self { settings, stop, tell, shelf, scratch, pools, torch, done: 0, total })
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Says what comes next.
    pub(super) fn begin(&mut self, what: &str) {
        (self.tell)(Event::Doing { what, done: self.done, total: self.total });
        self.done += 1;
    }

    /// Leaves parts out.
    pub(super) fn pass_over(&mut self, parts: usize) {
        self.done += parts;
    }

    pub(super) fn note(&mut self, text: &str) {
        (self.tell)(Event::Note(text));
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name)
    }

    pub(super) fn scripts(&self) -> &Path {
        &self.scratch.0
    }

    /// How many layers may move.
    pub(super) fn layers(&self) -> usize {
        if self.settings.quick { 2 } else { LAYERS }
    }

    /// The processes for a model, if there is PyTorch; those for another one end first.
    fn pools(&mut self, kind: ModelKind) -> Result<Option<&mut Pools>, Error> {
        let Some(python) = &self.settings.torch else { return Ok(None) };
        if self.pools.as_ref().is_none_or(|(model, _)| *model != kind) {
            self.pools = None;
            let pools = Pools::start(python, &self.scratch.0, self.settings.threads)?;
            self.torch = Some(pools.together.version.clone());
            self.pools = Some((kind, pools));
        }
        Ok(self.pools.as_mut().map(|(_, pools)| pools))
    }

    /// Ends all processes, whose memory is wanted.
    pub(super) fn end_pools(&mut self) {
        self.pools = None;
    }

    /// Operations per second of a plain product on all threads, if there is PyTorch.
    pub(super) fn product_rate(&mut self) -> Result<Option<f64>, Error> {
        let (quick, rounds) = (self.settings.quick, self.settings.rounds);
        let Some(pools) = self.pools(ModelKind::Gpt2)? else { return Ok(None) };
        let product = if quick { [8; 3] } else { PRODUCT };
        let request =
            Request::Product { product, repeats: if quick { 1 } else { MOST_REPEATS } };
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for _ in 0..=rounds {
            together.push(pools.together.ask(&request)?.seconds);
            pause(quick);
            apart.push(pools.ask_apart(&request)?);
            pause(quick);
        }
        let operations = 2.0 * product.iter().map(|&size| size as f64).product::<f64>();
        let best = |runs: &[f64]| Spread::of(&runs[1..]).map(|spread| spread.median);
        let fastest = [best(&together), best(&apart)].into_iter().flatten();
        Ok(fastest.map(|seconds| operations / seconds).reduce(f64::max))
    }

    /// Makes a work ready and measures it.
    pub(super) fn row(&mut self, work: Work, held: &Held) -> Result<Option<Row>, Error> {
        let (model, network) = (&held.directory, &held.network);
        let shape = work.shape(self.settings.quick);
        self.begin(&format!("{work}: making it ready"));
        let case = Case::new(&shape, self.layers(), network)?;
        let file = self.file(&format!("{work}.json"));
        case.write(&file)?;
        let (case, action) = (&case, shape.action);
        let job = Job::new(network, case, action)?;
        let ready = Ready { work, job, case, action, model, file };
        let Some(runs) = self.alternate(&ready, shape.model)? else { return Ok(None) };
        let formulas = Formulas::new(network.config(), case.first_layer);
        let judged = !self.settings.quick;
        Ok(Some(row(&ready, &formulas, runs, judged)))
    }

    /// One run of each side after the other, for as many rounds as are wanted.
    fn alternate(&mut self, ready: &Ready<'_>, kind: ModelKind) -> Result<Option<Runs>, Error> {
        let threads = self.settings.threads;
        let quick = self.settings.quick;
        let (mut sides, mut agreements, mut operations) = (Vec::new(), Vec::new(), Vec::new());
        for runner in [Runner::Own { threads: 1 }, Runner::Own { threads }] {
            let first = self.run(runner, ready, 1)?;
            sides.push(Side::new(runner, first, quick));
        }
        let own = sides[1].first;
        let mut apart = Vec::new();
        if let Some(pools) = self.pools(kind)? {
            // Reading the model is no part of a timed run.
            let found = ready.job.run()?;
            for &(variant, target) in ready.work.targets() {
                let answer = pools.together.ask(&ready.request(variant, 1, true))?;
                let Ready { work, case, action, .. } = *ready;
                let compared = Compared { work, variant, case, action };
                agreements.push(compare(compared, &found, &answer.numbers)?);
                let first = whole(answer.seconds);
                let side = Side::new(Runner::Together(variant), first, quick);
                // Several processes do at most as much more as there are threads.
                let least = side.first / own / threads as f64;
                if !side.once || target.is_none_or(|target| least < target) {
                    apart.push(Runner::Apart(variant));
                }
                // Counting takes as long as running, and what runs once takes long.
                operations.push(match side.once {
                    true => None,
                    false => pools.together.ask(&ready.count(variant))?.operations,
                });
                sides.push(side);
                pause(quick);
            }
        }
        for runner in apart {
            let first = self.run(runner, ready, 1)?;
            sides.push(Side::new(runner, first, quick));
            if self.stopped() {
                return Ok(None);
            }
        }
        for round in 1..=self.settings.rounds {
            self.begin(&format!("{}: round {round}", ready.work));
            for side in sides.iter_mut().filter(|side| !side.once) {
                let timing = self.run(side.runner, ready, side.repeats)?;
                side.seconds.push(timing.task);
                side.steps.push(timing.steps);
                if self.stopped() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(Runs { sides, agreements, operations }))
    }

    /// Seconds per task, and of its steps by themselves where they are known.
    fn run(
        &mut self,
        runner: Runner,
        ready: &Ready<'_>,
        repeats: usize,
    ) -> Result<Timing, Error> {
        let pools = self.pools.as_mut().map(|(_, pools)| pools);
        let (timing, pooled) = match (runner, pools) {
            (Runner::Together(variant), Some(pools)) => {
                let request = ready.request(variant, repeats, false);
                (whole(pools.together.ask(&request)?.seconds), true)
            }
            (Runner::Apart(variant), Some(pools)) => {
                let request = ready.request(variant, repeats, false);
                (whole(pools.ask_apart(&request)?), true)
            }
            (Runner::Own { threads }, _) => (ready.job.time(threads, repeats)?, false),
            _ => unreachable!("sides of PyTorch are run where there is one"),
        };
        pause(self.settings.quick || !pooled);
        Ok(timing)
    }
}

impl Side {
    /// After a first run, which counts only if it took long.
    fn new(runner: Runner, timing: Timing, quick: bool) -> Self {
        let (first, once) = (timing.task, timing.task > LONG);
        let repeats = if quick { 1 } else { repeats(first) };
        let (seconds, steps) =
            if once { (vec![first], vec![timing.steps]) } else { (Vec::new(), Vec::new()) };
        Self { runner, repeats, first, once, seconds, steps }
    }
}

/// What PyTorch took, whose steps are not timed by themselves.
fn whole(seconds: f64) -> Timing {
    Timing { task: seconds, steps: 0.0 }
}

/// How many runs of so many seconds make one that can be timed.
pub(super) fn repeats(seconds: f64) -> usize {
    (1..MOST_REPEATS).find(|&count| seconds * count as f64 >= LEAST).unwrap_or(MOST_REPEATS)
}

/// Lets threads of PyTorch come to rest.
pub(super) fn pause(skip: bool) {
    if !skip {
        std::thread::sleep(PAUSE);
    }
}

/// The runs of one side; on one thread the last of two that are the same.
fn side(sides: &[Side], runner: Runner) -> &Side {
    sides.iter().rfind(|side| side.runner == runner).expect("every side was run")
}

fn spread(sides: &[Side], runner: Runner, units: f64) -> Spread {
    let found = Spread::of(&side(sides, runner).seconds);
    found.expect("every side was run at least once").divided(units)
}

/// How much longer the first takes: the median over rounds, within which machines that others use
/// too change least; or of both, where one ran only once.
fn ratio(theirs: &[f64], own: &[f64]) -> f64 {
    let median = |runs: &[f64]| Spread::of(runs).map_or(f64::NAN, |spread| spread.median);
    if theirs.len() != own.len() {
        return median(theirs) / median(own);
    }
    let rounds = theirs.iter().zip(own).map(|(theirs, own)| theirs / own);
    median(&rounds.collect::<Vec<_>>())
}

fn row(ready: &Ready<'_>, formulas: &Formulas, runs: Runs, judged: bool) -> Row {
    let Ready { work, job, case, action, .. } = ready;
    let (units, sides) = (job.units() as f64, &runs.sides[..]);
    let threads = sides.iter().rev().find_map(|side| match side.runner {
        Runner::Own { threads } => Some(threads),
        _ => None,
    });
    let all = Runner::Own { threads: threads.unwrap_or(1) };
    let seconds = spread(sides, all, units);
    let stepped = formulas.steps(case);
    let Operations { done, plain } = match action {
        Action::Further => formulas.further(case),
        Action::Steps => {
            let seen = formulas.observe(case);
            Operations { done: seen.done + stepped.done, plain: seen.plain + stepped.plain }
        }
        Action::Linear => {
            let seen = formulas.observe(case);
            Operations { plain: seen.plain + stepped.plain, ..seen }
        }
        Action::Observe => formulas.observe(case),
    };
    let steps = Some(&side(sides, all).steps[..]);
    let steps = steps.filter(|_| *action == Action::Steps).and_then(Spread::of);
    let targets = work.targets().iter().zip(runs.agreements).zip(runs.operations);
    let variants = targets.map(|((&(variant, target), agreement), operations)| {
        let together = spread(sides, Runner::Together(variant), units);
        let ran = sides.iter().any(|side| side.runner == Runner::Apart(variant));
        let apart = ran.then(|| spread(sides, Runner::Apart(variant), units));
        let faster = match apart {
            Some(apart) if apart.median < together.median => Runner::Apart(variant),
            _ => Runner::Together(variant),
        };
        let ratio = ratio(&side(sides, faster).seconds, &side(sides, all).seconds);
        // What was not run counts as fast as it could be.
        let ratio = if ran { ratio } else { ratio / threads.unwrap_or(1) as f64 };
        let (variant, target) = (variant.name(), target.filter(|_| judged));
        let reached = target.map(|target| ratio >= target);
        let operations = operations.map(|count| count / units);
        VariantRow { variant, together, apart, ratio, operations, target, reached, agreement }
    });
    let one = Runner::Own { threads: 1 };
    let one_thread = spread(sides, one, units);
    Row {
        work: work.to_string(),
        title: work.title(),
        seconds,
        one_thread,
        thread_gain: ratio(&side(sides, one).seconds, &side(sides, all).seconds),
        rate: done / units / seconds.median,
        step_rate: steps.map(|steps| stepped.done / steps.median),
        operations: done / units,
        plain_operations: plain / units,
        variants: variants.collect(),
    }
}

/// A model that stays in memory while works on it follow each other.
pub(super) struct Held {
    pub(super) kind: ModelKind,
    pub(super) directory: PathBuf,
    pub(super) network: Network,
}

impl Held {
    /// The model of a kind; `None` where it cannot be had.
    pub(super) fn open(bench: &Bench<'_>, kind: ModelKind) -> Result<Option<Self>, Error> {
        let Some(directory) = bench.shelf.directory(kind)? else { return Ok(None) };
        let network = models::open(&directory)?;
        Ok(Some(Self { kind, directory, network }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that is slow in one round is slow for both sides.
    #[test]
    fn ratios_are_taken_within_rounds() {
        let own = [1.0, 3.0, 20.0];
        // The medians by themselves would say 3.
        assert!((ratio(&[2.0, 9.0, 40.0], &own) - 2.0).abs() < 1e-12);
        assert!((ratio(&[12.0], &own) - 4.0).abs() < 1e-12);
    }
}

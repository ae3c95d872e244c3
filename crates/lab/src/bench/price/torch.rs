//! PyTorch observing a task by local adjoints: one process for each number of threads.
//!
//! In: a task in tokens, and a checkpoint of the model that reads it. Out: the seconds of the
//! fastest variant, once its predictions and kernels are those of the engine.

use super::Price;
use super::llama::TimedRuns;
use super::ready::{Ready, Timed};
use super::sides::Answering;
use crate::bench::agreement::distance;
use crate::bench::cases::Case;
use crate::bench::measure::Bench;
use crate::bench::report::Apart;
use crate::bench::torch::{Numbers, Request, Worker};
use crate::bench::works::ModelKind;
use crate::error::Error;
use fewstep::adapter::make_directory;
use fewstep_core::Block;
use fewstep_engine::{Model, Update, choose_blocks, observe_local};
use std::path::{Path, PathBuf};

/// How far numbers of the same weights may be apart, relative to their norm.
const ALLOWED: f64 = 1e-3;

/// Runs of each variant before it is said which is the fastest.
const TRIALS: usize = 2;

/// A way to do it in PyTorch: what the worker calls it, and how prompts share what they begin with.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    sharing: &'static str,
}

const VARIANTS: [Variant; 3] = [
    Variant { name: "local-batch", sharing: "one padded batch" },
    Variant { name: "local-cache", sharing: "a cache of what prompts begin with" },
    Variant {
        name: "local-cache-twice",
        sharing: "caches within caches of what prompts begin with",
    },
];

/// A process that has the model, and how it works fastest.
#[derive(Debug)]
struct Process {
    threads: usize,
    worker: Worker,
    fastest: Variant,
}

/// A task that is ready to be observed.
#[derive(Debug)]
pub(super) struct Torch {
    model: PathBuf,
    case: PathBuf,
    processes: Vec<Process>,
    /// Of the query.
    prediction: f64,
    /// How far the variants are from the engine at most.
    pub(super) apart: Apart,
}

impl Torch {
    fn request(&self, variant: Variant, repeats: usize, numbers: bool) -> Request {
        Request::Work {
            model: self.model.clone(),
            case: self.case.clone(),
            variant: variant.name,
            work: "local",
            repeats,
            numbers,
            count: false,
        }
    }

    /// Seconds of one run by the fastest variant.
    pub(super) fn time(&mut self, runs: TimedRuns) -> Result<Timed, Error> {
        let process = self.processes.iter().position(|process| process.threads == runs.threads);
        let process = process.expect("there is one for each number of threads");
        let request = self.request(self.processes[process].fastest, runs.repeats, false);
        let seconds = self.processes[process].worker.ask(&request)?.seconds;
        Ok(Timed { seconds, prediction: self.prediction })
    }

    /// Which version it is, and how it works with so many threads.
    pub(super) fn about(&self, threads: usize) -> Option<String> {
        let process = self.processes.iter().find(|process| process.threads == threads)?;
        let (version, sharing) = (&process.worker.version, process.fastest.sharing);
        Some(format!("PyTorch {version}, {sharing}"))
    }

    /// Finds the fastest variant of a process with so many threads; all must find what `own` is.
    fn start(&mut self, threads: usize, worker: Worker, own: &Own) -> Result<(), Error> {
        let mut process = Process { threads, worker, fastest: VARIANTS[0] };
        let mut best = f64::INFINITY;
        for variant in VARIANTS {
            for trial in 0..TRIALS {
                let answer = process.worker.ask(&self.request(variant, 1, trial == 0))?;
                if trial == 0 {
                    let apart = own.compare(variant.name, &answer.numbers)?;
                    self.apart = self.apart.worst(apart);
                    let query = answer.numbers.predictions.last().copied();
                    self.prediction = query.expect("they are compared");
                }
                if answer.seconds < best {
                    (best, process.fastest) = (answer.seconds, variant);
                }
            }
        }
        self.processes.push(process);
        Ok(())
    }
}

/// What the engine finds.
struct Own {
    /// Of all prompts, the query's last.
    predictions: Vec<f64>,
    /// Per block `[prompts, prompts]`.
    kernels: Vec<Vec<f64>>,
}

impl Own {
    /// By local adjoints, and the lowest layer that may be updated.
    fn of(ready: &Ready<'_>) -> Result<(Self, usize), Error> {
        let network = ready.model().network();
        let blocks = choose_blocks(&Answering::Local.policy().blocks, network.config())?;
        let seen = observe_local(network, &ready.read, &blocks)?;
        let lowest = blocks.iter().map(|block| block.layer()).min().expect("there are blocks");
        let mut predictions = seen.predictions;
        predictions.push(seen.query_prediction);
        let kernels = seen.geometry.blocks().iter().map(whole).collect();
        Ok((Self { predictions, kernels }, lowest))
    }

    /// How far a variant is from this.
    ///
    /// # Errors
    ///
    /// [`Error::Disagree`] if it is farther than single precision explains.
    fn compare(&self, variant: &'static str, other: &Numbers) -> Result<Apart, Error> {
        let check = |quantity: &'static str, found: f64| {
            if found <= ALLOWED {
                return Ok(found);
            }
            let (work, allowed) = (Price::Torch.to_string(), ALLOWED);
            Err(Error::Disagree { work, variant, quantity, found, allowed })
        };
        let predictions =
            check("predictions", distance(&self.predictions, &other.predictions))?;
        let size = self.predictions.len() * self.predictions.len();
        if other.kernels.len() != size * self.kernels.len() {
            return Err(check("kernels", f64::INFINITY).expect_err("it is too far"));
        }
        let pairs = self.kernels.iter().zip(other.kernels.chunks_exact(size));
        let kernels = pairs.map(|(own, other)| distance(own, other)).fold(0.0, f64::max);
        Ok(Apart { predictions, kernels: Some(check("kernels", kernels)?) })
    }
}

/// The kernel with the query's coupling as its last row and column.
fn whole(block: &Block) -> Vec<f64> {
    let query = block.query().expect("the query was observed");
    let kernel = block.kernel();
    let mut numbers = Vec::new();
    for (row, &coupling) in query.coupling.iter().enumerate() {
        numbers.extend(kernel.row(row));
        numbers.push(coupling);
    }
    numbers.extend(query.coupling.iter().chain([&query.variance]));
    numbers
}

impl Bench<'_> {
    /// Processes with one thread and with all, in which every variant finds what the engine does;
    /// `None` without PyTorch.
    pub(super) fn torch_of(&mut self, ready: &Ready<'_>) -> Result<Option<Torch>, Error> {
        let Some(python) = self.settings.torch.clone() else { return Ok(None) };
        let (own, lowest) = Own::of(ready)?;
        let Some(model) = self.checkpoint(ready.model())? else { return Ok(None) };
        let case = self.file(&format!("{}.json", Price::Torch));
        Case::of(&ready.read, lowest).write(&case)?;
        let (processes, prediction) = (Vec::new(), f64::NAN);
        let apart = Apart { predictions: 0.0, kernels: None };
        let mut torch = Torch { model, case, processes, prediction, apart };
        let mut threads = vec![1, self.settings.threads];
        threads.dedup();
        for threads in threads {
            let worker = Worker::start(&python, self.scripts(), threads)?;
            self.torch = Some(worker.version.clone());
            torch.start(threads, worker, &own)?;
        }
        Ok(Some(torch))
    }

    /// The model as a checkpoint directory.
    fn checkpoint(&self, model: &Model) -> Result<Option<PathBuf>, Error> {
        if self.settings.quick {
            return saved(model, &self.file("builtin")).map(Some);
        }
        self.shelf.directory(ModelKind::SmolLm2)
    }
}

/// A small model, written into a directory.
fn saved(model: &Model, directory: &Path) -> Result<PathBuf, Error> {
    make_directory(directory)?;
    let blocks = choose_blocks("value@last1", model.config())?;
    model.save_merged(directory, &Update::zeros(model.network(), &blocks)?)?;
    Ok(directory.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::super::ready::Models;
    use super::*;

    /// Everything that a variant may find otherwise is refused by its name.
    #[test]
    fn variants_that_find_something_else_are_named() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let ready = Ready::new(&models, Price::Torch, true, 1).unwrap();
        let (own, lowest) = Own::of(&ready).unwrap();
        let layers = ready.model().config().layers;
        assert_eq!((own.kernels.len(), lowest), (layers - layers / 2, layers / 2));
        let kernels = own.kernels.concat();
        let same = Numbers { predictions: own.predictions.clone(), kernels, adapted: vec![] };
        let found = own.compare("local-batch", &same).unwrap();
        assert_eq!(found.kernels.map(f64::to_bits), Some(0.0_f64.to_bits()));
        let refused = |change: &dyn Fn(&mut Numbers)| {
            let mut numbers = same.clone();
            change(&mut numbers);
            match own.compare("local-batch", &numbers) {
                Err(Error::Disagree {
                    work,
                    variant: "local-batch",
                    quantity,
                    found,
                    allowed,
                }) => {
                    assert!(work == "icl-torch" && found > allowed);
                    quantity
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&|numbers| numbers.predictions[0] *= 1.01), "predictions");
        assert_eq!(refused(&|numbers| numbers.kernels.truncate(1)), "kernels");
        let last = own.kernels[0].len() * (own.kernels.len() - 1);
        let changed = |numbers: &mut Numbers| {
            numbers.kernels[last..].iter_mut().for_each(|value| *value *= 1.002);
        };
        assert_eq!(refused(&changed), "kernels");
    }

    /// A worker reads what the engine does: the prompts in the same order, the query last.
    #[test]
    fn cases_hold_the_prompts_of_a_task() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let ready = Ready::new(&models, Price::Torch, true, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("case.json");
        Case::of(&ready.read, 3).write(&file).unwrap();
        let case = Case::read(&file).unwrap();
        assert_eq!((case.sequences().len(), case.first_layer), (5, 3));
        assert!(case.sequences().into_iter().eq(ready.read.sequences()));
        assert_eq!(case.task().unwrap().labels(), ready.read.labels());
    }

    #[test]
    fn a_small_model_is_saved_as_others_read_it() {
        let model = fewstep::builtin().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let directory = saved(&model, &folder.path().join("model")).unwrap();
        let again = Model::open(&directory).unwrap();
        assert_eq!(again.network().parameters(), model.network().parameters());
    }
}

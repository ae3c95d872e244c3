//! PyTorch in processes of its own, which are asked to do work and say how long it took.

use crate::error::{Error, refused};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The scripts, under the names by which they import each other.
const SCRIPTS: [(&str, &str); 6] = [
    ("common.py", include_str!("../../../../bench/torch/common.py")),
    ("expert.py", include_str!("../../../../bench/torch/expert.py")),
    ("hugging_face.py", include_str!("../../../../bench/torch/hugging_face.py")),
    ("local.py", include_str!("../../../../bench/torch/local.py")),
    ("plain.py", include_str!("../../../../bench/torch/plain.py")),
    ("worker.py", include_str!("../../../../bench/torch/worker.py")),
];

/// Something to do.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Request {
    /// A work on a model.
    Work {
        model: PathBuf,
        case: PathBuf,
        variant: &'static str,
        work: &'static str,
        repeats: usize,
        numbers: bool,
        /// Count operations instead of taking the time.
        count: bool,
    },
    /// A product of `[rows, inner]` and `[inner, columns]`.
    Product { product: [usize; 3], repeats: usize },
}

/// What came of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkerAnswer {
    /// Of one repeat.
    pub(super) seconds: f64,
    /// Resident memory before and at its peak, in bytes, where that is known.
    pub(super) before: Option<u64>,
    pub(super) peak: Option<u64>,
    #[serde(default)]
    pub(super) numbers: Numbers,
    /// Of all products, if they were to be counted.
    pub(super) operations: Option<f64>,
}

/// Numbers to compare.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Numbers {
    #[serde(default)]
    pub(super) predictions: Vec<f64>,
    /// `[layers, heads, sequences, sequences]`.
    #[serde(default)]
    pub(super) kernels: Vec<f64>,
    /// The query's prediction after the steps.
    #[serde(default)]
    pub(super) adapted: Vec<f64>,
}

#[derive(Deserialize)]
struct Failed {
    error: String,
}

#[derive(Deserialize)]
struct Greeting {
    torch: String,
}

/// One process.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    program: PathBuf,
    /// The version of PyTorch.
    pub(super) version: String,
}

/// Writes the scripts into a directory.
pub(super) fn write_scripts(directory: &Path) -> Result<(), Error> {
    for (name, text) in SCRIPTS {
        let file = directory.join(name);
        std::fs::write(&file, text).map_err(refused(&file, "write"))?;
    }
    Ok(())
}

impl Worker {
    /// Starts a process with so many threads, from a directory with the scripts.
    pub(super) fn start(python: &Path, scripts: &Path, threads: usize) -> Result<Self, Error> {
        let mut command = Command::new(python);
        command
            .arg("-B")
            .arg(scripts.join("worker.py"))
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("TRANSFORMERS_VERBOSITY", "error")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let failed = |problem: std::io::Error| Error::Worker {
            program: python.to_path_buf(),
            problem: problem.kind().to_string(),
        };
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let program = python.to_path_buf();
        let mut worker = Self { child, input, output, program, version: String::new() };
        worker.send(&serde_json::json!({ "threads": threads }))?;
        worker.version = worker.receive_as::<Greeting>()?.torch;
        Ok(worker)
    }

    /// Asks for something and waits for it.
    pub(super) fn ask(&mut self, request: &Request) -> Result<WorkerAnswer, Error> {
        self.send(request)?;
        self.receive()
    }

    fn send(&mut self, request: &impl Serialize) -> Result<(), Error> {
        let line = serde_json::to_string(request).expect("a request becomes JSON") + "\n";
        let sent = self.input.write_all(line.as_bytes()).and_then(|()| self.input.flush());
        sent.map_err(|error| self.failed(error.kind().to_string()))
    }

    fn receive(&mut self) -> Result<WorkerAnswer, Error> {
        self.receive_as()
    }

    fn receive_as<T: for<'a> Deserialize<'a>>(&mut self) -> Result<T, Error> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(self.failed("it ended; see what it said above".to_owned())),
            Err(error) => Err(self.failed(error.kind().to_string())),
            Ok(_) => serde_json::from_str(&line).map_err(|error| {
                let said = serde_json::from_str::<Failed>(&line).map(|failed| failed.error);
                self.failed(said.unwrap_or_else(|_| error.to_string()))
            }),
        }
    }

    fn failed(&self, problem: String) -> Error {
        Error::Worker { program: self.program.clone(), problem }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One process with all threads, and as many processes with one.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) together: Worker,
    apart: Vec<Worker>,
}

impl Pools {
    pub(super) fn start(python: &Path, scripts: &Path, threads: usize) -> Result<Self, Error> {
        Ok(Self {
            together: Worker::start(python, scripts, threads)?,
            apart: (0..threads)
                .map(|_| Worker::start(python, scripts, 1))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Asks all processes with one thread at the same time; the seconds per request are those of
    /// the slowest divided by their number.
    pub(super) fn ask_apart(&mut self, request: &Request) -> Result<f64, Error> {
        for worker in &mut self.apart {
            worker.send(request)?;
        }
        let mut slowest = 0.0_f64;
        for worker in &mut self.apart {
            slowest = slowest.max(worker.receive()?.seconds);
        }
        Ok(slowest / self.apart.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let program = Path::new("no such directory").join("python");
        let refused = Worker::start(&program, Path::new("."), 1).unwrap_err();
        let problem = "entity not found".to_owned();
        assert_eq!(refused, Error::Worker { program, problem });
    }
}

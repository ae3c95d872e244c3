//! Many tasks: read when there is room for their answers, answered in their order.

use crate::class_report::ClassReport;
use crate::errors::refused;
use crate::report::{Failure, Report};
use crate::task;
use crate::work::{own_thread, wait};
use fewstep::report::Failure as Failed;
use fewstep::stream::guarded;
use fewstep::stream::in_order;
use fewstep::{Answered, AnyReport, Error, Predictor};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

/// How many tasks per thread are read before the first of them is answered.
const WINDOW: usize = 4;

/// A task to answer, or why there is none.
type Job = (u64, Result<fewstep_engine::Task, Failed>);

/// What came of a task: a report for each of its queries, or why there is none.
pub(crate) type Answers = Vec<Result<AnyReport, Failed>>;

/// Answers every query of a task, as the `line`-th of many.
pub(crate) fn answers(
    predictor: &Predictor,
    task: &fewstep_engine::Task,
    line: u64,
) -> Answers {
    let listed = task.further.is_some();
    let failed = |error: Error, query: Option<usize>| {
        Err(Failed { id: Some(task.id.clone()), line, query, error: error.to_string() })
    };
    match guarded(|| predictor.answers(task)) {
        Err(error) => vec![failed(error, None)],
        Ok(answers) => {
            let one = |(index, answer): (usize, Result<Answered, Error>)| match answer {
                Ok(Answered { report, .. }) => Ok(report),
                Err(error) => failed(error, listed.then_some(index)),
            };
            answers.into_iter().enumerate().map(one).collect()
        }
    }
}

/// Reports of many tasks, in order, each as soon as it and those before it are done.
#[pyclass(frozen, module = "fewstep")]
pub(crate) struct Reports(Mutex<Stream>);

/// What is between the tasks and their reports.
pub(crate) struct Stream {
    tasks: Option<Py<PyIterator>>,
    jobs: Option<Sender<Job>>,
    answers: Receiver<Answers>,
    /// Those of the task that was answered last which were not taken yet.
    ready: VecDeque<Result<AnyReport, Failed>>,
    stop: Arc<AtomicBool>,
    /// What reading the tasks raised; it is raised again behind the answers of those before.
    raised: Option<PyErr>,
    progress: Option<Py<PyAny>>,
    read: u64,
    answered: u64,
    window: u64,
    full: bool,
}

impl Stream {
    /// Makes ready to answer tasks on these threads; none is read before an answer is asked for.
    pub(crate) fn new(
        tasks: &Bound<'_, PyIterator>,
        predictor: Arc<Predictor>,
        pool: Arc<rayon::ThreadPool>,
        full: bool,
    ) -> PyResult<Self> {
        let (jobs, queued) = mpsc::channel::<Job>();
        let (answered, heard) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, threads) = (Arc::clone(&stop), pool.current_num_threads());
        let answer = move |(line, task): Job| -> Answers {
            match task {
                Ok(task) => pool.install(|| answers(&predictor, &task, line)),
                Err(failed) => vec![Err(failed)],
            }
        };
        own_thread(Box::new(move || {
            in_order(queued.into_iter(), answer, threads, stopped, |answer| {
                match answered.send(answer) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        }))?;
        Ok(Self {
            tasks: Some(tasks.clone().unbind()),
            jobs: Some(jobs),
            answers: heard,
            ready: VecDeque::new(),
            stop,
            raised: None,
            progress: None,
            read: 0,
            answered: 0,
            window: (threads * WINDOW) as u64,
            full,
        })
    }

    /// The same, with something that hears of every answer.
    pub(crate) fn with_progress(mut self, progress: Option<Py<PyAny>>) -> Self {
        self.progress = progress;
        self
    }

    /// The next report or failure; `None` behind the last.
    pub(crate) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let next = self.advance(py);
        if !matches!(next, Ok(Some(_))) {
            self.end(py)?;
        }
        next
    }

    fn advance(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        // Where answers are always there, nobody waits, and waiting is what listens for signals.
        py.check_signals()?;
        if let Some(answer) = self.ready.pop_front() {
            return answer_object(py, answer, self.full).map(Some);
        }
        // One task is read for every answer that is taken, and more while there is none to take:
        // the threads stay busy, and tasks that come slowly do not hold back what is done.
        while self.read - self.answered < self.window && self.read_one(py)? {
            if let Ok(answer) = self.answers.try_recv() {
                return self.hand_on(py, answer).map(Some);
            }
        }
        if self.read > self.answered {
            let answer = wait(py, &mut self.answers, || Ok(()))?;
            let gone = || Error::Mistake { problem: "the threads are gone".to_owned() };
            let answer = answer.ok_or_else(|| refused(py, gone()))?;
            return self.hand_on(py, answer).map(Some);
        }
        self.raised.take().map_or(Ok(None), Err)
    }

    /// Reads a task and lets it be answered; false if there are no more.
    fn read_one(&mut self, py: Python<'_>) -> PyResult<bool> {
        let Some(tasks) = &self.tasks else { return Ok(false) };
        let object = match tasks.bind(py).clone().next() {
            Some(Ok(object)) => object,
            Some(Err(error)) if error.is_instance_of::<PyException>(py) => {
                (self.tasks, self.jobs, self.raised) = (None, None, Some(error));
                return Ok(false);
            }
            Some(Err(error)) => return Err(error),
            None => {
                (self.tasks, self.jobs) = (None, None);
                return Ok(false);
            }
        };
        self.read += 1;
        let job = (self.read, understood(&object, self.read)?);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent {
            return Ok(true);
        }
        Err(refused(py, Error::Mistake { problem: "the threads are gone".to_owned() }))
    }

    fn hand_on(&mut self, py: Python<'_>, answers: Answers) -> PyResult<Py<PyAny>> {
        self.answered += 1;
        if let Some(progress) = &self.progress {
            progress.call_method0(py, "advance")?;
        }
        self.ready = answers.into();
        let first = self.ready.pop_front().expect("a task has at least one query");
        answer_object(py, first, self.full)
    }

    /// Lets go of everything: nothing more is read or begun.
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        self.stop.store(true, Ordering::SeqCst);
        (self.tasks, self.jobs, self.read) = (None, None, self.answered);
        match self.progress.take() {
            Some(progress) => progress.call_method0(py, "close").map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// What Python sees of an answer.
pub(crate) fn answer_object(
    py: Python<'_>,
    answer: Result<AnyReport, Failed>,
    full: bool,
) -> PyResult<Py<PyAny>> {
    match answer {
        Ok(report) => report_object(py, report, full),
        Err(failure) => Ok(Py::new(py, Failure(failure))?.into_any()),
    }
}

/// What Python sees of a report.
pub(crate) fn report_object(
    py: Python<'_>,
    report: AnyReport,
    full: bool,
) -> PyResult<Py<PyAny>> {
    match report {
        AnyReport::Regression(report) => {
            Ok(Py::new(py, Report::new(*report, full))?.into_any())
        }
        AnyReport::Classes(report) => {
            Ok(Py::new(py, ClassReport::new(*report, full))?.into_any())
        }
    }
}

/// The task that an object stands for, or what is wrong with it; what ends the program raises.
fn understood(
    object: &Bound<'_, PyAny>,
    line: u64,
) -> PyResult<Result<fewstep_engine::Task, Failed>> {
    let py = object.py();
    let (id, error) = match task::read(object) {
        Ok(Ok(task)) => return Ok(Ok(task)),
        Ok(Err(error)) => {
            let text = error.to_string();
            let id = if let Error::Json { id, .. } = error { id } else { None };
            (id, text)
        }
        Err(error) if error.is_instance_of::<PyException>(py) => {
            (None, error.value(py).str()?.to_string())
        }
        Err(error) => return Err(error),
    };
    Ok(Err(Failed { id, line, query: None, error }))
}

impl Reports {
    /// The iterator over a stream.
    pub(crate) fn new(stream: Stream) -> Self {
        Self(Mutex::new(stream))
    }
}

#[pymethods]
impl Reports {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        // Two threads, or tasks that ask for their own answers: waiting might never end.
        match self.0.try_lock() {
            Ok(mut stream) => stream.next(py),
            Err(_) => Err(PyValueError::new_err("these reports are being read already")),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reports>()
}

//! A task in words, ready to be worked on by every side any number of times.

use super::Price;
use super::cached::Cached;
use super::llama::{Llama, TimedRuns};
use super::sides::{Answering, Side};
use super::torch::Torch;
use super::words::tasks;
use crate::bench::own::now;
use crate::error::Error;
use fewstep::{Action, Predictor};
use fewstep_engine::{Layout, Model, Order, PromptSettings, Task, TokenTask, choose_blocks};
use rayon::ThreadPool;
use std::hint::black_box;
use std::path::Path;
use std::slice;

/// The model that reads tasks in words: with its weights dequantised, as every other row has them,
/// and as its file holds them.
#[derive(Debug)]
pub(in crate::bench) struct Models {
    dequantised: Model,
    quantised: Model,
}

impl Models {
    /// SmolLM2 from its file, or the built-in model where that is too large; `None` without the
    /// file.
    pub(in crate::bench) fn open(file: &Path, quick: bool) -> Result<Option<Self>, Error> {
        let quantised = match (quick, file.is_file()) {
            (true, _) => fewstep::builtin()?,
            (false, true) => Model::open(file)?,
            (false, false) => return Ok(None),
        };
        let context = quantised.config().positions;
        let settings = PromptSettings { order: Order::Tree, ..PromptSettings::new(context) };
        let quantised = quantised.with_prompts(settings);
        Ok(Some(Self { dequantised: quantised.clone().dequantised(), quantised }))
    }
}

/// A task with everything that is made of it once.
pub(super) struct Ready<'m> {
    models: &'m Models,
    task: Task,
    /// The query's prompt.
    pub(super) prompt: Vec<u32>,
    /// The task in tokens.
    pub(super) read: TokenTask,
    answering: Vec<(Answering, Predictor)>,
    cached: Option<Cached>,
    /// A pool of one thread, and one of all.
    pools: Vec<ThreadPool>,
    pub(super) llama: Option<Llama>,
    pub(super) torch: Option<Torch>,
}

/// What came of some runs of a side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    /// Of one run.
    pub(super) seconds: f64,
    /// What the model predicts without an update, for the last query if there are several.
    pub(super) prediction: f64,
}

impl<'m> Ready<'m> {
    pub(super) fn new(
        models: &'m Models,
        price: Price,
        quick: bool,
        threads: usize,
    ) -> Result<Self, Error> {
        let (task, others) = tasks(&price.sizes(quick));
        let reader = models.dequantised.clone().with_policy(&price.reading().policy());
        let read = reader.read(&task)?;
        let mut prompt = query(&read);
        prompt.truncate(price.cut(quick).unwrap_or(usize::MAX));
        let further = others.iter().map(|task| Ok(query(&reader.read(task)?)));
        let further = further.collect::<Result<Vec<_>, Error>>()?;
        let pools = [1, threads].map(pool).into_iter().collect::<Result<_, _>>()?;
        let mut ready = Self {
            models,
            task,
            prompt,
            read,
            answering: Vec::new(),
            cached: None,
            pools,
            llama: None,
            torch: None,
        };
        let network = models.dequantised.network();
        let blocks = choose_blocks(&Answering::Local.policy().blocks, network.config())?;
        ready.cached = match price {
            Price::Further => Some(Cached::queries(network, &ready.read, &blocks, further)?),
            Price::Rows => Some(Cached::rows(network, &ready.read, &blocks)?),
            _ => None,
        };
        for side in price.ratios().into_iter().flat_map(|ratio| [ratio.of, ratio.to]) {
            ready.answer_by(side)?;
        }
        Ok(ready)
    }

    /// Makes ready what a side needs of a policy.
    fn answer_by(&mut self, side: Side) -> Result<(), Error> {
        let Some(by) = side.answering() else { return Ok(()) };
        if !self.answering.iter().any(|(known, _)| *known == by) {
            let model = self.models.dequantised.clone();
            self.answering.push((by, Predictor::new(model, by.policy(), Action::Act)?));
        }
        Ok(())
    }

    /// The model that this task is worked on by.
    pub(super) fn model(&self) -> &Model {
        &self.models.dequantised
    }

    /// The task with two of its examples, on which everything that is made once is made.
    pub(super) fn short(&self) -> Task {
        let examples = self.task.examples[..2].to_vec();
        Task { examples, ..self.task.clone() }
    }

    /// How many results a run of a side gives.
    pub(super) fn units(&self, side: Side) -> usize {
        match (side, &self.cached) {
            (Side::Behind(_) | Side::Further(_), Some(cached)) => cached.prompts.len(),
            _ => 1,
        }
    }

    /// Runs a side so many times.
    pub(super) fn time(&mut self, side: Side, runs: TimedRuns) -> Result<Timed, Error> {
        match side {
            Side::Llama => {
                let llama = self.llama.as_ref().expect("it was made ready");
                let prediction = mean(&llama.logits, self.read.labels().values());
                return Ok(Timed { seconds: llama.seconds(runs)?, prediction });
            }
            Side::Torch => {
                return self.torch.as_mut().expect("it was made ready").time(runs);
            }
            _ => {}
        }
        let pool = &self.pools[usize::from(runs.threads > 1)];
        pool.install(|| {
            let (started, mut prediction) = (now(), f64::NAN);
            for _ in 0..runs.repeats {
                prediction = black_box(self.predict(side)?);
            }
            let seconds = started.elapsed().as_secs_f64() / runs.repeats as f64;
            Ok(Timed { seconds, prediction })
        })
    }

    /// Does what a side of this engine does and gives what the model predicts without an update, for
    /// the last query if there are several.
    pub(super) fn predict(&self, side: Side) -> Result<f64, Error> {
        let forward = |model: &Model| -> Result<f64, Error> {
            let layout = Layout::plain(slice::from_ref(&self.prompt))?;
            Ok(f64::from(model.network().predict(layout, self.read.labels())?[0]))
        };
        let cached = || self.cached.as_ref().expect("it was made ready");
        match side {
            Side::Plain => forward(&self.models.dequantised),
            Side::Quantised => forward(&self.models.quantised),
            Side::Answer(by) => Ok(self.by(by).answer(&self.task)?.report.prediction.icl),
            Side::Behind(asking) => cached().predict(asking),
            Side::Further(asking) => cached().decide(&Answering::Local.policy(), asking),
            Side::Llama | Side::Torch => unreachable!("others do not run here"),
        }
    }

    fn by(&self, by: Answering) -> &Predictor {
        let found = self.answering.iter().find(|(known, _)| *known == by);
        &found.expect("it was made ready").1
    }

    /// Answers another task by the policy of a side, if it has one, or predicts its query.
    pub(super) fn warm(&self, side: Side, task: &Task) -> Result<(), Error> {
        if let Some(by) = side.answering() {
            self.by(by).answer(task)?;
            return Ok(());
        }
        let read = self.models.dequantised.read(task)?;
        let layout = Layout::plain(&[query(&read)])?;
        self.models.dequantised.network().predict(layout, read.labels())?;
        Ok(())
    }
}

/// The prompt of a task's query.
fn query(task: &TokenTask) -> Vec<u32> {
    task.sequences().last().cloned().expect("the query is the last sequence")
}

/// `Σ_j value_j softmax(logits)_j`.
fn mean(logits: &[f64], values: &[f64]) -> f64 {
    let largest = logits.iter().copied().fold(f64::MIN, f64::max);
    let weights = logits.iter().map(|logit| (logit - largest).exp());
    let total: f64 = weights.clone().sum();
    weights.zip(values).map(|(weight, value)| weight * value).sum::<f64>() / total
}

fn pool(threads: usize) -> Result<ThreadPool, Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    Ok(pool.map_err(|error| fewstep::Error::Threads { threads, reason: error.to_string() })?)
}

#[cfg(test)]
mod tests {
    use super::super::sides::{Asking, SHOTS};
    use super::*;

    /// All sides look at the same query, and no example is cut off.
    #[test]
    fn sides_agree_on_what_the_model_predicts() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        for price in Price::ALL {
            let ready = Ready::new(&models, price, true, 2).unwrap();
            for ratio in price.ratios() {
                if matches!(ratio.of, Side::Llama | Side::Torch) {
                    continue;
                }
                let found = [ratio.of, ratio.to].map(|side| ready.predict(side).unwrap());
                assert!((found[0] - found[1]).abs() < 1e-4 * found[0], "{price}: {found:?}");
            }
        }
        let units = |price, side| Ready::new(&models, price, true, 1).unwrap().units(side);
        assert_eq!(units(Price::Further, Side::Further(Asking::Alone)), 3);
        assert_eq!(units(Price::Rows, Side::Behind(Asking::Together)), 12);
        assert_eq!(units(Price::Rows, Side::Answer(Answering::LocalShots)), 1);
    }

    /// A plain forward pass is one of the rows' own tokens.
    #[test]
    fn rows_are_read_behind_the_shots_of_their_policy() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let ready = Ready::new(&models, Price::Rows, true, 1).unwrap();
        let text = |prompt: &[u32]| -> String {
            prompt.iter().map(|&byte| u8::try_from(byte).unwrap() as char).collect()
        };
        let prompts = &ready.cached.as_ref().unwrap().prompts;
        assert_eq!((prompts.len(), prompts.last()), (12, Some(&ready.prompt)));
        let shots = text(&ready.prompt).rfind('\n').unwrap();
        for prompt in prompts {
            assert_eq!(text(prompt).rfind('\n'), Some(shots));
            assert_eq!(text(prompt)[..shots], text(&ready.prompt)[..shots]);
            assert_eq!(text(prompt).matches(':').count(), SHOTS + 1);
        }
    }

    #[test]
    fn a_prompt_shows_every_example_and_ends_where_it_asks() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let ready = Ready::new(&models, Price::Ten, true, 1).unwrap();
        let text: String =
            ready.prompt.iter().map(|&byte| u8::try_from(byte).unwrap() as char).collect();
        assert_eq!(text.matches(":").count(), 5, "{text}");
        // A blank that the labels begin with is a token of its own here.
        assert!(text.starts_with(' ') && text.ends_with(": "), "{text}");
    }

    #[test]
    fn a_prompt_is_cut_where_its_row_says() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let whole = Ready::new(&models, Price::Ten, true, 1).unwrap().prompt.len();
        let prompt = Ready::new(&models, Price::Llama, true, 1).unwrap().prompt;
        assert_eq!((prompt.len(), whole > 20), (20, true));
        assert_eq!(Models::open(Path::new("none"), false).unwrap().map(|_| ()), None);
    }

    #[test]
    fn logits_become_a_prediction() {
        assert!((mean(&[800.0, 800.0], &[0.0, 1.0]) - 0.5).abs() < 1e-15);
        assert!((mean(&[0.0, 3.0_f64.ln()], &[0.0, 1.0]) - 0.75).abs() < 1e-15);
    }
}

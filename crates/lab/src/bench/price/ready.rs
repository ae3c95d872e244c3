//! A task in words, ready to be worked on by every side any number of times.

use super::llama::{Asked, Llama};
use super::words::tasks;
use super::{Answering, Price, Side};
use crate::bench::own::now;
use crate::error::Error;
use fewstep::{Action, Predictor};
use fewstep_core::decide;
use fewstep_engine::{Labels, Layout, Model, Network, Order, Prepared, PromptSettings, Task};
use rayon::ThreadPool;
use std::hint::black_box;
use std::path::Path;

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
    /// Those of further queries on the same examples.
    further: Vec<Vec<u32>>,
    pub(super) labels: Labels,
    answering: Vec<(Answering, Predictor, Option<Prepared>)>,
    /// A pool of one thread, and one of all.
    pools: Vec<ThreadPool>,
    pub(super) llama: Option<Llama>,
}

impl<'m> Ready<'m> {
    pub(super) fn new(
        models: &'m Models,
        price: Price,
        (quick, threads): (bool, usize),
    ) -> Result<Self, Error> {
        let model = &models.dequantised;
        let (task, others) = tasks(&price.sizes(quick));
        let query = |task: &Task| -> Result<Vec<u32>, Error> {
            let read = model.read(task)?;
            Ok(read.sequences().last().cloned().expect("the query is the last sequence"))
        };
        let mut prompt = query(&task)?;
        prompt.truncate(price.cut(quick).unwrap_or(usize::MAX));
        let further = others.iter().map(query).collect::<Result<_, _>>()?;
        let labels = model.read(&task)?.labels().clone();
        let pools = [1, threads].map(pool).into_iter().collect::<Result<_, _>>()?;
        let mut ready = Self {
            models,
            task,
            prompt,
            further,
            labels,
            answering: Vec::new(),
            pools,
            llama: None,
        };
        for ratio in price.ratios() {
            ready.answer_by(ratio.of)?;
        }
        Ok(ready)
    }

    /// Makes ready what a side needs of a policy.
    fn answer_by(&mut self, side: Side) -> Result<(), Error> {
        let (Side::Answer(by) | Side::Further(by)) = side else { return Ok(()) };
        if self.answering.iter().any(|(known, ..)| *known == by) {
            return Ok(());
        }
        let model = &self.models.dequantised;
        let predictor = Predictor::new(model.clone(), by.policy(), Action::Act)?;
        let prepared = match side {
            Side::Further(_) => Some(model.prepare(&self.task, predictor.blocks())?),
            _ => None,
        };
        self.answering.push((by, predictor, prepared));
        Ok(())
    }

    /// The task with two of its examples, on which everything that is made once is made.
    pub(super) fn short(&self) -> Task {
        let examples = self.task.examples[..2].to_vec();
        Task { examples, ..self.task.clone() }
    }

    /// How many results a run of a side gives.
    pub(super) fn units(&self, side: Side) -> usize {
        match side {
            Side::PlainFurther | Side::Further(_) => self.further.len(),
            _ => 1,
        }
    }

    /// Seconds of one run, of so many.
    pub(super) fn seconds(&self, side: Side, asked: Asked) -> Result<f64, Error> {
        if side == Side::Llama {
            return self.llama.as_ref().expect("it was made ready").seconds(asked);
        }
        let pool = &self.pools[usize::from(asked.threads > 1)];
        pool.install(|| {
            let started = now();
            for _ in 0..asked.repeats {
                black_box(self.predict(side)?);
            }
            Ok(started.elapsed().as_secs_f64() / asked.repeats as f64)
        })
    }

    /// Does what a side does and gives what the model predicts without an update, for the last
    /// query if there are several.
    pub(super) fn predict(&self, side: Side) -> Result<f64, Error> {
        let forward = |model: &Model, sequences: &[Vec<u32>]| -> Result<f64, Error> {
            let network: &Network = model.network();
            let found = network.predict(Layout::shared(sequences)?, &self.labels)?;
            Ok(found.last().copied().map_or(f64::NAN, f64::from))
        };
        let prompt = std::slice::from_ref(&self.prompt);
        match side {
            Side::Plain => forward(&self.models.dequantised, prompt),
            Side::Quantised => forward(&self.models.quantised, prompt),
            Side::PlainFurther => forward(&self.models.dequantised, &self.further),
            Side::Answer(by) => {
                let (predictor, _) = self.by(by);
                Ok(predictor.answer(&self.task)?.report.prediction.icl)
            }
            Side::Further(by) => {
                let (predictor, prepared) = self.by(by);
                let prepared = prepared.expect("the task was observed");
                let mut last = f64::NAN;
                for seen in prepared.further(&self.further)? {
                    black_box(decide(&seen.geometry, predictor.policy())?);
                    last = seen.query_prediction;
                }
                Ok(last)
            }
            Side::Llama => {
                let llama = self.llama.as_ref().expect("it was made ready");
                Ok(mean(&llama.logits, self.labels.values()))
            }
        }
    }

    fn by(&self, by: Answering) -> (&Predictor, Option<&Prepared>) {
        let found = self.answering.iter().find(|(known, ..)| *known == by);
        let (_, predictor, prepared) = found.expect("it was made ready");
        (predictor, prepared.as_ref())
    }

    /// Answers another task by the policy of a side, if it has one, or predicts its query.
    pub(super) fn warm(&self, side: Side, task: &Task) -> Result<(), Error> {
        if let Side::Answer(by) = side {
            self.by(by).0.answer(task)?;
            return Ok(());
        }
        let sequences = self.models.dequantised.read(task)?.sequences().to_vec();
        let layout = Layout::plain(&sequences[sequences.len() - 1..])?;
        self.models.dequantised.network().predict(layout, &self.labels)?;
        Ok(())
    }
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
    use super::*;

    /// All sides look at the same query, and no example is cut off.
    #[test]
    fn sides_agree_on_what_the_model_predicts() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        for (price, first, second) in [
            (Price::Ten, Side::Plain, Side::Answer(Answering::Default)),
            (Price::Further, Side::PlainFurther, Side::Further(Answering::Default)),
        ] {
            let ready = Ready::new(&models, price, (true, 2)).unwrap();
            let found = [first, second].map(|side| ready.predict(side).unwrap());
            assert!((found[0] - found[1]).abs() < 1e-4 * found[0], "{price}: {found:?}");
            assert_eq!(ready.units(second), ready.further.len().max(1));
        }
        let ready = Ready::new(&models, Price::Ten, (true, 1)).unwrap();
        let text: String =
            ready.prompt.iter().map(|&byte| u8::try_from(byte).unwrap() as char).collect();
        assert_eq!(text.matches(":").count(), 5, "{text}");
        // A blank that the labels begin with is a token of its own here.
        assert!(text.starts_with(' ') && text.ends_with(": "), "{text}");
    }

    #[test]
    fn a_prompt_is_cut_where_its_row_says() {
        let models = Models::open(Path::new("none"), true).unwrap().unwrap();
        let whole = Ready::new(&models, Price::Ten, (true, 1)).unwrap().prompt.len();
        let prompt = Ready::new(&models, Price::Llama, (true, 1)).unwrap().prompt;
        assert_eq!((prompt.len(), whole > 20), (20, true));
        assert_eq!(Models::open(Path::new("none"), false).unwrap().map(|_| ()), None);
    }

    #[test]
    fn logits_become_a_prediction() {
        assert!((mean(&[800.0, 800.0], &[0.0, 1.0]) - 0.5).abs() < 1e-15);
        assert!((mean(&[0.0, 3.0_f64.ln()], &[0.0, 1.0]) - 0.75).abs() < 1e-15);
    }
}

//! The tasks of the benchmark in tokens, and the files in which workers read them.

use super::works::{STEPS, Shape};
use crate::error::{Error, refused};
use fewstep_core::{Policy, Rng, decide};
use fewstep_engine::{
    BlockId, Config, Follow, KernelForm, Labels, Network, Order, Steps, TokenTask,
    choose_blocks, observe,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The tokens of the labels, ten digits with the values 0 to 1.
const FIRST_LABEL: u32 = 15;
const LABELS: u32 = 10;

/// The seed of all prompts.
const SEED: u64 = 60;

/// How many of the last layers may be updated.
pub(super) const LAYERS: usize = 4;

/// A task as a file holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Case {
    /// The leave-one-out prompts.
    pub(super) prompts: Vec<Vec<u32>>,
    pub(super) query: Vec<u32>,
    label_tokens: Vec<u32>,
    label_values: Vec<f64>,
    targets: Vec<f64>,
    /// The lowest layer whose values may be updated.
    pub(super) first_layer: usize,
    step_size: f64,
    steps: usize,
    /// Prompts of further queries on the same examples.
    pub(super) further: Vec<Vec<u32>>,
}

impl Case {
    /// Random prompts for a model; the step size is the one that is decided on.
    pub(super) fn new(shape: &Shape, layers: usize, network: &Network) -> Result<Self, Error> {
        let config = network.config();
        let mut case = Self::drawn(shape, layers, config);
        let task = case.task()?;
        let seen = observe(network, &task, &case.blocks(config)?, KernelForm::Cheapest)?;
        case.step_size = decide(&seen.geometry, &Policy::paper())?.how_far.step_size;
        Ok(case)
    }

    /// The same without a step size.
    pub(super) fn drawn(shape: &Shape, layers: usize, config: &Config) -> Self {
        let mut rng = Rng::new(SEED);
        let labels: Vec<u32> = (FIRST_LABEL..FIRST_LABEL + LABELS).collect();
        let values: Vec<f64> =
            (0..LABELS).map(|label| f64::from(label) / f64::from(LABELS - 1)).collect();
        let token = |rng: &mut Rng| {
            u32::try_from(rng.below(config.vocabulary))
                .expect("a vocabulary has under 2^32 tokens")
        };
        let input = |rng: &mut Rng| -> Vec<u32> {
            (1..shape.tokens.max(2)).map(|_| token(rng)).collect()
        };
        let (mut inputs, mut answers) = (Vec::new(), Vec::new());
        for _ in 0..shape.examples {
            inputs.push(input(&mut rng));
            answers.push(rng.below(labels.len()));
        }
        let whole =
            |example: usize| inputs[example].iter().copied().chain([labels[answers[example]]]);
        let ask = |shown: Vec<usize>, own: &[u32]| -> Vec<u32> {
            shown.into_iter().flat_map(whole).chain(own.iter().copied()).collect()
        };
        let all = || (0..shape.examples).collect::<Vec<usize>>();
        Self {
            prompts: (0..shape.examples)
                .map(|own| ask(others(shape.order, own, shape.examples), &inputs[own]))
                .collect(),
            query: ask(all(), &input(&mut rng)),
            targets: answers.iter().map(|&answer| values[answer]).collect(),
            first_layer: config.layers.saturating_sub(layers),
            step_size: 0.0,
            steps: STEPS,
            further: (0..shape.further).map(|_| ask(all(), &input(&mut rng))).collect(),
            label_tokens: labels,
            label_values: values,
        }
    }

    /// A task in tokens, to be observed alone.
    pub(super) fn of(task: &TokenTask, first_layer: usize) -> Self {
        let (query, prompts) = task.sequences().split_last().expect("a task has a query");
        Self {
            prompts: prompts.to_vec(),
            query: query.clone(),
            label_tokens: task.labels().tokens().to_vec(),
            label_values: task.labels().values().to_vec(),
            targets: task.targets().to_vec(),
            first_layer,
            step_size: 0.0,
            steps: 0,
            further: Vec::new(),
        }
    }

    /// Two short prompts of the same kind, on which everything that is made once is made.
    pub(super) fn cut(&self) -> Self {
        let end = |prompt: &Vec<u32>| prompt[prompt.len().saturating_sub(3)..].to_vec();
        Self {
            prompts: self.prompts[..2.min(self.prompts.len())].iter().map(end).collect(),
            query: end(&self.query),
            targets: self.targets[..2.min(self.targets.len())].to_vec(),
            further: Vec::new(),
            ..self.clone()
        }
    }

    pub(super) fn write(&self, file: &Path) -> Result<(), Error> {
        let json = serde_json::to_string(self).expect("numbers become JSON");
        std::fs::write(file, json).map_err(refused(file, "write"))
    }

    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file).map_err(refused(file, "read"))?;
        serde_json::from_str(&text)
            .map_err(|error| refused(file, "read")(std::io::Error::from(error)))
    }

    fn labels(&self) -> Result<Labels, Error> {
        Ok(Labels::new(self.label_tokens.clone(), self.label_values.clone())?)
    }

    pub(super) fn task(&self) -> Result<TokenTask, Error> {
        let (prompts, query) = (self.prompts.clone(), self.query.clone());
        Ok(TokenTask::new(prompts, query, self.labels()?, self.targets.clone())?)
    }

    /// The further queries as sequences that share what they begin with.
    pub(super) fn further_task(&self) -> Result<Option<TokenTask>, Error> {
        let mut prompts = self.further.clone();
        let Some(last) = prompts.pop().filter(|_| !prompts.is_empty()) else { return Ok(None) };
        let targets = vec![0.0; prompts.len()];
        Ok(Some(TokenTask::new(prompts, last, self.labels()?, targets)?))
    }

    /// The value blocks from the first layer up.
    pub(super) fn blocks(&self, config: &Config) -> Result<Vec<BlockId>, Error> {
        let choice = format!("value@{}..{}", self.first_layer, config.layers);
        Ok(choose_blocks(&choice, config)?)
    }

    pub(super) fn settings(&self) -> Steps {
        // PyTorch predicts the query after the last step, too.
        Steps { follow: Follow::Query, ..Steps::new(self.step_size, self.steps) }
    }

    /// The same with another number of steps.
    pub(super) fn with_steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
    }

    /// The leave-one-out prompts, then the query's.
    pub(super) fn sequences(&self) -> Vec<&[u32]> {
        self.prompts.iter().chain([&self.query]).map(Vec::as_slice).collect()
    }

    pub(super) fn targets(&self) -> &[f64] {
        &self.targets
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}

/// The examples `0..examples` without `own`, as its prompt shows them.
fn others(order: Order, own: usize, examples: usize) -> Vec<usize> {
    if order == Order::Original {
        return (0..examples).filter(|&other| other != own).collect();
    }
    // The half without it first, then the same within the half that it is in.
    let (mut shown, mut rest) = (Vec::new(), 0..examples);
    while rest.len() > 1 {
        let middle = rest.start + rest.len() / 2;
        let (far, near) = if own < middle {
            (middle..rest.end, rest.start..middle)
        } else {
            (rest.start..middle, middle..rest.end)
        };
        shown.extend(far);
        rest = near;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_engine::{PromptSettings, Prompts, Task, Tokenizer};

    /// The engine writes prompts from text; here they are put together from tokens.
    #[test]
    fn examples_are_shown_in_the_order_of_the_engine() {
        for order in [Order::Original, Order::Tree] {
            for n in 1..=13_u8 {
                let letter = |index: usize| char::from(b'a' + u8::try_from(index).unwrap());
                let examples: Vec<_> = (0..usize::from(n))
                    .map(|index| serde_json::json!({"x": letter(index).to_string(), "y": "0"}))
                    .collect();
                let task: Task = serde_json::from_value(serde_json::json!({
                    "id": "t", "template": "{x}={y}", "separator": ";",
                    "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
                    "examples": examples, "query": {"x": "z"}
                }))
                .unwrap();
                let settings = PromptSettings { order, ..PromptSettings::new(256) };
                let Ok(prompts) = Prompts::build(&task, &Tokenizer::of_bytes(), &settings)
                else {
                    assert_eq!(n, 1);
                    continue;
                };
                for (own, prompt) in prompts.leave_one_out().iter().enumerate() {
                    let shown = others(order, own, usize::from(n)).into_iter();
                    let mut text: String =
                        shown.map(|index| format!("{}=0;", letter(index))).collect();
                    text.push_str(&format!("{}=", letter(own)));
                    let expected: Vec<u32> = text.bytes().map(u32::from).collect();
                    assert_eq!(*prompt, expected, "{order}, {own} of {n}");
                }
            }
        }
    }
}

//! How the built-in model is made: a recipe, and a run that follows it.
//!
//! In: a [`Recipe`] and a directory. Out: in that directory the model, what it was made by and how
//! its loss fell. A run can be stopped at any step and continued; the same recipe gives the
//! same model, bit for bit, on the same type of machine.

use crate::digit_maps::Prior;
use crate::error::{Error, refused};
use fewstep::adapter::make_directory;
use fewstep_core::Rng;
use fewstep_engine::{
    Batch, Config, Precision, PretrainSettings, Pretraining, StepReport, Tokenizer,
};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Pairs in most batches: ten examples and a query.
const PAIRS: usize = 11;

/// Pairs in one batch of [`LONG_EVERY`], so that longer prompts are understood as well.
const LONG_PAIRS: usize = 33;

const LONG_EVERY: usize = 4;

/// The longest prompt, in bytes.
const POSITIONS: usize = 256;

/// Kept apart from the seed of the initial parameters.
const BATCH_SEEDS: u64 = 0x5EEC;

/// Steps between checkpoints.
const CHECKPOINT_EVERY: usize = 250;

const RECIPE: &str = "recipe.json";
const LOSSES: &str = "losses.csv";
const CHECKPOINT: &str = "checkpoint.safetensors";
const MODEL: &str = "model.safetensors";

/// How a model for digit maps is made; everything that changes the result.
///
/// # Examples
///
/// ```
/// use fewstep_lab::pretraining::Recipe;
///
/// let recipe = Recipe { layers: 2, heads: 2, width: 8, ..Recipe::default() };
/// assert_eq!(recipe.config()?.head_width(), 4);
/// assert_eq!(recipe.batch(0)?.sequences().len(), 64);
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Number of layers.
    pub layers: usize,
    /// Attention heads per layer.
    pub heads: usize,
    /// Numbers per token between layers.
    pub width: usize,
    /// Number of gradient steps.
    pub steps: usize,
    /// Tasks per step.
    pub batch: usize,
    /// The highest learning rate; it rises for 200 steps and falls to a fiftieth.
    pub learning_rate: f64,
    /// Where the initial parameters and all tasks come from.
    pub seed: u64,
}

impl Default for Recipe {
    /// The recipe of the built-in model.
    fn default() -> Self {
        Self {
            layers: 6,
            heads: 12,
            width: 96,
            steps: 5000,
            batch: 64,
            learning_rate: 1e-3,
            seed: 1,
        }
    }
}

impl Recipe {
    /// The sizes of the model.
    ///
    /// # Errors
    ///
    /// Those of [`Config::check`].
    pub fn config(&self) -> Result<Config, Error> {
        let json = serde_json::json!({
            "model_type": "gpt2",
            "n_layer": self.layers,
            "n_head": self.heads,
            "n_embd": self.width,
            "n_positions": POSITIONS,
            "vocab_size": 256,
        });
        Ok(Config::from_json(json.to_string().as_bytes())?)
    }

    fn settings(&self) -> PretrainSettings {
        PretrainSettings {
            seed: self.seed,
            steps: self.steps,
            warmup_steps: 200.min(self.steps),
            learning_rate: self.learning_rate,
            final_learning_rate: self.learning_rate / 50.0,
            square_decay: 0.98,
            ..PretrainSettings::default()
        }
    }

    /// The tasks of a step, in which every label is a target.
    ///
    /// # Errors
    ///
    /// [`fewstep_engine::Error::Empty`] for a recipe without tasks.
    pub fn batch(&self, step: usize) -> Result<Batch, Error> {
        let stream = BATCH_SEEDS.wrapping_add(self.seed) << 32;
        let mut rng = Rng::new(stream.wrapping_add(step as u64));
        let prior = Prior::pretraining();
        let pairs = if rng.below(LONG_EVERY) == 0 { LONG_PAIRS } else { PAIRS };
        let (mut sequences, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..self.batch {
            let (text, before) = prior.draw(pairs, &mut rng).text();
            let mut tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            targets.push(before.iter().map(|&place| (place, tokens[place + 1])).collect());
            tokens.pop();
            sequences.push(tokens);
        }
        Ok(Batch::new(sequences, targets)?)
    }
}

/// A directory in which a model is made.
///
/// # Examples
///
/// ```
/// use fewstep_lab::pretraining::{Recipe, Workshop};
/// use std::ops::ControlFlow;
///
/// let recipe = Recipe { layers: 1, heads: 1, width: 4, steps: 3, batch: 2, ..Recipe::default() };
/// let directory = tempfile::tempdir().expect("there is room for a directory");
/// let mut workshop = Workshop::open(directory.path(), &recipe, false)?;
/// assert!(workshop.train(1, |_, _| ControlFlow::Continue(()))?);
/// assert_eq!(workshop.losses().len(), 3);
/// assert!(fewstep_engine::Model::open(directory.path()).is_ok());
/// # Ok::<(), fewstep_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Workshop {
    directory: PathBuf,
    recipe: Recipe,
    losses: Vec<f64>,
    /// The run, unless the model is there already.
    run: Option<Pretraining>,
}

impl Workshop {
    /// Makes ready to follow a recipe; with `resume` from where the directory's run has come to.
    ///
    /// # Errors
    ///
    /// [`Error::WorkshopInUse`] if the directory holds a run and `resume` is false,
    /// [`Error::OtherRecipe`] if it holds that of another recipe, [`fewstep::Error::File`] if something
    /// cannot be read or written, [`Error::BadLosses`] if the record of the loss does not fit, and
    /// those of [`Pretraining::new`] and [`Pretraining::resume`].
    pub fn open(directory: &Path, recipe: &Recipe, resume: bool) -> Result<Self, Error> {
        let (config, settings) = (recipe.config()?, recipe.settings());
        let path = |name: &str| directory.join(name);
        let mut workshop = Self {
            directory: directory.to_path_buf(),
            recipe: recipe.clone(),
            losses: Vec::new(),
            run: None,
        };
        if !path(RECIPE).exists() && !path(MODEL).exists() {
            workshop.run = Some(Pretraining::new(&config, settings)?);
            make_directory(directory)?;
            let json = serde_json::to_string_pretty(recipe).expect("numbers become JSON");
            workshop.write(RECIPE, &(json + "\n"))?;
            return Ok(workshop);
        }
        if !resume {
            return Err(Error::WorkshopInUse { directory: workshop.directory });
        }
        let text = read(&path(RECIPE))?;
        if serde_json::from_str::<Recipe>(&text).ok().as_ref() != Some(recipe) {
            return Err(Error::OtherRecipe { file: path(RECIPE) });
        }
        let finished = path(MODEL).exists();
        if !finished {
            workshop.run = Some(if path(CHECKPOINT).exists() {
                Pretraining::resume(&path(CHECKPOINT), &config, settings)?
            } else {
                Pretraining::new(&config, settings)?
            });
        }
        let steps = workshop.run.as_ref().map_or(recipe.steps, Pretraining::steps);
        if steps > 0 {
            workshop.losses = read_losses(&path(LOSSES), steps)?;
        }
        Ok(workshop)
    }

    /// Takes the steps that are left, and writes the model after the last one.
    ///
    /// `after` hears of every step and may end the run, which can then be continued. Returns
    /// whether the model is finished.
    ///
    /// # Errors
    ///
    /// Those of [`Pretraining::step`]; [`fewstep::Error::File`] and others if something cannot be written.
    pub fn train(
        &mut self,
        threads: usize,
        mut after: impl FnMut(usize, &StepReport) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let Some(run) = self.run.take() else { return Ok(true) };
        let mut run = run.with_threads(threads);
        while run.steps() < self.recipe.steps {
            let report = run.step(&self.recipe.batch(run.steps())?)?;
            self.losses.push(report.loss);
            let stop = after(run.steps(), &report).is_break();
            if stop || run.steps().is_multiple_of(CHECKPOINT_EVERY) {
                self.write_losses()?;
                run.save(&self.directory.join(CHECKPOINT))?;
            }
            if stop {
                self.run = Some(run);
                return Ok(false);
            }
        }
        self.write_losses()?;
        let config = run.config().clone();
        Tokenizer::of_bytes().save(&self.directory)?;
        run.parameters().save(&self.directory, &config, Precision::Half)?;
        match std::fs::remove_file(self.directory.join(CHECKPOINT)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(refused(&self.directory.join(CHECKPOINT), "remove")(error))
            }
            _ => Ok(true),
        }
    }

    /// The mean loss of every step so far, in nats per label.
    #[must_use]
    pub fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// The recipe.
    #[must_use]
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn write_losses(&self) -> Result<(), Error> {
        let mut text = "step,loss\n".to_owned();
        for (step, loss) in self.losses.iter().enumerate() {
            text.push_str(&format!("{},{loss:.6}\n", step + 1));
        }
        self.write(LOSSES, &text)
    }

    /// Writes a file beside the model; it replaces an older one only when it is complete.
    ///
    /// # Errors
    ///
    /// [`fewstep::Error::File`] if it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (file, part) =
            (self.directory.join(name), self.directory.join(format!("{name}.part")));
        std::fs::write(&part, text).map_err(refused(&part, "write"))?;
        std::fs::rename(&part, &file).map_err(refused(&file, "write"))
    }
}

fn read(file: &Path) -> Result<String, Error> {
    std::fs::read_to_string(file).map_err(refused(file, "read"))
}

/// The losses of the first `steps` steps; what was written after the checkpoint is left out.
fn read_losses(file: &Path, steps: usize) -> Result<Vec<f64>, Error> {
    let text = read(file)?;
    let losses: Vec<f64> = text
        .lines()
        .skip(1)
        .zip(1_usize..=steps)
        .map_while(|(line, step)| {
            let (number, loss) = line.split_once(',')?;
            (number.parse() == Ok(step)).then(|| loss.parse().ok())?
        })
        .collect();
    let found = losses.len();
    if found == steps {
        Ok(losses)
    } else {
        Err(Error::BadLosses { file: file.to_path_buf(), found, steps })
    }
}

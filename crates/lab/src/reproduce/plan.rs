//! What is asked for, as the parts of a run.

use super::families::Family;
use super::pilot::DEFAULT_SCALE;
use super::settings::{Choices, Experiment, MOST_QUERIES, Part, Role, Settings};
use super::sst2::{DEFAULT_TOKENS, Sentences};
use super::sweep;
use crate::error::Error;
use fewstep_engine::Model;

/// What is asked for.
///
/// | field | meaning |
/// |---|---|
/// | `experiments` | what is measured |
/// | `tasks` | how many tasks of each; none: the paper's numbers, or those of a tour |
/// | `tour` | whether everything is looked at, each experiment on fewer tasks |
/// | `seed`, `seeds` | the first seed, and how many |
/// | `sweep` | how many tasks every other choice is measured on, if any |
/// | `choices` | what the paper leaves open |
///
/// # Examples
///
/// See [`Request::settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is measured.
    pub experiments: Vec<Experiment>,
    /// How many tasks of each; `None` for the paper's numbers, or those of a tour.
    pub tasks: Option<usize>,
    /// Whether everything is looked at, each experiment on fewer tasks.
    pub tour: bool,
    /// The first seed.
    pub seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// On how many tasks every open choice is taken otherwise.
    pub sweep: Option<usize>,
    /// What the paper leaves open.
    pub choices: Choices,
}

impl Request {
    /// The settings of a run that does what is asked for.
    ///
    /// # Errors
    ///
    /// [`Error::NoData`] if sentences are needed and there are none, [`Error::BadQueries`] for
    /// more than one query per prompt, and those of [`fewstep_engine::choose_blocks`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::{Choices, Experiment, Request};
    ///
    /// let request = Request {
    ///     experiments: vec![Experiment::DigitShift],
    ///     tasks: Some(200),
    ///     tour: false,
    ///     seed: 7,
    ///     seeds: 3,
    ///     sweep: None,
    ///     choices: Choices::default(),
    /// };
    /// let settings = request.settings("builtin", &fewstep::builtin()?, None)?;
    /// assert_eq!(settings.parts.len(), 3);
    /// assert_eq!(settings.parts[2].name, "digit-shift-seed-9");
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn settings(
        &self,
        name: &str,
        model: &Model,
        sentences: Option<&Sentences>,
    ) -> Result<Settings, Error> {
        fewstep_engine::choose_blocks(&self.choices.blocks, model.config())?;
        self.choices.check_queries(1)?;
        let mut parts = vec![];
        for &experiment in &self.experiments {
            if experiment == Experiment::Sst2 && sentences.is_none() {
                return Err(Error::NoData);
            }
            let main: Vec<Part> =
                (0..self.seeds).map(|index| self.part(experiment, index)).collect();
            let swept = match (self.sweep, main.first()) {
                (Some(tasks), Some(first)) if experiment != Experiment::Sst2 => {
                    sweep::parts(experiment, first, tasks, model)
                }
                _ => vec![],
            };
            parts.extend(main);
            parts.extend(swept);
        }
        Ok(settings(name, model, self.seed, sentences, parts))
    }

    /// The tasks of one seed.
    fn part(&self, experiment: Experiment, index: u64) -> Part {
        let seed = self.seed.wrapping_add(index);
        let mut choices = self.choices.clone();
        if experiment == Experiment::Sst2 {
            choices.max_tokens_per_example.get_or_insert(DEFAULT_TOKENS);
            choices.step_scale.get_or_insert(DEFAULT_SCALE);
        }
        let name = match self.seeds {
            1 => experiment.to_string(),
            _ => format!("{experiment}-seed-{seed}"),
        };
        let default =
            if self.tour { experiment.tour_tasks() } else { experiment.paper_tasks() };
        let tasks = self.tasks.unwrap_or(default);
        Part { name, experiment, family: None, role: Role::Main, tasks, seed, choices }
    }
}

/// Tasks that rules are compared on.
///
/// # Examples
///
/// See [`Traces::settings`].
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// What tasks hide; none: all that the model and the data allow.
    pub families: Vec<Family>,
    /// Whether rules are judged on them, rather than developed.
    pub test: bool,
    /// How many tasks of each family and seed.
    pub tasks: usize,
    /// The first seed.
    pub seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// What the paper leaves open.
    pub choices: Choices,
}

impl Traces {
    /// The settings of a run that measures them: a part for every family and seed.
    ///
    /// # Errors
    ///
    /// [`Error::NoData`] if a family needs sentences and there are none, [`Error::BadTableSize`] if
    /// there are too few for every query, [`Error::BadQueries`] unless a prompt has 1 to 10
    /// queries, and those of [`fewstep_engine::choose_blocks`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_lab::reproduce::{Choices, Family, RULES_LONGEST, Traces};
    ///
    /// let choices = Choices { longest: RULES_LONGEST, ..Choices::default() };
    /// let families = vec![Family::Reflection];
    /// let traces = Traces { families, test: true, tasks: 100, seed: 3, seeds: 3, choices };
    /// let settings = traces.settings("builtin", &fewstep::builtin()?, None)?;
    /// assert_eq!(settings.parts[2].name, "rules-reflection-test-seed-5");
    /// assert_eq!(settings.pilot_seed, 0);
    /// # Ok::<(), fewstep_lab::Error>(())
    /// ```
    pub fn settings(
        &self,
        name: &str,
        model: &Model,
        sentences: Option<&Sentences>,
    ) -> Result<Settings, Error> {
        fewstep_engine::choose_blocks(&self.choices.blocks, model.config())?;
        self.choices.check_queries(MOST_QUERIES)?;
        let mut families = self.families.clone();
        if families.is_empty() {
            let possible = |family: &Family| sentences.is_some() || !family.needs_sentences();
            families = Family::ALL.into_iter().filter(possible).collect();
        }
        if families.iter().any(|family| family.needs_sentences()) {
            sentences.ok_or(Error::NoData)?.check_queries(self.choices.queries)?;
        }
        let role = if self.test { Role::Test } else { Role::Development };
        let split = if self.test { "test" } else { "development" };
        let mut parts = vec![];
        for &family in &families {
            let mut choices = self.choices.clone();
            if family.needs_sentences() {
                choices.max_tokens_per_example.get_or_insert(DEFAULT_TOKENS);
            }
            for seed in (0..self.seeds).map(|index| self.seed.wrapping_add(index)) {
                parts.push(Part {
                    name: format!("rules-{family}-{split}-seed-{seed}"),
                    experiment: Experiment::Rules,
                    family: Some(family),
                    role: role.clone(),
                    tasks: self.tasks,
                    seed,
                    choices: choices.clone(),
                });
            }
        }
        // No pilot finds a step size for rules, so that seeds may be measured apart.
        Ok(settings(name, model, 0, sentences, parts))
    }
}

fn settings(
    name: &str,
    model: &Model,
    pilot_seed: u64,
    sentences: Option<&Sentences>,
    parts: Vec<Part>,
) -> Settings {
    Settings {
        program: concat!("fewstep ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: name.to_owned(),
        shape: shape(model),
        pilot_seed,
        data: sentences.map(|sentences| sentences.source().clone()),
        parts,
    }
}

/// A model by its numbers.
pub(crate) fn shape(model: &Model) -> String {
    let config = model.config();
    let heads = match config.key_value_heads() {
        shared if shared < config.heads => {
            format!("{} heads ({shared} for values)", config.heads)
        }
        _ => format!("{} heads", config.heads),
    };
    format!("{} layers, {heads}, width {}", config.layers, config.width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_parts_of_their_own_and_sentences_are_cut() {
        let model = fewstep::builtin().unwrap();
        let request = Request {
            experiments: vec![Experiment::DigitShift, Experiment::Heads],
            tasks: None,
            tour: false,
            seed: 5,
            seeds: 2,
            sweep: None,
            choices: Choices::default(),
        };
        let settings = request.settings("builtin", &model, None).unwrap();
        let found: Vec<(&str, usize, u64)> = settings
            .parts
            .iter()
            .map(|part| (part.name.as_str(), part.tasks, part.seed))
            .collect();
        let expected = [
            ("digit-shift-seed-5", 2000, 5),
            ("digit-shift-seed-6", 2000, 6),
            ("heads-seed-5", 500, 5),
            ("heads-seed-6", 500, 6),
        ];
        assert_eq!(found, expected);
        assert_eq!(settings.shape, "6 layers, 12 heads, width 96");
        let tour = Request { tour: true, ..request.clone() };
        assert_eq!(tour.part(Experiment::Heads, 0).tasks, 100);
        let sst2 = Request { experiments: vec![Experiment::Sst2], ..request };
        assert_eq!(sst2.settings("builtin", &model, None), Err(Error::NoData));
        let choices = Choices { queries: 2, ..Choices::default() };
        let experiments = vec![Experiment::Heads];
        let more = Request { experiments, choices: choices.clone(), ..sst2.clone() };
        let refused = more.settings("builtin", &model, None);
        assert_eq!(refused, Err(Error::BadQueries { found: 2, most: 1 }));
        let choices = Choices { queries: 11, ..choices };
        let families = vec![Family::Swap];
        let traces = Traces { families, test: false, tasks: 1, seed: 0, seeds: 1, choices };
        let refused = traces.settings("builtin", &model, None);
        assert_eq!(refused, Err(Error::BadQueries { found: 11, most: 10 }));
        let part = sst2.part(Experiment::Sst2, 0);
        assert_eq!(part.choices.max_tokens_per_example, Some(DEFAULT_TOKENS));
        assert_eq!(part.choices.step_scale, Some(DEFAULT_SCALE));
    }
}

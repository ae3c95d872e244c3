//! The report: made of settings and records alone.

use super::document::{Document, Section, Table};
use super::findings::{interval, texts};
use super::methods::{HorizonMethod, Sample};
use super::pilot::Pilot;
use super::record::{Line, Record};
use super::run::by_pilot;
use super::settings::{Experiment, Part, Role, Settings};
use super::store::{Lined, gather};
use super::{heads, horizons, rules, sweep};
use crate::error::Error;
use std::path::PathBuf;

/// What a report is made of.
///
/// # Examples
///
/// See [`measure`](super::run::measure).
#[derive(Clone, Debug)]
pub struct Findings {
    settings: Settings,
    pilot: Option<Pilot>,
    parts: Vec<(Part, Lined)>,
}

impl Findings {
    /// Reads the results of one or more directories; those of part of the tasks are put together.
    ///
    /// # Errors
    ///
    /// Those of [`Store::settings_of`](super::Store::settings_of) and [`gather`];
    /// [`Error::AllFailed`] if no task of a part was measured.
    pub fn read(directories: &[PathBuf]) -> Result<Self, Error> {
        let (settings, pilot) = super::Store::settings_of(directories)?;
        let mut parts = Vec::with_capacity(settings.parts.len());
        for part in &settings.parts {
            let lines = gather(directories, part)?;
            if let Some(problem) = nothing_measured(&lines) {
                return Err(Error::AllFailed { tasks: lines.len(), problem });
            }
            parts.push((part.clone(), lines));
        }
        Ok(Self { settings, pilot, parts })
    }

    /// The settings of all results.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the pilot found.
    #[must_use]
    pub fn pilot(&self) -> Option<&Pilot> {
        self.pilot.as_ref()
    }

    /// The results of every part.
    #[must_use]
    pub fn parts(&self) -> &[(Part, Lined)] {
        &self.parts
    }

    /// How many tasks are missing, all parts together.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.parts.iter().map(|(part, lines)| part.tasks.saturating_sub(lines.len())).sum()
    }

    /// How many tasks could not be measured.
    #[must_use]
    pub fn failed(&self) -> usize {
        let failed = |line: &&Line| matches!(line, Line::Failed(_));
        self.parts.iter().map(|(_, lines)| lines.values().filter(failed).count()).sum()
    }

    /// The report. `command` and `version` are what the reader may type to make it again; further
    /// sections follow those of the experiments.
    ///
    /// # Errors
    ///
    /// None for results of finite numbers.
    pub fn document(
        &self,
        command: &str,
        version: &str,
        further: Vec<Section>,
    ) -> Result<Document, Error> {
        let mut sections = vec![];
        for experiment in [Experiment::DigitShift, Experiment::Heads, Experiment::Sst2] {
            sections.extend(self.sections(experiment)?);
        }
        let compared: Vec<(&Part, Vec<Record>)> = self
            .parts
            .iter()
            .filter(|(part, _)| part.experiment == Experiment::Rules)
            .map(|(part, lines)| (part, measured(lines).collect()))
            .collect();
        sections.extend(rules::sections(&compared)?);
        sections.extend(further);
        Ok(Document {
            title: "A Decision-Theoretic View of Test-Time Training: the experiments again"
                .to_owned(),
            summary: self.summary(),
            settings: self.listed(command, version),
            sections,
        })
    }

    /// The records of all parts of an experiment with some role, one part after the other.
    fn records(&self, experiment: Experiment) -> Vec<Record> {
        let main = self
            .parts
            .iter()
            .filter(|(part, _)| part.experiment == experiment && part.role == Role::Main);
        main.flat_map(|(_, lines)| measured(lines)).collect()
    }

    fn sections(&self, experiment: Experiment) -> Result<Vec<Section>, Error> {
        let records = self.records(experiment);
        let mut sections = vec![];
        if records.is_empty() {
            return Ok(sections);
        }
        if experiment != Experiment::Heads {
            let mut section = horizons::section(experiment, &records)?;
            section.tables.extend(self.by_seed(experiment));
            sections.push(section);
        }
        if experiment != Experiment::DigitShift {
            let mut section = heads::section(experiment, &records);
            section.tables.extend(self.heads_by_seed(experiment));
            sections.push(section);
        }
        let swept: Vec<(&Part, Vec<Record>)> = self
            .parts
            .iter()
            .filter(|(part, _)| part.experiment == experiment && part.role != Role::Main)
            .map(|(part, lines)| (part, measured(lines).collect()))
            .collect();
        if !swept.is_empty() {
            sections.push(sweep::section(experiment, &swept));
        }
        Ok(sections)
    }

    /// Parts of an experiment that differ in their seed alone, if there are several.
    fn seeds(&self, experiment: Experiment) -> Vec<(u64, Vec<Record>)> {
        let main = self
            .parts
            .iter()
            .filter(|(part, _)| part.experiment == experiment && part.role == Role::Main);
        let seeds: Vec<(u64, Vec<Record>)> =
            main.map(|(part, lines)| (part.seed, measured(lines).collect())).collect();
        if seeds.len() > 1 { seeds } else { vec![] }
    }

    /// The paper's effects, seed by seed.
    fn by_seed(&self, experiment: Experiment) -> Option<Table> {
        let pairs = [
            (HorizonMethod::Icl, HorizonMethod::Eight),
            (HorizonMethod::Eight, HorizonMethod::EvidenceFixed),
            (HorizonMethod::Eight, HorizonMethod::Evidence),
            (HorizonMethod::Eight, HorizonMethod::LeaveOneOut),
        ];
        let mut header = texts(["seed"]);
        for (baseline, method) in pairs {
            header.push(format!("{} over {}", method.title(), baseline.title()));
        }
        let row = |(seed, records): (u64, Vec<Record>)| {
            let sample = Sample::preferred(&records);
            let cell = |(baseline, method)| {
                let found = horizons::improvement(&sample, baseline, method);
                found.map_or("–".to_owned(), |found| interval(&found))
            };
            std::iter::once(seed.to_string()).chain(pairs.map(cell)).collect()
        };
        let rows: Vec<Vec<String>> = self.seeds(experiment).into_iter().map(row).collect();
        let caption =
            "Improvement [95 %] by seed: independent tasks, all pooled above".to_owned();
        (!rows.is_empty()).then_some(Table { caption, header, rows })
    }

    /// The same for choices of blocks.
    fn heads_by_seed(&self, experiment: Experiment) -> Option<Table> {
        use super::record::Method::{QueryAware, QueryScore, Random, TraceTop};
        let pairs =
            [QueryAware.over(Random), QueryScore.over(Random), QueryAware.over(TraceTop)];
        let mut header = texts(["seed"]);
        for heads::MethodPair { baseline, method } in pairs {
            header.push(format!("{} over {}", method.title(), baseline.title()));
        }
        let row = |(seed, records): (u64, Vec<Record>)| {
            let sample = heads::Chosen::preferred(&records);
            let cell = |pair| {
                let found = sample.overall(heads::Objective::Query, pair);
                found.map_or("–".to_owned(), |found| interval(&found))
            };
            std::iter::once(seed.to_string()).chain(pairs.map(cell)).collect()
        };
        let rows: Vec<Vec<String>> = self.seeds(experiment).into_iter().map(row).collect();
        let caption = "Improvement of the query error, mean over budgets [95 %], by seed: \
                       independent tasks, all pooled above"
            .to_owned();
        (!rows.is_empty()).then_some(Table { caption, header, rows })
    }

    /// What to read first.
    fn summary(&self) -> Vec<String> {
        let tasks: usize = self.parts.iter().map(|(_, lines)| lines.len()).sum();
        let beyond = self.parts.iter().all(|(part, _)| part.experiment == Experiment::Rules);
        let what = if beyond {
            "Rules that decide how far to go, compared"
        } else {
            "The experiments of Sec. 9 and App. J again,"
        };
        let mut summary = vec![format!(
            "{what} on the model {}: {tasks} tasks, all parts together.",
            self.settings.model
        )];
        if self.missing() > 0 {
            summary.push(format!(
                "{} tasks are missing: what follows is about a part of the run.",
                self.missing()
            ));
        }
        if self.failed() > 0 {
            summary.push(format!(
                "{} tasks could not be measured and are left out.",
                self.failed()
            ));
        }
        summary
    }

    /// What was set, for the reader.
    fn listed(&self, command: &str, version: &str) -> Vec<(String, String)> {
        let mut list = vec![
            ("command".to_owned(), command.to_owned()),
            ("program".to_owned(), format!("fewstep {version}")),
            ("model".to_owned(), self.settings.model.clone()),
            ("shape".to_owned(), self.settings.shape.clone()),
        ];
        if let Some(data) = &self.settings.data {
            let text = format!("{}, {} sentences", data.file, data.sentences);
            list.push(("data".to_owned(), text));
        }
        if let Some(pilot) = &self.pilot {
            let tried = pilot.tried.iter().map(|trial| {
                let c = trial.step_scale;
                format!("c = {c}: {:.4} ± {:.4}", trial.error, trial.standard_error)
            });
            let tried: Vec<String> = tried.collect();
            let text = format!("c = {} ({})", pilot.step_scale, tried.join("; "));
            list.push(("pilot on 20 separate tasks, T = 8".to_owned(), text));
        }
        for (part, lines) in &self.parts {
            list.push((part.name.clone(), described(part, lines.len())));
        }
        list
    }
}

/// A part in words.
fn described(part: &Part, found: usize) -> String {
    let choices = &part.choices;
    let mut words = vec![
        format!("{found} of {} tasks", part.tasks),
        format!("seed {}", part.seed),
        format!("blocks {}", choices.blocks),
        format!("separator {:?}", choices.separator),
    ];
    words.push(match choices.step_scale {
        Some(scale) => format!("c = {scale}"),
        None if by_pilot(part) => "c by the pilot".to_owned(),
        None => format!("c = {}", super::pilot::DEFAULT_SCALE),
    });
    if part.experiment != Experiment::Heads {
        words.push(format!("horizons 0 to {}", choices.longest));
    }
    if let Some(bos) = choices.bos {
        words.push(format!("token before prompts {}", if bos { "always" } else { "never" }));
    }
    if choices.tree_order {
        words.push("leave-one-out prompts in tree order".to_owned());
    }
    if let Some(tokens) = choices.max_tokens_per_example {
        words.push(format!("inputs truncated to {tokens} tokens"));
    }
    if choices.linear_only {
        words.push("linear dynamics alone".to_owned());
    }
    words.join(", ")
}

/// The first failure, if there is nothing else.
fn nothing_measured(lines: &Lined) -> Option<String> {
    let measured = lines.values().any(|line| matches!(line, Line::Measured(_)));
    let failed = lines.values().find_map(|line| match line {
        Line::Failed(failure) => Some(failure.error.clone()),
        Line::Measured(_) => None,
    });
    failed.filter(|_| !measured)
}

fn measured(lines: &Lined) -> impl Iterator<Item = Record> {
    lines.values().filter_map(|line| match line {
        Line::Measured(record) => Some((**record).clone()),
        Line::Failed(_) => None,
    })
}

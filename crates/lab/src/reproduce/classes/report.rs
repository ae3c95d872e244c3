//! The report: made of settings and records alone.

use super::super::document::{Document, Section, Table};
use super::draw::Size;
use super::findings::{Case, ClassFindings, Metric};
use super::record::PromptLine;
use super::resample::RESAMPLES;
use super::sets::DataSet;
use super::targets::{Target, targets};
use super::{tables, variants};
use crate::error::Error;

/// The number of examples that targets speak of.
const MAIN: Size = Size::Examples(16);

impl ClassFindings {
    /// The report. `command` and `version` are what the reader may type to make it again.
    ///
    /// # Errors
    ///
    /// [`Error::AllFailed`] if no prompt was measured.
    pub fn document(&self, command: &str, version: &str) -> Result<Document, Error> {
        let mut sizes = self.settings.sizes.clone();
        sizes.sort_unstable();
        let cases: Vec<Case<'_>> = sizes
            .iter()
            .map(|&size| self.case(size))
            .filter(|case| !case.records.is_empty())
            .collect();
        let main = cases.iter().find(|case| case.size == MAIN).or_else(|| cases.last());
        let Some(main) = main else {
            let problem = "no results".to_owned();
            return Err(Error::AllFailed { tasks: self.found.len(), problem });
        };
        let targets = targets(main, &cases);
        let mut sections = vec![Section {
            title: format!("Targets ({} examples)", main.size),
            text: vec![how_judged(main)],
            tables: vec![target_table(&targets)],
            ..Section::default()
        }];
        sections.extend(cases.iter().map(section));
        if cases.len() > 1 {
            sections.push(Section {
                title: "Numbers of examples".to_owned(),
                text: vec![
                    "Prompts of different sizes ask the same queries, and larger ones hold the \
                     examples of smaller ones."
                        .to_owned(),
                ],
                tables: vec![tables::by_size(&cases)],
                ..Section::default()
            });
        }
        if let Some(failures) = self.failures() {
            sections.push(failures);
        }
        Ok(Document {
            title: "Classification: calibration, probing and adaptation as one decision"
                .to_owned(),
            summary: summary(main, &targets),
            settings: self.told(command, version),
            sections,
        })
    }

    /// What was run, as names and values.
    fn told(&self, command: &str, version: &str) -> Vec<(String, String)> {
        let settings = &self.settings;
        let list = |items: Vec<String>| items.join(", ");
        let files = settings.data.iter().map(|source| {
            format!("{} ({} rows, {})", source.file, source.sentences, source.fingerprint)
        });
        let seeds: Vec<String> = settings.seeds.iter().map(ToString::to_string).collect();
        let labels = settings.labels.map_or("all".to_owned(), |count| format!("{count} drawn"));
        let pairs = [
            ("command", command.to_owned()),
            ("program", format!("fewstep {version}")),
            ("model", format!("{} ({})", settings.model, settings.shape)),
            (
                "rows",
                format!(
                    "the half for {}, by a hash of the text: no text is in both halves",
                    settings.half
                ),
            ),
            ("sets", list(settings.sets.iter().map(ToString::to_string).collect())),
            ("labels of a prompt", labels),
            ("prompts per set, size and seed", settings.prompts.to_string()),
            ("queries per prompt", settings.queries.to_string()),
            ("examples", list(settings.sizes.iter().map(ToString::to_string).collect())),
            ("seeds", list(seeds)),
            (
                "leave-one-out prompts",
                if settings.tree_order {
                    "in tree order"
                } else {
                    "in the order of the examples"
                }
                .to_owned(),
            ),
            ("words of a text", format!("the first {}", DataSet::MOST_WORDS)),
            ("files", list(files.collect())),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Prompts and policies that were refused, by reason.
    fn failures(&self) -> Option<Section> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut note = |who: String, problem: &String| {
            if !rows.iter().any(|row| row[0] == who && row[1] == *problem) {
                rows.push(vec![who, problem.clone()]);
            }
        };
        for (key, line) in &self.found {
            match line {
                PromptLine::Failed { error, .. } => note(key.to_string(), error),
                PromptLine::Measured(record) => {
                    for policy in &record.policies {
                        if let Some(problem) = &policy.refused {
                            note(format!("{} on {}", policy.name, key.set), problem);
                        }
                    }
                }
            }
        }
        if rows.is_empty() && self.missing() == 0 {
            return None;
        }
        Some(Section {
            title: "What could not be measured".to_owned(),
            text: vec![format!(
                "{} prompts failed and {} are missing; a method that did not answer all of a set \
                 takes no part in its numbers.",
                self.failed(),
                self.missing()
            )],
            tables: vec![Table {
                caption: "Refusals".to_owned(),
                header: vec!["who".to_owned(), "why".to_owned()],
                rows,
            }],
            ..Section::default()
        })
    }
}

fn summary(main: &Case<'_>, targets: &[Target]) -> Vec<String> {
    let count = |held: Option<bool>| targets.iter().filter(|t| t.held == held).count();
    let mean = |name: &str, metric| {
        main.method(name)
            .and_then(|method| main.mean(method, metric))
            .map_or_else(|| "–".to_owned(), |mean| format!("{:.3}", mean.at))
    };
    let of = |name: &str| {
        let (right, loss) = (mean(name, Metric::Accuracy), mean(name, Metric::LogLoss));
        format!("{name} {right} % and {loss}")
    };
    vec![
        format!(
            "With {} examples, mean over sets of accuracy and log-loss: {}; {}; {}.",
            main.size,
            of("ICL"),
            of("zero-shot"),
            of(variants::JUDGED)
        ),
        format!(
            "Of {} targets {} held, {} did not, and {} were not measured.",
            targets.len(),
            count(Some(true)),
            count(Some(false)),
            count(None)
        ),
    ]
}

fn how_judged(main: &Case<'_>) -> String {
    let prompts: Vec<String> = main
        .records
        .iter()
        .map(|(set, records)| format!("{} of {set}", records.len()))
        .collect();
    format!(
        "Prompts: {}. A target holds if the measured number meets it; whether its whole 95 % interval \
         does is said beside it. Intervals are of {RESAMPLES} draws of prompts, set by set, and all \
         comparisons are paired by prompt.",
        prompts.join(", ")
    )
}

fn target_table(targets: &[Target]) -> Table {
    let said = |held: Option<bool>| match held {
        Some(true) => "held",
        Some(false) => "not held",
        None => "not measured",
    };
    let surely = |surely: Option<bool>| match surely {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    };
    let row = |target: &Target| {
        vec![
            target.asked.clone(),
            target.measured.clone(),
            said(target.held).to_owned(),
            surely(target.surely).to_owned(),
        ]
    };
    Table {
        caption: "Targets of the default policy".to_owned(),
        header: ["target", "measured [95 %]", "verdict", "whole interval"]
            .map(str::to_owned)
            .to_vec(),
        rows: targets.iter().map(row).collect(),
    }
}

fn section(case: &Case<'_>) -> Section {
    let mut found = vec![tables::overall(case)];
    found.extend(Metric::ALL.map(|metric| tables::by_set(case, metric)));
    found.extend([tables::trust(case), tables::weights(case)]);
    Section {
        title: format!("{} examples", case.size),
        text: vec![
            "ICL to linear probe see the same label scores and labels; contextual calibration \
             divides by the mean over the inputs \"N/A\" and \"[MASK]\", batch calibration by the \
             mean over the prompt's queries, Platt scaling and the probe choose their penalty by \
             held-out log-loss. The oracle takes of each prompt what is best on its own queries: ICL, \
             zero-shot, or one arm at one number of steps."
                .to_owned(),
        ],
        tables: found,
        figures: vec![tables::gains(case), tables::reliability(case)],
        claims: vec![],
    }
}

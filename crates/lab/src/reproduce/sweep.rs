//! Which open choices matter: each is taken otherwise, one at a time, on the same tasks.
//!
//! The paper leaves some points open. A sweep measures every effect of the paper under every other
//! choice, and shows which of them change its sign.

use super::document::{Section, Table, Verdict};
use super::findings::{interval, texts, verdict};
use super::heads::{Chosen, Objective};
use super::horizons::improvement;
use super::methods::{HorizonMethod, Sample};
use super::record::{Method, Record};
use super::settings::{Choices, Experiment, Kernel, Part, Role, SWEEP_LONGEST};
use super::statistics::Paired;
use fewstep_engine::Model;

/// Tasks of a sweep unless said otherwise.
pub(crate) const SWEEP_TASKS: usize = 200;

/// Every open choice taken otherwise, as parts of a run on the first tasks of a seed.
///
/// What a model cannot do (a token that it does not have, layers that are not there) is left out.
pub(crate) fn parts(
    experiment: Experiment,
    main: &Part,
    tasks: usize,
    model: &Model,
) -> Vec<Part> {
    let part = |(axis, value, choices): (&str, &str, Choices)| Part {
        name: format!("{experiment}-sweep-{axis}-{}", slug(value)),
        experiment,
        family: None,
        role: Role::Sweep { axis: axis.replace('-', " "), value: value.to_owned() },
        tasks: tasks.min(main.tasks),
        seed: main.seed,
        choices,
    };
    // Steps with every choice of blocks, for every choice here, would take hours.
    let linear_only = main.choices.linear_only || experiment == Experiment::Heads;
    let given = Choices { linear_only, ..main.choices.clone() };
    let others = others(experiment, &given).into_iter().map(part);
    others.filter(|part| possible(part, model)).collect()
}

/// One choice taken otherwise: its name, what it is, and all choices.
fn others(
    experiment: Experiment,
    given: &Choices,
) -> Vec<(&'static str, &'static str, Choices)> {
    let with = |change: &dyn Fn(&mut Choices)| {
        let mut choices = given.clone();
        change(&mut choices);
        choices
    };
    let mut all = vec![("as-given", "as given", given.clone())];
    for (value, separator) in [("space", " "), ("comma", ", "), ("blank line", "\n\n")] {
        all.push(("separator", value, with(&|c| c.separator = separator.to_owned())));
    }
    all.push(("token-before-prompts", "always", with(&|c| c.bos = Some(true))));
    all.push(("token-before-prompts", "never", with(&|c| c.bos = Some(false))));
    for (value, scale) in [("0.05", 0.05), ("0.1", 0.1), ("0.2", 0.2), ("0.5", 0.5)] {
        all.push(("step-scale", value, with(&|c| c.step_scale = Some(scale))));
    }
    if experiment == Experiment::DigitShift {
        all.push(("horizons", "0 to 60", with(&|c| c.longest = SWEEP_LONGEST)));
    }
    all.push(("leave-one-out-order", "tree", with(&|c| c.tree_order = true)));
    for (value, blocks) in
        [("last 2", "value@last2"), ("last 1", "value@last1"), ("all", "value@all")]
    {
        all.push(("candidate-layers", value, with(&|c| c.blocks = blocks.to_owned())));
    }
    let kernel = with(&|c| c.kernel = Kernel::SinglePosition);
    all.push(("kernel", "single position", kernel));
    all
}

/// Whether a model can do what is chosen, seen on the first task.
fn possible(part: &Part, model: &Model) -> bool {
    let Ok(blocks) = fewstep_engine::choose_blocks(&part.choices.blocks, model.config()) else {
        return false;
    };
    let task = super::digit_shift::draw(part.seed, 0, &part.choices.separator).task;
    !blocks.is_empty() && part.choices.prepare(model).read(&task).is_ok()
}

fn slug(text: &str) -> String {
    text.replace(' ', "-")
}

/// An effect of the paper under one choice.
type Effect = (&'static str, Option<Paired>);

/// The effects of Exp. 1 in some records.
fn horizon_effects(records: &[Record]) -> Vec<Effect> {
    let sample = Sample::preferred(records);
    let of = |baseline, method| improvement(&sample, baseline, method);
    let fitted = sample
        .errors(HorizonMethod::Eight)
        .map(|eight| Paired::improvement(&eight, &sample.fitted_evidence_errors(), 3));
    vec![
        ("T = 8 over ICL", of(HorizonMethod::Icl, HorizonMethod::Eight)),
        ("fixed-σ evidence over T = 8", of(HorizonMethod::Eight, HorizonMethod::EvidenceFixed)),
        ("MLE-σ evidence over T = 8", of(HorizonMethod::Eight, HorizonMethod::Evidence)),
        ("evidence with fitted σ over T = 8", fitted),
        ("leave-one-out over T = 8", of(HorizonMethod::Eight, HorizonMethod::LeaveOneOut)),
        ("Gibbs average over T = 8", of(HorizonMethod::Eight, HorizonMethod::Gibbs)),
    ]
}

/// The effects of Exp. 2 in some records, averaged over budgets.
fn heads_effects(records: &[Record]) -> Vec<Effect> {
    let sample = Chosen::preferred(records);
    let of = |objective, pair| sample.overall(objective, pair);
    use Method::{QueryAware, QueryScore, Random, TraceBottom, TraceTop};
    vec![
        ("Query-Aware over Random", of(Objective::Query, QueryAware.over(Random))),
        ("query score over Random", of(Objective::Query, QueryScore.over(Random))),
        ("Trace-TopK over Random", of(Objective::Query, TraceTop.over(Random))),
        ("Trace-BottomK over Random", of(Objective::Query, TraceBottom.over(Random))),
        ("Query-Aware over Trace-TopK", of(Objective::Query, QueryAware.over(TraceTop))),
        ("Trace-TopK over Random, prompt fit", of(Objective::Fit, TraceTop.over(Random))),
    ]
}

/// The part of a report about open choices: every part with its role and records.
pub(crate) fn section(experiment: Experiment, swept: &[(&Part, Vec<Record>)]) -> Section {
    let rows: Vec<(String, Vec<Effect>)> = swept
        .iter()
        .map(|(part, records)| {
            let effects = match experiment {
                Experiment::Heads => heads_effects(records),
                _ => horizon_effects(records),
            };
            (name(part), effects)
        })
        .collect();
    let mut header = texts(["choice"]);
    if let Some((_, effects)) = rows.first() {
        header.extend(effects.iter().map(|(effect, _)| (*effect).to_owned()));
    }
    let cells = |(name, effects): &(String, Vec<Effect>)| {
        let cell = |(_, found): &Effect| found.as_ref().map_or("–".to_owned(), interval);
        std::iter::once(name.clone()).chain(effects.iter().map(cell)).collect()
    };
    let tasks = swept.first().map_or(0, |(_, records)| records.len());
    let table = Table {
        caption: format!("Improvement [95 %] under every choice, on the same {tasks} tasks"),
        header,
        rows: rows.iter().map(cells).collect(),
    };
    let mut text = changes(&rows);
    if swept.iter().all(|(part, _)| part.choices.linear_only) {
        text.push("All rows are by linear dynamics: no step is taken in the model.".to_owned());
    }
    Section {
        title: format!("Open choices ({experiment})"),
        text,
        tables: vec![table],
        figures: vec![],
        claims: vec![],
    }
}

fn name(part: &Part) -> String {
    match &part.role {
        Role::Main | Role::Development | Role::Test => "as given".to_owned(),
        Role::Sweep { axis, value } if axis == value => value.clone(),
        Role::Sweep { axis, value } => format!("{axis}: {value}"),
    }
}

/// Which choices change the sign of which effect.
fn changes(rows: &[(String, Vec<Effect>)]) -> Vec<String> {
    let mut text = vec![
        "Every row takes one choice that the paper leaves open otherwise than the first row; the \
         plug-in for σ and the Query-Aware rule are columns. A sign is clear if the whole \
         interval has it and p is under 0.05."
            .to_owned(),
    ];
    let Some((_, given)) = rows.first() else { return text };
    let mut quiet = true;
    for (index, (effect, base)) in given.iter().enumerate() {
        let Some(base) = base else { continue };
        let mut lists: [Vec<&str>; 3] = Default::default();
        for (name, effects) in &rows[1..] {
            let Some(found) = &effects[index].1 else { continue };
            match (verdict(base), verdict(found)) {
                (a, b) if a == b => {}
                (Verdict::Undecided, _) => lists[1].push(name),
                (_, Verdict::Undecided) => lists[2].push(name),
                _ => lists[0].push(name),
            }
        }
        for (list, what) in lists.iter().zip([
            "has the opposite sign, clearly, with",
            "is unclear as given and clear with",
            "is clear as given and unclear with",
        ]) {
            if !list.is_empty() {
                quiet = false;
                text.push(format!("“{effect}” {what}: {}.", list.join("; ")));
            }
        }
    }
    if quiet {
        text.push(
            "No choice changes the sign of an effect, or whether it is clear.".to_owned(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::methods::tests::record;
    use super::*;

    fn main_part() -> Part {
        Part {
            name: "digit-shift".to_owned(),
            experiment: Experiment::DigitShift,
            family: None,
            role: Role::Main,
            tasks: 30,
            seed: 0,
            choices: Choices::default(),
        }
    }

    #[test]
    fn every_choice_is_taken_once_and_what_cannot_be_is_left_out() {
        let model = fewstep::builtin().unwrap();
        let parts = parts(Experiment::DigitShift, &main_part(), 100, &model);
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let mut different = names.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), names.len());
        for axis in ["separator", "step-scale", "horizons", "leave-one-out", "layers", "kernel"]
        {
            assert!(names.iter().any(|name| name.contains(axis)), "{axis} in {names:?}");
        }
        // The built-in model has no token for the beginning.
        assert!(!names.contains(&"digit-shift-sweep-token-before-prompts-always"));
        assert!(names.contains(&"digit-shift-sweep-token-before-prompts-never"));
        assert!(parts.iter().all(|part| part.tasks == 30));
        // All but the first differ from it in one field.
        let json = |part: &Part| serde_json::to_value(&part.choices).unwrap();
        for part in &parts[1..] {
            let (given, other) = (json(&parts[0]), json(part));
            let changed = given.as_object().unwrap().iter();
            let changed = changed.filter(|(key, value)| other[key.as_str()] != **value).count();
            // The scale as given is the pilot's, and no token is put before prompts here.
            assert!(changed <= 1, "{}", part.name);
        }
    }

    #[test]
    fn a_change_of_sign_is_named() {
        let (main, mut other) = (main_part(), main_part());
        other.role = Role::Sweep { axis: "kernel".to_owned(), value: "single".to_owned() };
        let records = |slope: f64| -> Vec<Record> {
            (0..30)
                .map(|task| record(task, 1.0, slope * (1.0 + 0.1 * (task % 3) as f64), 8))
                .collect()
        };
        let swept = [(&main, records(-0.01)), (&other, records(0.01))];
        let section = section(Experiment::DigitShift, &swept);
        let expected = "“T = 8 over ICL” has the opposite sign, clearly, with: kernel: single.";
        assert!(section.text.iter().any(|text| text == expected), "{:?}", section.text);
        assert_eq!(section.tables[0].rows.len(), 2);
        let same = [(&main, records(-0.01)), (&other, records(-0.01))];
        let section = super::section(Experiment::DigitShift, &same);
        assert!(section.text.last().unwrap().starts_with("No choice changes"));
    }
}

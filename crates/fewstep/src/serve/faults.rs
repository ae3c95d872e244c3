//! Which field of a request an error is about.
//!
//! In: an error of the tool, the engine or the core, and the task it is about, if it is about one.
//! Out: a [`Problem`]. Errors that count examples and labels lead to that very entry.

use super::problems::{Problem, ProblemKind};
use crate::error::Error;
use fewstep_engine::{Error as Refused, Place, Task};

/// The problem of a request with one task that could not be answered.
pub(super) fn of_task(error: &Error, task: &Task) -> Problem {
    let kind = match error {
        Error::Mistake { .. } => ProblemKind::Mistake,
        Error::Engine(Refused::TooMuchMemory { .. }) => ProblemKind::TooLarge,
        _ => ProblemKind::Wrong,
    };
    let problem = Problem::new(kind, message(error));
    let field = match error {
        Error::Engine(refused) => field(refused, task),
        // An override has the name of its flag.
        Error::RegressionOnly { field } => {
            Some(field.flag().trim_start_matches("--").to_owned())
        }
        Error::StepsForClasses => error.field().map(|field| field.name().to_owned()),
        _ => None,
    };
    field.map(|field| problem.clone().at(field)).unwrap_or(problem)
}

/// What is wrong with a task, in words.
pub(super) fn message(error: &Error) -> String {
    match error {
        // The limit may be the service's.
        Error::Engine(Refused::ContextTooLong { place, length, limit, .. }) => format!(
            "the prompt of {place} has {length} tokens; at most {limit} are taken: use fewer or \
             shorter examples, or set a limit of tokens per example"
        ),
        _ => error.to_string(),
    }
}

/// The field that the engine refused.
fn field(error: &Refused, task: &Task) -> Option<String> {
    let text_of = |label: &String| {
        // Of two that are the same, the second is one too many.
        let place = task.labels.iter().rposition(|own| own.text == *label);
        place.map(|place| format!("task.labels[{place}]"))
    };
    Some(match error {
        Refused::Placeholder { .. }
        | Refused::PlaceholderOrder { .. }
        | Refused::EmptyPrompt { .. } => "task.template".to_owned(),
        Refused::TooFewExamples { .. }
        | Refused::ContextTooLong { .. }
        | Refused::TooManyTokens { .. }
        | Refused::TextTooLong { .. }
        | Refused::TooMuchMemory { .. }
        | Refused::SequenceTooLong { .. }
        | Refused::BeyondWindow { .. } => "task.examples".to_owned(),
        Refused::TooFewLabels { .. }
        | Refused::TooManyLabels { .. }
        | Refused::NotRegression { .. }
        | Refused::NotClassification { .. } => "task.labels".to_owned(),
        Refused::EmptyLabel { label, .. } => format!("task.labels[{label}].text"),
        Refused::LabelValue { label, .. } | Refused::LabelWithoutValue { label, .. } => {
            text_of(label)? + ".value"
        }
        Refused::DuplicateLabel { label, .. }
        | Refused::LabelPieces { label, .. }
        | Refused::LabelsDisagree { label, .. }
        | Refused::LabelBegins { second: label, .. }
        | Refused::LabelsCollide { second: label, .. } => text_of(label)? + ".text",
        Refused::EmptyInput { place, .. } => at(*place) + ".x",
        Refused::UnknownLabel { place, .. } => at(*place) + ".y",
        Refused::UnknownText { .. } => "task".to_owned(),
        Refused::NoBos => "bos".to_owned(),
        Refused::BadClassBlocks { .. } | Refused::DuplicateClassBlock { .. } => {
            "policy.classes.arms".to_owned()
        }
        Refused::NoTokensPerExample => "max_tokens_per_example".to_owned(),
        _ => return None,
    })
}

fn at(place: Place) -> String {
    match place {
        Place::Example(index) => format!("task.examples[{index}]"),
        Place::Query => "task.query".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fewstep_engine::{Example, Label, Query};

    fn task() -> Task {
        let label = |text: &str, value| Label { text: text.to_owned(), value: Some(value) };
        let example = |x: &str, y: &str| Example { x: x.to_owned(), y: y.to_owned() };
        Task {
            id: "t".to_owned(),
            template: "{x}->{y}".to_owned(),
            separator: "\n".to_owned(),
            labels: vec![label("0", 0.0), label("1", 1.0)],
            examples: vec![example("3", "1"), example("5", "0")],
            query: Query { x: "4".to_owned(), y: None },
            further: None,
        }
    }

    /// The field that a change to the task is refused for.
    fn refused(change: impl FnOnce(&mut Task)) -> String {
        let mut task = task();
        change(&mut task);
        let error = task.check().unwrap_err();
        let problem = of_task(&error.into(), &task);
        assert_eq!(problem.kind, ProblemKind::Wrong);
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        json["field"].as_str().unwrap().to_owned()
    }

    #[test]
    fn every_word_of_a_task_that_is_refused_is_named() {
        assert_eq!(refused(|task| task.template.push_str("{y}")), "task.template");
        assert_eq!(refused(|task| task.template = "{y}{x}".to_owned()), "task.template");
        assert_eq!(refused(|task| task.labels.truncate(1)), "task.labels");
        assert_eq!(refused(|task| task.labels[1].text.clear()), "task.labels[1].text");
        assert_eq!(refused(|task| task.labels[1].text = "0".to_owned()), "task.labels[1].text");
        assert_eq!(refused(|task| task.labels[0].value = Some(1e13)), "task.labels[0].value");
        assert_eq!(refused(|task| task.examples.truncate(1)), "task.examples");
        assert_eq!(refused(|task| task.examples[1].x = " ".to_owned()), "task.examples[1].x");
        assert_eq!(refused(|task| task.examples[0].y = "2".to_owned()), "task.examples[0].y");
        assert_eq!(refused(|task| task.query.x.clear()), "task.query.x");
        assert_eq!(refused(|task| task.query.y = Some("2".to_owned())), "task.query.y");
    }
}

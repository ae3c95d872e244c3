//! What the fuzz targets share: a predictor that takes tasks apart to the end.

use fewstep::{Action, Policy, Predictor};
use fewstep_core::{HorizonName, HorizonRule, Selection, SelectionName};
use fewstep_engine::{Model, Task};

/// Bytes that observing a task may hold; the machine has to have room for the fuzzer as well.
pub const MEMORY_LIMIT: u64 = 1 << 26;

/// A few numbers of steps: what happens in one step happens in all.
const HORIZONS: [u32; 4] = [0, 1, 2, 5];

/// Answers a task and reads the answer again; a refusal must say something.
///
/// The bytes of the task's id decide which rules are followed, so that all of them are within
/// the fuzzer's reach.
pub fn answer(model: &Model, task: &Task) {
    let predictor = match Predictor::new(model.clone(), policy(&task.id), Action::Act) {
        Ok(predictor) => predictor.with_matrices(true),
        Err(refused) => return assert_refusal(&refused),
    };
    match predictor.answer(task) {
        Ok(answer) => {
            let json = answer.report.to_json(true);
            let read: serde_json::Value =
                serde_json::from_str(&json).expect("a report is JSON");
            assert_eq!(read["id"], task.id.as_str());
            assert!(answer.report.prediction.icl.is_finite());
            assert!(answer.report.prediction.adapted.is_some_and(f64::is_finite));
        }
        Err(refused) => assert_refusal(&refused),
    }
}

fn policy(id: &str) -> Policy {
    let choice: usize = id.bytes().map(usize::from).sum();
    let horizons: Vec<HorizonName> =
        HorizonName::ALL.into_iter().chain([HorizonName::Fixed(3)]).collect();
    let selection = SelectionName::ALL[choice % SelectionName::ALL.len()];
    Policy {
        horizon: HorizonRule::of_name(horizons[choice % horizons.len()]),
        horizons: HORIZONS.to_vec(),
        selection: Selection::of_name(selection, Some(1)).expect("there is a budget"),
        ..if choice % 2 == 0 { Policy::default() } else { Policy::paper() }
    }
}

/// A refusal is a sentence.
pub fn assert_refusal(refused: &dyn std::error::Error) {
    assert!(refused.to_string().contains(' '), "{refused:?}");
}

//! What the fuzz targets share: a session that takes tasks apart to the end.

use fewstep::{Action, Session};
use fewstep_core::{HorizonRule, Rules, Selection};
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
    let session = match Session::new(model.clone(), Action::Act) {
        Ok(session) => session.with_matrices(true),
        Err(refused) => return assert_refusal(&refused),
    };
    let rules = rules(&task.id, session.blocks().len());
    let session = session.with_rules(rules).expect("the rules fit the blocks");
    match session.answer(task) {
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

fn rules(id: &str, blocks: usize) -> Rules {
    let choice: usize = id.bytes().map(usize::from).sum();
    let horizon = [
        HorizonRule::Evidence,
        HorizonRule::EvidenceFixed,
        HorizonRule::Gibbs,
        HorizonRule::BayesGap,
        HorizonRule::LeaveOneOut,
        HorizonRule::BayesFilter,
        HorizonRule::Fixed(3),
    ];
    let selection = [
        Selection::All,
        Selection::QueryAware,
        Selection::QueryScore,
        Selection::TraceTop,
        Selection::Random,
    ];
    let selection = selection[choice % selection.len()];
    Rules {
        horizon: horizon[choice % horizon.len()],
        horizons: HORIZONS.to_vec(),
        selection,
        budget: (selection != Selection::All).then_some(blocks.div_ceil(2)),
        ..Rules::default()
    }
}

/// A refusal is a sentence.
pub fn assert_refusal(refused: &dyn std::error::Error) {
    assert!(refused.to_string().contains(' '), "{refused:?}");
}

//! Classification: what the default policy and its variants gain over in-context learning, and over
//! what else people do with the same labelled examples.
//!
//! In: a folder of data sets and [`ClassSettings`]. [`measure`] observes every prompt once, with the
//! blocks that any judged policy updates, and writes one record per prompt that holds scores and
//! probabilities and no sentence; [`ClassFindings`] makes the report of records alone.

mod draw;
mod findings;
mod logistic;
mod metrics;
mod observed;
mod peers;
mod platt;
mod record;
mod report;
mod resample;
mod rows;
mod run;
mod sets;
mod settings;
mod store;
mod tables;
mod targets;
mod variants;

pub use draw::{DrawnPrompt, PromptKey, Size};
pub use findings::ClassFindings;
pub use record::{ArmRecord, CandidateRecord, PolicyRecord, PromptLine, PromptRecord, Scores};
pub use rows::{Half, LabelledRows};
pub use run::{ClassMeans, measure, write_tasks};
pub use sets::DataSet;
pub use settings::ClassSettings;
pub use store::ClassStore;
pub use variants::{JUDGED, union, variants};

//! The paper's experiments, with statistics, figures and a report that says what held.
//!
//! In: a model and a [`Request`]. [`run::measure`] writes one record per task into a [`Store`];
//! the report is made of the records alone ([`Findings`]), so that it can be made again, and of
//! the records of several runs. The protocol is that of Sec. 9, App. I and App. J.
//!
//! ```
//! use fewstep_lab::reproduce::{Choices, digit_shift, measure::Bench};
//!
//! // One task, observed and stepped once: every rule and horizon is a look at its path.
//! let choices = Choices { longest: 2, ..Choices::default() };
//! let bench = Bench::new(&fewstep::builtin()?, &choices, 0.1)?;
//! let path = bench.path(&digit_shift::draw(0, 0, "\n").task)?;
//! assert_eq!((path.steps.len(), path.linear.len()), (3, 3));
//! # Ok::<(), fewstep_lab::Error>(())
//! ```

pub mod classes;
pub mod digit_shift;
pub mod document;
mod families;
pub(crate) mod findings;
mod heads;
mod horizons;
mod html;
mod markdown;
pub mod measure;
mod methods;
mod pilot;
mod plan;
pub mod plot;
mod policies;
mod record;
mod report;
mod rules;
pub mod run;
mod settings;
pub mod sst2;
pub mod statistics;
mod store;
pub(crate) mod sweep;
pub mod theory;

pub use families::Family;
pub use pilot::{DEFAULT_SCALE, PILOT_TASKS, Pilot, SCALES, Trial};
pub(crate) use plan::shape;
pub use plan::{Request, Traces};
pub use policies::{FurtherOutcome, PolicyOutcome};
pub use record::{
    Both, Choice, Failure, Further, Horizons, Line, Method, Record, SeenBlock, TaskPath, Trace,
};
pub use report::Findings;
pub use settings::{
    BUDGETS, Choices, DataSource, Experiment, FIXED_HORIZON, Kernel, MOST_QUERIES,
    PAPER_LONGEST, Part, RULES_LONGEST, Role, SWEEP_LONGEST, Settings, Shard,
};
pub use store::{Lined, Store, Writer, gather};

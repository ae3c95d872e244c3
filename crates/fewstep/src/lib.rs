//! When, how far and in which directions to adapt a model to a few-shot prompt: tasks in, reports
//! out.
//!
//! The arithmetic of the decision is in `fewstep-core`, the Transformer in `fewstep-engine`; this
//! crate reads [`tasks`], lets a [`Predictor`] answer them, many at a time and in order
//! ([`stream`]), and says what came out: as JSON ([`report`]), as [`text`], as charts in the
//! terminal ([`chart`]) and as drawings ([`figure`]). The program `fewstep` is [`cli`].
//!
//! ```
//! use fewstep::{Action, Policy, Predictor};
//!
//! let task = fewstep::tasks::parse(
//!     br#"{"id": "t1", "template": "{x}->{y}",
//!          "labels": [{"text": "0", "value": 0.0}, {"text": "1", "value": 1.0}],
//!          "examples": [{"x": "3", "y": "1"}, {"x": "5", "y": "1"}], "query": {"x": "4"}}"#,
//! )?;
//! let predictor = Predictor::new(fewstep::builtin()?, Policy::default(), Action::Act)?;
//! let report = predictor.answer(&task)?.report;
//! assert_eq!(report.which.selected.last(), report.which.blocks.last().map(|last| &last.name));
//! assert!(report.prediction.adapted.is_some());
//! # Ok::<(), fewstep::Error>(())
//! ```

pub mod adapter;
mod builtin;
pub mod chart;
pub mod cli;
mod error;
pub mod figure;
pub mod metrics;
mod numbers;
mod observed;
mod options;
pub mod out;
mod predictor;
pub mod report;
pub mod serve;
pub mod stream;
pub mod tasks;
pub mod text;

pub use builtin::{BUILTIN, builtin, load};
pub use error::{Error, refused};
pub use fewstep_core::{Dynamics, Horizons, Overrides, Policy};
pub use numbers::number;
pub use observed::Observed;
pub use options::Options;
pub use predictor::{Action, Answered, DecidedClasses, Predicted, Predictor};
pub use report::{AnyReport, ClassReport, Report};

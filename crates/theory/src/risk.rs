//! What no fixed number of steps can avoid, and what an error is made of.
//!
//! Answers "when" (Secs. 2 and 6, App. E.4 and F.2) where [`fewstep_core::risk`] stops. In: a
//! [`Benchmark`], shrinkages, or predictions on simulated tasks. Out: gaps and bounds that hold for
//! every number of steps, and the [`Decomposition`] of an error. Nothing here looks at a filter.

mod decomposition;
mod necessity;
mod shrinkage;

pub use decomposition::{Decomposition, decompose};
pub use necessity::{floor, projector_gap, separation_bound};
pub use shrinkage::{optimal_shrinkages, shrinkage_excess, shrinkage_risk};

use fewstep_core::risk::{Benchmark, excess_of_mode, risk_of_mode};

//! When, how far and in which directions to adapt a model to a prompt: the decision, without
//! the model.

mod decide;
pub mod design;
pub mod drift;
mod error;
pub mod evidence;
mod filter;
pub mod flow;
mod geometry;
pub mod gibbs;
pub mod leave_one_out;
mod linalg;
pub mod matfree;
mod matrix;
pub mod pac_bayes;
pub mod random;
pub mod risk;
mod rng;
pub mod signal;
mod spectrum;
pub mod subspace;

pub use error::Error;
pub use evidence::{Evidence, HorizonChoice, Noise, best_horizon, evidence_curve};
pub use filter::{
    BayesFilter, ExponentialTime, Filter, GradientDescent, GradientFlow, JamesStein, Mixture,
    NoUpdate, Projection,
};
pub use geometry::{Block, Factors, Geometry, QueryCoupling};
pub use matrix::{IntoMatrix, Matrix};
pub use rng::Rng;
pub use spectrum::{Spectrum, StepSize};

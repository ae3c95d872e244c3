//! When, how far and in which directions to adapt a model to a few-shot prompt: the decision,
//! without the model.
//!
//! This crate does not load models, read files, draw figures or take gradient steps in real
//! weights. It works in *prompt space*, on a few numbers per example that any framework can
//! provide, and gives every number it returns a meaning that can be checked. It implements
//! *A Decision-Theoretic View of Test-Time Training*; citations such as Thm. 5.2 point there, and
//! `PAPER.md` lists each statement with the test that checks it.
//!
//! The primary type is [`Geometry`]: for each example the *residual* that the model leaves when
//! the example is held out, and for each *block* of weights that may be updated a *kernel* (how
//! the block couples the examples) and a *coupling* to the query. [`decide()`] turns it into a
//! [`Decision`].
//!
//! # Three questions
//!
//! ```
//! use fewstep_core::{Block, Error, Geometry, Policy, decide};
//!
//! // Two examples, two blocks. The gradient of each prediction with respect to a block's weights
//! // is a row of features; the model is 0.9 too low on the first example, 0.1 on the second.
//! let first = Block::from_features("value.5.0", &[vec![2.0], vec![0.0]], Some(&[1.0]))?;
//! let second = Block::from_features("value.5.1", &[vec![0.0], vec![1.0]], Some(&[0.1]))?;
//! let geometry = Geometry::new(vec![0.9, 0.1], vec![first, second])?;
//!
//! let decision = decide(&geometry, &Policy::paper())?;
//!
//! // When? The residual sits in the faster of the two modes, so evidence asks for steps.
//! assert!(decision.when.adapt);
//! // How far? As far as the list of candidates goes; a longer one might ask for more.
//! assert_eq!((decision.how_far.horizon, decision.how_far.at_edge), (30, true));
//! // Which directions? All blocks, as the rule says; the first one matters most at the query.
//! assert_eq!(decision.which.selected, [0, 1]);
//! assert!(decision.which.blocks[0].query > decision.which.blocks[1].query);
//! # Ok::<(), Error>(())
//! ```
//!
//! # One call per question
//!
//! *When?* [`Evidence::gate`] answers from the prompt alone, [`risk::query_benefit`] at the query
//! once signal and noise are known ([`signal::SignalFit`]).
//!
//! *How far?* [`evidence_curve`] scores every number of steps, [`gibbs::GibbsPosterior`] averages
//! over them, and [`leave_one_out::LeaveOneOut`] asks the examples themselves. Each estimator is a
//! [`Filter`] over the modes of a [`Spectrum`].
//!
//! *Which directions?* [`subspace`] scores blocks in prompt space.
//!
//! # Classes
//!
//! A task whose answers are labels is a [`ClassGeometry`]: label scores of each example behind one or
//! two base prompts, and blocks with a kernel over all scores. [`decide_classes()`] averages arms (a
//! bias per label, a linear probe, matrices of the model) and numbers of steps by leave-one-out
//! log-loss, and its [`ClassDecision`] answers queries with probabilities and a set of labels.
//!
//! What the paper proves beyond this is in `fewstep-theory`.

mod answers;
pub mod checks;
mod classes;
mod decide;
mod decision;
mod error;
pub mod evidence;
mod field;
mod filter;
mod geometry;
pub mod gibbs;
pub mod leave_one_out;
mod linalg;
mod matrix;
mod policy;
pub mod risk;
mod rng;
pub mod scalar;
pub mod signal;
mod spectrum;
pub mod subspace;
mod vectors;

pub use answers::{Answers, Interval};
pub use classes::{
    ArmBlocks, ArmDecision, ArmPath, ClassBase, ClassBlock, ClassCoupling, ClassDecision,
    ClassGeometry, ClassKernel, ClassPrediction, ClassQuery, ClassWhen, LeftOut, QueryBase,
    ZeroShotAlone, decide_classes,
};
pub use decide::decide;
pub use decision::{
    BlockScore, Decision, EvidenceReasons, HowFar, LeaveOneOutErrors, Plan, QueryOutlook,
    Reason, When, Which,
};
pub use error::Error;
pub use evidence::{Evidence, HorizonChoice, Noise, best_horizon, evidence_curve};
pub use field::Field;
pub use filter::{BayesFilter, Filter, GradientDescent, Mixture, NoUpdate};
pub use geometry::{Block, Factors, Geometry, QueryCoupling};
pub use matrix::{IntoMatrix, Matrix};
pub use policy::{
    Adjoint, Base, ClassArm, ClassDepth, ClassLoss, ClassPolicy, ClassRule, Dynamics, Folds,
    HorizonName, HorizonRule, Horizons, LONGEST_HORIZON, MOST_HORIZONS, MOST_ORDERS, Overrides,
    Policy, Residuals, ResidualsName, Selection, SelectionName, Shots,
};
pub use rng::Rng;
pub use spectrum::{Spectrum, StepSize};

/// Products and decompositions of vectors and matrices, for crates that build on this one.
///
/// Sizes are the caller's to check, by [`checks`]; inside the functions they are taken as given.
pub mod linear_algebra {
    pub use crate::linalg::{eigen, gram, product, product_transposed, singular};
    pub use crate::spectrum::symmetric;
    pub use crate::vectors::{add_scaled, dot, mean_square, squared_norm};
}

/// The example in the project's README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

//! Large prompts: solves, spectra, evidence and scores from products with the kernel alone.
//!
//! Answers "what if `n` is too large for an `n × n` matrix" (App. H; Sec. 7 and 8 at scale). In:
//! a [`LinearOperator`], which is anything that can multiply a vector. Out: solutions with their
//! true residual ([`conjugate_gradients`]), eigenpairs with an error bound ([`lanczos_top`]), a
//! safe step size ([`largest_eigenvalue`]), and evidence and block scores with a standard error
//! ([`estimate_evidence`], [`block_scores`]). Memory grows with `n`, never with `n²`. When the
//! kernel fits in memory, [`Spectrum`](fewstep_core::Spectrum) is exact and faster; nothing here
//! chooses between the two.

mod conjugate_gradients;
mod descent;
mod estimate;
mod evidence;
mod lanczos;
mod operator;

pub use conjugate_gradients::{Solution, Stopping, conjugate_gradients};
pub use descent::query_correction;
pub use estimate::{block_scores, hutchinson_trace, query_scores};
pub use evidence::{EvidenceEstimate, EvidenceSettings, estimate_evidence};
pub use lanczos::{Eigenpair, LargestEigenvalue, lanczos_top, largest_eigenvalue};
pub use operator::{BlockSum, DenseKernel, FactorKernel, LinearOperator, Shifted};

//! What can be wrong with the numbers a caller hands in, and what a solver could not deliver.
//!
//! Every variant carries the value that was found and the value that is allowed, so that a
//! program can read them and a person can act on the message.

use crate::field::Field;

/// Everything that can go wrong in this crate.
///
/// # Examples
///
/// ```
/// use fewstep_core::{Error, Spectrum, StepSize};
///
/// let spectrum = Spectrum::of(&[vec![4.0]])?;
/// let refused = StepSize::new(0.25, &spectrum);
/// assert_eq!(refused, Err(Error::StepTooLarge { step: 0.25, limit: 0.25 }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that must hold at least one entry holds none.
    #[error("{quantity} is empty; give at least one entry")]
    Empty {
        /// What is empty.
        quantity: &'static str,
    },
    /// Two sizes that must agree do not.
    #[error("{quantity} has size {found}, but {expected} is needed to match the rest")]
    SizeMismatch {
        /// What has the wrong size.
        quantity: &'static str,
        /// Its size.
        found: usize,
        /// The size that the other inputs ask for.
        expected: usize,
    },
    /// An entry is NaN or infinite.
    #[error(
        "{quantity} has the entry {value} at position {index}; every entry must be a finite number"
    )]
    NotFinite {
        /// What holds the entry.
        quantity: &'static str,
        /// Where it stands, counted from 0 (row by row in a matrix).
        index: usize,
        /// The entry.
        value: f64,
    },
    /// A kernel differs from its transpose by more than rounding.
    #[error(
        "kernel is not symmetric: entry ({row}, {column}) is {upper:e} but ({column}, {row}) is \
         {lower:e}; build it as ΦΦᵀ or average it with its transpose"
    )]
    NotSymmetric {
        /// Row of the worst pair.
        row: usize,
        /// Column of the worst pair.
        column: usize,
        /// The entry at `(row, column)`.
        upper: f64,
        /// The entry at `(column, row)`.
        lower: f64,
    },
    /// A kernel has a negative eigenvalue that rounding cannot explain.
    #[error(
        "kernel is not positive semidefinite: smallest eigenvalue {smallest:e} against largest \
         {largest:e}; check that it was built as ΦΦᵀ"
    )]
    NotPositiveSemidefinite {
        /// The smallest eigenvalue.
        smallest: f64,
        /// The largest eigenvalue.
        largest: f64,
    },
    /// A coupling to the query is larger than the kernel and the query variance admit.
    #[error(
        "coupling {coupling:e} of example {example} to the query is too large: its square must \
         not exceed kernel diagonal times query variance, {limit:e}; take all three from the \
         same features"
    )]
    CouplingTooLarge {
        /// The prompt example.
        example: usize,
        /// Its coupling.
        coupling: f64,
        /// The largest square that is possible.
        limit: f64,
    },
    /// A step size outside the range in which the implicit prior exists.
    #[error(
        "step size {step:e} is outside the allowed range: it must be greater than 0 and less than {limit:e}, one over the largest eigenvalue of the kernel"
    )]
    StepTooLarge {
        /// The step size.
        step: f64,
        /// The smallest step size that is too large.
        limit: f64,
    },
    /// A number outside its allowed range.
    #[error("{quantity} is {found}; it must be {allowed}")]
    OutOfRange {
        /// What is out of range.
        quantity: &'static str,
        /// Its value.
        found: f64,
        /// The allowed range in words.
        allowed: &'static str,
    },
    /// A budget of blocks that cannot be met.
    #[error("budget is {budget} blocks; it must be at least 1 and at most {blocks}")]
    BudgetOutOfRange {
        /// The budget.
        budget: usize,
        /// How many candidate blocks there are.
        blocks: usize,
    },
    /// A block that does not exist or is named twice.
    #[error(
        "block {index} cannot be chosen: there are {blocks} blocks and each may be named once"
    )]
    BadBlock {
        /// The block's position.
        index: usize,
        /// How many candidate blocks there are.
        blocks: usize,
    },
    /// Two blocks share a name.
    #[error("two blocks are named {name:?}; give every block a name of its own")]
    DuplicateBlock {
        /// The name.
        name: String,
    },
    /// Something that depends on the query was asked of a geometry without one.
    #[error(
        "{quantity} needs a query, but no coupling to a query was given; add one or choose a rule \
         that looks at the prompt alone"
    )]
    NoQuery {
        /// What needs the query.
        quantity: &'static str,
    },
    /// A field of a policy has an invalid value.
    #[error("{field} is {found}; it must be {allowed}")]
    Policy {
        /// The field; every interface has its own spelling for it.
        field: Field,
        /// What was found.
        found: String,
        /// What is allowed, in words.
        allowed: String,
    },
    /// Text that is not a policy in JSON.
    #[error("line {line}, column {column} of the policy: {problem}")]
    PolicyJson {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// An unknown name.
    #[error("unknown {quantity} {found:?}: expected {allowed}")]
    UnknownName {
        /// What it was to name, such as `horizon rule`.
        quantity: &'static str,
        /// The name that was given.
        found: String,
        /// The names there are.
        allowed: &'static str,
    },
    /// An eigendecomposition failed its own check.
    #[error(
        "eigendecomposition is not accurate: its residual is {residual:e}, but only {allowed:e} is allowed; rescale the kernel"
    )]
    Decomposition {
        /// The residual, relative to the largest eigenvalue.
        residual: f64,
        /// The largest residual that is accepted.
        allowed: f64,
    },
    /// An iterative method stopped before it reached its tolerance.
    #[error(
        "{method} stopped after {iterations} iterations at a relative residual of {residual:e}; \
         {tolerance:e} was required: allow more iterations or a larger tolerance"
    )]
    NotConverged {
        /// The method.
        method: &'static str,
        /// Iterations done.
        iterations: usize,
        /// The relative residual of its last iterate.
        residual: f64,
        /// The relative residual that was asked for.
        tolerance: f64,
    },
}

impl Error {
    /// The field of a policy that is wrong, if that is what is wrong.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Policy;
    ///
    /// let refused = Policy { coverage: 2.0, ..Policy::default() }.check().unwrap_err();
    /// assert_eq!(refused.field().map(|field| field.flag()), Some("--coverage"));
    /// ```
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::Policy { field, .. } => Some(*field),
            _ => None,
        }
    }

    /// The message with flags of the command line in place of the names of fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Policy;
    ///
    /// let refused = Policy { coverage: 2.0, ..Policy::default() }.check().unwrap_err();
    /// assert_eq!(refused.with_flags(), "--coverage is 2; it must be over 0 and under 1");
    /// ```
    #[must_use]
    pub fn with_flags(&self) -> String {
        match self {
            Self::Policy { field, found, allowed } => {
                format!("{} is {found}; it must be {allowed}", field.flag())
            }
            other => other.to_string(),
        }
    }
}

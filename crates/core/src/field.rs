//! The names of what a caller can set, so that an error can say which setting is wrong.

use std::fmt;

/// A field of a policy: its name in JSON and Python, and what the command line calls it.
///
/// # Examples
///
/// ```
/// use fewstep_core::Field;
///
/// assert_eq!(Field::STEP_SCALE.to_string(), "step_scale");
/// assert_eq!(Field::STEP_SCALE.flag(), "--step-scale");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(&'static str);

/// The fields, each under the name that JSON gives it.
#[allow(missing_docs, reason = "each is the field of that name")]
impl Field {
    pub const POLICY: Self = Self("policy");
    pub const BLOCKS: Self = Self("blocks");
    pub const SELECTION: Self = Self("selection");
    pub const BUDGET: Self = Self("budget");
    pub const HORIZON: Self = Self("horizon");
    pub const HORIZONS: Self = Self("horizons");
    pub const STEPS: Self = Self("steps");
    pub const INVERSE_TEMPERATURE: Self = Self("inverse_temperature");
    pub const GATE: Self = Self("gate");
    pub const SHARPNESS: Self = Self("sharpness");
    pub const LEAVE_ALONE_ODDS: Self = Self("leave_alone_odds");
    pub const STEP_SCALE: Self = Self("step_scale");
    pub const DYNAMICS: Self = Self("dynamics");
    pub const COVERAGE: Self = Self("coverage");
    pub const LORA_RANK: Self = Self("lora_rank");
    pub const LORA_FIRST: Self = Self("lora_first");
}

impl Field {
    /// Its name in JSON, in HTTP and in Python.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Field::BUDGET.name(), "budget");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The flag of the command line.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Field::LORA_RANK.flag(), "--lora-rank");
    /// ```
    #[must_use]
    pub fn flag(self) -> String {
        format!("--{}", self.0.replace('_', "-"))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

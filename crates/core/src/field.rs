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
pub struct Field {
    name: &'static str,
    /// `None` for what only a policy in JSON can set.
    flag: Option<&'static str>,
}

/// The fields, each under the name that JSON gives it.
#[allow(missing_docs, reason = "each is the field of that name")]
impl Field {
    pub const POLICY: Self = Self::set_by("policy", "--policy");
    pub const BLOCKS: Self = Self::set_by("blocks", "--blocks");
    pub const SELECTION: Self = Self::set_by("selection", "--select");
    pub const BUDGET: Self = Self::set_by("budget", "--budget");
    pub const HORIZON: Self = Self::set_by("horizon", "--horizon");
    pub const HORIZONS: Self = Self::set_by("horizons", "--horizons");
    pub const STEPS: Self = Self::set_by("steps", "--horizon");
    pub const INVERSE_TEMPERATURE: Self = Self::in_json("inverse_temperature");
    pub const GATE: Self = Self::in_json("gate");
    pub const SHARPNESS: Self = Self::in_json("sharpness");
    pub const LEAVE_ALONE_ODDS: Self = Self::in_json("leave_alone_odds");
    pub const STEP_SCALE: Self = Self::set_by("step_scale", "--step-scale");
    pub const DYNAMICS: Self = Self::set_by("dynamics", "--dynamics");
    pub const COVERAGE: Self = Self::set_by("coverage", "--coverage");
    pub const ADJOINT: Self = Self::set_by("adjoint", "--adjoint");
    pub const RESIDUALS: Self = Self::set_by("residuals", "--residuals");
    pub const ORDERS: Self = Self::set_by("orders", "--orders");
    pub const SHOTS: Self = Self::set_by("shots", "--shots");
    pub const CLASSES: Self = Self::in_json("classes");
    pub const RULE: Self = Self::in_json("rule");
    pub const ARMS: Self = Self::in_json("arms");
    pub const LEAVE_ALONE: Self = Self::in_json("leave_alone");
    pub const STEP_SCALES: Self = Self::in_json("step_scales");
    pub const SMOOTHING: Self = Self::in_json("smoothing");
    pub const FOLDS: Self = Self::in_json("folds");
    pub const CONFIDENCE: Self = Self::set_by("confidence", "--confidence");
    pub const LORA_RANK: Self = Self::set_by("lora_rank", "--lora-rank");
    pub const LORA_FIRST: Self = Self::set_by("lora_first", "--lora-first");
}

impl Field {
    const fn set_by(name: &'static str, flag: &'static str) -> Self {
        Self { name, flag: Some(flag) }
    }

    const fn in_json(name: &'static str) -> Self {
        Self { name, flag: None }
    }

    /// Its name in JSON, in HTTP and in Python.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fewstep_core::Field::BUDGET.name(), "budget");
    /// ```
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The flag of the command line that sets it, or its name if only a policy in JSON can.
    ///
    /// # Examples
    ///
    /// ```
    /// use fewstep_core::Field;
    ///
    /// assert_eq!((Field::STEPS.flag(), Field::SHARPNESS.flag()), ("--horizon", "sharpness"));
    /// ```
    #[must_use]
    pub fn flag(self) -> &'static str {
        self.flag.unwrap_or(self.name)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
